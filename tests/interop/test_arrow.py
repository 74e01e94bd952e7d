"""Tables of Arrow, as pyarrow, polars, pandas and DuckDB read them, against what NumPy put in; and consumers that misbehave."""

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import unittest

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
from pyarrow import parquet

import tapedeck

STEPS = 7
generator = np.random.default_rng(3)
TENSORS = generator.normal(size=(STEPS, 4, 3)).astype("float32")
LOSSES = [0.5, np.nan, np.inf, 1e-30, -2.0, 3.0, 4.0]


class Stream(ctypes.Structure):
    """ArrowArrayStream; of it only what the tests call."""


Stream._fields_ = [("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.c_void_p)),
                   ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.c_void_p)),
                   ("get_last_error", ctypes.c_void_p),
                   ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))), ("private_data", ctypes.c_void_p)]


def pointer_of(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.cast(get(capsule, b"arrow_array_stream"), ctypes.POINTER(Stream))


class Struct(ctypes.Structure):
    """ArrowArray (10 words) or ArrowSchema (9 words), with room for either."""

    _fields_ = [("words", ctypes.c_void_p * 10)]


def release(struct, word):
    """Calls the release of an array (word 8) or schema (word 7); whether it had one."""
    address = struct.words[word]
    if address:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(ctypes.addressof(struct))
    return bool(address)


class Arrow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        path = os.path.join(cls.folder.name, "run")
        with tapedeck.Deck(path) as deck:
            deck.track("h.error", form="tensor", to="npy")
            deck.track("h.error", form=["stats", "histogram"])
            deck.track("short", form="tensor", to="npy")
            deck.track("count", form="tensor", to="npy")
            deck.track("prediction", form="rows", to="sqlite")
            for step in range(1, STEPS + 1):
                deck.batch(np.array([10 * step, 10 * step + 1]), np.array([1, 0]))
                deck.record("h.error", TENSORS[step - 1])
                deck.record("short", np.full(3 if step < STEPS else 2, step, "float64"))
                deck.record("count", np.full((2, 2), step, "int64"))
                deck.record("prediction", np.array([[0.25, 0.75], [0.5, step]], "float32"))
                deck.log(loss=LOSSES[step - 1], accuracy=step / 8)
                deck.text("note", f"grüße {step}")
                deck.step()
        cls.run_ = tapedeck.Run(path)

    def test_scalars(self):
        table = pyarrow.table(self.run_["loss"])
        table.validate(full=True)
        self.assertEqual(table.column_names, ["signal", "epoch", "step", "wall_time", "value"])
        values = self.run_["loss"].values
        for name in values.dtype.names:
            np.testing.assert_array_equal(table[name].to_numpy(), values[name])
        np.testing.assert_array_equal(table["value"].to_numpy(), LOSSES)
        self.assertEqual(set(table["signal"].to_pylist()), {"loss"})

    def test_every_package_reads_the_same_numbers(self):
        want = {("loss", step + 1): value for step, value in enumerate(LOSSES)} | {("accuracy", s): s / 8 for s in range(1, STEPS + 1)}
        table = self.run_.to_arrow()
        frames = [pandas.DataFrame.from_arrow(table), polars.DataFrame(table).to_pandas(), duckdb.sql("select * from \"table\"").df()]
        for frame in frames:
            got = {(str(row.signal), int(row.step)): row.value for row in frame.itertuples()}
            self.assertEqual(set(got), set(want))
            np.testing.assert_array_equal([got[key] for key in sorted(got)], [want[key] for key in sorted(want)])

    def test_duckdb_and_polars_ask_questions(self):
        stats = self.run_.to_arrow("stats", "h.*")
        (most, count), = duckdb.sql("select max(norm), count(*) from stats").fetchall()
        norms = np.linalg.norm(TENSORS.reshape(STEPS, -1).astype("float64"), axis=1)
        self.assertAlmostEqual(most, norms.max(), places=6)
        self.assertEqual(count, STEPS)
        frame = polars.DataFrame(stats).filter(polars.col("signal").cast(polars.String) == "h.error").sort("step")
        np.testing.assert_allclose(frame["norm"].to_numpy(), norms, rtol=1e-6)
        np.testing.assert_array_equal(frame["count"].to_numpy(), np.full(STEPS, 12))

    def test_histograms_hold_every_element(self):
        frame = polars.DataFrame(self.run_.to_arrow("histogram", "h.error"))
        np.testing.assert_array_equal(frame.group_by("step").agg(polars.col("count").sum()).sort("step")["count"].to_numpy(), np.full(STEPS, 12.0))
        bins = self.run_["h.error"].at(3, "histogram")
        third = frame.filter(polars.col("step") == 3)
        for name in ("left", "right", "count"):
            np.testing.assert_array_equal(third[name].to_numpy(), bins[name])

    def test_tensors_are_not_copied(self):
        table = pyarrow.table(self.run_["h.error"])
        table.validate(full=True)
        column = table["value"].combine_chunks()
        column = column.chunk(0) if isinstance(column, pyarrow.ChunkedArray) else column
        self.assertEqual(column.type, pyarrow.fixed_shape_tensor(pyarrow.float32(), [4, 3]))
        np.testing.assert_array_equal(column.to_numpy_ndarray(), TENSORS)
        mapped = self.run_["h.error"]._mapped()
        again = pyarrow.chunked_array([chunk for chunk in pyarrow.table(self.run_["h.error"])["value"].chunks])
        address = again.chunk(0).storage.values.buffers()[1].address
        pages = open("/proc/self/maps").read().splitlines()
        at = [line for line in pages if int(line.split("-")[0], 16) <= address < int(line.split("-")[1].split()[0], 16)]
        self.assertTrue(at and at[0].endswith("h.error.npy"), at)
        np.testing.assert_array_equal(mapped, TENSORS)
        frame = polars.DataFrame(self.run_["count"])
        self.assertEqual(np.array(frame["value"].to_list()).reshape(STEPS, 2, 2)[4, 1, 1], 5)

    def test_tensors_of_several_shapes(self):
        table = pyarrow.table(self.run_["short"])
        table.validate(full=True)
        self.assertEqual(table["shape"].to_pylist(), [[3]] * (STEPS - 1) + [[2]])
        self.assertEqual(table["value"].to_pylist(), [[float(s)] * (3 if s < STEPS else 2) for s in range(1, STEPS + 1)])
        with self.assertRaisesRegex(tapedeck.Error, "float.*int64|int64.*float"):
            pyarrow.table(self.run_.to_arrow("tensor"))

    def test_predictions_and_texts(self):
        table = pyarrow.table(self.run_["prediction"])
        table.validate(full=True)
        rows = table.select(["step", "sample", "label", "value"]).to_pylist()
        self.assertEqual(len(rows), 2 * STEPS)
        self.assertEqual(rows[5], {"step": 3, "sample": 31, "label": 0.0, "value": [0.5, 3.0]})
        texts = pyarrow.table(self.run_["note"])
        texts.validate(full=True)
        self.assertEqual(texts["text"].to_pylist(), [f"grüße {s}" for s in range(1, STEPS + 1)])

    def test_parquet(self):
        path = os.path.join(self.folder.name, "loss.parquet")
        self.assertEqual(self.run_.to_parquet(path), path)
        np.testing.assert_array_equal(np.sort(parquet.read_table(path)["value"].to_numpy()), np.sort(LOSSES + [s / 8 for s in range(1, STEPS + 1)]))
        self.assertEqual(duckdb.sql(f"select count(*) from '{path}'").fetchall(), [(2 * STEPS,)])
        self.run_["h.error"].to_arrow().to_parquet(path)
        np.testing.assert_array_equal(np.array(parquet.read_table(path)["value"].to_pylist(), "float32").reshape(TENSORS.shape), TENSORS)

    def test_the_program_of_the_package_exports_parquet(self):
        path = os.path.join(self.folder.name, "stats.parquet")
        command = [sys.executable, "-m", "tapedeck", "export", self.run_.folder, "--to", path]
        done = subprocess.run(command + ["--form", "stats", "--what", "h.*"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, f"{path}: {STEPS} rows\n"), done.stderr)
        self.assertEqual(parquet.read_table(path)["step"].to_pylist(), list(range(1, STEPS + 1)))
        taken = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(taken.returncode, 1)
        self.assertIn("--force replaces it", taken.stderr)
        wrong = subprocess.run(command[:-1] + [path + "2.parquet", "--form", "x"], capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("no form of a table", wrong.stderr)
        without = f"import sys; sys.modules['pyarrow'] = None; import tapedeck; tapedeck.Run({self.run_.folder!r}).to_parquet('x')"
        done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True)
        self.assertIn("pip install pyarrow", done.stderr)

    def test_tables_outlive_the_run_and_the_file(self):
        run = tapedeck.Run(self.run_.folder)
        tables = [pyarrow.table(run["h.error"]), pyarrow.table(run.to_arrow())]
        del run
        gc.collect()
        for table in tables:
            table.validate(full=True)

    def test_a_table_of_nothing(self):
        table = pyarrow.table(self.run_.to_arrow("scalar", "none"))
        table.validate(full=True)
        self.assertEqual(table.num_rows, 0)
        for form in ("stats", "histogram", "tensor", "rows", "text"):
            pyarrow.table(self.run_.to_arrow(form, "none")).validate(full=True)
        with self.assertRaisesRegex(ValueError, "no form"):
            self.run_.to_arrow("picture")
        with self.assertRaisesRegex(KeyError, "was not recorded as stats"):
            self.run_["loss"].to_arrow("stats")

    def test_event_files(self):
        frame = polars.DataFrame(tapedeck.Run(self.event_file()).to_arrow())
        got = dict(zip(frame.filter(polars.col("signal").cast(polars.String) == "accuracy")["step"], frame.filter(polars.col("signal").cast(polars.String) == "accuracy")["value"]))
        self.assertEqual(got, {s: s / 8 for s in range(1, STEPS + 1)})

    def event_file(self):
        from torch.utils.tensorboard import SummaryWriter

        folder = os.path.join(self.folder.name, "events")
        with SummaryWriter(folder) as writer:
            for step in range(1, STEPS + 1):
                writer.add_scalar("loss", 1.0, step)
                writer.add_scalar("accuracy", step / 8, step)
        return folder

    def test_consumers_that_misbehave(self):
        for table in (self.run_.to_arrow(), self.run_["h.error"], self.run_["prediction"], self.run_["short"]):
            table.__arrow_c_stream__()  # never opened
            capsule = table.__arrow_c_stream__()
            stream = pointer_of(capsule)
            schema, again, array = Struct(), Struct(), Struct()
            self.assertEqual((stream[0].get_schema(stream, ctypes.byref(schema)), stream[0].get_schema(stream, ctypes.byref(again))), (0, 0))
            self.assertTrue(release(schema, 7))  # the schema alone, and another one stays
            self.assertFalse(release(schema, 7))  # a second time: there is nothing to call
            self.assertEqual(stream[0].get_next(stream, ctypes.byref(array)), 0)
            end = Struct()
            self.assertEqual(stream[0].get_next(stream, ctypes.byref(end)), 0)
            self.assertFalse(release(end, 8))  # the end has no release
            stream[0].release(stream)
            self.assertFalse(bool(stream[0].release))  # so the capsule does not release it again
            del stream, capsule
            gc.collect()
            self.assertTrue(release(array, 8) and release(again, 7))  # both outlive the stream
            self.assertFalse(release(array, 8))


if __name__ == "__main__":
    unittest.main()
