"""Outputs and errors of a PyTorch model's modules.

A tap stands in a module's `_compiled_call_impl`, which PyTorch calls instead of the module and leaves out of what it pickles
and copies. So the module's own hooks and their order stay as they are, a tap sees the output that the caller gets, and saved
files and copies of a model have nothing of it. `torch.compile` does not see taps: a step that is to be recorded runs eagerly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ._tensors import COMPLEX

_in_backward = torch._C._current_graph_task_id  # -1 outside of one
_records_graph = torch.is_grad_enabled
_is_compiling = torch.compiler.is_compiling


class Tap:
    """What is called instead of a module: it calls the module, and observers before and after it."""

    __slots__ = ("module", "call", "before", "after", "around", "has_replicas")

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.has_replicas = torch.cuda.device_count() > 1
        self.call = module._compiled_call_impl or module._call_impl
        self.before: tuple[Callable, ...] = ()
        self.after: tuple[Callable, ...] = ()
        self.around: Any = None  # a context that the call is made in, where its `is_due` says so

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.has_replicas:  # of DataParallel: they have all that the module has, and are other modules
            caller = sys._getframe(1).f_locals.get("self", self.module)
            if caller is not self.module:
                return caller._call_impl(*arguments, **named)
        for observer in self.before:
            observer(arguments, named)
        if self.around is not None and self.around.is_due:
            with self.around:
                output = self.call(*arguments, **named)
        else:
            output = self.call(*arguments, **named)
        for observer in self.after:
            observer(output)
        return output

    def __deepcopy__(self, memo: dict) -> None:
        """For modules that copy all they have: theirs is none."""

    def __reduce__(self) -> Any:
        return type(None), ()


class Handle:
    """An observer of a module's calls, until it is removed."""

    __slots__ = ("tap", "place", "observer")

    def __init__(self, module: torch.nn.Module, place: str, observer: Callable) -> None:
        tap = module.__dict__.get("_compiled_call_impl")
        if not isinstance(tap, Tap):
            tap = Tap(module)
            module.__dict__["_compiled_call_impl"] = tap  # some modules hand attributes on to others
        self.tap, self.place, self.observer = tap, place, observer
        setattr(tap, place, (*getattr(tap, place), observer))

    def remove(self) -> None:
        tap = self.tap
        setattr(tap, self.place, tuple(each for each in getattr(tap, self.place) if each is not self.observer))
        place = tap.module.__dict__
        if not tap.before and not tap.after and place.get("_compiled_call_impl") is tap:
            if tap.call == tap.module._call_impl:
                del place["_compiled_call_impl"]
            else:
                place["_compiled_call_impl"] = tap.call


class EagerHook:
    """A hook that compiled functions leave alone."""

    __torch_unserializable__ = True  # torch.save(model) need not warn of it
    paused = False  # a step is being executed again

    def __init__(self, call: Callable) -> None:
        self.call = call

    def __call__(self, *arguments: Any) -> None:
        if not _is_compiling() and not EagerHook.paused:
            self.call(*arguments)


class Layer:
    """A module, and the signals of its outputs: by call within a step, and part of the output."""

    __slots__ = ("watcher", "name", "order", "serial", "calls", "repeats", "done", "signals", "is_root", "of_pass")

    def __init__(self, watcher: Any, name: str, order: int, is_root: bool) -> None:
        self.watcher = watcher
        self.name = name
        self.order = order
        self.is_root = is_root  # and has layers in it: its output is the prediction
        self.serial = 0  # of the step that these are of:
        self.calls = 0  # in its forward pass
        self.repeats = 0  # during its backward pass: checkpointing computes again
        self.of_pass = 1  # these are
        self.done = False  # a backward pass came by: calls from now on are another micro-batch's
        self.signals: dict[tuple[int, str], tuple[Any, Any]] = {}

    def signals_of(self, call: int, part: str, tensor: torch.Tensor) -> tuple[Any, Any]:
        layer = self.name + (f"@{call}" if call else "") + part
        declare, placement = self.watcher.declare, self.watcher.activations.placement_of(tensor)
        if self.is_root:
            found = (declare(layer, kind="prediction", batched=True, placement=placement), None)
        else:
            found = tuple(declare(f"{layer}.{kind}", kind=kind, layer=layer, order=self.order, batched=True,
                                  placement=placement)
                          for kind in ("output", "error"))
        self.signals[call, part] = found
        return found

    def after_forward(self, output: Any) -> None:
        watcher = self.watcher
        if not _records_graph():
            return
        watcher.seen = True
        if not (watcher.model.training or watcher.accepts_evaluation):
            return
        try:
            self.see(watcher, output)
        except Exception as error:
            watcher.refuse(f"{self.name}.output", error)

    def see(self, watcher: Any, output: Any) -> None:
        again = _in_backward() != -1
        if not again and not watcher.begin_pass():
            return
        if watcher.forgot:
            watcher.forgot = False
            watcher.remember(watcher.parameters)
        if self.serial != watcher.serial:
            self.serial = watcher.serial
            self.calls = self.repeats = 0
            self.of_pass = 1
            self.done = False
        more = watcher.merges
        if more and self.of_pass != watcher.passes:
            self.of_pass = watcher.passes
            self.calls = self.repeats = 0
        if again:
            call = self.repeats
            self.repeats += 1
            if call < self.calls:
                return
        else:
            if watcher.passes > 1 and not more and (self.done or not watcher.clock.several or not _has_gradient(output)):
                watcher.skip_pass(output)
                watcher.is_known(output)  # and so are containers that give it on
                return
            call = self.calls
            self.calls += 1
        if self is watcher.layers[0][1] and not again:
            watcher.count_examples(output)
        if watcher.is_known(output):
            return
        if watcher.network is not None and not again and not more:
            watcher.network.see(self, call, [tensor for _, tensor in parts(output)])
        if isinstance(output, torch.Tensor):
            if output.dtype.is_complex:
                self.record(call, "", output, more)
            else:
                self.record_part(call, "", output, None, more)
        else:
            for part, tensor in parts(output):
                self.record(call, part, tensor, more)

    def record(self, call: int, part: str, tensor: torch.Tensor, more: bool) -> None:
        """more: it is another micro-batch's."""
        if tensor.dtype.is_complex:
            for half, pick in COMPLEX:
                self.record_part(call, f"{part}.{half}", tensor, pick, more)
        else:
            self.record_part(call, part, tensor, None, more)

    def record_part(self, call: int, part: str, tensor: torch.Tensor, pick: Any, more: bool) -> None:
        watcher = self.watcher
        output, error = self.signals.get((call, part)) or self.signals_of(call, part, tensor)
        wanted = output.wants()
        if wanted:
            watcher.put(output, tensor if pick is None else pick(tensor.detach()), more)
        if error is not None and tensor.requires_grad and (wanted or error.wants() or not watcher.sees_backward):
            watcher.sees_backward = True
            inside = self.repeats > 0 and _in_backward() != -1 and watcher.counts()
            tensor.register_hook(Error(self, error, pick, inside, more))


class Error:
    """The hook on an output: its gradient is the layer's error."""

    __slots__ = ("layer", "signal", "pick", "serial", "inside", "more")

    def __init__(self, layer: Layer, signal: Any, pick: Any, inside: bool, more: bool) -> None:
        self.layer = layer
        self.signal = signal
        self.pick = pick
        self.serial = layer.watcher.serial
        self.inside = inside  # computed again within a pass that counts
        self.more = more

    def __call__(self, gradient: torch.Tensor) -> None:
        watcher = self.layer.watcher
        try:
            if self.serial != watcher.serial:
                watcher.twice += self.serial < 0  # a second backward pass; otherwise of a step that is closed
                return
            if not self.inside and not (watcher.task_counts if _in_backward() == watcher.task else watcher.counts()):
                return
            self.serial = -1
            self.layer.done = True
            if not watcher.backward_seen:
                watcher.enter_backward()
            if watcher.loss_scale != 1:
                gradient = gradient / watcher.loss_scale
            watcher.put(self.signal, gradient if self.pick is None else self.pick(gradient), self.more)
        except Exception as error:
            watcher.refuse(f"{self.layer.name}.error", error)

    def __deepcopy__(self, memo: dict) -> Any:
        return nothing


def nothing(*_: Any) -> None:
    """What a copy of a hook does."""


def bare(model: torch.nn.Module) -> torch.nn.Module:
    """The model without what wraps it: DDP, DataParallel, torch.compile."""
    while True:
        if isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            model = model.module
        elif "_orig_mod" in model._modules:
            model = model._modules["_orig_mod"]
        else:
            return model


def clean_name(name: str) -> str:
    """A module's or parameter's name without those of wrappers."""
    return ".".join(word for word in name.split(".") if word not in ("_orig_mod", "_checkpoint_wrapped_module"))


def _has_gradient(output: Any) -> bool:
    return any(tensor.requires_grad for _, tensor in parts(output))


def parts(output: Any, prefix: str = "") -> Any:
    """The tensors of a nested output, and where they are in it."""
    if isinstance(output, torch.Tensor):
        yield prefix, output
    elif isinstance(output, (tuple, list)):
        for i, item in enumerate(output):
            yield from parts(item, f"{prefix}.{i}")
    elif isinstance(output, dict):
        for key, item in output.items():
            yield from parts(item, f"{prefix}.{key}")
    elif hasattr(type(output), "__dataclass_fields__"):
        for key in output.__dataclass_fields__:
            yield from parts(getattr(output, key), f"{prefix}.{key}")
