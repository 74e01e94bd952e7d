"""How runs of several processes end: stopped, with a process killed, stuck or with an error of its own; and how they go on, with another
number of processes. Nothing is lost, nothing is there twice."""
import os
import signal
import subprocess
import time
import unittest

from cluster import ENVIRONMENT, Case, command, digits, files, launchers, run

STEPS = 400
EXPERIMENT = """
name: run
seed: 3
data: {train: x.npy, labels: y.npy, batch: 16}
model:
- dense: {name: hidden, units: 9, activation: relu}
- dropout: {name: drop, rate: 0.3}
- dense: {name: logits, units: 3}
train:
  loss: {sparse_categorical_crossentropy: {from_logits: true}}
  metrics: [accuracy]
  shards: 4
  steps: %d
  checkpoint: {every: 25 steps}
record:
- {what: "*", every: 5 steps, form: stats, to: [csv]}
- {what: "hidden.output", every: 7 steps, to: [npy]}
- {what: loss, to: [csv]}
""" % STEPS
# How the launchers leave the other processes alone when one of them ends.
KEEP = {"openmpi": ["--enable-recovery"], "mpich": ["-disable-auto-cleanup"]}


class Ends(Case):
    def setUp(self):
        super().setUp()
        digits(self.folder)
        with open(self.path("run.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT)

    def start(self, mpi, processes, *more, timeout="60"):
        words = command(mpi, processes, "train", "run.yaml", "--quiet", "--out", "cut", "--set", "train.steps=1000000")
        words[1:1] = more
        child = subprocess.Popen(words, cwd=self.folder, env=dict(ENVIRONMENT, TAPEDECK_GROUP_TIMEOUT=timeout), text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.addCleanup(self.end, child)
        for _ in range(600):
            folder = self.path("cut", "run", "checkpoints")
            if os.path.isdir(folder) and any(name.startswith("step-") for name in os.listdir(folder)):
                return child
            self.assertIsNone(child.poll())
            time.sleep(0.1)
        self.fail("no checkpoint in a minute")

    def end(self, child):
        for process in self.ranks(child).values():
            os.kill(process, signal.SIGKILL)
        child.kill()
        child.wait()
        child.stdout.close()

    def ranks(self, child):
        """The processes of the program that the launcher started, by rank."""
        found = {}
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    values = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
                program = os.path.basename(os.readlink(f"/proc/{name}/exe"))
                here = os.readlink(f"/proc/{name}/cwd")
            except (OSError, ValueError):
                continue
            rank = values.get(b"OMPI_COMM_WORLD_RANK") or values.get(b"PMI_RANK")
            if rank and program == "tapedeck" and here == os.path.realpath(self.folder) and state != "Z":
                found[int(rank)] = int(name)
        return found

    def wait(self, child, left=0, seconds=10):
        """Until no more processes than that are left."""
        began = time.monotonic()
        while len(self.ranks(child)) > left:
            self.assertLess(time.monotonic() - began, seconds, self.ranks(child))
            time.sleep(0.05)

    def go_on(self, mpi, processes, shorter):
        """Finishes the run that was cut short, and compares it with one that never was."""
        run("", 0, "train", "run.yaml", "--quiet", "--out", "whole", *shorter, cwd=self.folder)
        run(mpi, processes, "train", "--quiet", "--resume", "cut/run", *shorter, cwd=self.folder)
        whole, cut = files(self.path("whole", "run")), files(self.path("cut", "run"))
        for name in whole:
            if name.endswith((".csv", ".npy")) or name == "model.safetensors":
                self.assertTrue(whole[name] == cut[name], name)

    def last(self):
        return max(int(name[5:14]) for name in os.listdir(self.path("cut", "run", "checkpoints"))
                   if name.startswith("step-"))

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
