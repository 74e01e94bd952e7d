"""`tapedeck diff`: the first step, operation and element at which two runs part."""
import glob
import json
import os
import random
import shutil
import sqlite3
import struct
import unittest

import numpy as np
from program import SMALL
from test_replay import EXPERIMENTS, Experiments

SEED = int(os.environ.get("TD_SEED", "29"))
SLOW = bool(os.environ.get("TD_SANITIZE"))
PAIRS = int(os.environ.get("TD_PAIRS", "1" if SLOW else "3"))  # of each of the five kinds of difference

# All that operations put out, to be searched with NumPy for the first difference.
RECORD = """
record:
  - {what: [input, label, "*.output", "*.error", "*.gradient"], every: 1 step, form: tensor, to: [npy]}
"""
STEPS = {"demo": 30, "adding": 26, "cnn": 28, "transformer": 24, "two": 24}


def edit_safetensors(path, name, element, change):
    """Changes one float of a tensor in a safetensors file."""
    with open(path, "r+b") as file:
        size, = struct.unpack("<Q", file.read(8))
        begin, end = json.loads(file.read(size))[name]["data_offsets"]
        file.seek(8 + size + begin + 4 * element)
        value, = struct.unpack("<f", file.read(4))
        file.seek(8 + size + begin + 4 * element)
        file.write(struct.pack("<f", change(value)))
        return (end - begin) // 4


def tensors_of(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        head = json.loads(file.read(size))
    return {name: (entry["data_offsets"][1] - entry["data_offsets"][0]) // 4
            for name, entry in head.items() if name != "__metadata__" and entry["dtype"] == "F32"}


class Diff(Experiments):
    variables = {}

    def environment(self):
        return dict(super().environment(), TAPEDECK_ENVIRONMENT="on", **self.variables)

    def diff(self, a, b, status=1):
        return json.loads(self.run_program("diff", f"runs/{a}", f"runs/{b}", "--json", status=status).stdout)

    def first_difference(self, a, b):
        """Step and signal of the first recorded tensor that differs, in execution order."""
        with sqlite3.connect(self.path("runs", a, "run.db")) as database:
            order = dict(database.execute("SELECT name, sequence FROM signal"))
        one, two = self.arrays(self.path("runs", a)), self.arrays(self.path("runs", b))
        found = [(step, order[name], name) for name in one for step in one[name]
                 if step in two[name] and one[name][step].tobytes() != two[name][step].tobytes()]
        return min(found)[::2] if found else None

    # ---- Planted differences: the kinds that there are, at random places.

    def pairs(self, kind):
        chance = random.Random(f"{SEED} {kind}")
        names = list(EXPERIMENTS)
        for i in range(PAIRS):
            name = names[i % len(names)]
            for folder in glob.glob(self.path("runs", "*")):
                shutil.rmtree(folder)
            yield name, chance

    def test_a_weight(self):
        for name, chance in self.pairs("weight"):
            self.train(self.experiment(name), "--quiet")
            self.run_program("weights", f"runs/{name}", "--to", "start.safetensors", "--force")
            sizes = {key: n for key, n in tensors_of(self.path("start.safetensors")).items() if "moving" not in key}
            key = chance.choice(sorted(sizes))
            element = chance.randrange(sizes[key])
            text = self.experiment(name)
            begin = text.index("model:")
            text = text[:begin] + "model: {file: start.safetensors}\n" + text[text.index("train:", begin):]
            self.train(text.replace(f"name: {name}", "name: a", 1), "--quiet")
            edit_safetensors(self.path("start.safetensors"), key, element,
                             lambda value: float(np.nextafter(np.float32(value), np.float32(9))))
            self.train(text.replace(f"name: {name}", "name: b", 1), "--quiet")
            found = self.diff("a", "b")
            self.assertEqual((found["step"], found["a"]["phase"], found["a"]["tensor"], found["a"]["element"]),
                             (1, "start", key, element))
            self.assertEqual((found["ulps"], found["differing"]), (1, 1))

    def test_a_weight_at_a_step(self):
        # Training stops, an element of the checkpoint is changed, and training goes on.
        for name, chance in self.pairs("step"):
            last = STEPS[name]
            stop = chance.randint(2, last - 3)
            for run in ("a", "b"):
                text = self.experiment(name).replace(f"name: {name}", f"name: {run}", 1)
                self.train(text, "--quiet", "--set", f"train.steps={stop}")
                checkpoint, = glob.glob(self.path("runs", run, "checkpoints", f"*{stop}.safetensors"))
                if run == "b":
                    sizes = {key: n for key, n in tensors_of(checkpoint).items()
                             if key.endswith(("kernel", "bias", "gamma")) and not key.startswith("optimizer")}
                    key = chance.choice(sorted(sizes))
                    element = chance.randrange(sizes[key])
                    edit_safetensors(checkpoint, key, element, lambda value: value + 0.25)
                self.run_program("train", "--resume", f"runs/{run}", "--set", f"train.steps={last}", "--quiet")
            found = self.diff("a", "b")
            self.assertEqual((found["step"], found["a"]["phase"], found["a"]["element"]), (stop + 1, "start", element), found)
            self.assertTrue(key.endswith(found["a"]["tensor"]), (key, found["a"]))

    def test_a_row_of_the_data(self):
        for i, (_, chance) in enumerate(self.pairs("row")):
            rows = np.random.default_rng(i).normal(size=(60, 3)).astype(np.float32)
            np.save(self.path("rows.npy"), rows)
            np.save(self.path("y.npy"), rows.sum(axis=1, keepdims=True))
            text = """
name: a
threads: 1
data: {train: rows.npy, labels: y.npy, batch: 8}
model: [{dense: {name: hidden, units: 5, activation: relu}}, {dropout: {rate: 0.3}}, {dense: {name: out, units: 1}}]
train: {loss: mse, optimizer: {adam: {}}, epochs: 2}
""" + RECORD
            self.train(text, "--quiet")
            row, column = chance.randrange(60), chance.randrange(3)
            rows[row, column] += 1
            np.save(self.path("other.npy"), rows)
            self.train(text.replace("name: a", "name: b").replace("rows.npy", "other.npy"), "--quiet")
            step, signal = self.first_difference("a", "b")
            found = self.diff("a", "b")
            self.assertEqual((found["step"], found["a"]["tensor"], found["a"]["row"]), (step, signal, row))
            self.assertEqual((found["a"]["element"] % 3, found["differing"]), (column, 1))
            self.assertIn("the data is another one", found["cause"])
            self.assertTrue(any(each["text"].startswith("data.train: ") for each in found["settings"]))

    def test_an_optimizer_option_from_a_step_on(self):
        options = {"adam": ["beta_2=0.9", "beta_1=0.5", "epsilon=0.1"], "adamw": ["weight_decay=0.5", "beta_1=0.5"],
                   "sgd": ["momentum=0.5", "nesterov=true"], "rmsprop": ["rho=0.5", "epsilon=0.1"]}
        for name, chance in self.pairs("option"):
            kind, = (kind for kind in ("adam:", "adamw:", "sgd:", "rmsprop:") if f"{{{kind}" in EXPERIMENTS[name])
            kind = kind[:-1]
            last = STEPS[name]
            stop = chance.randint(2, last - 3)
            option = chance.choice(options[kind])
            for run, extra in (("a", ()), ("b", ("--set", f"train.optimizer.{kind}.{option}"))):
                text = self.experiment(name, RECORD).replace(f"name: {name}", f"name: {run}", 1)
                # A schedule that is as long as the training would have ended with it.
                text = text.replace("{cosine: {warmup: 20}}", "{cosine: {warmup: 1, steps: 60}}")
                text = text.replace("{cosine: {}}", "{cosine: {steps: 60}}")
                self.train(text, "--quiet", "--set", f"train.steps={stop}")
                self.run_program("train", "--resume", f"runs/{run}", "--set", f"train.steps={last}", "--quiet", *extra)
            found = self.diff("a", "b")
            self.assertEqual((found["step"], found["a"]["phase"], found["a"]["kind"]), (stop + 1, "update", kind), found)
            self.assertTrue(found["is_cause"])
            # What was recorded differs in the step after: its forward pass has the other parameters.
            self.assertEqual(self.first_difference("a", "b")[0], stop + 2)

    def test_kernels_and_threads(self):
        for i, (name, _) in enumerate(self.pairs("machine")):
            text = self.experiment(name, RECORD)
            threads = [1, 1] if i % 2 else [1, 2]
            for run in range(2):
                self.variables = {"TAPEDECK_CPU": "portable"} if i % 2 and run else {}
                self.train(text.replace(f"name: {name}", f"name: {'ab'[run]}", 1), "--quiet", "--set",
                           f"threads={threads[run]}")
            self.variables = {}
            expected = self.first_difference("a", "b")
            if not expected:
                self.assertEqual(self.diff("a", "b", status=0)["step"], 0)
                continue
            found = self.diff("a", "b")
            self.assertEqual(found["step"], expected[0], (expected, found["a"]))
            self.assertTrue(found["is_cause"], found)
            if found["a"]["tensor"] != expected[1]:  # a tensor inside a layer, before the one that was recorded
                self.assertIn(found["a"]["layer"], [expected[1].split(".")[0]], (expected, found["a"]))
            texts = " ".join(each["text"] for each in found["settings"])
            self.assertIn("threads" if threads[1] == 2 else "portable", texts)

    # ---- Layers that only one has.

    def change(self, before, after):
        self.train(SMALL, "--quiet")
        self.assertIn(before, SMALL)
        self.train(SMALL.replace("name: small", "name: other").replace(before, after), "--quiet")
        return self.diff("small", "other")

    def test_an_inserted_layer(self):
        found = self.change("  - dense: {name: logits", "  - gaussian_noise: {name: noise, stddev: 0.1}\n  - dense: {name: logits")
        self.assertEqual(found["layers"], [{"a": None, "b": "noise", "type": "GaussianNoise"}])
        self.assertEqual((found["step"], found["a"]["tensor"], found["is_cause"]), (1, "logits.output", False))
        self.assertIn("layer noise makes, which only runs/other has", found["cause"])

    def test_a_renamed_layer(self):
        # Initial values follow from the name.
        found = self.change("name: hidden", "name: first")
        self.assertEqual(found["layers"], [{"a": "hidden", "b": "first", "type": "Dense"}])
        self.assertEqual((found["a"]["phase"], found["a"]["tensor"], found["b"]["tensor"]),
                         ("start", "hidden.kernel", "first.kernel"))

    def test_a_removed_layer_and_another_size(self):
        found = self.change("  - dense: {name: hidden, units: 8, activation: tanh}\n", "")
        self.assertEqual(found["layers"], [{"a": "hidden", "b": None, "type": "Dense"}])
        shutil.rmtree(self.path("runs"))
        found = self.change("units: 8", "units: 9")
        self.assertEqual(found["layers"], [])
        self.assertEqual((found["a"]["shape"], found["b"]["shape"]), ([2, 8], [2, 9]))

    # ---- Runs that cannot be executed again, and others.

    def test_the_same(self):
        self.train(SMALL, "--quiet")
        self.train(SMALL, "--quiet")
        done = self.run_program("diff", "runs/small", "runs/small-2")
        self.assertIn("the same up to step 20", done.stdout)

    def test_a_branch_parts_after_its_step(self):
        self.train(SMALL, "--quiet")
        self.run_program("train", "--from", "runs/small@12", "--set", "train.optimizer.adam.learning_rate=0.1", "--quiet")
        found = self.diff("small", "small-2")
        self.assertEqual((found["step"], found["a"]["phase"], found["a"]["kind"]), (13, "update", "adam"))

    def test_without_its_data_the_flight_records_say_what_they_can(self):
        self.write("rows.csv", "a,b,y\n" + "\n".join(f"{i % 7},{i % 3},{i % 2}" for i in range(60)) + "\n")
        text = """
name: a
data: {train: rows.csv, label: y, batch: 8}
model: [{dense: {name: d, units: 2}}]
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 3}
"""
        self.train(text, "--quiet")
        self.train(text.replace("name: a", "name: b") + "seed: 9\n", "--quiet")
        os.remove(self.path("rows.csv"))
        found = self.diff("a", "b")
        self.assertEqual((found["step"], found["a"]), (1, None))
        self.assertIn("rows.csv", found["reason"])

    def test_bad_input(self):
        self.train(SMALL, "--quiet")
        self.run_program("diff", "runs/small", status=2)
        self.run_program("diff", "runs/small", "runs/none", status=1)
        with sqlite3.connect(self.path("runs", "small", "run.db")) as database:
            database.execute("UPDATE run SET value = '99.1.0' WHERE key = 'version'")
        done = self.run_program("diff", "runs/small", "runs/small", status=1)
        self.assertIn("was written by Tapedeck 99.1.0", done.stderr)


if __name__ == "__main__":
    unittest.main()
