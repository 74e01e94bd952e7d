"""One batch looked at: the error at a layer and the gradients of its parameters, in one backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def grad(model: Any, loss_fn: Callable | None, x: Any, y: Any, *, layer: str | None = None, show: bool = True) -> dict[str, Any]:
    """The gradients of the loss of one batch: with respect to layers' outputs and to parameters.

    >>> found = tapedeck.grad(model, F.cross_entropy, x, y, layer="conv2")
    conv2.error             (64, 64, 11, 11)  norm 0.0312  mean -1.2e-07  zeros 62.1 %
    conv2.weight.gradient   (64, 32, 3, 3)    norm 0.211   …
    >>> found["conv2.error"].shape

    The model is as it was: no update, no gradient left behind, no batch statistics changed.

    Args:
        model: PyTorch's or Keras's.
        loss_fn: ``loss_fn(prediction, y)`` in PyTorch, ``loss_fn(y, prediction)`` in Keras, as these
            frameworks have it; None: the loss that a Keras model was compiled with.
        layer: this layer alone; by default all.
        show: print a line for each.

    Returns:
        A dict of NumPy arrays: ``LAYER.output``, ``LAYER.error``, ``LAYER.PARAM.gradient``, and the float ``loss``.
    """
    found = _of_keras(model, loss_fn, x, y) if _is_keras(model) else _of_torch(model, loss_fn, x, y)
    if layer is not None:
        chosen = {name: value for name, value in found.items() if name == "loss" or _layer_of(name) == layer}
        if len(chosen) == 1:
            layers = sorted({_layer_of(name) for name in found} - {""})
            raise KeyError(f"no layer {layer!r} with outputs or parameters (there are: {', '.join(layers)})")
        found = chosen
    if show:
        _show(found)
    return found


def layer_loss(output: Any, target: Any) -> float:
    """A layer's own loss: the mean squared error of its output against a target for it.

    >>> tapedeck.layer_loss([[1.0, 2.0], [3.0, 4.0]], [[1.5, 2.5], [2.5, 4.5]])
    0.25
    """
    import numpy

    output, target = _numpy(output), _numpy(target)
    if output.shape != target.shape:
        raise ValueError(f"a layer's output of shape {output.shape} has no error against a target of {target.shape}")
    return float(numpy.mean(numpy.square(output.astype("float64") - target.astype("float64"))))


def _numpy(value: Any) -> Any:
    import numpy

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    return numpy.asarray(value)


def _is_keras(model: Any) -> bool:
    return any(base.__module__.startswith("keras.") for base in type(model).__mro__)


def _layer_of(name: str) -> str:
    if name.endswith(".gradient"):
        return name[: -len(".gradient")].rpartition(".")[0]
    return name.rpartition(".")[0]


def _show(found: dict[str, Any]) -> None:
    import numpy

    print(f"loss {found['loss']:.6g}")
    width = max((len(name) for name in found), default=0)
    for name, value in found.items():
        if name == "loss" or name.endswith(".output"):
            continue
        finite = value[numpy.isfinite(value)]
        zeros = 100 * float(numpy.mean(value == 0)) if value.size else 0.0
        odd = f"  not finite {value.size - finite.size}" if finite.size < value.size else ""
        print(f"{name:<{width}}  {str(value.shape):<20} norm {numpy.linalg.norm(finite):<10.4g} "
              f"mean {finite.mean() if finite.size else float('nan'):<11.3g} zeros {zeros:.1f} %{odd}")


def _of_torch(model: Any, loss_fn: Callable | None, x: Any, y: Any) -> dict[str, Any]:
    import torch

    if loss_fn is None:
        raise ValueError("a PyTorch model has no loss of its own: give loss_fn")
    from ._layers import parts
    from ._layers import bare, clean_name

    model_inside = bare(model)
    outputs: dict[str, torch.Tensor] = {}
    values: dict[str, Any] = {}
    calls: dict[str, int] = {}
    handles = []

    def keep(name: str) -> Callable:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            count = calls[name] = calls.get(name, -1) + 1
            for part, tensor in parts(output):
                label = name + (f"@{count}" if count else "") + part
                values[f"{label}.output"] = _numpy(tensor).copy()
                if tensor.requires_grad:
                    tensor.register_hook(keep_error(f"{label}.error"))
        return hook

    def keep_error(label: str) -> Callable:
        return lambda error: outputs.__setitem__(label, error.clone())

    for name, module in model_inside.named_modules():
        if not any(True for _ in module.children()):
            handles.append(module.register_forward_hook(keep(clean_name(name) or "model")))
    parameters = {clean_name(n): p for n, p in model_inside.named_parameters() if p.requires_grad}
    buffers = {name: buffer.clone() for name, buffer in model_inside.named_buffers()}
    try:
        with torch.enable_grad():
            loss = loss_fn(model(x), y)
            gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
        with torch.no_grad():
            for name, buffer in model_inside.named_buffers():
                buffer.copy_(buffers[name])
    found: dict[str, Any] = {"loss": float(loss.detach())}
    found.update(values)
    found.update({name: _numpy(error) for name, error in outputs.items()})
    found.update({f"{name}.gradient": _numpy(g) for name, g in zip(parameters, gradients) if g is not None})
    return found


def _of_keras(model: Any, loss_fn: Callable | None, x: Any, y: Any) -> dict[str, Any]:
    import keras

    from ._keras import _leaves, _observing

    layers = _leaves(model)
    if not model.built:
        model(x)
    variables = {f"{name}.{v.name}": v for name, layer in layers.items() for v in layer.trainable_weights}
    loss_of = loss_fn or (lambda truth, prediction: model.compute_loss(x=x, y=truth, y_pred=prediction))
    return _KERAS[keras.backend.backend()](model, layers, variables, loss_of, keras.ops.convert_to_tensor(x), y, _observing)


def _keras_tensorflow(model: Any, layers: Any, variables: Any, loss_of: Any, x: Any, y: Any, observing: Any) -> dict[str, Any]:
    import tensorflow as tf

    outputs: dict[str, Any] = {}

    def observe(name: str, value: Any) -> Any:
        outputs[name] = value
        return value

    with tf.GradientTape() as tape, observing(layers, observe):
        loss = tf.reduce_mean(loss_of(y, model(x, training=False)))
    sources = list(outputs.values()) + [v.value for v in variables.values()]
    gradients = tape.gradient(loss, sources)
    return _collected(float(loss), outputs, variables, gradients)


def _keras_torch(model: Any, layers: Any, variables: Any, loss_of: Any, x: Any, y: Any, observing: Any) -> dict[str, Any]:
    import torch

    outputs: dict[str, Any] = {}

    def observe(name: str, value: Any) -> Any:
        outputs[name] = value
        return value

    with torch.enable_grad(), observing(layers, observe):
        loss = torch.mean(loss_of(torch.as_tensor(y), model(x, training=False)))
        sources = [value for value in outputs.values()] + [v.value for v in variables.values()]
        wanted = [source for source in sources if source.requires_grad]
        found = dict(zip(map(id, wanted), torch.autograd.grad(loss, wanted, allow_unused=True)))
    return _collected(float(loss), outputs, variables, [found.get(id(source)) for source in sources])


def _keras_jax(model: Any, layers: Any, variables: Any, loss_of: Any, x: Any, y: Any, observing: Any) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    outputs: dict[str, Any] = {}
    weights = [v.value for v in model.trainable_variables]
    others = [v.value for v in model.non_trainable_variables]

    def loss_with(both: Any) -> Any:
        observed: dict[str, Any] = {}

        def observe(name: str, value: Any) -> Any:
            observed[name] = value
            return value + both[1][name] if name in both[1] else value

        with observing(layers, observe):
            prediction, _ = model.stateless_call(both[0], others, x, training=False)
        return jnp.mean(loss_of(y, prediction)), observed

    shapes = jax.eval_shape(lambda w: loss_with((w, {}))[1], weights)
    taps = {name: jnp.zeros(s.shape, s.dtype) for name, s in shapes.items()}
    (loss, outputs), (gradients, errors) = jax.value_and_grad(loss_with, has_aux=True)((weights, taps))
    by_variable = {id(v): g for v, g in zip(model.trainable_variables, gradients)}
    return _collected(float(loss), outputs, variables,
                      [errors.get(name) for name in outputs] + [by_variable.get(id(v)) for v in variables.values()])


def _collected(loss: float, outputs: Any, variables: Any, gradients: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"loss": loss}
    found.update({f"{name}.output": _numpy(value) for name, value in outputs.items()})
    names = [f"{name}.error" for name in outputs] + [f"{name}.gradient" for name in variables]
    found.update({name: _numpy(value) for name, value in zip(names, gradients) if value is not None})
    return found


_KERAS = {"tensorflow": _keras_tensorflow, "torch": _keras_torch, "jax": _keras_jax}
