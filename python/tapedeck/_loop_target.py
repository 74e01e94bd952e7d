"""The target of a loss, for facts about a loop: what a loss function of PyTorch keeps, or what a loss that is written by hand, or made of
simple functions as `l1_loss` is, compares the output of the last layer with. Read from the graph of the loss."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

from . import _observe
from ._loop_head import _ELEMENTWISE, _VIEWS, _inputs, _roots, _shape, _weight, kept, kind_of, reading

_NODES = 64
_RESHAPED = {"ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward", "SqueezeBackward", "UnsqueezeBackward", "CloneBackward", "AliasBackward"}
_LEVELS = 1 << 16  # of a target that is computed from a difference: its last bits are those of the difference


def find(losses: Any) -> torch.Tensor | None:
    kept = _observe.target_of(losses)
    if kept is not None:
        return kept
    nodes = deque(_roots(losses))
    known = set(nodes)
    for _ in range(_NODES):
        if not nodes:
            break
        node = nodes.popleft()
        found = _subtracted(node) if kind_of(node) in ("AbsBackward", "PowBackward", "MaximumBackward") else _multiplied(node)
        if found is not None:
            return found
        if kind_of(node) in _ELEMENTWISE | _VIEWS:
            following = [each for each in _inputs(node) if each is not None and each not in known]
            known.update(following)
            nodes.extend(following)
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
