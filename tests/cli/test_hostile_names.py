"""Whatever layers, runs, files, signals and columns are called, only text reaches a terminal."""
import json
import os
import subprocess
import unittest

from program import PROGRAM, SMALL, Case

# A terminal's title, a cursor's way up, C1's CSI, right-to-left, a line's end, not UTF-8 at all.
NAMES = ["\x1b]0;title\x07", "up\x1b[2A\x1b[31m", "c1\x9b2J\x85", "rtl\u202e\u2066", "line\u2028\u2029\ufeff",
         "bytes\udcff\udc80", "tab\ttab\nline\r"]


def hidden(text):
    """The characters of an output that a terminal would act on."""
    return sorted({c for c in text if (ord(c) < 0x20 and c not in "\n\t") or 0x7f <= ord(c) < 0xa0
                   or c in "\u061c\u200e\u200f\u2028\u2029\ufeff" or 0x202a <= ord(c) <= 0x202e
                   or 0x2066 <= ord(c) <= 0x206f or 0xdc80 <= ord(c) <= 0xdcff})


class HostileNames(Case):
    def outputs(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=self.environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, check=False)
        out = done.stdout.decode("utf-8", "surrogateescape")
        errors = done.stderr.decode("utf-8", "surrogateescape")
        self.assertEqual(hidden(out), [], f"{arguments}: stdout {out!r}")
        self.assertEqual(hidden(errors), [], f"{arguments}: stderr {errors!r}")
        self.assertGreaterEqual(done.returncode, 0, arguments)
        return out

    def events(self, name):
        """A run of event files with that tag."""
        from test_reading import event_file  # pylint: disable=import-outside-toplevel
        folder = self.path(f"events-{abs(hash(name))}")
        os.mkdir(folder)
        event_file(os.path.join(folder, "events.out.tfevents.1"), [1, 2], os.fsencode(name))
        return folder

    def test_signals_of_foreign_runs(self):
        for name in NAMES:
            folder = self.events(name)
            for command in (("show", folder), ("show", folder, name), ("runs", folder), ("compare", folder, folder),
                            ("show", folder, "--json"), ("show", folder, "none" + name),
                            ("export", folder, "--to", "csv", "--out", f"out-{abs(hash(name))}")):
                out = self.outputs(*command)
                if "--json" in command:
                    (signal,) = json.loads(out)["signals"]
                    self.assertTrue(signal["name"].startswith(name[:2]) or name[0] < " ")

    def test_runs_and_files(self):
        for name in NAMES:
            if "/" in name:
                continue
            for command in (("runs", name), ("show", name), ("train", name), ("inspect", name), ("compare", name, name),
                            ("export", name, "--to", name), ("predict", name, name), (name,), ("show", "--" + name),
                            ("weights", name, "--to", "x.csv"), ("gradients", name)):
                self.outputs(*command)
        self.train(SMALL + "record:\n  - what: loss\n", "--quiet")
        for name in NAMES:
            os.rename(self.path("runs/small"), self.path("runs", name))
            for command in (("runs",), ("runs", "--json"), ("show", os.path.join("runs", name)),
                            ("compare", os.path.join("runs", name), os.path.join("runs", name))):
                out = self.outputs(*command)
                if "--json" in command:
                    self.assertEqual(len(json.loads(out)), 1)
            os.rename(self.path("runs", name), self.path("runs/small"))

    def test_layers_and_experiments(self):
        for name in NAMES:
            if any("\udc80" <= c <= "\udcff" for c in name):
                continue
            text = SMALL.replace("name: small", f"name: {json.dumps(name)}").replace(
                "name: hidden", f"name: {json.dumps(name)}")
            text += 'record:\n  - what: "*.error"\n    form: stats\n    to: [print, csv]\n  - what: loss\n    to: [print]\n'
            self.write("experiment.yaml", text)
            for command in (("train", "experiment.yaml", "--dry-run"), ("train", "experiment.yaml"),
                            ("train", "experiment.yaml", "--json"), ("runs",), ("runs", "--json")):
                self.outputs(*command)
            runs = sorted(os.listdir(self.path("runs"))) if self.exists("runs") else []
            for run in runs[:1]:
                for command in (("show", os.path.join("runs", run)), ("inspect", os.path.join("runs", run)),
                                ("compare", os.path.join("runs", run), os.path.join("runs", runs[-1]))):
                    self.outputs(*command)

    def test_a_terminal_gets_our_colours_and_nobody_elses(self):
        folder = self.events("up\x1b[2A\x1b[31m")
        out = self.terminal("show", folder, NO_COLOR="")
        self.assertIn("\x1b[1m", out)
        self.assertNotIn("\x1b[2A", out)
        self.assertNotIn("\x1b[31m", out)
        self.assertIn(r"\x1b[2A", out)


if __name__ == "__main__":
    unittest.main()
