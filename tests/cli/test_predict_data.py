"""predict over large data, to pictures, with its progress and with signals that do not exist."""
import os
import signal
import subprocess
import sys
import unittest

import numpy

from program import Case, PROGRAM

MEBIBYTE = 1 << 20

DENSE = """
name: wide
threads: 1
data: {{train: few.npy, labels: few_labels.npy}}
model:
  - dense: {{name: out, units: {units}, activation: sigmoid{more}}}
{reshape}train: {{loss: mse, steps: 1}}
"""


def most_memory(command, folder, environment):
    """Runs the command in a process of its own; returns the most memory it had, in bytes."""
    code = ("import resource, subprocess, sys\n"
            "status = subprocess.run(sys.argv[1:]).returncode\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
            "sys.exit(status)\n")
    done = subprocess.run([sys.executable, "-c", code, *command], cwd=folder, env=environment,
                          stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    return int(done.stdout.splitlines()[-1]) * 1024


class Large(Case):
    def small_model(self, width, units, reshape=None):
        shape = f"  - reshape: {{shape: {list(reshape)}}}\n" if reshape else ""
        numpy.save(self.path("few.npy"), numpy.random.default_rng(1).normal(
            size=(8, width)).astype("float32"))
        numpy.save(self.path("few_labels.npy"), numpy.zeros((8, *(reshape or (units,))), "float32"))
        self.train(DENSE.format(units=units, more="", reshape=shape), "--quiet")

    def test_memory_does_not_grow_with_the_data(self):
        self.small_model(512, 3)
        rows = 400 * MEBIBYTE // (512 * 4)
        header = numpy.lib.format.header_data_from_array_1_0(numpy.zeros((1, 512), "float32"))
        header["shape"] = (rows, 512)
        with open(self.path("large.npy"), "wb") as file:  # a file with holes: zeros
            numpy.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + rows * 512 * 4)
        for to in ("out.npy", "out.csv"):
            memory = most_memory([PROGRAM, "predict", "runs/wide", "large.npy", "--to", to, "--quiet"],
                                 self.folder, self.environment())
            self.assertLess(memory, 200 * MEBIBYTE, to)
        out = numpy.load(self.path("out.npy"))
        self.assertEqual(out.shape, (rows, 3))
        self.assertTrue((out == out[0]).all())

    def test_standardising_does_not_keep_the_file_in_memory(self):
        rows = 400 * MEBIBYTE // (512 * 4)
        header = numpy.lib.format.header_data_from_array_1_0(numpy.zeros((1, 512), "float32"))
        header["shape"] = (rows, 512)
        with open(self.path("large.npy"), "wb") as file:
            numpy.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + rows * 512 * 4)
        numpy.save(self.path("labels.npy"), numpy.zeros((rows, 1), "float32"))
        self.write("e.yaml", "threads: 1\ndata: {train: large.npy, labels: labels.npy, standardize: true}\n"
                             "model: [{dense: {units: 1}}]\ntrain: {loss: mse, steps: 1}\n")
        memory = most_memory([PROGRAM, "train", "e.yaml", "--quiet"], self.folder, self.environment())
        self.assertLess(memory, 200 * MEBIBYTE)

    def test_a_csv_file_larger_than_its_memory_passes_through(self):
        self.small_model(64, 2)
        rows = 40000
        line = ",".join(f"{i / 64:.12f}" for i in range(64)) + "\n"
        with open(self.path("large.csv"), "w", encoding="ascii") as file:
            file.write(",".join(f"x{i}" for i in range(64)) + "\n")
            file.write(line * (rows * 4))
        self.assertGreater(os.path.getsize(self.path("large.csv")), 140 * MEBIBYTE)
        memory = most_memory([PROGRAM, "predict", "runs/wide", "large.csv", "--to", "out.npy",
                              "--quiet"], self.folder, self.environment())
        self.assertLess(memory, 260 * MEBIBYTE)
        self.assertEqual(numpy.load(self.path("out.npy")).shape, (rows * 4, 2))

    def test_pictures_are_grey_or_in_colour(self):
        def first_picture(reshape):
            units = int(numpy.prod(reshape))
            self.small_model(4, units, reshape)
            run = sorted(os.listdir(self.path("runs")))[-1]
            self.run_program("predict", f"runs/{run}", "few.npy", "--to", "pictures/", "--quiet")
            self.run_program("predict", f"runs/{run}", "few.npy", "--to", "out.npy", "--quiet")
            with open(self.path("pictures", "000003.png"), "rb") as file:
                head = file.read(29)
            self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
            size = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
            return size, head[25], os.path.join(self.folder, "pictures", "000003.png")

        size, kind, path = first_picture((5, 6, 1))
        self.assertEqual((size, kind), ((6, 5), 0))  # width, height; PNG's grey
        self.assert_pixels(path)
        size, kind, path = first_picture((5, 6, 3))
        self.assertEqual((size, kind), ((6, 5), 2))  # PNG's red, green, blue
        self.assert_pixels(path)

    def test_pictures_come_in_as_they_went_out(self):
        self.small_model(4, 30, (5, 6, 1))
        self.run_program("predict", "runs/wide", "few.npy", "--to", "pictures/", "--quiet")
        self.write("identity.yaml", "name: identity\nthreads: 1\n"
                   "data: {train: many.npy, labels: many.npy, scale: 0.00392156862745098}\n"
                   "model: [{activation: {function: relu}}, {dense: {name: d, units: 1, "
                   "kernel_initializer: ones}}]\ntrain: {loss: mse, steps: 1, optimizer: {sgd: "
                   "{learning_rate: 1.0e-30}}}\n")
        numpy.save(self.path("many.npy"), numpy.zeros((8, 5, 6, 1), "float32"))
        self.run_program("train", "identity.yaml", "--quiet")
        done = self.run_program("predict", "runs/identity", "pictures", "--to", "again/")
        self.assertIn("8 examples; outputs in again/", done.stdout)
        for name in os.listdir(self.path("pictures")):
            self.assertEqual(self.bytes("pictures", name), self.bytes("again", name))

    def assert_pixels(self, path):
        """The picture of example 3 has its values, 0 black and 1 white."""
        import zlib
        with open(path, "rb") as file:
            bytes_ = file.read()
        at, packed = 8, b""
        while at < len(bytes_):
            length = int.from_bytes(bytes_[at:at + 4], "big")
            if bytes_[at + 4:at + 8] == b"IDAT":
                packed += bytes_[at + 8:at + 8 + length]
            at += 12 + length
        want = numpy.rint(numpy.load(self.path("out.npy"))[3] * 255).astype(int)
        rows = numpy.frombuffer(zlib.decompress(packed), "uint8").reshape(want.shape[0], -1)
        channels, width = want.shape[2], want.shape[1]
        got = numpy.zeros((want.shape[0], width * channels), int)
        for y, row in enumerate(rows):  # PNG's filters, undone
            for x in range(width * channels):
                left = got[y, x - channels] if x >= channels else 0
                up = got[y - 1, x] if y else 0
                corner = got[y - 1, x - channels] if y and x >= channels else 0
                paeth = min((abs(up - corner), 0, left), (abs(left - corner), 1, up),
                            (abs(left + up - 2 * corner), 2, corner))[2]
                got[y, x] = (row[1 + x] + [0, left, up, (left + up) // 2, paeth][row[0]]) % 256
        numpy.testing.assert_array_equal(got.reshape(want.shape), want)

    def test_a_signal_that_does_not_exist_is_said(self):
        self.small_model(4, 2)
        done = self.run_program("predict", "runs/wide", "few.npy", "--record", "out.output,out.error",
                                "--to", "npy", status=1)
        self.assertIn("no signal 'out.error'", done.stderr)
        self.assertIn("tapedeck gradients", done.stderr)
        self.assertFalse(self.exists("runs", "predict"))
        done = self.run_program("predict", "runs/wide", "few.npy", "--to", "out.csv", "--form",
                                "stats", status=2)
        self.assertIn("without --record", done.stderr)

    def test_control_c_leaves_no_file(self):
        self.small_model(4, 4000)
        numpy.save(self.path("many.npy"), numpy.zeros((200000, 4), "float32"))
        process = self.start("predict", "runs/wide", "many.npy", "--to", "out.csv")
        while not self.exists(".out.csv.new") or os.path.getsize(self.path(".out.csv.new")) == 0:
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, errors)
        self.assertRegex(errors, r"stopped after \d+ examples")
        self.assertFalse(self.exists("out.csv"))
        self.assertFalse(self.exists(".out.csv.new"))

    def test_progress_is_shown_on_a_terminal(self):
        import pty
        self.small_model(4, 4000)
        numpy.save(self.path("many.npy"), numpy.zeros((4000, 4), "float32"))
        ours, theirs = pty.openpty()
        process = subprocess.Popen([PROGRAM, "predict", "runs/wide", "many.npy", "--to", "out.csv"],
                                   cwd=self.folder, env=dict(self.environment(), TERM="xterm"),
                                   stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 65536):
                text += part
        except OSError:  # the other side is closed
            pass
        os.close(ours)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(text.decode(), r"█.*\d+ %  \d+ of 4000 examples  \d+/s  .* left")


if __name__ == "__main__":
    unittest.main()
