"""Capsules: the last steps of a PyTorch or Keras training, executed again bit for bit."""

import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import tapedeck


class Divide(nn.Module):
    """Divides by zero when an input is large."""

    def forward(self, x):
        return x / (x.max() < 1e6).float()


def cnn():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), Divide(), nn.BatchNorm2d(4), nn.Dropout(0.3), nn.Flatten(),
                          nn.Linear(4 * 36, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def train(model, optimizer, deck, steps, bad=0, autocast=True, fail=0):
    generator = torch.Generator().manual_seed(5)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
    for step in range(1, steps + 1):
        x = torch.randn(8, 1, 8, 8, generator=generator)
        y = torch.randint(0, 3, (8,), generator=generator)
        if step == bad:
            x[3] = 1e9
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(x), y)
        if step == fail:
            raise RuntimeError("planted")
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        if deck:
            deck.log(loss=loss)
            deck.step()


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name="run"):
        return os.path.join(self.folder.name, name)

    def capsules(self):
        folder = os.path.join(self.path(), "capsules")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))] if os.path.isdir(folder) else []


class TorchCapsules(Case):
    def record(self, steps=12, **how):
        model, optimizer = cnn()
        deck = tapedeck.watch(model, self.path(), optimizer=optimizer, every=100, capsule=4)
        try:
            train(model, optimizer, deck, steps, **how)
        finally:
            deck.finish()
        return model

    def test_a_network_with_dropout_normalisation_and_bfloat16_is_executed_again(self):
        bad = random.Random(os.getpid()).randint(6, 14)
        self.record(16, bad=bad)
        (path,) = self.capsules()
        self.assertEqual(os.path.basename(path), str(bad))
        found = tapedeck.replay(path, *cnn(), F.cross_entropy)
        self.assertTrue(found.identical, str(found))
        self.assertEqual(found.trigger, "the loss is nan")
        self.assertEqual((found.origin.step, found.origin.layer, found.origin.what), (bad, "2", "output"))
        self.assertGreaterEqual(len(found.losses), 4)
        run = tapedeck.Run(found.folder)
        self.assertEqual(run["2.output"].steps.tolist(), [step for step, _, _ in found.losses])
        self.assertTrue(np.isnan(run["2.output"].at(bad)).any())
        self.assertIn("random_state", tapedeck.Run(self.path()))

    def test_a_training_is_the_same_with_capsules(self):
        watched = self.record()
        model, optimizer = cnn()
        train(model, optimizer, None, 12)
        for a, b in zip(watched.state_dict().values(), model.state_dict().values()):
            self.assertTrue(torch.equal(a, b))

    def test_the_state_after_the_steps_is_that_of_the_training(self):
        model, optimizer = cnn()
        deck = tapedeck.watch(model, self.path(), optimizer=optimizer, every=100, capsule=4)
        train(model, optimizer, deck, 10)
        path = deck.capsule()
        deck.finish()
        again, other = cnn()
        self.assertTrue(tapedeck.replay(path, again, other, F.cross_entropy).identical)
        for a, b in zip(again.state_dict().values(), model.state_dict().values()):
            self.assertTrue(torch.equal(a, b))

    def resume(self, steps, restored):
        """Trains, and goes on in another process as it were; `restored` is called after the seed."""
        saved = None
        for _ in range(2):
            model, optimizer = cnn()  # seeds, as programs do when they begin
            if saved is not None:
                restored(saved)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                deck = tapedeck.watch(model, self.path(), optimizer=optimizer, every=100, capsule=4, resume=True, exact_folder=True)
                train(model, optimizer, deck, steps)
                saved = torch.get_rng_state()
                deck.finish()
        done = subprocess.run([os.environ["TAPEDECK"], "diagnose", self.path(), "--only", "random_state_lost", "--json"],
                              stdout=subprocess.PIPE, text=True, check=False)
        return [(found["cause"], found["confidence"], found["since_step"]) for found in json.loads(done.stdout)["findings"]]

    def test_a_resumed_training_that_repeats_randomness_is_found(self):
        self.assertEqual(self.resume(10, lambda saved: None), [("random_state_lost", "sure", 11)])

    def test_a_resumed_training_that_skips_randomness_is_found(self):
        self.assertEqual(self.resume(10, lambda saved: torch.manual_seed(99)), [("random_state_lost", "likely", 11)])

    def test_a_resumed_training_that_goes_on_is_not_suspected(self):
        self.assertEqual(self.resume(10, torch.set_rng_state), [])

    def test_a_changed_network_is_noticed(self):
        self.record(8, bad=7)
        model, optimizer = cnn()
        model[4].p = 0.4
        found = tapedeck.replay(self.capsules()[0], model, optimizer, F.cross_entropy)
        self.assertEqual(found.difference, found.losses[0][0])

    def test_an_exception_writes_the_step_that_failed(self):
        model, optimizer = cnn()
        with self.assertRaisesRegex(RuntimeError, "planted"):
            with tapedeck.watch(model, self.path(), optimizer=optimizer, every=100, capsule=4) as deck:
                train(model, optimizer, deck, 9, fail=7)
        (path,) = self.capsules()
        self.assertEqual(os.path.basename(path), "7")
        found = tapedeck.replay(path, *cnn(), F.cross_entropy)
        self.assertTrue(found.identical)
        self.assertEqual(found.losses[-1][0], 6)

    def test_a_condition_and_a_spike_write_one(self):
        for how in ("condition", "spike"):
            model = nn.Linear(3, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
            deck = tapedeck.watch(model, self.path(how), optimizer=optimizer, every=100, capsule=3, log="")
            if how == "condition":
                deck.track("loss", when="loss > 1e3", to="csv", form="scalar")
            for step in range(1, 21):
                optimizer.zero_grad()
                loss = F.mse_loss(model(torch.ones(2, 3)), torch.full((2, 1), 1e3 if step == 15 else 1.0))
                loss.backward()
                optimizer.step()
                deck.log(loss=loss)
                deck.step()
            deck.finish()
            self.assertEqual(os.listdir(os.path.join(self.path(how), "capsules")), ["15"])

    def test_bad_capsules_are_refused_and_nothing_is_changed(self):
        self.record(8, bad=7)
        (path,) = self.capsules()
        state = os.path.join(path, "state.safetensors")
        about = os.path.join(path, "capsule.json")
        batch = os.path.join(path, next(name for name in sorted(os.listdir(path)) if ".arguments." in name))

        def newer():
            content = json.load(open(about))
            json.dump(content | {"tapedeck_capsule": 99}, open(about, "w"))

        def outside():
            text = open(about).read().replace(os.path.basename(batch), "../../x.npy")
            open(about, "w").write(text)

        def cut(file, size):
            return lambda: os.truncate(file, size)

        def pickled():
            np.save(batch, np.array([{"a": 1}], dtype=object), allow_pickle=True)

        for change, text in ((newer, "newer version"), (outside, "damaged"), (cut(about, 40), "cannot be read"),
                             (cut(state, 100), "damaged"), (cut(state, 4), "damaged"), (cut(batch, 70), "damaged"), (pickled, "damaged"),
                             (lambda: os.remove(batch), "damaged"), (lambda: os.remove(about), "no capsule")):
            with self.subTest(text=text):
                copy = self.path("copy")
                shutil.copytree(path, copy)
                change()
                model, optimizer = cnn()
                before = [value.clone() for value in model.state_dict().values()]
                with self.assertRaisesRegex(ValueError, text):
                    tapedeck.replay(path, model, optimizer, F.cross_entropy)
                self.assertTrue(all(map(torch.equal, before, model.state_dict().values())))
                self.assertFalse(os.path.exists(os.path.join(path, "replay")))
                shutil.rmtree(path)
                shutil.move(copy, path)
        other = nn.Linear(3, 3)
        with self.assertRaisesRegex(ValueError, "another model"):
            tapedeck.replay(path, other, torch.optim.SGD(other.parameters(), lr=0.1), F.cross_entropy)
        with self.assertRaisesRegex(ValueError, "1 optimizers, and 0"):
            tapedeck.replay(path, cnn()[0], None, F.cross_entropy)

    def test_files_are_those_of_safetensors_and_numpy(self):
        from safetensors.numpy import load_file

        self.record(12, bad=11)
        (path,) = self.capsules()
        state = load_file(os.path.join(path, "state.safetensors"))
        self.assertEqual(state["model.0.weight"].shape, (4, 1, 3, 3))
        self.assertIn("optimizer.0.state.0.exp_avg", state)
        self.assertEqual(np.load(os.path.join(path, "000011.0.arguments.0.npy")).shape, (8, 1, 8, 8))
        self.assertEqual(np.load(os.path.join(path, "000011.0.target.npy")).shape, (8,))

    def test_without_capsules_there_is_nothing_to_write(self):
        deck = tapedeck.watch(nn.Linear(2, 2), self.path())
        with self.assertRaisesRegex(ValueError, "capsule=8"):
            deck.capsule()
        deck.finish()


class HuggingFaceCapsules(Case):
    def test_a_trainer(self):
        from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

        def make(first):
            torch.manual_seed(0)
            model = BertForSequenceClassification(BertConfig(
                vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
                max_position_embeddings=16, num_labels=3))
            calls = [first]

            def plant(module, inputs, output):
                calls[0] += 1
                return output / 0 if calls[0] == 11 else output

            model.bert.encoder.layer[1].output.dense.register_forward_hook(plant)
            arguments = TrainingArguments(self.path("out"), per_device_train_batch_size=4, max_steps=14, report_to=[], use_cpu=True,
                                          disable_tqdm=True, save_strategy="no", logging_steps=100)
            return model, arguments

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 96

            def __getitem__(self, i):
                generator = torch.Generator().manual_seed(i)
                return dict(input_ids=torch.randint(0, 40, (8,), generator=generator), labels=i % 3)

        model, arguments = make(0)
        recorder = tapedeck.transformers.Recorder(self.path(), every=100, capsule=4)
        Trainer(model=model, args=arguments, train_dataset=Data(), callbacks=[recorder]).train()
        (path,) = self.capsules()
        first = json.load(open(os.path.join(path, "capsule.json")))["first_step"]
        again, arguments = make(first - 1)
        optimizer = Trainer(model=again, args=arguments, train_dataset=Data()).create_optimizer()
        found = tapedeck.replay(path, again, optimizer)
        self.assertTrue(found.identical, str(found))
        self.assertEqual((found.origin.step, found.origin.layer), (11, "bert.encoder.layer.1.output.dense"))


class KerasCapsules(Case):
    def test_a_network_with_dropout_and_normalisation_is_executed_again(self):
        import keras

        class DivideLayer(keras.layers.Layer):
            def call(self, x):
                return x / keras.ops.cast(keras.ops.max(x) < 100, "float32")

        def make():
            keras.utils.set_random_seed(1)
            model = keras.Sequential([
                keras.Input((8,)), keras.layers.Dense(16, activation="relu", name="hidden"), DivideLayer(name="divide"),
                keras.layers.BatchNormalization(), keras.layers.Dropout(0.4), keras.layers.Dense(3, name="logits")])
            model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                          metrics=["accuracy"])
            return model

        generator = np.random.default_rng(0)
        x, y = generator.normal(size=(160, 8)).astype("float32"), generator.integers(0, 3, 160)
        bad = int(os.environ.get("TD_STEP", random.Random(os.getpid()).randint(3, 19)))
        x[bad * 8 - 3] = 1e4
        watched, bare = make(), make()
        watched.fit(x, y, batch_size=8, shuffle=False, verbose=0, callbacks=[tapedeck.Recorder(self.path(), every=7, capsule=4)])
        bare.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        for a, b in zip(watched.get_weights(), bare.get_weights()):
            np.testing.assert_array_equal(a, b)
        (path,) = self.capsules()
        self.assertEqual(os.path.basename(path), str(bad))
        found = tapedeck.replay(path, make())
        self.assertTrue(found.identical, str(found))
        self.assertEqual((found.origin.step, found.origin.layer), (bad, "divide"))
        self.assertGreaterEqual(len(found.losses), min(bad, 4))
        with self.assertRaisesRegex(ValueError, "another model"):
            other = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
            other.compile("sgd", "mse")
            tapedeck.replay(path, other)


if __name__ == "__main__":
    unittest.main()
