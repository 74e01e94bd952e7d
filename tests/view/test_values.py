"""Every number that a page shows is the one that was recorded: pages are walked, each number that stands in one is looked up
in run.db, or computed by NumPy from what the run's files hold. A number that this does not know is a failure too. NaN, infinities,
every element type, ranks and a run without any record included."""
import csv
import glob
import io
import json
import math
import os
import sqlite3
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser  # noqa: E402
from test_use import SAVED  # noqa: E402
from viewer import HELPER, PROGRAM, Folder, Viewer, record, train_demo  # noqa: E402

# Each number in the page: its exact text, and where it stands.
SHOWN = """const named = (node) => node.querySelector('.name')?.title ?? node.textContent.trim();
    return [...document.querySelectorAll('main [data-exact]')].filter((node) => node.dataset.exact).map((node) => {
        const figure = node.closest('figure'), entry = node.closest('.entry'), cell = node.closest('td'), box = node.closest('g.node');
        const chart = figure?.querySelector('.exports')?.getAttribute('aria-label')?.slice(5) ?? '';
        let place = ['text', node.closest('p, li, output, section')?.textContent ?? ''];
        if (entry) { place = ['line', chart, named(entry)]; }
        else if (box) { place = ['layer', box.querySelector('title').textContent]; }
        else if (cell) {
            const row = cell.parentElement, head = cell.closest('table').tHead.rows[0].cells;
            place = ['cell', named(row.cells[0]), named(head[cell.cellIndex]), [...cell.querySelectorAll('[data-exact]')].indexOf(node), row.rowIndex];
        }
        return [node.dataset.exact, node.textContent, ...place]; })"""
COUNT = """const ask = window.fetch; window.pending = 0;
    window.fetch = async (...what) => { window.pending++; try { return await ask(...what); } finally { setTimeout(() => window.pending--); } }"""
REST = """return (async () => { let before = null;
    for (let i = 0; i < 300; i++) {
        await new Promise((resolve) => setTimeout(resolve, 70));
        const now = document.querySelector('main').innerText;
        if (!window.pending && now === before) { return true; }
        before = now;
    }
    return false; })()"""
PAGES = ["layers", "layer", "network", "tensor", "triggers", "examples", "media", "findings", "recorder"]
STATS = ["norm", "mean", "std", "min", "max", "zeros", "nan", "inf", "count"]
WORDS = {"NaN": math.nan, "∞": math.inf, "−∞": -math.inf}


def number(text):
    return WORDS[text] if text in WORDS else float(text)


def same(shown, wanted):
    """A number is written as the shortest text of its float32, where it is one."""
    if math.isnan(wanted):
        return math.isnan(shown)
    return shown == wanted or (math.isfinite(wanted) and abs(wanted) < 3e38 and float(numpy.float32(shown)) == wanted)


def nearest(records, step):
    """The record at the step or nearest to it; of two as near, the earlier."""
    return min(records, key=lambda each: (abs(each[0] - step), each[0]))[1]


class Database:
    """What run.db has, without any of our readers. SQLite has NULL for NaN."""

    def __init__(self, folder):
        self.folder = folder
        self.connection = sqlite3.connect(os.path.join(folder, "run.db"))
        self.ids = {name: (key, better) for key, name, better in self.ask("select id, name, better from signal")}

    def ask(self, text, *values):
        return self.connection.execute(text, values).fetchall()

    def records(self, name, stat=""):
        """[(step, value)]"""
        key, table = self.ids[name][0], ("scalar", "value") if not stat else ("stats", stat)
        return [(step, math.nan if value is None else value)
                for step, value in self.ask(f"select step, {table[1]} from {table[0]} where signal = ? order by step", key)]

    def last(self):
        return self.ask("select max(step) from step")[0][0]

    def tensor(self, name, step):
        """What NumPy reads of a tensor's file at or before a step."""
        file, record = self.ask("select file, record from tensor where signal = ? and step <= ? order by step desc limit 1", self.ids[name][0], step)[0]
        return numpy.load(os.path.join(self.folder, file))[record]


class Values(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.addClassCleanup(cls.folder.remove)
        for seed, epochs in ((1, 4), (2, 1)):  # predictions are recorded at the end of the fourth epoch
            train_demo(cls.folder.path, "--set", f"seed={seed}", "--set", f"name=demo{seed}", "--set", f"train.epochs={epochs}")
        train_demo(cls.folder.path, "--set", "name=ill", "--set", "train.optimizer={sgd: {learning_rate: 80}}")
        assert subprocess.run([PROGRAM, "diagnose", cls.folder / "ill"], capture_output=True, timeout=300).returncode == 1
        for kind in ("odd", "types", "empty"):
            record(cls.folder / kind, kind)
        for rank in range(3):
            subprocess.run([HELPER, cls.folder / "ranks", "rank"], check=True, timeout=60,
                           env=dict(os.environ, RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank), TAPEDECK_RUN="one"))
        cls.viewer = Viewer(cls.folder.path)
        cls.addClassCleanup(cls.viewer.close)
        cls.browser = Browser(1440, 20000)  # everything is in sight, and so drawn
        cls.addClassCleanup(cls.browser.close)
        cls.browser.open(cls.viewer.url)
        cls.browser.wait("return document.querySelectorAll('tbody tr').length >= 7 && !document.body.innerText.includes('is being read')", seconds=60)
        cls.browser.run(COUNT)
        cls.ids = {run["name"]: run["id"] for run in json.loads(cls.viewer.get("/api/runs")[2])["runs"]}
        cls.databases = {name: Database(cls.folder / name) for name in cls.ids if name != "ranks"}
        cls.counted = 0

    def open(self, page, run, query=""):
        self.browser.run("location.hash = '#/runs'")
        self.browser.wait("return document.querySelector('.rows tbody tr')")
        self.browser.run("location.hash = arguments[0]", f"#/{page}/{self.ids[run]}{query}")
        self.browser.wait(f"return document.querySelector('header nav a[aria-current]')?.firstChild.textContent.toLowerCase() === {json.dumps(page)} && document.querySelector('.run-name .name')?.title === {json.dumps(run)} && document.querySelector('main').children.length > 0 && !document.querySelector('main').innerText.includes('reading the run')", page)
        self.quiet()

    def quiet(self):
        """Until nothing is asked for any more, and what the page shows has stopped changing."""
        self.assertTrue(self.browser.run(REST), "the page never comes to rest")

    def check(self, expected, least):
        """expected(place): the number that stands there, or a check of the shown one. At least this many numbers are there."""
        shown = self.browser.run(SHOWN)
        self.assertGreaterEqual(len(shown), least, shown)
        for exact, text, *place in shown:
            wanted = expected(place)
            if callable(wanted):
                wanted(exact, place)
            else:
                self.assertIsNotNone(wanted, f"{exact} at {place} is not known")
                self.assertTrue(same(number(exact), float(wanted)), f"{exact} at {place}, not {wanted!r}")
            if exact in WORDS:
                self.assertTrue(text.startswith(exact) or text == "none", (text, place))
        Values.counted += len(shown)

    # ---- What is expected ----

    def line(self, database, step):
        """A chart's legend: what was recorded nearest to the step."""
        def expected(chart, name):
            if chart.endswith(" quantiles"):
                return lambda exact, place: self.quantile(database, chart[:-len(" quantiles")], step, name, exact)
            if chart in ("update / weight", "gradient / weight"):
                return None
            stat = "norm" if chart.endswith(" norm") or chart.startswith("norm of ") else ""
            signal = chart[:-5] if chart.endswith(" norm") and name == "norm" else name
            return nearest(database.records(signal, stat), step) if signal in database.ids else None
        return expected

    def quantile(self, database, signal, step, name, exact):
        """Within the bin of the recorded histogram that holds it, and within the tensor's values."""
        found = database.ask("select step, bins from histogram where signal = ? order by abs(step - ?), step limit 1", database.ids[signal][0], step)
        bins = numpy.array(json.loads(found[0][1])).reshape(-1, 3)
        if not len(bins):
            self.assertIn("NaN", exact)
            return
        total, upto = bins[:, 2].sum(), numpy.cumsum(bins[:, 2])
        for share, text in zip({"median": [0.5], "5 … 95 %": [0.05, 0.95], "25 … 75 %": [0.25, 0.75]}[name], exact.split(" … ")):
            at = [min(int(numpy.searchsorted(upto, total * share + by)), len(bins) - 1) for by in (-1, 1)]
            self.assertGreaterEqual(number(text), bins[at[0], 0] - 1e-30, (signal, name, exact))
            self.assertLessEqual(number(text), bins[at[1], 1] + 1e-30, (signal, name, exact))

    def ratio(self, database, layer, chart, parameter, step):
        change = database.records(f"{layer}.{parameter}.{chart.split(' ')[0]}", "norm")
        at = min(change, key=lambda each: (abs(each[0] - step), each[0]))[0]
        weights = database.records(f"{layer}.{parameter}", "norm")
        held = [value for when, value in weights if when <= at] or [weights[0][1]]
        return dict(change)[at] / held[-1]

    def statistics_of(self, values):
        finite = values[numpy.isfinite(values)].astype("float64")
        bad = {"nan": numpy.isnan(values).sum(), "inf": numpy.isinf(values).sum(), "zeros": (values == 0).sum(), "count": values.size}
        if not finite.size:
            return dict.fromkeys(("norm", "mean", "std", "min", "max"), math.nan) | bad
        largest = numpy.abs(finite).max() or 1
        return {"norm": largest * numpy.sqrt(((finite / largest) ** 2).sum()), "mean": finite.mean(), "std": largest * (finite / largest).std(), "min": finite.min(), "max": finite.max()} | bad

    # ---- Pages ----

    def test_runs(self):
        self.browser.run("location.hash = '#/runs?cols=loss,val_loss,accuracy,val_accuracy&pick=all'")
        self.quiet()

        def expected(place):
            if place[0] == "line":  # of several runs, or of a run with train and validation
                run = place[2].split(" ")[0]
                name = place[2].split(" ")[1] if " " in place[2] else place[1]
                if run == "ranks":
                    return lambda exact, place: None  # see test_ranks
                names = [signal for signal in (name, f"val_{name}") if signal in self.databases[run].ids]
                return self.databases[run].records(names[0])[-1][1] if names else None
            run, metric, which = place[1], place[2], place[3]
            if run == "ranks":
                return lambda exact, place: None
            database = self.databases[run]
            values = database.records(metric)
            if which == 0:
                return values[-1][1]
            key, better = database.ids[metric]
            return database.ask("select least, greatest from summary where signal = ?", key)[0][1 if better == "larger" else 0]
        self.check(expected, 12)
        # What of a run is best is the least or greatest of its finite records.
        for run, metric, better in (("odd", "loss", min), ("demo1", "loss", min), ("demo2", "val_accuracy", max)):
            key, direction = self.databases[run].ids[metric]
            column = {"larger": "greatest", "smaller": "least"}.get(direction, "least")
            best = self.databases[run].ask(f"select {column} from summary where signal = ?", key)[0][0]
            finite = [value for _, value in self.databases[run].records(metric) if math.isfinite(value)]
            self.assertEqual(best, better(finite))

    def test_layers(self):
        for run, step in (("odd", 100), ("odd", 40), ("odd", 70), ("demo1", 180), ("ill", 90)):
            with self.subTest(run=run, step=step):
                database = self.databases[run]
                self.open("layers", run, f"?step={step}")
                line = self.line(database, step)

                def expected(place):
                    if place[0] == "line":
                        return line(place[1], place[2])
                    finding = database.ask("select remedy from finding")
                    return None if not finding else (lambda exact, at: None)
                self.check(expected, 3)

    def test_cells_of_the_heat_map(self):
        """What its CSV has is every record of every signal, and nothing else."""
        for run, kind, stats in (("odd", "output", ["norm", "mean", "max", "nan", "inf", "zeros"]), ("odd", "parameter", ["std"]), ("demo1", "error", ["norm", "min"]),
                                 ("types", "output", ["mean", "nan", "inf"])):
            for stat in stats:
                with self.subTest(run=run, kind=kind, stat=stat):
                    database = self.databases[run]
                    self.open("layers", run, f"?kind={kind}&stat={stat}")
                    rows = self.saved("layers × time")
                    names = {row[0] for row in rows[1:]}
                    signals = {name: key for name, (key, _) in database.ids.items() if database.ask("select kind from signal where id = ?", key)[0][0] == kind and database.records(name, "count")}
                    shown = {(row[0], int(row[1])): float(row[3]) for row in rows[1:]}
                    wanted = {}
                    for signal in signals:
                        own = signal if kind == "parameter" else signal[:-len(kind) - 1]
                        self.assertIn(own, names)
                        wanted.update({(own, step): value for step, value in database.records(signal, stat)})
                    self.assertEqual(set(shown), set(wanted))
                    for place, value in wanted.items():
                        self.assertTrue(same(shown[place], value), (place, shown[place], value))
                    Values.counted += len(wanted)

    def saved(self, title):
        self.browser.run(SAVED)
        self.browser.run("[...document.querySelectorAll('.exports')].find((e) => e.getAttribute('aria-label') === 'save ' + arguments[0]).querySelector('button').click()", title)
        return list(csv.reader(io.StringIO(self.browser.wait("return window.saved"))))

    def test_a_layer(self):
        layers = [("odd", "hidden", 100), ("odd", "hidden", 60), ("odd", "conv", 100), ("odd", "lost", 100), ("demo1", "conv1", 180), ("demo1", "logits", 73)]
        layers += [("types", name[:-len(".output")], 1) for name in self.databases["types"].ids]
        for run, layer, step in layers:
            with self.subTest(run=run, layer=layer, step=step):
                database = self.databases[run]
                self.open("layer", run, f"?layer={layer}&step={step}")
                line = self.line(database, step)

                def expected(place):
                    if place[0] == "line" and " / weight" in place[1]:
                        return self.ratio(database, layer, place[1], place[2], step)
                    if place[0] == "line":
                        return line(place[1], place[2])
                    if place[0] != "cell" or place[1] not in database.ids:
                        return None
                    return [value for when, value in database.records(place[1], place[2]) if when <= step][-1]
                self.check(expected, 9)

    def test_statistics_are_numpys(self):
        """Of every element type, and of tensors that are mostly zero, or hold nothing finite."""
        for run in ("types", "odd"):
            database = self.databases[run]
            for name in sorted(database.ids):
                if not os.path.exists(os.path.join(database.folder, f"{name}.npy")):
                    continue
                for step in (each for each, _ in database.records(name, "count")):
                    wanted = self.statistics_of(database.tensor(name, step).astype("float64"))
                    for stat in STATS:
                        value = dict(database.records(name, stat))[step]
                        self.assertTrue((math.isnan(value) and math.isnan(wanted[stat])) or math.isclose(value, wanted[stat], rel_tol=2e-6, abs_tol=1e-12), (name, step, stat, value, wanted[stat]))

    def test_tensors(self):
        cases = [("types", name, 1) for name in sorted(self.databases["types"].ids)]
        cases += [("odd", "hidden.output", 100), ("odd", "lost.output", 60), ("odd", "conv.kernel", 100), ("demo1", "logits.kernel", 180)]
        self.assertGreaterEqual(len(cases), 17)
        for run, name, step in cases:
            with self.subTest(run=run, name=name):
                database = self.databases[run]
                self.open("tensor", run, f"?signal={database.ids[name][0]}&step={step}")
                whole = database.tensor(name, step).astype("float64")
                shown = whole.reshape(1, -1) if whole.ndim == 1 else whole
                wanted = self.statistics_of(whole)

                def expected(place):
                    if place[0] == "cell":
                        return shown[int(place[1]), int(place[2])]
                    return lambda exact, at: self.about(exact, wanted)
                self.asked = []
                self.check(expected, 3 + (min(shown.shape[0], 24) * min(shown.shape[1], 16) if whole.ndim < 3 else 0))
                text = self.browser.run("return document.querySelector('main').innerText")
                bad = f"{wanted['nan']} NaN, {wanted['inf']} infinite"
                self.assertEqual(bad in text, wanted["nan"] + wanted["inf"] > 0, bad)
                if whole.ndim < 3:  # all of it, not only what has room
                    saved = numpy.array([[float(cell) for cell in row] for row in self.saved(name)])
                    numpy.testing.assert_array_equal(saved, shown)

    def about(self, exact, wanted):
        """The line above a tensor: from LEAST to GREATEST, norm NORM."""
        key = ("min", "max", "norm")[len(self.asked)]
        self.asked.append(exact)
        value = number(exact)
        self.assertTrue((math.isnan(value) and math.isnan(wanted[key])) or math.isclose(value, wanted[key], rel_tol=2e-6), (key, exact, wanted[key]))

    def test_units(self):
        database = self.databases["odd"]
        self.open("layer", "odd", "?layer=hidden")
        rows = self.saved("units of hidden.output")[1:]
        wanted = {step: numpy.abs(database.tensor("hidden.output", step)).mean(axis=0) for step in (25, 50, 75, 100)}
        self.assertEqual(len(rows), 4 * 32)
        for name, first, _, value, bad in rows:
            self.assertAlmostEqual(float(value), float(wanted[int(first)][int(name.split(" ")[1])]), places=6)
            self.assertEqual(int(bad), 0)

    def test_network(self):
        for stat in ("norm", "max"):
            database = self.databases["demo1"]
            self.open("network", "demo1", f"?kind=error&stat={stat}&step=180")
            self.check(lambda place: database.records(f"{place[1]}.error", stat)[-1][1] if place[0] == "layer" else None, 5)

    def test_triggers(self):
        for run in ("demo1", "ill"):
            database = self.databases[run]
            self.open("triggers", run)
            step = int(self.browser.run("return document.querySelector('.slider').value"))
            line = self.line(database, step)
            self.check(lambda place: nearest(database.records(place[2], "norm" if place[1].endswith(" norm") else ""), step) if place[0] == "line" and place[2] in database.ids else line(*place[1:]), 10)

    def test_examples(self):
        for run, step in (("odd", 100), ("demo1", 180)):
            with self.subTest(run=run):
                database = self.databases[run]
                found = database.ask("select sample, label, value from example where signal = ? and step = (select max(step) from example where signal = ? and step <= ?)",
                                     database.ids["prediction"][0], database.ids["prediction"][0], step)
                rows = {sample: (label, [math.nan if v is None else float(v) if not isinstance(v, str) else number(v.replace("inf", "∞").replace("-", "−").replace("nan", "NaN").replace("Infinity", "∞"))
                                         for v in json.loads(value.replace("-Infinity", '"-inf"').replace("Infinity", '"inf"').replace("NaN", '"nan"'))]) for sample, label, value in found}
                self.open("examples", run, f"?step={step}")

                def expected(place):
                    label, values = rows[int("".join(c for c in place[1] if c.isdigit()))]
                    if place[2] == "values":
                        return values[place[3]]
                    if not numpy.isfinite(values).all():
                        return math.nan  # no class, no loss
                    scores = numpy.array(values)
                    shares = (scores >= 0).all() and (scores <= 1).all() and abs(scores.sum() - 1) < 1e-3
                    loss = -numpy.log(scores[int(label)]) if shares else numpy.log(numpy.exp(scores - scores.max()).sum()) + scores.max() - scores[int(label)]
                    return lambda exact, at: self.assertTrue(math.isclose(number(exact), loss, rel_tol=1e-9, abs_tol=1e-12), (exact, loss, at))
                self.check(expected, 4)

    def test_compare(self):
        one, two = self.databases["demo1"], self.databases["demo2"]
        self.open("compare", "demo1", f"?with={self.ids['demo2']}")
        steps = self.browser.run("return [...document.querySelectorAll('[aria-label^=where] tbody tr')].map((row) => [row.cells[0].innerText, row.cells[1].innerText.replace(/\\D/g, ''), row.cells[2].innerText])")
        parted = {name: (int(step), by) for name, step, by in steps if step}

        def expected(place):
            if place[0] == "cell":
                step, by = parted[place[1]]
                database = one if place[2] == "demo1" else two
                return dict(database.records(place[1], "" if by == "value" else by))[step]
            chart, name = place[1], place[2]
            if name == "difference":
                signal = chart[:-len(" difference")]
                stat = "" if one.records(signal) else "norm"
                a, b = one.records(signal, stat), two.records(signal, stat)
                return a[-1][1] - [value for when, value in b if when <= a[-1][0]][-1]
            database = one if name == "demo1" else two
            signal, stat = (chart[:-5], "norm") if chart.endswith(" norm") else (chart, "")
            return database.records(signal, stat)[-1][1]
        self.check(expected, 40)

    def test_findings(self):
        database = self.databases["ill"]
        self.open("findings", "ill")
        evidence = [each for text, in database.ask("select evidence from finding order by id") for each in json.loads(text)]
        values = [each["value"] for each in evidence if each.get("value") is not None]
        shown = []

        def expected(place):
            if place[0] == "line":
                return database.records(place[2], "norm" if place[1].startswith("norm of") else "")[-1][1]
            shown.append(place)
            return values[len(shown) - 1]
        self.check(expected, len(values))
        self.assertEqual(len(shown), len(values))

    def test_recorder(self):
        database = self.databases["demo1"]
        self.open("recorder", "demo1")
        clock = database.ask("select step, wall_time from step order by step")
        wanted = (clock[-1][1] - clock[-2][1]) / (clock[-1][0] - clock[-2][0])
        self.check(lambda place: wanted if place[2] == "mean" else nearest(database.records(place[2]), database.last()), 1)
        notes = dict(database.ask("select key, value from run"))
        text = self.browser.run("return document.querySelector('main').innerText").replace("\u202f", "")
        self.assertIn(f"records\n{notes['deck.submitted']}", text)

    def test_ranks(self):
        databases = [Database(os.path.join(self.folder / "ranks", f"rank-0000{rank}")) for rank in range(3)]
        for signal, stat in (("loss", ""), ("first.output", "norm"), ("first.output", "max")):
            key = next(s["id"] for s in json.loads(self.viewer.get(f"/api/run?run={self.ids['ranks']}")[2])["signals"] if s["name"] == signal)
            self.open("ranks", "ranks", f"?signal={key}&stat={stat}")
            shown = {(row[0], int(row[1])): float(row[3]) for row in self.saved("ranks × time")[1:]}
            wanted = {(f"rank {rank}", step): value for rank, database in enumerate(databases) for step, value in database.records(signal, stat)}
            self.assertEqual(len(wanted), 36)
            self.assertEqual(set(shown), set(wanted))
            for place, value in wanted.items():
                self.assertTrue(same(shown[place], value), (place, shown[place], value))
        self.open("ranks", "ranks")  # it begins with the loss
        self.assertIn("loss is not finite first on rank 1, step 9", self.browser.run("return document.querySelector('main').innerText"))

    def test_a_run_without_any_record_has_no_number(self):
        self.browser.log()
        for page in PAGES:
            with self.subTest(page=page):
                self.open(page, "empty")
                self.assertEqual(self.browser.run(SHOWN), [])
                self.assertNotIn("NaN", self.browser.run("return document.querySelector('main').innerText").replace("NaN or ∞", "").replace("first NaN", ""))
                self.assertEqual(self.browser.errors(), [])


if __name__ == "__main__":
    unittest.main()
