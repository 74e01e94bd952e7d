"""Healthy trainings, drawn at random: data, a network that suits them, an optimizer, a schedule of recording.

Everything comes from one random.Random, so that a number names a training. Nothing here knows a rule or its threshold."""
import array
import copy
import math
import os
import struct

ACTIVATIONS = ["relu", "relu", "relu", "tanh", "elu", "leaky_relu", "gelu", "silu", "selu"]
PREFIXES = ["h", "dense_", "fc", "hidden", "layer", "block"]


def write_npy(path, rows, shape, whole=False):
    """rows: lists of numbers; shape: of one row."""
    dims = "".join(f"{n}, " for n in [len(rows), *shape])
    head = f"{{'descr': '{'<i4' if whole else '<f4'}', 'fortran_order': False, 'shape': ({dims.rstrip()}), }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    body = array.array("i" if whole else "f", [v for row in rows for v in row])
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + body.tobytes())


class World:
    """One training: its data as lists, its experiment as a document."""

    def __init__(self, rng, kind, task):
        self.rng, self.kind, self.task = rng, kind, task   # task: classes, binary, values, labels, copy
        self.x, self.y, self.vx, self.vy = [], [], [], []
        self.input_shape = []
        self.classes = 0
        self.split = "files"   # the validation part: files of its own, a share of the training file, none
        self.layers = []
        self.label_shape = None   # of one example's label; None: as wide as it is
        self.whole = False   # inputs are whole numbers
        self.weights = None   # parameters to start from, as weights.csv has them
        self.data, self.train = {}, {}

    def copy(self):
        other = copy.copy(self)
        for name in ("x", "y", "vx", "vy", "layers", "data", "train"):
            setattr(other, name, copy.deepcopy(getattr(self, name)))
        return other

    # ---- The network --------------------------------------------------------------------------
    def add(self, kind, **options):
        self.layers.append({kind: options})

    def options(self, index):
        return next(iter(self.layers[index].values()))

    def kind_of(self, index):
        return next(iter(self.layers[index]))

    def learning(self):
        """Indices of the layers with kernels, in order."""
        kinds = ("dense", "conv2d", "conv1d", "simple_rnn", "lstm", "gru")
        return [i for i in range(len(self.layers)) if self.kind_of(i) in kinds]

    def hidden(self):
        """Dense and convolution layers before the last one that learns."""
        return [i for i in self.learning()[:-1] if self.kind_of(i) in ("dense", "conv2d", "conv1d")]

    def recurrent(self):
        return [i for i in self.learning() if self.kind_of(i) in ("simple_rnn", "lstm", "gru")]

    @property
    def out(self):
        return self.options(self.learning()[-1])

    def first_name(self):
        return self.options(self.learning()[0])["name"]

    @property
    def rate(self):
        return next(iter(self.train["optimizer"].values()))["learning_rate"]

    @rate.setter
    def rate(self, value):
        next(iter(self.train["optimizer"].values()))["learning_rate"] = value

    @property
    def optimizer(self):
        return next(iter(self.train["optimizer"]))

    def updates(self):
        return -(-len(self.x) // self.data["batch"])

    # ---- Files --------------------------------------------------------------------------------
    def write(self, folder, name):
        import json
        os.makedirs(folder, exist_ok=True)
        whole_inputs = self.kind == "tokens" or self.whole
        classes = self.task == "classes"
        data = dict(self.data, train="x.npy")
        more = self.split == "share"
        if more:
            data["validation"] = round(len(self.vx) / (len(self.x) + len(self.vx)), 4)
        write_npy(os.path.join(folder, "x.npy"), self.x + (self.vx if more else []), self.input_shape, whole_inputs)
        if self.split == "files":
            data["validation"] = "vx.npy"
            write_npy(os.path.join(folder, "vx.npy"), self.vx, self.input_shape, whole_inputs)
        if self.task != "copy":
            data["labels"] = "y.npy"
            shape = self.label_shape or ([] if classes else [len(self.y[0])])
            write_npy(os.path.join(folder, "y.npy"), self.y + (self.vy if more else []), shape, classes)
            if self.split == "files":
                data["validation_labels"] = "vy.npy"
                write_npy(os.path.join(folder, "vy.npy"), self.vy, shape, classes)
        metric = {"classes": "accuracy", "binary": "binary_accuracy", "labels": "binary_accuracy"}.get(self.task, "r2")
        total = self.updates() * self.train["epochs"]
        often = max(1, total // 50)
        document = {"name": name, "threads": 1, "data": data, "model": self.layers,
                    "train": dict(self.train, metrics=[metric]),
                    "record": [{"what": ["loss", "learning_rate"], "every": f"{max(1, total // 300)} steps", "to": ["csv"]},
                               {"what": ["epoch_loss"] + (["val_loss", "val_" + metric] if self.split != "none" else []),
                                "every": "1 epochs", "to": ["csv"]},
                               {"what": ["*.gradient", "*.output", "*.error", "*.kernel", "*.bias"],
                                "every": f"{often} steps", "start": 1, "form": "stats", "to": ["csv"]}]}
        if self.weights:
            with open(os.path.join(folder, "start.csv"), "w", encoding="utf-8") as file:
                file.write(self.weights)
            document["weights"] = "start.csv"
        path = os.path.join(folder, "experiment.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
        return path, metric if self.split == "none" else "val_" + metric

    def score(self, value):
        """What was learnt of what there was to learn, from the metric; NaN learnt nothing."""
        if value is None or not math.isfinite(value):
            return 0.0
        if self.task in ("values", "copy"):
            return value
        labels = self.y if self.split == "none" else self.vy
        if self.task == "labels":
            columns = list(zip(*labels))
            least = sum(max(sum(c), len(c) - sum(c)) for c in columns) / (len(columns) * len(labels))
        else:
            flat = [row[0] for row in labels]
            least = max(flat.count(c) for c in set(flat)) / len(flat)
        return (value - least) / (1 - least) if least < 1 else value


# ---- Data -----------------------------------------------------------------------------------------
def spread(rng, n, count):
    return [[rng.gauss(0, 1) for _ in range(n)] for _ in range(count)]


def blobs(world, rows):
    rng = world.rng
    world.classes, width = rng.randint(2 if world.task == "binary" else 3, 8), rng.randint(3, 24)
    if world.task == "binary":
        world.classes = 2
    modes = rng.randint(1, 2)
    centres = [[[rng.gauss(0, 1) for _ in range(width)] for _ in range(modes)] for _ in range(world.classes)]
    noise = rng.uniform(0.3, 0.7)
    for i in range(rows):
        c = i % world.classes
        centre = rng.choice(centres[c])
        yield [v + rng.gauss(0, noise) for v in centre], [c]
    world.input_shape = [width]


def curves(world, rows):
    rng, shape, extra = world.rng, world.rng.choice(["moons", "rings", "corners", "waves"]), world.rng.randint(0, 2)
    world.classes, noise = 2, rng.uniform(0.05, 0.12)
    for i in range(rows):
        c = i % 2
        t = rng.uniform(0, math.pi)
        if shape == "moons":
            p = [math.cos(t), math.sin(t)] if c else [1 - math.cos(t), 0.5 - math.sin(t)]
        elif shape == "rings":
            r = 1.0 if c else 2.0
            p = [r * math.cos(2 * t), r * math.sin(2 * t)]
        elif shape == "corners":
            p = [rng.choice([-1, 1]), 0]
            p[1] = p[0] if c else -p[0]
        else:
            a = rng.uniform(-2, 2)
            p = [a, math.sin(2 * a) + (0.6 if c else -0.6)]
        yield [v + rng.gauss(0, noise) for v in p] + [rng.gauss(0, 0.3) for _ in range(extra)], [c]
    world.input_shape = [2 + extra]


def values(world, rows):
    rng, width = world.rng, world.rng.randint(1, 10)
    outputs = rng.choice([1, 1, 1, 2])
    a, b = spread(rng, width, outputs), spread(rng, width, outputs)
    curve = rng.choice(["sine", "square", "plane", "product"])
    noise = rng.uniform(0.0, 0.1)
    found = []
    for _ in range(rows):
        x = [rng.gauss(0, 1) for _ in range(width)]
        y = []
        for k in range(outputs):
            u = sum(p * q for p, q in zip(a[k], x)) / math.sqrt(width)
            v = sum(p * q for p, q in zip(b[k], x)) / math.sqrt(width)
            y.append({"sine": math.sin(1.5 * u) + 0.5 * v, "square": u * u + v, "plane": u + v, "product": u * v + u}[curve]
                     + rng.gauss(0, noise))
        found.append((x, y))
    for k in range(outputs):   # mean 0, variance 1, as one does
        mean = sum(y[k] for _, y in found) / rows
        deviation = math.sqrt(sum((y[k] - mean) ** 2 for _, y in found) / rows)
        for _, y in found:
            y[k] = (y[k] - mean) / max(deviation, 1e-6)
    world.input_shape = [width]
    yield from found


def images(world, rows):
    rng, side = world.rng, world.rng.choice([6, 8])
    world.classes = rng.choice([2, 3, 4])
    noise = rng.uniform(0.1, 0.3)
    for i in range(rows):
        c = i % world.classes
        at = rng.randint(1, side - 3)
        image = [abs(rng.gauss(0, noise)) for _ in range(side * side)]
        for k in range(side):
            cells = {0: [(at, k), (at + 1, k)], 1: [(k, at), (k, at + 1)], 2: [(k, k)], 3: [(k, side - 1 - k)]}[c]
            for r, s in cells:
                image[r * side + s] += 0.8
        yield [min(v, 1.0) for v in image], [c]
    world.input_shape = [side, side, 1]


def sequences(world, rows):
    rng, length, width = world.rng, world.rng.randint(6, 16), world.rng.randint(1, 3)
    what = rng.choice(["sum", "first", "late"])
    world.classes = 2
    for i in range(rows):
        x = spread(rng, width, length)
        total = {"sum": sum(s[0] for s in x) / math.sqrt(length), "first": x[0][0] + x[1][0],
                 "late": sum(s[0] for s in x[-3:])}[what]
        y = [total] if world.task == "values" else [int(total > 0)]
        yield [v for step in x for v in step], y
    world.input_shape = [length, width]


def tokens(world, rows):
    rng, length = world.rng, world.rng.randint(6, 16)
    world.vocabulary, world.classes = rng.randint(20, 120), rng.choice([2, 2, 3])
    group = [rng.randrange(world.classes) for _ in range(world.vocabulary)]
    for i in range(rows):
        c = i % world.classes
        mine = [t for t in range(world.vocabulary) if group[t] == c] or [0]
        yield [rng.choice(mine) if rng.random() < 0.6 else rng.randrange(world.vocabulary) for _ in range(length)], [c]
    world.input_shape = [length]


def factors(world, rows):
    rng, width = world.rng, world.rng.randint(8, 20)
    world.rank = rng.randint(2, 4)
    a = spread(rng, world.rank, width)
    for _ in range(rows):
        z = [rng.gauss(0, 1) for _ in range(world.rank)]
        yield [math.tanh(sum(p * q for p, q in zip(row, z)) / math.sqrt(world.rank)) + rng.gauss(0, 0.05) for row in a], [0.0]
    world.input_shape = [width]


def several(world, rows):
    rng, width, count = world.rng, world.rng.randint(5, 15), world.rng.randint(2, 5)
    a = spread(rng, width, count)
    for _ in range(rows):
        x = [rng.gauss(0, 1) for _ in range(width)]
        yield x, [float(sum(p * q for p, q in zip(row, x)) > 0) for row in a]
    world.input_shape = [width]


# ---- Networks -------------------------------------------------------------------------------------
def head(world):
    """The layer that puts out what the task needs, and the loss that goes with it."""
    rng, name = world.rng, world.rng.choice(["out", "out", "logits", "head", "scores"])
    if world.task == "classes":
        logits, hot = rng.random() < 0.35, False
        world.add("dense", name=name, units=world.classes, **({} if logits else {"activation": "softmax"}))
        world.train.update(loss="sparse_categorical_crossentropy", **({"from_logits": True} if logits else {}))
    elif world.task in ("binary", "labels"):
        logits = rng.random() < 0.3
        world.add("dense", name=name, units=len(world.y[0]), **({} if logits else {"activation": "sigmoid"}))
        world.train.update(loss="binary_crossentropy", **({"from_logits": True} if logits else {}))
    else:
        units = math.prod(world.input_shape) if world.task == "copy" else len(world.y[0])
        world.add("dense", name=name, units=units)
        world.train.update(loss=rng.choice(["mse", "mse", "huber", "mae"]))
        if world.task == "copy":
            world.train.update(loss="mse", target="input")


def stack(world, prefix, count, least=16, most=64):
    rng, activation = world.rng, world.rng.choice(ACTIVATIONS)
    normal = rng.random() < 0.2
    for i in range(count):
        options = {"name": f"{prefix}{i + 1}", "units": rng.choice([u for u in (16, 24, 32, 48, 64) if least <= u <= most])}
        if activation == "selu":
            options["kernel_initializer"] = "lecun_normal"
        if normal:
            world.add("dense", **options)
            world.add("batch_normalization", name=f"norm{i + 1}")
            world.add("activation", name=f"act{i + 1}", function=activation)
        else:
            world.add("dense", **options, activation=activation)
    if rng.random() < 0.2:
        world.add("dropout", name="drop", rate=rng.choice([0.1, 0.2]))


def network(world):
    rng, prefix = world.rng, world.rng.choice(PREFIXES)
    if world.kind == "images":
        activation = rng.choice(["relu", "relu", "elu", "tanh"])
        for i in range(rng.randint(1, 2)):
            world.add("conv2d", name=f"conv{i + 1}", filters=rng.choice([4, 8, 12]), kernel=3, padding="same", activation=activation)
            if i == 0 and rng.random() < 0.6:
                world.add("max_pool2d", name="pool", size=2)
        world.add("flatten", name="flat")
        if rng.random() < 0.6:
            world.add("dense", name=f"{prefix}1", units=rng.choice([16, 32]), activation=activation)
    elif world.kind == "sequences":
        world.add(rng.choice(["simple_rnn", "gru", "lstm"]), name=rng.choice(["rnn", "memory", "recurrent"]), units=rng.choice([8, 12, 16]))
        if rng.random() < 0.4:
            world.add("dense", name=f"{prefix}1", units=16, activation="relu")
    elif world.kind == "tokens":
        width, way = rng.choice([8, 12, 16]), rng.choice(["mean", "gru", "attention"])
        world.add("embedding", name="embed", vocabulary=world.vocabulary, width=width)
        if way == "gru":
            world.add("gru", name="gru", units=12)
        else:
            if way == "attention":
                world.add("multi_head_attention", name="attend", heads=2, key_dim=width // 2, **{"from": ["embed", "embed"]})
                world.add("add", name="shortcut", **{"from": ["embed", "attend"]})
                world.add("layer_normalization", name="norm")
            world.add("global_average_pool1d", name="mean")
        if rng.random() < 0.5:
            world.add("dense", name=f"{prefix}1", units=16, activation="relu")
    elif world.kind == "factors":
        activation = rng.choice(["relu", "elu", "tanh"])
        world.add("dense", name="encode", units=32, activation=activation)
        world.add("dense", name="code", units=world.rank + rng.randint(1, 3))
        world.add("dense", name="decode", units=32, activation=activation)
    else:
        stack(world, prefix, rng.randint(1, 3))
    head(world)


def optimizer(world):
    rng = world.rng
    name = rng.choice(["adam", "adam", "adam", "sgd", "sgd", "rmsprop", "nadam", "adamw"])
    careful = world.kind in ("sequences", "tokens", "factors")
    if name == "sgd" and (careful or world.train["loss"] == "mae"):
        name = "adam"
    if name == "sgd":
        options = {"learning_rate": rng.choice([0.03, 0.05, 0.1]) * (1 if world.task != "values" else 0.4), "momentum": rng.choice([0, 0.9])}
        if options["momentum"]:
            options["learning_rate"] /= 5
    else:
        options = {"learning_rate": rng.choice([0.002, 0.003, 0.005, 0.01])}
    world.train["optimizer"] = {name: options}
    if rng.random() < 0.1:
        world.train["clip_norm"] = 1.0


KINDS = [("blobs", blobs, ["classes", "binary"]), ("curves", curves, ["classes", "binary"]), ("values", values, ["values"]),
         ("images", images, ["classes"]), ("sequences", sequences, ["classes", "values", "binary"]), ("tokens", tokens, ["classes"]),
         ("factors", factors, ["copy"]), ("several", several, ["labels"]), ("blobs", blobs, ["classes"]), ("values", values, ["values"])]


def draw(rng, kinds=None):
    """A training that ought to go well; whether it does, training shows."""
    kind, make, tasks = rng.choice([k for k in KINDS if not kinds or k[0] in kinds])
    world = World(rng, kind, rng.choice(tasks))
    rows = rng.choice([240, 360, 480, 640])
    examples = list(make(world, rows))
    rng.shuffle(examples)
    if world.task in ("binary",):
        examples = [(x, [float(y[0])]) for x, y in examples]
    held = rows // 4
    world.vx, world.vy = [e[0] for e in examples[:held]], [e[1] for e in examples[:held]]
    world.x, world.y = [e[0] for e in examples[held:]], [e[1] for e in examples[held:]]
    world.data = {"batch": rng.choice([8, 16, 16, 32, 32, 64])}
    if world.kind in ("blobs", "values", "several") and rng.random() < 0.5:   # a table as it comes, standardised on reading
        size, shift = [10 ** rng.uniform(-1, 3) for _ in world.x[0]], [rng.uniform(-3, 3) for _ in world.x[0]]
        for rows_of in (world.x, world.vx):
            for x in rows_of:
                x[:] = [(v + b) * a for v, a, b in zip(x, size, shift)]
        world.data["standardize"] = True
    network(world)
    optimizer(world)
    world.split = rng.choice(["files", "files", "share", "none"])
    updates = rng.choice([500, 800, 1200])
    world.train["epochs"] = max(4, round(updates / world.updates()))
    return world
