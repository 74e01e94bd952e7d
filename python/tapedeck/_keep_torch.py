"""What a step of a PyTorch training is made of, so that it can be executed again.

A step is a list of passes: what the model was called with, the random states then, the loss that its backward pass began
with and that loss's target. With the state of model and optimizers this is all that _replay.py needs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from . import _observe, _random
from ._capsule import Array, Writer
from ._continuity import LEFT, STATE, Continuity
from ._keep import Keeper
from ._layers import Handle


def to_array(tensor: torch.Tensor) -> Array:
    tensor = getattr(tensor, "_local_tensor", tensor).detach().cpu().contiguous()
    if tensor.dtype is torch.bfloat16:
        return Array(tensor.view(torch.uint16 if hasattr(torch, "uint16") else torch.int16).numpy().view("uint16"), "bfloat16")
    return Array(tensor.numpy())


def to_tensor(array: Array) -> torch.Tensor:
    data = torch.from_numpy(array.data.copy())
    return data.view(torch.bfloat16) if array.dtype == "bfloat16" else data


def mapped_arrays(value: Any, change: Any) -> Any:
    """A nested value of a capsule with tensors instead of arrays."""
    if isinstance(value, Array):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)([mapped_arrays(each, change) for each in value])
    if isinstance(value, dict):
        return {key: mapped_arrays(each, change) for key, each in value.items()}
    return value


def mapped(value: Any, change: Any) -> Any:
    """A nested value with other tensors. Raises TypeError for what a capsule cannot keep."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return type(value)([mapped(each, change) for each in value]) if type(value) in (tuple, list) else \
            tuple(mapped(each, change) for each in value)
    if isinstance(value, Mapping):
        return {key: mapped(each, change) for key, each in value.items()}
    if type(value).__module__ == "numpy":
        return value.copy()
    raise TypeError(f"it has a {type(value).__name__}, and a capsule keeps tensors, numbers, texts, lists and dicts")


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


def _autocast() -> list[Any]:
    """Device type and type of elements of the autocast that is on, or nothing."""
    for device in ("cuda", "cpu"):
        if torch.is_autocast_enabled(device):
            return [device, str(torch.get_autocast_dtype(device)).removeprefix("torch.")]
    return []


class Pass:
    """A forward pass and the backward pass that followed."""

    __slots__ = ("arguments", "named", "random", "autocast", "loss", "target", "scale")

    def __init__(self, arguments: Any, named: Any) -> None:
        self.random = _random.states()
        self.arguments = mapped(arguments, _copy)
        self.named = mapped(named, _copy)
        self.autocast = _autocast()
        self.loss: torch.Tensor | None = None
        self.target: torch.Tensor | None = None
        self.scale = 1.0


class Step:
    """What was done in a step; the settings of optimizers are those with which they stepped."""

    __slots__ = ("number", "passes", "groups", "clipping")

    def __init__(self) -> None:
        self.number = 0
        self.passes: list[Pass] = []
        self.groups: dict[int, list[dict[str, Any]]] = {}
        self.clipping: list[tuple[str, float]] = []

    def __bool__(self) -> bool:
        return bool(self.passes)

    def loss(self) -> float:
        values = [float(each.loss) / each.scale for each in self.passes if each.loss is not None]
        return sum(values) / len(values)

    def describe(self, writer: Writer) -> dict[str, Any]:
        def encode(value: Any, name: str) -> Any:
            return writer.encode(mapped(value, to_array), f"{self.number:06}.{name}", as_files=True)

        return {
            "step": self.number,
            "groups": encode(self.groups, "groups"),
            "clipping": [[kind, limit.hex()] for kind, limit in self.clipping],
            "random_state": _random.fingerprint(self.passes[0].random),
            "passes": [{
                "arguments": encode(each.arguments, f"{i}.arguments"),
                "named": encode(each.named, f"{i}.named"),
                "target": encode(each.target, f"{i}.target"),
                "loss": encode(each.loss, f"{i}.loss"),
                "scale": float(each.scale).hex(),
                "autocast": each.autocast,
                "random": writer.encode(_random.as_arrays(each.random), f"{self.number:06}.{i}.random", as_files=True),
            } for i, each in enumerate(self.passes)],
        }


def model_state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """All parameters and buffers, those that state_dict() leaves out too."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _guarded(method: Any) -> Any:
    """What cannot be kept ends the capsules, not the training."""

    @functools.wraps(method)
    def call(self: "TorchKeeper", *arguments: Any) -> None:
        if not self.stopped:
            try:
                method(self, *arguments)
            except Exception as error:
                self.stop(f"step {self.deck.steps + 1} cannot be kept: {error}")

    return call


class TorchKeeper(Keeper):
    """Goes with a deck that watches a model."""

    framework = f"torch {torch.__version__}"

    def __init__(self, watcher: Any, outer: torch.nn.Module, size: int) -> None:
        super().__init__(watcher.deck, size)
        self.watcher, self.model = watcher, watcher.model
        self.optimizers = [updates.optimizer for updates in watcher.optimizers]
        self.continuity = Continuity(self.deck)
        self.open: Pass | None = None  # a forward pass whose backward pass has not come
        self.handles: list[Any] = [Handle(outer, "before", self.before_forward)]
        self.handles += [optimizer.register_step_pre_hook(self.before_update) for optimizer in self.optimizers]
        _observe.backward.add(self.before_backward)
        _observe.clipping.add(self.after_clipping)

    def new_step(self) -> Step:
        return Step()

    def copy_state(self) -> Any:
        with torch.no_grad():
            return ({name: _copy(tensor) for name, tensor in model_state(self.model).items()},
                    [mapped(optimizer.state_dict(), _copy) for optimizer in self.optimizers])

    # ---- what happens in a step -----------------------------------------------------------------

    @_guarded
    def before_forward(self, arguments: Any, named: Any) -> None:
        if not torch.is_grad_enabled() or not self.model.training or torch.compiler.is_compiling():
            return
        if torch._C._current_graph_task_id() != -1:  # activations that are computed again
            return
        if self.watcher.clock.is_over:
            self.watcher.clock.infer_step()
        self.open_window()
        self.open = Pass(arguments, named)

    @_guarded
    def before_backward(self, tensors: Any) -> None:
        if self.open is None:
            return
        loss = tensors if isinstance(tensors, torch.Tensor) else next(iter(tensors or ()), None)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            return
        target = _observe.target_of(loss)
        self.open.loss, self.open.target = _copy(loss), None if target is None else _copy(target)
        self.open.scale = self.watcher.scaler.scale()
        self.step.passes.append(self.open)
        self.open = None

    @_guarded
    def before_update(self, optimizer: Any, arguments: Any, named: Any) -> None:
        if optimizer in self.optimizers:
            self.step.groups[self.optimizers.index(optimizer)] = [
                mapped({key: value for key, value in group.items() if key != "params"}, _copy) for group in optimizer.param_groups]

    @_guarded
    def after_clipping(self, kind: str, limit: float, norm: Any, parameters: list[torch.Tensor]) -> None:
        own = {id(parameter) for parameter in self.model.parameters()}
        if any(id(parameter) in own for parameter in parameters):
            self.step.clipping.append((kind, limit))

    def before_step(self) -> bool:
        if self.step and not self.stopped:
            state = _random.fingerprint(self.step.passes[0].random)
            self.watcher.scalar(STATE, float(state))
            self.watcher.scalar(LEFT, float(_random.fingerprint(_random.states())))
            fact = self.continuity.see(self.deck._closing, state)
            if fact and self.watcher.loop is not None:
                self.watcher.loop.facts["resumed"] = fact
        return True

    def open_step(self) -> Step | None:
        """With the pass that an exception ended before its backward pass."""
        step = Step()
        step.groups, step.clipping = self.step.groups, self.step.clipping
        step.passes = self.step.passes + ([self.open] if self.open is not None else [])
        return step or None

    def describe(self, writer: Writer, state: Any, steps: list[Step]) -> dict[str, Any]:
        model, optimizers = state
        return {
            "model": writer.encode(mapped(model, to_array), "model"),
            "optimizers": [writer.encode(mapped(each, to_array), f"optimizer.{i}") for i, each in enumerate(optimizers)],
            "steps": [step.describe(writer) for step in steps],
        }

    def release(self) -> None:
        for handle in self.handles:
            handle.remove()
        _observe.backward.remove(self.before_backward)
        _observe.clipping.remove(self.after_clipping)
        self.open = None
