"""Dashboards: charts that somebody chose, kept in the browser or in the run."""
import json
import os
import sqlite3
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser  # noqa: E402
from viewer import Folder, Viewer, record, train_demo  # noqa: E402

TITLES = "[...document.querySelectorAll('section[aria-label=metrics] figure figcaption > .name')].map((n) => n.title)"


class Boards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.addClassCleanup(cls.folder.remove)
        for name in ("one", "two"):
            train_demo(cls.folder.path, "--set", f"name={name}", "--set", "train.epochs=1")
        record(cls.folder / "odd", "odd")
        cls.viewer = Viewer(cls.folder.path, "--write")
        cls.addClassCleanup(cls.viewer.close)
        cls.browser = Browser(1440, 1400)
        cls.addClassCleanup(cls.browser.close)
        cls.browser.open(cls.viewer.url)
        cls.browser.wait("return document.querySelectorAll('tbody tr').length >= 3 && !document.body.innerText.includes('is being read')")
        cls.ids = {run["name"]: run["id"] for run in json.loads(cls.viewer.get("/api/runs")[2])["runs"]}

    def open(self, run, query=""):
        self.browser.run("location.hash = '#/runs'")
        self.browser.run("location.hash = arguments[0]", f"#/layers/{self.ids[run]}{query}")
        self.browser.wait(f"return document.querySelector('.run-name .name')?.title === {json.dumps(run)} && document.querySelector('section[aria-label=metrics] figure')", run)

    def titles(self, wanted):
        self.browser.wait(f"return JSON.stringify({TITLES}) === {json.dumps(json.dumps(wanted, separators=(',', ':')))}", f"charts {wanted}, not {self.browser.run('return ' + TITLES)}")

    def keep(self, name, text, button):
        """Writes a dashboard as somebody does, and keeps it."""
        self.browser.run("document.querySelector('.boards button').click()")
        self.browser.wait("return document.querySelector('dialog[open] textarea')")
        self.browser.run("""const d = document.querySelector('dialog'), text = d.querySelector('textarea');
            d.querySelector('input').value = arguments[0]; text.value = arguments[1]; text.dispatchEvent(new Event('input'));
            [...d.querySelectorAll('button')].find((b) => b.innerText === arguments[2]).click()""", name, text, button)

    def notes(self, run):
        database = sqlite3.connect(os.path.join(self.folder / run, "run.db"))
        found = database.execute("select value from run where key = 'dashboards'").fetchall()
        database.close()
        return json.loads(found[0][0]) if found and found[0][0] else {}

    def test_one_is_kept_in_the_browser_for_all_runs(self):
        self.open("one")
        self.keep("gradients", "loss, val_loss\nconv*.kernel.gradient std\nno_such_thing", "keep in this browser")
        self.titles(["loss, val_loss", "conv*.kernel.gradient std"])
        self.browser.wait_text("Nothing in this run for: no_such_thing")
        self.browser.wait("return location.hash.includes('board=gradients')")
        legend = self.browser.wait("const f = document.querySelectorAll('section[aria-label=metrics] figure')[1], v = [...f.querySelectorAll('.value')].map((n) => n.dataset.exact); return v.length === 2 && v.every(Boolean) && v")
        database = sqlite3.connect(os.path.join(self.folder / "one", "run.db"))
        wanted = [database.execute("select std from stats join signal on id = signal where name = ? order by step desc", (f"conv{i}.kernel.gradient",)).fetchone()[0] for i in (1, 2)]
        database.close()
        self.assertEqual(sorted(map(float, legend)), sorted(wanted))
        self.open("two", "?board=gradients")
        self.titles(["loss, val_loss", "conv*.kernel.gradient std"])
        self.assertEqual(self.notes("one"), {})
        self.browser.run("const s = document.querySelector('.boards select'); s.value = ''; s.dispatchEvent(new Event('change'))")
        self.browser.wait(f"return {TITLES}.includes('accuracy')", "all metrics again")
        self.browser.run("const s = document.querySelector('.boards select'); s.value = 'gradients'; s.dispatchEvent(new Event('change'))")
        self.titles(["loss, val_loss", "conv*.kernel.gradient std"])
        self.keep("gradients", "", "remove")
        self.browser.wait(f"return {TITLES}.includes('accuracy') && document.querySelectorAll('.boards option').length === 1", "it is gone")

    def test_one_is_kept_in_the_run(self):
        self.open("two")
        self.keep("mine", "accuracy, val_accuracy\n*.error norm", "keep in the run")
        self.titles(["accuracy, val_accuracy", "*.error norm"])
        self.assertEqual(self.notes("two"), {"mine": "accuracy, val_accuracy\n*.error norm"})
        self.browser.run("localStorage.clear()")
        self.open("two", "?board=mine")
        self.titles(["accuracy, val_accuracy", "*.error norm"])
        self.browser.wait("return document.querySelectorAll('section[aria-label=metrics] figure')[1].querySelectorAll('.entry').length >= 5", "a line of each layer")
        self.open("one")
        self.assertEqual(self.browser.run("return document.querySelectorAll('.boards option').length"), 1)
        self.open("two", "?board=mine")
        self.keep("mine", "x", "remove from the run")
        self.browser.wait("return document.querySelectorAll('.boards option').length === 1")
        self.assertEqual(self.notes("two"), {})

    def test_what_cannot_be_kept_is_said(self):
        self.open("odd")
        self.keep("", "loss", "keep in this browser")
        self.browser.wait_text("A dashboard needs a name.")
        self.browser.run("document.querySelector('dialog').close()")
        self.keep("long", "loss\n" * 2000, "keep in the run")
        self.browser.wait_text("of up to 4096 bytes")
        self.browser.run("document.querySelector('dialog').close()")
        self.assertNotIn("long", self.notes("odd"))

    def test_a_board_that_is_none_does_no_harm(self):
        """The note and the browser's storage are not only ours."""
        for text in ("{", "[1, 2]", "7", '{"a": 5, "b": null}', '{"<script>window.pwned=1</script>": "loss"}'):
            database = sqlite3.connect(os.path.join(self.folder / "odd", "run.db"))
            database.execute("insert or replace into run (key, value) values ('dashboards', ?)", (text,))
            database.commit()
            database.close()
            self.browser.run("localStorage.setItem('tapedeck.boards', arguments[0])", text)
            self.browser.open(self.viewer.url)
            self.browser.wait("return document.querySelector('.rows tbody tr')")
            self.open("odd", "?board=a")
            self.browser.wait(f"return {TITLES}.includes('loss')", text)
            self.assertIsNone(self.browser.run("return window.pwned || null"))
        self.browser.run("localStorage.clear()")


if __name__ == "__main__":
    unittest.main()
