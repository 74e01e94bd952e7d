"""Executes the steps of a PyTorch training's capsule again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import torch

from . import _random
from ._capsule import Array, CapsuleError, Reader
from ._keep_torch import mapped_arrays, model_state, to_tensor
from ._layers import bare as bare_model
from ._origin import Origin, Replay
from ._steps import optimizers_of
from ._torch import watch


def replay(path: str | os.PathLike[str], model: torch.nn.Module, optimizer: Any, loss_fn: Callable[[Any, Any], torch.Tensor] | None,
           *, folder: str | os.PathLike[str] | None, form: str, to: str) -> Replay:
    """`tapedeck.replay` of a capsule that `watch` wrote."""
    reader = Reader(path)
    bare = bare_model(model)
    optimizers = list(optimizers_of(optimizer).values())
    steps, state, saved = _load(reader, bare, optimizers)
    _restore(bare, optimizers, state, saved)
    loss_fn = loss_fn or _own_loss
    was_training = bare.training
    bare.train()
    deck = watch(model, os.path.join(reader.path, "replay") if folder is None else folder, optimizer=optimizer, every=1, log="all",
                 form=form, to=to)
    found = Replay(trigger=str(reader.about.get("trigger", "")), folder=deck.folder)
    search = _Search(bare)
    try:
        deck.steps = steps[0]["step"] - 1
        for part in deck._parts:
            part.after_step()
        for step in steps:
            _execute(found, search, deck, model, bare, optimizers, loss_fn, step)
    finally:
        search.remove()
        found.origin = search.origin
        bare.train(was_training)
        deck.finish()
    return found


def _own_loss(output: Any, target: Any) -> torch.Tensor:
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if loss is None:
        raise TypeError("loss_fn is needed: the model's output has no loss of its own")
    return loss


# ---- reading ------------------------------------------------------------------------------------


def _load(reader: Reader, model: torch.nn.Module, optimizers: list[Any]) -> tuple[list[Any], dict[str, Array], list[Any]]:
    """Everything that is needed, checked before something is changed."""
    about = reader.about
    if not str(about.get("framework", "")).startswith("torch "):
        raise CapsuleError(f"{reader.path} is of {about.get('framework')}, not of PyTorch")
    state = reader.decode(about.get("model"))
    if not isinstance(state, dict) or not all(isinstance(array, Array) for array in state.values()):
        raise reader.damaged("it has no model")
    own = model_state(model)
    for name in sorted(own.keys() | state.keys()):
        if name not in state or name not in own:
            raise CapsuleError(f"{reader.path} is of another model: {name} is only in the {'model' if name in own else 'capsule'}")
        shape = tuple(getattr(own[name], "_local_tensor", own[name]).shape)
        if shape != state[name].data.shape:
            raise CapsuleError(f"{reader.path} is of another model: {name} is {state[name].data.shape}, and {shape} in the model")
    try:
        saved = [reader.decode(each) for each in about["optimizers"]]
        steps = [{**step, "groups": reader.decode(step["groups"]),
                  "passes": [{**each, **{key: reader.decode(each[key]) for key in ("arguments", "named", "target", "loss", "random")}}
                             for each in step["passes"]]} for step in about["steps"]]
        if not steps or not all(isinstance(step["step"], int) and step["passes"] for step in steps):
            raise reader.damaged("there are no steps")
    except (KeyError, TypeError) as error:
        raise reader.damaged(repr(error)) from None
    if len(saved) != len(optimizers):
        raise CapsuleError(f"{reader.path} has {len(saved)} optimizers, and {len(optimizers)} were given")
    for number, (each, optimizer) in enumerate(zip(saved, optimizers)):
        groups = each.get("param_groups", ()) if isinstance(each, dict) else ()
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in optimizer.param_groups]:
            raise CapsuleError(f"{reader.path} is of another optimizer: the groups of number {number + 1} have other parameters")
    return steps, state, saved


def _restore(model: torch.nn.Module, optimizers: list[Any], state: dict[str, Array], saved: list[Any]) -> None:
    with torch.no_grad():
        for name, tensor in model_state(model).items():
            getattr(tensor, "_local_tensor", tensor).copy_(to_tensor(state[name]))
    for optimizer, each in zip(optimizers, saved):
        optimizer.load_state_dict(mapped_arrays(each, to_tensor))


# ---- executing ----------------------------------------------------------------------------------


def _execute(found: Replay, search: "_Search", deck: Any, model: Any, bare: torch.nn.Module, optimizers: list[Any], loss_fn: Any,
             step: dict[str, Any]) -> None:
    search.step = step["step"]
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    for each in step["passes"]:
        device = next((p.device for p in bare.parameters()), torch.device("cpu"))
        arguments, named, target = (mapped_arrays(each[key], lambda array: to_tensor(array).to(device))
                                    for key in ("arguments", "named", "target"))
        _random.restore(each["random"])
        with _autocast(each["autocast"]):
            output = model(*arguments, **named)
            if each["loss"] is None:  # the training ended before its backward pass
                continue
            loss = loss_fn(output, target)
        then, scale = to_tensor(each["loss"]), float.fromhex(each["scale"])
        now = (loss * scale if scale != 1 else loss).detach()
        found.add(step["step"], float(then) / scale, float(now) / scale, _same_bits(then, now))
        deck.log(loss=loss.detach())
        loss.backward()
    _update(step, bare, optimizers)
    deck.step(step=step["step"])


def _update(step: dict[str, Any], model: torch.nn.Module, optimizers: list[Any]) -> None:
    for kind, limit in step["clipping"]:
        if kind == "norm":
            torch.nn.utils.clip_grad_norm_(model.parameters(), float.fromhex(limit))
        else:
            torch.nn.utils.clip_grad_value_(model.parameters(), float.fromhex(limit))
    for number, optimizer in enumerate(optimizers):
        groups = step["groups"].get(number)
        if groups is None:  # it did not step then
            continue
        for group, saved in zip(optimizer.param_groups, groups):
            group.update(mapped_arrays(saved, to_tensor))
        optimizer.step()


def _autocast(described: list[Any]) -> Any:
    if not described:
        return contextlib.nullcontext()
    device, dtype = described
    return torch.autocast(device, dtype=getattr(torch, dtype))


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """NaN is the same as NaN."""
    b = b.cpu()
    return a.dtype == b.dtype and (torch.equal(a.reshape(-1), b.reshape(-1)) or bool(a.isnan().all() and b.isnan().all()))


# ---- where a number that is not finite comes from -------------------------------------------------


def _finite(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not value.is_floating_point() or bool(value.detach().isfinite().all())
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return True
    return all(map(_finite, value))


class _Search:
    """Looks at the calls of all layers, forward and backward, until the first number that is not finite."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.origin: Origin | None = None
        self.step = 0
        self.handles = []
        for name, module in model.named_modules():
            if not any(True for _ in module.children()):
                look = _Look(self, name or "model")
                self.handles.append(module.register_forward_hook(look.after_forward))

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


class _Look:
    def __init__(self, search: _Search, layer: str) -> None:
        self.search, self.layer = search, layer

    def after_forward(self, module: torch.nn.Module, arguments: Any, output: Any) -> None:
        search = self.search
        if search.origin is not None:
            return
        if not _finite(output) and _finite(arguments):
            weights = all(_finite(getattr(p, "_local_tensor", p)) for p in module.parameters(recurse=False))
            search.origin = Origin(search.step, self.layer, "output" if weights else "weights")
        elif isinstance(output, torch.Tensor) and output.requires_grad:
            output.register_hook(self.in_backward)

    def in_backward(self, gradient: torch.Tensor) -> None:
        """The error that reaches a layer's output comes from what follows it: the first one seen is the last layer's."""
        if self.search.origin is None and not _finite(gradient):
            self.search.origin = Origin(self.search.step, self.layer, "error")
