"""Keras 3 on its three backends: a callback that records inside of ``fit``.

How: ``model.train_function`` is exchanged for one that asks the deck. A step that records nothing runs the user's
own function, compiled as it was. A step that is due runs another, traced once, in which layers tell of their
outputs and the gradient is also taken with respect to these.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Unpack

import keras
import numpy

from ._options import DeckOptions, TrackOptions
from .deck import Deck

_backend = keras.backend.backend()


def _leaves(model: Any) -> dict[str, Any]:
    """The layers whose outputs are recorded, by name: those without layers inside, and those that call theirs
    in a loop or a fused way (recurrent, attention)."""
    whole = (keras.layers.RNN, keras.layers.Bidirectional, keras.layers.MultiHeadAttention, keras.layers.TimeDistributed)
    found: list[Any] = []

    def visit(layer: Any) -> None:
        parts = [] if isinstance(layer, whole) else list(getattr(layer, "_layers", []))
        for part in parts:
            visit(part)
        if not parts and layer is not model and not isinstance(layer, keras.layers.InputLayer):
            if not any(layer is other for other in found):
                found.append(layer)

    visit(model)
    names = [layer.name for layer in found]
    return {
        layer.name if names.count(layer.name) == 1 else layer.path.replace("/", "."): layer for layer in found
    }


class Recorder(keras.callbacks.Callback):
    """A callback for ``fit`` that records what happens inside the model.

    >>> recorder = tapedeck.Recorder("runs/b", track=[dict(what="*.error", every=50, form="histogram")])
    >>> model.fit(x, y, validation_data=(xv, yv), callbacks=[recorder])
    >>> tapedeck.Run(recorder.folder)["loss"].to_pandas()

    Signals: ``LAYER.output``, ``LAYER.error``, ``LAYER.kernel``, ``LAYER.kernel.gradient``, ``LAYER.kernel.update``; ``loss`` of every
    step that is due, and at the end of an epoch its metrics, validation and learning rate. Weights after
    training are those of training without it.

    Outside of ``fit``, ``Recorder(…).attach(model)`` records what ``train_on_batch`` does, until `finish`.

    Args:
        folder: where the run is written.
        track: what is recorded: a list of `Deck.track`'s arguments. By default every layer's outputs, errors,
            weights, gradients and updates as histograms every 100 steps.
        every, log_freq, form, to: of that default.
        deck: a deck that there is already; it is not finished at the end of ``fit``.
        options: of `Deck`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = "runs/run",
        track: Iterable[TrackOptions] | TrackOptions | None = None,
        *,
        every: int | str = 100,
        log_freq: int = 0,
        form: str = "histogram",
        to: str | None = None,
        deck: Deck | None = None,
        **options: Unpack[DeckOptions],
    ) -> None:
        super().__init__()
        self._own = deck is None
        self._arguments = (os.fspath(folder), options)
        self._tracks = [track] if isinstance(track, dict) else track
        self._default = dict(what="*.*", every=log_freq or every, form=form, to=to or _sinks(form))
        self.deck = deck
        self._attached: Any = None
        self._plain: Callable | None = None
        self._open = False  # a step was trained and is not closed
        self._in_fit = False
        self._begin = 0
        self._logged: set[str] = set()  # metrics of which this epoch has steps' own values

    @property
    def folder(self) -> str:
        """The folder that was created; known once training has begun."""
        if self.deck is None:
            raise ValueError("the run's folder is created when training begins")
        return self.deck.folder

    # ---- Keras calls ----------------------------------------------------------------------------

    def on_train_begin(self, logs: Any = None) -> None:
        self._in_fit = True
        self.attach(self.model)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.deck.epoch = epoch + 1

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._close_step()
        self._begin = batch
        batches = self.params.get("steps")
        if batches:
            self.deck.begin(last=batch + 1 >= batches)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        batches = self.params.get("steps")
        last = min(batch, batches - 1) if batches else batch
        self._trained = self.deck.steps + max(1, last - self._begin + 1)
        self._open = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        values = {name: float(value) for name, value in (logs or {}).items()}
        rate = getattr(self.model.optimizer, "learning_rate", None)
        if rate is not None and "learning_rate" not in values:
            values["learning_rate"] = float(keras.ops.convert_to_numpy(rate))
        for name, value in values.items():
            if name not in self._logged:  # a step's own value stays its own
                self.deck._native.scalar(name, value)
            self.deck._native.scalar_of_epoch(name, value)
        self._logged.clear()
        self._close_step(last=True)
        self.deck.epoch = epoch + 2

    def on_train_end(self, logs: Any = None) -> None:
        self._in_fit = False
        self._close_step()
        self._detach()
        if self._own:
            self.finish()

    # ---- the deck -------------------------------------------------------------------------------

    def attach(self, model: Any) -> "Recorder":
        """Begins to record this model: its ``fit``, or ``train_on_batch``."""
        if self.deck is None or (self._own and self.deck._finished):
            folder, options = self._arguments
            self.deck = Deck(folder, metrics=0, **options)
            self.deck._native.layout = keras.config.image_data_format()
            self._declare(model)
            for track in self._tracks if self._tracks is not None else [self._default]:
                self.deck.track(**{"what": track} if isinstance(track, str) else track)
            self.deck._tracked = True  # an empty list is a list too
            self.deck._native.track("*", every_epochs=1, metrics=True, to="csv,tensorboard")
            self.deck._prepare()
        else:
            self._declare(model)
        if self._attached is None:
            model.make_train_function()
            self._attached = model
            self._plain = model.train_function
            self._step = _STEPS[_backend](self, model)
            model.train_function = self._dispatch
        return self

    def finish(self) -> None:
        """Ends the recording; ``fit`` does it at its end."""
        self._detach()
        if self.deck is not None:
            self._close_step()
            self.deck.finish()

    def _detach(self) -> None:
        if self._attached is not None:
            if self._attached.train_function == self._dispatch:
                self._attached.train_function = self._plain
            self._attached = None

    def _declare(self, model: Any) -> None:
        """Says what the signals are."""
        native, deck = self.deck._native, self.deck
        deck.note("framework", f"keras {keras.__version__} on {_backend}")
        deck.note("parameters", model.count_params() if model.built else "not known yet")
        self.layers = _leaves(model)
        self._complete = all(layer.built for layer in self.layers.values())
        self.variables: dict[str, Any] = {}
        for order, (name, layer) in enumerate(self.layers.items(), 1):
            for kind in ("output", "error"):
                native.signal(f"{name}.{kind}", kind=kind, layer=name, order=order, batched=True)
            for variable in layer.trainable_weights:
                parameter = variable.name
                full = f"{name}.{parameter}"
                if full in self.variables:  # the cells of a bidirectional layer
                    parameter = ".".join(variable.path.split("/")[-3:])
                    full = f"{name}.{parameter}"
                self.variables[full] = variable
                for suffix, kind in (("", "parameter"), (".gradient", "gradient"), (".update", "update")):
                    native.signal(full + suffix, kind=kind, layer=name, parameter=parameter, order=order)
        frozen = [layer.name for layer in model.layers if not layer.trainable]
        if frozen:
            deck.note("frozen_layers", ",".join(frozen))
        if model.optimizer is not None:
            deck.note("optimizer", f"{type(model.optimizer).__name__} {model.optimizer.get_config()}")

    def build(self, data: Any) -> None:
        """A model that has not seen data has no variables yet: it is shown some."""
        if not self._complete:
            if not all(layer.built for layer in self.layers.values()):
                self._attached(data[0] if isinstance(data, (tuple, list)) else data)
            self._declare(self._attached)

    def _close_step(self, last: bool = False) -> None:
        if self._open:
            self._open = False
            self.deck.step(step=self._trained, last=last)

    def _dispatch(self, *arguments: Any) -> Any:
        """In the place of ``model.train_function``."""
        deck, model = self.deck, self._attached
        if not self._in_fit:
            self._close_step()
        ahead = getattr(model, "steps_per_execution", 1) or 1
        first = deck.steps + 1
        if not any(deck._native.due(first + i) for i in range(ahead)):
            result = self._plain(*arguments)
        else:
            result = self._step.run(ahead, *arguments)
        if not self._in_fit:
            self._trained, self._open = first, True
        return result

    # ---- what a step that is due brings ---------------------------------------------------------

    def remember(self) -> dict[str, numpy.ndarray]:
        """The variables whose updates are wanted, before the step."""
        wants = self.deck._native.wants
        return {
            name: numpy.array(self._step.value_of(variable))
            for name, variable in self.variables.items()
            if wants(f"{name}.update")
        }

    def put(self, captured: dict[str, Any], before: dict[str, numpy.ndarray]) -> None:
        deck = self.deck
        scale = self._loss_scale()
        for name, value in captured.items():
            if name == "loss":
                value = value.detach() if hasattr(value, "detach") else value
                deck.log(loss=value if scale == 1 else numpy.asarray(value) / scale)
                self._logged.add("loss")
            elif deck._native.wants(name):
                scaled = scale != 1 and name.endswith((".error", ".gradient"))
                deck.record(name, numpy.asarray(value) / numpy.float32(scale) if scaled else value)
        for name, variable in self.variables.items():
            if deck._native.wants(name) or name in before:
                value = self._step.value_of(variable)
                deck.record(name, value)
                if name in before:
                    deck.record(f"{name}.update", numpy.asarray(value) - before[name])

    def _loss_scale(self) -> float:
        scale = getattr(self._attached.optimizer, "dynamic_scale", None)
        return 1.0 if scale is None else float(keras.ops.convert_to_numpy(scale))


def _sinks(form: str) -> str:
    from_form = {"tensor": "npy", "rows": "csv", "long": "csv", "stats": "sqlite", "histogram": "tensorboard", "image": "png"}
    return ",".join(sorted({from_form.get(word.strip(), "csv") for word in form.split(",")}))


@contextlib.contextmanager
def _telling(layers: dict[str, Any], tell: Callable[[str, Any], Any]) -> Iterator[None]:
    """Within it layers tell of their outputs; what tell returns is put in the output's place."""
    calls: dict[str, int] = {}

    def wrap(name: str, layer: Any) -> Callable:
        call = layer.call

        def told(*arguments: Any, **options: Any) -> Any:
            output = call(*arguments, **options)
            count = calls[name] = calls.get(name, -1) + 1
            label = f"{name}@{count}" if count else name
            if isinstance(output, (list, tuple)):
                parts = [tell(f"{label}.{i}", part) if _is_float(part) else part for i, part in enumerate(output)]
                return output if hasattr(output, "_fields") else type(output)(parts)
            return tell(label, output) if _is_float(output) else output

        return told

    for name, layer in layers.items():
        object.__setattr__(layer, "call", wrap(name, layer))
    try:
        yield
    finally:
        for layer in layers.values():
            object.__delattr__(layer, "call")


def _is_float(value: Any) -> bool:
    return hasattr(value, "dtype") and keras.backend.is_float_dtype(keras.backend.standardize_dtype(value.dtype))


class _Step:
    """Trains one step and tells of it; a backend each."""

    def __init__(self, recorder: Recorder, model: Any) -> None:
        self.recorder = recorder
        self.model = model

    def value_of(self, variable: Any) -> Any:
        return keras.ops.convert_to_numpy(variable.value)


class _TensorFlow(_Step):
    def __init__(self, recorder: Recorder, model: Any) -> None:
        super().__init__(recorder, model)
        import tensorflow

        self.tf = tensorflow
        self.recording = self._function(self._train_and_tell)
        self.plain = self._function(self.model.train_step)
        if model.distribute_strategy.num_replicas_in_sync > 1:
            raise NotImplementedError("tapedeck records a model on one replica, not under a distribution strategy")

    def _function(self, step: Callable) -> Callable:
        if self.model.run_eagerly:
            return step
        return self.tf.function(
            self.tf.autograph.experimental.do_not_convert(step), reduce_retracing=True, jit_compile=self.model.jit_compile)

    def _train_and_tell(self, data: Any) -> Any:
        outputs: dict[str, Any] = {}
        captured: dict[str, Any] = {}

        def tell(name: str, value: Any) -> Any:
            outputs[name] = value
            captured[f"{name}.output"] = value
            return value

        variables = {id(v.value): name for name, v in self.recorder.variables.items()}
        plain = self.tf.GradientTape.gradient

        def gradient(tape: Any, target: Any, sources: Any, *arguments: Any, **options: Any) -> Any:
            flat = self.tf.nest.flatten(sources)
            names = [name for name in outputs if f"{name}.error" not in captured]
            found = plain(tape, target, flat + [outputs[name] for name in names], *arguments, **options)
            for source, value in zip(flat, found):
                name = variables.get(id(getattr(source, "value", source)), variables.get(id(source)))
                if name is not None and value is not None:
                    captured[f"{name}.gradient"] = self.tf.convert_to_tensor(value)
            for name, value in zip(names, found[len(flat):]):
                if value is not None:
                    captured[f"{name}.error"] = value
            if getattr(target, "shape", None) == () and "loss" not in captured:
                captured["loss"] = target
            return self.tf.nest.pack_sequence_as(sources, found[: len(flat)])

        self.tf.GradientTape.gradient = gradient
        try:
            with _telling(self.recorder.layers, tell):
                logs = self.model.train_step(data)
        finally:
            self.tf.GradientTape.gradient = plain
        return logs, captured

    def run(self, ahead: int, iterator: Any) -> Any:
        recorder, deck = self.recorder, self.recorder.deck
        logs = None
        for i in range(ahead):
            try:
                data = next(iterator)
            except StopIteration:
                if logs is None:
                    raise
                break
            if i:
                deck.step()
            if deck.due():
                recorder.build(data)
                before = recorder.remember()
                logs, captured = self.recording(data)
                recorder.put(captured, before)
            else:
                logs = self.plain(data)
            if i:
                recorder._begin += 1
        return logs


class _Jax(_Step):
    def __init__(self, recorder: Recorder, model: Any) -> None:
        super().__init__(recorder, model)
        import jax

        self.jax = jax
        compiled = not model.run_eagerly and model.jit_compile
        self.recording = jax.jit(self._train_and_tell) if compiled else self._train_and_tell
        self.plain = jax.jit(model.train_step) if compiled else model.train_step
        self.values: dict[int, Any] = {}
        self.variables: list[Any] | None = None  # looking at them has the model take its state back

        @jax.custom_vjp
        def tap(value: Any, tapped: Any) -> Any:
            return value

        tap.defvjp(lambda value, tapped: (value, None), lambda _, error: (error, error))
        self.tap = tap

    def value_of(self, variable: Any) -> Any:
        return numpy.asarray(self.values[id(variable)])

    def _train_and_tell(self, state: Any, data: Any) -> Any:
        """The errors are the gradients with respect to what is tapped: outputs pass a function whose
        gradient goes both ways."""
        jax, layers = self.jax, self.recorder.layers
        captured: dict[str, Any] = {}
        plain = jax.value_and_grad

        def value_and_grad(function: Callable, argnums: int = 0, has_aux: bool = False, **options: Any) -> Callable:
            def differentiated(first: Any, *rest: Any, **more: Any) -> Any:
                shapes: dict[str, Any] = {}

                def look(name: str, value: Any) -> Any:
                    shapes[name] = jax.ShapeDtypeStruct(value.shape, value.dtype)
                    return value

                with _telling(layers, look):
                    jax.eval_shape(lambda a: function(a, *rest, **more), first)
                taps = {name: jax.numpy.zeros(s.shape, s.dtype) for name, s in shapes.items()}

                def tapped(both: Any, *rest: Any, **more: Any) -> Any:
                    outputs: dict[str, Any] = {}

                    def tell(name: str, value: Any) -> Any:
                        outputs[name] = value
                        return self.tap(value, both[1][name]) if name in both[1] else value

                    with _telling(layers, tell):
                        result = function(both[0], *rest, **more)
                    value, aux = result if has_aux else (result, None)
                    return value, (aux, outputs)

                (value, (aux, outputs)), (gradients, errors) = plain(tapped, has_aux=True, **options)((first, taps), *rest, **more)
                captured["loss"] = value
                for name, output in outputs.items():
                    captured[f"{name}.output"] = output
                    captured[f"{name}.error"] = errors[name]
                captured["gradients"] = gradients
                return ((value, aux) if has_aux else value), gradients

            return differentiated if argnums == 0 else plain(function, argnums=argnums, has_aux=has_aux, **options)

        jax.value_and_grad = value_and_grad
        try:
            logs, state = self.model.train_step(state, data)
        finally:
            jax.value_and_grad = plain
        return logs, state, captured

    def _set_values(self, variables: list[Any], state: Any) -> None:
        self.values = {id(variable): value for variable, value in zip(variables, state[0])}

    def run(self, ahead: int, state: Any, iterator: Any) -> Any:
        recorder, deck, model = self.recorder, self.recorder.deck, self.model
        synced = model._jax_state_synced
        if self.variables is None:
            self.variables = list(model.trainable_variables)
        variables = self.variables
        logs = None
        for i in range(ahead):
            try:
                data = next(iterator)
            except StopIteration:
                if logs is None:
                    model._jax_state_synced = synced
                    raise
                break
            if i:
                deck.step()
            if deck.due():
                self._set_values(variables, state)
                before = recorder.remember()
                logs, state, captured = self.recording(state, data)
                self._set_values(variables, state)
                gradients = captured.pop("gradients", [])
                names = {id(variable): name for name, variable in recorder.variables.items()}
                for variable, gradient in zip(variables, gradients):
                    if id(variable) in names:
                        captured[f"{names[id(variable)]}.gradient"] = gradient
                recorder.put(captured, before)
            else:
                logs, state = self.plain(state, data)
            if i:
                recorder._begin += 1
        model._jax_state_synced = synced  # looking at the variables, and tracing, says otherwise
        return logs, state


class _Torch(_Step):
    def run(self, ahead: int, data: Any) -> Any:
        recorder = self.recorder
        captured: dict[str, Any] = {}
        put = recorder.deck.record

        def tell(name: str, value: Any) -> Any:
            put(f"{name}.output", value.detach())
            if value.requires_grad:
                value.register_hook(lambda error: captured.__setitem__(f"{name}.error", error))
            return value

        model = self.model
        compute = model._compute_loss

        def compute_loss(*arguments: Any, **options: Any) -> Any:
            captured["loss"] = loss = compute(*arguments, **options)
            return loss

        recorder.build(data[0])
        before = recorder.remember()
        object.__setattr__(model, "_compute_loss", compute_loss)
        try:
            with _telling(recorder.layers, tell):
                logs = model.train_step(data[0])
        finally:
            object.__delattr__(model, "_compute_loss")
        for name, variable in recorder.variables.items():
            if variable.value.grad is not None:
                captured[f"{name}.gradient"] = variable.value.grad
        recorder.put(captured, before)
        return logs


_STEPS = {"tensorflow": _TensorFlow, "jax": _Jax, "torch": _Torch}
