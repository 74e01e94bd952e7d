"""The same step twice, in PyTorch: what is not deterministic, and hardware that computes wrong without saying so.

At every N-th step the first forward pass is executed again at once, from the same random states and buffers; its backward
pass before the optimizer steps, from the same gradient of the output; the update from the same parameters and gradients. What
layers put out, parameters' gradients and updated parameters are compared by fingerprints. Training goes on with the first
results, bit for bit as without.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import _random
from ._fingerprint import bytes_of, digest, local
from ._keep_torch import mapped
from ._layers import EagerHook, Handle, Tap
from .deck import RecordingWarning


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors_in(each)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _tensors_in(each)


def _print_of(value: Any) -> int:
    code = 0
    for tensor in _tensors_in(value):
        if tensor.layout is torch.strided:
            code = hash((code, digest(bytes_of(local(tensor)))))
    return code


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()


class _Operations(TorchDispatchMode):
    """Fingerprints of all that PyTorch's operations put out, in the order of their execution."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, int]] = []

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        result = operation(*arguments, **(named or {}))
        if "empty" not in str(operation):  # memory that nothing was written to
            self.found.append((str(operation), _print_of(result)))
        return result


def _first_difference(first: list[tuple[str, int]], second: list[tuple[str, int]]) -> str | None:
    for (name, code), (other, again) in zip(first, second):
        if name != other or code != again:
            return name
    rest = first[len(second):] or second[len(first):]
    return rest[0][0] if rest else None


class _Step:
    """The step that is executed twice."""

    def __init__(self, arguments: Any, named: Any, model: torch.nn.Module) -> None:
        self.arguments, self.named = mapped(arguments, _copy), mapped(named, _copy)
        self.random = _random.as_arrays(_random.states())
        self.buffers = {id(buffer): _copy(buffer) for buffer in model.buffers()}
        self.prints: list[tuple[str, int]] = []  # of layers
        self.outputs: list[torch.Tensor] = []  # of the second forward pass
        self.errors: dict[int, torch.Tensor] = {}  # of the first one's, by number
        self.gradients: list[tuple[str, int]] = []  # in the order in which they were made
        self.handles: list[Any] = []
        self.versions = [parameter._version for parameter in model.parameters()]
        self.differs = ""

    def release(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


def _guarded(method: Callable) -> Callable:
    """What cannot be executed twice ends the verification, not the training."""

    @functools.wraps(method)
    def call(self: "TorchVerifier", *arguments: Any) -> None:
        if self.stopped or self.busy:
            return
        try:
            method(self, *arguments)
        except Exception as error:
            self.stop(f"step {self.deck.steps + 1} cannot be executed twice: {type(error).__name__}: {error}")

    return call


class TorchVerifier:
    """Goes with a deck that watches a model."""

    def __init__(self, watcher: Any, outer: torch.nn.Module, every: int) -> None:
        if every < 1:
            raise ValueError(f"verify_every is a number of steps, not {every}")
        self.deck, self.watcher, self.model, self.every = watcher.deck, watcher, watcher.model, every
        self.stopped = self.busy = False
        self.steps = self.differing = 0
        self.open: _Step | None = None
        self.updates: dict[int, tuple[Any, ...]] = {}  # of optimizers, before they step
        self.kinds = {name: type(module).__name__ for name, module in self.model.named_modules()}
        self.optimizers = [updates.optimizer for updates in watcher.optimizers]
        self.handles: list[Any] = [Handle(outer, "before", self.before_forward), Handle(outer, "after", self.after_forward)]
        for optimizer in self.optimizers:
            self.handles.append(optimizer.register_step_pre_hook(self.before_update))
            self.handles.append(optimizer.register_step_post_hook(self.after_update))
        if watcher.compiled or watcher.sharded or watcher.parallel:
            self.stop("verify_every: steps of compiled, sharded and DataParallel models are not executed twice")

    def stop(self, text: str) -> None:
        self.stopped = True
        self._close()
        self.watcher.warn_once("verify", text)

    # ---- forward --------------------------------------------------------------------------------

    @_guarded
    def before_forward(self, arguments: Any, named: Any) -> None:
        if not torch.is_grad_enabled() or not self.model.training or torch.compiler.is_compiling():
            return
        if torch._C._current_graph_task_id() != -1:
            return
        if self.watcher.clock.is_over:
            self.watcher.clock.infer_step()
        if self.open is not None or (self.deck.steps + 1) % self.every:
            return
        step = _Step(arguments, named, self.model)
        step.handles = self._observe(step.prints)
        self.open = step

    def _observe(self, prints: list[tuple[str, int]]) -> list[Handle]:
        handles = []
        for name, module in self.model.named_modules():
            if name:
                handles.append(Handle(module, "before", functools.partial(self._take, prints, name, "input")))
                handles.append(Handle(module, "after", functools.partial(self._take, prints, name, "output")))
        return handles

    def _take(self, prints: list[tuple[str, int]], label: str, what: str, *values: Any) -> None:
        if torch._C._current_graph_task_id() == -1:
            prints.append((f"{label} {what}", _print_of(values)))

    @_guarded
    def after_forward(self, output: Any) -> None:
        step = self.open
        if step is None or step.outputs or not step.handles:
            return
        step.release()
        step.prints.append(("model output", _print_of(output)))
        outputs = [tensor for tensor in _tensors_in(output) if tensor.requires_grad]
        again: list[tuple[str, int]] = []
        with self._as_it_was(step):
            handles = self._observe(again)
            try:
                second = self.model(*step.arguments, **step.named)
            finally:
                for handle in handles:
                    handle.remove()
        again.append(("model output", _print_of(second)))
        step.outputs = [tensor for tensor in _tensors_in(second) if tensor.requires_grad]
        self.steps += 1
        found = _first_difference(step.prints, again)
        if found:
            self._report(step, self._name_layer(step, found))
            return
        for number, tensor in enumerate(outputs):
            step.handles.append(tensor.register_hook(functools.partial(step.errors.__setitem__, number)))
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                step.handles.append(parameter.register_hook(functools.partial(self._take_gradient, step, name)))

    def _take_gradient(self, step: _Step, name: str, gradient: torch.Tensor) -> None:
        if name not in (known for known, _ in step.gradients):  # of the first backward pass
            step.gradients.append((name, _print_of(gradient)))

    @contextlib.contextmanager
    def _as_it_was(self, step: _Step) -> Iterator[None]:
        """Random states and buffers of then; nobody observes. Afterwards everything is as it is now."""
        random = _random.as_arrays(_random.states())
        places = [(module, dict(module._buffers)) for module in self.model.modules() if module._buffers]
        copies = {key: buffer.clone() for key, buffer in step.buffers.items()}
        taps = [tap for module in self.model.modules() if isinstance(tap := module.__dict__.get("_compiled_call_impl"), Tap)]
        observers = [(tap.before, tap.after) for tap in taps]
        for tap in taps:
            tap.before = tap.after = ()
        self.busy = EagerHook.paused = True
        try:
            for module, buffers in places:  # others in their places: the first backward pass may need those that are there
                module._buffers.update({name: copies.get(id(buffer), buffer) for name, buffer in buffers.items()})
            _random.restore(step.random)
            yield
        finally:
            for module, buffers in places:
                module._buffers.update(buffers)
            _random.restore(random)
            self.busy = EagerHook.paused = False
            for tap, (before, after) in zip(taps, observers):
                tap.before, tap.after = before, after

    def _name_layer(self, step: _Step, found: str) -> str:
        label, _, what = found.rpartition(" ")
        layer = f"layer {label} ({self.kinds.get('' if label == 'model' else label, '?')})"
        place = f"in {layer}" if what == "output" else f"before {layer}"
        runs: list[list[tuple[str, int]]] = []
        for _ in range(2):
            with self._as_it_was(step), _Operations() as operations:
                self.model(*step.arguments, **step.named)
            runs.append(operations.found)
        operation = _first_difference(*runs)
        return f"{operation or 'an operation'} {place}, forward,"

    # ---- backward -------------------------------------------------------------------------------

    def _compare_gradients(self) -> None:
        step = self.open
        if step is None or step.differs or not step.outputs or not step.gradients:
            return
        step.release()
        outputs = [tensor for number, tensor in enumerate(step.outputs) if number in step.errors]
        errors = [step.errors[number] for number in range(len(step.outputs)) if number in step.errors]
        step.outputs = []
        if [parameter._version for parameter in self.model.parameters()] != step.versions:
            return  # somebody changed parameters after the forward pass
        named = dict(self.model.named_parameters())
        with self._as_it_was(step):
            again = torch.autograd.grad(outputs, [named[name] for name, _ in step.gradients], errors, allow_unused=True)
        for (name, code), gradient in zip(step.gradients, again):
            if gradient is not None and _print_of(gradient) != code:
                label = name.rpartition(".")[0]
                self._report(step, f"layer {label or 'model'} ({self.kinds.get(label, '?')}), backward: the gradient of {name}")
                return

    # ---- update ---------------------------------------------------------------------------------

    @_guarded
    def before_update(self, optimizer: Any, arguments: Any, named: Any) -> None:
        if self.open is None or torch.compiler.is_compiling():
            return
        self._compare_gradients()
        function = getattr(type(optimizer).step, "__wrapped__", None)
        closure = named.get("closure") or (arguments[1] if len(arguments) > 1 else None)
        if self.open.differs or closure is not None or function is None:
            return
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        self.updates[id(optimizer)] = (function, parameters, [_copy(p) for p in parameters], [_copy(p.grad) for p in parameters],
                                       self._state_of(optimizer, parameters))

    @staticmethod
    def _state_of(optimizer: Any, parameters: list[Any]) -> list[dict[str, Any] | None]:
        return [{key: _copy(value) if isinstance(value, torch.Tensor) else value for key, value in optimizer.state[p].items()}
                if p in optimizer.state else None for p in parameters]

    @_guarded
    def after_update(self, optimizer: Any, arguments: Any, named: Any) -> None:
        kept = self.updates.pop(id(optimizer), None)
        if kept is None or self.open is None:
            return
        function, parameters, before, gradients, state = kept
        results = [_copy(p) for p in parameters]
        first = [(optimizer.state.get(p), p.grad) for p in parameters]
        self.busy = True
        try:
            self._set(optimizer, parameters, before, state, gradients)
            with torch.no_grad():
                function(optimizer)
            different = next((i for i, p in enumerate(parameters) if _print_of(p) != _print_of(results[i])), None)
        finally:
            self._set(optimizer, parameters, results, [each for each, _ in first], [each for _, each in first])
            self.busy = False
        if different is not None:
            names = {id(p): name for name, p in self.model.named_parameters()}
            self._report(self.open, f"{type(optimizer).__name__}, the update of {names.get(id(parameters[different]), 'a parameter')}")

    @staticmethod
    def _set(optimizer: Any, parameters: list[Any], values: list[Any], state: list[Any], gradients: list[Any]) -> None:
        with torch.no_grad():
            for parameter, value, own, gradient in zip(parameters, values, state, gradients):
                parameter.copy_(value)
                parameter.grad = gradient
                if own is None:
                    optimizer.state.pop(parameter, None)
                else:
                    optimizer.state[parameter] = own

    # ---- the deck -------------------------------------------------------------------------------

    def _report(self, step: _Step, what: str) -> None:
        step.differs = what
        self.differing += 1
        text = f"step {self.deck.steps + 1}: executed twice, {what} made something else"
        if self.differing == 1:
            self.deck.note("verify.differs", text)
            warnings.warn(f"tapedeck: {self.deck.folder}: {text}", RecordingWarning, stacklevel=2)

    def _close(self) -> None:
        if self.open is not None:
            self.open.release()
        self.open = None
        self.updates.clear()

    @_guarded
    def _end_step(self) -> None:
        self._compare_gradients()  # no optimizer has stepped: a scaler skipped it

    def before_step(self) -> bool:
        if self.open is not None:
            self._end_step()
        return True

    def after_step(self) -> None:
        self._close()

    def after_track(self) -> None:
        pass

    def finish(self) -> None:
        self._close()
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        if self.steps:
            self.deck.note("verify.steps", f"{self.steps}, {self.differing} of them differ")
