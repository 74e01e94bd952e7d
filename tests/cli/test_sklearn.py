"""Classifiers of scikit-learn, as skl2onnx writes them: scores in columns named by class, and which class it is."""
import csv
import glob
import json
import os
import shutil
import subprocess
import unittest

import numpy

from program import Case, PROGRAM, SOURCE

FIXTURES = os.path.join(SOURCE, "tests", "fixtures", "models", "sklearn")


class Classifiers(Case):
    def check(self, name):
        with open(os.path.join(FIXTURES, name + ".json")) as file:
            wanted = json.load(file)
        model = os.path.join(FIXTURES, name + ".onnx")
        self.run_program("predict", model, os.path.join(FIXTURES, name + ".input.npy"), "--to", "y.csv", "--quiet")
        with open(self.path("y.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        columns = ["class_" + c for c in wanted["classes"]]
        self.assertEqual(list(rows[0]), columns + ["predicted"])
        self.assertEqual([row["predicted"] for row in rows], wanted["predicted"])
        scores = [[float(row[c]) for c in columns] for row in rows]
        numpy.testing.assert_allclose(scores, wanted["scores"], rtol=1e-5, atol=1e-6)

    def test_classes_with_names(self):
        self.check("forest_names")

    def test_names_that_a_constant_has(self):
        self.check("mlp_names")

    def test_an_output_for_each_class(self):
        """As skl2onnx writes it with zipmap='columns'."""
        self.check("columns_names")
        self.check("columns_numbers")

    def test_an_output_for_each_class_without_names_of_classes(self):
        model = os.path.join(FIXTURES, "columns_unnamed")
        self.run_program("predict", model + ".onnx", os.path.join(FIXTURES, "columns_names.input.npy"), "--to", "y.csv",
                         "--quiet")
        self.assertEqual(self.read("y.csv").splitlines()[0], "class_scat,class_sdog,class_sowl,predicted")

    def test_outputs_that_are_other_columns_stay_outputs(self):
        """The second and third class alone: they are not the scores of all classes."""
        model = os.path.join(FIXTURES, "columns_some")
        self.run_program("predict", model + ".onnx", os.path.join(FIXTURES, "columns_names.input.npy"), "--to", "y.csv",
                         "--quiet")
        with open(self.path("y.csv"), newline="") as file:
            self.assertEqual(len(next(csv.reader(file))), 1)

    def test_labels_without_scores_beside_them(self):
        self.check("label_alone")

    def test_decisions_between_classes_are_no_scores(self):
        decisions = os.path.join(FIXTURES, "decisions")
        self.run_program("predict", decisions + ".onnx", decisions + ".input.npy", "--to", "y.csv", "--quiet")
        self.assertEqual(self.read("y.csv").splitlines()[0], "class_0,class_1")

    def test_classes_with_numbers(self):
        self.check("logistic_two")


class WithoutPlugin(Case):
    """The program and the library in a folder of their own, without libtapedeck-operators.so."""

    def setUp(self):
        super().setUp()
        build = os.path.dirname(PROGRAM)
        self.bin = self.path("bin")
        os.mkdir(self.bin)
        for file in [PROGRAM, *glob.glob(os.path.join(build, "libtapedeck.so*"))]:
            shutil.copy2(file, self.bin)
        self.plugin = os.path.join(build, "libtapedeck-operators.so")

    def predict(self, model, data):
        return subprocess.run([os.path.join(self.bin, "tapedeck"), "predict", model, data, "--to", "y.csv", "--quiet"],
                              cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False)

    def predict_forest(self):
        forest = os.path.join(FIXTURES, "forest_names")
        return self.predict(forest + ".onnx", forest + ".input.npy")

    def test_the_error_names_operator_and_plugin(self):
        done = self.predict_forest()
        self.assertEqual(done.returncode, 1, done.stderr)
        for part in ("ai.onnx.ml.TreeEnsembleClassifier", "libtapedeck-operators.so is not installed", "libtapedeck0"):
            self.assertIn(part, done.stderr)
        self.assertFalse(os.path.exists(self.path("y.csv")))

    def test_it_is_found_beside_the_library(self):
        shutil.copy2(self.plugin, self.bin)
        done = self.predict_forest()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("predicted", self.read("y.csv"))

    def test_a_file_that_is_no_plugin(self):
        with open(os.path.join(self.bin, "libtapedeck-operators.so"), "w", encoding="utf-8") as file:
            file.write("not a shared object")
        done = self.predict_forest()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("TreeEnsembleClassifier", done.stderr)
        self.assertIn("libtapedeck-operators.so", done.stderr)

    def test_networks_do_without_it(self):
        model = os.path.join(SOURCE, "tests", "fixtures", "models", "onnx", "cnn_17")
        done = self.predict(model + ".onnx", model + ".input.npy")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
