"""PyTorch's training step for the networks of the engine benchmark.

    engine.py NETWORK THREADS LAYOUT [SETUP]      LAYOUT, of images and convolutions: nchw or nhwc;
                                                  SETUP: eager, fused (Adam), compile (torch.compile)

A worker, which answers lines on standard input. It prints `ready`; `run N` trains N steps and answers milliseconds per step, `memory` answers
the peak resident size in KiB, the end of input ends it. build/bench/engine speaks the same lines.

The networks, for whoever implements them again. Adam (0.001, 0.9, 0.999, 1e-7) everywhere, one fixed
batch of random inputs and targets, every weight layer with a bias. A step is: forward, loss,
gradients of all parameters (not of the input batch), update.

    M1   batch 32: 5, dense 10 relu, dense 5; mean squared error
    M2   batch 10: 10, dense 64 relu, dense 1; mean squared error
    M3   batch 64: 28x28x1, conv 32 3x3 valid relu, max pool 2, conv 64 3x3 valid relu, max pool 2,
         flatten (1600), dense 128 relu, dense 10; sparse cross-entropy from logits
    M4   batch 128: 784, dense 512 relu, dense 512 relu, dense 10; sparse cross-entropy from logits
    M5a  batch 32: 64 positions of width 128, twice the block
             x = x + dense128(attention(layer_norm(x)))    4 heads of 32; dense128 for query, key and
                                                           value each; scores / sqrt(32), softmax,
                                                           no mask, no dropout
             x = x + dense128(relu(dense512(layer_norm(x))))
         no norm at the end; mean squared error against random targets of the same shape
    M5b  batch 32: 32x32x3, conv 32 3x3 same relu, two residual blocks of 32 channels,
         conv 64 3x3 stride 2 (32x32 to 16x16) relu, two residual blocks of 64 channels,
         global average pool, dense 10; sparse cross-entropy from logits. No normalisation. A block:
             x = relu(x + conv3x3_same(relu(conv3x3_same(x))))
    mobile    batch 32: 32x32x3, conv 32 3x3 same relu; five times depthwise 3x3 same relu, conv 1x1 relu,
              to 64, 128 (stride 2), 128, 256 (stride 2), 256 channels; global average pool, dense 10;
              sparse cross-entropy from logits
    grouped   batch 32: 32x32x3, conv 64 3x3 same relu, twice the residual block conv 128 1x1 relu,
              conv 128 3x3 same in 32 groups relu, conv 64 1x1, sum, relu; global average pool, dense 10;
              sparse cross-entropy from logits
    adding    batch 64: 50 steps of 2, LSTM 64, dense 1; mean squared error
    text      batch 32: 100 of 5000 words, embedding 64, GRU 64, dense 2; sparse cross-entropy from logits
    resnet18  batch 16: 32x32x3, conv 64 3x3, two basic blocks each of 64, 128, 256, 512 channels (stride 2
              between), all with batch normalisation, no bias; global average pool, dense 10; sparse
              cross-entropy from logits
"""
import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

from lines import answer


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)  # query, key and value in one product
        self.output = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = self.inputs(x).view(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(size), -1)
        return self.output((weights @ v).transpose(1, 2).reshape(batch, length, width))


class TransformerBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads))
        self.feed_forward = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden),
                                          nn.ReLU(inplace=True), nn.Linear(hidden, width))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.feed_forward(x)


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(inplace=True),
                                  nn.Conv2d(channels, channels, 3, padding=1))

    def forward(self, x):
        return F.relu_(x + self.body(x))


class Same(nn.Conv2d):
    """Padding as Keras has it: with a stride of 2 more after the image than before."""
    def __init__(self, inputs, outputs, size, stride=1, groups=1, bias=True):
        super().__init__(inputs, outputs, size, stride, size // 2 if stride == 1 else 0, groups=groups, bias=bias)

    def forward(self, x):
        if self.stride[0] == 2 and self.kernel_size[0] == 3:
            x = F.pad(x, (0, 1, 0, 1))
        return super().forward(x)


class Residual(nn.Module):
    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body, self.shortcut = body, shortcut or nn.Identity()

    def forward(self, x):
        return F.relu_(self.shortcut(x) + self.body(x))


class LastStep(nn.Module):
    """A recurrent layer's last output."""
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0][:, -1]


def pooled(channels):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]


def mobile():
    layers = [Same(3, 32, 3), relu()]
    for inputs, outputs, stride in [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)]:
        layers += [Same(inputs, inputs, 3, stride, groups=inputs), relu(), Same(inputs, outputs, 1), relu()]
    return nn.Sequential(*layers, *pooled(256))


def grouped():
    blocks = [Residual(nn.Sequential(Same(64, 128, 1), relu(), Same(128, 128, 3, groups=32), relu(), Same(128, 64, 1)))
              for _ in range(2)]
    return nn.Sequential(Same(3, 64, 3), relu(), *blocks, *pooled(64))


def normalized(inputs, outputs, size, stride=1):
    return [Same(inputs, outputs, size, stride, bias=False), nn.BatchNorm2d(outputs)]


def resnet18():
    layers, inputs = [*normalized(3, 64, 3), relu()], 64
    for outputs in (64, 128, 256, 512):
        for stride in (1 if outputs == 64 else 2, 1):
            body = nn.Sequential(*normalized(inputs, outputs, 3, stride), relu(), *normalized(outputs, outputs, 3))
            layers.append(Residual(body, nn.Sequential(*normalized(inputs, outputs, 1, 2)) if stride == 2 else None))
            inputs = outputs
    return nn.Sequential(*layers, *pooled(512))


def relu():
    return nn.ReLU(inplace=True)


NETWORKS = {
    "M1": lambda: nn.Sequential(nn.Linear(5, 10), relu(), nn.Linear(10, 5)),
    "M2": lambda: nn.Sequential(nn.Linear(10, 64), relu(), nn.Linear(64, 1)),
    "M3": lambda: nn.Sequential(nn.Conv2d(1, 32, 3), relu(), nn.MaxPool2d(2),
                                nn.Conv2d(32, 64, 3), relu(), nn.MaxPool2d(2), nn.Flatten(),
                                nn.Linear(1600, 128), relu(), nn.Linear(128, 10)),
    "M4": lambda: nn.Sequential(nn.Linear(784, 512), relu(), nn.Linear(512, 512), relu(),
                                nn.Linear(512, 10)),
    "M5a": lambda: nn.Sequential(*[TransformerBlock(128, 4, 512) for _ in range(2)]),
    "M5b": lambda: nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), relu(),
                                 ResidualBlock(32), ResidualBlock(32),
                                 nn.Conv2d(32, 64, 3, stride=2, padding=1), relu(),
                                 ResidualBlock(64), ResidualBlock(64),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    "mobile": mobile,
    "grouped": grouped,
    "adding": lambda: nn.Sequential(LastStep(nn.LSTM(2, 64, batch_first=True)), nn.Linear(64, 1)),
    "text": lambda: nn.Sequential(nn.Embedding(5000, 64), LastStep(nn.GRU(64, 64, batch_first=True)), nn.Linear(64, 2)),
    "resnet18": resnet18,
}
INPUTS = {"M1": (32, 5), "M2": (10, 10), "M3": (64, 1, 28, 28), "M4": (128, 784),
          "M5a": (32, 64, 128), "M5b": (32, 3, 32, 32), "mobile": (32, 3, 32, 32), "grouped": (32, 3, 32, 32),
          "adding": (64, 50, 2), "text": (32, 100), "resnet18": (16, 3, 32, 32)}
CLASSES = {"M3": 10, "M4": 10, "M5b": 10, "mobile": 10, "grouped": 10, "text": 2, "resnet18": 10}  # the others regress


def make_inputs(network, count=None):
    shape = (count or INPUTS[network][0], *INPUTS[network][1:])
    return torch.randint(0, 5000, shape) if network == "text" else torch.randn(shape)


def make_step(network, layout, watch=None, setup="eager"):
    """A function that trains one step. watch is given the model first, and returns a function to call
    after each step."""
    torch.manual_seed(1)
    model = NETWORKS[network]()
    after = watch(model) if watch else lambda: None
    inputs = make_inputs(network)
    if layout == "nhwc" and inputs.dim() == 4:
        model = model.to(memory_format=torch.channels_last)
        inputs = inputs.to(memory_format=torch.channels_last)
    if network in CLASSES:
        targets = torch.randint(0, CLASSES[network], (len(inputs),))
        loss_of = F.cross_entropy
    else:
        targets = torch.randn(model(inputs).shape)
        loss_of = F.mse_loss
    more = {} if setup == "eager" else {"fused": True}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, eps=1e-7, **more)
    run = torch.compile(lambda: loss_of(model(inputs), targets)) if setup == "compile" else (
        lambda: loss_of(model(inputs), targets))

    def step():
        optimizer.zero_grad(set_to_none=True)
        run().backward()
        optimizer.step()
        after()

    return step


def main():
    network, threads, layout = sys.argv[1:4]
    torch.set_num_threads(int(threads))
    torch.set_flush_denormal(True)
    answer(make_step(network, layout, setup=sys.argv[4] if len(sys.argv) > 4 else "eager"))


if __name__ == "__main__":
    main()
