"""The examples of docs/python.md and of the docstrings: they run, and print what they say."""

import doctest
import os
import re
import tempfile
import unittest
import warnings

import numpy as np

import tapedeck
from tapedeck import _media, deck as deck_module, run as run_module

PAGE = os.path.join(os.environ["TD_SOURCE"], "docs", "python.md")


class Shown(doctest.OutputChecker):
    """An example without an output may print anything."""

    def check_output(self, want, got, flags):
        return not want or super().check_output(want, got, flags)


class Documents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def run_examples(self, text, names, where):
        test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
        said = []
        doctest.DocTestRunner(Shown(), optionflags=doctest.ELLIPSIS).run(test, out=said.append, clear_globs=False)
        self.assertEqual(said, [], "".join(said))
        return len(test.examples)

    def test_the_page(self):
        with open(PAGE, encoding="utf-8") as file:
            found = re.findall(r"(<!-- test: not run: tests/interop.*?-->\n)?```python\n(.*?)```", file.read(), re.DOTALL)
        blocks = [block for left_out, block in found if block.startswith(">>>") and not left_out]
        self.assertGreater(self.run_examples("\n".join(blocks), {}, "docs/python.md"), 25)

    def test_docstrings(self):
        with tapedeck.Deck("runs/a", config={"lr": 0.1}) as deck:
            for step in range(3):
                for name in ("conv1.error", "conv2.error", "conv2.output"):
                    deck.record(name, np.ones((2, 3), np.float32))
                deck.log(loss=1.0)
                deck.step()
        names = {"tapedeck": tapedeck, "np": np, "numpy": np, "array": np.ones(3), "loss": 0.5, "tensor": np.zeros((3, 4, 5)),
                 "batches": [(1, 2)] * 3}
        count = 0
        finder = doctest.DocTestFinder(exclude_empty=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module in (deck_module, run_module, _media):
                for test in finder.find(module, module.__name__):
                    if "watch(" in test.docstring:
                        continue
                    own = {**names, **vars(_media), "deck": tapedeck.Deck("runs/doc"), "run": tapedeck.Run("runs/a")}
                    count += self.run_examples(test.docstring, own, test.name)
                    own["deck"].finish()
        self.assertGreater(count, 20)


if __name__ == "__main__":
    unittest.main()
