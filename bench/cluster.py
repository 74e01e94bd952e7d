#!/usr/bin/env python3
"""One process, two threads, two processes: milliseconds per step of the same global batch, beside PyTorch's DDP with gloo, in turns. The
efficiency of two is half of what one process with one thread takes over what they take.

    bench/cluster.py BUILD [NETWORK …] [--rounds N]     networks: dense, cnn

TD_PEERS: a Python with PyTorch; without it Tapedeck alone is timed."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

BATCH, STEPS = 256, {"dense": 120, "cnn": 24}
MODELS = {"dense": """
- dense: {name: a, units: 512, activation: relu}
- dense: {name: b, units: 512, activation: relu}
- dense: {name: c, units: 10}
""", "cnn": """
- conv2d: {name: a, filters: 32, kernel_size: 3, activation: relu}
- max_pool2d: {size: 2}
- conv2d: {name: b, filters: 64, kernel_size: 3, activation: relu}
- max_pool2d: {size: 2}
- flatten: {name: flat}
- dense: {name: c, units: 128, activation: relu}
- dense: {name: d, units: 10}
"""}
EXPERIMENT = """
name: bench
data: {{train: x.npy, labels: y.npy, batch: %d}}
diagnose: false
model:{model}
train: {{loss: {{sparse_categorical_crossentropy: {{from_logits: true}}}}, shards: 2, epochs: 5, checkpoint: {{every: 1000000 steps}}}}
record: [{{what: loss, every: 1 epoch, to: [csv]}}]
""" % BATCH
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TAPEDECK_ENVIRONMENT": "off"}


class Bench:
    def __init__(self, build, network, folder):
        self.program, self.network, self.folder = os.path.join(os.path.abspath(build), "tapedeck"), network, folder
        random = np.random.default_rng(1)
        rows, shape = BATCH * STEPS[network], (784,) if network == "dense" else (28, 28, 1)
        np.save(os.path.join(folder, "x.npy"), random.standard_normal((rows, *shape), dtype=np.float32))
        np.save(os.path.join(folder, "y.npy"), random.integers(0, 10, rows).astype(np.int32))
        with open(os.path.join(folder, "bench.yaml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT.format(model=MODELS[network]))

    def run(self, words, environment):
        return subprocess.run(words, cwd=self.folder, env={**os.environ, **ROOT, **environment}, check=True, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout

    def tapedeck(self, processes, threads):
        words = [self.program, "train", "bench.yaml", "--json", "--set", f"threads={threads}"]
        if processes > 1:
            words = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", str(processes), *words]
        lines = [json.loads(line) for line in self.run(words, {}).splitlines() if line.startswith("{")]
        epochs = [line for line in lines if line["event"] == "epoch"]
        return 1000 * (epochs[-1]["seconds"] - epochs[0]["seconds"]) / (epochs[-1]["step"] - epochs[0]["step"])

    def pytorch(self, processes, threads):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "ddp.py")
        words = [script, self.network, str(BATCH), str(3 * STEPS[self.network]), str(threads)]
        python = os.environ["TD_PEERS"]
        if processes == 1:
            return float(self.run([python, *words], {"OMP_NUM_THREADS": str(threads)}))
        launch = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", "29611"]
        return float(self.run([*launch, *words], {"OMP_NUM_THREADS": str(threads)}).split()[-1])


def main():
    arguments, rounds = sys.argv[2:], 5
    if "--rounds" in arguments:
        at = arguments.index("--rounds")
        rounds = int(arguments[at + 1])
        del arguments[at:at + 2]
    networks = arguments or list(MODELS)
    print(f"{'network':8} {'':9} {'processes':>9} {'threads':>7} {'ms/step':>9} {'best':>9} {'efficiency':>10}")
    for network in networks:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(sys.argv[1], network, folder)
            ways = [("tapedeck", bench.tapedeck)] + ([("pytorch", bench.pytorch)] if os.environ.get("TD_PEERS") else [])
            times = {}
            for _ in range(rounds):
                for name, way in ways:
                    for count in ((1, 1), (1, 2), (2, 1)):
                        times.setdefault((name, *count), []).append(way(*count))
            for (name, processes, threads), values in times.items():
                alone, now = statistics.median(times[name, 1, 1]), statistics.median(values)
                efficiency = alone / now / (processes * threads)
                print(f"{network:8} {name:9} {processes:9} {threads:7} {now:9.2f} {min(values):9.2f} {100 * efficiency:9.0f}%", flush=True)


if __name__ == "__main__":
    main()
