"""Workers that are timed in turns.

Two programs are never compared from two runs: the machine's speed changes from minute to minute. A
worker is a process that prints `ready`, then answers `run N` with milliseconds per step and `memory`
with its peak resident KiB; `interleave` asks several of them in turns.
"""
import os
import statistics
import subprocess
import time


class Worker:
    def __init__(self, command, environment=None, quiet=False):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL if quiet else None,
                                        bufsize=1, env={**os.environ, **(environment or {})})
        if self._line() != "ready":
            raise RuntimeError(f"{command[0]} did not get ready")
        self.steps = 1

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self.command)} ended with {self.process.wait()}")
        return line.strip()

    def _ask(self, question):
        try:
            self.process.stdin.write(question + "\n")
        except BrokenPipeError:
            pass  # it has ended: _line says so
        return float(self._line())

    def warm_up(self, milliseconds):
        """Runs for about that long and sets the number of steps of a round to take as long again."""
        spent = 0.0
        while spent < milliseconds:
            per_step = self._ask(f"run {self.steps}")
            spent += per_step * self.steps
            self.steps = max(1, min(self.steps * 10, int(milliseconds / max(per_step, 1e-6))))

    def round(self):
        return self._ask(f"run {self.steps}")

    def memory(self):
        return self._ask("memory")

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Times:
    def __init__(self, values):
        self.median = statistics.median(values)
        self.best = min(values)


def interleave(workers, rounds, milliseconds, pause=0):
    """The times of each worker: every round asks each of them once, in changing order, after a pause of seconds where
    threads of a worker go on spinning when it has answered, on a core that the next one needs."""
    for worker in workers:
        worker.warm_up(milliseconds)
    values = [[] for _ in workers]
    for number in range(rounds):
        order = range(len(workers)) if number % 2 else reversed(range(len(workers)))
        for i in order:
            time.sleep(pause)
            values[i].append(workers[i].round())
    return [Times(times) for times in values]
