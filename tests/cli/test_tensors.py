"""Weights alone: listed, converted, compared, and put into models, whoever wrote them."""
import csv
import json
import os
import pickle
import struct
import unittest
import zipfile

import numpy

from program import Case, SOURCE

MODELS = os.path.join(SOURCE, "tests", "fixtures", "models")
WEIGHTS = os.path.join(MODELS, "weights")


class Tensors(Case):
    def table(self, path, *options):
        return json.loads(self.run_program("inspect", path, "--json", *options).stdout)

    def converted(self, path, *options):
        self.run_program("weights", path, "--to", "out.npz", *options)
        with numpy.load(self.path("out.npz")) as arrays:
            return dict(arrays)

    def assert_same(self, got, want):
        self.assertEqual(set(got), set(want))
        for name, array in want.items():
            self.assertEqual((got[name].dtype, got[name].shape), (array.dtype, array.shape), name)
            numpy.testing.assert_array_equal(got[name], array, name)

    def test_a_graph_of_several_inputs_has_tensors_and_says_what_it_takes(self):
        path = os.path.join(MODELS, "onnx", "refused_inputs.onnx")
        about = self.table(path)
        self.assertRegex(about["remark"], r"a graph of \d+ nodes?; inputs \S+ float \(.*\), \S+ float \(.*\); outputs ")
        self.assertEqual(about["format"], "ONNX")

    def test_tensors_of_a_graph_are_those_of_its_file(self):
        path = os.path.join(MODELS, "onnx", "trained_13.onnx")
        named = {tensor["name"]: tensor["shape"] for tensor in self.table(path, "--tensors")["tensors"]}
        arrays = self.converted(path, "--tensors")
        self.assertEqual({name: list(array.shape) for name, array in arrays.items()}, named)
        norms = [(array.size, float(numpy.linalg.norm(array.astype("f8")))) for array in arrays.values()]
        parameters = json.loads(self.run_program("inspect", path, "--json").stdout)["parameters"]
        self.assertGreater(len(parameters), 3)
        for found in parameters:
            self.assertTrue(any(size == found["count"] and abs(norm - found["norm"]) <= 1e-5 * norm
                                for size, norm in norms), found["name"])

    def test_what_torch_saved_is_what_pytorch_has(self):
        want = dict(numpy.load(os.path.join(WEIGHTS, "checkpoint.npz")))
        new = self.converted(os.path.join(WEIGHTS, "checkpoint.pt"))
        numpy.testing.assert_array_equal(new.pop("list.0"), [1])
        numpy.testing.assert_array_equal(new.pop("list.1"), [0, 0])
        self.assert_same(new, want)
        del want["model.uint16"]
        self.assert_same(self.converted(os.path.join(WEIGHTS, "checkpoint_old.pt")), want)

    def test_a_table_tells_types_and_what_it_leaves_out(self):
        about = self.table(os.path.join(WEIGHTS, "checkpoint.pt"))
        self.assertEqual(about["format"], "PyTorch")
        self.assertEqual(about["remark"], "3 more values are no tensors (numbers, texts)")
        types = {tensor["name"]: tensor["type"] for tensor in about["tensors"]}
        self.assertEqual(types["model.bfloat16"], "bfloat16")
        self.assertEqual(types["model.uint16"], "uint16")
        self.assertEqual(types["model.parameter"], "float32")
        text = self.run_program("inspect", os.path.join(WEIGHTS, "checkpoint.pt")).stdout
        self.assertRegex(text, r"model.turned +\(6, 4\) +int64 +24 +11.5 ")

    def test_every_format_says_the_same(self):
        source = os.path.join(WEIGHTS, "state.pt")
        for to in ("a.safetensors", "a.npz"):
            self.run_program("weights", source, "--to", to)
            self.assertEqual(self.run_program("compare", source, to).stdout, "0 of 9 tensors differ\n")
        self.assertEqual(self.run_program("compare", source, os.path.join(WEIGHTS, "state_old.pt")).stdout,
                         "0 of 9 tensors differ\n")
        self.run_program("weights", source, "--to", "folder/")
        self.run_program("weights", source, "--to", "a.csv")
        want = self.converted(source)
        self.assert_same({name: numpy.load(self.path(f"folder/{name}.npy")) for name in want}, want)
        with open(self.path("a.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 78)
        self.assertEqual({(row["layer"], row["parameter"]) for row in rows},
                         {tuple(name.rsplit(".", 1)) for name in want})
        row = next(row for row in rows if row["parameter"] == "weight" and row["index"] == "2,1,0,2")
        self.assertEqual(numpy.float32(row["value"]), want["conv.weight"][2, 1, 0, 2])

    def test_whole_numbers_keep_their_digits(self):
        numpy.savez(self.path("a.npz"), n=numpy.array([2**63 - 1, -5]), t=numpy.asfortranarray([[1., 2, 3], [4, 5, 6]]))
        self.run_program("weights", "a.npz", "--to", "a.csv")
        with open(self.path("a.csv")) as file:
            text = file.read()
        self.assertIn(",n,0,9223372036854775807\n,n,1,-5\n", text)
        self.assertIn(',t,"0,1",2\n', text)
        self.assert_same(self.converted("a.npz"), dict(numpy.load(self.path("a.npz"))))

    def test_compare_names_what_differs(self):
        numpy.savez(self.path("a.npz"), x=numpy.array([1.0, 2, numpy.nan]), y=numpy.zeros((2, 3)), only=numpy.ones(1))
        numpy.savez(self.path("b.npz"), x=numpy.array([1.0, 2.2, numpy.nan]), y=numpy.zeros((3, 2)), other=numpy.ones(1))
        text = self.run_program("compare", "a.npz", "b.npz", status=1).stdout
        self.assertIn("4 of 4 tensors differ", text)
        self.assertRegex(text, r"x +1 +0.2 +0.09091")
        self.assertIn("shape (2, 3), (3, 2)", text)
        self.assertRegex(text, r"only +only in a.npz")
        self.assertRegex(text, r"other +only in b.npz")
        found = json.loads(self.run_program("compare", "a.npz", "b.npz", "--json", status=1).stdout)
        self.assertEqual([d["name"] for d in found["differences"]], ["only", "x", "y", "other"])
        numpy.savez(self.path("c.npz"), x=numpy.array([1.0, 2.2, numpy.nan]), y=numpy.zeros((2, 3)), only=numpy.ones(1))
        self.run_program("compare", "a.npz", "c.npz", "--tolerance", "0.1")
        self.run_program("compare", "a.npz", "c.npz", "--tolerance", "0.05", status=1)
        self.run_program("compare", "a.npz", "b.npz", "c.npz", status=2)

    def test_hdf5_of_weights_alone(self):
        path = os.path.join(WEIGHTS, "legacy.h5")
        about = self.table(path)
        names = [tensor["name"] for tensor in about["tensors"]]
        self.assertIn("conv/conv/kernel:0", names)
        self.assertEqual(len(names), 14)
        saved = self.converted(os.path.join(MODELS, "saved_model", "graph"))
        got = self.converted(path)
        numpy.testing.assert_array_equal(got["conv/conv/kernel:0"], saved["conv.kernel"])
        text = self.run_program("predict", path, "x.npy", "--to", "y.npy", status=1).stderr
        self.assertIn("weights alone; `tapedeck inspect` lists them", text)

    def test_weights_alone_go_into_a_model(self):
        with open(self.path("x.yaml"), "w") as file:
            file.write("""
name: x
data: {generate: {two_moons: {examples: 20}}, input: [2]}
model:
  - dense: {name: fc, units: 2}
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 1}
""")
        self.run_program("train", "x.yaml", "--quiet")
        kernel, bias = numpy.arange(4, dtype="f4").reshape(2, 2), numpy.array([5, 6], "f4")
        self.write_pt("fc.pt", {"fc.weight": kernel.T.copy(), "fc.bias": bias})
        self.run_program("weights", "runs/x", "--from", "fc.pt", "--to", "new.npz")
        arrays = numpy.load(self.path("new.npz"))
        numpy.testing.assert_array_equal(arrays["fc.kernel"], kernel)
        numpy.testing.assert_array_equal(arrays["fc.bias"], bias)

    def write_pt(self, name, arrays):
        """As torch.save does, by hand."""
        def text(value):
            return b"X" + struct.pack("<I", len(value)) + value.encode()

        def numbers(values):
            return b"(" + b"".join(b"J" + struct.pack("<i", value) for value in values) + b"t"
        with zipfile.ZipFile(self.path(name), "w") as archive:
            body = b""
            for i, (key, array) in enumerate(arrays.items()):
                storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(i)) + text("cpu") + \
                    b"J" + struct.pack("<i", array.size) + b"tQ"
                strides = [stride // 4 for stride in array.strides]
                body += text(key) + b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + numbers(array.shape) + \
                    numbers(strides) + b"\x89ccollections\nOrderedDict\n)RtR"
            archive.writestr("x/data.pkl", b"\x80\x02}(" + body + b"u.")
            for i, array in enumerate(arrays.values()):
                archive.writestr(f"x/data/{i}", array.tobytes())


class Pickles(Case):
    """Whatever a pickle wants, nothing is run, and memory and time have bounds."""

    def write(self, pickle_bytes):
        with zipfile.ZipFile(self.path("x.pt"), "w") as archive:
            archive.writestr("x/data.pkl", pickle_bytes)

    def refused(self, pickle_bytes):
        self.write(pickle_bytes)
        return self.run_program("inspect", "x.pt", status=1).stderr

    def test_code_is_named_and_not_run(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch ran",)
        text = self.refused(pickle.dumps({"w": 1, "x": Evil()}))
        self.assertIn("posix.system", text)
        self.assertIn("is code and never run", text)
        self.assertIn("state_dict()", text)
        self.assertFalse(os.path.exists(self.path("ran")))
        text = self.run_program("inspect", os.path.join(WEIGHTS, "whole.pt"), status=1).stderr
        self.assertIn("torch.nn.modules.conv.Conv2d", text)
        self.assertIn("torch.onnx.export", text)

    def test_pickles_that_would_fill_memory(self):
        self.assertIn("too many values", self.refused(b"\x80\x02" + b"]" * 3_000_000 + b"."))
        self.assertIn("too many marks", self.refused(b"(" * 3_000_000 + b"."))
        self.assertIn("remembered", self.refused(b"Nr\xff\xff\xff\x7f."))
        self.assertIn("cut short", self.refused(b"X\xff\xff\xff\xff."))
        self.assertIn("cut short", self.refused(b"\x8d" + b"\xff" * 8 + b"."))
        self.assertIn("0x97", self.refused(b"\x97."))

    def test_nesting_without_end(self):
        self.assertIn("without end", self.refused(b"]q\0h\0a."))
        self.assertIn("without end", self.refused(b"]" * 10_000 + b"a" * 9_999 + b"."))
        laughs = b"]q\0(NNNNNNNNNNe"  # each list holds the one before ten times
        for i in range(20):
            laughs += b"]q" + bytes([i + 1]) + b"(" + (b"h" + bytes([i])) * 10 + b"e"
        self.assertIn("without end", self.refused(b"(" + laughs + b"t."))

    def test_tensors_stay_within_their_storage(self):
        def tensor(offset, size, stride, count=4, stored=16, kind=b"FloatStorage"):
            def numbers(values):
                return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", value) for value in values) + b"t"
            body = b"\x80\x02}X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n" + kind + \
                b"\nX\1\0\0\0000X\3\0\0\0cpu\x8a\x08" + struct.pack("<q", count) + b"tQ\x8a\x08" + \
                struct.pack("<q", offset) + numbers(size) + numbers(stride) + b"\x89}tRs."
            with zipfile.ZipFile(self.path("x.pt"), "w") as archive:
                archive.writestr("x/data.pkl", body)
                archive.writestr("x/data/0", numpy.arange(stored // 4, dtype="f4").tobytes())
        tensor(0, [2, 2], [1, 2])
        self.run_program("weights", "x.pt", "--to", "x.npz")
        numpy.testing.assert_array_equal(numpy.load(self.path("x.npz"))["w"], [[0, 2], [1, 3]])
        for arguments, said in (((1, [2, 2], [2, 1]), "beyond its storage"), ((-1, [1], [1]), "size, stride"),
                                ((0, [2, 2], [1]), "size, stride"), ((0, [5], [1]), "beyond its storage"),
                                ((0, [4], [1], 5), "fewer bytes"), ((0, [2**62, 4], [0, 0]), "beyond its storage"),
                                ((0, [2**33], [0]), "file justifies"), ((0, [2], [2**62]), "beyond its storage"),
                                ((0, [2], [1], 4, 16, b"ComplexFloatStorage"), "ComplexFloatStorage")):
            tensor(*arguments)
            self.assertIn(said, self.run_program("inspect", "x.pt", status=1).stderr, arguments)

    def test_what_is_no_state_dictionary_says_what_to_do(self):
        with open(self.path("plain.pt"), "wb") as file:
            pickle.dump({"a": 1}, file, protocol=4)
        self.assertIn("torch.save did not write", self.run_program("inspect", "plain.pt", status=1).stderr)
        with zipfile.ZipFile(self.path("x.pt2"), "w") as archive:
            archive.writestr("x/archive_format", "pt2")
        self.assertIn('x.pt2: a program of torch.export as PyTorch before 2.9 wrote it',
                      self.run_program("inspect", "x.pt2", status=1).stderr)
        with open(self.path("model.bin"), "wb") as file:
            file.write(b"\x1c\0\0\0TFL3" + bytes(100))
        self.assertIn("model.bin: not a sound file of TensorFlow Lite",
                      self.run_program("inspect", "model.bin", status=1).stderr)


class SavedModels(Case):
    def test_keras_2_folders_are_models(self):
        for name in ("graph", "sequence"):
            folder = os.path.join(MODELS, "saved_model", name)
            self.run_program("predict", folder, folder + ".input.npy", "--to", "out.npy", "--quiet")
            numpy.testing.assert_allclose(numpy.load(self.path("out.npy")), numpy.load(folder + ".output.npy"),
                                          rtol=1e-5, atol=1e-6)
        self.assertIn("SavedModel", self.run_program("inspect", folder).stdout)
        self.run_program("weights", folder, "--to", "out.keras")
        self.run_program("compare", folder, "out.keras")

    def test_of_others_the_weights_are_listed(self):
        folder = os.path.join(MODELS, "saved_model", "graph")
        self.run_in_copy(folder)
        os.remove(self.path("copy/keras_metadata.pb"))
        about = json.loads(self.run_program("inspect", "copy", "--json").stdout)
        self.assertEqual(len(about["tensors"]), 14)
        self.assertIn("tf2onnx.convert --saved-model copy", about["remark"])
        text = self.run_program("predict", "copy", folder + ".input.npy", "--to", "y.npy", status=1).stderr
        self.assertIn("python -m tf2onnx.convert --saved-model copy --output model.onnx", text)
        self.run_program("weights", "copy", "--to", "w.npz")

    def run_in_copy(self, folder):
        import shutil
        shutil.copytree(folder, self.path("copy"))

    def test_checkpoints(self):
        for name in ("checkpoint", "checkpoint.index"):
            self.run_program("weights", os.path.join(WEIGHTS, name), "--to", "c.npz")
            arrays = dict(numpy.load(self.path("c.npz")))
            end = "/.ATTRIBUTES/VARIABLE_VALUE"
            numpy.testing.assert_array_equal(arrays["kernel" + end], numpy.arange(6, dtype="f4").reshape(2, 3))
            self.assertEqual(arrays["half" + end].dtype, numpy.float16)
            self.assertEqual(arrays["step" + end], 7)

    def test_damage_is_noticed(self):
        self.run_in_copy(os.path.join(MODELS, "saved_model", "graph"))
        for part, said in (("variables.data-00000-of-00001", "checksum that the index says"),
                           ("variables.index", "checksum is wrong")):
            path = self.path("copy/variables/" + part)
            with open(path, "rb") as file:
                data = bytearray(file.read())
            data[20] ^= 1
            with open(path, "wb") as file:
                file.write(data)
            self.assertIn(said, self.run_program("inspect", "copy", status=1).stderr)


if __name__ == "__main__":
    unittest.main()
