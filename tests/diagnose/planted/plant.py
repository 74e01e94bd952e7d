"""Plants each fault of the vocabulary into healthy trainings drawn at random, has them diagnosed, and counts per rule.

A pair counts when the healthy twin learns and the other does not: what was planted has then done harm. Numbers below HELD_OUT are
for looking at; those from there on only for counting. Two sets are drawn: plain stacks (worlds, faults), and trainings as other people
write them (strangers, forms)."""
import collections
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import tempfile

from . import faults, forms, strangers, worlds

HELD_OUT = 1000000
LEARNT = 0.8      # a twin is healthy from this score on
HARM = 0.7        # a fault has done harm below this share of the twin's score
TRIES = 60        # worlds drawn for one case

# What is drawn: healthy trainings, and how faults are planted into them.
SETS = {"worlds": (worlds.draw, faults.FAULTS), "strangers": (strangers.draw, forms.FORMS)}


def run(program, world, folder, name, seed):
    """Trains and returns (the run's folder, the score)."""
    path, metric = world.write(os.path.join(folder, name + "-data"), name)
    done = subprocess.run([program, "train", path, "--set", f"seed={seed}", "--out", folder, "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    value = None
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if event.get("event") == "epoch":
            value = event.get(metric)
    place = os.path.join(folder, name)
    if not os.path.exists(os.path.join(place, "run.db")):
        raise ValueError(done.stderr[-400:])
    return place, world.score(value)


def said_of(program, place):
    said = subprocess.run([program, "diagnose", place, "--json", "--no-keep"], capture_output=True, text=True, check=False)
    findings = json.loads(said.stdout)["findings"]
    certain = [f for f in findings if f["confidence"] != "maybe"]
    if said.returncode != (1 if certain else 0):
        raise ValueError(f"exit {said.returncode} with {len(certain)} findings: {said.stderr[-300:]}")
    return findings


def case(program, name, number, folder, which="worlds"):
    """One pair: {"fault", "number", "truth", "said", "twin": what was said of the healthy one}, or None."""
    draw, plants = SETS[which]
    for attempt in range(TRIES):
        rng = random.Random(f"{name}/{number}/{attempt}")
        world = draw(rng)
        if name in ("bad_labels", "overfitting") and world.kind == "curves":
            continue
        planted = world.copy()
        world.trained = planted.trained = None
        if name != "nonfinite_weights":
            truth = plants[name](planted)
            if truth is None:
                continue
        where = tempfile.mkdtemp(dir=folder)
        try:
            good, learnt = run(program, world, where, "good", number % 1000)
            if learnt < LEARNT:
                continue
            if name == "nonfinite_weights":
                table = os.path.join(where, "w.csv")
                subprocess.run([program, "weights", good, "--to", table], check=True, stdout=subprocess.DEVNULL)
                with open(table, encoding="utf-8") as file:
                    planted.trained = file.read()
                truth = plants[name](planted)
                if truth is None:
                    continue
            bad, reached = run(program, planted, where, "bad", number % 1000)
            if reached > HARM * learnt:
                continue
            return {"fault": name, "number": number, "attempt": attempt, "kind": world.kind, "task": world.task, "truth": truth,
                    "learnt": learnt, "reached": reached, "said": said_of(program, bad), "twin": said_of(program, good)}
        except ValueError as error:
            return {"fault": name, "number": number, "attempt": attempt, "broken": str(error)}
        finally:
            shutil.rmtree(where, ignore_errors=True)
    return {"fault": name, "number": number, "missing": True}


def cases(program, numbers, only=None, jobs=2, which="worlds"):
    names = [n for n in faults.FAULTS if not only or n in only]
    folder = tempfile.mkdtemp(prefix="planted-")
    try:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(lambda job: case(os.path.abspath(program), *job, folder, which), [(n, i) for i in numbers for n in names])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Counts:
    """Per rule and all together; shares in percent."""

    def __init__(self):
        self.n = collections.Counter()
        self.of = collections.defaultdict(collections.Counter)   # fault: planted, detected, diagnosed
        self.named = collections.Counter()
        self.right = collections.Counter()
        self.confusion = collections.defaultdict(collections.Counter)
        self.wrong = []

    def add(self, found):
        n = self.n
        if "truth" not in found:
            n["broken" if "broken" in found else "missing"] += 1
            self.wrong.append(found)
            return
        truth, name = found["truth"], found["fault"]
        certain = [f for f in found["said"] if f["confidence"] != "maybe"]
        causes = [f["cause"] for f in certain]
        exact = {name, *truth["more"]}
        defensible = exact | set(truth["also_accept"])
        own = self.of[name]
        n["pairs"] += 1
        own["pairs"] += 1
        n["detected"] += bool(certain)
        own["detected"] += bool(certain)
        n["diagnosed"] += bool(set(causes[:2]) & exact)
        own["diagnosed"] += bool(set(causes[:2]) & exact)
        n["defensible"] += bool(set(causes[:2]) & defensible)
        own["defensible"] += bool(set(causes[:2]) & defensible)
        for cause in causes[:2]:
            self.named[cause] += 1
            self.right[cause] += cause in defensible
        for f in certain:
            n["sure"] += f["confidence"] == "sure"
            n["sure wrong"] += f["confidence"] == "sure" and f["cause"] not in defensible
        if truth["layer"] and certain:
            named = [f["layer"] for f in certain if f["layer"]]
            n["with layer"] += 1
            n["localised"] += named[:1] == [truth["layer"]]
        if truth["nan_origin"]:
            n["nan"] += 1
            n["origin"] += any(all((f["origin"] or {}).get(k) == v for k, v in truth["nan_origin"].items()) for f in found["said"])
        false = [f for f in found["twin"] if f["confidence"] != "maybe"]
        n["false"] += bool(false)
        n["twins sure"] += any(f["confidence"] == "sure" for f in false)
        for f in false[:1]:
            self.named[f["cause"]] += 1
            self.confusion["(healthy)"][f["cause"]] += 1
        if not set(causes[:2]) & exact:
            self.confusion[name][causes[0] if causes else "(nothing)"] += 1
        if false or not certain or not set(causes[:2]) & defensible:
            self.wrong.append(found)

    def share(self, what):
        of = {"localised": "with layer", "origin": "nan"}.get(what, "pairs")
        return 100 * self.n[what] / max(1, self.n[of])

    def table(self):
        lines = [f"{self.n['pairs']} pairs, {self.n['missing']} without one, {self.n['broken']} broken: detected {self.share('detected'):.1f} %, "
                 f"cause among the first two {self.share('diagnosed'):.1f} % (defensible {self.share('defensible'):.1f} %), "
                 f"layer {self.share('localised'):.1f} %, NaN origin {self.share('origin'):.1f} %, "
                 f"healthy twins with a finding {self.share('false'):.1f} %; "
                 f"\"sure\" and not defensible {self.n['sure wrong']} of {self.n['sure']}, on healthy twins {self.n['twins sure']} of {self.n['pairs']}",
                 f"{'fault':28} {'pairs':>6} {'detected':>9} {'recall':>7} {'precision':>10}   named instead"]
        for name in faults.FAULTS:
            own = self.of[name]
            if own["pairs"] or self.named[name]:
                recall = f"{100 * own['diagnosed'] / own['pairs']:.0f} %" if own["pairs"] else "-"
                precision = f"{100 * self.right[name] / self.named[name]:.0f} %" if self.named[name] else "-"
                other = ", ".join(f"{c} {k}" for c, k in self.confusion[name].most_common(4))
                lines.append(f"{name:28} {own['pairs']:6} {own['detected']:9} {recall:>7} {precision:>10}   {other}")
        if self.confusion["(healthy)"]:
            lines.append("named of healthy twins: " + ", ".join(f"{c} {k}" for c, k in self.confusion["(healthy)"].most_common()))
        return "\n".join(lines)
