"""Several inputs and outputs in an experiment: files, arrays and columns by name, losses with weights,
their signals, predictions, and how names that do not fit are reported. Numbers are numpy's."""
import csv
import io
import unittest

import numpy as np

from program import Case

ROWS, STEPS, RATE = 24, 6, 0.1
EXPERIMENT = """
name: several
threads: 1
data: {{{data}, batch: 8, shuffle: false}}
model:
  inputs: [a, b]
  layers:
  - concatenate: {{name: all, from: [a, b]}}
  - dense: {{name: value, units: 1, kernel_initializer: zeros}}
  - dense: {{name: kind, units: 3, kernel_initializer: zeros, from: all}}
  outputs: [value, kind]
train:
  loss: {{value: mse, kind: {{sparse_categorical_crossentropy: {{from_logits: true}}}}}}
  loss_weights: {{value: 0.25}}
  metrics: {{kind: [accuracy], value: [mae]}}
  optimizer: {{sgd: {{learning_rate: 0.1}}}}
  steps: 6
record:
- {{what: [loss, value_loss, kind_loss, kind_accuracy, value_mae], to: [csv, print]}}
"""
FILES = "inputs: {b: b.npy, a: a.npy}, labels: {kind: kind.npy, value: value.npy}"


def reference(x, value, kind):
    """loss, value_loss, kind_loss, accuracy and mae of each step, and both outputs at the end."""
    w, v = np.zeros((x.shape[1], 1)), np.zeros((x.shape[1], 3))
    bw, bv = np.zeros(1), np.zeros(3)
    rows = []
    for step in range(STEPS):
        part = slice(step * 8 % ROWS, step * 8 % ROWS + 8)
        some, is_value, is_kind = x[part], value[part, None], kind[part]
        out, scores = some @ w + bw, some @ v + bv
        share = np.exp(scores - scores.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        losses = ((out - is_value) ** 2).mean(), -np.log(share[np.arange(8), is_kind]).mean()
        rows.append([0.25 * losses[0] + losses[1], *losses, (scores.argmax(1) == is_kind).mean(),
                     abs(out - is_value).mean()])
        error = 0.25 * 2 * (out - is_value) / 8
        share[np.arange(8), is_kind] -= 1
        w, bw = w - RATE * some.T @ error, bw - RATE * error.sum(0)
        v, bv = v - RATE * some.T @ share / 8, bv - RATE * share.sum(0) / 8
    return np.array(rows), x @ w + bw, x @ v + bv


class Several(Case):
    def setUp(self):
        super().setUp()
        generator = np.random.default_rng(5)
        self.a = generator.normal(size=(ROWS, 2)).astype("float32")
        self.b = generator.normal(size=(ROWS, 3)).astype("float32")
        self.value = (self.a.sum(1) - self.b[:, 0]).astype("float32")
        self.kind = generator.integers(0, 3, size=ROWS)
        arrays = {"a": self.a, "b": self.b, "value": self.value, "kind": self.kind}
        for name, array in arrays.items():
            np.save(self.path(name + ".npy"), array)
        np.savez(self.path("all.npz"), first=self.a, second=self.b, v=self.value, k=self.kind)
        np.savez(self.path("new.npz"), **arrays)
        lines = ["b0,k,a0,other,a1,b1,v,b2"] + [
            ",".join(repr(float(x)) for x in (b[0], k, a[0], 9, a[1], b[1], v, b[2]))
            for a, b, v, k in zip(self.a, self.b, self.value, self.kind)]
        self.write("all.csv", "\n".join(lines) + "\n")
        self.expected, self.values, self.scores = reference(
            np.concatenate([self.a, self.b], 1).astype("float64"), self.value, self.kind)

    def rows(self, *path):
        return list(csv.DictReader(io.StringIO(self.read(*path))))

    def check(self, data):
        self.train(EXPERIMENT.format(data=data), "--out", "runs")
        found = [[float(row[name]) for name in ("loss", "value_loss", "kind_loss", "kind_accuracy", "value_mae")]
                 for row in self.rows("runs", "several", "metrics.csv")]
        np.testing.assert_allclose(found, self.expected, rtol=1e-5, atol=1e-6)

    def check_predictions(self, *arguments, labelled=True):
        self.run_program("predict", "runs/several", *arguments, "--to", "out.csv")
        rows = self.rows("out.csv")
        names = ["value_0", "kind_0", "kind_1", "kind_2", "kind_predicted"]
        self.assertEqual(list(rows[0]), (["value_label"] + names[:1] + ["kind_label"] + names[1:])
                         if labelled else names)
        np.testing.assert_allclose([float(r["value_0"]) for r in rows], self.values[:, 0], rtol=1e-4, atol=1e-5)
        self.assertEqual([int(r["kind_predicted"]) for r in rows], self.scores.argmax(1).tolist())
        if labelled:
            self.assertEqual([float(r["kind_label"]) for r in rows], self.kind.tolist())

    def test_files_of_their_own(self):
        self.check(FILES)
        self.check_predictions("new.npz")
        self.check_predictions("--input=b=b.npy", "--input=a=a.npy", labelled=False)
        self.check_predictions("--input=b=b.npy", "--input=a=a.npy", "--labels=kind=kind.npy", "--labels=value=value.npy")
        self.run_program("predict", "runs/several", "new.npz", "--to", "out.npy")
        np.testing.assert_allclose(np.load(self.path("out.kind.npy")), self.scores, rtol=1e-4, atol=1e-5)

    def test_arrays_of_an_npz(self):
        self.check("train: all.npz, inputs: {b: second, a: first}, labels: {kind: k, value: v}")
        self.check_predictions("all.npz")

    def test_columns_of_a_csv(self):
        self.check("train: all.csv, inputs: {b: [b0, b1, b2], a: [a0, a1]}, labels: {kind: k, value: v}")
        self.check_predictions("all.csv")

    def test_gradients_are_of_the_weighted_sum(self):
        self.check(FILES)
        said = self.run_program("gradients", "runs/several", "new.npz", "--layer", "value", "--to", "g.npz", "--batch", "24")
        gradient = np.load(self.path("g.npz"))["value.bias.gradient"]
        np.testing.assert_allclose(gradient, [0.5 * (self.values[:, 0] - self.value).mean()], rtol=1e-3, atol=1e-5)
        self.assertIn("weighted sum of the outputs' losses over 24 examples (as in training)", said.stdout)
        files = [f"--input={name}={name}.npy" for name in "ba"]
        labels = [f"--labels={name}={name}.npy" for name in ("kind", "value")]
        self.run_program("gradients", "runs/several", *files, *labels, "--to", "f.npz", "--batch", "24", "--quiet")
        with np.load(self.path("f.npz")) as by_files:
            np.testing.assert_array_equal(by_files["value.bias.gradient"], gradient)
        for arguments, status, text in (
                (files, 1, "labels for each (--labels OUTPUT=FILE)"),
                (files[:1] + labels, 1, "the model's input 'a' is missing"),
                (["--input=a"] + labels, 2, "--input a: expected NAME=FILE"),
                (["new.npz"] + files + labels, 2, "expected MODEL and DATA, or MODEL and --input")):
            with self.subTest(text):
                self.assertIn(text, self.run_program("gradients", "runs/several", *arguments, status=status).stderr)

    def test_one_input_by_name_is_the_data(self):
        np.savez(self.path("named.npz"), a=self.a)
        self.train("""
name: single
threads: 1
data: {inputs: {a: a.npy}, labels: {value: value.npy}, standardize: true}
model: {inputs: [a], layers: [{dense: {name: value, units: 1}}], outputs: [value]}
train: {loss: mse, steps: 3}
""", "--quiet")
        self.run_program("weights", "runs/single", "--to", "single.npz")
        weights = np.load(self.path("single.npz"))
        x = (self.a - self.a.mean(0)) / self.a.std(0)
        expected = x @ weights["value.kernel"] + weights["value.bias"]
        for data in (["a.npy"], ["named.npz"], ["--input", "a=a.npy"], ["--input", "a=named.npz"]):
            with self.subTest(data):
                self.run_program("predict", "runs/single", *data, "--to", "out.npy", "--quiet")
                np.testing.assert_allclose(np.load(self.path("out.npy")), expected, atol=1e-5)
        gradient = 2 * x.T @ (expected - self.value[:, None]) / ROWS
        for data in (["a.npy"], ["--input", "a=a.npy"]):
            for labels in ("value.npy", "value=value.npy"):
                with self.subTest([data, labels]):
                    self.run_program("gradients", "runs/single", *data, "--labels", labels, "--to", "out.npz", "--quiet")
                    found = np.load(self.path("out.npz"))["value.kernel.gradient"]
                    np.testing.assert_allclose(found, gradient, atol=1e-5)
        for words, text in ((["--input", "b=a.npy"], "the model has no input 'b'; it has 'a'"),
                            (["--input", "a=a.npy", "--input", "b=b.npy"], "the model has one input, and 2 are given")):
            done = self.run_program("predict", "runs/single", *words, "--to", "out.npy", status=1)
            self.assertIn(text, done.stderr)

    def test_a_resumed_run_goes_on(self):
        self.check(FILES)
        self.train(EXPERIMENT.format(data=FILES).replace("steps: 6", "steps: 3"), "--out", "half")
        self.run_program("train", "--resume", "half/several", "--set", "train.steps=6")
        whole, half = (self.rows(run, "several", "metrics.csv") for run in ("runs", "half"))
        self.assertEqual(whole, half)

    def test_what_does_not_fit_is_said(self):
        good = EXPERIMENT.format(data=FILES)
        for old, new, text in (
                ("b: b.npy", "c: b.npy", "data.inputs: the model has no input 'c'"),
                ("inputs: {b: b.npy, a: a.npy}", "inputs: {a: a.npy}", "data.inputs: the model's input 'b' is missing"),
                ("kind: kind.npy", "knid: kind.npy", "data.labels: the model has no output 'knid'; did you mean 'kind'?"),
                ("kind: kind.npy, ", "", "data.labels: those of the model's output 'kind' are missing"),
                ("{value: 0.25}", "{valu: 0.25}", "train.loss_weights: the model has no output 'valu'"),
                ("{value: mse, ", "{", "train.loss: the model's output 'value' has none"),
                ("{kind: [accuracy], value: [mae]}", "[mae]", "train.metrics: mae: of which output?"),
                ("kind: kind.npy", "kind: value.npy", "output 'kind': "),
                ("outputs: [value, kind]", "outputs: [value, kinds]", "model: output 'kinds': there is no such layer"),
                ("batch: 8", "batch: 8, class_weight: balanced", "`class_weight` is for examples of one"),
                ("b: b.npy", "b: all.npz", "a file of one input or label is an .npy or IDX array")):
            with self.subTest(text):
                said = self.train(good.replace(old, new), "--dry-run", status=2)
                self.assertIn(text, said.stderr)

    def test_predictions_of_further_outputs_are_said_to_be_elsewhere(self):
        said = "prediction is that of the first output, value; of another it is what: kind.output"
        self.assertNotIn(said, self.train(EXPERIMENT.format(data=FILES)).stderr)
        asked = "- {{what: prediction, to: csv}}\n"
        self.assertIn(said, self.train((EXPERIMENT + asked).format(data=FILES)).stderr)

    def test_a_check_takes_no_output_for_a_hidden_layer(self):
        self.write("e.yaml", EXPERIMENT.format(data=FILES))
        said = self.run_program("check", "e.yaml").stdout
        self.assertNotIn("missing activation", said)


if __name__ == "__main__":
    unittest.main()
