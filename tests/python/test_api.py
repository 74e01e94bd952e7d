"""The package as a user meets it: settings, warnings, steps, pictures, tables, and runs read back. NumPy alone."""

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request
import warnings
import wave
import zlib

import numpy as np

import tapedeck

TAPEDECK = os.environ.get("TAPEDECK", "tapedeck")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name="run"):
        return os.path.join(self.folder, name)

    def warned(self, *texts):
        """A context in which each of these is warned of, and nothing else."""
        case = self

        class Warned(warnings.catch_warnings):
            def __enter__(self):
                self.found = super().__enter__()
                warnings.simplefilter("always")
                return self.found

            def __exit__(self, *error):
                super().__exit__(*error)
                if error[0] is None:
                    found = [str(w.message) for w in self.found]
                    case.assertEqual(len(found), len(texts), found)
                    for text, message in zip(texts, found):
                        case.assertRegex(message, text)

        return Warned(record=True)



class DefaultSinks(unittest.TestCase):
    def test_each_form_has_the_librarys_sink(self):
        from tapedeck import _groups

        self.assertEqual({form: _groups.sinks_of(form) for form in ("tensor", "rows", "units", "stats", "histogram", "image")},
                         {"tensor": "npy", "rows": "csv", "units": "csv", "stats": "sqlite", "histogram": "tensorboard",
                          "image": "png"})
        self.assertEqual(_groups.sinks_of("histogram, tensor"), "npy,tensorboard")


class Settings(Case):
    CONFIG = {"lr": 0.1, "layers": [4, 2], "kind": "big", "text": "5", "on": True, "none": None, "deep": {"a": 1}}

    def test_config_comes_back(self):
        with tapedeck.Deck(self.path(), config=self.CONFIG, tags=["x", "y"], group="g", name="my run") as deck:
            deck.log(loss=1.0)
        run = tapedeck.Run(deck.folder)
        self.assertEqual(run.config, self.CONFIG)
        self.assertEqual((run.tags, run.group, run.title), (["x", "y"], "g", "my run"))

    def test_the_program_shows_them(self):
        for name, rate in (("a", 0.1), ("b", 0.2)):
            with tapedeck.Deck(self.path(name), config=argparse.Namespace(lr=rate), tags="x,y", name="t") as deck:
                deck.log(loss=1.0)
        rows = json.loads(subprocess.run([TAPEDECK, "runs", self.folder, "--json"], capture_output=True).stdout)
        self.assertEqual([(r["config"], r["tags"], r["title"]) for r in rows],
                         [({"lr": 0.1}, ["x", "y"], "t"), ({"lr": 0.2}, ["x", "y"], "t")])
        page = subprocess.run([TAPEDECK, "compare", self.path("a"), self.path("b")], capture_output=True, text=True).stdout
        self.assertIn("experiment.lr: 0.2", page)

    def test_nested_settings_are_compared_and_filtered_by_their_paths(self):
        for name, width in (("a", 3), ("b", 5)):
            config = {"lr": 0.1, "net": {"width": width, "rate": 0.1, "deep": {"list": [1, {"x": 2}], "text": 'an "ä"'}}, "text": "{a}"}
            with tapedeck.Deck(self.path(name), config=config) as deck:
                deck.log(loss=1.0)
        page = subprocess.run([TAPEDECK, "compare", self.path("a"), self.path("b")], capture_output=True, text=True).stdout
        self.assertEqual([line.strip() for line in page.splitlines() if "experiment." in line],
                         ["a: experiment.net.width: 3", "b: experiment.net.width: 5"])

        def table(*options):
            return subprocess.run([TAPEDECK, "runs", self.folder, "--csv", *options], capture_output=True, text=True).stdout.splitlines()

        columns = "--columns=name,config.net.width,net.rate,net.deep.list,net.deep.text,text"
        row = 'b,5,0.1,"[1, {""x"": 2}]","an ""ä""",{a}'
        for condition in ("net.width > 4", "config.net.width=5"):
            self.assertEqual(table("--filter", condition, columns)[1:], [row])
        self.assertEqual(table("--columns=differing")[0], "net.width")

    def test_what_raises_leaves_no_folder(self):
        with self.assertRaises(TypeError):
            tapedeck.Deck(self.path(), config=5)
        with self.assertRaises(TypeError):
            tapedeck.Deck(self.path(), evry=5)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_function_that_raises_takes_its_decks_back(self):
        from tapedeck.deck import leaves_no_folder

        @leaves_no_folder
        def watch():
            tapedeck.Deck(self.path()).log(loss=1.0)
            raise ValueError("wrong")

        kept = tapedeck.Deck(self.path("kept"))
        with self.assertRaises(ValueError):
            watch()
        self.assertEqual(os.listdir(self.folder), ["kept"])
        kept.finish()

    def test_lists_where_texts_with_commas_are(self):
        with tapedeck.Deck(self.path()) as deck:
            deck.track(["a", "b"], form=["tensor", "stats"], to=["npy", "sqlite"])
            for name in "abc":
                deck.record(name, np.ones(3))
            deck.step()
        run = tapedeck.Run(deck.folder)
        self.assertEqual(set(run), {"a", "b"})
        self.assertEqual(run["a"].forms, ["tensor", "stats"])


class Warnings(Case):
    def test_a_track_that_matches_nothing(self):
        with self.warned(r'track "h\.gradd": no signal has such a name; did you mean h\.grad\?',
                         r"ended with these warnings: .*h\.gradd"):
            with tapedeck.Deck(self.path()) as deck:
                deck.track("h.gradd,h.grad", to="csv")
                for _ in range(3):
                    deck.record("h.grad", np.ones(3))
                    deck.step()
        self.assertIn("h.gradd", tapedeck.Run(deck.folder).notes["warnings"])

    def test_a_condition_on_an_unknown_metric(self):
        with self.warned(r"there is no signal lss; did you mean loss", "ended with these warnings"):
            with tapedeck.Deck(self.path()) as deck:
                deck.track("h", when="lss > 1", to="csv")
                for _ in range(3):
                    deck.record("h", np.ones(3))
                    deck.log(loss=1.0)
                    deck.step()

    def test_a_schedule_longer_than_the_run(self):
        with self.warned(r'track "h", every 100 steps: nothing was recorded, because none of the run\'s 3 steps was due',
                         r'track "k", every 2 epochs: nothing was recorded'):
            with tapedeck.Deck(self.path()) as deck:
                deck.track("h", every=100, to="csv")
                deck.track("k", every="2 epochs", to="csv")
                for _ in range(3):
                    deck.record("h", np.ones(3))
                    deck.record("k", np.ones(3))
                    deck.step()

    def test_a_sink_that_fails_is_reported_while_training_goes_on(self):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            deck = tapedeck.Deck(self.path())
            open(os.path.join(deck.folder, "images"), "w").close()  # where the sink's folder would be
            for step in range(200000):
                deck.image("h", np.ones((3, 3)))
                deck.step()
                if found:
                    break
            self.assertIn("png: images", str(found[0].message))
            with self.assertRaises(tapedeck.Error):
                deck.finish()

    def test_what_is_as_it_should_be(self):
        with self.warned():
            with tapedeck.Deck(self.path()) as deck:
                deck.track("h*,k", every=2, to="csv")
                deck.track("h", when="loss > 5 and nan(h) > 0", history=2, to="npy")
                for _ in range(9):
                    deck.record("h.x", np.ones(3))
                    deck.record("h", np.ones(3))
                    deck.record("k", np.ones(3))
                    deck.log(loss=1.0)
                    deck.step()

    def test_a_warning_that_is_an_error_loses_nothing(self):
        deck = tapedeck.Deck(self.path())
        deck.track("nothing", every=100, to="csv")
        deck.log(loss=1.0)
        deck.step()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaises(tapedeck.RecordingWarning):
                deck.finish()
        self.assertEqual(tapedeck.Run(deck.folder).state, "finished")


class Steps(Case):
    def test_log_with_a_step_is_that_step(self):
        with tapedeck.Deck(self.path()) as deck:
            for step in (1, 2, 10):
                deck.log(accuracy=0.5)
                deck.log({"loss": float(step)}, step=step)
        run = tapedeck.Run(deck.folder)
        self.assertEqual(run["loss"].values["step"].tolist(), [1, 2, 10])
        self.assertEqual(run["accuracy"].values["step"].tolist(), [1, 2, 10])
        self.assertNotIn("step", run)

    def test_schedules_follow_the_numbers(self):
        with tapedeck.Deck(self.path()) as deck:
            deck.track("h", every=10, form="tensor", to="npy")
            deck.track("loss", every=10, to="csv")
            deck._metrics = 0
            for step in range(1, 21):
                deck.record("h", np.full(2, step))
                deck.log(loss=1.0, step=step)
            deck.log(loss=2.0, step=25)
            deck.log(loss=3.0, step=30)
        run = tapedeck.Run(deck.folder)
        self.assertEqual(run["h"].array()[:, 0].tolist(), [10, 20])
        self.assertEqual(run["loss"].values["step"].tolist(), [10, 20, 30])

    def test_steps_only_go_forward(self):
        with tapedeck.Deck(self.path()) as deck:
            deck.step(step=5)
            for wrong in (5, 4, 0, -1):
                with self.assertRaises(ValueError):
                    deck.step(step=wrong)
                with self.assertRaises(ValueError):
                    deck.log(loss=1.0, step=wrong)
            deck.log(loss=1.0, step=7)
            with self.assertRaisesRegex(ValueError, "one call of log"):
                deck.log(accuracy=1.0, step=7)
            deck.step()
            self.assertEqual(deck.steps, 8)
        self.assertEqual(tapedeck.Run(deck.folder)["loss"].values["step"].tolist(), [7])


def decoded(png):
    """Pixels of a PNG as `Deck.image` writes it, without a library."""
    at, data, head = 8, b"", None
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + size]
        assert struct.unpack(">I", png[at + 8 + size:at + 12 + size])[0] == zlib.crc32(kind + body)
        head = struct.unpack(">IIBBBBB", body) if kind == b"IHDR" else head
        data += body if kind == b"IDAT" else b""
        at += 12 + size
    width, height, channels = head[0], head[1], {0: 1, 2: 3, 6: 4}[head[3]]
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


class Media(Case):
    def test_pictures_have_every_pixel(self):
        photo = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
        pictures = {"grey": (np.arange(6, dtype="u1").reshape(2, 3), None), "photo": (photo, None),
                    "channels_first": (photo.transpose(2, 0, 1), "CHW"), "guessed": (photo.transpose(2, 0, 1), None),
                    "floats": (photo / 255, "HWC"), "mask": (photo[..., 0] > 99, None), "alpha": (np.dstack([photo, photo[..., 0]]), None)}
        with tapedeck.Deck(self.path()) as deck:
            deck.track("h", every=2, to="csv")
            for name, (value, layout) in pictures.items():
                deck.image(name, value, layout=layout)
            self.assertFalse(deck.due())  # pictures do not make a step one that records tensors
            deck.step()
            deck.image("photo", photo[::-1])
            deck.record("h", np.ones(2))
            deck.step()
        run = tapedeck.Run(deck.folder)
        for name in ("photo", "channels_first", "guessed", "floats"):
            np.testing.assert_array_equal(decoded(run[name].at(1)), photo, err_msg=name)
        np.testing.assert_array_equal(decoded(run["photo"].at(2)), photo[::-1])
        np.testing.assert_array_equal(decoded(run["grey"].at()), np.arange(6).reshape(2, 3, 1))
        np.testing.assert_array_equal(decoded(run["mask"].at())[..., 0], 255 * (photo[..., 0] > 99))
        np.testing.assert_array_equal(decoded(run["alpha"].at())[..., 3], photo[..., 0])
        self.assertTrue(os.path.exists(os.path.join(deck.folder, "images", "photo", "step-000002.png")))
        events = [name for name in os.listdir(deck.folder) if "tfevents" in name]
        with open(os.path.join(deck.folder, events[0]), "rb") as file:
            self.assertIn(run["photo"].at(1), file.read())

    def test_what_is_no_picture_is_refused(self):
        with tapedeck.Deck(self.path()) as deck:
            for value, layout in ((np.zeros((2, 5, 5)), None), (np.zeros((3, 4)), "CHW"), (np.full((2, 2), 1.5), None),
                                  (np.full((2, 2), np.nan), None), (np.zeros((0, 2)), None), (np.zeros((2, 2)), "WH"),
                                  (np.full((2, 2), 300), None)):
                with self.assertRaises(ValueError):
                    deck.image("x", value, layout=layout)
            with self.assertRaises(TypeError):
                deck.image("x", np.zeros((2, 2), complex))

    def test_pictures_and_texts_come_through_whatever_metrics_says(self):
        with tapedeck.Deck(self.path(), metrics=0) as deck:
            deck.track("x", to="csv")
            deck.image("x", np.zeros((2, 2)))
            deck.text("t", "words")
            deck.log(loss=1.0)
            deck.step()
        self.assertEqual(set(tapedeck.Run(deck.folder)), {"x", "t"})

    def test_sounds(self):
        sound = np.sin(np.arange(400) / 20)
        with tapedeck.Deck(self.path()) as deck:
            place = deck.audio("../a b", sound, rate=8000)
            deck.audio("stereo", np.zeros((2, 50), np.int16), rate=16000, layout="CT")
            with self.assertRaises(ValueError):
                deck.audio("loud", 2 * sound, rate=8000)
        run = tapedeck.Run(deck.folder)
        self.assertEqual(run["../a b"].at(), place)
        self.assertEqual(sorted(os.listdir(os.path.join(deck.folder, "audio"))), ["%2E.%2Fa b", "stereo"])
        with wave.open(os.path.join(run.folder, place)) as file:
            self.assertEqual((file.getnchannels(), file.getframerate(), file.getnframes()), (1, 8000, 400))
            samples = np.frombuffer(file.readframes(400), "<i2") / 32767
        np.testing.assert_allclose(samples, sound, atol=1e-4)
        with wave.open(os.path.join(run.folder, run["stereo"].at())) as file:
            self.assertEqual((file.getnchannels(), file.getnframes()), (2, 50))

    def test_tables(self):
        import pandas

        rows = pandas.DataFrame({"word": ["a,b", 'quo"ted', "three"], "count": [1, 2, 3], "share": [0.5, 0.25, 0.1]})
        with tapedeck.Deck(self.path()) as deck:
            deck.table("frame", rows)
            deck.table("dict", rows.to_dict("list"))
            deck.table("dicts", rows.to_dict("records"))
            deck.table("rows", rows.to_numpy().tolist(), columns=list(rows))
            with self.assertRaises(ValueError):
                deck.table("x", {"a": [1], "b": [1, 2]})
            with self.assertRaises(ValueError):
                deck.table("x", [[1, 2]])
        run = tapedeck.Run(deck.folder)
        for name in ("frame", "dict", "dicts", "rows"):
            pandas.testing.assert_frame_equal(run[name].table(), rows)
        out = self.path("exported")
        subprocess.run([TAPEDECK, "export", deck.folder, "--to", "csv", "--out", out], check=True, capture_output=True)
        with open(os.path.join(out, "texts.csv"), encoding="utf-8") as file:
            self.assertIn("three,3,0.1", file.read())


class Reading(Case):
    def test_all_steps_as_one_array(self):
        with tapedeck.Deck(self.path()) as deck:
            deck.track("h", every=2, form="tensor", to="npy")
            for i in range(1, 8):
                deck.record("h", np.full((2, 3), i, np.float32))
                deck.log(loss=float(i))
                deck.step()
        run = tapedeck.Run(deck.folder)
        found = run["h"].array()
        self.assertEqual(found.shape, (3, 2, 3))
        self.assertEqual(found[:, 0, 0].tolist(), [2, 4, 6])
        self.assertEqual(run["h"].steps.tolist(), [2, 4, 6])
        self.assertIsInstance(found, np.memmap)
        self.assertEqual(run["loss"].array().tolist(), [1, 2, 3, 4, 5, 6, 7])
        self.assertEqual(run["loss"].steps.tolist(), [1, 2, 3, 4, 5, 6, 7])

    def test_arrays_of_other_shapes_and_forms(self):
        with tapedeck.Deck(self.path()) as deck:
            deck.track("h", form="tensor", to="npy")
            deck.track("s", form="stats", to="csv")
            for i in range(1, 4):
                deck.record("h", np.ones(i))
                deck.record("s", np.ones(i))
                deck.step()
        run = tapedeck.Run(deck.folder)
        with self.assertRaises(ValueError):
            run["h"].array()
        with self.assertRaisesRegex(KeyError, "form="):
            run["s"].array()

    def test_events_and_findings(self):
        with tapedeck.Deck(self.path()) as deck:
            deck.track("h", when="loss > 2", to="csv")
            for i in range(20):
                deck.record("h", np.ones(3))
                deck.log(loss=0.7 if i else 3.0)
                deck.step()
        run = tapedeck.Run(deck.folder)
        (event,) = run.events
        self.assertEqual((event["kind"], event["step"]), ("trigger", 1))
        self.assertEqual(run.findings, [])
        with tapedeck.Deck(self.path("bad")) as deck:
            deck.note("loop", json.dumps({"updates": 40, "added_up": {"count": 15, "since": 2}}))
            deck.log(loss=1.0)
        run = tapedeck.Run(deck.folder)
        found = run.diagnose()
        self.assertEqual([f.cause for f in found.findings], ["gradients_added_up"])
        self.assertIn("→ optimizer.zero_grad()", str(found))
        self.assertGreater(found.rules, 10)
        self.assertGreater(found.skipped, 10)  # no tensor was recorded
        self.assertEqual(run.refresh().findings[0].cause, "gradients_added_up")
        self.assertEqual(run.diagnose(only=["plateau"], keep=False).findings, [])
        self.assertEqual(run.findings[0].symptoms, found.findings[0].symptoms)

    def test_runs_are_a_table(self):
        for i, name in enumerate("ab"):
            with tapedeck.Deck(self.path(name), config={"lr": 0.1 * (i + 1)}, tags="x") as deck:
                deck.log(loss=1.0 / (i + 1))
        table = tapedeck.runs(self.folder)
        self.assertEqual(table["name"].tolist(), ["a", "b"])
        self.assertEqual(table["config.lr"].tolist(), [0.1, 0.2])
        self.assertEqual(table["loss"].tolist(), [1, 0.5])
        self.assertEqual(tapedeck.Run(table.loc[table["loss"].idxmin(), "folder"]).name, "b")
        self.assertEqual(len(tapedeck.runs(self.path("nowhere"))), 0)

    def test_without_pandas_the_error_says_so(self):
        program = "import sys; sys.modules['pandas'] = None\nimport tapedeck\ntry:\n    tapedeck.runs('.')\nexcept ImportError as e:\n    print(e)"
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertIn("pip install pandas", said.stdout, said.stderr)


class Viewing(Case):
    def test_the_viewer_of_a_program_that_the_path_has(self):
        """The engine is found beside the program, not in the working folder."""
        with tapedeck.Deck(self.path("a")) as deck:
            deck.log(loss=1.0)
        with open(self.path("libtapedeck-http.so"), "w", encoding="utf-8") as file:
            file.write("not ours")
        path = os.path.dirname(os.path.abspath(shutil.which(TAPEDECK)))
        viewer = subprocess.Popen(["tapedeck", "view", ".", "--no-open"], cwd=self.folder, stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "PATH": path + os.pathsep + os.environ["PATH"]})
        self.addCleanup(viewer.stdout.close)
        self.addCleanup(viewer.wait)
        self.addCleanup(viewer.kill)
        line = viewer.stdout.readline()
        self.assertIn("http://", line)
        with urllib.request.urlopen(line[line.index("http://"):].split()[0], timeout=30) as page:
            self.assertIn(b"<html", page.read())


class Importing(unittest.TestCase):
    def test_everything_without_frameworks(self):
        program = """
import sys
class Without:
    def find_spec(self, name, *rest):
        if name.split(".")[0] in ("keras", "torch", "tensorflow", "jax", "lightning", "transformers"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
import importlib.util, pydoc
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in ("keras", "torch", "lightning", "pytorch_lightning", "transformers") else found(name)
import tapedeck
names = {}
exec("from tapedeck import *", names)
assert {"Deck", "Run", "runs"} <= set(names) and "Recorder" not in names and "watch" not in names, set(names)
assert "class Deck" in pydoc.render_doc(tapedeck, renderer=pydoc.plaintext)
try:
    tapedeck.Recorder
except AttributeError as error:
    assert "pip install keras" in str(error), error
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
