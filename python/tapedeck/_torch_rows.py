"""loss.rows of a PyTorch loop: the loss of each example, where the loss is one of torch's.

The node of a loss function in the graph keeps what it was computed from, whatever name it was called by and however it was
reduced (https://pytorch.org/docs/stable/notes/autograd.html#saved-tensors). Which rows of the data set they are is what a
DataLoader's sampler has drawn.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import torch
import torch.nn.functional as F

from . import _observe
from ._loop_head import _find_losses, _follow, _roots, kind_of

_PASSING = {"DivBackward", "MulBackward", "ViewBackward", "AliasBackward", "ToCopyBackward"}  # a loss that is only scaled


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _nll(node: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    ignored, target = _signed(node._saved_ignore_index), node._saved_target
    losses = F.nll_loss(node._saved_self, target, node._saved_weight, ignore_index=ignored, reduction="none")
    return losses, target != ignored


def _plain(function: Any, *names: str) -> Any:
    def compute(node: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        more = {name: getattr(node, f"_saved_{name}") for name in names}
        return function(node._saved_self, node._saved_target, reduction="none", **more), None

    return compute


_LOSSES = {
    "NllLossBackward": _nll, "NllLoss2DBackward": _nll, "MseLossBackward": _plain(F.mse_loss),
    "SmoothL1LossBackward": _plain(F.smooth_l1_loss, "beta"), "HuberLossBackward": _plain(F.huber_loss, "delta"),
    "BinaryCrossEntropyBackward": _plain(F.binary_cross_entropy, "weight"),
    "BinaryCrossEntropyWithLogitsBackward": _plain(F.binary_cross_entropy_with_logits, "weight", "pos_weight"),
}


def _examples_of(node: Any, count: int) -> int:
    """How many examples the rows of a loss belong to: of positions that were flattened, (batch * steps, classes), those of
    the tensor before."""
    before = node.next_functions[0][0] if node.next_functions else None
    before = _follow(before, {"LogSoftmaxBackward", "ToCopyBackward"})
    for _ in range(4):
        sizes = getattr(before, "_saved_self_sym_sizes", None)
        if sizes is None or kind_of(before) not in ("ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward"):
            break
        if len(sizes) > 2 and count == int(torch.tensor(sizes[:-1]).prod()):
            return int(sizes[0])
        before = before.next_functions[0][0]
    return count


def _row_means(losses: torch.Tensor, counts: torch.Tensor | None, examples: int) -> torch.Tensor:
    losses = losses.reshape(examples, -1).double()
    if counts is None:
        return losses.mean(1).float()
    counts = counts.reshape(examples, -1)
    return (torch.where(counts, losses, 0).sum(1) / counts.sum(1)).float()


class RowNumbers:
    """What samplers have drawn, by the iterator of a loader; batches come in the order of the draws."""

    def __init__(self) -> None:
        self.drawn: "weakref.WeakKeyDictionary[Any, deque]" = weakref.WeakKeyDictionary()
        self.current: deque = deque(maxlen=4)  # iterator and rows of the batches that were handed out since the last update
        self.listens = False

    def listen(self, needed: bool) -> None:
        if needed != self.listens:
            (_observe.indices.add if needed else _observe.indices.remove)(self.see)
            self.listens = needed

    def see(self, event: str, iterator: Any, value: Any) -> None:
        if event == "draw":
            if iterator in self.drawn or iterator._num_yielded == 0:
                self.drawn.setdefault(iterator, deque()).append(value)
        elif event == "next" and (self.drawn.get(iterator)):
            self.current.append((id(iterator), self.drawn[iterator].popleft()))
        elif event == "reset":
            self.drawn.pop(iterator, None)

    def take(self, count: int) -> list[int] | None:
        """Of the batch that was handed out last; None where several loaders take part."""
        rows = self.current[-1][1] if len({iterator for iterator, _ in self.current}) == 1 else None
        good = isinstance(rows, (list, tuple)) and len(rows) == count and all(type(row) is int for row in rows)
        return list(rows) if good else None


class LossRows:
    """Of one model."""

    def __init__(self, watcher: Any) -> None:
        self.watcher = watcher
        self.signal = watcher.declare(f"{watcher.prefix}loss.rows", kind="derived", batched=True)
        self.numbers = RowNumbers()
        self.listens = False
        self.serial = -1

    def open_step(self, due: bool) -> None:
        self.numbers.listen(getattr(self.watcher.deck, "_names_rows", False) and not self.watcher.finished)
        # Asking whether a signal is wanted begins the step, and an end_epoch() that follows would come too late.
        needed = due and (self.watcher.deck._by_epoch or self.signal.wants())
        if needed != self.listens:
            (_observe.backward.add if needed else _observe.backward.remove)(self.see)
            self.listens = needed

    def before_update(self) -> None:
        pass

    def finish(self) -> None:
        self.open_step(False)
        self.numbers.listen(False)

    def number(self, examples: int) -> None:
        """The rows of the first batch of a step."""
        numbers = self.numbers.take(examples)
        if numbers is not None and not getattr(self.watcher.deck, "_rows_given", False):
            self.watcher.deck._native.batch(torch.tensor(numbers, dtype=torch.int64).numpy())

    def see(self, losses: Any) -> None:
        watcher = self.watcher
        if (self.serial != watcher.serial or watcher.merges) and self.signal.wants():
            watcher.guard("loss.rows", self._record, losses, self.serial == watcher.serial)

    def _record(self, losses: Any, more: bool) -> None:
        roots = _roots(losses)
        found = [node for node in _find_losses(roots) if kind_of(node) in _LOSSES] if len(roots) == 1 else []
        if len(found) != 1:
            self.watcher.warn_once("loss_rows", "loss.rows is not recorded: " + (
                "the loss has several of torch's loss functions" if found else "no loss function of torch's is in the loss's graph"))
            return
        node = found[0]
        if _follow(roots[0], _PASSING) is not node:
            self.watcher.note_once("loss_rows", "loss.rows are those of the loss function alone: other terms are added to it")
        self.serial = self.watcher.serial
        with torch.no_grad():
            values, counts = _LOSSES[kind_of(node)](node)
            examples = _examples_of(node, len(values)) if values.dim() == 1 else len(values)
            rows = _row_means(values, counts, examples)
        if not more:
            self.number(examples)
        self.watcher.put(self.signal, rows, more)
