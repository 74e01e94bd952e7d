"""Pages show what was recorded, and nothing else: NaN and infinities, dead units, zeros, records far apart."""
import json
import os
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser  # noqa: E402
from test_tensors import unpacked  # noqa: E402
from viewer import Folder, PROGRAM, Viewer, grow, record, train_demo  # noqa: E402

BAD = "rgb(196, 0, 110)"  # --bad of app.css, in the light


class Truth(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.addClassCleanup(cls.folder.remove)
        record(cls.folder / "odd", "odd")
        record(cls.folder / "half", "odd")
        path = os.path.join(cls.folder / "half", "run.db")
        with open(path, "r+b") as file:  # one page of it
            file.seek(4 * 4096)
            file.write(bytes(4096))
        cls.viewer = Viewer(cls.folder.path)
        cls.addClassCleanup(cls.viewer.close)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.browser.open(cls.viewer.url)
        cls.browser.wait("return document.querySelectorAll('tbody tr').length >= 2 && !document.body.innerText.includes('is being read')")
        cls.ids = {run["name"]: run["id"] for run in json.loads(cls.viewer.get("/api/runs")[2])["runs"]}
        cls.signals = {s["name"]: s["id"] for s in json.loads(cls.viewer.get(f"/api/run?run={cls.ids['odd']}")[2])["signals"]}

    def open(self, page, query="", run="odd"):
        self.browser.run("location.hash = '#/runs'")
        self.browser.run("location.hash = arguments[0]", f"#/{page}/{self.ids[run]}{query}")
        self.browser.wait("return document.querySelector('header nav a[aria-current]')?.firstChild.textContent.toLowerCase() === " + json.dumps(page))

    def ask(self, route):
        return unpacked(self.viewer.get(f"/api/{route}&run={self.ids['odd']}")[2])

    def coloured(self, selector, text):
        """Whether an element with this text has the colour of what is not finite."""
        return self.browser.wait(f"""return [...document.querySelectorAll({json.dumps(selector)})].some((node) =>
            node.textContent.trim() === {json.dumps(text)} && getComputedStyle(node).color === {json.dumps(BAD)})""", f"{text} in {selector}")

    def test_predictions_that_are_not_finite_are_no_class(self):
        self.open("examples")
        self.browser.wait_text("2 predictions are not finite")
        rows = self.browser.run("return [...document.querySelectorAll('.low tbody tr')].map((row) => [...row.children].map((cell) => cell.innerText))")
        self.assertEqual({row[0]: row[2:4] for row in rows[:2]}, {"1": ["none", "NaN"], "2": ["none", "NaN"]})
        self.assertIn("∞", [text for text in rows if text[0] == "2"][0][4])
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('.grid td')].reduce((sum, cell) => sum + (Number(cell.innerText) || 0), 0)"), 2)

    def test_wrong_examples_are_pictures(self):
        """Of rows whose input was recorded; each says what is in it, not in all of them."""
        self.open("examples")
        self.browser.wait_text("Wrong ones")
        pictures = "[...[...document.querySelectorAll('main figure')].find((f) => f.innerText.startsWith('Wrong ones')).querySelectorAll('figure')]"
        self.assertEqual(self.browser.run(f"return {pictures}.map((f) => f.innerText.trim())"), ["1 → none", "0 → none"])
        self.assertEqual(self.browser.run(f"return {pictures}.map((f) => f.querySelector('canvas').getAttribute('aria-label'))"),
                         ["5 by 5 values from 100 to 124", "5 by 5 values from 200 to 224"])

    def test_the_list_of_runs_shows_nan_infinity_and_damage(self):
        self.browser.run("location.hash = '#/runs'")
        self.coloured("tbody td span", "NaN")
        self.coloured("tbody td span", "∞")
        self.browser.wait("return [...document.querySelectorAll('tbody tr')].find((row) => row.innerText.includes('half'))?.innerText.includes('· damaged')")

    def test_legends_show_nan_and_infinity_in_their_colour(self):
        self.open("layers")
        self.coloured(".legend .value", "NaN")
        self.coloured(".legend .value", "∞")

    def test_the_table_of_a_layer_and_a_tensor_without_a_finite_number(self):
        self.open("layer", "?layer=lost")
        self.coloured("td span", "NaN")
        self.open("tensor", f"?signal={self.signals['lost.output']}")
        self.browser.wait_text("from NaN to NaN, norm NaN, 4 NaN, 0 infinite")

    def test_dead_units_are_counted(self):
        self.open("layer", "?layer=hidden")
        self.browser.wait_text("29 of 32 units are zero for every recorded example")
        self.browser.wait_text("29 in all 4 recorded tensors")

    def test_quantiles_of_a_tensor_that_is_mostly_zero(self):
        _, data = self.ask(f"histograms?signal={self.signals['hidden.output']}")
        self.assertEqual(list(data[:7]), [-2, 0, 0, 0, 0, 1, 3] if data[5] == 1 else [-2, 0, 0, 0, 0, data[5], 3])
        self.assertLessEqual(data[5], 3)

    def test_a_gallery_has_one_scale_and_one_request(self):
        head, data = self.ask(f"tensor?signal={self.signals['conv.kernel']}&at=:,:,0,*")
        self.assertEqual((head["slices"], head["rows"], head["columns"]), (4, 3, 3))
        self.assertEqual([list(data[9 * i:9 * i + 9]) for i in range(4)], [[10 ** i * (k + 1) for k in range(9)] for i in range(4)])
        self.browser.run("performance.clearResourceTimings()")
        self.open("layer", "?layer=conv")
        self.browser.wait("return document.querySelectorAll('.pictures figure').length === 4")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.pictures + .key').length"), 1)
        self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').filter((entry) => entry.name.includes('/api/tensor')).length"), 1)

    def test_a_window_between_two_records_shows_them(self):
        head, data = self.ask(f"series?signals={self.signals['val_loss']}&from=30&to=45&points=100")
        self.assertEqual(head["series"][0]["count"], 2)
        self.assertEqual(list(data[:4]), [25, 50, 25, 50])
        head, data = self.ask(f"heat?signals={self.signals['hidden.output']}&stat=norm&from=30&to=45&columns=16")
        width = head["columns"] + 1
        self.assertEqual((data[2 * width], data[3 * width]), (25, 25))  # before the window
        self.assertTrue((data[width + 1:2 * width] == -1).all())       # nothing was recorded inside
        self.open("layers", "?from=30&to=45&kind=output")
        self.browser.wait_text("val_loss")
        self.browser.run("const heat = document.querySelector('.heat .over'), box = heat.getBoundingClientRect(); heat.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + box.width * 0.6, clientY: box.top + 30, bubbles: true }))")
        self.browser.wait("return /step 25 \\(the last record before\\)/.test(document.querySelector('.readout')?.innerText)", "the readout names the step that was recorded")

    def test_only_recorded_cells_are_saved(self):
        self.open("layers", "?kind=output")
        self.browser.wait("return document.querySelector('.heat canvas.base')?.width > 0 && document.querySelector('.heat-head .bar')")
        self.browser.run("""window.saved = null; URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return "data:,"; };
            HTMLAnchorElement.prototype.click = function () {};""")
        self.browser.run("[...document.querySelectorAll('figure')].find((f) => f.querySelector('.heat')).querySelector('.exports button').click()")
        lines = self.browser.wait("return window.saved").strip().split("\n")
        self.browser.open(self.viewer.url)
        self.assertEqual(lines[0], "row,first_step,last_step,norm,nonfinite")
        self.assertEqual([line.split(",")[1] for line in lines if line.startswith("hidden")], ["25", "50", "75", "100"])
        self.assertIn("lost,25,25,NaN,1", lines)

    def test_epochs_are_fractions(self):
        self.open("layers", "?x=epoch")
        # Blue is the line: it crosses the chart instead of standing in a bar for each epoch.
        self.browser.wait("""const chart = document.querySelector('.multiples canvas.base'); if (!chart?.width) { return false; } const copy = document.createElement('canvas');
            copy.width = chart.width; copy.height = chart.height; copy.getContext('2d').drawImage(chart, 0, 0);
            const data = copy.getContext('2d').getImageData(0, 0, chart.width, chart.height).data, columns = new Set();
            for (let y = 10; y < chart.height - 24; y++) { for (let x = 60; x < chart.width - 10; x++) { const i = 4 * (y * chart.width + x);
                if (data[i + 3] > 200 && data[i + 2] > 120 && data[i] < 60) { columns.add(x); } } } return columns.size > 60""", "a line over epochs")

    def test_a_clean_diagnosis_is_not_a_missing_one(self):
        self.open("findings")
        self.browser.wait_text("has not been diagnosed")
        self.assertIn(subprocess.run([PROGRAM, "diagnose", self.folder / "odd"], capture_output=True, timeout=300).returncode, (0, 1))
        for _ in range(200):  # the viewer reads it again a moment later
            notes = json.loads(self.viewer.get(f"/api/run?run={self.ids['odd']}")[2])["notes"]["run"]
            if "diagnosed" in notes:
                break
            time.sleep(0.1)
        self.assertRegex(notes["diagnosed"], r"^\d{4}-\d\d-\d\dT")
        self.assertRegex(notes.get("diagnosed.checks", "1 of 2"), r"^\d+ of \d+$")

    def test_the_verdict_of_a_diagnosis_is_shown_where_people_look_first(self):
        train_demo(self.folder.path, "--set", "name=ill", "--set", "train.optimizer={sgd: {learning_rate: 80}}")
        database = sqlite3.connect(os.path.join(self.folder / "ill", "run.db"))
        self.browser.run("location.hash = '#/runs'")
        row = "[...document.querySelectorAll('tbody tr')].find((row) => row.querySelector('a')?.innerText === 'ill')"
        self.browser.wait(f"return {row} && !{row}.innerText.includes('is being read')", "the run is listed")
        self.assertEqual(subprocess.run([PROGRAM, "diagnose", self.folder / "ill"], capture_output=True, timeout=300).returncode, 1)
        findings = database.execute("select cause, confidence, since_step, remedy from finding order by id").fetchall()
        database.close()
        self.assertGreaterEqual(len(findings), 1)
        cause, confidence, since, remedy = findings[0]
        cause = cause.replace("_", " ")
        self.browser.wait(f"return {row}?.querySelector('.badge')?.innerText === {json.dumps(cause)}", "the list shows the verdict", 40)
        self.ids["ill"] = next(run["id"] for run in json.loads(self.viewer.get("/api/runs")[2])["runs"] if run["name"] == "ill")
        self.open("layers", run="ill")
        line = self.browser.wait("return document.querySelector('.verdict')?.innerText")
        self.assertIn(f"step {since}: {cause}", line)
        self.assertIn(f"({confidence})", line)
        self.assertIn(remedy[:100], line)
        self.assertEqual(self.browser.wait("return document.querySelector('header nav .count')?.innerText"), str(len(findings)))
        self.browser.run("document.querySelector('.verdict .jump').click()")
        self.browser.wait(f"return Number(document.querySelector('.slider').value) === {since}", "the link scrubs to the step")

        self.open("findings", run="ill")
        self.browser.run("window.copied = []; navigator.clipboard.writeText = (text) => { window.copied.push(text); return Promise.resolve(); };")
        self.browser.run("document.querySelectorAll('.finding p button').forEach((button) => button.click())")
        self.assertEqual(self.browser.run("return window.copied"), [finding[3] for finding in findings if finding[3]])
        self.assertEqual(self.browser.run("return document.querySelectorAll('.finding').length"), len(findings))
        self.browser.wait("return [...document.querySelectorAll('.finding')].every((f) => f.querySelector('.multiples .legend .value')?.dataset.exact)", "a chart of what the evidence is about")

    def test_a_diagnosis_that_found_nothing_is_a_green_line(self):
        record(self.folder / "well", "odd")
        database = sqlite3.connect(os.path.join(self.folder / "well", "run.db"))
        database.execute("insert into run (key, value) values ('diagnosed', '2026-01-02T03:04:05Z'), ('diagnosed.checks', '80 of 91')")
        database.commit()
        database.close()
        self.browser.run("location.hash = '#/runs'")
        self.browser.wait("return [...document.querySelectorAll('tbody tr')].find((row) => row.querySelector('a')?.innerText === 'well')?.querySelector('.badge.good')?.innerText.includes('nothing unusual')", seconds=40)
        self.ids["well"] = next(run["id"] for run in json.loads(self.viewer.get("/api/runs")[2])["runs"] if run["name"] == "well")
        self.open("layers", run="well")
        self.browser.wait("return document.querySelector('.verdict.good')?.innerText.includes('found nothing unusual in 80 of 91 checks')")
        self.assertEqual(self.browser.run("return document.querySelectorAll('header nav .count').length"), 0)

    def test_a_tensor_whose_file_is_gone_is_an_error(self):
        record(self.folder / "gone", "odd")
        os.remove(os.path.join(self.folder / "gone", "conv.kernel.npy"))
        viewer = Viewer(self.folder / "gone")
        try:
            run = viewer.first_run()
            status, _, body = viewer.get(f"/api/tensor?run={run}&signal={self.signals['conv.kernel']}")
            self.assertEqual(status, 500, body)
            self.assertIn("conv.kernel", json.loads(body)["error"])
        finally:
            viewer.close()

    def test_pages_follow_a_run_and_keep_the_focus(self):
        process = grow(self.folder / "live")
        try:
            self.browser.run("location.hash = '#/runs'")
            self.browser.wait("return [...document.querySelectorAll('tbody a')].some((a) => a.innerText === 'live')")
            self.ids["live"] = next(run["id"] for run in json.loads(self.viewer.get("/api/runs")[2])["runs"] if run["name"] == "live")
            self.open("layer", "?layer=first", "live")
            self.browser.wait("return document.querySelector('table')")
            shown = "Number(document.querySelector('tbody td:nth-child(2)')?.innerText.replace(/\\D/g, ''))"
            self.browser.run("[...document.querySelectorAll('header nav a')].find((a) => a.innerText === 'Network').focus()")
            first = self.browser.wait(f"return {shown}")  # the page is opened anew when the run has more signals
            self.browser.wait(f"return {shown} > {first} + 100", "the table follows", 40)
            self.assertEqual(self.browser.run("return document.activeElement.innerText"), "Network")
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    unittest.main()
