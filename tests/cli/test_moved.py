"""A run's folder that is renamed while it trains: everything goes on in it, under its new name."""
import contextlib
import os
import sqlite3
import unittest

from program import Case, SMALL


class Moved(Case):
    def test_a_run_that_is_renamed_while_it_trains_is_complete(self):
        self.write("experiment.yaml", SMALL.replace("epochs: 4", "epochs: 400") +
                   "  checkpoint: {every: 1 epoch, best: loss}\n"
                   "record:\n  - {what: [loss, val_loss], to: [csv, tensorboard, sqlite]}\n"
                   "  - {what: hidden.output, every: 50 steps, form: tensor, to: [npy]}\n"
                   "  - {what: hidden.kernel, every: 500 steps, form: image, to: [png]}\n")
        process = self.start("train", "experiment.yaml")
        for line in process.stdout:
            if line.startswith("epoch   3/400"):
                os.rename(self.path("runs", "small"), self.path("moved"))
                break
        _, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, errors)
        self.assertRegex(errors, r"runs/small is called .*/moved now")
        self.assertEqual(os.listdir(self.path("runs")), [])
        for name in ("model.safetensors", "best.safetensors", "metrics.csv", "hidden.output.npy",
                     "images/hidden.kernel/step-002000.png", "checkpoints/step-000002000.safetensors"):
            self.assertTrue(self.exists("moved", name), name)
        self.assertFalse(self.exists("moved", "run.db-wal"))
        self.assertTrue(self.read("moved", "metrics.csv").splitlines()[-1].startswith("400,2000,"))
        with contextlib.closing(sqlite3.connect(self.path("moved", "run.db"))) as database, database:
            self.assertEqual(database.execute("SELECT value FROM run WHERE key = 'state'").fetchone(), ("finished",))
            self.assertEqual(database.execute("SELECT max(step) FROM scalar").fetchone(), (2000,))
        self.run_program("train", "--resume", "moved", "--set", "train.epochs=401")


if __name__ == "__main__":
    unittest.main()
