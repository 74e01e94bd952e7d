"""What `tapedeck init` writes for ten public data sets trains without an edit, and predicts what it has not seen as well as
scikit-learn's logistic regression: over all sets at least as well, in none worse by more than three standard errors.
$TD_PACKAGES has the package pydataset, with data sets of R as CSV files."""
import glob
import io
import json
import os
import subprocess
import tarfile
import tempfile
import unittest

import numpy
import pandas
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

PROGRAM = os.environ["TAPEDECK"]
PACKAGES = os.environ["TD_PACKAGES"]
OF_R = {"MASS/biopsy": "class", "MASS/crabs": "sp", "MASS/fgl": "type", "COUNT/titanic": "survived",
        "Zelig/turnout": "vote", "datasets/infert": "education"}


def bundled(name):
    found = getattr(datasets, "load_" + name)()
    frame = pandas.DataFrame(found.data, columns=[str(n) for n in getattr(found, "feature_names")])
    frame["target"] = found.target if name == "digits" else [str(found.target_names[i]) for i in found.target]
    return frame, "target"


def of_r():
    """The CSV files of OF_R, by their names."""
    archive, = glob.glob(os.path.join(PACKAGES, "pydataset-*.tar.gz"))
    with tarfile.open(archive) as outer:
        inner = next(member for member in outer if member.name.endswith("resources.tar.gz"))
        with tarfile.open(fileobj=io.BytesIO(outer.extractfile(inner).read())) as files:
            for member in files:
                name = "/".join(member.name.removesuffix(".csv").split("/")[-2:])
                if member.name.endswith(".csv") and name in OF_R:
                    yield name.split("/")[1], pandas.read_csv(files.extractfile(member), index_col=0), OF_R[name]


def logistic(train, test, label):
    inputs = train.drop(columns=[label])
    numbers = [name for name in inputs if pandas.api.types.is_numeric_dtype(inputs[name])]
    texts = [name for name in inputs if name not in numbers]
    model = make_pipeline(make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), texts)),
        LogisticRegression(max_iter=5000))
    return model.fit(inputs, train[label]).score(test.drop(columns=[label]), test[label])


class Init(unittest.TestCase):
    def accuracy(self, train, test, label):
        with tempfile.TemporaryDirectory() as folder:
            def run(*arguments):
                done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout
            train.to_csv(os.path.join(folder, "data.csv"), index=False)
            test.to_csv(os.path.join(folder, "test.csv"), index=False)
            run("init", "data.csv", "--label", label)
            run("train", "data.yaml", "--quiet")
            return json.loads(run("evaluate", "runs/data", "test.csv", "--json"))["outputs"][0]["metrics"]["accuracy"]

    def test_ten_public_data_sets(self):
        sets = [(name, *bundled(name)) for name in ("iris", "wine", "breast_cancer", "digits")] + list(of_r())
        self.assertEqual(len(sets), 10)
        ours, theirs = [], []
        for name, frame, label in sets:
            frame = frame.dropna(subset=[label])
            train, test = train_test_split(frame, test_size=0.3, random_state=0, stratify=frame[label])
            ours.append(self.accuracy(train, test, label))
            theirs.append(logistic(train, test, label))
            error = numpy.sqrt(theirs[-1] * (1 - theirs[-1]) / len(test))
            print("%-14s %5d rows: init %.4f, logistic regression %.4f" % (name, len(frame), ours[-1], theirs[-1]))
            self.assertGreaterEqual(ours[-1], theirs[-1] - 3 * error, name)
        self.assertGreaterEqual(numpy.mean(ours), numpy.mean(theirs))


if __name__ == "__main__":
    unittest.main()
