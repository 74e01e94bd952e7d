"""Runs as other programs leave them, written byte by byte as their formats say; tests/interop/test_foreign.py has those that
the programs themselves write."""
import json
import os
import sqlite3
import struct
import zlib

BLOCK = 32768


def varint(number):
    out = b""
    number &= 2**64 - 1
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A message, text or whole number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def wandb_log(records):
    """The bytes of a run-ID.wandb."""
    out = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for record in records:
        first = True
        while True:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += bytes(room)
                continue
            piece, record = record[:room - 7], record[room - 7:]
            kind = (1 if not record else 2) if first else (4 if not record else 3)
            out += struct.pack("<IHB", zlib.crc32(bytes([kind]) + piece), len(piece), kind) + piece
            first = False
            if not record:
                break
    return out


def wandb_history(step, time, **values):
    items = b"".join(field(1, b"".join(field(2, part) for part in key.split("__")) + field(16, json.dumps(value)))
                     for key, value in {"_timestamp": time, "_step": step, **values}.items())
    return field(2, items + field(2, field(1, step)))


def wandb_run(**config):
    updates = b"".join(field(1, field(1, key) + field(16, json.dumps(value))) for key, value in config.items())
    return field(17, field(3, "project") + field(4, updates) + field(8, "a title") + field(9, "notes") + field(10, "x") + field(10, "y")
                 + field(17, field(1, 1700000000)))


def write_wandb(folder, steps=40):
    os.makedirs(folder)
    typed = field(2, field(1, field(1, "typed") + field(6, 0.5)) + field(1, field(1, "whole") + field(5, 5)) + field(1, field(1, "word")
                  + field(7, "hi")) + field(2, field(1, steps)))
    records = [field(21, b""), wandb_run(lr=0.1, layers=[1, 2], optimizer={"name": "adam"})]
    records += [wandb_history(i, 1700000000.5 + i, loss=1 / (i + 1), nested__acc=i / 10, bad=float("nan") if i == 2 else float("-inf"),
                              text="t" * 2000, h__values=[1, 2], h___type="histogram", h__bins=[0, 1, 2.5],
                              picture={"_type": "image-file", "path": "x.png"}) for i in range(steps)]
    records += [field(7, field(2, field(1, 1700000100)) + field(3, field(1, "cpu") + field(16, "12.5"))), typed, field(18, b"")]
    data = wandb_log(records)
    with open(os.path.join(folder, "run-abc.wandb"), "wb") as file:
        file.write(data)
    return data


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_mlflow(folder):
    """folder is an mlruns; returns the run's."""
    run = os.path.join(folder, "0", "f" * 32)
    write(os.path.join(folder, "0", "meta.yaml"), "experiment_id: '0'\nname: Default\n")
    write(os.path.join(run, "meta.yaml"), "run_id: " + "f" * 32 + "\nrun_name: 'a title'\nstart_time: 1700000000000\nstatus: 3\ntags: []\n")
    write(os.path.join(run, "metrics", "loss"), "".join(f"{1700000000000 + i} {1 / (i + 1)!r} {i}\n" for i in range(5)))
    write(os.path.join(run, "metrics", "val", "acc"), "1700000000000 nan 0\n1700000000001 0.5 10\n")
    write(os.path.join(run, "metrics", "unnumbered"), "1 0.5\n2 0.25 0\n3 0.125 0\n")
    write(os.path.join(run, "params", "lr"), "0.1")
    write(os.path.join(run, "tags", "mlflow.user"), "me")
    write(os.path.join(run, "tags", "who"), "them")
    return run


def write_trackio(path, old=False):
    """Two runs, of the newest layout or that of 0.1."""
    database = sqlite3.connect(path)
    if old:
        database.execute("create table metrics (id integer primary key autoincrement, timestamp text, project_name text, run_name text,"
                         " step integer, metrics text)")
    else:
        database.execute("create table metrics (id integer primary key autoincrement, run_id text, timestamp text, run_name text,"
                         " step integer, metrics text)")
        database.execute("create table configs (id integer primary key, run_id text, run_name text, config text, created_at text)")
        database.execute("create table system_metrics (id integer primary key, run_id text, timestamp text, run_name text, metrics text)")
    for number, name in enumerate(("one", "two")):
        for i in range(5):
            text = json.dumps({"loss": 1 / (i + 1 + number), "nested": {"acc": i / 10}, "bad": "NaN" if i == 2 else float("inf"), "text": "x"})
            time = f"2026-11-18T18:05:{i:02}.250000+01:00"
            values = (time, name, i, text)
            database.execute("insert into metrics (timestamp, run_name, step, metrics) values (?, ?, ?, ?)", values)
        if not old:
            database.execute("update metrics set run_id = ? where run_name = ?", (f"id-{name}", name))
            database.execute("insert into configs values (?, ?, ?, ?, '')", (number, f"id-{name}", name, '{"lr": 0.1, "o": {"a": 1}, "_x": 0}'))
            database.execute("insert into system_metrics values (?, ?, ?, ?, ?)",
                             (number, f"id-{name}", "2026-11-18T18:05:03.300000+01:00", name, '{"cpu": 50}'))
    database.commit()
    database.close()


def write_lightning(folder):
    write(os.path.join(folder, "metrics.csv"), "epoch,loss,step,val_loss\n0,1.5,9,\n0,,9,2.5\n1,1.25,19,\n1,,19,nan\n")
    write(os.path.join(folder, "hparams.yaml"), 'lr: 0.1\nnet:\n  layers: [1, 2]\n  name: "x: y"\n')


def write_keras(path, separator=","):
    write(path, separator.join(["epoch", "accuracy", "loss"]) + "\n" + separator.join(["0", "0.5", "1.5"]) + "\r\n"
          + separator.join(["1", "NA", '"1.25"']) + "\n")
