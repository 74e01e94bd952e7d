"""tapedeck evaluate: its numbers are those of the predictions and the labels, worked out by numpy."""
import csv
import json
import os
import unittest

import numpy

from program import Case, SMALL


def write_rows(path, names, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write(",".join(names) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))


def f1(precision, recall):
    return numpy.divide(2 * precision * recall, precision + recall, out=numpy.zeros_like(precision),
                        where=precision + recall > 0)


class Evaluate(Case):
    def evaluate(self, *arguments, status=0):
        return self.run_program("evaluate", *arguments, status=status)

    def as_json(self, *arguments):
        found = json.loads(self.evaluate(*arguments, "--json").stdout)
        return found, found["outputs"][0]

    def predictions(self, *arguments):
        self.run_program("predict", *arguments, "--to", "p.npy", "--quiet", "--force")
        return numpy.load(self.path("p.npy")).astype(numpy.float64)

    def moons(self, seed=5):
        random = numpy.random.default_rng(seed)
        rows = random.normal(0, 1, (70, 2)).round(3)
        labels = (rows[:, 1] + random.normal(0, 0.7, 70) > 0.2).astype(int)
        write_rows(self.path("data.csv"), ("x1", "x2", "label"),
                   [(*row, label) for row, label in zip(rows, labels)])
        return labels

    def test_two_classes(self):
        self.train(SMALL, "--quiet")
        labels = self.moons()
        logits = self.predictions("runs/small", "data.csv", "--label", "label")
        found, output = self.as_json("runs/small", "data.csv", "--label", "label", "--batch", "16")
        shares = numpy.exp(logits - logits.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        said = logits.argmax(1)
        self.assertEqual((found["examples"], output["rows"], output["kind"]), (70, 70, "classes"))
        self.assertAlmostEqual(found["loss"], -numpy.log(shares[range(70), labels]).mean(), 5)
        metrics = output["metrics"]
        self.assertAlmostEqual(metrics["accuracy"], (said == labels).mean(), 12)
        confusion = numpy.zeros((2, 2), int)
        numpy.add.at(confusion, (labels, said), 1)
        self.assertEqual(output["confusion"], confusion.tolist())
        precision = confusion.diagonal() / confusion.sum(0)
        recall = confusion.diagonal() / confusion.sum(1)
        for name, want in (("precision", precision), ("recall", recall), ("f1", f1(precision, recall))):
            numpy.testing.assert_allclose([one[name] for one in output["classes"]], want, atol=1e-12)
            self.assertAlmostEqual(metrics[name + "_macro"], want.mean(), 12)
        self.assertAlmostEqual(metrics["f1_weighted"],
                               numpy.average(f1(precision, recall), weights=confusion.sum(1)), 12)
        score = logits[:, 1] - logits[:, 0]
        pairs = score[labels == 1][:, None] - score[labels == 0][None]
        self.assertAlmostEqual(metrics["roc_auc"], (pairs > 0).mean() + (pairs == 0).mean() / 2, 3)
        sure = shares.max(1)
        bins = numpy.minimum((sure * 10).astype(int), 9)
        gap = sum(abs(sure[bins == i].sum() - (said == labels)[bins == i].sum()) for i in range(10))
        self.assertAlmostEqual(metrics["calibration_error"], gap / 70, 5)
        self.assertEqual([one["examples"] for one in output["calibration"]],
                         numpy.bincount(bins, minlength=10).tolist())

    def test_one_output_for_two_classes(self):
        self.train(SMALL.replace("units: 2}", "units: 1}").replace("sparse_categorical", "binary"), "--quiet")
        labels = self.moons(8)
        logits = self.predictions("runs/small", "data.csv", "--label", "label").reshape(-1)
        found, output = self.as_json("runs/small", "data.csv", "--label", "label")
        self.assertAlmostEqual(output["metrics"]["accuracy"], ((logits > 0) == labels).mean(), 12)
        self.assertAlmostEqual(found["loss"], numpy.log1p(numpy.exp(numpy.where(labels, -logits, logits))).mean(), 5)
        self.assertEqual(len(output["classes"]), 2)
        text = self.evaluate("runs/small", "data.csv", "--label", "label").stdout
        self.assertIn("Confusion matrix", text)
        self.assertIn("roc_auc", text)

    def test_names_of_classes_and_files(self):
        random = numpy.random.default_rng(1)
        rows = [(*random.normal(k, 0.6, 2).round(3), name) for k, name in enumerate(("ant", "bee", '=cat,"x"')) for _ in range(20)]
        with open(self.path("animals.csv"), "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("a", "b", "animal"), *rows])
        self.train(SMALL.replace("generate: {two_moons: {examples: 90, noise: 0.1}}", "train: animals.csv\n  label: animal")
                   .replace("units: 2}", "units: 3}"), "--quiet")
        done = self.evaluate("runs/small", "animals.csv", "--to", "e.csv", "--to", "e.json", "--to", "e.png")
        self.assertIn("ant", done.stdout)
        with open(self.path("e.json"), encoding="utf-8") as file:
            found = json.load(file)["outputs"][0]
        self.assertEqual({one["name"] for one in found["classes"]}, {"ant", "bee", '=cat,"x"'})
        with open(self.path("e.csv"), encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        accuracy, = [row for row in table if row["measure"] == "accuracy" and row["part"] == "all"]
        self.assertEqual(float(accuracy["value"]), found["metrics"]["accuracy"])
        bees, = [row for row in table if row["part"] == "confusion" and (row["name"], row["measure"]) == ("bee", "bee")]
        names = [one["name"] for one in found["classes"]]
        self.assertEqual(int(bees["value"]), found["confusion"][names.index("bee")][names.index("bee")])
        with open(self.path("e.png"), "rb") as file:
            self.assertEqual(file.read(8), b"\x89PNG\r\n\x1a\n")
        self.evaluate("runs/small", "animals.csv", "--to", "e.csv", "--to", "e.json", "--quiet")  # ours: replaced
        self.assertIn("--force", self.evaluate("runs/small", "animals.csv", "--to", "e.png", status=1).stderr)

    def numbers(self):
        random = numpy.random.default_rng(3)
        x = random.normal(0, 1, (60, 3)).round(4)
        y = numpy.stack([x @ [3, -2, 1] * 50 + 400, x @ [0, 1, 1] * 0.1], 1) + random.normal(0, 0.01, (60, 2))
        numpy.save(self.path("x.npy"), x.astype(numpy.float32))
        numpy.save(self.path("y.npy"), y.astype(numpy.float32))
        self.train("name: line\nthreads: 1\ndata: {train: x.npy, labels: y.npy, standardize_labels: true, batch: 20}\n"
                   "model:\n  - dense: {name: out, units: 2}\n"
                   "train: {loss: mse, optimizer: {adam: {learning_rate: 0.05}}, epochs: 20}\n", "--quiet")
        return y.astype(numpy.float32).astype(numpy.float64)

    def test_numbers_have_the_labels_unit(self):
        y = self.numbers()
        said = self.predictions("runs/line", "x.npy")
        found, output = self.as_json("runs/line", "x.npy", "--labels", "y.npy", "--batch", "7")
        residuals = said - y
        deviation = y.std(0)
        r2 = 1 - (residuals ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)
        self.assertEqual(output["kind"], "values")
        for name, want in (("mae", abs(residuals).mean()), ("mse", (residuals ** 2).mean()),
                           ("rmse", (residuals ** 2).mean() ** 0.5), ("r2", r2.mean()), ("max_error", abs(residuals).max())):
            with self.subTest(name):
                numpy.testing.assert_allclose(output["metrics"][name], want, rtol=1e-4)
        numpy.testing.assert_allclose(found["loss"], ((residuals / deviation) ** 2).mean(), rtol=1e-3)
        for k, value in enumerate(output["values"]):
            self.assertEqual(value["name"], f"value_{k}")
            numpy.testing.assert_allclose(
                [value[name] for name in ("mae", "r2", "residual_mean", "residual_std", "residual_min", "residual_max")],
                [abs(residuals[:, k]).mean(), r2[k], residuals[:, k].mean(), residuals[:, k].std(), residuals[:, k].min(),
                 residuals[:, k].max()], rtol=1e-3, atol=1e-4)
        self.assertIn("residuals", self.evaluate("runs/line", "x.npy", "--labels", "y.npy").stdout)
        self.assertIn("classes", self.evaluate("runs/line", "x.npy", "--labels", "y.npy", "--to", "e.png", status=1).stderr)
        self.assertFalse(self.exists("e.png"))

    def test_tags(self):
        random = numpy.random.default_rng(4)
        x = random.normal(0, 1, (50, 3)).astype(numpy.float32)
        y = (x + random.normal(0, 0.5, x.shape) > [0, 0.5, 9]).astype(numpy.float32)  # the last tag is never there
        numpy.save(self.path("x.npy"), x)
        numpy.save(self.path("y.npy"), y)
        self.train("name: tags\nthreads: 1\ndata: {train: x.npy, labels: y.npy}\nmodel:\n  - dense: {name: out, units: 3, activation: sigmoid}\n"
                   "train: {loss: binary_crossentropy, epochs: 5}\n", "--quiet")
        said = self.predictions("runs/tags", "x.npy") > 0.5
        _, output = self.as_json("runs/tags", "x.npy", "--labels", "y.npy")
        right = (said & (y > 0)).sum(0)
        self.assertEqual(output["kind"], "tags")
        self.assertAlmostEqual(output["metrics"]["binary_accuracy"], (said == y).mean(), 12)
        self.assertAlmostEqual(output["metrics"]["f1_micro"], 2 * right.sum() / (said.sum() + y.sum()), 12)
        self.assertEqual([one["right"] for one in output["classes"]], right.tolist())
        self.assertIsNone(output["confusion"])

    def test_what_is_not_finite_counts_as_wrong(self):
        self.train(SMALL.replace("tanh", "relu"), "--quiet")
        write_rows(self.path("data.csv"), ("x1", "x2", "label"), [(0.1, 0.2, 0), (3e38, 3e38, 1), (-3e38, 3e38, 1), (0.3, -1, 1)])
        done = self.evaluate("runs/small", "data.csv", "--label", "label", "--json")
        output = json.loads(done.stdout)["outputs"][0]
        self.assertGreater(output["not_finite"], 0)
        self.assertEqual(sum(map(sum, output["confusion"])) + output["not_finite"], 4)
        self.assertLessEqual(output["metrics"]["accuracy"], (4 - output["not_finite"]) / 4)
        self.assertIn("NaN or infinite", done.stderr)

    def test_mistakes(self):
        self.train(SMALL, "--quiet")
        self.moons()
        write_rows(self.path("bare.csv"), ("x1", "x2"), [(1, 2), (3, 4)])
        for arguments, status, text in (
                ((), 2, "expected MODEL and DATA"),
                (("runs/small", "bare.csv"), 1, "label"),
                (("runs/small", "data.csv", "--label", "label", "--to", "e.txt"), 1, ".json"),
                (("runs/small", "data.csv", "--label", "label", "--to", "data.csv"), 1, "data.csv"),
                (("runs/small", "data.csv", "--label", "label", "--to", "a.csv", "--to", "a.csv"), 2, "twice"),
                (("runs/small", "data.csv", "--label", "label", "--to", "-", "--json"), 2, "standard output"),
                (("runs/small", "data.csv", "--label", "label", "--loss", "mze"), 1, "mze"),
                (("runs/nothing", "data.csv"), 1, "runs/nothing")):
            with self.subTest(arguments):
                done = self.evaluate(*arguments, status=status)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(text, done.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith((".txt", ".json"))], [])
        piped = self.evaluate("runs/small", "data.csv", "--label", "label", "--to", "-").stdout
        self.assertTrue(piped.startswith("output,part,name,measure,value\n"))


if __name__ == "__main__":
    unittest.main()
