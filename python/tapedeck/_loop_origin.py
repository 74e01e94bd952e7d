"""The operation that made the first number of a loss that is not finite, read from the graph of that loss: its nodes keep what they
need for the backward pass, which is most inputs and results (https://pytorch.org/docs/stable/notes/autograd.html#saved-tensors).
Nothing is computed again but single elementwise functions of values that a node keeps.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch

from ._loop_head import _LINEAR, _VIEWS, _first_layer, _follow, _name, _roots, _weight, kept, kind_of

_NODES = 1 << 14
# What a node keeps, and which of its inputs that is. Those that keep their result say so.
_INPUTS = {"self": 0, "input": 0, "mat1": 0, "query": 0, "tensor1": 0, "other": 1, "mat2": 1, "key": 1, "value": 2}
_OF_ADDMM = {"mat1": 1, "mat2": 2}
_RESULTS = ("result", "output")
# They pass on what they get: none of them makes a number that is not finite from numbers of usual size.
_PASSES = _VIEWS | {"AddBackward", "SubBackward", "RsubBackward", "NegBackward", "ExpandBackward", "SumBackward", "MeanBackward",
                    "CatBackward", "StackBackward", "UnbindBackward", "ReluBackward", "NativeDropoutBackward", "UnsafeSplitBackward",
                    "SplitBackward", "AbsBackward", "CopySlices", "IndexBackward", "MaxPool2DWithIndicesBackward", "SoftmaxBackward",
                    "LogSoftmaxBackward", "SigmoidBackward", "TanhBackward", "GeluBackward", "SiluBackward", "NllLossBackward"}
_AGAIN = {"LogBackward": torch.log, "Log1PBackward": torch.log1p, "Log2Backward": torch.log2, "Log10Backward": torch.log10,
          "AcosBackward": torch.acos, "AsinBackward": torch.asin, "AtanhBackward": torch.atanh}
_SINGULAR = {"SqrtBackward", "RsqrtBackward", "LinalgVectorNormBackward", "NormBackward", "PowBackward", "LogBackward", "DivBackward",
             "StdBackward", "CdistBackward", "EuclideanDistBackward", "AcosBackward", "AsinBackward", "Atan2Backward",
             "ReciprocalBackward"}  # whose gradient is infinite somewhere
_DIVISIONS = _SINGULAR - {"PowBackward"} | {"Log1PBackward", "Log2Backward", "Log10Backward", "AtanhBackward"}


def _order(root: Any) -> list[Any]:
    """All nodes, each after those that it is computed from."""
    found, known, stack = [], {root}, [(root, 0)]
    while stack and len(known) < _NODES:
        node, place = stack.pop()
        following = node.next_functions
        while place < len(following) and (following[place][0] is None or following[place][0] in known):
            place += 1
        if place == len(following):
            found.append(node)
        else:
            stack += [(node, place + 1), (following[place][0], 0)]
            known.add(following[place][0])
    return found


def _computed(node: Any) -> torch.Tensor | None:
    """What an elementwise function put out, from its inputs."""
    kind, first = kind_of(node), kept(node, "self")
    if kind in _AGAIN:
        return None if first is None else _AGAIN[kind](first)
    if kind == "PowBackward" and first is not None and isinstance(node._saved_exponent, (int, float)):
        return first ** node._saved_exponent
    if kind == "AddmmBackward":
        return _linear(node)
    if kind == "DivBackward" and (other := kept(node, "other")) is not None:
        return (torch.ones_like(other) if first is None else first) / other
    return None


def _linear(node: Any) -> torch.Tensor | None:
    """What a layer put out; None: of other sizes, or changed since."""
    first, second = kept(node, "mat1"), kept(node, "mat2")
    bias = node.next_functions[0][0]
    if first is None or second is None or not hasattr(bias, "variable"):
        return None
    return torch.addmm(bias.variable.detach().to(first.dtype), first, second)


def _is_finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())


class _Graph:
    """What is known of the values of a loss's graph."""

    def __init__(self, root: Any) -> None:
        self.order = _order(root)
        self.values: dict[Any, torch.Tensor] = {}
        self.given: dict[Any, torch.Tensor] = {}  # inputs that are not finite and come from outside of the graph
        for node in self.order:
            self.read(node)
        self.bad = {node: not _is_finite(value) for node, value in self.values.items()}
        for node in self.order:
            if node not in self.bad and kind_of(node) in _VIEWS and node.next_functions[0][0] in self.bad:
                self.bad[node] = self.bad[node.next_functions[0][0]]
        self.bad[root] = True
        self.suspects = self.find_suspects(root)

    def read(self, node: Any) -> None:
        for name in _RESULTS:
            if (value := kept(node, name)) is not None:
                self.values[node] = value
        if node not in self.values and (value := _computed(node)) is not None:
            self.values[node] = value
        places = _INPUTS | _OF_ADDMM if kind_of(node) == "AddmmBackward" else _INPUTS
        for name, place in places.items():
            value = kept(node, name) if place < len(node.next_functions) else None
            if value is None:
                continue
            source = node.next_functions[place][0]
            if source is not None:
                self.values.setdefault(source, value)
            elif not _is_finite(value):
                self.given[node] = value

    def find_suspects(self, root: Any) -> set[Any]:
        """Nodes that the loss depends on by way of nodes that are not known to be finite: a masked score of minus infinity
        that a softmax takes is no fault."""
        found, stack = {root}, [root]
        while stack:
            for following, _ in stack.pop().next_functions:
                if following is not None and following not in found and self.bad.get(following, True):
                    found.add(following)
                    stack.append(following)
        return found

    def first(self) -> tuple[Any, torch.Tensor | None]:
        """The node that made it, and the first value that shows it: what comes before is finite, as far as it is known."""
        shown = node = next((node for node in self.order if node in self.suspects and (node in self.given or self.bad.get(node))), None)
        while node is not None and node not in self.given and kind_of(node) in _PASSES and not self.is_masked(node):
            following = next((each for each, _ in node.next_functions
                              if each in self.suspects and not hasattr(each, "variable")), None)
            if following is None:
                break
            node = following
        return node, self.given.get(shown, self.values.get(shown))

    def is_masked(self, node: Any) -> bool:
        """A softmax over nothing: all scores of a row are minus infinity, by a mask that is not computed."""
        if kind_of(node) not in ("SoftmaxBackward", "LogSoftmaxBackward") or (value := self.values.get(node)) is None:
            return False
        before = _follow(node.next_functions[0][0], _VIEWS)
        kind = kind_of(before) if before is not None else ""
        adds = kind in ("AddBackward", "BaddbmmBackward") and any(each is None for each, _ in before.next_functions)
        scores = [kept(before, name) for name in ("batch1", "batch2")]
        is_whole = bool(torch.isnan(value).all(-1).eq(torch.isnan(value).any(-1)).all())
        return is_whole and (kind == "MaskedFillBackward" or adds) and all(each is None or _is_finite(each) for each in scores)

    def is_compared(self, node: Any) -> bool:
        """The difference of what the model puts out, which is finite, and of numbers that are not computed: those are not finite."""
        inputs = [each for each, _ in node.next_functions if each is not None]
        return kind_of(node) in ("SubBackward", "RsubBackward", "AddBackward") and len(inputs) == 1 and self.bad.get(node, False) \
            and self.bad.get(_follow(inputs[0], _VIEWS), True) is False

    def is_read_by_a_layer(self, node: Any, names: dict[int, str]) -> bool:
        after = {node}
        for each in self.order:
            if each not in after and any(following in after for following, _ in each.next_functions):
                after.add(each)
                if kind_of(each) in _LINEAR and _name(_weight(each), names):
                    return True
        return False


def _row(tensor: torch.Tensor | None, rows: int) -> int | None:
    if tensor is None or tensor.dim() == 0 or tensor.shape[0] % rows or tensor.shape[0] == 0:
        return None  # heads of attention, or places, may be rows of their own: those of an example follow one another
    bad = (~torch.isfinite(tensor)).reshape(rows, -1).any(1).nonzero().flatten()
    return int(bad[0]) if len(bad) else None


def _column(tensor: torch.Tensor) -> int | None:
    """The first column of which no row is finite: it was divided by a deviation of 0."""
    bad = (~torch.isfinite(tensor)).reshape(tensor.shape[0], -1).all(0).nonzero().flatten() if tensor.dim() > 1 else ()
    return int(bad[0]) if len(bad) else None


def _argument(node: Any) -> float | None:
    """What the function was applied to where its value is not finite; of a division, the divisor."""
    value, argument = _computed(node), kept(node, "other" if kind_of(node) == "DivBackward" else "self")
    if value is None or argument is None or _is_finite(value):
        return None
    found = float(argument.expand_as(value)[~torch.isfinite(value)][0])
    return found if math.isfinite(found) else None


def _is_of_nothing(node: Any) -> bool:
    """A mean over labels that are all ignored."""
    total = kept(node, "total_weight") if kind_of(node).startswith("NllLoss") else None
    return total is not None and float(total) == 0


def of_pass(losses: Any, names: dict[int, str], rows: int, usual: bool = False) -> dict[str, Any]:
    """The operation, the layer that it follows (or that it is), and the row; {} when the graph does not show it. `usual`: the model's
    input has numbers of usual size, so that NaN of them without infinity comes from 0 / 0."""
    roots = _roots(losses)
    graph = _Graph(roots[0]) if len(roots) == 1 else None
    node, value = graph.first() if graph else (None, None)
    if graph is None or node is None:
        return {}
    kind = kind_of(node)
    if graph.is_compared(node) and not graph.is_read_by_a_layer(node, names):
        found = {"what": "label", "row": _row(value, rows)}
        return {key: value for key, value in found.items() if value is not None}
    layer = node if kind in _LINEAR else _first_layer(node)
    own = kind in _LINEAR and _name(_weight(node), names) is not None
    found: dict[str, Any] = {"operation": kind.removesuffix("Backward").lower(), "is_layer": own and node not in graph.given, "divides": kind in _DIVISIONS or graph.is_masked(node) or _is_of_nothing(node),
                             "layer": _name(_weight(layer), names) if layer is not None else None}
    if node in graph.given and kind in _LINEAR:
        given = graph.given[node]
        found |= {"is_given": True, "column": _column(given), "divides": usual and not bool(torch.isinf(given).any())}
    found["is_loss"] = not own and kind not in _LINEAR and not graph.is_read_by_a_layer(node, names) \
        and (kind in _SINGULAR | _DIVISIONS or kind == "MulBackward" or kind.endswith("LossBackward"))
    found |= {"row": _row(value, rows), "argument": _argument(node)}
    return {key: value for key, value in found.items() if value is not None}


def is_opaque(found: dict[str, Any]) -> bool:
    """An operation that stands for a part of the model: compiled, or computed again in the backward pass."""
    return found.get("operation", "").startswith(("compiledfunction", "checkpointfunction"))


def of_modules(model: torch.nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], rows: int) -> dict[str, Any]:
    """The first layer of a copy of the model that puts out something that is not finite; or the one before that whose input is it."""
    found: dict[str, Any] = {}
    last = [None]

    def see(name: str, output: Any, is_given: bool) -> None:
        if not found and isinstance(output, torch.Tensor) and output.is_floating_point():
            if _is_finite(output):
                last[0] = last[0] if is_given else name
            else:
                found.update({"operation": "an operation" if is_given else "output", "is_layer": not is_given,
                              "layer": last[0] if is_given else name, "row": _row(output, rows)})

    twin = copy.deepcopy(getattr(model, "_orig_mod", model))
    for name, module in twin.named_modules():
        if not any(True for _ in module.children()):
            module.register_forward_pre_hook(lambda m, inputs, name=name: see(name, inputs[0] if inputs else None, True))
            module.register_forward_hook(lambda m, inputs, output, name=name: see(name, output, False))
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        twin(*arguments, **named)
    return {key: value for key, value in found.items() if value is not None}


def of_update(losses: Any, names: dict[int, str], bad: list[str]) -> dict[str, Any]:
    """Functions whose gradient is infinite somewhere, directly behind the last layer whose weights are not finite."""
    roots = _roots(losses)
    layers = {name.rpartition(".")[0] for name in bad}
    found = []
    for node in _order(roots[0]) if len(roots) == 1 else ():
        custom = isinstance(node, torch.autograd.function.BackwardCFunction)
        if (custom or kind_of(node) in _SINGULAR) and (layer := _first_layer(node)) is not None \
                and (name := _name(_weight(layer), names)) in layers:
            found.append((kind_of(node).removesuffix("Backward").lower(), name))
    return {"operation": found[-1][0], "layer": found[-1][1]} if found else {}
