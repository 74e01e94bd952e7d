"""How runs of several processes end: stopped, with a process killed, stuck or with an error of its own; and how they go on, with another
number of processes. Nothing is lost, nothing is there twice."""
import os
import signal
import subprocess
import unittest

import numpy as np

from cluster import ENVIRONMENT, PROGRAM, files, launchers, run, write_png
from cut import Cut

PICTURES = """
data: {train: pictures, batch: 64, memory: 100 KiB}
model: [flatten: , {dense: {units: 2}}]
train: {loss: {sparse_categorical_crossentropy: {from_logits: true}}, steps: 20}
"""

# How the launchers leave the other processes alone when one of them ends.
KEEP = {"openmpi": ["--enable-recovery"], "mpich": ["-disable-auto-cleanup"]}


class Ends(Cut):
    def go_on(self, mpi, processes, shorter):
        """Finishes the run that was cut short, and compares it with one that never was."""
        run("", 0, "train", "run.yaml", "--quiet", "--out", "whole", *shorter, cwd=self.folder)
        run(mpi, processes, "train", "--quiet", "--resume", "cut/run", *shorter, cwd=self.folder)
        whole, cut = files(self.path("whole", "run")), files(self.path("cut", "run"))
        for name in whole:
            if name.endswith((".csv", ".npy")) or name == "model.safetensors":
                self.assertTrue(whole[name] == cut[name], name)

    def lengthen(self):
        return ["--set", f"train.steps={self.last() + 40}"]

    def test_a_signal_ends_all_after_the_same_step(self):
        for mpi in launchers():
            child = self.start(mpi, 2)
            child.send_signal(signal.SIGTERM)
            text = child.communicate(timeout=60)[0]
            self.assertIn("go on with: tapedeck train --resume cut/run", text)
            self.go_on(mpi, 4 if mpi == "openmpi" else 1, self.lengthen())
            os.rename(self.path("cut"), self.path("cut-" + mpi))
            os.rename(self.path("whole"), self.path("whole-" + mpi))

    def test_a_killed_process_ends_all(self):
        for mpi in launchers()[:1]:
            child = self.start(mpi, 4)
            os.kill(self.ranks(child)[2], signal.SIGKILL)
            self.wait(child)
            self.assertIn("rank 2", child.communicate(timeout=60)[0])
            self.go_on(mpi, 2, self.lengthen())

    def test_a_process_that_is_silent_ends_all_others(self):
        """As where its machine is cut off: rank 0 keeps what there is, and names it."""
        for mpi in launchers()[-1:]:
            child = self.start(mpi, 4, *KEEP[mpi], timeout="3")
            os.kill(self.ranks(child)[3], signal.SIGSTOP)
            self.wait(child, left=1, seconds=14)
            self.end(child)
            self.go_on(mpi, 2, self.lengthen())

    def test_the_silent_process_is_named(self):
        for mpi in launchers()[-1:]:
            child = self.start(mpi, 2, *KEEP[mpi], timeout="3")
            silent = self.ranks(child)[1]
            os.kill(silent, signal.SIGSTOP)
            self.wait(child, left=1, seconds=14)
            os.kill(silent, signal.SIGKILL)
            text = child.communicate(timeout=60)[0]
            self.assertRegex(text, "tapedeck: rank 1 on [^ ]+ is lost: no sign of it for 3 seconds; go on with: tapedeck train "
                                   "--resume cut/run")

    @unittest.skipUnless(os.getuid() == 0, "needs root, for a file system of its own")
    def test_a_full_disk(self):
        """Where the run is written: training goes on to its end, and what is missing is named, once."""
        os.mkdir(self.path("small"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", self.path("small")], check=True)
        self.addCleanup(subprocess.run, ["umount", self.path("small")], check=True)
        steps = ["--set", "train.steps=200"]
        told = run(launchers()[-1], 4, "train", "run.yaml", "--quiet", "--out", "small", *steps, cwd=self.folder, expect=3)
        self.assertEqual(told.count("but not everything was recorded"), 1, told)
        self.assertRegex(told, r"[.](csv|npy|db).*: No space left on device")
        run("", 0, "train", "run.yaml", "--quiet", "--out", "whole", *steps, cwd=self.folder)
        self.assertEqual(files(self.path("whole", "run"))["model.safetensors"], files(self.path("small", "run"))["model.safetensors"])

    @unittest.skipUnless(os.getuid() == 0, "needs root, for a file system of its own")
    def test_a_full_disk_of_another_process(self):
        """Where it unpacks pictures: all end, and it is named. (A CSV file: test_csv.py.)"""
        random = np.random.default_rng(1)
        for i in range(400):
            os.makedirs(self.path("pictures", "ab"[i % 2]), exist_ok=True)
            write_png(self.path("pictures", "ab"[i % 2], f"{i}.png"), random.integers(0, 256, (32, 32), np.uint8))
        with open(self.path("pictures.yaml"), "w", encoding="utf-8") as file:
            file.write(PICTURES)
        os.makedirs(self.path("caches", "2"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", self.path("caches", "2")], check=True)
        self.addCleanup(subprocess.run, ["umount", self.path("caches", "2")], check=True)
        apart = ["sh", "-c", 'TAPEDECK_CACHE=caches/$OMPI_COMM_WORLD_RANK$PMI_RANK exec "$@"', "sh"]
        for mpi in launchers():
            done = subprocess.run([f"mpirun.{mpi}", "-n", "4", *apart, PROGRAM, "train", "pictures.yaml", "--quiet", "--out", mpi], check=False,
                                  cwd=self.folder, env=ENVIRONMENT, text=True, timeout=60, stdin=subprocess.DEVNULL, capture_output=True)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, "rank 2 on [^ ]+ ended: pictures.yaml: data: cannot write to the cache folder: No space left on "
                                          "device; TAPEDECK_CACHE names another one")
            self.assertFalse(os.path.exists(self.path(mpi)))

    def test_an_error_is_reported_once(self):
        with open(self.path("run.yaml"), "a", encoding="utf-8") as file:
            file.write("threads: 1\n")
        for mpi in launchers():
            text = run(mpi, 2, "train", "run.yaml", "--set", "train.optimizer={sgd: {learning_rate: 1e30}}", "--set",
                       "stop_on=nan", cwd=self.folder, expect=1)
            self.assertEqual(text.count("the loss is"), 1, text)
            text = run(mpi, 2, "train", "run.yaml", "--set", "train.optimizer={sgd: {learning_rate: 1e30}}", "--set", "stop_on=nan",
                       "--set", "model.1={batch_normalization: {name: norm, sync: true}}", cwd=self.folder, expect=1)
            self.assertEqual(text.count("the loss is"), 1, text)

    def test_counts_that_do_not_fit_are_refused(self):
        for mpi in launchers()[:1]:
            text = run(mpi, 3, "train", "run.yaml", cwd=self.folder, expect=1)
            self.assertIn("3 processes: start 1, 2, 4, 8 or another power of two", text)
            text = run(mpi, 2, "train", "run.yaml", "--set", "train.shards=1", cwd=self.folder, expect=1)
            self.assertIn("train.shards: 1, for 2 processes and a batch of 16", text)
        text = run("", 0, "train", "run.yaml", "--set", "train.shards=3", cwd=self.folder, expect=1)
        self.assertIn("expected a power of two", text)


if __name__ == "__main__":
    unittest.main()
