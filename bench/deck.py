"""What recording costs, beside PyTorch with hooks in Python: ./dev bench deck

Every layer's output and error and every parameter's gradient. Bare steps and recorded ones run in turns;
a ratio is a recorded step's time to the bare one's of the same program. Then the deck and the sinks alone
(bench/deck_cost.c, bench/sink.c), beside what Python writes.
"""
import csv
import io
import os
import subprocess
import sys
import time

import numpy
import pandas

from tools.rounds import Worker, interleave

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, os.pardir, "build", "bench")

# network, threads, our mode and its goal, PyTorch's mode; the most steps of a round (bursts that fit
# the queue), or None
TABLE = [
    ("M3", 1, "stats", 1.05, "bins", None),
    ("M3", 1, "histogram", 1.08, "tensorboard", None),
    ("M3", 2, "stats", None, None, None),
    ("M3", 2, "histogram", 1.25, None, None),
    ("M3", 1, "every100", 1.005, None, None),
    ("M3", 1, "npy", 1.15, "npy", 8),
    ("M1", 1, "npy", 1.25, None, 100),
    ("M1", 1, "npy", 1.25, "npy", 2000),
    ("M1", 1, "rows", None, "rows", 500),
]


def times(workers, most):
    if most is None:
        return interleave(workers, 9, 300)
    for worker in workers:
        worker.steps = most
        worker.round()
    values = [[] for _ in workers]
    for _ in range(41):  # bursts are short, and what else the machine does disturbs them
        for worker, value in zip(workers, values):
            value.append(worker.round())
    return [type("Times", (), {"median": sorted(value)[len(value) // 2], "best": min(value)})
            for value in values]


def ratio(command, network, threads, mode, most):
    """Recorded to bare: medians, and each one's best."""
    workers = [Worker(command + [network, str(threads), name]) for name in ("bare", mode)]
    bare, recorded = times(workers, most)
    for worker in workers:
        worker.close()
    return bare.median, recorded.median, recorded.median / bare.median


def compare_steps():
    print("net thr  recorded                bare ms  recorded     ratio   goal           PyTorch: ratio")
    met = judged = 0
    peer = [sys.executable, os.path.join(HERE, "peers", "deck.py")]
    for network, threads, mode, goal, theirs, most in TABLE:
        bare, recorded, ours = ratio([os.path.join(BUILD, "deck")], network, threads, mode, most)
        verdict = "" if goal is None else "met" if ours <= goal else "missed"
        judged += goal is not None
        met += verdict == "met"
        beside = ""
        if theirs:
            few = None if most is None else min(most, 20)
            beside = f"{theirs}: {ratio(peer, network, threads, theirs, few)[2]:.2f}"
        print(f"{network:<3} {threads:>3}  {mode:<20} {bare:>10.4f} {recorded:>9.4f} {ours:>8.3f}x "
              f"{goal or '':>6} {verdict:<7} {beside:>20}", flush=True)
    print(f"{met} of {judged} goals met\n", flush=True)


def python_rates():
    """What Python writes, in millions of floats a second."""
    values = numpy.random.default_rng(1).standard_normal((2000, 128)).astype("float32")

    def rate(write):
        begin = time.perf_counter()
        write(io.StringIO(newline=""))
        return values.size / (time.perf_counter() - begin) / 1e6

    print(f"Python csv.writer     {rate(lambda file: csv.writer(file).writerows(values)):8.1f} Mfloat/s")
    print(f"pandas.to_csv         {rate(lambda file: pandas.DataFrame(values).to_csv(file)):8.1f} Mfloat/s")
    print(f"numpy.savetxt         {rate(lambda file: numpy.savetxt(file, values)):8.1f} Mfloat/s")


compare_steps()
for program in ("deck_cost", "sink"):
    subprocess.run([os.path.join(BUILD, program)], check=True)
python_rates()
