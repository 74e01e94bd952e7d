"""Starts the program under the MPIs of Debian, and compares the runs that it wrote."""
import json
import os
import sqlite3
import struct
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["TD_SOURCE"], "tests", "cli"))
from program import PROGRAM, Case, write_png  # noqa: E402, F401

BUILD = os.environ["TD_BUILD"]
# As many processes as a test wants, whatever the cores; processes of this test wait for each other longer than usual on a
# machine that is busy. What MPI itself never frees is not ours.
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
                   OMPI_MCA_btl_base_warn_component_unused="0", ASAN_OPTIONS="detect_leaks=0",
                   TAPEDECK_GROUP_TIMEOUT="60", TAPEDECK_ENVIRONMENT="off")
# What a run notes of time and load, and of how the processes were started.
BY_THE_CLOCK = ("deck.", "started", "ended", "environment")


def launchers():
    """The MPIs that were there when the library was built."""
    return [mpi for mpi in ("openmpi", "mpich")
            if os.path.exists(os.path.join(BUILD, f"libtapedeck-mpi-{mpi}.so"))]


def command(mpi, processes, *arguments):
    return [f"mpirun.{mpi}", "-n", str(processes), PROGRAM, *arguments]


def run(mpi, processes, *arguments, cwd=None, expect=0, **environment):
    """processes 0: without MPI. Returns what it printed."""
    words = command(mpi, processes, *arguments) if processes else [PROGRAM, *arguments]
    done = subprocess.run(words, cwd=cwd, env=dict(ENVIRONMENT, **environment), text=True, timeout=240,
                          stdin=subprocess.DEVNULL, capture_output=True)
    assert (done.returncode == 0) == (expect == 0), (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def tables(path):
    """All that run.db holds but times."""
    store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    found = {}
    for (table,) in store.execute("select name from sqlite_master where type='table'").fetchall():
        names = [row[1] for row in store.execute(f"pragma table_info({table})")]
        names = [name for name in names if name != "wall_time"]
        rows = store.execute(f"select {','.join(names)} from {table}").fetchall()
        if table == "run":
            rows = [row for row in rows if not str(row[0]).startswith(BY_THE_CLOCK)]
        if table != "environment":
            found[table] = sorted(rows, key=repr)
    store.close()
    return found


def tensors(path):
    """What a file of safetensors has, but the recorder's state: there are times in it."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {name: value if name == "__metadata__" else (value["dtype"], value["shape"], data[8 + size:][slice(*value["data_offsets"])])
            for name, value in head.items() if name not in ("training/recording", "training/files")}


def files(run):
    """The bytes of every file by name; run.db as tables, checkpoints as tensors. flight.bin has fingerprints as often as
    time allows."""
    found = {}
    for folder, _, names in os.walk(run):
        for name in names:
            path = os.path.join(folder, name)
            key = os.path.relpath(path, run)
            if name == "run.db":
                found[key] = tables(path)
            elif name.startswith("step-"):
                found[key] = tensors(path)
            elif not name.startswith(("flight.bin", "run.db-")):
                with open(path, "rb") as file:
                    found[key] = file.read()
    return found


def digits(folder):
    """Small files to train on: examples, sequences, images, two inputs."""
    random = np.random.default_rng(5)
    label = random.integers(0, 3, 83)
    x = (random.standard_normal((83, 6)) + label[:, None]).astype(np.float32)
    np.save(os.path.join(folder, "x.npy"), x)
    np.save(os.path.join(folder, "sequence.npy"), random.standard_normal((83, 5, 4)).astype(np.float32) + label[:, None, None])
    np.save(os.path.join(folder, "image.npy"), random.standard_normal((83, 6, 6, 1)).astype(np.float32) + label[:, None, None, None])
    np.save(os.path.join(folder, "words.npy"), random.integers(1, 9, (83, 5)).astype(np.float32))
    np.save(os.path.join(folder, "y.npy"), label.astype(np.int32))
    np.save(os.path.join(folder, "value.npy"), x.sum(1))
    np.save(os.path.join(folder, "target.npy"), random.standard_normal((83, 9)).astype(np.float32))
