"""The MCP server: its answers are those of the program, and whatever a line holds, the next one is answered."""
import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest

from program import Case, PROGRAM, SMALL

RECORD = """
record:
  - {what: [loss, val_loss], every: 1 epoch, to: csv}
  - {what: ["*.gradient", "*.error"], every: 2 steps, form: stats, to: csv}
"""


class Mcp(Case):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        with open(os.path.join(cls.made.name, "experiment.yaml"), "w", encoding="utf-8") as file:
            file.write(SMALL + RECORD)
        subprocess.run([PROGRAM, "train", "experiment.yaml", "--quiet"], cwd=cls.made.name, check=True)

    def setUp(self):
        super().setUp()
        shutil.copytree(os.path.join(self.made.name, "runs"), self.path("runs"))

    def talk(self, *lines):
        """What the server answers to lines: texts, bytes, or messages."""
        text = b"".join((line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()) + b"\n"
                        for line in lines)
        done = subprocess.run([PROGRAM, "mcp", "runs"], cwd=self.folder, env=self.environment(), input=text,
                              capture_output=True, timeout=300, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def call(self, name, status=False, **arguments):
        answer, = self.talk({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
        result = answer["result"]
        self.assertEqual(result["isError"], status, result)
        text = result["content"][0]["text"]
        self.assertLessEqual(len(text), 64 << 10)
        return text if status else json.loads(text)

    def test_a_session(self):
        answers = self.talk(
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-03-26", "capabilities": {}}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "list", "method": "tools/list"},
            {"jsonrpc": "2.0", "id": 2, "method": "ping"})
        self.assertEqual([answer["id"] for answer in answers], [0, "list", 2])
        self.assertEqual(answers[0]["result"]["protocolVersion"], "2025-03-26")
        for tool in answers[1]["result"]["tools"]:
            self.assertTrue(tool["annotations"]["readOnlyHint"])
            self.assertEqual(tool["inputSchema"]["type"], "object")
            self.assertLessEqual(set(tool["inputSchema"]["required"]), set(tool["inputSchema"]["properties"]))
        newest, = self.talk({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "1999-01-01"}})
        self.assertEqual(newest["result"]["protocolVersion"], "2025-11-25")

    def test_answers_are_those_of_the_program(self):
        run, = self.call("list_runs")["runs"]
        listed, = json.loads(self.run_program("runs", "--json").stdout)
        self.assertEqual((run["run"], run["state"], run["step"]), ("small", listed["state"], listed["step"]))
        self.assertAlmostEqual(run["metrics"]["loss"]["last"], listed["metrics"]["loss"]["last"], places=9)
        about = self.call("describe_run", run="small")
        self.assertIn("hidden.kernel.gradient", [signal["signal"] for signal in about["signals"]])
        self.assertEqual(about["config"]["seed"], "3")
        sql = "select signal, step, norm from stats order by 1, 2"
        rows = json.loads(self.run_program("sql", "runs", sql, "--json").stdout)
        answer = self.call("query", sql=sql, limit=1000)
        self.assertEqual(answer["columns"], ["signal", "step", "norm"])
        self.assertFalse(answer["more"])
        for ours, row in zip(answer["rows"], rows, strict=True):
            self.assertEqual(ours[:2], [row["signal"], row["step"]])
            self.assertAlmostEqual(ours[2], row["norm"], delta=1e-11 * abs(row["norm"]))
        series, = self.call("series", run="small", signals="hidden.bias.gradient")["series"]
        expected = [row for row in rows if row["signal"] == "hidden.bias.gradient"]
        self.assertEqual(series["steps"], [row["step"] for row in expected])
        layers = self.call("layers", run="small", kind="error", columns=4)
        self.assertEqual([layer["layer"] for layer in layers["layers"]], ["hidden", "logits"])
        last = [row["norm"] for row in rows if row["signal"] == "logits.error"][-1]
        self.assertAlmostEqual(layers["layers"][1]["values"][-1], last, delta=1e-11 * last)
        self.assertEqual(self.call("compare_runs", a="small", b="small")["signals_parted"], 0)
        self.assertIn("findings", self.call("diagnose_run", run="small"))
        self.assertTrue(self.call("assert_run", run="small", expression="loss < 100")["holds"])
        before = sorted(os.listdir(tempfile.gettempdir()))
        again = self.call("replay", run="small", first=2, last=4, signals="hidden.kernel.gradient,hidden.preactivation")
        self.assertEqual((again["differs_at"], again["executed_to"]), (0, 4))
        self.assertEqual([name for name in os.listdir(tempfile.gettempdir()) if name.startswith("tapedeck-") and name not in before], [])
        fresh = {series["signal"]: series for series in again["series"]}
        self.assertEqual(fresh["hidden.preactivation"]["steps"], [2, 3, 4])  # was not recorded
        known = {row["step"]: row["norm"] for row in rows if row["signal"] == "hidden.kernel.gradient"}
        for step, value in zip(fresh["hidden.kernel.gradient"]["steps"], fresh["hidden.kernel.gradient"]["values"]):
            self.assertAlmostEqual(value, known.get(step, value), delta=1e-11 * value)
        self.assertNotIn("series", self.call("replay", run="small", first=3))
        self.assertIn("step", self.call("replay", status=True, run="small", first=100000))
        found = self.call("origin", run="small")
        self.assertEqual((found["step"], found["operation"]), (0, None))

    def test_answers_have_a_maximum(self):
        many = "with recursive a(x) as (select 1 union all select x + 1 from a) select x, 'some text to fill a row' from a"
        answer = self.call("query", sql=many + " limit 100000", limit=1000)
        self.assertEqual((len(answer["rows"]), answer["more"]), (1000, True))
        answer = self.call("query", sql="with recursive a(x) as (select 1 union all select x + 1 from a)"
                           " select x, hex(zeroblob(900)) from a", limit=1000)
        self.assertTrue(answer["more"])
        answer = self.call("query", sql="select hex(zeroblob(1000000))")
        self.assertLess(len(answer["rows"][0][0]), 3000)

    def test_wrong_arguments_are_answered(self):
        for name, arguments, message in (
                ("query", {}, "needs the argument sql"), ("query", {"sql": 1}, "of type string"),
                ("query", {"sql": "select 1", "limit": 0}, "from 1 to 1000"), ("query", {"sql": "select 1", "limit": 2.5}, "integer"),
                ("query", {"sql": "drop table scalars"}, "only queries"), ("query", {"sql": "select 1", "runs": [1]}, "list of"),
                ("query", {"sql": "select 1", "runs": ["../small"]}, "no run"), ("layers", {"run": "small", "kind": "x"}, "one of"),
                ("layers", {"run": "small", "kind": "update"}, "no statistics"), ("series", {"run": "small", "signals": "zzz"}, "no signal"),
                ("describe_run", {"run": "/etc"}, "no run"), ("describe_run", {"run": "..", "x": 1}, "no argument"),
                ("describe_run", {"run": "small/../small"}, "no run"), ("assert_run", {"run": "small", "expression": "los < 1"}, "did you mean")):
            self.assertIn(message, self.call(name, status=True, **arguments), (name, arguments))

    def test_two_runs_of_one_name(self):
        shutil.copytree(self.path("runs", "small"), self.path("runs", "more", "small"))
        self.assertEqual(self.call("describe_run", run="small")["run"], "small")
        self.assertEqual(self.call("describe_run", run="more/small")["run"], "more/small")
        os.rename(self.path("runs", "small"), self.path("runs", "other"))
        shutil.copytree(self.path("runs", "other"), self.path("runs", "again", "small"))
        self.assertIn("2 runs are called", self.call("describe_run", status=True, run="small"))

    def test_wrong_messages_are_answered_and_the_next_one_too(self):
        ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
        cases = ((b"nonsense", -32700), (b"{", -32700), (b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', -32700), (b"\xff\xfe{}", -32700),
                 (b"1", -32600), (b"null", -32600), (b'"text"', -32600), (b"[]", -32600), (b"{}", -32600), (b"\0\0\0", -32700),
                 (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
                 (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":1,"method":3}', -32600),
                 (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601), (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
                 (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"none"}}', -32602),
                 (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602),
                 (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"query","arguments":[]}}', -32602),
                 (b"[" * 100000, -32700), (b'{"a":' * 3000 + b"1" + b"}" * 3000, -32700), (b"x" * (5 << 20), -32700))
        answers = self.talk(*(line for case in cases for line in (case[0], ping)))
        self.assertEqual(len(answers), 2 * len(cases))
        for i, (line, code) in enumerate(cases):
            self.assertEqual(answers[2 * i]["error"]["code"], code, line[:100])
            self.assertEqual(answers[2 * i + 1], {"jsonrpc": "2.0", "id": 7, "result": {}})
        self.assertEqual(self.talk({"jsonrpc": "2.0", "method": "no/such"}, {"jsonrpc": "2.0", "id": 1, "result": {}}, "", " \r"), [])
        batch, = self.talk([ping, {"jsonrpc": "2.0", "method": "x"}, 3])
        self.assertEqual([answer.get("id") for answer in batch], [7, None])

    def test_mutated_messages(self):
        sound = json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params":
                            {"name": "query", "arguments": {"sql": "select * from runs", "runs": ["small"], "limit": 3}}}).encode()
        chance = random.Random(int(os.environ.get("TD_SEED", "5")))
        lines = []
        for _ in range(int(os.environ.get("TD_MUTATIONS", "300"))):
            line = bytearray(sound)
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(line))
                if chance.random() < 0.5:
                    line[at] = chance.randrange(256)
                else:
                    line[at:at + chance.randint(0, 4)] = bytes(chance.choice(b'{}[]",:0\\e') for _ in range(chance.randint(0, 3)))
            lines.append(bytes(line).replace(b"\n", b" "))
        answers = self.talk(*lines, {"jsonrpc": "2.0", "id": "last", "method": "ping"})
        self.assertEqual(answers[-1], {"jsonrpc": "2.0", "id": "last", "result": {}})
        for answer in answers:
            for one in answer if isinstance(answer, list) else [answer]:
                self.assertEqual(one["jsonrpc"], "2.0")

    def test_folders(self):
        self.run_program("mcp", "nowhere", status=1)
        self.run_program("mcp", "https://example.org", status=2)
        self.run_program("mcp", "a", "b", status=2)


if __name__ == "__main__":
    unittest.main()
