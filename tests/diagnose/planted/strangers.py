"""Trainings as other people write them: networks that are no plain stack, data of other kinds, settings that look odd and are right.

A recipe fills a world (worlds.py). `world.top` is the score that the task allows: noise in the data keeps the best network below 1.
`world.kind` says which faults can be planted: that of the world of worlds.py that it is most like, or a name of its own."""
import csv
import math
import os

import numpy

from . import worlds

RECIPES = {}


def recipe(function):
    RECIPES[function.__name__] = function
    return function


class Stranger(worlds.World):
    """A world with a highest score, several outputs, or a table of text."""

    def __init__(self, rng, name):
        super().__init__(rng, name, "classes")
        self.recipe, self.top = name, 1.0
        self.header = None   # of a CSV file instead of arrays: names of its columns, the label last
        self.numbers = numpy.random.default_rng(rng.randrange(1 << 30))

    def give(self, x, y, shape, held=0.25):
        """Arrays of examples and labels; the first part of them is for validation."""
        x, y = numpy.asarray(x), numpy.asarray(y)
        order = self.numbers.permutation(len(x))
        x, y = x[order].reshape(len(x), -1), y[order].reshape(len(x), -1)
        cut = round(held * len(x))
        self.vx, self.x = x[:cut].tolist(), x[cut:].tolist()
        self.vy, self.y = y[:cut].tolist(), y[cut:].tolist()
        self.input_shape = list(shape)

    def learn(self, loss, optimizer, rate, updates=600, **train):
        self.train = {"loss": loss, "optimizer": {optimizer: {"learning_rate": rate}}, **train}
        self.train["epochs"] = max(3, round(updates / self.updates()))

    def score(self, value):
        return super().score(value) / self.top if value is not None and math.isfinite(value) else 0.0

    def write(self, folder, name):
        path, metric = super().write(folder, name)
        if self.header:
            import json
            rows = zip(self.x, self.y) if self.split == "files" else zip(self.x + self.vx, self.y + self.vy)
            self.write_table(os.path.join(folder, "table.csv"), rows)
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            data = document["data"]
            for key in ("labels", "validation_labels"):
                data.pop(key, None)
            data.update(train="table.csv", label=self.header[-1])
            if self.split == "files":
                self.write_table(os.path.join(folder, "held.csv"), zip(self.vx, self.vy))
                data["validation"] = "held.csv"
            with open(path, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1)
        return path, metric

    def write_table(self, path, rows):
        with open(path, "w", encoding="utf-8", newline="") as file:
            table = csv.writer(file)
            table.writerow(self.header)
            for x, y in rows:
                texts = getattr(self, "texts", {})
                cells = [texts[k][int(v)] if k in texts else "" if math.isnan(v) and k in self.gaps else repr(v) for k, v in enumerate(x)]
                table.writerow(cells + [repr(int(y[0]) if self.task == "classes" else y[0])])


def unit(y):
    """Mean 0, variance 1, as one does."""
    return (y - y.mean(0)) / y.std(0)


def blobs(w, rows, width, classes, noise=0.6):
    n = w.numbers
    centres = n.normal(size=(classes, width))
    y = numpy.arange(rows) % classes
    w.classes = classes
    return centres[y] + noise * n.normal(size=(rows, width)), y


def shapes(w, rows, side, classes):
    """Pictures of a bar, a column, a diagonal or a square, on noise."""
    n, x, y = w.numbers, [], numpy.arange(rows) % classes
    for c in y:
        picture, at = 0.25 * n.random((side, side)), n.integers(1, side - 3)
        if c == 0:
            picture[at:at + 2] += 0.7
        elif c == 1:
            picture[:, at:at + 2] += 0.7
        elif c == 2:
            picture[range(side), range(side)] += 0.7
        else:
            picture[at:at + 3, at:at + 3] += 0.7
        x.append(numpy.minimum(picture, 1))
    w.classes = classes
    return numpy.array(x), y


def sentences(w, rows, length, classes, share=0.5, padded=False):
    n = w.numbers
    w.vocabulary = w.rng.randint(30, 150)
    group = n.integers(0, classes, w.vocabulary)
    group[:classes] = range(classes)
    y, x = numpy.arange(rows) % classes, []
    for c in y:
        mine = numpy.flatnonzero(group == c)
        line = numpy.where(n.random(length) < share, n.choice(mine, length), n.integers(0, w.vocabulary, length))
        if padded:
            line = line + 1
            line[n.integers(length // 2, length + 1):] = 0
        x.append(line)
    w.vocabulary += padded
    w.classes = classes
    return numpy.array(x), y


def chain(w, *layers):
    for layer in layers:
        (kind, options), = layer.items()
        w.add(kind, **options)


def classes_head(w, name="out", **more):
    logits = w.rng.random() < 0.4
    w.add("dense", name=name, units=w.classes, **({} if logits else {"activation": "softmax"}), **more)
    return {"loss": "sparse_categorical_crossentropy", **({"from_logits": True} if logits else {})}


# ---- Tables ---------------------------------------------------------------------------------------
@recipe
def residual_table(w):
    w.kind, w.task = "table", "classes"
    x, y = blobs(w, w.rng.choice([400, 600]), w.rng.randint(6, 20), w.rng.randint(3, 6))
    w.give(x, y, [x.shape[1]])
    w.data = {"batch": w.rng.choice([16, 32])}
    w.add("dense", name="stem", units=32)
    below = "stem"
    for i in range(1, w.rng.randint(2, 4)):
        chain(w, {"layer_normalization": {"name": f"norm{i}", "from": below}},
              {"dense": {"name": f"up{i}", "units": 48, "activation": w.rng.choice(["gelu", "relu", "silu"])}},
              {"dense": {"name": f"down{i}", "units": 32}}, {"add": {"name": f"sum{i}", "from": [below, f"down{i}"]}})
        below = f"sum{i}"
    w.learn(**classes_head(w), optimizer=w.rng.choice(["adam", "adamw"]), rate=0.003)


@recipe
def two_inputs(w):
    n, rows = w.numbers, 500
    w.kind, w.task = "branches", "values"
    a, b = n.normal(size=(rows, 4)), n.normal(size=(rows, 3))
    y = unit(numpy.tanh(a @ n.normal(size=4)) + b @ n.normal(size=3) * 0.6 + 0.05 * n.normal(size=rows))
    w.give(numpy.hstack([a, b]), y, [7])
    w.data = {"batch": 32}
    chain(w, {"input": {"name": "facts", "shape": [4]}}, {"input": {"name": "place", "shape": [3]}},
          {"dense": {"name": "a1", "units": 24, "activation": "relu", "from": "facts"}}, {"dense": {"name": "b1", "units": 16, "activation": "relu", "from": "place"}},
          {"concatenate": {"name": "both", "from": ["a1", "b1"]}}, {"dense": {"name": "joint", "units": 24, "activation": "relu"}},
          {"dense": {"name": "out", "units": 1}})
    w.learn("mse", "adam", 0.005)


@recipe
def wide_and_deep(w):
    n, rows, width = w.numbers, 480, w.rng.randint(5, 12)
    w.kind, w.task, w.classes = "branches", "binary", 2
    x = n.normal(size=(rows, width))
    y = (x @ n.normal(size=width) + x[:, 0] * x[:, 1] > 0).astype(float)
    w.give(x, y, [width])
    w.data = {"batch": w.rng.choice([16, 64])}
    chain(w, {"dense": {"name": "deep1", "units": 32, "activation": "relu"}}, {"dense": {"name": "deep2", "units": 16, "activation": "relu"}},
          {"concatenate": {"name": "both", "from": ["input", "deep2"]}}, {"dense": {"name": "out", "units": 1, "activation": "sigmoid"}})
    w.learn("binary_crossentropy", w.rng.choice(["adam", "rmsprop", "nadam"]), 0.003, 800)


@recipe
def table_of_text(w):
    """Columns of text and gaps, standardised on reading."""
    n, rows = w.numbers, 480
    w.kind, w.task = "text_table", "values"
    w.texts = {2: ["red", "green", "blue"], 3: ["north", "south"]}
    w.gaps = {1}
    size, age = n.uniform(30, 200, rows), n.uniform(0, 60, rows)
    colour, side = n.integers(0, 3, rows), n.integers(0, 2, rows)
    y = unit(0.02 * size - 0.03 * age + numpy.array([0, 0.5, 1])[colour] * (1 + side) + 0.05 * n.normal(size=rows))
    age[n.random(rows) < 0.03] = math.nan
    w.give(numpy.stack([size, age, colour, side], 1), y, [4])
    w.header = ["size", "age", "colour", "side", "price"]
    w.data = {"batch": 32, "categories": ["colour", "side"], "missing": "mean", "standardize": True}
    chain(w, {"dense": {"name": "h1", "units": 32, "activation": "relu"}}, {"dense": {"name": "h2", "units": 16, "activation": "relu"}},
          {"dense": {"name": "out", "units": 1}})
    w.learn(w.rng.choice(["mse", "huber"]), "adam", 0.005)


@recipe
def logistic(w):
    n, width = w.numbers, w.rng.randint(2, 8)
    w.kind, w.task, w.classes = "linear", "binary", 2
    x = n.normal(size=(400, width))
    w.give(x, (x @ n.normal(size=width) > 0).astype(float), [width])
    w.data = {"batch": w.rng.choice([8, 32])}
    w.add("dense", name="out", units=1, activation="sigmoid")
    w.learn("binary_crossentropy", "sgd", 0.3)


@recipe
def plane(w):
    """Linear regression with noise that keeps R2 below 1."""
    n, width = w.numbers, w.rng.randint(1, 8)
    w.kind, w.task = "linear", "values"
    x = n.normal(size=(500, width))
    noise = w.rng.uniform(0.3, 1.0)
    signal = x @ n.normal(size=width)
    y = unit(signal / signal.std() + noise * n.normal(size=500))
    w.give(x, y, [width])
    w.top = 1 / (1 + noise ** 2)
    w.data = {"batch": 32}
    w.add("dense", name="out", units=1)
    w.learn("mse", w.rng.choice(["sgd", "adam"]), 0.02, 500)


@recipe
def noisy_regression(w):
    n, width = w.numbers, w.rng.randint(2, 6)
    w.kind, w.task, noise = "noisy", "values", w.rng.uniform(0.5, 1.1)
    x = n.normal(size=(900, width))
    signal = numpy.sin(x @ n.normal(size=width)) + 0.5 * x[:, 0]
    y = unit(signal / signal.std() + noise * n.normal(size=900))
    w.give(x, y, [width])
    w.top = 0.95 / (1 + noise ** 2)
    w.data = {"batch": 64}
    chain(w, {"dense": {"name": "h1", "units": 16, "activation": w.rng.choice(["relu", "tanh"])}}, {"dense": {"name": "out", "units": 1}})
    w.learn(w.rng.choice(["mse", "huber", "mae"]), "adam", 0.005, 300)


@recipe
def noisy_labels(w):
    """A fifth of the labels are of another class, in both parts."""
    w.kind, w.task, wrong = "noisy", "classes", w.rng.uniform(0.1, 0.25)
    x, y = blobs(w, 900, w.rng.randint(4, 10), w.rng.randint(2, 5), 0.5)
    other = w.numbers.random(len(y)) < wrong
    y = numpy.where(other, (y + 1) % w.classes, y)
    w.give(x, y, [x.shape[1]])
    w.top = 1 - wrong * w.classes / (w.classes - 1)
    w.data = {"batch": 64}
    w.add("dense", name="h1", units=16, activation="relu")
    w.learn(**classes_head(w), optimizer="adam", rate=0.003, updates=300)


@recipe
def rare_class(w):
    n = w.numbers
    w.kind, w.task, w.classes = "rare", "binary", 2
    y = (n.random(800) < w.rng.uniform(0.06, 0.12)).astype(float)
    x = n.normal(size=(800, 6)) + 2.5 * y[:, None] * n.normal(size=6)
    w.give(x, y, [6])
    w.data = {"batch": 32}
    chain(w, {"dense": {"name": "h1", "units": 16, "activation": "relu"}}, {"dense": {"name": "out", "units": 1, "activation": "sigmoid"}})
    w.learn("binary_crossentropy", "adam", 0.005)


@recipe
def counts(w):
    """exp at the end is right for counts."""
    n, width = w.numbers, w.rng.randint(2, 5)
    w.kind, w.task = "counts", "values"
    x = n.normal(size=(800, width))
    rate = numpy.exp(0.7 * x @ n.normal(size=width) / math.sqrt(width) + 1.5)
    y = n.poisson(rate).astype(float)
    w.give(x, y, [width])
    w.top = max(0.3, 1 - rate.mean() / y.var()) * 0.9
    w.data = {"batch": 32}
    chain(w, {"dense": {"name": "h1", "units": 16, "activation": "tanh"}}, {"dense": {"name": "out", "units": 1, "activation": "exponential"}})
    w.learn("poisson", "adam", 0.005)


@recipe
def positive(w):
    """softplus at the end, targets of all sizes."""
    n = w.numbers
    w.kind, w.task = "counts", "values"
    x = n.normal(size=(600, 4))
    y = numpy.log1p(numpy.exp(2 * x @ n.normal(size=4) / 2)) + 0.02 * n.random(600)
    w.give(x, y, [4])
    w.data = {"batch": 32}
    chain(w, {"dense": {"name": "h1", "units": 32, "activation": "relu"}}, {"dense": {"name": "out", "units": 1, "activation": w.rng.choice(["softplus", "relu"]),
                                                                                      "bias_initializer": {"constant": {"value": 0.5}}}})
    w.learn(w.rng.choice(["mse", "msle"]), "adam", 0.005)


@recipe
def signs(w):
    """-1 and 1, tanh, hinge or squares."""
    n = w.numbers
    w.kind, w.task = "signs", "values"
    x = n.normal(size=(500, 5))
    y = numpy.where(x @ n.normal(size=5) + x[:, 0] * x[:, 1] > 0, 1.0, -1.0)
    w.give(x, y, [5])
    w.top = 0.8
    w.data = {"batch": 16}
    chain(w, {"dense": {"name": "h1", "units": 32, "activation": "relu"}}, {"dense": {"name": "out", "units": 1, "activation": "tanh"}})
    w.learn(w.rng.choice(["hinge", "squared_hinge", "mse"]), "adam", 0.003, 800)


@recipe
def ratings(w):
    """Stars of 1 to 5 as values, not moved to 0: the bias learns them."""
    n = w.numbers
    w.kind, w.task = "ratings", "values"
    x = n.normal(size=(600, 6))
    y = numpy.clip(numpy.round(3 + 1.3 * numpy.tanh(x @ n.normal(size=6) / 1.5) + 0.2 * n.normal(size=600)), 1, 5)
    w.give(x, y, [6])
    w.data = {"batch": 32}
    chain(w, {"dense": {"name": "h1", "units": 32, "activation": "relu"}}, {"dense": {"name": "h2", "units": 16, "activation": "relu"}},
          {"dense": {"name": "out", "units": 1}})
    w.learn("mse", "adam", 0.005)


@recipe
def prices(w):
    """Targets of thousands, standardised on reading; inputs too."""
    n = w.numbers
    w.kind, w.task = "prices", "values"
    x = n.normal(size=(500, 6)) * 10 ** n.uniform(0, 3, 6)
    z = x / x.std(0)
    y = 200000 + 60000 * (numpy.tanh(z @ n.normal(size=6)) + 0.3 * z[:, 0])
    w.give(x, y, [6])
    w.data = {"batch": 32, "standardize": True, "standardize_labels": True}
    chain(w, {"dense": {"name": "h1", "units": 32, "activation": "relu"}}, {"dense": {"name": "out", "units": 1}})
    w.learn("mse", "adam", 0.005)


@recipe
def gated(w):
    """Experts and a softmax gate: this softmax is intended."""
    n = w.numbers
    w.kind, w.task = "branches", "classes"
    x, y = blobs(w, 500, 10, 4)
    w.give(x, y, [10])
    w.data = {"batch": 32}
    chain(w, {"dense": {"name": "expert", "units": 32, "activation": "relu"}},
          {"dense": {"name": "gate", "units": 32, "activation": w.rng.choice(["sigmoid", "softmax"]), "from": "input"}},
          {"multiply": {"name": "mix", "from": ["expert", "gate"]}})
    w.learn(**classes_head(w), optimizer="adam", rate=0.005, updates=800)
    del n


@recipe
def deep_and_normalised(w):
    w.kind, w.task = "deep", "classes"
    x, y = blobs(w, 500, 12, 5)
    w.give(x, y, [12])
    w.data = {"batch": 32}
    style = w.rng.choice(["batch", "selu", "he"])
    for i in range(1, w.rng.randint(8, 12)):
        if style == "batch":
            chain(w, {"dense": {"name": f"h{i}", "units": 24, "use_bias": False}}, {"batch_normalization": {"name": f"n{i}"}},
                  {"activation": {"name": f"a{i}", "function": "relu"}})
        else:
            w.add("dense", name=f"h{i}", units=32, activation="selu" if style == "selu" else "relu",
                  kernel_initializer="lecun_normal" if style == "selu" else "he_normal")
    w.learn(**classes_head(w), optimizer="adam", rate=0.002, updates=700)


@recipe
def small_batches(w):
    w.kind, w.task = "blobs", "classes"
    x, y = blobs(w, 400, 8, 3, 0.5)
    w.give(x, y, [8])
    w.data = {"batch": w.rng.choice([1, 2, 4])}
    w.add("dense", name="h1", units=16, activation="relu")
    w.learn(**classes_head(w), optimizer="sgd", rate=0.01, updates=1500)


@recipe
def large_batches(w):
    w.kind, w.task = "blobs", "classes"
    x, y = blobs(w, 640, 10, 4, 0.5)
    w.give(x, y, [10])
    w.data = {"batch": w.rng.choice([128, 256, 480])}
    w.add("dense", name="h1", units=32, activation="relu")
    w.learn(**classes_head(w), optimizer="adam", rate=0.01, updates=200)


@recipe
def schedules(w):
    w.kind, w.task = "blobs", "classes"
    x, y = blobs(w, 500, 10, 4)
    w.give(x, y, [10])
    w.data = {"batch": 32}
    w.add("dense", name="h1", units=48, activation="relu", kernel_l2=1e-4)
    w.add("dropout", name="drop", rate=0.5)
    w.learn(**classes_head(w), optimizer="sgd", rate=0.1, updates=500)
    w.train["learning_rate_schedule"] = w.rng.choice([{"cosine": {"warmup": 30}}, {"exponential": {"steps": 100, "factor": 0.5}},
                                                      {"step": {"steps": 200, "factor": 0.1}}, {"linear": {}}])
    w.train["optimizer"]["sgd"]["momentum"] = 0.9
    w.train["clip_norm"] = 1.0


# ---- Pictures -------------------------------------------------------------------------------------
@recipe
def residual_pictures(w):
    w.kind, w.task = "pictures", "classes"
    x, y = shapes(w, 320, 8, w.rng.choice([3, 4]))
    w.give(x, y, [8, 8, 1])
    w.data = {"batch": 32}
    chain(w, {"conv2d": {"name": "stem", "filters": 8, "kernel": 3, "padding": "same", "use_bias": False}}, {"batch_normalization": {"name": "n0"}},
          {"activation": {"name": "a0", "function": "relu"}},
          {"conv2d": {"name": "c1", "filters": 8, "kernel": 3, "padding": "same", "use_bias": False}}, {"batch_normalization": {"name": "n1"}},
          {"activation": {"name": "a1", "function": "relu"}},
          {"conv2d": {"name": "c2", "filters": 8, "kernel": 3, "padding": "same", "use_bias": False}}, {"batch_normalization": {"name": "n2", "gamma_initializer": "zeros"}},
          {"add": {"name": "sum", "from": ["a0", "n2"]}}, {"activation": {"name": "a2", "function": "relu"}},
          {"max_pool2d": {"name": "pool", "size": 2}}, {"flatten": {"name": "flat"}})
    w.learn(**classes_head(w), optimizer="adam", rate=0.003, updates=250)


@recipe
def augmented_pictures(w):
    w.kind, w.task = "images", "classes"
    x, y = shapes(w, 320, 8, 4)
    w.give(x, y, [8, 8, 1])
    w.data = {"batch": 32, "augment": {"flip": "vertical", "shift": "5%"}}
    if w.rng.random() < 0.5:   # as the camera has it, made smaller on reading or by a layer
        for rows in (w.x, w.vx):
            for row in rows:
                row[:] = [255 * v for v in row]
        if w.rng.random() < 0.5:
            w.data["scale"] = 1 / 255
        else:
            w.add("rescaling", name="rescale", scale=1 / 255)
    chain(w, {"conv2d": {"name": "conv1", "filters": 8, "kernel": 3, "padding": "same", "activation": "relu"}}, {"max_pool2d": {"name": "pool", "size": 2}},
          {"conv2d": {"name": "conv2", "filters": 16, "kernel": 3, "padding": "same", "activation": "relu"}}, {"flatten": {"name": "flat"}},
          {"dropout": {"name": "drop", "rate": w.rng.choice([0.3, 0.5])}}, {"dense": {"name": "fc", "units": 32, "activation": "relu"}})
    w.learn(**classes_head(w), optimizer="adam", rate=0.003, updates=300)


@recipe
def masks(w):
    """A small U-Net: which points belong to the square."""
    n, side = w.numbers, 8
    w.kind, w.task = "masks", "labels"
    x, y = [], []
    for _ in range(240):
        truth = numpy.zeros((side, side))
        r, c = n.integers(0, side - 3, 2)
        truth[r:r + 4, c:c + 4] = 1
        x.append(0.6 * truth + 0.25 * n.normal(size=(side, side)))
        y.append(truth)
    w.give(x, y, [side, side, 1])
    w.label_shape = [side, side, 1]
    w.data = {"batch": 16}
    chain(w, {"conv2d": {"name": "down1", "filters": 8, "kernel": 3, "padding": "same", "activation": "relu"}}, {"max_pool2d": {"name": "pool1", "size": 2}},
          {"conv2d": {"name": "middle", "filters": 16, "kernel": 3, "padding": "same", "activation": "relu"}}, {"up_sampling2d": {"name": "up", "size": 2}},
          {"concatenate": {"name": "skip", "from": ["up", "down1"]}},
          {"conv2d": {"name": "up1", "filters": 8, "kernel": 3, "padding": "same", "activation": "relu"}},
          {"conv2d": {"name": "out", "filters": 1, "kernel": 1, "activation": "sigmoid"}})
    w.learn("binary_crossentropy", "adam", 0.005, 250)


@recipe
def picture_autoencoder(w):
    w.kind, w.task = "autoencoder", "copy"
    x, _ = shapes(w, 320, 8, 3)
    w.give(x, numpy.zeros(len(x)), [8, 8, 1])
    w.data = {"batch": 32}
    chain(w, {"conv2d": {"name": "e1", "filters": 8, "kernel": 3, "padding": "same", "strides": 2, "activation": "relu"}}, {"flatten": {"name": "flat"}},
          {"dense": {"name": "code", "units": 16, "activation": "relu"}}, {"dense": {"name": "d0", "units": 4 * 4 * 8, "activation": "relu"}},
          {"reshape": {"name": "grid", "shape": [4, 4, 8]}},
          {"conv2d_transpose": {"name": "d1", "filters": 8, "kernel": 3, "strides": 2, "padding": "same", "activation": "relu"}},
          {"conv2d": {"name": "out", "filters": 1, "kernel": 3, "padding": "same", "activation": "sigmoid"}})
    w.top = 0.7
    w.learn(w.rng.choice(["mse", "binary_crossentropy"]), "adam", 0.005, 600, target="input")


@recipe
def tags_of_pictures(w):
    """Several things may be in a picture."""
    n = w.numbers
    w.kind, w.task = "tags", "labels"
    y = (n.random((400, 3)) < 0.4).astype(float)
    x = []
    for row in y:
        picture = 0.25 * n.random((8, 8))
        if row[0]:
            picture[n.integers(0, 7)] += 0.7
        if row[1]:
            picture[:, n.integers(0, 7)] += 0.7
        if row[2]:
            picture[range(8), range(8)] += 0.7
        x.append(picture)
    w.give(x, y, [8, 8, 1])
    w.data = {"batch": 32}
    chain(w, {"conv2d": {"name": "conv1", "filters": 12, "kernel": 3, "padding": "same", "activation": "relu"}}, {"max_pool2d": {"name": "pool", "size": 2}},
          {"flatten": {"name": "flat"}}, {"dense": {"name": "fc", "units": 32, "activation": "relu"}}, {"dense": {"name": "out", "units": 3, "activation": "sigmoid"}})
    w.learn("binary_crossentropy", "adam", 0.004, 500)


@recipe
def separable_pictures(w):
    w.kind, w.task = "pictures", "classes"
    x, y = shapes(w, 320, 8, 3)
    w.give(x, y, [8, 8, 1])
    w.data = {"batch": 16}
    chain(w, {"conv2d": {"name": "stem", "filters": 8, "kernel": 3, "padding": "same", "activation": "relu"}},
          {"separable_conv2d": {"name": "sep", "filters": 16, "kernel": 3, "padding": "same", "activation": "relu"}}, {"group_normalization": {"name": "norm", "groups": 4}},
          {"max_pool2d": {"name": "pool", "size": 2}}, {"flatten": {"name": "flat"}})
    w.learn(**classes_head(w), optimizer="adam", rate=0.003, updates=300)


# ---- Sequences ------------------------------------------------------------------------------------
@recipe
def sentiment(w):
    w.kind, w.task = "tokens", "binary"
    x, y = sentences(w, 480, w.rng.randint(8, 16), 2, 0.5, padded=True)
    w.give(x, y.astype(float), [x.shape[1]])
    w.data = {"batch": 32}
    w.add("embedding", name="embed", vocabulary=w.vocabulary, width=12, mask_zero=True)
    way = w.rng.choice(["lstm", "gru", "bidirectional"])
    if way == "bidirectional":
        w.add("bidirectional", name="both", layer="gru", units=8)
    else:
        w.add(way, name="memory", units=12)
    w.add("dense", name="out", units=1, activation="sigmoid")
    w.learn("binary_crossentropy", "adam", 0.01, 400)


@recipe
def text_convolution(w):
    w.kind, w.task = "tokens", "classes"
    x, y = sentences(w, 480, 12, 3)
    w.give(x, y, [12])
    w.data = {"batch": 32}
    chain(w, {"embedding": {"name": "embed", "vocabulary": w.vocabulary, "width": 12}},
          {"conv1d": {"name": "conv", "filters": 16, "kernel": 3, "padding": "same", "activation": "relu"}}, {"global_max_pool1d": {"name": "pool"}})
    w.learn(**classes_head(w), optimizer="adam", rate=0.005, updates=500)


@recipe
def transformer(w):
    w.kind, w.task = "tokens", "classes"
    x, y = sentences(w, 480, 10, w.rng.choice([2, 3]))
    w.give(x, y, [10])
    w.data = {"batch": 32}
    chain(w, {"embedding": {"name": "embed", "vocabulary": w.vocabulary, "width": 16}}, {"layer_normalization": {"name": "n1"}},
          {"multi_head_attention": {"name": "attend", "heads": 2, "key_dim": 8, "from": ["n1", "n1"]}}, {"add": {"name": "s1", "from": ["embed", "attend"]}},
          {"layer_normalization": {"name": "n2"}}, {"dense": {"name": "ff1", "units": 32, "activation": "gelu"}}, {"dense": {"name": "ff2", "units": 16}},
          {"add": {"name": "s2", "from": ["s1", "ff2"]}}, {"global_average_pool1d": {"name": "mean"}})
    w.learn(**classes_head(w), optimizer="adam", rate=0.003, updates=500)
    w.train["learning_rate_schedule"] = {"cosine": {"warmup": 50}}


@recipe
def tagging(w):
    """A class for each step: whether the sum so far is above 0."""
    n, length = w.numbers, 8
    w.kind, w.task, w.classes = "steps", "labels", 2
    x = n.normal(size=(480, length, 2))
    w.give(x, (numpy.cumsum(x[:, :, 0], 1) > 0).astype(float), [length, 2])
    w.label_shape = [length, 1]
    w.data = {"batch": 32}
    w.add(w.rng.choice(["gru", "lstm", "simple_rnn"]), name="memory", units=16, return_sequences=True)
    w.add("dense", name="out", units=1, activation="sigmoid")
    w.learn("binary_crossentropy", "adam", 0.01, 500)


@recipe
def waves(w):
    """The frequency of a noisy sine."""
    n, length = w.numbers, 20
    w.kind, w.task = "sequences", "values"
    f = n.uniform(0.5, 2.5, 500)
    x = numpy.sin(f[:, None] * numpy.linspace(0, 6, length) + n.uniform(0, 6, 500)[:, None]) + 0.05 * n.normal(size=(500, length))
    w.give(x, unit(f), [length, 1])
    w.data = {"batch": 32}
    if w.rng.random() < 0.5:
        chain(w, {"conv1d": {"name": "c1", "filters": 12, "kernel": 5, "activation": "relu"}}, {"conv1d": {"name": "c2", "filters": 12, "kernel": 3, "activation": "relu"}},
              {"global_average_pool1d": {"name": "mean"}}, {"dense": {"name": "out", "units": 1}})
    else:
        chain(w, {"gru": {"name": "memory", "units": 16}}, {"dense": {"name": "fc", "units": 16, "activation": "relu"}}, {"dense": {"name": "out", "units": 1}})
    w.learn("mse", "adam", 0.01, 700)


@recipe
def forecast(w):
    """A time series in its own order, not shuffled."""
    n, length, rows = w.numbers, 12, 600
    w.kind, w.task = "forecast", "values"
    t = numpy.arange(rows + length)
    series = numpy.sin(t / 7) + 0.5 * numpy.sin(t / 3.1) + 0.1 * n.normal(size=len(t))
    x = numpy.stack([series[i:i + length] for i in range(rows)])
    y = series[length:length + rows]
    w.x, w.vx = x[:450].tolist(), x[450:].tolist()
    w.y, w.vy = y[:450, None].tolist(), y[450:, None].tolist()
    w.input_shape = [length, 1]
    w.data = {"batch": 30, "shuffle": w.rng.random() < 0.5}
    chain(w, {w.rng.choice(["lstm", "gru"]): {"name": "memory", "units": 16}}, {"dense": {"name": "out", "units": 1}})
    w.learn("mse", "adam", 0.01, 450)


@recipe
def matrix_factors(w):
    """Users and things by number; the dot product of what is learnt of them."""
    n, users, things = w.numbers, 30, 25
    w.kind, w.task = "ids", "values"
    a, b = n.normal(size=(users, 3)), n.normal(size=(things, 3))
    u, v = numpy.divmod(n.permutation(users * things)[:640], things)
    y = unit((a[u] * b[v]).sum(1))
    w.give(numpy.stack([u, v], 1), y, [2])
    w.data = {"batch": 32}
    w.whole = True
    chain(w, {"input": {"name": "user", "shape": [1]}}, {"input": {"name": "thing", "shape": [1]}},
          {"embedding": {"name": "users", "vocabulary": users, "width": 6, "from": "user"}}, {"flatten": {"name": "u"}},
          {"embedding": {"name": "things", "vocabulary": things, "width": 6, "from": "thing"}}, {"flatten": {"name": "v"}},
          {"concatenate": {"name": "pair", "from": ["u", "v"]}}, {"dense": {"name": "h1", "units": 32, "activation": "relu"}},
          {"dense": {"name": "out", "units": 1}})
    w.top = 0.8
    w.learn("mse", "adam", 0.01, 900)


@recipe
def weighted_classes(w):
    w.kind, w.task = "weighted", "classes"
    x, y = blobs(w, 900, 8, 3, 0.5)
    kept = (y > 0) | (w.numbers.random(900) < 0.3)
    w.give(x[kept], y[kept], [8])
    w.data = {"batch": 32, "class_weight": "balanced"}
    w.add("dense", name="h1", units=32, activation="relu")
    w.learn(**classes_head(w), optimizer="adam", rate=0.003)


def draw(rng):
    """A training that ought to go well; whether it does, training shows."""
    w = Stranger(rng, rng.choice(sorted(RECIPES)))
    RECIPES[w.recipe](w)
    w.split = rng.choice(["files", "files", "share", "none"]) if w.recipe != "forecast" else "files"
    return w
