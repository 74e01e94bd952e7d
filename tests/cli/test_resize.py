"""Images of different sizes scaled to one: the numbers by a few lines of numpy, and the same for training and predicting."""
import os
import unittest

import numpy

from program import Case, write_png

TEXT = """
name: r
seed: 2
data: {train: pictures, resize: RESIZE, batch: 4, shuffle: false}
model:
  - flatten:
  - dense: {name: out, units: 2}
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 1}
record:
  - {what: [input, out.output], form: tensor, to: [npy]}
"""
SIZES = [(9, 7), (4, 6), (40, 13), (5, 5), (1, 3), (16, 24), (6, 5), (2, 50)]


def triangle(count, size, begin, end):
    """Weights (count, size) of the old pixels in each new one."""
    scale = (end - begin) / count
    centres = begin + (numpy.arange(count) + 0.5) * scale
    distance = numpy.abs(numpy.arange(size) + 0.5 - centres[:, None]) / max(scale, 1)
    weights = numpy.maximum(1 - distance, 0)
    return weights / weights.sum(1, keepdims=True)


def scaled(image, height, width, crop):
    h, w = image.shape
    part_h, part_w = h, w
    if crop:
        part_h, part_w = min(h, w * height / width), min(w, h * width / height)
    top, left = (h - part_h) / 2, (w - part_w) / 2
    return triangle(height, h, top, top + part_h) @ image @ triangle(width, w, left, left + part_w).T


class Resize(Case):
    def setUp(self):
        super().setUp()
        random = numpy.random.default_rng(3)
        self.images = [random.integers(0, 256, size).astype("uint8") for size in SIZES]
        for i, image in enumerate(self.images):
            folder = self.path("pictures", "ab"[i // 4])
            os.makedirs(folder, exist_ok=True)
            write_png(os.path.join(folder, "%d.png" % i), image)

    def fit(self, resize, *more, status=0):
        return self.train(TEXT.replace("RESIZE", resize), "--quiet", *more, status=status)

    def test_numbers(self):
        for run, (resize, crop) in enumerate([("[6, 5]", False), ("{size: [6, 5], crop: true}", True)]):
            self.fit(resize)
            found = numpy.load(self.path("runs", "r-2" if run else "r", "input.npy")).reshape(8, 6, 5)
            expected = numpy.stack([scaled(image, 6, 5, crop) for image in self.images])
            # Rounded to whole numbers twice: along one side, then along the other.
            self.assertLessEqual(numpy.abs(found - expected).max(), 1)
            numpy.testing.assert_array_equal(found[6], self.images[6])  # has the size already

    def test_saved_model_scales_too(self):
        self.fit("{size: [6, 5], crop: true}", "--set", "train.optimizer={sgd: {learning_rate: 0}}")
        self.run_program("predict", "runs/r", "pictures", "--to", "out.npy")
        numpy.testing.assert_allclose(numpy.load(self.path("out.npy")),
                                      numpy.load(self.path("runs", "r", "out.output.npy")).reshape(8, 2), rtol=1e-4, atol=1e-3)
        self.run_program("evaluate", "runs/r", "pictures", "--to", "numbers.json")
        self.run_program("gradients", "runs/r", "pictures", "--layer", "out", "--to", "g.npz")
        self.fit("{size: [6, 5], crop: true}", "--set", "data.memory=1 KiB", status=2)

    def test_large_folders_are_scaled_while_training_runs(self):
        self.fit("[6, 5]")
        self.fit("[6, 5]", "--set", "data.memory=16 KiB")
        self.assertEqual(self.bytes("runs", "r", "input.npy"), self.bytes("runs", "r-2", "input.npy"))

    def test_errors(self):
        text = self.train(TEXT.replace("resize: RESIZE, ", ""), status=2).stderr
        self.assertIn("all images must have one size, or `resize: [HEIGHT, WIDTH]` scales them to one", text)
        self.assertIn("[HEIGHT, WIDTH]", self.fit("[6]", status=2).stderr)
        self.assertIn("data.resize", self.fit("[6, 0]", status=2).stderr)
        self.assertIn("expected [HEIGHT, WIDTH]", self.fit("{crop: true}", status=2).stderr)
        self.assertIn("did you mean 'crop'", self.fit("{size: [6, 5], corp: true}", status=2).stderr)
        text = self.fit("[6, 5]", "--set", "data.input=[5, 6, 1]", status=2).stderr
        self.assertIn("`resize` scales the images of a folder to [6, 5]", text)
        numpy.save(self.path("x.npy"), numpy.zeros((4, 3, 3, 1), "float32"))
        text = self.fit("[6, 5]", "--set", "data.train=x.npy", status=2).stderr
        self.assertIn("an example in", text)
        self.assertFalse(self.exists("runs"))


if __name__ == "__main__":
    unittest.main()
