"""Pages that execute steps of a run again: replay, origin, diff, and the tree of branches."""
import http.client
import json
import os
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser  # noqa: E402
from viewer import PROGRAM, Folder, Viewer  # noqa: E402

SMALL = """
name: small
seed: 3
threads: 1
data: {generate: {two_moons: {examples: 90, noise: 0.1}}, validation: 0.2, batch: 16}
model:
  - dense: {name: hidden, units: 8, activation: tanh}
  - dense: {name: logits, units: 2}
train: {loss: sparse_categorical_crossentropy, from_logits: true, optimizer: {adam: {learning_rate: 0.02}}, epochs: 6}
record:
  - {what: "hidden.*", every: 10 steps, form: [stats, tensor], to: [sqlite, npy]}
  - {what: [loss], every: 1 step, to: [csv]}
"""
PLANTED = """
name: planted
threads: 1
data: {train: x.npy, labels: y.npy, batch: 8, shuffle: false}
model: [{dense: {name: hidden, units: 5, activation: relu}}, {dense: {name: out, units: 1}}]
train: {loss: mse, optimizer: {sgd: {}}, epochs: 3}
"""


class Time(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.addClassCleanup(cls.folder.remove)
        cls.train(SMALL)
        cls.program("train", "--from", "runs/small@12", "--set", "train.optimizer.adam.learning_rate=0.1", "--quiet")
        cls.program("train", "--from", "runs/small-2@18", "--set", "train.optimizer.adam.learning_rate=0.001", "--quiet")
        import numpy as np
        x = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)
        x[19, 1] = np.nan
        np.save(cls.folder / "x.npy", x)
        np.save(cls.folder / "y.npy", x.sum(axis=1, keepdims=True) * 0 + 1)
        cls.train(PLANTED, 1)
        cls.viewers = {}
        for name, arguments in (("read", ()), ("write", ("--write",))):
            viewer = Viewer(cls.folder / "runs", *arguments)
            cls.addClassCleanup(viewer.close)
            viewer.first_run()
            cls.viewers[name] = viewer
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)
        for _ in range(600):
            runs = json.loads(cls.viewers["read"].get("/api/runs")[2])["runs"]
            if len(runs) == 4 and not any(run["loading"] for run in runs):
                break
            time.sleep(0.05)
        cls.ids = {run["name"]: run["id"] for run in runs}

    @classmethod
    def program(cls, *arguments, status=0):
        done = subprocess.run([PROGRAM, *arguments], cwd=cls.folder.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        assert done.returncode == status, done
        return done.stdout

    @classmethod
    def train(cls, text, status=0):
        with open(cls.folder / "experiment.yaml", "w", encoding="utf-8") as file:
            file.write(text)
        cls.program("train", "experiment.yaml", "--quiet", status=status)

    def open(self, viewer, page, run, query=""):
        self.browser.open(self.viewers[viewer].url)
        self.browser.wait_text("small")
        self.browser.run("location.hash = arguments[0]", f"#/{page}/{self.ids[run]}{query}")
        self.browser.wait(f"return document.querySelector('header nav a[aria-current]')?.firstChild.textContent.toLowerCase() === {json.dumps(page)}")

    def click(self, text):
        self.browser.wait(f"return [...document.querySelectorAll('main button')].some((b) => b.textContent.startsWith({json.dumps(text)}))", text)
        self.browser.run("[...document.querySelectorAll('main button')].find((b) => b.textContent.startsWith(arguments[0])).click()", text)

    def ask(self, viewer, path, method="POST", headers=None):
        viewer = self.viewers[viewer]
        own = {"Origin": viewer.address} if method == "POST" else {}
        status, _, body = viewer.get(path, {**own, **(headers or {})}, method)
        return status, body

    def result(self, viewer, path, run):
        status, body = self.ask(viewer, f"/api/start?run={self.ids[run]}&{path}")
        self.assertEqual(status, 200, body)
        for _ in range(600):
            found = json.loads(self.ask(viewer, f"/api/work?run={self.ids[run]}&job={json.loads(body)['job']}", "GET")[1])
            if not found["running"]:
                return found
            time.sleep(0.05)
        raise AssertionError("it never ended")

    # ---- Pages ----

    def test_a_layer_that_was_not_recorded_at_a_step_is_replayed(self):
        self.open("write", "layer", "small", "?layer=hidden&step=13")
        self.browser.wait("return /replay \\(about/.test(document.querySelector('.offer').innerText)", "what it costs")
        self.assertIn("Not recorded at step 13", self.browser.text())
        self.click("replay")
        self.browser.wait("return document.querySelector('main table thead th')?.innerText === 'at step 13' && "
                          "[...document.querySelectorAll('main table tbody tr td:nth-child(2)')].some((cell) => cell.innerText === '13')",
                          "the numbers of step 13")
        self.browser.wait("return !document.querySelector('.offer').innerText", "no offer any more")
        with sqlite3.connect(self.folder / "runs/small/run.db") as database:
            steps = {step for step, in database.execute("SELECT DISTINCT step FROM replayed")}
        self.assertIn(13, steps)
        self.assertEqual(self.browser.errors(), [])

    def test_a_layer_without_any_record_is_replayed(self):
        self.open("write", "layer", "small", "?layer=logits&step=15")
        self.click("replay")
        self.browser.wait_text("logits.output")
        self.assertEqual(self.browser.errors(), [])

    def test_a_tensor_is_replayed(self):
        with sqlite3.connect(self.folder / "runs/small/run.db") as database:
            signal, = database.execute("SELECT id FROM signal WHERE name = 'hidden.output'").fetchone()
        self.open("write", "tensor", "small", f"?signal={signal}&step=17")
        self.browser.wait_text("recorded at step 10")
        self.click("replay")
        self.browser.wait_text("recorded at step 17")

    def test_a_viewer_that_only_reads_shows_the_command(self):
        self.open("read", "layer", "small-2", "?layer=hidden&step=14")
        self.browser.wait_text("replay takes about")
        shown = self.browser.run("return document.querySelector('.offer .code').innerText")
        self.assertIn("--steps 14..14 --record 'hidden.*' --form stats,histogram --to sqlite", shown)
        self.assertEqual(self.browser.run("return document.querySelectorAll('.offer button').length"), 0)

    def test_the_origin_of_a_nan(self):
        self.open("read", "origin", "planted")
        self.click("find its origin")
        self.browser.wait_text("x.npy row 20")
        expected = json.loads(self.program("origin", "runs/planted", "--json"))
        self.assertIn(expected["text"], self.browser.text())
        self.assertEqual(self.browser.errors(), [])

    def test_where_two_runs_part_and_the_tree(self):
        self.open("read", "diff", "small", f"?with={self.ids['small-2']}")
        self.click("find where they part")
        self.browser.wait_text("They part at step 13.")
        self.assertIn("adam of layer hidden, update", self.browser.text())
        tree = self.browser.run("return document.querySelector('svg.branches').getAttribute('aria-label')")
        self.assertEqual(tree, "small; small-2 branches off from small after step 12; small-3 branches off from small-2 after step 18")
        self.browser.run("location.hash = '#/runs'")
        self.browser.wait("return document.querySelectorAll('svg.branches path').length === 3", "the tree beside the list of runs")
        self.browser.run("document.querySelectorAll('svg.branches a')[1].dispatchEvent(new MouseEvent('click', { bubbles: true }))")
        self.browser.wait("return document.querySelector('.run-name')?.innerText === 'small-2'", "its page")
        self.assertEqual(self.browser.errors(), [])

    # ---- Who may ask, and for what ----

    def test_only_pages_of_the_viewer_start_something(self):
        path = f"/api/start?run={self.ids['planted']}&do=origin"
        self.assertEqual(self.ask("read", path, "GET")[0], 405)
        self.assertEqual(self.ask("read", path, headers={"Origin": "http://evil.example"})[0], 403)
        self.assertEqual(self.ask("read", path, headers={"Cookie": ""})[0], 403)
        viewer = self.viewers["read"]
        connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=60)
        connection.request("POST", path, headers={"Cookie": viewer.cookie})  # without an Origin: no page
        self.assertEqual(connection.getresponse().status, 405)
        connection.close()

    def test_what_is_wrong_is_reported(self):
        run = self.ids["small"]
        status, body = self.ask("read", f"/api/start?run={run}&do=replay&first=3&last=3&record=loss")
        self.assertEqual((status, "--write" in body.decode()), (400, True))
        self.assertEqual(self.ask("read", f"/api/start?run={run}&do=train")[0], 400)
        self.assertIn(self.ask("read", f"/api/start?run={run}&do=diff&other=none")[0], (204, 404))
        self.assertEqual(self.ask("read", f"/api/work?run={run}&job=999", "GET")[0], 400)
        found = self.result("write", "do=replay&first=3&last=3&record=hidden.outputs&form=stats&to=sqlite", "small")
        self.assertIn("did you mean 'hidden.output'?", found["error"])
        self.assertIsNone(found["output"])
        found = self.result("read", "do=origin&what=--out", "small")
        self.assertIsNone(found["output"])
        # An option in the place of a condition is no option of the program's.
        found = self.result("read", "do=origin&what=spike&when=--version", "small")
        self.assertIsNone(found["output"])

    def test_a_viewer_that_only_reads_writes_nothing(self):
        before = self.contents()
        self.result("read", "do=origin", "planted")
        self.result("read", f"do=diff&other={self.ids['small-2']}", "small-3")
        plan = self.result("read", "do=replay&dry=1&first=20&last=20&record=hidden.*&form=tensor&to=npy", "small-3")["output"]
        self.assertEqual((plan["first"], plan["last"]), (20, 20))
        self.assertGreater(plan["bytes"], 0)
        self.assertEqual(self.contents(), before)

    def contents(self):
        return {os.path.join(folder, file): os.stat(os.path.join(folder, file)).st_mtime_ns
                for name in ("small-2", "small-3", "planted") for folder, _, files in os.walk(self.folder / f"runs/{name}")
                for file in files if not file.startswith("run.db")}


if __name__ == "__main__":
    unittest.main()
