"""Results as tables: metrics of every epoch, predictions with their labels, weights; and weights back into a model."""

import os
import sys

import keras
import numpy as np

import tapedeck

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/results"
keras.utils.set_random_seed(0)
x = np.random.normal(size=(200, 10)).astype("float32")
y = (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0)


def network():
    model = keras.Sequential([
        keras.layers.Input((10,)), keras.layers.Dense(10, activation="relu", name="hidden"),
        keras.layers.Dense(3, activation="softmax", name="classes"),
    ])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
    return model


model = network()
recorder = tapedeck.Recorder(folder, track=[])  # metrics alone
model.fit(x, y, epochs=5, verbose=0, validation_split=0.2, callbacks=[recorder])
with open(os.path.join(recorder.folder, "metrics.csv")) as file:
    print(file.read(), end="")

with tapedeck.Deck(folder + "-predictions") as deck:
    deck.track("prediction", form="rows", to="csv")
    deck.batch(np.arange(20), labels=y[:20])
    deck.record("prediction", model.predict(x[:20], verbose=0))
    deck.step()

table = os.path.join(recorder.folder, "weights.csv")
tapedeck.weights(model).to_csv(table)
other = network()
tapedeck.weights(other).load_csv(table)
print("the same weights:", all(np.array_equal(a, b) for a, b in zip(model.get_weights(), other.get_weights())))
