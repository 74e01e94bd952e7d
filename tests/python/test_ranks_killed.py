#!/usr/bin/env python3
"""kill -9 of one of three ranks at random moments: what the others recorded is complete, the run opens and names the dead
rank, and what that one flushed is there. TD_KILLS: how often (6)."""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import tapedeck

WRITE = """
import os, sys
import tapedeck
rank, stop = int(os.environ["RANK"]), sys.argv[2]
deck = tapedeck.Deck(sys.argv[1], rank=rank, world=3)
deck.track("*", form="scalar")
step = 0
while not os.path.exists(stop) or step < 20:
    step += 1
    deck.log(loss=step + 1000.0 * rank)
    deck.step()
    if step % 10 == 0:
        deck.flush()
        print(step, flush=True)
deck.finish()
print(step, flush=True)
"""


def killed(seed):
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path, stop = os.path.join(folder, "run"), os.path.join(folder, "stop")
        ranks = [subprocess.Popen([sys.executable, "-c", WRITE, path, stop], stdout=subprocess.PIPE, text=True, env=dict(
            os.environ, RANK=str(rank), WORLD_SIZE="3", TAPEDECK_RUN=str(seed))) for rank in range(3)]
        victim = chance.randrange(3)
        line = ranks[victim].stdout.readline()  # it has recorded something
        time.sleep(chance.uniform(0, 0.2))
        ranks[victim].send_signal(signal.SIGKILL)
        with open(stop, "w"):
            pass
        printed = [rank.communicate(timeout=120)[0] for rank in ranks]
        printed[victim] = line + printed[victim]
        last = [int(text.split()[-1]) for text in printed]
        run = tapedeck.Run(path)
        said = [problem for problem in run.problems if "ended without closing" in problem]
        assert len(said) == 1 and said[0].startswith(f"rank {victim} "), run.problems
        states = [rank["state"] for rank in run.ranks]
        assert states == ["crashed" if rank == victim else "finished" for rank in range(3)], states
        for rank in range(3):
            values = tapedeck.Run(path, rank=rank)["loss"].array()
            exact = len(values) >= last[rank] if rank == victim else len(values) == last[rank]
            assert exact, f"rank {rank}: {len(values)} of {last[rank]}"
            assert all(value == step + 1 + 1000 * rank for step, value in enumerate(values)), f"rank {rank}: other values"
        assert len(run["loss"].array()) == max(len(tapedeck.Run(path, rank=rank)["loss"].array()) for rank in range(3))


if __name__ == "__main__":
    kills = int(os.environ.get("TD_KILLS", 6))
    for number in range(kills):
        killed(number)
    print(f"{kills} of {kills} as they should be")
