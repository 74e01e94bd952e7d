"""Pictures of arrays: each example one, channels where the framework has them."""

import os
import struct
import subprocess
import tempfile
import unittest
import zlib

import numpy as np

import tapedeck


def read_png(data):
    """[height, width, channels] of what we write: 8 bits, grey or colour, not interlaced."""
    at, pixels, size = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            size = struct.unpack(">IIBB", body[:10])
        pixels += body if kind == b"IDAT" else b""
        at += 12 + length
    width, height, _, colour = size
    deep = 3 if colour == 2 else 1
    raw = np.frombuffer(zlib.decompress(pixels), "u1").reshape(height, 1 + width * deep)
    image = np.zeros((height, width * deep), "i4")
    for y in range(height):
        row, above = raw[y, 1:].astype("i4"), image[y - 1] if y else np.zeros(width * deep, "i4")
        for x in range(width * deep):
            left = image[y, x - deep] if x >= deep else 0
            corner = above[x - deep] if x >= deep else 0
            guess = left + above[x] - corner
            paeth = min((abs(guess - left), 0, left), (abs(guess - above[x]), 1, above[x]), (abs(guess - corner), 2, corner))[2]
            image[y, x] = (row[x] + (0, left, above[x], (left + above[x]) // 2, paeth)[raw[y, 0]]) % 256
    return image.reshape(height, width, deep)


class Tensor:
    """As PyTorch's: what a deck sees of it is its module."""

    __module__ = "torch"

    def __init__(self, array):
        self.array = array

    def __array__(self, *_, **__):
        return self.array


class Pictures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def pictures(self, arrays, layouts=None):
        with tapedeck.Deck(os.path.join(self.folder.name, "run")) as deck:
            deck.track("*", form="image,tensor", to="png,npy")
            for name, array in arrays.items():
                deck.record(name, array, layout=(layouts or {}).get(name))
            deck.step()
        self.run_folder = deck.folder
        run = tapedeck.Run(deck.folder)
        return {name: run[name].at(1, form="image") for name in arrays}

    def test_channels_first_and_last_are_the_same_picture(self):
        generator = np.random.default_rng(3)
        for shape in ((2, 3, 9, 7), (1, 3, 28, 28), (4, 1, 12, 10), (2, 5, 6, 8), (1, 16, 5, 5)):
            first = generator.integers(0, 255, shape).astype("u1")
            last = np.ascontiguousarray(first.transpose(0, 2, 3, 1))
            found = self.pictures({"torch": Tensor(first), "first": first, "last": last, "keras": last, "same": first[:1]},
                                  {"first": "NCHW", "last": "channels_last", "same": "channels_first"})
            with self.subTest(shape):
                for name in ("torch", "first", "keras"):
                    self.assertEqual(found[name], found["last"], name)

    def test_pixels(self):
        colours = np.arange(2 * 3 * 40 * 30).reshape(2, 3, 40, 30) % 251
        found = self.pictures({"colours": colours.astype("u1"), "one": colours[0].astype("u1")},
                              {"colours": "NCHW", "one": "CHW"})
        picture, one = read_png(found["colours"]), read_png(found["one"])
        zoom = (picture.shape[1] + 1) // 30
        for example in range(2):
            top = example * (40 * zoom + 1)
            tile = picture[top:top + 40 * zoom:zoom, 0:30 * zoom:zoom]
            np.testing.assert_array_equal(tile, colours[example].transpose(1, 2, 0))
        zoom = (one.shape[1] + 1) // 30
        np.testing.assert_array_equal(one[::zoom, ::zoom], colours[0].transpose(1, 2, 0))

    def test_a_batch_of_28_by_28(self):
        picture = self.pictures({"out": Tensor(np.random.default_rng(0).random((3, 28, 28)).astype("f4"))})["out"]
        width, height = struct.unpack(">II", picture[16:24])
        zoom = (width + 1) // 28
        self.assertEqual((height, width), (3 * (28 * zoom + 1) - 1, 28 * zoom))

    def test_tensors_become_pictures_later_as_they_would_have_been(self):
        array = np.random.default_rng(1).random((2, 3, 8, 6)).astype("f4")
        found = self.pictures({"x": Tensor(array)})["x"]
        out = os.path.join(self.folder.name, "png")
        subprocess.run([os.environ["TAPEDECK"], "export", self.run_folder, "--to", "png", "--out", out], check=True,
                       capture_output=True)
        with open(os.path.join(out, "images", "x", "step-000001.png"), "rb") as file:
            self.assertEqual(file.read(), found)

    def test_a_layout_that_is_none(self):
        with tapedeck.Deck(os.path.join(self.folder.name, "run")) as deck:
            with self.assertRaisesRegex(ValueError, "layout is channels_first"):
                deck.record("x", np.ones((2, 3, 4, 4), "f4"), layout="WHC")


if __name__ == "__main__":
    unittest.main()
