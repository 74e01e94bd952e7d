"""How a PyTorch model's tensors get into a deck, and what happens when one cannot be recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import _tensors
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
        self.waiting: list[tuple[Any, torch.Tensor, Any]] = []  # copies from a device, under way

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

    def put(self, signal: Any, tensor: torch.Tensor) -> None:
        """Records a tensor; one on a device is copied while it goes on, and recorded at the step's end."""
        if type(tensor) in PLAIN:
            try:
                signal.put(tensor)
                return
            except Exception:  # in another memory, of another type
                pass
        try:
            if signal.wants():
                self._put_converted(signal, _tensors.readable(tensor))
        except Exception as error:
            self.refuse(self.names[id(signal)], error)

    def _put_converted(self, signal: Any, source: torch.Tensor) -> None:
        if source.is_cpu:
            _tensors.put(signal, source)
            return
        host = torch.empty(source.shape, dtype=source.dtype, pin_memory=source.is_cuda)
        host.copy_(source, non_blocking=True)
        done = None
        if source.is_cuda:
            done = torch.cuda.Event()
            done.record(torch.cuda.current_stream(source.device))
        self.waiting.append((signal, host, done))

    def put_waiting(self) -> None:
        for signal, host, done in self.waiting:
            if done is not None:
                done.synchronize()
            self.put(signal, host)
        self.waiting.clear()

    def put_all(self, signals: list[Any], tensors: list[torch.Tensor | None]) -> None:
        """All that are wanted, in one call; those that are elsewhere, or of another kind, one by one."""
        for i in self.deck._native.put_all(signals, tensors):
            self.put(signals[i], tensors[i])
