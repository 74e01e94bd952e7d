"""Trainings of well-known Keras examples on small synthetic data, with random sizes, optimizers and habits, each healthy or with one
mistake planted; as torch_tutorials.py has them for PyTorch. `keras_cases.py` has other networks."""

import random

import keras
import numpy
from keras import layers, ops

import tapedeck

RECIPES = {}  # name: (what kind of task it is, function)
MISTAKES = {}  # name: (causes that are right, recipes it can be planted in)


def recipe(kind):
    def add(function):
        RECIPES[function.__name__] = (kind, function)
        return function

    return add


def mistake(name, causes, kinds="classes two values other", but=()):
    MISTAKES[name] = (causes.split(), tuple(sorted(r for r, (kind, _) in RECIPES.items() if kind in kinds.split() and r not in but)))


# ---- recipes: each sets x, y and the layers before the last ---------------------------------------------


def pictures(plan, noise=0.7):
    y = plan.numbers.integers(0, plan.classes, plan.count)
    return plan.numbers.normal(size=(plan.classes, 8, 8, 1))[y] + noise * plan.numbers.normal(size=(plan.count, 8, 8, 1)), y


@recipe("classes")
def mnist_convnet(plan):
    plan.x, plan.y = pictures(plan)
    plan.body = [layers.Conv2D(8, 3, activation="relu"), layers.MaxPooling2D(2), layers.Conv2D(16, 2, activation="relu"), layers.Flatten(),
                 layers.Dropout(0.25)]


@recipe("classes")
def image_classification_from_scratch(plan):
    """Separable convolutions with batch normalisation and a residual."""
    plan.x, plan.y = pictures(plan)

    def body(x):
        x = before = layers.Activation("relu")(layers.BatchNormalization(momentum=0.9)(layers.Conv2D(12, 3, padding="same")(x)))
        x = layers.BatchNormalization(momentum=0.9)(layers.SeparableConv2D(12, 3, padding="same")(x))
        x = layers.Activation("relu")(layers.add([x, before]))
        return layers.Dropout(0.2)(layers.Flatten()(layers.AveragePooling2D(2)(x)))

    plan.body = body


@recipe("classes")
def text_classification_with_transformer(plan):
    plan.x, plan.y = words(plan)

    def body(x):
        h = layers.Embedding(120, 24)(x)
        h = layers.LayerNormalization()(h + layers.Dropout(0.1)(layers.MultiHeadAttention(2, 12)(h, h)))
        h = layers.LayerNormalization()(h + layers.Dense(24)(layers.Dense(32, activation="relu")(h)))
        return layers.Dense(20, activation="relu")(layers.Dropout(0.1)(layers.GlobalAveragePooling1D()(h)))

    plan.body = body
    plan.usual("adam", 3e-3)


def words(plan):
    y = plan.numbers.integers(0, plan.classes, plan.count)
    group = numpy.arange(120) % plan.classes
    own = numpy.stack([plan.numbers.choice(numpy.flatnonzero(group == c), 16) for c in y])
    return numpy.where(plan.numbers.random((plan.count, 16)) < 0.5, own, plan.numbers.integers(0, 120, (plan.count, 16))).astype("int32"), y


@recipe("classes")
def timeseries_classification(plan):
    """Convolutions over time with batch normalisation, global pooling."""
    plan.y = plan.numbers.integers(0, plan.classes, plan.count)
    time = numpy.arange(24)[None]
    plan.x = (numpy.sin(time * (0.2 + 0.25 * plan.y[:, None]) + plan.numbers.random((plan.count, 1)) * 6) + 0.2 * plan.numbers.normal(
        size=(plan.count, 24)))[..., None]
    plan.body = [part for _ in range(2) for part in (layers.Conv1D(24, 5, padding="same"), layers.BatchNormalization(momentum=0.9),
                                              layers.ReLU())]
    plan.body += [layers.GlobalAveragePooling1D()]
    plan.usual("adam", 5e-3)


@recipe("classes")
def tabular(plan):
    y = plan.numbers.integers(0, plan.classes, plan.count)
    plan.x, plan.y = 1.5 * plan.numbers.normal(size=(plan.classes, plan.width))[y] + 0.7 * plan.numbers.normal(size=(plan.count, plan.width)), y
    plan.body = [layers.Dense(plan.hidden, activation=plan.act), layers.Dropout(0.1), layers.Dense(plan.hidden, activation=plan.act)]


@recipe("two")
def sentiment_lstm(plan):
    plan.classes = 2
    plan.x, plan.y = words(plan)
    plan.body = [layers.Embedding(120, 16), layers.Bidirectional(layers.LSTM(12)), layers.Dense(16, activation="relu")]
    plan.usual("adam", 5e-3)


@recipe("two")
def structured_data(plan):
    x = plan.numbers.normal(size=(plan.count, 9))
    plan.x, plan.y = x, ((x[:, 0] + x[:, 1] * x[:, 2] - 0.7 * x[:, 3]) > 0).astype("int64")
    plan.body = [layers.Dense(plan.hidden, activation=plan.act), layers.Dense(plan.hidden, activation=plan.act), layers.Dropout(0.1)]


@recipe("values")
def housing(plan):
    x = plan.numbers.normal(size=(plan.count, 8))
    y = x[:, 0] + 0.8 * numpy.tanh(2 * x[:, 1]) - 0.6 * x[:, 2] * x[:, 3] + 0.2 * plan.numbers.normal(size=plan.count)
    plan.x, plan.y = x, (y - y.mean()) / y.std()
    plan.body = [layers.Dense(plan.hidden, activation=plan.act), layers.Dense(plan.hidden, activation=plan.act)]


@recipe("values")
def timeseries_forecasting(plan):
    time = numpy.arange(plan.count + 24)
    wave = numpy.sin(time / 5) + 0.5 * numpy.sin(time / 2.3 + 1) + 0.1 * plan.numbers.normal(size=len(time))
    plan.x, plan.y = numpy.lib.stride_tricks.sliding_window_view(wave, 24)[: plan.count, :, None].copy(), wave[24:].copy()
    plan.body = [plan.draw.choice((layers.LSTM, layers.GRU))(24)]
    plan.usual("adam", 5e-3)


@recipe("values")
def noisy_values(plan):
    """What is there to learn is a quarter of the variance."""
    x = plan.numbers.normal(size=(plan.count, 6))
    plan.x, plan.y = x, 0.5 * x[:, 0] + 0.3 * numpy.sin(2 * x[:, 1]) + 0.95 * plan.numbers.normal(size=plan.count)
    plan.body = [layers.Dense(24, activation=plan.act)]
    plan.usual("adam", 1e-3)


@recipe("other")
def convolutional_autoencoder(plan):
    x, _ = pictures(plan, 0.3)
    plan.x = plan.y = (x - x.min()) / (x.max() - x.min())
    plan.body = [layers.Conv2D(8, 3, activation="relu", padding="same"), layers.MaxPooling2D(2),
                 layers.Conv2DTranspose(8, 3, strides=2, activation="relu", padding="same")]
    plan.end = layers.Conv2D(1, 3, activation="sigmoid", padding="same")
    plan.loss = "binary_crossentropy"
    plan.usual("adam", 3e-3)


@recipe("other")
def anomaly_detection(plan):
    """An autoencoder of windows of a series, mean squared error."""
    phase = plan.numbers.random((plan.count, 1)) * 6
    plan.x = plan.y = (numpy.sin(numpy.arange(24)[None] / 3 + phase) + 0.1 * plan.numbers.normal(size=(plan.count, 24)))[..., None]
    plan.body = [layers.Conv1D(16, 5, padding="same", strides=2, activation="relu"), layers.Dropout(0.1),
                 layers.Conv1DTranspose(16, 5, padding="same", strides=2, activation="relu")]
    plan.end = layers.Conv1DTranspose(1, 5, padding="same")
    plan.loss = "mse"
    plan.usual("adam", 3e-3)


@recipe("other")
def several_labels(plan):
    x = plan.numbers.normal(size=(plan.count, 12))
    plan.x, plan.y = x, (x @ plan.numbers.normal(size=(12, 5)) > 0.5).astype("float32")
    plan.body = [layers.Dense(plan.hidden, activation=plan.act)]
    plan.end, plan.loss = layers.Dense(5, activation="sigmoid"), "binary_crossentropy"
    plan.usual("adam", 5e-3)


@recipe("other")
def text_generation(plan):
    """A causal language model: a letter follows another by a table."""
    following, letter, found = plan.numbers.integers(0, 16, (16, 2)), plan.numbers.integers(0, 16, plan.count), []
    for _ in range(13):
        found.append(letter)
        letter = following[letter, (plan.numbers.random(plan.count) < 0.25).astype(int)]
    text = numpy.stack(found, 1).astype("int32")
    plan.x, plan.y = text[:, :-1], text[:, 1:]

    def body(x):
        h = layers.Embedding(16, 24)(x)
        h = layers.LayerNormalization()(h + layers.MultiHeadAttention(2, 12)(h, h, use_causal_mask=True))
        return layers.LayerNormalization()(h + layers.Dense(24)(layers.Dense(48, activation="relu")(h)))

    plan.body, plan.end = body, layers.Dense(16)
    plan.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    plan.usual("adam", 3e-3)


class Variational(keras.Model):
    """keras-io's VAE: its own train_step, three metrics."""

    def __init__(self):
        super().__init__()
        self.a, self.mean, self.log_variance = layers.Dense(32, activation="relu"), layers.Dense(3), layers.Dense(3)
        self.b, self.c = layers.Dense(32, activation="relu"), layers.Dense(20)
        self.seed = keras.random.SeedGenerator(1)

    def call(self, x):
        h = self.a(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + ops.exp(0.5 * log_variance) * keras.random.normal(ops.shape(mean), seed=self.seed)
        self.add_loss(-0.05 * ops.mean(1 + log_variance - mean**2 - ops.exp(log_variance)))
        return self.c(self.b(z))


@recipe("other")
def variational_autoencoder(plan):
    z = plan.numbers.normal(size=(plan.count, 3))
    plan.x = plan.y = numpy.tanh(z @ plan.numbers.normal(size=(3, 20)))
    plan.whole, plan.loss = Variational, "mse"
    plan.usual("adam", 3e-3)


class Triplets(keras.Model):
    """Metric learning: the loss is of the distances within a batch."""

    def __init__(self):
        super().__init__()
        self.body = keras.Sequential([layers.Dense(48, activation="relu"), layers.Dense(12)])

    def call(self, x):
        return self.body(x)


def anchors(y_true, z):
    z = z / ops.sqrt(ops.sum(z * z, axis=1, keepdims=True) + 1e-9)
    scores = ops.matmul(z, ops.transpose(z)) / 0.3 - 1e9 * ops.eye(ops.shape(z)[0])
    same = ops.cast(ops.equal(ops.reshape(y_true, (-1, 1)), ops.reshape(y_true, (1, -1))), "float32") * (1 - ops.eye(ops.shape(z)[0]))
    return -ops.sum(same * ops.log_softmax(scores, axis=1)) / (ops.sum(same) + 1e-6)


@recipe("other")
def metric_learning(plan):
    y = plan.numbers.integers(0, 6, plan.count)
    plan.x, plan.y = 1.2 * plan.numbers.normal(size=(6, 12))[y] + 0.7 * plan.numbers.normal(size=(plan.count, 12)), y
    plan.whole, plan.loss = Triplets, anchors
    plan.usual("adam", 3e-3)


# ---- mistakes -------------------------------------------------------------------------------------------

mistake("softmax_twice", "redundant_softmax", "classes")
mistake("cross_entropy_of_logits", "missing_output_activation", "classes")
mistake("binary_cross_entropy_of_logits", "missing_output_activation", "two")
mistake("sigmoid_twice", "redundant_softmax", "two")
mistake("softmax_of_one_unit", "wrong_output_activation", "two")
mistake("relu_before_the_loss", "wrong_output_activation", "classes")
mistake("values_through_relu", "wrong_output_activation", "values")
mistake("values_through_sigmoid", "wrong_output_activation", "values")
mistake("values_times_10000", "unscaled_targets", "values", but=("noisy_values",))
mistake("broadcast", "broadcast_in_loss", "values", but=("noisy_values",))
mistake("labels_random", "bad_labels labels_shuffled", "classes")
mistake("labels_shifted", "bad_labels labels_shuffled", "classes")
mistake("targets_permuted", "bad_labels labels_shuffled", "values", but=("noisy_values",))
mistake("validation_labels_off_by_one", "bad_labels", "classes")
mistake("sorted_data", "unshuffled_data", "classes")
mistake("leaked_data", "data_leak", "classes two values", but=("sentiment_lstm", "text_classification_with_transformer"))
mistake("one_row_is_nan", "nonfinite_input", but=("text_generation", "sentiment_lstm", "text_classification_with_transformer"))
mistake("one_target_is_nan", "nonfinite_label", "values")
mistake("log_of_zero", "division_by_zero overflow nan_loss inf_loss", "classes")
mistake("rate_times_100", "learning_rate_too_high", but=("noisy_values",))
mistake("rate_through_1000", "learning_rate_too_low", but=("noisy_values",))
mistake("divided_loss", "learning_rate_too_low", but=("noisy_values",))
mistake("constant_weights", "bad_initialization", "classes two values", but=("noisy_values",))
mistake("huge_weights", "bad_initialization", "classes two values", but=("noisy_values",))
mistake("frozen_by_mistake", "untrained_frozen parameter_without_optimizer", "classes two values", but=("noisy_values", "timeseries_forecasting"))
mistake("adam_with_epsilon_one", "wrong_optimizer learning_rate_too_low", but=("noisy_values",))
mistake("strong_clipping", "clip_too_small clipping_always learning_rate_too_low", but=("noisy_values",))
mistake("strong_dropout", "dropout_too_high", "classes two")
mistake("scaled_twice", "unscaled_inputs", "classes two", but=("sentiment_lstm", "text_classification_with_transformer"))

MILD = ("rate_times_100", "rate_through_1000", "huge_weights", "strong_clipping", "strong_dropout", "divided_loss", "adam_with_epsilon_one",
        "values_times_10000", "constant_weights", "frozen_by_mistake", "scaled_twice")


class SquaredDifference(keras.losses.Loss):
    """As people write it: nothing brings the shapes together."""

    def call(self, y_true, y_pred):
        return ops.mean(ops.square(y_pred - y_true), axis=-1)


def log_of_shares(y_true, y_pred):
    shares = ops.softmax(y_pred * 300.0)
    return -ops.mean(ops.sum(ops.one_hot(ops.cast(ops.reshape(y_true, (-1,)), "int32"), y_pred.shape[-1]) * ops.log(shares), axis=-1))


class Plan:
    def __init__(self, seed, task=None, mistake=None):
        self.draw = draw = random.Random(seed)
        keras.utils.set_random_seed(seed)
        self.numbers, self.mistake = numpy.random.default_rng(seed), mistake
        self.task = task or draw.choice(MISTAKES[mistake][1] if mistake else sorted(RECIPES))
        self.kind_of_task = RECIPES[self.task][0]
        self.count, self.classes = draw.choice((384, 512)), draw.choice((3, 4, 6))
        self.width, self.hidden = draw.choice((8, 12)), draw.choice((32, 48))
        self.act = draw.choice(("relu", "tanh", "gelu"))
        self.batch, self.epochs = draw.choice((16, 32)), draw.choice((6, 10))
        self.kind = draw.choice(("adam", "momentum", "sgd", "rmsprop"))
        self.of_logits, self.is_text = draw.random() < 0.5, draw.random() < 0.5
        self.validates = draw.random() < 0.6
        self.rate = self.loss = self.end = self.whole = None
        RECIPES[self.task][1](self)
        if self.is_("adam_with_epsilon_one"):
            self.kind, self.rate = "adam", None
        self.rate = self.rate or {"adam": 3e-3, "sgd": 0.1, "momentum": 0.02, "rmsprop": 1e-3}[self.kind]
        self.rate *= draw.uniform(0.7, 1.3)
        if self.is_("softmax_twice", "sigmoid_twice"):
            self.of_logits = True
        if self.is_("cross_entropy_of_logits", "binary_cross_entropy_of_logits", "softmax_of_one_unit"):
            self.of_logits = False
        if self.is_("log_of_zero"):
            self.of_logits = True
        self.plant_in_data()

    def is_(self, *names):
        return self.mistake in names

    def usual(self, kind, rate):
        self.kind, self.rate = kind, rate

    def plant_in_data(self):
        rows, numbers = self.count * 4 // 5, self.numbers
        x = self.x if self.x.dtype.kind == "i" else self.x.astype("float32")
        y = self.y if self.y.dtype.kind == "i" else self.y.astype("float32")
        (x, xv), (y, yv) = ((part[:rows].copy(), part[rows:].copy()) for part in (x, y))
        if self.is_("labels_random"):
            y = numbers.integers(0, self.classes, rows)
        elif self.is_("labels_shifted"):
            y = numpy.roll(y, 1)
        elif self.is_("targets_permuted"):
            y = numbers.permutation(y)
        elif self.is_("validation_labels_off_by_one"):
            yv, self.validates = (yv + 1) % self.classes, True
        elif self.is_("sorted_data"):
            order = y.argsort(kind="stable")
            x, y = x[order], y[order]
        elif self.is_("leaked_data"):
            some, self.validates = len(xv) * 3 // 4, True
            xv[:some], yv[:some] = x[:some], y[:some]
        elif self.is_("one_row_is_nan"):
            x.reshape(rows, -1)[self.draw.randrange(rows), 0] = numpy.nan
        elif self.is_("one_target_is_nan"):
            y[self.draw.randrange(rows)] = numpy.nan
        elif self.is_("values_times_10000"):
            y, yv = y * 1e4, yv * 1e4
        elif self.is_("scaled_twice"):
            factor = self.draw.choice((1 / 255, 255.0))
            x, xv = x * numpy.float32(factor), xv * numpy.float32(factor)
        self.x, self.y, self.check = x, y, (xv, yv)

    def last(self):
        if self.end is not None:
            return self.end
        ends = {"softmax_twice": "softmax", "sigmoid_twice": "sigmoid", "cross_entropy_of_logits": None, "softmax_of_one_unit": "softmax",
                "binary_cross_entropy_of_logits": None, "relu_before_the_loss": "relu", "values_through_relu": "relu",
                "values_through_sigmoid": "sigmoid"}
        usual = None if self.kind_of_task == "values" or self.of_logits else "sigmoid" if self.kind_of_task == "two" else "softmax"
        return layers.Dense(self.classes if self.kind_of_task == "classes" else 1, activation=ends.get(self.mistake, usual))

    def objective(self):
        if self.loss is not None:
            return self.loss
        if self.kind_of_task == "values":
            return SquaredDifference() if self.is_("broadcast") else self.draw.choice(("mse", "mean_squared_error", "huber"))
        if self.is_("log_of_zero"):
            return log_of_shares
        if self.kind_of_task == "two":
            return keras.losses.BinaryCrossentropy(from_logits=self.of_logits)
        if self.is_text and not self.of_logits:
            return "sparse_categorical_crossentropy"
        return keras.losses.SparseCategoricalCrossentropy(from_logits=self.of_logits)

    def network(self):
        if self.whole:
            return self.whole()
        end = self.last()
        if callable(self.body):
            inputs = keras.Input(self.x.shape[1:], dtype=self.x.dtype)
            return keras.Model(inputs, end(self.body(inputs)))
        body = list(self.body)
        if self.is_("strong_dropout"):
            body = [part for part in body if not isinstance(part, layers.Dropout)] + [layers.Dropout(0.95)]
        return keras.Sequential([keras.Input(self.x.shape[1:], dtype=self.x.dtype), *body, end])

    def plant_in_model(self, model):
        kernels = [layer for layer in model._flatten_layers(include_self=False)
                   if isinstance(layer, (layers.Dense, layers.Conv2D, layers.Conv1D)) and layer.built and len(layer.kernel.shape) > 1]
        if self.is_("constant_weights", "huge_weights"):
            for layer in kernels:
                shape = layer.kernel.shape
                layer.kernel.assign(numpy.full(shape, 0.02) if self.is_("constant_weights") else self.numbers.normal(size=shape) * 3)
        if self.is_("frozen_by_mistake") and len(kernels) > 1:
            kernels[len(kernels) // 2 - (len(kernels) == 2)].trainable = False

    def optimizer(self):
        rate = self.rate * (100 if self.is_("rate_times_100") else 1e-3 if self.is_("rate_through_1000") else 1)
        clip = {"clipnorm": 1e-6} if self.is_("strong_clipping") else {}
        if self.kind == "adam":
            return keras.optimizers.Adam(rate, epsilon=1.0 if self.is_("adam_with_epsilon_one") else 1e-7, **clip)
        if self.kind == "rmsprop":
            return keras.optimizers.RMSprop(rate, **clip)
        return keras.optimizers.SGD(rate, momentum=0.9 if self.kind == "momentum" else 0.0, **clip)

    def train(self, folder):
        model = self.network()
        self.plant_in_model(model)
        weights = {"loss_weights": [1 / 3000]} if self.is_("divided_loss") else {}
        metrics = ["accuracy"] if self.kind_of_task in ("classes", "two") else []
        model.compile(self.optimizer(), self.objective(), **weights, metrics=metrics)
        recorder = tapedeck.Recorder(folder, every=10, form="stats")
        done = model.fit(self.x, self.y, batch_size=self.batch, epochs=self.epochs, shuffle=not self.is_("sorted_data"), verbose=0,
                         validation_data=self.check if self.validates else None, callbacks=[recorder])
        self.losses = done.history["loss"]
        keras.backend.clear_session()
        return recorder.folder
