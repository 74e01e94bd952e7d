"""`tapedeck.diagnose`: trains a copy of a PyTorch model for a few steps, has `tapedeck diagnose` judge it, and tries out on further
copies what would change the suspected causes: as `tapedeck diagnose` does with a run of an experiment."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ._torch import watch
from .run import Diagnosis, Finding, Run

_ELEMENTS = 1 << 28  # of all batches that are kept
_MOST_RATE = 0.05  # of which more than a hundredfold is tried
_WON = 0.5  # of the loss that is left: a number that could be tuned must win that much,
_WON_OF_FOUND = 0.25  # and less where a rule found it


@dataclasses.dataclass
class Setting:
    """A copy of what is trained."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    batches: list[Any]


@dataclasses.dataclass(frozen=True)
class Change:
    cause: str
    text: str
    make: Callable[[Setting], None]


def _set(key: str, value: Callable[[float], float]) -> Callable[[Setting], None]:
    def make(setting: Setting) -> None:
        for group in setting.optimizer.param_groups:
            if key in group:
                group[key] = value(group[key])

    return make


def _standardize(setting: Setting) -> None:
    first = [_input(batch) for batch in setting.batches]
    if not all(isinstance(x, torch.Tensor) and x.is_floating_point() for x in first):
        return
    values = torch.cat([x.reshape(-1)[: 1 << 16] for x in first])
    mean, deviation = values.mean(), values.std().clamp_min(1e-12)
    setting.batches = [((_input(batch) - mean) / deviation, *list(batch)[1:]) for batch in setting.batches]


def _mix(setting: Setting) -> None:
    """Examples of all batches in another order, batches of the same size."""
    parts = list(zip(*setting.batches))
    if not all(isinstance(x, torch.Tensor) and x.dim() for part in parts for x in part):
        return
    sizes = [len(x) for x in parts[0]]
    order = torch.randperm(sum(sizes))
    setting.batches = list(zip(*(torch.cat(part)[order].split(sizes) for part in parts)))


def _draw_again(setting: Setting) -> None:
    for module in setting.model.modules():
        if callable(getattr(module, "reset_parameters", None)):
            module.reset_parameters()


def _input(batch: Any) -> Any:
    return batch[0]


def _changes(rate: float) -> list[Change]:
    rates = [Change("learning_rate_too_high" if times < 1 else "learning_rate_too_low", f"lr={rate * times:.3g} (from {rate:.3g})",
                    _set("lr", lambda lr, times=times: lr * times)) for times in (0.1, 0.01, 10, 100, 1e3, 1e4)
             if times <= 100 or rate * times <= _MOST_RATE]
    return rates + [Change("wrong_optimizer", "eps=1e-8", _set("eps", lambda _: 1e-8)),
                    Change("over_regularization", "weight_decay=0", _set("weight_decay", lambda _: 0.0)),
                    Change("unscaled_inputs", "inputs of mean 0 and variance 1", _standardize),
                    Change("bad_initialization", "initial weights that PyTorch draws", _draw_again),
                    Change("unshuffled_data", "examples in another order", _mix)]


def _copy_of(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list[Any]) -> Setting:
    """The optimizer's copy has the parameters of the model's copy."""
    model, optimizer = copy.deepcopy((model, optimizer))
    return Setting(model, optimizer, batches)


def _train(setting: Setting, loss_fn: Callable, after: Callable[[float], None] | None = None) -> list[float]:
    losses = []
    for batch in setting.batches:
        inputs, target = batch[0], batch[1]
        setting.optimizer.zero_grad()
        loss = loss_fn(setting.model(inputs), target)
        loss.backward()
        setting.optimizer.step()
        losses.append(float(loss.detach()))
        if after is not None:
            after(losses[-1])
    return losses


def _end(losses: list[float]) -> float:
    """The loss of the last quarter; infinite when it is none."""
    end = statistics.fmean(losses[-max(1, len(losses) // 4) :])
    return end if math.isfinite(end) else math.inf


def _kept(loader: Iterable[Any], steps: int) -> list[Any]:
    if iter(loader) is loader:
        raise TypeError("a loader that can be read again is needed, as a DataLoader or a list of batches: this one is used up by reading it")
    batches: list[Any] = []
    elements = 0
    while len(batches) < steps:
        before = len(batches)
        for batch in itertools.islice(loader, steps - before):
            if not isinstance(batch, (tuple, list)) or len(batch) < 2:
                raise TypeError("batches are expected as (inputs, target)")
            batches.append(tuple(batch))
            elements += sum(x.numel() for x in batch if isinstance(x, torch.Tensor))
            if elements > _ELEMENTS:
                return batches
        if len(batches) == before:
            break
    if not batches:
        raise ValueError("the loader has no batches")
    return batches


def diagnose(model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss_fn: Callable[[Any, Any], torch.Tensor],
             loader: Iterable[Any], *, steps: int = 100, seconds: float = 60) -> Diagnosis:
    """Says what is wrong with a training before it is made: trains a copy for a few steps, and tries out what is suspected.

    >>> print(tapedeck.diagnose(model, optimizer, torch.nn.functional.cross_entropy, loader))

    Model, optimizer and random numbers are as before when it returns; the loader is read.

    Args:
        loss_fn: ``loss_fn(model(inputs), target)`` is what is trained.
        loader: of batches ``(inputs, target)``, which can be read again.
        steps: of the training and of every trial; fewer where the batches would take more than a gigabyte.
        seconds: that all trials together may take: no other is begun after that.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"tapedeck.diagnose takes a module of PyTorch, not {type(model).__name__}: record a Keras model with "
                        "tapedeck.Recorder, and use tapedeck diagnose RUN")
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices):
        batches = _kept(loader, steps)
        seed = torch.initial_seed() & 0x7FFFFFFF

        def run(change: Change | None, after: Any = None, setting: Setting | None = None) -> list[float]:
            setting = setting or _copy_of(model, optimizer, batches)
            torch.manual_seed(seed)  # the same dropout in each
            if change is not None:
                change.make(setting)
            return _train(setting, loss_fn, after)

        with tempfile.TemporaryDirectory(prefix="tapedeck-") as place:
            setting = _copy_of(model, optimizer, batches)
            deck = watch(setting.model, os.path.join(place, "run"), optimizer=setting.optimizer, every=5, form="stats")

            def log(loss: float) -> None:
                deck.log(loss=loss)
                deck.step()

            losses = run(None, log, setting)
            deck.finish()
            found = Run(deck.folder).diagnose(keep=False)
        return _judge(found, losses, run, float(optimizer.param_groups[0]["lr"]), seconds)


def _judge(found: Diagnosis, losses: list[float], run: Callable[[Change], list[float]], rate: float, seconds: float) -> Diagnosis:
    """Tries out what was found; and rates, where the loss hardly fell and nothing else explains it."""
    suspected = {finding.cause for finding in found.findings}
    certain = any(finding.confidence != "maybe" for finding in found.findings)
    fell = _end(losses) < 0.9 * losses[0]
    if not fell and (not certain or suspected & {"plateau", "divergence", "nan_loss", "inf_loss"}):
        suspected |= {"learning_rate_too_high", "learning_rate_too_low"}
    until, best = time.monotonic() + seconds, {}
    notes = list(found.notes)
    for change in _changes(rate):
        if change.cause not in suspected:
            continue
        if time.monotonic() > until:
            notes.append(f"{change.text} was not tried: {seconds:g} seconds were over")
            continue
        end = _end(run(change))
        if change.cause not in best or end < best[change.cause][1]:
            best[change.cause] = change, end
    findings = [_with_trial(finding, best.pop(finding.cause, None), losses) for finding in found.findings]
    added = [_with_trial(Finding(cause=cause, confidence="maybe", layer=None, unit=None, since_step=1, remedy=tried[0].text, symptoms=[],
                                 evidence=[], origin=None), tried, losses) for cause, tried in best.items() if _wins(tried[1], losses)]
    order = {"sure": 0, "likely": 1, "maybe": 2}
    return Diagnosis(sorted(findings + added, key=lambda finding: order[finding.confidence]), found.rules, found.skipped, notes)


def _wins(end: float, losses: list[float], share: float = _WON) -> bool:
    return end < (1 - share) * _end(losses) if _end(losses) > 0 else end < _end(losses)


def _with_trial(finding: Finding, tried: tuple[Change, float] | None, losses: list[float]) -> Finding:
    if tried is None:
        return finding
    change, end = tried
    text = f"tried for {len(losses)} steps: loss {end:.3g} instead of {_end(losses):.3g} with {change.text}"
    evidence = [*finding.evidence, {"text": text, "signal": "loss", "step": len(losses), "value": end}]
    is_found = finding.confidence != "maybe"
    if _wins(end, losses, _WON_OF_FOUND if is_found else _WON):
        confidence = "sure" if is_found else "likely"
        return dataclasses.replace(finding, confidence=confidence, remedy=change.text, evidence=evidence)
    return dataclasses.replace(finding, evidence=evidence)
