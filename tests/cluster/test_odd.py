"""What is uneven, small or rare, by one process and by several: the same bytes."""
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

from cluster import BUILD, ENVIRONMENT, PROGRAM, Case, command, digits, files, launchers, run

EXPERIMENT = """
name: odd
seed: 3
data: {train: x.npy, labels: y.npy, batch: 16}
model:
- dense: {name: hidden, units: 9, activation: relu}
- dense: {name: logits, units: 3}
train:
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
  metrics: [accuracy, f1]
  optimizer: {adam: {learning_rate: 0.01}}
  shards: 8
  epochs: 2
  checkpoint: {every: 3 steps}
record:
- {what: "*", every: 2 steps, form: stats, to: [csv]}
- {what: "hidden.output", every: 3 steps, to: [npy]}
"""
# Name: processes, settings.
CASES = {
    "a batch that shards do not divide": (4, ["data.batch=13"]),
    "a last batch of one example": (8, ["data.batch=41"]),
    "a batch larger than the data": (4, ["data.batch=100", "train.epochs=4"]),
    "as many shards as examples": (2, ["data.batch=8", "train.shards=8"]),
    "fewer batches to validate than processes": (8, ["data.validation=0.1"]),
    "one example to validate": (4, ["data.validation=0.013"]),
    "no shuffle": (4, ["data.shuffle=false"]),
    "class weights": (4, ["data.class_weight={0: 1, 1: 5, 2: 0.5}"]),
    "class weights and a short batch, gradients cut off": (8, ["data.class_weight=balanced", "data.batch=41", "train.clip_norm=0.3"]),
    "best weights restored": (4, ["data.validation=0.2", "train.epochs=8", "train.optimizer.adam.learning_rate=0.3",
                                  "train.early_stopping={monitor: val_loss, patience: 1, restore_best: true}"]),
    "the best and every step kept": (2, ["data.validation=0.2", "train.checkpoint={every: 1 step, best: val_loss, keep: 3}"]),
    "a schedule": (2, ["train.learning_rate_schedule={exponential: {steps: 5, factor: 0.5}}"]),
    "shards of two threads": (2, ["threads=2"]),
    # In examples of a few shards alone; its history goes back to steps in which nobody looked at them.
    "a condition that few shards meet": (4, [
        'record=[{what: "*.output", when: "hidden.output.max > mean(hidden.output.max, 3)", history: 2, to: [npy]}]']),
}
SYNC = ["model=[{dense: {name: hidden, units: 9}}, {batch_normalization: {name: norm, sync: true}}, {dense: {name: logits, units: 3}}]"]


class Odd(Case):
    def setUp(self):
        super().setUp()
        digits(self.folder)
        with open(self.path("odd.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT)

    def train(self, mpi, processes, out, settings, **environment):
        words = [word for setting in settings for word in ("--set", setting)]
        return run(mpi, processes, "train", "odd.yaml", "--quiet", "--out", out, *words, cwd=self.folder, **environment)

    def compare(self, alone, several):
        one, many = files(self.path(alone, "odd")), files(self.path(several, "odd"))
        self.assertEqual(sorted(one), sorted(many))
        for key in one:
            self.assertTrue(one[key] == many[key], f"{several}: {key}")

    def test_cases(self):
        for i, (name, (processes, settings)) in enumerate(CASES.items()):
            for synced in ((False, True) if os.environ.get("TD_LONG") or i < 2 else (i % 2 == 0,)):
                with self.subTest(name, synced=synced):
                    both = (SYNC if synced else []) + settings
                    self.train("", 0, f"alone{i}{synced}", both)
                    self.train(launchers()[-1], processes, f"many{i}{synced}", both)
                    self.compare(f"alone{i}{synced}", f"many{i}{synced}")

    def test_weights_of_examples(self):
        random = np.random.default_rng(1)
        rows = np.column_stack([random.standard_normal((50, 3)), random.integers(0, 3, 50), random.random(50)])
        np.savetxt(self.path("w.csv"), rows, delimiter=",", header="a,b,c,kind,weight", comments="", fmt=["%.6f"] * 3 + ["%d", "%.5f"])
        with open(self.path("odd.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT.replace("{train: x.npy, labels: y.npy, batch: 16}",
                                          "{train: w.csv, label: kind, weight: weight, batch: 9, standardize: true, validation: 0.2}"))
        self.train("", 0, "alone", ["data.batch=9", "train.shards=8"])
        for mpi in launchers():
            self.train(mpi, 4, mpi, ["data.batch=9", "train.shards=8"])
            self.compare("alone", mpi)

    def test_counts_that_cannot_be(self):
        for mpi in launchers()[-1:]:
            told = run(mpi, 4, "train", "odd.yaml", "--set", "data.batch=2", "--set", "train.shards=2", cwd=self.folder, expect=1)
            self.assertIn("train.shards: 2, for 4 processes and a batch of 2", told)

    def test_a_missing_mpi_is_named(self):
        """The program beside no plugin, and beside one whose MPI is not installed."""
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(BUILD):
                if name == "tapedeck" or name.startswith("libtapedeck.so"):
                    shutil.copy(os.path.join(BUILD, name), folder, follow_symlinks=True)
            for variable, package in (("OMPI_COMM_WORLD_RANK", "libopenmpi-dev"), ("PMI_RANK", "libmpich-dev")):
                done = subprocess.run([os.path.join(folder, "tapedeck"), "train", "odd.yaml"], cwd=self.folder, check=False, text=True,
                                      capture_output=True, env=dict(ENVIRONMENT, **{variable: "0"}))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(package, done.stderr)

    def test_the_wrong_launcher_is_noticed(self):
        """mpirun of one MPI, the plugin of the other: processes that do not find each other are no group of one each."""
        for mpi, other in (("openmpi", "mpich"), ("mpich", "openmpi")):
            if {mpi, other} <= set(launchers()):
                done = subprocess.run(command(mpi, 2, "train", "odd.yaml", "--quiet", "--out", mpi), cwd=self.folder, check=False, text=True,
                                      capture_output=True, env=dict(ENVIRONMENT, TAPEDECK_MPI=other), timeout=120)
                self.assertNotEqual(done.returncode, 0, (done.stdout, done.stderr))
                self.assertIn(other, done.stderr)


if __name__ == "__main__":
    assert PROGRAM
    unittest.main()
