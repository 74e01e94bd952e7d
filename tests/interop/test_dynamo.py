"""What torch.onnx.export(dynamo=True) writes of networks: with a batch of one or two, or with axes of any size, it loads
and puts out what PyTorch does, of any number of examples."""
import os
import sys
import unittest

import numpy
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "cli"))
from program import Case  # noqa: E402


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.deep, self.short = nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 1, stride=2)
        self.depthwise, self.dense = nn.Conv2d(8, 16, 3, groups=8), nn.Linear(16, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = functional.hardswish(self.depthwise(self.deep(x) + self.short(x)))
        return self.dense(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self, kind, both=False):
        super().__init__()
        self.recurrent = kind(6, 7, 2, batch_first=True, bidirectional=both)
        self.dense = nn.Linear(14 if both else 7, 3)

    def forward(self, x):
        return self.dense(self.recurrent(x)[0][:, -1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)
        self.dense = nn.Linear(16, 3)

    def forward(self, x):
        return self.dense(self.encoder(self.embedding(x)).mean(1))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(50, 16), nn.Parameter(torch.randn(64, 16))
        self.norm, self.attention = nn.LayerNorm(16), nn.Linear(16, 48)
        self.output, self.head = nn.Linear(16, 16), nn.Linear(16, 50)

    def forward(self, x):
        count, steps = x.shape
        h = self.embedding(x) + self.position[:steps]
        q, k, v = (part.reshape(count, steps, 4, 4).transpose(1, 2)
                   for part in self.attention(self.norm(h)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(h + self.output(mixed.transpose(1, 2).reshape(count, steps, 16)))


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.up, self.norm, self.out = nn.ConvTranspose2d(8, 8, 2, stride=2), nn.GroupNorm(4, 16), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        skip = torch.relu(self.down(x))
        deep = torch.relu(self.middle(functional.max_pool2d(skip, 2)))
        x = self.out(self.norm(torch.cat([self.up(deep), skip], 1)))
        count, channels, height, width = x.shape
        x = x.view(count, 2, channels // 2, height, width).transpose(1, 2).reshape(x.shape)
        return functional.interpolate(x, scale_factor=2, mode="bilinear")


def cases():
    """name, network, examples, axes of any size"""
    torch.manual_seed(18)
    images, steps, words = torch.randn(5, 3, 16, 20), torch.randn(5, 9, 6), torch.randint(0, 50, (5, 9))
    yield "residual", Residual(), images, (0, 2, 3)
    yield "lstm", Recurrent(nn.LSTM), steps, (0,)
    yield "lstm in both directions", Recurrent(nn.LSTM, both=True), steps, (0,)
    yield "gru", Recurrent(nn.GRU), steps, (0,)
    yield "encoder", Encoder(), words, (0, 1)
    yield "decoder", Decoder(), words, (0, 1)
    yield "pictures", Pictures(), images, (0, 2, 3)


class Exports(Case):
    def check(self, network, examples, count, **options):
        network.eval()
        torch.onnx.export(network, (examples[:count],), self.path("model.onnx"), dynamo=True, verbose=False, **options)
        numpy.save(self.path("x.npy"), examples.numpy())
        self.run_program("predict", "model.onnx", "x.npy", "--to", "y.npy")
        with torch.no_grad():
            wanted = network(examples).numpy()
        got = numpy.load(self.path("y.npy"))
        self.assertEqual(got.shape, wanted.shape)
        self.assertLessEqual(abs(got - wanted).max(), 1e-5 * abs(wanted).max())
        self.run_program("inspect", "model.onnx")

    def test_a_fixed_batch(self):
        for name, network, examples, _ in cases():
            for count in (1, 2):
                with self.subTest(name, count=count):
                    self.check(network, examples, count)

    def test_axes_of_any_size(self):
        for name, network, examples, axes in cases():
            with self.subTest(name):
                self.check(network, examples, 2, dynamic_shapes=({axis: Dim.AUTO for axis in axes},))


if __name__ == "__main__":
    unittest.main()
