"""How a PyTorch model's tensors get into a deck, and what happens when one cannot be recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import _tensors, _torch_reduce
from ._steps import PLAIN
from .deck import Deck


class Recording:
    """The signals of one model. What fails is noted and warned of, once a signal, while training goes on."""

    def __init__(self, deck: Deck, prefix: str) -> None:
        self.deck = deck
        self.prefix = prefix
        self.names: dict[int, str] = {}  # of signals
        self.refused: set[str] = set()  # signals that were not recorded
        self.reported: set[str] = set()  # keys of notes that are written once
        self.waiting: list[tuple[Any, torch.Tensor, Any, bool]] = []  # copies from a device, under way
        self.reductions = _torch_reduce.Reductions()

    def declare(self, name: str, **about: Any) -> Any:
        signal = self.deck._native.signal(name, rank=self.deck.rank, **about)
        self.names[id(signal)] = name
        return signal

    def scalar(self, name: str, value: float) -> None:
        self.deck._native.scalar(self.prefix + name, value)

    def guard(self, name: str, call: Callable, *arguments: Any) -> bool:
        """What fails here is no reason to end a training."""
        try:
            call(*arguments)
            return True
        except Exception as error:
            self.refuse(self.prefix + name, error)
            return False

    def refuse(self, name: str, error: Exception) -> None:
        if name in self.refused:
            return
        self.refused.add(name)
        reason = (str(error) or repr(error)).strip().split("\n")[0][:300]
        try:
            self.deck.note(f"not_recorded.{name}", reason)
        except Exception:  # the deck is finished
            pass
        warnings.warn(f"tapedeck: {name} is not recorded: {reason}", stacklevel=2)

    def note(self, key: str, value: Any) -> None:
        self.deck.note(self.prefix + key, value)

    def note_once(self, key: str, text: str) -> None:
        if key not in self.reported:
            self.reported.add(key)
            self.note(key, text)

    def warn_once(self, key: str, text: str) -> None:
        if key not in self.reported:
            warnings.warn(f"tapedeck: {text}", stacklevel=3)
        self.note_once(key, text)

    def put(self, signal: Any, tensor: torch.Tensor, more: bool = False) -> None:
        """Records a tensor, or another part of what this step has recorded of it. One on a device is reduced there, or copied
        while training goes on, and recorded at the step's end."""
        if type(tensor) in PLAIN and tensor.is_cpu and not _torch_reduce.FORCED:
            try:
                (signal.add if more else signal.put)(tensor)
                return
            except Exception:  # of another type
                pass
        try:
            forms = signal.forms()
            if forms:
                self._put_converted(signal, _tensors.readable(tensor), forms, more)
        except Exception as error:
            self._refuse_signal(signal, error)

    def _refuse_signal(self, signal: Any, error: Exception) -> None:
        self.refuse(self.names[id(signal)], error)

    def _put_converted(self, signal: Any, source: torch.Tensor, forms: int, more: bool) -> None:
        if self.reductions.takes(source, forms):
            self.reductions.add(signal, source, forms, more)
            return
        if source.is_cpu:
            _tensors.put(signal, source, more)
            return
        host = torch.empty(source.shape, dtype=source.dtype, pin_memory=source.is_cuda)
        host.copy_(source, non_blocking=True)
        done = None
        if source.is_cuda:
            done = torch.cuda.Event()
            done.record(torch.cuda.current_stream(source.device))
        self.waiting.append((signal, host, done, more))

    def put_waiting(self) -> None:
        for signal, host, done, more in self.waiting:
            if done is not None:
                done.synchronize()
            try:
                _tensors.put(signal, host, more)
            except Exception as error:
                self._refuse_signal(signal, error)
        self.waiting.clear()
        self.reductions.fetch(self._refuse_signal)

    def put_all(self, signals: list[Any], tensors: list[torch.Tensor | None]) -> None:
        """All that are wanted, in one call; those that are elsewhere, or of another kind, one by one."""
        if _torch_reduce.FORCED:
            left = [i for i, tensor in enumerate(tensors) if tensor is not None]
        else:
            left = self.deck._native.put_all(signals, tensors)
        for i in left:
            self.put(signals[i], tensors[i])
