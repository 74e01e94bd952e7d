"""Prediction by Tapedeck and by PyTorch, in turns: ./dev bench predict [--networks M3] …

The forward pass without gradients, with the registry's PyTorch in the faster of its layouts (--debian: Debian's,
with the OpenBLAS builds that are installed, threads bound or not); all of td_predict, from a saved model and an
.npy file to a CSV file, beside PyTorch's forward passes alone; and predictions with labels to CSV beside
the loop over rows with Python's csv module. Ratios above 1 are Tapedeck's advantage.
"""
import argparse
import os

from engine import BUILD, HERE, IMAGES, PYTHON, peer_environments
from tools.rounds import Worker, interleave

OURS = os.path.join(BUILD, "predict")
PEER = [PYTHON, os.path.join(HERE, "peers", "predict.py")]


def best_peer(mode, network, threads, count):
    peers = []
    for layout in ["nchw", "nhwc"] if network in IMAGES else ["nchw"]:
        for description, environment in peer_environments(threads):
            peers.append(Worker(PEER + [mode, network, str(threads), str(count), layout], environment))
            peers[-1].description = f"{layout}, {description}"
    times = interleave(peers, rounds=3, milliseconds=100)
    ranked = sorted(zip(times, peers), key=lambda pair: pair[0].median)
    for _, peer in ranked[1:]:
        peer.close()
    return ranked[0][1]


def show(what, ours, theirs, goal, note):
    ratio = theirs.median / ours.median
    verdict = "met" if ratio >= goal else "missed"
    print(f"{what:<28} {ours.median:>9.3f} {ours.best:>9.3f}  {theirs.median:>9.3f} {theirs.best:>9.3f}  "
          f"{ratio:>6.2f} {goal:>5} {verdict:<6} {note}", flush=True)
    return ratio >= goal


def compare(ours, theirs, options, what, goal, note):
    times = interleave([ours, theirs], options.rounds, options.milliseconds)
    for worker in (ours, theirs):
        worker.close()
    return show(what, *times, goal, note)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench predict")
    parser.add_argument("--networks", default="M3", help="for example M3,M4")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batches", default="64,256")
    parser.add_argument("--examples", type=int, default=2048, help="of a whole prediction")
    parser.add_argument("--rows", type=int, default=20000, help="of the CSV file")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--milliseconds", type=float, default=400, help="of one round")
    options = parser.parse_args()
    print(f"{options.rounds} rounds of {options.milliseconds:.0f} ms each, in turns; ms")
    print(f"{'':<28} {'Tapedeck':>9} {'best':>9}  {'peer':>9} {'best':>9}  {'ratio':>6} {'goal':>5}")
    met = []
    for network in options.networks.split(","):
        for threads in map(int, options.threads.split(",")):
            cases = [("forward", int(batch), f"batch {batch}") for batch in options.batches.split(",")]
            for mode, count, what in cases + [("whole", options.examples, f"{options.examples} to CSV")]:
                peer = best_peer(mode, network, threads, count)
                ours = Worker([OURS, mode, network, str(threads), str(count)])
                met.append(compare(ours, peer, options, f"{network} {what}, threads {threads}", 1,
                                   f"PyTorch, {peer.description}"))
    ours, loop = Worker([OURS, "csv", str(options.rows), "10"]), Worker(PEER + ["csv", str(options.rows), "10"])
    met.append(compare(ours, loop, options, f"CSV, {options.rows} rows of 10", 10, "Python's csv, a row at a time"))
    print(f"{sum(met)} of {len(met)} goals met")


main()
