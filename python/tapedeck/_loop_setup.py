"""Facts about what a loop trains on what: the model's layers as they start, the loss, the optimizer's options, the size of its
steps, and the data of the first batches. The rules that judge an experiment of `tapedeck train` judge these."""

from __future__ import annotations

import math
import statistics
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from . import _loop_head, _loop_origin, _loop_target
from ._fingerprint import local, sample
from ._loop_batches import first_tensor, largest_input
from ._loop_parameters import FIRST_UPDATES, is_new

LABELLED_UPDATES = 256  # in which the classes of batches are counted, and all of which are looked at
_CLASSES = 1024
_LOSSES = 40  # that say how far a loss fell
RATIO_PERIOD = 64  # updates between looks at the size of steps, after the first of them
NO_ARGUMENTS: tuple[Any, Any] = ((), {})
_WEIGHTS = 8  # whose steps are looked at
_LARGE_BIAS = 5.0
_STRONG_DROPOUT = 0.7
_layers = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)


def _count_tensors(value: Any) -> int:
    """Of numbers that are not whole, in the arguments of a call."""
    if isinstance(value, torch.Tensor):
        return int(value.is_floating_point())
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_count_tensors, value)) if isinstance(value, (tuple, list)) else 0


class Setup:
    """Gathers most in the first updates. That the loss is finite is looked at in all of them, on the CPU."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.batch: torch.Tensor | None = None
        self.arguments = NO_ARGUMENTS  # of the last call
        self.backward_passes = 0  # since the last update
        self.joint_updates = 0  # the first ones that no backward pass came before: another optimizer's made their gradients, too
        self.hidden = _hidden_parameters(loop.model)
        self.frozen = _frozen_layers(loop.model)
        self.before: list[tuple[torch.Tensor, torch.Tensor]] = []  # weights, and elements of them before the update
        self.first: dict[int, torch.Tensor] = {}  # those elements before the first update
        self.ratios: list[float] = []
        self.paces: list[float] = []  # steps, of the size that weights began with or usually do
        self.losses: list[tuple[int, float]] = []  # of the updates that are looked at
        self.way, self.way_updates = 0.0, 0  # that weights have come since then, of their size, and in how many updates
        self.watched: torch.Tensor | None = None  # a weight that nothing but updates should change
        self.left: tuple[torch.Tensor, torch.Tensor] | None = None  # as the last update left it
        self.classes = [0] * _CLASSES
        self.purity, self.batches = 0.0, 0
        self.is_pure_sequence = True  # one batch with classes for each update
        self.is_finite = True
        self.bad_at_start = set(_nonfinite_weights(loop.model))
        self.write_start()

    def stop(self) -> None:
        self.batch = self.watched = self.left = None
        self.first = {}
        self.arguments = NO_ARGUMENTS
        self.before = []

    @property
    def needs_backward(self) -> bool:
        return self.is_finite and not self.loop.stopped

    def write_start(self) -> None:
        """Weights as they start."""
        model, facts = self.loop.model, self.loop.facts
        if found := _odd_weights(model):
            facts["start"] = found
        if found := _large_biases(model):
            facts["biases"] = found
        if found := _strong_dropout(model):
            facts["dropping"] = found

    # ---- passes -----------------------------------------------------------------------------------

    def see_batch(self, batch: torch.Tensor, arguments: Any) -> None:
        self.batch, self.arguments = batch.detach(), arguments
        if self.loop.is_close and (count := _count_tensors(arguments)) > 1:
            self.loop.facts["inputs"] = {"count": count}

    def last_batch(self) -> torch.Tensor | None:
        """Of a pass that is not looked at there are the arguments alone: they are needed only if its loss is not finite."""
        batch = first_tensor(self.arguments) if self.batch is None else self.batch
        return batch.detach() if batch is not None and batch.dim() > 0 else None

    def before_backward(self, losses: Any, passes: int) -> None:
        """`passes`: of the model since the last backward pass."""
        loop = self.loop
        self.backward_passes += 1
        loss = losses if isinstance(losses, torch.Tensor) else next(iter(losses), None)
        if not loop.looks and (loss is None or not loss.is_cpu or loss.numel() != 1 or math.isfinite(loss.item())):
            self.batch = None
            return
        if loop.looks and loss is not None and loss.is_cpu and loss.numel() == 1:
            self.losses.append((loop.updates, loss.item()))
        batch, self.batch = self.last_batch(), None
        if batch is None or passes != 1:
            return
        if loss is None or not batch.is_cpu or not loss.is_cpu:
            if loop.updates < 2:
                self.see_head(losses)
            return
        if self.is_finite and loss.numel() == 1 and not math.isfinite(loss.item()):
            self.see_nonfinite(loss, batch, losses)
        if loop.updates < LABELLED_UPDATES:
            if loop.updates < 2:
                self.see_head(losses)
                self.see_matrices(losses)
            self.see_data(batch, _loop_target.find(losses))

    def names(self) -> dict[int, str]:
        found = {id(p): name for name, p in self.loop.model.named_parameters()}
        return found | {id(p): name for name, p in self.hidden.items()}

    def see_head(self, losses: Any) -> None:
        found = _loop_head.describe(losses, self.names())
        if found is not None:
            self.loop.facts["head"] = {key: value for key, value in found.items() if value is not None}

    def see_matrices(self, losses: Any) -> None:
        """Weights of the model's own, without a layer of PyTorch around them, before the first update."""
        facts, names = self.loop.facts, self.names()
        if self.loop.updates or "start" in facts:
            return
        layers = {id(weight) for _, weight in _weights_of_layers(self.loop.model)}
        own = [(names[id(p)], p) for p in _loop_head.raw_matrices(losses) if id(p) in names and id(p) not in layers and p.numel() >= 64]
        if found := _odd_matrices(own):
            facts["start"] = found

    def see_data(self, batch: torch.Tensor, target: torch.Tensor | None) -> None:
        loop = self.loop
        if loop.is_close and (values := largest_input(self.arguments)) is not None:
            _widen(loop.facts.setdefault("input", {"shape": list(values.shape[1:])}), values)
        if target is None or not target.is_cpu or target.dim() == 0:
            return
        target = target.detach()
        if loop.is_close:
            fact = loop.facts.setdefault("target", {"whole": True})
            _widen(fact, target)
            fact["whole"] = fact["whole"] and not target.is_floating_point()
        self.see_classes(batch, target)
        self.loop.examples.see_training(batch, target)

    def see_classes(self, batch: torch.Tensor, target: torch.Tensor) -> None:
        if target.dim() == 2 and target.shape[1] == 1:
            target = target.flatten()
        if target.is_floating_point() and bool(((target == 0) | (target == 1)).all()):
            target = target.long()
        if target.is_floating_point() or target.dim() != 1 or len(target) != batch.shape[0] or len(target) < 4 \
                or int(target.min()) < 0 or int(target.max()) >= _CLASSES:
            self.is_pure_sequence = False
            return
        counts = torch.bincount(target).tolist()
        for i, count in enumerate(counts):
            self.classes[i] += count
        self.batches += 1
        self.purity += sum(count * count for count in counts) / len(target) ** 2

    def see_nonfinite(self, loss: torch.Tensor, batch: torch.Tensor, losses: Any) -> None:
        """Where the first loss that is not finite comes from: what it was computed from is still there."""
        self.is_finite = False
        loop, target = self.loop, _loop_target.find(losses)
        fact: dict[str, Any] = {"since": loop.step, "loss": "NaN" if math.isnan(loss.item()) else "infinite"}
        loop.facts["nonfinite"] = fact
        weights = _nonfinite_weights(loop.model)
        if (row := _nonfinite_row(batch)) is not None:
            fact |= {"what": "input", "row": row}
        elif target is not None and (row := _nonfinite_row(target)) is not None:
            fact |= {"what": "label", "row": row}
        elif weights:
            trained = sum(p.requires_grad for p in loop.model.parameters())
            updates = 0 if self.bad_at_start >= set(weights) else loop.updates
            fact |= {"what": "weights", "names": weights[:16], "count": len(weights), "of": trained, "updates": updates}
        else:
            fact |= {"what": "pass", "updates": loop.updates}
        loop.write()  # the rest may fail
        if fact["what"] == "pass":
            fact |= _loop_origin.of_pass(losses, self.names(), len(batch), _is_usual(batch))
            if _loop_origin.is_opaque(fact):
                fact |= _loop_origin.of_modules(loop.model, *self.arguments, len(batch))
        elif fact["what"] == "weights" and fact["updates"] > 0:
            fact |= _loop_origin.of_update(losses, self.names(), weights)
        loop.write()

    def finish(self) -> None:
        """A pass without a backward pass is the last one where the program ended in its loss, as some do that get NaN."""
        batch = self.last_batch() if self.loop.passes else None
        if batch is not None and self.is_finite and batch.is_cpu and (row := _nonfinite_row(batch)) is not None:
            self.loop.facts["nonfinite"] = {"since": self.loop.step, "what": "input", "row": row}

    # ---- updates ----------------------------------------------------------------------------------

    def before_update(self, optimizer: Any) -> None:
        self.before = []
        updates = self.loop.updates
        if self.left is not None:
            (weight, values), self.left = self.left, None
            if bool(((sample(weight) != values) & (values == values)).any()):  # NaN differs from itself
                self.loop.count("moved")
        if updates == 0:
            self.see_options(optimizer)
        if updates < FIRST_UPDATES or (updates % RATIO_PERIOD == 0 if updates < LABELLED_UPDATES else self.loop.writes):
            weights = [p for group in optimizer.param_groups for p in group["params"]
                       if p.requires_grad and p.dim() > 1 and p.grad is not None and not p.grad.is_sparse
                       and local(p).is_cpu]
            weights = weights[:: max(1, len(weights) // _WEIGHTS)][:_WEIGHTS]
            self.before = [(p, sample(p).clone()) for p in weights]

    def see_options(self, optimizer: Any) -> None:
        kind = type(optimizer).__name__
        groups = [group for group in optimizer.param_groups if group["params"]]
        largest = {key: max((float(group[key]) for group in groups if isinstance(group.get(key), (int, float))), default=0.0)
                   for key in ("lr", "eps", "weight_decay", "momentum")}
        self.loop.facts["optimizer"] = {"kind": kind, **largest}

    def after_update(self) -> None:
        loop = self.loop
        self.arguments = NO_ARGUMENTS
        self.joint_updates += loop.updates <= LABELLED_UPDATES and self.backward_passes == 0
        self.backward_passes = 0
        ratios, ways, paces = [], [], []
        for p, before in self.before:
            size, now = float(before.norm()), sample(p)
            step = float((now - before).norm())
            if size > 0 and math.isfinite(step):
                first = self.first.setdefault(id(p), before)
                ratios.append(step / size)
                ways.append(float((now - first).norm()) / max(float(first.norm()), 1e-30))
                paces.append(step / max(float(first.norm()), _usual_size(p, first)))
        if self.before and loop.updates < LABELLED_UPDATES:
            self.watched = self.before[0][0]
        self.before = []
        if self.watched is not None:
            self.left = (self.watched, sample(self.watched).clone()) if loop.updates < LABELLED_UPDATES else None
        if ratios:
            self.ratios.append(statistics.median(ratios))
            self.way, self.way_updates = statistics.median(ways), loop.updates
            self.paces.append(statistics.median(paces))
        if loop.writes:
            self.write(loop.updates == FIRST_UPDATES)

    def write(self, looks_at_layers: bool = True) -> None:
        loop = self.loop
        ours = sum(known.is_ours and known.updates > 0 for known in loop.optimizers.values())
        loop.facts["optimizers"] = {"ours": ours, "others": len(loop.optimizers) - ours, "joint": self.joint_updates,
                                    "updates": min(loop.updates, LABELLED_UPDATES)}
        if self.ratios:
            loop.facts["steps"] = {"count": len(self.ratios), "median": statistics.median(self.ratios),
                                   "largest": max(self.ratios), "way": self.way, "way_updates": self.way_updates,
                                   "pace": statistics.median(self.paces)}
        self.write_losses()
        total = sum(self.classes)
        if self.batches > 1 and self.is_pure_sequence and self.batches <= loop.updates + 1:
            shares = [count / total for count in self.classes if count]
            loop.facts["classes"] = {"count": len(shares), "batches": self.batches, "purity": self.purity / self.batches,
                                     "chance": sum(share * share for share in shares), "labels": total}
        if looks_at_layers:
            self.write_hidden()
            self.write_frozen()

    def write_losses(self) -> None:
        """For loops that log few: of updates with one backward pass each."""
        losses = [loss for _, loss in self.losses]
        if len(losses) < _LOSSES or len({update for update, _ in self.losses}) < len(losses) or self.joint_updates:
            return
        twentieth, end = max(1, self.loop.updates // 20), 0.9 * self.loop.updates
        early = [loss for update, loss in self.losses if update < twentieth]
        late = [loss for update, loss in self.losses if update >= end] or losses[-1:]
        self.loop.facts["loss"] = {"points": len(losses), "first": losses[0], "early": statistics.fmean(early or losses[:1]),
                                   "last": statistics.fmean(late), "least": min(losses)}

    def write_hidden(self) -> None:
        have = {id(p) for optimizer in self.loop.live_optimizers() for group in optimizer.param_groups for p in group["params"]}
        names = [name for name, p in self.hidden.items() if p.grad is not None and id(p) not in have]
        self.loop.parameters.write_names("unregistered", names)

    def write_frozen(self) -> None:
        names = [name for name, p, before in self.frozen if not p.requires_grad and torch.equal(sample(p), before)]
        self.loop.parameters.write_names("frozen", names)
        if names:
            trained = [p.requires_grad for p in self.loop.model.parameters()]
            last = [name for name, _ in self.loop.model.named_parameters()].index(names[-1])
            self.loop.facts["frozen"]["leading"] = not any(trained[:last])


# ---- what a model is like before its first update ----------------------------------------------------


def _usual_size(p: torch.Tensor, some: torch.Tensor) -> float:
    """Half of the norm that a new layer's weight has in these of its elements: tables may begin with very small numbers."""
    return 0.5 * math.sqrt(some.numel() / (3 * max(1, p[0].numel())))


def _hidden_parameters(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Those of modules in plain lists and dicts, which the model does not know."""
    known = {id(p) for p in model.parameters()}
    found: dict[str, torch.nn.Parameter] = {}
    for path, module in model.named_modules():
        for key, value in vars(module).items():
            if key.startswith("_") or not isinstance(value, (list, tuple, dict)):
                continue
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for place, item in items:
                if isinstance(item, torch.nn.Module):
                    prefix = f"{path}.{key}.{place}" if path else f"{key}.{place}"
                    found |= {f"{prefix}.{name}": p for name, p in item.named_parameters()
                              if p.requires_grad and id(p) not in known}
    return found


def _weights_of_layers(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Weights of linear and convolution layers, in order."""
    found = []
    for name, module in model.named_modules():
        weight = module._parameters.get("weight") if isinstance(module, _layers) else None
        if weight is not None and not is_lazy(weight) and not hasattr(weight, "_local_tensor") and weight.is_floating_point() \
                and weight.device.type != "meta" and weight.numel() >= 16:
            found.append((f"{name}.weight" if name else "weight", weight))
    return found


def _fan_in(weight: torch.Tensor) -> int:
    return max(1, weight[0].numel())


def _wide_recurrences(model: torch.nn.Module) -> list[tuple[str, float]]:
    """Recurrent weights that make a state grow from step to step: a matrix of deviation 1 / sqrt(inputs) keeps its size."""
    found = []
    for name, module in model.named_modules():
        for key, weight in module._parameters.items() if isinstance(module, (torch.nn.RNNBase, torch.nn.RNNCellBase)) else ():
            if weight is not None and key.startswith("weight_hh") and not is_lazy(weight) and weight.device.type != "meta":
                times = float(sample(weight).double().std()) * math.sqrt(weight.shape[1])
                if times > 2.5:
                    found.append((f"{name}.{key}" if name else key, times))
    return found


def _odd_weights(model: torch.nn.Module) -> dict[str, Any] | None:
    """Layers that start with equal weights, or with much larger ones than keep the size of a signal (He: sqrt(2 / inputs))."""
    weights = _weights_of_layers(model)
    recurrent = _wide_recurrences(model)
    equal, wide, value = [], [name for name, _ in recurrent], 0.0
    ratio = max((times for _, times in recurrent), default=0.0)
    for name, weight in weights:
        some = sample(weight)
        deviation = float(some.double().std())
        if name != weights[-1][0] and weight.shape[0] > 1 and float(weight.detach().min()) == float(weight.detach().max()):
            equal.append(name)
            value = float(some[0])
        elif deviation > 0 and (times := deviation * math.sqrt(_fan_in(weight) / 2)) > 4:
            wide.append(name)
            ratio = max(ratio, times)
    return {"names": (equal or wide)[:16], "equal": len(equal), "value": value, "wide": len(wide), "ratio": ratio,
            "layers": len(weights)} if equal or wide else None


def _odd_matrices(weights: list[tuple[str, torch.Tensor]]) -> dict[str, Any] | None:
    """The same of matrices of which it is not known which axis the inputs have: the smaller one is taken."""
    equal, wide, value, ratio = [], [], 0.0, 0.0
    for name, weight in weights:
        some = sample(weight)
        deviation = float(some.double().std())
        if name != weights[0][0] and float(weight.detach().min()) == float(weight.detach().max()) != 0:
            equal.append(name)
            value = float(some[0])
        elif deviation > 0 and (times := deviation * math.sqrt(min(weight.shape) / 2)) > 4:
            wide.append(name)
            ratio = max(ratio, times)
    return {"names": (equal or wide)[:16], "equal": len(equal), "value": value, "wide": len(wide), "ratio": ratio,
            "layers": len(weights)} if equal or wide else None


def _large_biases(model: torch.nn.Module) -> dict[str, Any] | None:
    """Of hidden layers: they push units out of where they work, whatever comes in."""
    found = {}
    for name, _ in _weights_of_layers(model)[:-1]:
        bias = model.get_parameter(name.removesuffix("weight") + "bias") if _has_bias(model, name) else None
        if bias is not None and bias.numel() and (size := float(bias.detach().abs().max())) > _LARGE_BIAS:
            found[name.removesuffix("weight") + "bias"] = size
    return {"names": list(found)[:16], "count": len(found), "largest": max(found.values())} if found else None


def _has_bias(model: torch.nn.Module, name: str) -> bool:
    return model.get_submodule(name.rpartition(".")[0])._parameters.get("bias") is not None


def _strong_dropout(model: torch.nn.Module) -> dict[str, Any] | None:
    rates = {name: module.p for name, module in model.named_modules()
             if isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p >= _STRONG_DROPOUT}
    return {"names": list(rates)[:16], "count": len(rates), "rate": max(rates.values())} if rates else None


def _frozen_layers(model: torch.nn.Module) -> list[tuple[str, torch.Tensor, torch.Tensor]]:
    """Layers that are not trained and that nobody has trained before."""
    return [(name, weight, sample(weight).clone()) for name, weight in _weights_of_layers(model)
            if not weight.requires_grad and weight.numel() >= 64 and is_new(weight)]


# ---- data ------------------------------------------------------------------------------------------


def _widen(fact: dict[str, Any], tensor: torch.Tensor) -> None:
    """Takes the finite values of a tensor into the range of a fact."""
    values = tensor.detach()
    low, high = (float(x) for x in torch.aminmax(values))
    if not (math.isfinite(low) and math.isfinite(high)):
        values = values[torch.isfinite(values)]
        if not values.numel():
            return
        low, high = (float(x) for x in torch.aminmax(values))
    fact["minimum"] = min(fact.get("minimum", low), low)
    fact["maximum"] = max(fact.get("maximum", high), high)
    some = sample(values).double()
    squares = float((some * some).mean())
    count = fact.get("batches", 0)
    fact["size"] = math.sqrt((fact.get("size", 0.0) ** 2 * count + squares) / (count + 1))  # root mean square
    fact["mean"] = (fact.get("mean", 0.0) * count + float(some.mean())) / (count + 1)
    fact["batches"] = count + 1


def _nonfinite_weights(model: torch.nn.Module) -> list[str]:
    return [name for name, p in model.named_parameters()
            if not is_lazy(p) and p.device.type != "meta" and not bool(torch.isfinite(local(p.detach())).all())]


def _is_usual(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or float(tensor.detach().abs().max()) < 1e4


def _nonfinite_row(tensor: torch.Tensor) -> int | None:
    if not tensor.is_floating_point() or tensor.dim() == 0 or not tensor.is_cpu:
        return None
    bad = (~torch.isfinite(tensor.detach())).reshape(tensor.shape[0], -1).any(1).nonzero().flatten()
    return int(bad[0]) if len(bad) else None
