#!/usr/bin/env python3
"""A whole `tapedeck train` with checkpoints and every sink, and a disk that fails at one call, or is full
from one call on: training never stops for it, the model is there, and exit status 3 says what is missing."""
import contextlib
import glob
import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

from driver import SANITIZED, SHIM, run_all

PROGRAM = os.environ["TAPEDECK"]
with open(os.path.join(os.environ["TD_SOURCE"], "tests", "every_sink.yaml")) as file:
    EXPERIMENT = file.read()


class Training:
    def __init__(self, **shim):
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="tapedeck-train-", dir=memory)
        self.counted = os.path.join(self.folder, "calls")
        with open(os.path.join(self.folder, "e.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT)
        self.train(**shim)

    def train(self, *arguments, **shim):
        environment = dict(os.environ, LD_PRELOAD=SHIM, CRASH_COUNT=self.counted,
                           ASAN_OPTIONS="verify_asan_link_order=0")
        environment.update({f"CRASH_{key}": str(value) for key, value in shim.items()})
        done = subprocess.run([PROGRAM, "train", "e.yaml", *arguments], cwd=self.folder,
                              env=environment, capture_output=True, text=True, timeout=300,
                              check=False)
        self.status, self.errors = done.returncode, done.stderr

    def resume(self, **shim):
        self.train("--resume", "runs/run", **shim)

    def weights(self):
        """Without the header, which has the time."""
        with open(os.path.join(self.folder, "runs", "run", "model.safetensors"), "rb") as file:
            data = file.read()
        return data[8 + int.from_bytes(data[:8], "little"):]

    def files(self):
        """Names and hashes of what does not depend on the time or on how often it was interrupted."""
        found = {}
        for path in glob.glob(os.path.join(self.folder, "runs", "run", "**"), recursive=True):
            name = os.path.relpath(path, os.path.join(self.folder, "runs", "run"))
            if name.endswith((".csv", ".npy", ".png")):
                with open(path, "rb") as file:
                    found[name] = hashlib.md5(file.read()).hexdigest()
        with contextlib.closing(sqlite3.connect(os.path.join(self.folder, "runs", "run", "run.db"))) as database:
            found["tensors of run.db"] = list(database.execute(
                "SELECT name, step, file, record FROM tensor JOIN signal ON signal = id ORDER BY 1, 2, 3, 4"))
        return found

    def state(self):
        with contextlib.closing(sqlite3.connect(os.path.join(self.folder, "runs", "run", "run.db"))) as database:
            return database.execute("SELECT value FROM run WHERE key = 'state'").fetchone()[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)

    def has(self, *parts):
        return os.path.exists(os.path.join(self.folder, "runs", "run", *parts))

    def calls(self):
        with open(self.counted, encoding="utf-8") as file:
            return int(file.read())


def failed_once(case):
    mode, call, last = case
    with Training(MODE=mode, AT=call, LAST=last) as run:
        assert run.status in (0, 1, 3), f"{run.status} {run.errors}"
        if run.status == 1:  # it could not begin, or the model itself could not be written
            full = last > 1 and "model.safetensors" in run.errors
            assert not run.has() or full, run.errors
        else:
            assert run.has("model.safetensors"), run.errors
        if run.status == 3:
            assert re.search(r"note: not recorded: .*; training goes on\n", run.errors), run.errors
            assert re.search(r"trained, the model is in runs/run, but not everything was recorded: ",
                             run.errors), run.errors
        elif run.status == 0:
            assert not run.errors, run.errors


def failed_after_resuming(case):
    """Killed in the middle, then gone on with on a disk that fails once, or is full from then on; where that could not
    end in a model, the next time does."""
    mode, call, last, kill, expected = case
    with Training(MODE="kill", AT=kill) as run:
        assert run.status == -9, f"{run.status} {run.errors}"
        run.resume(MODE=mode, AT=call, LAST=last)
        assert run.status in (0, 1, 3), f"{run.status} {run.errors}"
        if run.status == 1:
            assert run.errors.startswith("tapedeck: "), run.errors
            run.resume(MODE="count")
            assert run.status in (0, 3) or "steps are done" in run.errors, f"{run.status} {run.errors}"
        assert run.weights().hex() == expected, "another model"


def killed_and_resumed(case):
    """Killed before any one call: the run goes on from its checkpoint, has the files that it would have had
    anyway, and is then finished, also where only its state was left to write."""
    call, expected = case
    with Training(MODE="kill", AT=call) as run:
        assert run.status in (-9, 0), f"{run.status} {run.errors}"
        if run.status == 0 or not glob.glob(os.path.join(run.folder, "runs", "run", "checkpoints", "step-*")):
            return
        run.resume(MODE="count")
        if run.status == 1:
            assert "steps are done" in run.errors, run.errors
        else:
            assert run.status == 0, f"{run.status} {run.errors}"
        assert run.state() == "finished"
        files = run.files()
        assert set(files) == set(expected), set(files) ^ set(expected)
        different = [name for name in files if files[name] != expected[name]]
        assert not different, different


if __name__ == "__main__":
    with Training(MODE="count") as counting:
        assert counting.status == 0, counting.errors
        total, model, files = counting.calls(), counting.weights().hex(), counting.files()
    middle = total * 2 // 3
    with Training(MODE="kill", AT=middle) as killed:
        killed.resume(MODE="count")
        assert killed.status == 0 and killed.weights().hex() == model, killed.errors
        resumed = killed.calls()
    step = 23 if SANITIZED else 1
    cases = [(mode, n, 1) for mode in ("ENOSPC", "EIO") for n in range(1, total + 1, step)]
    cases += [("ENOSPC", n, 10**9) for n in range(1, total + 1, 5 * step)]  # and it stays full
    failures = run_all(failed_once, cases)
    cases = [(mode, n, 1, middle, model) for mode in ("ENOSPC", "EIO") for n in range(1, resumed + 1, step)]
    cases += [("ENOSPC", n, 10**9, middle, model) for n in range(1, resumed + 1, 5 * step)]
    failures += run_all(failed_after_resuming, cases)
    # and each of the last, between which the model and then the run's state are written
    cases = [(n, files) for n in [*range(1, total - 30, step), *range(total - 30, total + 1)]]
    sys.exit(failures + run_all(killed_and_resumed, cases) > 0)
