"""Attacks a reader with mutated files: a helper under the sanitizers reads them one after the other, within limits of
memory and time, and must end each with success or a sentence.

    TD_MUTATIONS   how many, where set; else what the test says
    TD_SEED        of the mutations (1)
    TD_KEEP        a folder that files which fail are copied to"""
import os
import random
import shutil
import subprocess
import tempfile

BUILD = os.environ["TD_BUILD"]
SOURCE = os.environ["TD_SOURCE"]
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
                   ASAN_OPTIONS="hard_rss_limit_mb=2048:allocator_may_return_null=1:detect_leaks=1")
AT_ONCE = 200  # files of one process


class Attack:
    """helper: reads the files it is given, and prints the path of each before it does."""

    def __init__(self, helper, ending):
        self.command = [os.path.join(BUILD, "tests", "helpers", helper)]
        self.ending = ending
        self.failures = []
        self.count = 0

    @classmethod
    def of_target(cls, name, ending):
        """A fuzz target of tests/fuzz as the helper."""
        attack = cls(name, ending)
        attack.command = [os.path.join(BUILD, "tests", "fuzz", name), "--files"]
        return attack

    def run(self, mutations, mutate):
        """mutate(random) gives the bytes of a file."""
        mutations = int(os.environ.get("TD_MUTATIONS", mutations))
        seed = int(os.environ.get("TD_SEED", 1))
        with tempfile.TemporaryDirectory() as folder:
            for first in range(0, mutations, AT_ONCE):
                files = []
                for i in range(first, min(first + AT_ONCE, mutations)):
                    files.append(os.path.join(folder, f"{i}{self.ending}"))
                    with open(files[-1], "wb") as file:
                        file.write(mutate(random.Random(seed * 1000003 + i)))
                self.read(files)
                for path in files:
                    os.remove(path)
        self.count += mutations

    def read(self, files):
        """After a failure the rest is read by another process."""
        while files:
            result = subprocess.run([*self.command, *files], capture_output=True, env=ENVIRONMENT, check=False)
            read = result.stdout.decode().splitlines()
            if result.returncode == 0 and len(read) == len(files):
                return
            self.keep(read[-1] if read else files[0], result)
            files = files[max(len(read), 1):]

    def keep(self, path, result):
        text = result.stderr.decode(errors="replace")
        lines = [line for line in text.splitlines() if "ERROR" in line or "runtime error" in line or " #" in line]
        self.failures.append(f"{os.path.basename(path)}: exit status {result.returncode}\n  " + "\n  ".join(lines[:8]))
        if os.environ.get("TD_KEEP"):
            name = os.path.basename(self.command[0]) + "-" + os.path.basename(path)
            shutil.copy(path, os.path.join(os.environ["TD_KEEP"], name))
