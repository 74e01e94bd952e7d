"""Signals of a PyTorch optimizer's state: PARAMETER.moment1, .moment2, .step_size, .update_ratio, .gradient_cosine.

They are read from `optimizer.state`, whose keys are the same in all of torch.optim and in most other optimizers. Nothing is
read or computed but what a track or a condition names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

_FIRST = ("exp_avg", "momentum_buffer")
_SECOND = ("exp_avg_sq", "square_avg", "exp_inf", "sum")


def _steps(state: dict) -> float:
    return float(state["step"])


def _adam(group: dict, state: dict, like: torch.Tensor) -> torch.Tensor:
    first, second = (1 - beta ** _steps(state) for beta in map(float, group["betas"]))
    square = state["max_exp_avg_sq"] if group.get("amsgrad") else state["exp_avg_sq"]
    return (float(group["lr"]) / first) / ((square.double() / second).sqrt() + group["eps"])


def _nadam(group: dict, state: dict, like: torch.Tensor) -> torch.Tensor:
    second = 1 - float(group["betas"][1]) ** _steps(state)
    return float(group["lr"]) / ((state["exp_avg_sq"].double() / second).sqrt() + group["eps"])


def _adamax(group: dict, state: dict, like: torch.Tensor) -> torch.Tensor:
    return float(group["lr"]) / (1 - float(group["betas"][0]) ** _steps(state)) / state["exp_inf"].double()


def _rmsprop(group: dict, state: dict, like: torch.Tensor) -> torch.Tensor:
    square = state["square_avg"].double()
    if group.get("centered"):
        square = square - state["grad_avg"].double().square()
    return float(group["lr"]) / (square.sqrt() + group["eps"])


def _adagrad(group: dict, state: dict, like: torch.Tensor) -> torch.Tensor:
    rate = float(group["lr"]) / (1 + (_steps(state) - 1) * group["lr_decay"])
    return rate / (state["sum"].double().sqrt() + group["eps"])


def _constant(group: dict, state: dict, like: torch.Tensor) -> torch.Tensor:
    return torch.full_like(like, float(group["lr"]), dtype=torch.float32)


# What a step multiplies the first moment (Adam and its kin) or the gradient (others) by.
_STEP_SIZES: dict[type, Callable[[dict, dict, torch.Tensor], torch.Tensor]] = {
    torch.optim.Adam: _adam, torch.optim.AdamW: _adam, torch.optim.NAdam: _nadam, torch.optim.Adamax: _adamax,
    torch.optim.RMSprop: _rmsprop, torch.optim.Adagrad: _adagrad, torch.optim.SGD: _constant,
}


def _precise(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach() if tensor.device.type == "mps" else tensor.detach().double()


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(_precise(tensor)))


class OptimizerState:
    """Of one optimizer."""

    def __init__(self, watcher: Any, optimizer: Any) -> None:
        self.watcher = watcher
        self.optimizer = optimizer
        self.step_size = next((_STEP_SIZES[kind] for kind in type(optimizer).__mro__ if kind in _STEP_SIZES), None)
        ids = {id(p) for group in optimizer.param_groups for p in group["params"]}
        words = ["moment1", "moment2"] + ["step_size"] * (self.step_size is not None)
        self.tensors: list[tuple[Any, str, Any]] = []  # parameter, word, signal
        self.ratios: list[tuple[Any, Any]] = []
        self.cosines: list[tuple[Any, Any]] = []
        for p in watcher.parameters:
            if id(p.tensor) in ids and p.pick is None and not torch.nn.parameter.is_lazy(p.tensor):
                self.tensors += [(p, word, self._declare(p, word)) for word in words]
                if p.is_plain:  # a shard has no ratio of its own
                    self.ratios.append((p, self._declare(p, "update_ratio")))
                    self.cosines.append((p, self._declare(p, "gradient_cosine")))
        self.of_ratios = [signal for _, signal in self.ratios]
        self.of_cosines = [signal for _, signal in self.cosines]
        self.of_tensors = [signal for _, _, signal in self.tensors]

    def _declare(self, p: Any, word: str) -> Any:
        return self.watcher.declare(f"{p.name}.{word}", kind="derived", layer=p.layer, parameter=p.parameter,
                                    order=p.order, placement=p.placement)

    def _wants_any(self, signals: list[Any]) -> bool:
        return bool(signals) and self.watcher.deck._native.wants_any(signals)

    def _moment(self, p: Any, keys: tuple[str, ...]) -> torch.Tensor | None:
        state = self.optimizer.state.get(p.tensor) or {}
        return next((state[key] for key in keys if isinstance(state.get(key), torch.Tensor)), None)

    def wanted_ratios(self) -> set[int]:
        """Ids of the parameters whose update is needed for one."""
        return {id(p) for p, signal in self.ratios if signal.wants()} if self._wants_any(self.of_ratios) else set()

    def before(self) -> None:
        """Gradients are there, and the optimizer has not taken them up."""
        if not self._wants_any(self.of_cosines):
            return
        for p, signal in self.cosines:
            moment, gradient = self._moment(p, _FIRST), p.tensor.grad
            if moment is None or gradient is None or gradient.is_sparse or not signal.wants():
                continue
            a, b = _precise(moment).flatten(), _precise(gradient).flatten()
            lengths = float(a.norm()) * float(b.norm())
            if lengths > 0:
                self._scalar(signal, float(torch.dot(a, b)) / lengths)

    def after(self, updates: dict[int, torch.Tensor]) -> None:
        """The optimizer has stepped; updates: by the id of the parameter."""
        if self._wants_any(self.of_tensors):
            with torch.no_grad():
                self._put_tensors()
        if self._wants_any(self.of_ratios):
            for p, signal in self.ratios:
                if signal.wants() and id(p) in updates and (weights := _norm(p.tensor)) > 0:
                    self._scalar(signal, _norm(updates[id(p)]) / weights)

    def _put_tensors(self) -> None:
        groups = {id(p): group for group in self.optimizer.param_groups for p in group["params"]}
        for p, word, signal in self.tensors:
            if not signal.wants():
                continue
            if word == "step_size":
                state, group = self.optimizer.state.get(p.tensor) or {}, groups.get(id(p.tensor))
                if group is None or (not state and self.step_size is not _constant):
                    continue  # it had no gradient yet
                tensor = self.step_size(group, state, p.tensor)
                tensor = tensor.to(torch.float32)
            else:
                tensor = self._moment(p, _FIRST if word == "moment1" else _SECOND)
            if tensor is not None:
                self.watcher.put(signal, p.read(tensor))

    def _scalar(self, signal: Any, value: float) -> None:
        if math.isfinite(value):
            self.watcher.deck._native.scalar(self.watcher.names[id(signal)], value)
