"""pictures.py TAPEDECK: what docs/diagnose.md shows of every rule, made anew: prints its last three sections.

The words are those of `tapedeck diagnose --explain`; the pictures are what the program says of a case that has it. For the
rules about training programs, the facts of ../python/test_loop_rules.py are such a case (PYTHONPATH=build/python).
"""
import glob
import importlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CASES = os.path.join(HERE, "cases")


def rule_names():
    """In the order of the table."""
    with open(os.path.join(ROOT, "src", "training", "diagnose", "rules.c"), encoding="utf-8") as file:
        return re.findall(r"^    X\((\w+)\)", file.read(), re.M)


def is_of_loops(rule):
    with open(os.path.join(ROOT, "src", "training", "diagnose", "rules", rule + ".c"), encoding="utf-8") as file:
        text = file.read()
    return '"diagnose/loop.h"' in text and bool(re.search("TD__NEEDS_(LOOP|HEAD)", text)) and "TD__NEEDS_EXPERIMENT" not in text


def explained(program, rule):
    said = subprocess.run([program, "diagnose", "--explain", rule], capture_output=True, text=True, check=True).stdout
    words = {"meaning": said.split(": ", 1)[1].split("\n", 1)[0]}
    for line in said.splitlines()[2:]:
        key, text = line.strip().split(None, 1) if not line.strip().startswith("says so") else ("says", line.strip()[8:].strip())
        words[key] = text
    return words


def paragraph(words):
    """A rule in one paragraph, as the document has it."""
    text = f"{words['meaning'][0].upper()}{words['meaning'][1:]}. Reads {words['reads']}. Computes: {words['computes']}. Reported from: {words['says']}."
    return text + (f" Advice: {words['advises']}." if "advises" in words else "")


def finding_of(program, run, title_of):
    """The block of the finding that begins with a title."""
    said = subprocess.run([program, "diagnose", run, "--no-keep"], capture_output=True, text=True, check=False).stdout
    blocks = re.split(r"\n(?=[✗?✓])", said.rstrip("\n"))
    return next((block for block in blocks if title_of(block)), "")


def loop_pictures(program):
    os.environ.update(TAPEDECK=program, TD_SOURCE=ROOT)
    sys.path.insert(0, os.path.join(HERE, "..", "python"))
    facts = importlib.import_module("test_loop_rules")
    with tempfile.TemporaryDirectory() as folder:
        for rule, (changed, _, _) in facts.FOUND.items():
            run = facts.record(os.path.join(folder, rule), facts.PLAIN | changed)
            yield rule, finding_of(program, run, lambda block: block[0] in "✗?")
        for rule, (mine, others) in facts.RANKS.items():
            run = facts.record_ranks(os.path.join(folder, rule), mine, others)
            yield rule, finding_of(program, run, lambda block: block[0] in "✗?")
        run = facts.record_seconds(os.path.join(folder, "slow_rank"), [0.1], [0.2])
        yield "slow_rank", finding_of(program, run, lambda block: block[0] in "✗?")


def record_oscillation(path):
    """A loss that goes up and down; no case has it for long."""
    import tapedeck

    with tapedeck.Deck(path) as deck:
        for step in range(480):
            deck.log(loss=1 + 0.9 * math.sin(step / 4))
            deck.step()
    return deck.folder


def case_pictures(program):
    """Of every case: the first finding's cause with its block; and each symptom with its evidence and plot."""
    causes, symptoms = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        runs = [record_oscillation(os.path.join(folder, "oscillation"))]
        cases = glob.glob(os.path.join(CASES, "*", "buggy.yaml")) + glob.glob(os.path.join(HERE, "pictures", "*", "buggy.yaml"))
        for experiment in sorted(cases):
            case = os.path.basename(os.path.dirname(experiment))
            subprocess.run([program, "train", experiment, "--set", f"name={case}", "--out", folder, "--quiet"],
                           capture_output=True, check=False)
            runs.append(os.path.join(folder, case))
        for run in runs:
            found = json.loads(subprocess.run([program, "diagnose", run, "--json"], capture_output=True, text=True,
                                              check=False).stdout)["findings"]
            own = next((i for i, finding in enumerate(found) if finding["cause"] == os.path.basename(run)), 0)
            blocks = iter(range(own + 1))
            block = finding_of(program, run, lambda block: block[0] in "✗?" and next(blocks) == own)
            plot = next((line.strip() for line in block.splitlines() if re.match(r"    \S+ [▁-█ ]{8,} ", line)), "")
            for finding in found[own:own + 1]:
                if finding["confidence"] != "maybe" or finding["cause"] == os.path.basename(run):
                    causes.setdefault(finding["cause"], block)
                shown = finding["evidence"][len(finding["evidence"]) - len(finding["symptoms"]):]
                for symptom, evidence in zip(finding["symptoms"], shown):
                    symptoms.setdefault(symptom, (evidence["text"], plot))
    return causes, symptoms


def main(program):
    names = rule_names()
    words = {rule: explained(program, rule) for rule in names}
    causes, symptoms = case_pictures(program)
    loops = dict(loop_pictures(program))
    print("## Symptoms\n```text")
    for rule in (r for r in names if "advises" not in words[r]):
        text, plot = symptoms.get(rule, ("", ""))
        print(f"{rule:27}{text}\n{'':27}{plot}".rstrip())
    print("```\n")
    for title, chosen in (("Training programs", loops), ("Causes", causes)):
        print(f"## {title}")
        for rule in (r for r in names if "advises" in words[r] and is_of_loops(r) == (chosen is loops)):
            print(f"\n### {rule}\n{paragraph(words[rule])}")
            if chosen.get(rule):
                print(f"```text\n{chosen[rule]}\n```")
        print()


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
