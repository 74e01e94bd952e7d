"""Training steps of Tapedeck and of PyTorch, in turns: ./dev bench engine [--networks M1,M3] …

PyTorch runs in its best set-up: for each network and thread count the OpenBLAS builds that are
installed and bound or unbound threads are tried, and the fastest is kept and named. Networks with
images run both as PyTorch lays them out by default (nchw) and channels-last (nhwc), a row each.
Tapedeck runs as any program runs it.

A network's goal is the most that (Tapedeck's median / PyTorch's median) may be; it is judged on the
faster of PyTorch's rows. The share of peak
counts the multiply-adds of matrix products and convolutions only, against what bench/peak.c reaches.
"""
import argparse
import glob
import os
import subprocess
import sys

from tools.rounds import Worker, interleave

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, os.pardir, "build", "bench")
PEER = [sys.executable, os.path.join(HERE, "peers", "engine.py")]

GOALS = {"M1": (1 / 50, 1 / 50), "M2": (1 / 50, 1 / 50), "M3": (0.45, 0.45), "M4": (0.75, 0.65),
         "M5a": (0.7, 0.7), "M5b": (0.85, 0.85)}
IMAGES = {"M3", "M5b"}


def megaflops(batch, first, rest):
    """Of one step: a product runs forward, for its weights' gradient and for its input's gradient,
    which the first layer need not compute. first and rest are multiply-adds per example."""
    return 2 * batch * (2 * first + 3 * rest) / 1e6


def conv(size, inputs, outputs):
    return size * size * 9 * inputs * outputs


def transformer_block(length, width, hidden):
    return length * (4 * width * width + 2 * length * width + 2 * width * hidden)


MEGAFLOPS = {
    "M1": megaflops(32, 5 * 10, 10 * 5),
    "M2": megaflops(10, 10 * 64, 64),
    "M3": megaflops(64, conv(26, 1, 32), conv(11, 32, 64) + 1600 * 128 + 128 * 10),
    "M4": megaflops(128, 784 * 512, 512 * 512 + 512 * 10),
    "M5a": megaflops(32, 0, 2 * transformer_block(64, 128, 512)),
    "M5b": megaflops(32, conv(32, 3, 32),
                     4 * conv(32, 32, 32) + conv(16, 32, 64) + 4 * conv(16, 64, 64) + 64 * 10),
}


def peer_environments(threads):
    """The ways to start PyTorch: which OpenBLAS, and whether its threads are bound to cores."""
    paths = {os.path.basename(path).replace("openblas-", "OpenBLAS "): path
             for path in sorted(glob.glob("/usr/lib/*/openblas-*"))} or {"default BLAS": ""}
    for name, path in paths.items():
        environment = {"LD_LIBRARY_PATH": path, "OMP_NUM_THREADS": str(threads),
                       "OPENBLAS_NUM_THREADS": str(threads)}
        yield name, environment
        if threads > 1:
            yield name + ", bound", {**environment, "OMP_PROC_BIND": "true"}


def start_best_peer(network, threads, layout):
    """PyTorch's fastest worker for that layout; its set-up is in its `description`."""
    peers = []
    for description, environment in peer_environments(threads):
        peers.append(Worker(PEER + [network, str(threads), layout], environment))
        peers[-1].description = f"{layout}, {description}" if network in IMAGES else description
    if len(peers) > 1:
        times = interleave(peers, rounds=3, milliseconds=100)
        peers = [peer for _, peer in sorted(zip(times, peers), key=lambda pair: pair[0].best)]
        for peer in peers[1:]:
            peer.close()
    return peers[0]


def peak_gigaflops(threads, so_far=0.0):
    """The most seen so far: a busy machine can hide its peak, never exceed it."""
    return max(so_far, float(subprocess.run([os.path.join(BUILD, "peak"), str(threads)], check=True,
                                            text=True, stdout=subprocess.PIPE).stdout))


def compare(network, threads, options, peaks):
    """Prints a row for each layout of PyTorch's; true when the goal is met."""
    ours = Worker([options.tapedeck, network, str(threads)])
    peers = [start_best_peer(network, threads, layout)
             for layout in (["nchw", "nhwc"] if network in IMAGES else ["nchw"])]
    times = interleave([ours] + peers, options.rounds, options.milliseconds)
    peaks[threads] = peak_gigaflops(threads, peaks[threads])
    share = MEGAFLOPS[network] / times[0].median / peaks[threads]
    goal = GOALS[network][min(threads, 2) - 1]
    judged = min(times[1:], key=lambda time: time.median)
    met = times[0].median <= goal * judged.median
    for peer, time in zip(peers, times[1:]):
        verdict = ("met" if met else "missed") if time is judged else ""
        print(f"{network:<4} {threads:>3}  {times[0].median:>9.4f} {times[0].best:>9.4f}  "
              f"{time.median:>9.4f} {time.best:>9.4f}  {times[0].median / time.median:>7.4f} {goal:>6.3f} "
              f"{verdict:<6} {share:>6.1%}  {ours.memory() / 1024:>6.0f} {peer.memory() / 1024:>7.0f}  "
              f"{peer.description}", flush=True)
    for worker in [ours] + peers:
        worker.close()
    return met


def main():
    parser = argparse.ArgumentParser(prog="./dev bench engine")
    parser.add_argument("--networks", default=",".join(GOALS), help="for example M1,M3")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--milliseconds", type=float, default=400, help="of one round")
    parser.add_argument("--tapedeck", default=os.path.join(BUILD, "engine"), help="the worker program")
    options = parser.parse_args()

    threads = [int(word) for word in options.threads.split(",")]
    peaks = {count: peak_gigaflops(count) for count in threads}
    print("float32 multiply-add peak: " +
          ", ".join(f"{peak:.0f} GFLOP/s with {count} thread{'s' if count > 1 else ''}" for count, peak in peaks.items()))
    print(f"{options.rounds} rounds of {options.milliseconds:.0f} ms each, in turns; ms per step, MiB at the peak")
    print("net  thr   Tapedeck      best    PyTorch      best    ratio   goal          peak  memory PyTorch  "
          "PyTorch's set-up")
    results = [compare(network, count, options, peaks)
               for network in options.networks.split(",") for count in threads]
    print(f"{sum(results)} of {len(results)} goals met")


if __name__ == "__main__":
    main()
