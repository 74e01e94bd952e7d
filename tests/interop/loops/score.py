"""Trains cases of torch_cases or keras_cases, has `tapedeck diagnose` judge each, and counts."""

import collections
import contextlib
import io
import json
import os
import statistics
import subprocess
import tempfile


def diagnose(folder):
    """Findings that are sure or likely, and the exit status."""
    done = subprocess.run([os.environ["TAPEDECK"], "diagnose", folder, "--json"], capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    found = json.loads(done.stdout)
    broken = [note for note in found["notes"] if "facts about the loop end" in note]
    if broken:
        raise RuntimeError(broken[0])
    return found["findings"], done.returncode


class Score:
    def __init__(self):
        self.planted = collections.Counter()  # by mistake
        self.detected = collections.Counter()
        self.named = collections.Counter()
        self.healthy = 0
        self.false = collections.Counter()  # by cause
        self.right = collections.Counter()  # by cause: said of a run where it is right
        self.said = collections.Counter()
        self.sure = [0, 0]  # findings that are sure: of all, wrong ones
        self.layers = [0, 0]  # mistakes whose layer is known and that were named: of all, with that layer
        self.lines = []

    def add(self, name, seed, causes, findings, layer=""):
        strong = [f["cause"] for f in findings if f["confidence"] != "maybe"]
        sure = [f["cause"] for f in findings if f["confidence"] == "sure"]
        wrong = [cause for cause in sure if causes is None or cause not in causes]
        self.sure[0] += len(sure)
        self.sure[1] += len(wrong)
        if wrong:
            self.lines.append(f"sure      {name} {seed}: {wrong}")
        named = [f for f in findings if f["confidence"] != "maybe"][:2]
        if layer and causes and (named := [f for f in named if f["cause"] in causes]):
            self.layers[0] += 1
            right = any((f["layer"] or "").split(".")[0].removeprefix("_orig_mod.") == layer for f in named)
            self.layers[1] += right
            if not right:
                self.lines.append(f"layer     {name} {seed}: {[f['layer'] for f in named]}, not {layer}")
        if causes is None:
            self.healthy += 1
            for cause in strong[:1]:
                self.false[cause] += 1
            for cause in strong[:2]:
                self.said[cause] += 1
            if strong:
                self.lines.append(f"false     {name} {seed}: {strong}")
            return
        self.planted[name] += 1
        self.detected[name] += bool(strong)
        self.named[name] += any(cause in causes for cause in strong[:2])
        for cause in strong[:2]:
            self.said[cause] += 1
            self.right[cause] += cause in causes
        if not strong:
            self.lines.append(f"missed    {name} {seed}: {[(f['cause'], f['confidence']) for f in findings]}")
        elif not any(cause in causes for cause in strong[:2]):
            self.lines.append(f"misnamed  {name} {seed}: {strong}")

    def shares(self):
        planted = max(1, sum(self.planted.values()))
        return {"detected": 100 * sum(self.detected.values()) / planted, "named": 100 * sum(self.named.values()) / planted,
                "false": 100 * sum(self.false.values()) / max(1, self.healthy)}

    def table(self):
        rows = [f"{'mistake':34} {'planted':>8} {'detected':>8} {'named':>8}"]
        rows += [f"{name:34} {count:8} {self.detected[name]:8} {self.named[name]:8}" for name, count in sorted(self.planted.items())]
        rows += ["", f"{'rule':34} {'precision':>16}"]
        rows += [f"{cause:34} {self.right[cause]:5} of {count:5}" for cause, count in self.said.most_common()]
        shares = self.shares()
        rows += ["", f"detected {shares['detected']:.1f} %, named among the first two {shares['named']:.1f} %, "
                     f"{sum(self.false.values())} false alarms in {self.healthy} healthy runs ({shares['false']:.1f} %)",
                 f"sure and wrong: {self.sure[1]} of {self.sure[0]}; layer right: {self.layers[1]} of {self.layers[0]}"]
        return "\n".join(rows)


def does_harm(losses, healthy):
    """Whether a training ends worse than its healthy twin: a rate that is a hundred times too high may do as well."""
    end, wanted = (statistics.fmean(values[-max(1, len(values) // 10) :]) for values in (losses, healthy))
    return not end < wanted + 0.1 * abs(healthy[0] - wanted)


def run(cases, seeds, only="", healthy=True, with_healthy_ones=True):
    """Every mistake and its healthy twin, with each of the seeds."""
    score = Score()
    with tempfile.TemporaryDirectory() as place:
        for number, name in enumerate(sorted(cases.MISTAKES)):
            if only not in name:
                continue
            causes, tasks = cases.MISTAKES[name]
            for seed in seeds:
                draw = seed * 1000 + number
                task = tasks[draw % len(tasks)]
                folders = {}
                for planted in (None, name) if healthy or name in cases.MILD else (name,):
                    plan = cases.Plan(draw, task, planted)
                    with contextlib.redirect_stdout(io.StringIO()):
                        folders[plan.mistake] = plan.train(os.path.join(place, f"{name}-{seed}-{plan.mistake}")), plan
                if name not in cases.MILD or does_harm(folders[name][1].losses, folders[None][1].losses):
                    score.add(name, f"{seed} {task}", causes, diagnose(folders[name][0])[0])
                if None in folders:
                    score.add(name, f"{seed} {task}", None, diagnose(folders[None][0])[0])
        for name, function in getattr(cases, "HEALTHY", {}).items():
            if only in name and healthy and with_healthy_ones:
                with contextlib.redirect_stdout(io.StringIO()):
                    folder = function(os.path.join(place, name), seeds[0])
                score.add(name, seeds[0], None, diagnose(folder)[0])
    return score
