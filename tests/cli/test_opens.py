"""A file that is read is opened once, whatever is asked of it."""
import gzip
import os
import re
import shutil
import subprocess
import unittest

import numpy

from program import Case, PROGRAM, SMALL, SOURCE

MODELS = os.path.join(SOURCE, "tests", "fixtures", "models")
OPENED = re.compile(r'openat\(([^,]+), "([^"]*)", ([A-Z_|]+)(?:, \d+)?\) = \d+')


def traceable():
    """Whether this machine lets a program be traced; a sandbox may not."""
    if not shutil.which("strace"):
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


@unittest.skipUnless(traceable(), "strace is not there, or may not trace")
class Opens(Case):
    def opens(self, *arguments):
        """How often each file was opened to be read, by the last part of its name."""
        environment = dict(self.environment(), TAPEDECK_CACHE="", ASAN_OPTIONS="detect_leaks=0",
                           LSAN_OPTIONS="detect_leaks=0")
        done = subprocess.run(["strace", "-f", "-e", "trace=openat", "-o", "trace", PROGRAM, *arguments],
                              cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout}\n{done.stderr}")
        counts = {}
        for _, name, flags in OPENED.findall(self.read("trace")):
            if flags.startswith("O_RDONLY") and "O_DIRECTORY" not in flags:
                name = os.path.basename(name)
                counts[name] = counts.get(name, 0) + 1
        return counts

    def check_once(self, names, *arguments):
        counts = self.opens(*arguments)
        self.assertEqual({name: counts.get(name, 0) for name in names}, {name: 1 for name in names}, arguments)

    def copy(self, *parts):
        shutil.copy(os.path.join(MODELS, *parts), self.folder)
        return parts[-1]

    def check_model(self, model, data):
        self.check_once([model], "inspect", model)
        self.check_once([model], "weights", model, "--to", "w.npz")
        self.check_once([model, data], "predict", model, data, "--to", "out.npy")

    def test_onnx(self):
        for stem in ("mlp_9", "cnn_13", "open_11", "batch_of_2"):  # open_11: axes of any size
            with self.subTest(stem):
                self.check_model(self.copy("onnx", stem + ".onnx"), self.copy("onnx", stem + ".input.npy"))

    def test_gradients(self):
        model, data, labels = (self.copy("onnx", "mlp_9" + ending) for ending in (".onnx", ".input.npy", ".output.npy"))
        self.check_once([model, data, labels], "gradients", model, data, "--labels", labels, "--loss", "mse")

    def test_keras(self):
        for stem, ending in (("images", ".keras"), ("graph", ".h5")):
            with self.subTest(stem):
                self.check_model(self.copy("keras", stem + ending), self.copy("keras", stem + ".input.npy"))

    def test_tflite_and_exported(self):
        for kind, stem, ending in (("exported", "images", ".pt2"), ("tflite", "images_float32", ".tflite")):
            with self.subTest(kind):
                self.check_model(self.copy(kind, stem + ending), self.copy(kind, stem + ".x.npy"))

    def test_graphs_by_the_names_of_their_inputs(self):
        model = self.copy("exported", "several.pt2")
        arguments = self.check_named(model, os.path.join(MODELS, "exported", "several.npz"), {"x": "x/input"})
        files = [model] + [a.split("=")[1] for before, a in zip(arguments, arguments[1:]) if before == "--input"]
        self.check_once(files, "predict", model, *arguments)

    def test_a_run(self):
        self.write_table("data.csv")
        self.write("e.yaml", self.experiment())
        self.run_program("train", "e.yaml", "--quiet")
        for command in (("inspect",), ("weights", "--to", "w.csv")):
            self.check_once(["model.safetensors"], command[0], "runs/small", *command[1:])
        for command in (("predict", "--to", "out.csv"), ("gradients",)):
            self.check_once(["model.safetensors", "data.csv"], command[0], "runs/small", "data.csv", *command[1:])

    def write_table(self, name):
        numbers = numpy.random.default_rng(1).normal(size=(60, 2))
        rows = "".join("%r,%r,%s\n" % (float(a), float(b), "below" if a < b else "above") for a, b in numbers)
        self.write(name, "a,b,side\n" + rows)

    def experiment(self):
        return SMALL.replace("generate: {two_moons: {examples: 90, noise: 0.1}}", "train: data.csv\n  label: side")

    def test_training(self):
        self.write_table("data.csv")
        self.write("e.yaml", self.experiment())
        self.check_once(["e.yaml", "data.csv"], "train", "e.yaml")

    def test_data_sets_of_every_format(self):
        inputs = numpy.random.default_rng(1).normal(size=(60, 2)).astype("float32")
        labels = (inputs[:, 0] < inputs[:, 1]).astype("int32")
        numpy.save(self.path("x.npy"), inputs)
        numpy.save(self.path("y.npy"), labels)
        numpy.savez(self.path("both.npz"), x=inputs, y=labels)
        self.write_table("data.csv")
        with gzip.open(self.path("packed.csv.gz"), "wb") as file:
            file.write(self.bytes("data.csv"))
        with gzip.open(self.path("packed.npy.gz"), "wb") as file:
            file.write(self.bytes("x.npy"))
        for data, files in (("train: x.npy\n  labels: y.npy", ["x.npy", "y.npy"]), ("train: both.npz", ["both.npz"]),
                            ("train: packed.npy.gz\n  labels: y.npy", ["packed.npy.gz", "y.npy"]),
                            ("train: packed.csv.gz\n  label: side", ["packed.csv.gz"]),
                            ("train: data.csv\n  label: a\n  label_kind: values\n  categories: [side]", ["data.csv"])):
            with self.subTest(data):
                text = self.experiment().replace("train: data.csv\n  label: side", data)
                if "values" in data:
                    text = (text.replace("loss: sparse_categorical_crossentropy\n  from_logits: true", "loss: mse")
                            .replace("metrics: [accuracy]", "metrics: [mae]").replace("units: 2", "units: 1"))
                self.write("e.yaml", text)
                self.check_once(files, "train", "e.yaml", "--quiet")


if __name__ == "__main__":
    unittest.main()
