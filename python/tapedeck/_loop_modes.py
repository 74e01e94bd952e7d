"""Facts about modes that did not take effect: updates that change nothing, a train() that was never called, autocast that layers do
not follow, spectral_norm before its first training pass. Looked at in the first updates; a weight is followed to the end."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from ._fingerprint import local, sample
from ._layers import Handle
from ._loop_setup import LABELLED_UPDATES

_layers = (torch.nn.Linear, torch.nn.modules.conv._ConvNd)
_PERIOD = 32  # updates between looks at the weight that is followed, once training is under way and all updates are looked at
_NAMES = 16


class Modes:
    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.handles: list[Any] = []
        self.followed: tuple[str, torch.Tensor] | None = None
        self.before: torch.Tensor | None = None
        self.rate = 0.0  # of the weight that is followed
        self.idle = 0  # updates in a row that changed nothing
        self.spectral = _spectral_layers(loop.model)  # until the first pass in training mode
        for name, module in loop.model.named_modules():
            if _owns_matrix(module):
                self.handles.append(Handle(module, "after", loop.guard(lambda output, name=name, module=module:
                                                                        self.see_output(name, module, output))))

    def stop(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles, self.followed, self.before = [], None, None

    # ---- passes --------------------------------------------------------------------------------------

    def before_forward(self) -> None:
        if self.spectral:
            if not self.loop.model.training:
                self.see_norms()
            self.spectral = []

    def see_norms(self) -> None:
        """What each layer divides by, against the largest singular value of its weight."""
        names, least = [], 1.0
        for name, module, parts in self.spectral:
            weight, u, v = (getattr(module, part, None) for part in parts)
            if weight is None or u is None or v is None or weight.numel() > 1 << 22:
                continue
            matrix = weight.detach().flatten(1).float()
            if matrix.shape != (len(u), len(v)):
                continue
            share = abs(float(u @ (matrix @ v))) / max(float(torch.linalg.matrix_norm(matrix, 2)), 1e-30)
            if share < 0.5:
                names.append(f"{name}.weight" if name else "weight")
                least = min(least, share)
        if names:
            self.loop.facts["spectral"] = {"count": len(names), "names": names[:_NAMES], "share": least, "since": self.loop.step}

    def see_output(self, name: str, module: torch.nn.Module, output: Any) -> None:
        loop = self.loop
        if loop.updates > 1:
            for handle in self.handles:
                handle.remove()
            self.handles = []
            return
        if not isinstance(output, torch.Tensor) or output.dtype is not torch.float32 or not _is_cast(output.device.type):
            return
        fact = loop.facts.setdefault("autocast", {"count": 0, "names": [], "since": loop.step})
        parameter = f"{name}.weight" if name else "weight"
        if parameter not in fact["names"] and len(fact["names"]) < _NAMES:
            fact["names"].append(parameter)
            fact["count"] += 1

    # ---- updates -------------------------------------------------------------------------------------

    def before_update(self, optimizer: Any) -> None:
        self.before = None
        loop = self.loop
        if loop.updates == 0:
            self.see_train()
        if loop.updates < 16:
            self.see_first(optimizer)
        if self.followed is not None and self.looks(optimizer):
            self.before = sample(self.followed[1]).clone()

    def see_first(self, optimizer: Any) -> None:
        loop = self.loop
        mine = [p for group in optimizer.param_groups for p in group["params"] if id(p) in loop.parameters.ids]
        if mine and not any(p.requires_grad for p in mine):
            loop.count("frozen_optimizer", parameters=len(mine))
        if self.followed is None:
            found = [(name, p) for name, p in loop.parameters.named.items() if p.dim() > 1 and any(p is each for each in mine)]
            self.followed = found[-1] if found else None

    def looks(self, optimizer: Any) -> bool:
        weight = self.followed[1]
        if not local(weight).is_cpu or weight.grad is None or weight.grad.is_sparse or \
                (64 <= self.loop.updates < LABELLED_UPDATES and self.loop.updates % _PERIOD and not self.idle):
            return False
        self.rate = max((float(group["lr"]) for group in optimizer.param_groups if any(p is weight for p in group["params"])), default=0.0)
        return self.rate > 0

    def after_update(self) -> None:
        """A step that is a multiple of the gradient, or of the rate, changes a float unless it is a ten-millionth of it."""
        if self.before is None:
            return
        before, self.before = self.before, None
        name, weight = self.followed
        if not torch.equal(sample(weight), before) or weight.grad is None \
                or self.rate * min(1.0, float(sample(weight.grad).abs().max())) <= 1e-6 * float(before.abs().max()):
            self.idle = 0
            self.loop.facts.pop("idle", None)
        elif self.loop.updates > 1:
            self.idle += 1
            self.loop.facts["idle"] = {"count": self.idle, "names": [name], "since": self.loop.step - self.idle + 1}

    def see_train(self) -> None:
        """What train() of a module that has its own would change, on a copy whose tensors have no memory."""
        names = []
        for name, module in self.loop.model.named_modules():
            if type(module).train is torch.nn.Module.train or not module.training:
                continue
            twin = _empty_copy(module)
            if twin is None:
                continue
            before = _modes(twin)
            with torch.random.fork_rng(devices=[]):
                twin.train(True)
            prefix = f"{name}." if name else ""
            names += [prefix + key for key, value in _modes(twin).items() if before.get(key) != value and key + ".weight" not in names]
        if names:
            self.loop.facts["train_not_called"] = {"count": len(names), "names": names[:_NAMES], "since": 1}


def _modes(module: torch.nn.Module) -> dict[str, bool]:
    return {name: p.requires_grad for name, p in module.named_parameters()} | \
        {f"{name}.training" if name else "training": part.training for name, part in module.named_modules()}


def _empty_copy(module: torch.nn.Module) -> torch.nn.Module | None:
    """A copy with parameters and buffers on the device "meta"; None: it cannot be copied."""
    memo: dict[int, Any] = {}
    for tensor in (*module.parameters(), *module.buffers()):
        if is_lazy(tensor) or hasattr(tensor, "_local_tensor"):
            return None
        empty = torch.empty_like(tensor, device="meta")
        memo[id(tensor)] = torch.nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else empty
    try:
        return copy.deepcopy(module, memo)
    except Exception:
        return None


def _owns_matrix(module: torch.nn.Module) -> bool:
    """A layer that multiplies by a matrix of its own: those of PyTorch, and modules of others with one parameter of that kind."""
    if isinstance(module, _layers):
        return True
    if next(module.children(), None) is not None or type(module).__module__.startswith("torch."):
        return False
    own = [p for p in module._parameters.values() if p is not None and not is_lazy(p) and p.dim() > 1]
    return len(own) == 1 and all(p is own[0] or p.dim() == 1 for p in module._parameters.values() if p is not None)


def _is_cast(device: str) -> bool:
    try:
        return torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) in (torch.float16, torch.bfloat16)
    except (TypeError, RuntimeError):  # before PyTorch 2.4 it takes no device
        return False


def _spectral_layers(model: torch.nn.Module) -> list[tuple[str, torch.nn.Module, tuple[str, str, str]]]:
    """Modules that torch.nn.utils.spectral_norm has wrapped: its vectors are found in training mode only."""
    found = []
    for name, module in model.named_modules():
        for hook in module._forward_pre_hooks.values():
            if type(hook).__name__ == "SpectralNorm" and getattr(hook, "dim", 1) == 0:
                found.append((name, module, (f"{hook.name}_orig", f"{hook.name}_u", f"{hook.name}_v")))
    return found
