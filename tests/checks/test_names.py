"""Names in the C code are words of the field: none of the words below, which once stood for others, is an
identifier, so that `grep` and a profiler name one function, and a parameter says what it is."""

import os
import re
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TD_SOURCE"])
FOLDERS = ("include", "src", "cli", "python/src", "examples")
INSTEAD = {
    "of": "what it is: context, kind, output",
    "look": "what it looks for: find_dead_units",
    "so_many": "count",
    "tell": "report, notify",
    "told": "reported",
    "hear": "listen",
    "hush": "suppress",
    "dear": "expensive",
    "dearer": "slower",
    "put_off": "defer",
    "let_go": "release",
    "shelf": "cache",
    "tend": "refresh",
}
# Comments, texts and includes are left out; so are members of structs, which their struct explains.
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#\s*include[^\n]*', re.S)
WORD = re.compile(r"(?<![\w.>])(" + "|".join(INSTEAD) + r")\b")


def code_of(text):
    """The text without what is not code, its lines where they were."""
    return NOT_CODE.sub(lambda match: "\n" * match.group().count("\n"), text)


def words_of(text):
    """(line, word) for every name that is one of the words."""
    return [(number, word) for number, line in enumerate(code_of(text).split("\n"), 1) for word in WORD.findall(line)]


class Names(unittest.TestCase):
    def test_words_are_found_in_code_alone(self):
        text = '/* of\n tell */ void look(void *of) { puts("tell"); item->look(of.tell); } // dear\n'
        self.assertEqual(words_of(text), [(2, "look"), (2, "of"), (2, "of")])

    def test_no_name_is_one_of_these_words(self):
        files = [path for folder in FOLDERS for path in (SOURCE / folder).rglob("*.[ch]")]
        self.assertGreater(len(files), 700)
        found = [
            f"{path.relative_to(SOURCE)}:{number}: '{word}': {INSTEAD[word]}"
            for path in files
            for number, word in words_of(path.read_text())
        ]
        self.assertEqual(found, [], "\n".join(found))


if __name__ == "__main__":
    unittest.main()
