"""The Python package with NumPy alone: what is recorded, read back, refused; and how programs end."""

import array
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import tapedeck


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name="run"):
        return os.path.join(self.folder.name, name)


class Recording(Case):
    def test_without_a_track_everything_is_recorded(self):
        deck = tapedeck.Deck(self.path())
        for i in range(3):
            deck.record("h.error", np.full((2, 3), i, np.float32))
            deck.log(loss=0.5 * i)
            deck.step()
        deck.finish()
        deck.finish()
        run = tapedeck.Run(deck.folder)
        self.assertEqual(run.state, "finished")
        self.assertEqual(run["loss"].values["value"].tolist(), [0, 0.5, 1])
        self.assertIn("h.error", run)

    def test_every_kind_of_array(self):
        base = np.arange(24).reshape(2, 3, 4)
        arrays = {str(np.dtype(kind)): base.astype(kind) for kind in
                  ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")}
        arrays |= {
            "transposed": base.astype("f4").transpose(2, 0, 1), "backwards": base.astype("f4")[::-1, :, ::-1],
            "fortran": np.asfortranarray(base.astype("f4")), "empty": np.zeros((0, 3), "f4"), "scalar": np.float64(3.5),
            "list": [1.0, 2.0], "array": array.array("d", [1, 2, 3]), "big": base.astype(">f4"),
            "broadcast": np.broadcast_to(np.float32([1, 2]), (3, 2)),
        }
        with tapedeck.Deck(self.path()) as deck:
            deck.track("*", form="tensor", to="npy")
            for name, value in arrays.items():
                deck.record(name, value)
            deck.step()
        run = tapedeck.Run(deck.folder)
        for name, value in arrays.items():
            found = run[name].at(1)
            np.testing.assert_array_equal(found, np.asarray(value), err_msg=name)
            if name in ("float16", "bool", "uint64", "int8"):
                self.assertEqual(found.dtype, value.dtype)
        self.assertIsInstance(run["float32"].at(1), np.memmap)

    def test_complex_arrays_are_two_signals(self):
        value = np.array([1 + 2j, -3j])
        with tapedeck.Deck(self.path()) as deck:
            deck.track("x*", form="tensor", to="npy")
            deck.track("y", form="tensor", to="npy")
            deck.record("x", value)
            with self.assertRaisesRegex(TypeError, "y.real and y.imag, which no track has"):
                deck.record("y", value)
            deck.step()
        run = tapedeck.Run(deck.folder)
        np.testing.assert_array_equal(run["x.real"].at(1) + 1j * run["x.imag"].at(1), value)

    def test_what_is_no_array_is_refused(self):
        with tapedeck.Deck(self.path()) as deck:
            for value in (np.array(["a"]), object(), np.zeros(2, "M8[s]")):
                with self.assertRaises(TypeError):
                    deck.record("x", value)
            with self.assertRaises((TypeError, ValueError)):
                deck.log(loss=np.zeros(3))
            with self.assertRaises(ValueError):
                deck.record("x", np.zeros((1,) * 9))
            with self.assertRaises(ValueError):
                deck.track("x", form="histgram")
            with self.assertRaisesRegex(tapedeck.Error, "did you mean mean"):
                deck.track("x", when="maen(loss, 5) > 1")
            with self.assertRaisesRegex(tapedeck.Error, "no sink \"cvs\"; did you mean csv"):
                deck.track("x", to="cvs")
            with self.assertRaises(ValueError):
                deck.track("x", every="2 weeks")

    def test_schedules_conditions_history(self):
        with tapedeck.Deck(self.path()) as deck:
            deck.track("a", every=2, form="tensor", to="npy")
            deck.track("b", log_freq=3, form="tensor", to="npy")
            deck.track("c", every="2 epochs", form="tensor", to="npy")
            deck.track("d", when="loss > 5", history=2, form="tensor", to="npy")
            self.assertFalse(deck.wants("a"))
            for step in range(1, 9):
                for name in "abcd":
                    deck.record(name, np.float32([step]))
                deck.log(loss=float(step))
                deck.step(last=step % 2 == 0)
        steps = {name: np.load(os.path.join(deck.folder, f"{name}.steps.npy")).tolist() for name in "abcd"}
        self.assertEqual(steps, {"a": [2, 4, 6, 8], "b": [3, 6], "c": [4, 8], "d": [4, 5, 6, 7, 8]})

    def test_a_run_is_never_overwritten(self):
        first, second = tapedeck.Deck(self.path()), tapedeck.Deck(self.path())
        self.assertNotEqual(first.folder, second.folder)
        first.finish(), second.finish()
        with self.assertRaises(tapedeck.Error):
            tapedeck.Deck(self.path(), exact_folder=True)

    def test_a_finished_deck_says_so(self):
        deck = tapedeck.Deck(self.path())
        deck.finish()
        with self.assertRaisesRegex(ValueError, "finished"):
            deck.record("x", np.zeros(3))

    def test_texts_notes_batches(self):
        with tapedeck.Deck(self.path()) as deck:
            deck.track("*", form="rows", to="csv")
            deck.note("author", "me")
            deck.text("sample", "a b c")
            deck.batch([7, 9], labels=np.array([1, 0]))
            deck.record("h.error", np.float32([[1, 2], [3, 4]]))
            deck.step()
        run = tapedeck.Run(deck.folder)
        self.assertEqual(run.notes["author"], "me")
        self.assertEqual(run["sample"].at(1), "a b c")
        with open(os.path.join(deck.folder, "h.error.csv")) as file:
            self.assertTrue(file.read().splitlines()[1].startswith("1,1,7,"))

    def test_threads_record_into_several_decks(self):
        decks = [tapedeck.Deck(self.path(str(i))) for i in range(2)]

        def work(name):
            for _ in range(300):
                for deck in decks:
                    deck.record(name, np.ones(1000, np.float32))

        for deck in decks:
            deck.track("*", form="stats", to="sqlite")
        threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            for deck in decks:
                deck.step()
        for thread in threads:
            thread.join()
        for deck in decks:
            deck.finish()
            self.assertEqual(tapedeck.Run(deck.folder).problems, [])

    def test_finishing_while_a_thread_records(self):
        for _ in range(5):
            deck = tapedeck.Deck(self.path())
            ended = []

            def work():
                try:
                    while True:
                        deck.record("x", np.ones(100_000, np.float32))
                except ValueError as error:
                    ended.append(str(error))

            thread = threading.Thread(target=work)
            thread.start()
            deck.step()
            deck.finish()
            thread.join(30)
            self.assertEqual(ended, ["the deck is finished"])

    def test_no_leak_over_many_steps(self):
        import resource

        deck = tapedeck.Deck(self.path())
        deck.track("h", every=10, form="stats", to="sqlite")
        value = np.ones((8, 4), np.float32).T

        def steps(count):
            for i in range(count):
                deck.record("h", value)
                deck.log(loss=1.0)
                deck.step()
            deck.flush()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        count = 10_000 if "LD_PRELOAD" in os.environ else 50_000
        before = steps(count)
        self.assertLess(steps(count) - before, 20_000)  # KiB
        deck.finish()


class Reading(Case):
    def make(self):
        with tapedeck.Deck(self.path()) as deck:
            deck.track("w", form="tensor,stats,histogram", to="npy,tensorboard,csv")
            for i in range(1, 6):
                deck.record("w", np.float32([[i, -i], [0, np.nan]]))
                deck.log(loss=1 / i, **{"odd name, [x]*": 2.0})
                deck.step()
        return tapedeck.Run(deck.folder)

    def test_a_run_is_a_mapping(self):
        run = self.make()
        self.assertEqual(set(run), {"w", "loss", "odd name, [x]*"})
        self.assertEqual(len(run), 3)
        with self.assertRaisesRegex(KeyError, "did you mean 'loss'"):
            run["los"]
        self.assertEqual(run["odd name, [x]*"].values["value"].tolist(), [2.0] * 5)
        self.assertIn("<table>", run._repr_html_())
        page = os.path.join(run.folder, "report.html")
        self.assertEqual(run.report(page), page)
        with open(page, encoding="utf-8") as file:
            self.assertIn("<!doctype html>", file.read(200).lower())
        with self.assertRaisesRegex(tapedeck.Error, "nowhere"):
            run.report("/nowhere/report.html")
        self.assertIn("5 steps", repr(run))

    def test_pandas(self):
        run = self.make()
        loss = run["loss"].to_pandas()
        self.assertEqual(loss.index.tolist(), [1, 2, 3, 4, 5])
        self.assertEqual(loss[4], 0.25)
        stats = run["w"].stats
        self.assertEqual(stats.loc[3, "max"], 3)
        self.assertEqual(stats.loc[3, "nan"], 1)
        self.assertEqual(run.to_pandas().loc[2, "loss"], 0.5)

    def test_at(self):
        run = self.make()
        np.testing.assert_array_equal(run["w"].at(2), np.float32([[2, -2], [0, np.nan]]))
        np.testing.assert_array_equal(run["w"].at(99)[0], [5, -5])
        histogram = run["w"].at(2, "histogram")
        self.assertEqual(histogram["count"].sum(), 3)
        self.assertEqual(run["w"].at(2, "stats")["norm"], np.sqrt(8))
        with self.assertRaises(KeyError):
            run["w"].at(0)

    def test_event_files(self):
        run = self.make()
        events = self.path("events")
        os.mkdir(events)
        for name in os.listdir(run.folder):
            if "tfevents" in name:
                os.link(os.path.join(run.folder, name), os.path.join(events, name))
        read = tapedeck.Run(events)
        np.testing.assert_allclose(read["loss"].values["value"], run["loss"].values["value"], rtol=1e-6)

    def test_what_is_no_run_is_refused(self):
        with self.assertRaises(tapedeck.Error) as caught:
            tapedeck.Run(self.path("nothing"))
        self.assertEqual(caught.exception.status, "not found")


PROGRAM = """
import os, sys, signal, tapedeck
import numpy as np
deck = tapedeck.Deck(sys.argv[1])
deck.track("w", form="tensor", to="npy")
for i in range(1, 101):
    deck.record("w", np.full(1000, i, np.float32))
    deck.log(loss=1.0 / i)
    deck.step()
deck.flush()
print("flushed", flush=True)
"""


class Ending(Case):
    """However a program ends, what was flushed is there; and it does end."""

    def run_program(self, end):
        result = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + end, self.path()],
                                capture_output=True, text=True, timeout=120)  # newer Pythons warn of any fork
        run = tapedeck.Run(self.path())
        self.assertEqual(run.problems, [])
        self.assertEqual(len(run["loss"].values), 100, result.stderr)
        self.assertEqual(run["w"].at(100)[0], 100)
        return result, run

    def test_the_end_of_the_script(self):
        result, run = self.run_program("deck.log(last=1.0)")
        self.assertEqual((result.returncode, result.stderr, run.state), (0, "", "finished"))
        self.assertIn("last", run)

    def test_an_exception(self):
        result, run = self.run_program("raise RuntimeError('no')")
        self.assertEqual((result.returncode, run.state), (1, "failed"))

    def test_an_exception_in_a_with_statement(self):
        result, run = self.run_program("with deck:\n    raise RuntimeError('no')")
        self.assertEqual((result.returncode, run.state), (1, "failed"))

    def test_control_c(self):
        # A shell that starts the tests in the background has them ignore it.
        result, run = self.run_program("signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                                       "os.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(20)")
        self.assertEqual(run.state, "interrupted")
        self.assertEqual(result.returncode, -signal.SIGINT)

    def test_an_exception_that_ended_nothing(self):
        result, run = self.run_program("sys.ps1 = 'In : '\nsys.last_value = NameError('a typo in a notebook')")
        self.assertEqual((result.returncode, run.state), (0, "finished"))
        program = "import sys\nsys.last_value = NameError('long ago')\n" + PROGRAM.replace("import sys", "")
        subprocess.run([sys.executable, "-c", program, self.path("second")], check=True, capture_output=True)
        self.assertEqual(tapedeck.Run(self.path("second")).state, "finished")

    def test_kill_9(self):
        _, run = self.run_program("os.kill(os.getpid(), signal.SIGKILL)")
        self.assertEqual(run.state, "crashed")

    def test_exit_without_ceremony(self):
        _, run = self.run_program("os._exit(3)")
        self.assertEqual(run.state, "crashed")

    def test_forked_processes_leave_the_deck_alone(self):
        result, run = self.run_program(
            "for i in range(3):\n"
            "    if os.fork() == 0:\n"
            "        deck.record('w', np.zeros(1000, np.float32)); deck.log(loss=-1.0); deck.step(); deck.finish()\n"
            "        sys.exit(0)\n"
            "for i in range(3):\n"
            "    assert os.wait()[1] == 0\n"
            "deck.log(more=1.0); deck.step(); deck.finish()")
        self.assertEqual((result.returncode, result.stderr, run.state), (0, "", "finished"))
        self.assertGreater(run["loss"].values["value"].min(), 0)
        self.assertIn("more", run)

    def test_a_thread_that_still_records(self):
        result, run = self.run_program(
            "import threading\n"
            "def work():\n"
            "    while True: deck.record('w', np.zeros(1000, np.float32))\n"
            "threading.Thread(target=work, daemon=True).start()\n")
        self.assertEqual((result.returncode, run.state), (0, "finished"))

    def test_importing_brings_no_framework(self):
        code = "import sys, tapedeck; print([m for m in ('numpy', 'torch', 'keras', 'pandas') if m in sys.modules])"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(result.stdout.strip(), "[]")

    def test_no_openmp_comes_along(self):
        code = "import tapedeck; print('gomp' in open('/proc/self/maps').read())"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(result.stdout.strip(), "False")


if __name__ == "__main__":
    unittest.main()
