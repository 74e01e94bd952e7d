"""Whole projects of examples/ beside the same in Keras: the numbers agree."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy
import pandas

PROGRAM = os.environ["TAPEDECK"]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


class Project(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)

    def path(self, *parts):
        return os.path.join(self.temporary.name, *parts)

    def run_program(self, *arguments, program=PROGRAM):
        done = subprocess.run([program, *arguments], cwd=self.temporary.name, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_time_series(self):
        for name in ("weather.py", "weather.yaml"):
            shutil.copy(os.path.join(EXAMPLES, "time_series", name), self.path(name))
        self.run_program("weather.py", program=sys.executable)
        # Every part of it that is random is taken out: the same first weights, the file's own order.
        self.run_program("train", "weather.yaml", "--quiet", "--set", "data.shuffle=false", "--set", "name=first", "--set", "train.steps=1",
                         "--set", "train.optimizer={sgd: {learning_rate: 1e-30}}")
        self.run_program("weights", "runs/first", "--to", "first.safetensors")
        self.run_program("train", "weather.yaml", "--quiet", "--set", "data.shuffle=false", "--set", "weights=first.safetensors")
        frame = pandas.read_csv(self.path("weather.csv"))
        rows, labels = frame[["wind", "temperature"]].to_numpy("float32"), frame["temperature"].to_numpy("float32")
        windows = numpy.stack([rows[i:i + 12] for i in range(len(rows) - 14)])
        targets = labels[14:]
        count = len(targets) - round(0.2 * len(targets))
        windows = (windows - windows[:count].mean((0, 1), "float64")) / windows[:count].std((0, 1), dtype="float64")
        targets = (targets - targets[:count].mean(dtype="float64")) / targets[:count].std(dtype="float64")
        model = keras.Sequential([keras.Input((12, 2)), keras.layers.LSTM(16), keras.layers.Dense(1)])
        self.run_program("weights", "runs/first", "--to", "first.npz")
        with numpy.load(self.path("first.npz")) as first:
            keys = {key.split("/")[-1].split(".")[-1] + key[:1]: key for key in first}
            model.set_weights([first[keys[key]] for key in ("kernelm", "recurrent_kernelm", "biasm", "kernelo", "biaso")])
        model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
        history = model.fit(windows[:count], targets[:count], 32, 4, shuffle=False, verbose=0,
                            validation_data=(windows[count:], targets[count:])).history
        ours = pandas.read_csv(self.path("runs", "weather", "metrics.csv"))
        for name in ("loss", "val_loss", "val_mae"):
            numpy.testing.assert_allclose(ours[name], history[name], rtol=1e-4, err_msg=name)
        found = json.loads(self.run_program("evaluate", "runs/weather", "weather.csv", "--json"))
        self.run_program("predict", "runs/weather", "weather.csv", "--to", "p.csv")
        predictions = pandas.read_csv(self.path("p.csv"))
        numpy.testing.assert_allclose(predictions["label"], labels[14:], rtol=1e-5)
        self.assertAlmostEqual(found["outputs"][0]["metrics"]["mae"], (predictions["value_0"] - labels[14:]).abs().mean(), 4)
        own = model.predict(windows, verbose=0)[:, 0] * labels[14:][:count].std() + labels[14:][:count].mean()
        self.assertLess(numpy.abs(own - predictions["value_0"]).max(), 0.1)


if __name__ == "__main__":
    unittest.main()
