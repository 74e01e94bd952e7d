"""Healthy trainings that look odd: none of them may raise an alarm."""

import torch
import torch.nn.functional as F
from mistakes import CLASSES, Scores, blobs, network, train, values
from torch import nn

import tapedeck

HEALTHY = {}


def healthy(function):
    HEALTHY[function.__name__] = function
    return function


@healthy
def generator_and_adversary(path):
    generator, adversary = network(4, 2), network(2, 1)
    optimizers = [torch.optim.Adam(m.parameters(), lr=2e-3) for m in (generator, adversary)]
    with tapedeck.watch(generator, path, optimizer=optimizers[0], every=10) as deck:
        for _ in range(120):
            real, fake = torch.randn(32, 2) * 0.3 + 1, generator(torch.randn(32, 4))
            optimizers[1].zero_grad()
            (F.binary_cross_entropy_with_logits(adversary(real), torch.ones(32, 1))
             + F.binary_cross_entropy_with_logits(adversary(fake.detach()), torch.zeros(32, 1))).backward()
            optimizers[1].step()
            optimizers[0].zero_grad()
            loss = F.binary_cross_entropy_with_logits(adversary(fake), torch.ones(32, 1))
            loss.backward()
            optimizers[0].step()
            deck.log(loss=float(loss.detach()) * (1 + deck.steps / 20))  # a generator that falls behind
            deck.step()
    return deck.folder


@healthy
def values_that_are_almost_noise(path):
    """The loss stands still, and some batches of four are far easier than others."""
    x = torch.randn(402, 6)
    y = 0.2 * x[:, 0] + torch.randn(402)
    return train(path, network(6, 1, 8), x, y, lambda out, t: F.mse_loss(out[:, 0], t), epochs=3, batch=4)


@healthy
def pairs_of_indices_that_come_again(path):
    """Ratings of users for items: a pair of the validation part is one of the training part by chance."""
    pairs = torch.stack([torch.randint(0, 12, (500,)), torch.randint(0, 12, (500,))], 1)
    y = (pairs[:, 0] % 4 + pairs[:, 1] % 2) % CLASSES
    model = nn.Sequential(nn.Embedding(12, 8), nn.Flatten(), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    return train(path, model, pairs[:400], y[:400], F.cross_entropy, check=(pairs[400:], y[400:]))


@healthy
def clipping_that_adam_does_not_mind(path):
    (x, y), model = blobs(), network()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for _ in range(6):
            for some in torch.randperm(len(x)).split(32):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x[some]), y[some], reduction="sum")
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                deck.log(loss=float(loss.detach()))
                deck.step()
    return deck.folder


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = network(10, 8)
        self.last = nn.Linear(8, 1)

    def forward(self, a, b):
        return self.last((self.body(a) - self.body(b)).abs())[:, 0]


@healthy
def siamese(path):
    x, y = blobs(128)
    model = Pairs()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for _ in range(12):
            for some in torch.randperm(len(x)).split(32):
                others = torch.randperm(len(x))[:32]
                optimizer.zero_grad()
                loss = F.binary_cross_entropy_with_logits(model(x[some], x[others]), (y[some] == y[others]).float())
                loss.backward()
                optimizer.step()
                deck.log(loss=float(loss.detach()))
                deck.step()
    return deck.folder


@healthy
def linear_autoencoder(path):
    x, _ = blobs()
    return train(path, nn.Sequential(nn.Linear(10, 3), nn.Linear(3, 10)), x, x, F.mse_loss)


@healthy
def autoencoder_with_sigmoid_and_summed_loss(path):
    x = torch.rand(512, 10)
    return train(path, Scores(torch.sigmoid, outputs=10), x, x, lambda out, t: F.binary_cross_entropy(out, t, reduction="sum"))


@healthy
def weighted_classes_with_unweighted_validation(path):
    x, y = blobs(spread=0.4)
    return train(path, network(hidden=128), x[:128], y[:128], lambda out, t: F.cross_entropy(out, t, torch.tensor([1., 5., 1., 1.])),
                 epochs=40, check=(x[128:], y[128:]))


@healthy
def tuned_head_on_trained_body(path):
    x, y = blobs()
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model[:4].requires_grad_(False)
    model[4] = nn.Linear(32, CLASSES)
    return train(path, model, x, y, F.cross_entropy, torch.optim.Adam(model[4].parameters(), lr=3e-3))


@healthy
def accumulated_gradients(path):
    x, y = blobs()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for _ in range(30):
            optimizer.zero_grad()
            for some in torch.randperm(len(x)).split(32):
                loss = F.cross_entropy(model(x[some]), y[some])
                (loss / 16).backward()
            optimizer.step()
            deck.log(loss=float(loss.detach()))
            deck.step()
    return deck.folder


@healthy
def rewards_of_0_and_1(path):
    """A policy: contexts come again, actions are drawn, and most rewards are 0."""
    def loss_of(out, t):
        scores = out.log_softmax(1)
        action = scores.detach().exp().multinomial(1)
        reward = ((action[:, 0] == 2 * t) & (torch.rand(len(t)) < 0.3)).float()
        return -(scores.gather(1, action)[:, 0] * reward).mean()

    x, y = blobs(256)
    model = network(outputs=8)
    return train(path, model, x, y, loss_of, torch.optim.Adam(model.parameters(), lr=1e-3), epochs=16)


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return -gradient


class Adversaries(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator, self.adversary = network(4, 2), network(2, 1)

    def forward(self, x):
        return torch.cat([self.adversary(x[:, :2]), self.adversary(Reversed.apply(self.generator(x[:, 2:])))], 1)


@healthy
def adversaries_in_one_step(path):
    """The loss stays where it is: what one learns the other undoes."""
    x = torch.cat([0.3 * torch.randn(512, 2) + 0.2, torch.randn(512, 4)], 1)
    model = Adversaries()
    return train(path, model, x, x, lambda out, t: F.softplus(-out[:, 0]).mean() + F.softplus(out[:, 1]).mean(),
                 torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.99)))


@healthy
def triplets_that_are_still_too_near(path):
    """The mean over those alone stays where it is."""
    def loss_of(out, t):
        z, same = F.normalize(out, dim=1), t[:, None] == t
        distance = 2 - 2 * z @ z.t()
        margin = distance[:, :, None] - distance[:, None, :] + 0.2
        return margin[same[:, :, None] & ~same[:, None, :] & (margin > 0) & (margin < 0.2)].mean()

    model = network(outputs=8)
    return train(path, model, *blobs(spread=0.8), loss_of, torch.optim.Adam(model.parameters(), lr=1e-3), epochs=8)


class TwoHeads(nn.Module):
    """The second one is trained later."""

    def __init__(self):
        super().__init__()
        self.body, self.now, self.later = network(outputs=32), nn.Linear(32, CLASSES), nn.Linear(32, 8)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.now(h) + 0 * self.later(h).sum()


@healthy
def head_that_is_switched_off(path):
    return train(path, TwoHeads(), *blobs(), F.cross_entropy)


@healthy
def autoencoder_of_tokens(path):
    """Labels are the tokens at their own places, and must be: all goes through 24 numbers."""
    x = torch.randint(0, 8, (128, 6))
    model = nn.Sequential(nn.Embedding(8, 8), nn.Flatten(), nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 24), nn.ReLU(), nn.Linear(24, 96),
                          nn.ReLU(), nn.Linear(96, 48), nn.Unflatten(1, (6, 8)))
    return train(path, model, x, x, lambda out, t: F.cross_entropy(out.transpose(1, 2), t), torch.optim.Adam(model.parameters(), lr=5e-3),
                 epochs=75)


@healthy
def recurrent_autoencoder_of_tokens(path):
    class Through(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.reader, self.writer = nn.Embedding(4, 16), nn.GRU(16, 64, batch_first=True), nn.GRU(8, 64, batch_first=True)
            self.places, self.out = nn.Parameter(torch.randn(1, 3, 8)), nn.Linear(64, 4)

        def forward(self, x):
            return self.out(self.writer(self.places.expand(len(x), -1, -1), self.reader(self.words(x))[1])[0]).transpose(1, 2)

    x, model = torch.randint(0, 4, (512, 3)), Through()
    return train(path, model, x, x, F.cross_entropy, torch.optim.Adam(model.parameters(), lr=1e-2), epochs=12)


@healthy
def one_minus_the_expected_accuracy(path):
    x, y = blobs()
    return train(path, network(), x, 0.9 * F.one_hot(y, CLASSES) + 0.1 / CLASSES, lambda out, t: 1 - (t * out.softmax(1)).sum(1).mean())


@healthy
def column_that_tells_almost_all(path):
    """And does so in the validation part: its loss is several times that of training, and small."""
    x, y = torch.randn(600, 8), torch.randint(0, 2, (600,))
    x[:, 0] += 7 * y - 3.5
    return train(path, network(8, 2, 64), x[:400], y[:400], F.cross_entropy, epochs=24, check=(x[400:], y[400:]))


@healthy
def first_of_five_is_the_right_one(path):
    x = torch.randn(512, 5, 10)
    x[:, 0, :5] += 1
    return train(path, nn.Sequential(network(10, 1), nn.Flatten()), x, torch.zeros(512, dtype=torch.long), F.cross_entropy)


@healthy
def last_layer_first_then_all(path):
    """With a rate of a two-hundredth."""
    x, y = blobs()
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss_of(out, t):
        loss_of.updates += 1
        if loss_of.updates == 48:
            optimizer.param_groups[0]["lr"] = 5e-5
        return F.cross_entropy(out, t)

    loss_of.updates = 0
    return train(path, model, x, y, loss_of, optimizer)


@healthy
def trained_regression_that_goes_on(path):
    x, y = values()
    y = y + 0.3 * torch.randn(512)
    model = network(6, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(250):
        optimizer.zero_grad()
        F.mse_loss(model(x)[:, 0], y).backward()
        optimizer.step()
    return train(path, model, x, y, lambda out, t: F.mse_loss(out[:, 0], t), torch.optim.Adam(model.parameters(), lr=1e-4))


@healthy
def depth_with_noise(path):
    """Distances are not negative, and some measurements are."""
    x = torch.randn(512, 6)
    y = (2 * x[:, 0] + x[:, 1]).clamp(min=0) + 0.1 * torch.randn(512)
    return train(path, Scores(torch.relu, width=6, outputs=1), x, y, lambda out, t: F.mse_loss(out[:, 0], t))


@healthy
def noise_in_training_only(path):
    x, y = blobs(spread=3)
    some = torch.randint(0, 400, (2000,))
    return train(path, network(), x[some] / 3 + 4 * torch.randn(2000, 10), y[some], F.cross_entropy, epochs=3, check=(x[400:] / 3, y[400:]))


@healthy
def inputs_that_are_sparse(path):
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Parameter(0.3 * torch.randn(10, 32)), nn.Linear(32, CLASSES)

        def forward(self, x):
            return self.last(torch.relu(torch.sparse.mm(x, self.first)))

    (x, y), model = blobs(), Sparse()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for some in torch.randperm(512).repeat(6).split(32):
            optimizer.zero_grad()
            loss = F.cross_entropy(model((x[some] * (x[some] > 0)).to_sparse()), y[some])
            loss.backward()
            optimizer.step()
            deck.log(loss=float(loss.detach()))
            deck.step()
    return deck.folder
