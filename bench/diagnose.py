#!/usr/bin/python3
"""diagnose.py [--seeds 1,2,3,4,5] [--planted 8] [--held-out 1000000] [--jobs 2] [--only CASE]: how well `tapedeck diagnose` does on tests/diagnose.

First the cases, re-created from public reports; then faults planted into healthy trainings drawn at random (--planted N: of each
fault N pairs), plain stacks and trainings as other people write them: those that rules were tuned with, and those held out, from
number --held-out on. Goals are for the cases and for what was held out."""
import argparse
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "diagnose"))
import score  # noqa: E402
from planted import plant  # noqa: E402

GOALS = {"detected": (95, 1), "false": (2, -1), "diagnosed": (85, 1), "localised": (85, 1), "origin": (100, 1)}
NAMES = {"detected": "failures detected", "false": "false alarms on fixed and healthy runs",
         "diagnosed": "right cause among the first two", "localised": "right layer", "origin": "origin of NaN"}


def goals_met(result):
    """Prints a table of shares against the goals."""
    met = True
    print(f"{'':40} {'percent':>8} {'goal':>8}")
    for what, (goal, sign) in GOALS.items():
        share = result.share(what)
        met = met and sign * share >= sign * goal
        print(f"{NAMES[what]:40} {share:8.1f} {'<=' if sign < 0 else '>=':>4} {goal:3}")
    return met


def planted(program, title, first, options, which):
    counts = plant.Counts()
    for found in plant.cases(program, range(first, first + options.planted), jobs=options.jobs, which=which):
        counts.add(found)
    print(f"\n{title}")
    met = goals_met(counts)
    print(counts.table())
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--planted", type=int, default=8)
    parser.add_argument("--held-out", type=int, default=plant.HELD_OUT)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    cases = [c for c in score.all_cases() if options.only in c]
    program = os.path.join(ROOT, "build", "tapedeck")
    result = score.run(program, cases, [int(s) for s in options.seeds.split(",")],
                       options.jobs)
    met = not result.broken
    for line in result.broken[:10]:
        print("broken:", line)
    met = goals_met(result) and met
    print(f"\"sure\" and not defensible: {result.counts['sure wrong']} of {result.counts['sure']} findings")
    print("\nwrong: what it was, and what was named first")
    for truth, named in sorted(result.confusion.items()):
        print(f"  {truth:28} {', '.join(f'{cause} {count}' for cause, count in named.most_common())}")
    print("\nprecision: of the runs in which a rule was among the first two, those where that was defensible")
    for cause, count in result.said.most_common():
        print(f"  {cause:28} {result.right[cause]:4} of {count:4}  {100 * result.right[cause] / count:5.1f} %")
    for which in plant.SETS if options.planted else []:
        planted(program, f"planted, {which}, the part that was tuned with", 0, options, which)
        met = planted(program, f"planted, {which}, held out", options.held_out, options, which) and met
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
