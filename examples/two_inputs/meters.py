"""Writes meters.npz: 600 curves of 32 readings, 4 facts about each meter, and the energy it counted. Needs NumPy."""
import numpy

random = numpy.random.default_rng(9)
facts = random.uniform(-1, 1, (600, 4)).astype("float32")
time = numpy.arange(32) / 32
phase, height = random.uniform(0, 1, (600, 1)), random.uniform(0.5, 2, (600, 1))
curves = height * numpy.sin(2 * numpy.pi * (time + phase)) ** 2 + random.normal(0, 0.1, (600, 32))
energy = curves.mean(1) * (1 + 0.8 * facts[:, 0]) + 0.5 * facts[:, 1] * facts[:, 2]
numpy.savez("meters.npz", curve=curves.astype("float32")[..., None], facts=facts, energy=energy.astype("float32"))
