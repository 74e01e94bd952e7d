#!/usr/bin/env python3
"""Opening a run of many ranks: 64 ranks, 1 000 metrics, 1 000 recorded steps, as the viewer opens it. view_record writes one rank,
which is then copied. Prints the seconds of processor time and by the clock, of one rank, of all, and of one signal of all
ranks against 64 times that of one rank; and how long the viewer takes from its start until it has read the run. Usage: bench/ranks.py BUILD [RANKS]"""
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def seconds(command):
    best = (1e9, 1e9)
    for _ in range(5):
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, (spent, time.monotonic() - start))
    return best


def read_by_viewer(folder, build):
    os.environ.update(TAPEDECK=os.path.join(build, "tapedeck"), TD_BUILD=build, TD_SOURCE=SOURCE)
    sys.path.insert(0, os.path.join(SOURCE, "tests", "view"))
    from viewer import Viewer
    start = time.monotonic()
    viewer = Viewer(folder, "--port", "0")
    viewer.first_run()
    spent = time.monotonic() - start
    viewer.close()
    return spent


def main():
    build, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 64
    program = os.path.join(build, "tapedeck")
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        os.mkdir(run)
        first = os.path.join(run, "rank-00000")
        subprocess.run([os.path.join(build, "bench", "view_record"), first, "1000", "1000", "sqlite"], check=True)
        for rank in range(1, count):
            shutil.copytree(first, os.path.join(run, f"rank-{rank:05}"))
        query = "select sum(value) from scalars where signal >= 'metric1' and signal < 'metric2'"
        rows = [("open, list signals", [program, "sql", None, "select count(*) from signals"]),
                ("and read 111 000 values of each rank", [program, "sql", None, query])]
        for name, command in rows:
            for path, what in ((first, "1 rank"), (run, f"{count} ranks")):
                spent, clock = seconds([path if word is None else word for word in command])
                print(f"{name:38} {what:9} {spent:7.3f} s of processor time, {clock:7.3f} s by the clock")
        for path, what in ((first, "1 rank"), (folder, f"{count} ranks")):
            print(f"{'read by the viewer':38} {what:9} {min(read_by_viewer(path, build) for _ in range(3)):7.3f} s by the clock")


if __name__ == "__main__":
    main()
