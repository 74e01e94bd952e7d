"""What every reading command prints with --json is what docs/schemas.json says, and docs/json.md names every schema."""
import json
import os
import re
import subprocess
import unittest

from program import Case, PROGRAM, SMALL, SOURCE
from test_diagnose import DIVERGES, SOFTMAX_OF_ONE

with open(os.path.join(SOURCE, "docs", "schemas.json"), encoding="utf-8") as file:
    SCHEMAS = json.load(file)["$defs"]
TYPES = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}
MODELS = os.path.join(SOURCE, "examples", "models")
RECORD = """
record:
  - {what: [loss, val_loss], every: 1 epoch, to: csv}
  - {what: "*.gradient", every: 2 steps, form: [stats, histogram], to: csv}
diagnose: false
"""


def mistakes(value, schema, path="$"):
    """Where a value is not as its schema says: the part of JSON Schema that docs/schemas.json uses."""
    if "anyOf" in schema:
        found = [list(mistakes(value, one, path)) for one in schema["anyOf"]]
        yield from [] if any(not one for one in found) else min(found, key=len)
        return
    if "enum" in schema:
        yield from [] if value in schema["enum"] else [f"{path}: {value!r} is not in {schema['enum']}"]
        return
    kind = schema.get("type")
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    good = (kind is None or (kind == "number" and number) or (kind == "integer" and number and isinstance(value, int))
            or (kind in TYPES and isinstance(value, TYPES[kind])))
    if not good:
        yield f"{path}: {value!r} is no {kind}"
        return
    if kind == "object":
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}: {name} is missing"
        for name, member in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
            if inner is False:
                yield f"{path}: {name} is not in the schema"
            elif inner is not True:
                yield from mistakes(member, inner, f"{path}.{name}")
    elif kind == "array":
        for i, item in enumerate(value):
            inner = schema["prefixItems"][i] if "prefixItems" in schema else schema["items"]
            yield from mistakes(item, inner, f"{path}[{i}]")


class Json(Case):
    def run_program(self, *arguments, status=0):
        """With status None, whatever it exits with."""
        if status is not None:
            return super().run_program(*arguments, status=status)
        return subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=self.environment(), capture_output=True, text=True,
                              timeout=600, check=False)

    def check(self, name, *arguments, status=0, lines=False):
        text = self.run_program(*arguments, "--json", status=status).stdout
        values = self.json_lines(text) if lines else [json.loads(text)]
        for value in values:
            self.assertEqual(list(mistakes(value, SCHEMAS[name])), [], arguments)
        return values

    def test_every_command(self):
        self.train(SMALL + RECORD, "--quiet")
        self.train(DIVERGES.replace("name: small", "name: other") + RECORD, "--quiet")
        runs, = self.check("runs", "runs")
        self.assertEqual(len(runs), 2)
        self.check("show", "show", "runs/small")
        shown, = self.check("show", "show", "runs/small", "loss", "hidden.*")
        self.assertTrue(shown["signals"][-1]["points"])
        self.check("compare", "compare", "runs/small", "runs/small")
        parted, = self.check("compare", "compare", "runs/small", "runs/other", status=1)
        self.assertTrue(parted["parted"] and parted["differences"])
        self.check("compare-weights", "compare", os.path.join(MODELS, "epoch1.pt"), os.path.join(MODELS, "epoch2.pt"), status=1)
        self.check("inspect", "inspect", "runs/small/model.safetensors")
        self.check("inspect-weights", "inspect", os.path.join(MODELS, "epoch1.pt"))
        self.train(SOFTMAX_OF_ONE, "--quiet")
        found, = self.check("diagnose", "diagnose", "runs/one", "--no-trial", status=1)
        self.check("diagnose", "diagnose", "runs/one", "--no-trial", "--baseline", "runs/*", status=1)
        self.assertTrue(found["findings"])
        self.check("check", "check", "experiment.yaml", status=None)
        self.check("assert", "assert", "runs/small", "loss < 100 and not nan(*)")
        self.check("sql", "sql", "runs", "select * from stats")
        self.check("export", "export", "runs/small", "--to", "csv", "--out", "exported")
        self.check("push", "push", "runs/small", "mlflow:mlruns")
        self.write("data.csv", "x1,x2,label\n" + "".join(f"0.{i},0.{9 - i},{i % 2}\n" for i in range(1, 9)))
        self.check("evaluate", "evaluate", "runs/small", "data.csv", "--label", "label")
        self.check("gradients", "gradients", "runs/small", "data.csv", "--label", "label", lines=True)
        self.check("predict", "predict", "runs/small", "data.csv", "--label", "label", "--to", "out.csv", "--to", "out.npy", "--record", "input")
        found = json.loads(self.run_program("predict", "runs/small", "data.csv", "--label", "label", "--to", "out.csv", "--json").stdout)
        self.assertEqual((found["outputs"], found["run"]), (["out.csv"], None))
        said = self.run_program("predict", "runs/small", "data.csv", "--label", "label", "--to", "-", "--json", status=2)
        self.assertEqual((said.stdout, "both write to standard output" in said.stderr), ("", True))
        for kind in ("layers", "losses", "metrics", "optimizers", "schedules", "initializers", "activations"):
            self.check("catalog", "list", kind)
        self.check("lists", "list")

    def test_commands_that_write(self):
        self.write("experiment.yaml", SMALL + RECORD)
        self.check("train", "train", "experiment.yaml", "--dry-run", lines=True)
        trained = self.check("train", "train", "experiment.yaml", lines=True)
        self.assertEqual([line["event"] for line in trained], ["epoch"] * 4 + ["end"])
        self.check("train", "train", "experiment.yaml", "--set", "name=folds", "--set", "data.validation={folds: 2}", lines=True)
        swept = self.check("sweep", "sweep", "experiment.yaml", "--set", "seed=1,2", lines=True)
        self.assertEqual(swept[-1]["event"], "end")
        self.check("replay", "replay", "runs/small", "--steps", "1..2", "--dry-run")
        self.check("replay", "replay", "runs/small", "--steps", "1..2")
        self.check("diff", "diff", "runs/small", os.path.join("runs/small-sweep", swept[-1]["trials"][-1]["trial"]), status=None)
        self.check("origin", "origin", "runs/small", "--what", "spike", status=None)
        self.check("tracks", "tracks", "runs/small")
        self.check("tag", "tag", "runs/small", "a", "b")
        self.assertEqual(self.check("tag", "tag", "runs/small", "a", "--remove"), [{"run": "runs/small", "tags": ["b"]}])
        self.assertEqual(self.check("note", "note", "runs/small", 'of "it"')[0]["note"], 'of "it"')
        self.check("note", "note", "runs/small")
        self.check("weights", "weights", "runs/small", "--to", "weights.csv")
        report, = self.check("report", "report", "runs/small")
        self.assertEqual(report["bytes"], os.path.getsize(self.path("report.html")))
        self.check("rename", "rename", "runs/small", "other")
        self.assertEqual(self.check("rm", "rm", "runs/other", "--yes"), [{"removed": ["runs/other"]}])
        self.write("data.csv", "x1,x2,label\n" + "".join(f"0.{i},0.{9 - i},{i % 2}\n" for i in range(1, 99)))
        self.assertEqual(self.check("init", "init", "data.csv")[0]["out"], "data.yaml")
        viewer = self.start("view", "runs", "--port", "0", "--no-open", "--json")
        self.assertIn("http://", json.loads(viewer.stdout.readline())["url"])
        viewer.terminate()
        viewer.communicate()

    def test_the_page_names_every_schema(self):
        with open(os.path.join(SOURCE, "docs", "json.md"), encoding="utf-8") as page:
            named = set(re.findall(r"^\| .* \| `([a-z-]+)` \|", page.read(), re.MULTILINE))
        self.assertEqual(named | {"check"}, set(SCHEMAS))

    def test_mistakes_are_found(self):
        for value in (None, [{}], [{"name": 1}], {"findings": []}, [3]):
            self.assertTrue(list(mistakes(value, SCHEMAS["runs"])))
        self.assertTrue(list(mistakes({"run": "a", "holds": True, "terms": [], "more": 1}, SCHEMAS["assert"])))


if __name__ == "__main__":
    unittest.main()
