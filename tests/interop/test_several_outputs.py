"""A network of several inputs and outputs trained in Keras and here: losses of each output, their
weights, metrics, validation, parameters after training and predictions agree. Trained with sgd: of an
id that a batch repeats, Adam of Keras on TensorFlow adds up squares instead of squaring the sum, which no
other backend does (tests/cli/test_embedding.py has Adam against the equations)."""
import csv
import os
import subprocess
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras  # noqa: E402
import numpy as np  # noqa: E402

TAPEDECK = os.environ["TAPEDECK"]
EPOCHS = 4
ROWS, VALIDATION = 48, 16


def arrays(rows, seed):
    generator = np.random.default_rng(seed)
    image = generator.normal(size=(rows, 4, 4, 1)).astype("float32")
    text = generator.integers(0, 10, size=(rows, 5))
    return {
        "image": image,
        "text": text,
        "price": (image.mean((1, 2, 3)) * 3 + text.mean(1) * 0.1).astype("float32"),
        "kind": text[:, 0] % 3,
        "tags": (text[:, 1:3] > 4).astype("float32"),
    }


def network():
    image = keras.Input((4, 4, 1), name="image")
    text = keras.Input((5,), name="text")
    first = keras.layers.Dense(6, activation="tanh", name="d1")(keras.layers.Flatten(name="flat")(image))
    second = keras.layers.Flatten(name="f2")(keras.layers.Embedding(10, 3, name="emb")(text))
    both = keras.layers.Concatenate(name="all")([first, second])
    price = keras.layers.Dense(1, name="price", kernel_regularizer=keras.regularizers.L2(0.01))(both)
    kind = keras.layers.Dense(3, name="kind")(both)
    tags = keras.layers.Dense(2, activation="sigmoid", name="tags")(both)
    return keras.Model([image, text], [price, kind, tags])


EXPERIMENT = """
name: several
data:
  inputs: {{text: text.npy, image: image.npy}}
  labels: {{kind: kind.npy, price: price.npy, tags: tags.npy}}
  validation: {{image: v_image.npy, text: v_text.npy}}
  validation_labels: {{kind: v_kind.npy, price: v_price.npy, tags: v_tags.npy}}
  batch: 8
  shuffle: false
model:
  inputs: [image, text]
  layers:
  - flatten: {{name: flat, from: image}}
  - dense: {{name: d1, units: 6, activation: tanh}}
  - embedding: {{name: emb, input_dim: 10, output_dim: 3, from: text}}
  - flatten: {{name: f2}}
  - concatenate: {{name: all, from: [d1, f2]}}
  - dense: {{name: price, units: 1, kernel_l2: 0.01}}
  - dense: {{name: kind, units: 3, from: all}}
  - dense: {{name: tags, units: 2, activation: sigmoid, from: all}}
  outputs: [price, kind, tags]
weights: begin.npz
train:
  loss:
    price: {{huber: {{delta: 0.5}}}}
    kind: {{sparse_categorical_crossentropy: {{from_logits: true}}}}
    tags: binary_crossentropy
  loss_weights: {{price: 0.5, tags: 2}}
  metrics: {{kind: [accuracy], price: [mae], tags: [binary_accuracy]}}
  optimizer: {{sgd: {{learning_rate: 0.05, momentum: 0.9}}}}
  epochs: {epochs}
record:
- what: ['*loss', '*kind_accuracy', '*price_mae', '*tags_binary_accuracy']
  every: 1 epoch
  to: csv
"""


def weights_of(model):
    return {f"{layer.name}.{v.name}": v.numpy() for layer in model.layers for v in layer.weights}


class SeveralOutputs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.data, self.check = arrays(ROWS, 3), arrays(VALIDATION, 4)
        for prefix, part in (("", self.data), ("v_", self.check)):
            for name, array in part.items():
                np.save(f"{self.folder}/{prefix}{name}.npy", array)
        keras.utils.set_random_seed(1)
        self.model = network()
        np.savez(f"{self.folder}/begin.npz", **weights_of(self.model))
        self.run_program("train", "e.yaml", "--quiet", text=EXPERIMENT.format(epochs=EPOCHS))

    def run_program(self, *arguments, text=None):
        if text:
            with open(f"{self.folder}/e.yaml", "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([TAPEDECK, *arguments], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def fit(self):
        names = ("price", "kind", "tags")
        self.model.compile(
            optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
            loss={
                "price": keras.losses.Huber(0.5),
                "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                "tags": "binary_crossentropy",
            },
            loss_weights={"price": 0.5, "kind": 1.0, "tags": 2.0},
            metrics={"kind": ["accuracy"], "price": ["mae"], "tags": ["binary_accuracy"]},
        )
        inputs = ("image", "text")
        return self.model.fit(
            [self.data[n] for n in inputs],
            [self.data[n] for n in names],
            validation_data=([self.check[n] for n in inputs], [self.check[n] for n in names]),
            epochs=EPOCHS, batch_size=8, shuffle=False, verbose=0,
        ).history

    def test_training_is_keras_s(self):
        history = self.fit()
        with open(f"{self.folder}/runs/several/metrics.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), EPOCHS)
        self.assertLessEqual(set(history), set(rows[0]))
        for name, values in history.items():
            np.testing.assert_allclose([float(r[name]) for r in rows], values, rtol=2e-5, err_msg=name)
        self.run_program("weights", "runs/several", "--to", "end.npz")
        ours = np.load(f"{self.folder}/end.npz")
        for name, values in weights_of(self.model).items():
            np.testing.assert_allclose(ours[name], values, rtol=1e-4, atol=1e-5, err_msg=name)

    def test_predictions_are_keras_s(self):
        self.fit()
        given = [f"--input={n}=v_{n}.npy" for n in ("image", "text")]
        self.run_program("predict", "runs/several", *given, "--to", "out.npy", "--quiet")
        theirs = self.model.predict([self.check["image"], self.check["text"]], verbose=0)
        for name, values in zip(("price", "kind", "tags"), theirs):
            np.testing.assert_allclose(np.load(f"{self.folder}/out.{name}.npy"), values, rtol=1e-3, atol=1e-4)
        np.savez(f"{self.folder}/all.npz", **self.check)
        self.run_program("predict", "runs/several", "all.npz", "--to", "out.csv", "--quiet")
        with open(f"{self.folder}/out.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([int(r["kind_predicted"]) for r in rows], theirs[1].argmax(1).tolist())
        self.assertEqual([int(float(r["kind_label"])) for r in rows], self.check["kind"].tolist())
        np.testing.assert_allclose([float(r["price_0"]) for r in rows], theirs[0][:, 0], rtol=1e-3, atol=1e-4)

    def test_a_resumed_run_is_the_same_run(self):
        self.run_program("train", "e.yaml", "--quiet", "--out", "half", text=EXPERIMENT.format(epochs=2))
        self.run_program("train", "e.yaml", "--quiet", "--out", "half", "--resume", "half/several",
                         text=EXPERIMENT.format(epochs=EPOCHS))
        for run in ("runs/several", "half/several"):
            self.run_program("weights", run, "--to", f"{run.split('/')[0]}.npz")
        whole, half = (np.load(f"{self.folder}/{n}.npz") for n in ("runs", "half"))
        for name in whole.files:
            np.testing.assert_array_equal(whole[name], half[name], err_msg=name)


if __name__ == "__main__":
    unittest.main()
