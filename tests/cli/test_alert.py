"""alert: in experiments: programs and webhooks are notified once, and what fails is reported."""
import http.server
import json
import sqlite3
import subprocess
import threading
import unittest

from program import Case, PROGRAM, SMALL


class Receiver(http.server.BaseHTTPRequestHandler):
    bodies = []
    answer = 200

    def do_POST(self):  # pylint: disable=invalid-name
        self.bodies.append((self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.answer)
        self.end_headers()

    def log_message(self, *arguments):  # pylint: disable=arguments-differ
        pass


class Alerts(Case):
    def setUp(self):
        super().setUp()
        Receiver.bodies, Receiver.answer = [], 200
        self.server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.shutdown)
        self.address = f"http://127.0.0.1:{self.server.server_port}/hook?a=[1]&b={{2}}"

    def attempt(self, text, *arguments):
        self.write("experiment.yaml", text)
        return subprocess.run([PROGRAM, "train", "experiment.yaml", *arguments], cwd=self.folder, capture_output=True, text=True,
                              timeout=300, check=False, env=dict(self.environment(), HOOK=self.address))

    def events(self):
        with sqlite3.connect(self.path("runs", "small", "run.db")) as database:
            return [text for (text,) in database.execute("select text from event where kind = 'alert'")]

    def test_a_program_and_a_webhook_are_told_once(self):
        told = self.path("told")
        done = self.attempt(SMALL + f"""
alert:
  - when: "step >= 3 and hidden.kernel.gradient.norm > 0"
    run: [sh, -c, 'cat >> "$0"', "{told}"]
    webhook: $HOOK
""", "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(told, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([(line["cause"], line["step"]) for line in lines],
                         [("step >= 3 and hidden.kernel.gradient.norm > 0", 3)])
        self.assertEqual([(kind, json.loads(body)) for kind, body in Receiver.bodies], [("application/json", lines[0])])
        self.assertEqual(self.events(), ["step >= 3 and hidden.kernel.gradient.norm > 0"])
        with open(self.path("runs", "small", "experiment.yaml"), encoding="utf-8") as file:
            self.assertNotIn(self.address, file.read())

    def test_what_the_rules_find_is_told(self):
        self.attempt(SMALL + "\nalert: {webhook: $HOOK}\nstop_on: []\n", "--quiet", "--set",
                     "train.optimizer={sgd: {learning_rate: 1000}}", "--set", "train.epochs=60")
        self.assertTrue(Receiver.bodies)
        causes = [json.loads(body)["cause"] for _, body in Receiver.bodies]
        self.assertEqual(len(causes), len(set(causes)))

    def test_what_cannot_be_delivered_is_reported(self):
        Receiver.answer = 500
        done = self.attempt(SMALL + "\nalert: {when: step == 2, webhook: $HOOK}\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("alert: curl ended with status 22", done.stderr)

    def test_mistakes_are_found_before_training(self):
        for alert, text in (("{when: los > 1, run: x}", "did you mean loss?"), ("{when: loss > 1}", "give run"),
                            ("{run: []}", "expected a program"), ("{webhook: 'ftp://x'}", "http://"),
                            ("{webhook: $NO_SUCH_VARIABLE}", "NO_SUCH_VARIABLE"), ("{run: x, wen: y}", "when")):
            with self.subTest(alert=alert):
                done = self.attempt(SMALL + f"\nalert: {alert}\n")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
