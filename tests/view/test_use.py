"""Pages that follow, pages that lead on, and what a page costs: each of these was once broken."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser  # noqa: E402
from viewer import Folder, Viewer, grow, record, train_demo  # noqa: E402

SAVED = """window.saved = null; URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text; }); return "data:,"; };
           HTMLAnchorElement.prototype.click = function () {};"""


class Use(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.addClassCleanup(cls.folder.remove)
        for seed in range(1, 7):
            train_demo(cls.folder.path, "--set", f"seed={seed}", "--set", f"name=demo{seed}", "--set", "train.epochs=1")
        record(cls.folder / "many", "many")
        record(cls.folder / "odd", "odd")
        record(cls.folder / "hostile", "hostile")
        cls.growing = grow(cls.folder / "live")
        cls.addClassCleanup(cls.end_growing)
        cls.viewer = Viewer(cls.folder.path)
        cls.addClassCleanup(cls.viewer.close)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.browser.open(cls.viewer.url)
        cls.browser.wait("return document.querySelectorAll('tbody tr').length >= 10 && !document.body.innerText.includes('is being read')", seconds=60)
        cls.ids = {run["name"]: run["id"] for run in json.loads(cls.viewer.get("/api/runs")[2])["runs"]}

    @classmethod
    def end_growing(cls):
        cls.growing.kill()
        cls.growing.wait()

    def setUp(self):
        self.browser.size(1280, 900)
        self.browser.devtools("Emulation.setEmulatedMedia", media="", features=[])

    def open(self, page, run="demo1", query=""):
        self.browser.run("location.hash = '#/runs'")
        self.browser.run("location.hash = arguments[0]", f"#/{page}/{self.ids[run]}{query}")
        self.browser.wait(f"return document.querySelector('header nav a[aria-current]')?.firstChild.textContent.toLowerCase() === {json.dumps(page)} && document.querySelector('.run-name .name').title === {json.dumps(run)} && !document.querySelector('main').innerText.includes('reading the run')", page)

    # ---- Following ----

    def test_every_page_follows_a_run_that_grows(self):
        for page, shown in (("tensor", "/recorded at step ([\\d\\s\\u202f]+)/"), ("examples", "/at step ([\\d\\s\\u202f]+)/"), ("triggers", "/(\\d[\\d\\u202f]*) times a condition/")):
            with self.subTest(page=page):
                self.open(page, "live")
                script = f"const found = [...document.querySelector('main').innerText.matchAll(new RegExp({shown}, 'g'))].map((m) => Number(m[1].replace(/\\D/g, ''))); return found.length ? Math.max(...found) : 0"
                first = self.browser.wait(script, f"{page} shows a step")
                self.browser.wait(f"return (() => {{ {script} }})() > {first}", f"{page} follows", 40)

    def test_lines_over_each_other_follow(self):
        self.browser.run("location.hash = arguments[0]", f"#/runs?pick={self.ids['live']}")
        self.browser.wait("return document.querySelectorAll('.multiples .legend .value').length > 0")
        script = "return document.querySelector('tr.picked, .run.picked')?.innerText"
        chart = "return [...document.querySelectorAll('.multiples figure')].find((f) => f.innerText.startsWith('loss')).querySelector('.value').dataset.exact"
        first = self.browser.wait(chart)
        self.browser.wait(f"return (() => {{ {chart} }})() !== {json.dumps(first)}", "the overlay follows", 40)
        self.assertTrue(self.browser.run(script))

    # ---- The heat map's axis, and paper ----

    def test_the_heat_map_has_the_axis_of_the_charts(self):
        readout = """const heat = document.querySelector('.heat .over'); if (!heat) { return null; } const box = heat.getBoundingClientRect();
            heat.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + box.width * 0.65, clientY: box.top + 30, bubbles: true }));
            return Number(/steps? ([\\d\\u202f]+)/.exec(document.querySelector('.readout').innerText)?.[1].replace(/\\D/g, '')) || null"""
        self.open("layers", "odd", "?kind=output")
        linear = self.browser.wait(readout)
        self.open("layers", "odd", "?kind=output&xlog=1")
        self.assertLess(self.browser.wait(readout), linear)
        self.assertGreater(linear, 25)

    def test_paper_shows_everything(self):
        for page in ("layers", "layer", "examples", "recorder"):
            with self.subTest(page=page):
                self.open(page, "demo1")
                self.browser.wait("return document.querySelector('main').innerText.length > 100")
                self.browser.size(794, 1123)
                self.browser.devtools("Emulation.setEmulatedMedia", media="print")
                self.browser.wait("return document.documentElement.scrollWidth <= 794", f"{page} fits the paper")
                cropped = self.browser.run("""return [...document.querySelectorAll('main *')].filter((node) => ['auto', 'scroll', 'hidden'].includes(getComputedStyle(node).overflowY)
                    && node.scrollHeight > node.clientHeight + 1 && node.clientHeight > 0 && !node.matches('.name')).map((node) => node.className)""")
                self.assertEqual(cropped, [])
                self.assertEqual(self.browser.run("return getComputedStyle(document.querySelector('header nav')).display"), "none")
                self.setUp()

    # ---- Ways on ----

    def test_a_tensor_minus_another_step(self):
        self.open("tensor", "live", f"?signal={self.signal('live', 'hidden.output')}")
        self.browser.wait("return document.querySelector('select[aria-label=minus]')")
        self.browser.run("const s = document.querySelector('select[aria-label=minus]'); s.value = 'step'; s.dispatchEvent(new Event('change'))")
        self.browser.wait_text("minus step 40")
        self.browser.run("const i = document.querySelector('input[aria-label=\"step to subtract\"]'); i.value = 85; i.dispatchEvent(new Event('change'))")
        self.browser.wait_text("minus step 80")
        self.browser.run("const s = document.querySelector('select[aria-label=minus]'); s.value = ''; s.dispatchEvent(new Event('change'))")
        self.browser.wait("return !document.body.innerText.includes('minus step')")

    def signal(self, run, name):
        return next(s["id"] for s in json.loads(self.viewer.get(f"/api/run?run={self.ids[run]}")[2])["signals"] if s["name"] == name)

    def test_after_a_restart_the_page_says_what_to_do_or_goes_on(self):
        folder = Folder()
        self.addCleanup(folder.remove)
        record(folder / "odd", "odd")
        first = Viewer(folder.path, "--port", "0")
        browser = Browser()
        try:
            browser.open(first.url)
            browser.wait("return document.querySelector('.heat')")
            first.close()
            browser.run("location.hash = location.hash.replace('layers', 'recorder')")
            browser.wait("return [...document.querySelectorAll('button')].some((b) => b.innerText === 'try again')")
            second = Viewer(folder.path, "--port", str(first.port))
            try:
                browser.run("[...document.querySelectorAll('button')].find((b) => b.innerText === 'try again').click()")
                browser.wait("return /open the address/.test(document.body.innerText)", "the page names the other viewer")
                browser.open(second.url)
                browser.wait("return document.querySelector('.heat')")
            finally:
                second.close()
        finally:
            browser.close()

    def test_three_hundred_layers_have_a_picker(self):
        self.open("layer", "many", "?layer=block7")
        picker = self.browser.wait("return document.querySelector('[aria-label=layer]')?.value")
        self.assertEqual(picker, "block7")
        names = self.browser.run("return [...document.querySelector('[aria-label=layer]').options].map((o) => o.value)")
        self.assertEqual(len(names), 300)
        after = names[names.index("block7") + 1]
        for label, name in (("next layer", after), ("previous layer", "block7")):
            self.browser.run("document.querySelector(`button[aria-label='${arguments[0]}']`).click()", label)
            self.browser.wait(f"return document.querySelector('main h1')?.innerText.startsWith({json.dumps(name)})", name)

    def test_six_runs_are_compared_as_six(self):
        picked = [self.ids[f"demo{i}"] for i in range(1, 7)]
        self.browser.run("location.hash = arguments[0]", f"#/runs?pick={','.join(picked)}")
        self.browser.wait("return [...document.querySelectorAll('a')].find((a) => /^compare/.test(a.innerText))")
        self.browser.run("[...document.querySelectorAll('a')].find((a) => /^compare/.test(a.innerText)).click()")
        self.browser.wait_text("demo2")
        for other in range(2, 7):
            self.browser.wait(f"return document.querySelector('main').innerText.includes('demo{other}')", f"demo{other} is compared")
        self.browser.wait("return [...document.querySelectorAll('main table tr')].some((row) => row.innerText.startsWith('seed') && ['1', '2', '3', '4', '5', '6'].every((seed) => row.innerText.includes(seed)))", "the seeds beside each other")

    def test_saved_text_cannot_become_a_formula(self):
        self.open("layers", "hostile")
        self.browser.wait("return document.querySelector('.multiples .legend .value')")
        self.browser.run(SAVED)
        self.browser.run("[...document.querySelectorAll('.multiples figure')].find((f) => f.innerText.startsWith('=1+1')).querySelector('.exports button').click()")
        lines = self.browser.wait("return window.saved").strip().split("\n")
        self.browser.open(self.viewer.url)
        self.assertTrue(all(line.startswith("'=1+1,") for line in lines[1:]), lines)
        self.assertEqual(len(lines), 31)

    # ---- Costs ----

    def test_a_page_asks_for_little(self):
        for page, query in (("layer", "?layer=conv1"), ("layers", ""), ("network", ""), ("triggers", "")):
            with self.subTest(page=page):
                self.browser.run("location.hash = '#/runs'")
                self.browser.wait("return document.querySelector('tbody')")
                self.browser.run("performance.clearResourceTimings()")
                self.open(page, "demo1", query)
                self.browser.wait("return document.querySelector('main figure, main table, main svg')")
                self.browser.run("return new Promise((resolve) => setTimeout(resolve, 400))")
                asked = self.browser.run("return performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/')).map((e) => e.name.replace(/.*api/, ''))")
                self.assertLessEqual(len([name for name in asked if self.ids["demo1"] in name]), 10, asked)

    def test_scrubbing_a_layer_asks_once_a_panel(self):
        self.open("layer", "demo1", "?layer=conv1")
        self.browser.wait("return document.querySelectorAll('.pictures figure').length > 0")
        self.browser.run("return new Promise((resolve) => setTimeout(resolve, 400))")
        self.browser.run("performance.clearResourceTimings()")
        self.browser.run("const s = document.querySelector('.slider'); s.value = 20; s.dispatchEvent(new Event('input'))")
        self.browser.run("return new Promise((resolve) => setTimeout(resolve, 600))")
        asked = self.browser.run("return performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/') && e.name.includes(arguments[0])).map((e) => e.name.replace(/.*api/, ''))", self.ids["demo1"])
        self.assertLessEqual(len(asked), 10, asked)

    def layouts(self):
        return {each["name"]: each["value"] for each in self.browser.devtools("Performance.getMetrics")["metrics"]}["LayoutCount"]

    def test_a_scrub_lays_the_page_out_once(self):
        """However many charts there are: one that asks for a size after another has written makes the browser lay out again."""
        self.browser.devtools("Performance.enable")
        frame = "return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve))))"
        for run, page, query in (("many", "layers", ""), ("demo1", "layer", "?layer=conv1")):
            with self.subTest(page=page):
                self.open(page, run, query)
                self.browser.wait("return document.querySelectorAll('main .plot .over').length >= 8")
                self.browser.run("return new Promise((resolve) => setTimeout(resolve, 1500))")
                before = self.layouts()
                for step in range(1, 9):
                    self.browser.run("const s = document.querySelector('.slider'); s.value = arguments[0]; s.dispatchEvent(new Event('input')); " + frame, step)
                self.assertLessEqual(self.layouts() - before, 8 * 3)

    def test_charts_out_of_sight_are_drawn_when_they_come_into_sight(self):
        self.open("layers", "many", "?step=1")
        self.browser.wait("return document.querySelector('.multiples .legend .value')?.dataset.exact")
        self.browser.run("[...document.querySelectorAll('main button')].find((b) => b.innerText === 'show more').click()")
        ends = [f"[...document.querySelectorAll('.multiples figure')].at({i})" for i in (0, -1)]
        first, last = [f"{figure}.querySelector('.value')?.dataset.exact" for figure in ends]
        self.browser.run(f"{ends[1]}.scrollIntoView()")
        before = self.browser.wait(f"return {last}", "it is read when it comes into sight")
        self.browser.run("window.scrollTo(0, 0)")
        self.browser.run("return new Promise((resolve) => setTimeout(resolve, 500))")
        seen = self.browser.run(f"return {first}")
        self.browser.run("const s = document.querySelector('.slider'); s.value = s.max; s.dispatchEvent(new Event('input'))")
        self.browser.wait(f"return {first} !== {json.dumps(seen)}", "what is in sight follows")
        self.assertEqual(self.browser.run(f"return {last}"), before)
        self.browser.run(f"{ends[1]}.scrollIntoView()")
        self.browser.wait(f"return {last} !== {json.dumps(before)}", "what comes into sight has the step")

    def test_long_answers_are_compressed(self):
        status, headers, body = self.viewer.get(f"/api/run?run={self.ids['many']}", {"Accept-Encoding": "gzip"})
        plain = self.viewer.get(f"/api/run?run={self.ids['many']}")[2]
        self.assertEqual((status, headers.get("Content-Encoding")), (200, "gzip"))
        import gzip
        self.assertEqual(gzip.decompress(body), plain)
        self.assertLess(len(body) * 4, len(plain))


if __name__ == "__main__":
    unittest.main()
