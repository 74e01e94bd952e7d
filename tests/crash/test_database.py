#!/usr/bin/env python3
"""A training that is sent to PostgreSQL while the server is killed, connections are cut, its disk is full and its answers are
garbage: training ends well, and the database has what run.db has, everything and nothing twice. TD_FAULTS says how many
of each (2)."""
import filecmp
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from contextlib import closing

sys.path.insert(0, os.path.join(os.environ["TD_SOURCE"], "tests", "cli"))
import postgresql
from program import PROGRAM, SMALL, Case

FAULTS = int(os.environ.get("TD_FAULTS", 2))
BUILD = os.environ["TD_BUILD"]
RECORD = """
record:
  - {what: "loss, accuracy, val_loss", every: 10 steps}
  - {what: "*.error, *.gradient", every: 200 steps, form: stats}
  - {what: "*.error", every: 400 steps, form: histogram}
  - {what: "*.kernel", every: 400 steps, form: tensor, to: npy}
"""
COMPARED = ["SELECT signal, step, value FROM scalars ORDER BY 1, 2", "SELECT * FROM stats ORDER BY signal, step",
            "SELECT signal, step, low, high, count FROM histograms ORDER BY 1, 2, 3", "SELECT step, epoch, wall_time FROM steps ORDER BY 1",
            "SELECT kind, step, count, signal, text FROM events", # The verdict is found after the run has ended and been sent.
            "SELECT key, value FROM notes WHERE key <> 'diagnosed' ORDER BY 1"]


class Proxy:
    """A TCP port before the server's socket, whose connections can be cut and whose answers can be changed."""

    def __init__(self, server, seed):
        self.path = os.path.join(server.folder, ".s.PGSQL.5432")
        self.chance = random.Random(seed)
        self.share = 0.0  # of the server's packets that are changed
        self.sockets = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self):
        return f"postgresql://team@127.0.0.1:{self.port}/runs?sslmode=disable&gssencmode=disable"

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.path)
            except OSError:
                client.close()
                continue
            self.sockets |= {client, server}
            threading.Thread(target=self.copy, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, True), daemon=True).start()

    def copy(self, source, target, answers):
        try:
            while data := source.recv(65536):
                if answers and self.chance.random() < self.share:
                    data = self.change(bytearray(data))
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            self.close_socket(end)

    def close_socket(self, end):
        self.sockets.discard(end)
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        end.close()

    def change(self, data):
        for _ in range(self.chance.choice([1, 1, 3, 20])):
            at = self.chance.randrange(len(data))
            kind = self.chance.randrange(4)
            if kind == 0:
                data[at] = self.chance.choice([0, 1, 127, 128, 255, self.chance.randrange(256)])
            elif kind == 1:
                data[at:at + self.chance.randrange(1, 9)] = b""
            elif kind == 2:
                data[at:at] = bytes(self.chance.randrange(256) for _ in range(self.chance.randrange(1, 9)))
            else:
                data[at:at + 4] = self.chance.choice([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x80\x00\x00\x00"])
            if not data:
                break
        return bytes(data)

    def cut(self):
        for end in list(self.sockets):
            self.close_socket(end)

    def close(self):
        self.listener.close()
        self.cut()


@unittest.skipUnless(postgresql.is_there(BUILD), "no PostgreSQL server, or built without libpq")
class Faults(Case):
    def setUp(self):
        super().setUp()
        self.chance = random.Random(int(os.environ.get("TD_SEED", 1)))

    def serve(self):
        server = postgresql.Server()
        self.addCleanup(server.close)
        return server

    def train(self, url, *faults):
        """A training during which the faults happen; then compares."""
        text = SMALL.replace("epochs: 4", "epochs: 10000000") + RECORD + f"store: \"{url}&tensors=database\"\n"
        self.write("small.yaml", text)
        with open(self.path("errors"), "w", encoding="utf-8") as log:  # a pipe that nobody empties would end the training
            process = subprocess.Popen([PROGRAM, "train", "small.yaml", "--quiet"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                       stderr=log, env=dict(self.environment(), TAPEDECK_STORE_WAIT="60"))
        try:
            for fault in faults:
                time.sleep(self.chance.uniform(0.2, 2.0))
                fault()
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=180)
        finally:
            process.kill()
            process.wait()
        with open(self.path("errors"), encoding="utf-8") as log:
            errors = log.read()
        self.assertEqual(process.returncode, 130, errors)
        return errors

    def compare(self, place, folder="runs/small", tensors=False):
        for statement in COMPARED:
            one, other = (self.run_program("sql", run, statement, "--csv").stdout for run in (folder, place))
            self.assertEqual(one, other, statement)
            self.assertTrue(one)
        if tensors:
            back = tempfile.mkdtemp(dir=self.folder)
            self.run_program("pull", place, os.path.join(back, "run"))
            for name in ("hidden.kernel.npy", "logits.kernel.npy"):
                self.assertTrue(filecmp.cmp(self.path(folder, name), os.path.join(back, "run", name), shallow=False), name)

    def once(self, server):
        self.assertEqual(server.sql("SELECT count(*) FROM tapedeck.run"), [["1"]])
        for view in ("scalar", "stats", "histogram_packed", "step"):
            signal_column = "signal, " if view != "step" else ""
            self.assertEqual(server.sql(f"SELECT {signal_column} step FROM tapedeck.{view} GROUP BY {signal_column} step HAVING count(*) > 1"), [])
            self.assertGreater(int(server.sql(f"SELECT count(*) FROM tapedeck.{view}")[0][0]), 10)
        self.assertEqual(server.sql("SELECT writer IS NULL FROM tapedeck.run"), [["t"]])

    def test_a_server_that_is_killed(self):
        server = self.serve()

        def kill():
            server.stop("immediate")
            time.sleep(self.chance.uniform(0, 1.0))
            server.start()
        self.train(server.url(), *[kill] * FAULTS)
        self.once(server)
        self.compare(server.url() + "#small", tensors=True)

    def test_a_server_that_hangs_holds_nothing_up(self):
        server = self.serve()

        def last_step():
            with closing(sqlite3.connect(f"file:{self.path('runs/small/run.db')}?mode=ro", uri=True)) as database:
                return database.execute("SELECT max(step) FROM step").fetchone()[0] or 0

        def hang():
            with open(os.path.join(server.data, "postmaster.pid"), encoding="utf-8") as file:
                first = int(file.readline())
            with open(f"/proc/{first}/task/{first}/children", encoding="utf-8") as file:
                processes = [first, *map(int, file.read().split())]
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            try:
                step, until = last_step(), time.monotonic() + 60
                while last_step() < step + 500:
                    self.assertLess(time.monotonic(), until)
                    time.sleep(0.1)
            finally:
                for process in processes:
                    os.kill(process, signal.SIGCONT)
        self.train(server.url(), *[hang] * FAULTS)
        self.once(server)
        self.compare(server.url() + "#small", tensors=True)

    def test_connections_that_are_cut(self):
        server = self.serve()
        proxy = Proxy(server, 2)
        self.addCleanup(proxy.close)
        self.train(proxy.url(), *[proxy.cut] * FAULTS)
        self.once(server)
        self.compare(server.url() + "#small", tensors=True)

    def test_a_disk_of_the_server_that_is_full(self):
        server = self.serve()
        small = os.path.join(server.folder, "small")
        os.mkdir(small)
        if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m,mode=777", "tmpfs", small],
                                          stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("only root may mount a small disk")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", small], check=False))
        self.addCleanup(server.stop)
        space = os.path.join(small, "space")
        os.mkdir(space)
        shutil.chown(space, "postgres", "postgres")
        server.sql(f"CREATE TABLESPACE small LOCATION '{space}'", database="postgres")
        server.sql("CREATE DATABASE tight TABLESPACE small", database="postgres")
        filler = os.path.join(small, "filler")
        refused = []

        def fill():
            with open(filler, "wb") as file:
                try:
                    while file.write(b"\0" * (1 << 20)):
                        file.flush()
                except OSError:
                    pass
            time.sleep(self.chance.uniform(0.5, 2.5))
            os.unlink(filler)
        errors = self.train(server.url(database="tight"), *[fill] * FAULTS)
        refused.append(errors)
        self.compare(server.url(database="tight") + "#small", tensors=True)
        with open(os.path.join(server.folder, "log"), encoding="utf-8") as log:
            self.assertIn("No space left on device", log.read())

    def test_a_server_that_is_away_at_the_end_gets_the_rest_by_push(self):
        server = self.serve()
        text = SMALL.replace("epochs: 4", "epochs: 3000") + RECORD + f"store: \"{server.url()}\"\n"
        self.write("small.yaml", text)
        server.stop("immediate")
        done = subprocess.run([PROGRAM, "train", "small.yaml"], cwd=self.folder, capture_output=True, text=True, check=False,
                              env=dict(self.environment(), TAPEDECK_STORE_WAIT="1"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, "not in the database: .*tapedeck push. sends the rest")
        server.start()
        self.run_program("push", "runs/small", server.url())
        self.once(server)
        self.compare(server.url() + "#small")

    def test_two_writers_of_one_run_are_refused(self):
        server = self.serve()
        process = None
        text = SMALL.replace("epochs: 4", "epochs: 10000000") + RECORD + f"store: \"{server.url()}\"\n"
        self.write("small.yaml", text)
        process = subprocess.Popen([PROGRAM, "train", "small.yaml"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=self.environment())
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    if server.sql("SELECT count(*) FROM tapedeck.run WHERE writer IS NOT NULL") == [["1"]]:
                        break
                except RuntimeError:
                    pass
                time.sleep(0.1)
            refused = self.run_program("push", "runs/small", server.url(), status=1)
            self.assertIn(f"is being written by process {process.pid} on", refused.stderr)
            self.assertIn("running", self.run_program("runs", server.url()).stdout)
        finally:
            process.kill()
            process.wait()
        # It was killed: whoever comes next on this machine sees that, and takes over.
        self.run_program("push", "runs/small", server.url())
        self.assertIn("crashed", self.run_program("runs", server.url()).stdout)
        self.compare(server.url() + "#small")

    def test_answers_that_are_garbage(self):
        """No crash and no leak, under the sanitizers: every command ends with a sentence."""
        server = self.serve()
        self.run_program("train", self.write("small.yaml", SMALL + RECORD))
        self.run_program("push", "runs/small", server.url())
        proxy = Proxy(server, 3)
        self.addCleanup(proxy.close)
        proxy.share = 0.3
        failed = 0
        for number in range(4 * FAULTS):
            command = [["show", proxy.url() + "#small"], ["runs", proxy.url()], ["push", "runs/small", proxy.url()],
                       ["export", proxy.url() + "#small", "--to", "csv", "--out", f"out-{number}"]][number % 4]
            process = subprocess.Popen([PROGRAM, *command], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=self.environment())
            try:
                _, errors = process.communicate(timeout=8)
            except subprocess.TimeoutExpired:  # it waits for an answer, a minute at most
                proxy.cut()
                _, errors = process.communicate(timeout=60)
            self.assertIn(process.returncode, (0, 1, 2), errors)
            self.assertNotIn(b"Sanitizer", errors)
            self.assertNotIn(b"runtime error", errors)
            failed += process.returncode != 0
        self.assertGreater(failed, 0)
        proxy.share = 0
        self.run_program("push", "runs/small", proxy.url())
        self.compare(server.url() + "#small")


if __name__ == "__main__":
    unittest.main()
