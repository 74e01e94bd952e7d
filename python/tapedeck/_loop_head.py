"""Facts about how a loss is computed from a model, read from the graph of a backward pass: the kind of loss, what it is applied
to, the layer before it, and whether anything but linear layers lies between loss and input.

Only kinds that are known are named; everything else is "other", of which no rule supposes anything.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

_GRAPH_NODES = 64  # between a loss and its loss function
_CHAIN_NODES = 256  # of the way from the loss to the input
_MATRIX_NODES = 4096  # of a graph in which matrices are looked for
_LOSSES = {"NllLossBackward": "nll_loss", "NllLoss2DBackward": "nll_loss", "MseLossBackward": "mse_loss",
           "SmoothL1LossBackward": "smooth_l1_loss", "HuberLossBackward": "huber_loss",
           "CtcLossBackward": "ctc_loss", "BinaryCrossEntropyBackward": "binary_cross_entropy",
           "BinaryCrossEntropyWithLogitsBackward": "binary_cross_entropy_with_logits"}
_ACTIVATIONS = {"SoftmaxBackward": "softmax", "LogSoftmaxBackward": "log_softmax", "SigmoidBackward": "sigmoid",
                "ReluBackward": "relu", "TanhBackward": "tanh"}
_LINEAR = {"AddmmBackward": 1, "MmBackward": 0, "ConvolutionBackward": 0}  # which of their inputs comes from the layer before
_VIEWS = {"ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward", "TBackward", "TransposeBackward", "PermuteBackward",
          "SqueezeBackward", "UnsqueezeBackward", "SelectBackward", "SliceBackward", "AliasBackward", "CloneBackward",
          "ToCopyBackward"}
_LINEAR_STEPS = _VIEWS | {"NativeDropoutBackward", "NativeBatchNormBackward", "CudnnBatchNormBackward", "AvgPool2DBackward",
                          "MeanBackward"}
# Of several inputs, too: a graph of nothing but these and of linear layers is one linear map.
_MAPS = _LINEAR_STEPS | {"AddBackward", "SubBackward", "RsubBackward", "NegBackward", "CatBackward", "StackBackward", "SumBackward",
                         "ExpandBackward", "SplitBackward", "UnbindBackward", "ConstantPadNdBackward", "ReflectionPad2DBackward",
                         "PixelShuffleBackward", "AdaptiveAvgPool2DBackward", "UpsampleNearest1DBackward", "UpsampleNearest2DBackward",
                         "UpsampleBilinear2DBackward"}
# Between a loss and a comparison of outputs with targets: sums, and functions of each number.
_ELEMENTWISE = {"MeanBackward", "SumBackward", "PowBackward", "AbsBackward", "DivBackward", "MulBackward", "NegBackward", "AddBackward",
                "SubBackward", "RsubBackward", "ClampBackward", "ClampMinBackward", "ReluBackward", "MaximumBackward", "MinimumBackward",
                "Log1PBackward", "ExpBackward", "SoftplusBackward", "WhereBackward", "SqrtBackward", "LogSigmoidBackward", "LogCoshBackward"}
# Between a loss and the sum of targets times logarithms of outputs.
_SUMS = {"MeanBackward", "SumBackward", "NegBackward", "DivBackward", "MulBackward", "SubBackward", "RsubBackward"}
_FLAT = {"SignBackward", "RoundBackward", "FloorBackward", "CeilBackward", "TruncBackward", "SgnBackward", "HeavisideBackward"}
_SCALED = {"MulBackward", "DivBackward", "MaximumBackward", "MinimumBackward"}  # they keep the number that is not the output


def kind_of(node: Any) -> str:
    """NllLossBackward of NllLossBackward0: the number distinguishes variants of one function."""
    return type(node).__name__.rstrip("0123456789")


def kept(node: Any, name: str) -> torch.Tensor | None:
    """A float tensor on the CPU that the node keeps; None: it has none, or it was changed in place since."""
    try:
        value = getattr(node, "_saved_" + name, None)
    except RuntimeError:
        return None
    return value.detach() if isinstance(value, torch.Tensor) and value.is_floating_point() and value.is_cpu else None


def _inputs(node: Any) -> list[Any]:
    return [following for following, _ in node.next_functions]


def _shape(node: Any) -> tuple[int, ...]:
    """Of a node's output; () when PyTorch does not say (before 2.1)."""
    metadata = getattr(node, "_input_metadata", None)
    return tuple(metadata[0].shape) if metadata else ()


def _follow(node: Any, steps: set[str]) -> Any:
    for _ in range(_CHAIN_NODES):
        if node is None or kind_of(node) not in steps:
            break
        node = node.next_functions[0][0] if node.next_functions else None
    return node


def _roots(losses: Any) -> list[Any]:
    losses = [losses] if isinstance(losses, torch.Tensor) else losses
    return [loss.grad_fn for loss in losses if isinstance(loss, torch.Tensor) and loss.grad_fn is not None]


def walk(roots: Iterable[Any], goes_on: Callable[[Any], bool] = lambda node: True, most: int = _GRAPH_NODES) -> Iterator[Any]:
    """Nodes of a graph from `roots` back, the nearest first. `goes_on` says whether those behind a node come, too."""
    nodes = deque(roots)
    known = set(nodes)
    for _ in range(most):
        if not nodes:
            return
        node = nodes.popleft()
        yield node
        if goes_on(node):
            following = [each for each in _inputs(node) if each is not None and each not in known]
            known.update(following)
            nodes.extend(following)


def _is_between(node: Any) -> bool:
    """Whether it may stand between a loss written by hand and the outputs that it compares."""
    return kind_of(node) in _ELEMENTWISE | _VIEWS


def _find_losses(roots: list[Any]) -> list[Any]:
    return [node for node in walk(roots, lambda node: kind_of(node) not in _LOSSES) if kind_of(node) in _LOSSES]


def _swapped(root: Any) -> dict[str, Any] | None:
    """A reshape on the way from the loss to a layer that gives axes the lengths of each other: it does not swap them, but mixes examples."""
    for node in walk([root], lambda node: kind_of(node) not in _LINEAR):
        if kind_of(node) in ("ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward"):
            before, after = tuple(getattr(node, "_saved_self_sym_sizes", ())), _shape(node)
            if len(before) == len(after) > 2 and before[:2] == after[1::-1] and before[2:] == after[2:] and before[0] != before[1] and min(before[:2]) > 1:
                return {"before": list(before), "after": list(after)}
    return None


def _blanks(node: Any) -> int:
    """Targets of ctc_loss that are the blank, which stands for no target."""
    targets, lengths = node._saved_targets, [int(length) for length in node._saved_target_lengths]
    parts = [row[:length] for row, length in zip(targets, lengths)] if targets.dim() == 2 else [targets[: sum(lengths)]]
    return sum(int((part == node._saved_blank).sum()) for part in parts)


def _of_shares(root: Any) -> tuple[str, Any] | None:
    """Of a loss that is a sum of target times output, where a target is shares of classes, as kl_div and cross-entropies of such targets have it:
    its name, and the node of the outputs."""
    node, subtracted = root, None
    for _ in range(_GRAPH_NODES):
        graphs = [each for each in _inputs(node) if each is not None]
        kind = kind_of(node)
        if len(graphs) != 1 or kind not in _SUMS | _VIEWS:
            return None
        target = kept(node, "self" if _inputs(node)[0] is None else "other") if kind == "MulBackward" else None
        if target is not None and target.numel() > 1:
            break
        subtracted = node if kind in ("SubBackward", "RsubBackward") else subtracted
        node = graphs[0]
    else:
        return None
    # kl_div subtracts within each number; 1 minus a sum is something else.
    name = "kl_div" if subtracted is not None and _shape(subtracted) == tuple(target.shape) else "cross_entropy"
    sums = target.sum(-1)
    if target.dim() < 2 or float(target.min()) < 0 or not bool((((sums - 1).abs() < 1e-3) | (sums == 0)).all()):
        return None
    outputs = _follow(graphs[0], _VIEWS)
    if outputs is not None and kind_of(outputs) == "SubBackward" and _inputs(outputs)[0] is None:  # kl_div of logarithms
        name, outputs = "kl_div", _inputs(outputs)[1]
    outputs = _skip(outputs)
    is_one_hot = bool(((target == 0) | (target == 1)).all())  # what is expected of a choice is such a sum, too
    kind = kind_of(outputs) if outputs is not None else ""
    return (name, outputs) if kind == "LogSoftmaxBackward" or (name == "kl_div" and not is_one_hot) else None


def is_padding(mask: torch.Tensor) -> bool:
    """Whether a factor is a mask of sequences: of each the first places count, or the last. Other zeros and ones may be rewards of what was drawn."""
    if mask.dim() < 2 or not bool(((mask == 0) | (mask == 1)).all()):
        return False
    mask = mask.squeeze(-1) if mask.dim() == 3 else mask
    return any(bool((steps >= 0).all() or (steps <= 0).all()) for steps in (mask.diff(dim=0), mask.diff(dim=1)))


def reading(root: Any) -> Any:
    """The gather() or index by which a loss reads one score for each example or place; None: there is none. Where what is read is multiplied by
    an advantage, it was drawn, and is no target."""
    def goes_on(node: Any) -> bool:
        if kind_of(node) != "MulBackward":
            return kind_of(node) in _SUMS | _VIEWS | {"AddBackward"}
        factors = [kept(node, name) for name, each in zip(("other", "self"), reversed(_inputs(node))) if each is None]
        return bool(factors) and all(f is not None and (f.numel() == 1 or is_padding(f)) for f in factors)

    return next((node for node in walk([root], goes_on) if kind_of(node) in ("GatherBackward", "IndexBackward")), None)


def _scalar_divisor(node: Any) -> float:
    """By how much the loss was divided before the backward pass: `loss / 100`, `loss * 0.01`."""
    divisor = 1.0
    while node is not None and kind_of(node) in ("DivBackward", "MulBackward"):
        other = getattr(node, "_saved_other", None)
        if isinstance(other, torch.Tensor):
            other = other.item() if other.numel() == 1 and other.is_cpu else None
        if other is None or _shape(node) not in ((), (1,)) or kind_of(_follow(node.next_functions[0][0], {"NegBackward"})) == "SumBackward":
            break  # a sum that is divided is a mean
        factor = abs(float(other)) or 1.0
        divisor *= factor if kind_of(node) == "DivBackward" else 1 / factor
        node = node.next_functions[0][0]
    return divisor


def _axis(node: Any) -> int:
    """The axis of a softmax, counted from the front."""
    axis, rank = node._saved_dim, len(_shape(node))
    axis = axis - (1 << 64) if axis >= 1 << 63 else axis
    return axis + rank if axis < 0 else axis


def _weight(node: Any) -> torch.Tensor | None:
    """The weight of a linear layer's node: the parameter with the most axes."""
    found = [each for each in (_follow(following, _VIEWS) for following in _inputs(node)) if hasattr(each, "variable")]
    return max((each.variable for each in found), key=lambda p: p.dim(), default=None)


def _before(node: Any) -> Any:
    """The node that a linear layer's input comes from. A bias that is added is part of the layer."""
    return _inputs(node)[_LINEAR[kind_of(node)]] if kind_of(node) in _LINEAR else _biased(node)


def _biased(node: Any) -> Any:
    """Of the sum of something and a parameter, the something; None: it is no such sum."""
    if kind_of(node) != "AddBackward" or len(_inputs(node)) != 2:
        return None
    first, second = _inputs(node)
    return first if hasattr(second, "variable") else None


def _skip(node: Any) -> Any:
    """The next node that is no view and no bias."""
    node = _follow(node, _VIEWS)
    bare = _biased(node) if node is not None else None
    return _follow(bare, _VIEWS) if bare is not None else node


def _widths(node: Any) -> tuple[int, int] | None:
    """What a linear layer puts out and takes: units, or channels. None: no layer's weight is multiplied."""
    weight = _weight(node)
    if weight is None or weight.dim() < 2:
        return None
    if kind_of(node) != "ConvolutionBackward":
        return weight.shape[0], weight[0].numel()
    groups = getattr(node, "_saved_groups", 1)
    out, taken = weight.shape[0], weight.shape[1] * groups
    return (weight.shape[1] * groups, out) if getattr(node, "_saved_transposed", False) else (out, taken)


def _linear_part(node: Any) -> dict[str, Any]:
    """Whether `node` is a linear map of the input: how many layers follow one another, and whether one is a bottleneck of those before and
    after it. Without the node, of what is not linear, {}."""
    above: dict[Any, tuple[int, int | None]] = {node: (0, None)}  # layers above a node, and what the next of them puts out
    nodes, narrow, longest = deque([node]), False, 0
    visits = 0
    while nodes:
        node = nodes.popleft()
        visits += 1
        kind, (depth, outer) = kind_of(node), above[node]
        is_layer = kind in _LINEAR and _widths(node) is not None
        scales = kind in ("MulBackward", "DivBackward", "MmBackward") and sum(each is not None for each in _inputs(node)) == 1
        if visits > _CHAIN_NODES or not (is_layer or scales or kind in _MAPS):
            return {"linear_layers": longest, "is_linear": False, "is_narrow": narrow}
        following = _inputs(node)
        if is_layer:
            width, taken = _widths(node)
            narrow = narrow or (outer is not None and width < min(taken, outer))
            depth, outer = depth + 1, width
            longest = max(longest, depth)
            following = [_before(node)]
        for each in following:
            if each is not None and not hasattr(each, "variable") and above.get(each, (-1, None))[0] < depth:
                above[each] = depth, outer
                nodes.append(each)
    return {"linear_layers": longest, "is_linear": longest > 0, "is_narrow": narrow}


def _compared(root: Any) -> dict[str, Any] | None:
    """Outputs of one number per example that were compared with every target of the batch: (N, 1) against (N,)."""
    for node in walk([root], lambda node: kind_of(node) in _ELEMENTWISE and len(_shape(node)) <= 2 and len(set(_shape(node))) <= 1):
        graphs = [each for each in _inputs(node) if each is not None]
        if (kind_of(node) in _LOSSES or kind_of(node) in _ELEMENTWISE) and len(graphs) == 1 and (found := _is_spread(node, graphs[0])):
            return found  # where both sides are computed, pairs may be intended
    return None


def _is_spread(node: Any, output: Any) -> dict[str, Any] | None:
    """Whether a function of a column and of numbers that are not computed is a square."""
    wide = _shape(output) if kind_of(output) == "ExpandBackward" else _shape(node)
    output = output.next_functions[0][0] if kind_of(output) == "ExpandBackward" else output
    shape = _shape(output)
    count = max(shape, default=0)
    if count < 2 or sorted(shape) not in ([count], [1, count]) or wide != (count, count):
        return None
    kept = getattr(node, "_saved_other", None) if kind_of(node) in _SCALED else None
    if kept is not None and kept.numel() == count * count:  # a mask of pairs
        return None
    return {"output": list(shape), "compared": list(wide)}


def _name(parameter: torch.Tensor | None, names: dict[int, str]) -> str | None:
    name = names.get(id(parameter)) if parameter is not None else None
    return name.rpartition(".")[0] if name else None


def describe(losses: Any, names: dict[int, str]) -> dict[str, Any] | None:
    """The facts of a backward pass; None when its loss does not come from a layer of the model (`names` of parameters by id)."""
    roots = _roots(losses)
    if len(roots) != 1:
        return None
    found = _find_losses(roots)
    facts: dict[str, Any] = {"losses": len(found), "divisor": _scalar_divisor(roots[0])}
    start = roots[0]
    if len(found) > 1 and (wrong := next((node for node in found if _is_squashed_twice(node)), None)) is not None:
        found = [wrong]
    if len(found) == 1:
        node = found[0]
        facts["loss"] = _LOSSES[kind_of(node)]
        facts["reduction"] = {1: "mean", 2: "sum"}.get(getattr(node, "_saved_reduction", 0), "none")
        facts["weighted"] = getattr(node, "_saved_weight", None) is not None
        if facts["loss"] == "ctc_loss":
            facts["blanks"] = _blanks(node)
        start = _skip(node.next_functions[0][0])
        facts["is_chosen"] = start is not None and kind_of(start) in ("GatherBackward", "IndexBackward")
        if facts["loss"] == "nll_loss" and start is not None and kind_of(start) == "LogSoftmaxBackward":
            scores = start
            start = _take_log_softmax(facts, scores)
            if facts["reduction"] == "mean" and not facts["weighted"] and _follow(roots[0], _VIEWS) is node:
                facts["columns"] = _shape(scores)[facts["axis"]] if _shape(scores) else None
        start = _take_activation(facts, start)
    elif not found and (shares := _of_shares(roots[0])) is not None:
        facts["loss"], start = shares
        start = _take_activation(facts, _take_log_softmax(facts, start))
    elif not found and (read := reading(roots[0])) is not None and kind_of(before := _skip(read.next_functions[0][0])) == "LogSoftmaxBackward":
        start = _take_activation(facts, _take_log_softmax(facts, before))
    elif not found:
        start = _first_layer(roots[0])
        if start is not None and (activation := _activation_after(start, roots[0])) is not None:
            facts["activation"] = activation
    facts["swapped"] = _swapped(roots[0])
    if len(found) < 2:
        facts["compared"] = _compared(found[0] if found else roots[0])
    is_layer = start is not None and kind_of(start) in _LINEAR and _weight(start) is not None
    layer = start if is_layer else _first_layer(start)
    facts["layer"] = _name(_weight(layer), names) if layer is not None else None
    if facts["layer"] is None:
        return None
    facts |= _linear_part(layer)
    facts["has_candidates"] = is_layer and len(found) == 1 and _has_candidates(found[0], layer) or None
    facts["is_squeezed"] = _is_squeezed(layer) or None
    return facts


def _take_log_softmax(facts: dict[str, Any], node: Any) -> Any:
    """Names a cross-entropy if `node` is log_softmax, and returns the node before it."""
    if node is None or kind_of(node) != "LogSoftmaxBackward":
        return node
    facts["loss"], facts["axis"], facts["rank"] = "cross_entropy", _axis(node), len(_shape(node))
    return _skip(node.next_functions[0][0])


def _has_candidates(loss: Any, layer: Any) -> bool:
    """Whether a cross-entropy compares more scores than the layer before it has units: it chooses among several inputs, and a label is the place of one."""
    scores, widths = _skip(loss.next_functions[0][0]), _widths(layer)
    if scores is None or widths is None or kind_of(scores) != "LogSoftmaxBackward" or len(_shape(scores)) != 2:
        return False
    return widths[0] == 1 < _shape(scores)[1]


def chosen_among(losses: Any) -> int | None:
    """Among how many a loss chooses: those of its log_softmax, or of a logsumexp that is written by hand. None where that is multiplied by numbers
    for each example, as advantages are."""
    def goes_on(node: Any) -> bool:
        factors = [kept(node, name) for name in ("self", "other")] if kind_of(node) == "MulBackward" else []
        return kind_of(node) in _SUMS | _VIEWS | {"AddBackward", "DiagonalBackward"} and all(f is None or f.numel() == 1 for f in factors)

    for node in walk(_roots(losses), goes_on):
        if kind_of(node) == "LogsumexpBackward":
            shape, axes = getattr(_inputs(node)[0], "_input_metadata", None), node._saved_dim
            axis = axes[0] if isinstance(axes, (tuple, list)) and len(axes) == 1 else None
            axis = axis - (1 << 64) if axis is not None and axis >= 1 << 63 else axis
            return tuple(shape[0].shape)[axis] if shape and axis is not None else None
        if kind_of(node) == "NllLossBackward":
            scores = _skip(node.next_functions[0][0])
            return _shape(scores)[_axis(scores)] if scores is not None and kind_of(scores) == "LogSoftmaxBackward" and _shape(scores) else None
    return None


def _rows(node: Any) -> int:
    """Of what a node puts out, all axes but the last."""
    return sum(math.prod(each.shape[:-1]) for each in getattr(node, "_input_metadata", None) or () if len(each.shape))


def _is_squeezed(layer: Any) -> bool:
    """Whether all that a layer gets of a sequence of tokens goes through fewer numbers than a row for each of them, as in an autoencoder."""
    order, known, stack = [], {layer}, [(layer, 0)]  # each node after those that it is computed from
    while stack:
        node, place = stack.pop()
        following = node.next_functions
        while place < len(following) and (following[place][0] is None or following[place][0] in known):
            place += 1
        if place == len(following):
            order.append(node)
        elif len(known) >= _MATRIX_NODES:
            return False
        else:
            stack += [(node, place + 1), (following[place][0], 0)]
            known.add(following[place][0])
    tables = [node for node in order if kind_of(node) == "EmbeddingBackward" and len(_shape(node)) == 3]
    if not tables:
        return False
    tokens = max(tables, key=_rows)
    comes_from = {tokens}
    for node in order:
        if any(each in comes_from for each in _inputs(node) if each is not None):
            comes_from.add(node)
    pending: set[Any] = set()
    for node in reversed(order):  # when no other is pending, all ways lead through a node
        if node is tokens:
            break
        if node not in comes_from:
            continue
        pending.discard(node)
        if not pending and 0 < _rows(node) < _rows(tokens) and _shape(tokens)[1] not in _shape(node):
            return True
        pending.update(each for each in _inputs(node) if each in comes_from)
    return False


def _activation_after(layer: Any, root: Any) -> str | None:
    """The activation that comes right after a layer, on the way from a loss written by hand to it."""
    found = (kind_of(node) for node in walk([root], _is_between)
             if kind_of(node) in _ACTIVATIONS and _inputs(node)[0] is not None and _skip(_inputs(node)[0]) is layer)
    return _ACTIVATIONS.get(next(found, ""))


def _take_activation(facts: dict[str, Any], start: Any) -> Any:
    """Names the activation that `start` is, and returns the node before it."""
    facts["activation"] = "other" if start is None else _ACTIVATIONS.get(kind_of(start), "linear" if kind_of(start) in _LINEAR else "other")
    if facts["activation"] in ("softmax", "log_softmax"):
        facts["axis"], facts["rank"] = _axis(start), len(_shape(start))
    return start if facts["activation"] in ("linear", "other") else _skip(start.next_functions[0][0])


def _is_squashed_twice(node: Any) -> bool:
    """A cross-entropy that applies softmax or sigmoid to what has been through one."""
    start = _skip(node.next_functions[0][0])
    if kind_of(node) not in ("BinaryCrossEntropyWithLogitsBackward", "NllLossBackward") or start is None:
        return False
    if kind_of(node) == "NllLossBackward":
        if kind_of(start) != "LogSoftmaxBackward":
            return False
        start = _skip(start.next_functions[0][0])
    return start is not None and kind_of(start) in ("SoftmaxBackward", "SigmoidBackward")


def has_flat_function(losses: Any) -> bool:
    """Whether a function whose derivative is 0 is in the graph."""
    return any(kind_of(node) in _FLAT for node in walk(_roots(losses), most=_MATRIX_NODES))


def raw_matrices(losses: Any) -> list[torch.Tensor]:
    """Parameters that something is multiplied by, in the order from the loss back."""
    found: dict[int, torch.Tensor] = {}
    for node in walk(_roots(losses), most=_MATRIX_NODES):
        if kind_of(node) in _LINEAR and (weight := _weight(node)) is not None and weight.dim() == 2:
            found.setdefault(id(weight), weight)
    return list(found.values())


def _first_layer(node: Any) -> Any:
    """The nearest layer that a value is computed from."""
    start = [] if node is None else [node]
    return next((node for node in walk(start, most=_CHAIN_NODES) if kind_of(node) in _LINEAR and _weight(node) is not None), None)
