"""DeepSpeed's ZeRO: an optimizer of torch updates flat buffers, in which a process has its part of each parameter. That part
of parameter, gradient and update is recorded, as it is under FSDP2; nothing is gathered."""

from __future__ import annotations

from typing import Any

import torch

from ._steps import Parameter, Updates


class Part:
    """A process's part of a parameter: a range of a flat buffer."""

    def __init__(self, buffer: torch.Tensor, start: int, count: int) -> None:
        self.buffer = buffer
        self.start = start
        self.count = count

    def value(self) -> torch.Tensor:
        return self.buffer.detach().narrow(0, self.start, self.count)

    def gradient(self) -> torch.Tensor | None:
        gradient = self.buffer.grad
        return None if gradient is None else gradient.narrow(0, self.start, self.count)


def is_split(parameter: torch.nn.Parameter) -> bool:
    return hasattr(parameter, "_hp_mapping") or hasattr(parameter, "_z3_optimizer")


def owner_of(model: torch.nn.Module, optimizer: Any) -> Any:
    """DeepSpeed's optimizer of the model's parameters, or None; of the first two stages only the user has it."""
    if not any(is_split(p) for p in model.parameters()):
        return None
    while optimizer is not None and not hasattr(optimizer, "loss_scale"):
        optimizer = getattr(optimizer, "optimizer", None)
    return optimizer or next((p._z3_optimizer for p in model.parameters() if hasattr(p, "_z3_optimizer")), None)


def parts_of(model: torch.nn.Module, optimizers: dict[Any, Any]) -> dict[int, Part | None]:
    """By the parameter's id; None: this process has nothing of it."""
    found: dict[int, Part | None] = {}
    for optimizer in optimizers.values():
        for parameter in model.parameters():
            if hasattr(parameter, "_z3_optimizer"):
                found[id(parameter)] = _third_stage(parameter)
            elif hasattr(parameter, "_hp_mapping"):
                found[id(parameter)] = _first_stages(parameter, optimizer)
    return found


def _first_stages(parameter: Any, optimizer: Any) -> Part | None:
    mapping = parameter._hp_mapping
    if mapping is None:
        return None
    at = mapping.get_hp_fragment_address()
    return Part(optimizer.param_groups[mapping.param_group_index]["params"][0], at.start, at.numel)


def _third_stage(parameter: Any) -> Part:
    owner = parameter._z3_optimizer
    group, start, size = owner.grad_position[owner.get_param_id(parameter)]
    begin = parameter.ds_zero_partition_rank * size  # of equal parts, the last ones may be padding
    return Part(owner.fp32_partitioned_groups_flat[group], start, min(max(parameter.ds_numel - begin, 0), size))


class ZeroUpdates(Updates):
    """The optimizer steps once for each buffer; all of that is one update."""

    def __init__(self, watcher: Any, word: Any, optimizer: Any) -> None:
        self.all_groups = list(optimizer.param_groups)  # within a step the optimizer has one of them
        self.trained = [p for p in watcher.parameters if p.part is not None]
        self.buffers = {id(p) for group in self.all_groups for p in group["params"]} | {id(p.part.buffer) for p in self.trained}
        self.remaining: set[int] = set()
        self.current: set[int] = set()
        super().__init__(watcher, word, optimizer)

    def groups(self) -> list[dict[str, Any]]:
        return self.all_groups

    def parameters(self) -> list[Parameter]:
        return [p for p in self.trained if id(p.part.buffer) in self.current]

    def before(self, optimizer: Any, arguments: tuple, named: dict) -> None:
        watcher = self.watcher
        self.current = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not self.remaining:
            self.remaining = set(self.buffers)
            self.records = False
            watcher.guard("gradients", watcher.before_update, self)
        elif self.records:
            watcher.guard("updates", watcher.remember, self.parameters())
        if self.records:
            watcher.guard("gradients", watcher.put_gradients, self.parameters())

    def after(self, *_: Any) -> None:
        watcher = self.watcher
        self.remaining -= self.current
        if not self.remaining:
            watcher.guard("updates", watcher.after_update, self)
        elif self.records:
            watcher.guard("updates", watcher.put_parameters, self.parameters())
