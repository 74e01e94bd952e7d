"""gradient_norm.rows of a PyTorch loop: the norm of what each example adds to the gradient of the parameters of Linear and
Embedding layers.

With inputs a_t and output gradients g_t of an example, at its positions t, the gradient of a weight is sum_t g_t a_t'. Its
squared norm is sum_ts (a_t.a_s)(g_t.g_s), which needs no gradient of an example's own (Goodfellow, 2015; Li et al., 2021). Of
an embedding a_t.a_s is 1 where the indices are equal, otherwise 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._layers import Handle

_AT_A_TIME = 1 << 22  # numbers


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.device.type == "mps" else tensor.double()


def _positions(tensor: torch.Tensor, axes: int) -> torch.Tensor:
    """(examples, positions, features)."""
    return tensor.reshape(len(tensor), -1, *tensor.shape[tensor.dim() - axes:])


def _weight_squares(inputs: torch.Tensor, gradients: torch.Tensor) -> torch.Tensor:
    positions, width, height = inputs.shape[1], inputs.shape[2], gradients.shape[2]
    by_pairs = positions * (width + height) <= width * height
    step = max(1, _AT_A_TIME // (positions**2 if by_pairs else width * height))
    found = []
    for a, g in zip(inputs.split(step), gradients.split(step)):
        if by_pairs:
            found.append(((a @ a.transpose(1, 2)) * (g @ g.transpose(1, 2))).sum((1, 2)))
        else:
            found.append((g.transpose(1, 2) @ a).square().sum((1, 2)))
    return torch.cat(found)


def _of_linear(module: Any, calls: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    inputs = torch.cat([_positions(_wide(a), 1) for a, _ in calls], 1)
    gradients = torch.cat([_positions(_wide(g), 1) for _, g in calls], 1)
    squares = torch.zeros(len(inputs), dtype=inputs.dtype, device=inputs.device)
    if module.weight.requires_grad:
        squares = squares + _weight_squares(inputs, gradients)
    if module.bias is not None and module.bias.requires_grad:
        squares = squares + gradients.sum(1).square().sum(1)
    return squares


def _of_embedding(module: Any, calls: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    indices = torch.cat([a.reshape(len(a), -1) for a, _ in calls], 1)
    gradients = torch.cat([_positions(_wide(g), 1) for _, g in calls], 1)
    if module.padding_idx is not None:
        gradients = torch.where((indices == module.padding_idx)[..., None], 0, gradients)
    step = max(1, _AT_A_TIME // max(1, indices.shape[1] ** 2))
    return torch.cat([((i[:, :, None] == i[:, None]) * (g @ g.transpose(1, 2))).sum((1, 2))
                      for i, g in zip(indices.split(step), gradients.split(step))])


_KINDS: dict[type, Callable[[Any, list[tuple[torch.Tensor, torch.Tensor]]], torch.Tensor]] = {
    torch.nn.Linear: _of_linear, torch.nn.Embedding: _of_embedding,
}


class ExampleGradients:
    """Of one model."""

    def __init__(self, watcher: Any, rows: Any) -> None:
        self.watcher = watcher
        self.rows = rows  # LossRows: it knows which rows of the data set a batch has
        self.signal = watcher.declare(f"{watcher.prefix}gradient_norm.rows", kind="derived", batched=True)
        self.modules = self._choose()
        self.handles: list[Handle] = []
        self.serial = -1
        self.latest: dict[int, torch.Tensor] = {}  # by module: what it is called with
        self.calls: dict[int, dict[int, list[tuple[torch.Tensor, torch.Tensor]]]] = {}  # by pass and module

    def _choose(self) -> list[torch.nn.Module]:
        """Modules whose parameters no other one has."""
        owners: dict[int, int] = {}
        for module, _ in self.watcher.layers:
            for parameter in module._parameters.values():
                if parameter is not None:
                    owners[id(parameter)] = owners.get(id(parameter), 0) + 1
        return [module for module, _ in self.watcher.layers if type(module) in _KINDS and not getattr(module, "scale_grad_by_freq", False)
                and any(p is not None and p.requires_grad for p in module._parameters.values())
                and all(p is None or (owners[id(p)] == 1 and not torch.nn.parameter.is_lazy(p)) for p in module._parameters.values())]

    def open_step(self, due: bool) -> None:
        deck = self.watcher.deck  # asking would begin the step, before an end_epoch() that may follow
        needed = due and (deck._by_epoch or self.signal.wants())
        if needed and not self.handles:
            for module in self.modules:
                self.handles.append(Handle(module, "before", _See(self, module, "enter")))
                self.handles.append(Handle(module, "after", _See(self, module, "leave")))
            self._note_share()
        elif not needed:
            for handle in self.handles:
                handle.remove()
            self.handles, self.latest, self.calls = [], {}, {}

    def _note_share(self) -> None:
        mine = sum(p.requires_grad for module in self.modules for p in module._parameters.values() if p is not None)
        every = sum(p.tensor.requires_grad for p in self.watcher.parameters)
        if mine < every:
            self.watcher.note_once("gradient_norm", f"gradient_norm.rows are of {mine} of {every} trained parameters: those of Linear and "
                                   "Embedding layers that share none")

    def enter(self, module: torch.nn.Module, arguments: tuple, named: dict) -> None:
        value = arguments[0] if arguments else named.get("input")
        if torch.is_grad_enabled() and isinstance(value, torch.Tensor):
            self.latest[id(module)] = value.detach()

    def leave(self, module: torch.nn.Module, output: Any) -> None:
        value = self.latest.pop(id(module), None)
        if value is not None and isinstance(output, torch.Tensor) and output.requires_grad and torch._C._current_graph_task_id() == -1:
            output.register_hook(_Gradient(self, module, value))

    def keep(self, module: torch.nn.Module, value: torch.Tensor, gradient: torch.Tensor) -> None:
        watcher = self.watcher
        if not watcher.counts() or (watcher.passes > 1 and not watcher.merges) or not self.signal.wants():
            return
        if self.serial != watcher.serial:
            self.serial, self.calls = watcher.serial, {}
            self.rows.number(watcher.examples.get(1, 0))
        gradient = gradient if watcher.loss_scale == 1 else gradient / watcher.loss_scale
        self.calls.setdefault(watcher.passes, {}).setdefault(id(module), []).append((value, gradient.detach()))

    def before_update(self) -> None:
        calls, self.calls = self.calls, {}
        if self.serial == self.watcher.serial:
            with torch.no_grad():
                for number in sorted(calls):
                    self.watcher.guard("gradient_norm.rows", self._record, calls[number], self.watcher.examples.get(number, 0), number > 1)
        self.serial = -1

    def _record(self, calls: dict[int, list[tuple[torch.Tensor, torch.Tensor]]], examples: int, more: bool) -> None:
        squares: Any = 0
        for module in self.modules:
            of_module = calls.get(id(module), [])
            if any(len(value) != examples or value.dim() < (2 if isinstance(module, torch.nn.Linear) else 1) for value, _ in of_module):
                raise ValueError(f"the first axis of what {type(module).__name__} layers get is not that of the model's output, of {examples} rows")
            if of_module:
                squares = squares + _KINDS[type(module)](module, of_module)
        if not isinstance(squares, int):
            self.watcher.put(self.signal, squares.sqrt().float(), more)

    def finish(self) -> None:
        self.open_step(False)


class _See:
    """An observer of a module's calls."""

    def __init__(self, owner: ExampleGradients, module: torch.nn.Module, what: str) -> None:
        self.owner, self.module, self.call = owner, module, getattr(owner, what)

    def __call__(self, *arguments: Any) -> None:
        self.owner.watcher.guard("gradient_norm.rows", self.call, self.module, *arguments)


class _Gradient:
    """The hook on an output."""

    def __init__(self, owner: ExampleGradients, module: torch.nn.Module, value: torch.Tensor) -> None:
        self.owner, self.module, self.value = owner, module, value

    def __call__(self, gradient: torch.Tensor) -> None:
        self.owner.watcher.guard("gradient_norm.rows", self.owner.keep, self.module, self.value, gradient)
