"""Tapedeck as a framework's logger: what is recorded equals what the framework's own logger wrote. And examples/python run."""

import csv
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

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


class Examples(Folder):
    def run_example(self, name):
        result = subprocess.run([sys.executable, "-W", "ignore", os.path.join(EXAMPLES, name + ".py"), os.path.join(self.folder, "run")],
                                capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_session(self):
        out = self.run_example("session")
        self.assertIn("{'batch': 64, 'lr': 0.01} ['example'] docs", out)
        self.assertRegex(out, "2[0-9][0-9] of 256 are right")

    def test_lightning(self):
        self.assertIn("after step 24", self.run_example("lightning_logger"))

    def test_accelerate(self):
        self.assertIn("in 40 steps", self.run_example("accelerate_tracker"))

    def test_report_to(self):
        self.assertIn("4 losses, 3 records of layers.0.error", self.run_example("report_to"))


class Session(Folder):
    def init(self, **options):
        return tapedeck.init(project="p", dir=self.folder, **options)

    def test_steps_repeat_and_are_left_out(self):
        run = self.init()
        tapedeck.log({"a": 1.0}, step=2)
        tapedeck.log({"b": 2.0}, step=2)
        tapedeck.log({"a": 3.0}, step=7)
        tapedeck.log({"a": 4.0})  # a step of its own: the value before stays
        tapedeck.log({"a": 5.0}, commit=False)
        tapedeck.log({"b": 6.0})
        tapedeck.finish()
        read = tapedeck.Run(run.dir)
        self.assertEqual(series(read, "a"), {2: 1, 7: 3, 8: 4, 9: 5})
        self.assertEqual(series(read, "b"), {2: 2, 9: 6})
        self.assertEqual(read.state, "finished")

    def test_a_log_that_starts_at_step_0(self):
        run = self.init()
        for step in (0, 1, 5):
            tapedeck.log({"a": float(step)}, step=step)
        run.finish()
        read = tapedeck.Run(run.dir)
        self.assertEqual(series(read, "a"), {1: 0, 2: 1, 6: 5})
        self.assertEqual(read.notes["first_step"], "0")

    def test_what_is_logged_for_an_earlier_step_is_refused_aloud(self):
        run = self.init()
        tapedeck.log({"a": 1.0}, step=5)
        with self.assertWarnsRegex(tapedeck.RecordingWarning, "step 4 was logged after step 5"):
            tapedeck.log({"a": 2.0}, step=4)
        run.finish()
        self.assertEqual(series(tapedeck.Run(run.dir), "a"), {5: 1})
        with self.assertRaisesRegex(RuntimeError, "finished"):
            run.log({"a": 1})
        with self.assertRaisesRegex(RuntimeError, "tapedeck.init"):
            tapedeck.log({"a": 1})

    def test_values_are_those_at_the_time_of_the_call(self):
        run, total, array = self.init(), torch.zeros(()), np.zeros(4)
        for step in (1, 2, 3):
            total += 1
            array[:] = step
            tapedeck.log({"total": total, "one": array[:1], "array": array, "histogram": tapedeck.Histogram(array)}, step=step)
        run.finish()
        read = tapedeck.Run(run.dir)
        for name in ("total", "one"):
            self.assertEqual(series(read, name), {1: 1, 2: 2, 3: 3}, name)
        for name in ("array", "histogram"):
            self.assertEqual(read[name].stats["mean"].to_dict(), {1: 1, 2: 2, 3: 3}, name)

    def test_what_is_logged_is_in_the_step_of_training(self):
        for number in (lambda i: i, lambda i: i + 1, lambda i: None):
            for every in (1, 3):
                torch.manual_seed(0)
                model = torch.nn.Sequential(torch.nn.Linear(3, 2))
                optimizer = torch.optim.SGD(model.parameters(), 0.01)
                run = self.init()
                run.watch(model, optimizer, every=1, form="tensor", to="npy")
                losses, outputs = {}, {}
                for i in range(7):
                    output = model(torch.full((2, 3), float(i)))
                    loss = (output ** 2).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    outputs[i + 1] = output.detach().numpy()
                    if (i + 1) % every == 0:
                        losses[i + 1] = float(loss)
                        tapedeck.log({"loss": loss, "array": np.ones(3)}, step=number(i))
                        if number(i) is not None:
                            tapedeck.log({"again": i}, step=number(i))
                run.finish()
                read = tapedeck.Run(run.dir)
                self.assertEqual(read.steps, 7)
                self.assertEqual(series(read, "loss"), losses)
                self.assertEqual(read["array"].forms, ["stats", "histogram"])
                self.assertEqual(list(read["0.output"].steps), list(outputs))
                for step, output in outputs.items():
                    np.testing.assert_array_equal(read["0.output"].at(step), output)

    def test_every_of_watch_is_kept_to(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        with self.init() as run:
            run.watch(model, optimizer, every=4, form="stats")
            for _ in range(8):
                model(torch.ones(2, 3)).sum().backward()
                optimizer.step()
                run.log({"array": np.ones(3), "loss": 1.0})
        read = tapedeck.Run(run.dir)
        self.assertEqual(list(read["0.weight"].stats.index), [4, 8])
        self.assertEqual(list(read["array"].stats.index), list(range(1, 9)))

    def test_what_cannot_be_recorded_is_said(self):
        with self.init() as run:
            for value in (object(), 1j, ["a"], np.array(["a"]), 10**400, tapedeck.Image(np.full((2, 2), 7.0))):
                with self.assertWarnsRegex(tapedeck.RecordingWarning, "v is not recorded"):
                    run.log({"v": value, "w": 1.0})
        self.assertEqual(list(tapedeck.Run(run.dir)), ["w"])

    def test_media_are_read_back(self):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        values = np.arange(100, dtype="float32")
        with self.init(config={"lr": 0.1, "net": {"width": 3}}, notes="why", tags=["x", "y"], group="g") as run:
            run.config.batch = 32
            run.log({"h": values, "i": tapedeck.Image(np.full((4, 5, 3), 255, "uint8"), caption="white"), "t": "text", "l": [1.0, 2.0],
                     "s": tapedeck.Audio(np.zeros(80), sample_rate=8000), "tab": tapedeck.Table([[1, "a"]], columns=["n", "w"])}, step=3)
        read = tapedeck.Run(run.dir)
        self.assertEqual(read.config, {"lr": 0.1, "net": {"width": 3}, "batch": 32})
        self.assertEqual((read.tags, read.group, read.notes["notes"], read.notes["project"]), (["x", "y"], "g", "why", "p"))
        self.assertEqual(read["t"].at(3), "text")
        self.assertEqual(read["i.caption"].at(3), "white")
        self.assertAlmostEqual(float(read["h"].stats["mean"].iloc[0] if hasattr(read["h"].stats, "iloc") else read["h"].stats["mean"][0]), values.mean())
        with open(os.path.join(run.dir, "audio", "s", "step-000003.wav"), "rb") as file:
            self.assertEqual(file.read(4), b"RIFF")
        events = EventAccumulator(run.dir, size_guidance={"histograms": 0, "images": 0, "tensors": 0})
        events.Reload()
        tags = events.Tags()
        self.assertTrue({"h", "l"} <= set(tags["tensors"] + tags["histograms"]), tags)

    def test_an_exit_without_finish_loses_nothing(self):
        code = f"import tapedeck; r = tapedeck.init(project='p', dir={self.folder!r}); tapedeck.log({{'a': 1.0}}, step=4); print(r.dir)"
        folder = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout.strip()
        read = tapedeck.Run(folder)
        self.assertEqual((series(read, "a"), read.state), ({4: 1}, "finished"))

    def test_a_program_that_fails_leaves_a_run_that_failed(self):
        code = f"import tapedeck; r = tapedeck.init(project='p', dir={self.folder!r}); tapedeck.log({{'a': 1.0}}); print(r.dir); 1 / 0"
        folder = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60).stdout.strip()
        self.assertEqual((series(tapedeck.Run(folder), "a"), tapedeck.Run(folder).state), ({1: 1}, "failed"))

    def test_an_exception_ends_the_run_as_failed(self):
        with self.assertRaises(KeyError), self.init() as run:
            run.log({"a": 1.0})
            raise KeyError
        self.assertEqual(tapedeck.Run(run.dir).state, "failed")


class Lightning(Folder):
    def test_values_are_those_of_the_csv_logger(self):
        self.compare()

    def test_with_the_callback_in_the_same_run(self):
        run = self.compare(recorder=True)
        self.assertEqual(list(run["a.output"].stats.index), list(range(1, 16)))
        self.assertNotIn("recording_ended", run.notes)

    def compare(self, recorder=False):
        import logging

        import lightning.pytorch as lightning
        from lightning.pytorch.callbacks import LearningRateMonitor
        from lightning.pytorch.loggers import CSVLogger

        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        class Two(lightning.LightningModule):
            """Two optimizers."""

            def __init__(self, rate=0.05, width=4):
                super().__init__()
                self.save_hyperparameters()
                self.automatic_optimization = False
                self.a, self.b = torch.nn.Linear(3, width), torch.nn.Linear(width, 1)

            def training_step(self, batch, index):
                loss = (self.b(self.a(batch)) ** 2).mean()
                for optimizer in self.optimizers():
                    optimizer.zero_grad()
                self.manual_backward(loss)
                for optimizer in self.optimizers():
                    optimizer.step()
                self.log("train/loss", loss, on_step=True, on_epoch=True)

            def validation_step(self, batch, index):
                self.log("val_loss", self.b(self.a(batch)).mean())

            def configure_optimizers(self):
                return [torch.optim.SGD(self.a.parameters(), self.hparams.rate), torch.optim.Adam(self.b.parameters())]

        torch.manual_seed(0)
        data = torch.utils.data.DataLoader(torch.randn(20, 3), batch_size=4)
        own = tapedeck.lightning.Logger(os.path.join(self.folder, "run"))
        theirs = CSVLogger(self.folder, name="csv")
        callbacks = [LearningRateMonitor("step")]
        if recorder:
            callbacks.append(tapedeck.lightning.Recorder(deck=own.experiment.deck, every=1, form="stats"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", logger=[theirs, own], log_every_n_steps=1, enable_progress_bar=False,
                                        enable_model_summary=False, enable_checkpointing=False, callbacks=callbacks)
            trainer.fit(Two(), data, data)
        own.experiment.finish()
        run = tapedeck.Run(own.log_dir)
        self.assertEqual(run.config, {"rate": 0.05, "width": 4})
        with open(os.path.join(theirs.log_dir, "metrics.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertGreater(len(rows), 15)
        expected = {}
        for row in rows:
            for name, text in row.items():
                if name != "step" and text:
                    expected.setdefault(name, {})[int(row["step"]) + 1] = float(text)
        self.assertIn("val_loss", expected)
        for name, values in expected.items():
            recorded = series(run, name)
            self.assertEqual(recorded.keys(), values.keys(), name)
            for step, value in values.items():
                self.assertAlmostEqual(recorded[step], value, places=6, msg=name)
        return run


class Accelerate(Folder):
    def test_values_are_those_that_another_tracker_gets(self):
        import accelerate
        from accelerate.tracking import GeneralTracker

        class Plain(GeneralTracker):
            name = "plain"
            requires_logging_directory = False
            rows, config = [], {}

            @property
            def tracker(self):
                return self.rows

            def store_init_configuration(self, values):
                self.config.update(values)

            def log(self, values, step=None, **_):
                self.rows.append((step, values))

        plain, own = Plain(), tapedeck.accelerate.Tracker(os.path.join(self.folder, "run"))
        accelerator = accelerate.Accelerator(cpu=True, log_with=[plain, own])
        accelerator.init_trackers("p", config={"lr": 0.1})
        for step in range(4):
            accelerator.log({"loss": 1 / (step + 1)}, step=step)
            accelerator.log({"accuracy": step / 4}, step=step)
        accelerator.end_training()
        run = tapedeck.Run(own.tracker.dir)
        self.assertEqual(run.config, plain.config)
        for name in ("loss", "accuracy"):
            self.assertEqual(series(run, name), {step + 1: row[name] for step, row in plain.rows if name in row})


class Transformers(Folder):
    def test_report_to_records_the_trainers_history(self):
        import transformers

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(3, 2)

            def forward(self, x, labels):
                logits = self.layer(x)
                return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

        tapedeck.transformers.register(os.path.join(self.folder, "run"), every=2)
        transformers.set_seed(0)
        data = [{"x": torch.randn(3), "labels": torch.tensor(i % 2)} for i in range(24)]
        args = transformers.TrainingArguments(os.path.join(self.folder, "out"), report_to="tapedeck", num_train_epochs=2,
                                              per_device_train_batch_size=4, logging_steps=3, save_strategy="no", disable_tqdm=True, use_cpu=True,
                                              hub_token="secret-of-mine")
        trainer = transformers.Trainer(Model(), args, train_dataset=data, eval_dataset=data)
        before = trainer.evaluate()
        trainer.train()
        after = trainer.evaluate()
        run = tapedeck.Run(os.path.join(self.folder, "run"))
        history = {row["step"]: row for row in trainer.state.log_history if "loss" in row}
        self.assertEqual(len(history), 4)
        recorded = series(run, "loss")
        for step, row in history.items():
            self.assertAlmostEqual(recorded[step], row["loss"], places=6)
            self.assertAlmostEqual(series(run, "grad_norm")[step], row["grad_norm"], places=5)
        self.assertIn("layer.error", run)
        self.assertEqual(run.steps, 13)
        self.assertEqual(series(run, "eval_loss"), {1: before["eval_loss"], 13: after["eval_loss"]})
        self.assertEqual((run.config["learning_rate"], run.config["num_train_epochs"]), (args.learning_rate, 2))
        self.assertNotIn("secret-of-mine", str(run.notes) + str(run.config))
        self.assertEqual(run.state, "finished")


if __name__ == "__main__":
    unittest.main()
