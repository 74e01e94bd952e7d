"""Trained by 1, 2, 4 and 8 processes, or by one without MPI, with 1 or 2 threads: a run's files are the same bytes."""
import json
import os
import unittest

import numpy as np

from cluster import Case, digits, files, launchers, run

REST = """
seed: 3
train:
  loss: {loss}
  metrics: {metrics}
  optimizer: {{adam: {{learning_rate: 0.01}}}}
  shards: 8
  epochs: 2
  checkpoint: {{every: 3 steps}}
{more}
record:
- {{what: "*", every: 2 steps, form: [stats, histogram], to: [csv]}}
- {{what: "*", every: 3 steps, sample: 4, to: [npy]}}
- {{what: "*.output", when: "loss > mean(loss, 3)", history: 1, to: [npy]}}
"""
CLASSES = "{sparse_categorical_crossentropy: {from_logits: true}}"
# 66 examples in batches of 16: the last one of an epoch has 2, so most of its shards have none.
EXPERIMENTS = {
    "dense": ("data: {train: x.npy, labels: y.npy, validation: 0.2, batch: 16}", """
model:
- dense: {name: hidden, units: 9, activation: relu}
- dropout: {name: drop, rate: 0.3}
- dense: {name: logits, units: 3, kernel_l2: 0.01}
""", CLASSES, "[accuracy, f1, auc, confusion_matrix]", "  clip_norm: 1\n  layer_losses: {hidden: {target: target.npy, weight: 0.3}}"),
    "cnn": ("data: {train: image.npy, labels: y.npy, validation: 0.2, batch: 16}", """
model:
- conv2d: {name: conv, filters: 4, kernel_size: 3}
- batch_normalization: {name: norm}
- relu: {name: act}
- flatten: {name: flat}
- dense: {name: logits, units: 3}
""", CLASSES, "[accuracy]", "  verify_every: 4"),
    "synced": ("data: {train: image.npy, labels: y.npy, validation: 0.2, batch: 16}", """
model:
- conv2d: {name: conv, filters: 4, kernel_size: 3}
- batch_normalization: {name: norm, sync: true}
- relu: {name: act}
- flatten: {name: flat}
- dense: {name: hidden, units: 7}
- batch_normalization: {name: own}
- dropout: {name: drop, rate: 0.2}
- batch_normalization: {name: again, sync: true}
- dense: {name: logits, units: 3}
""", CLASSES, "[accuracy]", "  verify_every: 4"),
    "lstm": ("data: {train: sequence.npy, labels: y.npy, validation: 0.2, batch: 16}", """
model:
- lstm: {name: memory, units: 6}
- dense: {name: logits, units: 3}
""", CLASSES, "[accuracy]", "  early_stopping: {monitor: val_loss, patience: 1, restore_best: true}"),
    "transformer": ("data: {train: words.npy, labels: y.npy, validation: 0.2, batch: 16}", """
model:
- embedding: {name: words, input_dim: 9, output_dim: 8, mask_zero: true}
- multi_head_attention: {name: attention, num_heads: 2, key_dim: 4}
- add: {name: sum, from: [words, attention]}
- layer_normalization: {name: norm}
- flatten: {name: flat}
- dense: {name: logits, units: 3}
""", CLASSES, "[accuracy]", "  reduce_on_plateau: {monitor: loss, patience: 0, factor: 0.5}"),
    "two": ("data: {inputs: {a: x.npy, b: sequence.npy}, labels: {kind: y.npy, value: value.npy}, batch: 16, validation: 0.2}", """
model:
  inputs: [a, b]
  layers:
  - flatten: {name: flat, from: b}
  - concatenate: {name: all, from: [a, flat]}
  - dense: {name: hidden, units: 5, activation: tanh}
  - dense: {name: value, units: 1}
  - dense: {name: kind, units: 3, from: hidden}
  outputs: [value, kind]
""", "{value: mse, kind: {sparse_categorical_crossentropy: {from_logits: true}}}",
            "{kind: [accuracy], value: [mae, r2]}", "  checkpoint: {best: val_loss}"),
}

# By MPI; launching many processes is what takes time. TD_LONG=1: all of them, for every network.
COUNTS = [((2, 8), (4,)), ((1, 2, 4, 8), (1, 2, 4, 8))]


class Processes(Case):
    def setUp(self):
        super().setUp()
        digits(self.folder)

    def write(self, name):
        data, model, loss, metrics, more = EXPERIMENTS[name]
        rest = REST.format(loss=loss, metrics=metrics, more=more)
        if "checkpoint" in more:
            rest = rest.replace("  checkpoint: {every: 3 steps}\n", "")
        with open(self.path(name + ".yaml"), "w", encoding="utf-8") as file:
            file.write(data + model + rest)
        return name + ".yaml"

    def compare(self, name):
        """One process without MPI, and launches of each MPI."""
        experiment = self.write(name)
        run("", 0, "train", experiment, "--quiet", "--out", "alone", cwd=self.folder, OMP_NUM_THREADS="1")
        expected = files(self.path("alone", name))
        self.assertTrue(any(key.endswith(".npy") for key in expected))
        launches = [(mpi, n) for mpi, counts in zip(launchers(), COUNTS[name == "dense" or bool(os.environ.get("TD_LONG"))])
                    for n in counts]
        for mpi, processes in launches:
            out = f"{mpi}-{processes}"
            run(mpi, processes, "train", experiment, "--quiet", "--out", out, cwd=self.folder,
                OMP_NUM_THREADS="2" if processes in (1, 4) else "1")
            found = files(self.path(out, name))
            self.assertEqual(sorted(found), sorted(expected), out)
            for key in expected:
                self.assertTrue(found[key] == expected[key], f"{out}: {key}")
        return expected

    def test_dense(self):
        self.compare("dense")
        mpi = launchers()[0]
        out = f"{mpi}-8"
        self.assertIn("identical up to step 8 (8 steps compared)", run("", 0, "replay", f"{out}/dense", "--steps", "1..8", cwd=self.folder))
        self.assertIn("the same up to step 10", run("", 0, "diff", f"{out}/dense", "alone/dense", cwd=self.folder))
        told, alone = (json.loads(run("", 0, "diagnose", f"{folder}/dense", "--json", cwd=self.folder)) for folder in (out, "alone"))
        self.assertEqual([finding["rule"] for finding in told["findings"]], [finding["rule"] for finding in alone["findings"]])
        run(mpi, 2, "train", "dense.yaml", "--quiet", "--out", "other", "--set", "train.optimizer.adam.learning_rate=0.02", cwd=self.folder)
        told = run("", 0, "diff", f"{out}/dense", "other/dense", cwd=self.folder, expect=1)
        self.assertIn("adam of layer hidden makes another hidden.kernel of the same gradient", told)

    def test_convolution_with_batch_normalization(self):
        self.compare("cnn")

    def test_batch_normalization_over_all_shards(self):
        self.compare("synced")
        self.assertIn("identical up to step 10 (10 steps compared)", run("", 0, "replay", "alone/synced", "--steps", "1..10", cwd=self.folder))
        self.assertIn("the same up to step 10", run("", 0, "diff", f"{launchers()[0]}-2/synced", "alone/synced", cwd=self.folder))

    def test_synced_batch_normalization_is_that_of_the_whole_batch(self):
        """Of shards with 0, 1 and 2 examples: outputs and what comes back as numpy has them of the whole batch, and runs as with one
        shard."""
        self.write("synced")
        more = ["--set", "model.5.batch_normalization.sync=true", "--set", "model.6.dropout.rate=0", "--set", "data.batch=13"]
        for shards in (1, 8):
            run("", 0, "train", "synced.yaml", "--quiet", "--out", f"s{shards}", "--set", f"train.shards={shards}",
                "--set", 'record=[{what: "*", every: 1 step, to: [npy]}]', *more, cwd=self.folder)

        def first(name, shards=8):
            return np.load(self.path(f"s{shards}", "synced", name + ".npy"))[0].astype(np.float64)
        x, g = first("conv.output").reshape(-1, 4), first("norm.error").reshape(-1, 4)
        n, mean, deviation = len(x), x.mean(0), np.sqrt(x.var(0) + 1e-3)
        h = (x - mean) / deviation
        back = (g - g.mean(0) - h * (g * h).mean(0)) / deviation
        np.testing.assert_allclose(first("norm.output").reshape(-1, 4), h, atol=1e-6)
        np.testing.assert_allclose(first("conv.error").reshape(-1, 4), back, atol=1e-6)
        np.testing.assert_allclose(first("norm.gamma.gradient"), (g * h).sum(0), atol=1e-6)
        np.testing.assert_allclose(first("norm.moving_mean"), 0.01 * mean, atol=1e-7)
        np.testing.assert_allclose(first("norm.moving_variance"), 0.99 + 0.01 * x.var(0), atol=1e-6)
        self.assertEqual(n, 13 * 16)
        for name in ("norm.output", "again.output", "conv.kernel.gradient", "hidden.error", "again.moving_variance", "loss"):
            np.testing.assert_allclose(first(name), first(name, 1), atol=1e-6, err_msg=name)

    def test_synced_batch_normalization_of_masked_steps_is_refused(self):
        experiment = self.write("transformer")
        with open(self.path(experiment), encoding="utf-8") as file:
            text = file.read().replace("layer_normalization: {name: norm}", "batch_normalization: {name: norm, sync: true}")
        with open(self.path(experiment), "w", encoding="utf-8") as file:
            file.write(text)
        told = run(launchers()[0], 2, "train", experiment, "--quiet", cwd=self.folder, expect=1)
        self.assertIn("layer 'norm': sync is not there for inputs with a mask", told)

    def test_lstm(self):
        self.compare("lstm")

    def test_transformer(self):
        self.compare("transformer")

    def test_two_inputs_and_two_outputs(self):
        self.compare("two")

    def test_shards_add_up_to_the_whole_batch(self):
        """What no layer computes over the batch is what one shard has, but for rounding."""
        self.shards_add_up("two", "hidden.kernel.gradient", "hidden.output", "flat.error")
        self.shards_add_up("dense", "hidden.kernel.gradient", "hidden.loss.error", "hidden.error", "--set", "model.1.dropout.rate=0")

    def shards_add_up(self, name, *more):
        names, more = more[:3], more[3:]
        experiment = self.write(name)
        for shards in (1, 8):
            run("", 0, "train", experiment, "--quiet", "--out", f"s{shards}", "--set", f"train.shards={shards}", *more, cwd=self.folder)
        one, eight = (np.genfromtxt(self.path(f"s{n}", name, "metrics.csv"), delimiter=",", names=True) for n in (1, 8))
        self.assertEqual(one.dtype.names, eight.dtype.names)
        for column in one.dtype.names:
            np.testing.assert_allclose(one[column], eight[column], rtol=2e-4, err_msg=column)
        for tensor in names:
            one, eight = (np.load(self.path(f"s{n}", name, tensor + ".npy")) for n in (1, 8))
            np.testing.assert_allclose(one, eight, rtol=1e-3, atol=1e-5, err_msg=tensor)


if __name__ == "__main__":
    unittest.main()
