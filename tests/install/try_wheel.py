"""An installed wheel, in any system and with nothing but Python beside it: the package records and reads back, the
program reads the same run, and its viewer answers. $TD_DEMO, if set, is what the demo trains.

    python try_wheel.py
"""
import array
import http.client
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import unittest

import tapedeck

PROGRAM = os.path.join(sysconfig.get_path("scripts"), "tapedeck")


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.run_folder = os.path.join(cls.folder.name, "a")
        with tapedeck.Deck(cls.run_folder) as deck:
            deck.track("*.output", form=["tensor", "stats", "histogram", "image"], to=["npy", "csv", "tensorboard", "png"])
            for step in range(1, 4):
                values = array.array("f", [step * i for i in range(64)])
                deck.record("layer.output", memoryview(values).cast("B").cast("f", (8, 8)))
                deck.log(loss=1 / step)
                deck.step()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_package_reads_what_it_recorded(self):
        run = tapedeck.Run(self.run_folder)
        self.assertEqual(run.problems, [])
        self.assertEqual(run.state, "finished")
        with open(os.path.join(self.run_folder, "metrics.csv"), encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines()[0].split(","), ["epoch", "step", "loss"])

    def test_the_program_reads_what_the_package_recorded(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "csv")
            subprocess.run([PROGRAM, "export", self.run_folder, "--what", "loss", "--to", "csv", "--out", out], check=True,
                           stdout=subprocess.DEVNULL, timeout=60)
            file = open(os.path.join(out, "metrics.csv"), encoding="utf-8")
        with file:
            rows = [line.split(",") for line in file.read().splitlines()]
        column = rows[0].index("loss")
        self.assertEqual([float(row[column]) for row in rows[1:]], [1.0, 0.5, 1 / 3])

    def test_the_viewer_answers(self):
        process = subprocess.Popen([PROGRAM, "view", self.folder.name, "--no-open"], stdout=subprocess.PIPE, text=True)
        try:
            address, token = process.stdout.readline().strip().split("/?token=")
            port = int(address.rsplit(":", 1)[1])

            def ask(path):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET", path, headers={"Cookie": f"tapedeck-{port}={token}"})
                answer = connection.getresponse()
                body = answer.read()
                self.assertEqual(answer.status, 200, path)
                return body

            ask("/")
            runs = []
            for _ in range(600):  # it answers while it still reads the folder
                runs = [run["name"] for run in json.loads(ask("/api/runs"))["runs"]]
                if runs:
                    break
                time.sleep(0.1)
            self.assertEqual(runs, ["a"])
        finally:
            process.terminate()
            process.stdout.close()
            process.wait()

    def test_the_demo_needs_no_clone(self):
        with tempfile.TemporaryDirectory() as folder:
            if "TD_DEMO" in os.environ:
                os.mkdir(os.path.join(folder, "tapedeck-demo"))
                shutil.copy(os.environ["TD_DEMO"], os.path.join(folder, "tapedeck-demo", "demo.yaml"))
            done = subprocess.run([sys.executable, "-m", "tapedeck", "demo"], cwd=folder, capture_output=True, text=True, check=True, timeout=1800)  # emulated, it takes minutes
            self.assertIn("val_accuracy", done.stdout)
            self.assertEqual(tapedeck.Run(os.path.join(folder, "tapedeck-demo", "runs", "demo")).state, "finished")

    def test_the_module_is_the_program(self):
        version = subprocess.run([PROGRAM, "--version"], capture_output=True, check=True, text=True, timeout=60).stdout
        self.assertEqual(version.split()[1], tapedeck.__version__)
        module = subprocess.run([sys.executable, "-m", "tapedeck", "--version"], capture_output=True, check=True, text=True, timeout=60)
        self.assertEqual(module.stdout, version)


if __name__ == "__main__":
    print(platform.machine(), "CPython", platform.python_version(), *platform.libc_ver())
    unittest.main()
