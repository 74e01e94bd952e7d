"""Trainings as people write them in repositories of their own, each healthy or with one mistake of those that are made in that kind of
training. A script is a whole program: its loop, its loss, its habits; `torch_tutorials.py` plants mistakes that do not know the recipe.

    @script("no_zero_grad forgotten_mask=bad_labels@head")
    def name(t):
        model = ...
        optimizer = t.optimizer(torch.optim.Adam, model.parameters(), lr=1e-3)
        with t.watch(model, optimizer):
            for ...:
                t.update(loss, optimizer)   # or by hand, with t.has("no_zero_grad")
                t.step(loss)

Mistakes of GENERAL are planted by `t.optimizer` and `t.update`; others are named with the causes that are right, and the layer. A
question mark: it is one only where the training ends worse than its healthy twin. Every second script is held out: by its name.
"""

import contextlib
import importlib
import io
import os
import random
import tempfile
import zlib

import score
import torch
from torch import nn

import tapedeck

SCRIPTS = {}  # name: (function, {mistake: (causes, layer, is mild)})
MODULES = ("strangers_vision", "strangers_language", "strangers_policies", "strangers_tables")
# Written later, by people who knew the vocabulary of causes and not the rules.
NEWCOMERS = ("newcomers_inspection", "newcomers_pictures", "newcomers_generative", "newcomers_control", "newcomers_sequences",
             "newcomers_language", "newcomers_tables", "newcomers_tasks")
GENERAL = {
    "no_zero_grad": "gradients_added_up",
    "cleared": "gradients_cleared",
    "step_first": "gradients_cleared,detached_loss",
    "detached_loss": "detached_loss",
    "divided_loss?": "learning_rate_too_low",
    "strong_clipping?": "clip_too_small,clipping_always,learning_rate_too_low",
    "rate_times_100?": "learning_rate_too_high",
    "rate_times_1000?": "learning_rate_too_high",
    "rate_through_1000?": "learning_rate_too_low",
    "weight_decay_one?": "over_regularization",
    "eps_one?": "wrong_optimizer,learning_rate_too_low",
    "half_of_the_parameters": "parameter_without_optimizer",
}


def adds_to(scripts, general):
    """The decorator @script("MISTAKE=CAUSES@LAYER …"), which puts a function with its mistakes into `scripts`."""
    def script(mistakes):
        def add(function):
            found = {}
            for text in mistakes.split():
                name, _, causes = text.partition("=")
                is_mild = name.endswith("?") or f"{name}?" in general
                name = name.rstrip("?")
                causes, _, layer = (causes or general.get(name) or general[f"{name}?"]).partition("@")
                found[name] = causes.split(","), layer, is_mild
            scripts[function.__name__] = function, found
            return function

        return add

    return script


script = adds_to(SCRIPTS, GENERAL)


def is_held_out(name):
    return zlib.crc32(name.encode()) % 2 == 1


class Training:
    """What a script is given: random choices, and whether a mistake is to be made."""

    def __init__(self, mistake, seed, folder):
        self.mistake, self.seed, self.folder = mistake, seed, folder
        self.draw = random.Random(seed)
        torch.manual_seed(seed)
        self.losses = []
        self.every = self.draw.choice((1, 5, 10, 50))
        self.name = self.draw.choice(("loss", "loss", "train_loss"))
        self.deck = None

    def has(self, *names):
        return self.mistake in names

    def choose(self, *values):
        return self.draw.choice(values)

    def optimizer(self, kind, parameters, lr, **options):
        parameters = list(parameters)
        if self.has("half_of_the_parameters"):
            parameters = parameters[len(parameters) // 2 :]
        if self.has("weight_decay_one"):
            options["weight_decay"] = 1.0
        if self.has("eps_one"):
            options["eps"] = 1.0
        times = {"rate_times_100": 100, "rate_times_1000": 1000, "rate_through_1000": 1e-3}.get(self.mistake, 1)
        return kind(parameters, lr=lr * self.draw.uniform(0.7, 1.3) * times, **options)

    def watch(self, model, optimizer, **options):
        self.deck = tapedeck.watch(model, self.folder, optimizer=optimizer, every=self.every, **options)
        self.folder = self.deck.folder
        return self.deck

    def update(self, loss, optimizer, parameters=None, clip=None):
        """Gradients, and the update."""
        if not self.has("no_zero_grad", "step_first"):
            optimizer.zero_grad()
        if self.has("step_first"):
            optimizer.zero_grad()
            optimizer.step()
        if self.has("divided_loss"):
            loss = loss / 3000
        if self.has("detached_loss"):
            loss = loss.detach().requires_grad_()
        loss.backward()
        if self.has("cleared"):
            optimizer.zero_grad()
        if clip or self.has("strong_clipping"):
            parameters = parameters or [p for group in optimizer.param_groups for p in group["params"]]
            nn.utils.clip_grad_norm_(parameters, 1e-6 if self.has("strong_clipping") else clip)
        if not self.has("step_first"):
            optimizer.step()

    def step(self, loss, measure=None, **more):
        """`measure` is what shows how good the training is, where the loss does not."""
        value = float(loss.detach()) if isinstance(loss, torch.Tensor) else float(loss)
        self.losses.append(value if measure is None else float(measure))
        self.deck.log(**{self.name: value}, **{key: float(number) for key, number in more.items()})
        self.deck.step()


def train(name, mistake, seed, folder):
    training = Training(mistake, seed, folder)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            SCRIPTS[name][0](training)
        except (RuntimeError, ValueError) as error:  # a binary cross-entropy and a normal distribution refuse NaN: the program ends there
            if not any(text in str(error) for text in ("between 0 and 1", "std >= 0.0", "invalid values")):
                raise
    return training


def load(modules=MODULES):
    for module in modules:
        importlib.import_module(module)
    return SCRIPTS


def run(seeds, only="", held=None, wanted=None, modules=MODULES):
    """The scripts that were held out (`held`), the others, or all (None), with each of the seeds; mistakes with the first one.
    `wanted`: these scripts with these mistakes."""
    found = score.Score()
    with tempfile.TemporaryDirectory() as place:
        for name, (_, mistakes) in sorted(load(modules).items()):
            if only not in name or (held is not None and is_held_out(name) != held) or (wanted and name not in wanted):
                continue
            for seed in seeds:
                own = seed * 1000 + zlib.crc32(name.encode()) % 1000
                healthy = train(name, None, own, os.path.join(place, f"{name}-{seed}"))
                found.add(name, seed, None, score.diagnose(healthy.folder)[0])
                for mistake, (causes, layer, is_mild) in mistakes.items() if seed == seeds[0] else ():
                    if wanted and mistake not in wanted[name]:
                        continue
                    faulty = train(name, mistake, own, os.path.join(place, f"{name}-{seed}-{mistake}"))
                    if is_mild and not score.does_harm(faulty.losses, healthy.losses):
                        continue
                    found.add(mistake, f"{seed} {name}", causes, score.diagnose(faulty.folder)[0], layer)
    return found
