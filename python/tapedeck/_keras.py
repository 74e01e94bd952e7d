"""Keras 3 on its three backends: a callback that records inside of ``fit``, and a tape for loops written by hand.

How: ``model.train_function`` is replaced by one that asks the deck. A step that records nothing runs the user's
own function, compiled as it was. A step that is due runs another one, of `_keras_steps`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import keras

from ._groups import default_tracks, sinks_of
from ._guard import guarded
from ._keras_loop import KerasLoop
from ._keras_signals import BACKEND, Signals, leaves as _leaves, observing as _observing
from ._keras_steps import STEPS
from ._options import DeckOptions, TrackOptions
from .deck import Deck, leaves_no_folder

if TYPE_CHECKING:
    from typing import Unpack  # of Python 3.11

__all__ = ["Recorder", "tape", "_leaves", "_observing"]
_SCHEDULES = ("every", "log_freq", "every_epochs", "at")


class Recorder(keras.callbacks.Callback):
    """A callback for ``fit`` that records what happens inside the model.

    >>> recorder = tapedeck.Recorder("runs/b", track=[dict(what="*.error", every=50, form="histogram")])
    >>> model.fit(x, y, validation_data=(xv, yv), callbacks=[recorder])
    >>> tapedeck.Run(recorder.folder)["loss"].to_pandas()

    Signals: ``LAYER.output``, ``LAYER.error``, ``LAYER.kernel``, ``LAYER.kernel.gradient``, ``LAYER.kernel.update``; ``loss`` of every
    step that is due, and at the end of an epoch its metrics, validation and learning rate. Weights after
    training are those of training without it. What cannot be recorded is reported, and training goes on.

    Outside of ``fit``, ``Recorder(…).attach(model)`` records what ``train_on_batch`` does, until `finish`.

    Args:
        folder: where the run is written.
        track: what is recorded: a list of `Deck.track`'s arguments, or of names. By default every layer's outputs,
            errors, weights, gradients and updates as histograms every 100 steps.
        every, log_freq, form, to: of that default; of tracks that have no schedule, form or sinks of their own.
        log: which groups of signals the default records: ``outputs,errors,gradients,weights,updates``, ``"all"``;
            ``""`` leaves everything to other tracks.
        deck: a deck that there is already, with its own tracks; what is given here is added to them. It is not
            finished at the end of ``fit``.
        prefix: of all names, for several models in one deck: ``critic`` makes ``critic.dense.output``.
        capsule: keep this many last steps in memory, and write them to ``RUN/capsules/STEP`` when the loss is not finite or
            spikes, a track's condition fires, or `Deck.capsule` is called; `replay` executes them again. TensorFlow and PyTorch.
        verify_every: train every N-th step twice with the same batch from the same state, and compare all variables by
            fingerprints: finds what is not deterministic, and hardware that computes wrong. The first layer that differs is
            named in a warning and in the notes ``verify.differs`` and ``verify.steps``.
        options: of `Deck`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        track: Iterable[TrackOptions | str] | TrackOptions | str | None = None,
        *,
        every: int | str | None = None,
        log_freq: int = 0,
        form: str | Iterable[str] | None = None,
        to: str | Iterable[str] | None = None,
        log: str | Iterable[str] | None = None,
        deck: Deck | None = None,
        prefix: str = "",
        capsule: int = 0,
        verify_every: int = 0,
        **options: Unpack[DeckOptions],
    ) -> None:
        super().__init__()
        if deck is not None and (folder is not None or options):
            raise ValueError(f"with deck= there is no {'folder' if folder is not None else sorted(options)[0]}: "
                             "the deck has its own")
        if track is not None and log is not None:
            raise ValueError("log= chooses what the default records; with track= name the signals there")
        if log is not None:
            default_tracks((), log=log)  # raises before there is a folder
        self._own = deck is None
        self._arguments = ("runs/run" if folder is None else os.fspath(folder), options)
        self._tracks = [track] if isinstance(track, (dict, str)) else track
        self._given = {"every": every or log_freq or None, "form": form, "to": to, "log": log}
        self._prefix = prefix
        self._capsule = capsule
        self._verify_every = verify_every
        self.deck = deck
        self._tracks_added = False
        self._attached: Any = None
        self._plain: Callable | None = None
        self._step: Any = None
        self._open = False  # a step was trained and is not closed
        self._in_fit = self._gave_up = False
        self._begin = 0
        self._epoch_offset: int | None = None  # of a deck that has seen epochs before
        self._loop: KerasLoop | None = None

    @property
    def folder(self) -> str:
        """The folder that was created; known once training has begun."""
        if self.deck is None:
            raise ValueError("the run's folder is created when training begins")
        return self.deck.folder

    # ---- Keras calls ----------------------------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        if self._in_fit and self._own and self.deck is not None:
            self._end("interrupted")  # by an exception in an earlier fit
        self._in_fit, self._epoch_offset = True, None
        self.attach(self.model)
        self._loop = KerasLoop(self.deck, self.model, self._signals.prefix, self._step)

    @guarded
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._attached is not None:
            if self._epoch_offset is None:
                self._epoch_offset = max(0, self.deck.epoch - (epoch + 1))
            self.deck.epoch = self._epoch_offset + epoch + 1

    @guarded
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._attached is not None:
            self._close_step()
            self._begin = batch
            batches = self.params.get("steps")
            if batches:
                self.deck.begin(last=batch + 1 >= batches)
            if self._loop is not None:
                self._loop.before_batch()

    @guarded
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._attached is not None:
            batches = self.params.get("steps")
            last = min(batch, batches - 1) if batches else batch
            self._trained = self.deck.steps + max(1, last - self._begin + 1)
            self._open = True
            if self._loop is not None:
                self._loop.after_batch(self._trained - self.deck.steps, logs)

    @guarded
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._attached is None:
            return
        values = {name: float(value) for name, value in (logs or {}).items()}
        rate = getattr(self.model.optimizer, "learning_rate", None)
        if rate is not None and "learning_rate" not in values:
            values["learning_rate"] = float(keras.ops.convert_to_numpy(rate))
        for name, value in values.items():
            if name not in self._signals.logged:  # a step's own value stays its own
                self.deck._native.scalar(name, value)
            self.deck._native.scalar_of_epoch(name, value)
        self._signals.logged.clear()
        if self._loop is not None:
            self._loop.end_epoch(values)
        self._close_step(last=True)
        self.deck.epoch = (self._epoch_offset or 0) + epoch + 2

    @guarded
    def on_train_end(self, logs: Any = None) -> None:
        self._in_fit = False
        if self._attached is not None:
            if self._loop is not None:
                self._loop.finish()
            self._end()

    # ---- the deck -------------------------------------------------------------------------------

    @leaves_no_folder
    def attach(self, model: Any) -> "Recorder":
        """Begins to record this model: its ``fit``, or ``train_on_batch``. A recorder that records it already is
        finished, with a warning."""
        if self._attached is not None and (self._attached is not model or model.train_function != self._dispatch):
            self._detach()
        self._gave_up = False
        _release(model, self)
        if self.deck is None or (self._own and self.deck._finished):
            folder, options = self._arguments
            self.deck = Deck(folder, **{"metrics": 0 if self._in_fit else 1, **options})  # batches alone have no epochs
            self.deck._native.layout = keras.config.image_data_format()
            self._tracks_added = False
        self._signals = signals = Signals.of(self.deck, model, self._prefix)
        signals.note_facts(model.optimizer)
        if not self._tracks_added:
            self._add_tracks()
        if self._attached is None:
            model.make_train_function()
            self._attached = model
            self._plain = model.train_function
            try:
                self._step = STEPS[BACKEND](signals, model)
            except Exception as error:
                signals.cannot("*.*", error)
                self._step = None
            self._keep_batches(model)
            model.train_function = self._dispatch
        return self

    def _keep_batches(self, model: Any) -> None:
        if self._verify_every and self._step is not None:
            from ._verify_keras import KerasVerifier

            self._step.verifier = KerasVerifier(self.deck, model, lambda: self._step.layers, self._verify_every)
            self.deck._parts.append(self._step.verifier)
        self._keeper = None
        if self._capsule and (self._step is None or BACKEND == "jax"):
            self._signals.cannot("capsule", f"batches of Keras on {BACKEND} are not kept")
        elif self._capsule:
            from ._keep_keras import KerasKeeper

            self._keeper = self._step.keeper = KerasKeeper(self.deck, model, self._capsule)
            self.deck._parts.append(self._keeper)

    def finish(self) -> None:
        """Ends the recording; ``fit`` does it at its end."""
        self._detach()
        if self.deck is not None:
            self._close_step()
            self.deck.finish()

    def _add_tracks(self) -> None:
        given = {key: value for key, value in self._given.items() if value is not None}
        tracks = self._tracks
        if tracks is None and (self._own or given):
            if not self._signals.complete and "weights" in (self._given["log"] or ""):
                raise ValueError("the weights of a model that is not built have no names yet: build it first, or log=\"all\"")
            tracks = default_tracks(self._signals.variables, prefix=self._signals.prefix, **given)
        for track in tracks or ():
            track = dict(what=track) if isinstance(track, str) else dict(track)
            if "every" in given and not any(key in track for key in _SCHEDULES):
                track["every"] = given["every"]
            for key in ("form", "to"):
                if key in given:
                    track.setdefault(key, given[key])
            if "form" in given and "to" not in track:
                track["to"] = sinks_of(track["form"])
            self.deck.track(**track)
        self._tracks_added = True
        if self._own:
            self.deck._tracked = True  # an empty list is a list too
            self.deck._native.track("*", every_epochs=1, metrics=True, to="csv,tensorboard")
            self.deck._prepare()

    def _detach(self) -> None:
        if self._attached is not None:
            if self._attached.train_function == self._dispatch:
                self._attached.train_function = self._plain
            self._attached = None

    def _end(self, state: str | None = None) -> None:
        """Ends the recording of a model: of the deck too, if it is the recorder's own."""
        self._close_step()
        self._detach()
        if self._own:
            self.deck.finish(state)

    def _give_up(self) -> None:
        self._detach()
        if self._own:
            self.deck.finish()

    def _close_step(self, last: bool = False) -> None:
        if self._open:
            self._open = False
            self.deck.step(step=self._trained, last=last)

    @guarded
    def _begin_batch(self) -> None:
        self._close_step()

    def _next_step(self) -> None:
        """Another step of the same execution begins."""
        self.deck.step()
        self._begin += 1

    def _dispatch(self, *arguments: Any) -> Any:
        """In the place of ``model.train_function``."""
        model, step, plain = self._attached, self._step, self._plain
        if not self._in_fit:
            self._begin_batch()
        ahead = getattr(model, "steps_per_execution", 1) or 1
        first = self.deck.steps + 1
        looks = self._in_fit and self._loop is not None and self._loop.wants_batches
        if looks and step is not None and not self._gave_up:
            step.see_batch = self._loop.see_batch
            arguments = step.peek(ahead, *arguments)
        if self._gave_up or step is None or not (step.works and any(self.deck._native.due(first + i) for i in range(ahead))
                                                 or step.is_needed(first, ahead)):
            result = plain(*arguments)
        else:
            result = step.run(ahead, *arguments, next_step=self._next_step)
        if not self._in_fit and not self._gave_up:
            self._trained, self._open = first, True
        return result


def tape(model: Any, deck: Deck, *, optimizer: Any = None, prefix: str = "", persistent: bool = False,
         watch_accessed_variables: bool = True) -> Any:
    """A ``tf.GradientTape`` that records what it sees of a Keras model into a deck.

    >>> deck = tapedeck.Deck("runs/a")
    >>> deck.track("*.error", every=50, form="histogram", to="tensorboard")
    >>> for x, y in data:
    ...     with tapedeck.tape(model, deck) as tape:
    ...         loss = loss_fn(y, model(x, training=True))
    ...     gradients = tape.gradient(loss, model.trainable_variables)
    ...     optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    ...     deck.step()

    Signals are those of `Recorder`: ``LAYER.output``, ``LAYER.error``, ``LAYER.kernel``, ``LAYER.kernel.gradient``,
    ``LAYER.kernel.update``, and ``loss`` when the tape's target is a number. Gradients that are returned are those of a plain
    tape. It works in a ``tf.function`` too, with one pass of the tape in a step; one that XLA compiles
    (``jit_compile=True``) can call nobody back: of it parameters and updates alone are recorded, which is reported.

    Args:
        optimizer: whose ``scale_loss`` is called within the tape: errors and gradients are freed of its scale.
        prefix: of all names, for several models in one deck: ``critic`` makes ``critic.dense.output``.
        persistent, watch_accessed_variables: of ``tf.GradientTape``.
    """
    if BACKEND != "tensorflow":
        other = "tapedeck.watch(model)" if BACKEND == "torch" else "tapedeck.Recorder"
        raise ValueError(f"tapedeck.tape records loops of TensorFlow; Keras runs on {BACKEND} here: use {other}")
    from ._tape import Tape, TapeSignals, tf

    with tf.init_scope():
        signals = TapeSignals.of(deck, model, prefix)
    return Tape(signals, optimizer, persistent=persistent, watch_accessed_variables=watch_accessed_variables)


def _release(model: Any, new: Recorder) -> None:
    """Finishes the recorder that this model has already."""
    owner = getattr(model.train_function, "__self__", None)
    if isinstance(owner, Recorder) and owner is not new:
        warnings.warn(f"tapedeck: {owner.folder} recorded this model until now; it is finished", stacklevel=3)
        try:
            owner._end("interrupted" if owner._in_fit else None)
        except Exception as error:
            warnings.warn(f"tapedeck: {owner.folder}: {error}", stacklevel=3)
