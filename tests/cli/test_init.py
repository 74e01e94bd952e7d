"""tapedeck init: what it guesses of data that nobody described, and that the result trains as it is."""
import csv
import os
import pty
import subprocess
import unittest

import numpy

from program import Case, DIGITS, PROGRAM, SMALL, write_png


def write_table(path, names, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([names, *rows] if names else rows)


class Init(Case):
    def init(self, *arguments, status=0):
        return self.run_program("init", *arguments, status=status)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def trains(self, name, metric=None, at_least=None):
        run = name.removesuffix(".yaml")
        self.run_program("train", name, "--quiet")
        with open(self.path("runs", run, "metrics.csv"), encoding="utf-8") as file:
            last = list(csv.DictReader(file))
        if metric:
            self.assertGreaterEqual(max(float(row[metric]) for row in last), at_least)

    def people(self, rows=300):
        random = numpy.random.default_rng(2)
        table = []
        for row in range(rows):
            age, town = int(random.integers(18, 80)), str(random.choice(["Ulm", "Köln", "a, b"]))
            income = "" if row % 7 == 0 else round(age * 100 + float(random.normal(0, 50)), 2)
            table.append((row, f"person {row}", "2024-01-%02d" % (row % 28 + 1), age, town, income, "same",
                          "yes" if age > 45 else "no"))
        return ("id", "name", "joined", "age", "town", "income", "country", "buys"), table

    def test_a_table_with_everything(self):
        write_table(self.path("people.csv"), *self.people())
        said = self.init("people.csv").stdout
        text = self.text("people.yaml")
        for sentence in ("label 'buys' (the last column): 2 classes", "ignored 'id': it numbers or names the rows",
                         "ignored 'name': it is text with too many different values to be categories",
                         "'joined' holds dates: year, month, weekday, … become inputs", "ignored 'country': it has one value in all rows",
                         "'town' is a category: an input for each of its 3 texts",
                         "missing values become the mean of their column"):
            self.assertIn(sentence, said)
            self.assertIn(sentence, text)
        self.assertIn("categories: [town]\n", text)
        self.assertIn("dates: [joined]\n", text)
        self.assertIn("ignore: [id, name, country]\n", text)
        self.assertIn("missing: mean\n", text)
        self.trains("people.yaml", "val_accuracy", 0.9)

    def test_a_number_is_predicted(self):
        random = numpy.random.default_rng(1)
        rows = [(a, b, 300 * a - 70 * b + 1000) for a, b in random.normal(0, 1, (400, 2)).round(4)]
        write_table(self.path("line.csv"), ("a", "b", "price"), rows)
        self.assertIn("label 'price' (the last column): a number from", self.init("line.csv").stdout)
        self.assertIn("standardize_labels: true", self.text("line.yaml"))
        self.trains("line.yaml")
        found = self.run_program("evaluate", "runs/line", "line.csv").stdout
        self.assertGreater(float(found.split("r2")[1].split()[0]), 0.98)

    def test_a_named_label_and_a_first_column_of_classes(self):
        random = numpy.random.default_rng(3)
        rows = [(i % 3, *(random.normal(0, 0.2, 2) + i % 3).round(4)) for i in range(90)]
        write_table(self.path("first.csv"), None, rows)
        self.assertIn("label '0' (the first column, which holds classes): 3 classes", self.init("first.csv").stdout)
        self.trains("first.yaml", "val_accuracy", 0.9)
        write_table(self.path("named.csv"), ("target", "p", "q"), rows)
        self.assertIn("label 'target' (by its name)", self.init("named.csv").stdout)
        self.assertIn("label 'q' (as asked for): a number",
                      self.init("named.csv", "--label", "q", "--to", "q.yaml").stdout)
        self.assertIn("did you mean", self.init("named.csv", "--label", "targe", "--to", "t.yaml", status=1).stderr)
        self.assertFalse(os.path.exists(self.path("t.yaml")))

    def test_text_alone_has_a_header_that_no_row_repeats(self):
        rows = [(("red", "blue")[i % 2], ("big", "small")[i // 2 % 2], ("stop", "go")[i % 2]) for i in range(60)]
        write_table(self.path("words.csv"), ("colour", "size", "sign"), rows)
        self.assertIn("label 'sign'", self.init("words.csv").stdout)
        self.trains("words.yaml", "val_accuracy", 1)
        write_table(self.path("plain.csv"), None, rows)
        self.assertIn("label '2'", self.init("plain.csv").stdout)
        self.trains("plain.yaml", "val_accuracy", 1)

    def test_digits_are_images(self):
        said = self.init(DIGITS, "--to", "digits.yaml").stdout
        self.assertIn("64 inputs from 0 to 16 are the pixels of an image, 8 x 8", said)
        self.assertIn("input: [8, 8, 1]", self.text("digits.yaml"))
        self.run_program("train", "digits.yaml", "--set", "train.epochs=4", "--quiet")

    def test_arrays_and_their_labels(self):
        random = numpy.random.default_rng(4)
        labels = random.integers(0, 3, 120)
        numpy.save(self.path("x_train.npy"), (random.normal(0, 0.1, (120, 5)) + labels[:, None]).astype("float32"))
        numpy.save(self.path("y_train.npy"), labels)
        self.assertIn("labels are in y_train.npy, by its name", self.init("x_train.npy").stdout)
        self.trains("x_train.yaml", "val_accuracy", 0.9)
        numpy.save(self.path("photos.npy"), random.integers(0, 255, (40, 12, 12, 3)).astype("uint8"))
        said = self.init("photos.npy").stdout
        self.assertIn("there are no labels: the model learns to put out its input", said)
        self.assertIn("pixels are 0 to 255", said)
        self.run_program("train", "photos.yaml", "--set", "train.epochs=1", "--quiet")
        numpy.savez(self.path("both.npz"), x=random.normal(0, 1, (60, 9, 4)), y=random.normal(0, 1, (60, 2)))
        self.assertIn("labels are 2 numbers for each example", self.init("both.npz").stdout)
        self.run_program("train", "both.yaml", "--set", "train.epochs=1", "--quiet")

    def test_a_folder_of_images(self):
        for k in range(24):
            folder = self.path("pets", ("cat", "dog")[k % 2])
            os.makedirs(folder, exist_ok=True)
            write_png(os.path.join(folder, "%d.png" % k), numpy.full((10, 8), 200 * (k % 2) + k, "uint8"))
        self.assertIn("labels are 2 classes", self.init("pets/").stdout)
        self.run_program("train", "pets.yaml", "--set", "train.epochs=2", "--quiet")

    def test_a_model_is_trained_further(self):
        self.train(SMALL, "--quiet")
        random = numpy.random.default_rng(5)
        rows = [(*point.round(4), int(point[1] > 0)) for point in random.normal(0, 1, (60, 2))]
        write_table(self.path("more.csv"), ("x1", "x2", "label"), rows)
        self.init("runs/small", "more.csv")
        self.assertIn("file: runs/small", self.text("more.yaml"))
        self.run_program("train", "more.yaml", "--set", "train.epochs=1", "--quiet")
        self.assertIn("name the data to train it on too", self.init("runs/small", status=2).stderr)
        rows = [(*row[:2], i % 5) for i, row in enumerate(rows)]
        write_table(self.path("five.csv"), ("x1", "x2", "label"), rows)
        self.assertIn("puts out 2 numbers, and the labels of five.csv need 5",
                      self.init("runs/small", "five.csv", status=1).stderr)

    def test_names_that_yaml_would_misread(self):
        rows = [(i % 2, i % 3, ("on", "off")[i % 2]) for i in range(40)]
        write_table(self.path("odd name: #1.csv"), ("yes", "a: [b", "null"), rows)
        self.init("odd name: #1.csv", "--to", "odd.yaml")
        self.run_program("train", "odd.yaml", "--set", "train.epochs=1", "--quiet")

    def test_another_folder_gets_whole_paths(self):
        write_table(self.path("people.csv"), *self.people())
        os.mkdir(self.path("there"))
        self.init("people.csv", "--to", "there/first.yaml")
        self.run_program("train", "there/first.yaml", "--set", "train.epochs=1", "--quiet")
        self.assertEqual(self.init("people.csv", "--to", "-").stdout.splitlines()[0],
                         "# A first experiment, guessed from the data:")

    def test_bad_input_leaves_nothing_behind(self):
        write_table(self.path("people.csv"), *self.people())
        with open(self.path("people.yaml"), "w", encoding="utf-8") as file:
            file.write("mine")
        self.assertIn("people.yaml", self.init("people.csv", status=1).stderr)
        self.assertEqual(self.text("people.yaml"), "mine")
        self.init("people.csv", "--force")
        self.assertNotEqual(self.text("people.yaml"), "mine")
        before = set(os.listdir(self.path()))
        for content, complaint in (("", "empty"), ("a,b\n", "no rows"), ("a,b\n1,2\n", "too few"),
                                   ("a\n" + "1\n2\n" * 30, "one column"), ("a,b\n" + "1,2\n" * 30, "no column can be"),
                                   ("a,b\n1,2\n1\n", "line 3 (row 2)"), ("a,a\n" + "1,2\n3,4\n" * 20, "two columns")):
            with open(self.path("bad.csv"), "w", encoding="utf-8") as file:
                file.write(content)
            self.assertIn(complaint, self.init("bad.csv", status=1).stderr)
        self.assertIn("No such file", self.init("missing.csv", status=1).stderr)
        self.assertEqual(set(os.listdir(self.path())) - {"bad.csv"}, before)

    def test_without_arguments_it_asks(self):
        write_table(self.path("people.csv"), *self.people())
        main, other = pty.openpty()
        os.write(main, b"people.csv\n\nasked.yaml\n")
        done = subprocess.run([PROGRAM, "init"], cwd=self.path(), stdin=other, capture_output=True, text=True, check=False)
        os.close(main)
        os.close(other)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("label 'buys'", done.stdout)
        self.assertTrue(os.path.exists(self.path("asked.yaml")))
        for answers, status, text in (("people.csv\n\npiped.yaml\n", 0, "label 'buys'"), ("", 2, "no data was named"),
                                      ("people.csv\n", 2, "nothing was written")):
            done = subprocess.run([PROGRAM, "init"], cwd=self.path(), input=answers, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, status)
            self.assertIn(text, done.stdout + done.stderr)
        self.assertTrue(os.path.exists(self.path("piped.yaml")))


if __name__ == "__main__":
    unittest.main()
