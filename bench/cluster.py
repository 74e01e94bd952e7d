#!/usr/bin/env python3
"""One process, two threads, two processes: milliseconds per step of the same global batch, beside PyTorch's DDP with gloo, in turns. The
efficiency of two is half of what one process with one thread takes over what they take.

    bench/cluster.py BUILD [NETWORK …] [--rounds N] [--wire MEGABITS:MILLISECONDS] [--priority]     networks: dense, cnn

--wire, as root: two hosts (network namespaces) joined by a wire of that bandwidth and delay (bench/tools/wire.py), one process on each;
`alone` is what a process takes for half of the batch; `exposed` is what a step of both takes longer; `hidden` how much it is less than what
8 P (N - 1) / N bytes take on the wire. A line a round, taken in turns; then the median and the best of the rounds.

--priority, as root: all of it runs before other processes of the machine (nice -15), for a machine that is busy; said in the output.

TD_PEERS: a Python with PyTorch; without it Tapedeck alone is timed."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tools"))
import wire  # noqa: E402

BATCH, STEPS = 256, {"dense": 120, "cnn": 24}  # STEPS: of an epoch
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
PARAMETERS = {"dense": 669706, "cnn": 225034}
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

    def tapedeck(self, processes, threads, batch=BATCH, link=None):
        words = [self.program, "train", "bench.yaml", "--json", "--set", f"threads={threads}", "--set", f"data.batch={batch}"]
        words += ["--set", "train.shards=1"] if batch < BATCH else []
        if link:
            words += ["--set", "train.epochs=2"]
            words = link.mpirun(words)
        elif processes > 1:
            words = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", str(processes), *words]
        lines = [json.loads(line) for line in self.run(words, {}).splitlines() if line.startswith("{")]
        epochs = [line for line in lines if line["event"] == "epoch"]
        return 1000 * (epochs[-1]["seconds"] - epochs[0]["seconds"]) / (epochs[-1]["step"] - epochs[0]["step"])

    def pytorch(self, processes, threads, batch=BATCH, link=None):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "ddp.py")
        words = [script, self.network, str(batch), str(STEPS[self.network] * (1 if link else 3)), str(threads)]
        python = os.environ["TD_PEERS"]
        if link:
            return self.pytorch_on(link, [python, *words])
        if processes == 1:
            return float(self.run([python, *words], {"OMP_NUM_THREADS": str(threads)}))
        launch = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", "29611"]
        return float(self.run([*launch, *words], {"OMP_NUM_THREADS": str(threads)}).split()[-1])

    def pytorch_on(self, link, words):
        """A process on each host, without torchrun."""
        running = []
        for rank in range(2):
            environment = {"RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "10.78.0.1", "MASTER_PORT": "29611",
                           "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
            running.append(subprocess.Popen(link.on(rank, words), cwd=self.folder, env={**os.environ, **environment}, text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        printed = [each.communicate()[0] for each in running]
        return float(printed[0].split()[-1])


def over_a_wire(bench, ways, rounds, megabits, milliseconds):
    """Milliseconds of a step of two processes, and how much of its exchange is hidden behind computing."""
    sent = 4 * PARAMETERS[bench.network] * 8 / (megabits * 1e6) * 1000
    print(f"\n{bench.network}, two hosts, {megabits:g} Mbit/s, {milliseconds:g} ms: the bytes alone take {sent:.1f} ms\n"
          f"{'':9} {'round':>7} {'alone ms':>9} {'step ms':>9} {'exposed':>9} {'hidden':>7}", flush=True)

    def row(name, which, alone, step):
        print(f"{name:9} {which:>7} {alone:9.2f} {step:9.2f} {step - alone:9.2f} {100 * (1 - (step - alone) / sent):6.0f}%", flush=True)
    times = {}
    for number in range(rounds):
        for name, way in ways:
            alone = way(1, 1, BATCH // 2)
            with tempfile.TemporaryDirectory() as folder:
                link = wire.Wire(megabits, milliseconds, folder)
                try:
                    step = way(2, 1, BATCH, link)
                finally:
                    link.remove()
            times.setdefault(name, []).append((alone, step))
            row(name, str(number + 1), alone, step)
    for which, choose in (("median", statistics.median), ("best", min)):
        for name, pairs in times.items():
            row(name, which, choose(pair[0] for pair in pairs), choose(pair[1] for pair in pairs))


def option(arguments, name, fallback):
    """Takes it out of the arguments."""
    if name not in arguments:
        return fallback
    at = arguments.index(name)
    value = arguments[at + 1]
    del arguments[at:at + 2]
    return value


def main():
    arguments = sys.argv[2:]
    if "--priority" in arguments:
        arguments.remove("--priority")
        os.nice(-15)
        print("at nice -15")
    rounds, link = int(option(arguments, "--rounds", "5")), option(arguments, "--wire", "")
    networks = arguments or list(MODELS)
    if link:
        for network in networks:
            with tempfile.TemporaryDirectory() as folder:
                bench = Bench(sys.argv[1], network, folder)
                ways = [("tapedeck", bench.tapedeck)] + ([("pytorch", bench.pytorch)] if os.environ.get("TD_PEERS") else [])
                over_a_wire(bench, ways, rounds, *map(float, link.split(":")))
        return
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
                        print(f"{network:8} {name:9} {count[0]:9} {count[1]:7} {times[name, *count][-1]:9.2f}", flush=True)
            print("median")
            for (name, processes, threads), values in times.items():
                alone, now = statistics.median(times[name, 1, 1]), statistics.median(values)
                efficiency = alone / now / (processes * threads)
                print(f"{network:8} {name:9} {processes:9} {threads:7} {now:9.2f} {min(values):9.2f} {100 * efficiency:9.0f}%", flush=True)


if __name__ == "__main__":
    main()
