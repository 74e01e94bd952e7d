"""`tapedeck evaluate` against Keras's `evaluate` and scikit-learn's metrics, of models that Keras saved."""
import json
import os
import subprocess
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy
import pandas
from sklearn import datasets, metrics

PROGRAM = os.environ["TAPEDECK"]


class Evaluate(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        keras.utils.set_random_seed(3)

    def path(self, name):
        return os.path.join(self.temporary.name, name)

    def fit(self, layers, loss, measures, inputs, labels):
        """A model after two epochs, saved; Keras's own evaluation, and its outputs."""
        model = keras.Sequential([keras.Input(inputs.shape[1:]), *layers])
        model.compile("adam", loss, metrics=measures)
        model.fit(inputs, labels, epochs=2, verbose=0)
        model.save(self.path("model.keras"))
        self.model = model
        return model.evaluate(inputs, labels, verbose=0, return_dict=True), model.predict(inputs, verbose=0)

    def ours(self, inputs, labels, *arguments):
        frame = pandas.DataFrame(inputs)
        frame.columns = [f"x{i}" for i in range(inputs.shape[1])]
        names = []
        for i, column in enumerate(numpy.atleast_2d(labels.T)):
            names.append(f"y{i}")
            frame[names[-1]] = column
        frame.to_csv(self.path("data.csv"), index=False)
        done = subprocess.run([PROGRAM, "evaluate", "model.keras", "data.csv", "--label", names[0], *arguments, "--json"],
                              cwd=self.temporary.name, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        return found, found["outputs"][0]

    def test_classes(self):
        data = datasets.load_wine()
        inputs = ((data.data - data.data.mean(0)) / data.data.std(0)).astype("float32")
        theirs, outputs = self.fit([keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")],
                                   "sparse_categorical_crossentropy", ["accuracy"], inputs, data.target)
        found, output = self.ours(inputs, data.target)
        self.assertAlmostEqual(found["loss"], theirs["loss"], 5)
        self.assertAlmostEqual(output["metrics"]["accuracy"], theirs["accuracy"], 6)
        said = outputs.argmax(1)
        self.assertEqual(output["confusion"], metrics.confusion_matrix(data.target, said).tolist())
        table = metrics.precision_recall_fscore_support(data.target, said, zero_division=0)
        for name, column in zip(("precision", "recall", "f1"), table):
            numpy.testing.assert_allclose([one[name] for one in output["classes"]], column, atol=1e-12)
        for name, average in (("f1_macro", "macro"), ("f1_weighted", "weighted")):
            self.assertAlmostEqual(output["metrics"][name], metrics.f1_score(data.target, said, average=average), 9)

    def test_two_classes(self):
        data = datasets.load_breast_cancer()
        inputs = ((data.data - data.data.mean(0)) / data.data.std(0)).astype("float32")
        theirs, outputs = self.fit([keras.layers.Dense(4, "relu"), keras.layers.Dense(1, "sigmoid")],
                                   "binary_crossentropy", ["accuracy"], inputs, data.target)
        found, output = self.ours(inputs, data.target)
        self.assertAlmostEqual(found["loss"], theirs["loss"], 5)
        self.assertAlmostEqual(output["metrics"]["accuracy"], theirs["accuracy"], 6)
        # An order of outputs turns on their last bits: scikit-learn's, of our own outputs, is the same number.
        self.assertAlmostEqual(output["metrics"]["roc_auc"], metrics.roc_auc_score(data.target, outputs[:, 0]), 3)
        subprocess.run([PROGRAM, "predict", "model.keras", "data.csv", "--label", "y0", "--to", "p.npy", "--quiet"], cwd=self.temporary.name, check=True)
        own = numpy.load(self.path("p.npy"))[:, 0]
        numpy.testing.assert_allclose(own, outputs[:, 0], atol=1e-5)
        self.assertAlmostEqual(output["metrics"]["roc_auc"], metrics.roc_auc_score(data.target, own), 9)
        self.assertEqual(output["confusion"], metrics.confusion_matrix(data.target, outputs[:, 0] > 0.5).tolist())

    def test_values(self):
        data = datasets.load_diabetes()
        inputs, labels = (data.data * 20).astype("float32"), (data.target / 100).astype("float32")
        theirs, outputs = self.fit([keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)], "mse", ["mae"], inputs, labels)
        found, output = self.ours(inputs, labels)
        self.assertAlmostEqual(found["loss"], theirs["loss"], 5)
        said = outputs[:, 0]
        for name, value in (("mae", theirs["mae"]), ("mae", metrics.mean_absolute_error(labels, said)),
                            ("mse", metrics.mean_squared_error(labels, said)), ("r2", metrics.r2_score(labels, said)),
                            ("rmse", metrics.root_mean_squared_error(labels, said)),
                            ("max_error", metrics.max_error(labels, said))):
            self.assertAlmostEqual(output["metrics"][name], value, 4, name)


if __name__ == "__main__":
    unittest.main()
