"""Every page of the viewer in a real browser: the demo, a run that grows, one that crashed, event files of
TensorBoard, hostile names, a thousand signals, an empty folder, a report. Nothing may be said on the console."""
import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser  # noqa: E402
from viewer import Folder, PROGRAM, SOURCE, Viewer, grow, record, train_demo  # noqa: E402

PAGES = ["layers", "layer", "network", "tensor", "triggers", "examples", "compare", "findings", "recorder"]
READY = """const main = document.querySelector("main");
           return main.children.length > 0 && !main.innerText.includes("reading the run") && document.querySelector("header nav a[aria-current]") !== null
                  && document.querySelector("header nav a[aria-current]").firstChild.textContent.toLowerCase() === arguments[0]"""
# How many different colours a canvas has: something is drawn when there are several.
COLOURS = """const canvas = document.querySelector(arguments[0]); if (!canvas || !canvas.width) { return 0; }
             const copy = document.createElement("canvas"), context = copy.getContext("2d", { willReadFrequently: true });
             copy.width = canvas.width; copy.height = canvas.height; context.drawImage(canvas, 0, 0);
             const data = context.getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
             for (let i = 0; i < data.length; i += 4) { seen.add(data[i] * 65536 + data[i + 1] * 256 + data[i + 2]); } return seen.size"""


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        runs = os.path.join(cls.folder.path, "runs")
        os.mkdir(runs)
        train_demo(runs)
        record(os.path.join(runs, "hostile"), "hostile")
        record(os.path.join(runs, "many"), "many")
        shutil.copytree(os.path.join(SOURCE, "tests", "fixtures", "events"), os.path.join(runs, "events"))
        crashed = grow(os.path.join(runs, "crashed"))
        crashed.kill()
        crashed.wait()
        cls.runs = runs
        cls.viewer = Viewer(runs)
        cls.browser = Browser()
        cls.browser.open(cls.viewer.url)
        cls.browser.wait_text("demo")
        cls.browser.wait("return !document.body.innerText.includes('is being read')")
        listing = json.loads(cls.viewer.get("/api/runs")[2])
        cls.ids = {run["name"]: run["id"] for run in listing["runs"]}

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        status = cls.viewer.close()
        cls.folder.remove()
        assert status == 0, f"the viewer ended with {status}"

    def setUp(self):
        self.browser.size(1280, 900)
        self.browser.scheme("light")
        self.browser.run("document.querySelector('dialog')?.remove()")

    def tearDown(self):
        self.assertEqual(self.browser.errors(), [])

    def open(self, page, run="demo", query=""):
        self.browser.run("location.hash = arguments[0]", f"#/{page}/{self.ids[run]}{query}")
        self.browser.wait(READY.replace("arguments[0]", json.dumps(page)), f"{page} of {run}")

    def drawn(self, selector, least=4):
        self.browser.wait(f"const n = (() => {{ {COLOURS.replace('arguments[0]', json.dumps(selector))} }})(); return n >= {least}", f"{selector} is drawn")

    def move(self, selector, x, y, kind="mouseMoved"):
        box = self.browser.run("const r = document.querySelector(arguments[0]).getBoundingClientRect(); return [r.left, r.top, r.width, r.height]", selector)
        self.browser.devtools("Input.dispatchMouseEvent", type=kind, x=box[0] + x * box[2], y=box[1] + y * box[3], button="left" if kind != "mouseMoved" else "none", clickCount=1)

    # ---- Pages ----

    def test_every_page_shows_the_demo(self):
        marks = {"layers": "Layers × time", "layer": "quantiles", "network": "Press play", "tensor": "float32", "triggers": "loss > 2",
                 "examples": "The batch of a step", "compare": "", "findings": "tapedeck diagnose", "recorder": "What recording cost"}
        for page in PAGES:
            with self.subTest(page=page):
                self.open(page)
                self.browser.wait_text(marks[page])
                self.assertEqual(self.browser.errors(), [])

    def test_runs_can_be_sorted_filtered_and_picked(self):
        self.browser.run("location.hash = '#/runs'")
        self.browser.wait("return document.querySelectorAll('tbody tr').length >= 5")
        self.browser.run("document.querySelector('input[type=search]').value = 'dem'; document.querySelector('input[type=search]').dispatchEvent(new Event('input'))")
        self.browser.wait("return document.querySelectorAll('tbody tr').length === 1")
        self.browser.run("document.querySelector('tbody input[type=checkbox]').click()")
        self.browser.wait("return document.querySelectorAll('.multiples figure').length >= 2")
        self.assertIn("pick=", self.browser.wait("return location.hash.includes('pick=') && location.hash"))
        self.drawn(".multiples figure canvas.base")
        self.assertIn("val_loss", self.browser.run("return document.querySelector('.multiples figure').innerText"))

    def test_layers_by_time_is_drawn_and_a_click_opens_the_layer_at_that_step(self):
        self.open("layers")
        self.drawn(".heat canvas.base", 12)
        self.move(".heat .over", 0.5, 0.3)
        self.browser.wait("return /step \\d+( \\(the last record before\\))? · norm/.test(document.querySelector('.readout').innerText)")
        self.assertGreater(self.browser.run("return document.querySelectorAll('.legend .value').length"), 1)
        self.move(".heat .over", 0.5, 0.3, "mousePressed")
        self.move(".heat .over", 0.5, 0.3, "mouseReleased")
        self.browser.wait("return location.hash.startsWith('#/layer/') && /step=\\d+/.test(location.hash) && /layer=/.test(location.hash)")

    def test_dragging_zooms_all_charts_and_a_double_click_shows_everything(self):
        self.open("layers")
        self.drawn(".heat canvas.base", 12)
        self.move(".heat .over", 0.4, 0.5, "mousePressed")
        self.move(".heat .over", 0.6, 0.5)
        self.move(".heat .over", 0.6, 0.5, "mouseReleased")
        self.browser.wait("return /from=\\d+/.test(location.hash) && /to=\\d+/.test(location.hash)")
        self.browser.run("document.querySelector('.heat .over').dispatchEvent(new MouseEvent('dblclick'))")
        self.browser.wait("return !/from=/.test(location.hash)")

    def test_keys_scrub_search_and_help(self):
        self.open("layers")
        last = self.browser.run("return document.querySelector('.slider').max")
        self.browser.key("ArrowLeft")
        self.browser.wait(f"return location.hash.includes('step={int(last) - 1}')")
        self.browser.key("Home")
        self.browser.wait("return /step=1(&|$)/.test(location.hash)")
        self.browser.key("?")
        self.browser.wait("return document.querySelector('dialog[open]')?.innerText.includes('Keys')")
        self.browser.key("Escape")
        self.browser.wait("return !document.querySelector('dialog')")
        self.browser.key("/")
        self.browser.wait("return document.querySelector('dialog[open] input') === document.activeElement")
        self.browser.run("const i = document.querySelector('dialog input'); i.value = 'hidden kernel'; i.dispatchEvent(new Event('input'))")
        self.browser.wait("return [...document.querySelectorAll('.found a')].length >= 2")
        self.browser.run("document.querySelector('.found a').click()")
        self.browser.wait("return location.hash.includes('layer=hidden')")

    def test_play_moves_the_scrubber(self):
        self.open("network", query="?step=1")
        self.browser.wait_text("Press play")
        self.browser.run("document.querySelector('.play').click()")
        self.browser.wait("return Number(document.querySelector('.slider').value) > 5")
        self.browser.run("document.querySelector('.play').click()")

    def test_a_chart_is_saved_as_what_it_shows(self):
        self.open("layers")
        self.drawn(".multiples figure canvas.base")
        self.browser.run("""window.saved = []; const make = URL.createObjectURL;
            URL.createObjectURL = (blob) => { blob.text().then((text) => window.saved.push([blob.type, text])); return "data:,"; };
            HTMLAnchorElement.prototype.click = function () {};""")
        for button in ("CSV", "SVG"):
            self.browser.run("[...document.querySelectorAll('.multiples figure .exports button')].find((b) => b.textContent === arguments[0]).click()", button)
        saved = dict(self.browser.wait("return window.saved.length === 2 && window.saved"))
        self.assertTrue(saved["text/csv"].startswith("line,step,mean,min,max,nonfinite\nloss,45,"), saved["text/csv"][:200])
        self.assertTrue(saved["image/svg+xml"].startswith("<svg "))
        self.browser.open(self.viewer.url)

    # ---- Runs of all kinds ----

    def test_a_run_that_grows_is_followed(self):
        folder = os.path.join(self.runs, "live")
        process = grow(folder)
        try:
            self.browser.run("location.hash = '#/runs'")
            self.browser.wait_text("live")
            self.browser.wait("return [...document.querySelectorAll('tbody tr')].some((row) => row.innerText.includes('live') && row.innerText.includes('running'))")
            listing = json.loads(self.viewer.get("/api/runs")[2])
            self.ids["live"] = next(run["id"] for run in listing["runs"] if run["name"] == "live")
            self.open("layers", "live")
            step = "Number(document.querySelector('.slider').max)"
            first = self.browser.run(f"return {step}")
            self.browser.wait(f"return {step} > {first} + 50", "the page follows")
            self.assertIn("live", self.browser.run("return document.querySelector('header .state').innerText"))
            self.drawn(".heat canvas.base", 6)
        finally:
            process.kill()
            process.wait()
        self.browser.wait_text("resume=True")

    def test_a_crashed_run_says_where_it_stopped(self):
        self.open("layers", "crashed")
        self.browser.wait_text("ended without closing it, after step")
        self.browser.wait_text("resume=True")

    def test_event_files_are_shown(self):
        run = next(name for name in self.ids if name.startswith("events"))
        for page in PAGES:
            with self.subTest(page=page):
                self.open(page, run)
                self.assertEqual(self.browser.errors(), [])

    def test_hostile_names_are_only_text(self):
        self.browser.run("location.hash = '#/runs?pick=' + arguments[0]", self.ids["hostile"])
        self.browser.wait("return document.querySelectorAll('.multiples figure').length >= 3")
        for page in PAGES:
            with self.subTest(page=page):
                self.open(page, "hostile")
                self.assertEqual(self.browser.errors(), [])
                self.assertIsNone(self.browser.run("return window.pwned || null"))
        self.open("layers", "hostile")
        self.browser.wait_text("<script>window.pwned=1</script>")
        self.browser.wait_text("× NaN or ∞")
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 1280)
        self.assertEqual(self.browser.run("return document.querySelectorAll('main img, main script, main b').length"), 0)

    def test_a_thousand_signals_stay_usable(self):
        self.open("layers", "many")
        self.browser.wait_text("1000 metrics")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.multiples figure').length"), 12)
        self.drawn(".heat canvas.base", 12)
        self.open("layer", "many")
        self.open("network", "many")

    def test_an_empty_folder_says_how_to_start_and_shows_what_comes(self):
        empty = Folder()
        viewer = Viewer(empty.path)
        try:
            self.browser.open(viewer.url)
            self.browser.wait_text("No run yet")
            self.browser.wait_text("tapedeck train")
            record(empty / "first", "hostile")
            self.browser.wait("return [...document.querySelectorAll('tbody tr')].some((row) => row.innerText.includes('first'))")
        finally:
            self.browser.open(self.viewer.url)
            viewer.close()
            empty.remove()

    # ---- For everybody ----

    def test_pages_fit_a_telephone(self):
        self.browser.size(400, 800)
        for page in PAGES:
            with self.subTest(page=page):
                self.open(page)
                self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 400)
        self.browser.run("location.hash = '#/runs'")
        self.browser.wait("return document.querySelectorAll('tbody tr').length >= 5")
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 400)

    def test_dark_follows_the_system(self):
        self.open("layers")
        light = self.browser.run("return getComputedStyle(document.body).backgroundColor")
        self.browser.scheme("dark")
        self.browser.wait("return document.querySelector('.heat canvas.base') !== null")
        self.assertNotEqual(self.browser.run("return getComputedStyle(document.body).backgroundColor"), light)

    def test_landmarks_and_labels(self):
        for page in PAGES:
            self.open(page)
            with self.subTest(page=page):
                self.assertEqual(self.browser.run("return ['header', 'nav', 'main', 'h1'].filter((tag) => !document.querySelector(tag))"), [])
                nameless = """return [...document.querySelectorAll("button, a, input, select, [tabindex='0'], section")].filter((node) =>
                    !node.textContent.trim() && !node.getAttribute("aria-label") && !node.closest("label")?.textContent.trim()).map((node) => node.outerHTML.slice(0, 120))"""
                self.assertEqual(self.browser.run(nameless), [])
                small = """return [...document.querySelectorAll("body *")].filter((node) => node.children.length === 0 && node.textContent.trim()
                    && node.getClientRects().length && parseFloat(getComputedStyle(node).fontSize) < 12).map((node) => node.outerHTML.slice(0, 120))"""
                self.assertEqual(self.browser.run(small), [])

    def test_the_token_leaves_the_address_bar_and_the_page_works_on(self):
        self.browser.open(self.viewer.url)
        self.browser.wait_text("demo")
        self.assertNotIn("token", self.browser.run("return location.href"))

    # ---- Reports ----

    def test_a_report_opens_with_the_chosen_view(self):
        path, demo = self.folder / "chosen.html", os.path.join(self.runs, "demo")
        try:
            for view in ("layer?layer=conv2&step=40", f"#/layer/{self.ids['demo']}?layer=conv2&step=40"):
                subprocess.run([PROGRAM, "report", demo, "--view", view, "-o", path], check=True, stdout=subprocess.DEVNULL)
                self.browser.open("file://" + path)
                self.browser.wait("return document.querySelector('main h1')?.innerText.startsWith('conv2') && document.querySelector('.slider')?.value === '40'", view)
                self.browser.run("document.querySelector('header h1 a').click()")
                self.browser.wait("return document.querySelector('.rows tbody tr')", "the list of runs is one click away")
                self.browser.open("about:blank")
        finally:
            self.browser.open(self.viewer.url)

    def test_a_report_needs_no_server(self):
        path = self.folder / "report.html"
        demo = os.path.join(self.runs, "demo")
        subprocess.run([PROGRAM, "report", demo, os.path.join(self.runs, "hostile"), "-o", path], check=True, stdout=subprocess.DEVNULL)
        self.assertLess(os.path.getsize(path), 5 << 20)
        try:
            self.browser.open("file://" + path)
            self.browser.wait_text("demo")
            ids = self.browser.run("return JSON.parse(document.getElementById('report').textContent) && [...document.querySelectorAll('tbody a')].map((a) => [a.innerText, a.hash.split('/')[2]])")
            for name, run in ids:
                for page in PAGES:
                    with self.subTest(page=page, run=name):
                        self.browser.run("location.hash = arguments[0]", f"#/{page}/{run.split('?')[0]}")
                        self.browser.wait(READY.replace("arguments[0]", json.dumps(page)), f"{page} in a report")
                        self.assertEqual(self.browser.errors(), [])
                        self.assertIsNone(self.browser.run("return window.pwned || null"))
            self.browser.run("location.hash = arguments[0]", f"#/layers/{dict(ids)['demo'].split('?')[0]}")
            self.browser.wait(READY.replace("arguments[0]", '"layers"'))
            self.drawn(".heat canvas.base", 12)
        finally:
            self.browser.open(self.viewer.url)


if __name__ == "__main__":
    unittest.main()
