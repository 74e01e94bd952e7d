"""Models of Keras with several inputs and outputs, layers and models called twice: loaded from .keras
and .h5 they put out what Keras does, and written again Keras opens them."""
import os
import subprocess
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import layers  # noqa: E402

TAPEDECK = os.environ["TAPEDECK"]


def siamese():
    left, right = keras.Input((6,), name="left"), keras.Input((6,), name="right")
    tower, second = layers.Dense(5, activation="tanh", name="tower"), layers.Dense(3, name="second")
    a, b = second(tower(left)), second(tower(right))
    score = layers.Dense(1, name="score")(layers.Concatenate(name="cat")([a, b]))
    kind = layers.Dense(2, name="kind")(layers.Subtract(name="sub")([a, b]))
    return keras.Model([left, right], [score, kind])


def models_called_twice():
    image = keras.Input((4, 4, 1))
    flat = layers.Flatten()(layers.Conv2D(2, 3)(image))
    inner = keras.Model(image, [layers.Dense(3, activation="relu")(flat), layers.Dense(2)(flat)], name="inner")
    stack = keras.Sequential([keras.Input((3,)), layers.Dense(4), layers.BatchNormalization()], name="stack")
    first, second = keras.Input((4, 4, 1), name="first"), keras.Input((4, 4, 1), name="second")
    (p, q), (r, s) = inner(first), inner(second)
    out = layers.Dense(1, name="out")(layers.Add()([stack(p), stack(r)]))
    return keras.Model([first, second], [out, layers.Concatenate(name="both")([q, s])])


def model_of_two_inputs_inside():
    a, b = keras.Input((5,)), keras.Input((3,))
    inner = keras.Model([a, b], layers.Dense(4)(layers.Concatenate()([a, b])), name="join")
    first, second = keras.Input((5,), name="first"), keras.Input((3,), name="second")
    return keras.Model([second, first], layers.Dense(2, name="out")(inner([first, second])))


def texts_of_any_length():
    question, answer = keras.Input((None,), name="question"), keras.Input((None,), name="answer")
    words, read = layers.Embedding(20, 4, name="words"), layers.LSTM(3, name="read")
    both = layers.Concatenate()([read(words(question)), read(words(answer))])
    return keras.Model([question, answer], layers.Dense(1, name="out")(both))


def layer_after_itself():
    x = keras.Input((4,), name="x")
    twice = layers.Dense(4, name="twice")
    return keras.Model(x, twice(twice(x)))


def output_read_by_another():
    x = keras.Input((4,), name="x")
    first = layers.Dense(3, name="first")(x)
    return keras.Model(x, [first, layers.Dense(2, name="second")(first)])


def model_that_is_the_output():
    x, inside = keras.Input((4,), name="x"), keras.Input((4,))
    inner = keras.Model(inside, layers.Dense(4, activation="tanh", name="same")(inside), name="inner")
    inner(inner(x))
    return keras.Model(x, inner(layers.Dense(4, name="before")(x)))


def calls_of_a_model_as_outputs():
    x, inside = keras.Input((4,), name="x"), keras.Input((4,))
    inner = keras.Model(inside, layers.Dense(4, activation="tanh", name="same")(inside), name="inner")
    second = inner(inner(x))
    inner(second)
    return keras.Model(x, [layers.Dense(2, name="after")(inner(second)), second])


class Several(unittest.TestCase):
    def compare(self, make):
        keras.utils.set_random_seed(4)
        model, generator = make(), np.random.default_rng(2)
        inputs = {}
        for tensor in model.inputs:
            shape = [7] + [6 if size is None else size for size in tensor.shape[1:]]
            text = make is texts_of_any_length
            inputs[tensor.name] = (generator.integers(0, 20, shape) if text else generator.normal(size=shape)).astype("float32")
        expected = model.predict(list(inputs.values()), verbose=0)
        expected = expected if isinstance(expected, list) else [expected]
        with tempfile.TemporaryDirectory() as folder:
            if len(inputs) == 1:
                np.save(f"{folder}/data.npy", inputs["x"])
            else:
                np.savez(f"{folder}/data.npz", **inputs)
            for kind in ("keras", "h5"):
                model.save(f"{folder}/m.{kind}")
                done = subprocess.run(
                    [TAPEDECK, "predict", f"m.{kind}", "data.npy" if len(inputs) == 1 else "data.npz", "--to", "out.npy"],
                    cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                subprocess.run([TAPEDECK, "weights", f"m.{kind}", "--to", f"again.{kind}"], cwd=folder, check=True,
                               stdout=subprocess.DEVNULL)
                again = keras.models.load_model(f"{folder}/again.{kind}", compile=False)
                back = again.predict(list(inputs.values()), verbose=0)
                for values, found in zip(expected, back if isinstance(back, list) else [back]):
                    np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-5, err_msg=f"written {kind}")
                for name, values in zip(model.output_names, expected):
                    name = "same@2" if name == "inner" else name  # of a model's call: its last layer there
                    found = np.load(f"{folder}/out.{name}.npy" if len(expected) > 1 else f"{folder}/out.npy")
                    np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-5, err_msg=f"{kind} {name}")

    def test_loaded_models_put_out_the_same(self):
        for make in (siamese, models_called_twice, model_of_two_inputs_inside, texts_of_any_length,
                     layer_after_itself, output_read_by_another, model_that_is_the_output,
                     calls_of_a_model_as_outputs):
            with self.subTest(make.__name__):
                self.compare(make)

    def test_a_file_of_shared_layers_trains_on(self):
        keras.utils.set_random_seed(4)
        model, generator = siamese(), np.random.default_rng(2)
        arrays = {t.name: generator.normal(size=(20, *t.shape[1:])).astype("float32") for t in model.inputs}
        labels = {name: generator.normal(size=(20, width)).astype("float32") for name, width in (("score", 1), ("kind", 2))}
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/m.keras")
            for name, values in {**arrays, **labels}.items():
                np.save(f"{folder}/{name}.npy", values)
            named = [", ".join(f"{name}: {name}.npy" for name in part) for part in (arrays, labels)]
            with open(f"{folder}/e.yaml", "w", encoding="utf-8") as file:
                file.write(f"""
name: on
data: {{inputs: {{{named[0]}}}, labels: {{{named[1]}}}, batch: 5, shuffle: false}}
model: {{file: m.keras}}
train: {{loss: mse, optimizer: {{sgd: {{learning_rate: 0.05, momentum: 0.9}}}}, epochs: 5}}
""")
            for arguments in (["train", "e.yaml", "--quiet"], ["weights", "runs/on", "--to", "end.npz"]):
                done = subprocess.run([TAPEDECK, *arguments], cwd=folder, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
            model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss="mse")
            model.fit(list(arrays.values()), [labels["score"], labels["kind"]], batch_size=5, epochs=5, shuffle=False,
                      verbose=0)
            with np.load(f"{folder}/end.npz") as end:
                for layer in model.layers:
                    for weight in layer.weights:
                        np.testing.assert_allclose(end[f"{layer.name}.{weight.name}"], weight.numpy(), rtol=1e-4,
                                                   atol=1e-5, err_msg=weight.path)


if __name__ == "__main__":
    unittest.main()
