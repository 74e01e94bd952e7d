"""Trains every case, diagnoses it, and scores what was said; see README.md."""
import collections
import concurrent.futures
import json
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(HERE, "cases")


def vocabulary():
    """The words for causes ("faults") and symptoms."""
    with open(os.path.join(HERE, "vocabulary.json"), encoding="utf-8") as file:
        return json.load(file)


def all_cases():
    return sorted(os.listdir(CASES))


def _diagnose(job):
    program, case, kind, seed, out = job
    name = f"{case}-{kind}-{seed}"
    folder = os.path.join(out, name)
    train = subprocess.run([program, "train", os.path.join(CASES, case, kind + ".yaml"), "--set", f"seed={seed}",
                            "--set", f"name={name}", "--out", out, "--quiet"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if not os.path.exists(os.path.join(folder, "run.db")):
        return job, None, "train: " + train.stdout[-300:]
    said = subprocess.run([program, "diagnose", folder, "--json"], capture_output=True, text=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        findings = [f for f in json.loads(said.stdout)["findings"] if f["confidence"] != "maybe"]
    except (ValueError, KeyError) as error:
        return job, None, f"diagnose, exit {said.returncode}: {said.stderr[-300:]} {error}"
    if said.returncode != (1 if findings else 0):
        return job, None, f"diagnose, exit {said.returncode} with {len(findings)} findings: {said.stderr[-300:]}"
    return job, findings, None


class Score:
    """Counts over runs; shares in percent."""

    def __init__(self):
        self.counts = collections.Counter()
        self.confusion = collections.defaultdict(collections.Counter)
        self.said = collections.Counter()   # a rule was among the first two causes of a run …
        self.right = collections.Counter()  # … and right
        self.broken = []
        self.words = set()
        self.symptoms = set()

    def add(self, case, kind, findings):
        with open(os.path.join(CASES, case, "truth.json"), encoding="utf-8") as file:
            truth = json.load(file)
        n, causes = self.counts, [f["cause"] for f in findings]
        self.words.update(causes)
        for finding in findings:
            self.symptoms.update(finding["symptoms"])
        accepted = set(truth["faults"]) | set(truth["also_accept"]) if kind == "buggy" else set()
        for cause in causes[:2]:
            self.said[cause] += 1
            self.right[cause] += cause in accepted
        sure = [f["cause"] for f in findings if f["confidence"] == "sure"]
        n["sure"] += len(sure)
        n["sure wrong"] += sum(cause not in accepted for cause in sure)
        if kind != "buggy":
            n["good"] += 1
            n["false"] += bool(findings)
            if findings:
                self.confusion["(nothing)"][causes[0]] += 1
            return
        n["buggy"] += 1
        n["detected"] += bool(findings)
        right = bool(set(causes[:2]) & set(truth["faults"]))
        n["diagnosed"] += right
        if not right:
            self.confusion[truth["faults"][0]][causes[0] if causes else "(nothing)"] += 1
        if truth.get("layer") and findings:
            layers = [f["layer"] for f in findings if f["layer"]]
            n["with layer"] += 1
            n["localised"] += layers[:1] == [truth["layer"]]
        if truth.get("nan_origin"):
            want = {k: v for k, v in truth["nan_origin"].items() if k in ("cause", "layer", "row")}
            n["nan"] += 1
            n["origin"] += any(all((f["origin"] or {}).get(k) == v for k, v in want.items()) for f in findings)

    def share(self, what):
        of = {"detected": "buggy", "diagnosed": "buggy", "localised": "with layer", "origin": "nan", "false": "good"}[what]
        return 100 * self.counts[what] / max(1, self.counts[of])


def run(program, cases, seeds, jobs=2):
    score = Score()
    out = tempfile.mkdtemp(prefix="diagnose-")
    todo = [(os.path.abspath(program), case, file[:-5], seed, out) for seed in seeds for case in cases
            for file in sorted(os.listdir(os.path.join(CASES, case))) if file.endswith(".yaml")]
    try:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for (_, case, kind, seed, _), findings, problem in pool.map(_diagnose, todo):
                if problem:
                    score.broken.append(f"{case}/{kind} seed {seed}: {problem}")
                else:
                    score.add(case, kind, findings)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return score
