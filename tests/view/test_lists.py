"""The list of runs: columns, filters, groups, remarks; and what pages show beside what NumPy and sqlite3 say."""
import io
import json
import os
import sqlite3
import sys
import unittest
import wave

import numpy

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser  # noqa: E402
from test_tensors import unpacked  # noqa: E402
from viewer import Folder, SOURCE, Viewer, record, train_demo  # noqa: E402

RATES = {1: "0.1", 2: "0.1", 3: "0.01", 4: "0.01"}


class Lists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.addClassCleanup(cls.folder.remove)
        for seed, rate in RATES.items():
            train_demo(cls.folder.path, "--set", f"seed={seed}", "--set", f"name=demo{seed}", "--set", "train.epochs=1",
                       "--set", f"train.optimizer={{adam: {{learning_rate: {rate}}}}}")
        record(cls.folder / "many", "many")
        record(cls.folder / "odd", "odd")
        os.symlink(os.path.join(SOURCE, "tests", "fixtures", "events"), cls.folder / "events")
        cls.viewer = Viewer(cls.folder.path, "--write")
        cls.addClassCleanup(cls.viewer.close)
        cls.browser = Browser(1440, 900)
        cls.addClassCleanup(cls.browser.close)
        cls.browser.open(cls.viewer.url)
        cls.browser.wait("return document.querySelectorAll('tbody tr').length >= 6 && !document.body.innerText.includes('is being read')", seconds=60)
        cls.ids = {run["name"]: run["id"] for run in json.loads(cls.viewer.get("/api/runs")[2])["runs"]}

    def list(self, query=""):
        self.browser.run("location.hash = '#/recorder/x'")
        self.browser.run("location.hash = arguments[0]", f"#/runs{query}")
        self.browser.wait("return document.querySelector('.rows tbody tr')")

    def names(self):
        return self.browser.run("return [...document.querySelectorAll('.rows tbody tr:not(.group) a')].map((a) => a.innerText)")

    def wait_names(self, names):
        self.browser.wait(f"return JSON.stringify([...document.querySelectorAll('.rows tbody tr:not(.group) a')].map((a) => a.innerText).sort()) === {json.dumps(json.dumps(sorted(names), separators=(',', ':')))}", f"{names}, not {self.names()}")

    def filter(self, text):
        self.browser.run("const i = document.querySelector('.filter'); i.value = arguments[0]; i.dispatchEvent(new Event('input'))", text)

    # ---- The list ----

    def test_filters(self):
        self.list()
        demos = [f"demo{seed}" for seed in RATES]
        for text, names in (("demo", demos), ("/demo[12]/", demos[:2]), ("learning_rate = 0.1", demos[:2]), ("learning_rate < 0.05 and seed >= 4", ["demo4"]),
                            ("seed = 1 or (seed = 3 and not learning_rate = 0.1)", ["demo1", "demo3"]), ("name ~ emo[34]", demos[2:]), ("seed != 1 demo", demos[1:]),
                            ("state = finished demo2", ["demo2"])):
            with self.subTest(text=text):
                self.filter(text)
                self.wait_names(names)
        for text, said in (("colour = 1", "no run has"), ("/(/", "is no regular expression"), ("seed <", "what?"), ("(seed = 1", "missing"), ("seed < x", "no number")):
            with self.subTest(text=text):
                self.filter(text)
                self.browser.wait(f"return document.querySelector('[role=alert]')?.innerText.includes({json.dumps(said)})", said)
        self.filter("")

    def test_columns_are_what_differs_and_can_be_chosen(self):
        self.list("?find=demo")
        head = "[...document.querySelectorAll('.rows thead th')].map((th) => th.innerText.trim())"
        self.browser.wait(f"return {head}.includes('learning_rate') && {head}.includes('seed')", "settings that differ")
        self.assertNotIn("epochs", self.browser.run(f"return {head}"))
        column = "[...document.querySelectorAll('.rows tbody tr')].map((row) => [row.querySelector('a').innerText, row.children[{at}].innerText])"
        at = self.browser.run(f"return {head}.indexOf('learning_rate')")
        self.assertEqual(dict(self.browser.run("return " + column.replace("{at}", str(at)))), {f"demo{seed}": rate for seed, rate in RATES.items()})
        self.browser.run("[...document.querySelectorAll('.menu label')].find((l) => l.textContent === 'seed').querySelector('input').click()")
        self.browser.wait(f"return !{head}.includes('seed')", "the column is gone")
        self.browser.run("[...document.querySelectorAll('.menu label')].find((l) => l.textContent.startsWith('only settings')).querySelector('input').click()")
        self.browser.wait("return [...document.querySelectorAll('.menu label')].some((l) => l.textContent === 'train.epochs')", "all settings can be chosen")

    def test_metrics_are_those_of_the_database(self):
        self.list("?find=demo&cols=loss")
        for seed in RATES:
            database = sqlite3.connect(os.path.join(self.folder / f"demo{seed}", "run.db"))
            wanted = database.execute("select value from scalar join signal on signal = id where name = 'loss' order by step desc").fetchone()[0]
            database.close()
            exact = self.browser.wait(f"return [...document.querySelectorAll('.rows tbody tr')].find((row) => row.querySelector('a').innerText === 'demo{seed}').children[1].querySelector('span').title")
            self.assertEqual(float(exact), wanted)

    def test_groups_have_a_mean_and_lines_a_band(self):
        self.list("?find=demo&group=train.optimizer.adam.learning_rate&cols=loss")
        self.browser.wait("return [...document.querySelectorAll('tr.group')].map((row) => row.innerText).join().includes('learning_rate = 0.1')")
        best = {}
        for seed, rate in RATES.items():
            database = sqlite3.connect(os.path.join(self.folder / f"demo{seed}", "run.db"))
            best.setdefault(rate, []).append(database.execute("select min(value) from scalar join signal on signal = id where name = 'loss'").fetchone()[0])
            database.close()
        for rate, values in best.items():
            shown = self.browser.run(f"return [...[...document.querySelectorAll('tr.group')].find((row) => row.innerText.startsWith('learning_rate = {rate} ')).querySelectorAll('td:nth-child(2) span')].map((s) => Number(s.title))")
            numpy.testing.assert_allclose(shown, [numpy.mean(values), numpy.std(values, ddof=1)], rtol=1e-12)
        self.browser.wait("return [...document.querySelectorAll('.legend .name')].some((n) => n.innerText.includes('(mean of 2)'))", "a line is a group")

    def test_all_runs_of_the_list_are_picked_at_once(self):
        self.list("?find=demo")
        self.browser.run("document.querySelector('thead input[type=checkbox]').click()")
        self.browser.wait("return document.querySelectorAll('tr.picked').length === 4")
        self.browser.wait("return new Set([...document.querySelectorAll('.multiples .legend .name')].map((n) => n.innerText.split(' ')[0])).size === 4")
        self.browser.wait("return document.querySelectorAll('.sweep .strand').length === 4 && document.querySelectorAll('.dot-run').length === 4", "parallel coordinates and the scatter")

    def test_remarks_are_kept_in_the_run(self):
        self.list("?find=demo")
        self.browser.run("document.querySelector('button[aria-label=\"remarks on demo2\"]').click()")
        self.browser.wait("return document.querySelector('dialog[open] textarea')")
        self.browser.run("""const d = document.querySelector('dialog'); d.querySelector('input[type=text]').value = 'best, paper'; d.querySelector('textarea').value = 'a <b>note</b>';
            d.querySelectorAll('input[type=checkbox]')[0].click(); [...d.querySelectorAll('button')].find((b) => b.innerText === 'keep in the run').click()""")
        self.browser.wait("return !document.querySelector('dialog[open]') && document.querySelector('.rows tbody tr a').innerText === 'demo2'", "a starred run stands first")
        database = sqlite3.connect(os.path.join(self.folder / "demo2", "run.db"))
        notes = dict(database.execute("select key, value from run where key in ('tags', 'notes', 'starred', 'archived')").fetchall())
        database.close()
        self.assertEqual(notes, {"tags": "best, paper", "notes": "a <b>note</b>", "starred": "1"})
        self.filter("tags ~ paper")
        self.wait_names(["demo2"])
        self.filter("")
        self.browser.run("document.querySelector('button[aria-label=\"remarks on demo4\"]').click()")
        self.browser.run("const d = document.querySelector('dialog'); d.querySelectorAll('input[type=checkbox]')[1].click(); [...d.querySelectorAll('button')].find((b) => b.innerText === 'keep in the run').click()")
        self.browser.wait("return ![...document.querySelectorAll('.rows a')].some((a) => a.innerText === 'demo4')", "an archived run is not listed")
        self.browser.run("[...document.querySelectorAll('label')].find((l) => l.innerText === 'archived').querySelector('input').click()")
        self.browser.wait("return [...document.querySelectorAll('.rows a')].some((a) => a.innerText === 'demo4')")
        self.viewer.get(f"/api/note?run={self.ids['demo4']}&key=archived&value=", {"Origin": self.viewer.address}, "POST")

    def test_only_a_page_of_a_viewer_that_may_writes(self):
        target = f"/api/note?run={self.ids['demo1']}&key=tags&value=x"
        self.assertEqual(self.viewer.get(target)[0], 405)
        self.assertEqual(self.viewer.get(target, method="POST")[0], 405)
        self.assertEqual(self.viewer.get(target, {"Origin": "http://evil.example"}, "POST")[0], 403)
        self.assertEqual(self.viewer.get(target, {"Origin": self.viewer.address, "Cookie": ""}, "POST")[0], 403)
        own = {"Origin": self.viewer.address}
        self.assertEqual(self.viewer.get(f"/api/note?run={self.ids['demo1']}&key=state&value=x", own, "POST")[0], 400)
        self.assertEqual(self.viewer.get(f"/api/note?run={self.ids['demo1']}&key=notes&value={'x' * 5000}", own, "POST")[0], 400)
        self.assertEqual(self.viewer.get("/api/runs", own, "POST")[0], 405)
        reader = Viewer(self.folder / "demo1", "--port", "0")
        try:
            self.assertEqual(reader.get(f"/api/note?run={reader.first_run()}&key=tags&value=x", {"Origin": reader.address}, "POST")[0], 405)
        finally:
            reader.close()

    # ---- Other pages ----

    def signal(self, run, name):
        return next(s["id"] for s in json.loads(self.viewer.get(f"/api/run?run={self.ids[run]}")[2])["signals"] if s["name"] == name)

    def open(self, page, run, query=""):
        self.browser.run("location.hash = arguments[0]", f"#/{page}/{self.ids[run]}{query}")
        self.browser.wait(f"return document.querySelector('header nav a[aria-current]')?.firstChild.textContent.toLowerCase() === {json.dumps(page)} && document.querySelector('.run-name .name').title === {json.dumps(run)} && !document.querySelector('main').innerText.includes('reading the run')", page)

    def test_a_projection_is_numpys_principal_components(self):
        wanted = numpy.load(os.path.join(self.folder / "odd", "hidden.output.npy"))[-1].astype("float64")
        head, data = unpacked(self.viewer.get(f"/api/projection?run={self.ids['odd']}&signal={self.signal('odd', 'hidden.output')}")[2])
        self.assertEqual(head["rows"], 16)
        self.assertTrue(numpy.isfinite(data).all())  # all rows are the same: no variance
        self.assertEqual(head["features"], wanted.shape[1])
        wanted = numpy.load(os.path.join(self.folder / "demo1", "conv1.kernel.npy"))[-1].astype("float64")
        head, data = unpacked(self.viewer.get(f"/api/projection?run={self.ids['demo1']}&signal={self.signal('demo1', 'hidden.kernel')}")[2])
        wanted = numpy.load(os.path.join(self.folder / "demo1", "hidden.kernel.npy"))[-1].astype("float64")[:512]
        centred = wanted - wanted.mean(0)
        values, vectors = numpy.linalg.eigh(centred.T @ centred)
        own = centred @ vectors[:, ::-1][:, :2]
        got = data.reshape(3, -1)[:2].T
        numpy.testing.assert_allclose(head["explained"][:2], (values[::-1] / values.sum())[:2], rtol=1e-4)
        numpy.testing.assert_allclose(numpy.abs(numpy.sum(own * got, 0)) / (numpy.linalg.norm(own, axis=0) * numpy.linalg.norm(got, axis=0)), 1, atol=1e-2)

    def test_tensors_of_four_axes_open_as_a_sheet(self):
        kernel = numpy.load(os.path.join(self.folder / "demo1", "conv1.kernel.npy"))[-1]
        head, data = unpacked(self.viewer.get(f"/api/tensor?run={self.ids['demo1']}&signal={self.signal('demo1', 'conv1.kernel')}&at=sheet")[2])
        self.assertEqual(head["at"], [":", ":", "0", "*"])
        numpy.testing.assert_array_equal(data.reshape(16, 3, 3), kernel[:, :, 0, :].transpose(2, 0, 1))
        self.open("tensor", "demo1", f"?signal={self.signal('demo1', 'conv1.kernel')}")
        self.browser.wait("return document.querySelectorAll('.pictures figure').length === 16")
        self.browser.run("document.querySelector('button[aria-label=\"next tensor\"]').click()")
        self.browser.wait("return document.querySelector('main h1')?.innerText && document.querySelector('main h1').innerText !== 'conv1.kernel'")

    def test_texts_and_pictures_of_event_files_are_shown(self):
        run = next(name for name in self.ids if name.endswith("torch-new"))
        self.open("media", run)
        self.browser.wait("return document.querySelector('.code.text')?.innerText.includes('two')", "the text")
        self.browser.wait("const c = document.querySelector('canvas.pixel'); return c && c.width > 1 && [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].some((v, i) => i % 4 === 3 && v > 0)", "the picture")

    def test_what_plugins_of_tensorboard_show_is_shown(self):
        run = next(name for name in self.ids if name.endswith("plugins"))
        self.open("media", run)
        self.browser.wait("return [...document.querySelectorAll('main h2')].map((h) => h.firstChild.textContent).join() === 'Sounds,Precision and recall'")
        address = self.browser.wait("return document.querySelector('audio')?.src")
        status, headers, body = self.viewer.get(address[address.index("/api"):])
        self.assertEqual((status, headers["Content-Type"]), (200, "audio/wav"))
        with wave.open(io.BytesIO(body)) as sound:
            self.assertEqual((sound.getframerate(), sound.getnchannels(), sound.getsampwidth(), sound.getnframes()), (8000, 1, 2, 400))
            samples = numpy.frombuffer(sound.readframes(400), "<i2")
        numpy.testing.assert_array_equal(samples, (numpy.sin(numpy.arange(400) * 0.3).astype("f4") * 0.5 * 32767).astype("<i2"))
        settings = json.loads(self.viewer.get("/api/settings")[2])["runs"][self.ids[run]]
        self.assertEqual({name: settings[name] for name in ("rate", "batch", "optimizer", "nesterov")}, {"rate": "0.002", "batch": "64", "optimizer": "adam", "nesterov": "1"})
        generator = numpy.random.default_rng(8)
        generator.random(64)
        points = generator.normal(size=(12, 3)).astype("f4")
        head, data = unpacked(self.viewer.get(f"/api/tensor?run={self.ids[run]}&signal={self.signal(run, 'points')}")[2])
        self.assertEqual(head["step"], 5)
        numpy.testing.assert_allclose(data.reshape(12, 3), points, rtol=1e-6)
        head, _ = unpacked(self.viewer.get(f"/api/projection?run={self.ids[run]}&signal={self.signal(run, 'points')}")[2])
        self.assertEqual(head["labels"], [0, 1, 2] * 4)

    def test_statistics_of_histograms_in_event_files_are_numpys(self):
        generator = numpy.random.default_rng(7)  # as make_events.py
        arrays = [generator.normal(size=200), generator.normal(size=(4, 5)) * 1e-6, numpy.zeros(3), numpy.arange(10.0)]
        for folder, name, steps, accuracy in (("torch", "layer/grad", 1, 1e-6), ("tf2", "weights", 10, 0.05)):
            run = next(each for each in self.ids if each.endswith(folder))
            for i, array in enumerate(arrays):
                got = json.loads(self.viewer.get(f"/api/stats?run={self.ids[run]}&signals={self.signal(run, name)}&step={steps * i}")[2])["stats"][0]
                scale = max(numpy.abs(array).max(), 1e-300)
                for key, wanted in (("mean", array.mean()), ("std", array.std()), ("min", array.min()), ("max", array.max())):
                    self.assertLessEqual(abs(got[key] - wanted), accuracy * scale, f"{folder} step {i}: {key}")
                self.assertLessEqual(abs(got["norm"] - numpy.linalg.norm(array)), accuracy * max(numpy.linalg.norm(array), 1e-300))
                self.assertEqual((got["count"], got["zeros"]), (array.size, -1))
        self.open("layers", next(each for each in self.ids if each.endswith("tf2")))
        self.browser.wait("return document.body.innerText.includes('estimated from the bins')")

    def test_repeated_blocks_are_folded(self):
        self.open("network", "many")
        self.browser.wait("return document.querySelectorAll('.node').length === 1 && document.querySelector('.node').textContent.includes('300 layers')")
        self.browser.run("document.querySelector('.node').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
        self.browser.run("[...document.querySelectorAll('button')].find((b) => b.innerText === 'unfold').click()")
        self.browser.wait("return document.querySelectorAll('.node').length === 300")
        self.assertLess(self.browser.run("return document.documentElement.scrollHeight"), 1000)
        # Text that is drawn smaller than 12 pixels is for nobody.
        size = self.browser.run("const p = document.querySelector('.network svg'); return 13 * p.clientWidth / p.viewBox.baseVal.width")
        self.assertGreaterEqual(size, 11.9)
        # A long chain goes on in columns.
        self.assertGreater(self.browser.run("return new Set([...document.querySelectorAll('.node > rect:nth-of-type(1)')].map((r) => r.getAttribute('x'))).size"), 1)

    def test_a_cell_of_the_confusion_filters_the_examples(self):
        self.open("examples", "odd")
        self.browser.wait("return document.querySelector('.grid button')")
        self.browser.run("document.querySelector('.grid button').click()")
        self.browser.wait("return document.querySelectorAll('.low tbody tr').length < 4 && document.body.innerText.includes('taken for')")

    def test_an_axis_is_chosen_and_stays(self):
        self.open("layers", "demo1")
        self.browser.wait("return document.querySelector('.multiples .legend .value')")
        self.browser.run("document.querySelector('.multiples figure button[aria-label^=\"axis\"]').click()")
        self.browser.run("const s = document.querySelector('dialog select'); s.value = 'symlog'; s.dispatchEvent(new Event('change'))")
        self.browser.wait("return document.querySelector('.multiples figure .note').innerText.includes('symmetric log')")
        self.browser.run("document.querySelector('dialog').close()")
        self.open("layers", "demo2")
        self.browser.wait("return document.querySelector('.multiples figure .note')?.innerText.includes('symmetric log')", "it is there for the next run")
        self.browser.run("localStorage.clear()")


if __name__ == "__main__":
    unittest.main()
