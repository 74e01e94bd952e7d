"""The few calls of PyTorch that it has no hook for: each is replaced for as long as somebody needs to see it.

Only attributes of torch's own modules and classes are replaced, and they are chosen so that a call is seen whatever name
the user imported the function by: `Tensor.backward` looks up `torch.autograd.backward`, and `clip_grad_norm_` looks up
`_clip_grads_with_norm_`, when they are called. The original comes back when the last listener is removed. An attribute
that somebody else has replaced in the meantime is left alone; our function behind it then only forwards the call.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter as _loader_iterator

from ._layers import EagerHook

_is_compiling = torch.compiler.is_compiling
_GRAPH_NODES = 64  # of a loss's graph in which its target is searched


class Observation:
    """One kind of call, and those who listen to it."""

    def __init__(self, find: Callable[[], list[tuple[Any, str, Callable[["Observation", Any], Any]]]]) -> None:
        self.find = find  # owner, attribute, and what makes the replacement
        self.listeners: tuple[Callable[..., None], ...] = ()
        self.replaced: list[tuple[Any, str, Any, Any]] = []

    def add(self, listener: Callable[..., None]) -> None:
        self.listeners += (listener,)
        if not self.replaced:
            for owner, name, make in self.find():
                original = vars(owner).get(name)
                if original is not None:
                    replacement = functools.wraps(original)(make(self, original))
                    replacement.__prepare_scriptable__ = functools.partial(_same, original)  # for TorchScript
                    setattr(owner, name, replacement)
                    self.replaced.append((owner, name, original, replacement))

    def remove(self, listener: Callable[..., None]) -> None:
        self.listeners = tuple(each for each in self.listeners if each != listener)
        if not self.listeners:
            while self.replaced:
                owner, name, original, replacement = self.replaced.pop()
                if vars(owner).get(name) is replacement:
                    setattr(owner, name, original)

    def notify(self, *arguments: Any) -> None:
        if self.listeners and not _is_compiling() and not EagerHook.paused:
            for listener in self.listeners:
                listener(*arguments)


def _same(value: Any) -> Any:
    return value


# ---- The replacements ------------------------------------------------------------------------------------------


def _clip_with_norm(observation: Observation, original: Any) -> Any:
    def clip(parameters: Any, max_norm: Any, total_norm: Any, *rest: Any, **named: Any) -> Any:
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        result = original(parameters, max_norm, total_norm, *rest, **named)
        observation.notify("norm", float(max_norm), total_norm, parameters)
        return result

    return clip


def _clip(kind: str, observation: Observation, original: Any) -> Any:
    def clip(parameters: Any, limit: Any = None, *rest: Any, **named: Any) -> Any:
        if limit is None:
            limit = named.pop("max_norm", named.pop("clip_value", None))
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        result = original(parameters, limit, *rest, **named)
        observation.notify(kind, float(limit), result, parameters)
        return result

    return clip


def _backward(observation: Observation, original: Any) -> Any:
    def backward(*arguments: Any, **named: Any) -> Any:
        if not _is_compiling() and not EagerHook.paused:  # as notify(), without its call in every step
            for listener in observation.listeners:
                listener(arguments[0] if arguments else named.get("tensors"))
        return original(*arguments, **named)

    return backward


def _iterate(observation: Observation, original: Any) -> Any:
    def __iter__(self: Any) -> Any:
        observation.notify(self)
        return original(self)

    return __iter__


def _step_scheduler(observation: Observation, original: Any) -> Any:
    def step(self: Any, *arguments: Any, **named: Any) -> Any:
        global _scheduler_depth
        is_constructor = vars(self).get("_step_count", 1) == 0
        _scheduler_depth += 1
        try:
            return original(self, *arguments, **named)
        finally:
            _scheduler_depth -= 1
            if _scheduler_depth == 0 and not is_constructor:  # a scheduler that steps others counts once
                observation.notify(self)

    return step


_scheduler_depth = 0


def _compute_loss(observation: Observation, original: Any) -> Any:
    def compute(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        observation.notify(arguments[0] if arguments else named.get("input"),
                           arguments[1] if len(arguments) > 1 else named.get("target"))
        return result

    return compute


def _scale_loss(observation: Observation, original: Any) -> Any:
    def scale(self: Any, *arguments: Any, **named: Any) -> Any:
        observation.notify(self)
        return original(self, *arguments, **named)

    return scale


def _attend(observation: Observation, original: Any) -> Any:
    def attend(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
               *rest: Any, **named: Any) -> Any:
        observation.notify("attention", (query, key, attn_mask, is_causal, named.get("scale"), bool(named.get("enable_gqa"))))
        return original(query, key, value, attn_mask, dropout_p, is_causal, *rest, **named)

    return attend


def _softmax(observation: Observation, original: Any) -> Any:
    def softmax(*arguments: Any, **named: Any) -> Any:
        observation.notify("softmax", (arguments[0] if arguments else named.get("input"),))
        return original(*arguments, **named)

    return softmax


def _draw(observation: Observation, original: Any) -> Any:
    def _next_index(self: Any) -> Any:
        rows = original(self)
        observation.notify("draw", self, rows)
        return rows

    return _next_index


def _hand_out(observation: Observation, original: Any) -> Any:
    def __next__(self: Any) -> Any:
        batch = original(self)
        observation.notify("next", self, None)
        return batch

    return __next__


def _begin_again(observation: Observation, original: Any) -> Any:
    def _reset(self: Any, *arguments: Any, **named: Any) -> Any:
        observation.notify("reset", self, None)
        return original(self, *arguments, **named)

    return _reset


# ---- What can be observed --------------------------------------------------------------------------------------


def _find_clipping() -> list[Any]:
    module = torch.nn.utils.clip_grad
    by_norm = [(module, "_clip_grads_with_norm_", _clip_with_norm)]
    if not hasattr(module, "_clip_grads_with_norm_"):  # before PyTorch 2.6
        by_norm = [(owner, "clip_grad_norm_", functools.partial(_clip, "norm")) for owner in (module, torch.nn.utils)]
    return by_norm + [(owner, "clip_grad_value_", functools.partial(_clip, "value")) for owner in (module, torch.nn.utils)]


def _find_schedulers() -> list[Any]:
    kinds, found = [lr_scheduler.LRScheduler], []
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__ == lr_scheduler.__name__:
            found.append((kind, "step", _step_scheduler))
    return found


def _find_scaler() -> list[Any]:
    scaler = getattr(getattr(torch, "amp", None), "GradScaler", None)
    return [] if scaler is None else [(scaler, "scale", _scale_loss)]


clipping = Observation(_find_clipping)  # (kind, limit, norm or None, parameters), after the call
backward = Observation(lambda: [(torch.autograd, "backward", _backward)])  # (tensors), before the pass
loader = Observation(lambda: [(DataLoader, "__iter__", _iterate)])  # (loader), before the iterator is made
scheduler = Observation(_find_schedulers)  # (scheduler), after its step
losses = Observation(lambda: [(torch.nn.functional, name, _compute_loss) for name in ("cross_entropy", "nll_loss")])  # (outputs, target)
# (kind, arguments), before attention is computed; a softmax, too, which is attention's only where its caller says so
attention = Observation(lambda: [(torch.nn.functional, "scaled_dot_product_attention", _attend),
                                 (torch.nn.functional, "softmax", _softmax)])
# ("draw" | "next" | "reset", iterator, rows): what a loader's sampler draws, and when a batch is handed out
indices = Observation(lambda: [(_loader_iterator, "_next_index", _draw), (_loader_iterator, "__next__", _hand_out),
                               (_loader_iterator, "_reset", _begin_again)])
scaling = Observation(_find_scaler)  # (scaler), before it scales a loss


def target_of(losses: Any) -> torch.Tensor | None:
    """The target that a loss was computed with. The node of a loss function in the graph keeps it: `_saved_target`
    (https://pytorch.org/docs/stable/notes/autograd.html#saved-tensors)."""
    losses = [losses] if isinstance(losses, torch.Tensor) else losses
    nodes = deque(loss.grad_fn for loss in losses if isinstance(loss, torch.Tensor) and loss.grad_fn is not None)
    known = set(nodes)
    for _ in range(_GRAPH_NODES):
        if not nodes:
            break
        node = nodes.popleft()
        if hasattr(type(node), "_saved_target"):
            return node._saved_target
        following = [next_node for next_node, _ in node.next_functions if next_node is not None and next_node not in known]
        known.update(following)
        nodes.extend(following)
    return None
