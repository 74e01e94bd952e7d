#!/usr/bin/env python3
"""Every public struct is in a class of docs/abi.md and keeps its rule: frozen layouts are the recorded ones, sized
structs begin with their size, and what may grow is embedded nowhere."""
import fnmatch
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("TD_SOURCE", ".")
RECORDED = os.path.join(SOURCE, "packaging", "frozen-structs.txt")
IGNORED = os.path.join(SOURCE, "packaging", "libtapedeck.abignore")


def compiler(*arguments, text):
    command = [os.environ.get("CC", "cc"), "-std=c17", "-I" + os.path.join(SOURCE, "include"), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def includes():
    headers = sorted(glob.glob(os.path.join(SOURCE, "include", "tapedeck", "*.h")))
    return "".join('#include "tapedeck/%s"\n' % os.path.basename(header) for header in headers)


def public_structs():
    """The members of every public struct with a body, macros expanded, by its name."""
    text = compiler("-E", "-P", "-xc", "-", text=includes())
    structs = {}
    for match in re.finditer(r"typedef struct (td_\w+) \{", text):
        depth, at = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        structs[match.group(1)] = " ".join(text[match.end():at - 1].split())
    return structs


def classes(structs):
    """The class of every struct that docs/abi.md names."""
    found = {}
    with open(os.path.join(SOURCE, "docs", "abi.md"), encoding="utf-8") as file:
        for line in file:
            row = re.match(r"\| (`td_.*) \| (frozen|sized|grown) \|", line)
            for pattern in re.findall(r"`(td_[\w*]+)`", row.group(1)) if row else ():
                names = fnmatch.filter(structs, pattern)
                if not names:
                    raise AssertionError("docs/abi.md names %s, which no header has" % pattern)
                for name in names:
                    if found.setdefault(name, row.group(2)) != row.group(2):
                        raise AssertionError("docs/abi.md has %s in two classes" % name)
    return found


def member_names(body):
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        pointer = re.search(r"\(\*(\w+)\)", declaration)
        if pointer:
            yield pointer.group(1)
            continue
        for part in re.sub(r"\[[^]]*\]", "", declaration).split(","):
            yield re.search(r"(\w+)\s*$", part).group(1)


def layouts(structs, names):
    """A line for each frozen struct: its size, and where each member is and how large."""
    lines = []
    for name in sorted(names):
        lines.append('printf("%s %%zu\\n", sizeof(%s));' % (name, name))
        for member in member_names(structs[name]):
            lines.append('printf("  %s %%zu %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));' %
                         (member, name, member, name, member))
    program = "%s#include <stdio.h>\nint main(void) {\n%s\nreturn 0;\n}\n" % (includes(), "\n".join(lines))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layouts")
        compiler("-xc", "-", "-o", path, text=program)
        return subprocess.run([path], capture_output=True, text=True, check=True).stdout


class Structs(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.structs = public_structs()
        cls.classes = classes(cls.structs)

    def of_class(self, *wanted):
        return {name for name in self.structs if self.classes.get(name) in wanted}

    def test_every_struct_is_in_a_class(self):
        self.assertGreater(len(self.structs), 100)
        self.assertEqual(sorted(set(self.structs) - set(self.classes)), [], "add them to docs/abi.md")

    def test_sized_structs_begin_with_their_size(self):
        for name in self.of_class("sized"):
            self.assertTrue(self.structs[name].startswith("size_t size;"), name)

    def test_what_may_grow_is_not_embedded(self):
        for name, body in self.structs.items():
            for grows in self.of_class("sized", "grown"):
                self.assertIsNone(re.search(r"\b%s\s+\w" % grows, body), "%s is embedded in %s" % (grows, name))

    def test_frozen_layouts_are_the_recorded_ones(self):
        with open(RECORDED, encoding="utf-8") as file:
            self.assertEqual(layouts(self.structs, self.of_class("frozen")), file.read(),
                             "a program that was compiled before breaks: docs/abi.md")

    def test_the_interface_check_ignores_growth_of_these_alone(self):
        with open(IGNORED, encoding="utf-8") as file:
            sections = file.read().split("[suppress_type]")
        growth = [re.search(r"name_regexp = (\S+)", section) for section in sections
                  if "has_data_member_inserted_at" in section]
        self.assertEqual(len(growth), 1)
        self.assertTrue(growth[0], "every struct's growth is ignored")
        ignored = {name for name in self.structs if re.search(growth[0].group(1), name)}
        self.assertEqual(sorted(ignored), sorted(self.of_class("sized", "grown")))


def update():
    """Records the frozen layouts, and which structs the interface check may see grow."""
    found = public_structs()
    kinds = classes(found)
    with open(RECORDED, "w", encoding="utf-8") as out:
        out.write(layouts(found, [name for name, kind in kinds.items() if kind == "frozen"]))
    names = [name[3:] for name, kind in kinds.items() if kind != "frozen" and not name.endswith("_layer")]
    pattern = "^td_(%s)$" % "|".join(["[a-z0-9_]+_layer", *sorted(names)])
    with open(IGNORED, encoding="utf-8") as file:
        text = re.sub(r"(name_regexp = )\S+(\n  has_data_member_inserted_at)",
                      lambda match: match.group(1) + pattern + match.group(2), file.read())
    with open(IGNORED, "w", encoding="utf-8") as out:
        out.write(text)


if __name__ == "__main__":
    if "--update" in sys.argv:
        update()
    else:
        unittest.main()
