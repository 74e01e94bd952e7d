"""Run folders in which one file was tampered with, torn, replaced or removed: read, and gone on with.

    TD_MUTATIONS   of runs that are read, where set; a tenth of it are resumed"""
import glob
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

import mutate
from attack import Attack, ENVIRONMENT, SOURCE

PROGRAM = os.environ["TAPEDECK"]
with open(os.path.join(SOURCE, "tests", "every_sink.yaml")) as file:
    EXPERIMENT = file.read()
EXPERIMENT += """
  - {what: "*", form: [stats, histogram], every: 3 steps, to: [tensorboard, sqlite]}
  - {what: hidden.error, form: rows, to: [sqlite]}
  - {what: prediction, sample: 3, every: 1 epoch, to: [csv]}
"""
VALUES = ["NULL", "0", "-1", "1e999", "-9e18", "9223372036854775807", "-9223372036854775808", "''", "'x'", "x'00ff'", "randomblob(50)",
          "x'01ff7f'", "x'01802001'", "x'0100ffffffffffffffffff01'",
          "zeroblob(100000)", "'../../../etc/passwd'", "char(27)||']0;x'||char(7)", "'%s%n'", "1.5"]


def change_database(generator, path):
    """By SQL; or its bytes."""
    if generator.random() < 0.4:
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(mutate.some_bytes(generator, data))
        return
    database = sqlite3.connect(path)
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for _ in range(generator.choice([1, 1, 2, 4])):
        table = generator.choice(tables)
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')] or ["rowid"]
        column, value = generator.choice(columns), generator.choice(VALUES)
        statement = generator.choice([
            f'UPDATE "{table}" SET "{column}" = {value}',
            f'UPDATE "{table}" SET "{column}" = {value} WHERE rowid % 3 = 1',
            f'UPDATE "{table}" SET "{column}" = {value} WHERE rowid % 3 = 1',
            f'DELETE FROM "{table}" WHERE rowid % 2 = 1',
            f'DROP TABLE "{table}"',
            f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other',
            f'ALTER TABLE "{table}" RENAME TO other',
            f'CREATE TRIGGER t{generator.randrange(9)} AFTER INSERT ON "{table}" BEGIN DELETE FROM "{table}"; END',
            f'DROP TABLE "{table}"; CREATE VIEW "{table}" AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) '
            'SELECT x AS id, x AS step, x AS signal, x AS value, x AS name, x AS key FROM r',
            f"PRAGMA user_version = {generator.choice([0, -1, 99, 2147483647])}",
        ])
        try:
            database.executescript(statement)
        except sqlite3.Error:
            pass
    database.close()


MUTATORS = [(".csv", mutate.text), (".npy", mutate.npy), (".png", mutate.png), (".safetensors", mutate.safetensors),
            (".yaml", mutate.text), (".json", mutate.json_text)]


def change_file(generator, path):
    choice = generator.random()
    if choice < 0.04:
        os.remove(path)
        if generator.random() < 0.5:
            os.mkdir(path)
        elif generator.random() < 0.5:
            os.mkfifo(path)
        else:
            os.symlink("/dev/zero", path)
    elif path.endswith("run.db"):
        change_database(generator, path)
    else:
        with open(path, "rb") as file:
            data = file.read()
        rule = next((rule for ending, rule in MUTATORS if path.endswith(ending)),
                    mutate.events if "tfevents" in path else mutate.some_bytes)
        with open(path, "wb") as file:
            file.write(rule(generator, data))


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tapedeck-attack-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        experiment = os.path.join(cls.folder, "e.yaml")
        with open(experiment, "w", encoding="utf-8") as file:
            file.write(EXPERIMENT)
        subprocess.run([PROGRAM, "train", experiment, "--quiet", "--out", cls.folder], check=True, env=ENVIRONMENT,
                       stdout=subprocess.DEVNULL)
        cls.finished = os.path.join(cls.folder, "run")
        shutil.copytree(cls.finished, os.path.join(cls.folder, "cut"))
        cls.cut = os.path.join(cls.folder, "cut")  # as a crash leaves it: it can be gone on with
        for path in glob.glob(os.path.join(cls.cut, "model.safetensors")):
            os.remove(path)
        checkpoints = sorted(glob.glob(os.path.join(cls.cut, "checkpoints", "*")))
        if len(checkpoints) > 1:
            os.remove(checkpoints[-1])

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def changed(self, source, name, generator):
        folder = os.path.join(self.folder, name)
        shutil.copytree(source, folder)
        files = [path for path in glob.glob(os.path.join(folder, "**"), recursive=True) if os.path.isfile(path)]
        database = os.path.join(folder, "run.db")
        chosen = generator.sample(files, generator.choice([1, 1, 2]))
        if generator.random() < 0.3:
            chosen[0] = database
        for path in sorted(set(chosen)):
            change_file(generator, path)
        return folder

    def test_reading(self):
        attack = Attack("read_runs", "")
        mutations, seed = int(os.environ.get("TD_MUTATIONS", 600)), int(os.environ.get("TD_SEED", 1))
        for first in range(0, mutations, 50):
            folders = [self.changed(self.finished, f"read-{i}", random.Random(seed * 1000003 + i))
                       for i in range(first, min(first + 50, mutations))]
            attack.read(folders)
            for folder in folders:
                shutil.rmtree(folder)
        self.assertEqual(attack.failures, [], "\n".join(attack.failures))

    def test_resuming(self):
        mutations, seed = int(os.environ.get("TD_MUTATIONS", 600)) // 10, int(os.environ.get("TD_SEED", 1))
        failures = []
        for i in range(mutations):
            folder = self.changed(self.cut, f"resume-{i}", random.Random(seed * 1000003 + i))
            before = self.outside(folder)
            try:
                done = subprocess.run([PROGRAM, "train", os.path.join(self.folder, "e.yaml"), "--resume", folder, "--quiet"],
                                      capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False,
                                      errors="replace")
            except subprocess.TimeoutExpired:
                failures.append(f"{i}: hangs")
                continue
            if done.returncode not in (0, 1, 2, 3) or "ERROR: " in done.stderr or "runtime error" in done.stderr:
                failures.append(f"{i}: {done.returncode} {done.stderr[-2000:]}")
            elif done.returncode and not done.stderr.strip():
                failures.append(f"{i}: {done.returncode} without a word")
            elif done.returncode == 0 and not os.path.exists(os.path.join(folder, "model.safetensors")):
                failures.append(f"{i}: exit status 0 and no model")
            elif any(character in done.stderr for character in "\x1b\x07\u202e"):
                failures.append(f"{i}: an escape reaches the terminal: {done.stderr!r}")
            if self.outside(folder) != before:
                failures.append(f"{i}: files outside of the run changed")
            shutil.rmtree(folder)
        self.assertEqual(failures, [], "\n".join(failures))

    def outside(self, folder):
        return {path: os.stat(path).st_mtime_ns for path in glob.glob(os.path.join(self.folder, "*"))
                if os.path.basename(path) != os.path.basename(folder)}


if __name__ == "__main__":
    unittest.main()
