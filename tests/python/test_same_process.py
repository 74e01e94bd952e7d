"""run.db while the deck's own process reads it and another program writes it: nothing is lost, or it is reported.

SQLite's locks are the process's, and go when any descriptor of the file is closed. Without them the other
program takes itself for the last one, and removes the log that the deck goes on writing.
"""

import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

import tapedeck

FIRST, ALL = 200, 600
OTHER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("INSERT OR REPLACE INTO run VALUES('other', 'was here')")
database.commit()
database.execute("PRAGMA wal_checkpoint(PASSIVE)")
database.close()
"""


def read_and_close(folder):
    values = tapedeck.Run(folder)["loss"].values["value"].tolist()
    gc.collect()  # a run and its signals refer to each other
    return values


def read_with_sqlite(folder):
    database = sqlite3.connect(os.path.join(folder, "run.db"))
    database.execute("SELECT count(*) FROM scalar").fetchall()
    database.close()


def copy(folder):
    shutil.copytree(folder, folder + "-copy")


class SameProcess(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def record(self, deck, first, last):
        for i in range(first, last):
            deck.log(loss=i)
            deck.step()

    def rows(self, folder):
        database = sqlite3.connect(os.path.join(folder, "run.db"))
        rows = [value for (value,) in database.execute("SELECT value FROM scalar ORDER BY step")]
        other = database.execute("SELECT value FROM run WHERE key = 'other'").fetchone()
        database.close()
        return rows, other

    def let_another_write(self, folder):
        subprocess.run([sys.executable, "-c", OTHER, os.path.join(folder, "run.db")], check=True)

    def test_nothing_that_the_process_does_with_the_files_loses_rows(self):
        for meddle in (read_and_close, read_with_sqlite, copy):
            with self.subTest(meddle.__name__):
                deck = tapedeck.Deck(os.path.join(self.folder.name, meddle.__name__))
                self.record(deck, 0, FIRST)
                deck.flush()
                meddle(deck.folder)
                self.let_another_write(deck.folder)
                self.record(deck, FIRST, ALL)
                deck.flush()
                self.let_another_write(deck.folder)
                self.assertEqual(len(read_and_close(deck.folder)), ALL)
                deck.finish()
                self.assertEqual(self.rows(deck.folder), ([float(i) for i in range(ALL)], ("was here",)))
                self.assertEqual([name for name in os.listdir(deck.folder) if name.startswith("run.db-")], [])

    def test_what_is_on_disk_when_it_is_killed(self):
        program = f"""
import os, signal, subprocess, sys
sys.path[:0] = {sys.path!r}
import tapedeck
deck = tapedeck.Deck({self.folder.name + '/killed'!r})
for i in range({ALL}):
    deck.log(loss=i)
    deck.step()
    if i == {FIRST}:
        deck.flush()
        tapedeck.Run(deck.folder)
        subprocess.run([sys.executable, "-c", {OTHER!r}, deck.folder + "/run.db"], check=True)
deck.flush()
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
        subprocess.run([sys.executable, "-c", program])
        self.assertEqual(len(read_and_close(self.folder.name + "/killed")), ALL)

    def test_a_reader_from_before_the_run_went_on(self):
        program = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
import tapedeck
deck = tapedeck.Deck({self.folder.name + '/killed'!r})
for i in range({FIRST}):
    deck.log(loss=i)
    deck.step()
deck.flush()
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
        subprocess.run([sys.executable, "-c", program])
        folder = self.folder.name + "/killed"
        run = tapedeck.Run(folder)
        self.assertEqual(run.state, "crashed")
        deck = tapedeck.Deck(folder, resume=FIRST)
        self.record(deck, FIRST, FIRST + 10)
        deck.flush()
        del run
        self.let_another_write(folder)
        self.record(deck, FIRST + 10, ALL)
        deck.finish()
        self.assertEqual(len(self.rows(folder)[0]), ALL)

    def test_a_forked_process_that_reads(self):
        deck = tapedeck.Deck(os.path.join(self.folder.name, "forked"))
        self.record(deck, 0, FIRST)
        deck.flush()
        child = os.fork()
        if child == 0:
            os._exit(len(read_and_close(deck.folder)) != FIRST)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.let_another_write(deck.folder)
        self.record(deck, FIRST, ALL)
        deck.finish()
        self.assertEqual(len(self.rows(deck.folder)[0]), ALL)

    def test_a_file_that_is_taken_away_is_reported(self):
        for name in ("run.db", "run.db-wal"):
            with self.subTest(name):
                deck = tapedeck.Deck(os.path.join(self.folder.name, "without-" + name))
                self.record(deck, 0, FIRST)
                deck.flush()
                os.remove(os.path.join(deck.folder, name))
                self.record(deck, FIRST, ALL)
                with self.assertRaisesRegex(tapedeck.Error, f"{name} was removed or replaced"):
                    deck.flush()
                with self.assertRaises(tapedeck.Error):
                    deck.finish()


if __name__ == "__main__":
    unittest.main()
