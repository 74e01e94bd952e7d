"""What a type checker says of programs that use the package: misspelt options are found, right ones are not."""

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.join(os.environ["TD_SOURCE"], "python")

PROGRAM = """
import tapedeck
deck = tapedeck.Deck("runs/a", config={"lr": 0.1}, tags=["a"], group="g", name="n", policy="drop", seed=3)
deck.track(["*.error"], every=5, form=["stats"], to="csv").log({"a": 1.0}, step=3, loss=2.0)
deck.image("x", [[0.0]], layout="HW")
run: tapedeck.Run = tapedeck.Run("runs/a")
for name, signal in run.items():
    steps: int = signal.last_step
found: list[tapedeck.Finding] = run.diagnose(only=["a"]).findings
table = tapedeck.runs("x")
tapedeck.watch(None, "runs/a", every=5, tags=["a"], seed=3)
tapedeck.Recorder("runs/a", track=[{"what": "*", "every": 5}], config={"a": 1})
tapedeck.Deck("runs/a", evry=5)                                 # wrong
deck.track("x", evry=5)                                         # wrong
tapedeck.Deck("runs/a", policy="drpo")                          # wrong
deck.image("x", [[0.0]], layot="HW")                            # wrong
run["x"].arry()                                                 # wrong
run[5]                                                          # wrong
tapedeck.watch(None, "runs/a", evry=5)                          # wrong
tapedeck.watch(None, "runs/a", seed="x")                        # wrong
tapedeck.Recorder("runs/a", evry=5)                             # wrong
tapedeck.Recorder("runs/a", track=[{"what": "*", "evry": 5}])   # wrong
""".lstrip()

SETTINGS = """
[mypy]
ignore_missing_imports = True
enable_incomplete_feature = Unpack
"""
# Frameworks are not looked into: their types are not what is checked, and take long.
SKIPPED = """
[mypy-{}.*]
follow_imports = skip
follow_imports_for_stubs = True
"""


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
class Types(unittest.TestCase):
    def test_mypy_finds_what_is_wrong_and_nothing_else(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("program.py", PROGRAM), ("mypy.ini", SETTINGS + "".join(
                    SKIPPED.format(name) for name in ("torch", "keras", "numpy", "pandas", "lightning", "transformers")))):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            said = subprocess.run([sys.executable, "-m", "mypy", "program.py"], cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "MYPYPATH": SOURCE, "PYTHONPATH": ""}).stdout
        wrong = {int(line) for line in re.findall(r"^program\.py:(\d+): error", said, re.MULTILINE)}
        expected = {i for i, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}
        self.assertEqual(wrong, expected, said)
        own = [line for line in said.splitlines() if re.search(r"tapedeck/(deck|run|__init__|_options|_media)\.py:\d+: error", line)]
        self.assertEqual(own, [])


if __name__ == "__main__":
    unittest.main()
