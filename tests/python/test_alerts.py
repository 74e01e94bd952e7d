"""Deck.alert and Deck.raise_alert: programs and webhooks are notified once; what is wrong is reported."""

import http.server
import json
import os
import tempfile
import threading
import unittest

import tapedeck

os.environ.pop("LD_PRELOAD", None)  # curl does not run with the sanitizer that this process was started with


class Receiver(http.server.BaseHTTPRequestHandler):
    bodies = []

    def do_POST(self):  # pylint: disable=invalid-name
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):  # pylint: disable=arguments-differ
        pass


class Alerts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.told, self.run_folder = os.path.join(folder.name, "told"), os.path.join(folder.name, "run")
        self.program = ["sh", "-c", 'cat >> "$0"', self.told]

    def lines(self):
        with open(self.told, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_a_condition_is_told_once(self):
        with tapedeck.Deck(self.run_folder) as deck:
            deck.alert("loss > 1", run=self.program)
            for loss in (0.5, 2.0, 3.0):
                deck.log(loss=loss)
                deck.step()
        self.assertEqual([(line["cause"], line["step"]) for line in self.lines()], [("loss > 1", 2)])
        events = tapedeck.Run(self.run_folder).events
        self.assertEqual([(event["kind"], event["step"], event["text"]) for event in events], [("alert", 2, "loss > 1")])

    def test_a_cause_is_told_once_and_to_a_webhook(self):
        Receiver.bodies = []
        server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        with tapedeck.Deck(self.run_folder) as deck:
            deck.alert(run=self.program, webhook=f"http://127.0.0.1:{server.server_port}/")
            deck.log(loss=1.0)
            deck.step()
            deck.raise_alert("diverged", "the loss is 1")
            deck.raise_alert("diverged", "again")
        self.assertEqual([(line["cause"], line["message"]) for line in self.lines()], [("diverged", "the loss is 1")])
        self.assertEqual(Receiver.bodies, self.lines())

    def test_what_is_wrong_is_said(self):
        with tapedeck.Deck(self.run_folder) as deck:
            for error, text, options in (
                (tapedeck.Error, "run, webhook or both", {"when": "loss > 1"}),
                (tapedeck.Error, "no address", {"webhook": "ftp://a"}),
                (tapedeck.Error, "names no program", {"run": []}),
                (TypeError, "list of words", {"run": "ls"}),
                (TypeError, "list of words", {"run": [1]}),
                (ValueError, "zero byte", {"run": ["a\0b"]}),
            ):
                with self.assertRaisesRegex(error, text):
                    deck.alert(**options)
            deck.log(loss=1.0)

    def test_a_program_that_is_not_there_is_reported(self):
        deck = tapedeck.Deck(self.run_folder)
        deck.alert("loss > 1", run=["/no/such/program"])
        deck.log(loss=2.0)
        deck.step()
        with self.assertRaisesRegex(tapedeck.Error, "cannot be started"):
            deck.finish()


if __name__ == "__main__":
    unittest.main()
