"""A run that several processes wrote, read as one, rank by rank, and as the spread over ranks."""

import csv
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import tapedeck

PROGRAM = os.environ["TAPEDECK"]
WRITE = """
import os, sys
import numpy as np
import tapedeck
path, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
deck = tapedeck.Deck(path, rank=rank, world=world)
deck.track("*", form=["stats", "histogram"])
for step in range(first, last + 1):
    deck.log(loss=float("nan") if rank == 1 and step >= 4 else step + 10.0 * rank)
    deck.record("x.output", np.arange(4, dtype=np.float32) + 4 * rank)
    deck.step(step=step)
deck.finish()
"""


class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "runs", "a")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, world=3, first=1, last=5, restart=0, name="job"):
        writers = [subprocess.Popen([sys.executable, "-c", WRITE, self.path, str(first), str(last)], env=dict(
            os.environ, RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), TAPEDECK_RUN=name,
            TORCHELASTIC_RESTART_COUNT=str(restart))) for rank in range(world)]
        self.assertEqual([writer.wait(60) for writer in writers], [0] * world)

    def ask(self, *arguments, status=0):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def sql(self, statement, *options, path=None):
        return list(csv.reader(self.ask("sql", path or self.path, statement, "--csv", *options).splitlines()))[1:]

    def test_ranks_and_their_spread(self):
        self.write()
        run = tapedeck.Run(self.path)
        self.assertEqual([(r["rank"], r["attempt"], r["last_step"], r["state"], r["folder"]) for r in run.ranks],
                         [(i, 1, 5, "finished", f"rank-0000{i}") for i in range(3)])
        spread = run["loss"].spread()
        self.assertEqual(list(spread["step"]), [1, 2, 3, 4, 5])
        self.assertEqual(list(spread["ranks"]), [3] * 5)
        self.assertEqual(spread[2].tolist(), (3, 3, 3.0, 13.0, 23.0, 0, 2, -1))
        self.assertEqual(spread[3].tolist(), (4, 3, 4.0, 14.0, 24.0, 0, 2, 1))  # NaN is in no mean, and named
        norms = run["x.output"].spread("max")
        self.assertEqual((norms["min"][0], norms["mean"][0], norms["max"][0]), (3, 7, 11))
        self.assertEqual(self.sql("select step, ranks, min, mean, max, min_rank, max_rank from spread where signal='loss' and step=2"),
                         [["2", "3", "2", "12", "22", "0", "2"]])
        self.assertEqual(self.sql("select rank, state, last_step from ranks where rank > 0"),
                         [["1", "finished", "5"], ["2", "finished", "5"]])
        self.assertIn("loss\t3\t13\t3\t23", self.ask("show", self.path, "loss", "--spread"))
        self.assertIn("x.output.max\t1\t7\t3\t11", self.ask("show", self.path, "x.output", "--stat", "max", "--spread"))

    def test_one_rank(self):
        self.write()
        two = tapedeck.Run(self.path, rank=2)
        np.testing.assert_array_equal(two["loss"].array(), [21, 22, 23, 24, 25])
        self.assertIn("loss\t3\t23", self.ask("show", self.path, "loss", "--rank", "2"))
        self.assertEqual(self.sql("select value from scalars where signal='loss' and step=3", "--rank", "2"), [["23"]])
        out = os.path.join(self.folder.name, "csv")
        self.ask("export", self.path, "--rank", "2", "--to", "csv", "--out", out)
        with open(os.path.join(out, "metrics.csv")) as file:
            self.assertIn("25", file.read())
        self.ask("compare", self.path, self.path, "--rank", "2")
        self.assertIn("has no rank 7", self.ask("show", self.path, "--rank", "7", status=1))
        self.assertIn("--rank is the number", self.ask("show", self.path, "--rank", "two", status=1))
        with self.assertRaisesRegex(Exception, "has no rank 7"):
            tapedeck.Run(self.path, rank=7)

    def test_a_rank_goes_on_in_the_next_attempt(self):
        self.write(last=5)
        self.write(first=4, last=8, restart=1)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.path))), ["a"])
        run = tapedeck.Run(self.path, rank=0)
        np.testing.assert_array_equal(run["loss"].steps, range(1, 9))
        self.assertEqual([r["attempt"] for r in run.ranks], [1, 2])
        self.assertEqual(self.sql("select count(*) from scalars where signal='loss'", "--rank", "2"), [["8"]])
        self.assertEqual(self.sql("select max(step), count(*) from spread where signal='loss'"), [["8", "8"]])

    def test_runs_lists_it_once(self):
        self.write(world=2)
        self.write(world=2, name="another launch")
        self.assertEqual(list(tapedeck.runs(os.path.dirname(self.path))["name"]), ["a", "a-2"])

    def test_a_run_of_one_process(self):
        deck = tapedeck.Deck(self.path)
        deck.log(loss=1.0)
        deck.step()
        deck.finish()
        self.assertEqual(tapedeck.Run(self.path).ranks, [])
        for option in (["--rank", "0"], ["--spread"]):
            self.assertIn("one process wrote it" if option[0] == "--rank" else "several processes",
                          self.ask("show", self.path, *option, status=1))
        self.assertEqual(self.sql("select * from spread"), [])
        with self.assertRaises(ValueError):
            tapedeck.Run(self.path)["loss"].spread()


if __name__ == "__main__":
    unittest.main()
