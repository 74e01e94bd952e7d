"""Images in BMP, WebP and TIFF, compared with Pillow (tests/fixtures/make_pictures.py); a CSV file of paths and labels."""
import glob
import os
import shutil
import struct
import unittest

import numpy

from program import SOURCE, Case, write_png

PICTURES = os.path.join(SOURCE, "tests", "fixtures", "pictures")
EXPERIMENT = """
name: p
seed: 1
data: {train: list.csv, images: path, label: kind, shuffle: false, OPTIONS}
model: [flatten: , dense: {units: 3}]
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 1}
record: [{what: input, form: tensor, to: [npy]}]
"""


class Pictures(Case):
    def inputs(self, run="p"):
        found = numpy.load(self.path("runs", run, "input.npy"))
        return found.reshape(-1, *found.shape[2:])

    def write_list(self, paths, header="path,kind", row="%s,%s"):
        self.write("list.csv", header + "\n" + "".join(row % (p, "abc"[i % 3]) + "\n" for i, p in enumerate(paths)))

    def test_all_formats_are_as_pillow_decodes_them(self):
        names = sorted(os.path.basename(p) for p in glob.glob(os.path.join(PICTURES, "*.*")) if not p.endswith("npz"))
        self.assertEqual(len(names), 14)
        shutil.copytree(PICTURES, self.path("pictures"))
        self.write_list(["pictures/" + n for n in names])
        with numpy.load(os.path.join(PICTURES, "pillow.npz")) as pillow:
            for channels in (1, 3, 4):
                self.train(EXPERIMENT.replace("OPTIONS", "input: [9, 13, %d]" % channels), "--quiet",
                           "--set", "name=c%d" % channels)
                found = self.inputs("c%d" % channels)
                for i, name in enumerate(names):
                    numpy.testing.assert_array_equal(found[i], pillow["%s/%d" % (name, channels)], err_msg=name)

    def test_a_folder_of_formats(self):
        for kind in "ab":
            os.makedirs(self.path("folder", kind))
            for name in ("colour.bmp", "lossy.webp", "lzw.tiff", "palette.bmp"):
                shutil.copy(os.path.join(PICTURES, name), self.path("folder", kind, name))
        out = self.train(EXPERIMENT.replace("list.csv, images: path, label: kind", "folder").replace("OPTIONS", "batch: 8"))
        self.assertNotIn("left out", out.stderr)
        self.assertEqual(self.inputs().shape, (8, 9, 13, 3))

    def make(self, count=9, size=(8, 6)):
        os.makedirs(self.path("img"))
        random = numpy.random.default_rng(2)
        self.images = [random.integers(0, 256, size).astype("uint8") for _ in range(count)]
        paths = []
        for i, image in enumerate(self.images):
            write_png(self.path("img", "%d.png" % i), image)
            paths.append("img/%d.png" % i if i != 1 else self.path("img", "1.png"))
        return paths

    def test_a_list_of_paths(self):
        paths = self.make()
        self.write_list(["1," + p for p in paths], "id,path,kind")
        out = self.train(EXPERIMENT.replace("OPTIONS", "batch: 3"))
        self.assertIn("list.csv: examples are images; these columns are not read: 'id'", out.stderr)
        numpy.testing.assert_array_equal(self.inputs()[..., 0], self.images)
        self.write("new.csv", "path\nimg/2.png\nimg/0.png\n")
        for model in ("runs/p", "m.keras"):
            if model == "m.keras":
                self.run_program("weights", "runs/p", "--to", model)
            self.run_program("predict", model, "new.csv", "--to", "new.csv.out.csv", "--force")
            self.run_program("predict", model, "list.csv", "--to", "all.csv", "--force")
            new, every = (self.read(n).splitlines() for n in ("new.csv.out.csv", "all.csv"))
            self.assertEqual(new[0], "class_a,class_b,class_c,file,predicted")
            self.assertEqual(new[2], every[1].partition(",")[2])
            self.assertEqual(new[1], every[3].partition(",")[2])
        self.run_program("predict", "runs/p", "img", "--to", "folder.csv")
        self.run_program("evaluate", "runs/p", "list.csv")
        self.run_program("gradients", "runs/p", "list.csv", "--layer", "dense")
        self.run_program("check", "experiment.yaml")
        self.assertIn("identical", self.run_program("replay", "runs/p", "--steps", "1..2", "--record", "dense.output",
                                                    "--out", "again").stdout)

    def test_groups_weights_and_resize(self):
        paths = self.make()
        self.write_list(["%d,%s" % (i // 3, p) for i, p in enumerate(paths)], "patient,path,kind")
        self.train(EXPERIMENT.replace("OPTIONS", "groups: patient, validation: 0.3, resize: [4, 5], batch: 2"))
        self.assertEqual(self.inputs().shape[1:], (4, 5, 1))

    def test_the_list_is_in_another_folder(self):
        self.make()
        os.makedirs(self.path("lists"))
        self.write("lists/list.csv", "path,kind\n../img/0.png,1\n../img/2.png,0\n")
        self.train(EXPERIMENT.replace("list.csv", "lists/list.csv").replace("OPTIONS", "batch: 2"), "--quiet")
        numpy.testing.assert_array_equal(self.inputs()[..., 0], [self.images[0], self.images[2]])

    def test_while_reading(self):
        paths = self.make(40, (200, 300))
        self.write_list(paths)
        text = EXPERIMENT.replace("OPTIONS", "batch: 4").replace("[{what: input, form: tensor, to: [npy]}]",
                                                                "[{what: loss, to: [csv]}]")
        self.train(text, "--quiet")
        self.train(text, "--quiet", "--set", "data.memory=1 MiB")
        self.assertEqual(self.bytes("runs/p/metrics.csv"), self.bytes("runs/p-2/metrics.csv"))

    def refused(self, sentence, options="batch: 2"):
        out = self.train(EXPERIMENT.replace("OPTIONS", options), "--out", "none", status=2)
        self.assertIn(sentence, out.stderr)
        self.assertFalse(self.exists("none", "p"))

    def test_mistakes(self):
        paths = self.make(4)
        self.write_list(paths[:2] + ["img/nothing.png"])
        self.refused("list.csv line 4 (row 3), column 'path': img/nothing.png: there is no such file; paths are relative to")
        self.write_list(paths[:2] + ["img"])
        self.refused("list.csv line 4 (row 3), column 'path': img: it cannot be read as a file")
        os.mkfifo(self.path("pipe.png"))
        self.write_list(paths[:2] + ["pipe.png"])
        self.refused("column 'path': pipe.png: it cannot be read as a file")
        self.write("text.png", "no image")
        self.write_list(paths[:2] + ["text.png"])
        self.refused("list.csv line 4 (row 3): text.png: no PNG, JPEG, BMP, WebP or TIFF image")
        self.write_list(paths[:2] + [""])
        self.refused("list.csv line 4 (row 3), column 'path': the path is missing")
        self.write_list(paths)
        self.refused("there is no `dates` beside it", "dates: kind")

    def test_damaged_and_large_pictures(self):
        self.make(2)
        for name in sorted(os.listdir(PICTURES)):
            if name.endswith("npz"):
                continue
            with open(os.path.join(PICTURES, name), "rb") as file:
                data = file.read()
            with open(self.path("cut" + name), "wb") as file:
                file.write(data[:len(data) * 2 // 3])
            self.write_list(["cut" + name])
            self.refused("cut" + name)
        header = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54, 0, 0, 54, 40, 30000, 30000, 1, 24, 0, 0, 0, 0, 0, 0)
        with open(self.path("large.bmp"), "wb") as file:
            file.write(header)
        self.write_list(["large.bmp"])
        self.refused("and `memory` allows 64 MiB", "memory: 64 MiB")


if __name__ == "__main__":
    unittest.main()
