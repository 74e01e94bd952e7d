"""`data.resize`: the bytes of Pillow's Image.resize(BILINEAR) and, where images are cropped, ImageOps.fit within 1."""
import os
import subprocess
import tempfile
import unittest

import numpy
from PIL import Image, ImageOps

TEXT = """
name: r
threads: 1
data: {train: pictures, resize: {size: [%d, %d], crop: %s}, batch: 6, shuffle: false}
model: [flatten: , dense: {units: 2}]
train: {loss: mse, target: label, epochs: 1}
record: [{what: input, form: tensor, to: [npy]}]
"""
SIZES = [(300, 200), (64, 48), (31, 97), (48, 64), (500, 20), (7, 5)]  # width, height, as Pillow has them


class Resize(unittest.TestCase):
    def test_bytes(self):
        random = numpy.random.default_rng(1)
        for mode, channels in (("L", 1), ("RGB", 3)):
            images = [Image.fromarray(random.integers(0, 256, (h, w, channels), "uint8").squeeze(), mode) for w, h in SIZES]
            for height, width, crop in ((48, 64, False), (33, 20, False), (48, 64, True), (33, 20, True), (100, 7, True)):
                with self.subTest(mode=mode, height=height, width=width, crop=crop), tempfile.TemporaryDirectory() as folder:
                    for i, image in enumerate(images):
                        os.makedirs(os.path.join(folder, "pictures", "ab"[i // 3]), exist_ok=True)
                        image.save(os.path.join(folder, "pictures", "ab"[i // 3], "%d.png" % i))
                    with open(os.path.join(folder, "r.yaml"), "w", encoding="utf-8") as file:
                        file.write((TEXT % (height, width, str(crop).lower())).replace("mse, target: label",
                                                                                   "sparse_categorical_crossentropy, from_logits: true"))
                    subprocess.run([os.environ["TAPEDECK"], "train", "r.yaml", "--quiet"], cwd=folder, check=True)
                    ours = numpy.load(os.path.join(folder, "runs", "r", "input.npy"))[0]
                    for image, found in zip(images, ours):
                        one = ImageOps.fit(image, (width, height), Image.Resampling.BILINEAR) if crop else \
                            image.resize((width, height), Image.Resampling.BILINEAR)
                        numpy.testing.assert_allclose(found.squeeze(), numpy.asarray(one).astype("f"), rtol=0, atol=int(crop))


if __name__ == "__main__":
    unittest.main()
