#!/usr/bin/env python3
"""Prints which share of the lines of each module of src/ the tests ran, and exits with 1 when a module is
below its floor.

    coverage.py BUILD_FOLDER [--files]

Reads what a build with --coverage left behind. A source that is compiled several times (kernels, once for
each instruction set) counts as one: a line is reached when any of them was."""
import collections
import json
import os
import subprocess
import sys

FLOOR = 85.0
FLOORS = {"deck": 95.0, "sink": 95.0, "store": 95.0}


def reached_lines(build, source):
    """{file below src/: {line: whether it ran}}"""
    notes = []
    for folder, _, names in os.walk(build):
        notes += [os.path.join(folder, name) for name in names if name.endswith(".gcno")]
    notes = [note for note in notes if "/td_" in note]
    files = collections.defaultdict(dict)
    for first in range(0, len(notes), 50):
        output = subprocess.run(["gcov", "--json-format", "--stdout", *map(os.path.abspath, notes[first:first + 50])],
                                capture_output=True, text=True, check=True, cwd=build).stdout
        for text in output.splitlines():
            if not text.startswith("{"):
                continue
            for file in json.loads(text)["files"]:
                path = os.path.realpath(os.path.join(build, file["file"]))
                if not path.startswith(source + os.sep):
                    continue
                lines = files[os.path.relpath(path, source)]
                for line in file["lines"]:
                    number = line["line_number"]
                    lines[number] = lines.get(number, False) or line["count"] > 0
    return files


def main():
    build = sys.argv[1]
    source = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "src"))
    files = reached_lines(build, source)
    modules = collections.defaultdict(lambda: [0, 0])
    for path, lines in files.items():
        total = modules[path.split(os.sep)[0]]
        total[0] += sum(lines.values())
        total[1] += len(lines)
    if "--files" in sys.argv:
        for path, lines in sorted(files.items(), key=lambda item: sum(item[1].values()) / len(item[1])):
            print(f"{100 * sum(lines.values()) / len(lines):6.1f} %  {len(lines) - sum(lines.values()):5} of "
                  f"{len(lines):5} lines not reached  {path}")
        print()
    low = 0
    for module, (reached, count) in sorted(modules.items()):
        share, floor = 100 * reached / count, FLOORS.get(module, FLOOR)
        low += share < floor
        print(f"{module:<12}{count:7} lines {share:6.1f} %" + (f"  below {floor:g} %" if share < floor else ""))
    reached = sum(total[0] for total in modules.values())
    count = sum(total[1] for total in modules.values())
    print(f"{'all':<12}{count:7} lines {100 * reached / count:6.1f} %")
    return 1 if low else 0


sys.exit(main())
