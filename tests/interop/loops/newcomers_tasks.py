"""Scripts of strangers.py: survival, ranking, several tasks and learning to learn."""

import torch
import torch.nn.functional as F
from strangers import script
from torch import autograd, nn
from torch.func import functional_call
from torch.utils.data import DataLoader, TensorDataset

# ---- how long patients live: Cox's partial likelihood


class RiskNet(nn.Module):
    """The logarithm of the relative risk."""

    def __init__(self, covariates):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(covariates, 32), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(32, 16), nn.SELU(), nn.Linear(16, 1, bias=False)
        )

    def forward(self, x):
        return self.layers(x)


def concordance(risk, time, event):
    """The part of comparable pairs in which who dies first has the higher risk."""
    comparable = (time[:, None] < time[None]) & (event[:, None] > 0)
    return (risk[:, None] > risk[None])[comparable].float().mean().item()


@script(
    "step_first rate_times_100 risk_sets_turned_round=wrong_loss,bad_labels "
    "censoring_is_death=bad_labels outcomes_joined_by_row=labels_shuffled,bad_labels blood_counts_raw?=unscaled_inputs"
)
def cox_risk_of_patients(t):
    """Two thirds of the patients are censored sooner or later; batches of 64 are sorted by time."""
    patients, covariates = 700, 9
    x = torch.randn(patients, covariates)
    hazard = (1.6 * x[:, 0] - 1.2 * x[:, 1] + 1.2 * x[:, 2] * (x[:, 3] > 0) + 0.8 * x[:, 4].square()).exp()
    death = -torch.rand(patients).clamp(min=1e-6).log() / hazard
    leaving = torch.where(torch.rand(patients) < 0.5, death * (0.05 + torch.rand(patients)), death + 1)
    leaving = leaving * torch.where(x[:, 5] > 0, 0.5, 1.5)
    observed, event = torch.minimum(death, leaving), (death <= leaving).float()
    if t.has("censoring_is_death"):
        event = 1 - event
    if t.has("outcomes_joined_by_row"):
        rows = torch.randperm(patients)
        observed, event = observed[rows], event[rows]
    if t.has("blood_counts_raw"):
        x = x * torch.tensor([30.0, 250.0, 1.0, 1.0, 5.0, 1.0, 2000.0, 80.0, 1.0])
        x = x + torch.tensor([140.0, 900.0, 0.0, 0.0, 0.0, 0.0, 7000.0, 200.0, 0.0])
    cut = 500
    true_time, true_event = torch.minimum(death, leaving)[cut:], (death <= leaving).float()[cut:]
    model = RiskNet(covariates)
    optimizer = t.optimizer(torch.optim.NAdam, model.parameters(), lr=4e-3)

    def partial_likelihood(risk, time, died):
        order = time.argsort(descending=not t.has("risk_sets_turned_round"))
        risk, died = risk[order], died[order]
        at_risk = torch.logcumsumexp(risk, 0)
        return -((risk - at_risk) * died).sum() / died.sum().clamp(min=1)

    error = 0.5
    with t.watch(model, optimizer):
        for epoch in range(26):
            model.train()
            for rows in torch.randperm(cut).split(64):
                risk = model(x[rows]).squeeze(1)
                loss = partial_likelihood(risk, observed[rows], event[rows])
                t.update(loss, optimizer, clip=10.0)
                t.step(loss, measure=error)
            model.eval()
            with torch.no_grad():
                error = 1 - concordance(model(x[cut:]).squeeze(1), true_time, true_event)
            t.deck.log(c_index=1 - error)


# ---- lists of offers for a search


class OfferScorer(nn.Module):
    """A score of each offer of a list, with features of the search beside it."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.enter, self.leave = nn.Linear(features, 24), nn.Linear(24, 1)
        self.middle = nn.Linear(24, 24)

    def forward(self, offers):
        x = F.leaky_relu(self.enter(offers))
        return self.leave(self.norm(x + F.leaky_relu(self.middle(x))))[..., 0]


def discounted_gain(scores, gains, mask, top=5):
    """NDCG of the first five, averaged over the lists."""
    discount = 1 / torch.log2(torch.arange(top) + 2.0)
    worth = (2.0**gains - 1) * mask
    found = worth.gather(1, scores.masked_fill(mask < 0.5, -1e9).argsort(1, descending=True))[:, :top]
    return ((found * discount).sum(1) / (worth.sort(1, descending=True)[0][:, :top] * discount).sum(1).clamp(min=1e-6)).mean().item()


class ListwiseSoftmax(nn.Module):
    """Cross-entropy between the shares that gains and scores give to the offers of a list."""

    def forward(self, scores, gains, mask):
        hidden = mask < 0.5
        wanted = gains.masked_fill(hidden, -1e9).softmax(1)
        return -(wanted * scores.masked_fill(hidden, -1e9).log_softmax(1)).sum(1).mean()


@script(
    "half_of_the_parameters weight_decay_one gains_sorted_alone=labels_shuffled,bad_labels place_instead_of_gain=bad_labels "
    "click_rate_of_nothing=nonfinite_input,division_by_zero decay_in_each_batch?=scheduler_per_batch,learning_rate_too_low"
)
def listwise_offers_of_a_search(t):
    """Lists of four to ten offers, padded; gains from zero to four; the rate decays after each epoch."""
    lists, longest, features = 420, 10, 9
    offers = torch.randn(lists, longest, features)
    shown = torch.randint(1, 30, (lists, longest)).float()
    taste = torch.randn(features)
    value = offers @ taste + 1.5 * offers[..., 0] * offers[..., 1]
    clicks = (shown * torch.sigmoid(value - 1)).round()
    if t.has("click_rate_of_nothing"):
        never = torch.rand(lists, longest) < 0.02
        shown[never], clicks[never] = 0, 0
    offers[..., -1] = clicks / shown * 0.5 + offers[..., -1]
    lengths = torch.randint(4, longest + 1, (lists, 1))
    mask = (torch.arange(longest)[None] < lengths).float()
    levels = torch.tensor([-1.0, 0.5, 2.0, 3.5])
    gains = torch.bucketize(value + 0.3 * torch.randn(lists, longest), levels).float() * mask
    true_gains = gains
    if t.has("gains_sorted_alone"):
        gains = gains.sort(1, descending=True)[0]
    if t.has("place_instead_of_gain"):
        place = (gains + mask).argsort(1, descending=True).argsort(1)
        gains = place.clamp(max=4).float() * mask
    train, valid = slice(0, 340), slice(340, lists)
    loader = DataLoader(TensorDataset(offers[train], gains[train], mask[train]), batch_size=16, shuffle=True)
    model, criterion = OfferScorer(features), ListwiseSoftmax()
    optimizer = t.optimizer(torch.optim.Adam, model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.85)

    def shortfall():
        with torch.no_grad():
            return 1 - discounted_gain(model(offers[valid]), true_gains[valid], mask[valid])

    missing = shortfall()
    with t.watch(model, optimizer):
        for _ in range(9):
            for batch in loader:
                loss = criterion(model(batch[0]), *batch[1:])
                t.update(loss, optimizer)
                t.step(loss, measure=missing)
                if t.has("decay_in_each_batch"):
                    scheduler.step()
            if not t.has("decay_in_each_batch"):
                scheduler.step()
            missing = shortfall()
            t.deck.log(ndcg_at_5=1 - missing)


# ---- experts for two tasks, weighted by their uncertainty


class SharedExperts(nn.Module):
    """Experts for all tasks; a gate and a tower for each."""

    def __init__(self, features, experts=4, width=16, plain=False):
        super().__init__()
        found = [nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU()) for _ in range(experts)]
        self.experts = found if plain else nn.ModuleList(found)
        self.gates = nn.ModuleDict({name: nn.Linear(features, experts) for name in ("buys", "spends")})
        self.towers = nn.ModuleDict({name: nn.Sequential(nn.Linear(width, 12), nn.ReLU(), nn.Linear(12, 1)) for name in ("buys", "spends")})

    def forward(self, x):
        opinions = torch.stack([expert(x) for expert in self.experts], 1)
        return {
            name: tower((self.gates[name](x).softmax(-1)[..., None] * opinions).sum(1)) for name, tower in self.towers.items()
        }


class WeighedByUncertainty(nn.Module):
    """A loss that learns how sure each task is."""

    def __init__(self, names):
        super().__init__()
        self.log_variance = nn.ParameterDict({name: nn.Parameter(torch.zeros(())) for name in names})

    def forward(self, losses):
        return sum(torch.exp(-self.log_variance[name]) * loss + 0.5 * self.log_variance[name] for name, loss in losses.items())


@script(
    "no_zero_grad rate_times_100 experts_in_plain_list=unregistered_layers,parameter_without_optimizer "
    "column_of_spending=broadcast_in_loss spending_in_cents=unscaled_targets,learning_rate_too_low "
    "same_task_twice=parameter_without_gradient"
)
def shared_experts_of_two_tasks(t):
    """Whether a visitor buys and how much is spent; the sum of weighted losses goes below zero."""
    people, features = 1500, 16
    x = torch.randn(people, features)
    kind = (x[:, 0] > 0).float()
    first, second = torch.randn(features) / 2, torch.randn(features) / 2
    drive = kind * (x @ first) + (1 - kind) * (x @ second)
    buys = (drive + 0.2 * torch.randn(people) > 0).float()
    spends = torch.tanh(drive) + 0.5 * x[:, 1] + 0.05 * torch.randn(people)
    scale = 3000.0 if t.has("spending_in_cents") else 1.0
    spends = spends * scale + (scale if scale > 1 else 0)
    cut = 1200

    model = SharedExperts(features, plain=t.has("experts_in_plain_list"))
    weighed = WeighedByUncertainty(("buys", "spends"))
    optimizer = t.optimizer(torch.optim.Adam, [*model.parameters(), *weighed.parameters()], lr=5e-3)
    spread = spends.var()

    def failures():
        with torch.no_grad():
            answer = model(x[cut:])
        wrong = ((answer["buys"][:, 0] > 0).float() != buys[cut:]).float().mean()
        missed = (answer["spends"][:, 0] - spends[cut:]).square().mean() / spread
        return wrong.item(), missed.item()

    wrong, missed = failures()
    with t.watch(nn.ModuleDict({"net": model, "weigh": weighed}), optimizer):
        for epoch in range(10):
            for rows in torch.randperm(cut).split(48):
                answer = model(x[rows])
                amount = answer["spends"] if t.has("column_of_spending") else answer["spends"].squeeze(1)
                losses = {
                    "buys": F.binary_cross_entropy_with_logits(answer["buys"].squeeze(1), buys[rows]),
                    "spends": (amount - spends[rows]).square().mean(),
                }
                if t.has("same_task_twice"):
                    losses["spends"] = losses["buys"]
                loss = weighed(losses)
                t.update(loss, optimizer)
                t.step(loss, measure=wrong + missed, loss_buys=losses["buys"], loss_spends=losses["spends"])
            wrong, missed = failures()
            t.deck.log(val_wrong=wrong, val_unexplained=missed)


# ---- learning to learn: waves after three steps


@script(
    "no_zero_grad quick_weights_detached=parameter_without_gradient,parameter_unchanged,detached_loss,idle_updates "
    "points_of_another_wave=bad_labels,labels_shuffled inner_rate_of_one=learning_rate_too_high "
    "row_of_answers=broadcast_in_loss"
)
def waves_after_three_steps(t):
    """First-order MAML: weights are adapted to a wave by three steps, and the gradient there moves the start."""
    shots, tasks, inner_steps = 8, 4, 3
    inner_rate = 1.0 if t.has("inner_rate_of_one") else 0.02
    net = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1))
    optimizer = t.optimizer(torch.optim.Adam, net.parameters(), lr=3e-3)

    def wave():
        amplitude, phase = 1 + torch.rand(()), 0.6 * torch.rand(())
        return lambda x: amplitude * torch.sin(2 * x + phase)

    def points(function, number):
        x = 4 * torch.rand(number, 1) - 2
        return x, function(x)

    def fit(x, y, weights):
        prediction = functional_call(net, weights, (x,))
        return (prediction - (y.squeeze(1) if t.has("row_of_answers") else y)).square().mean()

    def adapt(x, y):
        weights = dict(net.named_parameters())
        if t.has("quick_weights_detached"):
            weights = {name: w.detach().clone().requires_grad_() for name, w in weights.items()}
        for _ in range(inner_steps):
            gradients = autograd.grad(fit(x, y, weights), list(weights.values()))
            weights = {name: w - inner_rate * g for (name, w), g in zip(weights.items(), gradients)}
        return weights

    exam = [wave() for _ in range(12)]
    exam = [(points(f, shots), points(f, 30)) for f in exam]

    def examine():
        return sum((functional_call(net, adapt(*shown), (x,)) - y).square().mean().item() for shown, (x, y) in exam) / len(exam)

    mark = examine()
    with t.watch(net, optimizer):
        for i in range(182):
            if not t.has("no_zero_grad"):
                optimizer.zero_grad()
            total = 0.0
            for _ in range(tasks):
                function = wave()
                shown = points(function, shots)
                if t.has("points_of_another_wave"):
                    shown = shown[0], shown[1][torch.randperm(shots)]
                asked = points(function, 12)
                loss = fit(*asked, adapt(*shown)) / tasks
                loss.backward()
                total += loss.item()
            optimizer.step()
            if i % 13 == 12:
                mark = examine()
                t.deck.log(exam_mse=mark)
            t.step(total, measure=mark)
