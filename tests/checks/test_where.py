"""What docs/architecture.md says of "where a new one goes" is true: for one of each kind that exists, the files
that name it are its own and those of its row. And every path that the pages for contributors name is there."""

import os
import re
import subprocess
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TD_SOURCE"])
PAGES = ("docs/architecture.md", "CONTRIBUTING.md", "docs/abi.md")
COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
FOLDERS = ("include", "src", "cli", "cmake", "web", "python/src", "python/tapedeck")
ENDINGS = {".c", ".h", ".js", ".py", ".cmake"}

# kind: (the row's first words, the identifier of one and of its type, its own file, the other files of its row).
# NAME is each that exists: a file that names the type, and whose name stands in the last of those files.
ROWS = {
    "rule": ("rule", "td__rule_NAME", "td__rule", "src/training/diagnose/rules/NAME.c", ["src/training/diagnose/rules.c"]),
    "page": ("page of the viewer", "NAMEPage", "export", "web/NAME.js", ["web/app.js"]),
    "sub-command": ("sub-command", "command_NAME", "command", "cli/NAME.c", ["cli/command.h", "cli/main.c"]),
    "sink": ("sink", "td__sink_NAME", "td_sink_class", "src/recorder/sink/NAME.c",
             ["src/recorder/sink/classes.h", "src/recorder/sink/open.c"]),
    "strategy": ("way to compute some convolutions faster", "td__NAME", "td__conv_strategy", "src/engine/tape/NAME.c",
                 ["src/engine/tape/conv.h", "src/engine/tape/conv.c"]),
    "reader": ("reader of runs that others wrote", "td__foreign_NAME", "td__foreign", "src/recorder/run/NAME.c",
               ["src/recorder/run/foreign.h", "src/recorder/run/foreign.c"]),
}
# Uses of one by name, which a new one need not have: the demonstration trains, and rules suggest Adam.
USES = {"cli/demo.c": "command_train", "src/training/diagnose/judge.c": "TD_ADAM"}
# Kinds with a list instead of a file each: the names that stand in it, and where those may stand.
LISTS = {
    "optimizer": ("include/tapedeck/optimizers.h", "TD_OPTIMIZER_LIST",
                  {"include/tapedeck/optimizers.h", "src/engine/nn/optimizer.c", "src/engine/nn/catalog.c"}),
}


def identifiers():
    """{path: the identifiers of the source, without comments}."""
    files = (path for folder in FOLDERS for path in (SOURCE / folder).rglob("*") if path.suffix in ENDINGS)
    return {str(path.relative_to(SOURCE)): set(re.findall(r"[A-Za-z_]\w*", COMMENTS.sub("", path.read_text())))
            for path in files}


class Where(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.words = identifiers()
        cls.page = (SOURCE / "docs/architecture.md").read_text()

    def naming(self, *names):
        return {path for path, words in self.words.items()
                if not words.isdisjoint(names) and USES.get(path) not in names}

    def members(self, kind):
        """Those that have a file of their own and stand in the row's last file."""
        _, identifier, kind_type, own, rows = ROWS[kind]
        folder, ending = own.split("NAME")
        names = [path[len(folder):-len(ending)] for path in self.words if path.startswith(folder) and path.endswith(ending)
                 and path not in rows and kind_type in self.words[path]]
        listed = self.words[rows[-1]]
        return [name for name in names if identifier.replace("NAME", name) in listed or kind == "rule" and name in listed]

    def test_one_of_each_stands_in_its_file_and_its_rows_alone(self):
        for kind, (words, identifier, _, own, rows) in ROWS.items():
            row = next((line for line in self.page.split("\n") if line.startswith(f"| {words} |")), None)
            self.assertIsNotNone(row, f"docs/architecture.md has no row for a {words}")
            members = self.members(kind)
            self.assertGreater(len(members), 2, f"{kind}: {members}")
            for name in members:
                with self.subTest(f"{kind} {name}"):
                    expected = {own.replace("NAME", name), *rows}
                    self.assertEqual(self.naming(identifier.replace("NAME", name)) - expected, set())
            for path in rows:
                self.assertIn(Path(path).name, row, f"the row of a {words}")

    def test_members_of_a_list_stand_in_its_rows_alone(self):
        for kind, (header, macro, rows) in LISTS.items():
            text = (SOURCE / header).read_text()
            listed = re.findall(r"X\((\w+),", text[text.index(f"#define {macro}(X)"):].split("\n\n")[0])
            self.assertGreater(len(listed), 5)
            for name in listed:
                with self.subTest(f"{kind} {name}"):
                    self.assertEqual(self.naming(f"TD_{kind.upper()}_{name}", f"TD_{name}") - rows, set())

    def test_what_a_row_names_is_in_the_file_that_it_names(self):
        named = re.findall(r"`(\w+)` in `([^`\s]+)`", self.page)
        self.assertGreater(len(named), 8)
        for word, path in named:
            with self.subTest(f"{word} in {path}"):
                files = [known for known in self.words if known == path or known.endswith("/" + path)]
                start = word.split("NAME")[0]
                self.assertTrue(any(w.startswith(start) for known in files for w in self.words[known]), files)

    def test_rooms_and_what_they_may_use_are_those_of_the_build(self):
        rooms, uses, room = {}, {}, None
        for kind, words in re.findall(r"^td_(room|module|plugin)\(([^)]*)\)", (SOURCE / "CMakeLists.txt").read_text(), re.M):
            name, *rest = words.split()
            if kind == "room":
                room = name
            else:
                rooms[name] = room
                uses[name] = rest[rest.index("USES") + 1:] if "USES" in rest else []
        self.assertGreater(len(rooms), 20)
        for module, room in rooms.items():
            with self.subTest(module):
                row = next(line for line in self.page.split("\n") if line.startswith(f"| **{room}** |"))
                _, _, may, modules, _ = row.split("|")
                self.assertIn(f"`{module}`", modules)
                outside = {used for used in uses[module] if rooms[used] != room}
                self.assertEqual({used for used in outside if not re.search(rf"\b({rooms[used]}|{used})\b", may)}, set())

    def test_paths_that_pages_name_are_there(self):
        tracked = subprocess.run(["git", "ls-files"], cwd=SOURCE, capture_output=True, text=True, check=False).stdout
        self.assertTrue(tracked)
        missing = []
        for page in PAGES:
            for path in re.findall(r"`((?:src|include|cli|web|python|tests|bench|tools|cmake|packaging|docs)/[^`\s]*)`",
                                   (SOURCE / page).read_text()):
                pattern = re.sub(r"NAME|ROOM|MODULE|\.?….*?(?=\.\w+$|$)", "*", path.split("(")[0])
                if not any(SOURCE.glob(pattern.rstrip("/"))) and not pattern.startswith("tests/fuzz/corpus"):
                    missing.append(f"{page}: {path}")
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
