#!/usr/bin/env python3
"""The recorder dies at every single write, rename and sync of a run of 200 records, before the call
and halfway through it; what is left is an exact prefix."""
import signal
import sys

from driver import SANITIZED, Run, run_all

STEPS, FLUSH_EVERY = 21, 7  # 9 records a step and some more


def died(case):
    mode, call = case
    with Run(STEPS, FLUSH_EVERY, shim={"MODE": mode, "AT": call}) as run:
        code = run.wait()
        # how many calls a run makes depends on timing a little: it may have ended before
        assert code in (-signal.SIGKILL, 0), f"{code} {run.errors}"
        run.check()


def count_calls():
    with Run(STEPS, FLUSH_EVERY, shim={"MODE": "count"}) as run:
        assert run.wait() == 0, run.errors
        assert run.flushed() == STEPS
        run.check()
        return run.calls()


if __name__ == "__main__":
    calls = count_calls()
    print(f"{calls} calls")
    assert calls > 100
    step = 7 if SANITIZED else 1
    cases = [("kill", call) for call in range(1, calls + 1, step)]
    cases += [("torn", call) for call in range(2, calls + 1, 2 * step)]
    sys.exit(run_all(died, cases) > 0)
