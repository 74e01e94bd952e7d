"""Runs in PostgreSQL: sent, read where a folder is read, brought back; who may do what, hostile names, what a server may lack."""
import filecmp
import glob
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import postgresql
from program import Case, PROGRAM, SMALL

BUILD = os.environ["TD_BUILD"]
RECORD = """
record:
  - {what: "loss, accuracy, val_loss, learning_rate", every: 1 step}
  - {what: "*.error, *.gradient", every: 2 steps, form: stats}
  - {what: "*.error, *.output", every: 3 steps, form: histogram}
  - {what: "*.kernel", every: 1 epoch, form: [tensor, image], to: [npy, png]}
  - {what: "prediction", every: 1 epoch, sample: 5, form: rows, to: [sqlite, csv]}
  - {what: "*.kernel", every: 5 steps, form: hash}
"""
HOSTILE = "x'; DROP SCHEMA tapedeck CASCADE; -- $1 \"%s\" {1,2} \\"
READING = [["show"], ["show", "--json"], ["show", "hidden.error"], ["show", "loss", "--steps", "3..9"],
           ["export", "--to", "csv", "--out", "OUT"], ["export", "--to", "npy", "--out", "OUT"],
           ["export", "--to", "tensorboard", "--out", "OUT"], ["export", "--to", "png", "--out", "OUT"],
           ["diagnose", "--no-keep"], ["diagnose", "--no-keep", "--json"], ["assert", "loss < 100"],
           ["sql", "SELECT signal, step, value FROM scalars ORDER BY 1, 2"],
           ["sql", "SELECT * FROM stats ORDER BY signal, step"], ["sql", "SELECT * FROM histograms ORDER BY 2, 3, 4"],
           ["sql", "SELECT * FROM events"], ["sql", "SELECT * FROM examples ORDER BY signal, step, sample"],
           ["sql", "SELECT * FROM signals"], ["sql", "SELECT * FROM notes"], ["sql", "SELECT * FROM config"]]


def reason():
    return None if postgresql.is_there(BUILD) else "no PostgreSQL server, or built without libpq"


@unittest.skipIf(reason(), reason() or "")
class Database(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = postgresql.Server()
        cls.addClassCleanup(cls.server.close)
        cls.trained = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.trained)

    def setUp(self):
        super().setUp()
        self.server.sql("DROP SCHEMA IF EXISTS tapedeck CASCADE")
        self.url = self.server.url()

    def train(self, name="small", epochs=4):
        """A folder that is a run; the same for the same arguments."""
        kept = os.path.join(self.trained, f"{name}-{epochs}")
        if os.path.exists(kept):
            return "runs/" + os.path.basename(shutil.copytree(kept, self.path("runs", name)))
        folder = self.really_train(name, epochs)
        shutil.copytree(self.path(folder), kept)
        return folder

    def really_train(self, name="small", epochs=4):
        text = SMALL.replace("name: small", f"name: {json.dumps(name)}").replace("epochs: 4", f"epochs: {epochs}")
        self.run_program("train", self.write("small.yaml", text + RECORD))
        return f"runs/{name}"

    def push(self, *folders):
        return [line.split(": ")[0] for line in
                self.run_program("push", *folders, self.url).stdout.splitlines()]

    def test_every_command_reads_the_same_from_the_database(self):
        folder = self.train()
        place = self.push(folder)[0]
        self.assertEqual(place, self.url + "#small")
        for number, command in enumerate(READING):
            printed = []
            for way, run in enumerate((folder, place)):
                out = f"out-{number}-{way}"
                arguments = [command[0], run, *command[1:]]
                done = subprocess.run([PROGRAM, *[out if word == "OUT" else word for word in arguments]], cwd=self.folder,
                                      env=self.environment(), capture_output=True, text=True, check=False)
                printed.append((done.returncode, *[text.replace(run, "RUN").replace(out, "OUT")
                                                   for text in (done.stdout, done.stderr)]))
            self.assertEqual(printed[0], printed[1], command)
            self.assertIn(printed[0][0], (0, 1))
            self.assertGreater(len(printed[0][1] + printed[0][2]), 10, command)
            if "OUT" in command:
                self.compare_folders(self.path(f"out-{number}-0"), self.path(f"out-{number}-1"))
        self.assertEqual(json.loads(self.run_program("runs", "--json", self.url).stdout)[0] | {"folder": ""},
                         json.loads(self.run_program("runs", "--json", "runs").stdout)[0] | {"folder": ""})
        self.assertRegex(self.run_program("compare", folder, place).stdout, r"the same\n\n.*: 0 of \d+ signals part")

    def test_agents_are_answered_the_same(self):
        folder = self.train()
        place = self.push(folder)[0]
        calls = [("list_runs", {}), ("describe_run", {"run": "small"}), ("query", {"sql": "SELECT signal, step, value FROM scalars ORDER BY 1, 2"}),
                 ("series", {"run": "small", "signals": "loss,*.error"}), ("layers", {"run": "small", "kind": "gradient"}),
                 ("compare_runs", {"a": "small", "b": "small"}), ("diagnose_run", {"run": "small"}),
                 ("assert_run", {"run": "small", "expression": "loss < 100"}), ("describe_run", {"run": "none"})]
        lines = "".join(json.dumps({"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": name, "arguments": arguments}}) + "\n"
                        for i, (name, arguments) in enumerate(calls))
        answers = []
        for served in ("runs", self.url):
            done = subprocess.run([PROGRAM, "mcp", served], cwd=self.folder, env=self.environment(), input=lines, capture_output=True,
                                  text=True, check=True)
            answers.append([json.loads(line)["result"] for line in done.stdout.replace(f'{{\\"folder\\":\\"{served}', "").splitlines()])
        for one, other, call in zip(*answers, calls, strict=True):
            self.assertEqual(one, other, call)
            self.assertEqual(one["isError"], call[1].get("run") == "none", one)
        gone = subprocess.run([PROGRAM, "mcp", self.server.url(database="none")], input="", capture_output=True, text=True, check=False)
        self.assertEqual((gone.returncode, place), (1, self.url + "#small"))
        self.assertIn("does not exist", gone.stderr)

    def compare_folders(self, one, other):
        files = [sorted(path for path in glob.glob(folder + "/**", recursive=True) if os.path.isfile(path)) for folder in (one, other)]
        self.assertTrue(files[0])
        for path, same in zip(*files, strict=True):
            if "tfevents" in path:  # its name and first record have the time of writing
                self.assertEqual(os.path.getsize(path), os.path.getsize(same))
            else:
                self.assertEqual(os.path.relpath(path, one), os.path.relpath(same, other))
                self.assertTrue(filecmp.cmp(path, same, shallow=False), path)

    def test_views_have_a_row_for_each_value(self):
        folder = self.train(epochs=30)  # more than one chunk of 1024 would need more; see the next test
        self.push(folder)
        of_file = self.run_program("sql", folder, "SELECT signal, step, value FROM scalars ORDER BY 1, 2", "--csv").stdout
        of_view = self.server.sql("SELECT signal, step, value FROM tapedeck.metric ORDER BY signal COLLATE \"C\", step")
        self.assertEqual([[line.split(",")[0], int(line.split(",")[1]), float(line.split(",")[2])]
                          for line in of_file.splitlines()[1:]],
                         [[name, int(step), float(value)] for name, step, value in of_view])
        bins = self.run_program("sql", folder, "SELECT signal, step, low, high, count FROM histograms ORDER BY 1, 2, 3", "--csv").stdout
        of_view = self.server.sql("""SELECT name, step, "left", "right", count FROM tapedeck.histogram h JOIN tapedeck.signal g
            ON g.run = h.run AND g.id = h.signal ORDER BY name COLLATE "C", step, "left" """)
        self.assertEqual([[line.split(",")[0], *map(float, line.split(",")[1:])] for line in bins.splitlines()[1:]],
                         [[row[0], *map(float, row[1:])] for row in of_view])
        self.assertGreater(len(of_view), 1000)
        norms = self.server.sql("SELECT count(*), sum(norm) FROM tapedeck.stats")[0]
        own = self.run_program("sql", folder, "SELECT count(*), sum(norm) FROM stats", "--csv").stdout.splitlines()[1].split(",")
        self.assertEqual(int(norms[0]), int(own[0]))
        self.assertAlmostEqual(float(norms[1]), float(own[1]), places=9)

    def test_sending_again_sends_only_what_is_new_and_leaves_nothing_twice(self):
        folder = self.train(epochs=300)
        first = self.push(folder)
        chunks = self.server.sql("SELECT signal, \"first\", \"last\", count, min, max, mean, xmin FROM tapedeck.scalar_chunk ORDER BY 1, 2")
        counts = [int(row[3]) for row in chunks]
        self.assertIn(1024, counts)
        self.assertEqual(self.push(folder), first)
        self.assertEqual(self.server.sql("SELECT signal, \"first\", \"last\", count, min, max, mean, xmin FROM tapedeck.scalar_chunk"
                                         " ORDER BY 1, 2"), chunks)
        self.assertEqual(len(self.server.sql("SELECT id FROM tapedeck.run")), 1)
        # What differs is put right: a chunk that is gone, one that is wrong, one too many.
        self.server.sql("DELETE FROM tapedeck.scalar_chunk WHERE \"first\" = 1;"
                        "UPDATE tapedeck.stats_chunk SET digest = 0 WHERE signal % 2 = 0;"
                        "INSERT INTO tapedeck.hash_chunk(run, signal, \"first\", \"last\", every, count, digest, hash)"
                        " SELECT run, signal, 99999, 99999, 1, 1, 0, '{x}'"
                        " FROM tapedeck.hash_chunk LIMIT 1")
        self.push(folder)
        self.assertEqual([row[:-1] for row in self.server.sql(
            "SELECT signal, \"first\", \"last\", count, min, max, mean, xmin FROM tapedeck.scalar_chunk ORDER BY 1, 2")],
            [row[:-1] for row in chunks])
        self.assertEqual(self.server.sql("SELECT count(*) FROM tapedeck.stats_chunk WHERE digest = 0")
                         + self.server.sql("SELECT count(*) FROM tapedeck.hash_chunk WHERE \"first\" = 99999"), [["0"], ["0"]])

    def test_a_run_that_is_pulled_is_the_run_that_was_pushed(self):
        folder = self.train()
        place = self.push(folder)[0]
        self.assertEqual(self.run_program("pull", place, "back/again").stdout, "back/again\n")
        dump = ["SELECT * FROM " + table + " ORDER BY 1, 2" for table in (
            "run", "environment", "experiment", "signal", "step", "scalar", "summary", "stats", "histogram_packed", "tensor_series",
            "example", "hash", "replayed", "text", "event", "finding")]
        answers = [subprocess.run(["sqlite3", self.path(run, "run.db"), ";".join(dump)], capture_output=True, check=True).stdout
                   for run in (folder, "back/again")]
        self.assertEqual(answers[0], answers[1])
        self.assertIn("exists already", self.run_program("pull", place, "back/again", status=1).stderr)
        self.assertIn("no run 'none'", self.run_program("pull", self.url + "#none", status=1).stderr)

    def test_names_are_never_sql(self):
        folder = self.train()
        hostile = self.path("runs", HOSTILE.replace("/", "_"))
        os.rename(self.path(folder), hostile)
        subprocess.run(["sqlite3", os.path.join(hostile, "run.db"),
                        "UPDATE signal SET name = name || char(39) || '); DROP SCHEMA tapedeck CASCADE; -- {\"},\' WHERE id % 2;"
                        "INSERT INTO run VALUES('$1'';DROP TABLE tapedeck.run;--', char(0) || x'fffe41');"
                        "INSERT INTO text VALUES(1, 5, 'NULL'), (1, 6, '{NULL,\"a\\\"}'), (1, 7, CAST(x'ff00fe' AS TEXT));"
                        "INSERT INTO finding(cause, evidence) VALUES('''; DELETE FROM tapedeck.run; --', '\\.')"], check=True)
        place = self.run_program("push", hostile, self.url).stdout.rsplit(": ", 1)[0]
        self.assertEqual(self.server.sql("SELECT name FROM tapedeck.run")[0][0], os.path.basename(hostile))
        self.assertEqual([row[0] for row in self.server.sql("SELECT text FROM tapedeck.text ORDER BY step")],
                         ["NULL", '{NULL,"a\\"}', "%FF%00%FE"])
        self.assertEqual(self.run_program("show", place, "loss*", "--json").stdout.replace(place, ""),
                         self.run_program("show", hostile, "loss*", "--json").stdout.replace(hostile, ""))
        self.run_program("show", self.url + "#" + "'; DROP SCHEMA tapedeck CASCADE; --", status=1)
        self.assertEqual(len(self.server.sql("SELECT id FROM tapedeck.run")), 1)

    def test_a_user_who_may_only_read_can_read_and_nothing_else(self):
        place = self.push(self.train())[0]
        self.server.sql("DROP ROLE IF EXISTS looker; CREATE ROLE looker LOGIN; GRANT USAGE ON SCHEMA tapedeck TO looker;"
                        "GRANT SELECT ON ALL TABLES IN SCHEMA tapedeck TO looker")
        self.addCleanup(self.server.sql, "DROP OWNED BY looker; DROP ROLE looker")
        reader = self.server.url("looker")
        self.assertEqual(self.run_program("show", reader + "#small").stdout, self.run_program("show", place).stdout)
        self.assertIn("small", self.run_program("runs", reader).stdout)
        self.assertIn("permission denied", self.run_program("push", "runs/small", reader, status=1).stderr)

    def test_a_password_is_shown_nowhere(self):
        self.train()
        with_password = self.url.replace("team@", "team:se%2Fcret@")
        for arguments, status in ((["push", "runs/small", with_password], 0), (["show", with_password + "#small"], 0),
                                  (["runs", "--json", with_password], 0), (["show", with_password + "#none"], 1),
                                  (["show", with_password.replace("runs?", "nowhere?")], 1),
                                  (["show", "postgresql://team:se/cret@/runs#small"], 1),
                                  (["show", with_password.replace("host=", "hast=") + "#small"], 1),
                                  (["push", "runs/small", self.url + "&password=se%2Fcret"], 0)):
            done = self.run_program(*arguments, status=status)
            self.assertNotRegex(done.stdout + done.stderr, "se(/|%2F)cret")
        waiting = self.start("sql", with_password + "#small",
                             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n", "--seconds", "3")
        with open(f"/proc/{waiting.pid}/cmdline", "rb") as file:
            line = file.read()
        until = time.monotonic() + 10
        while (b"postgresql" not in line or b"cret" in line) and time.monotonic() < until:  # until it is the program
            with open(f"/proc/{waiting.pid}/cmdline", "rb") as file:
                line = file.read()
        self.assertRegex(line, b"postgresql.*#small")
        self.assertNotIn(b"cret", line)
        waiting.communicate(timeout=500)

    def test_what_cannot_be_reached_is_said(self):
        self.train()
        self.assertIn("has no runs of tapedeck", self.run_program("runs", self.url, status=1).stderr)
        gone = "postgresql://team@/runs?host=/nowhere"
        self.assertRegex(self.run_program("push", "runs/small", gone, status=1).stderr, "nowhere.*No such file")
        self.push("runs/small")
        self.server.sql("INSERT INTO tapedeck.version VALUES(99)")
        self.assertIn("of version 99", self.run_program("runs", self.url, status=1).stderr)
        self.assertIn("of version 99", self.run_program("push", "runs/small", self.url, status=1).stderr)
        self.assertIn("whole runs", self.run_program("push", "runs/small", self.url, "--what", "loss", status=2).stderr)

    def test_tags_and_notes_stay_and_a_run_is_removed(self):
        folder = self.train()
        place = self.push(folder)[0]
        self.run_program("tag", place, "a'b", "paper")
        self.run_program("note", place, "'); DROP SCHEMA tapedeck CASCADE; --")
        self.run_program("tag", folder, "of-the-folder")
        self.push(folder)
        self.assertEqual(self.run_program("tag", place).stdout, "a'b\npaper\n")
        self.assertEqual(self.run_program("note", place).stdout, "'); DROP SCHEMA tapedeck CASCADE; --\n")
        listed = json.loads(self.run_program("runs", self.url, "--json").stdout)
        self.assertEqual(listed[0]["tags"], ["a'b", "paper"])
        self.assertIn("--yes", self.run_program("rm", place, status=2).stderr)
        self.run_program("rm", place, "--yes")
        for table in ("run", "name", "signal", "note", "scalar_chunk", "step_chunk", "state"):
            self.assertEqual(self.server.sql(f"SELECT count(*) FROM tapedeck.{table}"), [["0"]], table)
        self.assertTrue(self.exists(folder))
        self.assertIn("no run 'small'", self.run_program("rm", place, "--yes", status=1).stderr)
        self.assertIn("keeps the name", self.run_program("rename", self.push(folder)[0], "other", status=1).stderr)

    def test_runs_of_one_name_are_told_apart(self):
        self.train()
        os.rename(self.path("runs"), self.path("first"))
        self.really_train()
        self.assertEqual(self.push("first/small", "runs/small", "first/small"),
                         [self.url + "#small", self.url + "#small-2", self.url + "#small"])
        listed = [row["name"] for row in json.loads(self.run_program("runs", self.url, "--json").stdout)]
        self.assertEqual(listed, ["small", "small-2"])

    def test_without_the_plugin_the_package_is_named(self):
        program = self.path("bin")
        os.mkdir(program)
        for file in ("tapedeck", "libtapedeck.so.0"):
            os.link(os.path.realpath(os.path.join(BUILD, file)), os.path.join(program, file))
        done = subprocess.run([os.path.join(program, "tapedeck"), "runs", self.url], capture_output=True, text=True, check=False,
                              env=dict(self.environment(), LD_LIBRARY_PATH=program))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "libtapedeck-postgresql.so is not installed.*libpq")


if __name__ == "__main__":
    unittest.main()
