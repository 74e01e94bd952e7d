"""runs, show, export, compare: on runs that are finished, live, killed, damaged, and on event files of
TensorFlow's and PyTorch's writers."""
import csv
import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import time
import unittest

import numpy

from program import PROGRAM, SMALL, SOURCE, Case

EVENTS = os.path.join(SOURCE, "tests", "fixtures", "events")
RECORD = """
record:
  - what: [loss, accuracy, val_loss]
    every: 1 step
    to: [csv]
  - what: "*.error"
    form: [stats, histogram, hash]
    to: [csv]
  - what: hidden.kernel
    every: 5 steps
    form: tensor
    to: [npy]
  - what: hidden.output
    every: 10 steps
    form: [tensor, image]
    to: [npy, png]
"""


def bits(number):
    return struct.pack(">d", number).hex()


class Reading(Case):
    def tapedeck(self, *arguments, status=0):
        if status is not None:
            return self.run_program(*arguments, status=status)
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=self.environment(), text=True,
                              capture_output=True, check=False)

    def train(self, *arguments):
        self.write("small.yaml", SMALL + RECORD)
        self.tapedeck("train", "small.yaml", "--quiet", *arguments)

    def long_training(self):
        """A training that goes on until it is stopped, some steps on."""
        self.write("small.yaml", SMALL + RECORD)
        process = subprocess.Popen([PROGRAM, "train", "small.yaml", "--quiet", "--set", "train.epochs=100000"],
                                   cwd=self.folder, env=self.environment(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(600):
            if self.exists("runs/small/run.db") and self.states().get("small", (0, 0))[1] > 50:
                return process
            time.sleep(0.05)
        self.fail("the training does not get on")

    def states(self):
        done = self.tapedeck("runs", "--json", status=None)
        return {run["name"]: (run["state"], run["step"]) for run in json.loads(done.stdout)}

    def rows(self, *parts):
        with open(self.path(*parts), newline="") as file:
            return list(csv.DictReader(file))


class States(Reading):
    def test_a_run_is_running_until_it_is_interrupted(self):
        process = self.long_training()
        self.assertEqual(self.states()["small"][0], "running")
        live = self.tapedeck("show", "runs/small")
        self.assertIn("running", live.stdout)
        self.assertEqual(live.stderr, "")
        process.send_signal(signal.SIGINT)
        process.wait()
        self.assertEqual(self.states()["small"][0], "interrupted")

    def test_a_killed_run_has_crashed_and_loses_nothing_that_was_committed(self):
        process = self.long_training()
        seen = self.states()["small"][1]
        process.kill()
        process.wait()
        for _ in range(100):  # a write that was under way is finished by a process of its own, which holds the lock
            state, step = self.states()["small"]
            if state != "running":
                break
            time.sleep(0.05)
        self.assertEqual(state, "crashed")
        self.assertGreaterEqual(step, seen)
        done = subprocess.run([PROGRAM, "export", "runs/small", "--to", "csv", "--out", "out"], cwd=self.folder,
                              env=self.environment(), capture_output=True, text=True, check=False)
        # Tensors that run.db lists may not have reached their files: each is reported, and the exit status says so.
        lost = done.stderr.splitlines()
        for line in lost:
            self.assertRegex(line, r"\.npy: record \d+ is not there$")
        self.assertEqual(done.returncode, 1 if lost else 0)
        self.assertGreaterEqual(int(self.rows("out", "metrics.csv")[-1]["step"]), seen)

    def test_a_folder_that_cannot_be_written_to_shows_the_log_too(self):
        process = self.long_training()
        process.kill()
        process.wait()
        step = self.states()["small"][1]
        os.remove(self.path("runs/small/run.db-shm"))
        os.mkdir(self.path("runs/small/run.db-shm"))  # root may write anywhere: this it cannot
        self.assertEqual(self.states()["small"], ("crashed", step))

    def test_runs_are_listed_with_their_metrics(self):
        self.train()
        self.train()
        (first, second) = json.loads(self.tapedeck("runs", "--json").stdout)
        self.assertEqual((first["name"], second["name"]), ("small", "small-2"))
        last = self.rows("runs/small/metrics.csv")[-1]
        self.assertEqual(numpy.float32(first["metrics"]["loss"]["last"]), numpy.float32(last["loss"]))
        best = min(float(row["loss"]) for row in self.rows("runs/small/metrics.csv"))
        self.assertAlmostEqual(first["metrics"]["loss"]["best"], best, places=6)
        table = self.tapedeck("runs").stdout.splitlines()
        self.assertEqual(len(table), 3)
        self.assertIn("finished", table[1])


class Export(Reading):
    def test_csv_is_what_the_training_wrote(self):
        self.train()
        self.tapedeck("export", "runs/small", "--to", "csv", "--out", "out")
        self.assertEqual(self.read("out/metrics.csv"), self.read("runs/small/metrics.csv"))
        ours = sorted(self.read("out/stats.csv").splitlines())
        theirs = sorted(self.read("runs/small/stats.csv").splitlines())
        self.assertEqual(ours, theirs)

    def test_arrays_are_what_the_training_wrote(self):
        self.train()
        self.tapedeck("export", "runs/small", "--to", "npz", "--out", "all.npz")
        with numpy.load(self.path("all.npz")) as arrays:
            for name in ("hidden.kernel", "hidden.kernel.steps", "hidden.output"):
                numpy.testing.assert_array_equal(arrays[name], numpy.load(self.path(f"runs/small/{name}.npy")))
            loss = [float(row["loss"]) for row in self.rows("runs/small/metrics.csv")]
            numpy.testing.assert_array_equal(arrays["loss"].astype("f4"), numpy.array(loss, "f4"))

    def test_parquet_is_the_packages(self):
        self.assertIn("python -m tapedeck export runs/a --to a.parquet", self.tapedeck("export", "runs/a", "--to", "a.parquet", status=2).stderr)

    def test_steps_and_signals_are_chosen(self):
        self.train()
        self.tapedeck("export", "runs/small", "--to", "csv", "--out", "out", "--what", "loss,hidden.kernel", "--steps",
                      "5..9", "--form", "long")
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["hidden.kernel.csv"])
        rows = self.rows("out/hidden.kernel.csv")
        self.assertEqual({row["step"] for row in rows}, {"5"})
        kernel = numpy.load(self.path("runs/small/hidden.kernel.npy"))[0]
        self.assertEqual([numpy.float32(row["value"]) for row in rows], list(kernel.reshape(-1)))

    def test_a_way_through_tensorboard_and_back_keeps_every_value(self):
        self.train()
        self.tapedeck("export", "runs/small", "--to", "tensorboard", "--out", "events")
        self.tapedeck("export", "events", "--to", "csv", "--out", "out", "--what", "loss,accuracy,val_loss")
        there = [[row[key] for key in ("step", "loss", "accuracy", "val_loss")]
                 for row in self.rows("runs/small/metrics.csv")]
        back = [[row[key] for key in ("step", "loss", "accuracy", "val_loss")] for row in self.rows("out/metrics.csv")]
        as_floats = [[numpy.float32(x or "nan") for x in row] for row in there]
        numpy.testing.assert_array_equal(as_floats, [[numpy.float32(x or "nan") for x in row] for row in back])

    def test_a_way_through_sqlite_is_a_run_again(self):
        self.train()
        self.tapedeck("export", "runs/small", "--to", "sqlite", "--out", "copy")
        self.assertEqual(self.tapedeck("compare", "runs/small", "copy").returncode, 0)
        self.tapedeck("export", "copy", "--to", "npy", "--out", "out", "--what", "hidden.output", "--form", "tensor")
        self.assertEqual(self.bytes("out/hidden.output.npy"), self.bytes("runs/small/hidden.output.npy"))

    def test_values_of_other_writers_come_out_bit_for_bit(self):
        self.tapedeck("export", EVENTS, "--to", "csv", "--out", "out")
        with open(os.path.join(EVENTS, "expected.txt")) as file:
            expected = [line.rstrip("\n").split("\t") for line in file]
        checked = 0
        for folder, form, tag, step, values in expected:
            name = tag.replace("/", "%2F")
            if form == "scalar":
                rows = self.rows("out", folder, "metrics.csv")
                (cell,) = [row[tag] for row in rows if row["step"] == step and row[tag]]
                self.assertEqual(bits(float(numpy.float32(cell))), values)
                checked += 1
            elif form == "histogram":
                rows = self.rows("out", folder, f"{name}@histogram.csv")
                cells = [row[key] for row in rows if row["step"] == step for key in ("left", "right", "count")]
                self.assertEqual(" ".join(bits(float(cell)) for cell in cells), values)
                checked += 1
        self.assertGreater(checked, 40)
        self.tapedeck("export", EVENTS, "--to", "png", "--out", "pictures")
        embeddings = 1  # of plugins/projector_config.pbtxt, which are in no event
        self.assertEqual(len(glob.glob(self.path("pictures/*/images/*/*.png"))),
                         sum(form in ("image", "tensor") for _, form, *_ in expected) + embeddings)

    def test_a_folder_that_exists_is_left_alone(self):
        self.train()
        os.mkdir(self.path("out"))
        done = self.tapedeck("export", "runs/small", "--to", "csv", "--out", "out", status=1)
        self.assertIn("nothing is overwritten", done.stderr)
        self.assertEqual(os.listdir(self.path("out")), [])

    def test_mistakes_are_said(self):
        self.train()
        self.assertIn("did you mean 'csv'", self.tapedeck("export", "runs/small", "--to", "cvs", status=2).stderr)
        self.assertIn("cannot hold it",
                      self.tapedeck("export", "runs/small", "--to", "npy", "--form", "rows", status=2).stderr)
        os.mkdir(self.path("empty"))
        self.assertIn("neither a run.db",
                      self.tapedeck("export", "empty", "--to", "csv", "--out", "o", status=1).stderr)


class Damage(Reading):
    def test_a_database_cut_anywhere_is_shown_as_far_as_it_goes(self):
        self.train()
        whole = self.bytes("runs/small/run.db")
        numbers = random.Random(7)
        for size in [0, 1, 100, 4096, len(whole) - 1] + [numbers.randrange(len(whole)) for _ in range(12)]:
            shutil.rmtree(self.path("cut"), ignore_errors=True)
            os.mkdir(self.path("cut"))
            with open(self.path("cut/run.db"), "wb") as file:
                file.write(whole[:size])
            for command in (("show", "cut"), ("export", "cut", "--to", "csv", "--out", f"out-{size}")):
                done = self.tapedeck(*command, status=None)
                self.assertIn(done.returncode, (0, 1), f"cut at {size}: {done.stderr}")
                self.assertNotEqual(done.stderr, "", f"cut at {size}: nothing is said")

    def test_arrays_and_pictures_that_are_gone_are_said(self):
        self.train()
        os.remove(self.path("runs/small/hidden.kernel.npy"))
        with open(self.path("runs/small/hidden.output.npy"), "r+b") as file:
            file.truncate(200)
        done = self.tapedeck("export", "runs/small", "--to", "npy", "--out", "out", status=1)
        self.assertIn("hidden.kernel.npy: No such file", done.stderr)
        self.assertIn("hidden.output.npy is cut short", done.stderr)
        self.assertTrue(self.exists("out/loss.npy"))
        done = self.tapedeck("report", "runs/small", "-o", "small.html", status=1)
        self.assertRegex(done.stderr, r"small.html is written, without what could not be read: .*hidden\.\w+\.npy")
        self.assertIn("</html>", self.read("small.html"))

    def test_a_run_that_cannot_be_read_does_not_keep_others_from_being_exported(self):
        self.train()
        os.mkdir(self.path("runs/broken"))
        self.write("runs/broken/run.db", "no database at all" * 100)
        done = self.tapedeck("export", "runs", "--to", "csv", "--out", "out", status=1)
        self.assertRegex(done.stderr, "runs/broken/run.db cannot be read")
        self.assertGreater(len(self.rows("out/small/metrics.csv")), 2)
        done = self.tapedeck("report", "runs/broken", "runs/small", "-o", "both.html", status=1)
        self.assertRegex(done.stderr, "runs/broken/run.db cannot be read")

    def test_a_torn_event_file_gives_all_that_is_whole(self):
        os.mkdir(self.path("torn"))
        with open(glob.glob(os.path.join(EVENTS, "torch", "*"))[0], "rb") as file:
            data = file.read()
        with open(self.path("torn/events.out.tfevents.1"), "wb") as file:
            file.write(data[:300])
        done = self.tapedeck("export", "torn", "--to", "csv", "--out", "out", status=1)
        self.assertIn("is not all there", done.stderr)
        self.assertGreater(len(self.rows("out/metrics.csv")), 2)


class Show(Reading):
    def test_a_terminal_gets_pictures(self):
        self.train()
        self.train("--set", "seed=4")
        page = self.terminal("show", "runs/small", "runs/small-2")
        self.assertTrue(any(0x2800 < ord(c) < 0x2900 for c in page), "no braille")
        self.assertTrue(any(c in page for c in "▁▂▃▄▅▆▇█"), "no heat map")
        self.assertNotIn("\x1b", page)
        self.assertLessEqual(max(len(line) for line in page.splitlines()), 100)
        self.assertIn("\x1b[38;5;", self.terminal("show", "runs/small", "loss", NO_COLOR=""))

    def test_each_form_has_its_page(self):
        self.train()
        self.assertIn("its distribution", self.terminal("show", "runs/small", "hidden.error"))
        self.assertIn("norm of *.error", self.terminal("show", "runs/small", "*.error", "--stat", "norm"))
        self.assertIn("hidden.output at step 20", self.terminal("show", "runs/small", "hidden.output", "--picture"))
        numbers = self.tapedeck("show", "runs/small", "hidden.kernel", "--step", "7").stdout
        self.assertIn("hidden.kernel at step 5", numbers)
        kernel = numpy.load(self.path("runs/small/hidden.kernel.npy"))[0]
        self.assertIn(f"{kernel[0, 0]:.4f}"[:6], numbers)

    def test_without_a_terminal_there_are_numbers(self):
        self.train()
        lines = [line.split("\t") for line in self.tapedeck("show", "runs/small", "loss").stdout.splitlines()]
        self.assertEqual(lines[0], ["signal", "step", "value", "low", "high"])
        metrics = {row["step"]: float(row["loss"]) for row in self.rows("runs/small/metrics.csv")}
        for line in lines[1:]:
            self.assertAlmostEqual(float(line[2]), metrics[line[1]], delta=1e-3 * abs(metrics[line[1]]))

    def test_json_has_every_point(self):
        self.train()
        page = json.loads(self.tapedeck("show", "runs/small", "loss", "--json").stdout)
        (loss,) = page["signals"]
        points = [[int(row["step"]), numpy.float32(row["loss"])] for row in self.rows("runs/small/metrics.csv")]
        self.assertEqual([[step, numpy.float32(value)] for step, value in loss["points"]], points)

    def test_following_ends_with_the_run(self):
        process = self.long_training()
        follower = subprocess.Popen([PROGRAM, "show", "runs/small", "loss", "--follow"], cwd=self.folder,
                                    env=self.environment(), stdout=subprocess.PIPE, text=True)
        time.sleep(1.2)
        self.assertIsNone(follower.poll())
        process.send_signal(signal.SIGINT)
        process.wait()
        page, _ = follower.communicate(timeout=60)
        self.assertGreater(page.count("signal\tstep"), 1)

    def test_event_files_are_shown_too(self):
        page = self.tapedeck("show", os.path.join(EVENTS, "tf2"), "train/loss").stdout
        self.assertIn("train/loss\t0\t0.1", page)

    def test_event_files_are_a_run_like_any_other(self):
        for name in ("tf1", "tf2", "torch", "torch-new"):
            for command in (("show", os.path.join(EVENTS, name)),
                            ("compare", os.path.join(EVENTS, name), os.path.join(EVENTS, name))):
                self.assertEqual(self.tapedeck(*command).stderr, "")
        self.assertEqual(self.tapedeck("runs", EVENTS).stderr, "")
        page = json.loads(self.tapedeck("show", os.path.join(EVENTS, "tf2"), "--json").stdout)
        forms = {signal["name"]: signal["forms"] for signal in page["signals"]}
        self.assertEqual((forms["digits/0"], forms["note"], forms["matrix"]), ("image", "text", "tensor"))

    def test_an_unknown_signal_is_said(self):
        self.train()
        self.assertIn("no signal 'lost'", self.tapedeck("show", "runs/small", "lost", status=1).stderr)


    def test_a_table_has_only_steps_that_were_recorded(self):
        self.train()
        lines = self.tapedeck("show", "runs/small", "*.error", "--stat", "norm").stdout.splitlines()
        steps = [int(cell) for cell in lines[1].split("\t")[1:]]
        stats = {(row["signal"], int(row["step"])): float(row["norm"]) for row in self.rows("runs/small/stats.csv")}
        self.assertGreater(len(steps), 2)
        for line in lines[2:]:
            name, *cells = line.split("\t")
            for step, cell in zip(steps, cells):
                self.assertAlmostEqual(float(cell), stats[name, step], delta=1e-3 * stats[name, step])

    def test_output_that_cannot_be_written_is_an_error(self):
        self.train()
        for command in (("show", "runs/small"), ("show", "runs/small", "--json"), ("runs",), ("--help",), ("--version",),
                        ("compare", "runs/small", "runs/small"), ("show", "--help"),
                        ("export", "runs/small", "--to", "csv", "--out", "full")):
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *command], cwd=self.folder, env=self.environment(), stdout=full,
                                      stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("cannot write to stdout", done.stderr)


def event_file(path, steps, tag=b"loss"):
    """An event file with a scalar at each of these steps."""
    def crc(data):
        value = 0xffffffff
        for byte in data:
            value ^= byte
            for _ in range(8):
                value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
        value ^= 0xffffffff
        return struct.pack("<I", ((value >> 15 | value << 17) + 0xa282ead8) & 0xffffffff)

    def varint(number):
        out = b""
        number &= (1 << 64) - 1
        while number > 127:
            out += bytes([number & 127 | 128])
            number >>= 7
        return out + bytes([number])

    with open(path, "wb") as file:
        for step in steps:
            value = b"\x0a" + varint(len(tag)) + tag + b"\x15" + struct.pack("<f", 0.5)
            summary = b"\x0a" + varint(len(value)) + value
            event = b"\x09" + struct.pack("<d", 1.7e9) + b"\x10" + varint(step)
            event += b"\x2a" + varint(len(summary)) + summary
            length = struct.pack("<Q", len(event))
            file.write(length + crc(length) + event + crc(event))


class Strange(Reading):
    def test_a_wide_range_of_steps_takes_no_longer(self):
        os.mkdir(self.path("wide"))
        event_file(self.path("wide/events.out.tfevents.1"), [-2**63, -5, 0, 7, 2**62, 2**63 - 1])
        done = self.tapedeck("compare", "wide", "wide")
        self.assertIn("0 of 1 signal parts", done.stdout)
        page = json.loads(self.tapedeck("show", "wide", "loss", "--json").stdout)
        self.assertEqual([step for step, _ in page["signals"][0]["points"]], [-2**63, -5, 0, 7, 2**62, 2**63 - 1])
        rows = self.tapedeck("show", "wide", "loss").stdout.splitlines()[1:]  # 0 and 7 are one part of the time
        self.assertEqual([int(row.split("\t")[1]) for row in rows], [-2**63, -5, 7, 2**62, 2**63 - 1])
        self.tapedeck("show", "wide")
        self.tapedeck("export", "wide", "--to", "csv", "--out", "out")

    def test_pipes_in_place_of_files_are_not_waited_for(self):
        self.train()
        for name in ("run.db", "run.db-wal", "events.out.tfevents.1"):
            shutil.rmtree(self.path("pipe"), ignore_errors=True)
            os.mkdir(self.path("pipe"))
            os.mkfifo(self.path("pipe", name))
            if name == "run.db-wal":
                shutil.copy(self.path("runs/small/run.db"), self.path("pipe"))
            for command in (("show", "pipe"), ("export", "pipe", "--to", "csv", "--out", "out"),
                            ("compare", "pipe", "pipe")):
                done = self.tapedeck(*command, status=1)
                self.assertIn("not a regular file", done.stderr)
            self.assertIn("not a regular file", self.tapedeck("runs", "pipe", status=1).stderr)
        shutil.copytree(self.path("runs/small"), self.path("copy"))
        for name in ("hidden.kernel.npy", "hidden.output.npy"):
            os.remove(self.path("copy", name))
            os.mkfifo(self.path("copy", name))
        self.assertIn("not a regular file",
                      self.tapedeck("export", "copy", "--to", "npy", "--out", "arrays", status=1).stderr)

    def test_reading_leaves_nothing_behind(self):
        self.train()
        before = sorted(os.listdir(self.path("runs/small")))
        self.tapedeck("runs")
        self.tapedeck("show", "runs/small")
        self.tapedeck("compare", "runs/small", "runs/small")
        self.assertEqual(sorted(os.listdir(self.path("runs/small"))), before)


class Compare(Reading):
    def test_the_same_experiment_does_not_part(self):
        self.train()
        self.train()
        done = self.tapedeck("compare", "runs/small", "runs/small-2")
        self.assertIn("the same", done.stdout)
        self.assertIn("0 of ", done.stdout)

    def test_other_kernels_are_named(self):
        self.train()
        os.environ["TAPEDECK_CPU"] = "portable"
        self.addCleanup(os.environ.pop, "TAPEDECK_CPU")
        self.train()
        done = self.tapedeck("compare", "runs/small", "runs/small-2", "--tolerance", "1", status=None)
        self.assertIn("small-2: kernels: portable", done.stdout)

    def test_kernels_that_the_machine_does_not_have_are_an_error(self):
        self.addCleanup(os.environ.pop, "TAPEDECK_CPU")
        self.write("small.yaml", SMALL + RECORD)
        for wish in ("nonsense", "AVX2", "portable "):
            os.environ["TAPEDECK_CPU"] = wish
            refused = self.tapedeck("train", "small.yaml", status=2)
            self.assertIn(f"TAPEDECK_CPU is {wish}, but this machine has portable", refused.stderr)
        os.environ["TAPEDECK_CPU"] = "" # as if it were not set
        self.train()

    def test_another_seed_parts_at_the_first_step(self):
        self.train()
        self.train("--set", "seed=4")
        done = self.tapedeck("compare", "runs/small", "runs/small-2", status=1)
        self.assertIn("small: seed: 3", done.stdout)
        self.assertIn("small-2: seed: 4", done.stdout)
        found = json.loads(self.tapedeck("compare", "runs/small", "runs/small-2", "--json", status=1).stdout)
        self.assertEqual(found["parted"][0]["step"], 1)
        self.assertEqual({p["by"] for p in found["parted"] if p["signal"].endswith(".error")}, {"hash"})

    def test_a_tolerance_forgives(self):
        self.train()
        self.train("--set", "seed=4")
        done = self.tapedeck("compare", "runs/small", "runs/small-2", "--what", "loss", "--tolerance", "100")
        self.assertIn("0 of 1 signal parts", done.stdout)


if __name__ == "__main__":
    unittest.main()
