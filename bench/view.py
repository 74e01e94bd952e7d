"""The viewer on a large run, beside TensorBoard on the same values: ./dev bench view [--steps N] [--signals N]

1 000 signals of 10 000 steps, 10 million scalars. How long until the first page has its data, what a zoom costs
at the server, how much memory that takes; then the same from event files, and TensorBoard on these (where it
is on the PATH): how long until all values are there, and how many each can show.
At last, what an open page costs a training in CPU time.
"""
import argparse
import http.client
import json
import os
import random
import resource
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, os.pardir)
BUILD = os.path.join(ROOT, "build")
PROGRAM = os.path.join(BUILD, "tapedeck")


class Viewer:
    def __init__(self, folder):
        self.started = time.monotonic()
        self.process = subprocess.Popen([PROGRAM, "view", folder, "--no-open"], stdout=subprocess.PIPE, text=True)
        self.address, token = self.process.stdout.readline().strip().split("/?token=")
        self.port = int(self.address.rsplit(":", 1)[1])
        self.headers = {"Cookie": f"tapedeck-{self.port}={token}", "Accept-Encoding": "gzip"}
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def get(self, path):
        while True:
            self.connection.request("GET", path, headers=self.headers)
            answer = self.connection.getresponse()
            body = answer.read()
            if answer.status != 503:
                return body
            time.sleep(0.05)

    def runs(self):
        while True:
            runs = json.loads(self.get("/api/runs"))["runs"]
            if runs and not runs[0]["loading"]:
                return runs
            time.sleep(0.02)

    def series(self, run, signals, first="", last="", points=1200):
        body = self.get(f"/api/series?run={run}&signals={','.join(map(str, signals))}&stat=&from={first}&to={last}&points={points}")
        size = struct.unpack("<I", body[:4])[0]
        return json.loads(body[4:4 + size])["series"], body[4 + size:]

    def memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return max(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))

    def close(self):
        self.process.terminate()
        self.process.wait()


def first_page(viewer):
    """What the page asks for before it draws: itself, the runs, the run, its steps, the first charts."""
    for path in ("/", "/app.js", "/app.css"):
        viewer.get(path)
    run = viewer.runs()[0]["id"]
    signals = json.loads(viewer.get(f"/api/run?run={run}"))["signals"]
    viewer.get(f"/api/steps?run={run}&points=512")
    for signal in signals[:12]:
        viewer.series(run, [signal["id"]])
    return run, signals, time.monotonic() - viewer.started


def measure(folder, steps, events):
    viewer = Viewer(folder)
    run, signals, first = first_page(viewer)
    zooms, hidden = [], 0
    for _ in range(200):
        signal = random.choice(signals)
        span = random.choice([steps, steps // 4, steps // 20, 200])
        start = random.randrange(1, max(2, steps - span))
        begun = time.monotonic()
        viewer.series(run, [signal["id"]], start, start + span)
        zooms.append(time.monotonic() - begun)
    begun, values = time.monotonic(), 0
    for i in range(0, len(signals), 50):
        part, data = viewer.series(run, [signal["id"] for signal in signals[i:i + 50]], points=600)
        values += sum(entry["values"] for entry in part)
        at = 0
        for entry in part:
            greatest = struct.unpack_from(f"<{entry['count']}d", data, at + 4 * 8 * entry["count"])
            hidden += max(greatest) < 900
            at += 6 * 8 * entry["count"]
    everything = time.monotonic() - begun
    print(f"  {'all read, and the first page, after' if events else 'first page'} {first:.2f} s{'' if events else ' (goal 1)'}; a zoom {statistics.median(zooms) * 1000:.1f} ms, at most {max(zooms) * 1000:.0f} ms (goal 100); "
          f"all {len(signals)} charts {everything:.1f} s; {viewer.memory():.0f} MB at most (goal 150)")
    print(f"  values that the charts stand for: {values:,}; spikes hidden: {hidden} of {len(signals)}")
    viewer.close()


def tensorboard(folder, signals, steps):
    program = shutil.which("tensorboard")
    if not program:
        print("  TensorBoard: not measured; it is not on the PATH")
        return
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    started = time.monotonic()
    process = subprocess.Popen([program, "--logdir", folder, "--port", str(port), "--host", "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    shown, got = [], 0.0
    try:
        while time.monotonic() - started < 900 and not (shown and shown[-1][1] >= steps):
            time.sleep(0.5)
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("GET", "/data/plugin/scalars/tags")
                tags = json.loads(connection.getresponse().read())
                run, names = next(iter(tags.items()))
                last = f"metric{signals - 1}"
                if last in names:
                    connection.request("GET", "/data/plugin/scalars/scalars?" + urllib.parse.urlencode({"run": run, "tag": last}))
                    shown = json.loads(connection.getresponse().read())
                got = time.monotonic() - started
            except (OSError, ValueError, StopIteration):
                continue
        memory = 0
        for entry in os.listdir("/proc"):
            if entry.isdigit() and os.path.exists(f"/proc/{entry}/stat"):
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    group = file.read().rsplit(")", 1)[1].split()[2]
                if int(group) == process.pid:
                    with open(f"/proc/{entry}/status", encoding="ascii", errors="replace") as file:
                        memory += sum(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
        print(f"  TensorBoard: {'all read after' if shown and shown[-1][1] >= steps else 'not all read after'} {got:.1f} s; {memory:.0f} MB at most; "
              f"values of a tag that it shows: {len(shown):,} of {steps:,}")
    finally:
        process.terminate()
        process.wait()


def training(folder):
    """CPU seconds of a training, in turns without and with a page that follows it."""
    experiment = os.path.join(ROOT, "examples", "demo", "demo.yaml")
    alone, beside = [], []
    for turn in range(6):
        runs = os.path.join(folder, f"train{turn}")
        os.mkdir(runs)
        viewer = Viewer(runs) if turn % 2 else None
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.Popen([PROGRAM, "train", experiment, "--out", runs, "--quiet", "--set", "train.epochs=36"], stdout=subprocess.DEVNULL)
        while child.poll() is None:
            if viewer:  # what the page does when it is told of news, once a second
                run = viewer.runs()[0]["id"] if os.path.exists(os.path.join(runs, "demo", "run.db")) else None
                if run:
                    signals = json.loads(viewer.get(f"/api/run?run={run}"))["signals"]
                    viewer.series(run, [signal["id"] for signal in signals if signal["forms"] & 64])
                    errors = ",".join(str(signal["id"]) for signal in signals if signal["kind"] == "error")
                    viewer.get(f"/api/heat?run={run}&signals={errors}&stat=norm&from=1&to=2000&columns=1000")
            time.sleep(1)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        (beside if viewer else alone).append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if viewer:
            viewer.close()
    ratio = min(beside) / min(alone)
    print(f"training: {min(alone):.2f} s of CPU alone, {min(beside):.2f} s beside an open page: {100 * (ratio - 1):+.1f} % (goal 1)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--only", choices=["run", "events", "training"])
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="tapedeck-bench-")
    try:
        for kind, sink in (("run", "sqlite"), ("events", "tensorboard")):
            if options.only not in (None, kind):
                continue
            runs = os.path.join(folder, kind)
            os.mkdir(runs)
            subprocess.run([os.path.join(BUILD, "bench", "view_record"), os.path.join(runs, "large"), str(options.signals), str(options.steps), sink], check=True)
            if kind == "events":
                for name in os.listdir(os.path.join(runs, "large")):
                    if not name.startswith("events"):
                        path = os.path.join(runs, "large", name)
                        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
            print(f"{options.signals * options.steps:,} scalars in {options.signals} signals, {'run.db' if kind == 'run' else 'event files'}")
            measure(runs, options.steps, kind == "events")
            if kind == "events":
                tensorboard(runs, options.signals, options.steps)
        if options.only in (None, "training"):
            training(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
