"""The curvature of a PyTorch loss: hessian.max_eigenvalue and hessian.update_curvature.

Products of the Hessian with vectors are exact, by double backward through one graph of the batch: they see the same dropout,
and the same statistics of the batch. Random states, buffers (batch norm's averages) and `.grad` are afterwards what they were,
and no layer is recorded meanwhile.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _random
from ._layers import EagerHook, Tap
from ._watcher import Watcher

MAX_EIGENVALUE, UPDATE_CURVATURE = "hessian.max_eigenvalue", "hessian.update_curvature"
Vector = list[torch.Tensor]


@contextlib.contextmanager
def _apart(models: list[torch.nn.Module]) -> Iterator[None]:
    """What is computed within changes nothing, and nobody observes it."""
    random = _random.as_arrays(_random.states())
    modules = {id(module): module for model in models for module in model.modules()}.values()
    places = [(module, dict(module._buffers)) for module in modules if module._buffers]
    taps = [tap for module in modules if isinstance(tap := module.__dict__.get("_compiled_call_impl"), Tap)]
    observers = [(tap.before, tap.after, tap.around) for tap in taps]
    paused = EagerHook.paused
    try:
        for tap in taps:
            tap.before, tap.after, tap.around = (), (), None
        for module, buffers in places:
            module._buffers.update({name: None if buffer is None else buffer.clone() for name, buffer in buffers.items()})
        EagerHook.paused = True
        yield
    finally:
        EagerHook.paused = paused
        for module, buffers in places:
            module._buffers.update(buffers)
        for tap, (before, after, around) in zip(taps, observers):
            tap.before, tap.after, tap.around = before, after, around
        _random.restore(random)


def _math_attention() -> Any:
    """Fused attention has no second derivative."""
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return contextlib.nullcontext()
    return sdpa_kernel(SDPBackend.MATH)


def _dot(a: Vector, b: Vector) -> float:
    return float(sum(torch.sum(x.double() * y.double()) for x, y in zip(a, b)))


class Hessian:
    """Of a loss with respect to parameters, for products with vectors."""

    def __init__(self, loss: torch.Tensor, parameters: Vector) -> None:
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise ValueError("curvature: the function has to return the loss, a tensor of one element with a graph")
        self.parameters = parameters
        found = torch.autograd.grad(loss.reshape(()), parameters, create_graph=True, allow_unused=True)
        self.gradients = [(i, g) for i, g in enumerate(found) if g is not None and g.requires_grad]
        self.products = 0

    def times(self, vector: Vector) -> Vector:
        self.products += 1
        zeros = [torch.zeros_like(p) for p in self.parameters]
        if not self.gradients:  # a loss that is linear in all of them
            return zeros
        found = torch.autograd.grad([g for _, g in self.gradients], self.parameters, [vector[i] for i, _ in self.gradients],
                                    retain_graph=True, allow_unused=True)
        return [zero if each is None else each.detach() for each, zero in zip(found, zeros)]

    def along(self, direction: Vector) -> float:
        """The second derivative along a direction of length 1; NaN for zeros."""
        length = _dot(direction, direction)
        return _dot(direction, self.times(direction)) / length if length > 0 else math.nan


def max_eigenvalue(hessian: Hessian, iterations: int, tolerance: float) -> tuple[float, float]:
    """The largest eigenvalue by power iteration, and the norm of what is left: an eigenvalue is within that of it. Where the
    one of greatest magnitude is negative, the iteration goes on with the Hessian shifted by it, whose greatest is the largest."""
    shift = 0.0
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        vector = [torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p) for p in hessian.parameters]
        value, left = math.nan, math.inf
        for _ in range(iterations):
            length = math.sqrt(_dot(vector, vector))
            if not length > 0:  # the vector was in the Hessian's null space
                return shift, 0.0
            vector = [v / length for v in vector]
            product = [h - shift * v for h, v in zip(hessian.times(vector), vector)]
            value = _dot(vector, product)
            left = math.sqrt(max(0.0, _dot(product, product) - value * value))
            if not math.isfinite(value) or left <= tolerance * abs(value):
                break
            vector = product
        if shift or not value < 0:
            break
        shift = value
    return value + shift, left


class Curvature:
    """Goes with a deck; its signals are recorded where a track names them."""

    def __init__(self, deck: Any) -> None:
        self.deck = deck
        self.watchers = [part for part in deck._parts if isinstance(part, Watcher)]
        if not self.watchers:
            raise ValueError("curvature: this deck watches no PyTorch model")
        if not deck._begun:
            deck._prepare()
        for name in (MAX_EIGENVALUE, UPDATE_CURVATURE):
            deck._native.signal(name, kind="derived", rank=deck.rank)
        self.before: dict[int, torch.Tensor] = {}  # parameters as they were before the optimizer's last step
        self.handles = [updates.optimizer.register_step_pre_hook(self._remember) for watcher in self.watchers
                        for updates in watcher.optimizers]
        deck._parts.append(self)

    def before_step(self) -> bool:
        return True

    def after_step(self) -> None:
        self.before.clear()

    def finish(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def _remember(self, optimizer: Any, *_: Any) -> None:
        if self.deck.wants(UPDATE_CURVATURE):
            for group in optimizer.param_groups:
                self.before.update({id(p): p.detach().clone() for p in group["params"]})

    def take(self, loss: Callable[[], torch.Tensor], parameters: Any, iterations: int, tolerance: float) -> dict[str, float]:
        eigenvalue, update = self.deck.wants(MAX_EIGENVALUE), self.deck.wants(UPDATE_CURVATURE)
        models = [watcher.model for watcher in self.watchers]
        chosen = list(parameters) if parameters is not None else [p for model in models for p in model.parameters()]
        chosen = [p for p in {id(p): p for p in chosen}.values() if p.requires_grad]
        if not eigenvalue and not update:
            return {}
        moved = [p.detach() - self.before[id(p)] if id(p) in self.before else torch.zeros_like(p) for p in chosen]
        update = update and any(bool(d.any()) for d in moved)
        found: dict[str, float] = {}
        with _apart(models), torch.enable_grad(), _math_attention():
            hessian = Hessian(loss(), chosen)
            if update:
                found[UPDATE_CURVATURE] = hessian.along(moved)
            if eigenvalue:
                found[MAX_EIGENVALUE], left = max_eigenvalue(hessian, iterations, tolerance)
                if left > tolerance * abs(found[MAX_EIGENVALUE]):
                    self.watchers[0].note_once("hessian", f"{MAX_EIGENVALUE} of step {self.deck.steps + 1} is within {left:.3g}, "
                                               f"after {hessian.products} products; more iterations make it exact")
        for name, value in found.items():
            if math.isfinite(value):
                self.deck._native.scalar(name, value)
        return found
