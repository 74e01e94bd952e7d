#!/usr/bin/env python3
"""A team's database (docs/team.md): sending scalars and histograms, eight writers at once, the list of a thousand runs, one
chart out of many values, and bytes per value. A PostgreSQL of its own on a socket, without fsync.

    ./dev bench store [SCALARS]      values of the large run (10000000); ten of it are in the database
    TD_TRACKERS=PYTHON ./dev bench store    also MLflow and trackio, with a Python that has mlflow, psycopg2 and trackio
"""
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, "tests/cli")
import postgresql

PROGRAM = os.path.abspath("build/tapedeck")
STEPS = 10000
SMALL = """
name: {name}
threads: 1
data: {{generate: {{two_moons: {{examples: 64, noise: 0.1}}}}, batch: 16}}
model: [{{dense: {{name: logits, units: 2}}}}]
train: {{loss: sparse_categorical_crossentropy, from_logits: true, epochs: 1}}
"""


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout


def timed(*arguments):
    """Seconds, the best of three."""
    best = 1e9
    for _ in range(3):
        started = time.perf_counter()
        run(*arguments)
        best = min(best, time.perf_counter() - started)
    return best


def make_run(folder, name, signals, steps, histograms=0):
    """A run of tapedeck train, with further signals: random numbers at each step, or histograms of 200 bins."""
    path = os.path.join(folder, name)
    experiment = os.path.join(folder, name + ".yaml")
    with open(experiment, "w", encoding="utf-8") as file:
        file.write(SMALL.format(name=name))
    run("train", experiment, "--out", folder, "--quiet")
    chance = random.Random(name)
    with sqlite3.connect(os.path.join(path, "run.db")) as db:
        db.executemany("INSERT INTO signal(id, name, kind, layer, parameter, position, batched) VALUES(?, ?, 'metric', '', '', 0, 0)",
                       [(1000 + i, f"metric_{i}") for i in range(signals)])
        db.execute("INSERT OR IGNORE INTO step WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                   " SELECT i, 1, i * 0.01 FROM n", (steps,))
        db.execute("INSERT INTO scalar WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                   " SELECT id, i, random() / 1e18 FROM signal, n WHERE id >= 1000 ORDER BY 1, 2", (0 if histograms else steps,))
        bins = [b"\1" + bytes(chance.randrange(128) for _ in range(400)) for _ in range(64)]
        db.executemany("INSERT INTO histogram_packed VALUES(?, ?, ?)",
                       ((1000 + i, step, bins[(i + step) % 64]) for i in range(signals) for step in range(1, histograms + 1)))
    return path


def push(path, url):
    started = time.perf_counter()
    run("push", path, url)
    return time.perf_counter() - started


def clone(server, name, count, series=True):
    """More runs like one, made by the server."""
    text = f"""INSERT INTO tapedeck.name SELECT '{name}-c' || i, '{name}-c' || i FROM generate_series(1, {count}) i;
        INSERT INTO tapedeck.run(uuid, name, schema) SELECT '{name}-c' || i, '{name}-c' || i, 5 FROM generate_series(1, {count}) i;"""
    for table in ["signal", "note", "summary", "step_chunk", *["scalar_chunk"][:series]]:
        columns = [row[0] for row in server.sql(f"SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid ="
                                                f" 'tapedeck.{table}'::regclass AND attnum > 0 AND attname <> 'run'")]
        text += f"""INSERT INTO tapedeck.{table}(run, {", ".join(columns)}) SELECT r.id, {", ".join("t." + column for column in columns)}
            FROM tapedeck.{table} t, tapedeck.run r WHERE r.uuid LIKE '{name}-c%'
            AND t.run = (SELECT id FROM tapedeck.run WHERE name = '{name}');"""
    server.sql(text)


def peers(server, folder, values):
    """MLflow on the same server and trackio, in turns with a push of as many values."""
    server.sql("CREATE DATABASE mlflow", database="postgres")
    url = f"postgresql+psycopg2://team@/mlflow?host={server.folder}"
    environment = dict(os.environ, TRACKIO_DIR=os.path.join(folder, "trackio"), MLFLOW_ALLOW_FILE_STORE="true")
    path = make_run(folder, "beside", 100, values // 100)
    for name, where in (("mlflow", url), ("trackio", "-")):
        seconds = push(path, server.url())
        run("rm", server.url() + "#beside", "--yes")
        done = subprocess.run([os.environ["TD_TRACKERS"], "-W", "ignore", "bench/peers/store.py", name, where, str(values)],
                              capture_output=True, text=True, check=False, env=environment)
        if done.returncode:
            print(f"{name}: {done.stderr.splitlines()[-1:]}")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        print(f"{values} scalars: {name} {found['seconds']:.1f} s, {values / found['seconds']:.0f}/s; one metric of {found['found']} values read"
              f" in {found['read_seconds']:.3f} s; push of as many {seconds:.2f} s, {values / seconds:.0f}/s")
    size = int(server.sql("SELECT pg_database_size('mlflow')", database="postgres")[0][0])
    print(f"  mlflow: {size / values:.0f} bytes each")


def row_per_value(server, values):
    """What a table with a row for each value takes, by COPY."""
    server.sql("CREATE TABLE plain(run bigint, signal bigint, step bigint, value float8, PRIMARY KEY(run, signal, step))")
    text = "".join(f"1\t{i // STEPS}\t{i % STEPS}\t{random.random()}\n" for i in range(values))
    started = time.perf_counter()
    subprocess.run([os.path.join(postgresql.PROGRAMS, "psql"), "-h", server.folder, "-U", "team", "-d", "runs", "-qc",
                    "COPY plain FROM STDIN"], input=text, text=True, check=True)
    seconds = time.perf_counter() - started
    size = int(server.sql("SELECT pg_total_relation_size('plain')")[0][0])
    server.sql("DROP TABLE plain")
    return values / seconds, size / values


def size_of(server, table):
    return int(server.sql(f"SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
                          f" WHERE nspname = 'tapedeck' AND relkind = 'r' AND relname ~ '^{table}_[0-7]$'")[0][0])


def main():
    scalars = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    signals = scalars // STEPS
    folder = tempfile.mkdtemp(prefix="tapedeck-bench-")
    server = postgresql.Server("-c shared_buffers=512MB -c max_wal_size=4GB")
    url = server.url()
    try:
        large = make_run(folder, "large", signals, STEPS)
        seconds = push(large, url)
        print(f"{scalars} scalars by push: {seconds:.1f} s, {scalars / seconds / 1e6:.2f} M/s")
        print(f"  {size_of(server, 'scalar_chunk') / scalars:.2f} bytes each; again, with nothing new: {push(large, url):.1f} s")
        rate, size = row_per_value(server, min(scalars, 300_000))
        print(f"a row per value by COPY: {rate / 1e6:.2f} M/s, {size:.0f} bytes each")
        many = make_run(folder, "histograms", 100, 2, histograms=1000)
        seconds = push(many, url)
        print(f"100000 histograms by push: {seconds:.1f} s, {100000 / seconds:.0f} a second, {size_of(server, 'histogram_chunk') / 100000:.0f} bytes each")
        paths = [make_run(folder, f"writer-{i}", max(1, signals // 20), STEPS) for i in range(8)]
        started = time.perf_counter()
        for process in [subprocess.Popen([PROGRAM, "push", path, url], stdout=subprocess.DEVNULL) for path in paths]:
            assert process.wait() == 0
        seconds = time.perf_counter() - started
        print(f"8 writers at once: {8 * max(1, signals // 20) * STEPS / seconds / 1e6:.2f} M scalars/s")
        if "TD_TRACKERS" in os.environ:
            peers(server, folder, 100_000)
        clone(server, "large", 9)
        small = make_run(folder, "small", 3, 2)
        push(small, url)
        clone(server, "small", 980, series=False)
        server.sql("ANALYZE")
        count = len(json.loads(run("runs", url, "--json")))
        print(f"list of {count} runs: {timed('runs', url):.2f} s")
        total = server.sql("SELECT sum(count) FROM tapedeck.scalar_chunk")[0][0]
        what = f"metric_{signals // 2}"
        print(f"one signal of {STEPS} steps out of {total} values:")
        print(f"  by a program that starts, opens the run and prints it: {timed('show', url + '#large', what):.2f} s"
              f" (its folder: {timed('show', large, what):.2f} s)")
        started = time.perf_counter()
        rows = server.sql("EXPLAIN (ANALYZE, TIMING OFF) SELECT step, \"first\", value FROM tapedeck.scalar_chunk WHERE run = (SELECT id FROM"
                          " tapedeck.run WHERE name = 'large') AND signal = 1001 ORDER BY \"first\"")
        print(f"  of that in the server: {rows[-1][0]}")
    finally:
        server.close()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
