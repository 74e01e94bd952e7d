"""Tapedeck shows what happens inside a neural network while it trains.

>>> import tapedeck
>>> deck = tapedeck.watch(model, "runs/a", optimizer=opt, every=100)     # PyTorch
>>> model.fit(x, y, callbacks=[tapedeck.Recorder("runs/b")])             # Keras 3
>>> deck = tapedeck.Deck("runs/c")                                       # any loop, any arrays
>>> run = tapedeck.Run("runs/a")                                         # and back again

A deck records *signals* by name (``loss``, ``conv1.output``, ``conv1.error``, ``conv1.weight``,
``conv1.weight.gradient``, ``conv1.weight.update``) into a *run*: a folder of CSV, NPY, TensorBoard events
and an SQLite index. *Tracks* say which signals, when, in which form and where to.

Importing tapedeck imports no framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._native import Error, version as _version
from .deck import Deck
from .run import Run, Signal, runs

__version__ = _version()
__all__ = [
    "Deck", "Error", "Recorder", "Run", "Signal", "grad", "layer_loss", "runs", "tape", "watch", "weights",
]

# Where each name is that needs a framework: looked up when it is first used.
_LATER = {
    "watch": ("._torch", "watch"),
    "Recorder": ("._keras", "Recorder"),
    "tape": ("._keras", "tape"),
    "grad": ("._grad", "grad"),
    "layer_loss": ("._grad", "layer_loss"),
    "weights": ("._weights", "weights"),
    "lightning": (".lightning", None),
    "transformers": (".transformers", None),
}

if TYPE_CHECKING:
    from . import lightning, transformers
    from ._grad import grad, layer_loss
    from ._keras import Recorder, tape
    from ._torch import watch
    from ._weights import weights


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module 'tapedeck' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _LATER[name]
    found = import_module(module, __name__)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
