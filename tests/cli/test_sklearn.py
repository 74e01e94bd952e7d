"""Classifiers of scikit-learn, as skl2onnx writes them: scores in columns named by class, and which class it is."""
import csv
import json
import os
import unittest

import numpy

from program import Case, SOURCE

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

    def test_classes_with_numbers(self):
        self.check("logistic_two")


if __name__ == "__main__":
    unittest.main()
