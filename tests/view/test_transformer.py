"""The page Transformer: heads over time, spectra, the rows of a spike, maps; with numbers from run.db and NumPy."""
import json
import os
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser  # noqa: E402
from viewer import PROGRAM, SOURCE, Folder, Viewer  # noqa: E402

MORE = """
  - {what: "*.map", every: 30 steps, sample: 2, form: tensor, to: [npy]}
  - {what: ["attention*kernel.spectral_norm", "*kernel.stable_rank"], every: 10 steps, to: [sqlite]}
  - {what: loss, every: 1 step, to: [sqlite]}
"""


class Transformer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.addClassCleanup(cls.folder.remove)
        with open(os.path.join(SOURCE, "examples", "transformer", "transformer.yaml"), encoding="utf-8") as file:
            text = file.read().replace("../data", os.path.join(SOURCE, "examples", "data"))
        with open(cls.folder / "network.yaml", "w", encoding="utf-8") as file:
            file.write(text + MORE)
        for more in ([], ["--set", "name=plain", "--set", "record.2.to=[sqlite]", "--set", "record.2.form=stats"]):
            subprocess.run([PROGRAM, "train", cls.folder / "network.yaml", "--out", cls.folder.path, "--quiet", "--set", "train.epochs=2", *more],
                           check=True, timeout=300)
        cls.run_folder = cls.folder / "transformer"
        cls.viewer = Viewer(cls.folder.path)
        cls.addClassCleanup(cls.viewer.close)
        cls.viewer.first_run()
        cls.ids = {run["name"]: run["id"] for run in json.loads(cls.viewer.get("/api/runs")[2])["runs"]}
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        cls.browser.open(cls.viewer.url)

    def sql(self, query):
        """Rows of texts."""
        done = subprocess.run([PROGRAM, "sql", self.run_folder, query], capture_output=True, text=True, check=True)
        return [line.split() for line in done.stdout.splitlines()[1:]]

    def open(self, query="", run="transformer"):
        self.browser.run("location.hash = '#/runs'")
        self.browser.run("location.hash = arguments[0]", f"#/transformer/{self.ids[run]}{query}")
        self.browser.wait("return document.querySelectorAll('main section h2').length > 0")

    def test_heads_are_those_of_the_file(self):
        self.open("?section=attention")
        self.browser.wait("return document.querySelector('main figure figcaption')?.innerText.includes('heads × time')")
        entropy = numpy.load(os.path.join(self.run_folder, "attention1.entropy.npy"))
        steps = numpy.load(os.path.join(self.run_folder, "attention1.entropy.steps.npy"))
        shown = self.browser.run("""const over = document.querySelector('.heat .over'), box = over.getBoundingClientRect();
            over.scrollIntoView();
            const at = over.getBoundingClientRect();
            over.dispatchEvent(new PointerEvent('pointermove', { clientX: at.right - 14, clientY: at.top + 20, bubbles: true }));
            return new Promise((resolve) => setTimeout(() => resolve(document.querySelector('.readout').innerText), 200));""")
        self.assertIn("h0 · attention1", shown)
        self.assertAlmostEqual(float(shown.split()[-1]), entropy[-1, :, 0].astype(float).mean(), delta=1e-6)
        self.assertIn(str(steps[-1]), shown)
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('.key .quiet')].map((e) => e.innerText.split(' · ')[1])[0]"), "linear")
        rows = self.browser.run("return document.querySelectorAll('.heat .over')[0].getAttribute('aria-label')")
        self.assertIn("Entropy of attention", rows)

    def test_maps_are_pictures_of_each_head(self):
        self.open("?section=attention")
        self.browser.run("document.querySelector('[aria-label=\"attention maps\"]').scrollIntoView()")
        self.browser.wait("return document.querySelectorAll('[aria-label=\"attention maps\"] .pictures figure').length === 8")

    def test_one_click_names_the_rows_of_the_largest_spike(self):
        self.open("?section=rows")
        self.browser.wait("return !document.querySelector('main button[type=button]:not([aria-label])')?.disabled && document.querySelector('main tbody tr')")
        self.browser.run("[...document.querySelectorAll('main button')].find((b) => b.innerText.includes('largest spike')).click()")
        step = self.browser.wait("return Number(/step ([\\d\\u202f]+), /.exec(document.querySelector('main .controls .quiet').innerText)?.[1].replace(/\\D/g, '')) || 0")
        losses = dict(self.sql("select step, value from scalars where signal = 'loss'"))
        self.assertIn(str(step), losses)
        recorded = self.sql(f"""select step, sample from examples where signal = 'loss.rows' and step = (select max(step) from examples
            where signal = 'loss.rows' and step <= {step}) order by json_extract(value, '$[0]') desc limit 1""")
        if not recorded:
            self.browser.wait_text("Nothing at or before step")
            return
        at, sample = recorded[0]
        first = self.browser.wait(f"return document.querySelector('main section').innerText.includes('Step {at}:') && document.querySelector('main tbody tr td').innerText")
        self.assertEqual(first.replace("\u202f", ""), sample)
        self.assertEqual("were not recorded" in self.browser.text(), str(step) != at)

    def test_spectra_have_a_line_for_each_signal(self):
        self.open("?section=spectra")
        names = self.browser.wait("const found = [...document.querySelectorAll('main .legend')].map((e) => e.innerText).join(' '); return found.includes('sum3') && found")
        self.assertIn("sum3.output", names)

    def test_a_run_without_tensors_has_rows_of_layers(self):
        self.open("?section=attention", "plain")
        self.browser.wait("return document.querySelector('main figure figcaption')?.innerText.includes('layers × time')")
        self.browser.wait_text("2 of 2 layers have one row, the mean over heads")

    def test_light_dark_and_a_phone(self):
        for width in (1280, 390):
            for scheme in ("light", "dark"):
                self.browser.size(width, 900)
                self.browser.scheme(scheme)
                self.open()
                self.browser.wait("return document.querySelectorAll('main section').length >= 4")
                self.assertTrue(self.browser.run("return document.documentElement.scrollWidth <= innerWidth"), (width, scheme))
        self.browser.size(1280, 900)
        self.browser.scheme("light")


if __name__ == "__main__":
    unittest.main()
