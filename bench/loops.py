#!/usr/bin/env python3
"""loops.py [torch|keras|torch_tutorials|keras_tutorials|strangers|keras_strangers|newcomers|keras_newcomers] [--tuned 1,2] [--held 101,102] [--only NAME]: mistakes planted into random PyTorch
or Keras trainings, and their healthy twins: what `tapedeck diagnose` finds, on the seeds that thresholds were chosen with and on others.
The tutorials are trainings as well-known examples have them: images, texts, series, graphs, autoencoders, policies, diffusion … The
strangers are whole programs; every second one is held out, so both parts are other programs. So are the newcomers, whose authors
did not know the rules."""
import argparse
import importlib
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[0] = os.path.join(ROOT, "tests", "interop", "loops")  # this folder has a python.py, which TensorFlow would import
os.environ.setdefault("TAPEDECK", os.path.join(ROOT, "build", "tapedeck"))
import score  # noqa: E402

MODULES = {"torch": "torch_cases", "keras": "keras_cases", "torch_tutorials": "torch_tutorials", "keras_tutorials": "keras_tutorials",
           "strangers": "strangers", "keras_strangers": "keras_strangers", "newcomers": "strangers",
           "keras_newcomers": "keras_strangers"}
GOALS = {"detected": (95, 1), "named": (85, 1), "false": (2, -1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", nargs="?", default="torch", choices=tuple(MODULES))
    parser.add_argument("--tuned", default="1,2")
    parser.add_argument("--held", default="101,102")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    cases = importlib.import_module(MODULES[options.framework])
    more = {"modules": cases.NEWCOMERS} if options.framework.endswith("newcomers") else {}
    met = True
    for part, seeds in (("tuned", options.tuned), ("held out", options.held)):
        if not seeds:
            continue
        numbers = [int(seed) for seed in seeds.split(",")]
        found = cases.run(numbers, options.only, part != "tuned", **more) if hasattr(cases, "run") else score.run(cases, numbers, options.only)
        print(f"---- {part}: seeds {seeds}\n{found.table()}\n", *found.lines, sep="\n", flush=True)
        shares = found.shares()
        met = met and (part == "tuned" or all(sign * shares[what] >= sign * goal for what, (goal, sign) in GOALS.items()))
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
