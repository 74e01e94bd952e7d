#!/usr/bin/env python3
"""Where the first number that is not finite came from: cause, layer and row, in networks and data made so that it is easily mistaken."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy

ROWS = 200
MLP = [{"dense": {"name": "h1", "units": 16, "activation": "relu"}}, {"dropout": {"name": "drop", "rate": 0.3}},
       {"dense": {"name": "h2", "units": 8, "activation": "tanh"}}, {"dense": {"name": "out", "units": 1}}]
ADAM = {"loss": "mse", "optimizer": {"adam": {"learning_rate": 0.005}}, "epochs": 6}


def table(rows=ROWS, width=5, seed=5):
    x = numpy.random.default_rng(seed).normal(size=(rows, width)).astype(numpy.float32)
    return x, (x[:, :1] + x[:, 1:2] * x[:, 2:3])


def after(*layers):
    return [*layers, {"dense": {"name": "h1", "units": 8, "activation": "relu"}}, {"dense": {"name": "out", "units": 1}}]


class Trainings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def diagnosed(self, model, arrays, data=None, train=None, weights=None):
        """Findings of a run over arrays x and y (vx, vy), most important first."""
        document = {"name": "run", "seed": 1, "threads": 1, "data": dict({"train": "x.npy", "labels": "y.npy", "batch": 16}, **(data or {})),
                    "model": model, "train": dict(ADAM, **(train or {}))}
        for name, array in arrays.items():
            numpy.save(os.path.join(self.folder, name + ".npy"), array)
        if weights:
            numpy.savez(os.path.join(self.folder, "start.npz"), **weights)
            document["weights"] = "start.npz"
        path = os.path.join(self.folder, "e.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        program = os.environ["TAPEDECK"]
        shutil.rmtree(os.path.join(self.folder, "run"), ignore_errors=True)
        subprocess.run([program, "train", path, "--out", self.folder, "--quiet"], capture_output=True, check=False)
        said = subprocess.run([program, "diagnose", os.path.join(self.folder, "run"), "--json"], capture_output=True, text=True, check=False)
        return json.loads(said.stdout)["findings"]

    def check(self, findings, named, **origin):
        """The first finding is of that cause and has that origin."""
        self.assertTrue(findings, "nothing was found")
        self.assertEqual(findings[0]["cause"], named, [(f["cause"], f["origin"]) for f in findings])
        self.assertIsNotNone(findings[0]["origin"])
        self.assertEqual({key: findings[0]["origin"][key] for key in origin}, origin)


class Origins(Trainings):
    def test_one_number_of_the_inputs(self):
        for row, column in ((0, 0), (137, 4), (199, 2)):
            x, y = table()
            x[row, column] = numpy.nan
            self.check(self.diagnosed(MLP, {"x": x, "y": y}), "nonfinite_input", cause="input", row=row)

    def test_the_second_of_two_inputs(self):
        x, y = table(width=6)
        x[91, 5] = numpy.inf
        model = [{"input": {"name": "a", "shape": [4]}}, {"input": {"name": "b", "shape": [2]}}, {"dense": {"name": "ha", "units": 8, "from": "a"}},
                 {"dense": {"name": "hb", "units": 8, "from": "b"}}, {"concatenate": {"name": "both", "from": ["ha", "hb"]}}, {"dense": {"name": "out", "units": 1}}]
        self.check(self.diagnosed(model, {"x": x, "y": y}), "nonfinite_input", cause="input", row=91)

    def test_the_second_column_of_the_labels(self):
        x, y = table()
        y = numpy.hstack([y, y])
        y[31, 1] = numpy.nan
        self.check(self.diagnosed([*MLP[:-1], {"dense": {"name": "out", "units": 2}}], {"x": x, "y": y}), "nonfinite_label", cause="label", row=31)

    def test_validation_data_alone(self):
        x, y = table()
        vx, vy = table(60, seed=6)
        files = {"validation": "vx.npy", "validation_labels": "vy.npy"}
        vx[33, 1] = numpy.nan
        self.check(self.diagnosed(MLP, {"x": x, "y": y, "vx": vx, "vy": vy}, files), "nonfinite_input", cause="input", row=33)
        vx, vy = table(60, seed=6)
        vy[44] = numpy.nan
        self.check(self.diagnosed(MLP, {"x": x, "y": y, "vx": vx, "vy": vy}, files), "nonfinite_label", cause="label", row=44)

    def test_weights_that_training_starts_from(self):
        x, y = table()
        rng = numpy.random.default_rng(1)
        shapes = {"h1.kernel": (5, 16), "h1.bias": (16,), "h2.kernel": (16, 8), "h2.bias": (8,), "out.kernel": (8, 1), "out.bias": (1,)}
        for bad in ("h1.bias", "h2.kernel", "out.kernel"):
            weights = {name: 0.3 * rng.normal(size=shape).astype(numpy.float32) for name, shape in shapes.items()}
            weights[bad].flat[0] = numpy.nan
            self.check(self.diagnosed(MLP, {"x": x, "y": y}, weights=weights), "nonfinite_weights", cause="parameter", layer=bad.split(".")[0])

    def test_a_scale_that_makes_inputs_infinite(self):
        x, y = table()
        self.check(self.diagnosed(MLP, {"x": x * 1e15, "y": y}, {"scale": 1e30}), "nonfinite_input", cause="input")

    def test_a_normalisation_without_epsilon_of_one_row(self):
        x, y = table()
        x[40] = 0   # not in the first steps: outputs have not grown all the same
        for kind in ("layer_normalization", "rms_normalization"):
            found = self.diagnosed(after({kind: {"name": "norm", "epsilon": 0}}), {"x": x, "y": y}, {"shuffle": False})
            self.check(found, "division_by_zero", cause="layer", layer="norm", row=40)

    def test_a_normalisation_without_epsilon_of_a_constant_column(self):
        x, y = table()
        x[:, 2] = 3
        self.check(self.diagnosed(after({"batch_normalization": {"name": "norm", "epsilon": 0}}), {"x": x, "y": y}), "division_by_zero", cause="layer", layer="norm")

    def test_exp_of_one_large_row(self):
        x, y = table()
        x[120] *= 3000
        found = self.diagnosed([MLP[0], {"dense": {"name": "boom", "units": 8, "activation": "exponential"}}, MLP[-1]], {"x": x, "y": y}, {"shuffle": False})
        self.check(found, "overflow", cause="layer", layer="boom", row=120)

    def test_products_of_large_numbers(self):
        x, y = table()
        model = [{"dense": {"name": "a", "units": 8, "kernel_initializer": {"random_normal": {"stddev": 1e15}}}},
                 {"dense": {"name": "b", "units": 8, "kernel_initializer": {"random_normal": {"stddev": 1e25}}, "from": "input"}},
                 {"multiply": {"name": "product", "from": ["a", "b"]}}, {"dense": {"name": "out", "units": 1}}]
        self.check(self.diagnosed(model, {"x": x, "y": y}), "overflow", cause="layer", layer="product")

    def test_a_recurrence_that_explodes(self):
        rng = numpy.random.default_rng(2)
        x, y = rng.normal(size=(100, 60, 3)).astype(numpy.float32), rng.normal(size=(100, 1)).astype(numpy.float32)
        wide = {"simple_rnn": {"name": "rnn", "units": 16, "activation": "linear", "recurrent_initializer": {"random_normal": {"stddev": 3.0}}}}
        self.check(self.diagnosed([wide, {"dense": {"name": "out", "units": 1}}], {"x": x, "y": y}), "overflow", cause="layer", layer="rnn")
        updated = {"simple_rnn": {"name": "rnn", "units": 16, "activation": "relu"}}
        found = self.diagnosed([updated, {"dense": {"name": "out", "units": 1}}], {"x": x, "y": y}, train={"optimizer": {"sgd": {"learning_rate": 5.0}}})
        self.check(found, "learning_rate_too_high", cause="update")

    def test_the_logarithm_of_a_negative_output(self):
        x, y = table()
        self.check(self.diagnosed(MLP, {"x": x, "y": abs(y)}, train={"loss": "poisson"}), "wrong_output_activation", cause="loss", layer="out")

    def test_labels_whose_squares_overflow(self):
        x, y = table()
        self.check(self.diagnosed(MLP, {"x": x, "y": 1e25 * y}), "unscaled_targets", cause="loss")


class Rates(Trainings):
    """A learning rate is named as the cause however far it is beyond what is usual."""

    def test_rates_of_any_size(self):
        x, y = table(400)
        y = numpy.sin(y)
        for optimizer in ("sgd", "adam", "rmsprop"):
            for rate in (10, 1e3, 1e6, 1e12, 1e30):
                for clip in ({}, {"clip_norm": 1.0}):
                    with self.subTest(optimizer=optimizer, rate=rate, **clip):
                        train = {"optimizer": {optimizer: {"learning_rate": rate}}, "epochs": 12, **clip}
                        found = [f for f in self.diagnosed(MLP[:1] + MLP[2:], {"x": x, "y": y}, train=train) if f["confidence"] != "maybe"]
                        self.assertIn("learning_rate_too_high", [f["cause"] for f in found[:2]])


if __name__ == "__main__":
    unittest.main()
