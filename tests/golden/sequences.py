#!/usr/bin/python3
"""Writes golden values of what layers.py does not reach: recurrent operations from given states,
attention between sequences and with masks, batched products. By PyTorch in float64.

    /usr/bin/python3 tests/golden/sequences.py        # rewrites tests/golden/sequences.txt

Each case has inputs `in0 in1 …`, the `weight` of each output element in the loss, and what is
expected: the output and the gradient of every input.
"""

import math

import torch

from layers import Writer, draw


def case(out, name, function, *inputs):
    leaves = [x.clone().requires_grad_() for x in inputs]
    y = function(*leaves)
    weight = draw(*y.shape)
    (y * weight).sum().backward()
    out.line("case", name)
    for i, x in enumerate(leaves):
        out.tensor("in%d" % i, x)
        out.tensor("expect.in%d" % i, x.grad)
    out.tensor("weight", weight)
    out.tensor("expect.output", y)
    out.line("end")


def to_torch(kind, kernel, recurrent, bias):
    """Keras's weights as PyTorch's: transposed, two biases, and for the GRU r before z."""
    biases = bias if bias.dim() == 2 else torch.stack([bias, torch.zeros_like(bias)])
    weights = [kernel.T, recurrent.T, biases[0], biases[1]]
    if kind == "gru":
        units = recurrent.shape[0]
        weights = [torch.cat([w[units : 2 * units], w[:units], w[2 * units :]]) for w in weights]
    return weights


def recurrent(kind, backwards=False):
    def run(x, kernel, recurrent_kernel, bias, state, cell=None):
        x = x.flip(1) if backwards else x
        start = (state[None], cell[None]) if kind == "lstm" else state[None]
        function = {"simple_rnn": torch.rnn_tanh, "lstm": torch.lstm, "gru": torch.gru}[kind]
        weights = to_torch(kind, kernel, recurrent_kernel, bias)
        return function(x, start, weights, True, 1, 0.0, False, False, True)[0]

    return run


def attention(causal=False):
    def run(q, k, v, mask=None):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores if mask is None else scores + mask
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        return torch.softmax(scores, -1) @ v

    return run


def weights(inputs, units, gates, *bias):
    return (draw(inputs, gates * units, scale=0.5), draw(units, gates * units, scale=0.5),
            draw(*(bias or (gates * units,)), scale=0.5))


def main():
    out = Writer("sequences.txt")
    out.lines = ["# written by sequences.py"]
    x, state, cell = draw(3, 20, 4), draw(3, 5), draw(3, 5)
    case(out, "simple_rnn", recurrent("simple_rnn"), x, *weights(4, 5, 1), state)
    case(out, "lstm", recurrent("lstm"), x, *weights(4, 5, 4), state, cell)
    case(out, "lstm_backwards", recurrent("lstm", True), x, *weights(4, 5, 4), state, cell)
    case(out, "gru", recurrent("gru"), x, *weights(4, 5, 3, 2, 15), state)
    case(out, "gru_backwards", recurrent("gru", True), x, *weights(4, 5, 3, 2, 15), state)
    case(out, "lstm_wide", recurrent("lstm"), draw(5, 6, 9), *weights(9, 17, 4), draw(5, 17), draw(5, 17))
    q, k, v = draw(2, 3, 7, 5), draw(2, 3, 9, 5), draw(2, 3, 9, 4)
    case(out, "attention", attention(), q, k, v)
    case(out, "attention_causal", attention(True), q, k, v)
    case(out, "attention_mask", attention(), q, k, v, draw(7, 9))
    case(out, "attention_mask_of_heads", attention(True), q, k, v, draw(3, 1, 9))
    case(out, "matmul", torch.matmul, draw(2, 1, 3, 4), draw(5, 4, 6))
    case(out, "matmul_transposed", lambda a, b: a.transpose(-2, -1) @ b.transpose(-2, -1),
         draw(3, 4, 5), draw(3, 6, 4))
    out.close()


if __name__ == "__main__":
    main()
