"""safetensors both ways, with the package that defines the format: what it writes is read, what tapedeck writes
it reads.
"""
import json
import os
import shutil
import sys
import unittest

import ml_dtypes
import numpy
import safetensors
from safetensors.numpy import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402
from test_pytorch import FIXTURES, MODELS, read_safetensors  # noqa: E402


class Safetensors(Case):
    def experiment(self, name):
        for part in ("input", "output"):
            shutil.copy(os.path.join(FIXTURES, f"{name}.{part}.npy"), self.path(f"{part}.npy"))
        return (f"name: {name}\nthreads: 1\ndata: {{train: input.npy, labels: output.npy}}\n"
                f"model:{MODELS[name]}weights: theirs.safetensors\ntrain: {{loss: mse, steps: 1}}\n")

    def outputs(self, name):
        self.run_program("predict", f"runs/{name}/initial.safetensors", "input.npy", "--to", "out.npy",
                         "--quiet")
        return numpy.load(self.path("out.npy")), numpy.load(self.path("output.npy"))

    def test_a_state_dictionary_in_any_precision(self):
        for number, (kind, tolerance) in enumerate(((numpy.float32, 1e-5), (numpy.float64, 1e-5),
                                                    (numpy.float16, 1e-2), (ml_dtypes.bfloat16, 5e-2))):
            with self.subTest(kind.__name__):
                tensors = {name: array if array.dtype.kind == "i" else array.astype(kind) for name, array in
                           read_safetensors(os.path.join(FIXTURES, "cnn.safetensors")).items()}
                save_file(tensors, self.path("theirs.safetensors"), metadata={"format": "pt"})
                self.train(self.experiment("cnn").replace("name: cnn", f"name: cnn{number}", 1), "--quiet")
                ours, theirs = self.outputs(f"cnn{number}")
                numpy.testing.assert_allclose(ours, theirs, atol=tolerance, rtol=tolerance)

    def test_what_is_written_is_read_with_names_values_and_metadata(self):
        save_file(read_safetensors(os.path.join(FIXTURES, "sequence.safetensors")),
                  self.path("theirs.safetensors"))
        self.train(self.experiment("sequence"), "--quiet")
        self.run_program("weights", "runs/sequence", "--to", "w.npz")
        want = numpy.load(self.path("w.npz"))
        got = load_file(self.path("runs", "sequence", "model.safetensors"))
        self.assertEqual(sorted(want.files), sorted(got))
        for name, array in got.items():
            numpy.testing.assert_array_equal(array, want[name])
        with safetensors.safe_open(self.path("runs", "sequence", "model.safetensors"), "numpy") as file:
            architecture = json.loads(file.metadata()["tapedeck.model"])
        self.assertEqual([kind for kind, _ in architecture["layers"]][:3], ["embedding", "lstm", "gru"])
        # A checkpoint, which has the optimizer's state too, is sound as well.
        folder = self.path("runs", "sequence", "checkpoints")
        for name in os.listdir(folder):
            self.assertIn("training/counters", load_file(os.path.join(folder, name)))


if __name__ == "__main__":
    unittest.main()
