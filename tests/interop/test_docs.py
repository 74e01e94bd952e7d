"""The blocks of README.md and docs/ that need PyTorch or Keras; the others are run by tests/docs. See tests/docs/pages.py."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TD_SOURCE"], "tests", "docs"))
import pages


class Pages(unittest.TestCase):
    def test_blocks_that_need_a_framework(self):
        with tempfile.TemporaryDirectory() as place:
            runs = pages.demo_runs(os.path.join(place, "demo"))
            checked = 0
            for page in pages.pages():
                with open(os.path.join(pages.SOURCE, page), encoding="utf-8") as file:
                    text = file.read()
                if not any(block.direction("interop") is not None for block in pages.blocks(text)):
                    continue
                with self.subTest(page), tempfile.TemporaryDirectory() as here:
                    problems = pages.Page(page, pages.folder_for(page, here, runs), interop=True).run()
                    self.assertFalse(problems, "\n\n".join(["", *problems]))
                checked += 1
            self.assertGreater(checked, 1)


if __name__ == "__main__":
    unittest.main()
