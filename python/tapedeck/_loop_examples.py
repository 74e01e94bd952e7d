"""Facts about a loop's examples: whether neighbours have the same class or a like value, whether validation examples are training examples, and
which classes the model says for validation examples of each label."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from . import _loop_data, _observe
from ._fingerprint import sample
from ._loop_batches import all_tensors, first_tensor, largest_input

_BATCHES = 16  # within which neighbours are compared
_UPDATES = 64  # in which training examples are collected
_PICTURES = 128  # with a target for each place
_PLACES = 1024  # of one
_TOKENS = 4096  # of sequences with a label for each place
_SCALED_VALIDATIONS = 4  # whose inputs are measured
_FEW = 32  # numbers, of which there is no deviation to speak of
_VALIDATED = 1024  # examples of one validation that are looked at
_VALIDATIONS = 256  # after which there is nothing new to see


def _is_small(tensor: Any) -> bool:
    """A tensor that can be read without much waiting."""
    return isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not hasattr(tensor, "_local_tensor") \
        and tensor.device.type in ("cpu", "cuda")


def _places_of(batch: torch.Tensor, target: torch.Tensor) -> tuple[numpy.ndarray, numpy.ndarray] | None:
    """Inputs with channels, and a target for each place; None: there are others."""
    if batch.dim() < 3 or not batch.is_cpu or target.dtype is torch.bfloat16 or len(target) != len(batch):
        return None
    has_channels = target.dim() == batch.dim()
    if (target.shape[2:] if has_channels else target.shape[1:]) != batch.shape[2:]:
        return None
    numbers = batch.detach().float().flatten(2)
    targets = target.detach().float()
    targets = targets.mean(1).flatten(1) if has_channels else targets.flatten(1)
    stride = numbers.shape[2] // _PLACES | 1
    return numbers[:, :, ::stride].numpy(), targets[:, ::stride].numpy()


def _rows_of(examples: torch.Tensor) -> numpy.ndarray:
    return _loop_data.flat_rows(examples.float().numpy()) if examples.is_floating_point() else _loop_data.bag_of_words(examples.numpy())


class Examples:
    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.rows: list[numpy.ndarray] = []  # of training, until there are enough
        self.targets: list[numpy.ndarray] = []  # their classes or values
        self.has_values: bool | None = None
        self.has_tokens = False  # sequences with a label for each place
        self.known: set[int] = set()  # examples that are there: they come again in every epoch
        self.count = 0
        self.within: list[tuple[float, float]] = []  # batches: how often neighbours agree, and by chance
        self.is_open = True
        self.is_validating = False
        self.validations = 0
        self.left = 0  # examples of this validation that are still looked at
        self.said = _loop_data.Predictions()
        self.copies = {"rows": 0, "copies": 0}
        self.is_whole = False  # examples are whole numbers, as words are
        self.seen: set[int] = set()
        self.twice = 0  # validation examples that this validation had before
        self.batches = {"none": 0, "all": 0, "some": 0}
        self.listener = loop.guard(self.see_loss)

    def stop(self) -> None:
        self.rows, self.targets = [], []
        self.is_open = False
        if self.is_validating:
            self.is_validating = False
            _observe.losses.remove(self.listener)

    # ---- training ----------------------------------------------------------------------------------

    def see_training(self, batch: torch.Tensor, target: torch.Tensor) -> None:
        """Examples of the first batches, with the class or value of each."""
        if not self.is_open:
            return
        is_tokens = not batch.is_floating_point()
        if is_tokens and batch.is_cpu and batch.dim() == 2 and target.numel() == batch.numel() and not target.is_floating_point():
            self.see_tokens(batch, target.detach().reshape(batch.shape))
            return
        if not is_tokens and (places := _places_of(batch, target)) is not None:
            self.see_places(*places)
            return
        inputs = [each for each in all_tensors(self.loop.setup.arguments) if each.dim() > 1 and each.shape[0] == batch.shape[0]]
        if not batch.is_cpu or batch.dim() < 2 or target.shape[0] != batch.shape[0] or "inputs" in self.loop.facts \
                or not any(map(_loop_data.is_told_apart, inputs)):
            self.is_open = False
            return
        targets = self.targets_of(target.detach().numpy()) if target.dtype is not torch.bfloat16 else None
        if targets is None or (self.has_values and not any(each.is_floating_point() for each in inputs)):
            self.is_open = False
            return
        rows = numpy.concatenate([_rows_of(each.detach()[: _loop_data.EXAMPLES]) for each in inputs], 1)
        marks = _loop_data.digests(rows)
        if not self.has_values and len(self.within) < _BATCHES and (found := _loop_data.agreement_in_batch(rows, targets)):
            self.within.append(found)
        new = self.new_ones(marks)
        self.rows.append(rows[new])
        self.targets.append(targets[new])
        self.count += len(new)
        if self.count >= _loop_data.EXAMPLES or self.loop.updates >= _UPDATES:
            self.write_neighbours()

    def new_ones(self, marks: list[int]) -> list[int]:
        """Places of the examples that were not seen before."""
        new = [i for i, mark in enumerate(marks) if mark not in self.known and mark not in marks[:i]]
        self.known.update(marks)
        return new

    def see_places(self, inputs: numpy.ndarray, targets: numpy.ndarray) -> None:
        self.rows.append(inputs)
        self.targets.append(targets)
        self.count += len(inputs)
        if self.count >= _PICTURES or self.loop.updates >= _UPDATES:
            self.write_neighbours()

    def see_tokens(self, batch: torch.Tensor, target: torch.Tensor) -> None:
        """Sequences with a label for each place, and no other sequences that labels could depend on."""
        others = [each for each in all_tensors(self.loop.setup.arguments) if each.dim() > 1 and not each.is_floating_point()
                  and each.dtype is not torch.bool and each.data_ptr() != batch.data_ptr()]
        if any(each.numel() != target.numel() or not torch.equal(each.reshape(target.shape), target) for each in others):
            self.is_open = False
            return
        self.has_tokens = True
        rows = batch.detach().numpy()
        new = self.new_ones(_loop_data.digests(rows))
        self.rows.append(rows[new])
        self.targets.append(target.numpy()[new])
        self.count += len(new) * batch.shape[1]
        if self.count >= _TOKENS or self.loop.updates >= _UPDATES:
            self.write_neighbours()

    def targets_of(self, target: numpy.ndarray) -> numpy.ndarray | None:
        """Classes, or values, whichever the first batch has; None: it has something else."""
        classes, values = _loop_data.classes_of(target), _loop_data.values_of(target)
        if self.has_values is None:
            self.has_values = values is not None
        if self.has_values:
            return values
        if classes is None or len(numpy.unique(classes)) == len(classes) > 2:  # places in the batch, as contrastive losses have them
            return None
        return classes

    def write_neighbours(self) -> None:
        rows, targets, self.rows, self.targets, self.is_open = self.rows, self.targets, [], [], False
        self.known = set()
        if self.has_tokens and rows:  # batches are as wide as their longest sequence
            width = max(part.shape[1] for part in rows)
            rows, targets = ([numpy.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=fill) for part in parts]
                             for parts, fill in ((rows, 0), (targets, -1)))
        if rows and len({part.shape[1:] for part in rows}) == 1:
            fact, measure = (("place_dependence", _loop_data.place_dependence) if rows[0].ndim == 3 else
                             ("token_dependence", _loop_data.token_dependence) if self.has_tokens else
                             ("dependence", _loop_data.dependence) if self.has_values else ("neighbours", _loop_data.agreement))
            found = measure(numpy.concatenate(rows), numpy.concatenate(targets))
            if found is not None:
                self.loop.facts[fact] = found
        if self.within:
            same, chance = (float(numpy.mean(values)) for values in zip(*self.within))
            self.loop.facts["batch_neighbours"] = {"batches": len(self.within), "same": same, "chance": chance}

    # ---- validation --------------------------------------------------------------------------------

    def see_validation(self, arguments: Any) -> None:
        """A pass without gradients, in evaluation mode."""
        batch = first_tensor(arguments)
        if not self.is_validating:
            if self.validations >= _VALIDATIONS:
                return
            self.validations += 1
            self.is_validating, self.left = True, _VALIDATED
            self.said = _loop_data.Predictions()
            self.seen, self.twice = set(), 0
            self.copies = {"rows": 0, "copies": 0}
            self.batches = {"none": 0, "all": 0, "some": 0}
            _observe.losses.add(self.listener)
        self.see_scale(arguments)
        if batch is not None and self.left > 0 and _is_small(batch) and batch.is_cpu and _loop_data.is_told_apart(batch):
            self.see_copies(batch)
            self.left -= batch.shape[0]

    def see_scale(self, arguments: Any) -> None:
        """How large validation inputs are, beside those of training."""
        known = self.loop.facts.get("input")
        if known is None or self.validations > _SCALED_VALIDATIONS or (values := largest_input(arguments)) is None \
                or list(values.shape[1:]) != known["shape"]:
            return
        some = sample(values).double()
        if len(some) < _FEW or not bool(torch.isfinite(some).all()):
            return
        fact = self.loop.facts.setdefault("validation_input", {"batches": 0, "mean": 0.0, "deviation": 0.0})
        count = fact["batches"]
        for key, value in (("mean", float(some.mean())), ("deviation", float(some.std()))):
            fact[key] = (fact[key] * count + value) / (count + 1)
        fact["batches"] = count + 1

    def see_copies(self, batch: torch.Tensor) -> None:
        self.is_whole = not batch.is_floating_point()
        marks = self.loop.labels.marks_of(batch[:_VALIDATED])
        known = sum(mark in self.loop.labels.pairs for mark in marks)
        self.twice += len(marks) - len(set(marks) - self.seen)
        self.seen.update(marks)
        self.copies["rows"] += len(marks)
        self.copies["copies"] += known
        if marks:
            self.batches["none" if known == 0 else "all" if known == len(marks) else "some"] += 1

    def see_loss(self, outputs: Any, target: Any) -> None:
        """A cross-entropy that is computed without gradients."""
        if torch.is_grad_enabled() or not _is_small(outputs) or not _is_small(target) or outputs.dim() != 2 \
                or target.dim() != 1 or target.is_floating_point() or target.shape[0] != outputs.shape[0] \
                or outputs.shape[0] > 4 * _VALIDATED or target.numel() == 0:
            return
        self.said.add(outputs.detach().float().cpu().numpy(), target.detach().cpu().numpy())

    def end_validation(self) -> None:
        """Training goes on."""
        if not self.is_validating:
            return
        self.is_validating = False
        _observe.losses.remove(self.listener)
        facts = self.loop.facts
        if found := self.said.facts():
            facts["said_of_validation"] = found
        rows = self.copies["rows"]
        if rows and facts.get("labels", {}).get("again"):  # all training examples have been there
            facts["copies"] = self.copies | {"whole": self.is_whole, "within": self.twice / rows, "apart": bool(self.batches["none"] and self.batches["all"]
                                                                                        and not self.batches["some"])}
