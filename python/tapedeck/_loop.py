"""What a PyTorch training loop does, as facts that `tapedeck diagnose` judges: the run's note ``loop``, a JSON object.

A loop can go wrong without an error: gradients that add up, parameters that no optimizer has, a model left in
evaluation mode. All of this shows in the first updates, so what costs something is looked at only then, and in the
first batches of an epoch. Nothing here changes a value. What a fact means is in docs/python.md; whether it is a fault
is decided by the rules of the library, not here.
"""

from __future__ import annotations

import functools
import itertools
import json
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as functional
from torch.nn.parameter import is_lazy
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, IterableDataset

from ._layers import Handle

_FIRST = 16  # updates, and batches of an epoch, that are looked at closely
_LOOKS = 64  # updates between looks at all parameters, later
_NAMES = 16  # that are told; there is always a count
_SAMPLE = 4096  # elements of a batch that its fingerprint is made of
_COLUMNS = 256  # elements of an example, for the same
_PAIRS = 4096  # examples whose label is remembered
_LONGEST = 20000  # updates until labels are no longer followed
_ENOUGH = 64  # examples seen again that decide whether labels stay theirs
_HASH = (1 << 48) - 1  # exact in every reader of JSON
_LOSSES = ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss",
           "l1_loss", "smooth_l1_loss", "huber_loss")
_loops: "list[Loop]" = []  # that listen


def _hash(data: Any) -> int:
    return hash(data) & _HASH


def _spread(flat: torch.Tensor, most: int) -> torch.Tensor:
    """Elements from all over; the odd stride falls into no image's columns."""
    count = flat.shape[-1]
    return flat if count <= most else flat[..., :: (count // most) | 1]


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """This process's part of a distributed one: asking for the whole would be a collective operation."""
    return getattr(tensor, "_local_tensor", tensor)


def _some(tensor: torch.Tensor) -> torch.Tensor:
    return _spread(_local(tensor.detach()).reshape(-1), 64)


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _fingerprint(tensor: torch.Tensor) -> int:
    flat = tensor.detach().reshape(-1)
    return _hash((tuple(tensor.shape), _digest(_bytes(_spread(flat, _SAMPLE)))))


def _digest(data: bytes) -> int:
    """The same in every process, as hash() of bytes is not."""
    import zlib

    return zlib.crc32(data) << 16 | zlib.adler32(data[::-1]) & 0xFFFF


def _first_tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return None
    return next((found for found in map(_first_tensor, value) if found is not None), None)


def _guarded(method: Callable) -> Callable:
    """A fact that cannot be had ends the gathering, not the training; the run says so."""

    @functools.wraps(method)
    def call(self: "Loop", *arguments: Any) -> None:
        if self.stopped:
            return
        try:
            method(self, *arguments)
        except Exception as error:
            self.stop()
            self.deck.note(self.prefix + "loop_stopped", f"facts about the loop end at step {self.step}: {error!r}"[:500])

    return call


class _Call:
    """A hook that compiled functions leave alone."""

    __torch_unserializable__ = True  # torch.save(model) need not warn of it

    def __init__(self, call: Any) -> None:
        self.call = call

    def __call__(self, *arguments: Any) -> None:
        if not torch.compiler.is_compiling():
            self.call(*arguments)


class _Dropping(TorchFunctionMode):
    """Notices dropout that acts."""

    def __init__(self) -> None:
        super().__init__()
        self.found = ""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            share = named.get("dropout_p", arguments[4] if len(arguments) > 4 else 0.0)
            self.found = "scaled_dot_product_attention(dropout_p=…)" if share else self.found
        elif "dropout" in name and not self.found:
            share = named.get("p", arguments[1] if len(arguments) > 1 else 0.5)
            training = named.get("training", arguments[2] if len(arguments) > 2 else True)
            self.found = f"{name}(training=True)" if share and training else self.found
        return function(*arguments, **named)


class Loop:
    """Goes with a deck that watches a model."""

    def __init__(self, deck: Any, model: torch.nn.Module, bare: torch.nn.Module, optimizers: list[Any],
                 scale: Callable[[], float], prefix: str) -> None:
        self.deck, self.outer, self.model, self.scale, self.prefix = deck, model, bare, scale, prefix
        self.given = {id(optimizer) for optimizer in optimizers}  # said to be the model's; others are found
        self.stopped = False
        self.facts: dict[str, Any] = {}
        self.told = ""
        self.updates = 0
        self.optimizers: dict[int, list[Any]] = {}  # weak reference, groups, whether it is ours, its updates
        self.ids: set[int] = set()
        self.named: dict[str, torch.nn.Parameter] = {}  # that are to be trained
        self.never: dict[str, torch.nn.Parameter] = {}  # had a gradient
        self.still: dict[str, torch.nn.Parameter] = {}  # changed
        self.stuck: dict[str, int] = {}  # times that one had reason to change and did not
        self.samples: list[tuple[str, torch.Tensor, float]] = []
        self.ties = _tied(bare)
        self.copies = _copied(bare)
        self.probes: list[tuple[torch.nn.Parameter, Any]] = []  # parameters whose backward pass is noticed
        self.cleared: set[int] = set()  # probes that were without gradient since the last update
        self.reached = False  # a gradient that is not 0 got to a probe since the last update
        self.kinds = sorted({type(m).__name__ for m in bare.modules() if _is_modal(m)})
        self.pending: list[tuple[bool, int, int]] = []  # batches since the last update: mode, fingerprint, size
        self.batch: torch.Tensor | None = None  # the last of them
        self.labelled = False  # its first loss was seen
        self.follows_labels = True
        self.batch_before: torch.Tensor | None = None  # of the last update
        self.prints_before: set[int] = set()
        self.prints: dict[int, int] = {}  # fingerprints of this epoch
        self.opened: Any = None  # the loader that was begun last
        self.loader: Any = None  # the one that training reads
        self.epoch_updates = 0
        self.dropping: tuple[_Dropping, Any] | None = None
        self.pairs: dict[int, tuple[int, int]] = {}  # an example's label, and the update in which it was seen
        self.labels: set[int] = set()
        self.threshold: float | None = None
        self.most_rate = 0.0
        self.unscaled = False
        self.scaler_calls = self.scaler_updates = self.skipped_in_a_row = 0
        self.handles: list[Any] = [
            register_optimizer_step_pre_hook(_Call(self.before_update)),
            register_optimizer_step_post_hook(_Call(self.after_update)),
        ]
        self.handles.append(Handle(model, "before", self.before_forward))
        self.look_at_parameters()
        _loops.append(self)
        _listen()

    @property
    def step(self) -> int:
        return self.deck.steps + 1

    @property
    def is_close(self) -> bool:
        return self.updates < _FIRST or self.epoch_updates < _FIRST

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.leave_forward()
            for handle in self.handles + [handle for _, handle in self.probes]:
                handle.remove()
            self.handles, self.probes, self.samples = [], [], []
            self.batch = self.batch_before = None
            _loops.remove(self)
            _forget()

    def tell(self) -> None:
        """Writes the note, if something is new."""
        text = json.dumps(self.facts)
        if text != self.told:
            self.told = text
            self.deck.note(self.prefix + "loop", text)

    def finish(self) -> None:
        if not self.stopped:
            self.tell_last()
        self.stop()

    @_guarded
    def tell_last(self) -> None:
        if self.updates:
            self.see_parameters()
        self.tell()

    def count(self, key: str, **more: Any) -> None:
        """One more of something, and in which step it was first."""
        fact = self.facts.setdefault(key, {"count": 0, "since": self.step})
        fact["count"] += 1
        fact.update(more)

    # ---- batches --------------------------------------------------------------------------------

    @_guarded
    def before_forward(self, arguments: Any, named: Any) -> None:
        if not torch.is_grad_enabled():
            self.see_validation()
            return
        if not (self.is_close or self.follows_labels):
            return
        batch = _first_tensor((arguments, named))
        if batch is None or batch.dim() == 0:
            return
        self.batch, self.labelled = batch.detach(), False
        if self.is_close and len(self.pending) < _FIRST:
            self.pending.append((self.model.training, _fingerprint(batch), batch.shape[0]))

    def see_validation(self) -> None:
        if self.updates == 0:  # to find out shapes, or to be sure that it runs
            return
        looks = self.facts.setdefault("validation", {"passes": 0, "training": 0, "kinds": self.kinds})
        looks["passes"] += 1
        if self.model.training:
            looks.setdefault("since", self.step)
            looks["training"] += 1
        elif looks["passes"] - looks["training"] <= 2 and self.outer is self.model and not self.dropping:
            mode = _Dropping()
            mode.__enter__()
            handle = self.model.register_forward_hook(_Call(self.leave_forward), always_call=True)
            self.dropping = (mode, handle)

    def leave_forward(self, *_: Any) -> None:
        if self.dropping:
            mode, handle = self.dropping
            self.dropping = None
            handle.remove()
            mode.__exit__(None, None, None)
            if mode.found:
                self.count("dropout", what=mode.found)

    def see_batches(self) -> None:
        """Those that the update was made of."""
        if not self.is_close:
            self.pending.clear()
            self.epoch_updates += 1
            self.batch = self.batch_before = None
            self.prints_before = set()
            return
        training = self.model.training
        batches = [(mark, size) for mode, mark, size in self.pending if mode == training]
        self.pending.clear()
        self.epoch_updates += 1
        batch, before = self.batch, self.batch_before
        self.batch, self.batch_before = None, batch
        if not batches:
            self.batch_before, self.prints_before = None, set()
            return
        fact = self.facts.setdefault("batches", {"updates": 0, "passes": 0, "ones": 0, "repeated": 0, "copies": 0})
        fact["updates"] += 1
        fact["passes"] += len(batches)
        if training and any(isinstance(m, _normal) and m.training for m in self.model.modules()):
            fact["ones"] += sum(size == 1 for _, size in batches)
        prints = {mark for mark, _ in batches}
        if prints == self.prints_before:
            fact.setdefault("since", self.step)
            fact["repeated"] += 1
            fact["copies"] += not _same_memory(before, batch)
        self.prints_before = prints
        for mark in prints:
            self.prints[mark] = self.prints.get(mark, 0) + 1
        again = sum(self.prints.values()) - len(self.prints)
        if again > fact.get("again", 0):
            fact["again"], fact["among"] = again, sum(self.prints.values())
        if _is_power(self.updates):
            self.facts.setdefault("batch_fingerprints", {})[str(self.step)] = min(prints)

    @_guarded
    def loader_started(self, loader: Any) -> None:
        if self.loader is not None and self.loader() is loader and self.epoch_updates > 1:
            self.epoch_updates = 0
            self.prints.clear()
        self.opened = weakref.ref(loader)

    def see_loader(self) -> None:
        loader = self.opened() if self.opened is not None else None
        if loader is None:
            return
        self.loader = self.opened
        try:
            batches = len(loader)
        except TypeError:  # a stream has no length
            batches = 0
        self.facts["loader"] = {"batches": batches, "workers": loader.num_workers,
                                "stream": isinstance(loader.dataset, IterableDataset)}

    # ---- labels ---------------------------------------------------------------------------------

    @_guarded
    def see_loss(self, target: Any) -> None:
        """Whether an example keeps its label. The same eighth of the examples is followed in every epoch."""
        batch = self.batch
        if batch is None or self.labelled or not torch.is_grad_enabled():
            return
        self.labelled = True  # a second loss has other targets
        fact = self.facts.setdefault("labels", {"again": 0, "changed": 0})
        self.follows_labels = fact["again"] < _ENOUGH and self.updates < _LONGEST
        if not (batch.is_cpu and isinstance(target, torch.Tensor) and target.is_cpu and target.dim() > 0
                and target.shape[0] == batch.shape[0] > 1):
            return
        target = target.detach()
        if target.dim() == 1 and not target.is_floating_point() and \
                torch.equal(target, torch.arange(len(target), dtype=target.dtype)):
            return  # places in the batch, as contrastive losses have them
        columns = _spread(batch.reshape(len(batch), -1), _COLUMNS)
        keys = columns[:, :64].double().sum(1)
        if self.threshold is None:
            self.threshold = float(keys.kthvalue(min(len(keys), max(4, len(keys) // 8))).values)
        for i in (keys <= self.threshold).nonzero().flatten().tolist():
            example, label = _digest(_bytes(columns[i])), _digest(_bytes(target[i]))
            known, seen = self.pairs.get(example, (None, 0))
            if known is None:
                if len(self.pairs) < _PAIRS:
                    self.pairs[example] = label, self.updates
                    self.labels.add(label)
            elif self.updates - seen > 2:  # adversaries call the same thing true and false in one go
                fact["again"] += 1
                if known != label and label in self.labels:  # another's; a target that moves is a new one
                    fact.setdefault("since", self.step)
                    fact["changed"] += 1

    # ---- clipping, scaling ----------------------------------------------------------------------

    @_guarded
    def see_clip(self, kind: str, limit: float, norm: Any, parameters: list[Any]) -> None:
        if not any(id(p) in self.ids for p in parameters[:1]):
            return
        fact = self.facts.setdefault("clipping", {"kind": kind, "calls": 0, "norms": 0, "acted": 0, "strong": 0,
                                                  "largest": 0.0, "scaled": 0, "since": self.step})
        fact["calls"] += 1
        fact["limit"] = limit
        fact["scaled"] += self.scale() != 1 and not self.unscaled
        if norm is None or not (norm.is_cpu or fact["calls"] <= _FIRST or self.deck._native.due(self.step)):
            return
        value = float(norm)
        if value < float("inf"):
            fact["norms"] += 1
            fact["acted"] += value > limit
            fact["strong"] += value > 10 * limit
            fact["largest"] = max(fact["largest"], value)

    @_guarded
    def scaler_stepped(self, optimizer: Any) -> None:
        """The GradScaler was asked for an update: it made one, or skipped it."""
        if not self.has(optimizer):
            return
        fact = self.facts.setdefault("scaler", {"calls": 0, "skipped": 0, "in_a_row": 0, "since": self.step})
        skipped = self.updates == self.scaler_updates
        self.scaler_updates = self.updates
        self.unscaled = False
        fact["calls"] += 1
        fact["skipped"] += skipped
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0
        fact["in_a_row"] = max(fact["in_a_row"], self.skipped_in_a_row)
        if skipped:
            self.pending.clear()
            self.tell()

    def warnings(self) -> list[str]:
        """What leaves nothing to record: worth a word while training runs."""
        texts = {
            "cleared": "gradients are cleared before the optimizer steps: none are recorded, and nothing is learnt; "
                       "call zero_grad() before backward() or after step()",
            "detached": "no gradient reaches a parameter of the optimizer: none are recorded, and nothing is learnt; "
                        "is the loss detached, or backward() missing?",
        }
        return [text for key, text in texts.items() if self.facts.get(key, {}).get("count", 0) > 1]

    # ---- schedules ------------------------------------------------------------------------------

    @_guarded
    def scheduler_stepped(self, scheduler: Any) -> None:
        optimizer = getattr(scheduler, "optimizer", None)
        if optimizer is None or not self.has(optimizer):
            return
        rate = float(optimizer.param_groups[0]["lr"])
        fact = self.facts.setdefault("scheduler", {
            "kind": type(scheduler).__name__, "steps": 0, "early": 0, "since": self.step,
            "period": getattr(scheduler, "T_max", 0)})
        fact["steps"] += 1
        fact["updates"] = self.updates
        fact["early"] += self.updates == 0 and self.scaler_calls == 0
        fact["most"] = self.most_rate
        fact["rate"] = rate
        if "collapsed" not in fact and rate < 0.01 * self.most_rate:
            fact["collapsed"] = self.updates

    # ---- updates --------------------------------------------------------------------------------

    def has(self, optimizer: Any) -> bool:
        """Whether an optimizer has parameters of the model: those of another model are not ours."""
        known = self.optimizers.get(id(optimizer))
        if known is None or known[0]() is not optimizer or known[1] != len(optimizer.param_groups):
            ours = id(optimizer) in self.given or any(
                id(p) in self.ids for group in optimizer.param_groups for p in group["params"])
            known = [weakref.ref(optimizer), len(optimizer.param_groups), ours, known[3] if known else 0]
            self.optimizers[id(optimizer)] = known
        return known[2]

    def look_at_parameters(self) -> None:
        """The model may be another when its first update comes than when it was first seen."""
        ids = {id(p) for p in self.model.parameters()}
        if ids == self.ids and self.probes:
            return
        self.ids = ids
        self.optimizers.clear()
        self.named = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.never, self.still = dict(self.named), dict(self.named)
        self.facts["trainable"] = len(self.named)
        for _, handle in self.probes:
            handle.remove()
        self.probes = []
        names = list(self.named)
        for name in {*names[:: max(1, len(names) // 4)][:5], *names[-1:]}:
            p = self.named[name]
            if is_lazy(p):
                continue
            self.probes.append((p, p.register_hook(_Call(functools.partial(self.see_gradient, weakref.ref(p))))))

    @_guarded
    def see_gradient(self, reference: Any, gradient: torch.Tensor) -> None:
        p = reference()
        if p is None:
            return
        if p.grad is None or not bool(_local(p.grad).any()):
            self.cleared.add(id(p))
        self.reached = self.reached or bool(_local(gradient).any())

    @_guarded
    def before_update(self, optimizer: Any, *_: Any) -> None:
        if self.updates == 0:
            self.look_at_parameters()
        self.samples = []
        if self.updates < 4 * _FIRST and self.still and self.has(optimizer):
            rates = {id(p): float(group["lr"]) for group in optimizer.param_groups for p in group["params"]}
            self.samples = [(name, _some(p).clone(), rates[id(p)])
                            for name, p in self.still.items() if rates.get(id(p), 0.0) > 0]

    @_guarded
    def after_update(self, optimizer: Any, *_: Any) -> None:
        if not self.has(optimizer):
            return
        self.updates += 1
        self.facts["updates"] = self.updates
        self.optimizers[id(optimizer)][3] += 1
        self.unscaled = False
        if self.loader is None:
            self.see_loader()
        self.see_batches()
        if self.samples:
            self.see_changes()
        self.see_rates(optimizer)
        if self.never:
            self.never = {name: p for name, p in self.never.items() if p.grad is None}
        if self.kinds and not self.model.training:
            self.count("evaluating", kinds=self.kinds)
        close = self.updates <= _FIRST
        if close:
            self.see_gradients(optimizer)
        elif self.probes:
            for _, handle in self.probes:
                handle.remove()
            self.probes = []
        if close or self.updates % _LOOKS == 0:
            self.see_parameters()
            self.tell()

    def see_changes(self) -> None:
        """A parameter with a gradient that its rate makes visible has reason to change."""
        for name, before, rate in self.samples:
            p = self.still[name]
            if p.grad is None:
                continue
            if p.grad.is_sparse or not torch.equal(_some(p), before):
                del self.still[name]
            elif before.numel() and rate * float(_some(p.grad).abs().max()) > 1e-6 * float(before.abs().max()):
                self.stuck[name] = self.stuck.get(name, 0) + 1
        self.samples = []

    def see_rates(self, optimizer: Any) -> None:
        self.most_rate = max(self.most_rate, float(optimizer.param_groups[0]["lr"]))
        for i, group in enumerate(optimizer.param_groups):
            key = f"zero_rate_{i}"
            zero = float(group["lr"]) == 0 and any(p.requires_grad for p in group["params"])
            if zero or key in self.facts:
                fact = self.facts.setdefault(key, {"in_a_row": 0})
                fact["in_a_row"] = fact["in_a_row"] + 1 if zero else 0
                fact["of"] = self.optimizers[id(optimizer)][3]

    def see_gradients(self, optimizer: Any) -> None:
        mine = [p for group in optimizer.param_groups for p in group["params"]
                if p.requires_grad and id(p) in self.ids]
        if not mine:
            return
        if all(p.grad is None for p in mine):
            self.count("cleared" if self.reached else "detached")
        elif self.reached and not any(bool(_local(p.grad).any()) for p in mine if p.grad is not None):
            self.count("cleared")
        if self.updates > 1 and self.reached:
            ours = {id(p) for p in mine}
            kept = [p for p, _ in self.probes if id(p) in ours and p.grad is not None and id(p) not in self.cleared]
            if any(bool(_local(p.grad).any()) for p in kept):
                self.count("added_up")
        self.cleared -= {id(p) for p in mine}
        self.reached = False

    def see_parameters(self) -> None:
        """Which there are, which were left out, whether they are still the same."""
        have: dict[int, torch.nn.Parameter] = {}
        for reference, _, ours, _ in self.optimizers.values():
            optimizer = reference()
            if ours and optimizer is not None:
                have.update((id(p), p) for group in optimizer.param_groups for p in group["params"])
        now = dict(self.model.named_parameters())
        inside = {id(p) for p in now.values()}
        self.name_all("without_gradient", self.never)
        self.name_all("unchanged", [name for name, times in self.stuck.items() if name in self.still and times > 1])
        outside = [name for name, p in now.items() if p.requires_grad and id(p) not in have]
        self.name_all("without_optimizer", outside)
        if outside:  # a head that is trained alone comes after the rest
            trained = [p.requires_grad and id(p) in have for p in now.values()]
            self.facts["without_optimizer"]["leading"] = not any(trained[: list(now).index(outside[-1])])
            self.facts["without_optimizer"]["unused"] = all(name in self.never for name in outside)
        self.facts["strangers"] = sum(i not in inside and p.grad is None for i, p in have.items())
        self.see_ties()
        if _is_power(self.updates):
            parts = b"".join(_bytes(_some(p)) for p in now.values() if not is_lazy(p))
            self.facts.setdefault("fingerprints", {})[str(self.step)] = _digest(parts)

    def name_all(self, key: str, names: Any) -> None:
        if names:
            self.facts[key] = {"count": len(names), "names": list(itertools.islice(names, _NAMES))}
        else:
            self.facts.pop(key, None)

    def see_ties(self) -> None:
        if not self.ties and not self.copies:
            return
        now = dict(self.model.named_parameters(remove_duplicate=False))
        apart = [(a, b) for a, b in self.ties + self.copies if a in now and b in now and now[a] is not now[b]]
        shared = [(a, b) for a, b in apart if _local(now[a]).data_ptr() == _local(now[b]).data_ptr()]
        broken = [(a, b) for a, b in apart if (a, b) in shared or not torch.equal(_local(now[a]), _local(now[b]))]
        if broken:
            fact = self.facts.setdefault("untied", {"since": self.step})
            fact["names"] = [list(pair) for pair in broken[:_NAMES]]
            fact["shared"] = len(shared)


_normal = torch.nn.modules.batchnorm._BatchNorm


def _is_modal(module: torch.nn.Module) -> bool:
    """Whether it does something else in training than in evaluation."""
    if isinstance(module, torch.nn.modules.dropout._DropoutNd):
        return module.p > 0
    if isinstance(module, torch.nn.MultiheadAttention):
        return module.dropout > 0
    return isinstance(module, _normal) and module.track_running_stats


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.device == b.device and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


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
            kind.append((f"{name}.weight" if name else "weight", weight, _local(weight.detach())))
    return [(a, b) for a, p, x in tables for b, q, y in linears
            if p is not q and x.shape == y.shape and x.numel() > 1 and x.device == y.device
            and torch.equal(x[0], y[0]) and torch.equal(x, y) and float(x.std()) > 0]


# ---- What loops are told of: functions and methods of torch, for as long as a loop listens ------------------------

_replaced: list[tuple[Any, str, Any]] = []


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    plain = vars(owner).get(name)
    if plain is None:
        return
    made = functools.wraps(plain)(make(plain))
    made.__prepare_scriptable__ = lambda: plain  # TorchScript compiles what is behind it
    owners = [owner]
    if not isinstance(owner, type):  # a function that others imported
        owners += [m for m in list(sys.modules.values()) if m is not owner and getattr(m, "__dict__", {}).get(name) is plain]
    for each in owners:
        setattr(each, name, made)
        _replaced.append((each, name, plain))


def _forget() -> None:
    """Puts back what was replaced, when nobody listens."""
    if not _loops:
        while _replaced:
            owner, name, plain = _replaced.pop()
            setattr(owner, name, plain)


def _listen() -> None:
    if _replaced:
        return
    for kind in ("norm", "value"):
        _replace(torch.nn.utils.clip_grad, f"clip_grad_{kind}_", functools.partial(_clip, kind))
    for name in _LOSSES:
        _replace(functional, name, _loss)
    _replace(DataLoader, "__iter__", _iterate)
    for kind in _schedulers(lr_scheduler.LRScheduler):
        _replace(kind, "step", _schedule)
    scaler = getattr(torch.amp, "GradScaler", None)
    if scaler is not None:
        _replace(scaler, "unscale_", _unscale)
        _replace(scaler, "step", _scaler_step)


def _schedulers(kind: type) -> Iterator[type]:
    yield kind
    for other in kind.__subclasses__():
        yield from _schedulers(other)


def _clip(kind: str, plain: Any) -> Any:
    def call(parameters: Any, limit: Any = None, *rest: Any, **named: Any) -> Any:
        if limit is None:
            limit = named.pop("max_norm", named.pop("clip_value", None))
        if isinstance(parameters, torch.Tensor):
            parameters = [parameters]
        parameters = list(parameters)
        result = plain(parameters, limit, *rest, **named)
        if not torch.compiler.is_compiling():
            for loop in list(_loops):
                loop.see_clip(kind, float(limit), result, parameters)
        return result

    return call


def _loss(plain: Any) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        if not torch.compiler.is_compiling():
            target = arguments[1] if len(arguments) > 1 else named.get("target")
            for loop in list(_loops):
                if loop.follows_labels:
                    loop.see_loss(target)
        return plain(*arguments, **named)

    return call


def _iterate(plain: Any) -> Any:
    def __iter__(self: Any) -> Any:
        for loop in list(_loops):
            loop.loader_started(self)
        return plain(self)

    return __iter__


_depth = 0


def _schedule(plain: Any) -> Any:
    def step(self: Any, *arguments: Any, **named: Any) -> Any:
        global _depth
        begins = vars(self).get("_step_count", 1) == 0  # a scheduler's constructor steps too
        _depth += 1
        try:
            return plain(self, *arguments, **named)
        finally:
            _depth -= 1
            if _depth == 0 and not begins:  # schedulers within schedulers are one
                for loop in list(_loops):
                    loop.scheduler_stepped(self)

    return step


def _unscale(plain: Any) -> Any:
    def unscale_(self: Any, optimizer: Any) -> Any:
        for loop in list(_loops):
            if loop.has(optimizer):
                loop.unscaled = True
        return plain(self, optimizer)

    return unscale_


def _scaler_step(plain: Any) -> Any:
    def step(self: Any, optimizer: Any, *arguments: Any, **named: Any) -> Any:
        for loop in list(_loops):
            loop.scaler_calls += 1
        result = plain(self, optimizer, *arguments, **named)
        for loop in list(_loops):
            if self.is_enabled():
                loop.scaler_stepped(optimizer)
        return result

    return step
