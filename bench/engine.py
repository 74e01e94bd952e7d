"""Training steps of Tapedeck and of its peers, in turns: ./dev bench engine [--networks M1,M3] …

The peers are PyTorch and TensorFlow as tests/interop/requirements.txt has them, in every set-up that people
use: eager, with the fused Adam, compiled (where there is a C++ compiler), tf.function and XLA; networks with
images in both of PyTorch's layouts. For each network and thread count all of them run once; the fastest runs
in turns with Tapedeck, is named in the row, and is what Tapedeck is judged against. A set-up that cannot run
a network is left out, and said. `./dev bench engine --debian` takes Debian's PyTorch instead, which needs
nothing from the registry, with each OpenBLAS build, its threads bound and unbound. Tapedeck runs as any
program runs it.

A network's goal is the most that (Tapedeck's median / the peer's median) may be. The share of peak counts the
multiply-adds of matrix products and convolutions only, against what bench/peak.c reaches. --cpu compares
processor time instead, of one thread, where others use the machine; best times are judged then.
"""
import argparse
import glob
import os
import shutil
import subprocess
import sys
import time

from tools.rounds import Worker, interleave

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, os.pardir, "build", "bench")
PYTHON = os.environ.get("TD_PEERS", sys.executable)  # of the peers; ./dev sets it
DEBIAN = "TD_PEERS" not in os.environ

GOALS = {"M1": (0.015, 0.015), "M2": (0.02, 0.02), "M3": (0.60, 0.45), "M4": (0.65, 0.60), "M5a": (0.75, 0.75),
         "M5b": (0.70, 0.70), "mobile": (0.8, 0.8), "grouped": (0.8, 0.8), "adding": (0.8, 0.8), "text": (0.8, 0.8),
         "resnet18": (0.8, 0.8)}
IMAGES = {"M3", "M5b", "mobile", "grouped", "resnet18"}


def megaflops(batch, first, rest):
    """Of one step: a product runs forward, for its weights' gradient and for its input's gradient,
    which the first layer need not compute. first and rest are multiply-adds per example."""
    return 2 * batch * (2 * first + 3 * rest) / 1e6


def conv(size, inputs, outputs, kernel=9, groups=1):
    return size * size * kernel * inputs // groups * outputs


def transformer_block(length, width, hidden):
    return length * (4 * width * width + 2 * length * width + 2 * width * hidden)


def separable(size, inputs, outputs):
    return conv(size, inputs, inputs, groups=inputs) + conv(size, inputs, outputs, kernel=1)


def stage(size, inputs, outputs):
    return conv(size, inputs, outputs) + 3 * conv(size, outputs, outputs) + conv(size, inputs, outputs, kernel=1)


MEGAFLOPS = {
    "M1": megaflops(32, 5 * 10, 10 * 5),
    "M2": megaflops(10, 10 * 64, 64),
    "M3": megaflops(64, conv(26, 1, 32), conv(11, 32, 64) + 1600 * 128 + 128 * 10),
    "M4": megaflops(128, 784 * 512, 512 * 512 + 512 * 10),
    "M5a": megaflops(32, 0, 2 * transformer_block(64, 128, 512)),
    "M5b": megaflops(32, conv(32, 3, 32),
                     4 * conv(32, 32, 32) + conv(16, 32, 64) + 4 * conv(16, 64, 64) + 64 * 10),
    "mobile": megaflops(32, conv(32, 3, 32),
                        separable(32, 32, 64) + separable(16, 64, 128) + separable(16, 128, 128) +
                        separable(8, 128, 256) + separable(8, 256, 256) + 256 * 10),
    "grouped": megaflops(32, conv(32, 3, 64),
                         2 * (2 * conv(32, 64, 128, kernel=1) + conv(32, 128, 128, groups=32)) + 64 * 10),
    "adding": megaflops(64, 0, 50 * 4 * 64 * (2 + 64) + 64),
    "text": megaflops(32, 0, 100 * 3 * 64 * (64 + 64) + 128),
    "resnet18": megaflops(16, conv(32, 3, 64),
                          4 * conv(32, 64, 64) + stage(16, 64, 128) + stage(8, 128, 256) + stage(4, 256, 512) + 5120),
}


def debian_environments(threads):
    """The ways to start Debian's PyTorch: which OpenBLAS, and whether its threads are bound to cores."""
    paths = {os.path.basename(path).replace("openblas-", "OpenBLAS "): path
             for path in sorted(glob.glob("/usr/lib/*/openblas-*"))} or {"default BLAS": ""}
    for name, path in paths.items():
        environment = {"LD_LIBRARY_PATH": path, "OMP_NUM_THREADS": str(threads),
                       "OPENBLAS_NUM_THREADS": str(threads)}
        yield name, environment
        if threads > 1:
            yield name + ", bound", {**environment, "OMP_PROC_BIND": "true"}


def peer_environments(threads):
    return debian_environments(threads) if DEBIAN else [("", {"OMP_NUM_THREADS": str(threads)})]


def set_ups(network, threads):
    """(description, command, environment) of every peer."""
    torch = ["eager"] if DEBIAN else ["eager", "fused"] + (["compile"] if shutil.which("g++") else [])
    for layout in ["nchw", "nhwc"] if network in IMAGES else ["nchw"]:
        for setup in torch:
            for name, environment in peer_environments(threads):
                words = ["PyTorch", setup, layout if network in IMAGES else "", name]
                yield (" ".join(word for word in words if word),
                       [PYTHON, os.path.join(HERE, "peers", "engine.py"), network, str(threads), layout, setup], environment)
    for setup in [] if DEBIAN else ["function", "xla"]:
        yield (f"TensorFlow {setup}", [PYTHON, os.path.join(HERE, "peers", "engine_tf.py"), network, str(threads), setup],
               {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "-1"})


def start_best_peer(network, threads, options):
    """The fastest worker; its set-up is in its `description`."""
    best, least = None, None
    for description, command, environment in set_ups(network, threads):
        if not any(word in description for word in options.setups.split(",")):
            continue
        try:
            peer = Worker(command, {**environment, **clock(options)}, quiet=True)
            took = interleave([peer], rounds=3, milliseconds=100)[0].best
        except RuntimeError:
            print(f"{network}: {description} cannot run it", flush=True)
            continue
        peer.description = description
        if best is None or took < least:
            best, peer, least = peer, best, took
        if peer:
            peer.close()
    if not best:
        sys.exit(f"no peer can run {network}")
    return best


def clock(options):
    return {"TD_BENCH_CLOCK": "cpu"} if options.cpu else {}


def peak_gigaflops(threads, so_far=0.0):
    """The most seen so far: a busy machine can hide its peak, never exceed it."""
    return max(so_far, float(subprocess.run([os.path.join(BUILD, "peak"), str(threads)], check=True,
                                            text=True, stdout=subprocess.PIPE).stdout))


def compare(network, threads, options, peaks):
    """Prints a row; true when the goal is met."""
    ours, peer = Worker([options.tapedeck, network, str(threads)], clock(options)), start_best_peer(network, threads, options)
    times = interleave([ours, peer], options.rounds, options.milliseconds)
    peaks[threads] = peak_gigaflops(threads, peaks[threads])
    share = MEGAFLOPS[network] / times[0].best / peaks[threads]
    goal = GOALS[network][min(threads, 2) - 1]
    judged = [t.best if options.cpu else t.median for t in times]
    met = judged[0] <= goal * judged[1]
    print(f"{network:<8} {threads:>3}  {times[0].median:>9.4f} {times[0].best:>9.4f}  "
          f"{times[1].median:>9.4f} {times[1].best:>9.4f}  {judged[0] / judged[1]:>7.4f} {goal:>6.3f} "
          f"{'met' if met else 'missed':<6} {share:>6.1%}  {ours.memory() / 1024:>6.0f} {peer.memory() / 1024:>7.0f}  "
          f"{peer.description}", flush=True)
    for worker in (ours, peer):
        worker.close()
    return met


def seconds_of(command, text=""):
    """Best of a few runs, start to finish."""
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - begin)
    return min(took)


def show_start():
    program = os.path.join(BUILD, os.pardir, "tapedeck")
    for what, command, text in [
            ("tapedeck --version", [program, "--version"], ""),
            ("M1, 10 000 steps, start to finish", [os.path.join(BUILD, "engine"), "M1", "1"], "run 10000\n"),
            ('python -c "import torch"', [PYTHON, "-c", "import torch"], "")]:
        print(f"{what:<36} {seconds_of(command, text) * 1e3:>9.1f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench engine")
    parser.add_argument("--networks", default=",".join(GOALS), help="for example M1,M3")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--milliseconds", type=float, default=400, help="of one round")
    parser.add_argument("--setups", default="PyTorch,TensorFlow", help="words of those to try, for example fused,xla")
    parser.add_argument("--cpu", action="store_true", help="processor time, one thread")
    parser.add_argument("--tapedeck", default=os.path.join(BUILD, "engine"), help="the worker program")
    options = parser.parse_args()

    threads = [1] if options.cpu else [int(word) for word in options.threads.split(",")]
    peaks = {count: peak_gigaflops(count) for count in threads}
    print("float32 multiply-add peak: " +
          ", ".join(f"{peak:.0f} GFLOP/s with {count} thread{'s' if count > 1 else ''}" for count, peak in peaks.items()))
    print(f"{options.rounds} rounds of {options.milliseconds:.0f} ms each, in turns; ms per step, MiB at the peak")
    print("network  thr   Tapedeck      best       peer      best    ratio   goal          peak  memory    peer  "
          "the peer's set-up")
    results = [compare(network, count, options, peaks)
               for network in options.networks.split(",") for count in threads]
    show_start()
    print(f"{sum(results)} of {len(results)} goals met")


if __name__ == "__main__":
    main()
