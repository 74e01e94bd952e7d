"""Inference of ONNX models beside onnxruntime, one example at a time, in turns: medians, with one thread and two.

    ./dev bench models [NAME …] [--rounds N] [--threads N,…]

The architectures are those that people have files of, with random weights: written here, so that nothing is downloaded.
"""
import argparse
import os
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "tools"))
from rounds import Worker, interleave  # noqa: E402


class Graph:
    """Nodes one after another; a method returns the name of what it makes and its channels are kept beside it."""

    def __init__(self, *shape):
        self.nodes, self.weights, self.random = [], [], numpy.random.default_rng(1)
        self.shape, self.channels = shape, {"x": shape[0]}

    def constant(self, value):
        name = "w%d" % len(self.weights)
        self.weights.append(numpy_helper.from_array(numpy.asarray(value), name))
        return name

    def normal(self, *shape, fan=1):
        return self.constant((self.random.standard_normal(shape) / fan ** 0.5).astype("float32"))

    def add(self, operator, *inputs, outputs=1, channels=None, **attributes):
        names = ["v%d_%d" % (len(self.nodes), i) for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        self.channels[names[0]] = channels or self.channels.get(inputs[0])
        return names[0]

    def conv(self, x, filters, size=3, stride=1, groups=1, activation="Relu"):
        inside = self.channels[x] // groups
        w = self.normal(filters, inside, size, size, fan=2 * inside * size * size)
        y = self.add("Conv", x, w, self.normal(filters), channels=filters, kernel_shape=[size] * 2, strides=[stride] * 2,
                     pads=[size // 2] * 4, group=groups)
        return self.activate(y, activation)

    def activate(self, x, activation):
        if activation == "Swish":
            return self.add("Mul", x, self.add("Sigmoid", x))
        if activation == "Relu6":
            return self.add("Clip", x, self.constant(numpy.float32(0)), self.constant(numpy.float32(6)))
        return self.add(activation, x) if activation else x

    def normalize(self, x):
        c = self.channels[x]
        ones = self.constant(numpy.ones(c, "float32"))
        return self.add("BatchNormalization", x, ones, self.normal(c), self.normal(c), ones)

    def dense(self, x, inside, out):
        return self.add("Add", self.add("MatMul", x, self.normal(inside, out, fan=inside)), self.normal(out), channels=out)

    def head(self, x, classes=1000):
        c = self.channels[x]
        y = self.add("Flatten", self.add("GlobalAveragePool", x))
        return self.add("Gemm", y, self.normal(classes, c, fan=c), self.normal(classes), transB=1, channels=classes)

    def save(self, path, output):
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *self.shape])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)], self.weights)
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)


def resnet18():
    g = Graph(3, 224, 224)
    x = g.add("MaxPool", g.conv("x", 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for filters, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        around = x if stride == 1 and g.channels[x] == filters else g.conv(x, filters, 1, stride, activation=None)
        y = g.conv(g.conv(x, filters, 3, stride), filters, activation=None)
        x = g.add("Relu", g.add("Add", y, around))
    return g, g.head(x)


def densenet():
    g = Graph(3, 224, 224)
    x = g.add("MaxPool", g.conv("x", 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for block, count in enumerate((6, 12, 12, 8)):
        for _ in range(count):
            y = g.conv(g.add("Relu", g.normalize(x)), 128, 1)
            y = g.conv(y, 32, activation=None)
            x = g.add("Concat", x, y, axis=1, channels=g.channels[x] + 32)
        if block < 3:
            x = g.conv(g.add("Relu", g.normalize(x)), g.channels[x] // 2, 1, activation=None)
            x = g.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return g, g.head(g.add("Relu", g.normalize(x)))


def inverted(g, x, filters, size, stride, expand, activation, squeeze=False):
    inside = g.channels[x] * expand
    y = g.conv(x, inside, 1, activation=activation) if expand > 1 else x
    y = g.conv(y, inside, size, stride, groups=inside, activation=activation)
    if squeeze:
        s = g.conv(g.add("GlobalAveragePool", y), max(8, inside // 16), 1, activation="Relu")
        y = g.add("Mul", y, g.conv(s, inside, 1, activation="Sigmoid"))
    y = g.conv(y, filters, 1, activation=None)
    return g.add("Add", x, y) if stride == 1 and g.channels[x] == filters else y


def mobilenet_v2():
    g = Graph(3, 224, 224)
    x = g.conv("x", 32, 3, 2, activation="Relu6")
    for expand, filters, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                           (6, 320, 1, 1)):
        for i in range(count):
            x = inverted(g, x, filters, 3, stride if i == 0 else 1, expand, "Relu6")
    return g, g.head(g.conv(x, 1280, 1, activation="Relu6"))


def efficientnet():
    g = Graph(3, 224, 224)
    x = g.conv("x", 32, 3, 2, activation="Swish")
    for expand, filters, count, stride, size in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
                                                 (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):
        for i in range(count):
            x = inverted(g, x, filters, size, stride if i == 0 else 1, expand, "Swish", squeeze=True)
    return g, g.head(g.conv(x, 1280, 1, activation="Swish"))


def shufflenet():
    g = Graph(3, 224, 224)
    x = g.add("MaxPool", g.conv("x", 24, 3, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for filters, count in ((240, 4), (480, 8), (960, 4)):
        for i in range(count):
            stride = 2 if i == 0 else 1
            y = g.conv(x, filters // 4, 1, groups=3 if g.channels[x] % 3 == 0 else 1)
            y = g.conv(y, filters // 4, 3, stride, groups=filters // 4, activation=None)
            y = g.conv(y, filters, 1, groups=3, activation=None)
            x = g.add("Relu", g.add("Add", x, y) if stride == 1 else y)
    return g, g.head(x)


def unet():
    g = Graph(3, 128, 128)
    x, kept = "x", []
    for filters in (16, 32, 64):
        x = g.conv(g.conv(x, filters), filters)
        kept.append(x)
        x = g.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.conv(x, 128)
    for filters in (64, 32, 16):
        x = g.add("ConvTranspose", x, g.normal(g.channels[x], filters, 2, 2, fan=g.channels[x] * 4), strides=[2, 2], channels=filters)
        x = g.add("Concat", x, kept.pop(), axis=1, channels=2 * filters)
        x = g.conv(g.conv(x, filters), filters)
    return g, g.conv(x, 2, 1, activation=None)


def ocr():
    """A recogniser of lines as PaddleOCR's: a small convolutional network, then an LSTM over the columns."""
    g = Graph(3, 32, 320)
    x = g.conv("x", 16, 3, 2, activation="HardSwish")
    for filters, size, stride in ((16, 3, [1, 1]), (32, 3, [2, 1]), (48, 5, [2, 1]), (96, 5, [2, 1]), (96, 5, [2, 1])):
        inside = 4 * g.channels[x]
        y = g.conv(x, inside, 1, activation="HardSwish")
        y = g.add("Conv", y, g.normal(inside, 1, size, size, fan=size * size), g.normal(inside), kernel_shape=[size] * 2, strides=stride,
                  pads=[size // 2] * 4, group=inside, channels=inside)
        x = g.conv(g.add("HardSwish", y), filters, 1, activation=None)
    x = g.add("Transpose", g.add("Squeeze", x, g.constant(numpy.array([2]))), perm=[2, 0, 1])
    x = g.add("LSTM", x, g.normal(2, 192, 96, fan=96), g.normal(2, 192, 48, fan=48), g.normal(2, 384), hidden_size=48,
              direction="bidirectional")
    x = g.add("Reshape", g.add("Transpose", x, perm=[2, 0, 1, 3]), g.constant(numpy.array([-1, 160, 96])))
    return g, g.add("Softmax", g.dense(x, 96, 6625), axis=-1)


def lstm():
    g = Graph(100, 64)
    x = g.add("Transpose", "x", perm=[1, 0, 2])
    x = g.add("LSTM", x, g.normal(1, 1024, 64, fan=64), g.normal(1, 1024, 256, fan=256), g.normal(1, 2048), hidden_size=256)
    x = g.add("Transpose", g.add("Squeeze", x, g.constant(numpy.array([1]))), perm=[1, 0, 2])
    return g, g.dense(x, 256, 10)


def nsnet2():
    """A denoiser of speech: dense layers around two GRUs, over frames."""
    g = Graph(200, 161)
    x = g.add("Transpose", g.add("Relu", g.dense("x", 161, 400)), perm=[1, 0, 2])
    for _ in range(2):
        x = g.add("GRU", x, g.normal(1, 1200, 400, fan=400), g.normal(1, 1200, 400, fan=400), g.normal(1, 2400), hidden_size=400,
                  linear_before_reset=1)
        x = g.add("Squeeze", x, g.constant(numpy.array([1])))
    x = g.add("Relu", g.dense(g.add("Transpose", x, perm=[1, 0, 2]), 400, 600))
    return g, g.add("Sigmoid", g.dense(g.add("Relu", g.dense(x, 600, 600)), 600, 161))


def attend(g, x, steps, width, heads):
    shape = g.constant(numpy.array([-1, steps, heads, width // heads]))
    parts = [g.add("Transpose", g.add("Reshape", g.dense(x, width, width), shape), perm=perm)
             for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])]
    scores = g.add("Mul", g.add("MatMul", parts[0], parts[1]), g.constant(numpy.float32((width // heads) ** -0.5)))
    y = g.add("MatMul", g.add("Softmax", scores, axis=-1), parts[2])
    y = g.add("Reshape", g.add("Transpose", y, perm=[0, 2, 1, 3]), g.constant(numpy.array([-1, steps, width])))
    return g.dense(y, width, width)


def transformer():
    """Four blocks as GPT has them, over embeddings."""
    steps, width = 128, 384
    g = Graph(steps, width)
    x, ones = "x", numpy.ones(width, "float32")
    for _ in range(4):
        y = g.add("LayerNormalization", x, g.constant(ones), g.normal(width))
        x = g.add("Add", x, attend(g, y, steps, width, 6))
        y = g.dense(g.add("LayerNormalization", x, g.constant(ones), g.normal(width)), width, 4 * width)
        gate = g.add("Erf", g.add("Mul", y, g.constant(numpy.float32(0.5 ** 0.5))))
        y = g.add("Mul", g.add("Mul", y, g.add("Add", gate, g.constant(numpy.float32(1)))), g.constant(numpy.float32(0.5)))
        x = g.add("Add", x, g.dense(y, 4 * width, width))
    return g, x


def magika():
    """What kind of file it is: an embedding of bytes, a convolution over them, the greatest of each."""
    g = Graph(2048, 64)
    x = g.add("Transpose", g.dense("x", 64, 128), perm=[0, 2, 1])
    x = g.add("Conv", x, g.normal(256, 128, 5, fan=640), g.normal(256), kernel_shape=[5], channels=256)
    x = g.add("Flatten", g.add("GlobalMaxPool", g.add("Relu", x)))
    return g, g.add("Softmax", g.dense(x, 256, 113), axis=-1)


def mlp():
    g = Graph(784)
    x = g.add("Relu", g.dense("x", 784, 1024))
    return g, g.dense(g.add("Relu", g.dense(x, 1024, 1024)), 1024, 10)


PAUSE = 0.12  # seconds: onnxruntime's threads spin up to 0.1 after a run
MODELS = [resnet18, densenet, mobilenet_v2, efficientnet, shufflenet, unet, ocr, lstm, nsnet2, transformer, magika, mlp]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--milliseconds", type=float, default=200)
    parser.add_argument("--threads", default="1,2")
    options = parser.parse_args()
    print("| model | threads | onnxruntime, ms | Tapedeck, ms | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for make in MODELS:
            if options.names and make.__name__ not in options.names:
                continue
            path = os.path.join(folder, make.__name__ + ".onnx")
            graph, output = make()
            graph.save(path, output)
            for threads in options.threads.split(","):
                workers = [Worker([sys.executable, os.path.join(HERE, "peers", "models.py"), path, threads]),
                           Worker([os.path.join(HERE, os.pardir, "build", "bench", "models"), path, threads])]
                theirs, ours = interleave(workers, options.rounds, options.milliseconds, PAUSE)
                print("| %s | %s | %.2f | %.2f | %.2f |" % (make.__name__, threads, theirs.median, ours.median,
                                                           ours.median / theirs.median), flush=True)
                for worker in workers:
                    worker.close()


if __name__ == "__main__":
    main()
