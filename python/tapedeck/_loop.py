"""What a PyTorch training loop does, as facts that `tapedeck diagnose` judges: the run's note ``loop``, a JSON object.

A loop can go wrong without an error: gradients that add up, parameters that no optimizer has, a model left in
evaluation mode. Almost all of this shows in the first updates, so what costs something is looked at in them, and later in
one update of some. What begins later is found there. In all other updates only what is cheap and cannot be found later is looked at:
whether the loss is finite, the scheduler's rate, the model's mode, updates that a GradScaler skipped. Nothing here changes a value. What a fact means is in docs/python.md; whether it is a fault is decided by the rules of the
library, not here.

Facts come from PyTorch's own hooks where it has them (optimizers, modules, parameters), and otherwise from _observe.py,
each for as long as it is needed.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import _loop_data, _observe
from ._layers import EagerHook, Handle
from ._loop_batches import Batches, Labels
from ._loop_calls import Clipping, Scaling, Schedule, Validation, is_modal
from ._loop_examples import Examples
from ._loop_modes import Modes
from ._loop_parameters import FIRST_UPDATES, Parameters
from ._loop_setup import LABELLED_UPDATES, NO_ARGUMENTS, RATIO_PERIOD, Setup
from ._scaler import ModelScaler

_SAMPLE_EVERY = 61  # updates between those that are looked at, later: a prime, so that each of several optimizers has its turn
_WRITE_EVERY = 3  # of them after which all parameters are looked at, and the note is written

_is_compiling, _is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled


class KnownOptimizer:
    """An optimizer that stepped."""

    __slots__ = ("reference", "group_count", "is_ours", "updates")

    def __init__(self, optimizer: Any, is_ours: bool, updates: int) -> None:
        self.reference = weakref.ref(optimizer)
        self.group_count = len(optimizer.param_groups)
        self.is_ours = is_ours  # it has parameters of the model
        self.updates = updates


class Loop:
    """Goes with a deck that watches a model."""

    def __init__(self, deck: Any, model: torch.nn.Module, bare: torch.nn.Module, optimizers: list[Any],
                 scaler: ModelScaler, prefix: str) -> None:
        self.deck, self.outer, self.model, self.scaler, self.prefix = deck, model, bare, scaler, prefix
        self.given = {id(optimizer) for optimizer in optimizers}  # the user said that they are the model's
        self.stopped = False
        self.facts: dict[str, Any] = {}
        self.written = ""  # the note as it stands in the run
        self.updates = 0
        self.looks = True  # at everything, until the next update is done
        self.writes = True  # the note, after it
        self.next_look = 1  # the update that is looked at next
        self.is_idle = False  # of a training pass, only the arguments are needed
        self.passes = 0  # forward passes since the last backward pass
        self.optimizers: dict[int, KnownOptimizer] = {}
        self.kinds = sorted({type(m).__name__ for m in bare.modules() if is_modal(m)})
        self.parameters = Parameters(self)
        self.batches = Batches(self)
        self.labels = Labels(self)
        self.examples = Examples(self)
        self.clipping = Clipping(self)
        self.schedule = Schedule(self)
        self.scaling = Scaling(self)
        self.validation = Validation(self)
        self.setup = Setup(self)
        self.modes = Modes(self)
        self.look_before_forward = self.guard(self._look_before_forward)
        self.handle = Handle(model, "before", self.before_forward)
        self.hooks = [register_optimizer_step_pre_hook(self.before_update), register_optimizer_step_post_hook(self.after_update)]
        # What is observed of torch, and whether it still has to be.
        self.observed: list[tuple[_observe.Observation, Callable[..., None], Callable[[], bool]]] = [
            (_observe.loader, self.guard(self.batches.loader_started), lambda: self.is_close),
            (_observe.backward, self.before_backward, lambda: self.setup.needs_backward or self.labels.follows),
            (_observe.clipping, self.guard(self.clipping.clipped), lambda: self.clipping.needs_more),
            (_observe.scheduler, self.guard(self.schedule.stepped), lambda: self.schedule.needs_more),
        ]
        for observation, listener, _ in self.observed:
            observation.add(listener)

    @property
    def step(self) -> int:
        return self.deck.steps + 1

    @property
    def is_close(self) -> bool:
        return self.updates < FIRST_UPDATES

    def guard(self, method: Callable) -> Callable:
        """A fact that is not available ends the gathering, not the training; the run has a note of it."""

        def call(*arguments: Any) -> None:
            if not self.stopped:
                try:
                    method(*arguments)
                except Exception as error:
                    self.give_up(error)

        return call

    def give_up(self, error: Exception) -> None:
        self.stop()
        self.deck.note(self.prefix + "loop_stopped", f"facts about the loop end at step {self.step}: {error!r}"[:500])

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.is_idle = False
            self.release_observations(lambda needed: True)
            self.validation.stop()
            self.parameters.stop()
            self.batches.stop()
            self.labels.stop()
            self.examples.stop()
            self.setup.stop()
            self.modes.stop()
            self.handle.remove()

    def release_observations(self, is_over: Callable[[Callable[[], bool]], bool]) -> None:
        for entry in [entry for entry in self.observed if is_over(entry[2])]:
            self.observed.remove(entry)
            entry[0].remove(entry[1])

    def write(self) -> None:
        """Writes the note, if something is new."""
        if self.updates:
            self.facts["updates"] = self.updates
        text = _loop_data.as_json(self.facts)
        if text != self.written:
            self.written = text
            self.deck.note(self.prefix + "loop", text)

    def finish(self) -> None:
        self.guard(self.write_last)()
        self.stop()
        for hook in self.hooks:  # not before: PyTorch does not allow it while hooks are called
            hook.remove()

    def write_last(self) -> None:
        self.scaling.look_at_scaler()
        self.schedule.look_at_scheduler()
        if self.schedule.collapsed and len(self.live_optimizers()) == 1:
            self.facts["rate_collapsed"] = {"updates": self.schedule.collapsed, "most": self.schedule.largest_followed}
        self.examples.end_validation()
        self.examples.write_neighbours()
        self.setup.finish()
        if self.updates:
            self.parameters.write()
            self.setup.write()
        self.write()

    def count(self, key: str, **more: Any) -> None:
        """Counts something, and remembers in which step it was first."""
        fact = self.facts.setdefault(key, {"count": 0, "since": self.step})
        fact["count"] += 1
        fact.update(more)

    def know(self, optimizer: Any) -> KnownOptimizer:
        known = self.optimizers.get(id(optimizer))
        if known is None or known.reference() is not optimizer or known.group_count != len(optimizer.param_groups):
            is_ours = id(optimizer) in self.given or any(
                id(p) in self.parameters.ids for group in optimizer.param_groups for p in group["params"])
            known = KnownOptimizer(optimizer, is_ours, known.updates if known else 0)
            self.optimizers[id(optimizer)] = known
        return known

    def has(self, optimizer: Any) -> bool:
        """Whether an optimizer has parameters of the model."""
        return self.know(optimizer).is_ours

    def live_optimizers(self) -> list[Any]:
        """Those of the model that stepped."""
        found = [known.reference() for known in self.optimizers.values() if known.is_ours]
        return [optimizer for optimizer in found if optimizer is not None]

    def warnings(self) -> list[str]:
        """Faults that leave nothing to record: worth a warning while training runs."""
        texts = {
            "cleared": "gradients are cleared before the optimizer steps: none are recorded, and nothing is learnt; "
                       "call zero_grad() before backward() or after step()",
            "detached": "no gradient reaches a parameter of the optimizer: none are recorded, and nothing is learnt; "
                        "is the loss detached, or backward() missing?",
        }
        return [text for key, text in texts.items() if self.facts.get(key, {}).get("count", 0) > 1]

    # ---- what PyTorch's hooks call --------------------------------------------------------------
    # Each step calls these four. In most there is nothing to look at, and what they cost then is the calls of Python.

    def before_forward(self, arguments: Any, named: Any) -> None:
        if self.is_idle and _is_grad_enabled():
            setup = self.setup
            setup.batch, setup.arguments = None, (arguments, named)
            self.passes += 1
        else:
            self.look_before_forward(arguments, named)

    def before_backward(self, losses: Any) -> None:
        passes, self.passes = self.passes, 0
        try:
            if self.looks or type(losses) is not torch.Tensor or (
                    losses.is_cpu and not (losses.numel() == 1 and math.isfinite(losses.item()))):
                self.look_before_backward(losses, passes)
        except Exception as error:
            self.give_up(error)

    def before_update(self, optimizer: Any, *_: Any) -> None:
        if _is_compiling() or not self.looks or EagerHook.paused or self.stopped:
            return
        try:
            self.look_before_update(optimizer)
        except Exception as error:
            self.give_up(error)

    def after_update(self, optimizer: Any, *_: Any) -> None:
        if _is_compiling() or EagerHook.paused or self.stopped:
            return
        try:
            known = self.know(optimizer)
            if not known.is_ours:
                return
            schedule = self.schedule
            if schedule.scheduler is not None:
                schedule.look_at_scheduler()
            self.updates += 1
            known.updates += 1
            schedule.after_update(optimizer.param_groups, known)
            if self.kinds and not self.model.training:
                self.count("evaluating", kinds=self.kinds)
            if self.looks:
                self.look_after_update(optimizer)
            else:
                self.setup.arguments = NO_ARGUMENTS
                if self.updates + 1 == self.next_look:
                    self.looks, self.is_idle = True, False
        except Exception as error:
            self.give_up(error)

    # ---- what is looked at in some updates ------------------------------------------------------

    def _look_before_forward(self, arguments: Any, named: Any) -> None:
        self.is_idle = False
        self.modes.before_forward()
        if not _is_grad_enabled():
            self.validation.before_forward(arguments, named)
            return
        self.examples.end_validation()
        self.scaling.look_at_scaler()
        if self.looks:
            self.batches.before_forward(arguments, named)
        else:
            self.setup.batch, self.setup.arguments = None, (arguments, named)
            self.passes += 1
            self.is_idle = self.scaler.reference is None and not self.modes.spectral

    def look_before_backward(self, losses: Any, passes: int) -> None:
        if self.setup.is_finite:
            self.setup.before_backward(losses, passes)
        if self.looks and self.labels.follows:
            self.labels.before_backward(losses, passes)

    def look_before_update(self, optimizer: Any) -> None:
        if self.updates == 0:
            self.parameters.find()
        if self.has(optimizer):
            self.setup.before_update(optimizer)
            self.modes.before_update(optimizer)
        self.parameters.before_update(optimizer)

    def look_after_update(self, optimizer: Any) -> None:
        self.scaler.settle()
        self.batches.after_update()
        self.labels.after_update()
        self.setup.after_update()
        self.modes.after_update()
        self.schedule.look_for_scheduler()
        self.parameters.after_update(optimizer)
        if self.writes:
            self.parameters.write()
            self.write()
        self.release_observations(lambda is_needed: not is_needed())
        self.plan_update()

    def plan_update(self) -> None:
        """Which update is looked at next, and whether the note is written after it. All parameters have a fingerprint after a power of two."""
        update, power = self.updates + 1, 1 << self.updates.bit_length()  # the next one
        if update > LABELLED_UPDATES and self.modes.idle == 0:
            update = min(power, update + -update % _SAMPLE_EVERY)
        period = RATIO_PERIOD if update <= LABELLED_UPDATES else _SAMPLE_EVERY * _WRITE_EVERY
        self.next_look = update
        self.looks = update == self.updates + 1
        self.writes = update <= FIRST_UPDATES or update == power or update % period == 0
