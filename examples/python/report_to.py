"""Hugging Face's Trainer with report_to="tapedeck"."""

import sys
import tempfile

import torch
import transformers

import tapedeck

tapedeck.transformers.register(sys.argv[1] if len(sys.argv) > 1 else "runs/transformers", every=5)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

    def forward(self, x, labels):
        logits = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


transformers.set_seed(0)
x = torch.randn(128, 8)
data = [{"x": row, "labels": (row[0] > 0).long()} for row in x]
with tempfile.TemporaryDirectory() as folder:
    args = transformers.TrainingArguments(folder, report_to="tapedeck", num_train_epochs=2, per_device_train_batch_size=16,
                                          logging_steps=4, save_strategy="no", disable_tqdm=True, use_cpu=True)
    trainer = transformers.Trainer(Classifier(), args, train_dataset=data)
    trainer.train()
recorder = next(callback for callback in trainer.callback_handler.callbacks if isinstance(callback, tapedeck.transformers.Recorder))
run = tapedeck.Run(recorder.deck.folder)
print(f"{len(run['loss'].values)} losses, {len(run['layers.0.error'].stats)} records of layers.0.error")
