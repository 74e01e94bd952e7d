"""Two builds in turns: the training steps of bench/engine and of bench/deck, and models over one example.

    python3 bench/tools/turns.py OLD-BUILD NEW-BUILD [MODEL.onnx …]

Prints milliseconds per step of both (the best of the rounds), and how much faster the new one is.
"""
import os
import sys

from rounds import Worker, interleave

NETWORKS = ["M1", "M2", "M3", "M4", "M5a", "M5b", "mobile", "text"]
MODES = ["bare", "stats", "histogram", "npy", "rows"]
ROUNDS, MILLISECONDS = 9, 120


def compare(title, program, arguments, builds):
    workers = [Worker([os.path.join(build, "bench", program), *arguments]) for build in builds]
    old, new = interleave(workers, ROUNDS, MILLISECONDS)
    for worker in workers:
        worker.close()
    print(f"{title:28} {old.best:10.4f} {new.best:10.4f} ms {old.best / new.best - 1:+8.1%}", flush=True)


def main():
    old, new, *models = sys.argv[1:]
    for network in NETWORKS:
        compare(f"engine {network}", "engine", [network, "1"], (old, new))
    for mode in MODES:
        compare(f"deck M3 {mode}", "deck", ["M3", "1", mode], (old, new))
    for model in models:
        compare(f"models {os.path.basename(model)}", "models", [model, "1"], (old, new))


if __name__ == "__main__":
    main()
