"""Metrics over an epoch as Keras accumulates them, and where numbers that are none came from."""
import unittest

import numpy
import pandas

from program import Case, SMALL

LINE = """
name: line
threads: 1
data: {{train: d.csv, label: y, batch: {batch}, shuffle: false{more}}}
model: [{{dense: {{name: out, units: 1{layer}}}}}]
train: {{loss: {loss}, optimizer: {{sgd: {{learning_rate: 1.0e-12}}}}, metrics: [{metric}], epochs: 1}}
"""


class Measures(Case):
    def experiment(self, batch=4, more="", layer="", loss="mse", metric="mse"):
        return LINE.format(batch=batch, more=more, layer=layer, loss=loss, metric=metric)

    def test_r2_of_an_epoch_is_that_of_all_its_examples(self):
        x = numpy.linspace(-1, 1, 23)
        pandas.DataFrame({"x": x, "y": 2 * x + 0.3}).to_csv(self.path("d.csv"), index=False)
        for batch in (1, 4, 23):
            done = self.train(self.experiment(batch, metric="r2"), "--json")
            r2 = self.json_lines(done.stdout)[0]["r2"]
            self.run_program("predict", "runs/line", "d.csv", "--to", "p.csv", "--quiet")
            table = pandas.read_csv(self.path("p.csv"))
            residual = ((table.label - table.value_0) ** 2).sum()
            total = ((table.label - table.label.mean()) ** 2).sum()
            self.assertAlmostEqual(r2, 1 - residual / total, places=4)

    def test_binary_accuracy_compares_labels_as_they_are(self):
        self.write("d.csv", "x,y\n1,0\n2,1\n3,2\n4,2\n")
        done = self.train(self.experiment(metric="binary_accuracy", loss="mse"), "--json")
        accuracy = self.json_lines(done.stdout)[0]["binary_accuracy"]
        self.assertLessEqual(accuracy, 0.5)  # a label of 2 is never right

    def test_weights_that_began_as_nan_are_told_from_spoilt_ones(self):
        self.write("d.csv", "x,y\n1,0\n2,1\n")
        numpy.savez(self.path("w.npz"), **{"out.kernel": numpy.full((1, 1), numpy.nan, "float32"),
                                           "out.bias": numpy.zeros(1, "float32")})
        done = self.train("weights: w.npz\n" + self.experiment(), status=1)
        self.assertIn("layer out: its kernel was not finite when training began", done.stderr)

    def test_a_nan_label_and_a_nan_input_name_their_row(self):
        numpy.save(self.path("x.npy"), numpy.ones((6, 2), "float32"))
        labels = numpy.arange(6, dtype="float32")
        labels[4] = numpy.nan
        numpy.save(self.path("y.npy"), labels)
        text = self.experiment().replace("train: d.csv, label: y", "train: x.npy, labels: y.npy")
        self.assertIn("first seen in the labels: y.npy row 5", self.train(text, status=1).stderr)
        inputs = numpy.ones((6, 2), "float32")
        inputs[2, 1] = numpy.inf
        numpy.save(self.path("x.npy"), inputs)
        numpy.save(self.path("y.npy"), numpy.ones(6, "float32"))
        self.assertRegex(self.train(text, status=1).stderr, "first seen in the input: [xy].npy row 3")

    def test_a_validation_loss_that_is_no_number_is_said(self):
        self.write("d.csv", "x,y\n1,0\n2,1\n3,1\n")
        numpy.save(self.path("x.npy"), numpy.ones((4, 1), "float32"))
        numpy.save(self.path("y.npy"), numpy.ones(4, "float32"))
        bad = numpy.ones((3, 1), "float32")
        bad[1] = numpy.nan
        numpy.save(self.path("v.npy"), bad)
        numpy.save(self.path("w.npy"), numpy.ones(3, "float32"))
        text = self.experiment().replace(
            "train: d.csv, label: y",
            "train: x.npy, labels: y.npy, validation: v.npy, validation_labels: w.npy")
        done = self.train(text.replace("epochs: 1", "epochs: 3"))
        self.assertEqual(done.stderr.count("val_loss is NaN; first seen in the input"), 1)
        self.assertIn("row 2", done.stderr)

    def test_an_epoch_s_r2_survives_a_resume_in_its_middle(self):
        text = SMALL.replace("two_moons: {examples: 90, noise: 0.1}", "sine: {examples: 90, length: 4}")
        text = (text.replace("sparse_categorical_crossentropy", "mse").replace("  from_logits: true\n", "")
                .replace("[accuracy]", "[r2]").replace("units: 2}", "units: 1}")
                .replace("  - dense: {name: hidden", "  - flatten:\n  - dense: {name: hidden")
                + "record:\n  - {what: [loss, r2], every: 1 epoch, to: [csv]}\n")
        self.train(text, "--quiet")
        self.train(text, "--quiet", "--set", "train.steps=7")
        self.run_program("train", "experiment.yaml", "--resume", "runs/small-2", "--quiet")
        whole = pandas.read_csv(self.path("runs", "small", "metrics.csv"))
        parts = pandas.read_csv(self.path("runs", "small-2", "metrics.csv"))
        pandas.testing.assert_frame_equal(whole[whole.epoch > 1].reset_index(drop=True),
                                          parts[parts.step.isin([10, 15, 20])].reset_index(drop=True))


if __name__ == "__main__":
    unittest.main()
