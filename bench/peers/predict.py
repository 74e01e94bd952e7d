"""PyTorch's and Python's side of the prediction benchmark; see predict.py.

    predict.py forward NETWORK THREADS BATCH LAYOUT     inference without gradients
    predict.py whole NETWORK THREADS EXAMPLES LAYOUT    the same over an array in memory, in batches of 256;
                                                        nothing is read or written
    predict.py csv ROWS CLASSES                         the loop over rows that people write
"""
import csv
import os
import sys
import tempfile

import numpy

from engine import NETWORKS, make_inputs
from lines import answer


def forward_step(network, threads, count, layout, batch=None):
    import torch  # the CSV worker has no need of it
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    torch.set_grad_enabled(False)
    torch.manual_seed(1)
    model = NETWORKS[network]().eval()
    inputs = make_inputs(network, count)
    if layout == "nhwc":
        model = model.to(memory_format=torch.channels_last)
        inputs = inputs.to(memory_format=torch.channels_last)
    if not batch:
        return lambda: model(inputs)
    return lambda: [model(inputs[first:first + batch]) for first in range(0, count, batch)]


def csv_step(rows, classes):
    predictions = numpy.random.default_rng(1).random((rows, classes), dtype=numpy.float32)
    predictions /= predictions.sum(1, keepdims=True)
    labels = (numpy.arange(rows)[:, None] * 7 % classes).astype(numpy.int32)
    path = os.path.join(tempfile.gettempdir(), f"td_predict_{os.getpid()}.csv")

    def step():
        with open(path, "w", newline="") as csvfile:
            writer = csv.writer(csvfile)
            writer.writerow(["label"] + [f"class_{i}" for i in range(predictions.shape[1])])
            for i in range(predictions.shape[0]):
                writer.writerow([labels[i][0]] + list(predictions[i]))
        os.remove(path)

    return step


def main():
    if sys.argv[1] in ("forward", "whole"):
        network, threads, count, layout = sys.argv[2:]
        answer(forward_step(network, int(threads), int(count), layout,
                            256 if sys.argv[1] == "whole" else None))
    else:
        answer(csv_step(int(sys.argv[2]), int(sys.argv[3])))


main()
