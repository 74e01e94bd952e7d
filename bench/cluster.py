#!/usr/bin/env python3
"""One process, two threads, two processes: milliseconds per step of the same global batch, beside PyTorch's DDP with gloo, in turns. The
efficiency of two is half of what one process with one thread takes over what they take.

    bench/cluster.py BUILD [NETWORK …] [--rounds N] [--hosts]     networks: dense, cnn

--hosts: two network namespaces are the machines of the two processes, joined by a link of 1 Gbit/s with 1 ms of delay (tc netem; root
only). TD_PEERS: a Python with PyTorch; without it Tapedeck alone is timed."""
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
HOSTS = ("10.77.0.1", "10.77.0.2")


def sh(line):
    subprocess.run(line, shell=True, check=True)


def make_hosts(folder):
    """Returns the agent that starts a command on a host."""
    for i, address in enumerate(HOSTS):
        sh(f"ip netns add td{i} && ip -n td{i} link set lo up")
    sh("ip link add td0 netns td0 type veth peer name td1 netns td1")
    for i, address in enumerate(HOSTS):
        sh(f"ip -n td{i} addr add {address}/24 dev td{i} && ip -n td{i} link set td{i} up && "
           f"ip netns exec td{i} tc qdisc add dev td{i} root netem delay 1ms rate 1gbit limit 10000")
    agent = os.path.join(folder, "agent")
    with open(agent, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\nhost=$1; shift; exec ip netns exec "td$((${host##*.} - 1))" sh -c "$*"\n')
    os.chmod(agent, 0o755)
    return agent


def remove_hosts():
    for i in range(2):
        subprocess.run(["ip", "netns", "del", f"td{i}"], check=False, stderr=subprocess.DEVNULL)


class Bench:
    def __init__(self, build, network, folder, agent):
        self.program, self.network, self.folder, self.agent = os.path.join(os.path.abspath(build), "tapedeck"), network, folder, agent
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
            where = ["--oversubscribe", "--bind-to", "none"]
            if self.agent:
                where += ["--host", ",".join(HOSTS), "--mca", "plm_rsh_agent", self.agent, "--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
                          "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24"]
                words = ["ip", "netns", "exec", "td0", "mpirun.openmpi", *where, "-n", str(processes), *words]
            else:
                words = ["mpirun.openmpi", *where, "-n", str(processes), *words]
        lines = [json.loads(line) for line in self.run(words, {}).splitlines() if line.startswith("{")]
        epochs = [line for line in lines if line["event"] == "epoch"]
        return 1000 * (epochs[-1]["seconds"] - epochs[0]["seconds"]) / (epochs[-1]["step"] - epochs[0]["step"])

    def pytorch(self, processes, threads):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", "ddp.py")
        words = [script, self.network, str(BATCH), str(3 * STEPS[self.network]), str(threads)]
        python = os.environ["TD_PEERS"]
        if processes == 1:
            return float(self.run([python, *words], {"OMP_NUM_THREADS": str(threads)}))
        if not self.agent:
            launch = [python, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-port", "29611"]
            return float(self.run([*launch, *words], {"OMP_NUM_THREADS": str(threads)}).split()[-1])
        places = []
        for i in range(2):
            own = {"RANK": str(i), "WORLD_SIZE": "2", "MASTER_ADDR": HOSTS[0], "MASTER_PORT": "29611", "GLOO_SOCKET_IFNAME": f"td{i}",
                   "OMP_NUM_THREADS": str(threads)}
            places.append(subprocess.Popen(["ip", "netns", "exec", f"td{i}", python, *words], env={**os.environ, **own}, text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        return float([place.communicate()[0] for place in places][0].split()[-1])


def main():
    arguments, rounds, hosts = sys.argv[2:], 5, "--hosts" in sys.argv
    if "--rounds" in arguments:
        at = arguments.index("--rounds")
        rounds = int(arguments[at + 1])
        del arguments[at:at + 2]
    networks = [word for word in arguments if word != "--hosts"] or list(MODELS)
    print(f"{'network':8} {'':9} {'processes':>9} {'threads':>7} {'ms/step':>9} {'best':>9} {'efficiency':>10}")
    for network in networks:
        with tempfile.TemporaryDirectory() as folder:
            try:
                bench = Bench(sys.argv[1], network, folder, make_hosts(folder) if hosts else None)
                ways = [("tapedeck", bench.tapedeck)] + ([("pytorch", bench.pytorch)] if os.environ.get("TD_PEERS") else [])
                counts = [(1, 1), (2, 1)] if hosts else [(1, 1), (1, 2), (2, 1)]
                times = {}
                for _ in range(rounds):
                    for name, way in ways:
                        for count in counts:
                            times.setdefault((name, *count), []).append(way(*count))
                for (name, processes, threads), values in times.items():
                    alone, now = statistics.median(times[name, 1, 1]), statistics.median(values)
                    efficiency = alone / now / (processes * threads)
                    print(f"{network:8} {name:9} {processes:9} {threads:7} {now:9.2f} {min(values):9.2f} {100 * efficiency:9.0f}%", flush=True)
            finally:
                if hosts:
                    remove_hosts()


if __name__ == "__main__":
    main()
