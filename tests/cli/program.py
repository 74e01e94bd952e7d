"""Runs the program as a user would, in a folder of its own."""
import fcntl
import json
import os
import pty
import struct
import subprocess
import tempfile
import termios
import unittest
import zlib

PROGRAM = os.environ["TAPEDECK"]
SOURCE = os.environ["TD_SOURCE"]
DIGITS = os.path.join(SOURCE, "examples", "data", "digits.csv.gz")

# Two moons, a small dense network, a step in microseconds: what most tests start from.
SMALL = """
name: small
seed: 3
threads: 1
data:
  generate: {two_moons: {examples: 90, noise: 0.1}}
  validation: 0.2
  batch: 16
model:
  - dense: {name: hidden, units: 8, activation: tanh}
  - dense: {name: logits, units: 2}
train:
  loss: sparse_categorical_crossentropy
  from_logits: true
  optimizer: {adam: {learning_rate: 0.02}}
  metrics: [accuracy]
  epochs: 4
"""


def write_png(path, pixels):
    """A grey image of 8 bits."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(row) for row in pixels.tolist())
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 0, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
                   + chunk(b"IEND", b""))


class Case(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = self.temporary.name

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def exists(self, *parts):
        return os.path.exists(self.path(*parts))

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return name

    def read(self, *parts):
        with open(self.path(*parts), encoding="utf-8", newline="") as file:
            return file.read()

    def bytes(self, *parts):
        with open(self.path(*parts), "rb") as file:
            return file.read()

    def check_named(self, model, arrays, renamed=None):
        """Runs the model on the arrays in/NAME of an NPZ file, and compares its outputs with those in out/NAME. Returns the arguments."""
        import numpy  # which other tests do without
        arguments, wanted = [], {}
        with numpy.load(arrays) as all_of_them:
            for i, key in enumerate(all_of_them):
                way, name = key.split("/", 1)
                arguments += ["--%sput" % way, "%s=%d.npy" % ((renamed or {}).get(name, name), i)]
                if way == "in":
                    numpy.save(self.path("%d.npy" % i), all_of_them[key])
                else:
                    wanted["%d.npy" % i] = all_of_them[key]
        self.run_program("predict", model, *arguments)
        self.assertGreater(len(wanted), 1)
        for file, array in wanted.items():
            numpy.testing.assert_allclose(numpy.load(self.path(file)), array, rtol=1e-5, atol=1e-6)
        return arguments

    def environment(self):
        environment = dict(os.environ, NO_COLOR="1", LC_ALL="C.UTF-8", XDG_CACHE_HOME=self.path("cache"))
        for variable in ("TAPEDECK_CACHE", "COLUMNS"):
            environment.pop(variable, None)
        return environment

    def start(self, *arguments):
        return subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, env=self.environment(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_program(self, *arguments, status=0):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=self.environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=600, check=False)
        self.assertEqual(done.returncode, status, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def terminal(self, *arguments, columns=100, **variables):
        """What a terminal of `columns` columns gets."""
        environment = dict(self.environment(), TERM="xterm-256color", **variables)
        if variables.get("NO_COLOR") == "":
            del environment["NO_COLOR"]
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, env=environment, stdout=side, stderr=side)
        os.close(side)
        out = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
        os.close(main)
        self.assertEqual(process.wait(), 0, out)
        return out.decode().replace("\r\n", "\n")

    def train(self, text, *arguments, status=0):
        self.write("experiment.yaml", text)
        return self.run_program("train", "experiment.yaml", *arguments, status=status)

    def problems(self, text, *arguments):
        """The lines in which the experiment is refused."""
        return self.train(text, *arguments, status=2).stderr.splitlines()

    def json_lines(self, text):
        return [json.loads(line) for line in text.splitlines()]
