"""CSV files that processes parse together, a part of the bytes each: the same run, and the same errors, as of one process."""
import os
import subprocess
import unittest

import numpy as np

from cluster import ENVIRONMENT, PROGRAM, Case, files, launchers, run

EXPERIMENT = """
name: csv
seed: 3
data: {{train: data.csv, memory: 100, batch: 16, {data}}}
model:
- dense: {{name: hidden, units: 5, activation: relu}}
- dense: {{name: out, units: {units}}}
train: {{loss: {loss}, shards: 8, epochs: 2}}
record:
- {{what: "*", every: 5 steps, form: stats, to: [csv]}}
- {{what: [input, label], every: 4 steps, to: [npy]}}
"""
CLASSES = "{sparse_categorical_crossentropy: {from_logits: true}}"
ROWS = 203


def lines(cells, header="a,b,kind", end="\n", last="\n"):
    return end.join([header] + [",".join(row) for row in cells]) + last


def table(kinds):
    """Columns a, b and kind; kinds by row."""
    random = np.random.default_rng(4)
    return [[f"{x:.4f}", f"{y:.3f}", kinds(i)] for i, (x, y) in enumerate(random.standard_normal((ROWS, 2)))]


def changed(rows, at, column, value):
    rows = [list(row) for row in rows]
    rows[at][column] = value
    return rows


NAMES = ("eel", "cat", "fox", "dog")
TEXTS = table(lambda i: NAMES[(i // 60 + i % 2) % 4])  # the first process alone sees two of them
NUMBERS = table(lambda i: str(i * i % 4))
QUOTED = table(lambda i: f'"{NAMES[i * i % 4]}\n1,2,{NAMES[i % 3]}\n\n""3"",4,cat\n"')
FEW = "label: kind"
# Name: file, data section, classes (0: a value).
CASES = {
    "texts": (lines(TEXTS), FEW + ", validation: 0.2, standardize: true", 4),
    "in order": (lines(TEXTS), FEW + ", shuffle: false", 4),
    "numbers": (lines(NUMBERS), FEW + ", standardize: true", 4),
    "values": (lines(NUMBERS), "label: b, ignore: [kind], standardize_labels: true", 0),
    "line ends within quotes": (lines(QUOTED), FEW, 12),
    "every field in quotes": (lines([[f'"{row[0]}"', f' "{row[1]}"', row[2]] for row in QUOTED], '"a","b","kind"'), FEW, 12),
    "CRLF": (lines(TEXTS, end="\r\n", last=""), FEW, 4),
    "empty lines": (lines(TEXTS, end="\n\n\n\n", last="\n\n\n\n\n\n\n\n"), FEW, 4),
    "a few long rows": (lines([[row[0], row[1], f'"{"x" * (900 if i % 100 == 7 else 1)}"', row[2]] for i, row in enumerate(TEXTS)],
                              "a,b,note,kind"), FEW + ", ignore: [note]", 4),
    "fewer rows than processes": (lines(TEXTS[:3]), FEW, 4),
    "leading zeros near the end": (lines(changed(NUMBERS, 190, 2, "03")), FEW, 5),
    "categories": (lines(TEXTS), "label: b, categories: [kind]", 0),
    "missing values filled": (lines(changed(changed(NUMBERS, 3, 0, ""), 150, 1, "NA")), FEW + ", missing: mean, standardize: true", 4),
    "missing values left out": (lines(changed(changed(NUMBERS, 3, 0, ""), 150, 2, "?")), FEW + ", missing: drop", 4),
    "weights": (lines([row + [f"{1 + i % 3}"] for i, row in enumerate(TEXTS)], "a,b,kind,w"), FEW + ", weight: w", 4),
    "a validation file": (lines(TEXTS), FEW + ", validation: data.csv, standardize: true", 4),
    "texts that become ids": (lines(QUOTED), "label: b, text: {kind: {length: 5}}", 0),
    "dates": (lines([row + [f"{28 - i % 28}/{1 + i % 12}/{2024 - i // 50}"] for i, row in enumerate(TEXTS)], "a,b,kind,day"),
              FEW + ", dates: {day: {order: day_first}}, standardize: true", 4),
    "groups": (lines([row + [f"g{i * i % 23}"] for i, row in enumerate(TEXTS)], "a,b,kind,group"), FEW + ", groups: group, validation: 0.3", 4),
    "several files": (lines(TEXTS), FEW + ", train: [data.csv, data.csv]", 4),
}
# Name: file, data section.
ERRORS = {
    "text": (lines(changed(changed(NUMBERS, 180, 1, "high"), 60, 0, "low")), FEW),
    "not finite": (lines(changed(NUMBERS, 180, 1, "1e99")), FEW),
    "a decimal comma": (lines(changed(NUMBERS, 120, 1, '"1,5"')), FEW),
    "missing values": (lines(changed(changed(NUMBERS, 180, 1, ""), 90, 0, "")), FEW),
    "a missing label": (lines(changed(NUMBERS, 180, 2, "")), FEW + ", missing: mean"),
    "too few fields": (lines(NUMBERS[:150] + [["1", "2"]] + NUMBERS[150:]), FEW),
    "a number among texts": (lines(changed(TEXTS, 170, 2, "7")), FEW),
    "a quote that is not closed": (lines(changed(QUOTED, 140, 2, '"open')), FEW),
    "behind line ends within quotes": (lines(changed(QUOTED, 190, 1, "?x")), FEW),
    "a label that is no class": (lines(changed(NUMBERS, 180, 2, "2.5")), FEW + ", label_kind: class"),
}
# A cache of its own for every process, as machines have that share no folder.
APART = ["sh", "-c", 'TAPEDECK_CACHE=$0/$OMPI_COMM_WORLD_RANK$PMI_RANK exec "$@"']


class Csv(Case):
    def write(self, text, data, classes=12):
        with open(self.path("data.csv"), "w", encoding="utf-8", newline="") as file:
            file.write(text)
        experiment = EXPERIMENT.format(data=data, units=classes or 1, loss=CLASSES if classes else "mse")
        experiment = experiment.replace("train: data.csv, ", "", 1) if "train: [" in data else experiment
        with open(self.path("csv.yaml"), "w", encoding="utf-8") as file:
            file.write(experiment)

    def together(self, mpi, processes, out, *words, apart=False, expect=0):
        """With an empty cache, which all share or not."""
        program = [*APART, self.path(out + "-cache"), PROGRAM] if apart else [PROGRAM]
        done = subprocess.run([f"mpirun.{mpi}", "-n", str(processes), *program, "train", "csv.yaml", "--quiet", "--out", out, *words],
                              cwd=self.folder, env=dict(ENVIRONMENT, TAPEDECK_CACHE=self.path(out + "-cache")), text=True, timeout=240,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.assertEqual(done.returncode == 0, expect == 0, (done.stdout, done.stderr))
        return done.stdout + done.stderr

    def test_runs_are_those_of_one_process(self):
        for i, (name, (text, data, classes)) in enumerate(CASES.items()):
            with self.subTest(name):
                self.write(text, data, classes)
                run("", 0, "train", "csv.yaml", "--quiet", "--out", f"alone{i}", cwd=self.folder, TAPEDECK_CACHE=self.path(f"cache{i}"))
                alone = files(self.path(f"alone{i}", "csv"))
                for processes, apart in ((2, False), (8, False), (4, True)):
                    out = f"many{i}-{processes}{apart}"
                    self.together(launchers()[-1], processes, out, apart=apart)
                    many = files(self.path(out, "csv"))
                    self.assertEqual(sorted(alone), sorted(many))
                    for key in alone:
                        self.assertTrue(alone[key] == many[key], f"{name}, {processes} {apart}: {key}")

    def test_errors_are_those_of_one_process(self):
        for i, (name, (text, data)) in enumerate(ERRORS.items()):
            with self.subTest(name):
                self.write(text, data)
                told = run("", 0, "train", "csv.yaml", "--quiet", "--out", f"alone{i}", cwd=self.folder, expect=1,
                           TAPEDECK_CACHE=self.path(f"cache{i}"))
                told = told[told.index("data: "):].splitlines()[0]  # reading on while it trains, it does not name the experiment
                for apart in (False, True):
                    many = self.together(launchers()[-1], 4, f"many{i}{apart}", apart=apart, expect=1)
                    self.assertIn(told, many)
                    self.assertEqual(many.count(told), 1)
                    self.assertEqual([name for _, _, names in os.walk(self.path(f"many{i}{apart}-cache")) for name in names
                                      if not name.endswith(".csv-cache")], [])

    def test_files_that_differ_are_noticed(self):
        """Under the same path, as on machines of which one has another version of the file."""
        self.write(lines(TEXTS), FEW)
        for rank, rows in enumerate((TEXTS, TEXTS[:-1])):
            os.mkdir(self.path(str(rank)))
            with open(self.path(str(rank), "data.csv"), "w", encoding="utf-8") as file:
                file.write(lines(rows))
            os.symlink(self.path("csv.yaml"), self.path(str(rank), "csv.yaml"))
        for mpi in launchers()[-1:]:
            done = subprocess.run([f"mpirun.{mpi}", "-n", "2", "sh", "-c", 'cd $OMPI_COMM_WORLD_RANK$PMI_RANK && exec "$@"', "sh", PROGRAM, "train",
                                   "csv.yaml", "--quiet"], cwd=self.folder, env=dict(ENVIRONMENT, TAPEDECK_CACHE=self.path("cache")), text=True,
                                  timeout=60, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, r"data.csv: rank 1 on [^ ]+ has a file of \d+ bytes, rank 0 on [^ ]+ one of \d+; all processes read the "
                                          "same data")

    @unittest.skipUnless(os.getuid() == 0, "needs root, for a file system of its own")
    def test_a_full_disk_of_a_node(self):
        """Where the cache of a process is that is not rank 0: all end with an error that names it, and leave nothing behind."""
        self.write(lines(TEXTS * 40), FEW)
        for mpi in launchers():
            for size in ("4k", "60k"):  # full at its first byte; in the middle of the rows
                folder = self.path(mpi + size + "-cache", "2")
                os.makedirs(folder)
                subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
                try:
                    told = self.together(mpi, 4, mpi + size, apart=True, expect=1)
                    left = os.listdir(folder)
                finally:
                    subprocess.run(["umount", folder], check=True)
                self.assertRegex(told, "data: rank 2 on [^ ]+: cannot write to the cache folder .*/2: No space left on device; "
                                       "TAPEDECK_CACHE names another one")
                self.assertEqual(told.count("No space left"), 1, told)
                self.assertEqual(left, [])
                self.assertEqual(os.listdir(self.path(mpi + size + "-cache", "1")), [])
                self.assertFalse(os.path.exists(self.path(mpi + size)))

    def test_each_process_reads_its_part(self):
        """Bytes of the file that each reads: the beginning, its own part, and what stands behind that in the buffer."""
        random = np.random.default_rng(4)
        size = 24 << 20
        with open(self.path("data.csv"), "w", encoding="utf-8") as file:
            file.write("a,b,kind\n")
            block = "".join(f"{x:.6f},{y:.6f},{i % 4}\n" for i, (x, y) in enumerate(random.standard_normal((20000, 2))))
            while file.tell() < size:
                file.write(block)
        with open(self.path("csv.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT.format(data=FEW, units=4, loss=CLASSES).replace("epochs: 2", "steps: 1"))
        trace = ["sh", "-c", 'exec strace -f -qq -y -e trace=read,pread64 -o trace.$OMPI_COMM_WORLD_RANK$PMI_RANK "$@"', "sh"]
        for mpi in launchers()[-1:]:
            done = subprocess.run([f"mpirun.{mpi}", "-n", "4", *trace, PROGRAM, "train", "csv.yaml", "--quiet", "--out", "out"], timeout=240,
                                  cwd=self.folder, env=dict(ENVIRONMENT, TAPEDECK_CACHE=self.path("cache")), text=True, check=False,
                                  stdin=subprocess.DEVNULL, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            size = os.path.getsize(self.path("data.csv"))
            for rank in range(4):
                with open(self.path(f"trace.{rank}"), encoding="utf-8", errors="replace") as file:
                    read = sum(int(line.rsplit("= ", 1)[1].split()[0]) for line in file if "/data.csv>" in line and "= " in line)
                parts = read / size - (rank == 0)  # rank 0 reads all of it for its fingerprint
                self.assertLess(parts, 0.25 + 3 * (1 << 20) / size, f"rank {rank}")
                self.assertGreater(parts, 0.2, f"rank {rank}")


if __name__ == "__main__":
    unittest.main()
