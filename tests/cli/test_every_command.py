"""Every command has --to, --force, --json and --quiet, and they do what docs/commands.md says."""
import io
import json
import os
import re
import signal
import subprocess
import time
import unittest
from unittest import mock

import numpy

from program import DIGITS, PROGRAM, SMALL, SOURCE, Case

# Which commands lack an option, and why. A new command that is not named here has all of them.
SERVES = {"view", "mcp"}
NO_OUTPUT = {"rename", "rm"} | SERVES
WRITES_RUNS = {"train", "sweep", "replay", "demo", "pull", "push"}  # nothing is ever replaced
LACKS = {"--to": NO_OUTPUT, "--force": NO_OUTPUT | WRITES_RUNS, "--json": {"mcp"}, "--quiet": {"mcp"}}
RECORD = "record:\n  - {what: [loss, val_loss], every: 1 epoch, to: csv}\n"


class EveryCommand(Case):
    def commands(self):
        script = self.run_program("--completion", "bash").stdout
        found = {match[1]: set(match[2].split()) for match in re.finditer(r'^    ([a-z]+)\) options="(.*?)"', script, re.M)}
        self.assertGreater(len(found), 30)
        return found

    def small(self, *arguments):
        self.train(SMALL + RECORD, "--quiet", *arguments)

    def run_bytes(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=self.environment(), capture_output=True, timeout=600,
                              check=True).stdout

    def left(self):
        return sorted(os.listdir(self.folder))

    def test_every_command_has_them(self):
        for command, options in self.commands().items():
            for option, without in LACKS.items():
                self.assertEqual(option in options, command not in without, f"{command} {option}")
            for word in ("-V", "--version"):
                self.assertRegex(self.run_program(command, word).stdout, r"^tapedeck \d")
            self.assertIn(command, self.read_source("docs", "json.md") if command != "mcp" else command)

    def read_source(self, *parts):
        with open(os.path.join(SOURCE, *parts), encoding="utf-8") as file:
            return file.read()

    def test_every_json_has_a_schema_and_a_row(self):
        schemas = json.loads(self.read_source("docs", "schemas.json"))["$defs"]
        rows = re.findall(r"^\| (`.*?) \| `([a-z-]+)` \|", self.read_source("docs", "json.md"), re.M)
        named = {command: schema for words, schema in rows for command in re.findall(r"`([a-z]+)", words)}
        for command, options in self.commands().items():
            if "--json" in options:
                self.assertIn(named.get(command), schemas, command)

    def test_letters_mean_the_options(self):
        self.small()
        self.run_program("runs", "-q", "-o", "a.txt")
        self.assertIn("small", self.read("a.txt"))
        self.assertEqual(self.run_program("runs", "-q").stdout, "")
        self.assertEqual(self.run_program("runs", "--quiet", "--json").stdout, self.run_program("runs", "--json").stdout)

    def test_what_is_printed_goes_to_a_file(self):
        self.small()
        for words in (["runs", "--csv"], ["show", "runs/small", "loss"], ["inspect", "runs/small"], ["list", "layers", "--json"],
                      ["sql", "runs/small", "select * from stats", "--csv"], ["tracks", "runs/small"], ["check", "experiment.yaml"],
                      ["assert", "runs/small", "loss > 0"]):
            printed = self.run_program(*words).stdout
            done = self.run_program(*words, "--to", "out")
            self.assertEqual((done.stdout, self.read("out")), ("", printed), words)
            self.assertEqual(self.run_program(*words, "-o", "-").stdout, printed)
            self.assertIn("out is there already", self.run_program(*words, "--to", "out", status=1).stderr)
            self.run_program(*words, "--to", "out", "--force")
            os.remove(self.path("out"))
        self.assertEqual(self.left(), ["cache", "experiment.yaml", "runs"] if self.exists("cache") else ["experiment.yaml", "runs"])

    def test_a_finding_is_written_and_a_mistake_leaves_nothing(self):
        self.small()
        self.run_program("assert", "runs/small", "loss > 99", "-o", "out", status=1)
        self.assertIn("FAILED", self.read("out"))
        before = self.left()
        for words, status in ((["assert", "runs/small", "loss >", "-o", "new"], 2), (["show", "runs/none", "-o", "new"], 1),
                              (["sql", "runs/small", "select nothing", "-o", "new"], 1), (["runs", "--nothing", "-o", "new"], 2),
                              (["runs", "-o", "none/new"], 1), (["runs", "-o", "runs"], 1),
                              (["show", "runs/small", "loss", "nothing", "-o", "new"], 1)):
            self.assertIn("tapedeck: ", self.run_program(*words, status=status).stderr, words)
            self.assertEqual(self.left(), before, words)
        self.run_program("assert", "runs/small", "loss >", "-o", "out", "--force", status=2)
        self.assertIn("FAILED", self.read("out"))  # as it was

    def test_a_damaged_run_is_reported_and_the_others_are_written(self):
        self.small()
        os.makedirs(self.path("runs", "bad"))
        self.write("runs/bad/run.db", "no database" * 100)
        done = self.run_program("runs", "--csv", "-o", "out.csv", status=1)
        self.assertIn("bad", done.stderr)
        self.assertIn("small", self.read("out.csv"))

    def test_a_device_is_written_to_and_stays(self):
        self.run_program("list", "-o", "/dev/null")
        os.mkfifo(self.path("pipe"))
        with subprocess.Popen(["cat", self.path("pipe")], stdout=subprocess.PIPE, text=True) as reader:
            self.run_program("list", "-o", "pipe")
            self.assertIn("layers", reader.communicate(timeout=60)[0])
        self.assertTrue(self.exists("pipe"))

    def test_a_signal_leaves_no_draft(self):
        self.small()
        statement = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000000) select i from n"
        process = self.start("sql", "runs/small", statement, "--csv", "-o", "out.csv", "--seconds", "60")
        for _ in range(200):
            if any(name.endswith(".part") for name in self.left()):
                break
            time.sleep(0.05)
        else:
            self.fail("no draft")
        process.send_signal(signal.SIGINT)
        process.communicate()
        self.assertEqual([name for name in self.left() if "out" in name], [])

    def test_files_go_to_standard_output(self):
        os.mkdir(self.path("temporary"))
        self.enterContext(mock.patch.dict(os.environ, TMPDIR=self.path("temporary")))
        self.run_program("demo", "--quiet", "--to", "demo")
        run, data = "demo/runs/demo", "demo/digits.csv.gz"
        self.run_program("weights", run, "--to", "w.csv")
        self.assertEqual(self.run_program("weights", run, "--to", "-").stdout, self.read("w.csv"))
        arrays = numpy.load(io.BytesIO(self.run_bytes("weights", run, "-o", "-.npz")))
        self.assertIn("hidden.kernel", arrays)
        self.assertTrue(self.run_bytes("weights", run, "-o", "-.safetensors")[8:9] == b"{")
        self.run_program("gradients", run, data, "--layer", "logits", "--to", "g.csv", "--quiet")
        self.assertEqual(self.run_program("gradients", run, data, "--layer", "logits", "--to", "-").stdout, self.read("g.csv"))
        self.run_program("predict", run, data, "--to", "p.csv", "--to", "p.npy", "--quiet")
        self.assertEqual(self.run_program("predict", run, data, "--to", "-", "--quiet").stdout, self.read("p.csv"))
        self.assertEqual(self.run_bytes("predict", run, data, "-o", "-.npy"), self.bytes("p.npy"))
        self.assertTrue(self.run_bytes("evaluate", run, data, "-o", "-.png", "--quiet").startswith(b"\x89PNG"))
        for quiet in ([], ["--quiet"]):
            self.assertEqual(self.run_program("weights", run, "--to", "-", *quiet).stdout, self.read("w.csv"))
            self.assertTrue(self.run_program("report", run, "-o", "-", *quiet).stdout.startswith("<!doctype html>"))
            self.assertIn("<testsuite", self.run_program("assert", run, "loss > 0", "--junit", "-", *quiet).stdout)
        self.assertTrue(self.run_program("init", data, "--to", "-").stdout.strip())
        for words in (["weights", run], ["gradients", run, data], ["predict", run, data], ["evaluate", run, data], ["report", run],
                      ["export", run, "--to", "csv"]):
            done = self.run_program(*words, "--to", "-", "--json", status=2)
            self.assertEqual((done.stdout, "standard output" in done.stderr), ("", True), words)
        self.assertIn("takes one", self.run_program("predict", run, data, "-o", "-", "-o", "-.npy", status=2).stderr)
        self.assertEqual(os.listdir(self.path("temporary")), [])

    def test_export_to_one_file(self):
        self.small()
        self.run_program("export", "runs/small", "--to", "csv", "--out", "folder", "--what", "loss")
        for words in (["-o", "loss.csv"], ["--to", "csv", "--to", "loss.csv"], ["--to", "loss.csv", "--to", "csv"]):
            self.run_program("export", "runs/small", *words, "--what", "loss", "--force")
            self.assertEqual(self.read("loss.csv"), self.read("folder", "metrics.csv"))
        done = self.run_program("export", "runs/small", "-o", "-", "--what", "loss")
        self.assertEqual(done.stdout, self.read("folder", "metrics.csv"))
        self.assertIn("loss.csv is there already", self.run_program("export", "runs/small", "-o", "loss.csv", "--what", "loss",
                                                                    status=1).stderr)
        self.assertIn("this makes 2", self.run_program("export", "runs/small", "--to", "npy", "-o", "-", "--what", "loss",
                                                       status=1).stderr)
        self.assertIn("did you mean 'csv'", self.run_program("export", "runs/small", "--to", "cvs", status=2).stderr)
        self.assertIn("two formats", self.run_program("export", "runs/small", "--to", "csv", "--to", "npy", status=2).stderr)
        self.assertIn("two places", self.run_program("export", "runs/small", "--to", "a.csv", "--to", "b.csv", status=2).stderr)
        self.assertEqual([name for name in self.left() if name.startswith(".")], [])

    def test_export_of_nothing_is_noted(self):
        self.small()
        words = ["export", "runs/small", "--to", "csv"]
        for more in (["--what", "nosuch"], ["--steps", "99999.."]):
            done = self.run_program(*words, *more, "-o", more[1])
            self.assertIn("nothing that was recorded fits", done.stderr)
        self.assertNotIn("nothing", self.run_program(*words, "--what", "loss", "-o", "some").stderr)
        for option in ("--out", "-o"):
            self.assertIn("not ''", self.run_program(*words, option, "", status=2).stderr)

    def test_a_file_that_is_no_run_is_named(self):
        self.write("data.csv", "x,y\n1,2\n")
        for words in (["show", "data.csv"], ["diagnose", "data.csv"], ["export", "data.csv", "--to", "npy"]):
            done = self.run_program(*words, status=2 if words[0] == "diagnose" else 1)
            self.assertIn("data.csv is no run: its folder has neither", done.stderr)

    def test_errors_name_the_whole_path(self):
        self.small()
        os.makedirs(self.path("there"))
        name = "n" * 250 + ".csv"
        done = self.run_program("weights", "runs/small", "-o", "there/" + name, status=1)
        self.assertIn("there/" + name, done.stderr)
        os.makedirs(self.path("runs", "other"))
        self.write("runs/other/run.db", "no database")
        for words in (["show", "runs/other"], ["runs", "runs"]):
            self.assertIn("runs/other/run.db", self.run_program(*words, status=1).stderr)

    def test_export_replaces_only_exports(self):
        self.small()
        words = ["export", "runs/small", "--to", "csv", "-o", "out"]
        self.run_program(*words)
        self.assertIn("--force replaces it", self.run_program(*words, status=1).stderr)
        self.write("out/metrics.csv", "old")
        self.run_program(*words, "--force")
        self.assertIn("loss", self.read("out", "metrics.csv"))
        self.run_program("export", "runs/small", "--to", "csv", "-o", "out//", "--force")
        for name in ("thesis.tex", "training.csv", "more/digits.png"):
            os.makedirs(os.path.dirname(self.path("out", name)), exist_ok=True)
            self.write(f"out/{name}", "mine")
            self.assertIn(f"out/{name.split('/')[0]} is not a file of this export", self.run_program(*words, "--force", status=1).stderr)
            self.assertEqual(self.read("out", name), "mine")
            os.remove(self.path("out", name))
        os.rmdir(self.path("out", "more"))
        for place in ("runs/small/", "runs"):
            self.assertIn("holds a run", self.run_program("export", "runs/small", "--to", "csv", "-o", place, "--force", status=1).stderr)
        self.assertTrue(self.exists("runs", "small", "run.db"))
        self.run_program("export", "runs/none", "--to", "csv", "-o", "out", "--force", status=1)
        self.assertTrue(self.exists("out", "metrics.csv"))  # put back
        self.assertEqual([name for name in self.left() if name.endswith(".old")], [])

    def test_devices_are_written_themselves(self):
        """They are not replaced by a file, which a program that runs as root could do."""
        self.small()
        run = "runs/small"
        self.write("d.csv", "x,y,label\n" + "".join("%d,%d,%d\n" % (i % 5, i % 7, i % 2) for i in range(60)))
        for device, status in (("null", 0), ("full", 1)):
            for ending, words in (("", ["report", run]), (".png", ["evaluate", run, "d.csv", "--label", "label"]),
                                  (".csv", ["weights", run]), (".npz", ["weights", run]), (".csv", ["predict", run, "d.csv", "--label", "label"]),
                                  ("", ["init", "d.csv", "--force"]), (".xml", ["assert", run, "loss > 0", "--force", "--junit"])):
                name = device + ending
                if not self.exists(name):
                    os.symlink("/dev/" + device, self.path(name))
                words = words + [name] if words[-1] == "--junit" else words + ["--to", name]
                done = self.run_program(*words, status=status)
                self.assertEqual("No space left on device" in done.stderr, device == "full", words)
                self.assertTrue(os.path.islink(self.path(name)), words)
        self.assertIn("neither a file nor a folder",
                      self.run_program("export", run, "--to", "csv", "-o", "null", "--force", status=1).stderr)
        self.assertEqual([name for name in self.left() if name.startswith(".")], [])

    def test_junit_replaces_its_own_only(self):
        self.small()
        words = ["assert", "runs/small", "loss > 0", "--junit", "result.xml"]
        self.run_program(*words)
        self.run_program(*words)
        self.write("result.xml", "<other/>")
        self.assertIn("--force", self.run_program(*words, status=1).stderr)
        self.run_program(*words, "--force")
        self.assertIn("testsuite", self.read("result.xml"))

    def test_runs_are_written_where_to_says(self):
        self.small("--to", "there")
        self.assertTrue(self.exists("there", "small", "run.db"))
        self.run_program("push", "there/small", "--to", "tensorboard:board", "--quiet")
        self.assertTrue(self.exists("board", "small"))
        self.write("sweep.yaml", SMALL)
        self.run_program("sweep", "sweep.yaml", "--set", "seed=1,2", "--set", "train.epochs=1", "-o", "there", "-q")
        self.assertTrue(self.exists("there", "small-sweep", "table.csv"))
        self.run_program("replay", "there/small", "--steps", "1..2", "--record", "loss", "--to", "csv", "--to", "again", "-q")
        self.assertTrue(self.exists("again", "metrics.csv"))

    def test_a_folder_does_not_go_to_standard_output(self):
        self.small()
        for words in (["train", "experiment.yaml"], ["sweep", "experiment.yaml", "--set", "seed=1,2"], ["demo"], ["pull", "x#y"],
                      ["replay", "runs/small", "--steps", "1..2", "--record", "loss"]):
            self.assertIn("folder", self.run_program(*words, "-o", "-", status=2).stderr, words)
        self.assertFalse(self.exists("-"))

    def test_notes_are_silent_when_asked(self):
        self.small()
        words = ["runs", "--filter", "nothing > 3"]
        self.assertIn("note:", self.run_program(*words).stderr)
        self.assertEqual(self.run_program(*words, "-q").stderr, "")


if __name__ == "__main__":
    unittest.main()
