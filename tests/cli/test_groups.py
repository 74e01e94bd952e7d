"""Rows of a group stay together where a validation part is drawn: properties that scikit-learn's GroupKFold, GroupShuffleSplit and
StratifiedGroupKFold have. tests/interop/test_projects_text.py compares with them."""
import csv
import random
import unittest

from program import Case

EXPERIMENT = """
name: g
seed: 4
threads: 1
data: {train: visits.csv, label: kind, groups: patient, batch: 16, validation: VALIDATION}
model: [dense: {units: 2}]
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 1}
record:
  - {what: prediction, sample: 100000, every: 1 epoch, form: rows, to: [csv]}
"""
SIZES = [40, 33, 29, 23, 20, 17, 15, 11, 9, 8, 7, 5, 4, 3, 2, 1]  # of each patient's rows


def lightest(sizes, folds):
    """scikit-learn's GroupKFold: the largest group goes to the fold that has the fewest rows."""
    filled = [0] * folds
    for size in sorted(sizes, reverse=True):
        filled[filled.index(min(filled))] += size
    return sorted(filled)


class Groups(Case):
    def setUp(self):
        super().setUp()
        generator = random.Random(2)
        self.rows = []
        for i, size in enumerate(SIZES):
            share = generator.random()
            self.rows += [["p%02d" % i, generator.random(), "ab"[generator.random() < share]] for _ in range(size)]
        generator.shuffle(self.rows)
        self.write("visits.csv", "patient,x,kind\n" + "".join("%s,%g,%s\n" % tuple(r) for r in self.rows))

    def validation(self, run):
        with open(self.path("runs", run, "predictions.csv"), encoding="utf-8") as file:
            return sorted(int(row["sample"]) for row in csv.DictReader(file))

    def check_apart(self, part):
        inside = {self.rows[i][0] for i in part}
        outside = {self.rows[i][0] for i in range(len(self.rows)) if i not in set(part)}
        self.assertTrue(inside and outside)
        self.assertFalse(inside & outside)

    def share(self, part, kind="b"):
        return sum(self.rows[i][2] == kind for i in part) / len(part)

    def test_share(self):
        parts = set()
        for seed in range(5):
            out = self.train(EXPERIMENT.replace("VALIDATION", "0.3"), "--quiet", "--set", "seed=%d" % seed,
                             "--set", "name=s%d" % seed)
            part = self.validation("s%d" % seed)
            self.check_apart(part)
            self.assertLess(abs(len(part) / len(self.rows) - 0.3), 0.06, out.stderr)
            parts.add(tuple(part))
        self.assertEqual(len(parts), 5)

    def test_folds(self):
        self.train(EXPERIMENT.replace("VALIDATION", "{folds: 4}"), "--quiet")
        parts = [self.validation("g-fold-%d" % (i + 1)) for i in range(4)]
        self.assertEqual(sorted(sum(parts, [])), list(range(len(self.rows))))
        for part in parts:
            self.check_apart(part)
        self.assertEqual(sorted(map(len, parts)), lightest(SIZES, 4))

    def test_stratified_folds(self):
        self.train(EXPERIMENT.replace("VALIDATION", "{folds: 3, stratified: true}"), "--quiet")
        every = self.share(range(len(self.rows)))
        parts = [self.validation("g-fold-%d" % (i + 1)) for i in range(3)]
        for part in parts:
            self.check_apart(part)
            self.assertLess(abs(self.share(part) - every), 0.1)
            self.assertLess(abs(len(part) / len(self.rows) - 1 / 3), 0.1)

    def test_stratified_share(self):
        self.train(EXPERIMENT.replace("VALIDATION", "{share: 0.3, stratified: true}"), "--quiet")
        part = self.validation("g")
        self.check_apart(part)
        self.assertLess(abs(self.share(part) - self.share(range(len(self.rows)))), 0.12)

    def test_the_column_is_no_input(self):
        self.train(EXPERIMENT.replace("VALIDATION", "0.3"), "--quiet")
        self.assertIn("inputs: x\n", self.run_program("inspect", "runs/g").stdout)
        self.run_program("evaluate", "runs/g", "visits.csv")
        self.write("new.csv", "x\n1\n2\n")
        self.run_program("predict", "runs/g", "new.csv", "--to", "p.csv")

    def test_from_the_cache_and_while_reading(self):
        self.write("visits.csv", "patient,x,kind\n" + "".join("%s,%g,%s\n" % tuple(r) for r in self.rows * 20))
        text = EXPERIMENT.replace("VALIDATION", "0.3")
        self.train(text, "--quiet")
        for _ in range(2):
            self.train(text, "--quiet", "--set", "data.memory=4 KiB")
        for run in ("g-2", "g-3"):
            self.assertEqual(self.bytes("runs", "g", "predictions.csv"), self.bytes("runs", run, "predictions.csv"))

    def test_what_cannot_be(self):
        def refused(text, sentence):
            self.assertIn(sentence, self.train(text, "--out", "none", status=2).stderr)
        refused(EXPERIMENT.replace("VALIDATION", "{folds: 20}"),
                "column 'patient' has 16 different values; 20 parts need as many groups")
        refused(EXPERIMENT.replace("VALIDATION", "visits.csv"), "it needs `validation`, a share or folds")
        refused(EXPERIMENT.replace("groups: patient", "groups: pateint").replace("VALIDATION", "0.2"),
                "no column 'pateint'; did you mean 'patient'?")
        refused(EXPERIMENT.replace("groups: patient", "groups: kind").replace("VALIDATION", "0.2"), "named twice")
        self.write("visits.csv", "patient,x,kind\na,1,a\n,2,b\nc,3,a\n")
        refused(EXPERIMENT.replace("VALIDATION", "0.5"),
                "visits.csv line 3 (row 2), column 'patient': the group is missing")

    def test_large_groups_are_reported(self):
        self.write("visits.csv", "patient,x,kind\n" + "a,1,a\na,2,b\na,3,b\nb,4,a\n" * 5)
        out = self.train(EXPERIMENT.replace("VALIDATION", "0.1"))
        self.assertIn("groups of 'patient' stay together: the validation part has 25 % of the examples, not 10 %", out.stderr)


if __name__ == "__main__":
    unittest.main()
