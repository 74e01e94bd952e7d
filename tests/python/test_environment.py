"""What a run records of its environment, compared with what Python, git and a made-up GPU driver say."""

import getpass
import os
import platform
import socket
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import unittest

DRIVER = """
typedef struct { unsigned gpu, memory; } rates;
typedef struct { unsigned long long total, free, used; } memory;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetUtilizationRates(void *device, rates *r) { r->gpu = 40 + (unsigned)(long)device; return 0; }
int nvmlDeviceGetMemoryInfo(void *device, memory *m) { (void)device; m->total = 400; m->used = 100; return 0; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *p) { (void)device; *p = 250500; return 0; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *t) { (void)device; (void)sensor; *t = 61; return 0; }
"""
PROGRAM = """
import sys, time
import tapedeck
with tapedeck.Deck(sys.argv[1], system=0.02, console=True) as deck:
    for step in range(1, 400):
        print("step", step)
        deck.log({"loss": 1 / step})
        deck.step()
        time.sleep(0.002)
"""


def git(folder, *words):
    return subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, text=True,
                          capture_output=True).stdout


class Environment(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory()) if hasattr(self, "enterContext") else tempfile.mkdtemp()
        self.folder = os.path.realpath(self.folder)
        git(self.folder, "init", "-q", "-b", "trunk")
        self.write("train.py", PROGRAM)
        git(self.folder, "add", ".")
        git(self.folder, "commit", "-q", "-m", "one")
        self.write("train.py", PROGRAM + "# changed\n")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))

    def run_program(self, name, **variables):
        environment = {key: value for key, value in os.environ.items() if key != "TAPEDECK_ENVIRONMENT"}
        done = subprocess.run([sys.executable, "train.py", name], cwd=self.folder, env={**environment, **variables}, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.printed = done.stdout
        self.assertIn("step 399", done.stdout)
        return sqlite3.connect(os.path.join(self.folder, name, "run.db"))

    def test_facts_and_load(self):
        self.write("nvml.c", DRIVER)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", os.path.join(self.folder, "libnvidia-ml.so.1"),
                        os.path.join(self.folder, "nvml.c")], check=True)
        run = self.run_program("a", LD_LIBRARY_PATH=self.folder, OMP_NUM_THREADS="3", MY_SECRET_TOKEN="tr0ub4dor")
        facts = dict(run.execute("select key, value from environment"))
        self.assertEqual(facts["command"], f"{sys.executable} train.py a")
        self.assertEqual(facts["folder"], self.folder)
        self.assertEqual(facts["host"], socket.gethostname())
        self.assertEqual(facts["user"], getpass.getuser())
        self.assertEqual(facts["python"], f"CPython {platform.python_version()}")
        self.assertEqual(facts["git.commit"], git(self.folder, "rev-parse", "HEAD").strip())
        self.assertEqual(facts["git.branch"], "trunk")
        self.assertEqual(facts["git.diff"], git(self.folder, "diff", "HEAD"))
        self.assertIn("# changed", facts["git.diff"])
        self.assertEqual(facts["variable.OMP_NUM_THREADS"], "3")
        self.assertNotIn("tr0ub4dor", "".join(run.iterdump()))
        load = {}
        for name, kind, value in run.execute("select name, kind, value from scalar join signal on signal = id where name glob 'system.*'"):
            self.assertEqual(kind, "system")
            load[name] = value
        for gpu in (0, 1):
            self.assertEqual([load[f"system.gpu.{gpu}.{what}"] for what in ("load", "memory", "power", "temperature")],
                             [41 + gpu, 25, 250.5, 61])
        for name in ("cpu", "memory", "disk.used"):
            self.assertTrue(0 <= load[f"system.{name}"] <= 100, load)
        self.assertTrue(1 << 20 < load["system.process.memory"] < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"))
        self.assertIn("system.network.sent", load)
        text = "".join(text for text, in run.execute("select text from text join signal on signal = id where name = 'console.output'"))
        self.assertEqual(text, self.printed)

    def test_secrets_are_hidden(self):
        self.write("train.py", PROGRAM + textwrap.dedent("""
            API_KEY = "sk-sequoia1"
            settings = {"hf_token": 'hf_sequoia2', "tokenizer": "kept-1", "max_tokens": "kept-2"}
            address = "postgresql://me:sequoia3@host/db"
            if False:
                token = tokens["kept-3"]
                password = read_password()  # kept-4
            """))
        self.write("conf.yaml", "client_secret: sequoia4abc\nkey: kept-5\n")
        self.write(".env.local", "ANYTHING=sequoia5\n")
        git(self.folder, "add", ".")
        words = ["--password", "sequoia6", "--hf-token=sequoia7", "WANDB_API_KEY=sequoia8", "mysql://me:sequoia9@host",
                 "--tokenizer=kept-6", "--token-count", "kept-7", "--lr", "0.1"]
        subprocess.run([sys.executable, "train.py", "a", *words], cwd=self.folder, check=True, capture_output=True,
                       env={key: value for key, value in os.environ.items() if key != "TAPEDECK_ENVIRONMENT"})
        run = sqlite3.connect(os.path.join(self.folder, "a", "run.db"))
        kept = "".join(run.iterdump())
        self.assertNotIn("sequoia", kept)
        for number in range(1, 8):
            self.assertIn(f"kept-{number}", kept)
        command, = run.execute("select value from environment where key = 'command'").fetchone()
        self.assertIn("'mysql://me:********@host' --tokenizer=kept-6 --token-count", command)
        self.assertTrue(command.endswith("--lr 0.1"), command)

    def test_off_and_compare(self):
        self.run_program("a").close()
        packed = git(self.folder, "commit", "-q", "-a", "-m", "two") + git(self.folder, "pack-refs", "--all")
        self.assertEqual(packed, "")
        run = self.run_program("b")
        commit, = run.execute("select value from environment where key = 'git.commit'").fetchone()
        self.assertEqual(commit, git(self.folder, "rev-parse", "HEAD").strip())
        self.assertEqual(run.execute("select value from environment where key = 'git.diff'").fetchone(), ("",))
        shown = subprocess.run([os.environ["TAPEDECK"], "compare", "a", "b"], cwd=self.folder, text=True, capture_output=True, check=False)
        self.assertIn(f"  b: git.commit: {commit}\n", shown.stdout)
        self.assertLess(shown.stdout.index("git.commit"), shown.stdout.index("experiment, a and b"))
        self.assertEqual(shown.returncode, 0, shown.stdout)  # load that differs is no difference
        off = self.run_program("c", TAPEDECK_ENVIRONMENT="off")
        self.assertEqual(off.execute("select key from environment").fetchall(), [("kernels",)])
        self.assertEqual(off.execute("select count(*) from signal where name glob 'system.*'").fetchone(), (0,))


if __name__ == "__main__":
    unittest.main()
