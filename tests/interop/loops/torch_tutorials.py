"""Trainings of well-known PyTorch tutorials on small synthetic data, with random sizes, optimizers and habits, each healthy or with
one mistake planted. A recipe makes the training; a mistake does not know the recipe. `torch_cases.py` has other networks."""

import math
import random

import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

RECIPES = {}  # name: (what kind of task it is, function)
MISTAKES = {}  # name: (causes that are right, recipes it can be planted in)
HEALTHY = {}


def recipe(kind):
    def add(function):
        RECIPES[function.__name__] = (kind, function)
        return function

    return add


def mistake(name, causes, kinds="classes values other"):
    MISTAKES[name] = (causes.split(), tuple(sorted(r for r, (kind, _) in RECIPES.items() if kind in kinds.split())))


def dense(*widths, act=nn.ReLU, drop=0.0):
    layers = []
    for a, b in zip(widths[:-1], widths[1:-1]):
        layers += [nn.Linear(a, b), act()] + ([nn.Dropout(drop)] if drop else [])
    return nn.Sequential(*layers, nn.Linear(*widths[-2:]))


class Model(nn.Module):
    """A model whose pass is a function of it."""

    def __init__(self, run, **parts):
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.run(self, *inputs)


# ---- classes: data[-1] are labels --------------------------------------------------------------------


def pictures(plan, count, classes, side=8, noise=0.8):
    shapes = torch.randn(classes, 1, side, side)
    y = torch.randint(0, classes, (count,))
    return shapes[y] + noise * torch.randn(count, 1, side, side), y


def points(plan, count, classes, width, noise=0.8):
    y = torch.randint(0, classes, (count,))
    return 1.5 * torch.randn(classes, width)[y] + noise * torch.randn(count, width), y


@recipe("classes")
def mnist(plan):
    """pytorch/examples/mnist: two convolutions, dropout, log_softmax, StepLR."""
    plan.data = pictures(plan, plan.count, plan.classes)
    plan.model = nn.Sequential(nn.Conv2d(1, 8, 3), plan.act(), nn.Conv2d(8, 16, 3), plan.act(), nn.MaxPool2d(2), nn.Dropout(0.25),
                               nn.Flatten(), nn.Linear(64, 48), plan.act(), nn.Dropout(0.25), plan.last(48))
    plan.ends_in_log_softmax = True


@recipe("classes")
def residual_network(plan):
    """A small ResNet, as the transfer learning and CIFAR tutorials have it."""
    plan.data = pictures(plan, plan.count, plan.classes)

    def block(width):
        return Model(lambda m, x: F.relu(x + m.b(F.relu(m.a(x)))), a=nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False),
                     nn.BatchNorm2d(width)), b=nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)))

    plan.model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), block(12), block(12),
                               nn.AdaptiveAvgPool2d(4), nn.Flatten(), plan.last(192))


@recipe("classes")
def vision_transformer(plan):
    plan.data = pictures(plan, plan.count, plan.classes, noise=0.5)
    layer = nn.TransformerEncoderLayer(24, 4, 48, dropout=0.1, batch_first=True)

    def run(m, x):
        parts = x.unfold(2, 4, 4).unfold(3, 4, 4).reshape(len(x), 4, 16)
        return m.head(m.body(m.embed(parts) + m.place).flatten(1))

    plan.model = Model(run, embed=nn.Linear(16, 24), body=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), head=plan.last(96))
    plan.model.place = nn.Parameter(0.02 * torch.randn(1, 4, 24))
    plan.usual("adam", 2e-3)


@recipe("classes")
def tabular(plan):
    plan.data = points(plan, plan.count, plan.classes, plan.width)
    plan.model = nn.Sequential(nn.Linear(plan.width, plan.hidden), nn.BatchNorm1d(plan.hidden), plan.act(), nn.Dropout(0.1),
                               nn.Linear(plan.hidden, plan.hidden), plan.act(), plan.last(plan.hidden))


@recipe("classes")
def text_bag(plan):
    """The AG_NEWS tutorial: EmbeddingBag and one layer."""
    group = torch.randint(0, plan.classes, (200,))
    y = torch.randint(0, plan.classes, (plan.count,))
    words = torch.randint(0, 200, (plan.count, 16))
    own = torch.stack([(group == c).nonzero().flatten()[torch.randint(0, int((group == c).sum()), (16,))] for c in y.tolist()])
    plan.data = torch.where(torch.rand(plan.count, 16) < 0.5, own, words), y
    plan.model = nn.Sequential(nn.EmbeddingBag(200, 24, mode="mean"), nn.Linear(24, 32), nn.ReLU(), plan.last(32))
    plan.usual("adam", 5e-3)


@recipe("classes")
def names_with_recurrence(plan):
    """Classifying names with a character-level recurrent network: one-hot letters."""
    y = torch.randint(0, plan.classes, (plan.count,))
    table = torch.rand(plan.classes, 12).mul(2.5).softmax(1)
    plan.data = F.one_hot(torch.multinomial(table[y] ** 2, 14, True), 12).float(), y
    cell = plan.draw.choice((nn.GRU, nn.LSTM))
    plan.model = Model(lambda m, x: m.head(m.cell(x)[0].mean(1)), cell=cell(12, plan.hidden, batch_first=True), head=plan.last(plan.hidden))
    plan.usual("adam", 5e-3)


@recipe("classes")
def distillation(plan):
    """Knowledge distillation: the student's soft targets come from a fixed teacher."""
    plan.data = points(plan, plan.count, plan.classes, plan.width)
    teacher = nn.Linear(plan.width, plan.classes)
    with torch.no_grad():
        x, y = plan.data
        centres = torch.stack([x[y == c].mean(0) for c in range(plan.classes)])
        teacher.weight.copy_(centres)
        teacher.bias.copy_(-0.5 * centres.pow(2).sum(1))
    plan.model = nn.Sequential(nn.Linear(plan.width, plan.hidden), plan.act(), plan.last(plan.hidden))

    def more(out, x, y):
        soft = (teacher(x) / 3).softmax(1).detach()
        return 0.25 * 9 * F.kl_div((out / 3).log_softmax(1), soft, reduction="batchmean")

    plan.more = more


# ---- values: data[-1] are targets of shape (N,) --------------------------------------------------------


@recipe("values")
def housing(plan):
    x = torch.randn(plan.count, 8)
    y = x[:, 0] + 0.8 * torch.tanh(x[:, 1] * 2) - x[:, 2] * x[:, 3] * 0.6 + 0.2 * torch.randn(plan.count)
    plan.data = x, (y - y.mean()) / y.std()
    plan.model = nn.Sequential(nn.Linear(8, plan.hidden), plan.act(), nn.Linear(plan.hidden, plan.hidden), plan.act(), plan.one(plan.hidden))
    plan.usual("adam", 3e-3)


@recipe("values")
def polynomial(plan):
    """pytorch/examples/regression: one value in, its powers as features."""
    x = torch.rand(plan.count, 1) * 4 - 2
    y = (0.6 * x**3 - x)[:, 0] + 0.15 * torch.randn(plan.count)
    plan.data = x, y / y.std()
    plan.model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), plan.one(32))
    plan.usual("adam", 5e-3)


@recipe("values")
def ratings(plan):
    """Matrix factorisation with embeddings of users and items."""
    users, items = torch.randint(0, 40, (plan.count,)), torch.randint(0, 30, (plan.count,))
    a, b = torch.randn(40, 3), torch.randn(30, 3)
    y = (a[users] * b[items]).sum(1) / 1.7 + 0.1 * torch.randn(plan.count)
    plan.data = torch.stack([users, items], 1), y

    def run(m, pair):
        return m.head(torch.cat([m.user(pair[:, 0]), m.item(pair[:, 1])], 1))

    plan.model = Model(run, user=nn.Embedding(40, 8), item=nn.Embedding(30, 8),
                       head=nn.Sequential(nn.Linear(16, 48), nn.ReLU(), plan.one(48)))
    plan.usual("adam", 5e-3)
    plan.epochs *= 2


@recipe("values")
def time_series(plan):
    """The next value of a wave from a window of it."""
    time = torch.arange(plan.count + 24).float()
    wave = torch.sin(time / 5) + 0.5 * torch.sin(time / 2.3 + 1) + 0.1 * torch.randn(len(time))
    plan.data = wave.unfold(0, 24, 1)[: plan.count, :, None].clone(), wave[24:].clone()
    cell = plan.draw.choice((nn.GRU, nn.LSTM))
    plan.model = Model(lambda m, x: m.head(m.cell(x)[0][:, -1]), cell=cell(1, 24, batch_first=True), head=plan.one(24))
    plan.usual("adam", 5e-3)


@recipe("values")
def noisy_values(plan):
    """What is there to learn is a quarter of the variance."""
    x = torch.randn(plan.count, 6)
    y = 0.5 * x[:, 0] + 0.3 * torch.sin(2 * x[:, 1])
    plan.data = x, (y + 0.95 * torch.randn(plan.count))
    plan.model = nn.Sequential(nn.Linear(6, 24), plan.act(), plan.one(24))
    plan.usual("adam", 1e-3)


# ---- others: the loss is their own ----------------------------------------------------------------------


@recipe("other")
def variational_autoencoder(plan):
    """pytorch/examples/vae: binary cross-entropy and KL, both summed."""
    x = (pictures(plan, plan.count, 4, noise=0.3)[0] > 0.3).float().flatten(1)
    plan.data = (x,)

    def run(m, x):
        h = F.relu(m.a(x))
        mean, log_variance = m.mean(h), m.log_variance(h)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return torch.sigmoid(m.c(F.relu(m.b(z)))), mean, log_variance

    plan.model = Model(run, a=nn.Linear(64, 48), mean=nn.Linear(48, 6), log_variance=nn.Linear(48, 6), b=nn.Linear(6, 48),
                       c=nn.Linear(48, 64))

    def loss(x):
        out, mean, log_variance = plan.model(x)
        return F.binary_cross_entropy(out, x, reduction="sum") - 0.5 * torch.sum(1 + log_variance - mean**2 - log_variance.exp())

    plan.loss = loss
    plan.usual("adam", 2e-3)


@recipe("other")
def autoencoder(plan):
    z = torch.randn(plan.count, 3)
    plan.data = (torch.tanh(z @ torch.randn(3, 20)) + 0.05 * torch.randn(plan.count, 20),)
    plan.model = nn.Sequential(nn.Linear(20, 32), plan.act(), nn.Linear(32, 3), nn.Linear(3, 32), plan.act(), nn.Linear(32, 20))
    plan.loss = lambda x: F.mse_loss(plan.model(x), x)
    plan.usual("adam", 3e-3)


def text(count, length, letters=16):
    """A Markov chain: each letter is followed by one of two."""
    following = torch.randint(0, letters, (letters, 2))
    letter, found = torch.randint(0, letters, (count,)), []
    for _ in range(length):
        found.append(letter)
        second = (torch.rand(count) < 0.25).long()
        letter = following[letter, second]
    return torch.stack(found, 1)


@recipe("other")
def word_language_model(plan):
    """pytorch/examples/word_language_model: truncated back-propagation, tied weights, clipping."""
    plan.data = (text(plan.count, 17),)

    def run(m, x):
        return m.decoder(m.drop(m.cell(m.drop(m.encoder(x)))[0]))

    plan.model = Model(run, encoder=nn.Embedding(16, 32), drop=nn.Dropout(0.1), cell=nn.LSTM(32, 32, batch_first=True),
                       decoder=nn.Linear(32, 16))
    if plan.draw.random() < 0.5:
        plan.model.decoder.weight = plan.model.encoder.weight
        nn.init.uniform_(plan.model.encoder.weight, -0.1, 0.1)
    plan.loss = lambda x: F.cross_entropy(plan.model(x[:, :-1]).reshape(-1, 16), x[:, 1:].reshape(-1))
    plan.usual("adam", 5e-3)
    plan.clip = plan.clip or 1.0


@recipe("other")
def causal_transformer(plan):
    """A GPT as in minimal re-implementations: pre-norm blocks, causal mask, AdamW with warm-up."""
    plan.data = (text(plan.count, 13),)
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)

    def run(m, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = m.token(x) + m.place(torch.arange(x.shape[1]))
        return m.head(m.norm(m.body(h, mask=mask, is_causal=True)))

    plan.model = Model(run, token=nn.Embedding(16, 32), place=nn.Embedding(12, 32), norm=nn.LayerNorm(32),
                       body=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), head=nn.Linear(32, 16, bias=False))
    plan.loss = lambda x: F.cross_entropy(plan.model(x[:, :-1]).transpose(1, 2), x[:, 1:])
    plan.usual("adamw", 2e-3)
    plan.schedule = lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: min(1.0, (step + 1) / 20))


@recipe("other")
def siamese_network(plan):
    """pytorch/examples/siamese_network: pairs, sigmoid and BCELoss."""
    x, y = pictures(plan, plan.count, 4, noise=0.5)
    other = torch.randperm(plan.count)
    same = torch.stack([(y == c).nonzero().flatten()[0] for c in y.tolist()])
    pair = torch.where(torch.rand(plan.count) < 0.5, other, same)
    plan.data = x.flatten(1), x[pair].flatten(1), (y == y[pair]).float()

    def run(m, a, b):
        return torch.sigmoid(m.head(torch.cat([m.body(a), m.body(b)], 1)))

    plan.model = Model(run, body=dense(64, 48, 24), head=dense(48, 32, 1))
    plan.loss = lambda a, b, same: F.binary_cross_entropy(plan.model(a, b).squeeze(1), same)
    plan.usual("adam", 3e-3)


@recipe("other")
def super_resolution(plan):
    """pytorch/examples/super_resolution: sub-pixel convolution."""
    z = torch.randn(plan.count, 1, 3, 3)
    large = torch.sigmoid(F.interpolate(z, (8, 8), mode="bicubic"))
    plan.data = F.avg_pool2d(large, 2), large
    plan.model = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                               nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2))
    plan.loss = lambda x, y: F.mse_loss(plan.model(x), y)
    plan.usual("adam", 2e-3)


@recipe("other")
def contrastive_views(plan):
    """SimCLR: two noisy views of each example, NT-Xent."""
    plan.data = (points(plan, plan.count, 8, 16)[0],)
    plan.model = dense(16, 48, 48, 12)

    def loss(x):
        views = torch.cat([x + 0.2 * torch.randn_like(x), x + 0.2 * torch.randn_like(x)])
        z = F.normalize(plan.model(views), dim=1)
        scores = (z @ z.T / 0.5).fill_diagonal_(-1e9)
        return F.cross_entropy(scores, torch.arange(2 * len(x)).roll(len(x)))

    plan.loss = loss
    plan.usual("adam", 2e-3)


@recipe("other")
def diffusion(plan):
    """A denoising diffusion model of points on a circle."""
    angle = torch.rand(plan.count) * 2 * math.pi
    plan.data = (torch.stack([angle.cos(), angle.sin()], 1),)
    plan.model = dense(3, 64, 64, 2, act=nn.SiLU)
    kept = torch.cumprod(1 - torch.linspace(1e-3, 0.2, 40), 0)

    def loss(x):
        t = torch.randint(0, 40, (len(x),))
        noise, a = torch.randn_like(x), kept[t][:, None]
        return F.mse_loss(plan.model(torch.cat([a.sqrt() * x + (1 - a).sqrt() * noise, t[:, None] / 40], 1)), noise)

    plan.loss = loss
    plan.usual("adam", 3e-3)


@recipe("other")
def several_tasks(plan):
    """One body, a class and a value."""
    x, y = points(plan, plan.count, 4, plan.width)
    plan.data = x, y, torch.tanh(x[:, 0]) + x[:, 1] * 0.5
    plan.model = Model(lambda m, x: (lambda h: (m.label(h), m.value(h)))(m.body(x)), body=nn.Sequential(nn.Linear(plan.width, 32), plan.act()),
                       label=nn.Linear(32, 4), value=nn.Linear(32, 1))

    def loss(x, y, v):
        label, value = plan.model(x)
        return F.cross_entropy(label, y) + 0.5 * F.mse_loss(value[:, 0], v)

    plan.loss = loss


@recipe("other")
def triplets(plan):
    x, y = points(plan, plan.count, 6, 12)
    places = [(y == c).nonzero().flatten() for c in range(6)]
    same = torch.stack([places[c][torch.randint(0, len(places[c]), (1,))][0] for c in y.tolist()])
    plan.data = x, x[same], x[torch.randperm(plan.count)]
    plan.model = dense(12, 48, 8)
    plan.loss = lambda a, p, n: F.triplet_margin_loss(plan.model(a), plan.model(p), plan.model(n), margin=1.0)
    plan.usual("adam", 2e-3)


@recipe("other")
def several_labels(plan):
    x = torch.randn(plan.count, 12)
    y = (x @ torch.randn(12, 5) > 0.5).float()
    plan.data = x, y
    plan.model = dense(12, 48, 5)
    plan.loss = lambda x, y: F.binary_cross_entropy_with_logits(plan.model(x), y)
    plan.usual("adam", 3e-3)


@recipe("other")
def segmentation(plan):
    """A small U-Net: a class for each pixel."""
    z = F.interpolate(torch.randn(plan.count, 1, 3, 3), (8, 8), mode="bilinear")
    plan.data = z + 0.2 * torch.randn_like(z), torch.bucketize(z[:, 0], torch.tensor([-0.4, 0.4]))

    def run(m, x):
        a = F.relu(m.down(x))
        b = F.relu(m.deep(F.max_pool2d(a, 2)))
        return m.out(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))

    plan.model = Model(run, down=nn.Conv2d(1, 8, 3, padding=1), deep=nn.Conv2d(8, 16, 3, padding=1), out=nn.Conv2d(24, 3, 1))
    plan.loss = lambda x, y: F.cross_entropy(plan.model(x), y)
    plan.usual("adam", 3e-3)


@recipe("other")
def graph_network(plan):
    """pytorch/examples/gcn: all nodes in each step, a part of them labelled."""
    n = 160
    y = torch.randint(0, 4, (n,))
    near = (torch.rand(n, n) < torch.where(y[:, None] == y[None], 0.1, 0.01)).float()
    near = ((near + near.T + torch.eye(n)) > 0).float()
    degree = near.sum(1)
    plan.adjacency = near / (degree[:, None] * degree[None]).sqrt()
    plan.data = torch.randn(4, 16)[y] * 0.6 + torch.randn(n, 16), y
    plan.known = torch.randperm(n)[:80]
    plan.model = Model(lambda m, x: m.b(plan.adjacency @ F.dropout(F.relu(m.a(plan.adjacency @ x)), 0.3, m.training)),
                       a=nn.Linear(16, 24), b=nn.Linear(24, 4))
    plan.loss = lambda x, y: F.cross_entropy(plan.model(x)[plan.known], y[plan.known])
    plan.usual("adam", 1e-2)
    plan.is_whole, plan.epochs = True, 80


@recipe("other")
def translation(plan):
    """Sequence to sequence with attention and teacher forcing: a reversed sequence."""
    words = torch.randint(2, 12, (plan.count, 6))
    plan.data = words, words.flip(1)

    def run(m, source, target):
        states, last = m.encoder(m.embed(source))
        before = torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], 1)
        out, _ = m.decoder(m.embed(before), last)
        weights = (out @ states.transpose(1, 2) / 6).softmax(-1)
        return m.head(torch.cat([out, weights @ states], -1))

    plan.model = Model(run, embed=nn.Embedding(12, 24), encoder=nn.GRU(24, 36, batch_first=True), decoder=nn.GRU(24, 36, batch_first=True),
                       head=nn.Linear(72, 12))
    plan.loss = lambda a, b: F.cross_entropy(plan.model(a, b).transpose(1, 2), b)
    plan.usual("adam", 5e-3)


@recipe("other")
def policy(plan):
    """REINFORCE with a baseline on a game of one step; the loss is no measure."""
    plan.data = (torch.randn(plan.count, 4),)
    plan.model = dense(4, 32, 3)

    def loss(state):
        chosen = torch.distributions.Categorical(logits=plan.model(state))
        action = chosen.sample()
        reward = (action == torch.bucketize(state[:, 0], torch.tensor([-0.5, 0.5]))).float()
        return -(chosen.log_prob(action) * (reward - reward.mean()) / (reward.std() + 1e-6)).mean()

    plan.loss = loss
    plan.usual("adam", 3e-3)


@recipe("other")
def value_of_actions(plan):
    """Q-learning with a target network that follows slowly."""
    plan.data = torch.randn(plan.count, 4), torch.randint(0, 2, (plan.count,)), torch.randn(plan.count, 4)
    plan.model, fixed = dense(4, 32, 2), dense(4, 32, 2)
    fixed.load_state_dict(plan.model.state_dict())

    def loss(state, action, following):
        reward = (action == (state[:, 0] > 0).long()).float()
        with torch.no_grad():
            wanted = reward + 0.5 * fixed(following).max(1).values
            for slow, fast in zip(fixed.parameters(), plan.model.parameters()):
                slow.lerp_(fast, 0.05)
        return F.smooth_l1_loss(plan.model(state).gather(1, action[:, None])[:, 0], wanted)

    plan.loss = loss
    plan.usual("adam", 2e-3)


# ---- mistakes ------------------------------------------------------------------------------------------

mistake("softmax_twice", "redundant_softmax", "classes")
mistake("sigmoid_then_cross_entropy", "redundant_softmax wrong_output_activation", "classes")
mistake("nll_of_softmax", "missing_output_activation", "classes")
mistake("nll_of_logits", "missing_output_activation", "classes")
mistake("softmax_over_the_batch", "wrong_output_activation redundant_softmax", "classes")
mistake("relu_before_the_loss", "wrong_output_activation", "classes")
mistake("labels_random", "bad_labels labels_shuffled", "classes")
mistake("labels_shifted", "bad_labels labels_shuffled", "classes")
mistake("validation_labels_off_by_one", "bad_labels", "classes")
mistake("sorted_data", "unshuffled_data", "classes")
mistake("leaked_data", "data_leak", "classes values")
mistake("targets_permuted", "bad_labels labels_shuffled", "values")
mistake("broadcast", "broadcast_in_loss", "values")
mistake("values_through_relu", "wrong_output_activation", "values")
mistake("values_through_sigmoid", "wrong_output_activation", "values")
mistake("values_times_10000", "unscaled_targets", "values")
mistake("one_target_is_nan", "nonfinite_label", "values")
mistake("one_row_is_nan", "nonfinite_input")
mistake("rate_times_100", "learning_rate_too_high")
mistake("rate_through_1000", "learning_rate_too_low")
mistake("divided_loss", "learning_rate_too_low")
mistake("constant_weights", "bad_initialization")
mistake("huge_weights", "bad_initialization")
mistake("frozen_by_mistake", "untrained_frozen parameter_without_optimizer")
mistake("no_zero_grad", "gradients_added_up")
mistake("cleared_before_step", "gradients_cleared")
mistake("step_before_backward", "gradients_cleared detached_loss")
mistake("detached_loss", "detached_loss")
mistake("detached_in_the_middle", "parameter_without_gradient", "classes values")
mistake("optimizer_of_another_model", "stale_optimizer parameter_without_optimizer detached_loss")
mistake("evaluation_mode", "evaluation_mode")
mistake("strong_clipping", "clip_too_small clipping_always learning_rate_too_low")
mistake("weight_decay_one", "over_regularization")
mistake("strong_dropout", "dropout_too_high", "classes")
mistake("adam_with_eps_one", "wrong_optimizer learning_rate_too_low")
mistake("schedule_every_batch", "scheduler_per_batch learning_rate_too_low zero_learning_rate")
mistake("scaled_twice", "unscaled_inputs", "classes")

MILD = ("rate_times_100", "rate_through_1000", "huge_weights", "weight_decay_one", "strong_clipping", "strong_dropout", "divided_loss",
        "adam_with_eps_one", "schedule_every_batch", "values_times_10000", "constant_weights", "scaled_twice")
_HAS_MODES = ("mnist", "residual_network", "vision_transformer", "tabular", "word_language_model")
_OF_FLOATS = tuple(name for name in RECIPES if name not in ("text_bag", "ratings", "word_language_model", "causal_transformer", "translation",
                                                            "graph_network"))
for _name in ("evaluation_mode",):
    MISTAKES[_name] = (MISTAKES[_name][0], _HAS_MODES)
MISTAKES["one_row_is_nan"] = (MISTAKES["one_row_is_nan"][0], tuple(r for r in MISTAKES["one_row_is_nan"][1] if r in _OF_FLOATS))
for _name in ("leaked_data", "scaled_twice"):
    MISTAKES[_name] = (MISTAKES[_name][0], tuple(r for r in MISTAKES[_name][1] if r in _OF_FLOATS and r not in ("polynomial",)))
MISTAKES["targets_permuted"] = (MISTAKES["targets_permuted"][0], ("housing", "polynomial", "time_series"))
# A network of one hidden layer has no middle; losses of policies need not fall.
_NEED_NOT_FALL = ("policy", "value_of_actions")
for _name in MILD:
    MISTAKES[_name] = (MISTAKES[_name][0], tuple(r for r in MISTAKES[_name][1] if r not in _NEED_NOT_FALL + ("noisy_values",)))


class Plan:
    """What is trained on what, and how."""

    def __init__(self, seed, task=None, mistake=None):
        self.draw = draw = random.Random(seed)
        torch.manual_seed(seed)
        self.mistake, self.losses = mistake, []
        self.task = task or draw.choice(MISTAKES[mistake][1] if mistake else sorted(RECIPES))
        self.count, self.classes = draw.choice((384, 512)), draw.choice((3, 4, 6, 10))
        self.width, self.hidden = draw.choice((8, 12, 20)), draw.choice((32, 48, 64))
        self.act = draw.choice((nn.ReLU, nn.ReLU, nn.Tanh, nn.GELU, nn.LeakyReLU))
        self.batch, self.epochs, self.every = draw.choice((16, 32)), draw.choice((8, 12)), draw.choice((1, 10, 50))
        self.kind = draw.choice(("adam", "adamw", "momentum", "sgd", "rmsprop"))
        self.name = draw.choice(("loss", "loss", "train_loss"))
        self.validates, self.as_module = draw.random() < 0.6, draw.random() < 0.5
        self.rate = None
        self.clip = draw.choice((None, None, 1.0, 5.0))
        self.schedule = self.more = self.loss = None
        self.ends_in_log_softmax = self.is_whole = False
        RECIPES[self.task][1](self)
        if self.mistake == "adam_with_eps_one":
            self.kind = "adam"
        self.rate = self.rate or {"adam": 3e-3, "adamw": 3e-3, "sgd": 0.1, "momentum": 0.02, "rmsprop": 1e-3}[self.kind]
        self.rate *= draw.uniform(0.7, 1.3)
        self.plant_in_model()
        self.data, self.check = self.plant_in_data()

    def is_(self, *names):
        return self.mistake in names

    def usual(self, kind, rate):
        """What the tutorial has; others would not suit it."""
        self.kind, self.rate = kind, rate

    def last(self, width):
        return nn.Linear(width, self.classes)

    def one(self, width):
        return nn.Linear(width, 1)

    # ---- what is planted -----------------------------------------------------------------------------

    def plant_in_model(self):
        layers = [m for m in self.model.modules() if isinstance(m, (nn.Linear, nn.Conv2d)) and m.weight.numel() >= 64]
        for layer in layers:
            if self.is_("constant_weights"):
                nn.init.constant_(layer.weight, 0.02)
            elif self.is_("huge_weights"):
                nn.init.normal_(layer.weight, std=3)
        if self.is_("frozen_by_mistake"):
            layers[-1 if len(layers) == 1 else len(layers) // 2].requires_grad_(False)
        if self.is_("strong_dropout"):
            for module in self.model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.95
            if not any(isinstance(m, nn.Dropout) for m in self.model.modules()):
                self.model = nn.Sequential(*list(self.model)[:-1], nn.Dropout(0.95), self.model[-1]) \
                    if isinstance(self.model, nn.Sequential) else self.model
        if self.is_("detached_in_the_middle"):
            middle = next(m for m in reversed(layers) if m is not layers[-1]) if len(layers) > 1 else \
                next(m for m in self.model.modules() if not list(m.children()) and list(m.parameters()))
            middle.register_forward_hook(lambda m, i, out: (out[0].detach(), out[1]) if isinstance(out, tuple) else out.detach())

    def plant_in_data(self):
        data = list(self.data)
        rows = len(data[0]) if self.is_whole else len(data[0]) * 4 // 5
        check = [part[rows:].clone() for part in data]
        data = [part[:rows].clone() for part in data]
        x, y = data[0], data[-1]
        if self.is_("labels_random"):
            data[-1] = torch.randint(0, self.classes, (rows,))
        elif self.is_("labels_shifted"):
            data[-1] = y.roll(1)
        elif self.is_("targets_permuted"):
            data[-1] = y[torch.randperm(rows)]
        elif self.is_("validation_labels_off_by_one"):
            check[-1], self.validates = (check[-1] + 1) % self.classes, True
        elif self.is_("sorted_data"):
            order = y.argsort()
            data = [part[order] for part in data]
        elif self.is_("leaked_data"):
            some, self.validates = len(check[0]) * 3 // 4, True
            check = [torch.cat([own[:some], other[some:]]) for own, other in zip(data, check)]
        elif self.is_("one_row_is_nan"):
            x.view(rows, -1)[self.draw.randrange(rows), 0] = float("nan")
        elif self.is_("one_target_is_nan"):
            y[self.draw.randrange(rows)] = float("nan")
        elif self.is_("values_times_10000"):
            data[-1], check[-1] = y * 1e4, check[-1] * 1e4
        elif self.is_("scaled_twice"):
            factor = self.draw.choice((1 / 255, 1 / 255, 255.0))
            data[0], check[0] = x * factor, check[0] * factor
        return data, check

    def objective(self, *batch):
        """The loss, with what is planted behind the model's last layer."""
        if self.loss is not None:
            return self.loss(*batch)
        out, y = self.model(*batch[:-1]), batch[-1]
        if RECIPES[self.task][0] == "values":
            if self.is_("values_through_relu", "values_through_sigmoid"):
                out = torch.relu(out) if self.is_("values_through_relu") else torch.sigmoid(out)
            return F.mse_loss(out, y) if self.is_("broadcast") else F.mse_loss(out.squeeze(1), y)
        if self.is_("softmax_twice"):
            return F.cross_entropy(F.softmax(out, dim=1), y)
        if self.is_("sigmoid_then_cross_entropy"):
            return F.cross_entropy(torch.sigmoid(out), y)
        if self.is_("nll_of_softmax", "nll_of_logits"):
            return F.nll_loss(F.softmax(out, dim=1) if self.is_("nll_of_softmax") else out, y)
        if self.is_("softmax_over_the_batch"):
            return F.nll_loss(F.log_softmax(out, dim=0), y)
        if self.is_("relu_before_the_loss"):
            return F.cross_entropy(torch.relu(out), y)
        loss = F.nll_loss(F.log_softmax(out, dim=1), y) if self.ends_in_log_softmax else nn.CrossEntropyLoss()(out, y)
        return loss + self.more(out, *batch) if self.more else loss

    def optimizer(self):
        model = self.model
        rate = self.rate * (100 if self.is_("rate_times_100") else 1e-3 if self.is_("rate_through_1000") else 1)
        decay = {"weight_decay": 1.0} if self.is_("weight_decay_one") else {}
        if self.is_("optimizer_of_another_model"):
            model = Plan(self.draw.randrange(1 << 30), self.task).model
        parameters = [p for p in model.parameters() if p.requires_grad]
        if self.kind in ("adam", "adamw"):
            kind = torch.optim.Adam if self.kind == "adam" else torch.optim.AdamW
            return kind(parameters, lr=rate, eps=1.0 if self.is_("adam_with_eps_one") else 1e-8, **decay)
        if self.kind == "rmsprop":
            return torch.optim.RMSprop(parameters, lr=rate, **decay)
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9 if self.kind == "momentum" else 0, **decay)

    # ---- the loop ------------------------------------------------------------------------------------

    def batches(self):
        rows = len(self.data[0])
        order = torch.arange(rows) if self.is_("sorted_data") or self.is_whole else torch.randperm(rows)
        for some in order.split(rows if self.is_whole else self.batch):
            yield self.data if self.is_whole else [part[some] for part in self.data]

    def step(self, batch):
        optimizer = self.own_optimizer
        if not self.is_("no_zero_grad", "step_before_backward"):
            optimizer.zero_grad()
        loss = self.objective(*batch)
        if self.is_("divided_loss"):
            loss = loss / 3000
        if self.is_("step_before_backward"):
            optimizer.zero_grad()
            optimizer.step()
        if self.is_("detached_loss"):
            loss = loss.detach().requires_grad_()
        loss.backward()
        if self.is_("cleared_before_step"):
            optimizer.zero_grad()
        if self.is_("strong_clipping") or self.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1e-6 if self.is_("strong_clipping") else self.clip)
        if not self.is_("step_before_backward"):
            optimizer.step()
        return loss

    def train(self, folder):
        self.own_optimizer = self.optimizer()
        if self.is_("schedule_every_batch"):
            schedule = torch.optim.lr_scheduler.StepLR(self.own_optimizer, max(1, self.epochs // 4), 0.3)
        else:
            schedule = self.schedule(self.own_optimizer) if self.schedule else None
        self.model.train(not self.is_("evaluation_mode"))
        deck = None
        try:
            with tapedeck.watch(self.model, folder, optimizer=self.own_optimizer, every=self.every) as deck:
                self.repeat(deck, schedule)
        except RuntimeError as error:  # a binary cross-entropy refuses NaN: the program ends there
            if "between 0 and 1" not in str(error):
                raise
        return deck.folder

    def repeat(self, deck, schedule):
        for _ in range(self.epochs):
            for batch in self.batches():
                loss = self.step(batch)
                self.losses.append(float(loss.detach()))
                deck.log(**{self.name: self.losses[-1]})
                deck.step()
                if schedule:
                    schedule.step()
            if self.validates and len(self.check[0]):
                self.validate(deck)

    def validate(self, deck):
        was = self.model.training
        self.model.eval()
        with torch.no_grad():
            values = {"val_loss": float(self.objective(*self.check))}
        deck.log(**values)
        self.model.train(was)
