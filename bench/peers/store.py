"""What bench/store.py measures of other trackers: VALUES scalars of one run, 100 metrics at a time, and one metric read back.

    store.py mlflow URL VALUES     the SQLAlchemy store on the same PostgreSQL, by log_batch
    store.py trackio - VALUES      its SQLite database in TRACKIO_DIR, by log and finish
Prints a line of JSON."""
import json
import logging
import sys
import time

METRICS = 100


def of_mlflow(url, values):
    import tempfile

    from mlflow.entities import Metric
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    logging.disable(logging.WARNING)
    store = SqlAlchemyStore(url, tempfile.mkdtemp())
    run = store.create_run(store.create_experiment("bench"), "me", 0, [], "large").info.run_id
    started = time.perf_counter()
    for step in range(0, values // METRICS, 10):  # a thousand metrics at a time, which is all that it takes
        store.log_batch(run, [Metric(f"metric_{i}", 1 / (1 + i + at), at, at) for at in range(step, step + 10) for i in range(METRICS)],
                        [], [])
    written = time.perf_counter()
    count = len(store.get_metric_history(run, "metric_7"))
    return written - started, time.perf_counter() - written, count


def of_trackio(_, values):
    import contextlib

    import trackio

    with contextlib.redirect_stdout(sys.stderr):
        started = time.perf_counter()
        trackio.init(project="bench", name="large", embed=False)
        for step in range(values // METRICS):
            trackio.log({f"metric_{i}": 1 / (1 + i + step) for i in range(METRICS)}, step=step)
        trackio.finish()
        written = time.perf_counter()
        from trackio.sqlite_storage import SQLiteStorage

        rows = SQLiteStorage.get_logs("bench", "large")
        count = sum("metric_7" in row for row in rows)
    return written - started, time.perf_counter() - written, count


which, where, amount = sys.argv[1], sys.argv[2], int(sys.argv[3])
seconds, read_seconds, found = {"mlflow": of_mlflow, "trackio": of_trackio}[which](where, amount)
print(json.dumps({"seconds": seconds, "read_seconds": read_seconds, "found": found}))
