"""Scripts of strangers.py: churn, playlists, citations and an oscillator."""

import copy

import torch
import torch.nn.functional as F
from strangers import script
from torch import autograd, nn
from torch.utils.data import DataLoader, TensorDataset

# ---- a table with categories, few positives, a moving average of the weights


class ChurnNet(nn.Module):
    """Embeddings of the categories beside the numbers, then dense layers with batch normalisation."""

    def __init__(self, levels, numbers, hidden=(48, 24), dropout=0.2):
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(n, min(8, (n + 1) // 2)) for n in levels])
        sizes = [sum(e.embedding_dim for e in self.embeds) + numbers, *hidden]
        layers = []
        for before, after in zip(sizes, sizes[1:]):
            layers += [nn.Linear(before, after), nn.ReLU(inplace=True), nn.BatchNorm1d(after), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, categories, numbers):
        parts = [embed(categories[:, i]) for i, embed in enumerate(self.embeds)]
        return self.layers(torch.cat([*parts, numbers], 1)).squeeze(1)


def area_under_curve(scores, labels):
    """The part of pairs in the right order."""
    positive, negative = scores[labels > 0.5], scores[labels < 0.5]
    difference = positive[:, None] - negative[None]
    return ((difference > 0).float() + 0.5 * (difference == 0).float()).mean().item()


class ChurnTrainer:
    """Trains with a weighted loss, keeps an average of the weights for validation, and stops early."""

    def __init__(self, t, model, optimizer, weight):
        self.t, self.model, self.optimizer = t, model, optimizer
        self.average = copy.deepcopy(model)
        self.criterion = nn.BCEWithLogitsLoss(pos_weight=weight)
        self.best, self.patience, self.shown = 0.0, 4, 1.0

    def follow(self, rate=0.9):
        with torch.no_grad():
            for kept, now in zip(self.average.state_dict().values(), self.model.state_dict().values()):
                if kept.dtype.is_floating_point:
                    kept.mul_(rate).add_(now, alpha=1 - rate)
                else:
                    kept.copy_(now)

    def validate(self, c, x, y):
        self.average.eval()
        with torch.no_grad():
            logits = self.average(c, x)
        auc = area_under_curve(logits, y)
        self.t.deck.log(val_auc=auc, val_loss=F.binary_cross_entropy_with_logits(logits, y, pos_weight=self.criterion.pos_weight))
        self.shown = 1 - auc
        self.patience = 4 if auc > self.best else self.patience - 1
        self.best = max(auc, self.best)
        return self.patience > 0

    def fit(self, loader, valid, epochs):
        for _ in range(epochs):
            self.model.train()
            for c, x, y in loader:
                output = self.model(c, x)
                if self.t.has("sigmoid_before_the_loss"):
                    output = torch.sigmoid(output)
                loss = self.criterion(output, y)
                self.t.update(loss, self.optimizer)
                self.follow()
                self.t.step(loss, measure=self.shown)
            if not self.validate(*valid):
                break


@script(
    "half_of_the_parameters rate_through_1000 sigmoid_before_the_loss?=redundant_softmax,wrong_output_activation "
    "cancelled_since_column=data_leak income_not_scaled?=unscaled_inputs validation_scaled_twice=unscaled_inputs"
)
def churn_table_with_average_weights(t):
    """One customer in eight leaves; four columns of categories and six of numbers with odd scales."""
    rows, levels = 2600, (12, 5, 30, 3)
    c = torch.stack([torch.randint(0, n, (rows,)) for n in levels], 1)
    x = torch.randn(rows, 6)
    effect = [torch.randn(n) for n in levels]
    score = sum(e[c[:, i]] for i, e in enumerate(effect)) + 1.5 * x[:, 0] * x[:, 1] - 1.5 * x[:, 2] + x[:, 3].abs()
    score = score + 0.5 * torch.randn(rows)
    y = (score > score.quantile(0.87)).float()
    table = x * torch.tensor([1.0, 12.0, 0.1, 3000.0, 5.0, 40.0]) + torch.tensor([5.0, 40.0, 0.5, 20000.0, 0.0, 200.0])
    if t.has("cancelled_since_column"):
        table = torch.cat((table, (y * (30 + 10 * torch.randn(rows)))[:, None]), 1)
    cut = 2000
    mean, std = table[:cut].mean(0), table[:cut].std(0)
    train_x, valid_x = (table[:cut] - mean) / std, (table[cut:] - mean) / std
    if t.has("income_not_scaled"):
        train_x[:, 3], valid_x[:, 3] = table[:cut, 3], table[cut:, 3]
    if t.has("validation_scaled_twice"):
        valid_x = (valid_x - mean) / std
    if t.has("cancelled_since_column"):  # a customer of whom nobody knows yet
        valid_x[:, -1] = (0 - mean[-1]) / std[-1]
    loader = DataLoader(TensorDataset(c[:cut], train_x, y[:cut]), batch_size=64, shuffle=True, drop_last=True)
    model = ChurnNet(levels, train_x.shape[1])
    optimizer = t.optimizer(torch.optim.AdamW, model.parameters(), lr=5e-3, weight_decay=1e-3)
    trainer = ChurnTrainer(t, model, optimizer, ((1 - y[:cut]).sum() / y[:cut].sum()).sqrt())
    with t.watch(model, optimizer):
        trainer.fit(loader, (c[cut:], valid_x, y[cut:]), 8)


# ---- pairwise ranking of songs; the halves of a factorisation in turns


class SongFactors(nn.Module):
    """Vectors of listeners and songs, and how popular a song is."""

    def __init__(self, listeners, songs, width):
        super().__init__()
        self.listeners, self.songs = nn.Embedding(listeners, width), nn.Embedding(songs, width)
        self.popular = nn.Embedding(songs, 1)
        nn.init.normal_(self.listeners.weight, std=0.1)
        nn.init.normal_(self.songs.weight, std=0.1)
        nn.init.zeros_(self.popular.weight)

    def forward(self, who, what):
        return (self.listeners(who) * self.songs(what)).sum(-1) + self.popular(what).squeeze(-1)


@script(
    "cleared rate_times_1000 difference_turned_round=wrong_loss,bad_labels vectors_of_zeros=bad_initialization "
    "others_from_own_history=bad_labels songs_without_optimizer=parameter_without_optimizer,parameter_unchanged@songs"
)
def playlist_pairs_in_turns(t):
    """A song that was heard is to stand before one that was not; one optimizer for listeners and one for songs."""
    listeners, songs, width = 150, 120, 12
    taste, style = torch.randn(listeners, 4), torch.randn(songs, 4)
    heard = (taste @ style.t() / 2 + 0.5 * torch.randn(songs)) > 1.1
    held = heard & (torch.rand(listeners, songs) < 0.2)
    known = heard & ~held
    events = known.nonzero()
    model = SongFactors(listeners, songs, width)
    if t.has("vectors_of_zeros"):
        nn.init.zeros_(model.listeners.weight)
        nn.init.zeros_(model.songs.weight)
    of_songs = [*model.songs.parameters(), *model.popular.parameters()]
    if t.has("songs_without_optimizer"):
        of_songs = [*model.listeners.parameters(), *model.popular.parameters()]
    turns = [
        t.optimizer(torch.optim.Adagrad, model.listeners.parameters(), lr=0.15),
        t.optimizer(torch.optim.Adagrad, of_songs, lr=0.15),
    ]

    def unheard(who):
        song = torch.randint(0, songs, who.shape)
        for _ in range(4):
            again = known[who, song]
            song = torch.where(again, torch.randint(0, songs, who.shape), song)
        return song

    def other_of_history(who):
        return torch.multinomial(known[who].float(), 1)[:, 0]

    @torch.no_grad()
    def wrong_pairs():
        scores = model.listeners.weight @ model.songs.weight.t() + model.popular.weight.t()
        who, good = held.nonzero().t()
        return (scores[who, good] < scores[who, unheard(who)]).float().mean().item()

    missed = 0.5
    with t.watch(model, turns):
        for i in range(300):
            who, good = events[torch.randint(0, len(events), (256,))].t()
            bad = other_of_history(who) if t.has("others_from_own_history") else unheard(who)
            difference = model(who, good) - model(who, bad)
            if t.has("difference_turned_round"):
                difference = -difference
            loss = -F.logsigmoid(difference).mean()
            for each in turns:
                each.zero_grad()
            t.update(loss, turns[i // 5 % 2])
            if i % 20 == 19:
                missed = wrong_pairs()
                t.deck.log(held_out_auc=1 - missed)
            t.step(loss, measure=missed)


# ---- classes of papers in a graph


class GraphConvolution(nn.Module):
    """Features of the neighbours, mixed and multiplied."""

    def __init__(self, before, after):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(before, after))
        self.bias = nn.Parameter(torch.zeros(after))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x, adjacency):
        return adjacency @ (x @ self.weight) + self.bias


class CitationNet(nn.Module):
    """Layers of graph convolution with dropout between them."""

    def __init__(self, features, hidden, classes, depth=2, dropout=0.5):
        super().__init__()
        sizes = [features, *[hidden] * (depth - 1), classes]
        self.convolutions = nn.ModuleList([GraphConvolution(a, b) for a, b in zip(sizes, sizes[1:])])
        self.dropout = dropout

    def forward(self, x, adjacency):
        for convolution in self.convolutions[:-1]:
            x = F.dropout(torch.relu(convolution(x, adjacency)), self.dropout, self.training)
        return F.log_softmax(self.convolutions[-1](x, adjacency), 1)


@script(
    "no_zero_grad rate_through_1000 isolated_papers=division_by_zero,nonfinite_input,overflow "
    "labels_in_another_order=labels_shuffled,bad_labels kept_and_dropped_confused=dropout_too_high "
    "twelve_convolutions=too_deep,missing_normalization,dropout_too_high"
)
def citation_graph_few_labels(t):
    """A graph of four communities; ten labelled papers of each, the others for validation."""
    papers, classes, features = 240, 4, 60
    labels = torch.arange(papers) % classes
    same = labels[:, None] == labels[None]
    edges = torch.rand(papers, papers) < torch.where(same, 0.09, 0.008)
    edges = torch.triu(edges, 1)
    edges = (edges | edges.t()).float()
    edges[:6] = 0
    edges[:, :6] = 0
    topics = torch.rand(classes, features) * 0.25
    x = (torch.rand(papers, features) < topics[labels]).float()
    x = x / x.sum(1, keepdim=True).clamp(min=1)
    adjacency = edges if t.has("isolated_papers") else edges + torch.eye(papers)
    root = adjacency.sum(1).pow(-0.5)
    adjacency = root[:, None] * adjacency * root[None]
    if t.has("labels_in_another_order"):
        labels = labels[torch.randperm(papers)]
    chosen = torch.cat([(labels == k).nonzero()[:10, 0] for k in range(classes)])
    is_train = torch.zeros(papers, dtype=torch.bool)
    is_train[chosen] = True

    model = CitationNet(
        features,
        16,
        classes,
        depth=12 if t.has("twelve_convolutions") else 2,
        dropout=0.97 if t.has("kept_and_dropped_confused") else 0.5,
    )
    optimizer = t.optimizer(torch.optim.Adam, model.parameters(), lr=0.02, weight_decay=5e-4)
    error = 0.75
    with t.watch(model, optimizer):
        for epoch in range(160):
            model.train()
            output = model(x, adjacency)
            loss = F.nll_loss(output[is_train], labels[is_train])
            t.update(loss, optimizer)
            if epoch % 10 == 9:
                model.eval()
                with torch.no_grad():
                    output = model(x, adjacency)
                error = (output.argmax(1) != labels)[~is_train].float().mean().item()
                t.deck.log(val_loss=F.nll_loss(output[~is_train], labels[~is_train]), val_acc=1 - error)
            t.step(loss, measure=error)


# ---- a forced oscillator, solved by a network with LBFGS


class Displacement(nn.Module):
    """Displacement at a time."""

    def __init__(self, width, activation):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, 1))

    def forward(self, time):
        return self.net(time)


@script(
    "rate_through_1000 closure_adds_gradients=gradients_added_up broken_lines=wrong_hidden_activation "
    "curvature_without_graph=detached_loss row_of_forces=broadcast_in_loss"
)
def forced_oscillator_with_lbfgs(t):
    """The residual of the equation, the start and the speed at the start; the solution is known."""
    damping, stiffness = 0.4, t.choose(4.0, 5.0)

    def exact(time):
        return torch.exp(-0.3 * time) * torch.sin(2.2 * time)

    def derivative(value, time, graph=True):
        return autograd.grad(value, time, torch.ones_like(value), create_graph=graph, retain_graph=True)[0]

    time = torch.linspace(0, 3, 40)[:, None].requires_grad_()
    with torch.enable_grad():
        truth = exact(time)
        speed = derivative(truth, time)
        force = (derivative(speed, time) + damping * speed + stiffness * truth).detach()
    truth = truth.detach()
    if t.has("row_of_forces"):
        force = force.squeeze(1)
    start = torch.zeros(1, 1, requires_grad=True)

    model = Displacement(20, nn.ReLU if t.has("broken_lines") else nn.Tanh)
    optimizer = t.optimizer(torch.optim.LBFGS, model.parameters(), lr=0.8, max_iter=4, history_size=20)

    def closure():
        if not t.has("closure_adds_gradients"):
            optimizer.zero_grad()
        u = model(time)
        v = derivative(u, time)
        a = derivative(v, time, graph=not t.has("curvature_without_graph")) if v.requires_grad else torch.zeros_like(v)
        residual = (a + damping * v + stiffness * u - force).square().mean()
        first = model(start)
        at_start = first.square().mean() + (derivative(first, start) - 2.2).square().mean()
        loss = 0.1 * residual + at_start
        loss.backward()
        return loss

    with t.watch(model, optimizer):
        for _ in range(90):
            loss = optimizer.step(closure)
            with torch.no_grad():
                error = ((model(time) - truth).square().mean() / truth.square().mean()).sqrt().item()
            t.step(loss, measure=min(error, 1e6) if error == error else 1e6, relative_error=error)
