"""Model files that are out to take memory: refused, and the memory stays within 64 MiB + 4 times the file."""
import json
import os
import struct
import subprocess
import unittest
import zipfile

import numpy

from program import Case, PROGRAM, SMALL
from test_predict_data import MEBIBYTE, most_memory


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def architecture(*layers, shape=(4,)):
    return json.dumps({"name": "m", "input": list(shape), "layers": list(layers)})


class Hostile(Case):
    def assert_refused(self, name, *command):
        """The command fails with an error that names the file; returns the error."""
        environment = dict(self.environment(), ASAN_OPTIONS="quarantine_size_mb=1")
        done = subprocess.run([PROGRAM, *command], cwd=self.folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(name, done.stderr)
        memory = most_memory(["sh", "-c", '"$0" "$@" >/dev/null 2>&1 || true', PROGRAM, *command],
                             self.folder, environment)
        limit = 64 * MEBIBYTE + 4 * os.path.getsize(self.path(name)) + self.baseline()
        self.assertLessEqual(memory, limit, name)
        return done.stderr

    def baseline(self):
        """What the program itself takes."""
        return most_memory([PROGRAM, "--version"], self.folder, self.environment())

    def file(self, name, bytes_):
        with open(self.path(name), "wb") as file:
            file.write(bytes_)
        return name

    def test_safetensors(self):
        bomb = b"[" + b"[]," * (3 * MEBIBYTE) + b"[]]"
        files = {
            "lists": safetensors(b'{"a":' + bomb + b"}"),
            "numbers": safetensors(b'{"a":[' + b"1," * (7 * MEBIBYTE) + b"1]}"),
            "architecture": safetensors({"__metadata__": {"tapedeck.model": bomb.decode()}}),
            "parameters": safetensors({"__metadata__": {"tapedeck.model": architecture(
                ["dense", {"units": 1 << 30}])}}),
            "many layers": safetensors({"__metadata__": {"tapedeck.model": architecture(
                *[["dense", {"units": 1000}]] * 9999)}}),
            "too many layers": safetensors({"__metadata__": {"tapedeck.model": architecture(
                *[["flatten", {}]] * 200000)}}),
            "wide output": safetensors({"__metadata__": {"tapedeck.model": architecture(
                ["up_sampling2d", {"size": 1 << 30}], shape=(4, 4, 1))}}),
            "overlap": safetensors({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                                    "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}},
                                   b"\0" * 12),
            "overflow": safetensors({"a": {"dtype": "F32", "shape": [1 << 62, 1 << 62],
                                           "data_offsets": [0, 0]}}),
            "length": struct.pack("<Q", 1 << 62) + b"{}",
            "nesting": safetensors(b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"),
        }
        for name, bytes_ in files.items():
            with self.subTest(name):
                self.file("model.safetensors", bytes_)
                self.assert_refused("model.safetensors", "inspect", "model.safetensors")

    def test_weights(self):
        self.train(SMALL, "--quiet")
        self.run_program("weights", "runs/small", "--to", "good.npz")
        good = numpy.load(self.path("good.npz"))
        npy = b"\x93NUMPY\x01\0\x76\0"
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000), }"
        with zipfile.ZipFile(self.path("bomb.npz"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(good.files[0] + ".npy", b"\0" * (300 * MEBIBYTE))
        with zipfile.ZipFile(self.path("claim.npz"), "w") as archive:
            for name in good.files:
                archive.writestr(name + ".npy", npy + header.ljust(117) + b"\n")
        with zipfile.ZipFile(self.path("names.npz"), "w") as archive:
            for i in range(20000):
                archive.writestr(f"../{i}.npy", b"")
        for name in ("bomb.npz", "claim.npz", "names.npz"):
            with self.subTest(name):
                self.assert_refused(name, "weights", "runs/small", "--from", name, "--to", "x.csv")
        self.file("cell.csv", b"layer,parameter,index,value\nhidden,kernel,\"" + b"0" * (9 * MEBIBYTE))
        self.file("index.csv", b'layer,parameter,index,value\nhidden,kernel,"0,99999999999999999999",1\n')
        for name in ("cell.csv", "index.csv"):
            with self.subTest(name):
                self.assert_refused(name, "weights", "runs/small", "--from", name, "--to", "x.npz")
        self.assertFalse(self.exists("x.csv") or self.exists("x.npz"))


if __name__ == "__main__":
    unittest.main()
