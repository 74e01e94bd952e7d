"""The target of a loss, for facts about a loop: what a loss function of PyTorch keeps, or what a loss that is written by hand, or made of
simple functions as `l1_loss` is, compares the output of the last layer with. Read from the graph of the loss."""

from __future__ import annotations

import math
from typing import Any

import torch

from . import _observe
from ._loop_head import _ELEMENTWISE, _LINEAR, _VIEWS, _inputs, _is_between, _roots, _shape, _skip, _weight, is_padding, kept, kind_of, reading, walk

_NODES = 64
_CHOICES = 256  # of a batch
_RESHAPED = {"ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward", "SqueezeBackward", "UnsqueezeBackward", "CloneBackward", "AliasBackward"}
_LEVELS = 1 << 16  # of a target that is computed from a difference: its last bits are those of the difference


def find(losses: Any) -> torch.Tensor | None:
    kept = _observe.target_of(losses)
    if kept is not None:
        return kept
    for node in walk(_roots(losses), _is_between, _NODES):
        found = _subtracted(node) if kind_of(node) in ("AbsBackward", "PowBackward", "MaximumBackward") else _multiplied(node)
        if found is not None:
            return found
    return _gathered(losses)


def _gathered(losses: Any) -> torch.Tensor | None:
    """Of a loss that reads one score for each example or place, by gather() or an index, which one."""
    node = next((found for found in map(reading, _roots(losses)) if found is not None), None)
    if node is None:
        return None
    if kind_of(node) == "GatherBackward":
        index, axis = node._saved_index, _signed(node._saved_dim)
        return index.squeeze(axis) if index.dim() > 1 and index.shape[axis] == 1 else None
    indices = [each for each in node._saved_indices if isinstance(each, torch.Tensor)]
    is_each = len(indices) == 2 and indices[0].dim() == indices[1].dim() == 1 and not indices[0].is_floating_point() \
        and torch.equal(indices[0].cpu(), torch.arange(len(indices[0])))
    return indices[1] if is_each else None


def is_of_choices(losses: Any) -> bool:
    """Whether what was chosen is multiplied by how good it was, as policies learn: by numbers of both signs, or by others where the same
    choice is read. Such a loss need not fall."""
    for node in walk(_roots(losses), _is_between, _NODES):
        graphs = [each for each in _inputs(node) if each is not None]
        if kind_of(node) == "MulBackward" and len(graphs) == 1:
            weights = kept(node, "self" if _inputs(node)[0] is None else "other")
            if weights is not None and weights.numel() > 1 and not is_padding(weights) and _weighs_choices(weights, graphs[0]):
                return True
    return False


def _weighs_choices(weights: torch.Tensor, node: Any) -> bool:
    if float(weights.min()) < 0 < float(weights.max()) and kind_of(_skip(node)) not in _LINEAR:
        return weights.numel() == math.prod(_shape(node))
    index = _index_below(node)
    if index is None or index.numel() != weights.numel():
        return False
    by_choice: dict[int, float] = {}
    return any(by_choice.setdefault(int(choice), weight) != weight for choice, weight in
               zip(index.flatten()[:_CHOICES].tolist(), weights.flatten()[:_CHOICES].tolist()))


def _index_below(node: Any) -> torch.Tensor | None:
    for _ in range(_NODES):
        kind = kind_of(node) if node is not None else ""
        if kind == "GatherBackward":
            return node._saved_index
        if kind == "IndexBackward":
            return next((each for each in reversed(node._saved_indices) if isinstance(each, torch.Tensor) and not each.is_floating_point()), None)
        if kind not in _ELEMENTWISE | _VIEWS:
            return None
        node = next((each for each in _inputs(node) if each is not None), None)
    return None


def _output(node: Any, place: int = 0) -> torch.Tensor | None:
    """What the layer put out that `node` is, or some columns of."""
    kind = kind_of(node)
    if kind == "AddmmBackward":
        first, weight, bias = kept(node, "mat1"), _weight(node), _inputs(node)[0]
        is_plain = first is not None and weight is not None and hasattr(bias, "variable") and weight.shape[1] == first.shape[1]
        return torch.addmm(bias.variable.detach().to(first.dtype), first, weight.detach().t().to(first.dtype)) if is_plain else None
    if kind in ("SigmoidBackward", "TanhBackward", "ReluBackward", "SoftplusBackward"):
        return kept(node, "result")
    if kind not in {"SelectBackward", "SplitBackward"} | _RESHAPED:
        return None
    whole = _output(*node.next_functions[0])
    if whole is None or kind in _RESHAPED:
        return None if whole is None else whole.reshape(_shape(node))
    if kind == "SelectBackward":
        return whole.select(_signed(node._saved_dim), _signed(node._saved_index))
    return whole.split(node._saved_split_size, _signed(node._saved_dim))[place]


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _factor(node: Any) -> tuple[Any, Any]:
    """The node that is multiplied by a number, or by one for each column, and what it is multiplied by."""
    if kind_of(node) != "MulBackward" or sum(each is not None for each in _inputs(node)) != 1:
        return node, 1.0
    left, right = _inputs(node)
    other = kept(node, "self" if left is None else "other")
    is_plain = other is not None and (other.numel() == 1 or other.dim() == 1) and bool((other != 0).all())
    return (right if left is None else left, other) if is_plain else (node, 1.0)


def _subtracted(node: Any) -> torch.Tensor | None:
    """Of a function of output minus target, the target."""
    difference = kept(node, "self")
    before, factor = _factor(_inputs(node)[0]) if _inputs(node)[0] is not None else (None, 1.0)
    if difference is None or before is None or kind_of(before) != "SubBackward":
        return None
    (left, i), (right, j) = before.next_functions
    if (left is None) == (right is None) or getattr(before, "_saved_alpha", 1) != 1:
        return None
    output = _output(right, j) if left is None else _output(left, i)
    if output is None or difference.dim() == 0 or difference.shape[0] != output.shape[0] or difference.dim() < output.dim():
        return None
    difference = difference / factor
    target = output + difference if left is None else output - difference
    size = float(target.abs().max())
    if not 0 < size < float("inf"):
        return target
    level = 2.0 ** torch.tensor(size).log2().ceil().item() / _LEVELS
    target = (target / level).round() * level
    return target[:, :1] if target.dim() == 2 and bool((target == target[:, :1]).all()) else target


def _multiplied(node: Any) -> torch.Tensor | None:
    """Of output times target, a target of counts, or of -1 and 1, which is returned as 0 and 1. Other factors may be weights."""
    if kind_of(node) != "MulBackward":
        return None
    (left, i), (right, j) = node.next_functions
    if (left is None) == (right is None):
        return None
    target, output = (kept(node, "self"), _output(right, j)) if left is None else (kept(node, "other"), _output(left, i))
    if target is None or output is None or target.dim() == 0 or target.numel() != output.numel() or not bool((target == target.round()).all()):
        return None
    if bool((target.abs() == 1).all()) and float(target.min()) < float(target.max()):
        return (target > 0).to(target.dtype)
    is_count = float(target.min()) >= 0 and len(target.unique()) > 2
    return target if is_count else None
