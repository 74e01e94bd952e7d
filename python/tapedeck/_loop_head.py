"""Facts about how a loss is computed from a model, read from the graph of a backward pass: the kind of loss, what it is applied
to, the layer before it, and whether anything but linear layers lies between loss and input.

Only kinds that are known are named; everything else is "other", of which no rule supposes anything.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

_GRAPH_NODES = 64  # between a loss and its loss function
_CHAIN_NODES = 256  # of the way from the loss to the input
_LOSSES = {"NllLossBackward": "nll_loss", "NllLoss2DBackward": "nll_loss", "MseLossBackward": "mse_loss",
           "SmoothL1LossBackward": "smooth_l1_loss", "HuberLossBackward": "huber_loss",
           "BinaryCrossEntropyBackward": "binary_cross_entropy",
           "BinaryCrossEntropyWithLogitsBackward": "binary_cross_entropy_with_logits"}
_ACTIVATIONS = {"SoftmaxBackward": "softmax", "LogSoftmaxBackward": "log_softmax", "SigmoidBackward": "sigmoid",
                "ReluBackward": "relu", "TanhBackward": "tanh"}
_LINEAR = {"AddmmBackward": 1, "MmBackward": 0, "ConvolutionBackward": 0}  # which of their inputs comes from the layer before
_VIEWS = {"ViewBackward", "UnsafeViewBackward", "ReshapeAliasBackward", "TBackward", "TransposeBackward", "PermuteBackward",
          "SqueezeBackward", "UnsqueezeBackward", "SelectBackward", "SliceBackward", "AliasBackward", "CloneBackward",
          "ToCopyBackward"}
_LINEAR_STEPS = _VIEWS | {"NativeDropoutBackward", "NativeBatchNormBackward", "CudnnBatchNormBackward", "AvgPool2DBackward",
                          "MeanBackward"}


def kind_of(node: Any) -> str:
    """NllLossBackward of NllLossBackward0: the number distinguishes variants of one function."""
    return type(node).__name__.rstrip("0123456789")


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


def _find_losses(roots: list[Any]) -> list[Any]:
    nodes, known, found = deque(roots), set(roots), []
    for _ in range(_GRAPH_NODES):
        if not nodes:
            break
        node = nodes.popleft()
        if kind_of(node) in _LOSSES:
            found.append(node)
            continue
        following = [each for each in _inputs(node) if each is not None and each not in known]
        known.update(following)
        nodes.extend(following)
    return found


def _scalar_divisor(node: Any) -> float:
    """By how much the loss was divided before the backward pass: `loss / 100`, `loss * 0.01`."""
    divisor = 1.0
    while node is not None and kind_of(node) in ("DivBackward", "MulBackward"):
        other = getattr(node, "_saved_other", None)
        if other is None or other.numel() != 1 or not other.is_cpu or _shape(node) not in ((), (1,)):
            break
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


def _linear_part(node: Any) -> dict[str, Any]:
    """How many layers lie before `node` without anything but linear steps between them, and whether that is all there is."""
    widths: list[tuple[int, int]] = []
    for _ in range(_CHAIN_NODES):
        node = _skip(_follow(node, _LINEAR_STEPS)) if node is not None else None
        if node is not None and kind_of(node) in _LINEAR_STEPS:
            continue
        if node is None or kind_of(node) not in _LINEAR:
            break
        weight = _weight(node)
        if weight is not None and weight.dim() > 1:
            widths.append((weight.shape[0], weight[0].numel()))
        node = _before(node)
    narrow = any(inner[0] < min(inner[1], outer[0]) for outer, inner in zip(widths, widths[1:]))
    return {"linear_layers": len(widths), "is_linear": node is None and len(widths) > 0, "is_narrow": narrow}


def _compared(node: Any) -> dict[str, Any] | None:
    """Outputs of one number per example that were compared with every target of the batch: (N, 1) against (N,)."""
    inside = node
    while inside is not None and kind_of(inside) in ("MeanBackward", "SumBackward", "PowBackward", "AbsBackward", "DivBackward"):
        inside = inside.next_functions[0][0]
    if inside is None or kind_of(inside) not in (*_LOSSES, "SubBackward", "RsubBackward"):
        return None
    graphs = [each for each in _inputs(inside) if each is not None]
    if len(graphs) != 1:  # both sides are computed: pairs may be intended
        return None
    output = graphs[0]
    wide = _shape(output) if kind_of(output) == "ExpandBackward" else _shape(inside)
    output = output.next_functions[0][0] if kind_of(output) == "ExpandBackward" else output
    shape = _shape(output)
    count = max(shape, default=0)
    is_column = sorted(shape) in ([count], [1, count])
    return {"output": list(shape), "compared": list(wide)} if count > 1 and is_column and wide == (count, count) else None


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
    if len(found) == 1:
        node = found[0]
        facts["loss"] = _LOSSES[kind_of(node)]
        facts["reduction"] = {1: "mean", 2: "sum"}.get(node._saved_reduction, "none")
        facts["weighted"] = getattr(node, "_saved_weight", None) is not None
        start = _skip(node.next_functions[0][0])
        if facts["loss"] == "nll_loss" and start is not None and kind_of(start) == "LogSoftmaxBackward":
            facts["loss"] = "cross_entropy"
            facts["axis"], facts["rank"] = _axis(start), len(_shape(start))
            start = _skip(start.next_functions[0][0])
        facts["activation"] = _ACTIVATIONS.get(kind_of(start), "linear" if kind_of(start) in _LINEAR else "other") \
            if start is not None else "other"
        if facts["activation"] in ("softmax", "log_softmax"):
            facts["axis"], facts["rank"] = _axis(start), len(_shape(start))
        if facts["activation"] not in ("linear", "other"):
            start = _skip(start.next_functions[0][0])
    elif not found:
        facts["compared"] = _compared(roots[0])
        start = _first_layer(roots[0])
    if len(found) == 1:
        facts["compared"] = _compared(found[0])
    layer = start if start is not None and kind_of(start) in _LINEAR else _first_layer(start)
    facts["layer"] = _name(_weight(layer), names) if layer is not None else None
    if facts["layer"] is None:
        return None
    facts |= _linear_part(layer)
    return facts


def _first_layer(node: Any) -> Any:
    """The nearest layer that a value is computed from."""
    nodes, known = deque([node] if node is not None else []), {node}
    for _ in range(_CHAIN_NODES):
        if not nodes:
            break
        node = nodes.popleft()
        if kind_of(node) in _LINEAR and _weight(node) is not None:
            return node
        following = [each for each in _inputs(node) if each is not None and each not in known]
        known.update(following)
        nodes.extend(following)
    return None
