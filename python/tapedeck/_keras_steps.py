"""How a step that is due is trained and recorded, on each of Keras's backends.

The step is Keras's own `train_step`, traced once more with layers that report their outputs and with a gradient
that is also taken with respect to these; once for each set of attention's signals that are wanted together. A trace
that fails has changed nothing: it is tried again without attention, then without the layers' outputs and errors, and
then the user's own function runs. Each is reported.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy

from ._keras_attention import attending
from ._keras_head import computes_own_loss
from ._keras_signals import Calls, Scaling, Signals, observing


Wanted = tuple[tuple[str, tuple[str, ...]], ...]  # of attention: words by layer


class Step:
    """Trains one step and records it."""

    def __init__(self, signals: Signals, model: Any) -> None:
        self.signals = signals
        self.model = model
        self.layers: dict[str, Any] = signals.layers  # that report their outputs
        self.works = self.attends = True
        self.recordings: dict[Any, Callable] = {}  # traced, by the attention that they tell of
        self.keeper: Any = None  # of the last batches, for a capsule
        self.verifier: Any = None  # of steps that are executed twice
        self.see_batch: Callable[[Any], None] = lambda data: None  # gets the data of the steps that come next
        self.calls = Calls(model if computes_own_loss(model) else None)  # of layers, in a recorded step

    def peek(self, ahead: int, *arguments: Any) -> tuple[Any, ...]:
        """Shows the next batches, and returns the arguments that the step is to be called with: the same batches."""
        return arguments

    def is_needed(self, first: int, count: int) -> bool:
        """For one of these steps, although none is due."""
        return self.keeps_every_step or (self.verifier is not None and any(self.verifier.is_due(first + i) for i in range(count)))

    def rehearse(self, data: Any, train: Callable[[Any], Any]) -> None:
        if self.verifier is not None and self.verifier.is_due(self.signals.deck.steps + 1):
            self.verifier.rehearse(data, train)

    @property
    def keeps_every_step(self) -> bool:
        return self.keeper is not None and not self.keeper.stopped

    def value_of(self, variable: Any) -> Any:
        return keras.ops.convert_to_numpy(variable.value)

    def declare_again(self) -> None:
        """Layers that were not built have their parameters by now."""
        self.signals.declare()
        self.signals.complete = True
        self.signals.note_network()
        self.layers = self.signals.layers

    def wanted_attention(self) -> Wanted:
        return tuple(self.signals.wanted_attention().items()) if self.attends else ()

    def attending(self, wanted: Wanted, put: Callable[[str, Any], Any]) -> contextlib.AbstractContextManager:
        """Within it `put` gets what is wanted of attention, by signal."""
        def told(label: str, word: str, value: Any) -> None:
            self.signals.declare_attention(label.partition("@")[0], label)
            put(f"{label}.{word}", value)

        return attending(self.signals.attention, dict(wanted), told)

    def expect(self, wanted: Wanted, found: Any) -> None:
        for name, words in wanted:
            for word in words:
                if f"{name}.{word}" not in found:
                    self.signals.cannot(f"{name}.{word}", "the step did not call the layer where its scores can be seen")

    def retreat(self, error: Exception, wanted: Wanted) -> None:
        """The step could not be recorded: the next attempt asks for less."""
        reason = f"{type(error).__name__}: {error}"
        self.recordings.clear()
        if wanted:
            self.signals.cannot(", ".join(f"{name}.{word}" for name, words in wanted for word in words), reason)
            self.attends = False
        elif self.layers:
            self.signals.cannot("*.output, *.error", reason)
            self.layers = {}
        else:
            self.signals.cannot("*.gradient", reason)
            self.works = False

    def put(self, captured: dict[str, Any], before: dict[str, numpy.ndarray]) -> None:
        if self.signals.variables and not any(name.endswith(".gradient") for name in captured):
            self.signals.cannot("*.gradient", f"train_step does not call {self.differentiates_with}")
        self.signals.put(captured)
        self.signals.put_parameters(before, self.value_of)

    differentiates_with = ""


class TensorFlowStep(Step):
    differentiates_with = "tf.GradientTape.gradient"

    def __init__(self, signals: Signals, model: Any) -> None:
        super().__init__(signals, model)
        import tensorflow

        self.tf = tensorflow
        self.strategy = model.distribute_strategy
        if self.strategy.num_replicas_in_sync > 1:
            raise NotImplementedError("the model runs on several replicas of a distribution strategy")
        self.plain = self._function(self.model.train_step)

    def _function(self, step: Callable) -> Callable:
        """Traced as Keras does: a batch that comes out of an iterator has no fixed size, and the arithmetic of
        some layers depends on it."""
        tf = self.tf
        compiled = not self.model.run_eagerly

        @tf.autograph.experimental.do_not_convert
        def on_data(data: Any) -> Any:
            return self.strategy.run(step, args=(data,))

        if compiled:
            on_data = tf.function(on_data, reduce_retracing=True, jit_compile=self.model.jit_compile)
        convert = self.model._autoconvert_optionals(on_data)

        @tf.autograph.experimental.do_not_convert
        def on_optional(optional: Any) -> Any:
            return convert(optional.get_value())

        traced = tf.function(on_optional, reduce_retracing=True) if compiled else on_optional

        def run(data: Any, trace: bool = False) -> Any:
            is_optional = isinstance(data, tf.experimental.Optional)
            if trace:
                return compiled and (traced if is_optional else on_data).get_concrete_function(data)
            return traced(data) if is_optional else convert(data)

        return run

    def _train_and_tell(self, wanted: Wanted, data: Any) -> Any:
        tf, capture = self.tf, Capture(self.tf, self.signals, self.model.optimizer)
        plain = tf.GradientTape.gradient

        def gradient(tape: Any, target: Any, sources: Any, *arguments: Any, **options: Any) -> Any:
            if not capture.asks_for_parameters(sources):  # the inner one of a gradient penalty
                return plain(tape, target, sources, *arguments, **options)
            return capture.gradient(plain, tape, target, sources, *arguments, **options)

        with capture.scaling, observing(self.layers, capture.observe, self.calls), self.attending(wanted, capture.tell):
            tf.GradientTape.gradient = gradient
            try:
                logs = self.model.train_step(data)
            finally:
                tf.GradientTape.gradient = plain
        return logs, capture.values

    def run(self, ahead: int, iterator: Any, next_step: Callable) -> Any:
        logs = None
        for i in range(ahead):
            data = self._next(iterator)
            if data is None:
                if logs is None:
                    raise StopIteration
                break
            if i:
                next_step()
            self.rehearse(data, self.plain)
            if self.keeps_every_step:
                self.keeper.before_batch(data.get_value() if isinstance(data, self.tf.experimental.Optional) else data)
            logs = self._one(data)
            if self.keeps_every_step:
                self.keeper.after_batch(logs)
        return logs

    def peek(self, ahead: int, iterator: Any) -> tuple[Any, ...]:
        """The batches go on in an iterator of the same type: the train function is not traced again."""
        spec = getattr(iterator, "element_spec", None)
        if not hasattr(iterator, "get_next_as_optional") or not all(type(each) is self.tf.TensorSpec for each in self.tf.nest.flatten(spec)):
            return (iterator,)
        found: list[Any] = []
        while len(found) < ahead and (optional := iterator.get_next_as_optional()).has_value():
            found.append(optional.get_value())
            self.see_batch(found[-1])
        return (iter(self.tf.data.Dataset.from_generator(lambda: iter(found), output_signature=spec)),) if found else (iterator,)

    def _next(self, iterator: Any) -> Any:
        if hasattr(iterator, "get_next_as_optional"):
            optional = iterator.get_next_as_optional()
            return optional if optional.has_value() else None
        return next(iterator, None)

    def _one(self, data: Any) -> Any:
        while self.works and self.signals.deck.due():
            if not self.signals.complete:
                logs = self.plain(data)
                self.declare_again()
                return logs
            wanted = self.wanted_attention()
            if wanted not in self.recordings:
                self.recordings[wanted] = self._function(partial(self._train_and_tell, wanted))
            recording = self.recordings[wanted]
            try:
                recording(data, trace=True)
            except Exception as error:
                self.retreat(error, wanted)
                continue
            before = self.signals.values_before(self.value_of)
            logs, captured = recording(data)
            self.expect(wanted, captured)
            self.put(captured, before)
            return logs
        return self.plain(data)


class Capture:
    """What a pass of a GradientTape brings: outputs that layers report, and gradients with respect to these as well."""

    def __init__(self, tf: Any, signals: Signals, optimizer: Any) -> None:
        self.tf, self.signals = tf, signals
        self.graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self.outputs: dict[str, Any] = {}
        self.values: dict[str, Any] = {}  # by signal
        self.scaling = Scaling(optimizer)

    def tell(self, name: str, value: Any) -> bool:
        """Whether it can be told."""
        within = self.graph is not None and value.graph is not self.graph
        if within:
            self.signals.cannot(name, "the layer is called within a loop or a condition of the graph")
        else:
            self.values[name] = value
        return not within

    def observe(self, name: str, value: Any) -> Any:
        if self.tell(f"{name}.output", value):
            self.outputs[name] = value
        return value

    def _names(self) -> dict[int, str]:
        """Of parameters, by Keras's variable and by TensorFlow's."""
        variables = self.signals.variables.items()
        return {id(v): name for name, v in variables} | {id(v.value): name for name, v in variables}

    def asks_for_parameters(self, sources: Any) -> bool:
        names = self._names()
        return any(id(source) in names for source in self.tf.nest.flatten(sources))

    def gradient(self, plain: Callable, tape: Any, target: Any, sources: Any, *arguments: Any, **options: Any) -> Any:
        """The tape's gradient, taken with respect to the outputs too."""
        flat = self.tf.nest.flatten(sources)
        missing = [name for name in self.outputs if f"{name}.error" not in self.values]
        found = plain(tape, target, flat + [self.outputs[name] for name in missing], *arguments, **options)
        names = self._names()
        signals = [names[id(source)] + ".gradient" if id(source) in names else None for source in flat]
        for signal, value in zip(signals + [f"{name}.error" for name in missing], found):
            if signal is not None and value is not None:
                self._keep(signal, value, target)
        if "loss" not in self.values and getattr(target, "shape", None) == ():
            self.values["loss"] = self.scaling.loss if self.scaling.scaled is target else target
        return self.tf.nest.pack_sequence_as(sources, found[: len(flat)])

    def _keep(self, signal: str, value: Any, target: Any) -> None:
        try:
            value = self.tf.convert_to_tensor(value)  # an embedding's gradient is a few rows
            self.values[signal] = self.scaling.unscaled(value) if self.scaling.scaled is target else value
        except Exception as error:
            self.signals.cannot(signal, error)


class JaxStep(Step):
    differentiates_with = "jax.value_and_grad"

    def __init__(self, signals: Signals, model: Any) -> None:
        super().__init__(signals, model)
        import jax

        self.jax = jax
        self.compiled = not model.run_eagerly and model.jit_compile
        self.plain = jax.jit(model.train_step) if self.compiled else model.train_step
        self.values: dict[int, Any] = {}
        self.variables: list[Any] | None = None  # looking at them has the model take its state back

        @jax.custom_vjp
        def tap(value: Any, tapped: Any) -> Any:
            return value

        tap.defvjp(lambda value, tapped: (value, None), lambda _, error: (error, error))
        self.tap = tap

    def _recording(self, wanted: Wanted) -> Callable:
        if wanted not in self.recordings:
            tell = partial(self._train_and_tell, wanted)
            self.recordings[wanted] = self.jax.jit(tell) if self.compiled else tell
        return self.recordings[wanted]

    def value_of(self, variable: Any) -> Any:
        return numpy.asarray(self.values[id(variable)])

    def _train_and_tell(self, wanted: Wanted, state: Any, data: Any) -> Any:
        """The errors are the gradients with respect to what is tapped: outputs pass a function whose
        gradient goes both ways."""
        jax = self.jax
        captured: dict[str, Any] = {}
        plain = jax.value_and_grad

        def value_and_grad(function: Callable, argnums: int = 0, has_aux: bool = False, **options: Any) -> Callable:
            def differentiated(first: Any, *rest: Any, **more: Any) -> Any:
                shapes: dict[str, Any] = {}

                def keep_shape(name: str, value: Any) -> Any:
                    shapes[name] = jax.ShapeDtypeStruct(value.shape, value.dtype)
                    return value

                with observing(self.layers, keep_shape, self.calls):
                    jax.eval_shape(lambda a: function(a, *rest, **more), first)
                taps = {name: jax.numpy.zeros(s.shape, s.dtype) for name, s in shapes.items()}

                def tapped(both: Any, *rest: Any, **more: Any) -> Any:
                    outputs: dict[str, Any] = {}
                    attention: dict[str, Any] = {}

                    def observe(name: str, value: Any) -> Any:
                        outputs[name] = value
                        return self.tap(value, both[1][name]) if name in both[1] else value

                    with observing(self.layers, observe), self.attending(wanted, attention.__setitem__), \
                            Scaling(self.model.optimizer) as scaling:
                        result = function(both[0], *rest, **more)
                    value, aux = result if has_aux else (result, None)
                    scaled = scaling.scaled is value
                    return value, (aux, outputs, attention, scaling.loss if scaled else value, scaling.scale if scaled else None)

                result = plain(tapped, has_aux=True, **options)((first, taps), *rest, **more)
                (value, (aux, outputs, attention, loss, scale)), (gradients, errors) = result
                scaling = Scaling(None)
                scaling.scale = scale
                captured["loss"] = loss
                captured.update(attention)
                for name, output in outputs.items():
                    captured[f"{name}.output"] = output
                    captured[f"{name}.error"] = scaling.unscaled(errors[name])
                captured["gradients"] = jax.tree_util.tree_map(scaling.unscaled, gradients)
                return ((value, aux) if has_aux else value), gradients

            return differentiated if argnums == 0 else plain(function, argnums=argnums, has_aux=has_aux, **options)

        jax.value_and_grad = value_and_grad
        try:
            logs, state = self.model.train_step(state, data)
        finally:
            jax.value_and_grad = plain
        return logs, state, captured

    def _set_values(self, state: Any) -> None:
        self.values = {id(variable): value for variable, value in zip(self.variables, state[0])}
        if len(state) > 2 and self.model.optimizer is not None:
            self.values |= {id(variable): value for variable, value in zip(self.model.optimizer.variables, state[2])}

    def peek(self, ahead: int, state: Any, iterator: Any) -> tuple[Any, ...]:
        data = next(iterator)
        self.see_batch(data)
        return state, itertools.chain((data,), iterator)

    def run(self, ahead: int, state: Any, iterator: Any, next_step: Callable) -> Any:
        model = self.model
        synced = model._jax_state_synced
        if self.variables is None:
            self.variables = list(model.trainable_variables)
        logs = None
        try:
            for i in range(ahead):
                try:
                    data = next(iterator)
                except StopIteration:
                    if logs is None:
                        raise
                    break
                if i:
                    next_step()
                if self.verifier is not None and self.verifier.is_due(self.signals.deck.steps + 1):
                    self.verifier.compare(self.plain(state, data), self.plain(state, data))
                logs, state = self._one(state, data)
        finally:
            model._jax_state_synced = synced  # looking at the variables, and tracing, says otherwise
        return logs, state

    def _one(self, state: Any, data: Any) -> Any:
        """The state is passed and returned: a recording that fails is simply another attempt."""
        while self.works and self.signals.deck.due():
            if not self.signals.complete:
                self.declare_again()
            self._set_values(state)
            before = self.signals.values_before(self.value_of)
            wanted = self.wanted_attention()
            try:
                logs, after, captured = self._recording(wanted)(state, data)
            except Exception as error:
                self.retreat(error, wanted)
                continue
            self.expect(wanted, captured)
            self._set_values(after)
            gradients = captured.pop("gradients", [])
            names = {id(variable): name for name, variable in self.signals.variables.items()}
            for variable, gradient in zip(self.variables, gradients):
                if id(variable) in names:
                    captured[f"{names[id(variable)]}.gradient"] = gradient
            self.put(captured, before)
            return logs, after
        return self.plain(state, data)


class TorchStep(Step):
    differentiates_with = "backward"

    def peek(self, ahead: int, data: Any) -> tuple[Any, ...]:
        self.see_batch(data[0])
        return (data,)

    def run(self, ahead: int, data: Any, next_step: Callable) -> Any:
        self.rehearse(data, lambda batch: self.model.train_step(batch[0]))
        if not self.keeps_every_step:
            return self._one(data)
        self.keeper.before_batch(data[0])
        logs = self._one(data)
        self.keeper.after_batch(logs)
        return logs

    def _one(self, data: Any) -> Any:
        model, signals = self.model, self.signals
        if not signals.complete:
            logs = model.train_step(data[0])
            self.declare_again()
            return logs
        captured: dict[str, Any] = {}

        def keep(name: str, value: Any) -> None:
            try:
                captured[name] = scaling.unscaled(value)
            except Exception as error:
                signals.cannot(name, error)

        def observe(name: str, value: Any) -> Any:
            signals.record(f"{name}.output", value.detach())
            if value.requires_grad:
                value.register_hook(lambda error: keep(f"{name}.error", error))
            return value

        wanted = self.wanted_attention()
        told: set[str] = set()

        def tell(name: str, value: Any) -> None:
            told.add(name)
            signals.record(name, value.detach())

        compute = model._compute_loss

        def compute_loss(*arguments: Any, **options: Any) -> Any:
            captured["loss"] = loss = compute(*arguments, **options)
            return loss

        before = signals.values_before(self.value_of)
        object.__setattr__(model, "_compute_loss", compute_loss)
        try:
            with observing(self.layers, observe, self.calls), self.attending(wanted, tell), Scaling(model.optimizer) as scaling:
                logs = model.train_step(data[0])
        finally:
            object.__delattr__(model, "_compute_loss")
        self.expect(wanted, told)
        for name, variable in signals.variables.items():
            if variable.value.grad is not None:
                keep(f"{name}.gradient", variable.value.grad)
        self.put(captured, before)
        return logs


STEPS = {"tensorflow": TensorFlowStep, "jax": JaxStep, "torch": TorchStep}
