"""The page over a team's database: the server notifies what changes, and a run that is recording is followed."""
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.environ["TD_SOURCE"], "tests", "cli"))
import postgresql
from program import SMALL
from viewer import BUILD, PROGRAM, Folder, Viewer, train_demo


@unittest.skipUnless(postgresql.is_there(BUILD), "no PostgreSQL server, or built without libpq")
class Database(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.remove)
        self.server = postgresql.Server()
        self.addCleanup(self.server.close)
        train_demo(self.folder.path, "--set", "record=[{what: [loss, '*.kernel'], every: 1 epoch}]")
        subprocess.run([PROGRAM, "push", self.folder / "demo", self.server.url()], check=True, stdout=subprocess.DEVNULL)

    def follow(self, viewer):
        """A list that gets the events that the page gets, as they come."""
        connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=120)
        connection.request("GET", "/api/follow", headers={"Cookie": viewer.cookie})
        answer, told = connection.getresponse(), []

        def read():
            while line := answer.fp.readline():
                if line.startswith(b"data:"):
                    told.append(json.loads(line[5:]))
        threading.Thread(target=read, daemon=True).start()
        return told

    def wait(self, condition):
        until = time.monotonic() + 120
        while not condition():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)

    def test_a_run_that_is_recording_is_followed(self):
        viewer = Viewer(self.server.url(), "--write")
        self.addCleanup(viewer.process.kill)
        told = self.follow(viewer)
        demo = viewer.first_run()
        for key, value in (("archived", "yes"), ("tags", "paper, 'x'")):
            answer = viewer.get(f"/api/note?run={demo}&key={key}&value={urllib.parse.quote(value)}", {"Origin": viewer.address}, "POST")
            self.assertEqual(answer[0], 200, answer)
        self.assertEqual(self.server.sql("SELECT key, value FROM tapedeck.note WHERE kind = 'remark' ORDER BY 1"),
                         [["archived", "yes"], ["tags", "paper, 'x'"]])
        listening = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN tapedeck'"
        self.server.wait_for(listening, [["1"]])
        with open(self.folder / "grow.yaml", "w", encoding="utf-8") as file:
            file.write(SMALL.replace("name: small", "name: grow").replace("epochs: 4", "epochs: 10000000")
                       + "record:\n  - {what: loss, every: 50 steps}\n")
        writer = subprocess.Popen([PROGRAM, "train", self.folder / "grow.yaml", "--out", self.folder.path, "--quiet"],
                                  env=dict(os.environ, TAPEDECK_STORE=self.server.url()))
        self.addCleanup(writer.wait)
        self.addCleanup(writer.kill)

        def steps():
            return [run["step"] for message in list(told) for run in message.get("runs", ()) if run["state"] == "running"]
        self.wait(lambda: len(set(steps())) > 4)
        self.assertEqual(steps(), sorted(steps()))
        self.assertEqual(self.server.sql(listening), [["1"]])
        writer.kill()
        writer.wait()
        # A server that comes back is asked again; in between the page has what it had.
        self.server.stop("immediate")
        self.server.start()
        subprocess.run([PROGRAM, "rm", self.server.url() + "#demo", "--yes"], check=True, stdout=subprocess.DEVNULL)
        self.wait(lambda: [run["name"] for run in json.loads(viewer.get("/api/runs")[2])["runs"]] == ["grow"])
        self.assertEqual(viewer.close(), 0)


if __name__ == "__main__":
    unittest.main()
