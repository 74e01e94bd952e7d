#!/usr/bin/env python3
"""A disk that is full or broken, writes that are cut short or interrupted, at every n-th call.

Short and interrupted writes must change nothing. A full or broken disk may cost records; then the
program is told, goes on, and whatever is in the files is right."""
import sys

from driver import SANITIZED, Run, run_all

STEPS, FLUSH_EVERY = 21, 7


def harmless(case):
    mode, every = case
    with Run(STEPS, FLUSH_EVERY, shim={"MODE": mode, "AT": every, "EVERY": every}) as run:
        assert run.wait() == 0, run.errors
        assert run.flushed() == STEPS
        run.check()


def failed_once(case):
    mode, call, last = case
    with Run(STEPS, FLUSH_EVERY, shim={"MODE": mode, "AT": call, "LAST": last}) as run:
        code = run.wait()
        assert code in (0, 3), f"{code} {run.errors}"
        told = code == 3
        run.check(whole=not told)


def count_calls():
    with Run(STEPS, FLUSH_EVERY, shim={"MODE": "count"}) as run:
        assert run.wait() == 0, run.errors
        return run.calls()


if __name__ == "__main__":
    calls = count_calls()
    periods = range(2, 6 if SANITIZED else 30)
    failures = run_all(harmless, [(mode, n) for mode in ("short", "EINTR") for n in periods])
    step = 11 if SANITIZED else 2
    cases = [(mode, n, 1) for mode in ("ENOSPC", "EIO") for n in range(1, calls + 1, step)]
    cases += [("ENOSPC", n, 10**9) for n in range(1, calls + 1, 10 * step)]  # and it stays full
    failures += run_all(failed_once, cases)
    sys.exit(failures > 0)
