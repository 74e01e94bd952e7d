"""What a Lightning module logs, as a run; and what happens inside it, in the same run."""

import logging
import sys

import lightning.pytorch as lightning
import torch

import tapedeck

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(lightning.LightningModule):
    def __init__(self, rate=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.rate)


lightning.seed_everything(0, verbose=False)
x = torch.randn(256, 8)
data = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
loader = torch.utils.data.DataLoader(data, batch_size=32)
logger = tapedeck.lightning.Logger(sys.argv[1] if len(sys.argv) > 1 else "runs/lightning", tags=["example"])
trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", logger=logger, log_every_n_steps=2, enable_progress_bar=False,
                            enable_model_summary=False, enable_checkpointing=False)
trainer.fit(Classifier(), loader, loader)
logger.experiment.finish()
run = tapedeck.Run(logger.log_dir)
print(run.config)
print(f"val_loss {run['val_loss'].values['value'][-1]:.3f} after step {run['val_loss'].values['step'][-1]}")
