#!/usr/bin/env python3
"""kill -9 at random moments: every file is then an exact prefix of what was recorded, and has
everything that was recorded before a flush that returned. TD_KILLS says how often (200)."""
import os
import random
import signal
import sys

from driver import SANITIZED, Run, run_all


def killed(seed):
    chance = random.Random(seed)
    # with pauses the writer is idle and flushes by itself; without, it writes without end
    pause = chance.choice([0, 0, 300])
    with Run(steps=10**9, flush_every=chance.choice([7, 50, 10**9]), pause=pause) as run:
        code = run.wait(kill_after=chance.uniform(0, 1.0 if SANITIZED else 0.15))
        assert code == -signal.SIGKILL, f"ended by itself: {code} {run.errors}"
        run.check()


if __name__ == "__main__":
    kills = int(os.environ.get("TD_KILLS", 40 if SANITIZED else 200))
    sys.exit(run_all(killed, range(kills)) > 0)
