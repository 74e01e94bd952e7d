"""fastai: ``Learner(…, cbs=tapedeck.fastai.Recorder("runs/a"))``, or in a call of ``fit``."""

from __future__ import annotations

import os
from typing import Any

import torch
from fastai.callback.core import Callback

from ._guard import guarded
from ._trainer import TrainerSteps


class _Optimizer(torch.optim.Optimizer):
    """fastai's optimizers are not PyTorch's, and have no hooks. This one has: a step of it is one of theirs."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._step = inner, inner.step
        self.stepped = False  # since the step of training began
        super().__init__([{"params": list(group), "lr": float(hyper["lr"])} for group, hyper in zip(inner.param_lists, inner.hypers)], {})
        inner.step = self.step

    def step(self, closure: Any = None) -> Any:
        self.stepped = True
        return self._step() if closure is None else self._step(closure)

    def see_rates(self) -> None:
        for group, hyper in zip(self.param_groups, self._inner.hypers):
            group["lr"] = float(hyper["lr"])

    def release(self) -> None:
        if vars(self._inner).get("step") == self.step:
            del self._inner.step

    def __repr__(self) -> str:
        return f"{type(self._inner).__name__} of fastai {self._inner.hypers}"


class Recorder(TrainerSteps, Callback):  # type: ignore[misc]
    """Watches the model that is trained; arguments as of `tapedeck.watch`. A step is a batch of training, or several
    that are accumulated, after which the optimizer stepped; ``loss`` is the mean over its batches. What fastai's own recorder has of an epoch (``train_loss``, ``valid_loss``, metrics) is in the epoch's last step.

    Each ``fit`` is a run of its own; with ``resume=True`` the next one goes on with the run. ``lr_find`` and
    ``get_preds`` are not recorded.
    """

    name = "tapedeck"  # of this class fastai would make the name of its own recorder
    order = 60  # after that one
    run_valid = False

    def __init__(self, folder: str | os.PathLike[str] = "runs/run", **options: Any) -> None:
        TrainerSteps.__init__(self, folder, **options)
        self._own_steps: _Optimizer | None = None

    def before_fit(self) -> None:
        learner = self.learn
        self._gave_up = hasattr(learner, "lr_finder") or hasattr(learner, "gather_preds")
        if self._gave_up:
            return
        self._release()
        self._own_steps = _Optimizer(learner.opt)
        self._start(learner.model, self._own_steps, 1, 0)
        self._count = 0
        self._losses: list[Any] = []  # of the step's batches

    @guarded
    def before_batch(self) -> None:
        self._close()

    @guarded
    def before_step(self) -> None:
        assert self._own_steps
        self._own_steps.see_rates()

    @guarded
    def after_batch(self) -> None:
        assert self._own_steps
        self._losses.append(self.learn.loss.detach())
        if not self._own_steps.stepped:
            return  # more batches follow
        losses, self._losses, self._own_steps.stepped = self._losses, [], False
        self._count += 1
        self.deck.log(loss=torch.stack(losses).mean() if len(losses) > 1 else losses[0])
        self._trained = (self.learn.epoch + 1, self._count)

    @guarded
    def after_epoch(self) -> None:
        recorder = self.learn.recorder
        names = [name for name in recorder.metric_names if name not in ("epoch", "time")]
        row = recorder.values[-1] if recorder.values else []
        self.deck.log({name: float(value) for name, value in zip(names, row) if value is not None})
        self._ends_epoch = self._trained is not None

    @guarded
    def after_fit(self) -> None:
        self._release()
        self._end()

    def _release(self) -> None:
        if self._own_steps is not None:
            self._own_steps.release()
            self._own_steps = None

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self._folder, **self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
