"""Layer errors to CSV, every batch, short ones included: the gradient of the loss with respect to a layer's output.

What people write by hand with tf.GradientTape and csv, in a loop of its own, is a callback of fit.
"""

import csv
import os
import sys

import keras
import numpy as np

import tapedeck

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/layer_errors"
keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.layers.Input((5,)), keras.layers.Dense(10, activation="relu", name="layer1"),
    keras.layers.Dense(5, activation="relu", name="layer2"),
])
model.compile("sgd", "mse", jit_compile=False)
x, y = np.random.normal(size=(100, 5)).astype("float32"), np.random.normal(size=(100, 5)).astype("float32")

# 1. the error at a named layer, for one batch
found = tapedeck.grad(model, None, x[:32], y[:32], layer="layer1")
print("layer1 error shape:", found["layer1.error"].shape)

# 2. a layer's own loss against a target for it
print("layer MSE:", tapedeck.layer_loss([[1.0, 2.0], [3.0, 4.0]], [[1.5, 2.5], [2.5, 4.5]]))

# 3. train, and write the errors of every batch: epoch,step,sample,error_0,…
recorder = tapedeck.Recorder(folder, track=[dict(what="*.error", every=1, form="rows", to="csv")])
model.fit(x, y, batch_size=32, epochs=3, shuffle=False, verbose=0, callbacks=[recorder])
with open(os.path.join(recorder.folder, "layer1.error.csv")) as file:
    rows = list(csv.reader(file))
print(",".join(rows[0]), f"and {len(rows) - 1} rows")
