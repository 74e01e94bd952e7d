"""Of a PyTorch training that is watched: its parameters, its optimizers, and where its steps begin and end."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from . import _tensors
from ._torch_optimizer import OptimizerState
from .deck import Deck

_is_compiling = torch.compiler.is_compiling
PLAIN = (torch.Tensor, torch.nn.Parameter)  # other types have memory of their own kind
_COMMON = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def optimizers_of(given: Any) -> dict[Any, Any]:
    """By what their learning rates are called: a word, or the number of the first one."""
    if isinstance(given, Mapping):
        return {str(key): _inside(optimizer) for key, optimizer in given.items()}
    found: dict[Any, Any] = {}
    number = 0
    for each in given if isinstance(given, (list, tuple)) else [] if given is None else [given]:
        found[number] = _inside(each)
        number += len(found[number].param_groups)
    return found


def _inside(optimizer: Any) -> Any:
    """The optimizer that has hooks: Accelerate's has one of PyTorch's in it."""
    while "_optimizer_step_pre_hooks" not in getattr(optimizer, "__dict__", {}):
        if not hasattr(optimizer, "optimizer"):
            raise TypeError(f"optimizer is one of torch.optim, a list or a dict of them, not {type(optimizer).__name__}")
        optimizer = optimizer.optimizer
    return optimizer


class Parameter:
    """A parameter, or a half of a complex one."""

    __slots__ = ("tensor", "pick", "name", "value", "gradient", "update", "is_plain", "before", "layer", "parameter", "order",
                 "placement", "part")

    def __init__(self, tensor: torch.nn.Parameter, pick: Any, name: str, value: Any, gradient: Any, update: Any, layer: str,
                 parameter: str, order: int, placement: str | None, part: Any = None) -> None:
        self.tensor = tensor
        self.pick = pick
        self.name = name
        self.value = value
        self.gradient = gradient
        self.update = update
        self.layer, self.parameter, self.order, self.placement = layer, parameter, order, placement
        self.is_plain = pick is None and type(tensor) in PLAIN and tensor.dtype in _COMMON
        self.before: torch.Tensor | None = None
        self.part = part  # what is here of it, where that is elsewhere than in the tensor

    @property
    def now(self) -> torch.Tensor:
        return self.tensor if self.part is None else self.part.value()

    @property
    def gradient_now(self) -> torch.Tensor | None:
        return self.tensor.grad if self.part is None else self.part.gradient()

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = _tensors.readable(tensor)
        return tensor if self.pick is None else self.pick(tensor)

    def read_wanted(self, signal: Any, tensor: torch.Tensor) -> torch.Tensor | None:
        return self.read(tensor) if signal.wants() and not torch.nn.parameter.is_lazy(tensor) else None


class Stance:
    """Of the compiler: it runs everything eagerly while a watcher needs that, and then as before."""

    def __init__(self) -> None:
        self.users: set[int] = set()
        self.before: Any = None

    def force_eager(self, user: Any) -> bool:
        set_stance = getattr(torch.compiler, "set_stance", None)
        if set_stance is None:
            return False
        if not self.users:
            self.before = set_stance("force_eager")
        self.users.add(id(user))
        return True

    def release(self, user: Any) -> None:
        if id(user) in self.users:
            self.users.remove(id(user))
            if not self.users:
                self.before.__exit__(None, None, None)


stance = Stance()


class Clock:
    """The steps of a deck, for all its watchers. Without calls of `Deck.step` one ends when every optimizer has stepped and
    the model is called again, or an optimizer steps for a second time."""

    def __init__(self, deck: Deck) -> None:
        self.deck = deck
        self.count = 0  # of optimizers
        self.stepped: set[int] = set()  # those that have, since the step was opened
        self.inferring: bool | None = None  # steps end with the optimizers'; None: not known yet
        self.inferred = False  # the step before this one was ended so, before that was known
        self.closing = False
        self.ignoring = False
        self.is_over = False  # the next call of the model begins another step

    @property
    def several(self) -> bool:
        return self.count > 1

    def see_step(self, optimizer: int) -> bool:
        """Whether the next call of the model begins another step."""
        self.stepped.add(optimizer)
        self.is_over = self.inferring is not False and len(self.stepped) == self.count
        return self.is_over

    def close_last_step(self) -> bool:
        """Of an epoch, when nobody closes steps."""
        is_open = self.inferring is not False and bool(self.stepped)
        if is_open:
            self.infer_step(last=True)
        return is_open

    def infer_step(self, last: bool = False) -> None:
        """Nobody closed the step. The first time this may be a loop that closes it a little later: that call is then
        ignored."""
        self.inferring = True if self.inferred else None
        self.inferred = True
        self.closing = True
        try:
            self.deck.step(last=last)
        finally:
            self.closing = False

    def before_step(self) -> bool:
        """False: there is no step to close."""
        self.ignoring = False
        if not self.closing:
            self.ignoring = self.inferred and self.inferring is None and not self.stepped
            self.inferring = False
        return not self.ignoring

    def after_step(self) -> None:
        self.stepped.clear()
        self.is_over = False

    def finish(self) -> None:
        pass


class Updates:
    """An optimizer, and the parameters that it updates."""

    def __init__(self, watcher: Any, word: Any, optimizer: Any) -> None:
        self.watcher = watcher
        self.word = word
        self.optimizer = optimizer
        self.records = False  # the update under way
        self.size = -1
        self.mine: list[Parameter] = []
        self.names: list[str] = []
        self.state = OptimizerState(watcher, optimizer)
        self.handles = [optimizer.register_step_pre_hook(self.before), optimizer.register_step_post_hook(self.after)]

    def groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    def parameters(self) -> list[Parameter]:
        groups = self.groups()
        size = sum(len(group["params"]) for group in groups)
        if size != self.size:
            self.size = size
            ids = {id(p) for group in groups for p in group["params"]}
            self.mine = [p for p in self.watcher.parameters if id(p.tensor) in ids]
            self.watcher.see_added(ids)
        return self.mine

    def rates(self) -> list[str]:
        """The names of the groups' learning rates."""
        while len(self.names) < len(self.groups()):
            number = len(self.names)
            word = f"_{self.word}" if isinstance(self.word, str) else ""
            number += 0 if word else self.word
            self.names.append(f"{self.watcher.prefix}learning_rate{word}" + (f"_{number}" if number else ""))
        return self.names

    def before(self, optimizer: Any, arguments: tuple, named: dict) -> Any:
        """A closure computes the gradients within the step: its first evaluation counts, as for the loss that `step`
        returns and for outputs and errors."""
        if _is_compiling():
            return None
        watcher = self.watcher
        self.records = False
        try:
            watcher.before_update(self)
        except Exception as error:
            watcher.refuse(f"{watcher.prefix}gradients", error)
        if not self.records:
            return None
        closure = arguments[1] if len(arguments) > 1 else named.get("closure")
        if closure is None:
            watcher.guard("gradients", watcher.put_gradients, self.parameters())
            watcher.guard("optimizer", self.state.before)
            return None
        evaluations = 0

        @functools.wraps(closure, updated=())
        def evaluate(*inputs: Any, **more: Any) -> Any:
            nonlocal evaluations
            watcher.evaluates_again = evaluations > 0
            loss = closure(*inputs, **more)
            evaluations += 1
            if evaluations == 1:
                watcher.guard("gradients", watcher.put_gradients, self.parameters())
                watcher.guard("optimizer", self.state.before)
            return loss

        if len(arguments) > 1:
            return (arguments[0], evaluate, *arguments[2:]), named
        return arguments, {**named, "closure": evaluate}

    def after(self, *_: Any) -> None:
        if not _is_compiling():
            watcher = self.watcher
            try:
                watcher.after_update(self)
            except Exception as error:
                watcher.refuse(f"{watcher.prefix}updates", error)
