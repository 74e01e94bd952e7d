"""Classes keep their names: in predictions, in the files of a run, and for folders of images."""
import csv
import io
import os
import random
import unittest

import numpy

from program import Case, write_png

TEXT = """
name: animals
threads: 1
seed: 2
data: {{train: animals.csv, label: kind}}
model:
  - dense: {{name: out, units: {units}{more}}}
train: {{loss: {loss}, from_logits: true, optimizer: {{adam: {{learning_rate: 0.5}}}}, epochs: 30}}
record:
  - {{what: prediction, every: 30 epochs, form: rows, to: [csv, print]}}
"""

IMAGES = """
name: pictures
threads: 1
data: {train: pictures, scale: 0.00392156862745098}
model:
  - flatten:
  - dense: {name: out, units: 2, activation: softmax}
train: {loss: sparse_categorical_crossentropy, optimizer: {adam: {learning_rate: 0.1}}, epochs: 20}
"""


class Names(Case):
    def rows(self, *path):
        return list(csv.DictReader(io.StringIO(self.read(*path))))

    def train_animals(self, kinds, loss="sparse_categorical_crossentropy", units=3):
        generator = random.Random(1)
        centres = {kind: (5 * index, -5 * index) for index, kind in enumerate(kinds)}
        lines = ["a,b,kind"]
        for i in range(60):
            kind = kinds[i % len(kinds)]
            a, b = (c + generator.random() for c in centres[kind])
            quoted = '"' + kind.replace('"', '""') + '"'
            lines.append(f"{a},{b},{quoted}")
        self.write("animals.csv", "\n".join(lines) + "\n")
        return self.train(TEXT.format(loss=loss, units=units, more=""))

    def test_text_labels_and_predictions_have_names(self):
        done = self.train_animals(["cat", "dog", 'a "bird", or so'])
        self.assertRegex(done.stdout, r"\n +\d+ +cat ")
        self.run_program("predict", "runs/animals", "animals.csv", "--to", "out.csv")
        for path, first in ((("out.csv",), []), (("runs", "animals", "predictions.csv"), ["epoch", "step", "sample"])):
            rows = self.rows(*path)
            self.assertEqual(list(rows[0]), [*first, "label", 'class_a "bird", or so', "class_cat", "class_dog", "predicted"])
            self.assertEqual(len(rows), 60)
            for row in rows:
                scores = {name[len("class_"):]: float(row[name]) for name in row if name.startswith("class_")}
                self.assertEqual(row["predicted"], max(scores, key=scores.get))
            self.assertGreater(sum(row["label"] == row["predicted"] for row in rows), 55)

    def test_long_names_are_whole_in_the_header(self):
        kinds = [c * 150 + "," for c in "ab"]
        self.train_animals(kinds, units=2)
        self.run_program("predict", "runs/animals", "animals.csv", "--to", "out.csv")
        for path in (("out.csv",), ("runs", "animals", "predictions.csv")):
            self.assertEqual(list(self.rows(*path)[0])[-3:], ["class_" + kinds[0], "class_" + kinds[1], "predicted"])

    def test_new_data_without_labels_get_names_too(self):
        self.train_animals(["cat", "dog", "bird"])
        self.write("new.csv", "b,a\n-10,10.5\n0.5,0.5\n")
        self.run_program("predict", "runs/animals", "new.csv", "--to", "out.csv")
        self.assertEqual([row["predicted"] for row in self.rows("out.csv")], ["bird", "cat"])
        self.assertNotIn("label", self.rows("out.csv")[0])

    def test_two_classes_of_one_output(self):
        self.train_animals(["no", "yes"], loss="binary_crossentropy", units=1)
        rows = self.rows("runs", "animals", "predictions.csv")
        self.assertEqual(list(rows[0]), ["epoch", "step", "sample", "label", "class_yes", "predicted"])
        for row in rows:
            self.assertIn(row["label"], ("no", "yes"))
            self.assertEqual(row["predicted"], "yes" if float(row["class_yes"]) > 0 else "no")

    def test_one_hot_labels_are_one_label(self):
        self.train_animals(["cat", "dog", "bird"], loss="categorical_crossentropy")
        rows = self.rows("runs", "animals", "predictions.csv")
        self.assertEqual(list(rows[0])[3:], ["label", "class_bird", "class_cat", "class_dog", "predicted"])
        self.assertEqual({row["label"] for row in rows}, {"cat", "dog", "bird"})

    def test_numbers_stay_numbers_and_values_have_no_class(self):
        self.write("animals.csv", "a,b,kind\n" + "".join(f"{i % 3},{i},{i % 3}\n" for i in range(9)))
        self.train(TEXT.format(loss="sparse_categorical_crossentropy", units=3, more=""))
        rows = self.rows("runs", "animals", "predictions.csv")
        self.assertEqual({row["label"] for row in rows}, {"0", "1", "2"})
        self.assertTrue({row["predicted"] for row in rows} <= {"0", "1", "2"})
        self.write("animals.csv", "a,b,kind\n" + "".join(f"{i},{i},{i / 2}\n" for i in range(9)))
        self.train(TEXT.format(loss="mse", units=1, more="").replace("from_logits: true, ", ""))
        recorded = list(self.rows("runs", "animals-2", "predictions.csv")[0])
        self.assertEqual(recorded[-2:], ["label", "value_0"])
        self.run_program("predict", "runs/animals-2", "animals.csv", "--to", "out.csv")
        self.assertEqual(list(self.rows("out.csv")[0]), ["label", "value_0"])
        self.run_program("predict", "runs/animals-2", "animals.csv", "--to", "out.csv")  # its own, replaced
        # Several yes or no answers at once are classes, though none of them is predicted alone.
        self.write("animals.csv", "a,b,kind,tame\n" + "".join(f"{i},{i},{i % 2},{i % 3 % 2}\n" for i in range(9)))
        self.train(TEXT.format(loss="binary_crossentropy", units=2, more=""), "--set", "data.label=[kind, tame]")
        self.assertEqual(list(self.rows("runs", "animals-3", "predictions.csv")[0])[-2:], ["class_0", "class_1"])

    def test_images_have_the_names_of_folders_and_files(self):
        for kind, grey in (("dark", 20), ("light", 230)):
            os.makedirs(self.path("pictures", kind))
            for i in range(4):
                write_png(self.path("pictures", kind, f"{i}.png"), numpy.full((3, 3), grey + i, "uint8"))
        self.train(IMAGES)
        self.run_program("predict", "runs/pictures", "pictures", "--to", "out.csv")
        rows = self.rows("out.csv")
        self.assertEqual(list(rows[0]), ["label", "class_dark", "class_light", "file", "predicted"])
        self.assertEqual([row["file"] for row in rows],
                         [f"{kind}/{i}.png" for kind in ("dark", "light") for i in range(4)])
        for row in rows:
            self.assertEqual(row["label"], row["file"].split("/")[0])
            self.assertEqual(row["predicted"], row["label"])
        self.run_program("predict", "runs/pictures", "pictures/light", "--to", "out.csv")
        rows = self.rows("out.csv")
        self.assertEqual(list(rows[0]), ["class_dark", "class_light", "file", "predicted"])
        self.assertEqual(rows[3]["file"], "3.png")
        self.assertEqual(rows[3]["predicted"], "light")


if __name__ == "__main__":
    unittest.main()
