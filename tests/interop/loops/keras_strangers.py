"""Keras programs as people write them: subclassed models, `train_step` of their own, functional graphs, callbacks; each healthy or with a
mistake of its kind. As strangers.py has them for PyTorch."""

import importlib
import os
import random
import tempfile
import zlib

import keras
import numpy
import score
from keras import layers, ops
from strangers import adds_to, is_held_out

import tapedeck

SCRIPTS = {}
NEWCOMERS = ("keras_newcomers_tables", "keras_newcomers_series")  # by people who knew the vocabulary of causes and not the rules
GENERAL = {
    "rate_times_1000?": "learning_rate_too_high",
    "rate_through_1000?": "learning_rate_too_low",
    "labels_of_others": "bad_labels,labels_shuffled",
    "softmax_twice": "redundant_softmax",
    "one_row_nan": "nonfinite_input",
    "one_target_nan": "nonfinite_label",
    "validation_is_training": "data_leak",
    "constant_weights?": "bad_initialization",
    "epsilon_one?": "wrong_optimizer,learning_rate_too_low",
    "strong_clipping?": "clip_too_small,clipping_always,learning_rate_too_low",
    "sorted": "unshuffled_data",
}
script = adds_to(SCRIPTS, GENERAL)


class Training:
    def __init__(self, mistake, seed, folder):
        keras.utils.set_random_seed(seed)
        self.mistake, self.draw, self.numbers, self.folder = mistake, random.Random(seed), numpy.random.default_rng(seed), folder
        self.losses = []

    def has(self, *names):
        return self.mistake in names

    def optimizer(self, kind, rate, **options):
        times = {"rate_times_1000": 1000, "rate_through_1000": 1e-3}.get(self.mistake, 1)
        if self.has("epsilon_one"):
            options["epsilon"] = 1.0
        if self.has("strong_clipping"):
            options["clipnorm"] = 1e-6
        return kind(rate * self.draw.uniform(0.7, 1.3) * times, **options)

    def fit(self, model, x, y=None, check=None, **options):
        """`check`: the share that is for validation, or None."""
        rows = len(y if y is not None else x)
        split = rows if check is None else int(rows * (1 - check))
        part = (lambda a, rows: {k: v[rows] for k, v in a.items()} if isinstance(a, dict) else a[rows])
        train, rest = slice(0, split), slice(split, rows)
        xt, yt = part(x, train), None if y is None else part(y, train)
        if check is not None:
            options["validation_data"] = (part(x, rest), part(y, rest))
        if self.has("labels_of_others"):
            yt = self.numbers.permutation(yt)
        elif self.has("one_row_nan"):
            xt = xt.copy()
            xt.reshape(len(xt), -1)[self.draw.randrange(split), 0] = numpy.nan
        elif self.has("one_target_nan"):
            yt = yt.copy()
            yt.reshape(len(yt), -1)[self.draw.randrange(split), 0] = numpy.nan
        elif self.has("validation_is_training"):
            own = self.numbers.choice(split, split // 5, replace=False)
            options["validation_data"] = (part(xt, own), yt[own])
        elif self.has("sorted"):
            order = yt.argsort(kind="stable")
            xt, yt, options["shuffle"] = part(xt, order), yt[order], False
        if self.has("constant_weights"):
            model.build(xt.shape) if not model.built else None
            for w in model.trainable_weights:
                if len(w.shape) > 1:
                    w.assign(numpy.full(w.shape, 0.03))
        recorder = tapedeck.Recorder(self.folder, every=self.draw.choice((5, 10, "epoch")) if False else self.draw.choice((5, 10)), form="stats")
        history = model.fit(xt, yt, verbose=0, callbacks=[recorder, *options.pop("callbacks", [])], **options)
        self.folder = recorder.folder
        self.losses = [float(v) for v in history.history.get("loss", [0.0])]


def pictures(t, count, classes, noise=0.7):
    y = t.numbers.integers(0, classes, count)
    return (t.numbers.normal(size=(classes, 8, 8, 1))[y] + noise * t.numbers.normal(size=(count, 8, 8, 1))).astype("float32"), y


@script("rate_times_1000 rate_through_1000 labels_of_others softmax_twice one_row_nan validation_is_training epsilon_one bytes_not_scaled?=unscaled_inputs")
def efficient_network(t):
    """Augmentation layers, squeeze and excitation, a warm-up schedule."""
    x, y = pictures(t, 480, 5)
    if t.has("bytes_not_scaled"):
        x = numpy.clip(x * 40 + 128, 0, 255)
    inputs = keras.Input((8, 8, 1))
    h = layers.RandomTranslation(0.05, 0.05)(inputs)
    h = layers.Conv2D(12, 3, padding="same", use_bias=False)(h)
    h = before = layers.Activation("swish")(layers.BatchNormalization(momentum=0.9)(h))
    h = layers.DepthwiseConv2D(3, padding="same", activation="swish")(h)
    gate = layers.Dense(12, activation="sigmoid")(layers.Dense(6, activation="swish")(layers.GlobalAveragePooling2D()(h)))
    h = layers.Multiply()([h, layers.Reshape((1, 1, 12))(gate)])
    h = layers.Dropout(0.1)(layers.Flatten()(layers.MaxPooling2D(2)(layers.Add()([h, before]))))
    out = layers.Dense(5, activation="softmax")(h)
    model = keras.Model(inputs, out)
    model.compile(t.optimizer(keras.optimizers.Adam, 3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=t.has("softmax_twice")), metrics=["accuracy"])
    t.fit(model, x, y, 0.2, batch_size=32, epochs=8)


class Patches(layers.Layer):
    def call(self, x):
        return ops.reshape(ops.transpose(ops.reshape(x, (-1, 4, 2, 4, 2, 1)), (0, 1, 3, 2, 4, 5)), (-1, 16, 4))


class Place(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(1, *shape[1:]), initializer=keras.initializers.RandomNormal(stddev=0.02), name="table")

    def call(self, x):
        return x + self.table


@script("rate_times_1000 rate_through_1000 labels_of_others softmax_twice sorted strong_clipping")
def vision_transformer(t):
    x, y = pictures(t, 480, 4, 0.5)
    inputs = keras.Input((8, 8, 1))
    h = Place()(layers.Dense(24)(Patches()(inputs)))
    for _ in range(2):
        a = layers.LayerNormalization(epsilon=1e-6)(h)
        h = layers.Add()([layers.MultiHeadAttention(3, 8)(a, a), h])
        b = layers.Dense(24)(layers.Dense(48, activation="gelu")(layers.LayerNormalization(epsilon=1e-6)(h)))
        h = layers.Add()([b, h])
    h = layers.Flatten()(layers.LayerNormalization()(h))
    out = layers.Dense(4, activation="softmax" if t.has("softmax_twice") else None)(h)
    model = keras.Model(inputs, out)
    model.compile(t.optimizer(keras.optimizers.AdamW, 2e-3, weight_decay=1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    t.fit(model, x, y, batch_size=32, epochs=8)


@script("rate_times_1000 rate_through_1000 one_row_nan epsilon_one")
def beta_vae(t):
    """A subclassed model: add_loss and a sampling layer."""
    z = t.numbers.normal(size=(480, 3))
    x = numpy.tanh(z @ t.numbers.normal(size=(3, 24))).astype("float32")

    class Sampling(layers.Layer):
        def __init__(self):
            super().__init__()
            self.seed = keras.random.SeedGenerator(3)

        def call(self, inputs):
            mean, log = inputs
            self.add_loss(-0.01 * ops.mean(1 + log - ops.square(mean) - ops.exp(log)))
            return mean + ops.exp(0.5 * log) * keras.random.normal(ops.shape(mean), seed=self.seed)

    inputs = keras.Input((24,))
    h = layers.Dense(32, activation="relu")(inputs)
    z = Sampling()([layers.Dense(3)(h), layers.Dense(3)(h)])
    out = layers.Dense(24)(layers.Dense(32, activation="relu")(z))
    model = keras.Model(inputs, out)
    model.compile(t.optimizer(keras.optimizers.Adam, 3e-3), "mse")
    y = x
    if t.has("one_row_nan"):
        x = x.copy()
    t.fit(model, x, y, batch_size=32, epochs=10)


@script("rate_times_1000 rate_through_1000 one_target_nan labels_of_others prices_not_scaled?=unscaled_targets relu_at_the_end=wrong_output_activation sigmoid_at_the_end=wrong_output_activation")
def wide_and_deep(t):
    """Several inputs by name, an embedding, a Normalization layer, a wide part beside a deep one."""
    n = 520
    a = t.numbers.normal(size=(n, 6)).astype("float32") * 3 + 1
    shop = t.numbers.integers(0, 12, (n, 1))
    y = (0.4 * a[:, 0] + numpy.tanh(a[:, 1]) - 0.2 * a[:, 2] + t.numbers.normal(size=12)[shop[:, 0]] + 0.2 * t.numbers.normal(size=n)).astype("float32")
    y = (y - y.mean()) / y.std()
    if t.has("prices_not_scaled"):
        y = 5000 + 3000 * y
    numbers, place = keras.Input((6,), name="numbers"), keras.Input((1,), name="shop", dtype="int32")
    norm = layers.Normalization()
    norm.adapt(a)
    scaled = norm(numbers)
    deep = layers.Concatenate()([scaled, layers.Flatten()(layers.Embedding(12, 4)(place))])
    deep = layers.Dense(24, activation="relu")(layers.Dense(48, activation="relu")(deep))
    end = "relu" if t.has("relu_at_the_end") else "sigmoid" if t.has("sigmoid_at_the_end") else None
    out = layers.Dense(1, activation=end)(layers.Concatenate()([scaled, deep]))
    model = keras.Model([numbers, place], out)
    model.compile(t.optimizer(keras.optimizers.Adam, 5e-3), t.draw.choice(("mse", "mae")) if not t.has("prices_not_scaled") else "mse", metrics=["mae"])
    t.fit(model, {"numbers": a, "shop": shop}, y, 0.2, batch_size=32, epochs=14)


class Distiller(keras.Model):
    """The student learns from a teacher, in compute_loss."""

    def __init__(self, student, teacher):
        super().__init__()
        self.student, self.teacher = student, teacher
        teacher.trainable = False
        self.hard = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def call(self, x, training=None):
        return self.student(x, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        soft = ops.softmax(self.teacher(x, training=False) / 3.0)
        return 0.5 * self.hard(y, y_pred) - 4.5 * ops.mean(ops.sum(soft * ops.log_softmax(y_pred / 3.0), axis=1))


@script("rate_times_1000 rate_through_1000 labels_of_others one_row_nan")
def distillation(t):
    y = t.numbers.integers(0, 4, 480)
    x = (1.3 * t.numbers.normal(size=(4, 10))[y] + 0.7 * t.numbers.normal(size=(480, 10))).astype("float32")
    teacher = keras.Sequential([keras.Input((10,)), layers.Dense(48, activation="relu"), layers.Dense(4)])
    teacher.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    teacher.fit(x, y, epochs=8, verbose=0)
    student = keras.Sequential([keras.Input((10,)), layers.Dense(12, activation="relu"), layers.Dense(4)])
    model = Distiller(student, teacher)
    model.compile(t.optimizer(keras.optimizers.Adam, 5e-3))
    t.fit(model, x, y, batch_size=32, epochs=10)


@script("rate_times_1000 rate_through_1000 labels_of_others softmax_twice dropout_of_95?=dropout_too_high constant_weights")
def bidirectional_reviews(t):
    """Embedding, two bidirectional layers, callbacks that stop early and lower the rate."""
    y = t.numbers.integers(0, 2, 480)
    x = numpy.where(t.numbers.random((480, 14)) < 0.4, 1 + 2 * t.numbers.integers(0, 50, (480, 14)) + y[:, None], t.numbers.integers(1, 102, (480, 14))).astype("int32")
    model = keras.Sequential([keras.Input((None,), dtype="int32"), layers.Embedding(104, 16), layers.Bidirectional(layers.LSTM(10, return_sequences=True)),
                              layers.Bidirectional(layers.GRU(8)), layers.Dropout(0.95 if t.has("dropout_of_95") else 0.1),
                              layers.Dense(1, activation="sigmoid")])
    model.compile(t.optimizer(keras.optimizers.Adam, 5e-3), keras.losses.BinaryCrossentropy(from_logits=t.has("softmax_twice")), metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True)
    t.fit(model, x, y, 0.2, batch_size=32, epochs=9, callbacks=[stop, keras.callbacks.ReduceLROnPlateau(patience=3)])


@script("rate_times_1000 rate_through_1000 one_target_nan broadcast=broadcast_in_loss labels_of_others level_not_removed?=unscaled_inputs,unscaled_targets")
def weather_forecast(t):
    """Windows of several series by timeseries_dataset, an LSTM, a loss of their own."""
    time = numpy.arange(640)
    series = numpy.stack([numpy.sin(time / 5 + k) for k in range(3)], 1) + 0.1 * t.numbers.normal(size=(640, 3))
    if t.has("level_not_removed"):
        series = 1000 + 100 * series
    x = numpy.stack([series[i : i + 20] for i in range(600)]).astype("float32")
    y = series[20:620, 0].astype("float32")
    model = keras.Sequential([keras.Input((20, 3)), layers.LSTM(24), layers.Dense(1)])

    class Own(keras.losses.Loss):
        def call(self, y_true, y_pred):
            return ops.mean(ops.abs(y_true - y_pred) if t.has("broadcast") else ops.abs(ops.reshape(y_true, (-1, 1)) - y_pred))

    model.compile(t.optimizer(keras.optimizers.RMSprop, 3e-3), Own())
    t.fit(model, x, y, batch_size=32, epochs=10)


@script("rate_times_1000 rate_through_1000 labels_of_others one_row_nan epsilon_one")
def supervised_contrastive(t):
    """An encoder by a loss over pairs of a batch."""
    x, y = pictures(t, 400, 5)
    model = keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(32, activation="relu"),
                              layers.Dense(16), layers.UnitNormalization()])

    def loss(y_true, z):
        scores = ops.matmul(z, ops.transpose(z)) / 0.3
        eye = ops.eye(ops.shape(z)[0])
        y_true = ops.reshape(y_true, (-1, 1))
        same = ops.cast(ops.equal(y_true, ops.transpose(y_true)), "float32") * (1 - eye)
        return -ops.sum(same * ops.log_softmax(scores - 1e9 * eye, axis=1)) / (ops.sum(same) + 1e-6)

    model.compile(t.optimizer(keras.optimizers.Adam, 2e-3), loss)
    t.fit(model, x, y, batch_size=40, epochs=8)


@script("rate_times_1000 rate_through_1000 labels_of_others constant_weights base_never_trained=untrained_frozen")
def transfer_learning(t):
    """A trained base with batch normalisation is frozen; a new head."""
    x, y = pictures(t, 480, 4)
    base = keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(12, 3, activation="relu"), layers.BatchNormalization(momentum=0.9), layers.MaxPooling2D(2),
                             layers.Flatten(), layers.Dense(32, activation="relu")])
    if not t.has("base_never_trained"):
        whole = keras.Sequential([base, layers.Dense(4)])
        whole.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        whole.fit(x, y, epochs=8, verbose=0)
    base.trainable = False
    inputs = keras.Input((8, 8, 1))
    out = layers.Dense(2 if not t.has("labels_of_others") else 2, activation="softmax")(layers.Dropout(0.1)(base(inputs, training=False)))
    model = keras.Model(inputs, out)
    model.compile(t.optimizer(keras.optimizers.Adam, 1e-2), "sparse_categorical_crossentropy", metrics=["accuracy"])
    t.fit(model, x, y // 2, 0.2, batch_size=32, epochs=8)


@script("rate_times_1000 rate_through_1000 softmax_twice labels_of_others one_row_nan strong_clipping")
def multi_head_outputs(t):
    """Two outputs with a loss and a weight each."""
    x, y = pictures(t, 480, 4)
    z = x.mean((1, 2, 3)) * 8
    inputs = keras.Input((8, 8, 1))
    h = layers.Dense(48, activation="relu")(layers.Flatten()(layers.Conv2D(8, 3, activation="relu")(inputs)))
    model = keras.Model(inputs, {"kind": layers.Dense(4, activation="softmax", name="kind")(h), "mean": layers.Dense(1, name="mean")(h)})
    model.compile(t.optimizer(keras.optimizers.Adam, 2e-3), {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=t.has("softmax_twice")), "mean": "mse"},
                  loss_weights={"kind": 1.0, "mean": 0.5})
    if t.has("labels_of_others"):
        y, z = t.numbers.permutation(y), t.numbers.permutation(z)
        t.mistake = None
    recorder = tapedeck.Recorder(t.folder, every=5, form="stats")
    if t.has("one_row_nan"):
        x[33, 2, 2, 0] = numpy.nan
    history = model.fit(x, {"kind": y, "mean": z}, batch_size=32, epochs=8, verbose=0, callbacks=[recorder])
    t.folder, t.losses = recorder.folder, history.history["loss"]


@script("rate_times_1000 rate_through_1000 labels_of_others one_target_nan")
def physics_of_noise(t):
    """A heteroscedastic head: the negative log-likelihood may be below 0."""
    x = (t.numbers.random((480, 1)) * 6 - 3).astype("float32")
    y = (numpy.sin(x) + (0.05 + 0.2 * (x > 0)) * t.numbers.normal(size=(480, 1))).astype("float32")
    model = keras.Sequential([keras.Input((1,)), layers.Dense(48, activation="tanh"), layers.Dense(48, activation="tanh"), layers.Dense(2)])

    def likelihood(y_true, out):
        mean, log = ops.split(out, 2, axis=-1)
        return ops.mean(0.5 * log + 0.5 * ops.square(ops.reshape(y_true, (-1, 1)) - mean) * ops.exp(-log))

    model.compile(t.optimizer(keras.optimizers.Adam, 5e-3), likelihood)
    t.fit(model, x, y, batch_size=32, epochs=14)


@script("rate_times_1000 rate_through_1000 one_row_nan")
def deep_autoencoder(t):
    """The data are generated: fit takes a generator of batches."""
    basis = t.numbers.normal(size=(4, 24))

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 20

        def __getitem__(self, i):
            own = numpy.random.default_rng(i)
            x = numpy.tanh(own.normal(size=(32, 4)) @ basis).astype("float32")
            if t.has("one_row_nan") and i == 11:
                x[5, 3] = numpy.nan
            return x, x

    model = keras.Sequential([keras.Input((24,)), layers.Dense(32, activation="relu"), layers.Dense(6), layers.Dense(32, activation="relu"), layers.Dense(24)])
    model.compile(t.optimizer(keras.optimizers.Adam, 3e-3), "mse")
    recorder = tapedeck.Recorder(t.folder, every=5, form="stats")
    history = model.fit(Batches(), epochs=8, verbose=0, callbacks=[recorder])
    t.folder, t.losses = recorder.folder, history.history["loss"]


def train(name, mistake, seed, folder):
    training = Training(mistake, seed, folder)
    SCRIPTS[name][0](training)
    return training


def run(seeds, only="", held=None, modules=(__name__,)):
    for module in modules:
        importlib.import_module(module)
    found = score.Score()
    with tempfile.TemporaryDirectory() as place:
        for name, (function, mistakes) in sorted(SCRIPTS.items()):
            if only not in name or (held is not None and is_held_out(name) != held) or function.__module__ not in modules:
                continue
            for seed in seeds:
                own = seed * 1000 + zlib.crc32(name.encode()) % 1000
                healthy = train(name, None, own, os.path.join(place, f"{name}-{seed}"))
                found.add(name, seed, None, score.diagnose(healthy.folder)[0])
                for mistake, (causes, layer, is_mild) in mistakes.items() if seed == seeds[0] else ():
                    faulty = train(name, mistake, own, os.path.join(place, f"{name}-{seed}-{mistake}"))
                    if is_mild and not score.does_harm(faulty.losses, healthy.losses):
                        continue
                    found.add(mistake, f"{seed} {name}", causes, score.diagnose(faulty.folder)[0], layer)
    return found
