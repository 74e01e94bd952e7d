"""A network trained by Keras and by tapedeck train, from the same weights over the same batches: the loss of
each step, every layer's output and error and every parameter's gradient in the first one, and the parameters
after the last.
"""
import os
import sys

import keras
import numpy
import tensorflow
from keras import layers
from safetensors.numpy import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402

STEPS = 20
BATCH = 7
EXAMPLES = 24  # the last batch of an epoch has three

EXPERIMENT = """
name: interop
threads: 1
data:
  train: data.npz
  label: {{x: x, y: y}}
  batch: {batch}
  shuffle: false
model:
{model}
weights: start.safetensors
train:
  loss: {loss}
  from_logits: {from_logits}
  optimizer: {optimizer}
  steps: {steps}
{train}record:
  - {{what: loss, to: [csv]}}
  - {{what: ["*.output", "*.error", "*.gradient"], at: [1], form: tensor, to: [npy]}}
"""


def random(*shape, seed=0):
    return numpy.random.default_rng(seed + sum(shape)).standard_normal(shape).astype("float32")


def parameter_name(layer, weight):
    """multi_head_attention/query/kernel is query_kernel here; a cell's kernel is the layer's."""
    parts = weight.path.split("/")
    if isinstance(layer, layers.MultiHeadAttention):
        return f"{layer.name}.{parts[-2]}_{parts[-1]}"
    if isinstance(layer, layers.Bidirectional):
        side = "forward" if any(part.startswith("forward_") for part in parts) else "backward"
        return f"{layer.name}.{side}_{parts[-1]}"
    return f"{layer.name}.{parts[-1]}"


def parameters(model):
    return {parameter_name(layer, weight): weight for layer in model.layers
            for weight in layer.weights if "seed" not in weight.path and not weight.path.endswith("/count")}


def mixed(model, seed=5):
    """Weights that are not what an initialiser gives: biases and gammas of every size."""
    generator = numpy.random.default_rng(seed)
    for name, weight in parameters(model).items():
        change = 0.1 * generator.standard_normal(weight.shape)
        weight.assign(weight + abs(change) if "variance" in name else weight + change)


class KerasCase(Case):
    steps = STEPS

    def setUp(self):
        super().setUp()
        keras.utils.set_random_seed(1)

    def compare(self, model, text, x, y, loss, ours, optimizer=None, our_optimizer=None,
                from_logits=False, tolerance=1e-5, train=""):
        mixed(model)
        numpy.savez(self.path("data.npz"), x=x, y=y)
        start = {name: numpy.asarray(weight.numpy()) for name, weight in parameters(model).items()}
        save_file(start, self.path("start.safetensors"))
        self.train(EXPERIMENT.format(
            batch=BATCH, model="\n".join("  - " + line for line in text), loss=ours, steps=self.steps,
            from_logits=str(from_logits).lower(), train=train,
            optimizer=our_optimizer or "{sgd: {learning_rate: 0.05}}"), "--quiet")
        losses, outputs, errors, gradients = self.fit(
            model, x, y, loss, optimizer or keras.optimizers.SGD(0.05))

        for name, value in outputs.items():
            self.close(self.signal(name + ".output"), value, name + ".output", tolerance)
        for name, value in errors.items():
            self.close(self.signal(name + ".error"), value, name + ".error", tolerance)
        for name, value in gradients.items():
            self.close(self.signal(name + ".gradient"), value, name + ".gradient", tolerance)
        rows = self.read("runs", "interop", "metrics.csv").split()[1:]
        self.close([float(row.split(",")[2]) for row in rows], losses, "loss", tolerance)
        ends = load_file(self.path("runs", "interop", "model.safetensors"))
        for name, weight in parameters(model).items():
            self.close(ends[name], weight.numpy(), name, 3 * tolerance)

    def signal(self, name):
        return numpy.load(self.path("runs", "interop", name + ".npy"))[0]

    def close(self, ours, theirs, what, tolerance):
        ours, theirs = numpy.asarray(ours, "float64"), numpy.asarray(theirs, "float64")
        self.assertEqual(ours.shape, theirs.shape, what)
        scale = numpy.abs(theirs).max() if theirs.size else 0
        worst = numpy.abs(ours - theirs).max() if theirs.size else 0
        self.assertLessEqual(worst, tolerance * max(scale, 1e-2),
                             f"{what}: differs by {worst:.2e} of {scale:.2e}")

    def fit(self, model, x, y, loss, optimizer):
        """Keras's side: a loop with tf.GradientTape that watches every layer's output."""
        named = [layer for layer in model.layers if not isinstance(layer, layers.InputLayer)]
        inside = keras.Model(model.input, [layer.output for layer in named])
        losses, outputs, errors, gradients, step = [], {}, {}, {}, 0
        while step < self.steps:
            for begin in range(0, EXAMPLES, BATCH):
                if step == self.steps:
                    break
                with tensorflow.GradientTape() as tape:
                    values = keras.tree.flatten(inside(x[begin:begin + BATCH], training=True))
                    value = loss(y[begin:begin + BATCH], values[-1])
                weights = {name: weight for name, weight in parameters(model).items()
                           if weight.trainable}
                variables = [weight.value for weight in weights.values()]
                found = tape.gradient(value, variables + values)
                if step == 0:
                    outputs = {layer.name: v.numpy() for layer, v in zip(named, values)}
                    errors = {layer.name: g.numpy()
                              for layer, g in zip(named, found[len(variables):]) if g is not None}
                    gradients = {name: numpy.asarray(tensorflow.convert_to_tensor(g))
                                 for name, g in zip(weights, found)}
                optimizer.apply(found[:len(variables)], list(weights.values()))
                losses.append(float(value))
                step += 1
        return losses, outputs, errors, gradients

    def regression(self, build, text, shape, outputs=3, **options):
        """Against random targets with the mean squared error."""
        inputs = keras.Input(shape)
        model = keras.Model(inputs, build(inputs))
        x = random(EXAMPLES, *shape)
        y = random(EXAMPLES, *model.output.shape[1:], seed=9)
        self.assertEqual(model.output.shape[-1], outputs)
        self.compare(model, text, x, y, keras.losses.MeanSquaredError(), "mse", **options)

    def stack(self, *steps, **options):
        def build(value):
            for step in steps:
                value = step(value)
            return value
        return self.regression(build, **options)
