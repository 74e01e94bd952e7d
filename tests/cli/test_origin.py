"""`tapedeck origin`: the operation that made the first number that is not finite; the rows behind a spike."""
import json
import os
import unittest

import numpy as np
from program import Case, SMALL

ROWS = 40


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def message(*fields):
    """A protocol buffer of (number, whole number, text or bytes)."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def onnx(width, nodes, arrays):
    """An ONNX file: nodes are (operator, inputs, output), the first input is x, the last output the model's."""
    def info(name, columns):
        shape = message((1, message((2, "n"))), (1, message((1, columns))))
        return message((1, name), (2, message((1, message((1, 1), (2, shape))))))
    graph = [(1, message(*((1, each) for each in inputs), (2, output), (3, output), (4, kind)))
             for kind, inputs, output in nodes]
    graph += [(5, message(*((1, size) for size in array.shape), (2, 1), (8, name), (9, array.astype("<f4").tobytes())))
              for name, array in arrays.items()]
    graph += [(2, "graph"), (11, info("x", width)), (12, info(nodes[-1][2], 1))]
    return message((1, 8), (7, message(*graph)), (8, message((1, ""), (2, 17))))


def experiment(model, loss="mse", optimizer="sgd: {learning_rate: 0.001}", more=""):
    return f"""
name: planted
seed: 3
threads: 1
data: {{train: x.npy, labels: y.npy, batch: 8, shuffle: false}}
model: {model}
train: {{loss: {loss}, optimizer: {{{optimizer}}}, epochs: 3{more}}}
"""


DENSE = "[{dense: {name: hidden, units: 4, activation: tanh}}, {dense: {name: out, units: 1}}]"


class Any:
    """Equal to every exit status that a training ends with, good or bad."""
    def __eq__(self, other):
        return other in (0, 1)


class Origin(Case):
    ENDS = Any()

    def setUp(self):
        super().setUp()
        self.x = np.random.default_rng(5).normal(size=(ROWS, 3)).astype(np.float32)
        self.y = self.x.sum(axis=1, keepdims=True)

    def find(self, text, *arguments, status=0):
        np.save(self.path("x.npy"), self.x)
        np.save(self.path("y.npy"), self.y)
        self.train(text, "--quiet", status=self.ENDS)
        return json.loads(self.run_program("origin", "runs/planted", "--json", *arguments, status=status).stdout)

    def check(self, found, step, phase, layer, kind, tensor=None, rows=None):
        operation = found["operation"]
        self.assertEqual((found["step"], operation["phase"], operation["layer"], operation["kind"]),
                         (step, phase, layer, kind), found)
        if tensor:
            self.assertEqual(operation["tensor"], tensor)
        if rows is not None:
            self.assertEqual([row["row"] for row in found["rows"]], rows)
        if phase != "data" and phase != "start":
            self.assertTrue(all(read["nan"] + read["inf"] == 0 for read in operation["inputs"]), operation)
        self.assertEqual(found["differs_at"], 0)

    # Twelve causes, each planted where it is the only one.

    def test_an_input_that_is_no_number(self):
        self.x[19, 1] = np.nan
        self.check(self.find(experiment(DENSE)), 3, "data", "", "", "input", [19])

    def test_a_label_that_is_no_number(self):
        self.y[10] = np.nan
        self.check(self.find(experiment(DENSE)), 2, "data", "", "", "label", [10])

    def test_a_matrix_product_that_overflows(self):
        self.x[33] = 3e38
        model = ("[{dense: {name: first, units: 4, kernel_initializer: ones}}, {dense: {name: out, units: 1}}]")
        self.check(self.find(experiment(model)), 5, "forward", "first", "dense", "first.output", [33])

    def test_an_activation_that_overflows(self):
        self.x[12] = 60
        model = ("[{dense: {name: first, units: 4, kernel_initializer: ones}},"
                 " {activation: {name: explode, activation: exponential}}, {dense: {name: out, units: 1}}]")
        found = self.find(experiment(model))
        self.check(found, 2, "forward", "explode", found["operation"]["kind"], "explode.output", [12])

    def test_a_square_that_overflows_in_the_loss(self):
        self.y[25] = 3e30
        self.check(self.find(experiment(DENSE)), 4, "forward", "", "mse", rows=[25])

    def test_an_update_that_overflows(self):
        # The gradient is finite and the learning rate times it is not.
        self.y *= 1000
        found = self.find(experiment(DENSE, optimizer="sgd: {learning_rate: 1.0e+38}"))
        self.check(found, 1, "update", "hidden", "sgd", "hidden.kernel")

    def test_weights_that_were_not_finite_when_training_began(self):
        self.find(experiment(DENSE), status=1)
        self.run_program("weights", "runs/planted/model.safetensors", "--to", "w.npz")
        with np.load(self.path("w.npz")) as file:
            weights = dict(file)
        key, = (key for key in weights if "out" in key and "kernel" in key)
        weights[key][2, 0] = np.inf
        np.savez(self.path("bad.npz"), **weights)
        self.run_program("weights", "runs/planted/model.safetensors", "--from", "bad.npz", "--to", "bad.safetensors")
        self.train(experiment("{file: bad.safetensors}").replace("planted", "again"), "--quiet", status=self.ENDS)
        found = json.loads(self.run_program("origin", "runs/again", "--json").stdout)
        self.check(found, 1, "start", "out", "", "out.kernel")
        self.assertEqual(found["operation"]["element"], 2)

    def test_a_recurrent_layer_that_overflows(self):
        self.x = np.ones((ROWS, 6, 2), np.float32)
        self.x[21] = 1e30
        model = ("[{simple_rnn: {name: memory, units: 3, activation: linear, kernel_initializer: ones,"
                 " recurrent_initializer: {constant: {value: 1.0e+20}}}}, {dense: {name: out, units: 1}}]")
        self.y = np.ones((ROWS, 1), np.float32)
        found = self.find(experiment(model))
        self.assertEqual((found["operation"]["layer"], found["operation"]["phase"]), ("memory", "forward"))

    def load(self, nodes, arrays):
        with open(self.path("model.onnx"), "wb") as file:
            file.write(onnx(3, nodes, arrays))
        return experiment("{file: model.onnx}")

    def test_the_logarithm_of_zero_in_an_onnx_model(self):
        self.x = np.abs(self.x) + 1
        self.x[17] = 0
        text = self.load([("Log", ["x"], "logarithm"), ("MatMul", ["logarithm", "w"], "y")], {"w": np.ones((3, 1)) / 9})
        found = self.find(text)
        self.assertEqual((found["step"], found["operation"]["phase"], found["operation"]["kind"]), (3, "forward", "log"))
        self.assertIn("logarithm", found["operation"]["layer"])
        self.assertEqual(found["rows"][0]["row"], 17)

    def test_a_division_by_zero_in_an_onnx_model(self):
        self.x[8] = 0
        text = self.load([("MatMul", ["x", "w"], "product"), ("Div", ["one", "product"], "quotient")],
                         {"w": np.ones((3, 1)), "one": np.ones((1, 1))})
        found = self.find(text)
        self.assertEqual(found["step"], 2)
        self.assertIn("quotient", found["operation"]["layer"])
        self.assertEqual(found["operation"]["phase"], "forward")

    def test_the_slope_of_a_root_at_zero_in_an_onnx_model(self):
        # The forward pass is finite; the root's derivative at 0 is not.
        self.x = np.abs(self.x)
        self.x[30] = 0
        text = self.load([("MatMul", ["x", "w"], "product"), ("Sqrt", ["product"], "root")], {"w": np.ones((3, 1))})
        found = self.find(text)
        self.assertEqual((found["step"], found["operation"]["phase"]), (4, "backward"))
        self.assertIn("root", found["operation"]["layer"])
        self.assertEqual(found["rows"][0]["row"], 30)

    def test_a_loaded_keras_model(self):
        model = ("[{dense: {name: first, units: 4, kernel_initializer: ones}},"
                 " {activation: {name: explode, activation: exponential}}, {dense: {name: out, units: 1}}]")
        self.find(experiment(model), status=1)
        self.run_program("weights", "runs/planted/model.safetensors", "--to", "model.keras")
        self.x[12] = 60
        np.save(self.path("x.npy"), self.x)
        self.train(experiment("{file: model.keras}").replace("planted", "loaded"), "--quiet", status=self.ENDS)
        found = json.loads(self.run_program("origin", "runs/loaded", "--json").stdout)
        self.assertEqual((found["step"], found["operation"]["layer"], found["operation"]["phase"]), (2, "explode", "forward"))

    # What else there is to find, or not.

    def test_values_that_are_infinite_on_purpose_are_not_the_origin(self):
        self.y[20] = 3e30
        text = self.load([("Add", ["x", "mask"], "masked"), ("Softmax", ["masked"], "scores"),
                          ("MatMul", ["scores", "w"], "value")],
                         {"mask": np.array([[0, -np.inf, 0]]), "w": np.ones((3, 1))})
        self.check(self.find(text), 3, "forward", "", "mse", rows=[20])

    def test_a_spike_ranks_the_rows_of_its_batch(self):
        self.y[27] = 500
        found = self.find(experiment(DENSE, optimizer="sgd: {learning_rate: 1.0e-6}").replace("epochs: 3", "epochs: 8"),
                          "--what", "spike", "loss > 1000")
        self.assertEqual((found["what"], found["step"], found["rows"][0]["row"]), ("spike", 4, 27))
        self.assertEqual(found["bad_rows"], 8)
        losses = [row["loss"] for row in found["rows"]]
        self.assertEqual(losses, sorted(losses, reverse=True))
        # The loss of the batch is the mean of its rows'.
        self.assertAlmostEqual(found["loss"] / (sum(losses) / 8), 1, places=5)

    def test_a_spike_without_a_condition(self):
        self.y[27] = 500
        text = experiment(DENSE, optimizer="sgd: {learning_rate: 1.0e-6}").replace("epochs: 3", "epochs: 8")
        found = self.find(text, "--what", "spike")
        self.assertEqual((found["step"], found["rows"][0]["row"]), (9, 27))  # the first with 8 losses before it

    def test_a_run_without_any(self):
        self.train(SMALL, "--quiet")
        done = self.run_program("origin", "runs/small", status=1)
        self.assertIn("no loss of runs/small is nan or inf", done.stdout)
        done = self.run_program("origin", "runs/small", "--what", "spike", status=1)
        self.assertIn("no loss of runs/small is above 8 times the median", done.stdout)
        done = self.run_program("origin", "runs/small", "--what", "spike", "lass > 3", status=1)
        self.assertIn("did you mean loss?", done.stderr)
        self.run_program("origin", "runs/small", "--what", "spikes", status=2)
        self.run_program("origin", "runs/small", "loss > 3", status=2)
        self.run_program("origin", "runs/none", status=1)
        os.remove(self.path("runs", "small", "experiment.yaml"))
        done = self.run_program("origin", "runs/small", status=1)
        self.assertIn("only steps of `tapedeck train` can be executed again", done.stderr)

    def test_nothing_is_written(self):
        self.x[19, 1] = np.nan
        np.save(self.path("x.npy"), self.x)
        np.save(self.path("y.npy"), self.y)
        self.train(experiment(DENSE), "--quiet", status=self.ENDS)
        before = self.contents()
        self.run_program("origin", "runs/planted")
        self.assertEqual(self.contents(), before)

    def contents(self):
        return {os.path.join(folder, file): self.bytes(folder, file)
                for folder, _, files in os.walk(self.path("runs")) for file in files if not file.startswith("run.db-")}


if __name__ == "__main__":
    unittest.main()
