"""The Recorder page lists a run's tracks, and changes those of a training that runs."""
import os
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser  # noqa: E402
from viewer import PROGRAM, Folder, Viewer  # noqa: E402

LONG = """
name: long
threads: 1
data: {generate: {two_moons: {examples: 90, noise: 0.1}}, batch: 16}
model: [{dense: {name: hidden, units: 8, activation: tanh}}, {dense: {name: logits, units: 2}}]
train: {loss: sparse_categorical_crossentropy, from_logits: true, epochs: 100000000}
record: [{what: [loss], every: 100 steps, to: [csv]}]
"""
ITEMS = "[...document.querySelectorAll('[aria-label=tracks] li code')].map(node => node.textContent)"
ADDED = "hidden.error every 10 form stats to sqlite"


class Tracks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.addClassCleanup(cls.folder.remove)
        with open(cls.folder / "long.yaml", "w", encoding="utf-8") as file:
            file.write(LONG)
        cls.process = subprocess.Popen([PROGRAM, "train", "long.yaml", "--quiet"], cwd=cls.folder.path)
        cls.addClassCleanup(cls.process.wait)
        cls.addClassCleanup(cls.process.kill)
        while not os.path.exists(os.path.join(cls.folder.path, "runs", "long", "metrics.csv")):
            time.sleep(0.05)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, *arguments):
        viewer = Viewer(self.folder / "runs", *arguments)
        self.addCleanup(viewer.close)
        run = viewer.first_run()
        self.browser.open(viewer.url)
        self.browser.run(f"location.hash = '#/recorder/{run}'")
        self.browser.wait(f"return ({ITEMS}).length > 0")
        return viewer, run

    def test_tracks_are_added_and_removed(self):
        self.open("--write")
        self.assertEqual(self.browser.run(f"return {ITEMS}"), ["loss every 100 to csv"])
        self.browser.run(f"""const input = document.querySelector('[aria-label="a track to add"]');
            input.value = '{ADDED}'; input.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter' }}))""")
        self.browser.wait(f"return ({ITEMS}).length == 2")
        self.assertEqual(self.browser.run(f"return {ITEMS}"), ["loss every 100 to csv", ADDED])
        self.browser.run("""const input = document.querySelector('[aria-label="a track to add"]');
            input.value = 'hidden.error every never'; input.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))""")
        self.browser.wait("return document.querySelector('[aria-label=tracks] .bad')")
        self.assertIn("never", self.browser.run("return document.querySelector('[aria-label=tracks] .bad').textContent"))
        self.browser.run(f"""document.querySelector('[aria-label="remove {ADDED}"]').click()""")
        self.browser.wait(f"return ({ITEMS}).length == 1")
        with sqlite3.connect(os.path.join(self.folder.path, "runs", "long", "run.db")) as database:
            texts = [text for text, in database.execute("select text from event where kind = 'tracks' order by id")]
        self.assertEqual(len(texts), 2, texts)
        self.assertTrue(all(ADDED in text for text in texts), texts)

    def test_a_viewer_that_only_reads_shows_the_command(self):
        viewer, run = self.open()
        self.assertIn("tapedeck tracks", self.browser.run("return document.querySelector('[aria-label=tracks]').textContent"))
        self.assertFalse(self.browser.run("return document.querySelector('[aria-label=tracks] button') !== null"))
        status, _, body = viewer.get(f"/api/tracks?run={run}&add=loss", {"Origin": viewer.address}, "POST")
        self.assertEqual(status, 405, body)


if __name__ == "__main__":
    unittest.main()
