"""Scripts of strangers.py: tables, series, graphs, recommendations; and loops with habits of their own."""

import math

import torch
import torch.nn.functional as F
from strangers import script
from torch import nn
from torch.utils.data import DataLoader, Dataset


def columns(count, width=8):
    x = torch.randn(count, width)
    y = x[:, 0] + 0.8 * torch.tanh(2 * x[:, 1]) - 0.6 * x[:, 2] * x[:, 3] + 0.2 * torch.randn(count)
    return x, (y - y.mean()) / y.std()


@script("no_zero_grad broadcast=broadcast_in_loss prices_not_scaled?=unscaled_targets columns_not_scaled?=unscaled_inputs rate_times_1000 validation_is_training=data_leak half_of_the_parameters")
def sales_with_entity_embeddings(t):
    """A Dataset of dicts, embeddings for categories beside numbers, batch normalisation, dropout, one cycle."""
    n = 520
    numbers, y = columns(n, 5)
    shop, day = torch.randint(0, 12, (n,)), torch.randint(0, 7, (n,))
    y = y + torch.randn(12)[shop] + 0.5 * torch.randn(7)[day]
    if t.has("prices_not_scaled"):
        y = 5000 + 3000 * y
    if t.has("columns_not_scaled"):
        numbers = numbers * torch.tensor([1.0, 1000, 1, 30000, 1]) + 500

    class Rows(Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, i):
            row = self.rows[i]
            return {"numbers": numbers[row], "shop": shop[row], "day": day[row], "sales": y[row]}

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.shop, self.day = nn.Embedding(12, 4), nn.Embedding(7, 3)
            self.norm = nn.Identity() if t.has("columns_not_scaled") else nn.BatchNorm1d(5)
            self.body = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.BatchNorm1d(48) if not t.has("columns_not_scaled") else nn.Identity(),
                                      nn.Dropout(0.1), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1))

        def forward(self, numbers, shop, day):
            return self.body(torch.cat([self.norm(numbers), self.shop(shop), self.day(day)], 1))

    net = Net()
    rows = torch.randperm(n).tolist()
    loader = DataLoader(Rows(rows[:416]), 32, shuffle=True)
    check = DataLoader(Rows(rows[200:304] if t.has("validation_is_training") else rows[416:]), 52)
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 5e-3)
    cycle = None if t.mistake in ("rate_times_1000",) else torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=12 * len(loader))

    def loss_of(batch):
        out = net(batch["numbers"], batch["shop"], batch["day"])
        return F.mse_loss(out if t.has("broadcast") else out.squeeze(-1), batch["sales"])

    with t.watch(net, optimizer) as deck:
        for epoch in range(12):
            net.train()
            for batch in loader:
                loss = loss_of(batch)
                t.update(loss, optimizer)
                if cycle:
                    cycle.step()
                t.step(loss)
            net.eval()
            with torch.no_grad():
                deck.log(val_loss=sum(float(loss_of(batch)) for batch in check) / len(check))


@script("no_zero_grad sigmoid_twice=redundant_softmax logits_into_bce=missing_output_activation,nan_loss,wrong_output_activation rate_times_1000 labels_all_one=bad_labels items_table_frozen=untrained_frozen,parameter_without_optimizer")
def neural_collaborative_filtering(t):
    """Implicit feedback, negatives drawn in each epoch."""
    taste, kind = torch.randn(40, 4), torch.randn(60, 4)
    likes = [(u, i) for u in range(40) for i in (taste[u] @ kind.T).topk(12).indices.tolist()]
    pairs = torch.tensor(likes)

    class NCF(nn.Module):
        def __init__(self):
            super().__init__()
            self.u, self.i, self.gu, self.gi = nn.Embedding(40, 12), nn.Embedding(60, 12), nn.Embedding(40, 8), nn.Embedding(60, 8)
            self.mlp, self.out = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 12), nn.ReLU()), nn.Linear(20, 1)

        def forward(self, u, i):
            h = self.mlp(torch.cat([self.u(u), self.i(i)], -1))
            out = self.out(torch.cat([h, self.gu(u) * self.gi(i)], -1)).view(-1)
            return out if t.has("logits_into_bce") else torch.sigmoid(out)

    net = NCF()
    if t.has("items_table_frozen"):
        net.mlp[0].requires_grad_(False)
    optimizer = t.optimizer(torch.optim.Adam, [p for p in net.parameters() if p.requires_grad], 5e-3)
    criterion = nn.BCEWithLogitsLoss() if t.has("sigmoid_twice") else nn.BCELoss()
    with t.watch(net, optimizer):
        for epoch in range(6):
            others = torch.stack([torch.randint(0, 40, (len(pairs),)), torch.randint(0, 60, (len(pairs),))], 1)
            x = torch.cat([pairs, others])
            y = torch.cat([torch.ones(len(pairs)), torch.ones(len(pairs)) if t.has("labels_all_one") else torch.zeros(len(pairs))])
            for some in torch.randperm(len(x)).split(48):
                loss = criterion(net(x[some, 0], x[some, 1]), y[some])
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad cleared rate_times_1000 detached_loss divided_loss")
def bayesian_personalised_ranking(t):
    """Pairs of a liked and another item; sparse gradients or not."""
    taste, kind = torch.randn(50, 4), torch.randn(70, 4)
    best = (taste @ kind.T).topk(12).indices
    sparse = t.choose(True, False) and not t.mistake

    class MF(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(50, 16, sparse=sparse), nn.Embedding(70, 16, sparse=sparse)
            nn.init.normal_(self.users.weight, std=0.1)
            nn.init.normal_(self.items.weight, std=0.1)

        def forward(self, u, i):
            return (self.users(u) * self.items(i)).sum(-1)

    net = MF()
    optimizer = torch.optim.SparseAdam(list(net.parameters()), 0.02) if sparse else t.optimizer(torch.optim.Adam, net.parameters(), 0.02)
    with t.watch(net, optimizer):
        for step in range(200):
            u = torch.randint(0, 50, (64,))
            liked, other = best[u, torch.randint(0, 12, (64,))], torch.randint(0, 70, (64,))
            loss = -F.logsigmoid(net(u, liked) - net(u, other)).mean()
            t.update(loss, optimizer)
            t.step(loss)


def ring_graphs(count):
    """Graphs as lists of edges: rings, and stars."""
    found = []
    for _ in range(count):
        n, y = int(torch.randint(5, 10, ())), int(torch.randint(0, 2, ()))
        a = torch.arange(n)
        edges = torch.stack([a, (a + 1) % n]) if y else torch.stack([torch.zeros(n - 1, dtype=torch.long), a[1:]])
        found.append((torch.randn(n, 4) * 0.3 + 1, torch.cat([edges, edges.flip(0)], 1), y))
    return found


@script("no_zero_grad labels_permuted=bad_labels,labels_shuffled wrong_axis=wrong_output_activation,redundant_softmax layers_in_a_list=unregistered_layers rate_times_1000 softmax_in_model=redundant_softmax")
def graph_isomorphism_network(t):
    """Batches of graphs as one large graph: index_add, a sum over the nodes of each."""
    graphs = ring_graphs(240)
    labels = torch.tensor([g[2] for g in graphs])
    if t.has("labels_permuted"):
        labels = labels[torch.randperm(240)]

    class GIN(nn.Module):
        def __init__(self):
            super().__init__()
            mlps = [nn.Sequential(nn.Linear(a, 24), nn.ReLU(), nn.Linear(24, 24)) for a in (4, 24)]
            self.mlps, self.head = mlps if t.has("layers_in_a_list") else nn.ModuleList(mlps), nn.Linear(24, 2)

        def forward(self, x, edges, owner, count):
            for mlp in self.mlps:
                x = F.relu(mlp(x + torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])))
            x = torch.zeros(count, 24).index_add(0, owner, x) / 8
            x = self.head(x)
            return F.softmax(x, 1) if t.has("softmax_in_model") else x

    net = GIN()
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 3e-3)
    with t.watch(net, optimizer):
        for epoch in range(12):
            for some in torch.randperm(240).split(20):
                offset, parts = 0, []
                for k, j in enumerate(some.tolist()):
                    x, edges, _ = graphs[j]
                    parts.append((x, edges + offset, torch.full((len(x),), k)))
                    offset += len(x)
                x, edges, owner = (torch.cat(part, 1 if d == 1 else 0) for d, part in enumerate(zip(*parts)))
                out = net(x, edges, owner, len(some))
                loss = F.nll_loss(out.log_softmax(0 if t.has("wrong_axis") else 1), labels[some])
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad cleared rate_times_1000 targets_of_other_windows=bad_labels,labels_shuffled relu_at_the_end=wrong_output_activation level_not_removed?=unscaled_inputs,unscaled_targets rate_through_1000")
def forecaster_of_several_steps(t):
    """An LSTM encoder, a linear decoder of six steps, early stopping by a validation part that comes later in time."""
    time = torch.arange(620).float()
    wave = torch.sin(time / 4) + 0.4 * torch.sin(time / 1.7 + 1) + 0.1 * torch.randn(620)
    if t.has("level_not_removed"):
        wave = 3000 + 400 * wave
    windows = wave.unfold(0, 30, 1)
    x, y = windows[:, :24, None].clone(), windows[:, 24:].clone()
    if t.has("targets_of_other_windows"):
        y[:480] = y[:480][torch.randperm(480)]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.linear = nn.LSTM(1, 32, batch_first=True), nn.Linear(32, 6)

        def forward(self, x):
            out = self.linear(self.lstm(x)[1][0][-1])
            return F.relu(out) if t.has("relu_at_the_end") else out

    net = Net()
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 5e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    with t.watch(net, optimizer) as deck:
        for epoch in range(14):
            for i in torch.randperm(480).split(32):
                loss = F.mse_loss(net(x[i]), y[i])
                t.update(loss, optimizer)
                t.step(loss)
            with torch.no_grad():
                value = F.mse_loss(net(x[500:]), y[500:])
            plateau.step(value)
            deck.log(val_loss=float(value))


@script("no_zero_grad rate_times_1000 quantiles_of_shuffled=bad_labels,labels_shuffled broadcast_of_targets=broadcast_in_loss detached_loss sigmoid_at_the_end=wrong_output_activation")
def quantile_regression(t):
    """Pinball losses for three quantiles, written by hand."""
    x, y = columns(480)
    if t.has("quantiles_of_shuffled"):
        y = y[torch.randperm(480)]
    one = t.has("broadcast_of_targets")
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1 if one else 3))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 3e-3)
    q = torch.tensor([0.5] if one else [0.1, 0.5, 0.9])
    with t.watch(net, optimizer):
        for epoch in range(12):
            for i in torch.randperm(480).split(32):
                out = net(x[i])
                out = torch.sigmoid(out) if t.has("sigmoid_at_the_end") else out
                error = (y[i] if one else y[i, None]) - out
                loss = torch.maximum(q * error, (q - 1) * error).mean()
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad rate_times_1000 rate_through_1000 targets_permuted=bad_labels,labels_shuffled cleared detached_loss")
def heteroscedastic_regression(t):
    """Mean and variance: GaussianNLLLoss, or written out."""
    x = torch.rand(480, 1) * 6 - 3
    y = torch.sin(x) + (0.05 + 0.2 * (x > 0)) * torch.randn(480, 1)
    if t.has("targets_permuted"):
        y = y[torch.randperm(480)]
    net = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 5e-3)
    written = t.choose(True, False)
    with t.watch(net, optimizer):
        for epoch in range(16):
            for i in torch.randperm(480).split(40):
                mean, log_variance = net(x[i]).chunk(2, 1)
                if written:
                    loss = (0.5 * log_variance + 0.5 * (y[i] - mean).pow(2) * torch.exp(-log_variance)).mean()
                else:
                    loss = nn.GaussianNLLLoss()(mean, y[i], F.softplus(log_variance) + 1e-4)
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad one_task_detached=parameter_without_gradient rate_times_1000 second_head_left_out=parameter_without_optimizer@b cleared")
def weighted_by_uncertainty(t):
    """Kendall's multi-task loss: the weights of the tasks are learnt."""
    x, y = columns(480)
    z = ((x[:, 4] * x[:, 5]) > 0).float()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU())
            self.a, self.b, self.log_vars = nn.Linear(48, 1), nn.Linear(48, 1), nn.Parameter(torch.zeros(2))

        def forward(self, x):
            h = self.body(x)
            h = h.detach() if t.has("one_task_detached") else h
            return self.a(h)[:, 0], self.b(h)[:, 0]

    net = Net()
    parameters = [p for name, p in net.named_parameters() if not (t.has("second_head_left_out") and name.startswith("b."))]
    optimizer = t.optimizer(torch.optim.AdamW, parameters, 3e-3)
    with t.watch(net, optimizer):
        for epoch in range(14):
            for i in torch.randperm(480).split(32):
                a, b = net(x[i])
                losses = torch.stack([F.mse_loss(a, y[i]), F.binary_cross_entropy_with_logits(b, z[i])])
                loss = (losses * torch.exp(-net.log_vars) + 0.5 * net.log_vars).sum()
                t.update(loss, optimizer)
                t.step(loss)


@script("zero_grad_of_each_micro_batch_missing=gradients_added_up clipped_before_unscaling?=clipping_before_unscaling rate_times_1000 softmax_in_model=redundant_softmax labels_of_others=bad_labels,labels_shuffled")
def accumulated_with_autocast(t):
    """Four micro-batches for each update, bfloat16 autocast or a scaler."""
    centres = 1.3 * torch.randn(5, 12)
    y = torch.randint(0, 5, (640,))
    x = centres[y] + 0.8 * torch.randn(640, 12)
    if t.has("labels_of_others"):
        y = y[torch.randperm(640)]
    net = nn.Sequential(nn.Linear(12, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = t.optimizer(torch.optim.AdamW, net.parameters(), 2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if t.choose(True, False) or t.has("clipped_before_unscaling") else None
    with t.watch(net, optimizer):
        for epoch in range(14):
            for number, i in enumerate(torch.randperm(640).split(16)):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    out = net(x[i])
                    if t.has("softmax_in_model"):
                        out = out.softmax(1)
                    loss = F.cross_entropy(out.float(), y[i])
                (scaler.scale(loss / 4) if scaler else loss / 4).backward()
                if number % 4 < 3:
                    continue
                if scaler and not t.has("clipped_before_unscaling"):
                    scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                if scaler:
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    optimizer.step()
                if not t.has("zero_grad_of_each_micro_batch_missing"):
                    optimizer.zero_grad(set_to_none=t.seed % 2 == 0)
                t.step(loss)


@script("no_zero_grad rate_times_1000 counts_of_others=bad_labels,labels_shuffled rate_through_1000 broadcast=broadcast_in_loss")
def poisson_counts(t):
    x = torch.randn(480, 6)
    y = torch.poisson(torch.exp(0.5 + 0.6 * x[:, 0] - 0.4 * x[:, 1]))
    if t.has("counts_of_others"):
        y = y[torch.randperm(480)]
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 3e-3)
    criterion = nn.PoissonNLLLoss()
    with t.watch(net, optimizer):
        for epoch in range(12):
            for i in torch.randperm(480).split(32):
                out = net(x[i])
                loss = criterion(out if t.has("broadcast") else out.squeeze(1), y[i])
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad cleared rate_times_1000 risk_detached=detached_loss rate_through_1000")
def cox_survival(t):
    """The partial likelihood over a sorted batch."""
    x = torch.randn(400, 6)
    time = torch.distributions.Exponential(torch.exp(x[:, 0] - 0.7 * x[:, 1])).sample()
    event = (torch.rand(400) < 0.7).float()
    net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1, bias=False))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 3e-3)
    with t.watch(net, optimizer):
        for epoch in range(14):
            for i in torch.randperm(400).split(40):
                i = i[time[i].argsort(descending=True)]
                risk = net(x[i])[:, 0]
                if t.has("risk_detached"):
                    risk = risk.detach().requires_grad_()
                loss = -((risk - risk.logcumsumexp(0)) * event[i]).sum() / event[i].sum().clamp(min=1)
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad sigmoid_twice=redundant_softmax rate_times_1000 labels_of_others=bad_labels,labels_shuffled weight_decay_one validation_labels_flipped=bad_labels one_row_nan=nonfinite_input")
def rare_events_with_focal_loss(t):
    """One in eight; focal loss, or pos_weight."""
    x = torch.randn(640, 10)
    y = ((x[:, 0] + x[:, 1] * x[:, 2]) > 1.5).float()
    if t.has("labels_of_others"):
        y = y[torch.randperm(640)]
    if t.has("one_row_nan"):
        x[77, 3] = float("nan")
    net = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = t.optimizer(torch.optim.AdamW, net.parameters(), 3e-3)
    focal = t.choose(True, False) and not t.has("sigmoid_twice")

    def loss_of(out, y):
        out = torch.sigmoid(out) if t.has("sigmoid_twice") else out
        if not focal:
            return F.binary_cross_entropy_with_logits(out, y, pos_weight=torch.tensor(4.0))
        ce = F.binary_cross_entropy_with_logits(out, y, reduction="none")
        return (((1 - torch.exp(-ce)) ** 2) * ce).mean()

    with t.watch(net, optimizer) as deck:
        for epoch in range(12):
            net.train()
            for i in torch.randperm(512).split(32):
                loss = loss_of(net(x[i]).squeeze(1), y[i])
                t.update(loss, optimizer)
                t.step(loss)
            net.eval()
            with torch.no_grad():
                check = 1 - y[512:] if t.has("validation_labels_flipped") else y[512:]
                deck.log(val_loss=float(loss_of(net(x[512:]).squeeze(1), check)))


@script("no_zero_grad rate_times_1000 softmax_in_model=redundant_softmax labels_of_others=bad_labels,labels_shuffled half_of_the_parameters")
def compiled_classifier(t):
    """torch.compile, double precision or not."""
    dtype = t.choose(torch.float32, torch.float64)
    y = torch.randint(0, 4, (480,))
    x = (1.3 * torch.randn(4, 10)[y] + 0.8 * torch.randn(480, 10)).to(dtype)
    if t.has("labels_of_others"):
        y = y[torch.randperm(480)]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.b = nn.Linear(10, 48), nn.LayerNorm(48), nn.Linear(48, 4)

        def forward(self, x):
            x = self.b(F.silu(self.norm(self.a(x))))
            return x.softmax(-1) if t.has("softmax_in_model") else x

    torch._dynamo.reset()
    net = Net().to(dtype)
    fast = torch.compile(net, backend="eager")
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 2e-3)
    with t.watch(fast, optimizer):
        for epoch in range(12):
            for i in torch.randperm(480).split(40):
                loss = F.cross_entropy(fast(x[i]), y[i])
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad rate_times_1000 mixture_of_others=bad_labels,labels_shuffled cleared detached_loss")
def mixture_density_network(t):
    y = torch.rand(480, 1) * 2 - 1
    x = y + 0.3 * torch.sin(2 * math.pi * y) + 0.05 * torch.randn(480, 1)
    if t.has("mixture_of_others"):
        y = y[torch.randperm(480)]
    net = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 9))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), 5e-3)
    with t.watch(net, optimizer):
        for epoch in range(14):
            for i in torch.randperm(480).split(32):
                share, mean, spread = net(x[i]).chunk(3, 1)
                log = torch.distributions.Normal(mean, F.softplus(spread) + 0.02).log_prob(y[i])
                loss = -(share.log_softmax(1) + log).logsumexp(1).mean()
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad signs_of_others=bad_labels,labels_shuffled rate_times_100? rate_through_1000 broadcast=broadcast_in_loss")
def linear_machine(t):
    """A support vector machine: one layer, hinge loss; or logistic regression."""
    x = torch.randn(480, 10)
    y = torch.sign(x @ torch.randn(10) + 0.3 * torch.randn(480))
    if t.has("signs_of_others"):
        y = y[torch.randperm(480)]
    net = nn.Linear(10, 1)
    optimizer = t.optimizer(torch.optim.SGD, net.parameters(), 0.05, weight_decay=1e-3)
    hinge = t.choose(True, False) or t.has("broadcast")
    with t.watch(net, optimizer):
        for epoch in range(12):
            for i in torch.randperm(480).split(16):
                out = net(x[i])
                if hinge:
                    loss = (1 - y[i] * (out if t.has("broadcast") else out[:, 0])).clamp(min=0).mean()
                else:
                    loss = F.soft_margin_loss(out[:, 0], y[i])
                t.update(loss, optimizer)
                t.step(loss)


@script("no_zero_grad rate_times_1000 no_activations=missing_activation bottleneck_frozen=untrained_frozen,parameter_without_optimizer cleared rate_through_1000")
def anomaly_autoencoder(t):
    """Windows of a signal, convolutions that are dilated, L1."""
    time = torch.arange(700).float()
    signal = torch.stack([torch.sin(time / 5), torch.sign(torch.sin(time / 9)) * 0.7]) + 0.1 * torch.randn(2, 700)
    x = signal.unfold(1, 32, 1).transpose(0, 1)[:480].clone()
    act = nn.Identity if t.has("no_activations") else nn.ReLU
    net = nn.Sequential(nn.Conv1d(2, 12, 3, padding=1), act(), nn.Conv1d(12, 12, 3, padding=2, dilation=2), act(), nn.Conv1d(12, 4, 4, 4),
                        nn.ConvTranspose1d(4, 12, 4, 4), act(), nn.Conv1d(12, 2, 3, padding=1))
    if t.has("bottleneck_frozen"):
        net[4].requires_grad_(False)
    optimizer = t.optimizer(torch.optim.Adam, [p for p in net.parameters() if p.requires_grad], 3e-3)
    with t.watch(net, optimizer):
        for epoch in range(9):
            for i in torch.randperm(480).split(32):
                loss = F.l1_loss(net(x[i]), x[i])
                t.update(loss, optimizer)
                t.step(loss)
