"""What tests/helpers/crash_record.c must have left behind, whatever happened to it.

Every file is opened with the reader people use for it (pandas, numpy, sqlite3; TensorBoard's
framing and PNG by readers of our own) and compared with the stream, which is a function of the
step. `whole`: nothing may be missing between the first and the last record (a killed program);
otherwise records may be missing (a full disk), but those that are there are right and in order.
"""
import glob
import json
import os
import sqlite3
import struct
import tarfile
import zlib

import numpy as np
import pandas as pd

import events

EXAMPLES, UNITS, WIDE, BIG = 4, 8, 700, 96 * 1024


def value(step, i):
    return np.float32(((step * 31 + i * 17) % 1000 - 500) / 8)


def tensor(step, shape):
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (((step * 31 + i * 17) % 1000 - 500) / 8).astype(np.float32).reshape(shape)


def examples(step):
    return EXAMPLES if step % 5 else 1


def samples(step):
    return [(step * EXAMPLES + i) % 97 for i in range(EXAMPLES)]


def epoch(step):
    return 1 + step // 100


class Check:
    def __init__(self, folder, flushed=0, whole=True):
        self.folder, self.flushed, self.whole = folder, flushed, whole

    def path(self, name):
        return os.path.join(self.folder, name)

    def has(self, name):
        return os.path.exists(self.path(name))

    def steps(self, name, got, due=lambda step: True):
        """The steps of a file are those that were due, from the first on; flushed ones are there."""
        got = list(got)
        last = max(got, default=0)
        expected = [step for step in range(1, max(last, self.flushed) + 1) if due(step)]
        if self.whole:
            assert got == expected[: len(got)], f"{name}: steps {got[:20]}… are no prefix"
            needed = [step for step in expected if step <= self.flushed]
            assert len(got) >= len(needed), f"{name}: ends at {last}, {self.flushed} was flushed"
        else:
            assert got == sorted(set(got) & set(expected)), f"{name}: steps {got[:20]}…"

    def missing(self, name, due=lambda step: True):
        if self.has(name):
            return False
        first = next(step for step in range(1, 1000) if due(step))
        assert not self.whole or self.flushed < first, f"{name} is missing"
        return True

    def csv(self, name, due=lambda step: True):
        if self.missing(name, due):
            return None
        with open(self.path(name), "rb") as file:
            data = file.read()
        assert data.endswith(b"\n"), f"{name}: the last line is torn"
        return pd.read_csv(self.path(name))

    def metrics(self):
        table = self.csv("metrics.csv")
        if table is None:
            return
        names = ["epoch", "step", "loss", "val_loss", "val_accuracy"]
        assert list(table.columns) == [n for n in names if n in table.columns]
        self.steps("metrics.csv", table["step"], lambda s: True)
        for row in table.to_dict("records"):
            step = int(row["step"])
            due = "val_loss" if step < 20 else "val_accuracy"
            assert row["epoch"] == epoch(step)
            loss = row.get("loss", np.nan)  # without, its track could not be added
            if self.whole or not np.isnan(loss):
                assert np.float32(loss) == value(step, 1), row
            for name in ("val_loss", "val_accuracy"):
                cell = row.get(name, np.nan)
                if name == due and step % 7 == 0:
                    if self.whole or not np.isnan(cell):
                        assert np.float32(cell) == value(step, 2), row
                else:
                    assert np.isnan(cell), row

    def rows(self, name, prefix, width):
        table = self.csv(name)
        if table is None:
            return
        assert list(table.columns) == ["epoch", "step", "sample"] + [
            f"{prefix}_{i}" for i in range(width)
        ]
        steps = table["step"].to_numpy()
        if len(steps) == 0:
            return
        edges = np.flatnonzero(np.diff(steps)) + 1
        for number, block in enumerate(np.split(np.arange(len(steps)), edges)):
            step = int(steps[block[0]])
            complete = len(block) == examples(step)
            # a record of many lines may end early, but only the last one of a killed program
            assert complete or (self.whole and number == len(edges)), f"{name}: step {step}"
            part = table.iloc[block]
            assert part["sample"].tolist() == samples(step)[: len(block)]
            got = part.iloc[:, 3:].to_numpy().astype(np.float32)
            assert np.array_equal(got, tensor(step, (examples(step), width))[: len(block)])
            if not complete:
                assert step > self.flushed
        self.steps(name, pd.unique(table["step"]))

    def stats(self, name):
        table = self.csv(name)
        if table is None:
            return
        header = "epoch,step,signal,count,mean,std,min,max,norm,zeros,nan,inf"
        assert ",".join(table.columns) == header
        self.steps(name, table["step"])
        for row in table.itertuples():
            x = tensor(row.step, (examples(row.step), UNITS)).astype(np.float64)
            assert (row.signal, row.count) == ("x.output", x.size) and row.zeros == (x == 0).sum()
            assert row.min == x.min() and row.max == x.max() and row.nan == row.inf == 0
            np.testing.assert_allclose(
                [row.mean, row.std, row.norm], [x.mean(), x.std(), np.linalg.norm(x)], rtol=1e-6
            )

    def texts(self):
        table = self.csv("texts.csv", lambda step: step % 10 == 0)
        if table is not None:
            self.steps("texts.csv", table["step"], lambda step: step % 10 == 0)
            assert table["text"].tolist() == [f'step {s},\n"quoted"' for s in table["step"]]

    def npy(self, name, shape, due, has_samples):
        if self.missing(f"{name}.npy", due):
            return
        data = np.load(self.path(f"{name}.npy"))
        assert data.dtype == np.float32 and data.shape[1:] == shape
        if self.missing(f"{name}.steps.npy", due):
            assert len(data) == 0
            return
        steps = np.load(self.path(f"{name}.steps.npy"))
        assert len(steps) >= len(data), f"{name}: {len(steps)} steps of {len(data)} records"
        self.steps(name, steps[: len(data)].tolist(), due)
        for record, step in zip(data, steps):
            assert np.array_equal(record, tensor(int(step), shape)), f"{name}: step {step}"
        if has_samples and len(data):
            rows = np.load(self.path(f"{name}.samples.npy"))
            assert len(rows) >= len(data)
            for row, step in zip(rows[: len(data)], steps):
                assert row.tolist() == samples(int(step))[: shape[0]]

    def tensorboard(self):
        files = glob.glob(self.path("events.out.tfevents.*"))
        assert len(files) <= 1
        by_tag = {}
        for name in files:
            with open(name, "rb") as file:
                for step, tag, plugin, data in events.values(file.read()):
                    by_tag.setdefault(tag, []).append((step, plugin, data))
        expected = {"loss": lambda s: True, "x.output": lambda s: True, "note": lambda s: s % 10 == 0}
        assert set(by_tag) <= set(expected)
        for tag, due in expected.items():
            got = by_tag.get(tag, [])
            self.steps(f"tensorboard {tag}", [step for step, _, _ in got], due)
            for step, plugin, data in got:
                if tag == "loss":
                    assert plugin == "scalars" and data == value(step, 1)
                elif tag == "note":
                    assert plugin == "text" and data == f'step {step},\n"quoted"'.encode()
                else:
                    assert plugin == "histograms" and data[:, 2].sum() == examples(step) * UNITS

    def database(self):
        if not self.has("run.db"):
            assert self.flushed == 0 or not self.whole, "run.db is missing"
            return
        database = sqlite3.connect(self.path("run.db"))
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        query = "SELECT step, value FROM scalar JOIN signal ON id = signal WHERE name = ? ORDER BY step"
        loss = database.execute(query, ("loss",)).fetchall()
        self.steps("run.db loss", [step for step, _ in loss])
        assert all(value(step, 1) == got for step, got in loss)
        stats = database.execute("SELECT step, count, max FROM stats ORDER BY step").fetchall()
        self.steps("run.db stats", [row[0] for row in stats])
        for step, count, most in stats:
            x = tensor(step, (examples(step), UNITS))
            assert count == x.size and most == x.max()
        for step, bins in database.execute("SELECT step, bins FROM histogram"):
            assert sum(b[2] for b in json.loads(bins)) == examples(step) * UNITS
        place = (
            "SELECT step, shape, file, record FROM tensor JOIN signal ON id = signal"
            " WHERE form = 'tensor' ORDER BY name, step"
        )
        for step, shape, file, record in database.execute(place).fetchall():
            if self.whole and step <= self.flushed:
                array = np.load(self.path(file), mmap_mode="r")
                assert list(array.shape[1:]) == json.loads(shape)
                assert np.array_equal(array[record], tensor(step, tuple(json.loads(shape))))
        database.close()

    def pictures(self):
        """In files of their own, or on a network file system in an archive."""
        assert not (self.has("images/x.output") and self.has("images/x.output.tar"))
        found = archived(self.path("images/x.output.tar")) if self.has("images/x.output.tar") else [
            (os.path.basename(name), open(name, "rb").read())
            for name in sorted(glob.glob(self.path("images/x.output/step-*.png")))]
        for name, data in found:
            check_png(name, data)
        steps = [int(name[5:-4]) for name, _ in found]
        self.steps("images", steps, lambda step: step % 10 == 0)

    def all(self):
        if not os.path.isdir(self.folder):
            assert self.flushed == 0
            return
        self.metrics()
        self.rows("x.output.csv", "output", UNITS)
        self.rows("wide.csv", "wide", WIDE)
        self.stats("stats.csv")
        self.texts()
        self.npy("x.output", (EXAMPLES, UNITS), lambda s: s % 5 != 0, True)
        self.npy("x.output@1x8", (1, UNITS), lambda s: s % 5 == 0, True)
        self.npy("big", (BIG,), lambda s: s % 10 == 0, False)
        self.tensorboard()
        self.database()
        self.pictures()


def archived(path):
    """Names and bytes of a tar archive; what a kill left half written ends it."""
    found = []
    with tarfile.open(path) as archive:
        for member in archive:
            data = archive.fileobj.seek(member.offset_data) and archive.fileobj.read(member.size)
            if len(data) < member.size:
                break
            found.append((member.name, data))
    return found


def check_png(name, data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n", name
    at, kind, pixels = 8, b"", b""
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        (crc,) = struct.unpack_from(">I", data, at + 8 + length)
        assert crc == zlib.crc32(kind + body), name
        if kind == b"IHDR":
            width, height = struct.unpack_from(">II", body)
        if kind == b"IDAT":
            pixels += body
        at += 12 + length
    assert kind == b"IEND" and len(zlib.decompress(pixels)) == height * (3 * width + 1), name
