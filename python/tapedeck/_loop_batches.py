"""Facts about a loop's data: its batches, its data loader, and whether examples keep their labels."""

from __future__ import annotations

import weakref
from typing import Any

import numpy
import torch
from torch.utils.data import IterableDataset

from . import _fingerprint, _loop_data, _loop_target

_PENDING = 16  # batches of one update whose fingerprints are taken
_COLUMNS = 256  # elements of an example that it is recognised by
_EXAMPLES = 1024  # whose label is remembered
_UPDATES_WITH_LABELS = 20000  # until labels are no longer followed
_UPDATES_WITHOUT_EXAMPLES = 16  # the same, when there is nothing to follow
_REPEATED_EXAMPLES = 64  # that decide whether examples keep their labels
_normal = torch.nn.modules.batchnorm._BatchNorm


def first_tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value if value.layout is torch.strided else None  # rows of others cannot be read
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return None
    return next((found for found in map(first_tensor, value) if found is not None), None)


def all_tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value] if value.layout is torch.strided else []
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [found for each in values for found in all_tensors(each)]


def largest_input(arguments: Any) -> torch.Tensor | None:
    """Of the arguments of a call, numbers that are not whole: those of the largest root mean square. Two different numbers are a mask, and
    what has another number of rows is no input of the examples."""
    tensors = all_tensors(arguments)
    found = [(each.detach(), _fingerprint.sample(each)) for each in tensors
             if each.is_floating_point() and each.is_cpu and each.dim() > 1 and each.numel() and each.layout is torch.strided
             and each.shape[0] == tensors[0].shape[0]]
    sizes = [(float(some.double().square().mean()), each) for each, some in found if len(found) == 1 or some.unique().numel() > 2]
    return max(sizes, key=lambda size: size[0])[1] if sizes else None


class Batches:
    """The first argument of the model's calls, and the loader that it comes from."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.pending: list[tuple[bool, int, int]] = []  # batches since the last update: mode, fingerprint, size
        self.last: torch.Tensor | None = None  # of them
        self.last_before: torch.Tensor | None = None  # of the update before
        self.prints_before: set[int] = set()
        self.prints: dict[int, int] = {}  # fingerprints of this epoch, and how often each came
        self.opened: Any = None  # a weak reference to the loader that was begun last
        self.loader: Any = None  # the one that training reads
        self.updates_of_loader = 0  # since it was begun

    def stop(self) -> None:
        self.last = self.last_before = None

    def before_forward(self, arguments: Any, named: Any) -> None:
        loop = self.loop
        if not (loop.is_close or loop.labels.follows or loop.setup.needs_backward):
            return
        batch = first_tensor((arguments, named))
        if batch is None or batch.dim() == 0:
            return
        loop.passes += 1
        loop.labels.see_batch(batch)
        loop.setup.see_batch(batch, (arguments, named))
        if loop.is_close:
            self.last = batch.detach()
            if len(self.pending) < _PENDING:
                self.pending.append((loop.model.training, _fingerprint.of_batch(batch), batch.shape[0]))

    def after_update(self) -> None:
        """Looks at the batches that the update was made of."""
        loop = self.loop
        if self.loader is None:
            self.see_loader()
        self.updates_of_loader += 1
        training = loop.model.training
        batches = [(mark, size) for mode, mark, size in self.pending if mode == training]
        self.pending.clear()
        before, batch = self.last_before, self.last
        self.last, self.last_before = None, batch
        if not batches or batch is None or loop.updates > _PENDING:
            self.last_before, self.prints_before = None, set()
            return
        fact = loop.facts.setdefault("batches", {"updates": 0, "passes": 0, "ones": 0, "repeated": 0, "copies": 0})
        fact["updates"] += 1
        fact["passes"] += len(batches)
        if training and any(isinstance(m, _normal) and m.training for m in loop.model.modules()):
            fact["ones"] += sum(size == 1 for _, size in batches)
        prints = {mark for mark, _ in batches}
        if prints == self.prints_before:
            fact.setdefault("since", loop.step)
            fact["repeated"] += 1
            fact["copies"] += not _same_memory(before, batch)
        self.prints_before = prints
        for mark in prints:
            self.prints[mark] = self.prints.get(mark, 0) + 1
        again = sum(self.prints.values()) - len(self.prints)
        if again > fact.get("again", 0):
            fact["again"], fact["among"] = again, sum(self.prints.values())
        if loop.updates & (loop.updates - 1) == 0:
            loop.facts.setdefault("batch_fingerprints", {})[str(loop.step)] = min(prints)

    def loader_started(self, loader: Any) -> None:
        if self.loader is not None and self.loader() is loader and self.updates_of_loader > 1:
            self.updates_of_loader = 0
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
        self.loop.facts["loader"] = {"batches": batches, "workers": loader.num_workers,
                                     "stream": isinstance(loader.dataset, IterableDataset)}


class Labels:
    """Whether an example keeps its label. The same eighth of the examples is followed in every epoch, and less of many."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.follows = True
        self.batch: torch.Tensor | None = None
        self.pairs: dict[int, tuple[int, int, float]] = {}  # an example's label, the update in which it was seen, its key
        self.labels: set[int] = set()
        self.is_full = False
        self.threshold: float | None = None  # examples with smaller keys are followed

    def stop(self) -> None:
        self.follows = False
        self.batch = None

    def see_batch(self, batch: torch.Tensor) -> None:
        if self.follows:
            self.batch = batch.detach()

    def after_update(self) -> None:
        if self.follows:
            again = self.loop.facts.get("labels", {"again": 0})["again"]
            limit = _UPDATES_WITH_LABELS if self.pairs else _UPDATES_WITHOUT_EXAMPLES
            if again >= _REPEATED_EXAMPLES or self.loop.updates >= limit:
                self.stop()

    def before_backward(self, losses: Any, passes: int) -> None:
        """`passes`: of the model since the last backward pass."""
        batch, self.batch = self.batch, None
        if batch is None or passes != 1 or "inputs" in self.loop.facts:  # it is not known which one a target belongs to
            return
        if not batch.is_floating_point() and not _loop_data.is_told_apart(batch):  # users and items: negative examples are drawn of them
            return
        followed = self.followed(batch) if self.pairs and batch.is_cpu else None
        if followed == []:
            return
        target = _loop_target.find(losses)
        if not (batch.is_cpu and target is not None and target.is_cpu and target.dim() > 0
                and target.shape[0] == batch.shape[0] > 1):
            return
        target = target.detach()
        if target.dim() == 1 and not target.is_floating_point() and \
                torch.equal(target, torch.arange(len(target), dtype=target.dtype)):
            return  # places in the batch, as contrastive losses have them
        self.compare(self.followed(batch) if followed is None else followed, target)

    def followed(self, batch: torch.Tensor) -> list[tuple[int, int, float]]:
        """Examples of a batch that belong to the eighth: their rows, fingerprints and keys."""
        columns = _fingerprint.spread(batch.reshape(len(batch), -1), _COLUMNS)
        sums = columns.sum(1, dtype=torch.float64)
        if self.threshold is None:
            self.threshold = float(sums.kthvalue(min(len(sums), max(4, len(sums) // 8))).values)
        keys = sums.numpy()
        found = numpy.flatnonzero(keys <= self.threshold).tolist()
        return [(i, _fingerprint.digest(data), float(keys[i])) for i, data in zip(found, _fingerprint.bytes_of_rows(columns, found))]

    def marks_of(self, batch: torch.Tensor) -> list[int]:
        """Fingerprints of other examples that would be followed; none before training has begun."""
        return [mark for _, mark, _ in self.followed(batch.detach())] if self.pairs else []

    def compare(self, followed: list[tuple[int, int, float]], target: torch.Tensor) -> None:
        loop = self.loop
        fact = loop.facts.setdefault("labels", {"again": 0, "changed": 0})
        labels = _fingerprint.bytes_of_rows(target, [i for i, _, _ in followed])
        for (_, example, key), label in zip(followed, map(_fingerprint.digest, labels)):
            known, seen, _ = self.pairs.get(example, (None, 0, 0.0))
            if known is None:
                if not self.is_full:
                    self.pairs[example] = label, loop.updates, key
                    self.labels.add(label)
            elif loop.updates - seen > 2:  # adversaries call the same example true and false within one update
                fact["again"] += 1
                if known != label and label in self.labels:  # another example's; a target that moves is a new one
                    fact.setdefault("since", loop.step)
                    fact["changed"] += 1
        if len(self.pairs) > _EXAMPLES and not self.is_full:  # of many examples, a smaller share: those with the smallest keys
            self.threshold = sorted(key for _, _, key in self.pairs.values())[len(self.pairs) // 2]
            self.pairs = {example: pair for example, pair in self.pairs.items() if pair[2] <= self.threshold}
            self.is_full = len(self.pairs) > _EXAMPLES  # their keys are equal


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.device == b.device and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
