"""Outputs and errors of a model that torch.compile has compiled, recorded by an operator within its graph.

A hook on each module puts `tapedeck::record` beside its output, and beside its gradient in the backward graph. To the compiler
it is an operator with an effect: it stays where it is, neither breaks the graph nor depends on whether a step records. That is
decided when the operator runs, by the flag of its model.

Guards on hooks are switched on in the compiler while a model is recorded so: without them it takes a module without hooks for
one that has some, and the other way round.
"""

from __future__ import annotations

from typing import Any

import torch

from ._layers import parts

_records: dict[int, "CompiledLayers"] = {}  # of models that are recorded so
_guards: list[bool] = []  # how the compiler's setting was; while there are such models
_EFFECTS = getattr(torch.library, "EffectType", None)  # of PyTorch 2.10 or newer


def _config() -> Any:
    import torch._dynamo.config as config

    return config


def is_available() -> bool:
    return _EFFECTS is not None and hasattr(_config(), "skip_nnmodule_hook_guards")


def _record(value: torch.Tensor, model: int, layer: int, part: str, backward: bool) -> None:
    layers = _records.get(model)
    if layers is not None and layers.flag:
        (layers.see_error if backward else layers.see_output)(value, layer, part)


if _EFFECTS is not None:  # not torch.library.custom_op, whose calls take twice as long and more
    _library = torch.library.Library("tapedeck", "FRAGMENT")
    _library.define("record(Tensor value, int model, int layer, str part, bool backward) -> ()",
                    tags=(torch.Tag.flexible_layout, torch.Tag.pt2_compliant_tag))
    _library.impl("record", _record, "CompositeExplicitAutograd")
    torch.library.register_fake("tapedeck::record", lambda *_: None, lib=_library)
    _library._register_effectful_op("tapedeck::record", _EFFECTS.ORDERED)


class _Beside(torch.autograd.Function):
    """The same values; the operator sees them, and their gradient. A copy in name: the compiler leaves it out, and what follows
    may change it in place."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, model: int, layer: int, part: str) -> torch.Tensor:
        ctx.at = (model, layer, part)
        torch.ops.tapedeck.record(value, model, layer, part, False)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        torch.ops.tapedeck.record(gradient, *ctx.at, True)
        return gradient, None, None, None


class _Hook:
    """On a module; copies of it do nothing."""

    def __init__(self, *at: Any) -> None:
        self.at = at  # model, layer

    def __call__(self, module: torch.nn.Module, arguments: Any, output: Any) -> Any:
        if torch.compiler.is_compiling() and torch.is_grad_enabled():
            return self.put_beside(output, "")
        return None

    def put_beside(self, output: Any, part: str) -> Any:
        if isinstance(output, torch.Tensor):
            if output.is_floating_point() and output.requires_grad:
                return _Beside.apply(output, *self.at, part)
            if output.is_floating_point():
                torch.ops.tapedeck.record(output, *self.at, part, False)
        elif type(output) in (tuple, list):
            return type(output)([self.put_beside(item, f"{part}.{i}") for i, item in enumerate(output)])
        elif type(output) is dict:
            return {key: self.put_beside(item, f"{part}.{key}") for key, item in output.items()}
        return output

    def __deepcopy__(self, memo: dict) -> Any:
        return _nothing

    def __reduce__(self) -> Any:
        return _get_nothing, ()


class _RootHook(_Hook):
    """On the model itself, whose hooks PyTorch calls behind the compiled function, unless the model is one of PyTorch's own."""

    def __call__(self, module: torch.nn.Module, arguments: Any, output: Any) -> Any:
        if torch.compiler.is_compiling():
            return self.put_beside(output, "") if torch.is_grad_enabled() else None
        layers = _records.get(self.at[0])
        if layers is not None and layers.flag and torch.is_grad_enabled():
            layers.see_model(output)
        return None


class _Error:
    def __init__(self, layers: "CompiledLayers", part: str) -> None:
        self.layers, self.part = layers, part

    def __call__(self, gradient: torch.Tensor) -> None:
        if self.layers.flag:
            self.layers.see_error(gradient, 0, self.part)


def _nothing(*_: Any) -> None:
    return None


def _get_nothing() -> Any:
    return _nothing


class CompiledLayers:
    """Of one model."""

    def __init__(self, watcher: Any) -> None:
        self.watcher = watcher
        self.flag = False  # something is due in the open step
        self.nodes: list[Any] = []  # of the parameters, then
        self.key = max(_records, default=0) + 1
        self.of_pass = (-1, 0)  # what follows is: the step's serial number, and the pass of it
        self.calls: dict[tuple[int, str, bool], int] = {}  # of layers and parts, forward and backward
        from torch._dynamo.eval_frame import skip_code  # not before it is needed: that takes a second

        skip_code(_RootHook.__call__.__code__)  # on its own it is not worth a graph
        self.see_model = torch.compiler.disable(self._see_model)
        if not _guards:
            _guards.append(_config().skip_nnmodule_hook_guards)
            _config().skip_nnmodule_hook_guards = False
        _records[self.key] = self
        self.handles = []
        for i, (module, _) in enumerate(watcher.layers):
            if i > 0 and type(module) is torch.nn.Sequential:
                continue  # its last module's output
            hook = _Hook(self.key, i) if i > 0 else _RootHook(self.key, i)
            self.handles.append(module.register_forward_hook(hook))

    def _see_model(self, output: Any) -> None:
        for part, tensor in parts(output):
            if tensor.is_floating_point():
                self.see_output(tensor.detach(), 0, part)
                if tensor.requires_grad:
                    tensor.register_hook(_Error(self, part))

    def switch(self, on: bool) -> None:
        """Within an operator there is no autograd to ask for the parameters' nodes."""
        self.flag = on
        trained = [p.tensor for p in self.watcher.parameters if on and p.tensor.requires_grad]
        with torch.enable_grad():
            self.nodes = [p.view_as(p).grad_fn.next_functions[0][0] for p in trained]

    def is_loss_pass(self) -> bool:
        """Whether the backward pass under way gives a parameter a gradient."""
        try:
            return not self.nodes or any(map(torch._C._will_engine_execute_node, self.nodes))
        except RuntimeError:  # autograd.grad() of a parameter
            return not torch.is_grad_enabled()

    def remove(self) -> None:
        self.switch(False)
        if _records.pop(self.key, None) is None:
            return
        for handle in self.handles:
            handle.remove()
        if not _records:
            _config().skip_nnmodule_hook_guards = _guards.pop()

    def see_output(self, value: torch.Tensor, index: int, part: str) -> None:
        layer = self.watcher.layers[index][1]
        self.watcher.guard(layer.name + part + ("" if layer.is_root else ".output"), self._see_output, value, index, layer, part)

    def _see_output(self, value: torch.Tensor, index: int, layer: Any, part: str) -> None:
        watcher = self.watcher
        watcher.seen = watcher.seen or index > 0 or len(watcher.layers) == 1  # the model's own output is seen without its graph, too
        if not (watcher.model.training or watcher.accepts_evaluation) or not watcher.begin_pass():
            return
        if watcher.passes > 1 and not watcher.merges:
            watcher.skip_pass(None)
            return
        call = self._count_call(index, part, False)
        if index == 0:
            watcher.count_examples(value)
        output, _ = layer.signals.get((call, part)) or layer.signals_of(call, part, value)
        if output.wants():
            watcher.put(output, value, watcher.merges)

    def _count_call(self, index: int, part: str, backward: bool) -> int:
        at = (self.watcher.serial, self.watcher.passes)
        if self.of_pass != at:
            self.of_pass, self.calls = at, {}
        call = self.calls[index, part, backward] = self.calls.get((index, part, backward), -1) + 1
        return call

    def see_error(self, gradient: torch.Tensor, index: int, part: str) -> None:
        layer = self.watcher.layers[index][1]
        self.watcher.guard(f"{layer.name}{part}.error", self._see_error, gradient, index, layer, part)

    def _see_error(self, gradient: torch.Tensor, index: int, layer: Any, part: str) -> None:
        watcher = self.watcher
        if self.of_pass[0] != watcher.serial or not watcher.counts():
            return
        if not watcher.backward_seen:
            watcher.enter_backward()
        if self.of_pass[1] != watcher.passes or layer.is_root:
            return
        _, error = layer.signals.get((0, part)) or layer.signals_of(0, part, gradient)
        if error is None or not error.wants():
            return
        if self._count_call(index, part, True) > 0 or self.calls.get((index, part, False), 0) > 0:
            raise ValueError("a module that is called several times in a compiled step: which call an error is of is not known; "
                             "watch(compiled=False) records them")
        watcher.put(error, gradient if watcher.loss_scale == 1 else gradient / watcher.loss_scale, watcher.merges)
