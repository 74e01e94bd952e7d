#!/usr/bin/env python3
"""Nobody flushes, and the writer is never idle: what was recorded is nevertheless handed to the system
soon, so that kill -9 does not lose it, also of sinks that get nothing more."""
import os
import signal
import sys
import time

import numpy as np
import pandas as pd

from driver import Run, run_all

STEPS = 199


def has_all(run):
    """Whether the files that get nothing more have the last step."""
    try:
        metrics = pd.read_csv(os.path.join(run.folder, "metrics.csv"))
        outputs = pd.read_csv(os.path.join(run.folder, "x.output.csv"))
        arrays = np.load(os.path.join(run.folder, "x.output.npy"))
        return (metrics["step"].max() == STEPS and outputs["step"].max() == STEPS
                and len(arrays) == STEPS - STEPS // 5)
    except (FileNotFoundError, ValueError, pd.errors.ParserError):
        return False


def killed_without_a_flush(_):
    with Run(STEPS, flush_every=0) as run:
        run.process.stdout.readline()
        for _ in range(600):
            if has_all(run):
                break
            time.sleep(0.1)
        complete = has_all(run)
        assert run.wait(kill_after=0) == -signal.SIGKILL, run.errors
        assert complete, "what was recorded waits in memory for as long as others record"
        run.check()


if __name__ == "__main__":
    sys.exit(run_all(killed_without_a_flush, range(3)) > 0)
