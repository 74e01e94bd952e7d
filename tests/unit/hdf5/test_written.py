"""What the library writes, h5py and HDF5's own tools read: the same objects, types, values and texts."""
import os
import subprocess
import tempfile
import unittest

import h5py
import numpy

HELPERS = os.path.join(os.environ["TD_BUILD"], "tests", "helpers")


class Written(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.given = os.path.join(folder.name, "given.h5")
        self.made = os.path.join(folder.name, "made.h5")

    def copy(self, *attributes):
        subprocess.run([os.path.join(HELPERS, "hdf5_copy"), self.given, self.made, *attributes], check=True)

    def compare(self, given, made):
        self.assertEqual(type(given), type(made), given.name)
        self.assertEqual(set(given.attrs), set(made.attrs))
        for name, value in given.attrs.items():
            self.assertEqual(type(made.attrs[name]), type(value))
            numpy.testing.assert_array_equal(made.attrs[name], value)
        if isinstance(given, h5py.Group):
            self.assertEqual(list(given), list(made))
            for name in given:
                self.compare(given[name], made[name])
        else:
            self.assertEqual((given.dtype, given.shape), (made.dtype, made.shape))
            self.assertEqual(given[()].tobytes(), made[()].tobytes())

    def check(self, *attributes):
        self.copy(*attributes)
        with h5py.File(self.given, "r") as given, h5py.File(self.made, "r") as made:
            self.compare(given, made)
            made.visititems(lambda _, item: self.check_alignment(item))

    def check_alignment(self, item):
        if isinstance(item, h5py.Dataset) and item.size:
            self.assertEqual(item.id.get_offset() % 8, 0)

    def test_arrays_of_every_type_and_shape(self):
        with h5py.File(self.given, "w") as file:
            for kind in ["f4", "f8", "i4", "i8", "u1"]:
                file["group/" + kind] = numpy.arange(21).reshape(3, 7).astype(kind)
            file["scalar"] = numpy.int64(-3)
            file["empty"] = numpy.zeros((0, 5), "f4")
            file["eight"] = numpy.arange(2**8, dtype="u1").reshape([2] * 8)
            file["special"] = numpy.array([numpy.nan, -numpy.inf, 1e-45, -0.0], "f4")
            file.create_group("nothing/in/here")
        self.check()

    def test_an_empty_file(self):
        h5py.File(self.given, "w").close()
        self.check()

    def test_texts(self):
        with h5py.File(self.given, "w") as file:
            file.attrs["name"] = "nämé"
            file.attrs["empty"] = ""
            file.attrs["long"] = "x" * 300000
            layer = file.create_group("layers/dense")
            layer.attrs["name"] = "dense"
            layer.attrs["list"] = ["kernel", "", "bïas"]
            file["layers/dense/vars/0"] = numpy.arange(3, dtype="f4")
            file["layers/dense/vars/0"].attrs["name"] = "kernel"
            file.attrs["list_long"] = [f"name number {i}" for i in range(4000)]
            file.attrs["list_one"] = ["one"]
        self.check("name", "empty", "long", "list", "list_long", "list_one")

    def test_an_empty_list(self):
        with h5py.File(self.given, "w") as file:
            file.attrs["list"] = numpy.array([])
        self.copy("list")
        with h5py.File(self.made, "r") as file:
            self.assertEqual(file.attrs["list"].shape, (0,))

    def test_groups_of_every_size(self):
        for count in [1, 7, 8, 9, 255, 256, 257, 3000]:
            with self.subTest(count=count):
                with h5py.File(self.given, "w") as file:
                    for i in range(count):
                        if count < 300:
                            file[f"g/{i}"] = numpy.float32(i)
                        else:
                            file.create_group(f"g/member_{i * 7919 % count}")
                self.check()

    def test_hdf5_tools_read_it(self):
        with h5py.File(self.given, "w") as file:
            file["a/b"] = numpy.arange(3, dtype="f4")
            file["a"].attrs["name"] = "text"
        self.copy("name")
        dump = subprocess.run(["h5dump", self.made], capture_output=True, text=True, check=True)
        self.assertEqual(dump.stderr, "")
        self.assertIn('(0): "text"', dump.stdout)
        self.assertIn("(0): 0, 1, 2", dump.stdout)

    def test_h5py_extends_it(self):
        with h5py.File(self.given, "w") as file:
            for i in range(40):
                file[f"g/{i}"] = numpy.float32(i)
            file.attrs["name"] = "text"
        self.copy("name")
        for path in [self.given, self.made]:
            with h5py.File(path, "a") as file:
                for i in range(40, 90):
                    file[f"g/{i}"] = numpy.float32(i)
                for i in range(0, 90, 3):
                    del file[f"g/{i}"]
                file.attrs["more"] = "texts"
        with h5py.File(self.given, "r") as given, h5py.File(self.made, "r") as made:
            self.compare(given, made)


if __name__ == "__main__":
    unittest.main()
