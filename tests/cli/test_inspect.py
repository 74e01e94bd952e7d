"""tapedeck inspect: what a model is and has, and what is unusual about it."""
import json
import os
import unittest

import numpy

from program import Case, SMALL, SOURCE

TEXT = SMALL.replace("  - dense: {name: logits", "  - batch_normalization: {name: norm}\n"
                     "  - dense: {name: relu, units: 6, activation: relu}\n"
                     "  - dense: {name: after, units: 5, activation: relu}\n"
                     "  - dense: {name: logits")


class Inspect(Case):
    def setUp(self):
        super().setUp()
        self.train(TEXT, "--quiet")
        self.run_program("weights", "runs/small", "--to", "w.npz")
        self.arrays = {name: array.copy()
                       for name, array in numpy.load(self.path("w.npz")).items()}
        self.arrays["relu.bias"][:] = 0.1
        self.arrays["after.bias"][:] = 0.1

    def inspect(self, status=0):
        numpy.savez(self.path("changed.npz"), **self.arrays)
        self.run_program("weights", "runs/small", "--from", "changed.npz", "--to",
                         "changed.safetensors")
        page = self.run_program("inspect", "changed.safetensors", status=status).stdout
        about = json.loads(self.run_program("inspect", "changed.safetensors", "--json",
                                            status=status).stdout)
        findings = [(f["level"], f["where"], f["text"]) for f in about["findings"]]
        for level, where, text in findings:
            self.assertIn(f"{level:<7}  {where}: {text}", page)
        return page, about, findings

    def test_a_sound_model_has_nothing_unusual(self):
        page, about, findings = self.inspect()
        self.assertEqual(findings, [])
        self.assertIn("changed.safetensors: safetensors, ", page)
        self.assertIn("hidden (Dense)", page)
        self.assertIn("nothing unusual", page)
        self.assertEqual(about["format"], "safetensors")
        self.assertEqual(about["input"], [2])
        kernel = next(p for p in about["parameters"] if p["name"] == "hidden.kernel")
        array = self.arrays["hidden.kernel"]
        self.assertEqual((kernel["shape"], kernel["count"]), ([2, 8], 16))
        for name, value in (("mean", array.mean()), ("std", array.std()), ("min", array.min()),
                            ("max", array.max()), ("norm", numpy.linalg.norm(array))):
            self.assertAlmostEqual(kernel[name], float(value), 5)
        self.assertEqual(sum(layer["parameters"] for layer in about["layers"]),
                         sum(array.size for array in self.arrays.values()))

    def test_values_that_are_no_numbers_are_an_error(self):
        self.arrays["hidden.kernel"][1, 2] = numpy.nan
        self.arrays["hidden.kernel"][1, 5] = -numpy.inf
        self.arrays["norm.moving_variance"][3] = -1
        _, _, findings = self.inspect(status=1)
        self.assertIn(("error", "hidden.kernel",
                       "1 NaN and 1 infinite of 16 values, the first at 10"), findings)
        self.assertIn("negative variance", findings[1][2])

    def test_parts_that_do_nothing_are_warnings(self):
        self.arrays["logits.kernel"][:] = 0
        self.arrays["hidden.kernel"][:] = 0.25
        self.arrays["norm.gamma"][2] = 0
        _, _, findings = self.inspect()
        self.assertIn(("warning", "logits.kernel", "all zero"), findings)
        self.assertIn(("warning", "hidden.kernel", "constant: all 16 values are 0.25"), findings)
        self.assertIn(("warning", "norm",
                       "constant: 1 of 8 channels have gamma 0 and put out their beta"), findings)

    def test_dead_units_are_found_where_they_are_certain(self):
        self.arrays["relu.kernel"][:, 1] = -1  # what it reads may be negative: not certain
        self.arrays["relu.bias"][1] = -1
        self.arrays["relu.kernel"][:, 2] = 0   # constant, at its bias
        self.arrays["relu.kernel"][:, 3] = 0   # dead
        self.arrays["relu.bias"][3] = -0.5
        self.arrays["after.kernel"][:, 4] = -1  # reads what is never negative: dead
        self.arrays["after.bias"][4] = 0
        _, _, findings = self.inspect()
        self.assertEqual(findings, [
            ("warning", "relu", "dead: units 3 (1 of 6) always put out 0"),
            ("warning", "relu", "constant: units 2 (1 of 6) have no weight that is not 0"),
            ("warning", "after", "dead: units 4 (1 of 5) always put out 0")])
        self.run_program("predict", "changed.safetensors", self.moons(), "--record",
                         "relu.output,after.output", "--form", "tensor", "--to", "npy", "--quiet")
        relu = numpy.load(self.path("runs", "predict", "relu.output.npy"))[0]
        after = numpy.load(self.path("runs", "predict", "after.output.npy"))[0]
        self.assertFalse(relu[:, 3].any() or after[:, 4].any())
        self.assertEqual(numpy.ptp(relu[:, 2]), 0)

    def test_dead_units_are_found_in_onnx_too(self):
        fixture = os.path.join(SOURCE, "tests", "fixtures", "models", "onnx", "residual_11")
        self.run_program("weights", fixture + ".onnx", "--to", "w.npz")
        arrays = {name: array.copy() for name, array in numpy.load(self.path("w.npz")).items()}
        name = "layer1.0.conv1"  # between a relu (and a pool) and another
        arrays[f"{name}.kernel"][..., 1] = -numpy.abs(arrays[f"{name}.kernel"][..., 1])
        arrays[f"{name}.bias"][1] = -0.1
        arrays["layer1.0.conv2.kernel"][..., 2] = 0
        numpy.savez(self.path("changed.npz"), **arrays)
        self.run_program("weights", fixture + ".onnx", "--from", "changed.npz", "--to",
                         "changed.onnx")
        about = json.loads(self.run_program("inspect", "changed.onnx", "--json").stdout)
        found = {(f["where"], f["text"].split(":")[0]): f["text"] for f in about["findings"]}
        self.assertEqual(set(found), {(name, "dead"), ("layer1.0.conv2", "constant")})
        self.assertRegex(found[name, "dead"],
                         r"units 1 \(1 of \d+\) are always 0 after the relu that follows")
        self.run_program("predict", "changed.onnx", fixture + ".input.npy", "--record",
                         "layer1.0.output", "--form", "tensor", "--to", "npy", "--quiet")
        relu = numpy.load(self.path("runs", "predict", "layer1.0.output.npy"))[0]
        self.assertFalse(relu[..., 1].any())
        self.assertTrue(relu[..., 0].any())

    def moons(self):
        numpy.save(self.path("moons.npy"),
                   numpy.random.default_rng(1).normal(size=(200, 2)).astype("float32"))
        return "moons.npy"

    def test_averages_as_before_training_are_noted(self):
        self.arrays["norm.moving_mean"][:] = 0
        self.arrays["norm.moving_variance"][:] = 1
        _, _, findings = self.inspect()
        self.assertEqual([finding[:2] for finding in findings], [("note", "norm")])

    def test_a_model_says_where_it_began(self):
        self.train(SMALL[:SMALL.index("model:")] + "model: {file: runs/small}\n" +
                   SMALL[SMALL.index("train:"):], "--quiet")
        page = self.run_program("inspect", "runs/small-2/initial.safetensors").stdout
        self.assertRegex(page, "began from .*runs/small\n")


if __name__ == "__main__":
    unittest.main()
