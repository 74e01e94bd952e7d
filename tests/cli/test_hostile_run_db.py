"""A run.db that is made so that reading it never ends: the run is reported, and the others are listed."""
import json
import sqlite3
import struct
import unittest

from program import Case, SMALL

PAGE = 4096
DEPTH = 15  # of a tree whose every page has CHILDREN times the same child
CHILDREN = 400


def interior_page(child):
    """A page of a table's tree whose children are all the same."""
    cells = b"".join(struct.pack(">IB", child, key % 127 + 1) for key in range(CHILDREN))
    start = PAGE - len(cells)
    pointers = b"".join(struct.pack(">H", start + 5 * i) for i in range(CHILDREN))
    head = struct.pack(">BHHHBI", 5, 0, CHILDREN, start, 0, child) + pointers
    return head + bytes(start - len(head)) + cells


def make_endless(path, table):
    """The table's rows are those of one leaf, 400 to the power of 15 times; the file has 9 MB."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = DELETE")
    database.execute("INSERT INTO event VALUES(1, 'drop', 1, 1, 0.5, 1, 'loss', 'text')")
    root, = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    database.close()
    with open(path, "rb") as file:
        data = bytearray(file.read())
    leaf = data[PAGE * (root - 1):PAGE * root]
    assert leaf[0] == 13, "more than one page"
    first = len(data) // PAGE + 1
    data += leaf
    for i in range(DEPTH):
        data += interior_page(first + i)
    data[PAGE * (root - 1):PAGE * root] = interior_page(first + DEPTH)
    data += bytes((9 << 20) - len(data))
    data[28:32] = struct.pack(">I", len(data) // PAGE)
    with open(path, "wb") as file:
        file.write(data)


class HostileRunDb(Case):
    def test_a_list_goes_on_after_a_database_without_end(self):
        for table in ("event",):
            self.train(SMALL.replace("name: small", f"name: {table}"), "--quiet")
            path = self.path("runs", table, "run.db")
            make_endless(path, table)
        self.train(SMALL, "--quiet")
        done = self.run_program("runs", status=1)
        for table in ("event",):
            self.assertRegex(done.stderr, rf"runs/{table}.*would not end")
        self.assertIn("small", done.stdout)
        listed = json.loads(self.run_program("runs", "--json", status=1).stdout)
        self.assertIn("finished", [run.get("state") for run in listed if run["name"] == "small"])


if __name__ == "__main__":
    unittest.main()
