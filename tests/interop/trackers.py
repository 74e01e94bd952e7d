"""Runs that wandb, MLflow, trackio, Keras and Lightning wrote, and runs pushed to them: values are what those programs read."""
import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

PROGRAM = os.environ["TAPEDECK"]
LOSSES = [1 / (i + 1) for i in range(8)]

os.environ.update(WANDB_MODE="offline", WANDB_SILENT="true", MLFLOW_ALLOW_FILE_STORE="true", TF_CPP_MIN_LOG_LEVEL="3")


def run_program(*arguments, status=0):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, (arguments, done.stdout, done.stderr)
    return done.stdout


def values(run, signal, status=0):
    lines = run_program("sql", run, f"select step, value from scalars where signal = '{signal}' order by step", "--csv",
                        status=status).splitlines()[1:]
    return [(int(step), float(value or "nan")) for step, value in (line.split(",") for line in lines)]


def records(path):
    """Of a .wandb file, parsed by wandb's own messages."""
    from wandb.proto import wandb_internal_pb2  # pylint: disable=import-outside-toplevel
    with open(path, "rb") as file:
        data = file.read()
    assert data[:7] == b":W&B\xe1\xbe\x00"
    at, found, whole = 7, [], b""
    while at < len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        crc, length, kind = struct.unpack("<IHB", data[at:at + 7])
        piece = data[at + 7:at + 7 + length]
        assert zlib.crc32(bytes([kind]) + piece) == crc
        whole = piece if kind in (1, 2) else whole + piece
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            found.append(record)
        at += 7 + length
    return found


def history(path):
    steps = {}
    for record in records(path):
        if record.WhichOneof("record_type") == "history":
            steps[record.history.step.num] = {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
    return steps


class Foreign(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def test_wandb(self):
        import wandb
        run = wandb.init(project="p", name="first", config={"lr": 0.1, "o": {"a": [1, 2]}}, dir=self.folder)
        for i, loss in enumerate(LOSSES):
            run.log({"loss": loss, "nested": {"acc": i * 0.1}, "bad": math.nan if i == 2 else math.inf, "text": "x" * 9000})
        run.log({"h": wandb.Histogram([1, 2, 3, 4.5])}, step=20)
        run.finish()
        wandb.teardown()  # the file is complete then
        (path,) = glob.glob(self.path("wandb", "offline-run-*", "run-*.wandb"))
        theirs, folder = history(path), os.path.dirname(path)
        for name in ("loss", "nested.acc", "bad"):
            wanted = [(step, float(row[name])) for step, row in sorted(theirs.items()) if name in row]
            self.assertEqual(len(wanted), 8)
            self.assertEqual(repr(values(folder, name)), repr(wanted))
        counts = json.loads(run_program("sql", folder, "select sum(count) as n, min(low) as low, max(high) as high from histograms", "--json"))
        self.assertEqual(counts, [{"n": 4, "low": 1, "high": 4.5}])
        config = json.loads(run_program("sql", folder, "select key, value from config order by key", "--json"))
        self.assertEqual([(row["key"], str(row["value"])) for row in config], [("lr", "0.1"), ("o.a", "[1,2]")])

    def test_mlflow(self):
        import mlflow
        mlflow.set_tracking_uri("file:" + self.path("mlruns"))
        with mlflow.start_run() as run:
            mlflow.log_params({"lr": 0.1})
            for i, loss in enumerate(LOSSES):
                mlflow.log_metric("train/loss", loss, step=10 * i)
                mlflow.log_metric("bad", math.nan if i == 2 else -math.inf, step=i)
        client = mlflow.MlflowClient()
        (folder,) = glob.glob(self.path("mlruns", "*", run.info.run_id))
        for name in ("train/loss", "bad"):
            wanted = [(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, name)]
            self.assertEqual(repr(values(folder, name)), repr(wanted))

    def test_trackio(self):
        script = ("import trackio\nfor name in ('one', 'two'):\n    trackio.init(project='p', name=name, config={'lr': 0.1})\n"
                  "    for i in range(8): trackio.log({'loss': 1 / (i + 1), 'n': {'a': i}, 'bad': float('nan')})\n    trackio.finish()\n"
                  "from trackio.sqlite_storage import SQLiteStorage\nimport json\n"
                  "print(json.dumps([[row['step'], row['loss']] for row in SQLiteStorage.get_logs('p', 'two')]))\n")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True,
                              env=dict(os.environ, TRACKIO_DIR=self.folder))
        wanted = [tuple(pair) for pair in json.loads(done.stdout.splitlines()[-1])]
        self.assertEqual(len(wanted), 8)
        self.assertEqual(values(self.path("p.db", "two"), "loss"), wanted)
        self.assertTrue(all(math.isnan(value) for _, value in values(self.path("p.db", "one"), "bad")))

    def test_pushed(self):
        with open(self.path("log.csv"), "w", encoding="utf-8") as file:
            file.write("step,loss,odd*name\n" + "".join(f"{i},{loss!r},{i}\n" for i, loss in enumerate(LOSSES)))
        run_program("push", self.path("log.csv"), "mlflow:" + self.path("mlruns"), status=1)  # a name is another there
        run_program("push", self.path("log.csv"), "wandb-offline:" + self.path("wandb"))
        import mlflow
        client = mlflow.MlflowClient("file:" + self.path("mlruns"))
        (run,) = client.search_runs(["0"])
        self.assertEqual(run.info.run_name, "log.csv")
        self.assertEqual([(metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, "loss")],
                         list(enumerate(LOSSES)))
        self.assertEqual(len(client.get_metric_history(run.info.run_id, "odd_name")), 8)
        (path,) = glob.glob(self.path("wandb", "offline-run-*", "run-*.wandb"))
        self.assertEqual([(step, row["loss"]) for step, row in sorted(history(path).items())], list(enumerate(LOSSES)))
        self.assertEqual([record.WhichOneof("record_type") for record in records(path)], ["header", "run"] + 8 * ["history"] + ["exit"])


if __name__ == "__main__":
    sys.exit(int(not unittest.main(exit=False).result.wasSuccessful()))  # wandb takes no other status than a number
