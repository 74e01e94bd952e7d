"""verify_every: steps that are executed twice, in PyTorch and Keras, and what differs then."""

import os
import random
import tempfile
import unittest
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import tapedeck


class Unsteady(nn.Module):
    """Makes something else in each call from the `first` on."""

    def __init__(self, first=0):
        super().__init__()
        self.calls, self.first = 0, first

    def forward(self, x):
        self.calls += 1
        return x * (1 + 1e-3 * self.calls) if self.calls >= self.first else x


class Backward(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        Backward.calls += 1
        return gradient * Backward.calls


class UnsteadyBackward(nn.Module):
    def forward(self, x):
        return Backward.apply(x)


class UnsteadySGD(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        with torch.no_grad():
            self.param_groups[0]["params"][2].add_(random.Random(os.urandom(8)).random())


class Outside(nn.Module):
    """Not within a layer of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.first(x) + torch.from_numpy(np.random.default_rng().normal(size=6)).float())


def cnn(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), *more, nn.Flatten(),
                         nn.Linear(4 * 36, 8), nn.Dropout(0.5), nn.Linear(8, 3))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "run")

    def notes(self, deck):
        return tapedeck.Run(deck.folder).notes


class Torch(Case):
    def train(self, model, verify=3, steps=9, shape=(8, 1, 8, 8), optimizer=None, step=True, autocast=False, accumulate=1):
        optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
        deck = tapedeck.watch(model, self.path, optimizer=optimizer, every=2, verify_every=verify) if verify else None
        generator = torch.Generator().manual_seed(5)
        torch.manual_seed(3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(steps):
                optimizer.zero_grad()
                for _ in range(accumulate):
                    x = torch.randn(*shape, generator=generator)
                    y = torch.randint(0, 3, (shape[0],), generator=generator)
                    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                        loss = F.cross_entropy(model(x), y)
                    loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                if deck and step:
                    deck.log(loss=loss)
                    deck.step()
            if deck:
                deck.finish()
        self.warned = [str(each.message) for each in caught if "executed twice" in str(each.message)]
        return deck

    def differs(self, model, **how):
        deck = self.train(model, **how)
        self.assertEqual(len(self.warned), 1, self.warned)
        text = self.notes(deck)["verify.differs"]
        self.assertIn(text, self.warned[0])
        return text

    def test_a_network_with_dropout_and_normalisation_is_deterministic_and_trains_as_without(self):
        for how in ({}, {"autocast": True}, {"step": False}, {"accumulate": 2}):
            with self.subTest(**how):
                watched, plain = cnn(), cnn()
                deck = self.train(watched, **how)
                self.train(plain, verify=0, **how)
                for (name, a), b in zip(watched.state_dict().items(), plain.state_dict().values()):
                    self.assertTrue(torch.equal(a, b), name)
                self.assertEqual(self.warned, [])
                self.assertEqual(self.notes(deck)["verify.steps"], "3, 0 of them differ")
                self.assertNotIn("verify.differs", self.notes(deck))

    def test_what_is_recorded_is_the_same(self):
        runs = []
        for verify in (2, 1000):
            deck = self.train(cnn(), verify=verify)
            runs.append(tapedeck.Run(deck.folder))
        names = sorted(runs[0])
        self.assertEqual(names, sorted(runs[1]))
        self.assertIn("0.weight.update", names)
        for name in names:
            if "stats" in runs[0][name].forms:
                a, b = (run[name].stats.drop(columns="wall_time", errors="ignore") for run in runs)
                np.testing.assert_array_equal(a.to_numpy(), b.to_numpy(), name)
        facts = [{key: value for key, value in run.notes.items() if key.startswith("loop.")} for run in runs]
        self.assertEqual(facts[0], facts[1])

    def test_a_layer_that_is_not_deterministic(self):
        text = self.differs(cnn(Unsteady()))
        self.assertEqual(text, "step 3: executed twice, aten.mul.Tensor in layer 4 (Unsteady), forward, made something else")

    def test_a_fault_that_happens_once(self):
        # Only the third step's first execution has it: executing it again does not show which operation.
        class Fault(nn.Module):
            calls = 0

            def forward(self, x):
                self.calls += 1
                return x + 1e-3 if self.calls == 3 else x + 0

        text = self.differs(cnn(Fault()))
        self.assertEqual(text, "step 3: executed twice, an operation in layer 4 (Fault), forward, made something else")

    def test_what_is_made_outside_of_layers(self):
        text = self.differs(Outside(), shape=(8, 6))
        self.assertIn(" before layer last (Linear), forward, made something else", text)

    def test_a_backward_pass_that_is_not_deterministic(self):
        text = self.differs(cnn(UnsteadyBackward()))
        # Layers before it, in the order of the backward pass: the normalisation's parameters are the first.
        self.assertIn("layer 1 (BatchNorm2d), backward: the gradient of 1.", text)

    def test_an_update_that_is_not_deterministic(self):
        model = cnn()
        text = self.differs(model, optimizer=UnsteadySGD(model.parameters(), lr=0.1))
        self.assertIn("UnsteadySGD, the update of 1.weight made something else", text)

    def test_bad_input(self):
        with self.assertRaisesRegex(ValueError, "verify_every is a number of steps"):
            tapedeck.watch(nn.Linear(2, 2), self.path, verify_every=-1)


class Keras(Case):
    def train(self, *more, verify=3):
        import keras

        keras.utils.set_random_seed(1)
        model = keras.Sequential([
            keras.Input((8,)), keras.layers.Dense(16, activation="relu", name="hidden"), *more,
            keras.layers.BatchNormalization(), keras.layers.Dropout(0.4), keras.layers.Dense(3, name="logits")])
        model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        generator = np.random.default_rng(0)
        x, y = generator.normal(size=(80, 8)).astype("float32"), generator.integers(0, 3, 80)
        recorder = tapedeck.Recorder(self.path, every=2, verify_every=verify) if verify else None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[recorder] if recorder else [])
        self.warned = [str(each.message) for each in caught if "executed twice" in str(each.message)]
        return model, recorder

    def test_a_deterministic_network_trains_as_without(self):
        watched, recorder = self.train()
        plain, _ = self.train(verify=0)
        for a, b in zip(watched.get_weights(), plain.get_weights()):
            np.testing.assert_array_equal(a, b)
        self.assertEqual(self.warned, [])
        self.assertEqual(self.notes(recorder.deck)["verify.steps"], "6, 0 of them differ")

    def test_a_layer_that_is_not_deterministic(self):
        import keras
        import tensorflow as tf

        class Unsteady(keras.layers.Layer):
            def call(self, x):
                return x * (1 + tf.random.uniform(()))

        _, recorder = self.train(Unsteady(name="unsteady"))
        self.assertEqual(self.notes(recorder.deck)["verify.differs"],
                         "step 3: executed twice, layer unsteady (Unsteady), forward, made something else")
        self.assertEqual(len(self.warned), 1)


if __name__ == "__main__":
    unittest.main()
