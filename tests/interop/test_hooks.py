"""skorch, PyTorch-Ignite and TRL: what is recorded equals what they log themselves, and training is as without it."""

import os
import pickle
import subprocess
import sys
import tempfile
import unittest

os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
import numpy as np
import torch

import tapedeck

EXAMPLES = os.path.join(os.environ["TD_SOURCE"], "examples", "python")


def series(run, name):
    return {int(row["step"]): float(row["value"]) for row in run[name].values}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_example(self, name):
        result = subprocess.run([sys.executable, "-W", "ignore", os.path.join(EXAMPLES, name + ".py"), self.path("run")],
                                capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout


class Skorch(Folder):
    def net(self, *callbacks):
        import skorch

        torch.manual_seed(0)
        return skorch.NeuralNetClassifier(
            torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2)), criterion=torch.nn.CrossEntropyLoss,
            max_epochs=3, lr=0.1, batch_size=8, verbose=0, callbacks=list(callbacks))

    def test_example(self):
        self.assertIn("after step 21, 4 records of 0.error", self.run_example("skorch_recorder"))

    def test_values_are_those_of_the_history(self):
        x = np.random.default_rng(0).standard_normal((50, 4)).astype("float32")
        y = (x[:, 0] > 0).astype("int64")
        bare = self.net().fit(x, y)
        net = self.net(tapedeck.skorch.Recorder(self.path("run"), every=1, form="stats")).fit(x, y)
        for ours, theirs in zip(net.module_.parameters(), bare.module_.parameters()):
            self.assertTrue(torch.equal(ours, theirs))
        run = tapedeck.Run(self.path("run"))
        batches = [loss for epoch in net.history[:, "batches", :, "train_loss"] for loss in epoch]
        per_epoch = len(batches) // 3
        self.assertEqual((run.steps, run.state), (len(batches), "finished"))
        self.assertEqual([series(run, "loss")[i + 1] for i in range(len(batches))], batches)
        for name in ("train_loss", "valid_loss", "valid_acc", "dur"):
            self.assertEqual(series(run, name), dict(zip(range(per_epoch, len(batches) + 1, per_epoch), net.history[:, name])), name)
        self.assertEqual(list(run["0.weight.update"].stats.index), list(range(1, len(batches) + 1)))
        self.assertEqual(len(pickle.loads(pickle.dumps(net)).history), 3)

    def test_a_clone_has_the_options(self):
        from sklearn.base import clone

        copy = clone(tapedeck.skorch.Recorder(self.path("run"), every=7))
        self.assertEqual(copy.set_params(form="stats").get_params(), {"folder": self.path("run"), "every": 7, "form": "stats"})


class Ignite(Folder):
    def test_example(self):
        self.assertIn("after step 24, 6 records of 0.error", self.run_example("ignite_logger"))

    def test_values_are_those_of_ignites_tensorboard_logger(self):
        from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
        from ignite.handlers.tensorboard_logger import TensorboardLogger
        from ignite.metrics import Loss
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        torch.manual_seed(0)
        x = torch.randn(40, 3)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x[:, :1]), batch_size=8)
        model = torch.nn.Sequential(torch.nn.Linear(3, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        trainer = create_supervised_trainer(model, optimizer, torch.nn.functional.mse_loss)
        evaluator = create_supervised_evaluator(model, metrics={"mse": Loss(torch.nn.functional.mse_loss)})
        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(loader))
        theirs, own = TensorboardLogger(self.path("events")), tapedeck.ignite.Logger(trainer, self.path("run"))
        own.watch(model, optimizer, every=1, form="stats")
        with self.assertRaisesRegex(TypeError, "trainer's iterations"):
            own.attach_output_handler(trainer, Events.COMPLETED, tag="a", metric_names="all", global_step_transform=lambda *_: 1)
        for logger, options in ((own, {}), (theirs, {"global_step_transform": lambda *_: trainer.state.iteration})):
            logger.attach_output_handler(trainer, Events.ITERATION_COMPLETED, tag="train", output_transform=lambda loss: {"loss": loss})
            logger.attach_output_handler(evaluator, Events.COMPLETED, tag="validation", metric_names="all", **options)
            logger.attach_opt_params_handler(trainer, Events.ITERATION_STARTED, optimizer=optimizer)
        trainer.run(loader, max_epochs=3)
        own.close()
        theirs.close()
        events = EventAccumulator(self.path("events"))
        events.Reload()
        run = tapedeck.Run(self.path("run"))
        self.assertEqual(len(events.Tags()["scalars"]), 3)
        for tag in events.Tags()["scalars"]:
            recorded = series(run, tag)
            self.assertEqual({step: np.float32(value) for step, value in recorded.items()},
                             {event.step: np.float32(event.value) for event in events.Scalars(tag)}, tag)
        self.assertEqual(list(run["0.output"].stats.index), list(range(1, 16)))
        self.assertEqual((run.steps, run.state), (15, "finished"))


class Trl(Folder):
    def test_report_to_records_the_trainers_history(self):
        import datasets
        import transformers
        from tokenizers import Tokenizer, models, pre_tokenizers
        from trl import SFTConfig, SFTTrainer

        datasets.disable_progress_bars()
        torch.cuda.is_current_stream_capturing = lambda: False  # it needs the libraries that without_cuda.py does without
        tokens = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["<pad>", "<eos>", *"abcd"])}, unk_token="<pad>"))
        tokens.pre_tokenizer = pre_tokenizers.Whitespace()
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=6, n_positions=16, n_embd=8, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1))
        tapedeck.transformers.register(self.path("run"), every=2)
        args = SFTConfig(self.path("out"), report_to="tapedeck", max_steps=6, per_device_train_batch_size=2, logging_steps=2,
                         save_strategy="no", disable_tqdm=True, use_cpu=True, max_length=16)
        trainer = SFTTrainer(
            model, args=args, train_dataset=datasets.Dataset.from_dict({"text": ["a b c d", "b c d a"] * 6}),
            processing_class=transformers.PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", eos_token="<eos>"))
        trainer.train()
        run = tapedeck.Run(self.path("run"))
        history = {row["step"]: row for row in trainer.state.log_history if "loss" in row}
        self.assertEqual(list(history), [2, 4, 6])
        for name in history[2].keys() - {"step", "learning_rate"}:  # the rate is recorded in every step
            self.assertEqual(series(run, name), {step: row[name] for step, row in history.items()}, name)
        self.assertEqual({step: series(run, "learning_rate")[step] for step in history}, {s: row["learning_rate"] for s, row in history.items()})
        self.assertEqual(run.config["model"]["n_embd"], 8)
        self.assertEqual(list(run["transformer.h.0.ln_1.error"].stats.index), [2, 4, 6])


if __name__ == "__main__":
    unittest.main()
