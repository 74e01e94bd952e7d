"""Under Slurm: the job of docs/cluster.md as it is written there, srun with PMIx and PMI2, and a job that is to end."""
import os
import re
import subprocess
import unittest

import slurm
from cluster import ENVIRONMENT, PROGRAM, Case, digits, files, run
from program import SOURCE

EXPERIMENT = """
name: digits
seed: 3
data: {train: x.npy, labels: y.npy, validation: 0.2, batch: 16}
model:
- dense: {name: hidden, units: 9, activation: relu}
- dense: {name: logits, units: 3}
train:
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
  shards: 8
  steps: 30
  checkpoint: {every: 10 steps}
record:
- {what: "*", every: 5 steps, form: stats, to: [csv]}
- {what: "hidden.output", every: 7 steps, to: [npy]}
"""


def job_of_the_document():
    with open(os.path.join(SOURCE, "docs", "cluster.md"), encoding="utf-8") as file:
        found = re.search(r"```sh\n(#!/bin/sh\n#SBATCH.*?)```", file.read(), re.S)
    return found.group(1)


@unittest.skipUnless(slurm.is_installed(), "slurm-wlm and munge are not installed")
class Slurm(Case):
    def setUp(self):
        super().setUp()
        digits(self.folder)
        self.write("experiment.yaml", EXPERIMENT)
        os.mkdir(self.path("slurm"))
        os.mkdir(self.path("bin"))
        os.symlink(PROGRAM, self.path("bin", "tapedeck"))
        self.cluster = slurm.Cluster(self.path("slurm"), dict(ENVIRONMENT))
        self.cluster.environment["PATH"] += ":" + self.path("bin")
        self.addCleanup(self.cluster.stop)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def test_jobs(self):
        run("", 0, "train", "experiment.yaml", "--quiet", "--out", "alone", cwd=self.folder)
        alone = files(self.path("alone", "digits"))
        self.write("job.sh", job_of_the_document())
        job = self.cluster.submit("job.sh", self.folder)
        state = self.cluster.finish(job)
        self.assertEqual(state, ("COMPLETED", "0:0"), self.read(f"digits-{job}.log"))
        self.assertEqual(files(self.path("runs", "digits")), alone)
        for kind, processes in (("pmix", 2), ("pmi2", 4)):  # OpenMPI; MPICH
            self.cluster.run("srun", f"--mpi={kind}", "-n", str(processes), "tapedeck", "train", "experiment.yaml", "--quiet", "--out", kind,
                             cwd=self.folder)
            self.assertEqual(files(self.path(kind, "digits")), alone, kind)
        told = subprocess.run(["srun", "-n", "2", "tapedeck", "train", "experiment.yaml"], cwd=self.folder, check=False, text=True,
                              capture_output=True, env=self.cluster.environment)
        self.assertNotEqual(told.returncode, 0)
        self.assertIn("srun started 2 processes without MPI: --mpi=pmix is for OpenMPI", told.stderr)
        self.ended_early()

    def ended_early(self):
        """SIGTERM to all of its processes, as before its time is over: a checkpoint; the same job goes on."""
        text = job_of_the_document().replace("experiment.yaml", "experiment.yaml --quiet --out cut --set train.steps=1000000")
        self.write("long.sh", text)
        job = self.cluster.submit("long.sh", self.folder)
        folder = self.path("cut", "digits", "checkpoints")
        self.cluster.wait(lambda: os.path.isdir(folder) and any(name.startswith("step-") for name in os.listdir(folder)))
        self.cluster.run("scancel", "--signal=TERM", job)
        self.cluster.finish(job)
        self.assertIn("go on with: tapedeck train --resume cut/digits", self.read(f"digits-{job}.log"))
        steps = max(int(name[5:14]) for name in os.listdir(folder) if name.startswith("step-")) + 20
        self.write("on.sh", job_of_the_document().replace("experiment.yaml", f"--resume cut/digits --quiet --set train.steps={steps}"))
        job = self.cluster.submit("on.sh", self.folder, "--ntasks=2")
        self.assertEqual(self.cluster.finish(job), ("COMPLETED", "0:0"), self.read(f"digits-{job}.log"))
        run("", 0, "train", "experiment.yaml", "--quiet", "--out", "whole", "--set", f"train.steps={steps}", cwd=self.folder)
        whole, cut = files(self.path("whole", "digits")), files(self.path("cut", "digits"))
        for name in whole:
            if name.endswith((".csv", ".npy")) or name == "model.safetensors":
                self.assertTrue(whole[name] == cut[name], name)


if __name__ == "__main__":
    unittest.main()
