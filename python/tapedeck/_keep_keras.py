"""What a step of a Keras training is made of, so that it can be executed again, and its execution.

A step is its batch, and the state of the metrics before it: what Keras reports as the loss is a mean over the epoch so far.
Random generators of Keras are variables of the model, so its state has theirs.
"""

from __future__ import annotations

import os
from typing import Any

import keras
import numpy

from ._capsule import Array, CapsuleError, Reader, Writer
from ._keep import Keeper
from ._keras_signals import BACKEND
from ._origin import Origin, Replay


def to_array(value: Any) -> Array:
    data = numpy.array(keras.ops.convert_to_numpy(value))
    return Array(data.view(numpy.uint16), "bfloat16") if data.dtype.name == "bfloat16" else Array(data)


def _mapped(value: Any, change: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return type(value)([_mapped(each, change) for each in value])
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    return change(value)


def _variables(model: Any) -> dict[str, Any]:
    """All that a step changes, but for the metrics. Names have numbers: those of Keras count the models of a process."""
    metrics = {id(variable) for variable in model.metrics_variables}
    kept = [variable for variable in model.variables if id(variable) not in metrics]
    found = {f"{i}.{variable.name}": variable for i, variable in enumerate(kept)}
    known = {id(variable) for variable in kept}
    rest = [variable for variable in model.optimizer.variables if id(variable) not in known]
    return found | {f"optimizer.{i}": variable for i, variable in enumerate(rest)}


class Step:
    __slots__ = ("number", "data", "metrics", "logs", "random")

    def __init__(self) -> None:
        self.number = 0
        self.data: Any = None
        self.metrics: list[Array] = []  # before it
        self.logs: dict[str, float] = {}
        self.random: Any = None  # states of PyTorch's generators, which Keras's dropout uses there

    def __bool__(self) -> bool:
        return self.data is not None

    def loss(self) -> float:
        return self.logs.get("loss", 0.0)

    def describe(self, writer: Writer) -> dict[str, Any]:
        name = f"{self.number:06}"
        return {"step": self.number, "data": writer.encode(self.data, f"{name}.data", as_files=True),
                "metrics": writer.encode(self.metrics, f"{name}.metrics", as_files=True),
                "random": writer.encode(self.random, f"{name}.random", as_files=True),
                "logs": writer.encode(self.logs, name)}


class KerasKeeper(Keeper):
    framework = f"keras {keras.__version__}"

    def __init__(self, deck: Any, model: Any, size: int) -> None:
        super().__init__(deck, size)
        self.model = model

    def new_step(self) -> Step:
        return Step()

    def copy_state(self) -> dict[str, Array]:
        if self.model.optimizer is not None and not self.model.optimizer.built:  # before the first step
            self.model.optimizer.build(self.model.trainable_variables)
        return {name: to_array(variable) for name, variable in _variables(self.model).items()}

    def before_batch(self, data: Any) -> None:
        if self.stopped or not self.model.built:  # the first batch builds a model without inputs
            return
        try:
            self.open_window()
            self.step.metrics = [to_array(variable) for variable in self.model.metrics_variables]
            if BACKEND == "torch":
                from . import _random

                self.step.random = _random.as_arrays(_random.states())
            self.step.data = _mapped(data, to_array)
        except Exception as error:
            self.stop(f"the batch or the model's state cannot be kept: {error}")

    def after_batch(self, logs: Any) -> None:
        if self.step:
            self.step.logs = _numbers(logs)

    def describe(self, writer: Writer, state: dict[str, Array], steps: list[Step]) -> dict[str, Any]:
        return {"model": writer.encode(state, "model"), "steps": [step.describe(writer) for step in steps]}


def _numbers(logs: Any) -> dict[str, float]:
    return {name: float(keras.ops.convert_to_numpy(value)) for name, value in logs.items()
            if getattr(value, "shape", ()) == ()}


# ---- executing ----------------------------------------------------------------------------------


def replay(path: str | os.PathLike[str], model: Any, *, folder: str | os.PathLike[str] | None, form: str, to: str) -> Replay:
    """`tapedeck.replay` of a capsule that `Recorder` wrote."""
    from ._keras import Recorder

    reader = Reader(path)
    state, steps = _load(reader, model)
    for name, variable in _variables(model).items():
        variable.assign(_value(state[name]))
    recorder = Recorder(os.path.join(reader.path, "replay") if folder is None else folder, every=1, log="all", form=form, to=to)
    recorder.attach(model)
    deck = recorder.deck
    found = Replay(trigger=str(reader.about.get("trigger", "")), folder=deck.folder)
    deck.steps = steps[0]["step"] - 1
    try:
        for step in steps:
            for variable, value in zip(model.metrics_variables, step["metrics"]):
                variable.assign(_value(value))
            if BACKEND == "torch":
                from . import _random

                _random.restore(step["random"])
            logs = model.train_function(_feed(_mapped_arrays(step["data"])))
            now, then = _numbers(logs), step["logs"]
            if "loss" in then:
                same = then["loss"] == now["loss"] or then["loss"] != then["loss"] and now["loss"] != now["loss"]
                found.add(step["step"], then["loss"], now["loss"], same)
            recorder._trained, recorder._open = step["step"], True
            recorder._close_step()
    finally:
        layers = list(recorder._signals.layers)
        recorder.finish()
    found.origin = _origin(found.folder, layers)
    return found


def _load(reader: Reader, model: Any) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    if not str(reader.about.get("framework", "")).startswith("keras "):
        raise CapsuleError(f"{reader.path} is of {reader.about.get('framework')}, not of Keras")
    if not model.built or model.optimizer is None:
        raise CapsuleError("the model has to be built and compiled, as for the training")
    model.optimizer.build(model.trainable_variables)
    state, own = reader.decode(reader.about.get("model")), _variables(model)
    if not isinstance(state, dict) or sorted(state) != sorted(own):
        other = sorted(set(own) ^ set(state))[:1] if isinstance(state, dict) else []
        raise CapsuleError(f"{reader.path} is of another model: {other[0] if other else 'it has no variables'} is only in one of them")
    for name, variable in own.items():
        if state[name].data.shape != tuple(variable.shape):
            raise CapsuleError(f"{reader.path} is of another model: {name} is {state[name].data.shape} there")
    try:
        steps = [{"step": int(step["step"]), **{key: reader.decode(step[key]) for key in ("data", "metrics", "logs", "random")}}
                 for step in reader.about["steps"]]
    except (KeyError, TypeError, ValueError) as error:
        raise reader.damaged(repr(error)) from None
    if not steps:
        raise reader.damaged("there are no steps")
    return state, steps


def _value(array: Array) -> Any:
    if array.dtype == "bfloat16":
        import ml_dtypes

        return array.data.view(ml_dtypes.bfloat16)
    return array.data


def _mapped_arrays(value: Any) -> Any:
    if isinstance(value, Array):
        return _value(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_mapped_arrays(each) for each in value])
    return {key: _mapped_arrays(each) for key, each in value.items()} if isinstance(value, dict) else value


def _feed(data: Any) -> Any:
    """A batch as ``fit`` hands it to the model's train function."""
    if BACKEND == "torch":
        return [_mapped(data, keras.ops.convert_to_tensor)]
    import tensorflow as tf

    # Of a batch that comes out of an iterator the size is not known while the step is traced.
    spec = tf.nest.map_structure(lambda each: tf.TensorSpec((None, *each.shape[1:]), each.dtype), data)
    return iter(tf.data.Dataset.from_generator(lambda: iter([data]), output_signature=spec))


def _origin(folder: str, layers: list[str]) -> Origin | None:
    """The first layer, in the order of the model, whose output is not finite in the first step that has one."""
    from .run import Run

    run = Run(folder)
    bad: list[tuple[int, int, str]] = []
    for order, layer in enumerate(layers):
        signal = run.get(f"{layer}.output")
        if signal is not None and "stats" in signal.forms:
            stats = signal.stats
            found = stats.index[(stats["nan"] + stats["inf"]) > 0]
            bad += [(int(found[0]), order, layer)] if len(found) else []
    if not bad:
        return None
    step, _, layer = min(bad)
    return Origin(step, layer, "output")
