"""Runs in PostgreSQL from Python: sent while they are written, by one process or several, and read as folders are."""
import filecmp
import os
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import tapedeck

sys.path.insert(0, os.path.join(os.environ["TD_SOURCE"], "tests", "cli"))
import postgresql

PROGRAM = os.environ["TAPEDECK"]
WRITE = """
import os, sys
import numpy as np
import tapedeck
path, url = sys.argv[1:3]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
deck = tapedeck.Deck(path, rank=rank, world=world, store=url)
deck.track("*", form=["stats", "histogram"])
for step in range(1, 60):
    deck.log(loss=float("nan") if rank == 1 and step >= 40 else step + 10.0 * rank)
    deck.record("x.output", np.arange(4, dtype=np.float32) + 4 * rank)
    deck.step(step=step)
deck.finish()
"""


@unittest.skipUnless(postgresql.is_there(os.environ["TD_BUILD"]), "no PostgreSQL server, or built without libpq")
class Database(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = postgresql.Server()
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        self.server.sql("DROP SCHEMA IF EXISTS tapedeck CASCADE")
        self.url = self.server.url()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "runs", "a")

    def compare(self, one, other):
        self.assertEqual(list(one), list(other))
        for name in one:
            self.assertEqual(one[name].forms, other[name].forms)
            if "scalar" in one[name].forms:
                self.assertEqual(repr(one[name].values.tolist()), repr(other[name].values.tolist()))  # NaN included
        self.assertEqual((one.state, one.config, one.notes if hasattr(one, "notes") else 0),
                         (other.state, other.config, other.notes if hasattr(other, "notes") else 0))

    def test_a_deck_with_a_store(self):
        with tapedeck.Deck(self.path, store=self.url.replace("team@", "team:secret@"), tags=["x"], config={"rate": 0.1}) as deck:
            deck.track("x.output", form="tensor", to="npy")
            for step in range(3000):
                deck.log(loss=1 / (step + 1), other=float("inf") if step == 5 else step)
                deck.record("x.output", np.full((2, 3), step, np.float32))
                deck.step()
        run, own = tapedeck.Run(self.url + "#a"), tapedeck.Run(self.path)
        self.compare(own, run)
        self.assertEqual(len(run["loss"].values), 3000)
        np.testing.assert_array_equal(run["x.output"].array(), own["x.output"].array())
        np.testing.assert_array_equal(run["x.output"].at(100), own["x.output"].at(100))
        self.assertEqual(self.server.sql("SELECT count(*), min(value), max(value) FROM tapedeck.metric WHERE signal = 'loss'"),
                         [["3000", repr(1 / 3000), "1"]])
        with open(os.path.join(self.path, "run.db"), "rb") as file:
            self.assertNotIn(b"secret", file.read())
        os.rename(self.path, self.path + "-moved")
        with self.assertRaisesRegex(tapedeck.Error, "on the machine that wrote it"):
            tapedeck.Run(self.url + "#a")["x.output"].array()

    def write_tensors(self, steps, **options):
        with tapedeck.Deck(self.path, store=self.url + "&tensors=database", **options) as deck:
            deck.track("x", form="tensor", to="npy")
            deck.track("picture", form="image", to="png")
            for step in steps:
                deck.log(loss=float(step))
                deck.record("x", np.full((100, 40), step, np.float32))
                if step % 50 == 0:
                    deck.record("picture", np.arange(64, dtype=np.float32).reshape(1, 8, 8) * step)
                deck.step(step=step)
                if step % 200 == 0:
                    time.sleep(0.7)  # so that it grows while it is sent

    def test_tensors_are_kept_where_the_url_asks_for_it(self):
        self.write_tensors(range(1, 801))
        self.write_tensors(range(501, 521), resume=500, discard=True)  # the file becomes shorter
        own, place = tapedeck.Run(self.path), self.url + "#a"
        expected, records = np.array(own["x"].array()), [own["picture"].at(step) for step in (50, 300, 500)]
        self.assertEqual(expected.shape, (520, 100, 40))
        again = subprocess.run([PROGRAM, "push", self.path, self.url + "&tensors=database"], capture_output=True, text=True, check=True)
        self.assertIn("#a: 0 records", again.stdout)
        moved = self.path + "-moved"
        os.rename(self.path, moved)
        run = tapedeck.Run(place)
        np.testing.assert_array_equal(run["x"].array(), expected)
        np.testing.assert_array_equal(run["x"].at(333), expected[332])
        self.assertEqual([run["picture"].at(step) for step in (50, 300, 500)], records)
        shown = [subprocess.run([PROGRAM, "show", run, "x", "--step", "77"], capture_output=True, text=True, check=True).stdout.replace(run, "")
                 for run in (moved, place)]
        self.assertEqual(*shown)
        back = self.path + "-back"
        subprocess.run([PROGRAM, "pull", place, back], check=True, capture_output=True)
        for name in ("x.npy", "x.steps.npy", *sorted(os.path.join("images", "picture", file) for file in os.listdir(os.path.join(moved, "images", "picture")))):
            self.assertTrue(filecmp.cmp(os.path.join(moved, name), os.path.join(back, name), shallow=False), name)
        # A piece that is wrong or gone is put right; a path that leads out of the folder is refused.
        self.server.sql("UPDATE tapedeck.file_piece SET digest = 0 WHERE path = 'x.npy' AND number = 2;"
                        "DELETE FROM tapedeck.file_piece WHERE path = 'x.npy' AND number = 1")
        with self.assertRaisesRegex(tapedeck.Error, "x.npy"):
            tapedeck.Run(place)["x"].array()
        again = subprocess.run([PROGRAM, "push", moved, self.url + "&tensors=database"], capture_output=True, text=True, check=True)
        self.assertIn("#a: 2 records", again.stdout)
        np.testing.assert_array_equal(tapedeck.Run(place)["x"].array(), expected)
        self.server.sql("UPDATE tapedeck.file_piece SET path = '../out.npy' WHERE path = 'x.npy'")
        refused = subprocess.run([PROGRAM, "pull", place, self.path + "-other"], capture_output=True, text=True, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("../out.npy is no file of a run", refused.stderr)
        self.assertFalse(os.path.exists(os.path.join(os.path.dirname(self.path), "out.npy")))
        with self.assertRaisesRegex(tapedeck.Error, "tensors=database is all"):
            tapedeck.Deck(self.path, store=self.url + "&tensors=some")

    def test_the_environment_names_the_store(self):
        os.environ["TAPEDECK_STORE"] = self.url
        self.addCleanup(os.environ.pop, "TAPEDECK_STORE")
        with tapedeck.Deck(self.path) as deck:
            deck.log(loss=1.0, step=1)
        self.assertEqual(tapedeck.Run(self.url + "#a").state, "finished")

    def test_a_deck_that_goes_on_replaces_what_it_did(self):
        with tapedeck.Deck(self.path, store=self.url) as deck:
            for step in range(1, 2001):
                deck.log(loss=float(step), step=step)
        with tapedeck.Deck(self.path, store=self.url, resume=1500, discard=True) as deck:
            for step in range(1501, 1701):
                deck.log(loss=-float(step), step=step)
        self.assertEqual(self.server.sql("SELECT count(*), sum(value), max(step) FROM tapedeck.metric WHERE signal = 'loss'"),
                         [["1700", str(sum(range(1501)) - sum(range(1501, 1701))), "1700"]])
        self.compare(tapedeck.Run(self.path), tapedeck.Run(self.url + "#a"))

    def test_ranks_write_side_by_side(self):
        writers = [subprocess.Popen([sys.executable, "-c", WRITE, self.path, self.url], env=dict(
            os.environ, RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank), TAPEDECK_RUN="job")) for rank in range(3)]
        self.assertEqual([writer.wait(100) for writer in writers], [0] * 3)
        self.assertEqual(self.server.sql("SELECT name, part FROM tapedeck.run ORDER BY part"),
                         [["a", f"rank-0000{i}"] for i in range(3)])
        run, own = tapedeck.Run(self.url + "#a"), tapedeck.Run(self.path)
        self.compare(own, run)
        self.assertEqual([(r["rank"], r["state"], r["last_step"]) for r in run.ranks], [(i, "finished", 59) for i in range(3)])
        self.assertEqual(repr(run["loss"].spread().tolist()), repr(own["loss"].spread().tolist()))
        self.compare(tapedeck.Run(self.path, rank=1), tapedeck.Run(self.url + "#a", rank=1))
        for command in (["show"], ["show", "loss", "--spread"], ["runs"]):
            of = [subprocess.run([PROGRAM, command[0], place, *command[1:]], capture_output=True, text=True, check=False)
                  for place in ((self.path, self.url + "#a") if command[0] == "show" else (os.path.dirname(self.path), self.url))]
            self.assertEqual(of[0].stdout, of[1].stdout)
        again = subprocess.run([PROGRAM, "push", self.path, self.url], capture_output=True, text=True, check=True)
        self.assertIn("#a: 0 records", again.stdout)
        back = self.path + "-back"
        subprocess.run([PROGRAM, "pull", self.url + "#a", back], check=True, capture_output=True)
        self.compare(own, tapedeck.Run(back))


if __name__ == "__main__":
    unittest.main()
