"""What a Keras model says of itself before it is trained: last activation and loss, linear layers in a row, optimizer options,
weights as they start. Facts have the names that `_loop_setup.py` and `_loop_head.py` give them for PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy

from . import _keras_apart

_SCALED_ROWS = 1024
_LOSSES = {"categorical_crossentropy": "categorical_crossentropy", "sparse_categorical_crossentropy": "categorical_crossentropy",
           "binary_crossentropy": "binary_cross_entropy", "mean_squared_error": "mse_loss", "huber": "huber_loss",
           "mean_absolute_error": "l1_loss"}
_OF_LOGITS = {"categorical_crossentropy": "cross_entropy", "binary_cross_entropy": "binary_cross_entropy_with_logits"}
_TWICE = (("cross_entropy", "softmax"), ("binary_cross_entropy_with_logits", "sigmoid"))
_LINEAR_STEPS = ("Flatten", "Dropout", "Reshape", "BatchNormalization", "LayerNormalization", "AveragePooling2D", "AveragePooling1D",
                 "GlobalAveragePooling2D", "GlobalAveragePooling1D", "ZeroPadding2D", "Permute", "SpatialDropout2D", "Rescaling",
                 "InputLayer")
_OF_INDICES = ("Embedding", "CategoryEncoding", "IntegerLookup", "StringLookup", "Hashing", "TextVectorization")
_ACTIVATION_LAYERS = {"ReLU": "relu", "Softmax": "softmax"}
_KNOWN = ("linear", "softmax", "sigmoid", "relu", "tanh", "log_softmax")
_NAMES = 16
_TRIED = 8  # made-up examples that a loss is tried with


def is_plain(model: Any) -> bool:
    """Whether it trains as Keras does: a step of the user's own may have several losses."""
    return type(model).train_step is keras.Model.train_step and type(model).compute_loss is keras.Model.compute_loss


def optimizer_count(model: Any) -> int:
    """Of the model, those that a step of the user's own has included."""
    return len({id(each) for each in vars(model).values() if isinstance(each, keras.optimizers.Optimizer)})


def options_of(optimizer: Any) -> dict[str, Any]:
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of a loss scale

    def number(name: str) -> float:
        try:
            value = getattr(inner, name, None)
            return float(keras.ops.convert_to_numpy(value)) if value is not None else 0.0
        except (TypeError, ValueError):
            return 0.0

    return {"kind": type(inner).__name__, "lr": number("learning_rate"), "eps": number("epsilon"),
            "weight_decay": number("weight_decay"), "momentum": number("momentum")}


# ---- layers in order -----------------------------------------------------------------------------------


def chain_of(model: Any, output: int | None = None) -> list[Any]:
    """Layers from the last one back, as far as each has one input. A model whose layers are called by its own code has no chain.
    `output` is the one of several."""
    if isinstance(model, keras.Sequential):
        return [layer for part in reversed(model.layers)
                for layer in (chain_of(part) if isinstance(part, keras.Model) else [part])]
    outputs = getattr(model, "outputs", None)
    if not outputs or (len(outputs) != 1 and output is None) or not hasattr(outputs[output or 0], "_keras_history"):
        return []
    layers, tensor = [], outputs[output or 0]
    while tensor is not None and len(layers) < 256:
        layer, index = tensor._keras_history.operation, tensor._keras_history.node_index
        if isinstance(layer, keras.Model):
            inner = chain_of(layer)
            if not inner:
                break
            layers += inner
        else:
            layers.append(layer)
        inputs = layer._inbound_nodes[index].input_tensors
        tensor = inputs[0] if len(inputs) == 1 and hasattr(inputs[0], "_keras_history") else None
    return layers


def _activation(layer: Any) -> str | None:
    """The activation that ends a layer; None: it has none to speak of, as a layer that reshapes."""
    kind = type(layer).__name__
    if kind in _ACTIVATION_LAYERS:
        plain = kind != "ReLU" or not (getattr(layer, "negative_slope", 0) or getattr(layer, "max_value", None))
        return _ACTIVATION_LAYERS[kind] if plain else "other"
    function = getattr(layer, "activation", None)
    if function is None:
        return None if kind in _LINEAR_STEPS else "other"
    name = getattr(function, "__name__", "other")
    return name if name in _KNOWN else "other"


def _bends(layer: Any) -> bool:
    activation = _activation(layer)
    return activation not in (None, "linear")


def _kernel(layer: Any) -> Any:
    own = [v for v in getattr(layer, "weights", []) if v.name in ("kernel", "_kernel")]
    return own[0] if own and len(own[0].shape) > 1 else None


def _is_layer(layer: Any) -> bool:
    return isinstance(layer, keras.layers.Dense) or type(layer).__name__.startswith("Conv")


# ---- the loss and what it is computed from -------------------------------------------------------------


def loss_function(model: Any) -> Any:
    """The only loss; None: there are several."""
    loss = model.loss
    if isinstance(loss, (list, tuple, dict)):
        values = list(loss.values()) if isinstance(loss, dict) else list(loss)
        if len(values) != 1:
            return None
        loss = values[0]
    return keras.losses.get(loss) if isinstance(loss, str) else loss


def broadcast(model: Any, targets: Any) -> dict[str, Any] | None:
    """Shapes, where the user's loss compares every output with every target: outputs of (N, 1) and targets of (N,). Such a loss stays
    the same when the targets are given to other examples. Keras brings the shapes of its own losses and of functions together, so
    only a `Loss` of the user's, which gets them as they are, is called with numbers that are made up: one that a call leaves as it was."""
    loss, shape = loss_function(model), getattr(model, "output_shape", None)
    if not isinstance(loss, keras.losses.Loss) or type(loss).__module__.startswith("keras.") or not isinstance(shape, tuple) \
            or sorted((len(shape), len(targets.shape))) != [1, 2] or targets.dtype.kind != "f" \
            or 1 not in (*shape[1:], *targets.shape[1:]) or not _keras_apart.is_pure(loss):
        return None
    outputs = numpy.linspace(-1, 1, _TRIED, dtype=numpy.float32).reshape(-1, *shape[1:])
    values = (numpy.linspace(0, 1, _TRIED, dtype=numpy.float32) ** 2).reshape(-1, *targets.shape[1:])
    try:
        if _keras_apart.has_effects(loss, values, outputs):
            return None
        with _keras_apart.untouched():
            same, other, moved = (float(keras.ops.convert_to_numpy(loss(keras.ops.convert_to_tensor(v), keras.ops.convert_to_tensor(o))))
                                  for v, o in ((values, outputs), (values[::-1].copy(), outputs), (values, outputs + 1)))
    except Exception:  # it wants other examples, which training has
        return None
    if not math.isclose(same, other, rel_tol=1e-5) or math.isclose(same, moved, rel_tol=1e-3):
        return None
    return {"output": [_TRIED, *shape[1:]], "compared": [_TRIED, _TRIED]}


def _loss_of(model: Any, loss: Any) -> dict[str, Any] | None:
    """Kind, reduction and weight of a loss; None: it is none of those that are known."""
    function = getattr(loss, "fn", loss)
    options = getattr(loss, "_fn_kwargs", {})
    name = _LOSSES.get(getattr(function, "__name__", ""))
    if name is None:
        return None
    if options.get("from_logits"):
        name = _OF_LOGITS.get(name, name)
    reduction = "sum" if getattr(loss, "reduction", None) == "sum" else "mean"
    return {"losses": 1, "loss": name, "reduction": reduction, "divisor": _divisor(model)}


def _divisor(model: Any) -> float:
    weights = getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)
    if isinstance(weights, dict):
        weights = list(weights.values())
    if isinstance(weights, (list, tuple)):
        weights = weights[0] if len(weights) == 1 else None
    return 1 / float(weights) if isinstance(weights, (int, float)) and weights > 0 else 1.0


def _losses_by_output(model: Any) -> list[Any] | None:
    """Of several outputs; None: there is one, or it is not known which loss is whose."""
    losses, names = model.loss, getattr(model, "output_names", None)
    if isinstance(losses, dict) and isinstance(names, list):
        losses = [losses.get(name) for name in names]
    if not isinstance(losses, (list, tuple)) or len(losses) != len(getattr(model, "outputs", None) or ()) or len(losses) < 2:
        return None
    return [keras.losses.get(loss) if isinstance(loss, str) else loss for loss in losses]


def describe(model: Any) -> dict[str, Any] | None:
    """The facts of the head; None when the way from the last layer to the loss is not known, or there are several."""
    return None if _losses_by_output(model) else _describe(model, loss_function(model), chain_of(model))


def describe_each(model: Any) -> list[dict[str, Any]]:
    """The facts of each of several outputs, as far as they are known."""
    losses = _losses_by_output(model) or []
    return [(_describe(model, loss, chain_of(model, place)) or {}) | {"output": model.output_names[place], "losses": len(losses)}
            for place, loss in enumerate(losses) if loss is not None]


def _describe(model: Any, loss: Any, layers: list[Any]) -> dict[str, Any] | None:
    facts = _loss_of(model, loss) or ({"losses": 1, "loss": "other", "reduction": "mean", "divisor": _divisor(model)} if callable(loss) else None)
    if facts is None or not layers:
        return None
    facts = _describe_layers(facts, layers)
    if facts is not None and facts["loss"] == "other":
        if not _takes_logits(loss, facts):
            return None
        facts["loss"] = "cross_entropy" if facts["activation"] == "softmax" else "binary_cross_entropy_with_logits"
    return facts


def computes_own_loss(model: Any) -> bool:
    """Whether it trains as Keras does, with a loss of its own and without a graph of layers."""
    return type(model).train_step is keras.Model.train_step and not chain_of(model)


def describe_called(model: Any, layer: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """The facts of a head that a step has shown: `layer` puts out what the model does."""
    own = type(model).compute_loss is not keras.Model.compute_loss
    facts = {"losses": 1, "reduction": "mean", "divisor": 1.0} if own else _loss_of(model, loss_function(model))
    if facts is None:
        return {}
    return facts | {"activation": _activation(layer) or "other", "layer": layer.name, "shape": list(shape),
                    "units": int(getattr(layer, "units", None) or getattr(layer, "filters", None) or 0)}


def _takes_logits(loss: Any, facts: dict[str, Any]) -> bool:
    """Whether a loss of the user's applies softmax itself, to what is softmax's already: then it stays the same when a number is added to
    all outputs of an example. It is called with made-up numbers, where such a call leaves everything as it was."""
    columns = facts.get("units", 0)
    if facts["activation"] != "softmax" or columns < 2 or not _keras_apart.is_pure(loss):
        return False
    outputs = numpy.sin(numpy.arange(_TRIED * columns, dtype=numpy.float32)).reshape(_TRIED, columns)
    classes = numpy.arange(_TRIED) % columns
    for labels in (classes.astype(numpy.float32), numpy.eye(columns, dtype=numpy.float32)[classes]):
        try:
            if _keras_apart.has_effects(loss, labels, outputs):
                return False
            with _keras_apart.untouched():
                same, moved, scaled = (float(numpy.mean(keras.ops.convert_to_numpy(loss(*map(keras.ops.convert_to_tensor, (labels, o))))))
                                       for o in (outputs, outputs + 1, 2 * outputs))
        except Exception:  # it wants labels of another kind
            continue
        if math.isclose(same, moved, rel_tol=1e-5, abs_tol=1e-6) and not math.isclose(same, scaled, rel_tol=1e-3):
            return True
    return False


def _describe_layers(facts: dict[str, Any], layers: list[Any]) -> dict[str, Any] | None:
    layers = [layer for layer in layers if type(layer).__name__ not in ("InputLayer", "Reshape", "Flatten", "Dropout")]
    last = layers[0] if layers else None
    if last is None:
        return None
    facts["activation"] = _activation(last) or "other"
    if facts["activation"] == "linear" and not _is_layer(last) and len(layers) > 1:  # Activation("linear")
        layers = layers[1:]
        facts["activation"] = _activation(layers[0]) or "other"
    if facts["activation"] == "softmax" and len(layers) > 1 and not _is_layer(last) and _activation(layers[1]) == "softmax":
        facts["is_twice"] = True
    if type(last).__name__ == "Softmax" and isinstance(last.axis, int):
        rank = len(last.output.shape) if getattr(last, "_inbound_nodes", None) else 2
        facts["rank"], facts["axis"] = rank, last.axis if last.axis >= 0 else last.axis + rank
    place = next((i for i, layer in enumerate(layers) if _is_layer(layer)), None)
    if place is None:
        return None
    layer = layers[place]
    facts["layer"] = layer.name
    facts["units"] = int(getattr(layer, "units", None) or getattr(layer, "filters", None) or 0)
    return facts | _linear_part(layers[place:])


def _linear_part(layers: list[Any]) -> dict[str, Any]:
    """How many layers follow one another without anything but linear steps between them, and whether that is all there is."""
    kernels: list[Any] = []
    for place, layer in enumerate(layers):
        if _is_layer(layer) and (place == 0 or not _bends(layer)):
            kernels.append(_kernel(layer))
        elif type(layer).__name__ not in _LINEAR_STEPS:
            return {"linear_layers": len(kernels), "is_linear": False, "is_narrow": False}
    shapes = [tuple(k.shape) for k in kernels if k is not None]
    widths = [(shape[-1], math.prod(shape[:-1])) for shape in shapes]
    narrow = any(inner[0] < min(inner[1], outer[0]) for outer, inner in zip(widths, widths[1:]))
    return {"linear_layers": len(kernels), "is_linear": len(kernels) > 0, "is_narrow": narrow}


def scaled_inputs(model: Any, values: Any) -> Any:
    """What layers that only scale make of the first rows, before any layer that learns: Normalization and Rescaling at the front."""
    is_graph = type(model).__name__ in ("Functional", "Sequential")  # in others, the order of layers is not that of their calls
    for layer in (layer for layer in model.layers if type(layer).__name__ != "InputLayer") if is_graph else ():
        if type(layer).__name__ not in ("Normalization", "Rescaling"):
            break
        values = keras.ops.convert_to_numpy(layer(keras.ops.convert_to_tensor(numpy.asarray(values[:_SCALED_ROWS], "float32"))))
    return values


def reads_indices(model: Any) -> bool:
    return any(type(layer).__name__ in _OF_INDICES for layer in model._flatten_layers(include_self=False))


# ---- weights -------------------------------------------------------------------------------------------


def _all_layers(model: Any) -> list[Any]:
    return [layer for layer in model._flatten_layers(include_self=False) if _is_layer(layer) and _kernel(layer) is not None]


def _wide_recurrences(model: Any) -> list[tuple[str, float]]:
    """Recurrent weights that make a state grow from step to step: a matrix of deviation 1 / sqrt(inputs) keeps its size."""
    found = []
    for variable in model.weights:
        if variable.name == "recurrent_kernel" and len(variable.shape) == 2:
            times = float(keras.ops.convert_to_numpy(variable).std()) * math.sqrt(variable.shape[0])
            if times > 2.5:
                found.append((".".join(variable.path.split("/")[-3:]), times))
    return found


def odd_weights(model: Any) -> dict[str, Any] | None:
    """Layers that start with equal weights, or with much larger ones than keep the size of a signal (He: sqrt(2 / inputs))."""
    equal, value = [], 0.0
    recurrent = _wide_recurrences(model)
    wide, ratio = [name for name, _ in recurrent], max((times for _, times in recurrent), default=0.0)
    layers = _all_layers(model)
    for place, layer in enumerate(layers):
        kernel = keras.ops.convert_to_numpy(_kernel(layer)).astype(numpy.float64)
        if kernel.size < 16:
            continue
        name = f"{layer.name}.kernel"
        inputs = math.prod(kernel.shape[:-1])
        if place != len(layers) - 1 and kernel.shape[-1] > 1 and kernel.min() == kernel.max():
            equal.append(name)
            value = float(kernel.flat[0])
        elif (times := float(kernel.std()) * math.sqrt(inputs / 2)) > 4:
            wide.append(name)
            ratio = max(ratio, times)
    return {"names": (equal or wide)[:_NAMES], "equal": len(equal), "value": value, "wide": len(wide), "ratio": ratio,
            "layers": len(layers)} if equal or wide else None


def large_biases(model: Any) -> dict[str, Any] | None:
    """Of hidden layers: they push units out of where they work, whatever comes in."""
    found = {}
    for layer in _all_layers(model)[:-1]:
        size = float(numpy.abs(keras.ops.convert_to_numpy(layer.bias)).max()) if getattr(layer, "bias", None) is not None else 0.0
        if size > 5:
            found[f"{layer.name}.bias"] = size
    return {"names": list(found)[:_NAMES], "count": len(found), "largest": max(found.values())} if found else None


def strong_dropout(model: Any) -> dict[str, Any] | None:
    rates = {layer.name: float(layer.rate) for layer in model._flatten_layers(include_self=False)
             if "Dropout" in type(layer).__name__ and isinstance(getattr(layer, "rate", None), (int, float)) and layer.rate >= 0.7}
    return {"names": list(rates)[:_NAMES], "count": len(rates), "rate": max(rates.values())} if rates else None


def untrained_frozen(model: Any) -> dict[str, Any] | None:
    """Layers that are not trained and have the values that Keras draws for a new one: uniform within sqrt(6 / (inputs + outputs)).
    Nobody has trained them."""
    layers = _all_layers(model)
    names, last = [], -1
    for place, layer in enumerate(layers):
        kernel = _kernel(layer)
        if layer.trainable and kernel.trainable:
            continue
        if is_as_drawn(keras.ops.convert_to_numpy(kernel)):
            names.append(f"{layer.name}.kernel")
            last = place
    if not names:
        return None
    leading = not any(layer.trainable and _kernel(layer).trainable for layer in layers[:last])
    return {"count": len(names), "names": names[:_NAMES], "leading": leading}


def nonfinite_weights(model: Any, value_of: Callable[[Any], numpy.ndarray]) -> dict[str, Any]:
    names = [v.path.replace("/", ".") for v in model.trainable_variables if not numpy.isfinite(value_of(v)).all()]
    return {"names": names[:_NAMES], "count": len(names)}


def drawn_deviations(model: Any) -> dict[int, float]:
    """Of weights that Keras draws by default, uniform within sqrt(6 / (inputs + outputs)), by the variable's id."""
    found = {}
    for layer in _all_layers(model):
        kernel = _kernel(layer)
        shape = tuple(kernel.shape)
        if type(getattr(layer, "kernel_initializer", None)).__name__ == "GlorotUniform" and math.prod(shape) >= 16:
            found[id(kernel)] = math.sqrt(2 / (math.prod(shape[:-2]) * (shape[-2] + shape[-1])))
    return found


def is_as_drawn(values: numpy.ndarray, slack: float = 1e-6) -> bool:
    """Whether a weight is as Keras draws it for a new layer: nobody has trained it, or hardly (`slack`)."""
    if values.ndim < 2 or values.dtype.kind != "f":
        return False
    values = values.astype(numpy.float64)
    field = math.prod(values.shape[:-2])
    bound = math.sqrt(6 / (field * (values.shape[-2] + values.shape[-1])))
    deviation = float(values.std()) * math.sqrt(3) / bound
    return values.size >= 64 and float(numpy.abs(values).max()) <= bound * (1 + slack) and 1 / 1.15 < deviation < 1.15
