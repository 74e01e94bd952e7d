"""Keras trainings drawn at random, each healthy or with one mistake planted; as torch_cases.py has them for PyTorch."""

import random

import keras
import numpy
from keras import layers

import tapedeck

MISTAKES = {}
MILD = ("rate_times_100", "rate_through_1000", "unscaled_inputs", "huge_weights", "weight_decay_one", "summed_loss")  # may do no harm
ALL = ("classes", "images", "values", "sequences")


def mistake(name, causes, tasks=("classes", "images")):
    MISTAKES[name] = (causes.split(), tasks)


mistake("softmax_twice", "redundant_softmax")
mistake("sigmoid_then_cross_entropy", "redundant_softmax wrong_output_activation")
mistake("cross_entropy_of_logits", "missing_output_activation")
mistake("binary_cross_entropy_of_logits", "missing_output_activation", ("two",))
mistake("sigmoid_twice", "redundant_softmax", ("two",))
mistake("softmax_of_one_unit", "wrong_output_activation", ("two",))
mistake("softmax_over_the_batch", "wrong_output_activation", ("classes",))
mistake("relu_before_the_loss", "wrong_output_activation")
mistake("regression_through_relu", "wrong_output_activation", ("values",))
mistake("regression_through_sigmoid", "wrong_output_activation", ("values",))
mistake("summed_loss", "learning_rate_too_high", ("values", "classes"))
mistake("divided_loss", "learning_rate_too_low", ("classes", "images"))
mistake("labels_random", "bad_labels labels_shuffled")
mistake("labels_shifted", "bad_labels labels_shuffled")
mistake("validation_labels_off_by_one", "bad_labels")
mistake("sorted_data", "unshuffled_data")
mistake("leaked_data", "data_leak", ("classes", "images", "values"))
mistake("one_row_is_nan", "nonfinite_input", ("classes", "images", "values"))
mistake("one_target_is_nan", "nonfinite_label", ("values",))
mistake("rate_times_100", "learning_rate_too_high", ALL)
mistake("rate_through_1000", "learning_rate_too_low", ALL)
mistake("forgotten_activation", "missing_activation", ("classes", "values"))
mistake("constant_weights", "bad_initialization", ("classes", "images"))
mistake("huge_weights", "bad_initialization", ("classes", "images"))
mistake("frozen_by_mistake", "untrained_frozen parameter_without_optimizer", ("classes", "images"))
mistake("adam_with_epsilon_one", "wrong_optimizer learning_rate_too_low", ("classes", "images"))
mistake("weight_decay_one", "over_regularization", ("classes",))
mistake("exploding_recurrence", "bad_initialization exploding_gradient learning_rate_too_high", ("sequences",))
mistake("unscaled_inputs", "unscaled_inputs", ("classes",))


class Plan:
    def __init__(self, seed, task=None, mistake=None):
        self.draw = draw = random.Random(seed)
        keras.utils.set_random_seed(seed)
        self.numbers = numpy.random.default_rng(seed)
        self.mistake = mistake
        self.task = task or draw.choice(MISTAKES[mistake][1] if mistake else ALL)
        self.classes = 2 if self.task == "two" else draw.choice((3, 4, 6, 10))
        self.rows = draw.choice((320, 480, 640))
        self.width = draw.choice((6, 10, 16))
        self.hidden = draw.choice((24, 32, 64))
        self.depth = draw.choice((2, 3))
        self.activation = draw.choice(("relu", "tanh", "gelu", "elu"))
        self.batch = draw.choice((16, 32))
        self.epochs = draw.choice((6, 8, 10))
        self.kind = draw.choice(("adam", "adam", "sgd", "momentum", "rmsprop"))
        self.is_functional = draw.random() < 0.5
        self.is_one_hot = draw.random() < 0.4
        self.of_logits = draw.random() < 0.5
        self.validates = draw.random() < 0.7 or mistake in ("validation_labels_off_by_one", "leaked_data")
        self.noise = draw.uniform(0.6, 1.0)
        if mistake == "adam_with_epsilon_one":
            self.kind = "adam"
        if mistake in ("summed_loss", "divided_loss", "unscaled_inputs"):
            self.kind = draw.choice(("sgd", "momentum"))
        if mistake in ("softmax_twice", "sigmoid_then_cross_entropy", "sigmoid_twice"):
            self.of_logits = True
        if mistake in ("cross_entropy_of_logits", "binary_cross_entropy_of_logits", "softmax_of_one_unit", "softmax_over_the_batch"):
            self.of_logits = False
        self.rate = {"adam": 3e-3, "sgd": 0.1, "momentum": 0.03, "rmsprop": 1e-3}[self.kind] * draw.uniform(0.7, 1.3)
        if self.task == "values":
            self.rate *= 0.5

    def is_(self, *names):
        return self.mistake in names

    def data(self):
        count, numbers = self.rows * 5 // 4, self.numbers
        if self.task == "values":
            x = numbers.normal(size=(count, self.width))
            y = 1.5 * numpy.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] - x[:, 3] + 0.1 * numbers.normal(size=count)
            y = y.astype("float32")
        else:
            y = numbers.integers(0, self.classes, count)
            if self.task == "images":
                x = numbers.normal(size=(self.classes, 8, 8, 1))[y] + self.noise * numbers.normal(size=(count, 8, 8, 1))
            elif self.task == "sequences":
                x = numpy.sin(numpy.arange(12)[None] * (0.3 + 0.35 * y[:, None]))[..., None] + 0.2 * numbers.normal(size=(count, 12, 1))
            else:
                x = 1.6 * numbers.normal(size=(self.classes, self.width))[y] + self.noise * numbers.normal(size=(count, self.width))
        return x.astype("float32"), y

    def plant_in_data(self, x, y):
        rows = self.rows
        x, y, xv, yv = x[:rows].copy(), y[:rows].copy(), x[rows:].copy(), y[rows:].copy()
        if self.is_("labels_random"):
            y = self.numbers.integers(0, self.classes, rows)
        elif self.is_("labels_shifted"):
            y = numpy.roll(y, 1)
        elif self.is_("validation_labels_off_by_one"):
            yv = (yv + 1) % self.classes
        elif self.is_("sorted_data"):
            order = y.argsort(kind="stable")
            x, y = x[order], y[order]
        elif self.is_("leaked_data"):
            some = int(len(xv) * self.draw.choice((0.3, 0.6, 1.0)))
            xv[:some], yv[:some] = x[:some], y[:some]
        elif self.is_("one_row_is_nan"):
            x.reshape(rows, -1)[self.draw.randrange(rows), 3] = numpy.nan
        elif self.is_("one_target_is_nan"):
            y[self.draw.randrange(rows)] = numpy.nan
        elif self.is_("unscaled_inputs"):
            x, xv = x * 120, xv * 120
        if self.is_one_hot and self.task not in ("values", "two"):
            y, yv = (keras.utils.to_categorical(v, self.classes) for v in (y, yv))
        return (x, y), (xv, yv)

    def end(self):
        """The activation behind the last layer."""
        ends = {"softmax_twice": "softmax", "sigmoid_then_cross_entropy": "sigmoid", "cross_entropy_of_logits": None,
                "binary_cross_entropy_of_logits": None, "sigmoid_twice": "sigmoid", "softmax_of_one_unit": "softmax",
                "relu_before_the_loss": "relu", "regression_through_relu": "relu", "regression_through_sigmoid": "sigmoid"}
        if self.mistake in ends:
            return ends[self.mistake]
        if self.task == "values" or self.of_logits:
            return None
        return "sigmoid" if self.task == "two" else "softmax"

    def layers(self):
        outputs = 1 if self.task in ("values", "two") else self.classes
        act = None if self.is_("forgotten_activation") else self.activation
        initial = {"constant_weights": keras.initializers.Constant(0.05), "huge_weights": keras.initializers.RandomNormal(stddev=3)}
        start = {"kernel_initializer": initial[self.mistake]} if self.mistake in initial else {}
        if self.task == "images":
            body = [layers.Conv2D(8, 3, padding="same", **start), layers.BatchNormalization(), layers.Activation(self.activation),
                    layers.Conv2D(16, 3, strides=2, activation=self.activation, **start), layers.Flatten(), layers.Dropout(0.1),
                    layers.Dense(self.hidden, activation=self.activation, **start)]
        elif self.task == "sequences":
            if self.is_("exploding_recurrence"):
                body = [layers.SimpleRNN(self.hidden, activation="relu",
                                         recurrent_initializer=keras.initializers.RandomNormal(stddev=6 / self.hidden ** 0.5))]
            else:
                body = [self.draw.choice((layers.GRU, layers.LSTM))(self.hidden)]
        else:
            body = [layers.Dense(self.hidden, activation=act, **start) for _ in range(self.depth)]
        if self.is_("frozen_by_mistake"):
            [layer for layer in body if isinstance(layer, (layers.Dense, layers.Conv2D))][1].trainable = False
        if self.is_("softmax_over_the_batch"):
            return body + [layers.Dense(outputs, **start), layers.Softmax(axis=0)]
        return body + [layers.Dense(outputs, activation=self.end(), **start)]

    def network(self, shape):
        parts = self.layers()
        if not self.is_functional:
            return keras.Sequential([keras.Input(shape), *parts])
        value = inputs = keras.Input(shape)
        for part in parts:
            value = part(value)
        return keras.Model(inputs, value)

    def loss(self):
        reduction = {"reduction": "sum"} if self.is_("summed_loss") else {}
        if self.task == "values":
            return keras.losses.MeanSquaredError(**reduction)
        if self.task == "two":
            return keras.losses.BinaryCrossentropy(from_logits=self.of_logits, **reduction)
        kind = keras.losses.CategoricalCrossentropy if self.is_one_hot else keras.losses.SparseCategoricalCrossentropy
        of_logits = self.of_logits and not (self.is_("relu_before_the_loss") and self.draw.random() < 0.5)
        return kind(from_logits=of_logits, **reduction)

    def optimizer(self):
        rate = self.rate * (100 if self.is_("rate_times_100") else 1e-3 if self.is_("rate_through_1000") else 1)
        decay = {"weight_decay": 1.0} if self.is_("weight_decay_one") else {}
        if self.is_("weight_decay_one"):
            return keras.optimizers.SGD(0.1, **decay)
        if self.kind == "adam":
            return keras.optimizers.Adam(rate, epsilon=1.0 if self.is_("adam_with_epsilon_one") else 1e-7)
        if self.kind == "rmsprop":
            return keras.optimizers.RMSprop(rate)
        return keras.optimizers.SGD(rate, momentum=0.9 if self.kind == "momentum" else 0.0)

    def train(self, folder):
        (x, y), check = self.plant_in_data(*self.data())
        model = self.network(x.shape[1:])
        weights = {"loss_weights": [1 / 3000]} if self.is_("divided_loss") else {}
        model.compile(self.optimizer(), self.loss(), **weights, metrics=["accuracy"] if self.task != "values" else [])
        recorder = tapedeck.Recorder(folder, every=10, form="stats")
        done = model.fit(x, y, batch_size=self.batch, epochs=self.epochs, shuffle=not self.is_("sorted_data"), verbose=0,
                  validation_data=check if self.validates else None, callbacks=[recorder])
        self.losses = done.history["loss"]
        keras.backend.clear_session()
        return recorder.folder
