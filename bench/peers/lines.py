"""The lines that workers answer: see engine.py. TD_BENCH_CLOCK=cpu: in processor time."""
import os
import resource
import sys
import time


clock = time.process_time if os.environ.get("TD_BENCH_CLOCK") == "cpu" else time.perf_counter


def milliseconds(step, count):
    start = clock()
    for _ in range(count):
        step()
    return (clock() - start) * 1e3 / count


def answer(step):
    print("ready", flush=True)
    for line in sys.stdin:
        command = line.split()
        if command[0] == "run":
            print(milliseconds(step, int(command[1])), flush=True)
        elif command[0] == "memory":
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)
        else:
            sys.exit(f"unknown command: {line}")
