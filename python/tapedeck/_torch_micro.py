"""Of the micro-batches that a step accumulates in PyTorch: LAYER.PARAM.micro_gradient, the gradient of each, and
gradient_noise_scale (McCandlish et al., 2018) with the two estimates that it is made of.

With n micro-batches of b_i examples, g_i the gradients that they add, G the mean gradient and S the sum of the variances of
one example's gradient:

    n sum |g_i|^2 = |G|^2 + S h,   |sum g_i|^2 = |G|^2 + S h/n   on average,   h = mean of 1/b_i

The unit of both is that of the gradient that the optimizer gets; their quotient S/|G|^2 has none.
"""

from __future__ import annotations

from typing import Any

import torch

from ._layers import EagerHook


class _Hooked:
    """What looks at each micro-batch's gradients, in steps that want it."""

    def __init__(self, watcher: Any) -> None:
        self.watcher = watcher
        self.handles: list[Any] = []
        self.parameters = [p for p in watcher.parameters if p.is_plain and p.tensor.requires_grad]
        self.signals: list[Any] = []

    def open_step(self, due: bool) -> None:
        deck = self.watcher.deck  # asking would begin the step, before an end_epoch() that may follow
        needed = due and bool(self.signals) and (deck._by_epoch or deck._native.wants_any(self.signals))
        if needed and not self.handles:
            self.handles = self.hooks()
        elif not needed:
            for handle in self.handles:
                handle.remove()
            self.handles = []

    def hooks(self) -> list[Any]:
        raise NotImplementedError

    def counts(self) -> bool:
        """Whether the pass under way is a micro-batch's."""
        watcher = self.watcher
        return (watcher.passes == 1 or watcher.merges) and watcher.counts()

    def before_update(self) -> None:
        pass

    def finish(self) -> None:
        self.open_step(False)


class MicroGradients(_Hooked):
    """Statistics are over all micro-batches, other forms have the first."""

    def __init__(self, watcher: Any) -> None:
        super().__init__(watcher)
        self.signals = [watcher.declare(f"{p.name}.micro_gradient", kind="derived", layer=p.layer, parameter=p.parameter, order=p.order,
                                        placement="batch") for p in self.parameters]

    def hooks(self) -> list[Any]:
        return [p.tensor.register_hook(EagerHook(_Put(self, signal))) for p, signal in zip(self.parameters, self.signals)]


class _Put:
    def __init__(self, owner: MicroGradients, signal: Any) -> None:
        self.owner, self.signal = owner, signal

    def __call__(self, gradient: torch.Tensor) -> None:
        watcher = self.owner.watcher
        if self.signal.wants() and self.owner.counts():
            scaled = gradient if watcher.loss_scale == 1 else gradient / watcher.loss_scale
            watcher.guard("micro_gradient", watcher.put, self.signal, scaled, watcher.merges)


def _square(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    tensor = tensor.coalesce().values() if tensor.is_sparse else tensor
    return torch.linalg.vector_norm(tensor if tensor.device.type == "mps" else tensor.double()).square()


class GradientNoise(_Hooked):
    def __init__(self, watcher: Any, world: int) -> None:
        super().__init__(watcher)
        self.world = world
        self.signals = [watcher.declare(watcher.prefix + name, kind="derived", placement="batch")
                        for name in ("gradient_noise_scale", "gradient_variance", "gradient_square")]
        self.serial = -1
        self.small: dict[int, list[torch.Tensor]] = {}  # by pass: squares of what it adds, of each parameter
        self.big: dict[int, dict[int, torch.Tensor]] = {}  # by pass: squares of what is there then, by parameter

    def hooks(self) -> list[Any]:
        if self.world > 1 or len(self.parameters) < sum(p.tensor.requires_grad for p in self.watcher.parameters):
            self.watcher.warn_once("gradient_noise_scale", "gradient_noise_scale is recorded of one process that has all of each parameter")
            return []
        found = [p.tensor.register_hook(EagerHook(self._see_small)) for p in self.parameters]
        return found + [p.tensor.register_post_accumulate_grad_hook(EagerHook(self._see_big)) for p in self.parameters]

    def _see_small(self, gradient: torch.Tensor) -> None:
        self.watcher.guard("gradient_noise_scale", self._keep, gradient, None)

    def _see_big(self, parameter: torch.Tensor) -> None:
        self.watcher.guard("gradient_noise_scale", self._keep, parameter.grad, id(parameter))

    def _keep(self, gradient: torch.Tensor, parameter: int | None) -> None:
        if not self.counts():
            return
        watcher = self.watcher
        if self.serial != watcher.serial:
            self.serial, self.small, self.big = watcher.serial, {}, {}
        with torch.no_grad():
            if parameter is None:
                self.small.setdefault(watcher.passes, []).append(_square(gradient))
            else:
                self.big.setdefault(watcher.passes, {})[parameter] = _square(gradient)

    def before_update(self) -> None:
        if self.handles and self.serial == self.watcher.serial and any(signal.wants() for signal in self.signals):
            self.watcher.guard("gradient_noise_scale", self._record)
        self.serial = -1

    def _record(self) -> None:
        watcher, n = self.watcher, len(self.small)
        if n < 2:
            watcher.note_once("gradient_noise_scale", "not recorded: it needs two micro-batches for an update")
            return
        added = [float(sum(squares)) for _, squares in sorted(self.small.items())]
        latest: dict[int, torch.Tensor] = {}
        for _, squares in sorted(self.big.items()):
            latest.update(squares)
        whole, first = float(sum(latest.values())), float(sum(self.big[min(self.big)].values()))
        sizes = [watcher.examples.get(number, 0) for number in sorted(self.small)]
        if min(sizes) == 0:
            watcher.warn_once("gradient_noise_scale", "gradient_noise_scale is not recorded: the model's output has no rows to count")
        elif abs(first - added[0]) > 1e-3 * first:
            watcher.warn_once("gradient_noise_scale", "gradient_noise_scale is not recorded: gradients of the update before are still there")
        else:
            self._put(*noise(added, whole, sizes), watcher.loss_scale)

    def _put(self, variance: float, square: float, scale: float) -> None:
        values = (variance / square if square > 0 else None, variance / scale**2, square / scale**2)
        for signal, value in zip(self.signals, values):
            if value is not None and signal.wants():
                self.watcher.deck._native.scalar(self.watcher.names[id(signal)], value)


def noise(added: list[float], whole: float, sizes: list[int]) -> tuple[float, float]:
    """S and |G|^2 of the squares |g_i|^2, |sum g_i|^2 and the b_i."""
    n = len(added)
    share = sum(1 / size for size in sizes) / n
    variance = (n * sum(added) - whole) / (share * (1 - 1 / n))
    return variance, whole - variance * share / n
