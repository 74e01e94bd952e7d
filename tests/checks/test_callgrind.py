"""Speed that does not depend on the clock: a training step, a record, a CSV row and a TensorBoard event take
no more than 3 % more or fewer instructions than tests/checks/instructions.json says.

    TD_BUILD=build TD_SOURCE=. python3 tests/checks/test_callgrind.py --update     writes that file

Counted by callgrind on the portable kernels, which every machine has. Another compiler makes other
instructions: figures are compared where it is the one they were made with; where it is not, that is printed.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

WORK = ["step_dense", "step_convolution", "step_sequence", "record", "csv_row", "event"]
REPETITIONS = 10  # MEASURED of count_work.c
TOLERANCE = 0.03
SOURCE = os.environ["TD_SOURCE"]
PROGRAM = os.path.join(os.environ["TD_BUILD"], "tests", "helpers", "count_work")
FIGURES = os.path.join(SOURCE, "tests", "checks", "instructions.json")


def compiler():
    """As the program itself says who compiled it."""
    comment = subprocess.run(["readelf", "-p", ".comment", PROGRAM], text=True, stdout=subprocess.PIPE, check=True)
    return re.search(r"\](.*)", comment.stdout).group(1).strip()


def count(what):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--toggle-collect=measured_work", f"--callgrind-out-file={folder}/out",
             PROGRAM, what, os.path.join(folder, "run") if what == "record" else folder],
            env={**os.environ, "TAPEDECK_CPU": "portable"}, text=True,
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode or not collected or collected.group(1) == "0":
        sys.exit(f"{what}: nothing was counted\n{run.stdout}{run.stderr}")
    return int(collected.group(1)) // REPETITIONS


def main():
    if not shutil.which("valgrind") or not shutil.which("readelf"):
        print("NOT CHECKED: valgrind or readelf is not installed; ./dev setup installs them")
        return
    counted = {what: count(what) for what in WORK}
    if sys.argv[1:] == ["--update"]:
        with open(FIGURES, "w", encoding="utf-8") as file:
            json.dump({"compiler": compiler(), "instructions": counted}, file, indent=4)
            file.write("\n")
        return
    with open(FIGURES, encoding="utf-8") as file:
        expected = json.load(file)
    if expected["compiler"] != compiler():
        print(f"NOT COMPARED: the figures are of {expected['compiler']}, this is {compiler()}: {counted}")
        return
    wrong = []
    for what in WORK:
        ratio = counted[what] / expected["instructions"][what]
        good = abs(ratio - 1) <= TOLERANCE
        print(f"{'ok' if good else 'not ok'} {what}: {counted[what]} instructions, {ratio:.3f} of the figure")
        wrong += [] if good else [what]
    if wrong:
        sys.exit(f"{', '.join(wrong)}: if that is intended, `python3 tests/checks/test_callgrind.py --update` "
                 "(TD_BUILD and TD_SOURCE set) writes new figures")


main()
