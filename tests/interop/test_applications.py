"""Networks of keras.applications with random weights, as Keras saves them and as tf2onnx exports them: what Keras puts out, to
1e-5 of the largest number. Some families as a whole; of others (InceptionResNetV2, ConvNeXt) what is special in them."""
import os
import subprocess
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy
import tensorflow

PROGRAM = os.environ["TAPEDECK"]
FAMILIES = {"MobileNetV3Small": 32, "EfficientNetV2B0": 32, "MobileNet": 32, "DenseNet121": 32, "InceptionV3": 75}
WITH_TOP = ["MobileNet"]
EXPORTED = ["MobileNetV3Small", "MobileNet"]


def as_if_trained(model):
    """Averages and gains of normalisation are zeros and ones in a new network, which would hide a mix-up."""
    random = numpy.random.default_rng(3)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            for weight in layer.weights:
                near_one = weight.name in ("gamma", "moving_variance")
                weight.assign(random.uniform(0.8, 1.2, weight.shape) if near_one else random.normal(0, 0.1, weight.shape))


class Applications(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = place.name
        keras.utils.set_random_seed(1)

    def path(self, name):
        return os.path.join(self.folder, name)

    def compare(self, model, name, x):
        want = numpy.asarray(model(x, training=False))
        numpy.save(self.path("x.npy"), x)
        done = subprocess.run([PROGRAM, "predict", self.path(name), self.path("x.npy"), "--to", self.path("y.npy"), "--quiet"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        got = numpy.load(self.path("y.npy"))
        self.assertEqual(got.shape, want.shape)
        self.assertLess(numpy.abs(got - want).max() / numpy.abs(want).max(), 1e-5)

    def test_numbers_are_added_and_multiplied(self):
        inputs = keras.Input((4, 4, 2))
        x = keras.layers.Conv2D(3, 3, name="conv")(inputs)
        outputs = keras.layers.Dense(2, name="out")(keras.layers.Flatten()((x + 3.0) * 0.25 + x * -2))
        model = keras.Model(inputs, outputs)
        for name in ("m.keras", "m.h5"):
            model.save(self.path(name))
            self.compare(model, name, numpy.random.rand(3, 4, 4, 2).astype("float32"))

    def test_layers_of_their_own(self):
        from keras.src.applications.convnext import LayerScale
        from keras.src.applications.inception_resnet_v2 import CustomScaleLayer
        inputs = keras.Input((4, 4, 2))
        x = keras.layers.Conv2D(3, 3, name="a")(inputs)
        y = keras.layers.Conv2D(3, 3, name="b")(inputs)
        outputs = CustomScaleLayer(scale=0.17, name="both")([x, LayerScale(0.3, 3, name="scale")(y)])
        model = keras.Model(inputs, outputs)
        model.get_layer("scale").set_weights([numpy.array([0.5, -2, 3], "float32")])
        for name in ("m.keras", "m.h5"):
            model.save(self.path(name))
            self.compare(model, name, numpy.random.rand(3, 4, 4, 2).astype("float32"))

    def test_normalization_that_was_told_or_has_learnt(self):
        data = numpy.random.default_rng(2).normal(3, 2, (20, 4, 4, 3)).astype("float32")
        learnt = keras.layers.Normalization(name="learnt")
        learnt.adapt(data)
        for layer in (learnt, keras.layers.Normalization(mean=[1.0, 2, 3], variance=[4.0, 5, 6], name="told"),
                      keras.layers.Normalization(mean=1.5, variance=2.5, name="one")):
            model = keras.Sequential([keras.Input((4, 4, 3)), layer, keras.layers.Conv2D(2, 2, name="conv")])
            for name in ("m.keras", "m.h5"):
                with self.subTest(f"{layer.name} {name}"):
                    model.save(self.path(name))
                    self.compare(model, name, data[:3])

    def test_families(self):
        import tf2onnx
        for family, size in FAMILIES.items():
            keras.backend.clear_session()
            model = getattr(keras.applications, family)(weights=None, include_top=family in WITH_TOP,
                                                             input_shape=(size, size, 3))
            as_if_trained(model)
            x = 255 * numpy.random.default_rng(1).random((2, size, size, 3), dtype="float32")
            names = ["m.keras", "m.h5"] + (["m.onnx"] if family in EXPORTED else [])
            for name in names:
                with self.subTest(f"{family} {name}"):
                    if name == "m.onnx":
                        function = tensorflow.function(lambda x: model(x, training=False))  # noqa: B023
                        tf2onnx.convert.from_function(
                            function, [tensorflow.TensorSpec((None, size, size, 3), tensorflow.float32)],
                            output_path=self.path(name))
                    else:
                        model.save(self.path(name))
                    self.compare(model, name, x)
                os.remove(self.path(name))


if __name__ == "__main__":
    unittest.main()
