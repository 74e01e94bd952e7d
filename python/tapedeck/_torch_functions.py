"""Functions that a PyTorch model calls between its modules: `F.relu`, `x + y`, `torch.cat`, … as `block.0/relu.output` and
`.error`, in steps that are recorded.

A TorchFunctionMode sees every call while the model's forward runs. What a module of torch.nn calls inside is that module's
own; what is only a view of something is nothing new.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ._layers import Layer

_FRAMES = 24  # between a function and the module that calls it


def _word(function: Any) -> str:
    """add of Tensor.__radd__, relu of relu_."""
    word = getattr(function, "__name__", "function").strip("_")
    return word[1:] if word in ("radd", "rsub", "rmul", "rtruediv", "rmatmul", "rpow", "iadd", "isub", "imul", "itruediv") else word


class Functions(TorchFunctionMode):
    """Of one model. It is entered around the model's forward pass."""

    def __init__(self, watcher: Any) -> None:
        super().__init__()
        self.watcher = watcher
        self.owners = {id(module): layer for module, layer in watcher.layers}
        self.layers: dict[str, Layer] = {}
        self.of_pass = (-1, 0)  # calls are: the step's serial number, and the pass of it
        self.calls: dict[str, int] = {}
        self.orders: dict[str, int] = {}

    @property
    def is_due(self) -> bool:
        watcher = self.watcher
        return watcher.due and torch.is_grad_enabled() and (watcher.model.training or watcher.accepts_evaluation)

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        result = function(*arguments, **(named or {}))
        if type(result) is torch.Tensor and result.grad_fn is not None and not result._is_view() and result.is_floating_point():
            self.watcher.guard("functions", self._see, function, result)
        return result

    def _owner(self) -> Layer | None:
        """The innermost module that is running; None where that is one of torch's own without modules inside."""
        frame: Any = sys._getframe(3)
        for _ in range(_FRAMES):
            if frame is None:
                return None
            module = frame.f_locals.get("self")
            layer = self.owners.get(id(module))
            if layer is not None:
                return None if type(module).__module__.startswith("torch.nn.modules") else layer
            frame = frame.f_back
        return None

    def _see(self, function: Any, result: torch.Tensor) -> None:
        owner = self._owner()
        if owner is None or torch._C._current_graph_task_id() != -1:
            return
        watcher = self.watcher
        if not watcher.begin_pass() or (watcher.passes > 1 and not watcher.merges):
            return
        if self.of_pass != (watcher.serial, watcher.passes):
            self.of_pass, self.calls = (watcher.serial, watcher.passes), {}
        name = f"{owner.name if not owner.is_root else watcher.prefix + 'model'}/{_word(function)}"
        call = self.calls.get(name, 0)
        self.calls[name] = call + 1
        layer = self.layers.get(name)
        if layer is None:
            layer = self.layers[name] = Layer(watcher, name, owner.order, False)
        layer.serial = watcher.serial
        layer.record(call, "", result, watcher.merges)
