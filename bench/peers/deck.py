"""PyTorch's training step with hooks that record as people write them in Python.

    deck.py NETWORK THREADS MODE

Every layer's output and its gradient and every parameter's gradient, every step. MODE: bare (no hooks),
bins (numpy.histogram with 30 bins), tensorboard (its SummaryWriter's bins), npy (numpy.save, a
file for each tensor and step), rows (Python's csv module). A worker, as engine.py.
"""
import csv
import os
import sys
import tempfile

import numpy
import torch

import engine
from lines import answer


def tensorboard_bins():
    """The edges that torch.utils.tensorboard makes: 774 of each sign, growing by a tenth."""
    edges, value = [], 1e-12
    while value < 1e20:
        edges.append(value)
        value *= 1.1
    return numpy.array([-edge for edge in reversed(edges)] + [0] + edges)


def recorder(mode, folder):
    bins = tensorboard_bins()

    def rows(name, step, values):
        with open(os.path.join(folder, name + ".csv"), "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            for row in values.reshape(len(values) if values.ndim else 1, -1):
                writer.writerow([1, step] + row.tolist())

    return {
        "bins": lambda name, step, values: numpy.histogram(values, 30),
        "tensorboard": lambda name, step, values: numpy.histogram(values, bins),
        "npy": lambda name, step, values: numpy.save(os.path.join(folder, f"{name}-{step % 20}.npy"),
                                                     values),
        "rows": rows,
    }[mode]


def watcher(mode, folder):
    record = recorder(mode, folder)

    def watch(model):
        steps, outputs = [0], {}

        def keep(name):
            def hook(module, inputs, output):
                if output.requires_grad:
                    output.retain_grad()
                outputs[name] = output
            return hook

        for name, module in model.named_modules():
            if not list(module.children()):
                if hasattr(module, "inplace"):
                    module.inplace = False  # an output that is overwritten cannot be recorded
                module.register_forward_hook(keep(name))

        def after():
            steps[0] += 1
            for name, output in outputs.items():
                record(name + ".output", steps[0], output.detach().numpy())
                if output.grad is not None:
                    record(name + ".error", steps[0], output.grad.numpy())
            for name, parameter in model.named_parameters():
                record(name + ".gradient", steps[0], parameter.grad.numpy())
        return after
    return watch


def main():
    network, threads, mode = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.set_flush_denormal(True)
    with tempfile.TemporaryDirectory() as folder:
        answer(engine.make_step(network, "nchw",
                                None if mode == "bare" else watcher(mode, folder)))


main()
