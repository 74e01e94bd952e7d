"""Rows of test_loops.py's table for frameworks that have a loop of their own: Lightning, Hugging Face's Trainer, Accelerate.

The framework calls the observer at the places where its loop does something; the recorder is its callback."""

import io
import os
import sys
import tempfile
import unittest
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_loops import Nobody, Truth, batches, network, recorded, sgd, signals_of, weights  # noqa: E402

warnings.simplefilter("ignore")
BATCHES = 4
ROWS = {}


def row(function):
    ROWS[function.__name__] = function
    return function


class Callback(Nobody):
    """Tapedeck, by a framework's callback."""

    def __init__(self, folder, **options):
        self.folder, self.options = folder, {"every": 1, "form": "tensor", **options}
        self.recorder = self.deck = None

    def callback(self, kind):
        self.recorder = kind(self.folder, **self.options)
        return [self.recorder]

    def begin(self, model, optimizer=None, **options):
        if optimizer is not None:  # the loop is the user's
            self.deck = tapedeck.watch(model, self.folder, optimizer=optimizer, **self.options, **options)

    def step(self):
        if self.deck is not None:
            self.deck.step()

    def finish(self):
        if self.recorder is None:
            self.deck.finish()
        return tapedeck.Run((self.recorder or self).deck.folder)


def callbacks(observer, kind):
    return observer.callback(kind) if isinstance(observer, Callback) else []


def losses(observer, value=None):
    """Those that a loop gave, by micro-batch."""
    found = observer.__dict__.setdefault("losses", [])
    if value is not None:
        found.append(signals_of(value))
    return found


def data(count=BATCHES):
    return torch.utils.data.DataLoader(list(batches(count)), batch_size=None)


# ---- Lightning ------------------------------------------------------------------------------------------------


def lightning_trainer(observer, module, epochs=2, validation=True, checkpoint=None, save=None, **options):
    import logging

    import lightning.pytorch as lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    trainer = lightning.Trainer(
        max_epochs=epochs, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        accelerator="cpu", callbacks=callbacks(observer, tapedeck.lightning.Recorder), **options)
    trainer.fit(module, data(), data(1) if validation else None, ckpt_path=checkpoint)
    if save:
        trainer.save_checkpoint(save)
    return module


def lightning_module(observer, model):
    import lightning.pytorch as lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = model
            self.validations = 0

        def training_step(self, batch, index):
            loss = F.cross_entropy(self.net(batch[0]), batch[1])
            losses(observer, loss)
            self.log("train_loss", loss, on_step=True, on_epoch=True)
            return loss

        def validation_step(self, batch, index):
            self.validations += 1
            self.net(batch[0])
            self.log("val_loss", float(self.validations))

        def configure_optimizers(self):
            return sgd(self)

        def on_after_backward(self):
            observer.end_of_pass()

        def configure_gradient_clipping(self, *arguments, **options):
            super().configure_gradient_clipping(*arguments, **options)
            observer.before_update()

        def optimizer_step(self, *arguments, **options):
            super().optimizer_step(*arguments, **options)
            observer.after_update()
            observer.step()

    return Module()


@row
def lightning_automatic(observer):
    module = lightning_module(observer, network())
    observer.begin(module)
    return lightning_trainer(observer, module)


@row
def lightning_accumulation_and_clipping(observer):
    module = lightning_module(observer, network())
    observer.begin(module)
    return lightning_trainer(observer, module, accumulate_grad_batches=3, gradient_clip_val=0.1)


@row
def lightning_two_optimizers(observer):
    """Optimized by hand: each parameter's update is that of its own optimizer."""
    import lightning.pytorch as lightning

    class Module(lightning.LightningModule):
        automatic_optimization = False

        def __init__(self):
            super().__init__()
            self.a, self.b = network(1), network(2)

        def training_step(self, batch, index):
            loss = 0
            for net, optimizer in zip((self.a, self.b), self.optimizers()):
                optimizer.zero_grad()
                one = F.cross_entropy(net(batch[0]), batch[1])
                self.manual_backward(one)
                loss = loss + one.detach()
            losses(observer, loss)
            observer.before_update()
            for optimizer in self.optimizers():
                optimizer.step()
            observer.after_update()
            observer.step()
            return loss

        def configure_optimizers(self):
            return [sgd(self.a), torch.optim.Adam(self.b.parameters())]

    module = Module()
    observer.begin(module)
    return lightning_trainer(observer, module, validation=False)


# ---- Hugging Face ---------------------------------------------------------------------------------------------


def hugging_face(observer, accumulate=1, **options):
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = network()

        def forward(self, x=None, labels=None):
            logits = self.net(x)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    class Calls(TrainerCallback):
        def on_substep_end(self, *_, **__):
            observer.end_of_pass()

        def on_pre_optimizer_step(self, *_, **__):
            observer.end_of_pass()
            observer.before_update()

        def on_optimizer_step(self, *_, **__):
            observer.after_update()

        def on_step_end(self, *_, **__):
            observer.step()

    model = Model()
    observer.begin(model)
    x, y = map(torch.cat, zip(*batches(BATCHES)))
    rows = [{"x": a, "labels": b} for a, b in zip(x, y)]
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        arguments = TrainingArguments(
            folder, num_train_epochs=2, per_device_train_batch_size=5, gradient_accumulation_steps=accumulate, report_to=[],
            save_strategy="no", logging_steps=1, use_cpu=True, disable_tqdm=True, seed=1, max_grad_norm=0.1, **options)
        Trainer(model, arguments, train_dataset=rows, eval_dataset=rows[:5],
                callbacks=[Calls(), *callbacks(observer, tapedeck.transformers.Recorder)]).train()
    return model


@row
def hugging_face_trainer(observer):
    return hugging_face(observer)


@row
def hugging_face_accumulation(observer):
    return hugging_face(observer, accumulate=3)


# ---- Accelerate -----------------------------------------------------------------------------------------------


@row
def accelerate_accumulation(observer):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = network()
    model, optimizer, loader = accelerator.prepare(model, sgd(model), data())
    observer.begin(model, optimizer)
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(F.cross_entropy(model(x), y))
            observer.end_of_pass()
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.1)
                observer.before_update()
            optimizer.step()
            if accelerator.sync_gradients:
                observer.after_update()
                observer.step()
            optimizer.zero_grad()
    return model


# ---- The table ------------------------------------------------------------------------------------------------


def without_prediction(values):
    return {name: value for name, value in values.items() if not name.startswith("prediction")}


class Frameworks(unittest.TestCase):
    """A test for each row is added below."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name="run"):
        return os.path.join(self.folder.name, name)

    def run_of(self, loop, **options):
        observer = Callback(self.path(), **options)
        loop(observer)
        return observer, observer.finish()

    def check(self, loop):
        bare = weights(loop(Nobody()))
        truth = Truth()
        self.assertTrue(all(map(torch.equal, bare, weights(loop(truth)))), "the test's own hooks change the training")
        observer = Callback(self.path())
        watched = weights(loop(observer))
        run = observer.finish()
        self.assertTrue(all(map(torch.equal, bare, watched)), "training with a recorder gives other weights")
        found = recorded(self, run.folder)
        self.assertEqual(sorted(found), sorted(truth.values))
        for step, values in truth.values.items():
            self.assertEqual(set(without_prediction(found[step])), set(values), f"step {step}")
            for name, value in values.items():
                np.testing.assert_array_equal(found[step][name], value, err_msg=f"step {step}: {name}")

    def values(self, run, name):
        table = run[name].values
        return list(zip(table["epoch"].tolist(), table["step"].tolist(), table["value"].tolist()))

    def test_lightning_logs_when_a_value_is_new(self):
        observer, run = self.run_of(lightning_automatic, every=100)
        each = losses(observer)
        self.assertEqual(self.values(run, "loss"), [(1 + i // 4, 1 + i, float(v)) for i, v in enumerate(each)])
        self.assertEqual(self.values(run, "train_loss_step"), self.values(run, "loss"))
        # The sanity check before training is a validation too.
        self.assertEqual(self.values(run, "val_loss"), [(1, 4, 2.0), (2, 8, 3.0)])
        np.testing.assert_allclose([v for *_, v in self.values(run, "train_loss_epoch")],
                                   [np.mean(each[:4]), np.mean(each[4:])], rtol=1e-6)
        self.assertEqual([row[:2] for row in self.values(run, "train_loss_epoch")], [(1, 4), (2, 8)])

    def test_the_loss_of_accumulated_batches_is_their_mean(self):
        observer, run = self.run_of(lightning_accumulation_and_clipping, every=100)
        each = losses(observer)
        np.testing.assert_allclose([v for *_, v in self.values(run, "loss")],
                                   [np.mean(each[0:3]), each[3], np.mean(each[4:7]), each[7]], rtol=1e-6)
        self.assertEqual([row[:2] for row in self.values(run, "loss")], [(1, 1), (1, 2), (2, 3), (2, 4)])
        self.assertEqual(self.values(run, "val_loss"), [(1, 2, 2.0), (2, 4, 3.0)])

    def test_epochs(self):
        """An epoch's last step is its own, and a track that asks for it gets it."""
        for loop, steps in ((lightning_automatic, [4, 8]), (hugging_face_trainer, [4, 8]),
                            (hugging_face_accumulation, [2, 4])):
            with self.subTest(loop.__name__):
                _, run = self.run_of(loop, every="1 epoch")
                self.assertEqual(np.load(os.path.join(run.folder, "net.0.weight.steps.npy")).tolist(), steps)
                epochs = [row[:2] for row in self.values(run, "learning_rate")]
                self.assertEqual(epochs, [(1 + (step - 1) // steps[0], step) for step in range(1, steps[1] + 1)])

    def test_training_that_goes_on(self):
        """From a checkpoint: the trainer's numbers. In a deck that was given, which goes on: the deck's."""
        path = self.path("one.ckpt")
        lightning_trainer(Nobody(), lightning_module(Nobody(), network()), epochs=1, save=path)

        def go_on(observer):
            return lightning_trainer(observer, lightning_module(observer, network()), checkpoint=path)

        observer, run = self.run_of(go_on, every=2)
        self.assertEqual([row[:2] for row in self.values(run, "loss")], [(2, step) for step in range(5, 9)])
        self.assertEqual(np.load(os.path.join(run.folder, "net.0.weight.gradient.steps.npy")).tolist(), [6, 8])

        with tapedeck.Deck(self.path("given")) as deck:
            for _ in range(2):
                lightning_automatic(Callback(None, deck=deck))
        self.assertEqual([row[:2] for row in self.values(tapedeck.Run(deck.folder), "loss")],
                         [(1 + (step - 1) // 4, step) for step in range(1, 17)])

    def test_runs_that_are_resumed_go_on(self):
        """Steps and epochs, in the same folder: a training that begins again, and one that goes on from a checkpoint."""
        for loop in (lightning_automatic, hugging_face_trainer):
            with self.subTest(loop.__name__):
                folder = self.path(loop.__name__)
                for _ in range(2):
                    observer = Callback(folder, every=1, resume=True)
                    loop(observer)
                run = tapedeck.Run(folder)
                steps = np.load(os.path.join(folder, next(name for name in os.listdir(folder) if name.endswith(".steps.npy"))))
                half = len(steps) // 2
                self.assertEqual(steps.tolist(), list(range(1, 2 * half + 1)))
                rows = self.values(run, "loss")
                epochs = {step: epoch for epoch, step, *_ in rows}
                self.assertEqual(epochs[max(epochs)], 2 * epochs[max(step for step in epochs if step <= half)])
        path, folder = self.path("half.ckpt"), self.path("checkpoint")
        first = Callback(folder, every=1, resume=True)
        lightning_trainer(first, lightning_module(first, network()), epochs=1, save=path)
        second = Callback(folder, every=1, resume=True)
        lightning_trainer(second, lightning_module(second, network()), checkpoint=path)
        self.assertEqual([row[:2] for row in self.values(tapedeck.Run(folder), "loss")],
                         [(1 + (step - 1) // 4, step) for step in range(1, 9)])

    def test_a_training_that_failed_can_begin_again(self):
        """With the same callback and a deck that was given: the trainer of transformers reports no exception."""
        import tapedeck.transformers

        deck = tapedeck.Deck(self.path("given"))
        recorder = tapedeck.transformers.Recorder(deck=deck, every=1, form="stats")
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        state = type("State", (), {"epoch": 0.0, "global_step": 0})
        recorder.on_train_begin(None, state, None, model=model, optimizer=optimizer)
        recorder.on_train_begin(None, state, None, model=model, optimizer=optimizer)
        self.assertEqual(len(deck._parts), 2)
        deck.finish()

    def test_two_optimizers_are_one_step(self):
        observer, run = self.run_of(lightning_two_optimizers, every=100)
        self.assertEqual([row[1] for row in self.values(run, "loss")], list(range(1, 9)))

    def test_an_error_while_recording_does_not_end_the_training(self):
        class Failing(Callback):
            def callback(self, kind):
                result = super().callback(kind)
                self.recorder._close = lambda: 1 / 0
                return result

        for loop in (lightning_automatic, hugging_face_trainer):
            with self.subTest(loop.__name__), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                bare = weights(loop(Nobody()))
                self.assertTrue(all(map(torch.equal, bare, weights(loop(Failing(self.path()))))))
                self.assertEqual(sum("recording ended" in str(w.message) for w in caught), 1)


def add_test(name, loop):
    def test(self):
        self.check(loop)

    setattr(Frameworks, f"test_{name}", test)


for name, loop in ROWS.items():
    add_test(name, loop)

if __name__ == "__main__":
    unittest.main()
