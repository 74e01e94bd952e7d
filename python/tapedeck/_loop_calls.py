"""Facts about what a loop calls: gradient clipping, a scheduler, a GradScaler, validation passes."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ._layers import EagerHook, Handle
from ._loop_batches import first_tensor

_FIRST_CALLS = 16  # of clipping that a loop makes, if it makes any
_CLIP_CALLS = 128  # that the rules about clipping need: more than a hundred norms
_EVALUATION_PASSES = 2  # in which random numbers are noticed


def is_modal(module: torch.nn.Module) -> bool:
    """Whether it does something else in training than in evaluation."""
    if isinstance(module, torch.nn.modules.dropout._DropoutNd):
        return module.p > 0
    if isinstance(module, torch.nn.MultiheadAttention):
        return module.dropout > 0
    return isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.track_running_stats


class Clipping:
    """Calls of clip_grad_norm_ and clip_grad_value_ with parameters of the model."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop

    @property
    def needs_more(self) -> bool:
        calls = self.loop.facts.get("clipping", {"calls": 0})["calls"]
        return calls < _CLIP_CALLS if calls else self.loop.updates < _FIRST_CALLS

    def clipped(self, kind: str, limit: float, norm: Any, parameters: list[Any]) -> None:
        loop = self.loop
        if not any(id(p) in loop.parameters.ids for p in parameters[:1]):
            return
        fact = loop.facts.setdefault("clipping", {"kind": kind, "calls": 0, "norms": 0, "acted": 0, "strong": 0,
                                                  "largest": 0.0, "scaled": 0, "since": loop.step})
        fact["calls"] += 1
        fact["limit"] = limit
        fact["scaled"] += loop.scaler.scale() != 1 and not loop.scaling.is_unscaled()
        if norm is None or not (norm.is_cpu or fact["calls"] <= _FIRST_CALLS or loop.deck._native.due(loop.step)):
            return  # reading a norm on a device waits for the device
        value = float(norm)
        if value < float("inf"):
            fact["norms"] += 1
            fact["acted"] += value > limit
            fact["strong"] += value > 10 * limit
            fact["largest"] = max(fact["largest"], value)


class Scaling:
    """Updates that the model's GradScaler made or skipped: each of its `update()` calls ends one."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.updates = 0  # of the model, when the scaler was looked at last
        self.skipped_in_a_row = 0

    def is_unscaled(self) -> bool:
        loop = self.loop
        return loop.scaler.has_unscaled(loop.given | {key for key, known in loop.optimizers.items() if known.is_ours})

    def look_at_scaler(self) -> None:
        loop = self.loop
        if not loop.scaler.has_updated():
            return
        skipped = loop.updates == self.updates
        self.updates = loop.updates
        fact = loop.facts.setdefault("scaler", {"calls": 0, "skipped": 0, "in_a_row": 0, "since": loop.step})
        fact["calls"] += 1
        fact["skipped"] += skipped
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if skipped else 0
        fact["in_a_row"] = max(fact["in_a_row"], self.skipped_in_a_row)
        if skipped:
            loop.batches.pending.clear()
            loop.write()


class Schedule:
    """The scheduler of the model's optimizer. Its first step shows which one it is; from then on its counter is read."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.scheduler: Any = None  # a weak reference
        self.is_scheduled = True  # an optimizer of the model may have one
        self.counter = 0  # of the scheduler before its first step
        self.steps = 0  # since
        self.largest_rate = 0.0
        self.known: Any = None  # the optimizer whose rate is followed
        self.rate_before, self.largest_followed = 0.0, 0.0  # of it
        self.collapsed = 0  # the update after which the rate was below a hundredth of the largest; 0: it is not
        self.has_been_zero = False  # a rate

    @property
    def needs_more(self) -> bool:
        return self.scheduler is None and (self.loop.is_close or self.is_scheduled)

    def stepped(self, scheduler: Any) -> None:
        optimizer = getattr(scheduler, "optimizer", None)
        if self.scheduler is None and optimizer is not None and self.loop.has(optimizer):
            self.scheduler = weakref.ref(scheduler)
            self.counter = _scheduler_counter(scheduler) - 1
            self.look_at_scheduler()

    def look_at_scheduler(self) -> None:
        """What its step after the last update, or before the first one, did."""
        scheduler = self.scheduler() if self.scheduler is not None else None
        if scheduler is None:
            return
        loop = self.loop
        steps = _scheduler_counter(scheduler) - self.counter
        if steps == self.steps:
            return
        self.steps = steps
        fact = loop.facts.setdefault("scheduler", {
            "kind": type(scheduler).__name__, "steps": 0, "early": 0, "since": loop.step,
            "period": getattr(scheduler, "T_max", 0)})
        if loop.updates == 0 and loop.scaler.find() is None:
            fact["early"] = steps
        rate = float(scheduler.optimizer.param_groups[0]["lr"])
        fact.update(steps=steps, updates=loop.updates, most=self.largest_rate, rate=rate)
        if "collapsed" not in fact and rate < 0.01 * self.largest_rate:
            fact["collapsed"] = loop.updates

    def after_update(self, groups: list[dict[str, Any]], known: Any) -> None:
        """`known`: the optimizer that they are of."""
        loop = self.loop
        for i, group in enumerate(groups):
            rate = float(group["lr"])
            if i == 0 and (rate != self.rate_before or known is not self.known):
                self.follow_rate(rate, known)
            if rate and not self.has_been_zero:
                continue
            key = f"zero_rate_{i}"
            zero = rate == 0 and any(p.requires_grad for p in group["params"])
            if zero or key in loop.facts:
                self.has_been_zero = True
                fact = loop.facts.setdefault(key, {"in_a_row": 0})
                fact["in_a_row"] = fact["in_a_row"] + 1 if zero else 0
                fact["of"] = known.updates

    def follow_rate(self, rate: float, known: Any) -> None:
        if known is not self.known:  # rates of two optimizers say nothing about each other
            self.known, self.largest_followed, self.collapsed = known, 0.0, 0
        if rate > 0.01 * self.largest_followed:
            self.largest_followed, self.collapsed = max(rate, self.largest_followed), 0
        elif self.collapsed == 0:
            self.collapsed = self.loop.updates
            if rate < 0.02 * self.rate_before:  # at once: another phase, as of tuning all layers after the last
                self.largest_followed, self.collapsed = rate, 0
        self.rate_before = rate
        self.largest_rate = max(rate, self.largest_rate)

    def look_for_scheduler(self) -> None:
        self.is_scheduled = any("initial_lr" in group for each in self.loop.live_optimizers() for group in each.param_groups)


def _scheduler_counter(scheduler: Any) -> int:
    """A number that grows by one with every step."""
    values = vars(scheduler)
    if "_schedulers" in values and "last_epoch" not in values:  # ChainedScheduler steps all of them
        return _scheduler_counter(values["_schedulers"][0])
    return int(values["_step_count"] if "_step_count" in values else values.get("last_epoch", 0))


class FindDropout(TorchFunctionMode):
    """Notices dropout that acts."""

    def __init__(self) -> None:
        super().__init__()
        self.found = ""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            share = named.get("dropout_p", arguments[4] if len(arguments) > 4 else 0.0)
            self.found = "scaled_dot_product_attention(dropout_p=…)" if share else self.found
        elif "dropout" in name and not self.found:
            share = named.get("p", arguments[1] if len(arguments) > 1 else 0.5)
            training = named.get("training", arguments[2] if len(arguments) > 2 else True)
            self.found = f"{name}(training=True)" if share and training else self.found
        return function(*arguments, **named)


class Validation:
    """Passes without gradients. When one in evaluation mode draws random numbers, the next is searched for dropout. Not
    before: PyTorch computes some layers in another way while functions are observed."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.passes = 0  # in evaluation mode
        self.draws = False  # random numbers, in evaluation mode
        self.state: Any = None  # of the generators, before the pass
        self.device: Any = None
        self.handle: Any = None
        self.mode: FindDropout | None = None

    def stop(self) -> None:
        if self.handle is not None:
            self.handle.remove()
            self.handle = None
        if self.mode is not None:
            mode, self.mode = self.mode, None
            mode.__exit__(None, None, None)
            if mode.found:
                self.loop.count("dropout", what=mode.found)

    def before_forward(self, arguments: Any, named: Any) -> None:
        loop = self.loop
        if loop.updates == 0:  # a pass to find out shapes, or to be sure that it runs
            return
        fact = loop.facts.setdefault("validation", {"passes": 0, "training": 0, "kinds": loop.kinds})
        fact["passes"] += 1
        if loop.model.training:
            fact.setdefault("since", loop.step)
            fact["training"] += 1
            if not loop.kinds:  # the mode changes nothing
                loop.examples.see_validation((arguments, named))
            return
        loop.examples.see_validation((arguments, named))
        if self.mode is None and loop.outer is loop.model and self.passes <= _EVALUATION_PASSES:
            self.stop()
            if self.draws:
                self.passes = _EVALUATION_PASSES + 1
                self.mode = FindDropout()
                self.mode.__enter__()
                self.handle = loop.model.register_forward_hook(EagerHook(self.leave_forward), always_call=True)
            elif self.passes < _EVALUATION_PASSES:
                batch = first_tensor((arguments, named))
                self.device = None if batch is None else batch.device
                self.state = _generator_state(self.device)
                self.handle = Handle(loop.model, "after", loop.guard(self.compare_generators))
                self.passes += 1

    def leave_forward(self, *_: Any) -> None:
        self.stop()

    def compare_generators(self, output: Any) -> None:
        self.stop()
        now = _generator_state(self.device)
        self.draws = self.state is not None and now is not None and not all(map(torch.equal, self.state, now))
        self.state = None


def _generator_state(device: Any) -> list[torch.Tensor] | None:
    states = [torch.get_rng_state()]
    if device is not None and device.type == "cuda":
        if torch.cuda.is_current_stream_capturing():
            return None
        states.append(torch.cuda.get_rng_state(device))
    return states
