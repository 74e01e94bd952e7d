#!/usr/bin/env python3
"""On a network file system (network_files.c: no locks, no shared memory, other machines see changes late and in any
order): kill -9 at random moments while others read. Every file is then an exact prefix of what was recorded; readers
always saw a prefix, never waited long, and never called a run crashed while it was recorded. TD_KILLS: how often (40), TD_SEED:
the first one's random numbers (0), TD_AT_ONCE: how many runs at a time (2)."""
import concurrent.futures
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

from check import Check, value
from driver import BUILD, RECORD, SANITIZED

NETWORK = os.path.join(BUILD, "tests/helpers/network_files")
TAPEDECK = os.environ["TAPEDECK"]
PATIENCE = 120  # seconds, after which a reader counts as hanging


class Mount:
    def __init__(self, folder, delay):
        self.point = tempfile.mkdtemp(prefix="tapedeck-mount-")
        self.process = subprocess.Popen([NETWORK, folder, str(delay), self.point, "-f"])
        for _ in range(200):
            if os.path.ismount(self.point):
                return
            time.sleep(0.05)
        raise SystemExit("the file system could not be mounted")

    def close(self):
        subprocess.run(["fusermount3", "-u", "-z", self.point], check=False)
        self.process.terminate()
        self.process.wait()
        os.rmdir(self.point)


class Reader(threading.Thread):
    """Reads a run over and over, as a program of this or of another machine."""

    def __init__(self, folder, node):
        super().__init__()
        self.folder, self.stop, self.reads, self.last, self.error = folder, False, 0, 0, None
        self.environment = dict(os.environ)
        if node:
            self.environment["TAPEDECK_NODE"] = node
        self.states = []

    def ask(self, *arguments):
        done = subprocess.run([TAPEDECK, *arguments], env=self.environment, capture_output=True,
                              text=True, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    def read(self):
        code, out, err = self.ask("sql", self.folder, "--csv",
                                  "select step, value from scalars where signal = 'loss' order by step")
        if code:
            assert "no run" in err or "No such file" in err, err
            return
        steps = [line.split(",") for line in out.split("\n")[1:] if line]
        assert [int(step) for step, _ in steps] == list(range(1, len(steps) + 1)), out[:200]
        assert all(float(number) == float(value(int(step), 1)) for step, number in steps)
        self.reads += len(steps) > 0
        self.last = max(self.last, len(steps))

    def run(self):
        try:
            while not self.stop:
                self.read()
                before = time.monotonic()
                code, out, _ = self.ask("runs", os.path.dirname(self.folder), "--json")
                if code == 0 and out.strip():
                    found = json.loads(out)
                    for run in found.get("runs", found) if isinstance(found, dict) else found:
                        self.states.append((before, time.monotonic(), run.get("state")))
        except Exception as error:  # shown by the test
            self.error = error


def killed(seed, backing, here, there):
    chance = random.Random(seed)
    name = f"{seed}/run"
    os.mkdir(os.path.join(backing, str(seed)))
    recorder = subprocess.Popen([RECORD, os.path.join(here, name), str(10**9), str(chance.choice([7, 50, 10**9])),
                                 str(chance.choice([0, 300, 2000]))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    readers = [Reader(os.path.join(there, name), "elsewhere"), Reader(os.path.join(here, name), None)]
    for reader in readers:
        reader.start()
    time.sleep(chance.uniform(0.05, 1.5 if SANITIZED else 0.6))
    dead = time.monotonic()
    recorder.send_signal(signal.SIGKILL)
    out, err = recorder.communicate(timeout=PATIENCE)
    assert recorder.returncode == -signal.SIGKILL, f"ended by itself: {recorder.returncode} {err}"
    for reader in readers:
        reader.stop = True
        reader.join()
        assert reader.error is None, f"a reader: {reader.error!r}"
        wrong = [state for _, after, state in reader.states if after < dead and state != "running"]
        assert not wrong, f"a live run was called {wrong}"
    flushed = max((int(line.split()[1]) for line in out.splitlines() if line.startswith("flushed ")), default=0)
    folder = os.path.join(backing, name)
    if os.path.exists(os.path.join(folder, "run.db")):
        code, out, err = readers[1].ask("runs", os.path.join(here, str(seed)), "--json")
        assert code == 0 and '"crashed"' in out, f"{out} {err}"
    Check(folder, flushed).all()
    shutil.rmtree(os.path.join(backing, str(seed)))
    return sum(reader.reads for reader in readers)


def recorded_to_the_end(backing, here, there):
    """A run whose log becomes long, so that run.db is replaced while it is read; then it is closed."""
    reader = Reader(os.path.join(there, "whole/run"), "elsewhere")
    os.mkdir(os.path.join(backing, "whole"))
    recorder = subprocess.Popen([RECORD, os.path.join(here, "whole/run"), "4000", "20", "0"], stdout=subprocess.DEVNULL)
    reader.start()
    code = recorder.wait(timeout=10 * PATIENCE)
    reader.stop = True
    reader.join()
    assert code == 0 and reader.error is None, f"{code} {reader.error!r}"
    folder = os.path.join(backing, "whole/run")
    assert sorted(n for n in os.listdir(folder) if "run.db" in n) == ["run.db"], os.listdir(folder)
    database = sqlite3.connect(os.path.join(folder, "run.db"))
    assert database.execute("PRAGMA application_id").fetchone()[0] > 1, "run.db was never replaced while it was written"
    assert database.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    database.close()
    Check(folder, 4000).all()
    code, out, err = reader.ask("runs", os.path.join(there, "whole"), "--json")
    assert code == 0 and '"finished"' in out, f"{out} {err}"
    shutil.rmtree(os.path.join(backing, "whole"))


def main():
    if not os.path.exists("/dev/fuse") or not os.path.exists(NETWORK):
        print("SKIPPED: no /dev/fuse here, or no libfuse3-dev when this was built: network file systems are NOT tested",
              file=sys.stderr)
        return 0
    kills = int(os.environ.get("TD_KILLS", 12 if SANITIZED else 40))
    first = int(os.environ.get("TD_SEED", 0))
    failed = reads = 0
    backing = tempfile.mkdtemp(prefix="tapedeck-network-")
    here, there = Mount(backing, 0), Mount(backing, 200)
    try:
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("TD_AT_ONCE", 2))) as pool:
            waiting = {pool.submit(killed, seed, backing, here.point, there.point): seed for seed in range(first, first + kills)}
            for done in concurrent.futures.as_completed(waiting):
                try:
                    reads += done.result()
                except Exception as error:
                    failed += 1
                    print(f"killed({waiting[done]}): {error!r}", file=sys.stderr)
        recorded_to_the_end(backing, here.point, there.point)
    finally:
        here.close()
        there.close()
    if not failed:
        shutil.rmtree(backing)
    print(f"{kills - failed} of {kills} as they should be; {reads} reads of a run with records")
    return failed > 0 or reads == 0


if __name__ == "__main__":
    sys.exit(main())
