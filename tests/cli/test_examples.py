"""The examples as their READMEs run them, shortened: the files, columns and statements that are shown there."""
import glob
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import unittest

import numpy
import pandas

from program import SOURCE, Case

EXAMPLES = os.path.join(SOURCE, "examples")


class Example(Case):
    """A copy of the example's folder is where its commands run; the shipped digits lie beside it."""
    example = ""

    def setUp(self):
        super().setUp()
        root = self.folder
        os.symlink(os.path.join(EXAMPLES, "data"), os.path.join(root, "data"))
        if self.example:
            self.folder = os.path.join(root, self.example)
            shutil.copytree(os.path.join(EXAMPLES, self.example), self.folder,
                            ignore=shutil.ignore_patterns("runs", "data", "*.npy", "*.npz"))

    def run_example(self, name, *settings):
        arguments = [part for setting in settings for part in ("--set", setting)]
        return self.run_program("train", name + ".yaml", *arguments).stdout

    def script(self, *arguments):
        return subprocess.run([sys.executable, *arguments], cwd=self.folder, check=True,
                              capture_output=True, text=True).stdout

    def table(self, run, name):
        return pandas.read_csv(self.path("runs", run, name))

    def array(self, run, name):
        return numpy.load(self.path("runs", run, name + ".npy"), mmap_mode="r")

    def query(self, run, sql):
        database = sqlite3.connect(f"file:{self.path('runs', run, 'run.db')}?mode=ro", uri=True)
        self.addCleanup(database.close)
        return database.execute(sql).fetchall()


class AllExamples(Example):
    def test_each_folder_says_what_it_answers_and_how_its_files_are_run(self):
        for folder in sorted(glob.glob(os.path.join(EXAMPLES, "[0m][0n]*", ""))):
            with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
                text = file.read()
            for path in glob.glob(os.path.join(folder, "*.yaml")):
                self.assertIn(os.path.basename(path), text)

    def test_demo_records_to_every_kind_of_file(self):
        self.run_program("train", os.path.join(EXAMPLES, "demo", "demo.yaml"), "--set",
                         "train.epochs=3", "--quiet")
        names = os.listdir(self.path("runs", "demo"))
        for name in ("metrics.csv", "stats.csv", "hidden.error.csv", "conv1.output.npy",
                     "conv1.output.steps.npy", "images", "run.db", "model.safetensors"):
            self.assertIn(name, names)
        self.assertTrue(any(name.startswith("events.out.tfevents.") for name in names))


class LayerErrors(Example):
    example = "000-layer-errors"
    SHORT = ("data.generate.adding.examples=1000", "train.epochs=2")

    def test_errors_over_time_tell_the_two_networks_apart(self):
        reach = {}
        for name in ("simple_rnn", "lstm"):
            page = self.run_example(name, *self.SHORT)
            self.assertRegex(page, r"(?m)^  first +[▁▂▃▄▅▆▇█]+  ")
            error = self.array(name, "first.error")
            self.assertEqual(error.shape, (2, 50, 50, 24))
            norms = numpy.sqrt(numpy.square(error[-1], dtype="float64").sum(axis=(0, 2)))
            reach[name] = norms[0] / norms[-1]
        self.assertLess(reach["simple_rnn"], 1e-9)
        self.assertGreater(reach["lstm"], 1e-7)
        shown = self.script("over_time.py", "runs/simple_rnn", "runs/lstm").splitlines()
        self.assertEqual(len(shown), 6)
        self.assertRegex(shown[1], r"^  step    18( +\d\.\de-\d\d){6}$")

    def test_errors_of_a_hidden_layer_as_rows(self):
        self.run_example("lstm", *self.SHORT)
        errors = self.table("lstm", "second.error.csv")
        self.assertEqual(list(errors),
                         ["epoch", "step", "sample"] + [f"error_{i}" for i in range(24)])
        self.assertEqual(list(errors.step), [18] * 50 + [36] * 50)
        self.assertEqual(set(self.table("lstm", "stats.csv").signal),
                         {"first.error", "second.error", "sum.error"})
        self.assertEqual([row[0] for row in self.query("lstm", """
            SELECT name FROM stats JOIN signal ON id = signal GROUP BY name""")],
                         ["first.error", "second.error", "sum.error"])

    def test_a_layer_s_own_loss(self):
        self.script("running_sum.py")
        self.run_example("target", "train.epochs=2",
                         "record=[{what: sum.loss, target: running_sum.npy, to: csv},"
                         " {what: sum.output, form: tensor, to: npy}]", "data.shuffle=false")
        target = numpy.load(self.path("running_sum.npy"))
        loss = self.table("target", "metrics.csv")["sum.loss"]
        output = self.array("target", "sum.output")
        self.assertAlmostEqual(loss[0], numpy.mean((output[0] - target[:64]) ** 2), places=5)
        self.script("running_sum.py")
        self.run_example("target", "train.epochs=2", "name=shown")
        self.assertEqual(list(self.table("shown", "metrics.csv")),
                         ["epoch", "step", "loss", "sum.loss"])


class ResultsToCsv(Example):
    example = "001-results-to-csv"

    def test_metrics_predictions_weights_and_back(self):
        self.run_example("results")
        metrics = self.table("results", "metrics.csv")
        self.assertEqual(list(metrics), ["epoch", "step", "epoch_loss", "epoch_accuracy", "val_loss",
                                         "val_accuracy", "learning_rate"])
        self.assertEqual(list(metrics.epoch), list(range(1, 11)))
        self.assertGreater(metrics.val_accuracy.iloc[-1], 0.9)
        predictions = self.table("results", "predictions.csv")
        self.assertEqual(list(predictions), ["epoch", "step", "sample", "label", "class_0",
                                             "class_1", "class_2", "predicted"])
        self.assertEqual(len(predictions), 120)
        numpy.testing.assert_allclose(predictions.filter(like="class_").sum(axis=1), 1, atol=1e-5)
        self.run_program("weights", "runs/results", "--to", "weights.csv")
        weights = pandas.read_csv(self.path("weights.csv"))
        self.assertEqual(list(weights), ["layer", "parameter", "index", "value"])
        self.assertEqual(len(weights), 10 * 10 + 10 + 10 * 3 + 3)
        self.run_example("continued")
        continued = self.table("continued", "metrics.csv")
        self.assertLess(abs(continued.val_loss[0] - metrics.val_loss.iloc[-1]), 0.01)
        self.run_program("weights", "runs/continued", "--from", "weights.csv", "--to", "again.csv")
        self.assertEqual(self.read("again.csv"), self.read("weights.csv"))


class RecordingOutputs(Example):
    example = "002-recording-outputs"

    def test_a_sample_of_the_validation_part_to_terminal_csv_and_database(self):
        shown = self.run_example("digits", "train.epochs=4")
        self.assertIn("hidden.output (2, 32) float32", shown)
        printed = re.findall(r"(?m)^ +(\d+) +(\d) ( +[\d.e-]+){10}$", shown)
        table = self.table("digits", "predictions.csv")
        self.assertEqual(list(table), ["epoch", "step", "sample", "label"]
                         + [f"class_{i}" for i in range(10)] + ["predicted"])
        self.assertEqual([(int(row[0]), int(row[1])) for row in printed],
                         list(zip(table["sample"], table.label)))
        self.assertEqual(list(table.epoch), [2] * 10 + [4] * 10)
        self.assertEqual(self.query("digits", """
            SELECT step, sample, label, json_array_length(example.value)
              FROM example JOIN signal ON id = signal WHERE name = 'prediction'"""),
                         sorted(zip(table.step, table["sample"], table.label, [10] * 20)))
        self.assertTrue(glob.glob(self.path("runs", "digits", "events.out.tfevents.*")))

    def test_outputs_as_array_and_as_pictures(self):
        self.run_example("pictures", "train.epochs=1")
        self.run_program("predict", "runs/pictures", "../data/digits.csv.gz", "--to", "outputs.npy")
        outputs = numpy.load(self.path("outputs.npy"), mmap_mode="r")
        self.assertEqual((outputs.shape, outputs.dtype), ((1797, 8, 8, 1), numpy.float32))
        self.run_program("predict", "runs/pictures", "../data/digits.csv.gz", "--to", "pictures/")
        pictures = sorted(os.listdir(self.path("pictures")))
        self.assertEqual(len(pictures), 1797)
        png = self.bytes("pictures", pictures[0])
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual((int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")),
                         (8, 8))


class LayerGradients(Example):
    example = "003-layer-gradients"

    def test_error_and_gradients_of_one_convolution(self):
        shown = self.run_example("cnn", "train.epochs=1", "data.generate.images.examples=960")
        for name in ("conv2.error", "conv2.kernel.gradient", "conv2.bias.gradient"):
            self.assertRegex(shown, rf"(?m)^ +1 +15 .*  {name}$")
        self.assertIn("conv2.bias.gradient (64,) float32", shown)
        self.assertEqual(list(self.array("cnn", "conv2.error.steps")), [1, 15])
        self.assertEqual(self.array("cnn", "conv2.error").shape, (2, 64, 11, 11, 64))
        self.assertEqual(self.array("cnn", "conv2.kernel.gradient").shape, (2, 3, 3, 32, 64))
        # A bias is added everywhere: its gradient is the sum of the errors before the activation.
        self.assertEqual(self.array("cnn", "conv2.bias.gradient").shape, (2, 64))
        norms = self.table("cnn", "conv2.error.csv").norm
        self.assertAlmostEqual(norms[0], numpy.linalg.norm(self.array("cnn", "conv2.error")[0]), 5)

    def test_the_gradient_vanishes_through_sigmoids(self):
        first = {}
        for name in ("deep_sigmoid", "deep_relu"):
            page = self.run_example(name, "train.epochs=4")
            self.assertEqual(len(re.findall(r"(?m)^  (layer\d\d|logits) +[▁▂▃▄▅▆▇█]+  ", page)), 11)
            stats = self.table(name, "stats.csv").groupby("signal").norm.median()
            first[name] = stats["layer01.error"] / stats["layer10.error"]
        self.assertLess(first["deep_sigmoid"], 1e-4)
        self.assertGreater(first["deep_relu"], 1e-2)


class IntermediateTensors(Example):
    example = "004-intermediate-tensors"

    def test_interval_condition_and_history(self):
        self.run_example("inside", "train.epochs=4")
        self.assertEqual([row[0] for row in self.query("inside", """
            SELECT step FROM histogram JOIN signal ON id = signal
             WHERE name = 'layer1.output'""")], [100, 200])
        self.assertEqual(list(self.array("inside", "layer2.output.steps")), [100, 200])
        self.assertEqual(self.array("inside", "layer2.output").shape, (2, 32, 128))
        self.assertEqual(sorted(os.listdir(self.path("runs", "inside", "images", "layer2.output"))),
                         ["step-000100.png", "step-000200.png"])
        loss = self.table("inside", "metrics.csv").set_index("step").loss
        mean = loss.rolling(20, min_periods=1).mean()
        fired = list(loss.index[(loss > 0.4) & (loss > 3 * mean)])
        self.assertTrue(fired)
        self.assertEqual([row[0] for row in self.query(
            "inside", "SELECT step FROM event WHERE kind = 'trigger'")], fired)
        wanted = sorted({step for one in fired for step in range(one - 5, one + 1)})
        kept = [step for path in glob.glob(self.path("runs", "inside", "logits.output*.steps.npy"))
                for step in numpy.load(path)]
        self.assertEqual(sorted(kept), wanted)

    def test_what_a_full_queue_does(self):
        rows = {}
        for policy in ("block", "drop", "degrade"):
            self.run_example("queue", f"policy={policy}", f"name={policy}", "train.epochs=2",
                             "queue=1 MiB")
            counted = dict(self.query(policy, "SELECT kind, sum(count) FROM event GROUP BY kind"))
            self.assertFalse(set(counted) - {policy, "trigger"}, counted)
            steps = sum(self.table(policy, name + ".output.csv").step.nunique()
                        for name in ("layer1", "layer2", "logits")
                        if self.exists("runs", policy, name + ".output.csv"))
            rows[policy] = steps + counted.get(policy, 0)
            self.assertEqual(len(self.table(policy, "metrics.csv")), 16)
        self.assertEqual(rows["block"], 3 * 16)
        self.assertEqual(rows["drop"], 3 * 16)


class Mnist(Example):
    example = "mnist"

    def test_the_network_trains_on_idx_files(self):
        generator = numpy.random.default_rng(0)
        os.mkdir(self.path("data"))
        for name, count in (("train", 128), ("t10k", 64)):
            labels = generator.integers(0, 10, count).astype("uint8")
            images = (generator.random((count, 28, 28)) * 255).astype("uint8")
            with open(self.path("data", name + "-images-idx3-ubyte"), "wb") as file:
                file.write(bytes([0, 0, 8, 3]) + numpy.array([count, 28, 28], ">i4").tobytes())
                file.write(images.tobytes())
            with open(self.path("data", name + "-labels-idx1-ubyte"), "wb") as file:
                file.write(bytes([0, 0, 8, 1]) + numpy.array([count], ">i4").tobytes())
                file.write(labels.tobytes())
        self.run_example("mnist", "threads=1")
        predictions = self.table("mnist", "predictions.csv")
        self.assertEqual(list(predictions.label), list(labels))
        self.assertEqual(list(self.table("mnist", "metrics.csv").epoch), [1, 2, 3])


if __name__ == "__main__":
    unittest.main()
