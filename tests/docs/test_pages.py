"""Every block of README.md, docs/ and the examples' READMEs runs, and prints what the page shows. See pages.py.

    TAPEDECK=build/tapedeck TD_BUILD=build TD_SOURCE=. python3 tests/docs/test_pages.py [--update] [PAGE …]

--update puts what is really printed into the console blocks.
"""
import os
import sys
import tempfile
import unittest

import pages


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.runs = pages.demo_runs(os.path.join(place.name, "demo"))

    def check(self, page):
        with tempfile.TemporaryDirectory() as place:
            problems = pages.Page(page, pages.folder_for(page, place, self.runs)).run()
        self.assertFalse(problems, "\n\n".join(["", *problems]))


for name in pages.pages():
    setattr(Pages, "test_" + name.lower().replace("/", "_").replace(".", "_"), lambda self, name=name: self.check(name))


def update(names):
    with tempfile.TemporaryDirectory() as place:
        runs = pages.demo_runs(os.path.join(place, "demo"))
        for page in names or pages.pages():
            with tempfile.TemporaryDirectory() as here:
                text = pages.updated(page, pages.folder_for(page, here, runs))
            with open(os.path.join(pages.SOURCE, page), "w", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    if "--update" in sys.argv:
        update([name for name in sys.argv[1:] if name != "--update"])
    else:
        unittest.main()
