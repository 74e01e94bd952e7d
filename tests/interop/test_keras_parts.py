"""The parts of a training against Keras's own, live: initialisers, metrics, schedules, losses, optimizers."""
import os
import shutil
import sys
import unittest

import keras
import numpy
from keras import initializers, layers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402


def random(*shape, seed=0):
    return numpy.random.default_rng(seed + sum(shape)).standard_normal(shape).astype("float32")


class Parts(Case):
    def setUp(self):
        super().setUp()
        keras.backend.clear_session()
        keras.utils.set_random_seed(2)

    def data(self, x, y, name="data.npz"):
        numpy.savez(self.path(name), x=x, y=y)
        return f"data: {{train: {name}, label: {{x: x, y: y}}, batch: 8, shuffle: false}}\n"

    def weights(self, run="t"):
        self.run_program("weights", self.path("runs", run), "--to", self.path("w.npz"))
        return numpy.load(self.path("w.npz"))


INITIALIZERS = {
    "{random_normal: {mean: 1, stddev: 0.5}}": initializers.RandomNormal(1.0, 0.5),
    "{truncated_normal: {mean: -1, stddev: 0.5, seed: 4}}": initializers.TruncatedNormal(-1.0, 0.5, seed=4),
    "{random_uniform: {minval: 1, maxval: 3}}": initializers.RandomUniform(1.0, 3.0),
    "{variance_scaling: {scale: 2, mode: fan_out, distribution: uniform}}":
        initializers.VarianceScaling(2.0, "fan_out", "uniform"),
    "{variance_scaling: {mode: fan_avg, distribution: untruncated_normal}}":
        initializers.VarianceScaling(1.0, "fan_avg", "untruncated_normal"),
    "variance_scaling": initializers.VarianceScaling(),
    "{orthogonal: {gain: 0.5}}": initializers.Orthogonal(0.5),
    "{identity: {gain: 3}}": initializers.Identity(3.0),
    "{constant: {value: -0.25}}": initializers.Constant(-0.25),
    "he_normal": initializers.HeNormal(),
    "{glorot_normal: {seed: 0}}": initializers.GlorotNormal(seed=0),
    "lecun_uniform": initializers.LecunUniform(),
}


class Initializers(Parts):
    def test_distributions_and_files_agree(self):
        """What is drawn has Keras's mean, deviation and bounds; what is saved has Keras's options."""
        model = "".join(f"  - dense: {{name: d{i}, units: 150, kernel_initializer: {text}}}\n"
                        for i, text in enumerate(INITIALIZERS))
        self.train("name: t\n" + self.data(random(8, 150), random(8, 150)) + "model:\n" + model
                   + "train: {loss: mse, steps: 1, optimizer: {sgd: {learning_rate: 0}}}\n", "--quiet")
        weights = self.weights()
        self.run_program("weights", self.path("runs", "t"), "--to", self.path("t.keras"))
        loaded = keras.models.load_model(self.path("t.keras"))
        for i, (text, theirs) in enumerate(INITIALIZERS.items()):
            ours, drawn = weights[f"d{i}.kernel"], numpy.asarray(theirs((150, 150)))
            with self.subTest(text):
                spread = drawn.std()
                self.assertAlmostEqual(ours.mean(), drawn.mean(), delta=0.06 * spread + 1e-7)
                self.assertAlmostEqual(ours.std(), spread, delta=0.03 * spread + 1e-7)
                if "normal" not in text and "orthogonal" not in text or "trunc" in text and "un" not in text:
                    self.assertAlmostEqual(ours.min(), drawn.min(), delta=0.1 * spread + 1e-7)
                    self.assertAlmostEqual(ours.max(), drawn.max(), delta=0.1 * spread + 1e-7)
                saved = loaded.get_layer(f"d{i}").kernel_initializer
                self.assertIs(type(saved), type(theirs))
                self.assertEqual(saved.get_config(), theirs.get_config())

    def test_keras_files_keep_them(self):
        """Through our hands and back: every initialiser of every layer has the options it had."""
        normal, half = initializers.RandomNormal(stddev=0.5, seed=7), initializers.Constant(0.5)
        wide = initializers.RandomUniform(-2.0, 1.0)
        model = keras.Sequential([
            keras.Input((6,)),
            layers.Embedding(9, 4, embeddings_initializer=normal),
            layers.LSTM(3, kernel_initializer=wide, recurrent_initializer=initializers.Orthogonal(2.0),
                        bias_initializer=half, return_sequences=True),
            layers.BatchNormalization(gamma_initializer=half, beta_initializer=normal,
                                      moving_mean_initializer=half, moving_variance_initializer="ones"),
            layers.LayerNormalization(gamma_initializer=wide),
            layers.Conv1D(2, 2, kernel_initializer=initializers.VarianceScaling(3.0, "fan_avg", "uniform"))])
        model.save(self.path("theirs.keras"))
        for ending in ("keras", "safetensors"):
            self.run_program("weights", self.path("theirs.keras"), "--to", self.path("ours." + ending))
            self.run_program("weights", self.path("ours." + ending), "--to", self.path("back.keras"))
            again = keras.models.load_model(self.path("back.keras"))
            for one, two in zip(model.layers, again.layers):
                for key in vars(one):
                    if key.endswith("_initializer"):
                        self.assertEqual(type(getattr(one, key)), type(getattr(two, key)), key)
                        self.assertEqual(getattr(one, key).get_config(), getattr(two, key).get_config(), key)


def one_hot(classes, count):
    return numpy.eye(count, dtype="float32")[classes]


class Metrics(Parts):
    """Over batches of 8 and a short last one; predictions are given, by a layer that changes nothing."""

    def epoch(self, predictions, truth, metrics, loss, more="", validation=False):
        """What metrics.csv has for the epoch, by name."""
        outputs = predictions.shape[-1]
        shutil.rmtree(self.path("runs"), ignore_errors=True)
        data = self.data(predictions, truth)
        if validation:
            data = data.replace("{train:", "{validation: data.npz, train:")
        self.train("name: t\n" + data + f"model:\n  - dense: {{units: {outputs}, use_bias: false, "
                   "kernel_initializer: identity}\n"
                   f"train: {{loss: {loss}, epochs: 1, optimizer: {{sgd: {{learning_rate: 0}}}}, "
                   f"metrics: [{metrics}]{more}}}\n"
                   "record:\n  - {what: ['*'], every: 1 epoch, form: [scalar, rows], to: [csv]}\n", "--quiet")
        with open(self.path("runs", "t", "metrics.csv"), encoding="utf-8") as file:
            names, values = [line.strip().split(",") for line in file]
        return {name: float(value) for name, value in zip(names, values) if value}

    def agree(self, ours, name, metric, predictions, truth):
        for first in range(0, len(predictions), 8):
            metric.update_state(truth[first:first + 8], predictions[first:first + 8])
        expected = numpy.asarray(metric.result())
        if expected.ndim == 0:
            self.assertAlmostEqual(ours[name], float(expected), delta=2e-6, msg=name)
            return
        for i, value in enumerate(expected):
            self.assertAlmostEqual(ours[f"{name}_{i}"], float(value), delta=2e-6, msg=f"{name}_{i}")

    def check(self, cases, predictions, truth, loss, their_truth=None, theirs=None, more=""):
        listed = ", ".join(text for text, _, _ in cases)
        ours = self.epoch(predictions, truth, listed, loss, more)
        for _, name, metric in cases:
            self.agree(ours, name, metric, predictions if theirs is None else theirs,
                       truth if their_truth is None else their_truth)

    def test_several_classes(self):
        m = keras.metrics
        scores = random(61, 5)
        predictions = numpy.exp(scores) / numpy.exp(scores).sum(-1, keepdims=True)
        classes = numpy.random.default_rng(1).integers(0, 4, 61).astype("int32")  # class 4: never true
        truth = one_hot(classes, 5)
        cases = [
            ("categorical_accuracy", "categorical_accuracy", m.CategoricalAccuracy()),
            ("{top_k_accuracy: {k: 2}}", "top_k_accuracy", m.TopKCategoricalAccuracy(2)),
            ("precision", "precision", m.Precision()),
            ("{precision: {threshold: 0.3, name: p3}}", "p3", m.Precision(0.3)),
            ("{precision: {top_k: 2, name: pk}}", "pk", m.Precision(top_k=2)),
            ("{precision: {class_id: 0, threshold: 0.2, name: p0}}", "p0", m.Precision(0.2, class_id=0)),
            ("recall", "recall", m.Recall()),
            ("{recall: {thresholds: 0.3, name: r3}}", "r3", m.Recall(0.3)),
            ("{recall: {top_k: 1, name: rk}}", "rk", m.Recall(top_k=1)),
            ("{recall: {class_id: 1, threshold: 0, name: r0}}", "r0", m.Recall(0, class_id=1)),
            ("f1", "f1", m.F1Score("macro")),
            ("{f1: {average: micro, name: fm}}", "fm", m.F1Score("micro")),
            ("{f1: {average: weighted, name: fw}}", "fw", m.F1Score("weighted")),
            ("{f1: {average: none, name: fn}}", "fn", m.F1Score()),
            ("{f1: {average: none, threshold: 0.25, name: ft}}", "ft", m.F1Score(threshold=0.25)),
            ("auc", "auc", m.AUC()),
            ("{auc: {curve: PR, name: pr}}", "pr", m.AUC(curve="PR")),
            ("mae", "mae", m.MeanAbsoluteError()), ("mse", "mse", m.MeanSquaredError()),
        ]
        self.check(cases, predictions, truth, "categorical_crossentropy")
        sparse = [case for case in cases if case[1] not in ("mae", "mse")]
        for _, _, metric in sparse:
            metric.reset_state()
        self.check(sparse, predictions, classes, "sparse_categorical_crossentropy", truth)
        for _, _, metric in sparse:  # with logits, thresholds are of probabilities all the same
            metric.reset_state()
        self.check(sparse, scores, classes, "sparse_categorical_crossentropy", truth, predictions,
                   ", from_logits: true")

    def test_one_output(self):
        m = keras.metrics
        scores = random(61, 1)
        predictions = 1 / (1 + numpy.exp(-scores))
        predictions[:7, 0] = [0, 1, 0.5, 0.25, 0.125, 20 / 199, 21 / 199]  # on thresholds
        truth = numpy.random.default_rng(1).integers(0, 2, (61, 1)).astype("float32")
        cases = [("accuracy", "accuracy", m.BinaryAccuracy()),
                 ("{binary_accuracy: {threshold: 0.7}}", "binary_accuracy", m.BinaryAccuracy(threshold=0.7)),
                 ("precision", "precision", m.Precision()), ("recall", "recall", m.Recall()),
                 ("f1", "f1", m.F1Score("macro", threshold=0.5)), ("auc", "auc", m.AUC())]
        for curve in ("ROC", "PR"):
            for method in ("interpolation", "minoring", "majoring"):
                for count in (2, 17, 1000):
                    name = f"{curve}_{method}_{count}"
                    cases.append((f"{{auc: {{curve: {curve}, summation_method: {method}, "
                                  f"num_thresholds: {count}, name: {name}}}}}", name,
                                  m.AUC(count, curve, method)))
        self.check(cases, predictions, truth, "binary_crossentropy")
        for _, _, metric in cases:
            metric.reset_state()
        logits = numpy.log(predictions[2:]) - numpy.log1p(-predictions[2:])
        self.check(cases[:5], logits, truth[2:], "binary_crossentropy", theirs=predictions[2:],
                   more=", from_logits: true")

    def test_regression(self):
        m = keras.metrics
        predictions, truth = random(61, 3), random(61, 3, seed=9)
        self.check([("r2", "r2", m.R2Score()), ("mean_absolute_error", "mean_absolute_error",
                                                m.MeanAbsoluteError())], predictions, truth, "mse")

    def test_confusion_matrix(self):
        predictions = random(61, 4)
        truth = numpy.random.default_rng(1).integers(0, 4, 61).astype("int32")
        self.epoch(predictions, truth, "confusion_matrix", "sparse_categorical_crossentropy",
                   ", from_logits: true", validation=True)
        expected = numpy.zeros((4, 4))
        numpy.add.at(expected, (truth, predictions.argmax(-1)), 1)
        for name in ("confusion_matrix", "val_confusion_matrix"):
            rows = numpy.loadtxt(self.path("runs", "t", name + ".csv"), delimiter=",", skiprows=1)
            numpy.testing.assert_array_equal(rows[:, 3:], expected)
        one, two = random(61, 1), (truth[:, None] > 1).astype("float32")
        self.epoch(one, two, "confusion_matrix", "binary_crossentropy", ", from_logits: true")
        rows = numpy.loadtxt(self.path("runs", "t", "confusion_matrix.csv"), delimiter=",", skiprows=1)
        expected = [[((one > 0) == p)[two == t].sum() for p in (0, 1)] for t in (0, 1)]
        numpy.testing.assert_array_equal(rows[:, 3:], expected)


schedules = keras.optimizers.schedules
SCHEDULES = {
    "exponential_decay: {decay_steps: 7, decay_rate: 0.9}": schedules.ExponentialDecay(0.1, 7, 0.9),
    "exponential_decay: {decay_steps: 7, decay_rate: 0.9, staircase: true}":
        schedules.ExponentialDecay(0.1, 7, 0.9, staircase=True),
    "exponential_decay: {initial_learning_rate: 0.3, decay_steps: 7, decay_rate: 0.9}":
        schedules.ExponentialDecay(0.3, 7, 0.9),
    "inverse_time_decay: {decay_steps: 5, decay_rate: 0.5}": schedules.InverseTimeDecay(0.1, 5, 0.5),
    "inverse_time_decay: {decay_steps: 5, decay_rate: 0.5, staircase: true}":
        schedules.InverseTimeDecay(0.1, 5, 0.5, staircase=True),
    "polynomial_decay: {decay_steps: 20, end_learning_rate: 0.01, power: 2}":
        schedules.PolynomialDecay(0.1, 20, 0.01, 2.0),
    "polynomial_decay: {decay_steps: 20, cycle: true}": schedules.PolynomialDecay(0.1, 20, cycle=True),
    "piecewise_constant_decay: {boundaries: [3, 17], values: [0.5, 0.2, 0.1]}":
        schedules.PiecewiseConstantDecay([3, 17], [0.5, 0.2, 0.1]),
    "cosine_decay: {decay_steps: 30, alpha: 0.1}": schedules.CosineDecay(0.1, 30, 0.1),
    "cosine_decay: {decay_steps: 30, alpha: 0.1, warmup_target: 0.4, warmup_steps: 9}":
        schedules.CosineDecay(0.1, 30, 0.1, warmup_target=0.4, warmup_steps=9),
    "cosine_decay: {initial_learning_rate: 0, decay_steps: 30, warmup_target: 0.4, warmup_steps: 9}":
        schedules.CosineDecay(0.0, 30, warmup_target=0.4, warmup_steps=9),
    "cosine_decay_restarts: {first_decay_steps: 9}": schedules.CosineDecayRestarts(0.1, 9),
    "cosine_decay_restarts: {first_decay_steps: 9, t_mul: 1, m_mul: 0.8, alpha: 0.2}":
        schedules.CosineDecayRestarts(0.1, 9, 1.0, 0.8, 0.2),
    "cosine_decay_restarts: {first_decay_steps: 9, t_mul: 1.5, m_mul: 0.9}":
        schedules.CosineDecayRestarts(0.1, 9, 1.5, 0.9),
}


class LearningRates(Parts):
    TEXT = ("model:\n  - dense: {units: 4, activation: tanh}\n  - dense: {units: 1}\n"
            "train: {loss: mse, epochs: 10, optimizer: {sgd: {learning_rate: 0.1}}, %s}\n"
            "record:\n  - {what: [learning_rate, 'val_los*'], every: 1 %s, to: [csv]}\n")

    def rates(self, options, every, validation=""):
        shutil.rmtree(self.path("runs"), ignore_errors=True)
        data = self.data(random(64, 3), random(64, 1)).replace("{train", "{" + validation + "train")
        self.train("name: t\n" + data + self.TEXT % (options, every), "--quiet")
        return numpy.genfromtxt(self.path("runs", "t", "metrics.csv"), delimiter=",", names=True)

    def test_schedules(self):
        for text, theirs in SCHEDULES.items():
            with self.subTest(text):
                ours = self.rates(f"learning_rate_schedule: {{{text}}}", "step")["learning_rate"]
                self.assertEqual(len(ours), 80)
                expected = [float(theirs(step)) for step in range(80)]
                numpy.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-9)

    def test_reduce_on_plateau(self):
        cases = (dict(factor=0.5, patience=1, min_delta=0.02),
                 dict(factor=0.3, patience=0, cooldown=2, min_lr=0.001, min_delta=0.05),
                 dict(factor=0.5, patience=2, mode="max"))
        for case in cases:
            with self.subTest(case):
                options = ", ".join(f"{key}: {value}" for key, value in case.items())
                ours = self.rates(f"reduce_on_plateau: {{{options}}}, metrics: [mae]", "epoch",
                                  "validation: 0.3, ")
                model = keras.Sequential([keras.Input((1,)), layers.Dense(1)])
                model.compile(keras.optimizers.SGD(0.1), "mse")
                callback = keras.callbacks.ReduceLROnPlateau(**case)
                callback.set_model(model)
                callback.on_train_begin()
                for epoch, value in enumerate(ours["val_loss"]):
                    self.assertAlmostEqual(ours["learning_rate"][epoch],
                                           float(model.optimizer.learning_rate), delta=1e-8)
                    callback.on_epoch_end(epoch, {"val_loss": value})
                self.assertLess(ours["learning_rate"][-1], 0.1)


if __name__ == "__main__":
    unittest.main()
