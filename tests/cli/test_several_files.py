"""Several CSV files as one data set: the same bits as of one file."""
import gzip
import os
import unittest

import numpy
import pandas

from program import Case

EXPERIMENT = """
name: parts
seed: 2
threads: 1
data: {train: TRAIN, label: kind, validation: 0.2, batch: 8, OPTIONS}
model: [dense: {units: 3}]
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 2}
"""


class Parts(Case):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(3)
        self.frame = pandas.DataFrame({"a": random.normal(size=60).round(3), "b": random.normal(size=60).round(3),
                                       "colour": random.choice(["red", "green", "blue"], 60), "kind": random.choice(["x", "y", "z"], 60)})
        self.frame.to_csv(self.path("whole.csv"), index=False)
        self.frame[:20].to_csv(self.path("part-1.csv"), index=False)
        self.write("part-2.csv", self.frame[20:45].to_csv(index=False, lineterminator="\r\n").rstrip("\r\n"))  # no end of its last line
        with gzip.open(self.path("part-3.csv.gz"), "wt") as file:
            self.frame[45:].to_csv(file, index=False)

    def fit(self, train, options="categories: [colour]", status=0, *more):
        return self.train(EXPERIMENT.replace("TRAIN", train).replace("OPTIONS", options), "--quiet", *more, status=status)

    def weights(self, run):
        data = self.bytes("runs", run, "model.safetensors")
        return data[8 + int.from_bytes(data[:8], "little"):]

    def test_a_pattern_and_a_list_are_the_whole_file(self):
        for train in ("whole.csv", "part-*", "[part-1.csv, part-2.csv, part-3.csv.gz]"):
            self.fit(train)
        self.assertEqual(self.weights("parts"), self.weights("parts-2"))
        self.assertEqual(self.weights("parts"), self.weights("parts-3"))
        self.assertIn("part-3.csv.gz", self.read("runs", "parts-2", "experiment.yaml"))
        self.run_program("train", "--resume", "runs/parts-2", "--set", "train.epochs=3", "--quiet")
        self.fit("whole.csv", "categories: [colour]", 0, "--set", "train.epochs=3")
        self.assertEqual(self.weights("parts-2"), self.weights("parts-4"))

    def test_the_cache_is_that_of_these_files(self):
        large = pandas.concat([self.frame] * 4000)
        options = "categories: [colour], memory: 1 MiB"
        for name, rows in (("big-1.csv", large[:100000]), ("big-2.csv", large[100000:])):
            rows.to_csv(self.path(name), index=False)
        large.to_csv(self.path("all.csv"), index=False)
        steps = ("--set", "train.steps=5")
        self.fit("all.csv", options, 0, *steps)
        self.fit("big-*.csv", options, 0, *steps)
        self.fit("big-*.csv", options, 0, *steps)
        self.assertEqual(self.weights("parts"), self.weights("parts-2"))
        self.assertEqual(self.weights("parts"), self.weights("parts-3"))
        large[100000:].iloc[::-1].to_csv(self.path("big-2.csv"), index=False)
        self.fit("big-*.csv", options, 0, *steps)
        self.assertNotEqual(self.weights("parts"), self.weights("parts-4"))

    def test_files_without_headers(self):
        for i, (first, end) in enumerate(((0, 30), (30, 60))):
            self.frame[["a", "b", "kind"]][first:end].to_csv(self.path(f"bare-{i}.csv"), index=False, header=False)
        self.assertIn("`header: false`", self.fit("bare-*.csv", "header: true", 2).stderr)
        self.frame[["a", "b", "kind"]].to_csv(self.path("bare.csv"), index=False, header=False)
        for train in ("bare-*.csv", "bare.csv"):
            self.train(EXPERIMENT.replace("TRAIN", train).replace("OPTIONS", "header: false").replace("label: kind", "label: last"), "--quiet")
        self.assertEqual(self.weights("parts"), self.weights("parts-2"))

    def test_mistakes(self):
        self.write("other.csv", "b,a,colour,kind\n1,2,red,x\n")
        numpy.save(self.path("n.npy"), numpy.zeros((4, 2), "float32"))
        self.write("bad.csv", "a,b,colour,kind\n1,two,red,x\n")
        for train, text in (("nothing-*.csv", "no file fits"), ("[]", "a list of them"), ("[part-1.csv, none.csv]", "none.csv"),
                            ("[part-1.csv, other.csv]", "other.csv does not begin with the line"), ("[n.npy, n.npy]", "where they are CSV"),
                            ("[part-1.csv, bad.csv]", "part-1.csv and 1 more file line 22 (row 21), column 'b'")):
            self.assertIn(text, self.fit(train, "categories: [colour]", 2).stderr, train)
        self.assertFalse(self.exists("runs"))
        self.assertNotIn("runs", os.listdir(self.folder))


if __name__ == "__main__":
    unittest.main()
