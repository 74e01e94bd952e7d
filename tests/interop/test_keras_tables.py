"""Every loss and every optimizer that the program lists, with each of its options, against Keras's own.

Losses are of predictions that are given, by a layer that changes nothing: their value in each batch, the short last
one included, and their gradient. Optimizers take 20 steps down a bowl, from the same point.
"""
import json
import os
import shutil
import sys
import unittest

import keras
import numpy
import tensorflow

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case, SOURCE  # noqa: E402

NUMBERS = numpy.random.default_rng(13)
EXAMPLES, BATCH, STEPS, OUTPUTS = 20, 8, 20, 4
TOLERANCE = 1e-5


def close(case, ours, theirs, what):
    ours, theirs = numpy.asarray(ours, "float64"), numpy.asarray(theirs, "float64")
    case.assertEqual(ours.shape, theirs.shape, what)
    case.assertTrue(numpy.isfinite(theirs).all(), what)
    worst, scale = numpy.abs(ours - theirs).max(), numpy.abs(theirs).max()
    case.assertLessEqual(worst, TOLERANCE * max(scale, 1e-3), f"{what}: differs by {worst:.2e} of {scale:.2e}")


def options_text(options):
    return json.dumps(options)  # as YAML reads it


def listed(case, catalog):
    return {row["name"]: row for row in json.loads(case.run_program(catalog, "--json").stdout)}


class Table(Case):
    def options_are_all_tried(self, catalog, tried, without=()):
        """tried: name -> the options that a row of the table gives it."""
        for name, row in listed(self, catalog).items():
            names = {option["name"] for option in row["options"]} - set(without)
            self.assertLessEqual(names, tried.get(name, set()), name)


# --- losses -------------------------------------------------------------------------------------

REAL = NUMBERS.standard_normal((EXAMPLES, OUTPUTS)).astype("float32")
TRUTH = NUMBERS.standard_normal((EXAMPLES, OUTPUTS)).astype("float32")
SHARES = numpy.exp(TRUTH) / numpy.exp(TRUTH).sum(-1, keepdims=True)
ESTIMATES = numpy.exp(REAL) / numpy.exp(REAL).sum(-1, keepdims=True)
CLASSES = NUMBERS.integers(0, OUTPUTS, EXAMPLES).astype("int32")
ONE_HOT = numpy.eye(OUTPUTS, dtype="float32")[CLASSES]
BITS = (TRUTH > 0).astype("float32")
WEIGHTS = NUMBERS.uniform(0, 3, EXAMPLES).astype("float32")
WEIGHTS[3] = 0

# Of each loss: (predictions, truth, options), ours and Keras's being of one name but for those of SPELT.
ENTROPY = ((ESTIMATES, {}), (REAL, {"from_logits": True}))
LOSSES = {
    "mse": [(REAL, TRUTH, {})],
    "mae": [(REAL, TRUTH, {})],
    "mape": [(REAL, TRUTH, {})],
    "msle": [(numpy.abs(REAL), numpy.abs(TRUTH), {}), (REAL, TRUTH, {})],
    "log_cosh": [(REAL, TRUTH, {}), (40 * REAL, TRUTH, {})],
    "huber": [(REAL, TRUTH, {}), (REAL, TRUTH, {"delta": 0.4}), (REAL, TRUTH, {"delta": 3})],
    "poisson": [(ESTIMATES, SHARES, {}), (3 * ESTIMATES, numpy.round(5 * SHARES), {})],
    "kl_divergence": [(ESTIMATES, SHARES, {}), (ESTIMATES, ONE_HOT, {})],
    "hinge": [(REAL, 2 * BITS - 1, {}), (REAL, BITS, {})],
    "squared_hinge": [(REAL, 2 * BITS - 1, {}), (REAL, BITS, {})],
    "categorical_hinge": [(REAL, ONE_HOT, {})],
    "cosine_similarity": [(REAL, TRUTH, {})],
    "binary_crossentropy": [(p, BITS, {**more, **options}) for p, more in ENTROPY
                            for options in ({}, {"label_smoothing": 0.2}, {"label_smoothing": 1})],
    "categorical_crossentropy": [(p, t, {**more, **options}) for p, more in ENTROPY for t in (ONE_HOT, SHARES)
                                 for options in ({}, {"label_smoothing": 0.2})]
    + [(numpy.abs(REAL) + 0.1, ONE_HOT, {})],  # rows whose sum is not 1 are divided by it
    "sparse_categorical_crossentropy": [(p, CLASSES, more) for p, more in ENTROPY],
    "binary_focal_crossentropy": [
        (p, BITS, {**more, **options}) for p, more in ENTROPY
        for options in ({}, {"gamma": 0.5}, {"gamma": 0}, {"balanced": True}, {"alpha": 0.7, "balanced": True})],
    "categorical_focal_crossentropy": [(p, ONE_HOT, {**more, **options}) for p, more in ENTROPY
                                       for options in ({}, {"gamma": 3}, {"gamma": 0}, {"alpha": 0.6})],
}
SPELT = {"balanced": "apply_class_balancing"}


class Losses(Table):
    def table(self):
        names = listed(self, "losses")
        for name, rows in LOSSES.items():
            kind = getattr(keras.losses, names[name]["keras"])
            for predictions, truth, options in rows:
                yield name, predictions, truth, options, kind(
                    **{SPELT.get(key, key): value for key, value in options.items()})

    def data(self, predictions, truth, weights):
        truth = truth.reshape(EXAMPLES, -1)
        names = [f"p{i}" for i in range(predictions.shape[1])] + [f"t{i}" for i in range(truth.shape[1])] + ["w"]
        rows = numpy.concatenate([predictions, truth, numpy.ones((EXAMPLES, 1)) if weights is None
                                  else weights[:, None]], 1)
        with open(self.path("data.csv"), "w", encoding="utf-8") as file:
            file.write(",".join(names) + "\n")
            file.writelines(",".join(f"{value:.9g}" for value in row) + "\n" for row in rows)
        labels = [name for name in names if name[0] == "t"]
        return "label: " + (labels[0] if len(labels) == 1 else f"[{', '.join(labels)}]") + ", weight: w"

    def ours(self, name, options, data, outputs=OUTPUTS):
        shutil.rmtree(self.path("runs"), ignore_errors=True)
        self.train(f"""
name: t
threads: 1
data: {{{data}, batch: {BATCH}, shuffle: false}}
model:
  - dense: {{name: it, units: {outputs}, use_bias: false, kernel_initializer: identity}}
train:
  loss: {{{name}: {options_text(options)}}}
  epochs: 1
  optimizer: {{sgd: {{learning_rate: 0}}}}
record:
  - {{what: loss, to: [csv]}}
  - {{what: it.error, at: [1, 2], form: tensor, to: [npy]}}
""", "--quiet")
        rows = numpy.genfromtxt(self.path("runs", "t", "metrics.csv"), delimiter=",", names=True)
        return rows["loss"], numpy.load(self.path("runs", "t", "it.error.npy"))

    def check(self, what, loss, predictions, truth, weights, ours):
        values, errors = ours
        for step, first in enumerate(range(0, EXAMPLES, BATCH)):
            part = slice(first, first + BATCH)
            p = tensorflow.constant(predictions[part].astype("float32"))
            with tensorflow.GradientTape() as tape:
                tape.watch(p)
                value = loss(truth[part], p, sample_weight=None if weights is None else weights[part])
            close(self, values[step], value, f"{what}: batch {step}")
            if step < 2:
                close(self, errors[step], tape.gradient(value, p), f"{what}: gradient of batch {step}")

    def test_every_loss_with_every_option_and_weights(self):
        for name, predictions, truth, options, loss in self.table():
            for weights in (None, WEIGHTS):
                what = f"{name} {options}{' weighted' if weights is not None else ''}"
                with self.subTest(what):
                    data = "train: data.csv, " + self.data(predictions, truth, weights)
                    self.check(what, loss, predictions, truth, weights, self.ours(name, options, data))

    def test_class_weights(self):
        """As fit(class_weight=…) makes them weights of examples."""
        weights = {0: 0.5, 1: 2.0, 2: 0.0, 3: 1.25}
        data = (f"train: data.csv, class_weight: {options_text({str(k): v for k, v in weights.items()})}, "
                + self.data(ESTIMATES, CLASSES, None))
        of_examples = numpy.array([weights[int(c)] for c in CLASSES], "float32")
        name = "sparse_categorical_crossentropy"
        self.check("class_weight", keras.losses.SparseCategoricalCrossentropy(), ESTIMATES, CLASSES, of_examples,
                   self.ours(name, {}, data))

    def test_losses_of_steps(self):
        """Predictions of rank 3: the mean is over examples and steps."""
        for name, predictions, truth, options, loss in self.table():
            with self.subTest(name, **options):
                turned = [numpy.stack([a, numpy.roll(a, 3, 0), numpy.roll(a, 7, 0)], 1)
                          for a in (predictions, truth)]
                numpy.savez(self.path("data.npz"), x=turned[0].astype("float32"), y=turned[1])
                self.check(f"{name} {options} of steps", loss, *turned, None,
                           self.ours(name, options, "train: data.npz, label: {x: x, y: y}"))

    def test_the_table_is_complete(self):
        self.assertEqual(set(LOSSES), set(listed(self, "losses")))
        self.options_are_all_tried("losses", {name: {key for row in rows for key in row[2]}
                                              for name, rows in LOSSES.items()})


# --- optimizers ---------------------------------------------------------------------------------

# Of each optimizer: options, the same here and in Keras.
MOMENTS = ({}, {"beta_1": 0.5}, {"beta_1": 0, "epsilon": 0.01}, {"beta_2": 0.9}, {"epsilon": 0.01}, {"weight_decay": 0.2})
OPTIMIZERS = {
    "sgd": ({}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.2},
            {"momentum": 0.5, "weight_decay": 0.2}),
    "adam": (*MOMENTS, {"amsgrad": True}, {"amsgrad": True, "beta_2": 0.5, "weight_decay": 0.1}),
    "adamw": (*MOMENTS, {"weight_decay": 0}, {"amsgrad": True, "beta_2": 0.5}),
    "adamax": MOMENTS,
    "nadam": MOMENTS,
    "rmsprop": ({}, {"rho": 0.5}, {"momentum": 0.7}, {"epsilon": 0.01}, {"weight_decay": 0.2},
                {"centered": True, "epsilon": 1e-3}, {"centered": True, "momentum": 0.7, "epsilon": 1e-3}),
    "adagrad": ({}, {"initial_accumulator_value": 0.5}, {"initial_accumulator_value": 0}, {"epsilon": 0.01},
                {"weight_decay": 0.2}),
    "adadelta": ({}, {"rho": 0.5}, {"epsilon": 0.01}, {"weight_decay": 0.2}),
    "lion": ({}, {"beta_1": 0.5}, {"beta_2": 0.5}, {"weight_decay": 0.2}),
}
RATES = {"sgd": 0.05, "adadelta": 0.5, "adagrad": 0.05}
CLIPS = (({}, {}), ({"clip_norm": 0.3}, {"global_clipnorm": 0.3}), ({"clip_value": 0.1}, {"clipvalue": 0.1}))


class Optimizers(Table):
    X = NUMBERS.standard_normal((EXAMPLES, 5)).astype("float32")
    Y = NUMBERS.standard_normal((EXAMPLES, 3)).astype("float32")
    START = {"it.kernel": NUMBERS.standard_normal((5, 3)).astype("float32"),
             "it.bias": NUMBERS.standard_normal(3).astype("float32")}

    def ours(self, name, options, clip):
        shutil.rmtree(self.path("runs"), ignore_errors=True)
        numpy.savez(self.path("data.npz"), x=self.X, y=self.Y)
        numpy.savez(self.path("start.npz"), **self.START)
        self.train(f"""
name: t
threads: 1
data: {{train: data.npz, label: {{x: x, y: y}}, batch: {EXAMPLES}, shuffle: false}}
model:
  - dense: {{name: it, units: 3}}
weights: start.npz
train:
  loss: mse
  steps: {STEPS}
  optimizer: {{{name}: {options_text(options)}}}
""" + "".join(f"  {key}: {value}\n" for key, value in clip.items()), "--quiet")
        self.run_program("weights", self.path("runs", "t"), "--to", self.path("end.npz"))
        return numpy.load(self.path("end.npz"))

    def theirs(self, optimizer):
        kernel, bias = (keras.Variable(value) for value in self.START.values())
        for _ in range(STEPS):
            error = 2 * (self.X @ kernel.numpy() + bias.numpy() - self.Y) / self.Y.size
            optimizer.apply([tensorflow.constant(g.astype("float32")) for g in (self.X.T @ error, error.sum(0))],
                            [kernel, bias])
        return {"it.kernel": kernel.numpy(), "it.bias": bias.numpy()}

    def test_every_optimizer_with_every_option_and_clipping(self):
        names = listed(self, "optimizers")
        for name, rows in OPTIMIZERS.items():
            kind = getattr(keras.optimizers, names[name]["keras"])
            for options in rows:
                for ours, theirs in CLIPS if options == rows[-1] or not options else CLIPS[:1]:
                    given = {"learning_rate": RATES.get(name, 0.01), **options}
                    with self.subTest(name, **given, **ours):
                        ends = self.ours(name, given, ours)
                        for key, value in self.theirs(kind(**given, **theirs)).items():
                            self.assertGreater(numpy.abs(value - self.START[key]).max(), 1e-3)
                            close(self, ends[key], value, f"{name} {given} {ours}: {key}")

    def test_the_table_is_complete(self):
        aliases = {"initial_accumulator_value": "initial_accumulator"}
        self.assertEqual(set(OPTIMIZERS), set(listed(self, "optimizers")))
        self.options_are_all_tried("optimizers", {
            name: {aliases.get(key, key) for options in rows for key in options}
            for name, rows in OPTIMIZERS.items()}, without=("learning_rate",))


# Of what Keras has, names that are no loss, optimizer or activation, or another name of one.
BESIDE = {"Loss", "Optimizer", "LossScaleOptimizer", "MultiOptimizer", "OptimizerMap", "deserialize", "get",
          "serialize", "hard_swish", "swish"}


class Names(Table):
    def test_keras_has_what_the_lists_say(self):
        for catalog, module in (("losses", keras.losses), ("metrics", keras.metrics),
                                ("optimizers", keras.optimizers), ("schedules", keras.optimizers.schedules),
                                ("initializers", keras.initializers), ("activations", keras.activations),
                                ("layers", keras.layers)):
            for name, row in listed(self, catalog).items():
                if row["keras"] is not None:
                    self.assertTrue(hasattr(module, row["keras"].split("(")[0]), f"{name}: {row['keras']}")

    def test_what_is_missing_is_said(self):
        with open(os.path.join(SOURCE, "docs", "experiment.md"), encoding="utf-8") as file:
            text = file.read()
        for catalog, module, capital in (("losses", keras.losses, True), ("optimizers", keras.optimizers, True),
                                         ("activations", keras.activations, False)):
            there = {row["keras"] for row in listed(self, catalog).values()} | BESIDE
            for name in dir(module):
                if name[0] != "_" and name[0].isupper() == capital and name not in there and name != "schedules":
                    self.assertRegex(text, rf"\b{name}\b", f"of {catalog}")


if __name__ == "__main__":
    unittest.main()
