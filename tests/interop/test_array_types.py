"""Every element type of PyTorch, JAX and ml_dtypes: recorded as it is, or refused by its name; and their pictures."""

import os
import struct
import tempfile
import unittest
import warnings

import numpy as np
import torch

import tapedeck


class Types(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        warnings.simplefilter("ignore")
        self.deck = tapedeck.Deck(os.path.join(self.folder.name, "run")).track("*", form="tensor", to="npy")
        self.addCleanup(self.deck.finish)

    def check(self, values):
        """name -> (what is recorded, the same as float64)"""
        taken = {}
        for name, (value, expected) in values.items():
            try:
                self.deck.record(name, value)
                taken[name] = expected
            except TypeError as error:
                self.assertIn(name.split(".")[-1], str(error))
        self.deck.step()
        self.deck.finish()
        run = tapedeck.Run(self.deck.folder)
        for name, expected in taken.items():
            np.testing.assert_array_equal(np.asarray(run[name].at(1)).astype("f8"), expected, err_msg=name)
        return taken

    def test_torch(self):
        numbers, values = torch.randn(6, 5) * 4, {}
        for kind in {getattr(torch, name) for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)}:
            try:
                value = numbers.to(kind)
                if not kind.is_complex:
                    values[str(kind)] = value, value.double().numpy()
            except (RuntimeError, NotImplementedError):
                continue  # a type that nothing can be converted to
        taken = self.check(values)
        for kind in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16, torch.uint16, torch.bool):
            self.assertIn(str(kind), taken)

    def test_types_smaller_than_a_byte_are_refused_by_name(self):
        names = [f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)] + ["bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"]
        with tempfile.TemporaryDirectory() as folder, tapedeck.Deck(os.path.join(folder, "run")) as deck:
            for name in [name for name in names if hasattr(torch, name)]:
                with self.assertRaisesRegex(TypeError, f"elements of torch.{name} are not recorded"):
                    deck.record("x", torch.empty(4, dtype=getattr(torch, name)))

    def test_complex_numbers_are_two_signals(self):
        pair = torch.complex(torch.randn(3, 4), torch.randn(3, 4))
        values = {"c64": pair, "c128": pair.to(torch.complex128), "c32": pair.to(torch.complex32), "conjugate": pair.conj()}
        for name, value in values.items():
            self.deck.record(name, value)
        self.deck.step()
        self.deck.finish()
        run = tapedeck.Run(self.deck.folder)
        for name, value in values.items():
            value = value.to(torch.complex128).resolve_conj().numpy()
            np.testing.assert_array_equal(run[name + ".real"].at(1), value.real, err_msg=name)
            np.testing.assert_array_equal(run[name + ".imag"].at(1), value.imag, err_msg=name)

    def test_lazily_negated(self):
        pair = torch.complex(torch.randn(4), torch.randn(4))
        self.assertTrue(pair.conj().imag.is_neg())
        self.check({"negative": (pair.conj().imag, -pair.imag.double().numpy())})

    def test_ml_dtypes_and_jax(self):
        import jax.numpy
        import ml_dtypes

        values = {}
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e3m4", "float6_e2m3fn", "float4_e2m1fn", "int4", "uint4"):
            array = np.array([0, 1, 2, 3], dtype=getattr(ml_dtypes, name))
            values["numpy " + name] = array, array.astype("f8")
            if hasattr(jax.numpy, name) and "float6" not in name and "float4" not in name:  # which XLA has not on CPUs
                values["jax " + name] = jax.numpy.asarray(array), array.astype("f8")
        self.assertEqual(set(self.check(values)), set(values))


class Layouts(unittest.TestCase):
    def test_outputs_of_pytorch_are_pictures_of_their_size(self):
        with tempfile.TemporaryDirectory() as folder:
            model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 3, padding=1))
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            deck = tapedeck.watch(model, os.path.join(folder, "run"), optimizer=optimizer, log="")
            deck.track("0.output", form="image", to="png")
            for _ in range(2):
                model(torch.randn(2, 1, 28, 28)).square().mean().backward()
                optimizer.step()
                deck.step()
            deck.finish()
            picture = tapedeck.Run(deck.folder)["0.output"].at(form="image")
            width, height = struct.unpack(">II", picture[16:24])
            self.assertEqual(width % 28, 0)
            self.assertEqual(height, 2 * width + 1)

    def test_watch_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                model = torch.nn.Linear(2, 1)
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
                with tapedeck.watch(model, os.path.join(folder, "run"), optimizer=optimizer, every=1, resume=True) as deck:
                    for _ in range(3):
                        optimizer.zero_grad()
                        loss = model(torch.ones(4, 2)).square().mean()
                        loss.backward()
                        optimizer.step()
                        deck.log(loss=loss)
                        deck.step()
            self.assertEqual(tapedeck.Run(deck.folder)["loss"].values["step"].tolist(), [1, 2, 3, 4, 5, 6])
            self.assertEqual(os.listdir(folder), ["run"])


if __name__ == "__main__":
    unittest.main()
