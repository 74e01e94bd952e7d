"""Facts about a model's parameters: which are trained, which get gradients, which change, which are shared."""

from __future__ import annotations

import functools
import itertools
import math
import weakref
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ._fingerprint import bytes_of, digest, local, sample
from ._layers import EagerHook

FIRST_UPDATES = 16  # that are looked at closely
_NAMES = 16  # that are written; there is always a count
_COMPARED_UPDATES = 64  # in which parameters are compared with what they were
_ZERO_UPDATES = 8  # with a gradient of 0
_PROBES = 5  # parameters whose backward pass is noticed, beside the last
_layers = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
_recurrent = (torch.nn.RNNBase, torch.nn.RNNCellBase)


class Parameters:
    """Those of the model that require gradients."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.ids: set[int] = set()  # of all
        self.named: dict[str, torch.nn.Parameter] = {}
        self.without_gradient: dict[str, torch.nn.Parameter] = {}  # so far
        self.unchanged: dict[str, torch.nn.Parameter] = {}  # so far
        self.stuck: dict[str, int] = {}  # times that one had reason to change and did not
        self.samples: list[tuple[str, torch.Tensor, float]] = []  # before an update: name, elements, learning rate
        self.probes: list[tuple[torch.nn.Parameter, Any]] = []
        self.cleared: set[int] = set()  # probes that were without gradient since the last update
        self.kept: set[int] = set()  # and those that had one: under DDP others get one from another process
        self.arrived: dict[int, tuple[bool, bool]] = {}  # gradients on their way: whether there was none before, and whether they are not 0
        self.reached: set[int] = set()  # and those that a gradient that is not 0 got to since the last update
        self.zero: dict[str, torch.nn.Parameter] = {}  # whose gradient was 0 so far, while others' were not
        self.has_flat_function = False  # between the loss and them
        self.zero_updates = 0  # in which that was so
        self.untrained: dict[str, bool] = {}
        self.ties = _tied(loop.model)
        self.copies = _copied(loop.model)
        self.find()

    def stop(self) -> None:
        self.samples = []
        self.remove_probes()

    def remove_probes(self) -> None:
        for _, handle in self.probes:
            handle.remove()
        self.probes = []

    def find(self) -> None:
        """The model may be another when its first update comes than when it was first seen."""
        loop = self.loop
        ids = {id(p) for p in loop.model.parameters()}
        if ids == self.ids and self.probes:
            return
        self.ids = ids
        loop.optimizers.clear()
        self.named = {name: p for name, p in loop.model.named_parameters() if p.requires_grad}
        self.without_gradient, self.unchanged = dict(self.named), dict(self.named)
        self.zero = {name: p for name, p in self.named.items() if not is_lazy(p) and p.dim() > 1}
        loop.facts["trainable"] = len(self.named)
        self.remove_probes()
        names = list(self.named)
        for name in {*names[:: max(1, len(names) // (_PROBES - 1))][:_PROBES], *names[-1:]}:
            self.add_probe(self.named[name])

    def add_probe(self, p: torch.nn.Parameter) -> None:
        if not is_lazy(p):
            for register, method in ((p.register_hook, self.see_gradient), (p.register_post_accumulate_grad_hook, self.keep_gradient)):
                hook = self.loop.guard(functools.partial(method, weakref.ref(p)))
                self.probes.append((p, register(EagerHook(hook))))

    def see_gradient(self, reference: Any, gradient: torch.Tensor) -> None:
        p = reference()
        if p is not None:
            self.arrived[id(p)] = p.grad is None or not bool(local(p.grad).any()), bool(local(gradient).any())

    def keep_gradient(self, reference: Any, _: Any) -> None:
        """It was added to `grad`: autograd.grad(), as of inner updates that are learnt through, adds nothing."""
        p = reference()
        if p is None or id(p) not in self.arrived:
            return
        is_cleared, has_arrived = self.arrived.pop(id(p))
        (self.cleared if is_cleared else self.kept).add(id(p))
        if has_arrived:
            self.reached.add(id(p))

    def before_update(self, optimizer: Any) -> None:
        self.samples = []
        if self.loop.updates < _COMPARED_UPDATES and self.unchanged and self.loop.has(optimizer):
            rates = {id(p): float(group["lr"]) for group in optimizer.param_groups for p in group["params"]}
            self.samples = [(name, sample(p).clone(), rates[id(p)])
                            for name, p in self.unchanged.items() if rates.get(id(p), 0.0) > 0]

    def after_update(self, optimizer: Any) -> None:
        self.compare_samples()
        if self.without_gradient:
            self.without_gradient = {name: p for name, p in self.without_gradient.items() if p.grad is None}
        self.see_zeros(optimizer)
        if self.loop.updates <= FIRST_UPDATES:
            self.see_gradients(optimizer)
        elif self.probes:
            self.remove_probes()

    def compare_samples(self) -> None:
        """A parameter with a gradient that its rate makes visible has reason to change."""
        for name, before, rate in self.samples:
            p = self.unchanged[name]
            if p.grad is None:
                continue
            if p.grad.is_sparse or not torch.equal(sample(p), before):
                del self.unchanged[name]
            elif before.numel() and rate * float(sample(p.grad).abs().max()) > 1e-6 * float(before.abs().max()):
                self.stuck[name] = self.stuck.get(name, 0) + 1
        self.samples = []

    def see_gradients(self, optimizer: Any) -> None:
        mine = [p for group in optimizer.param_groups for p in group["params"]
                if p.requires_grad and id(p) in self.ids]
        if not mine:
            return
        loop, ours = self.loop, {id(p) for p in mine}
        reached = bool(self.reached & ours)
        if not any(id(p) in ours for p, _ in self.probes):  # of a small optimizer beside others
            self.add_probe(mine[-1])
        if all(p.grad is None for p in mine):
            loop.count("cleared" if reached else "detached")
        elif reached and not any(bool(local(p.grad).any()) for p in mine if p.grad is not None):
            loop.count("cleared")
        if loop.updates > 1 and reached:
            kept = [p for p, _ in self.probes if id(p) in ours and p.grad is not None and id(p) in self.kept - self.cleared]
            if any(bool(local(p.grad).any()) for p in kept):
                loop.count("added_up")
        self.cleared -= ours
        self.kept -= ours
        self.reached -= ours

    def see_zeros(self, optimizer: Any) -> None:
        """Weights whose gradient is 0, every number of it, while others of the same optimizer have one."""
        if not self.zero:
            return
        mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
        found = {name: p.grad is not None and not p.grad.is_sparse and not bool(local(p.grad).any())
                 for name, p in self.zero.items() if id(p) in mine}
        if not all(found.values()) or any(id(p) in mine and name not in self.zero and p.grad is not None and bool(local(p.grad).any())
                                          for name, p in self.named.items()):
            self.zero = {name: p for name, p in self.zero.items() if found.get(name, True)}
            self.zero_updates += any(found.values())

    def write(self) -> None:
        """Which there are, which were left out, whether they are still the same."""
        facts = self.loop.facts
        have = {id(p): p for optimizer in self.loop.live_optimizers()
                for group in optimizer.param_groups for p in group["params"]}
        now = dict(self.loop.model.named_parameters())
        inside = {id(p) for p in now.values()}
        self.write_names("without_gradient", [name for name in self.without_gradient if not self.is_lone_bias(name)])
        self.write_names("unchanged", [name for name, times in self.stuck.items() if name in self.unchanged and times > 1])
        zero = [name for name, p in self.zero.items() if id(p) in have and p.grad is not None] if self.zero_updates >= _ZERO_UPDATES else []
        self.write_names("zero_gradients", zero)
        if zero:
            facts["zero_gradients"] |= {"updates": self.zero_updates, "flat": self.has_flat_function,
                                        "constant": all(float(self.zero[name].min()) == float(self.zero[name].max()) for name in zero)}
        outside = [name for name, p in now.items() if p.requires_grad and id(p) not in have]
        self.write_names("without_optimizer", outside)
        if outside:  # a head that is trained alone comes after the rest
            trained = [p.requires_grad and id(p) in have for p in now.values()]
            facts["without_optimizer"]["leading"] = not any(trained[: list(now).index(outside[-1])])
            facts["without_optimizer"]["unused"] = all(name in self.without_gradient for name in outside)
            heads = {name.rpartition(".")[0] for name, p in now.items() if p.requires_grad and id(p) in have}
            if facts["without_optimizer"]["leading"] and len(heads) > 1:  # a last layer may be trained alone on random features
                facts["without_optimizer"]["new"] = [name for name in outside if self.is_untrained(name)][:_NAMES]
        facts["elsewhere"] = any(id(optimizer) in self.loop.given and not any(id(p) in inside for group in optimizer.param_groups for p in group["params"])
                                 for optimizer in self.loop.live_optimizers())
        facts["strangers"] = sum(i not in inside and p.grad is None for i, p in have.items())
        self.write_ties()
        if self.loop.updates & (self.loop.updates - 1) == 0:
            elements = b"".join(bytes_of(sample(p)) for p in now.values() if not is_lazy(p))
            facts.setdefault("fingerprints", {})[str(self.loop.step)] = digest(elements)

    def is_lone_bias(self, name: str) -> bool:
        """A bias of a layer whose weight has a gradient: no graph was cut, but the loss does not depend on it, as where the loss is of
        the model's derivatives by its inputs."""
        owner, _, key = name.rpartition(".")
        weight = f"{owner}.weight" if owner else "weight"
        return key == "bias" and weight in self.named and weight not in self.without_gradient

    def is_untrained(self, name: str) -> bool:
        """The weight of a layer, as PyTorch draws it."""
        if name not in self.untrained:
            owner, _, key = name.rpartition(".")
            module, p = self.loop.model.get_submodule(owner), self.named.get(name)
            inputs = module.hidden_size if isinstance(module, _recurrent) and key.startswith("weight_") else None
            is_weight = inputs is not None or (key == "weight" and isinstance(module, _layers))
            self.untrained[name] = is_weight and p is not None and not is_lazy(p) and local(p) is p and p.numel() >= 64 and is_new(p, inputs)
        return self.untrained[name]

    def write_names(self, key: str, names: Any) -> None:
        if names:
            self.loop.facts[key] = {"count": len(names), "names": list(itertools.islice(names, _NAMES))}
        else:
            self.loop.facts.pop(key, None)

    def write_ties(self) -> None:
        if not self.ties and not self.copies:
            return
        now = dict(self.loop.model.named_parameters(remove_duplicate=False))
        apart = [(a, b) for a, b in self.ties + self.copies if a in now and b in now and now[a] is not now[b]]
        shared = [(a, b) for a, b in apart if local(now[a]).data_ptr() == local(now[b]).data_ptr()]
        broken = [(a, b) for a, b in apart if (a, b) in shared or not torch.equal(local(now[a]), local(now[b]))]
        if broken:
            fact = self.loop.facts.setdefault("untied", {"since": self.loop.step})
            fact["names"] = [list(pair) for pair in broken[:_NAMES]]
            fact["shared"] = len(shared)


def is_new(weight: torch.Tensor, inputs: int | None = None) -> bool:
    """Whether a layer's weight is as PyTorch draws it for a new layer: uniform within 1 / sqrt(inputs); a recurrence takes its units."""
    values, bound = weight.detach().double(), 1 / math.sqrt(max(1, weight[0].numel() if inputs is None else inputs))
    deviation = float(values.std()) * math.sqrt(3) / bound
    return float(values.abs().max()) <= bound * 1.000001 and 1 / 1.15 < deviation < 1.15


def _tied(model: torch.nn.Module) -> list[tuple[str, str]]:
    """Names of one and the same parameter."""
    first: dict[int, str] = {}
    pairs = []
    for name, p in model.named_parameters(remove_duplicate=False):
        if id(p) in first:
            pairs.append((first[id(p)], name))
        first.setdefault(id(p), name)
    return pairs


def _copied(model: torch.nn.Module) -> list[tuple[str, str]]:
    """An embedding and an output layer that begin with the same weights, as two parameters."""
    tables, linears = [], []
    for name, module in model.named_modules():
        kind = tables if isinstance(module, torch.nn.Embedding) else linears
        weight = dict(module._parameters.items()).get("weight")  # module.weight may be computed, and change something
        if isinstance(module, (torch.nn.Embedding, torch.nn.Linear)) and weight is not None and not is_lazy(weight) \
                and weight.requires_grad:
            kind.append((f"{name}.weight" if name else "weight", weight, local(weight.detach())))
    return [(a, b) for a, p, x in tables for b, q, y in linears
            if p is not q and x.shape == y.shape and x.numel() > 1 and x.device == y.device
            and torch.equal(x[0], y[0]) and torch.equal(x, y) and float(x.std()) > 0]
