"""Whole projects of examples/ beside the same in Keras or scikit-learn: the numbers agree."""
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
from PIL import Image
from sklearn.linear_model import LogisticRegression

PROGRAM = os.environ["TAPEDECK"]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
OWN_LOOP = os.path.join(os.environ["TD_BUILD"], "examples", "own_loop")
LOSSES = {"classes": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "pixels": keras.losses.BinaryCrossentropy(from_logits=True),
          "values": "mse"}


class Project(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        shutil.copytree(os.path.join(EXAMPLES, "data"), self.path("data"))

    def path(self, *parts):
        return os.path.join(self.temporary.name, *parts)

    def run_program(self, *arguments, program=PROGRAM):
        done = subprocess.run([program, *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def project(self, name, script=None):
        """A copy of a project, with its data."""
        self.folder = self.path(name)
        shutil.copytree(os.path.join(EXAMPLES, name), self.folder)
        if script:
            self.run_program(script, program=sys.executable)

    def train(self, file, name, *settings):
        """Everything random but the first weights and the validation part is taken out: the file's own order. The rows of
        the validation part are recorded. Returns the model in Keras as it was before, and the metrics."""
        plain = ["--set", "data.shuffle=false", *(word for setting in settings for word in ("--set", setting))]
        self.run_program("train", file, "--quiet", *plain, "--set", "name=first", "--set", "train.steps=1", "--set", "record=[]",
                         "--set", "train.optimizer={sgd: {learning_rate: 1e-30}}")
        self.run_program("weights", "runs/first", "--to", "first.keras")
        self.run_program("weights", "runs/first", "--to", "first.safetensors")
        again = [] if any(setting.startswith("model") for setting in settings) else ["--set", "weights=first.safetensors"]
        self.run_program("train", file, "--quiet", *plain, *again, "--set", "record=[]", "--set",
                         "record.0={what: prediction, every: 1 epoch, form: rows, to: [csv]}", "--set",
                         f"record.1={{what: [{', '.join(self.metrics)}], every: 1 epoch, to: [csv]}}")
        predicted = pandas.read_csv(os.path.join(self.folder, "runs", name, "predictions.csv"))
        self.validation = predicted[predicted.epoch == predicted.epoch.max()]["sample"].to_numpy()
        return keras.models.load_model(os.path.join(self.folder, "first.keras")), pandas.read_csv(
            os.path.join(self.folder, "runs", name, "metrics.csv"))

    def beside_keras(self, model, ours, x, y, batch, rate, kind, tolerance=2e-4):
        """Keras's fit from the same weights with the same rows in the same order."""
        count = len(y)
        training = numpy.setdiff1d(numpy.arange(count), self.validation)
        part = lambda rows: [array[rows] for array in x] if isinstance(x, list) else x[rows]  # noqa: E731
        metrics = [name for name in self.metrics if "loss" not in name and not name.startswith("val_")]
        model.compile(keras.optimizers.Adam(rate), LOSSES[kind], metrics=metrics)
        history = model.fit(part(training), y[training], batch, int(ours.epoch.max()), shuffle=False, verbose=0,
                            validation_data=(part(self.validation), y[self.validation])).history
        for name in self.metrics:
            numpy.testing.assert_allclose(ours[name], history[name], rtol=tolerance, atol=tolerance, err_msg=name)

    def test_tabular(self):
        self.project("tabular", "customers.py")
        self.metrics = ["loss", "accuracy", "val_loss", "val_accuracy"]
        model, ours = self.train("customers.yaml", "customers")
        frame = pandas.read_csv(os.path.join(self.folder, "customers.csv"))
        y = (frame["churn"] == "yes").to_numpy("int32")
        training = numpy.setdiff1d(numpy.arange(len(y)), self.validation)
        names = [name["name"] if isinstance(name, dict) else name for name in json.loads(self.run_program("inspect", "runs/customers", "--json"))["inputs"]]
        columns = [(frame[name.split("=")[0]] == name.split("=")[1]).astype("float64") if "=" in name else frame[name] for name in names]
        x = numpy.stack([column.to_numpy("float64") for column in columns], 1)
        x = numpy.where(numpy.isnan(x), numpy.nanmean(x[training], 0), x)
        x = ((x - x[training].mean(0)) / x[training].std(0)).astype("float32")
        self.beside_keras(model, ours, x, y, 32, 0.01, "classes")
        simple = LogisticRegression().fit(x[training], y[training]).score(x[self.validation], y[self.validation])
        self.assertGreater(ours["val_accuracy"].max(), simple - 0.02)

    def test_prices(self):
        self.project("prices", "houses.py")
        self.metrics = ["loss", "mae", "val_loss", "val_mae"]
        model, ours = self.train("houses.yaml", "houses", "train.early_stopping=null", "train.epochs=6")
        frame = pandas.read_csv(os.path.join(self.folder, "houses.csv")).to_numpy("float64")
        training = numpy.setdiff1d(numpy.arange(len(frame)), self.validation)
        scaled = ((frame - frame[training].mean(0)) / frame[training].std(0)).astype("float32")
        self.beside_keras(model, ours, scaled[:, :-1], scaled[:, -1:], 32, 0.01, "values", 1e-3)

    def test_images(self):
        self.project("images", "shapes.py")
        self.metrics = ["loss", "accuracy", "val_loss", "val_accuracy"]
        model, ours = self.train("shapes.yaml", "shapes", "data.augment=null", "train.epochs=6")
        paths = [(kind, f"{number:03}.png") for kind in ("circle", "square", "triangle") for number in range(150)]
        x = numpy.stack([numpy.asarray(Image.open(os.path.join(self.folder, "shapes", *path))) for path in paths])
        x = (x.astype("float32") * numpy.float32(1 / 255))[..., None]
        self.beside_keras(model, ours, x, numpy.repeat([0, 1, 2], 150), 20, 0.01, "classes")

    def test_u_net(self):
        self.project("u_net", "spots.py")
        self.metrics = ["loss", "val_loss"]  # Keras compares a logit itself with 0.5: see Thresholds in docs/experiment.md
        model, ours = self.train("spots.yaml", "spots", "train.epochs=3")
        x, y = (numpy.load(os.path.join(self.folder, name)) for name in ("spots.npy", "masks.npy"))
        self.beside_keras(model, ours, x, y, 16, 0.005, "pixels", 1e-3)

    def test_two_inputs(self):
        self.project("two_inputs", "meters.py")
        self.metrics = ["loss", "mae", "val_loss", "val_mae"]
        model, ours = self.train("meters.yaml", "meters", "train.epochs=6")
        with numpy.load(os.path.join(self.folder, "meters.npz")) as data:
            x, y = [data["curve"], data["facts"]], data["energy"]
        self.beside_keras(model, ours, x, y, 32, 0.01, "values", 1e-3)

    def test_fine_tuning(self):
        self.project("fine_tuning", "split.py")
        self.run_program("train", "base.yaml", "--quiet")
        self.metrics = ["loss", "accuracy", "val_loss", "val_accuracy"]
        model, ours = self.train("tuned.yaml", "tuned", "model.file=runs/base")
        data = numpy.loadtxt(os.path.join(self.folder, "high.csv"), delimiter=",", dtype="float32")
        for layer in model.layers:
            layer.trainable = not layer.name.startswith("conv")
        before = [array.copy() for array in model.layers[0].get_weights()]
        self.beside_keras(model, ours, data[:, :-1].reshape(-1, 8, 8, 1) * 0.0625, data[:, -1].astype("int32"), 10, 0.003, "classes", 1e-3)
        with numpy.load(self.weights("runs/tuned")) as after:
            for name, array in zip(("conv1.kernel", "conv1.bias"), before):
                numpy.testing.assert_array_equal(next(after[key] for key in after if key.replace("/", ".") == name), array)

    def weights(self, run):
        self.run_program("weights", run, "--to", "weights.npz")
        return os.path.join(self.folder, "weights.npz")

    def test_sweep(self):
        self.project("sweep")
        self.run_program("sweep", "digits.yaml", "--random", "train.optimizer.adam.learning_rate=log(1e-4,1e-1)", "--random",
                         "model.0.dense.units=int(8,64)", "-n", "20", "--halving", "--jobs", "2", "--quiet")
        table = pandas.read_csv(os.path.join(self.folder, "runs", "digits-sweep", "table.csv"))
        self.assertEqual((len(table), list(table["epochs"].value_counts().items())), (20, [(1, 14), (3, 4), (9, 2)]))
        best = table.iloc[0]
        metrics = pandas.read_csv(os.path.join(self.folder, "runs", "digits-sweep", best.trial, "metrics.csv"))
        self.assertEqual(metrics["val_loss"].min(), best.val_loss)
        self.metrics = ["loss", "accuracy", "val_loss", "val_accuracy"]
        rate = best["train.optimizer.adam.learning_rate"]
        data = numpy.loadtxt(os.path.join(self.path("data"), "digits.csv.gz"), delimiter=",", dtype="float32")
        model, ours = self.train("digits.yaml", "digits", f"train.optimizer.adam.learning_rate={rate}")
        self.beside_keras(model, ours, data[:, :-1] * 0.0625, data[:, -1].astype("int32"), 32, rate, "classes", 2e-3)

    def test_own_loop(self):
        self.folder = self.path()
        self.run_program(self.path("data", "digits.csv.gz"), "last", "own", program=OWN_LOOP)
        self.run_program("weights", "own/first.safetensors", "--to", "first.keras")
        model = keras.models.load_model(self.path("first.keras"))
        model.compile(keras.optimizers.Adam(0.01), LOSSES["classes"])
        data = numpy.loadtxt(self.path("data", "digits.csv.gz"), delimiter=",", dtype="float32")
        order = pandas.read_csv(self.path("own", "hidden.error.csv"), usecols=["step", "sample"])
        ours = pandas.read_csv(self.path("own", "metrics.csv"))
        theirs = [float(model.train_on_batch(data[rows, :-1], data[rows, -1].astype("int32")))
                  for rows in order.groupby("step")["sample"].apply(numpy.array)[:100]]
        numpy.testing.assert_allclose(ours["loss"][:100], theirs, rtol=1e-3)
        self.assertEqual(len(ours), 5 * 57)
    def test_time_series(self):
        self.folder = self.path()
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
