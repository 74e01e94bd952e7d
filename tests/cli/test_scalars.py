"""What a number in a row means: with a step schedule the step's own, with an epoch schedule the epoch's mean; in one
column one of the two, and of each step one row."""
import contextlib
import csv
import glob
import sqlite3
import struct
import unittest

import numpy

from program import Case, SMALL

EXPERIMENT = (SMALL.replace("  epochs", "  clip_norm: 0.5\n"
              "  learning_rate_schedule: {exponential: {steps: 10, factor: 0.5}}\n  layer_losses: {hidden: {target: target.npy}}\n  epochs"))
NAMES = ["loss", "accuracy", "hidden.loss", "learning_rate", "gradient_norm"]
BATCHES = [16, 16, 16, 16, 8]  # 72 examples


def fields(data):
    """The fields of a protobuf message: number, value."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        count = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at:at + count]
        at += count


def read_events(path, tag):
    """(step, value) of each scalar of this tag in an event file."""
    with open(path, "rb") as file:
        data = file.read()
    while data:
        size = struct.unpack("<Q", data[:8])[0]
        event = dict(fields(data[12:12 + size]))
        for _, summary in fields(event.get(5, b"")):
            value = dict(fields(summary))
            if value.get(1) == tag.encode():
                numbers = [v for k, v in value.items() if k == 2]
                tensor = dict(fields(value[8])) if 8 in value else {}
                numbers += [v for k, v in tensor.items() if k == 5 or (k == 4 and len(v) == 4)]
                yield event[2], struct.unpack("<f", numbers[0][-4:])[0]
        data = data[16 + size:]


class Scalars(Case):
    def setUp(self):
        super().setUp()
        numpy.save(self.path("target.npy"), numpy.zeros((90, 8), "float32"))

    def rows(self, run):
        with open(self.path("runs", run, "metrics.csv"), newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def record(self, name, *tracks):
        lines = "".join(f"\n  - {track}" for track in tracks)
        self.train(EXPERIMENT.replace("name: small", f"name: {name}") + "record:" + lines, "--quiet")
        return self.rows(name)

    def test_an_epoch_schedule_gives_means(self):
        steps = self.record("steps", f"{{what: {NAMES}, every: 1 steps, to: [csv]}}")
        epochs = self.record("epochs", f"{{what: {NAMES}, every: 1 epochs, to: [csv]}}")
        self.assertEqual((len(steps), len(epochs)), (20, 4))
        for i, row in enumerate(epochs):
            for name in NAMES:
                values = [float(r[name]) for r in steps[5 * i:5 * i + 5]]
                mean = numpy.average(values, weights=BATCHES)
                self.assertAlmostEqual(float(row[name]), mean, delta=1e-6 * abs(mean), msg=f"{name}, {row}")
        self.assertNotAlmostEqual(float(epochs[0]["hidden.loss"]), float(steps[4]["hidden.loss"]), places=3)

    def test_a_mean_goes_on_after_a_resume(self):
        track = f"{{what: {NAMES}, every: 1 epochs, to: [csv]}}"
        whole = self.record("whole", track)
        text = EXPERIMENT.replace("epochs: 4", "epochs: 4\n  steps: 7").replace("name: small", "name: part")
        self.train(text + f"record:\n  - {track}", "--quiet")
        self.run_program("train", "--resume", "runs/part", "--set", "train.steps=20", "--quiet")
        self.assertEqual([r for r in self.rows("part") if r["step"] != "7"], whole)

    def test_one_column_has_one_meaning(self):
        own = {r["step"]: r["loss"] for r in self.record("own", "{what: loss, every: 1 steps, to: [csv]}")}
        epoch = "{what: loss, every: 1 epochs, to: [csv, tensorboard]}"
        for i, (schedule, steps) in enumerate([
                ("at: [3, 10]", [3, 5, 10, 15, 20]), ("every: 2 steps, end: 6", [2, 4, 5, 6, 10, 15, 20]),
                ("every: 3 steps", [3, 5, 6, 9, 10, 12, 15, 18, 20]), ("when: loss > 0", list(range(1, 21))),
                ("when: step == 7 or step == 10", [5, 7, 10, 15, 20]),
                ("when: step == 7, history: 3", [4, 5, 6, 7, 10, 15, 20])]):
            with self.subTest(schedule=schedule):
                name = f"mixed{i}"
                rows = self.record(name, epoch, f"{{what: loss, {schedule}, to: [csv, tensorboard]}}")
                self.assertEqual(sorted(int(r["step"]) for r in rows), steps)
                self.assertEqual([r["loss"] for r in rows], [own[r["step"]] for r in rows])
                with contextlib.closing(sqlite3.connect(self.path("runs", name, "run.db"))) as database, database:
                    found = dict(database.execute("SELECT step, value FROM scalar JOIN signal ON signal = id"
                                                  " WHERE name = 'loss'"))
                self.assertEqual(sorted(found), steps)
                self.assertEqual([numpy.float32(found[step]) for step in steps],
                                 [numpy.float32(own[str(step)]) for step in steps])
                (path,) = glob.glob(self.path("runs", name, "events*"))
                events = sorted(read_events(path, "loss"))
                self.assertEqual([step for step, _ in events], steps)
                for step, value in events:
                    self.assertAlmostEqual(value, float(own[str(step)]), places=5)

    def test_sinks_of_their_own_have_each_their_meaning(self):
        own = self.record("own", "{what: loss, every: 1 steps, to: [csv]}")
        rows = self.record("parted", "{what: loss, every: 1 epochs, to: [csv]}",
                           "{what: loss, at: [3], to: [tensorboard]}")
        self.assertEqual([r["step"] for r in rows], ["5", "10", "15", "20"])
        self.assertNotEqual(rows[0]["loss"], own[4]["loss"])


if __name__ == "__main__":
    unittest.main()
