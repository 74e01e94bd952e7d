"""The MCP server through the official Python client: a session, every tool, and how long the answers take."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
import unittest

import mcp

PROGRAM = os.environ["TAPEDECK"]
DEMO = os.path.join(os.environ["TD_SOURCE"], "examples", "demo", "demo.yaml")
CALLS = (
    ("list_runs", {}),
    ("describe_run", {"run": "demo"}),
    ("query", {"sql": "select signal, min(value) from scalars group by signal"}),
    ("series", {"run": "demo", "signals": "loss,*.gradient"}),
    ("layers", {"run": "demo", "kind": "error"}),
    ("compare_runs", {"a": "demo", "b": "demo"}),
    ("diagnose_run", {"run": "demo"}),
    ("assert_run", {"run": "demo", "expression": "val_accuracy > 0.9 and not nan(*)"}),
    ("origin", {"run": "demo"}),
    ("replay", {"run": "demo", "first": 44, "last": 46, "signals": "conv2.output"}),
)


def server_seconds():
    """Processor time of the one child of this process."""
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            for child in file.read().split():
                with open(f"/proc/{child}/stat", encoding="ascii", errors="replace") as stat:
                    user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
                return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    raise AssertionError("the server does not run")


class Mcp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([PROGRAM, "train", DEMO, "--quiet"], cwd=cls.folder.name, check=True, stdout=subprocess.DEVNULL)

    async def session(self, mode):
        server = mcp.StdioServerParameters(command=PROGRAM, args=["mcp", os.path.join(self.folder.name, "runs")])
        async with mcp.Client(server, mode=mode) as client:
            self.assertEqual(client.server_info.name, "tapedeck")
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            self.assertEqual(set(tools), {name for name, _ in CALLS})
            self.assertTrue(all(tool.annotations.read_only_hint for tool in tools.values()))
            for name, arguments in CALLS:
                began, before = time.perf_counter(), server_seconds()
                result = await client.call_tool(name, arguments)
                seconds, used = time.perf_counter() - began, server_seconds() - before
                print(f"{mode}: {name} {1000 * seconds:.1f} ms, {1000 * used:.0f} ms of processor time", flush=True)
                self.assertLessEqual(used, 1 if name in ("origin", "replay") else 0.1, name)  # those execute steps again, on all cores
                self.assertFalse(result.is_error, result.content)
                self.assertIsInstance(json.loads(result.content[0].text), dict)
            wrong = await client.call_tool("query", {"sql": "drop table scalars"})
            self.assertTrue(wrong.is_error)
            with self.assertRaises(mcp.MCPError):
                await client.call_tool("no_such_tool", {})

    def test_a_session(self):
        for mode in ("auto", "legacy"):
            asyncio.run(self.session(mode))


if __name__ == "__main__":
    unittest.main()
