"""Rows of test_mistakes.py: loops with a mistake in model, loss, optimizer or data, and without it. A row trains a small network, with
`wrong` true or false."""

import os

import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

torch.set_num_threads(1)
ROWS = {}
CLASSES = 4


def row(cause, layer=None):
    def add(function):
        ROWS[function.__name__] = (cause, layer, function)
        return function

    return add


def blobs(count=512, width=10, spread=1.5):
    """Examples around one centre for each class."""
    centres = torch.randn(CLASSES, width) * spread
    y = torch.randint(0, CLASSES, (count,))
    return centres[y] + torch.randn(count, width), y


def values(count=512, width=6):
    x = torch.randn(count, width)
    return x, torch.sin(x[:, 0]) * 2 + x[:, 1] * x[:, 2] - x[:, 3]


def network(width=10, outputs=CLASSES, hidden=32, activation=nn.ReLU):
    return nn.Sequential(nn.Linear(width, hidden), activation(), nn.Linear(hidden, hidden), activation(), nn.Linear(hidden, outputs))


def train(path, model, x, y, loss_of, optimizer=None, epochs=10, batch=32, shuffle=True, check=None):
    """check: inputs and labels that are validated with cross_entropy after every epoch."""
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=3e-3)
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for _ in range(epochs):
            order = torch.randperm(len(x)) if shuffle else torch.arange(len(x))
            for some in order.split(batch):
                optimizer.zero_grad()
                loss = loss_of(model(x[some]), y[some])
                loss.backward()
                optimizer.step()
                deck.log(loss=float(loss.detach()))
                deck.step()
            if check is not None:
                with torch.no_grad():
                    model.eval()
                    deck.log(val_loss=float(F.cross_entropy(model(check[0]), check[1])))
                    model.train()
    return deck.folder


class Scores(nn.Module):
    """A network with something behind its last layer."""

    def __init__(self, end=None, **options):
        super().__init__()
        self.body, self.end = network(**options), end

    def forward(self, x):
        return self.body(x) if self.end is None else self.end(self.body(x))


# ---- the loss and what it is computed from ---------------------------------------------------------


@row("redundant_softmax", "body.4")
def softmax_twice(path, wrong):
    return train(path, Scores(nn.Softmax(1) if wrong else None), *blobs(), F.cross_entropy)


@row("redundant_softmax", "body.4")
def sigmoid_then_cross_entropy(path, wrong):
    return train(path, Scores(torch.sigmoid if wrong else None), *blobs(), F.cross_entropy)


@row("redundant_softmax", "body.4")
def sigmoid_twice(path, wrong):
    x, y = blobs()
    return train(path, Scores(torch.sigmoid if wrong else None, outputs=1), x, (y > 1).float(),
                 lambda out, t: F.binary_cross_entropy_with_logits(out[:, 0], t))


@row("missing_output_activation", "body.4")
def nll_of_softmax(path, wrong):
    return train(path, Scores(nn.Softmax(1) if wrong else nn.LogSoftmax(1)), *blobs(), F.nll_loss)


@row("missing_output_activation", "body.4")
def nll_of_logits(path, wrong):
    return train(path, Scores(None if wrong else nn.LogSoftmax(1)), *blobs(), F.nll_loss)


@row("missing_output_activation", "body.4")
def kl_div_of_logits(path, wrong):
    """Targets are shares of classes."""
    x, y = blobs()
    shares = 0.9 * F.one_hot(y, CLASSES) + 0.1 / CLASSES
    return train(path, Scores(None if wrong else nn.LogSoftmax(1)), x, shares, lambda out, t: F.kl_div(out, t, reduction="batchmean"))


@row("redundant_softmax", "body.4")
def softmax_and_shares(path, wrong):
    x, y = blobs()
    shares = 0.9 * F.one_hot(y, CLASSES) + 0.1 / CLASSES
    return train(path, Scores(nn.Softmax(1) if wrong else None), x, shares, F.cross_entropy)


class Steps(nn.Module):
    """Scores for each step of a sequence of numbers."""

    def __init__(self, outputs, after):
        super().__init__()
        self.recurrence, self.out, self.after = nn.GRU(6, 24, batch_first=True), nn.Linear(24, outputs), after

    def forward(self, x):
        scores = self.out(self.recurrence(x)[0])
        return scores if self.after is None else self.after(scores)


@row("missing_output_activation", "out")
def ctc_of_logits(path, wrong):
    y = torch.randint(1, 5, (256, 3))
    x = torch.randn(5, 6)[torch.repeat_interleave(y, 3, 1)] + 0.2 * torch.randn(256, 9, 6)
    length = torch.full((32,), 9)
    return train(path, Steps(5, None if wrong else nn.LogSoftmax(-1)), x, y,
                 lambda out, t: F.ctc_loss(out.transpose(0, 1), t, length, torch.full((32,), 3)))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.recurrence, self.out = nn.Embedding(20, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 4)

    def forward(self, x):
        return self.out(self.recurrence(self.words(x))[0]).transpose(1, 2)


@row("bad_labels")
def tags_of_other_sentences(path, wrong):
    x = torch.randint(0, 20, (320, 8))
    y = (x + x.roll(1, 1)) % 4
    return train(path, Tagger(), x, y[torch.randperm(320)] if wrong else y, F.cross_entropy, epochs=20)


@row("bad_labels")
def labels_of_other_texts(path, wrong):
    y = torch.randint(0, CLASSES, (320,))
    x = torch.where(torch.rand(320, 12) < 0.5, torch.randint(0, 30, (320, 12)), 30 + 5 * y[:, None] + torch.randint(0, 5, (320, 12)))
    model = nn.Sequential(nn.EmbeddingBag(50, 16), nn.Linear(16, CLASSES))
    return train(path, model, x, y[torch.randperm(320)] if wrong else y, F.cross_entropy)


@row("learning_rate_too_high")
def two_optimizers_at_once(path, wrong):
    """Parts of one model, which step after each backward pass: they are no adversaries."""
    x, y = blobs()
    model = network()
    parts = [torch.optim.Adam(part, lr=5.0 if wrong else 3e-3) for part in (model[:2].parameters(), model[2:].parameters())]
    with tapedeck.watch(model, path, optimizer=parts, every=10) as deck:
        for some in torch.randperm(512).repeat(10).split(32):
            for optimizer in parts:
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x[some]), y[some])
            loss.backward()
            for optimizer in parts:
                optimizer.step()
            deck.log(loss=float(loss.detach()))
            deck.step()
    return deck.folder


@row("parameter_without_optimizer", "recurrence")
def recurrence_left_out(path, wrong):
    """It is as drawn, and comes before what is trained."""
    x = torch.randn(320, 9, 6)
    model = Steps(CLASSES, lambda scores: scores[:, -1])
    model.out = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, CLASSES))
    y = (x[:, -1, 0] > 0).long() + 2 * (x[:, -2, 1] > 0).long()
    return train(path, model, x, y, F.cross_entropy, torch.optim.Adam(model.out.parameters() if wrong else model.parameters(), lr=3e-3))


@row("labels_out_of_range", "out")
def targets_of_ctc_are_the_blank(path, wrong):
    y = torch.randint(0, 4, (256, 3))
    x = torch.randn(4, 6)[torch.repeat_interleave(y, 3, 1)] + 0.2 * torch.randn(256, 9, 6)
    length = torch.full((32,), 9)
    return train(path, Steps(5, nn.LogSoftmax(-1)), x, y if wrong else y + 1,
                 lambda out, t: F.ctc_loss(out.transpose(0, 1), t, length, torch.full((32,), 3)))


@row("labels_shuffled", "out")
def reshaped_instead_of_transposed(path, wrong):
    y = torch.randint(1, 5, (256, 3))
    x = torch.randn(5, 6)[torch.repeat_interleave(y, 3, 1)] + 0.2 * torch.randn(256, 9, 6)
    length = torch.full((32,), 9)
    return train(path, Steps(5, nn.LogSoftmax(-1)), x, y,
                 lambda out, t: F.ctc_loss(out.reshape(9, 32, 5) if wrong else out.transpose(0, 1), t, length, torch.full((32,), 3)))


class Signs(nn.Linear):
    """Weights of -1 and 1; the gradient passes as if they were not."""

    wrong = False

    def forward(self, x):
        signs = self.weight.sign()
        return F.linear(x, signs if self.wrong else self.weight + (signs - self.weight).detach(), self.bias)


@row("parameter_without_gradient", "0")
def sign_without_a_gradient(path, wrong):
    first = Signs(10, 32)
    first.wrong = wrong
    return train(path, nn.Sequential(first, nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, CLASSES)), *blobs(), F.cross_entropy)


class Tastes(nn.Module):
    """Users and items."""

    def __init__(self, wrong):
        super().__init__()
        self.users, self.items, self.offset = nn.Embedding(40, 8), nn.Embedding(50, 8), nn.Embedding(50, 1)
        for table in (self.users, self.items):
            nn.init.zeros_(table.weight) if wrong else nn.init.normal_(table.weight, std=0.3)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(1) + self.offset(item)[:, 0]


@row("bad_initialization", "users")
def tables_of_zeros(path, wrong):
    taste, kind = torch.randn(40, 3), torch.randn(50, 3)
    user, item = torch.randint(0, 40, (640,)), torch.randint(0, 50, (640,))
    likes = ((taste[user] * kind[item]).sum(1) > 0).float()
    model = Tastes(wrong)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for some in torch.randperm(640).repeat(8).split(32):
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(user[some], item[some]), likes[some])
            loss.backward()
            optimizer.step()
            deck.log(loss=float(loss.detach()))
            deck.step()
    return deck.folder


@row("data_leak")
def next_tokens_that_are_not_next(path, wrong):
    """A language model learns to copy where its targets are not shifted."""
    follow = torch.randint(0, 20, (20, 3))
    text = torch.zeros(320, 9, dtype=torch.long)
    text[:, 0] = torch.randint(0, 20, (320,))
    for i in range(1, 9):
        text[:, i] = follow[text[:, i - 1], torch.randint(0, 3, (320,))]
    model = Tagger()
    model.out = nn.Linear(24, 20)
    return train(path, model, text[:, :-1], text[:, :-1] if wrong else text[:, 1:], F.cross_entropy, epochs=20)


@row("data_leak")
def a_column_that_knows_the_label(path, wrong):
    x, y = blobs(width=6, spread=0.7)
    y = (y > 1).long()
    later = torch.where(torch.arange(512) < 384, y.float() * 4 - 2 + 0.1 * torch.randn(512), torch.zeros(512))
    x = torch.cat([x, later[:, None] if wrong else torch.randn(512, 1)], 1)
    return train(path, network(7, 2), x[:384], y[:384], F.cross_entropy, epochs=20, check=(x[384:], y[384:]))


@row("unscaled_inputs")
def validation_inputs_not_scaled(path, wrong):
    x, y = blobs()
    return train(path, network(), x[:384], y[:384], F.cross_entropy, check=(x[384:] * (50 if wrong else 1), y[384:]))


@row("bad_labels")
def labels_of_others_in_a_loss_by_hand(path, wrong):
    x, y = blobs()
    return train(path, network(), x, y[torch.randperm(512)] if wrong else y, lambda out, t: -out.log_softmax(1).gather(1, t[:, None]).mean())


@row("bad_labels")
def masks_of_other_pictures(path, wrong):
    z = F.interpolate(torch.randn(256, 1, 3, 3), (8, 8), mode="bilinear")
    mask = (z > 0.3).float()
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    return train(path, model, z + 0.2 * torch.randn_like(z), mask[torch.randperm(256)] if wrong else mask, F.binary_cross_entropy_with_logits)


@row("nonfinite_input")
def one_picture_is_nan(path, wrong):
    """With a target for each place."""
    z = F.interpolate(torch.randn(256, 1, 3, 3), (8, 8), mode="bilinear")
    x = z + 0.2 * torch.randn_like(z)
    if wrong:
        x[70, 0, 2, 2] = float("nan")
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    return train(path, model, x, (z > 0.3).float(), F.binary_cross_entropy_with_logits)


@row("learning_rate_too_high")
def rate_with_which_weights_are_replaced(path, wrong):
    """The loss falls all the same."""
    model = network()
    return train(path, model, *blobs(), F.cross_entropy, torch.optim.Adam(model.parameters(), lr=1.5 if wrong else 3e-3))


@row("wrong_output_activation", "2")
def sigmoid_before_a_loss_by_hand(path, wrong):
    x, y = values()
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid() if wrong else nn.Identity())
    return train(path, model, x, y, lambda out, t: (out[:, 0] - t).abs().mean())


@row("redundant_softmax", "body.4")
def softmax_before_a_loss_by_hand(path, wrong):
    return train(path, Scores(nn.Softmax(1) if wrong else None), *blobs(),
                 lambda out, t: -out.log_softmax(1)[torch.arange(len(t)), t].mean())


@row("learning_rate_too_low")
def rate_lowered_to_nothing_by_hand(path, wrong):
    x, y = blobs(spread=1.0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def loss_of(out, t):
        optimizer.param_groups[0]["lr"] *= 0.85 if wrong else 0.999
        return F.cross_entropy(out, t)

    return train(path, model, x, y, loss_of, optimizer)


@row("wrong_output_activation", "2")
def relu_before_a_loss_by_hand(path, wrong):
    """Targets below 0."""
    x, y = values()
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1), nn.ReLU() if wrong else nn.Identity())
    return train(path, model, x, -y.abs() - 1, lambda out, t: ((out[:, 0] - t) ** 2).mean())


@row("plateau")
def pairs_of_others(path, wrong):
    """No labels: the loss, which is never far from its mean, stands still."""
    topic = torch.randint(0, 16, (512,))
    centres = torch.randn(16, 10)
    a, b = centres[topic] + 0.3 * torch.randn(512, 10), centres[topic] + 0.3 * torch.randn(512, 10)
    if wrong:
        b = b[torch.randperm(512)]
    model = network(10, 8)

    def loss_of(out, other):
        scores = F.normalize(out, dim=1) @ F.normalize(model(other), dim=1).t() / 0.5
        return -(scores.diagonal() - scores.logsumexp(1)).mean()

    return train(path, model, a, b, loss_of, batch=64)


@row("wrong_output_activation", "body.4")
def softmax_over_the_batch(path, wrong):
    return train(path, Scores(nn.LogSoftmax(0 if wrong else 1)), *blobs(), F.nll_loss)


@row("wrong_output_activation", "body.4")
def relu_before_the_loss(path, wrong):
    return train(path, Scores(torch.relu if wrong else None), *blobs(), F.cross_entropy)


@row("wrong_output_activation", "body.4")
def regression_through_relu(path, wrong):
    return train(path, Scores(torch.relu if wrong else None, width=6, outputs=1), *values(),
                 lambda out, t: F.mse_loss(out[:, 0], t))


@row("wrong_output_activation", "body.4")
def regression_through_sigmoid(path, wrong):
    return train(path, Scores(torch.sigmoid if wrong else None, width=6, outputs=1), *values(),
                 lambda out, t: F.smooth_l1_loss(out[:, 0], t))


@row("broadcast_in_loss", "4")
def broadcast(path, wrong):
    return train(path, network(6, 1), *values(), lambda out, t: F.mse_loss(out if wrong else out[:, 0], t))


@row("broadcast_in_loss", "4")
def broadcast_by_hand(path, wrong):
    return train(path, network(6, 1), *values(), lambda out, t: ((out if wrong else out.squeeze(1)) - t).pow(2).mean())


@row("labels_out_of_range", "4")
def labels_of_one_and_minus_one(path, wrong):
    x, y = blobs()
    y = (y > 1).float()
    return train(path, network(outputs=1), x, 2 * y - 1 if wrong else y,
                 lambda out, t: F.binary_cross_entropy_with_logits(out[:, 0], t))


@row("learning_rate_too_high")
def sum_over_the_batch(path, wrong):
    x, y = values()
    model = network(6, 1)
    return train(path, model, x, y, lambda out, t: F.mse_loss(out[:, 0], t, reduction="sum" if wrong else "mean"),
                 torch.optim.SGD(model.parameters(), lr=0.05))


@row("learning_rate_too_low")
def divided_loss(path, wrong):
    model = network()
    return train(path, model, *blobs(), lambda out, t: F.cross_entropy(out, t) / (5000 if wrong else 1),
                 torch.optim.SGD(model.parameters(), lr=0.05))


# ---- the model -------------------------------------------------------------------------------------


class Listed(nn.Module):
    def __init__(self, wrong):
        super().__init__()
        layers = [nn.Linear(10, 32), nn.Linear(32, 32)]
        self.layers = layers if wrong else nn.ModuleList(layers)
        self.last = nn.Linear(32, CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.last(x)


@row("unregistered_layers", "layers.0")
def list_of_layers(path, wrong):
    return train(path, Listed(wrong), *blobs(), F.cross_entropy)


@row("missing_activation", "4")
def forgotten_activation(path, wrong):
    return train(path, network(activation=nn.Identity if wrong else nn.ReLU), *blobs(), F.cross_entropy)


@row("untrained_frozen", "2")
def frozen_by_mistake(path, wrong):
    model = network()
    model[2].requires_grad_(not wrong)
    return train(path, model, *blobs(), F.cross_entropy, torch.optim.Adam([p for p in model.parameters() if p.requires_grad],
                                                                         lr=3e-3))


@row("bad_initialization", "0")
def constant_weights(path, wrong):
    model = network()
    if wrong:
        for layer in model[::2]:
            nn.init.constant_(layer.weight, 0.1)
    return train(path, model, *blobs(), F.cross_entropy)


@row("bad_initialization", "0")
def huge_weights(path, wrong):
    model = network()
    if wrong:
        for layer in model[::2]:
            nn.init.normal_(layer.weight, std=5)
    return train(path, model, *blobs(), F.cross_entropy)


# ---- the optimizer ---------------------------------------------------------------------------------


@row("learning_rate_too_high")
def adam_a_hundred_times_too_fast(path, wrong):
    model = network()
    return train(path, model, *blobs(spread=0.7), F.cross_entropy,
                 torch.optim.Adam(model.parameters(), lr=0.5 if wrong else 3e-3))


@row("learning_rate_too_high")
def sgd_a_hundred_times_too_fast(path, wrong):
    model = network()
    return train(path, model, *blobs(), F.cross_entropy, torch.optim.SGD(model.parameters(), lr=10 if wrong else 0.1))


@row("learning_rate_too_low")
def adam_a_thousand_times_too_slow(path, wrong):
    model = network()
    return train(path, model, *blobs(), F.cross_entropy, torch.optim.Adam(model.parameters(), lr=3e-7 if wrong else 3e-3))


@row("learning_rate_too_low")
def sgd_a_thousand_times_too_slow(path, wrong):
    model = network()
    return train(path, model, *blobs(), F.cross_entropy, torch.optim.SGD(model.parameters(), lr=1e-4 if wrong else 0.1))


@row("wrong_optimizer")
def adam_with_eps_one(path, wrong):
    model = network()
    return train(path, model, *blobs(), F.cross_entropy, torch.optim.Adam(model.parameters(), lr=1e-3, eps=1 if wrong else 1e-8))


@row("over_regularization")
def weight_decay_one(path, wrong):
    model = network()
    return train(path, model, *blobs(), F.cross_entropy,
                 torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1 if wrong else 1e-4))


# ---- the data --------------------------------------------------------------------------------------


@row("nonfinite_input")
def one_row_is_nan(path, wrong):
    x, y = blobs()
    if wrong:
        x[300, 4] = float("nan")
    return train(path, network(), x, y, F.cross_entropy)


@row("nonfinite_label")
def one_label_is_nan(path, wrong):
    x, y = values()
    if wrong:
        y[300] = float("nan")
    return train(path, network(6, 1), x, y, lambda out, t: F.mse_loss(out[:, 0], t))


@row("nonfinite_input")
def loss_that_refuses_nan(path, wrong):
    """The program ends there: no backward pass follows."""
    x, y = blobs()
    if wrong:
        x[300, 4] = float("nan")
    try:
        return train(path, network(outputs=1), x, (y > 1).float(), lambda out, t: F.binary_cross_entropy(torch.sigmoid(out[:, 0]), t))
    except RuntimeError:
        return path


@row("bad_labels")
def values_of_other_examples(path, wrong):
    x, y = values()
    return train(path, network(6, 1), x, y[torch.randperm(len(y))] if wrong else y, lambda out, t: F.mse_loss(out[:, 0], t))


@row("data_leak")
def a_few_leaked_examples(path, wrong):
    x, y = blobs()
    check = (torch.cat([x[:32], x[-16:]]), torch.cat([y[:32], y[-16:]])) if wrong else (x[-48:], y[-48:])
    return train(path, network(), x[:-48], y[:-48], F.cross_entropy, check=check)


@row("dropout_too_high")
def almost_everything_dropped(path, wrong):
    x, y = blobs()
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.95 if wrong else 0.1), nn.Linear(32, CLASSES))
    return train(path, model, x, y, F.cross_entropy)


@row("unscaled_inputs")
def divided_by_255_twice(path, wrong):
    (x, y), model = blobs(), network()
    return train(path, model, x / (255 if wrong else 1), y, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.05))


@row("unshuffled_data")
def sorted_by_class(path, wrong):
    x, y = blobs()
    order = y.argsort()
    return train(path, network(), x[order], y[order], F.cross_entropy, shuffle=not wrong)


@row("unscaled_inputs")
def pixels_up_to_255(path, wrong):
    x, y = blobs()
    model = network()
    return train(path, model, x * (100 if wrong else 1), y, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.05))
