"""The CSV logs of Keras and Lightning are runs, with the values that they wrote."""
import csv
import os
import subprocess
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np

PROGRAM = os.environ["TAPEDECK"]


def values(run, signal):
    """By step, as tapedeck reads them."""
    done = subprocess.run([PROGRAM, "sql", run, f"select step, value from scalars where signal = '{signal}' order by step", "--csv"],
                          capture_output=True, text=True, check=True)
    return [(int(step), float(value)) for step, value in (line.split(",") for line in done.stdout.splitlines()[1:])]


class Logs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def test_keras(self):
        import keras
        path = os.path.join(self.folder, "training.log")
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(loss="mse", metrics=["mae"])
        data = np.random.default_rng(0).normal(size=(64, 3))
        history = model.fit(data, data[:, :1], epochs=4, verbose=0, validation_split=0.25, callbacks=[keras.callbacks.CSVLogger(path)])
        for name, wanted in history.history.items():
            read = values(path, name)
            self.assertEqual([step for step, _ in read], [0, 1, 2, 3])
            np.testing.assert_allclose([value for _, value in read], wanted, rtol=1e-12)

    def test_lightning(self):
        from lightning.pytorch.loggers import CSVLogger
        logger = CSVLogger(self.folder, name="logs")
        logger.log_hyperparams({"lr": 0.1, "net": {"layers": [1, 2]}})
        for step in range(6):
            logger.log_metrics({"loss": 1 / (step + 1), "epoch": step // 3}, step=step)
            if step % 3 == 2:
                logger.log_metrics({"val_loss": 2 / (step + 1), "epoch": step // 3}, step=step)
        logger.save()
        logger.finalize("success")
        with open(os.path.join(logger.log_dir, "metrics.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for name in ("loss", "val_loss"):
            self.assertEqual(values(logger.log_dir, name), [(int(row["step"]), float(row[name])) for row in rows if row[name]])
        self.assertEqual(len(values(logger.log_dir, "loss")), 6)
        done = subprocess.run([PROGRAM, "sql", logger.log_dir, "select key, value from config where key = 'lr'", "--csv"], capture_output=True,
                              text=True, check=True)
        self.assertEqual(done.stdout.splitlines()[1], "lr,0.1")


if __name__ == "__main__":
    unittest.main()
