"""The signals of a Keras model: what they are called, and how their values get into a deck."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy

from ._keras_attention import KINDS, WORDS, reason_against
from ._keras_optimizer import moments_of, words_of
from .deck import Deck, RecordingWarning

try:
    from keras.src.backend.common.symbolic_scope import in_symbolic_scope
except ImportError:
    def in_symbolic_scope() -> bool:
        return False

BACKEND = keras.backend.backend()


def leaves(model: Any) -> dict[str, Any]:
    """The layers whose outputs are recorded, by name: those without layers inside, and those that call theirs
    in a loop or a fused way (recurrent, attention)."""
    return {name: layer for name, (layer, is_leaf) in _named(model).items() if is_leaf}


def _walk(model: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Every layer once, and the layers inside of it, which come first."""
    whole = (keras.layers.RNN, keras.layers.Bidirectional, keras.layers.MultiHeadAttention, keras.layers.TimeDistributed)
    found: list[Any] = []

    def visit(layer: Any) -> Iterator[tuple[Any, list[Any]]]:
        parts = [] if isinstance(layer, whole) else list(getattr(layer, "_layers", []))
        for part in parts:
            yield from visit(part)
        if not isinstance(layer, keras.layers.InputLayer) and not any(layer is other for other in found):
            found.append(layer)
            yield layer, parts

    return visit(model)


def _attentions(model: Any, named: dict[str, tuple[Any, bool]]) -> dict[str, Any]:
    """The layers that attend. One with layers inside has a name only here."""
    names = {id(layer): name for name, (layer, _) in named.items()}
    found = [layer for layer, _ in _walk(model) if isinstance(layer, KINDS)]
    taken = [layer.name for layer in found] + [name for layer_id, name in names.items() if layer_id not in map(id, found)]
    return {names.get(id(layer)) or (layer.name if taken.count(layer.name) == 1 else layer.path.replace("/", ".")): layer for layer in found}


def _named(model: Any) -> dict[str, tuple[Any, bool]]:
    """Every layer that has an output or parameters of its own, and whether its output is recorded."""
    found = [(layer, not parts) for layer, parts in _walk(model) if not parts or getattr(layer, "_trainable_variables", [])]
    names = [layer.name for layer, _ in found]
    return {
        layer.name if names.count(layer.name) == 1 else layer.path.replace("/", "."): (layer, is_leaf)
        for layer, is_leaf in found
    }


def _shape_of(layer: Any) -> str:
    """Of its output, without the batch; "" where it is not known before a call."""
    try:
        return str(tuple(layer.output.shape[1:]))
    except Exception:
        return ""


def _connections(model: Any) -> dict[int, list[Any]]:
    """The layers that each layer reads, by id; none for a model whose calls are not kept."""
    read: dict[int, list[Any]] = {}

    def visit(model: Any, feeds: list[list[Any]]) -> list[list[Any]]:
        """feeds: the layers behind each input; the layers behind each output."""
        model = getattr(model, "_functional", None) or model
        behind = {id(tensor): feed for tensor, feed in zip(model.inputs, feeds)}
        for depth in sorted(model._nodes_by_depth, reverse=True):
            for node in model._nodes_by_depth[depth]:
                layer = node.operation
                if not node.input_tensors:
                    continue
                sources = [each for tensor in node.input_tensors for each in behind.get(id(tensor), ())]
                if getattr(getattr(layer, "_functional", None) or layer, "_nodes_by_depth", None):
                    made = visit(layer, [behind.get(id(tensor), []) for tensor in node.input_tensors])
                else:
                    parts = [part for part, is_leaf in _named(layer).values() if is_leaf] if isinstance(layer, keras.Layer) else []
                    for part in parts:  # of a layer of layers: one after another
                        read[id(part)] = read.get(id(part), []) + [each for each in sources if each not in read.get(id(part), ())]
                        sources = [part]
                    made = [sources] * len(node.output_tensors)
                behind.update((id(tensor), feed) for tensor, feed in zip(node.output_tensors, made))
        return [behind.get(id(tensor), []) for tensor in model.outputs]

    if getattr(getattr(model, "_functional", None) or model, "_nodes_by_depth", None):
        visit(model, [[] for _ in (getattr(model, "_functional", None) or model).inputs])
    return read


class Signals:
    """What goes with a deck that records a Keras model."""

    def __init__(self, deck: Deck, model: Any, prefix: str = "") -> None:
        self.deck, self.network, self.prefix = deck, model, f"{prefix}." if prefix else ""
        self.reported: set[str] = set()  # signals that could not be recorded
        self.logged: set[str] = set()  # metrics of which this epoch has steps' own values
        self.declare()
        for other in deck._parts:
            same = sorted(set(getattr(other, "layers", ())) & set(self.layers)) if isinstance(other, Signals) else []
            if same:
                raise ValueError(f"this deck already records a model with layers of these names: {', '.join(same[:5])}; "
                                 "give prefix=, a word that names begin with")
        deck._parts.append(self)

    @classmethod
    def of(cls, deck: Deck, model: Any, prefix: str = "") -> "Signals":
        """The deck's signals of this model, declared once."""
        for part in deck._parts:
            if isinstance(part, cls) and part.network is model and part.prefix == (f"{prefix}." if prefix else ""):
                return part
        return cls(deck, model, prefix)

    def declare(self) -> None:
        """Declares signals; again when a layer was not built the first time."""
        native = self.deck._native
        named = {self.prefix + name: found for name, found in _named(self.network).items()}
        self.layers = {name: layer for name, (layer, is_leaf) in named.items() if is_leaf}
        self.attention = {self.prefix + name: layer for name, layer in _attentions(self.network, _named(self.network)).items()}
        for name in self.attention:
            self.declare_attention(name, name)
        self.complete = all(layer.built for layer, _ in named.values())
        self.variables: dict[str, Any] = {}
        for order, (name, (layer, is_leaf)) in enumerate(named.items(), 1):
            for kind in ("output", "error") if is_leaf else ():
                native.signal(f"{name}.{kind}", kind=kind, layer=name, order=order, batched=True)
            own = layer.trainable_weights if is_leaf else [v for v in layer._trainable_variables if v.trainable]
            for variable in own:
                parameter = variable.name
                full = f"{name}.{parameter}"
                if full in self.variables:  # the cells of a bidirectional layer
                    parameter = ".".join(variable.path.split("/")[-3:])
                    full = f"{name}.{parameter}"
                self.variables[full] = variable
                for suffix, kind in (("", "parameter"), (".gradient", "gradient"), (".update", "update")):
                    native.signal(full + suffix, kind=kind, layer=name, parameter=parameter, order=order)
                for word in words_of(getattr(self.network, "optimizer", None)):
                    native.signal(f"{full}.{word}", kind="derived", layer=name, parameter=parameter, order=order)

    def declare_attention(self, name: str, label: str) -> None:
        """The signals of a call of it."""
        order = list(self.layers).index(name) + 1 if name in self.layers else len(self.layers)
        for word in WORDS:  # a map is a picture of each head
            self.deck._native.signal(f"{label}.{word}", kind="derived", layer=name, order=order, batched=True, layout="channels_first")

    def wanted_attention(self) -> dict[str, tuple[str, ...]]:
        """The words that are wanted in this step, of each layer."""
        wanted = {}
        for name, layer in self.attention.items():
            words = tuple(word for word in WORDS if self.deck._native.wants(f"{name}.{word}"))
            reason = reason_against(layer) if words else ""
            if reason:
                self.cannot(", ".join(f"{name}.{word}" for word in words), reason)
            elif words:
                wanted[name] = words
        return wanted

    def note_facts(self, optimizer: Any = None) -> None:
        deck, model = self.deck, self.network
        deck.note("framework", f"keras {keras.__version__} on {BACKEND}")
        deck.note("parameters", model.count_params() if model.built else "not known yet")
        if model.built:
            self.note_network()
        frozen = [layer.name for layer in model.layers if not layer.trainable]
        if frozen:
            deck.note("frozen_layers", ",".join(frozen))
        if optimizer is not None:
            deck.note("optimizer", f"{type(optimizer).__name__} {optimizer.get_config()}")

    def note_network(self) -> None:
        """Layers and how they are connected, as the viewer shows it. What a model without a graph of layers has is a chain."""
        try:
            read = _connections(self.network)
            names = {id(layer): name for name, layer in self.layers.items()}
            made, before = [], []
            for name, layer in self.layers.items():
                sources = list(dict.fromkeys(names[id(each)] for each in read.get(id(layer), ()) if id(each) in names)) if read else before
                made.append({"name": name, "kind": type(layer).__name__, "shape": _shape_of(layer),
                             "parameters": layer.count_params() if layer.built else 0, "from": sources})
                before = [name]
            self.deck.note(self.prefix + "network", json.dumps(made))
        except Exception as error:
            self.cannot("network", error)

    # ---- values ---------------------------------------------------------------------------------

    def record(self, name: str, value: Any) -> None:
        """Records a value; one that cannot be recorded is reported."""
        try:
            self.deck.record(name, value)
        except Exception as error:
            self.cannot(name, error)

    def cannot(self, what: str, reason: Any) -> None:
        """Reports once, in the run and as a warning, what is not recorded. Training goes on."""
        if what not in self.reported:
            self.reported.add(what)
            reason = (str(reason) or repr(reason)).strip().split("\n")[0][:300]
            try:
                self.deck.note(f"not_recorded.{what}", reason)
            except Exception:  # the deck is finished
                pass
            warnings.warn(f"tapedeck: {what} is not recorded: {reason}", RecordingWarning, stacklevel=2)

    def values_before(self, value_of: Callable[[Any], Any]) -> dict[str, numpy.ndarray]:
        """Copies of the parameters whose updates are wanted."""
        wants = self.deck._native.wants
        ratio = "update_ratio" in words_of(getattr(self.network, "optimizer", None))
        return {name: numpy.array(value_of(v)) for name, v in self.variables.items()
                if wants(f"{name}.update") or (ratio and wants(f"{name}.update_ratio"))}

    def put(self, captured: dict[str, Any]) -> None:
        """Records outputs, errors and gradients, and the loss."""
        for name, value in captured.items():
            if name == "loss":
                try:
                    self.deck.log(loss=value.detach() if hasattr(value, "detach") else value)
                    self.logged.add(name)
                except Exception as error:
                    self.cannot(name, error)
            elif self.deck._native.wants(name):
                self.record(name, value)

    def put_parameters(self, before: dict[str, numpy.ndarray], value_of: Callable[[Any], Any]) -> None:
        """Records parameters, and the updates that they got since `before`."""
        wants = self.deck._native.wants
        for name, variable in self.variables.items():
            if wants(name) or name in before:
                value = value_of(variable)
                self.record(name, value)
                if name in before:
                    update = numpy.asarray(value) - before[name]
                    self.record(f"{name}.update", update)
                    self._put_ratio(name, update, value)
        self._put_moments(value_of)

    def _put_ratio(self, name: str, update: numpy.ndarray, value: Any) -> None:
        if not words_of(getattr(self.network, "optimizer", None)) or not self.deck._native.wants(f"{name}.update_ratio"):
            return
        size = numpy.linalg.norm(numpy.asarray(value, dtype="float64"))
        if size > 0:
            self.deck._native.scalar(f"{name}.update_ratio", float(numpy.linalg.norm(update.astype("float64")) / size))

    def _put_moments(self, value_of: Callable[[Any], Any]) -> None:
        optimizer = getattr(self.network, "optimizer", None)
        words = [word for word in words_of(optimizer) if word != "update_ratio"]
        for name, variable in self.variables.items():
            if any(self.deck._native.wants(f"{name}.{word}") for word in words):
                for word, moment in moments_of(optimizer, variable):
                    if self.deck._native.wants(f"{name}.{word}"):
                        self.record(f"{name}.{word}", value_of(moment))

    # ---- a part of the deck ---------------------------------------------------------------------

    def before_step(self) -> bool:
        return True

    def after_step(self) -> None:
        pass

    def finish(self) -> None:
        pass


class Calls:
    """Which layers a step calls, and, of a `model` whose layers are called by its own code, which one puts out what it does."""

    def __init__(self, model: Any = None) -> None:
        self.model = model
        self.names: set[str] = set()
        self.output: tuple[Any, tuple[int, ...]] | None = None  # the layer, and the shape without the batch
        self.made: dict[int, tuple[Any, Any]] = {}

    def put(self, layer: Any, output: Any) -> None:
        self.names.add(layer.name)
        if self.model is not None and hasattr(output, "shape"):
            self.made[id(output)] = output, layer

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        model = self.model
        if model is None or self.output is not None:
            yield
            return
        call = model.call

        def followed(*arguments: Any, **options: Any) -> Any:
            output = call(*arguments, **options)
            known = self.made.get(id(output))
            if known is not None and known[0] is output and not in_symbolic_scope():
                self.output = known[1], tuple(output.shape[1:])
            return output

        object.__setattr__(model, "call", followed)
        try:
            yield
        finally:
            object.__delattr__(model, "call")
            self.made.clear()


@contextlib.contextmanager
def observing(layers: dict[str, Any], observe: Callable[[str, Any], Any], seen: Calls | None = None) -> Iterator[None]:
    """Within it layers report their outputs; what `observe` returns replaces the output. `seen` gets to know the calls."""
    calls: dict[str, int] = {}

    def wrap(name: str, layer: Any) -> Callable:
        call = layer.call

        def observed(*arguments: Any, **options: Any) -> Any:
            output = call(*arguments, **options)
            if in_symbolic_scope():  # Keras finds out shapes, of a layer that is being built
                return output
            count = calls[name] = calls.get(name, -1) + 1
            label = f"{name}@{count}" if count else name
            result = _each(output, label, observe)
            if seen is not None:
                seen.put(layer, result)
            return result

        return observed

    for name, layer in layers.items():
        object.__setattr__(layer, "call", wrap(name, layer))
    try:
        with seen.following() if seen is not None else contextlib.nullcontext():
            yield
    finally:
        for layer in layers.values():
            object.__delattr__(layer, "call")


def _each(output: Any, label: str, observe: Callable[[str, Any], Any]) -> Any:
    """A nested output with each of its tensors replaced by what `observe` returns."""
    if isinstance(output, dict):
        return type(output)((key, _each(part, f"{label}.{key}", observe)) for key, part in output.items())
    if isinstance(output, (list, tuple)):
        parts = [_each(part, f"{label}.{i}", observe) for i, part in enumerate(output)]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)
    return observe(label, output) if _is_float(output) else output


def _is_float(value: Any) -> bool:
    return hasattr(value, "dtype") and keras.backend.is_float_dtype(keras.backend.standardize_dtype(value.dtype))


class Scaling:
    """Within it the scale that an optimizer gives to a loss is known: errors and gradients carry it until the
    optimizer divides by it. Its dynamic scale may already be another after the step."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.loss: Any = None  # that was scaled
        self.scaled: Any = None
        self.scale: Any = None

    def __enter__(self) -> "Scaling":
        if self.optimizer is not None:
            plain = self.optimizer.scale_loss

            def scale_loss(loss: Any) -> Any:
                self.loss = self.scaled = loss
                result = plain(loss)
                if result is not loss:
                    self.scaled, self.scale = result, plain(keras.ops.ones((), "float32"))
                return result

            object.__setattr__(self.optimizer, "scale_loss", scale_loss)
        return self

    def __exit__(self, *_: Any) -> None:
        if self.optimizer is not None:
            object.__delattr__(self.optimizer, "scale_loss")

    def unscaled(self, value: Any) -> Any:
        """A gradient without the scale; half precision has no room for it."""
        if self.scale is None or value is None:
            return value
        is_half = keras.backend.standardize_dtype(value.dtype) in ("float16", "bfloat16")
        return keras.ops.divide(keras.ops.cast(value, "float32") if is_half else value, self.scale)
