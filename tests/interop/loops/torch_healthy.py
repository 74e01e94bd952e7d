"""Small re-creations of well-known PyTorch trainings that are healthy, and of kinds whose losses behave unlike a classifier's."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

import tapedeck

HEALTHY = {}


def healthy(function):
    HEALTHY[function.__name__] = function
    return function


def network(*widths, activation=nn.ReLU):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), activation()]
    return nn.Sequential(*layers[:-1])


def blobs(count, classes=4, width=10, spread=1.6):
    y = torch.randint(0, classes, (count,))
    return (torch.randn(classes, width) * spread)[y] + torch.randn(count, width), y


def repeat(path, model, optimizer, steps, loss_of, every=10, clip=None, after=None, name="loss"):
    with tapedeck.watch(model, path, optimizer=optimizer, every=every) as deck:
        for step in range(steps):
            optimizer.zero_grad()
            loss = loss_of(step)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            deck.log(**{name: float(loss.detach())})
            deck.step()
            if after:
                after(step, deck)
    return deck.folder


@healthy
def digits_with_dropout_and_schedule(path, seed):
    torch.manual_seed(seed)
    x, y = blobs(600, 10, 64, 0.7)
    model = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Dropout(0.25), nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10), nn.LogSoftmax(1))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for _ in range(8):
            for some in torch.randperm(480).split(32):
                optimizer.zero_grad()
                loss = F.nll_loss(model(x[some]), y[some])
                loss.backward()
                optimizer.step()
                deck.log(loss=float(loss.detach()))
                deck.step()
            model.eval()
            with torch.no_grad():
                out = model(x[480:])
                deck.log(val_loss=float(F.nll_loss(out, y[480:])), val_accuracy=float((out.argmax(1) == y[480:]).float().mean()))
            model.train()
            scheduler.step()
    return deck.folder


def adversaries(path, seed, watched, loss_kind):
    torch.manual_seed(seed)
    generator, critic = network(8, 32, 32, 2), network(2, 32, 32, 1, activation=nn.LeakyReLU)
    optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3, betas=(0.5, 0.999)) for m in (generator, critic)]
    one, zero = torch.ones(32, 1), torch.zeros(32, 1)
    with tapedeck.watch((generator, critic)[watched], path, optimizer=optimizers[watched], every=10) as deck:
        for _ in range(200):
            angle = torch.rand(32, 1) * 2 * math.pi
            real, fake = torch.cat([angle.cos(), angle.sin()], 1), generator(torch.randn(32, 8))
            optimizers[1].zero_grad()
            if loss_kind == "logits":
                loss_c = F.binary_cross_entropy_with_logits(critic(real), one) + F.binary_cross_entropy_with_logits(critic(fake.detach()), zero)
            else:
                loss_c = critic(fake.detach()).mean() - critic(real).mean()
            loss_c.backward()
            if loss_kind != "logits":
                nn.utils.clip_grad_value_(critic.parameters(), 0.1)
            optimizers[1].step()
            optimizers[0].zero_grad()
            loss_g = F.binary_cross_entropy_with_logits(critic(fake), one) if loss_kind == "logits" else -critic(fake).mean()
            loss_g.backward()
            optimizers[0].step()
            deck.log(loss=float((loss_g, loss_c)[watched].detach()))
            deck.step()
    return deck.folder


@healthy
def generator_of_adversaries(path, seed):
    return adversaries(path, seed, 0, "logits")


@healthy
def critic_of_adversaries(path, seed):
    return adversaries(path, seed, 1, "logits")


@healthy
def generator_of_wasserstein(path, seed):
    return adversaries(path, seed, 0, "wasserstein")


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = network(10, 32, 16), nn.Linear(16, 1)

    def forward(self, a, b):
        return self.head((self.body(a) - self.body(b)).abs())[:, 0]


class Joined(nn.Module):
    """Both of a pair in one tensor."""

    def __init__(self):
        super().__init__()
        self.body, self.head = network(10, 32, 16), nn.Linear(16, 1)

    def forward(self, both):
        return self.head((self.body(both[:, 0]) - self.body(both[:, 1])).abs())[:, 0]


@healthy
def siamese(path, seed):
    torch.manual_seed(seed)
    (x, y), model = blobs(160), Pairs()

    def loss(_):
        a, b = torch.randint(0, 160, (2, 32))
        return F.binary_cross_entropy_with_logits(model(x[a], x[b]), (y[a] == y[b]).float())

    return repeat(path, model, torch.optim.Adam(model.parameters(), 1e-3), 160, loss)


@healthy
def siamese_in_one_tensor(path, seed):
    torch.manual_seed(seed)
    (x, y), model = blobs(160), Joined()

    def loss(_):
        a, b = torch.randint(0, 160, (2, 32))
        return F.binary_cross_entropy_with_logits(model(torch.stack([x[a], x[b]], 1)), (y[a] == y[b]).float())

    return repeat(path, model, torch.optim.Adam(model.parameters(), 1e-3), 160, loss)


@healthy
def contrastive_distance(path, seed):
    """A body that is called once for each of a pair."""
    torch.manual_seed(seed)
    (x, y), model = blobs(160), network(10, 32, 8)

    def loss(_):
        a, b = torch.randint(0, 160, (2, 32))
        distance = (model(x[a]) - model(x[b])).pow(2).sum(1)
        same = (y[a] == y[b]).float()
        return (same * distance + (1 - same) * F.relu(1 - (distance + 1e-6).sqrt()).pow(2)).mean()

    return repeat(path, model, torch.optim.Adam(model.parameters(), 1e-3), 160, loss)


@healthy
def prototypical(path, seed):
    """Each episode numbers its classes anew."""
    torch.manual_seed(seed)
    (x, y), model = blobs(240, 8), network(10, 32, 16)

    def loss(_):
        classes = torch.randperm(8)[:4]
        places = torch.cat([(y == c).nonzero().flatten()[torch.randperm(int((y == c).sum()))[:6]] for c in classes])
        out = model(x[places]).view(4, 6, -1)
        centres, asked = out[:, :3].mean(1), out[:, 3:].reshape(12, -1)
        return F.cross_entropy(-torch.cdist(asked, centres), torch.arange(4).repeat_interleave(3))

    return repeat(path, model, torch.optim.Adam(model.parameters(), 1e-3), 150, loss)


@healthy
def reptile(path, seed):
    """Sine waves of other phases one after another, a few steps each, from a common start."""
    torch.manual_seed(seed)
    model = network(1, 32, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    x = torch.linspace(-5, 5, 50)[:, None]
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for _ in range(24):
            before = copy.deepcopy(model.state_dict())
            y = torch.sin(x + torch.rand(1) * 6)[:, 0] * (0.5 + torch.rand(1))
            for some in torch.randperm(50).split(10):
                optimizer.zero_grad()
                loss = F.mse_loss(model(x[some])[:, 0], y[some])
                loss.backward()
                optimizer.step()
                deck.log(loss=float(loss.detach()))
                deck.step()
            after = model.state_dict()
            model.load_state_dict({key: before[key] + 0.3 * (after[key] - before[key]) for key in before})
    return deck.folder


@healthy
def few_shot_classes_renamed(path, seed):
    """Reptile with classes: every task gives the same examples other labels."""
    torch.manual_seed(seed)
    x, y = blobs(200, 5)
    model = network(10, 48, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for _ in range(20):
            names = torch.randperm(5)
            for some in torch.randperm(200)[:160].split(20):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x[some]), names[y[some]])
                loss.backward()
                optimizer.step()
                deck.log(loss=float(loss.detach()))
                deck.step()
    return deck.folder


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = network(10, 32, 32), nn.Linear(32, 4), nn.Linear(32, 3)

    def forward(self, x, task):
        return (self.a, self.b)[task](F.relu(self.body(x)))


@healthy
def two_tasks_in_turn(path, seed):
    torch.manual_seed(seed)
    (x, y), model = blobs(240), TwoHeads()
    other = torch.randint(0, 10, (1,)).item()
    z = torch.bucketize(x[:, other], torch.tensor([-0.7, 0.7]))

    def loss(step):
        some = torch.randint(0, 240, (32,))
        return F.cross_entropy(model(x[some], step % 2), (y, z)[step % 2][some])

    return repeat(path, model, torch.optim.Adam(model.parameters(), 3e-3), 200, loss)


@healthy
def policy_gradient(path, seed):
    torch.manual_seed(seed)
    model = network(4, 32, 2)

    def loss(_):
        state = torch.randn(32, 4)
        chosen = torch.distributions.Categorical(logits=model(state))
        action = chosen.sample()
        reward = (action == (state[:, 0] > 0).long()).float() + 0.3 * torch.randn(32)
        return -(chosen.log_prob(action) * (reward - reward.mean()) / (reward.std() + 1e-6)).mean()

    return repeat(path, model, torch.optim.Adam(model.parameters(), 3e-3), 200, loss)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.policy, self.value = nn.Linear(4, 32), nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, x):
        x = F.relu(self.body(x))
        return F.softmax(self.policy(x), -1), self.value(x)


@healthy
def actor_and_critic(path, seed):
    torch.manual_seed(seed)
    model = ActorCritic()

    def loss(_):
        state = torch.randn(32, 4)
        shares, value = model(state)
        chosen = torch.distributions.Categorical(shares)
        action = chosen.sample()
        reward = (action == (state[:, 0] > 0).long()).float()
        advantage = reward - value.detach()[:, 0]
        return -(chosen.log_prob(action) * advantage).mean() + F.smooth_l1_loss(value[:, 0], reward)

    return repeat(path, model, torch.optim.Adam(model.parameters(), 3e-3), 200, loss)


@healthy
def deep_q(path, seed):
    torch.manual_seed(seed)
    model = network(4, 32, 2)
    target = copy.deepcopy(model)
    states = torch.randn(300, 4)
    actions = torch.randint(0, 2, (300,))

    def loss(step):
        if step % 50 == 0:
            target.load_state_dict(model.state_dict())
        some = torch.randint(0, 299, (32,))
        with torch.no_grad():
            wanted = (actions[some] == (states[some, 0] > 0).long()).float() + 0.9 * target(states[some + 1]).max(1)[0]
        return F.smooth_l1_loss(model(states[some]).gather(1, actions[some, None])[:, 0], wanted)

    return repeat(path, model, torch.optim.AdamW(model.parameters(), 1e-3, amsgrad=True), 240, loss)


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.mean, self.spread = nn.Linear(20, 40), nn.Linear(40, 4), nn.Linear(40, 4)
        self.decoder = network(4, 40, 20)

    def forward(self, x):
        h = F.relu(self.encoder(x))
        mean, spread = self.mean(h), self.spread(h)
        return torch.sigmoid(self.decoder(mean + torch.randn_like(mean) * torch.exp(0.5 * spread))), mean, spread


@healthy
def variational_autoencoder(path, seed):
    torch.manual_seed(seed)
    x = torch.sigmoid(3 * blobs(400, 5, 20, 2)[0])
    model = Variational()

    def loss(_):
        some = x[torch.randint(0, 400, (32,))]
        out, mean, spread = model(some)
        return F.binary_cross_entropy(out, some, reduction="sum") - 0.5 * torch.sum(1 + spread - mean.pow(2) - spread.exp())

    return repeat(path, model, torch.optim.Adam(model.parameters(), 5e-3), 240, loss)


@healthy
def two_views_contrasted(path, seed):
    torch.manual_seed(seed)
    x, model = blobs(256)[0], network(10, 32, 16)

    def loss(_):
        some = x[torch.randint(0, 256, (32,))]
        views = torch.cat([some + 0.3 * torch.randn_like(some) for _ in range(2)])
        out = F.normalize(model(views), dim=1)
        scores = out @ out.T / 0.2 - 1e9 * torch.eye(64)
        return F.cross_entropy(scores, (torch.arange(64) + 32) % 64)

    return repeat(path, model, torch.optim.Adam(model.parameters(), 3e-3), 150, loss)


@healthy
def own_past_as_teacher(path, seed):
    """Self-supervised with a slow copy, without negative pairs."""
    torch.manual_seed(seed)
    x, model, head = blobs(256)[0], network(10, 32, 16), network(16, 32, 16)
    both = nn.ModuleDict({"body": model, "head": head})
    slow = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(both.parameters(), 1e-3)

    def loss(_):
        some = x[torch.randint(0, 256, (32,))]
        a, b = (some + 0.3 * torch.randn_like(some) for _ in range(2))
        return 2 - 2 * F.cosine_similarity(head(model(a)), slow(b).detach()).mean()

    def follow(*_):
        with torch.no_grad():
            for p, q in zip(slow.parameters(), model.parameters()):
                p.lerp_(q, 0.02)

    return repeat(path, both, optimizer, 150, loss, after=follow)


class Language(nn.Module):
    def __init__(self, words=20, is_tied=False):
        super().__init__()
        self.table, self.cell, self.head = nn.Embedding(words, 24), nn.LSTM(24, 24, batch_first=True), nn.Linear(24, words)
        if is_tied:
            self.head.weight = self.table.weight

    def forward(self, tokens):
        return self.head(self.cell(self.table(tokens))[0])


@healthy
def language_model(path, seed):
    torch.manual_seed(seed)
    text = (torch.arange(2000) * 7 + torch.arange(2000) // 3) % 20
    model = Language()

    def loss(_):
        starts = torch.randint(0, 1900, (16,))
        tokens = torch.stack([text[s : s + 17] for s in starts])
        return F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 20), tokens[:, 1:].reshape(-1))

    return repeat(path, model, torch.optim.Adam(model.parameters(), 3e-3), 150, loss, clip=0.5)


@healthy
def language_model_of_noise(path, seed):
    """Text that can hardly be foretold: its loss stays near the logarithm of the number of words."""
    torch.manual_seed(seed)
    text = torch.multinomial(torch.arange(1, 21).float(), 3000, replacement=True)
    model = Language(is_tied=True)

    def loss(_):
        starts = torch.randint(0, 2900, (16,))
        tokens = torch.stack([text[s : s + 17] for s in starts])
        return F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 20), tokens[:, 1:].reshape(-1))

    return repeat(path, model, torch.optim.Adam(model.parameters(), 3e-3), 150, loss, clip=0.5)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(20, 32), nn.Parameter(torch.randn(16, 32) * 0.02)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True), 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 20)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.body(self.table(tokens) + self.places[: tokens.shape[1]], mask=mask, is_causal=True))


@healthy
def transformer(path, seed):
    torch.manual_seed(seed)
    text = (torch.arange(2000) * 7 + torch.arange(2000) // 3) % 20
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1, (s + 1) / 20) * 0.5 * (1 + math.cos(math.pi * s / 120)))

    def loss(_):
        starts = torch.randint(0, 1900, (16,))
        tokens = torch.stack([text[s : s + 17] for s in starts])
        return F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 20), tokens[:, 1:].reshape(-1))

    return repeat(path, model, optimizer, 120, loss, clip=1.0, after=lambda *_: scheduler.step())


@healthy
def regression_of_noise(path, seed):
    torch.manual_seed(seed)
    x = torch.randn(400, 6)
    y = 0.4 * x[:, 0] + torch.randn(400)
    model = network(6, 16, 1)

    def loss(_):
        some = torch.randint(0, 400, (32,))
        return F.mse_loss(model(x[some])[:, 0], y[some])

    return repeat(path, model, torch.optim.Adam(model.parameters(), 1e-3), 200, loss)


@healthy
def classes_that_overlap(path, seed):
    torch.manual_seed(seed)
    x, y = blobs(480, 3, 8, 0.35)
    model = network(8, 24, 3)

    def loss(_):
        some = torch.randint(0, 480, (32,))
        return F.cross_entropy(model(x[some]), y[some])

    return repeat(path, model, torch.optim.Adam(model.parameters(), 2e-3), 200, loss)


@healthy
def smoothed_labels_with_mixed_examples(path, seed):
    torch.manual_seed(seed)
    x, y = blobs(400)
    model = network(10, 48, 4)

    def loss(_):
        some, others, share = torch.randint(0, 400, (32,)), torch.randint(0, 400, (32,)), torch.rand(1)
        out = model(share * x[some] + (1 - share) * x[others])
        return share[0] * F.cross_entropy(out, y[some], label_smoothing=0.1) + (1 - share[0]) * F.cross_entropy(out, y[others])

    return repeat(path, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=True), 200, loss)


@healthy
def noise_that_is_foretold(path, seed):
    """A diffusion model: the target is the noise that was added."""
    torch.manual_seed(seed)
    x, model = blobs(300, 4, 2, 2)[0], network(3, 48, 48, 2, activation=nn.SiLU)

    def loss(_):
        some, time = x[torch.randint(0, 300, (64,))], torch.rand(64, 1)
        noise = torch.randn_like(some)
        return F.mse_loss(model(torch.cat([(1 - time).sqrt() * some + time.sqrt() * noise, time], 1)), noise)

    return repeat(path, model, torch.optim.Adam(model.parameters(), 2e-3), 200, loss)


@healthy
def student_of_a_teacher(path, seed):
    torch.manual_seed(seed)
    x, y = blobs(300)
    teacher, model = network(10, 64, 4), network(10, 16, 4)
    optimizer = torch.optim.Adam(teacher.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        optimizer.step()

    def loss(_):
        some = torch.randint(0, 300, (32,))
        with torch.no_grad():
            wanted = F.softmax(teacher(x[some]) / 2, 1)
        out = model(x[some])
        return 0.5 * F.cross_entropy(out, y[some]) + 2 * F.kl_div(F.log_softmax(out / 2, 1), wanted, reduction="batchmean")

    return repeat(path, model, torch.optim.Adam(model.parameters(), 3e-3), 150, loss)


@healthy
def graph_with_all_nodes_at_once(path, seed):
    torch.manual_seed(seed)
    x, y = blobs(120)
    near = (y[:, None] == y[None]).float() * (torch.rand(120, 120) < 0.1) + torch.eye(120)
    near = near / near.sum(1, keepdim=True)
    first, second = nn.Linear(10, 16), nn.Linear(16, 4)
    model = nn.ModuleList([first, second])
    known = torch.randperm(120)[:60]
    optimizer = torch.optim.Adam(model.parameters(), 1e-2, weight_decay=5e-4)
    return repeat(path, model, optimizer, 100,
                  lambda _: F.nll_loss(F.log_softmax(near @ second(F.relu(near @ first(x))), 1)[known], y[known]))


@healthy
def trained_body_with_new_head(path, seed):
    torch.manual_seed(seed)
    x, y = blobs(300)
    model = network(10, 48, 48, 4)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(80):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.requires_grad_(False)
    model[4] = nn.Linear(48, 4)

    def loss(_):
        some = torch.randint(0, 300, (32,))
        return F.cross_entropy(model(x[some]), y[some])

    return repeat(path, model, torch.optim.SGD(model[4].parameters(), 0.01, momentum=0.9), 150, loss)


@healthy
def training_and_validation_both_evaluated(path, seed):
    torch.manual_seed(seed)
    x, y = blobs(500)
    model = network(10, 48, 4)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    with tapedeck.watch(model, path, optimizer=optimizer, every=10) as deck:
        for _ in range(10):
            for some in torch.randperm(400).split(32):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x[some]), y[some])
                loss.backward()
                optimizer.step()
                deck.log(loss=float(loss.detach()))
                deck.step()
            model.eval()
            with torch.no_grad():
                for name, part in (("train_loss_all", slice(0, 400)), ("val_loss", slice(400, 500))):
                    deck.log(**{name: float(F.cross_entropy(model(x[part]), y[part]))})
            model.train()
    return deck.folder


@healthy
def sure_of_itself(path, seed):
    """The validation loss rises while the accuracy stays: an overconfident classifier."""
    torch.manual_seed(seed)
    x, y = blobs(260, 4, 10, 1.5)
    model = network(10, 128, 128, 4)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    with tapedeck.watch(model, path, optimizer=optimizer, every=20) as deck:
        for _ in range(30):
            for some in torch.randperm(200).split(20):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x[some]), y[some])
                loss.backward()
                optimizer.step()
                deck.log(loss=float(loss.detach()))
                deck.step()
            model.eval()
            with torch.no_grad():
                out = model(x[200:])
                deck.log(val_loss=float(F.cross_entropy(out, y[200:])), val_accuracy=float((out.argmax(1) == y[200:]).float().mean()))
            model.train()
    return deck.folder
