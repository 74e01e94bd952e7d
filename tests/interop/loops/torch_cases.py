"""PyTorch trainings drawn at random, each healthy or with one mistake planted.

A `Plan` draws data, network, optimizer and loop from a seed. Every mistake changes one thing of a plan that is healthy without
it, so that each case has its healthy twin: the same seed with no mistake.
"""

import math
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tapedeck

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "leaky": nn.LeakyReLU, "silu": nn.SiLU}
MISTAKES = {}  # name: (causes that are right, tasks it can be planted in)


def mistake(name, causes, tasks=("classes", "images")):
    MISTAKES[name] = (causes.split(), tasks)


MILD = ("rate_times_100", "rate_through_1000", "unscaled_inputs", "huge_weights", "weight_decay_one", "summed_loss")  # may do no harm
ALL = ("classes", "images", "values", "sequences")
mistake("softmax_twice", "redundant_softmax")
mistake("sigmoid_then_cross_entropy", "redundant_softmax wrong_output_activation")
mistake("nll_of_softmax", "missing_output_activation")
mistake("nll_of_logits", "missing_output_activation")
mistake("softmax_over_the_batch", "wrong_output_activation")
mistake("relu_before_the_loss", "wrong_output_activation")
mistake("regression_through_relu", "wrong_output_activation", ("values",))
mistake("regression_through_sigmoid", "wrong_output_activation", ("values",))
mistake("broadcast", "broadcast_in_loss", ("values",))
mistake("summed_loss", "learning_rate_too_high", ("values", "classes"))
mistake("divided_loss", "learning_rate_too_low", ("classes", "images"))
mistake("labels_random", "bad_labels labels_shuffled")
mistake("labels_shifted", "bad_labels labels_shuffled")
mistake("labels_drawn_again", "labels_shuffled bad_labels", ("classes",))
mistake("validation_labels_off_by_one", "bad_labels")
mistake("sorted_data", "unshuffled_data")
mistake("leaked_data", "data_leak", ("classes", "images", "values"))
mistake("one_row_is_nan", "nonfinite_input", ("classes", "images", "values"))
mistake("one_target_is_nan", "nonfinite_label", ("values",))
mistake("rate_times_100", "learning_rate_too_high", ALL)
mistake("rate_through_1000", "learning_rate_too_low", ALL)
mistake("forgotten_activation", "missing_activation", ("classes", "values"))
mistake("constant_weights", "bad_initialization", ("classes", "images"))
mistake("huge_weights", "bad_initialization", ("classes", "images"))
mistake("frozen_by_mistake", "untrained_frozen parameter_without_optimizer", ("classes", "images"))
mistake("list_of_layers", "unregistered_layers parameter_without_optimizer", ("classes", "values"))
mistake("adam_with_eps_one", "wrong_optimizer learning_rate_too_low", ("classes", "images"))
mistake("weight_decay_one", "over_regularization", ("classes", "images"))
mistake("exploding_recurrence", "bad_initialization exploding_gradient learning_rate_too_high", ("sequences",))
mistake("unscaled_inputs", "unscaled_inputs", ("classes",))
mistake("no_zero_grad", "gradients_added_up", ALL)
mistake("cleared_before_step", "gradients_cleared", ALL)
mistake("detached_loss", "detached_loss", ALL)
mistake("optimizer_of_another_model", "stale_optimizer parameter_without_optimizer detached_loss", ALL)
mistake("head_without_optimizer", "parameter_without_optimizer", ALL)
mistake("same_batch_again", "repeated_batch", ("classes", "images", "values"))
mistake("training_in_evaluation_mode", "evaluation_mode", ("images",))
mistake("validation_in_training_mode", "training_mode", ("images",))
mistake("scheduler_every_batch", "scheduler_per_batch", ("classes",))
mistake("log_of_zero", "division_by_zero overflow nan_loss inf_loss", ("classes",))


class Listed(nn.Module):
    """Layers in a plain list, which the model does not know."""

    def __init__(self, layers, last, is_plain):
        super().__init__()
        self.layers = list(layers) if is_plain else nn.ModuleList(layers)
        self.last = last

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


class Ended(nn.Module):
    def __init__(self, body, end):
        super().__init__()
        self.body, self.end = body, end

    def forward(self, x):
        return self.end(self.body(x))


class Recurrent(nn.Module):
    def __init__(self, kind, width, hidden, outputs):
        super().__init__()
        self.cell = kind(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


class Plan:
    """What is trained on what, and how."""

    def __init__(self, seed, task=None, mistake=None):
        self.draw = draw = random.Random(seed)
        torch.manual_seed(seed)
        self.mistake = mistake
        self.losses = []
        self.task = task or draw.choice(MISTAKES[mistake][1] if mistake else ALL)
        self.classes = draw.choice((3, 4, 5, 8, 10))
        self.rows = draw.choice((320, 480, 640))
        self.width = draw.choice((6, 10, 16, 24))
        self.hidden = draw.choice((24, 32, 64, 96))
        self.depth = draw.choice((2, 3, 4))
        self.activation = ACTIVATIONS[draw.choice(sorted(ACTIVATIONS))]
        self.batch = draw.choice((16, 32, 48))
        self.epochs = draw.choice((8, 10, 14))
        self.kind = draw.choice(("adam", "adam", "adamw", "sgd", "momentum", "rmsprop"))
        self.every = draw.choice((5, 10, 25))
        self.uses_loader = draw.random() < 0.6
        self.validates = draw.random() < 0.6 or mistake in ("validation_labels_off_by_one", "leaked_data", "validation_in_training_mode")
        self.noise = draw.uniform(0.6, 1.1)
        if mistake in ("adam_with_eps_one",):
            self.kind = "adam"
        if mistake in ("weight_decay_one",):
            self.kind = draw.choice(("adam", "sgd", "momentum"))
        if mistake in ("summed_loss", "divided_loss", "unscaled_inputs"):
            self.kind = draw.choice(("sgd", "momentum"))
        self.rate = {"adam": 3e-3, "adamw": 3e-3, "sgd": 0.1, "momentum": 0.03, "rmsprop": 1e-3}[self.kind] * draw.uniform(0.7, 1.3)
        if self.task == "values":
            self.rate *= 0.5

    def is_(self, *names):
        return self.mistake in names

    # ---- data ------------------------------------------------------------------------------------------

    def data(self):
        count = self.rows * 5 // 4
        if self.task == "values":
            x = torch.randn(count, self.width)
            y = 1.5 * torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] - x[:, 3] + 0.1 * torch.randn(count)
        elif self.task == "images":
            y = torch.randint(0, self.classes, (count,))
            shapes = torch.randn(self.classes, 1, 8, 8)
            x = shapes[y] + self.noise * torch.randn(count, 1, 8, 8)
        elif self.task == "sequences":
            y = torch.randint(0, self.classes, (count,))
            time = torch.arange(12).float()
            x = torch.sin(time[None] * (0.3 + 0.35 * y[:, None].float()))[..., None] + 0.2 * torch.randn(count, 12, 1)
        else:
            centres = torch.randn(self.classes, self.width) * 1.6
            y = torch.randint(0, self.classes, (count,))
            x = centres[y] + self.noise * torch.randn(count, self.width)
        return x, y

    def plant_in_data(self, x, y):
        rows = self.rows
        train, check = (x[:rows], y[:rows].clone()), (x[rows:], y[rows:].clone())
        if self.is_("labels_random"):
            train = train[0], torch.randint(0, self.classes, (rows,))
        elif self.is_("labels_shifted"):
            train = train[0], train[1].roll(1)
        elif self.is_("validation_labels_off_by_one"):
            check = check[0], (check[1] + 1) % self.classes
        elif self.is_("sorted_data"):
            order = train[1].argsort()
            train = train[0][order], train[1][order]
        elif self.is_("leaked_data"):
            share = self.draw.choice((0.3, 0.6, 1.0))
            some = int(len(check[0]) * share)
            check = torch.cat([train[0][:some], check[0][some:]]), torch.cat([train[1][:some], check[1][some:]])
        elif self.is_("one_row_is_nan"):
            train[0].view(rows, -1)[self.draw.randrange(rows), 3] = float("nan")
        elif self.is_("one_target_is_nan"):
            train[1][self.draw.randrange(rows)] = float("nan")
        elif self.is_("unscaled_inputs"):
            train, check = (train[0] * 120, train[1]), (check[0] * 120, check[1])
        return train, check

    # ---- network ---------------------------------------------------------------------------------------

    def layers(self, width, act):
        layers = []
        for i in range(self.depth):
            layers.append(nn.Sequential(nn.Linear(width if i == 0 else self.hidden, self.hidden), act()))
        return layers

    def network(self):
        outputs = 1 if self.task == "values" else self.classes
        act = nn.Identity if self.is_("forgotten_activation") else self.activation
        if self.task == "sequences":
            kind = nn.RNN if self.is_("exploding_recurrence") else self.draw.choice((nn.GRU, nn.LSTM, nn.RNN))
            model = Recurrent(kind, 1, self.hidden, outputs)
            if self.is_("exploding_recurrence"):
                model.cell = nn.RNN(1, self.hidden, batch_first=True, nonlinearity="relu")
                with torch.no_grad():
                    model.cell.weight_hh_l0.normal_(0, 6 / math.sqrt(self.hidden))
        elif self.task == "images":
            act = self.activation
            model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), act(), nn.Conv2d(8, 16, 3, stride=2), act(),
                                  nn.Flatten(), nn.Dropout(0.1), nn.Linear(144, self.hidden), act(), nn.Linear(self.hidden, outputs))
        elif self.is_("list_of_layers"):
            model = Listed(self.layers(self.width, act), nn.Linear(self.hidden, outputs), True)
        else:
            model = nn.Sequential(*(part for layer in self.layers(self.width, act) for part in layer), nn.Linear(self.hidden, outputs))
        if self.is_("constant_weights", "huge_weights"):
            for layer in model.modules():
                if isinstance(layer, (nn.Linear, nn.Conv2d)):
                    nn.init.constant_(layer.weight, 0.05) if self.is_("constant_weights") else nn.init.normal_(layer.weight, std=3)
        if self.is_("frozen_by_mistake"):
            layers = [layer for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d)) and layer.weight.numel() >= 64]
            layers[1].requires_grad_(False)
        ends = {"softmax_twice": nn.Softmax(1), "sigmoid_then_cross_entropy": nn.Sigmoid(), "nll_of_softmax": nn.Softmax(1),
                "softmax_over_the_batch": nn.LogSoftmax(0), "relu_before_the_loss": nn.ReLU(),
                "regression_through_relu": nn.ReLU(), "regression_through_sigmoid": nn.Sigmoid()}
        return Ended(model, ends[self.mistake]) if self.mistake in ends else model

    def loss(self, out, target):
        if self.task == "values":
            kind = F.mse_loss
            out = out if self.is_("broadcast") else out[:, 0]
            return kind(out, target, reduction="sum" if self.is_("summed_loss") else "mean")
        if self.is_("nll_of_softmax", "nll_of_logits", "softmax_over_the_batch"):
            return F.nll_loss(out, target)
        if self.is_("log_of_zero"):
            shares = torch.softmax(out * 400, 1)
            return -(torch.log(shares) * F.one_hot(target, self.classes)).sum(1).mean()
        loss = F.cross_entropy(out, target, reduction="sum" if self.is_("summed_loss") else "mean")
        return loss / 3000 if self.is_("divided_loss") else loss

    def optimizer(self, model):
        rate = self.rate * (100 if self.is_("rate_times_100") else 1e-3 if self.is_("rate_through_1000") else 1)
        decay = 1.0 if self.is_("weight_decay_one") else self.draw.choice((0, 0, 1e-4))
        if self.is_("optimizer_of_another_model"):
            model = self.network()
        parameters = [p for p in model.parameters() if p.requires_grad]
        if self.is_("head_without_optimizer"):
            parameters = parameters[:-2]
        if self.kind in ("adam", "adamw"):
            kind = torch.optim.Adam if self.kind == "adam" else torch.optim.AdamW
            return kind(parameters, lr=rate, weight_decay=decay, eps=1.0 if self.is_("adam_with_eps_one") else 1e-8)
        if self.kind == "rmsprop":
            return torch.optim.RMSprop(parameters, lr=rate, weight_decay=decay)
        return torch.optim.SGD(parameters, lr=rate, weight_decay=decay, momentum=0.9 if self.kind == "momentum" else 0)

    # ---- the loop --------------------------------------------------------------------------------------

    def batches(self, train):
        shuffles = not self.is_("sorted_data")
        if self.is_("same_batch_again"):
            loader = DataLoader(TensorDataset(*train), batch_size=self.batch)
            return (next(iter(loader)) for _ in range(self.rows // self.batch))
        if self.uses_loader:
            return DataLoader(TensorDataset(*train), batch_size=self.batch, shuffle=shuffles)
        order = torch.randperm(self.rows) if shuffles else torch.arange(self.rows)
        return [(train[0][some], train[1][some]) for some in order.split(self.batch)]

    def train(self, folder):
        train, check = self.plant_in_data(*self.data())
        model = self.network()
        optimizer = self.optimizer(model)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, max(1, self.epochs // 3), 0.5) if self.is_("scheduler_every_batch") else None
        if self.is_("training_in_evaluation_mode"):
            model.eval()
        loader = self.batches(train)
        with tapedeck.watch(model, folder, optimizer=optimizer, every=self.every) as deck:
            for _ in range(self.epochs):
                if self.is_("labels_drawn_again"):
                    train = train[0], train[1][torch.randperm(self.rows)]
                if not self.uses_loader or self.is_("labels_drawn_again", "same_batch_again"):
                    loader = self.batches(train)
                for x, y in loader:
                    self.step(model, optimizer, deck, x, y)
                    if scheduler:
                        scheduler.step()
                if self.validates:
                    self.validate(model, deck, check)
        return deck.folder

    def step(self, model, optimizer, deck, x, y):
        if not self.is_("no_zero_grad"):
            optimizer.zero_grad()
        loss = self.loss(model(x), y)
        if self.is_("detached_loss"):
            loss = loss.detach().requires_grad_()
        loss.backward()
        if self.is_("cleared_before_step"):
            optimizer.zero_grad()
        optimizer.step()
        self.losses.append(float(loss.detach()))
        deck.log(loss=self.losses[-1])
        deck.step()

    def validate(self, model, deck, check):
        was = model.training
        if not self.is_("validation_in_training_mode"):
            model.eval()
        with torch.no_grad():
            out = model(check[0])
            values = {"val_loss": float(self.loss(out, check[1]))}
            if self.task != "values":
                values["val_accuracy"] = float((out.argmax(1) == check[1]).float().mean())
            deck.log(**values)
        model.train(was)

from torch_healthy import HEALTHY  # noqa: E402, F401
