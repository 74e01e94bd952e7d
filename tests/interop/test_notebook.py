"""Runs in notebooks: cells executed by IPython, HTML parsed by the standard library, figures read back from matplotlib."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from html.parser import HTMLParser

import matplotlib

matplotlib.use("agg")

import numpy as np
from IPython.core.interactiveshell import InteractiveShell

import tapedeck


class Tags(HTMLParser):
    """The names of tags, what is opened and not closed, and addresses that leave the page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.addresses = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.seen.append(tag)
        self.addresses += [value for key, value in attributes if key in ("src", "href")]

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag


class Notebook(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.deck = tapedeck.Deck(os.path.join(folder.name, "a"))
        self.deck.track("*.error", form="stats")
        for step in range(1, 41):
            self.deck.record("<b>.error", np.full(4, step, "float32"))
            self.deck.record("nan.error", np.array([1, np.nan if step == 7 else 2], "float32"))
            self.deck.log(loss=1 / step, val_loss=2 / step)
            self.deck.step()
        self.deck.finish()
        self.run_ = tapedeck.Run(self.deck.folder)

    def test_runs_and_decks_render_themselves(self):
        for thing in (self.run_, self.deck):
            html = thing._repr_html_()
            tags = Tags(html)
            self.assertEqual((tags.open, tags.addresses), ([], []))
            self.assertEqual((tags.seen.count("polyline"), tags.seen.count("tr")), (2, 2 + 1 + 4))
            self.assertEqual(tags.seen.count("b"), 1)  # a name is text, whatever it is
            self.assertIn("&lt;b&gt;.error", html)
            self.assertEqual(html.count("background:#d00"), 1)
            self.assertIn("loss 0.025", html)

    def test_no_nan_is_lost_between_cells(self):
        with tapedeck.Deck(os.path.join(self.folder, "long")) as deck:
            deck.track("h.error", form="stats")
            for step in range(1, 1001):
                deck.record("h.error", np.array([1, np.nan if step == 502 else 2], "float32"))
                deck.step()
        html = tapedeck.Run(deck.folder)._repr_html_()
        self.assertEqual(html.count("background:#d00"), 1)
        self.assertLess(html.count("title='step"), 62)

    def test_an_empty_run_renders_itself(self):
        with tapedeck.Deck(os.path.join(self.folder, "empty")) as deck:
            pass
        self.assertEqual(Tags(tapedeck.Run(deck.folder)._repr_html_()).open, [])

    def test_figures(self):
        lines = self.run_.plot("loss", "<b>.error").get_lines()
        np.testing.assert_allclose(lines[0].get_ydata(), 1 / np.arange(1, 41))
        np.testing.assert_allclose(lines[1].get_ydata(), 2 * np.arange(1, 41))
        np.testing.assert_array_equal(lines[1].get_xdata(), np.arange(1, 41))
        for name, value in (("mean", 1.0), ("min", 1.0), ("max", 1.0), ("std", 0.0)):
            self.assertEqual(self.run_.plot("<b>.error", statistic=name).get_lines()[0].get_ydata()[0], value)
        with self.assertRaisesRegex(ValueError, "statistic"):
            self.run_.plot("<b>.error", statistic="median")

    def test_cells(self):
        shell = InteractiveShell.instance()
        for cell in ("%load_ext tapedeck", f"page = %tapedeck {self.deck.folder}", f"table = %tapedeck {self.folder}"):
            shell.run_cell(cell).raise_error()
        html = shell.user_ns["page"]._repr_html_()
        self.assertIn("<iframe", html)
        self.assertGreater(len(html), 100000)
        self.assertEqual(list(shell.user_ns["table"]["name"]), ["a"])
        with self.assertRaises(FileNotFoundError):
            shell.user_ns["get_ipython"]().run_line_magic("tapedeck", "/nowhere")

    def test_the_example(self):
        with open(os.path.join(os.environ["TD_SOURCE"], "examples", "python", "notebook.ipynb"), encoding="utf-8") as file:
            cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
        shell, before = InteractiveShell.instance(), os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        results = [shell.run_cell("".join(cell["source"])) for cell in cells]
        for result in results:
            result.raise_error()
        run = results[1].result
        self.assertLess(run["loss"].at(), run["loss"].at(5) / 2)
        self.assertEqual(Tags(run._repr_html_()).seen.count("polyline"), 1)
        self.assertIn("<iframe", results[4].result._repr_html_())
        self.assertIn("notebook", list(results[5].result["name"]))

    @unittest.skipUnless(shutil.which("chromium"), "there is no chromium here")
    def test_a_page_without_a_run_in_its_address_is_the_runs(self):
        path = self.run_.report(os.path.join(self.folder, "report.html"))
        for page in ("layers", "recorder"):
            command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom",
                       f"--user-data-dir={self.folder}/browser", f"file://{path}#/{page}"]
            shown = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
            self.assertRegex(shown, f'href="#/{page}/[^"]*" aria-current="page"')


if __name__ == "__main__":
    unittest.main()
