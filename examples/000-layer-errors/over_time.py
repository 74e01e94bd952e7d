"""Prints how much of the loss reaches each time step: python3 over_time.py RUN…

first.error.npy is [records, batch, time, units]: dLoss/dOutput of the layer `first`.
"""
import sys

import numpy

for run in sys.argv[1:]:
    error = numpy.load(f"{run}/first.error.npy", mmap_mode="r")
    steps = numpy.load(f"{run}/first.error.steps.npy")
    norms = numpy.sqrt(numpy.sum(numpy.square(error, dtype="float64"), axis=(1, 3)))
    print(f"{run}: norm of the error at time 1, 10, 20, 30, 40 and 50")
    for step, norm in zip(steps, norms):
        print(f"  step {step:5}  " + "  ".join(f"{norm[i]:.1e}" for i in (0, 9, 19, 29, 39, 49)))
