"""Processes that are killed and hosts that are cut off, again and again in one run, with 4 and 2 processes in turns: the run's files are
those of one that nothing happened to. TD_KILLS=50 TD_CUTS=20 is the long variant; how long the slowest end took is printed."""
import os
import random
import signal
import time
import unittest

import hosts
from cluster import PROGRAM, command, files, launchers, run
from cut import TRAIN, Cut

KILLS, CUTS = int(os.environ.get("TD_KILLS", "3")), int(os.environ.get("TD_CUTS", "2"))
LONGEST = 10  # seconds, from the loss of one process to the end of all


class Losses(Cut):
    def setUp(self):
        super().setUp()
        self.random = random.Random(int(os.environ.get("TD_SEED", "7")))
        self.slowest = 0

    def processes(self, i):
        return 4 >> i % 2

    def words(self, i):
        return ("train", "--quiet", "--resume", "cut/run") if i else TRAIN

    def lose(self, lose, child, left=list):
        """Until all processes have ended; left: others than those of the run."""
        time.sleep(self.random.random() / 2)
        began = time.monotonic()
        lose()
        while self.ranks(child) or left() or child.poll() is None:
            self.assertLess(time.monotonic() - began, LONGEST, (self.ranks(child), left(), child.poll()))
            time.sleep(0.05)
        self.slowest = max(self.slowest, time.monotonic() - began)
        return child.communicate()[0]

    def compare(self):
        """Goes on to an end, and compares with a run that was never cut short."""
        shorter = ["--set", f"train.steps={self.last() + 40}"]
        run("", 0, "train", "run.yaml", "--quiet", "--out", "whole", *shorter, cwd=self.folder)
        run(launchers()[0], 2, "train", "--quiet", "--resume", "cut/run", *shorter, cwd=self.folder)
        whole, cut = files(self.path("whole", "run")), files(self.path("cut", "run"))
        for name in whole:
            if name.endswith((".csv", ".npy")) or name == "model.safetensors":
                self.assertTrue(whole[name] == cut[name], name)
        self.assertEqual(whole["run.db"]["scalar"], cut["run.db"]["scalar"])
        self.assertEqual(whole["run.db"]["stats"], cut["run.db"]["stats"])
        print(f"{self.id().rsplit('.', 1)[1]}: {self.last()} steps, the slowest end took {self.slowest:.1f} s", flush=True)

    def test_killed_processes(self):
        for i in range(KILLS):
            mpi = launchers()[i // 2 % len(launchers())]
            child = self.launch(command(mpi, self.processes(i), *self.words(i)), "5", after=self.last())
            rank = self.random.randrange(self.processes(i))
            self.lose(lambda child=child, rank=rank: os.kill(self.ranks(child)[rank], signal.SIGKILL), child)
        self.compare()

    @unittest.skipUnless("openmpi" in launchers() and hosts.are_possible(), "needs root, network namespaces and OpenMPI")
    def test_hosts_that_are_cut_off(self):
        """The process on the host that is cut off ends too, and what OpenMPI has started there: nothing is left on any host."""
        network = hosts.Hosts(4, self.folder)
        self.addCleanup(network.remove)
        for i in range(CUTS):
            words = network.command(self.processes(i), PROGRAM, *self.words(i))
            child = self.launch(words, "4", after=self.last())
            rank = self.random.randrange(self.processes(i)) if i else 1
            told = self.lose(lambda rank=rank: network.cut(rank), child, network.processes)
            if rank:
                self.assertRegex(told, rf"rank {rank} on {network.prefix}{rank} is lost|rank \d on [^ ]+ is lost|lost communication with a remote daemon")
            network.cut(rank, False)
        self.compare()


if __name__ == "__main__":
    unittest.main()
