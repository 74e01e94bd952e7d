"""Starts tests/helpers/crash_record, lets something happen to it, and waits until it is gone."""
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from check import Check

BUILD = os.environ["TD_BUILD"]
RECORD = os.path.join(BUILD, "tests/helpers/crash_record")
SHIM = os.path.join(BUILD, "tests/helpers/libcrash_shim.so")
SANITIZED = bool(os.environ.get("TD_SANITIZE"))
WORKERS = os.cpu_count() or 1


class Run:
    """One run of the recorder in a folder of its own, removed at the end."""

    def __init__(self, steps, flush_every, pause=0, shim=None):
        # With the shim it does not matter where the files are: in memory, where a sync is quick.
        memory = "/dev/shm" if shim is not None and os.path.isdir("/dev/shm") else None
        self.base = tempfile.mkdtemp(prefix="tapedeck-crash-", dir=memory)
        self.folder = os.path.join(self.base, "run")
        self.count_file = os.path.join(self.base, "calls")
        environment = dict(os.environ)
        if shim is not None:
            environment.update(LD_PRELOAD=SHIM, CRASH_COUNT=self.count_file)
            environment["ASAN_OPTIONS"] = "verify_asan_link_order=0"
            environment.update({f"CRASH_{key}": str(value) for key, value in shim.items()})
        # A process that finishes a write after the recorder's death holds the pipe open: the pipe's
        # end is the moment when nothing more can change.
        self.process = subprocess.Popen(
            [RECORD, self.folder, str(steps), str(flush_every), str(pause)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            shutil.rmtree(self.base)
        elif self.process.poll() is None:
            self.process.kill()

    def wait(self, kill_after=None):
        """Returns the exit code (negative: the signal); kill_after is in seconds."""
        if kill_after is not None:
            time.sleep(kill_after)
            self.process.send_signal(signal.SIGKILL)
        self.output, self.errors = self.process.communicate(timeout=120)
        return self.process.returncode

    def flushed(self):
        return max((int(step) for step in re.findall(r"flushed (\d+)\n", self.output)), default=0)

    def calls(self):
        with open(self.count_file) as file:
            return int(file.read())

    def check(self, whole=True):
        try:
            Check(self.folder, self.flushed(), whole).all()
        except Exception as error:
            raise AssertionError(f"{self.folder}: {error!r}\n{self.errors}") from error


def run_all(case, arguments):
    """case(argument) for each, several at once; prints what failed and returns the exit code."""
    failed = 0
    arguments = list(arguments)
    with concurrent.futures.ProcessPoolExecutor(WORKERS) as pool:
        futures = {pool.submit(case, argument): argument for argument in arguments}
        for future in concurrent.futures.as_completed(futures):
            try:
                future.result()
            except Exception as error:
                failed += 1
                print(f"{case.__name__}({futures[future]}): {error}", file=sys.stderr)
    print(f"{case.__name__}: {len(arguments) - failed} of {len(arguments)} as they should be")
    return failed
