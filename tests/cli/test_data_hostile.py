"""Data that one should not trust: bombs, and files that are none."""
import os
import resource
import struct
import subprocess
import unittest
import zlib

from program import Case, PROGRAM

EXPERIMENT = """
name: hostile
threads: 1
data: {{train: {train}{more}}}
model: {model}
{rest}train: {{loss: mse, epochs: 1}}
"""
DENSE = "[{flatten: }, {dense: {units: 1}}]"


def bomb(path, side, interlaced):
    """A colour PNG of side x side black pixels, all of it zeros."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compressobj(9)
    packed = b"".join(rows.compress(bytes(3 * side + 1)) for _ in range(2 * side)) + rows.flush()
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, interlaced)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b""))


class Hostile(Case):
    def test_decoding_an_image_counts_against_memory(self):
        os.makedirs(self.path("pictures", "a"))
        limit = 300 << 20
        for interlaced in (0, 1):
            bomb(self.path("pictures", "a", "x.png"), 8192, interlaced)
            self.write("e.yaml", EXPERIMENT.format(train="pictures", more=", memory: 64 MiB", model=DENSE,
                                                   rest=""))
            done = subprocess.run([PROGRAM, "train", "e.yaml"], cwd=self.folder, env=self.environment(),
                                  stderr=subprocess.PIPE, text=True, timeout=60, check=False,
                                  preexec_fn=None if os.environ.get("TD_SANITIZE") else
                                  lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
            self.assertEqual(done.returncode, 2)
            self.assertIn("x.png: decoding its 8192 x 8192 pixels takes 192 MiB, and `memory` allows 64 MiB",
                          done.stderr)
        self.write("e.yaml", EXPERIMENT.format(train="pictures", more=", memory: 256 MiB, label_kind: values",
                                               model=DENSE, rest=""))
        done = self.run_program("train", "e.yaml", status=2)
        self.assertIn("takes 384 MiB", done.stderr)  # interlaced: all rows are kept twice

    def test_pipes_in_the_place_of_files_are_refused(self):
        for name in ("p.csv", "p.npy", "p.npz", "p.safetensors", "p.keras", "p.onnx"):
            os.mkfifo(self.path(name))
            self.assertIn("not a regular file", self.train(EXPERIMENT.format(
                train=name, more="", model=DENSE, rest=""), status=2).stderr)
            generated = {"train": "d.csv", "more": ", label: y", "rest": ""}
            self.write("d.csv", "a,y\n1,2\n3,4\n")
            self.assertIn("not a regular file", self.train(EXPERIMENT.format(
                **{**generated, "model": DENSE, "rest": f"weights: {name}\n"}), status=2).stderr)
            self.assertIn("not a regular file", self.train(EXPERIMENT.format(
                **{**generated, "model": f"{{file: {name}}}"}), status=2).stderr)
        os.makedirs(self.path("pictures", "a"))
        os.mkfifo(self.path("pictures", "a", "x.png"))
        self.assertIn("not a regular file", self.train(EXPERIMENT.format(
            train="pictures", more="", model=DENSE, rest=""), status=2).stderr)


if __name__ == "__main__":
    unittest.main()
