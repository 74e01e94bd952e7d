"""Writes adding.npz, examples of the adding problem, and running_sum.npy, the target of a layer.

After each time step a network that solves the problem has to know the sum of the marked numbers so far.
"""
import numpy

EXAMPLES, LENGTH = 1000, 20
generator = numpy.random.default_rng(5)
numbers = generator.random((EXAMPLES, LENGTH), dtype="float32")
markers = numpy.zeros_like(numbers)
rows = numpy.arange(EXAMPLES)
markers[rows, generator.integers(0, LENGTH // 2, EXAMPLES)] = 1
markers[rows, generator.integers(LENGTH // 2, LENGTH, EXAMPLES)] = 1
so_far = numpy.cumsum(numbers * markers, axis=1, dtype="float32")
numpy.savez("adding.npz", x=numpy.stack([numbers, markers], axis=2), y=so_far[:, -1:])
numpy.save("running_sum.npy", so_far[:, :, None])
