"""Runs of every example and of Python, in a folder and in PostgreSQL (docs/team.md): every command that reads, the
viewer's answers, its report and tapedeck.Run are the same from either. TD_POSTGRESQL is the folder of the server's programs
(the newest of Debian's)."""
import base64
import filecmp
import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import tapedeck

SOURCE = os.environ["TD_SOURCE"]
for folder in ("cli", "view"):
    sys.path.insert(0, os.path.join(SOURCE, "tests", folder))
import postgresql
from viewer import Viewer

PROGRAM = os.environ["TAPEDECK"]
EXAMPLES = os.path.join(SOURCE, "examples")
# What is trained, and settings that keep it short.
TRAINED = {
    "demo/demo.yaml": ["train.epochs=2"],
    "000-layer-errors/lstm.yaml": ["train.epochs=2"],
    "000-layer-errors/simple_rnn.yaml": ["train.epochs=2"],
    "000-layer-errors/target.yaml": ["train.epochs=2"],
    "001-results-to-csv/results.yaml": ["train.epochs=2"],
    "002-recording-outputs/digits.yaml": ["train.epochs=2"],
    "002-recording-outputs/pictures.yaml": ["train.epochs=2"],
    "003-layer-gradients/cnn.yaml": ["train.epochs=1"],
    "003-layer-gradients/deep_relu.yaml": ["train.epochs=2"],
    "003-layer-gradients/deep_sigmoid.yaml": ["train.epochs=2"],
    "004-intermediate-tensors/inside.yaml": ["train.epochs=2"],
    "004-intermediate-tensors/queue.yaml": ["train.epochs=1"],
}
TABLES = ("signals", "scalars", "stats", "histograms", "events", "examples", "notes", "config", "environment", "steps", "findings",
          "tensors", "hashes", "texts", "runs")
COMMANDS = [["show"], ["show", "--json"], ["show", "loss"], ["show", "*.error", "--steps", "3..9"], ["show", "*.kernel", "--json"],
            ["diagnose", "--no-keep", "--no-trial"], ["diagnose", "--no-keep", "--no-trial", "--json"], ["assert", "loss < 100"], ["assert", "loss > 100", "--json"],
            *(["sql", f"SELECT * FROM {table}", "--csv"] for table in TABLES),
            *(["export", "--to", form, "--out", "OUT"] for form in ("csv", "npy", "npz", "tensorboard", "sqlite", "png"))]
# Of the viewer: what it is asked of a run and of each of its signals.
OF_RUN = ("run", "steps", "steps?points=64", "files")
OF_SIGNAL = ("series?signals={id}&points=50", "series?signals={id}&stat=norm&points=20&from=3&to=40", "heat?signals={id}&columns=30",
             "heat?signals={id}&stat=mean&columns=30&from=0&to=100", "stats?signals={id}&step=7", "histograms?signal={id}&most=8&bins=1",
             "units?signal={id}", "tensor?signal={id}&step=20", "image?signal={id}&step=20", "texts?signal={id}&step=99&most=5",
             "examples?signal={id}&step=99", "projection?signal={id}&step=99", "ranks?signal={id}&columns=20")


def train_examples(folder):
    """Runs in folder, by name."""
    examples = os.path.join(os.path.dirname(folder), "examples")
    shutil.copytree(EXAMPLES, examples, ignore=shutil.ignore_patterns("runs"))
    subprocess.run([sys.executable, "running_sum.py"], cwd=os.path.join(examples, "000-layer-errors"), check=True, stdout=subprocess.DEVNULL)
    for path, settings in TRAINED.items():
        arguments = [part for setting in settings for part in ("--set", setting)]
        done = subprocess.run([PROGRAM, "train", os.path.join(examples, path), "--out", folder, "--quiet", *arguments],
                              capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode not in (0, 3):
            raise AssertionError(f"{path}: {done.stderr}")
    with tapedeck.Deck(os.path.join(folder, "python"), tags=["a", "b"], config={"rate": 0.5, "name": "x'y"}) as deck:
        deck.track("layer.output", form=["stats", "histogram"])
        deck.track("layer.output", form="tensor", to="npy")
        for step in range(1, 1700):
            deck.log(loss=float("nan") if step == 1500 else 1 / step, rate=float("inf") if step % 700 == 0 else step)
            deck.record("layer.output", np.sin(np.arange(24, dtype=np.float32).reshape(4, 6) * step))
            deck.step(step=step * 2 if step > 1200 else step)
    return sorted(os.listdir(folder))


class Team(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.maxDiff = 2000
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = os.path.join(temporary.name, "runs")
        os.mkdir(cls.folder)
        cls.names = train_examples(cls.folder)
        cls.server = postgresql.Server()
        cls.addClassCleanup(cls.server.close)
        cls.url = cls.server.url()
        subprocess.run([PROGRAM, "push", *(os.path.join(cls.folder, name) for name in cls.names), cls.url], check=True, capture_output=True)

    def places(self):
        """Of every run its folder and its place in the database."""
        return [(os.path.join(self.folder, name), f"{self.url}#{name}") for name in self.names]

    def ask(self, place, command, out):
        """(status, output, messages) where the run's place and OUT have one name."""
        arguments = [out if word == "OUT" else word for word in command]
        done = subprocess.run([PROGRAM, arguments[0], place, *arguments[1:]], capture_output=True, text=True, check=False,
                              cwd=self.folder)
        texts = [text.replace(out, "OUT").replace(place, "RUN").replace(json.dumps(place)[1:-1].replace("/", "\\/"), "RUN")
                 for text in (done.stdout, done.stderr)]
        return (done.returncode, *texts)

    def same_files(self, one, other):
        files = [sorted(path for path in glob.glob(folder + "/**", recursive=True) if os.path.isfile(path)) for folder in (one, other)]
        self.assertEqual(len(files[0]), len(files[1]))
        for path, same in zip(*files, strict=True):
            if "tfevents" in path:  # its name and first record have the time of writing
                self.assertEqual(os.path.getsize(path), os.path.getsize(same))
                continue
            self.assertEqual(os.path.relpath(path, one), os.path.relpath(same, other))
            if path.endswith(".db"):
                self.assertEqual(*(subprocess.run(["sqlite3", file, ".dump"], capture_output=True, check=True).stdout.replace(
                    os.fsencode(place), b"RUN") for file, place in ((path, one), (same, other))))
            else:
                self.assertTrue(filecmp.cmp(path, same, shallow=False), path)

    def test_every_command_prints_the_same(self):
        for folder, place in self.places():
            for command in COMMANDS:
                with tempfile.TemporaryDirectory() as out:
                    printed = [self.ask(run, command, f"{out}/{way}") for way, run in enumerate((folder, place))]
                    self.assertEqual(printed[0], printed[1], (folder, command))
                    self.assertIn(printed[0][0], (0, 1, 2), (folder, command, printed))
                    if "OUT" in command:
                        self.same_files(f"{out}/0", f"{out}/1")

    def test_lists_and_comparisons_print_the_same(self):
        listed = [[{**run, "folder": ""} for run in json.loads(subprocess.run([PROGRAM, "runs", place, "--json"], check=True,
                                                                              capture_output=True).stdout)]
                  for place in (self.folder, self.url)]
        self.assertEqual(*listed)
        self.assertEqual(*(re.sub(r" +\S*(B|KB|MB)\b", "", subprocess.run([PROGRAM, "runs", place], check=True, capture_output=True, text=True).stdout)
                           for place in (self.folder, self.url)))
        for folder, place in self.places():
            first, last = (f"{self.folder}/{self.names[0]}", f"{self.url}#{self.names[0]}")
            printed = [subprocess.run([PROGRAM, "compare", a, b], capture_output=True, text=True, check=False)
                       for a, b in ((first, folder), (last, place))]
            self.assertEqual(*(done.stdout.replace(self.folder + "/", "").replace(self.url + "#", "") for done in printed))
            itself = subprocess.run([PROGRAM, "compare", folder, place], capture_output=True, text=True, check=False).stdout
            self.assertRegex(itself, r"0 of \d+ signals? parts?")

    def answers(self, place):
        """What the viewer answers about each run."""
        viewer, found = Viewer(place), {}
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                runs = json.loads(viewer.get("/api/runs")[2])["runs"]
                if runs and not any(run["loading"] for run in runs):
                    break
                time.sleep(0.1)
            for run in runs:
                name = run["name"]
                found[name, "settings"] = json.loads(viewer.get("/api/settings")[2])["runs"][run["id"]]
                found[name, "runs"] = {key: value for key, value in run.items() if key not in ("id", "folder")}
                for what in OF_RUN:
                    found[name, what] = self.answer(viewer, run["id"], what)
                signals = json.loads(viewer.get(f"/api/run?run={run['id']}")[2])["signals"]
                for signal in {(signal["forms"], signal["kind"]): signal for signal in signals}.values():
                    for what in OF_SIGNAL:
                        found[name, signal["name"], what] = self.answer(viewer, run["id"], what.format(id=signal["id"]))
        finally:
            ended = viewer.close()
        self.assertEqual(ended, 0)
        return found

    def answer(self, viewer, run, what):
        for _ in range(400):
            status, _, body = viewer.get(f"/api/{what}{'&' if '?' in what else '?'}run={run}")
            if status != 503:
                break
            time.sleep(0.02)
        body = body.replace(run.encode(), b"ID")
        if what in ("run", "files"):
            body = re.sub(rb'"(folder|bytes)":("[^"]*"|\d+)', b"", body)
        return status, body

    def test_the_viewer_answers_the_same(self):
        one, other = self.answers(self.folder), self.answers(self.url)
        self.assertEqual(list(one), list(other))
        for key in one:
            self.assertEqual(one[key], other[key], key)
        self.assertGreater(sum(value[0] == 200 for value in one.values() if isinstance(value, tuple)), 300)

    def page_answers(self, page, place):
        """What a report has in it, with one name for the run: the page's own answers, each of them compressed."""
        answers = json.loads(re.search(r'<script type="application/json" id="report">(.*?)</script>', page, re.DOTALL)[1])["answers"]
        opened = {}
        for path, packed in answers.items():
            body = gzip.decompress(base64.b64decode(packed)).replace(place.encode(), b"RUN")
            opened[path] = re.sub(rb'"(folder|bytes)":("[^"]*"|\d+)', b"", body)
        run = re.search(rb'"id":"([^"]*)"', opened["/api/runs"])[1]
        return {path.replace(run.decode(), "ID"): body.replace(run, b"ID") for path, body in opened.items()}

    def test_reports_are_the_same(self):
        for folder, place in self.places():
            made = []
            for run in (folder, place):
                with tempfile.TemporaryDirectory() as out:
                    done = subprocess.run([PROGRAM, "report", run, "-o", f"{out}/page.html"], capture_output=True, text=True, check=False)
                    with open(f"{out}/page.html", encoding="utf-8") as file:
                        pages = self.page_answers(file.read(), run)
                    made.append((done.returncode, done.stderr.replace(out, "OUT"), list(pages), pages))
            self.assertEqual(made[0][:3], made[1][:3], folder)
            for path, body in made[0][3].items():
                self.assertEqual(body, made[1][3][path], (folder, path))
            self.assertGreater(len(made[0][3]), 3)

    def test_python_reads_the_same(self):
        for folder, place in self.places():
            one, other = tapedeck.Run(folder), tapedeck.Run(place)
            self.assertEqual(list(one), list(other))
            self.assertEqual((one.state, one.config), (other.state, other.config))
            for name in one:
                self.assertEqual(one[name].forms, other[name].forms)
                if "scalar" in one[name].forms:
                    self.assertEqual(one[name].values.tobytes(), other[name].values.tobytes(), (folder, name))


if __name__ == "__main__":
    unittest.main()
