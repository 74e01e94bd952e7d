"""Starts the viewer, and asks it as a browser would."""
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAM = os.environ["TAPEDECK"]
BUILD = os.environ["TD_BUILD"]
SOURCE = os.environ["TD_SOURCE"]
HELPER = os.path.join(BUILD, "tests", "helpers", "view_record")
DEMO = os.path.join(SOURCE, "examples", "demo", "demo.yaml")


def record(folder, kind):
    subprocess.run([HELPER, folder, kind], check=True, timeout=300)


def train_demo(folder, *arguments):
    subprocess.run([PROGRAM, "train", DEMO, "--out", folder, "--set", "train.epochs=2", "--quiet", *arguments], check=True,
                   stdout=subprocess.DEVNULL, timeout=600)


def grow(folder):
    """A run that is being written; end it with kill()."""
    process = subprocess.Popen([HELPER, folder, "grow"])
    while not os.path.exists(os.path.join(folder, "run.db")):
        time.sleep(0.02)
    time.sleep(0.5)
    return process


class Viewer:
    def __init__(self, folder, *arguments):
        self.process = subprocess.Popen([PROGRAM, "view", folder, "--no-open", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url.startswith("http://"):
            raise AssertionError(f"no address: {self.url}{self.process.stderr.read()}")
        self.address, self.token = self.url.split("/?token=")
        self.port = int(self.address.rsplit(":", 1)[1])
        self.cookie = f"tapedeck-{self.port}={self.token}"

    def get(self, path, headers=None, method="GET"):
        """(status, headers, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers={"Cookie": self.cookie, **(headers or {})})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, dict(answer.getheaders()), body

    def first_run(self):
        """The id of the first run, once it is read."""
        for _ in range(600):
            runs = json.loads(self.get("/api/runs")[2])["runs"]
            if runs and not runs[0]["loading"]:
                return runs[0]["id"]
            time.sleep(0.05)
        raise AssertionError("the viewer lists no run")

    def close(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        return self.process.returncode


class Folder:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="tapedeck-view-")

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)
