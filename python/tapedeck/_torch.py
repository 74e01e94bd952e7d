"""PyTorch: outputs, errors, gradients, weights and updates of a model, while it trains. How is in _watcher.py."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from ._groups import GROUPS, LOCAL, default_tracks, words_of
from ._layers import bare
from ._options import DeckOptions
from ._placement import mesh_of
from ._steps import optimizers_of
from ._watcher import Watcher
from ._zero import owner_of
from .deck import Deck, leaves_no_folder

if TYPE_CHECKING:
    from typing import Unpack  # of Python 3.11

_watchers: "weakref.WeakSet[Watcher]" = weakref.WeakSet()  # those of the models that are recorded now


@leaves_no_folder
def watch(
    model: torch.nn.Module,
    folder: str | os.PathLike[str] = "runs/run",
    *,
    optimizer: Any = None,
    every: int | str = 100,
    log_freq: int = 0,
    log: str | Iterable[str] = "outputs,errors,gradients,weights,updates",
    form: str | Iterable[str] = "histogram",
    to: str | Iterable[str] | None = None,
    scaler: Any = None,
    deck: Deck | None = None,
    prefix: str = "",
    loop_checks: bool = True,
    functions: bool = False,
    compiled: bool = False,
    capsule: int = 0,
    verify_every: int = 0,
    **options: Unpack[DeckOptions],
) -> Deck:
    """Records what happens inside a PyTorch model while it trains.

    >>> deck = tapedeck.watch(model, "runs/a", optimizer=opt, every=100)
    >>> for x, y in loader:
    ...     opt.zero_grad()
    ...     loss = F.cross_entropy(model(x), y)
    ...     loss.backward()
    ...     opt.step()
    ...     deck.log(loss=loss)          # no .item()
    ...     deck.step()                  # may be left out: a step ends with the optimizer's
    >>> deck.finish()

    Signals have the framework's own names: ``0.output``, ``0.error``, ``0.weight``, ``0.weight.gradient``,
    ``0.weight.update``; the second call of a shared module in a step is ``0@1.output``, parts of a tuple or dict
    ``lstm.0.output``, those of a complex tensor ``fft.real.output``. A model that is itself a layer is called ``model``.
    `Deck.track` adds to what is recorded. Loss and weights are those of training without it, bit for bit (with
    ``torch.compile`` the steps that are recorded run eagerly, unless with ``compiled=True``).

    Args:
        optimizer: needed for updates, and for gradients after clipping and unscaling; several as a list or a dict.
        every: steps, or ``"N epochs"``; ``log_freq`` is another word for it.
        log: which groups of signals; ``"all"`` for all of them, ``""`` to leave everything to tracks. ``"local_gradients"``
            adds each rank's gradients before DistributedDataParallel reduces them.
        form: ``stats``, ``histogram``, ``tensor``, …
        to: sinks; by default those that suit the form.
        scaler: the ``GradScaler`` whose scale errors are divided by; by default the one of torch that scales a loss
            before the model's first update.
        deck: a deck that there is already: another model's, too, with a prefix for its names.
        prefix: of all names: ``critic`` makes ``critic.0.output``.
        loop_checks: gather facts about the training loop for `tapedeck diagnose`. For as long as that takes, a few
            attributes of torch's modules are replaced (docs/python.md); False leaves them as they are.
        functions: also record what the model computes between its modules, as ``block.0/relu.output``, ``block.0/add.error``:
            functions of torch and arithmetic, with a number behind where a module calls one again (``block.0/add@1.output``).
        compiled: outputs and errors are recorded by an operator within the graph that ``torch.compile`` makes, so that steps that are
            recorded stay compiled; watch the model before its first call. Otherwise steps of a compiled model that are recorded run eagerly, which attention, functions,
            ``gradient_norm.rows``, facts about the loop and modules that are called several times in a step need.
        capsule: keep this many last steps in memory, and write them to ``RUN/capsules/STEP`` when the loss is not finite or
            spikes, a track's condition fires, an exception ends the run, or `Deck.capsule` is called; `replay` executes them
            again. Costs two copies of model and optimizer state, and of the batches.
        verify_every: execute every N-th step twice (forward, backward, update) and compare them by fingerprints: finds
            what is not deterministic, and hardware that computes wrong. The first operation that differs is named in a
            warning and in the notes ``verify.differs`` and ``verify.steps``. Training goes on as without it.
        options: of `Deck`.
    """
    optimizers = optimizers_of(optimizer)
    local = LOCAL in words_of(log)
    chosen = (*GROUPS, LOCAL) if local and "all" in words_of(log) else GROUPS if "all" in words_of(log) else log
    default_tracks((), log=chosen)  # raises before anything is made
    if compiled and functions:
        raise ValueError("compiled=True records modules, not functions")
    rank, world = _rank()
    _check_names(deck, model, prefix)
    _release(bare(model), deck)
    own = deck is None
    if deck is None:
        deck = Deck(folder, rank=rank, world=world, mesh=mesh_of(bare(model)), **options)
    deck._native.layout = "channels_first"
    watcher = Watcher(deck, model, optimizers, scaler, f"{prefix}." if prefix else "", loop_checks and not compiled, world, local,
                      functions, owner_of(bare(model), optimizer), compiled)
    watcher.owns_deck = own
    deck._parts.append(watcher)
    _watchers.add(watcher)
    names = [p.name for p in watcher.parameters]
    for track in default_tracks(names, every=log_freq or every, form=form, to=to, log=chosen, prefix=watcher.prefix):
        deck.track(**track)
    watcher.note_facts(rank, world)
    deck._tracked = True  # also when log is empty
    if not deck._begun:
        deck._prepare()
    if capsule:
        from ._keep_torch import TorchKeeper

        deck._parts.append(TorchKeeper(watcher, model, capsule))
    if verify_every:
        from ._verify import TorchVerifier

        deck._parts.append(TorchVerifier(watcher, model, verify_every))
    watcher.after_step()
    return deck


def _check_names(deck: Deck | None, model: torch.nn.Module, prefix: str) -> None:
    for part in deck._parts if deck is not None else ():
        if isinstance(part, Watcher) and part.prefix == (f"{prefix}." if prefix else ""):
            raise ValueError("this deck watches a model " + (f"with the prefix {prefix!r}" if prefix else "without a prefix")
                             + " already: give prefix, a word that its signals' names begin with")


def _release(model: torch.nn.Module, deck: Deck | None) -> None:
    """Ends what another deck records of this model; also that deck, if `watch` made it."""
    for watcher in [each for each in _watchers if each.model is model and each.deck is not deck and not each.finished]:
        other = watcher.deck
        ended = "it is finished" if watcher.owns_deck else "it no longer does"
        warnings.warn(f"tapedeck: {other.folder} recorded this model until now; {ended}", stacklevel=4)
        try:
            if watcher.owns_deck:
                other.finish()
            else:
                watcher.leave()
        except Exception as error:
            warnings.warn(f"tapedeck: {other.folder}: {error}", stacklevel=4)


def _rank() -> tuple[int, int]:
    import torch.distributed as distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
