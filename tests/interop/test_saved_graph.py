"""SavedModels that Keras 3's model.export writes: Tapedeck puts out what Keras predicts, and its gradients are
TensorFlow's."""
import os
import sys
import unittest

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras  # noqa: E402
import numpy  # noqa: E402
import tensorflow  # noqa: E402
from keras import layers  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402


def residual():
    inputs = keras.Input((8, 8, 4))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(4, 3, padding="same")(inputs)))
    x = layers.Conv2DTranspose(4, 2, strides=2, padding="same")(layers.Add()([x, inputs]))
    x = layers.ZeroPadding2D(1)(layers.AveragePooling2D(2)(layers.UpSampling2D()(x)))
    return keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))


def attention():
    inputs = keras.Input((6, 8))
    x = layers.LayerNormalization()(inputs)
    x = layers.Add()([layers.MultiHeadAttention(2, 4)(x, x), inputs])
    return keras.Model(inputs, layers.GlobalAveragePooling1D()(layers.Dense(8, activation="gelu")(x)))


def normalized():
    first = layers.Normalization()
    first.adapt(numpy.random.default_rng(1).standard_normal((50, 5)) * 3 + 1)
    return keras.Sequential([keras.Input((5,)), first, layers.Rescaling(0.5, offset=-0.1), layers.Dense(3, activation="elu"),
                             layers.Dropout(0.3), layers.Dense(2, activation="tanh")])


def stack(shape, *parts, **more):
    return lambda: keras.Sequential([keras.Input(shape, **more), *parts])


MODELS = {
    "dense": (stack((5,), layers.Dense(8, activation="relu"), layers.Dense(3, activation="softmax")), (5,)),
    "images": (stack((8, 8, 3), layers.Conv2D(4, 3, padding="same", activation="relu"), layers.BatchNormalization(),
                     layers.MaxPooling2D(), layers.DepthwiseConv2D(3, padding="same"), layers.SeparableConv2D(6, 3),
                     layers.GlobalAveragePooling2D(), layers.Dense(3)), (8, 8, 3)),
    "volumes": (stack((4, 6, 6, 2), layers.Conv3D(3, 2), layers.MaxPooling3D(2), layers.Flatten(), layers.Dense(2)), (4, 6, 6, 2)),
    "residual": (residual, (8, 8, 4)), "attention": (attention, (6, 8)), "normalized": (normalized, (5,)),
    "bidirectional": (stack((6, 4), layers.Bidirectional(layers.LSTM(3, return_sequences=True)), layers.TimeDistributed(layers.Dense(2))),
                      (6, 4)),
    "masked": (stack((6,), layers.Embedding(11, 4, mask_zero=True), layers.LSTM(5), layers.Dense(2), dtype="int32"), 11),
    "words": (stack((6,), layers.Embedding(11, 4), layers.Conv1D(5, 3, activation="swish"), layers.GlobalMaxPooling1D(),
                    layers.Dense(2, activation="sigmoid"), dtype="int32"), 11),
}
for unroll in (True, False):
    end = "_unrolled" if unroll else ""
    MODELS["lstm" + end] = (stack((6, 4), layers.LSTM(5, return_sequences=True, unroll=unroll), layers.LSTM(3, unroll=unroll),
                                  layers.Dense(2)), (6, 4))
    MODELS["gru" + end] = (stack((6, 4), layers.GRU(5, return_sequences=True, unroll=unroll), layers.SimpleRNN(3, unroll=unroll)), (6, 4))


class Exported(Case):
    def make(self, name):
        keras.utils.set_random_seed(2)
        build, shape = MODELS[name]
        model = build()
        random = numpy.random.default_rng(3)
        if name != "normalized":
            model.set_weights([w + 0.2 * numpy.abs(random.standard_normal(w.shape)) for w in model.get_weights()])
        x = random.standard_normal((4, *shape)).astype("float32") if isinstance(shape, tuple) else \
            random.integers(0, shape, (4, 6)).astype("int32")
        model.export(self.path("exported"), verbose=False)
        numpy.save(self.path("x.npy"), x)
        return model, x

    def check(self, name):
        model, x = self.make(name)
        for count in (4, 1):
            numpy.save(self.path("x.npy"), x[:count])
            self.run_program("predict", "exported", "x.npy", "--to", "y.npy", "--force")
            numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), model.predict(x[:count], verbose=0), rtol=1e-5, atol=1e-5)

    def test_gradients_are_tensorflows(self):
        for name in ("dense", "images", "lstm", "gru_unrolled", "attention"):
            with self.subTest(name):
                model, x = self.make(name)
                labels = numpy.linspace(-1, 1, 4 * model.output_shape[-1], dtype="float32").reshape(4, -1)
                numpy.save(self.path("labels.npy"), labels)
                self.run_program("gradients", "exported", "x.npy", "--labels", "labels.npy", "--loss", "mse", "--to", "g.npz",
                                 "--force", "--quiet")
                with numpy.load(self.path("g.npz")) as file:
                    made = [numpy.sort(file[key].ravel()) for key in file.files if key.endswith(".gradient")]
                with tensorflow.GradientTape() as tape:
                    loss = tensorflow.reduce_mean(tensorflow.square(model(x) - labels))
                for wanted, weight in zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables):
                    wanted = numpy.sort(numpy.asarray(wanted).ravel())
                    near = [numpy.abs(array - wanted).max() for array in made if array.shape == wanted.shape]
                    self.assertLess(min(near, default=numpy.inf), 1e-5 * max(1, numpy.abs(wanted).max()), f"{name}: {weight.path}")

    def test_two_inputs_and_two_outputs(self):
        a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
        c = layers.Dense(6, activation="relu")(layers.Concatenate()([a, b]))
        model = keras.Model([a, b], {"p": layers.Dense(2, name="p")(c), "q": layers.Dense(1, name="q")(c)})
        model.export(self.path("exported"), verbose=False)
        given = {"a": numpy.random.rand(5, 4).astype("float32"), "b": numpy.random.rand(5, 3).astype("float32")}
        for name, array in given.items():
            numpy.save(self.path(name + ".npy"), array)
        self.run_program("predict", "exported", "--input", "a=a.npy", "--input", "b=b.npy", "--output", "p=p.npy", "--output", "q=q.npy")
        for name, wanted in model.predict(list(given.values()), verbose=0).items():
            numpy.testing.assert_allclose(numpy.load(self.path(name + ".npy")), wanted, rtol=1e-5, atol=1e-5)

    def test_a_module_of_tensorflow(self):
        class Module(tensorflow.Module):
            def __init__(self):
                super().__init__()
                self.w = tensorflow.Variable(tensorflow.ones((3, 2)) * 0.5, name="w")

            @tensorflow.function(input_signature=[tensorflow.TensorSpec((None, 3), tensorflow.float32, name="x")])
            def __call__(self, x):
                return {"y": tensorflow.nn.relu(tensorflow.matmul(x, self.w) - 0.3)}
        module = Module()
        tensorflow.saved_model.save(module, self.path("module"), signatures=module.__call__)
        x = numpy.random.rand(4, 3).astype("float32")
        numpy.save(self.path("x.npy"), x)
        self.run_program("predict", "module", "x.npy", "--to", "y.npy")
        numpy.testing.assert_allclose(numpy.load(self.path("y.npy")), module(x)["y"].numpy(), rtol=1e-6, atol=1e-6)

    def test_what_is_not_supported_is_named(self):
        model = keras.Sequential([keras.Input((3, 3)), layers.Lambda(lambda x: tensorflow.linalg.det(x)[:, None])])
        model.export(self.path("exported"), verbose=False)
        numpy.save(self.path("x.npy"), numpy.zeros((2, 3, 3), "float32"))
        said = self.run_program("predict", "exported", "x.npy", "--to", "y.npy", status=1).stderr
        self.assertIn("MatrixDeterminant", said)


for title in MODELS:
    setattr(Exported, "test_" + title, lambda self, title=title: self.check(title))


if __name__ == "__main__":
    unittest.main()
