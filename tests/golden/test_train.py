"""Networks trained by the program from given weights, in the file's order, give PyTorch's numbers: losses,
layer errors, gradients and parameters over 50 steps, last short batches included. See train.py."""
import json
import os
import struct
import subprocess
import tempfile
import unittest

import numpy
import pandas

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train")
STEPS = (1, 4, 50)
TOLERANCE = 1e-4


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        values = numpy.ascontiguousarray(array, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": array.shape,
                        "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def group(golden, kind):
    return {key[len(kind) + 1:]: golden[key] for key in golden.files if key.startswith(kind + ":")}


class Agreement(unittest.TestCase):
    def run_program(self, folder, *arguments):
        done = subprocess.run([os.environ["TAPEDECK"], *arguments], cwd=folder, timeout=300,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def close(self, actual, expected, what):
        numpy.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE, err_msg=what)

    def train(self, folder, name, golden):
        numpy.save(os.path.join(folder, "x.npy"), golden["x"])
        numpy.save(os.path.join(folder, "y.npy"), golden["y"])
        write_safetensors(os.path.join(folder, "start.safetensors"), group(golden, "start"))
        with open(os.path.join(FOLDER, name + ".yaml"), encoding="utf-8") as file:
            network = file.read()
        errors = ", ".join(layer + ".error" for layer in group(golden, "error"))
        gradients = ", ".join(key + ".gradient" for key in group(golden, "gradient"))
        experiment = f"""
name: run
threads: 1
data: {{train: x.npy, labels: y.npy, batch: 12, shuffle: false}}
weights: start.safetensors
{network}  steps: 50
record:
  - {{what: loss, to: [csv]}}
  - {{what: [{errors}], at: {list(STEPS)}, form: rows, to: [csv]}}
  - {{what: [{gradients}], at: {list(STEPS)}, form: tensor, to: [npy]}}
"""
        path = os.path.join(folder, "experiment.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(experiment)
        self.run_program(folder, "train", "experiment.yaml", "--quiet")
        self.run_program(folder, "weights", "runs/run", "--to", "end.npz")

    def compare(self, folder, golden):
        run = os.path.join(folder, "runs", "run")
        self.close(pandas.read_csv(os.path.join(run, "metrics.csv")).loss, golden["loss"], "loss")
        for layer, expected in group(golden, "error").items():
            rows = pandas.read_csv(os.path.join(run, layer + ".error.csv"))
            self.assertEqual(list(rows.step), [1] * 12 + [4] * 6 + [50] * 12)
            self.assertEqual(list(rows["sample"]),
                             [*range(12), *range(36, 42), *range(12, 24)])
            self.close(rows.iloc[:, 3:].to_numpy(), expected, layer + ".error")
        for key, expected in group(golden, "gradient").items():
            self.close(numpy.load(os.path.join(run, key + ".gradient.npy")), expected, key)
        end = numpy.load(os.path.join(folder, "end.npz"))
        for key, expected in group(golden, "end").items():
            self.close(end[key], expected, key)

    def check(self, name):
        golden = numpy.load(os.path.join(FOLDER, name + ".npz"))
        with tempfile.TemporaryDirectory() as folder:
            self.train(folder, name, golden)
            self.compare(folder, golden)

    def test_dense(self):
        self.check("dense")

    def test_convolutions(self):
        self.check("conv")

    def test_recurrent(self):
        self.check("recurrent")

    def test_normalised(self):
        self.check("normalised")

    def test_attention(self):
        self.check("attention")


if __name__ == "__main__":
    unittest.main()
