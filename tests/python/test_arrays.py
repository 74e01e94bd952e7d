"""Arrays by every way they come: recorded as NumPy reads them, or refused by the name of their type."""

import ctypes
import itertools
import os
import tempfile
import unittest

import numpy as np

import tapedeck


class Tensor(ctypes.Structure):
    """DLPack's DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Foreign:
    """An array with __dlpack__ and nothing else, of any type and shape."""

    def __init__(self, memory, code, bits, shape, strides=None, lanes=1):
        self.memory = memory
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
        self.tensor = Tensor(data=memory.ctypes.data if memory is not None else None, rank=len(shape), code=code,
                             bits=bits, lanes=lanes, shape=self.shape, strides=self.strides)
        self.tensor.device[0] = 1

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


class Interface:
    def __init__(self, array):
        self.kept = array
        self.__array_interface__ = array.__array_interface__


class Converted:
    def __init__(self, array):
        self.kept = array

    def __array__(self, dtype=None, copy=None):
        return self.kept


class Arrays(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.deck = tapedeck.Deck(os.path.join(self.folder.name, "run"))
        self.addCleanup(self.deck.finish)

    def recorded(self, arrays):
        for name, array in arrays.items():
            self.deck.record(name, array)
        self.deck.step()
        self.deck.finish()
        run = tapedeck.Run(self.deck.folder)
        return {name: run[name].at(1) for name in arrays}

    def test_types_layouts_and_ways(self):
        base = np.arange(-12, 12).reshape(2, 3, 4)
        types = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f4", ">i8", ">u2"]
        layouts = {
            "plain": lambda a: a, "turned": lambda a: a.transpose(2, 0, 1), "backwards": lambda a: a[::-1, :, ::-1],
            "some": lambda a: a[:, ::2, 1:], "0-d": lambda a: a[1, 2, 3], "empty": lambda a: a[:0], "row": lambda a: a[0, 0],
            "fortran": np.asfortranarray, "broadcast": lambda a: np.broadcast_to(a[:1], (3, 3, 4)),
        }
        ways = {"itself": lambda a: a, "interface": Interface, "converted": Converted, "buffer": memoryview}
        arrays, expected = {}, {}
        for kind, (layout, lay), (way, give) in itertools.product(types, layouts.items(), ways.items()):
            array = np.asarray(lay(base.astype(kind)))
            name = f"{kind} {layout} {way}".replace(">", "big ").replace("?", "bool")
            arrays[name], expected[name] = give(array), array
        for name, found in self.recorded(arrays).items():
            np.testing.assert_array_equal(found, expected[name], err_msg=name)
            self.assertEqual(found.dtype, expected[name].dtype.newbyteorder("="), name)

    def test_not_aligned(self):
        packed = np.zeros(5, dtype=[("a", "u1"), ("b", "<f4")])
        packed["b"] = [1, 2, 3, 4, 5]
        np.testing.assert_array_equal(self.recorded({"b": packed["b"]})["b"], [1, 2, 3, 4, 5])

    def test_ctypes(self):
        arrays = {"floats": (ctypes.c_float * 3)(1, 2, 3), "doubles": ((ctypes.c_double * 2) * 3)((1, 2), (3, 4), (5, 6)),
                  "ints": (ctypes.c_int * 2)(-1, 7), "longs": (ctypes.c_long * 2)(-1, 2**40), "none": (ctypes.c_float * 0)(),
                  "bytes": (ctypes.c_ubyte * 2)(3, 255), "one": ctypes.c_double(2.5)}
        for name, found in self.recorded(arrays).items():
            np.testing.assert_array_equal(found, np.ctypeslib.as_array(arrays[name]) if name != "one" else 2.5, err_msg=name)

    def test_dlpack(self):
        memory = np.arange(24, dtype="f4")
        arrays = {"rows": Foreign(memory, 2, 32, (2, 3, 4)), "turned": Foreign(memory, 2, 32, (4, 6), (1, 4)),
                  "scalar": Foreign(memory, 2, 32, ()), "empty": Foreign(None, 2, 32, (0, 5)),
                  "bfloat16": Foreign(np.uint16([0x3F80, 0xC000]), 4, 16, (2,))}
        found = self.recorded(arrays)
        np.testing.assert_array_equal(found["rows"], memory.reshape(2, 3, 4))
        np.testing.assert_array_equal(found["turned"], memory.reshape(6, 4).T)
        np.testing.assert_array_equal(found["scalar"], 0)
        np.testing.assert_array_equal(found["bfloat16"], [1, -2])
        self.assertEqual(found["empty"].size, 0)

    def test_refused_by_name(self):
        memory = np.zeros(64, "f4")
        record = self.deck.track("*", to="npy")._native.record
        for expected, code, bits, lanes in (
            ("float8_e4m3fn", 10, 8, 1), ("float8_e5m2", 12, 8, 1), ("float4_e2m1fn", 17, 4, 1), ("complex64", 5, 64, 1),
            ("complex32", 5, 32, 1), ("type 99", 99, 8, 1), ("int4", 0, 4, 1), ("vectors of 4 elements of float32", 2, 32, 4),
            ("float128", 2, 128, 1),
        ):
            with self.subTest(expected), self.assertRaisesRegex(TypeError, expected):
                record("x", Foreign(memory, code, bits, (2,), lanes=lanes))
        for array in (np.zeros(2, "clongdouble"), np.zeros(2, "datetime64[s]"), np.array(["a"]), np.zeros(2, "g"),
                      np.zeros(2, object), np.zeros(2, [("a", "f4")])):
            with self.subTest(array.dtype), self.assertRaisesRegex(TypeError, "not recorded"):
                self.deck.record("x", array)

    def test_complex_numbers_are_two_signals(self):
        array = np.array([[1 + 2j, 3 - 4j], [0, -1j]])
        for name, value in {"double": array, "single": array.astype("c8"), "turned": array.T}.items():
            self.deck.record(name, value)
        self.deck.step()
        self.deck.finish()
        run = tapedeck.Run(self.deck.folder)
        for name, value in {"double": array, "single": array, "turned": array.T}.items():
            np.testing.assert_array_equal(run[name + ".real"].at(1) + 1j * run[name + ".imag"].at(1), value, err_msg=name)

    def test_shapes_that_cannot_be(self):
        memory = np.zeros(4, "f4")
        self.deck.track("*", to="npy")
        for shape in ((1 << 62, 8), (1 << 40, 1 << 40), (-1, 4), (1 << 31, 1 << 31, 1 << 31)):
            with self.subTest(shape), self.assertRaises((ValueError, tapedeck.Error)):
                self.deck._native.record("x", Foreign(memory, 2, 32, shape))
        with self.assertRaises(BufferError):
            self.deck._native.record("x", Foreign(None, 2, 32, (3,)))

    def test_finishing_from_within_a_call(self):
        class Finishing:
            def __init__(self, deck):
                self.deck = deck

            def __array__(self, *_, **__):
                self.deck.finish()
                return np.ones(3, "f4")

        class Number:
            def __init__(self, deck):
                self.deck = deck

            def __float__(self):
                self.deck.finish()
                return 1.0

        for call in (lambda deck: deck.record("x", Finishing(deck)), lambda deck: deck.log(x=Number(deck)),
                     lambda deck: deck._native.signal("x").put(Finishing(deck))):
            deck = tapedeck.Deck(os.path.join(self.folder.name, "finishing")).track("*", to="npy")
            with self.assertRaisesRegex(ValueError, "finished"):
                call(deck)
            self.assertEqual(tapedeck.Run(deck.folder).state, "finished")

    def test_names_that_lead_elsewhere(self):
        names = ["../../etc/x", "..", "/etc/x", "a/../b", "x..y", "."]
        found = self.recorded({name: np.full(2, i, "f4") for i, name in enumerate(names)})
        for i, name in enumerate(names):
            np.testing.assert_array_equal(found[name], [i, i], err_msg=name)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["run"])

    def test_a_record_that_cannot_be_read_is_an_error(self):
        self.deck.record("x", np.ones(3, "f4"))
        self.deck.step()
        self.deck.finish()
        os.remove(os.path.join(self.deck.folder, "x.npy"))
        with self.assertRaisesRegex(tapedeck.Error, "x.npy"):
            tapedeck.Run(self.deck.folder)["x"].at(1)

    def test_fingerprints(self):
        self.deck.track("*", form="hash", to="sqlite")
        for _ in range(2):
            self.deck.record("x", np.arange(5, dtype="f4"))
            self.deck.step()
        self.deck.finish()
        signal = tapedeck.Run(self.deck.folder)["x"]
        self.assertRegex(signal.at(1, form="hash"), "^[0-9a-f]{16}$")
        self.assertEqual(signal.at(1, form="hash"), signal.at(2, form="hash"))

    def test_steps_only_go_forward(self):
        self.deck.step(step=5)
        for step in (5, 4, 0, -1):
            with self.assertRaisesRegex(ValueError, f"step {step} comes after step 5"):
                self.deck.step(step=step)
        self.deck.step(step=7)


if __name__ == "__main__":
    unittest.main()
