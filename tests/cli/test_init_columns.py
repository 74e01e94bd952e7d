"""tapedeck init on text, dates, paths of images and columns that name what rows belong to: what it guesses, and that it trains."""
import random
import subprocess
import sys
import unittest

import os

from program import SOURCE, Case


class Columns(Case):
    def setUp(self):
        super().setUp()
        random.seed(4)

    def example(self, folder, name):
        path = os.path.join(SOURCE, "examples", folder, name)
        subprocess.run([sys.executable, path], cwd=self.folder, check=True)

    def guessed(self, *arguments):
        return self.run_program("init", *arguments).stdout

    def trained(self, name, *settings):
        out = self.run_program("train", name + ".yaml", "--quiet", "--set", "train.epochs=50", *settings)
        self.assertNotIn("warning", out.stderr)
        return self.read("runs", name, "metrics.csv").splitlines()

    def last(self, lines, metric):
        return [float(row.split(",")[lines[0].split(",").index(metric)]) for row in lines[1:]][-1]

    def test_text_dates_and_groups(self):
        self.example("text", "reviews.py")
        out = self.guessed("reviews.csv")
        for sentence in ("'author' names what rows belong to, 40 of them", "'written' holds dates", "'review' is text, of 6."):
            self.assertIn(sentence, out)
        text = self.read("reviews.yaml")
        for line in ("  text: [review]", "  dates: [written]", "  groups: author", "  inputs: {words1: review, numbers: [written]}"):
            self.assertIn(line + "\n", text)
        self.assertGreater(self.last(self.trained("reviews"), "val_accuracy"), 0.8)
        self.run_program("predict", "runs/reviews", "new.csv", "--to", "p.csv")

    def test_text_alone(self):
        self.example("text", "reviews.py")
        rows = [line.split(",", 2)[2] for line in self.read("reviews.csv").splitlines()]
        self.write("only.csv", "\n".join(rows) + "\n")
        self.guessed("only.csv")
        self.assertNotIn("inputs:", self.read("only.yaml"))
        self.assertNotIn("standardize", self.read("only.yaml"))
        self.assertGreater(self.last(self.trained("only"), "val_accuracy"), 0.8)

    def test_two_texts_and_categories(self):
        words = "red green blue good bad cold warm old new big".split()
        rows = ["title,body,kind,price,y"]
        for i in range(200):
            a, b = (" ".join(random.choice(words) for _ in range(5)) for _ in range(2))
            rows.append("%s,%s,%s,%g,%s" % (a, b, random.choice("xyz"), random.random(), "ab"["good" in a]))
        self.write("two.csv", "\n".join(rows) + "\n")
        self.guessed("two.csv")
        text = self.read("two.yaml")
        self.assertIn("  inputs: {words1: title, words2: body, numbers: [kind, price]}\n", text)
        self.trained("two")
        self.run_program("predict", "runs/two", "two.csv", "--to", "p.csv")
        self.assertIn("inputs", self.run_program("inspect", "runs/two").stdout)

    def test_paths_of_images(self):
        self.example("pictures", "pictures.py")
        self.assertIn("'path' has paths of images: each is an example", self.guessed("photos.csv"))
        text = self.read("photos.yaml")
        for line in ("  images: path", "  resize: [64, 64]", "  input: [64, 64, 3]"):
            self.assertIn(line + "\n", text)
        self.run_program("train", "photos.yaml", "--quiet", "--set", "train.epochs=2")
        self.run_program("predict", "runs/photos", "photos.csv", "--to", "p.csv")

    def test_names_of_files_that_are_not_there_are_no_images(self):
        self.write("x.csv", "file,a,y\n" + "".join("p%d.png,%d,%d\n" % (i, i * 7 % 11, i % 2) for i in range(60)))
        self.assertIn("ignored 'file'", self.guessed("x.csv"))

    def test_groups_by_number(self):
        self.write("visits.csv", "patient_id,x,y\n" + "".join(
            "%d,%g,%d\n" % (100 + i % 12, random.random(), random.random() < 0.5) for i in range(240)))
        self.assertIn("'patient_id' names what rows belong to, 12 of them", self.guessed("visits.csv"))
        self.assertIn("  groups: patient_id\n", self.read("visits.yaml"))
        self.trained("visits")

    def test_dates_that_show_no_order(self):
        self.write("d.csv", "when,x,y\n" + "".join(
            "%02d/%02d/2024,%g,%d\n" % (i % 12 + 1, i * 5 % 12 + 1, random.random(), i % 2) for i in range(60)))
        self.assertIn("ignored 'when': its dates do not show whether the day or the month comes first", self.guessed("d.csv"))
        self.trained("d")

    def test_a_date_that_is_missing(self):
        self.write("d.csv", "when,x,y\n" + "".join(
            "%s,%g,%d\n" % ("2024-%02d-%02d" % (i % 12 + 1, i % 28 + 1) if i % 9 else "", random.random(), i % 2) for i in range(60)))
        self.guessed("d.csv")
        self.assertIn("  dates: [when]\n", self.read("d.yaml"))
        self.assertIn("  missing: mean\n", self.read("d.yaml"))
        self.trained("d")

    def test_columns_that_are_called_as_inputs_that_others_become(self):
        """Dates give WHEN.day, categories COLOR=red, text NOTE[0]; a column when.spent is no clash."""
        notes = ["the first of them all", "another one came by today", "there is nothing to say here"]
        self.write("d.csv", "color=red,when,when.day,when.spent,note,note[0],color,y\n" + "".join(
            "%g,2024-%02d-%02d,%g,%g,%s %d,%g,%s,%d\n" % (random.random(), i % 12 + 1, i % 28 + 1, random.random(), random.random(),
                                                          notes[i % 3], i, random.random(), ["red", "blue"][i // 2 % 2], i % 2)
            for i in range(60)))
        printed = self.guessed("d.csv")
        for column, becomes in (("when.day", "when"), ("color=red", "color"), ("note[0]", "note")):
            self.assertIn(f"ignored '{column}': '{becomes}' becomes an input of that name", printed)
        self.assertNotIn("ignored 'when.spent'", printed)
        self.run_program("check", "d.yaml")
        self.trained("d")

    def test_numbers_with_commas(self):
        """They are not categories: what reads numbers refuses them."""
        self.write("d.csv", "a;b;y\n" + "".join("%g;%d,25;%d\n" % (random.random(), i % 11, i % 2) for i in range(60)))
        self.assertIn("ignored 'b': it has numbers with commas, which are written with a point, as in 1234.5 ('0,25')", self.guessed("d.csv"))
        self.assertNotIn("categories", self.read("d.yaml"))
        self.assertIn("column 'b' has numbers with commas, such as '0,25'",
                      self.run_program("init", "d.csv", "--label", "b", "--force", status=1).stderr)
        self.write("e.csv", "b;y\n" + "".join("%d,25;%d\n" % (i % 11, i % 2) for i in range(60)))
        self.assertIn("beside the label 'y': ignored 'b': it has numbers with commas", self.run_program("init", "e.csv", status=1).stderr)

    def test_numbers_that_are_not_all_finite(self):
        self.write("d.csv", "a,b,y\n" + "".join("%g,%s,%d\n" % (random.random(), "1e308" if i == 7 else random.random(), i % 2)
                                               for i in range(60)))
        self.assertIn("ignored 'b': it has numbers, and cells that are not finite float32 numbers ('1e308')", self.guessed("d.csv"))

    def test_text_that_is_too_long_for_a_category(self):
        self.write("d.csv", "a,b,user_id,y\n" + "".join(
            "%g,%s,%s,%d\n" % (random.random(), "x" * (300 if i == 3 else 3), "u%d" % (i % 6) * (200 if i == 5 else 1), i % 2)
            for i in range(60)))
        printed = self.guessed("d.csv")
        for column in ("b", "user_id"):
            self.assertIn(f"ignored '{column}': it has text of more than 255 bytes", printed)
        self.trained("d")
        self.assertIn("which is no class", self.run_program("init", "d.csv", "--label", "b", "--force", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
