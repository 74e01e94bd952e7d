"""Tapedeck shows what happens inside a neural network while it trains.

>>> import tapedeck
>>> deck = tapedeck.watch(model, "runs/a", optimizer=opt, every=100)     # PyTorch
>>> model.fit(x, y, callbacks=[tapedeck.Recorder("runs/b")])             # Keras 3
>>> deck = tapedeck.Deck("runs/c")                                       # any loop, any arrays
>>> tapedeck.init(project="c"); tapedeck.log({"loss": 0.3})              # as wandb and trackio have it
>>> run = tapedeck.Run("runs/a")                                         # and back again

A deck records *signals* by name (``loss``, ``conv1.output``, ``conv1.error``, ``conv1.weight``,
``conv1.weight.gradient``, ``conv1.weight.update``) into a *run*: a folder of CSV, NPY, TensorBoard events
and an SQLite index. *Tracks* say which signals, when, in which form and where to.

Importing tapedeck imports no framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._native import Error, version as _version
from .deck import Deck, RecordingWarning
from .run import Diagnosis, Finding, Run, Signal, runs

__version__ = _version()
_NAMES = ["Deck", "Diagnosis", "Error", "Finding", "RecordingWarning", "Run", "Signal", "runs"]

# Names that are looked up when they are first used: where each is, and what it needs (one of these is enough).
_LATER: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "watch": ("._torch", "watch", ("torch",)),
    "diagnose": ("._trials", "diagnose", ("torch",)),
    "Recorder": ("._keras", "Recorder", ("keras",)),
    "tape": ("._keras", "tape", ("keras",)),
    "grad": ("._grad", "grad", ("numpy",)),
    "replay": ("._replay", "replay", ("torch",)),
    "layer_loss": ("._grad", "layer_loss", ("numpy",)),
    "weights": ("._weights", "weights", ("numpy",)),
    **{name: ("._session", name, ()) for name in ("init", "log", "finish", "Session", "Image", "Audio", "Table", "Histogram")},
    "accelerate": (".accelerate", None, ("accelerate",)),
    "fastai": (".fastai", None, ("fastai",)),
    "ignite": (".ignite", None, ("ignite",)),
    "lightning": (".lightning", None, ("lightning", "pytorch_lightning")),
    "skorch": (".skorch", None, ("skorch",)),
    "transformers": (".transformers", None, ("transformers",)),
}
_MODULES = ("accelerate", "fastai", "ignite", "lightning", "skorch", "transformers")

if TYPE_CHECKING:
    from . import accelerate as accelerate, fastai as fastai, ignite as ignite, lightning as lightning
    from . import skorch as skorch, transformers as transformers
    from ._grad import grad, layer_loss
    from ._keras import Recorder, tape
    from ._session import Audio, Histogram, Image, Session, Table, finish, init, log
    from ._torch import watch
    from ._trials import diagnose
    from ._weights import weights

    __all__ = [
        "Deck", "Diagnosis", "Error", "Finding", "RecordingWarning", "Run", "Signal", "runs",
        "Recorder", "diagnose", "grad", "layer_loss", "tape", "watch", "weights",
        "Audio", "Histogram", "Image", "Session", "Table", "finish", "init", "log",
    ]


def _installed(names: tuple[str, ...]) -> bool:
    from importlib.util import find_spec

    return any(find_spec(name) is not None for name in names)


def _works(name: str) -> bool:
    try:
        return __getattr__(name) is not None
    except (AttributeError, ImportError):
        return False


def __getattr__(name: str) -> Any:
    if name == "__all__":  # for `import *` and help(): without a framework, or with one too old, not what needs it
        return _NAMES + [later for later in _LATER if later not in _MODULES and _works(later)]
    if name not in _LATER:
        raise AttributeError(f"module 'tapedeck' has no attribute {name!r}")
    from importlib import import_module

    module, attribute, needs = _LATER[name]
    if needs and not _installed(needs):
        raise AttributeError(f"tapedeck.{name} needs {' or '.join(needs)}, which is not installed: pip install {needs[0]}")
    found = import_module(module, __name__)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext tapedeck`` in a notebook: then ``%tapedeck runs/a`` shows a run, ``%tapedeck runs`` the list."""
    from ._notebook import load

    load(ipython)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__getattr__("__all__")))
