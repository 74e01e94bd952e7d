"""What people write by hand with tf.GradientTape and Python's csv module, and the same from tapedeck.

One class for each of the five questions that examples/ answers. TensorFlow's side is the loop a user would
write; both sides start from the same weights and see the same batches, and their files are compared.
"""
import csv
import json
import os
import sqlite3
import sys
import unittest

import keras
import numpy
import pandas
import tensorflow
from keras import layers
from safetensors.numpy import save_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import SOURCE, Case  # noqa: E402

EVERYTHING = {"scalars": 0, "histograms": 0, "images": 0, "tensors": 0}


def random(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32")


def network(shape, *stack):
    return keras.Sequential([keras.Input(shape), *stack])


class Step:
    """One training step of the hand-written loop, before its update."""

    def __init__(self, epoch, step, rows, loss, outputs, errors, gradients):
        self.epoch, self.step, self.rows, self.loss = epoch, step, rows, float(loss)
        self.outputs, self.errors, self.gradients = outputs, errors, gradients


def loop(model, x, y, batch, epochs, loss, optimizer):
    """Trains; yields a Step for each batch, the last short one included."""
    inside = keras.Model(model.inputs, [layer.output for layer in model.layers])
    variables = {f"{layer.name}.{weight.name}": weight
                 for layer in model.layers for weight in layer.trainable_weights}
    step = 0
    for epoch in range(1, epochs + 1):
        for begin in range(0, len(x), batch):
            step += 1
            rows = range(begin, min(begin + batch, len(x)))
            with tensorflow.GradientTape() as tape:
                values = keras.tree.flatten(inside([x[rows.start:rows.stop]], training=True))
                value = loss(y[rows.start:rows.stop], values[-1])
            found = tape.gradient(value, [w.value for w in variables.values()] + values)
            names = [layer.name for layer in model.layers]
            yield Step(epoch, step, rows, value,
                       {n: v.numpy() for n, v in zip(names, values)},
                       {n: g.numpy() for n, g in zip(names, found[len(variables):])
                        if g is not None},  # Keras's cross-entropies reach around a softmax
                       {n: g.numpy() for n, g in zip(variables, found)})
            optimizer.apply(found[:len(variables)], list(variables.values()))


class Writeup(Case):
    def setUp(self):
        super().setUp()
        keras.utils.set_random_seed(7)

    def prepare(self, model, x, y):
        """The data and the model's weights, where the experiment finds them."""
        numpy.savez(self.path("data.npz"), x=x, y=y)
        save_file({f"{layer.name}.{weight.name}": weight.numpy()
                   for layer in model.layers for weight in layer.weights},
                  self.path("start.safetensors"))

    def experiment(self, model, train, record, batch=32):
        self.train(f"""
name: ours
threads: 1
data: {{train: data.npz, label: {{x: x, y: y}}, batch: {batch}, shuffle: false}}
model:
{model}
weights: start.safetensors
train: {train}
record:
{record}
""", "--quiet")

    def table(self, *parts):
        return pandas.read_csv(self.path(*parts))

    def array(self, name):
        return numpy.load(self.path("runs", "ours", name + ".npy"), mmap_mode="r")

    def write_csv(self, name, header, rows):
        with open(self.path(name), "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows)
        return self.table(name)

    def same_table(self, ours, theirs, tolerance=1e-5):
        """The same columns of the same types; the same whole numbers and texts; floats that agree."""
        self.assertEqual(list(ours), list(theirs))
        self.assertEqual(list(ours.dtypes), list(theirs.dtypes))
        for name in ours:
            if ours[name].dtype == float:
                self.same(ours[name], theirs[name], tolerance, name)
            else:
                self.assertEqual(list(ours[name]), list(theirs[name]), name)

    def same(self, ours, theirs, tolerance=1e-5, what=""):
        ours, theirs = numpy.asarray(ours, "float64"), numpy.asarray(theirs, "float64")
        self.assertEqual(ours.shape, theirs.shape, what)
        empty = numpy.isnan(theirs)
        self.assertTrue((numpy.isnan(ours) == empty).all(), what)
        if not empty.all():
            self.assertLessEqual(numpy.nanmax(numpy.abs(ours - theirs)),
                                 tolerance * max(numpy.nanmax(numpy.abs(theirs)), 1e-2), what)

    def events(self, folder):
        loaded = EventAccumulator(self.path(folder), size_guidance=EVERYTHING)
        loaded.Reload()
        return loaded


class LayerErrors(Writeup):
    """000: the errors of a layer inside a network, as CSV."""

    def test_errors_of_every_batch_and_the_layer_s_own_loss(self):
        model = network((5,), layers.Dense(10, activation="relu", name="layer1"),
                        layers.Dense(5, activation="relu", name="layer2"))
        x, y = random(100, 5), random(100, 5, seed=1)
        target = random(100, 10, seed=2)
        numpy.save(self.path("target.npy"), target)
        self.prepare(model, x, y)
        self.experiment("""
  - dense: {name: layer1, units: 10, activation: relu}
  - dense: {name: layer2, units: 5, activation: relu}
""", "{loss: mse, optimizer: {sgd: {learning_rate: 0.1}}, epochs: 3}", """
  - {what: layer1.error, form: rows, to: [csv]}
  - {what: loss, to: [csv]}
  - {what: layer1.loss, target: target.npy, to: [csv]}
""")
        errors, losses = [], []
        for s in loop(model, x, y, 32, 3, keras.losses.MeanSquaredError(),
                      keras.optimizers.SGD(0.1)):
            errors += [[s.epoch, s.step, row, *values]
                       for row, values in zip(s.rows, s.errors["layer1"])]
            layer = numpy.mean((s.outputs["layer1"] - target[s.rows.start:s.rows.stop]) ** 2)
            losses.append([s.epoch, s.step, s.loss, layer])
        theirs = self.write_csv("training_errors.csv", ["epoch", "step", "sample"]
                                + [f"error_{i}" for i in range(10)], errors)
        self.assertEqual(len(theirs), 300)
        self.same_table(self.table("runs", "ours", "layer1.error.csv"), theirs)
        theirs = self.write_csv("losses.csv", ["epoch", "step", "loss", "layer1.loss"], losses)
        self.same_table(self.table("runs", "ours", "metrics.csv"), theirs)

    def test_errors_over_time_of_recurrent_layers(self):
        x, y = random(20, 12, 2), random(20, 1, seed=1)
        for kind, layer in (("simple_rnn", layers.SimpleRNN), ("lstm", layers.LSTM)):
            with self.subTest(kind):
                model = network((12, 2), layer(6, return_sequences=True, name="first"),
                                layer(6, name="second"), layers.Dense(1, name="sum"))
                self.prepare(model, x, y)
                self.experiment(f"""
  - {kind}: {{name: first, units: 6, return_sequences: true}}
  - {kind}: {{name: second, units: 6}}
  - dense: {{name: sum, units: 1}}
""", "{loss: mse, optimizer: {sgd: {learning_rate: 0.1}}, epochs: 2}",
                                "  - {what: first.error, form: [rows, tensor], to: [csv, npy]}",
                                batch=10)
                run = "ours" if kind == "simple_rnn" else "ours-2"
                rows = self.table("runs", run, "first.error.csv").iloc[:, 3:].to_numpy()
                error = numpy.load(self.path("runs", run, "first.error.npy"), mmap_mode="r")
                self.assertEqual(error.shape, (4, 10, 12, 6))
                for s in loop(model, x, y, 10, 2, keras.losses.MeanSquaredError(),
                              keras.optimizers.SGD(0.1)):
                    self.same(error[s.step - 1], s.errors["first"], what=f"step {s.step}")
                    self.same(rows[10 * (s.step - 1):10 * s.step],
                              s.errors["first"].reshape(10, -1), what=f"step {s.step}")


class ResultsToCsv(Writeup):
    """001: metrics, predictions and weights as CSV."""

    def test_metrics(self):
        model = network((10,), layers.Dense(10, activation="relu", name="hidden"),
                        layers.Dense(1, activation="sigmoid", name="answer"))
        x = random(100, 10)
        y = (random(100, 1, seed=1) > 0).astype("float32")
        self.prepare(model, x, y)
        self.experiment("""
  - dense: {name: hidden, units: 10, activation: relu}
  - dense: {name: answer, units: 1, activation: sigmoid}
""", """{loss: binary_crossentropy, metrics: [accuracy], epochs: 10,
        optimizer: {adam: {learning_rate: 0.001}}}""",
                        "  - {what: [loss, accuracy], every: 1 epoch, to: [csv]}", batch=100)
        rows = [[s.epoch, s.step, s.loss, numpy.mean(numpy.round(s.outputs["answer"]) == y)]
                for s in loop(model, x, y, 100, 10, keras.losses.BinaryCrossentropy(),
                              keras.optimizers.Adam(0.001))]
        theirs = self.write_csv("metrics.csv", ["epoch", "step", "loss", "accuracy"], rows)
        self.same_table(self.table("runs", "ours", "metrics.csv"), theirs)

    def classifier(self):
        model = network((10,), layers.Dense(10, activation="relu", name="dense_1"),
                        layers.Dense(3, activation="softmax", name="dense_2"))
        x, y = random(50, 10), numpy.random.default_rng(3).integers(0, 3, 50).astype("int32")
        self.prepare(model, x, y)
        self.experiment("""
  - dense: {name: dense_1, units: 10, activation: relu}
  - dense: {name: dense_2, units: 3, activation: softmax}
""", """{loss: sparse_categorical_crossentropy, epochs: 3,
        optimizer: {adam: {learning_rate: 0.01}}}""",
                        "  - {what: loss, to: [csv]}")
        for _ in loop(model, x, y, 32, 3, keras.losses.SparseCategoricalCrossentropy(),
                      keras.optimizers.Adam(0.01)):
            pass
        return model, x, y

    def test_predictions(self):
        model, x, y = self.classifier()
        self.run_program("predict", "runs/ours", "data.npz", "--to", "ours.csv", "--quiet")
        theirs = self.write_csv("predictions.csv", ["label"] + [f"class_{i}" for i in range(3)],
                                [[label, *row] for label, row in zip(y, model.predict(x, verbose=0))])
        ours = self.table("ours.csv")
        self.assertEqual(ours.pop("predicted").tolist(), theirs.filter(like="class_").to_numpy().argmax(1).tolist())
        self.same_table(ours, theirs)

    def test_weights_out_and_back_into_a_network(self):
        model, _, _ = self.classifier()
        self.run_program("weights", "runs/ours", "--to", "ours.csv")
        rows = [[layer.name, weight.name, ",".join(map(str, index)), value]
                for layer in model.layers for weight in layer.weights
                for index, value in numpy.ndenumerate(weight.numpy())]
        theirs = self.write_csv("weights.csv", ["layer", "parameter", "index", "value"], rows)
        self.same_table(self.table("ours.csv"), theirs)
        # TensorFlow's file is taken as it is, and comes out again to the same float32.
        self.run_program("weights", "runs/ours", "--from", "weights.csv", "--to", "back.csv")
        self.assertTrue((self.table("back.csv").value.astype("float32")
                         == theirs.value.astype("float32")).all())


class RecordingOutputs(Writeup):
    """002: outputs while training, of a trained model, and for TensorBoard."""

    def test_a_sample_of_the_validation_set(self):
        model = network((6,), layers.Dense(8, activation="tanh", name="hidden"),
                        layers.Dense(3, activation="softmax", name="classes"))
        x, y = random(60, 6), numpy.random.default_rng(3).integers(0, 3, 60).astype("int32")
        x_val, y_val = random(40, 6, seed=4), numpy.random.default_rng(5).integers(0, 3, 40)
        self.prepare(model, x, y)
        numpy.savez(self.path("validation.npz"), x=x_val, y=y_val.astype("int32"))
        self.train("""
name: ours
threads: 1
data: {train: data.npz, validation: validation.npz, label: {x: x, y: y}, batch: 20, shuffle: false}
model:
  - dense: {name: hidden, units: 8, activation: tanh}
  - dense: {name: classes, units: 3, activation: softmax}
weights: start.safetensors
train: {loss: sparse_categorical_crossentropy, epochs: 4, optimizer: {sgd: {learning_rate: 0.1}}}
record:
  - {what: prediction, sample: 10, every: 2 epochs, to: [csv, sqlite]}
""", "--quiet")
        ours = self.table("runs", "ours", "predictions.csv")
        database = self.database()
        steps = {}
        for s in loop(model, x, y, 20, 5, keras.losses.SparseCategoricalCrossentropy(),
                      keras.optimizers.SGD(0.1)):
            if s.epoch in (3, 5) and s.step % 3 == 1:  # as an even epoch left the weights
                steps[s.step - 1] = model.predict(x_val, verbose=0)
        self.assertEqual(sorted(set(ours.step)), sorted(steps))
        for step, rows in ours.groupby("step"):
            sample = list(rows["sample"])
            self.assertEqual(len(set(sample)), 10)
            theirs = self.write_csv(
                "theirs.csv", ["epoch", "step", "sample", "label", "class_0", "class_1", "class_2"],
                [[step // 3, step, i, y_val[i], *steps[step][i]] for i in sample])
            rows = rows.reset_index(drop=True)
            self.assertEqual(rows.pop("predicted").tolist(), [int(steps[step][i].argmax()) for i in sample])
            self.same_table(rows, theirs)
            stored = database.execute(
                "SELECT sample, label, e.value FROM example e JOIN signal ON id = signal "
                "WHERE name = 'prediction' AND step = ? ORDER BY sample", [step]).fetchall()
            self.assertEqual([row[:2] for row in stored],
                             sorted((i, int(y_val[i])) for i in sample))
            for i, _, value in stored:
                self.same(json.loads(value), steps[step][i])

    def database(self):
        database = sqlite3.connect(f"file:{self.path('runs', 'ours', 'run.db')}?mode=ro", uri=True)
        self.addCleanup(database.close)
        return database

    def test_outputs_of_a_trained_model_as_array_and_pictures(self):
        model = network((16, 16, 3), layers.Conv2D(32, 3, activation="relu", name="conv"),
                        layers.Conv2D(1, 1, activation="sigmoid", name="mask"))
        x = numpy.random.default_rng(0).random((10, 16, 16, 3)).astype("float32")
        y = numpy.random.default_rng(1).random((10, 14, 14, 1)).astype("float32")
        self.prepare(model, x, y)
        self.experiment("""
  - conv2d: {name: conv, filters: 32, kernel: 3, activation: relu}
  - conv2d: {name: mask, filters: 1, kernel: 1, activation: sigmoid}
""", "{loss: binary_crossentropy, epochs: 3, optimizer: {sgd: {learning_rate: 0.5}}}",
                        "  - {what: loss, to: [csv]}", batch=4)
        for _ in loop(model, x, y, 4, 3, keras.losses.BinaryCrossentropy(),
                      keras.optimizers.SGD(0.5)):
            pass
        new = numpy.random.default_rng(2).random((7, 16, 16, 3)).astype("float32")
        numpy.save(self.path("new.npy"), new)
        predictions = model.predict(new, verbose=0)
        self.run_program("predict", "runs/ours", "new.npy", "--to", "out.npy", "--quiet")
        self.same(numpy.load(self.path("out.npy"), mmap_mode="r"), predictions)
        self.run_program("predict", "runs/ours", "new.npy", "--to", "pictures/", "--quiet")
        names = sorted(os.listdir(self.path("pictures")))
        self.assertEqual(len(names), 7)
        for name, prediction in zip(names, predictions):
            picture = tensorflow.io.decode_png(self.bytes("pictures", name), channels=1).numpy()
            self.assertEqual(picture.shape, (14, 14, 1))
            # From black for 0 to white for 1.
            self.same(picture, numpy.round(255 * prediction), 1.01 / 255)

    def test_summaries_for_tensorboard(self):
        model = network((10,), layers.Dense(64, activation="relu", name="hidden"),
                        layers.Dense(1, name="out"))
        x, y = random(100, 10), random(100, 1, seed=1)
        self.prepare(model, x, y)
        self.experiment("""
  - dense: {name: hidden, units: 64, activation: relu}
  - dense: {name: out, units: 1}
""", "{loss: mse, epochs: 2}", """
  - {what: loss, to: [tensorboard]}
  - {what: ["*.kernel", "*.bias"], form: histogram, to: [tensorboard]}
""", batch=10)
        writer = tensorflow.summary.create_file_writer(self.path("theirs"))
        steps = loop(model, x, y, 10, 2, keras.losses.MeanSquaredError(), keras.optimizers.Adam())
        values = []
        with writer.as_default():
            for s in steps:
                tensorflow.summary.scalar("loss", s.loss, step=s.step)
                values.append({f"{layer.name}.{w.name}": w.numpy()
                               for layer in model.layers for w in layer.weights})
        values = values[1:] + [{f"{layer.name}.{w.name}": w.numpy()
                                for layer in model.layers for w in layer.weights}]
        writer.close()
        ours, theirs = self.events("runs/ours"), self.events("theirs")
        mine = {event.step: scalar(event) for event in ours.Tensors("loss")}
        self.assertEqual(sorted(mine), list(range(1, 21)))
        for event in theirs.Tensors("loss"):
            self.same(mine[event.step], scalar(event))
        for name in values[0]:
            events = histograms(ours, name)
            self.assertEqual(sorted(events), list(range(1, 21)))
            for step, bins in events.items():
                weight = values[step - 1][name]
                self.assertEqual(bins[:, 2].sum(), weight.size)
                for left, right, count in bins:
                    inside = numpy.sum((weight >= left - 1e-6) & (weight <= right + 1e-6))
                    self.assertLessEqual(count, inside, f"{name} at step {step}: {left} to {right}")


def scalar(event):
    return float(tensorflow.make_ndarray(event.tensor_proto))


def histograms(events, tag):
    """{step: array of (left, right, count)}, as TensorBoard's histogram plugin reads them."""
    return {event.step: tensorflow.make_ndarray(event.tensor_proto)
            for event in events.Tensors(tag)}


class LayerGradients(Writeup):
    """003: gradients at a layer of a convolutional network, in one backward pass."""

    def test_error_kernel_and_bias_gradient_of_the_second_convolution(self):
        model = network((28, 28, 1), layers.Conv2D(32, 3, activation="relu", name="conv1"),
                        layers.MaxPooling2D(name="pool1"),
                        layers.Conv2D(64, 3, activation="relu", name="conv2"),
                        layers.MaxPooling2D(name="pool2"), layers.Flatten(name="flatten"),
                        layers.Dense(128, activation="relu", name="dense1"),
                        layers.Dense(10, name="dense2"))
        x, y = random(3, 28, 28, 1), numpy.array([4, 0, 9], "int32")
        self.prepare(model, x, y)
        self.experiment("""
  - conv2d: {name: conv1, filters: 32, kernel: 3, activation: relu}
  - max_pool2d: {name: pool1}
  - conv2d: {name: conv2, filters: 64, kernel: 3, activation: relu}
  - max_pool2d: {name: pool2}
  - flatten: {name: flatten}
  - dense: {name: dense1, units: 128, activation: relu}
  - dense: {name: dense2, units: 10}
""", """{loss: sparse_categorical_crossentropy, from_logits: true, epochs: 2,
        optimizer: {adam: {learning_rate: 0.001}}}""", """
  - {what: ["conv2.*gradient", "conv2.error", "pool2.error"], form: [tensor, stats], to: [npy, csv]}
  - {what: conv2.kernel.gradient, at: [1], form: long, to: [csv]}
""", batch=2)
        steps = list(loop(model, x, y, 2, 2,
                          keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                          keras.optimizers.Adam(0.001)))
        self.assertEqual([len(s.rows) for s in steps], [2, 1, 2, 1])
        for index, s in enumerate((steps[0], steps[2])):
            for name in ("conv2.kernel.gradient", "conv2.bias.gradient"):
                self.same(self.array(name)[s.step - 1], s.gradients[name[:-9]], 1e-4, name)
            for name in ("conv2", "pool2"):
                self.same(self.array(name + ".error")[index], s.errors[name], 1e-4, name)
        self.assertEqual(list(self.array("conv2.error.steps")), [1, 3])
        short = numpy.load(self.path("runs", "ours", "conv2.error@1x11x11x64.npy"))
        self.same(short[0], steps[1].errors["conv2"], 1e-4, "the short batch")
        rows = [[1, 1, numpy.nan, ",".join(map(str, index)), value] for index, value
                in numpy.ndenumerate(steps[0].gradients["conv2.kernel"])]
        theirs = self.write_csv("theirs.csv", ["epoch", "step", "sample", "index", "value"], rows)
        self.same_table(self.table("runs", "ours", "conv2.kernel.gradient.csv"), theirs, 1e-4)
        stats = self.table("runs", "ours", "stats.csv").set_index(["signal", "step"])
        for s in steps:
            for name in ("conv2", "pool2"):
                row, error = stats.loc[(name + ".error", s.step)], s.errors[name]
                self.same([row["mean"], row["std"], row["min"], row["max"], row["norm"]],
                          [error.mean(), error.std(), error.min(), error.max(),
                           numpy.linalg.norm(error)], 1e-4, name)
                self.assertEqual(row["zeros"], numpy.sum(error == 0))
                self.assertEqual(row["count"], error.size)


class IntermediateTensors(Writeup):
    """004: tensors from inside, at an interval and on a condition."""

    def test_histograms_arrays_and_conditions(self):
        # elu: over 300 steps relu's kink would turn a difference in the last digit into a visible one
        model = network((16,), layers.Dense(64, activation="elu", name="layer1"),
                        layers.Dense(128, activation="elu", name="layer2"),
                        layers.Dense(10, name="logits"))
        x, y = random(96, 16), numpy.random.default_rng(3).integers(0, 10, 96).astype("int32")
        self.prepare(model, x, y)
        self.experiment("""
  - dense: {name: layer1, units: 64, activation: elu}
  - dense: {name: layer2, units: 128, activation: elu}
  - dense: {name: logits, units: 10}
""", """{loss: sparse_categorical_crossentropy, from_logits: true, steps: 300,
        optimizer: {sgd: {learning_rate: 0.05}}}""", """
  - {what: layer1.output, every: 100 steps, form: histogram, to: [tensorboard]}
  - {what: layer2.output, every: 100 steps, form: tensor, to: [npy]}
  - {what: layer1.error, when: loss > 1.0, form: tensor, to: [npy]}
  - {what: loss, to: [csv]}
""")
        steps = list(loop(model, x, y, 32, 100,
                          keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                          keras.optimizers.SGD(0.05)))
        self.same(self.table("runs", "ours", "metrics.csv").loss, [s.loss for s in steps], 1e-4)
        self.assertEqual(list(self.array("layer2.output.steps")), [100, 200, 300])
        found = histograms(self.events("runs/ours"), "layer1.output")
        self.assertEqual(sorted(found), [100, 200, 300])
        for index, step in enumerate((100, 200, 300)):
            self.same(self.array("layer2.output")[index], steps[step - 1].outputs["layer2"], 1e-4)
            output = steps[step - 1].outputs["layer1"]
            self.assertEqual(found[step][:, 2].sum(), output.size)
            self.same(found[step][-1, 1], output.max(), 0.2)
        when = [s.step for s in steps if s.loss > 1.0]
        self.assertTrue(0 < len(when) < 300)
        self.assertEqual(list(self.array("layer1.error.steps")), when)
        for index, step in enumerate(when):
            self.same(self.array("layer1.error")[index], steps[step - 1].errors["layer1"], 1e-4)


class Readers(Writeup):
    """Every file of a run in the tool that people open it with."""

    INTEGERS = {"epoch", "step", "sample", "count", "zeros", "nan", "inf", "label", "predicted"}
    TEXTS = {"signal", "index", "hash", "text"}

    def setUp(self):
        super().setUp()
        self.run_program("train", os.path.join(SOURCE, "examples", "demo", "demo.yaml"), "--quiet",
                         "--set", "train.epochs=3", "--set", "record.7.every=3 epochs")
        self.run_folder = self.path("runs", "demo")

    def files(self, ending):
        return sorted(name for name in os.listdir(self.run_folder) if name.endswith(ending))

    def database(self, sql):
        database = sqlite3.connect(f"file:{self.run_folder}/run.db?mode=ro", uri=True)
        self.addCleanup(database.close)
        return database.execute(sql).fetchall()

    def test_pandas_reads_every_table_with_the_right_types(self):
        self.assertGreater(len(self.files(".csv")), 10)
        for name in self.files(".csv"):
            table = pandas.read_csv(os.path.join(self.run_folder, name))
            self.assertGreater(len(table), 0, name)
            for column, dtype in table.dtypes.items():
                if column in self.INTEGERS:
                    self.assertEqual(dtype, numpy.int64, f"{name}: {column}")
                elif column in self.TEXTS:
                    self.assertTrue(pandas.api.types.is_string_dtype(dtype), f"{name}: {column}")
                else:
                    self.assertEqual(dtype, numpy.float64, f"{name}: {column}")

    def test_numpy_maps_every_array(self):
        arrays = [name for name in self.files(".npy")
                  if not name.endswith((".steps.npy", ".samples.npy"))]
        self.assertGreater(len(arrays), 5)
        for name in arrays:
            array = numpy.load(os.path.join(self.run_folder, name), mmap_mode="r")
            steps = numpy.load(os.path.join(self.run_folder, name[:-4] + ".steps.npy"))
            self.assertIsInstance(array, numpy.memmap)
            self.assertEqual((array.dtype, steps.dtype), (numpy.float32, numpy.int64), name)
            self.assertEqual(len(array), len(steps), name)
            self.assertTrue(numpy.isfinite(array).all(), name)

    def test_tensorboard_returns_every_scalar_histogram_and_picture(self):
        events = self.events("runs/demo")
        scalars, steps, pictures = {}, {}, {}
        for tag in events.Tags()["tensors"]:
            plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
            for event in events.Tensors(tag):
                value = tensorflow.make_ndarray(event.tensor_proto)
                if plugin == "scalars":
                    scalars[tag, event.step] = float(value)
                elif plugin == "histograms":
                    steps.setdefault(tag, {})[event.step] = value
                else:
                    self.assertEqual(plugin, "images")
                    pictures.setdefault(tag, {})[event.step] = value
        metrics = pandas.read_csv(os.path.join(self.run_folder, "metrics.csv")).set_index("step")
        wanted = metrics.drop(columns="epoch").stack()
        self.assertEqual(len(scalars), len(wanted))
        for (step, name), value in wanted.items():
            self.same(scalars[name, step], value, 1e-6, name)
        self.assertEqual({(tag, step) for tag, found in steps.items() for step in found},
                         set(self.database("SELECT name, step FROM histogram "
                                           "JOIN signal ON id = signal")))
        counts = {(name, step): count for name, step, count in self.database(
            "SELECT name, step, count FROM stats JOIN signal ON id = signal")}
        for tag, found in steps.items():
            for step, bins in found.items():
                self.assertEqual(bins[:, 2].sum(), counts[tag, step], tag)
        shown = [(tag, step) for tag, found in pictures.items() for step in found]
        self.assertEqual(sorted(shown), [("conv1.output", 100), ("conv2.output", 100)])
        for tag, step in shown:
            width, height, png = pictures[tag][step]
            picture = tensorflow.io.decode_png(png)
            self.assertEqual(picture.shape[:2], (int(height), int(width)))
            with open(f"{self.run_folder}/images/{tag}/step-{step:06}.png", "rb") as file:
                self.assertEqual(file.read(), png)

    def test_sqlite_reads_the_database(self):
        self.assertEqual(self.database("PRAGMA integrity_check"), [("ok",)])
        stats = pandas.read_csv(os.path.join(self.run_folder, "stats.csv"))
        stored = {(name, step): norm for name, step, norm in self.database(
            "SELECT name, step, norm FROM stats JOIN signal ON id = signal")}
        for row in stats.itertuples():
            self.same(stored[row.signal, row.step], row.norm, 1e-6, row.signal)
        for name, file, record, shape in self.database(
                "SELECT name, file, record, shape FROM tensor JOIN signal ON id = signal "
                "WHERE form = 'tensor' AND file <> ''"):
            array = numpy.load(os.path.join(self.run_folder, file), mmap_mode="r")
            self.assertEqual(list(array[record].shape), json.loads(shape), name)


if __name__ == "__main__":
    unittest.main()
