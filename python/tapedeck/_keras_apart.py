"""Calls of the user's loss and model that training does not make. They must leave nothing behind: the numbers that training draws
afterwards, and every variable, are those of a training without them."""

from __future__ import annotations

import contextlib
import dis
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy
from keras.src.backend.common import global_state

from ._keras_signals import BACKEND

_LIBRARIES = ("keras", "tensorflow", "torch", "jax", "numpy", "math", "builtins")
_OWN_GENERATORS = ("default_rng", "Generator", "RandomState", "SeedGenerator")
_VALUES = (int, float, complex, str, bytes, bool, type(None), numpy.generic)
_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "STORE_DEREF")
_HARMLESS = ("ReadVariableOp", "VarHandleOp", "StatefulPartitionedCall")  # what is called is looked at
_GLOBAL_GENERATOR = "global_seed_generator"  # of Keras, made when it is first needed


@contextlib.contextmanager
def untouched() -> Iterator[None]:
    """Within it Keras's variables keep their values, and afterwards the random generators of Python, NumPy, Keras and PyTorch are as
    they were. Those of TensorFlow cannot be put back: see `has_effects`."""
    generator = global_state.get_global_attribute(_GLOBAL_GENERATOR)
    python, legacy = random.getstate(), numpy.random.get_state()
    torch = sys.modules.get("torch")
    devices = range(torch.cuda.device_count()) if torch and torch.cuda.is_available() and torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices) if torch else contextlib.nullcontext():
        try:
            with keras.StatelessScope():
                yield
        finally:
            global_state.set_global_attribute(_GLOBAL_GENERATOR, generator)
            random.setstate(python)
            numpy.random.set_state(legacy)


def has_effects(function: Callable, *arguments: numpy.ndarray) -> bool:
    """Whether TensorFlow would do more than arithmetic: draw random numbers, assign variables, print, call Python. The function is
    traced, not executed, as what TensorFlow's generators draw cannot be put back. Other backends have no such generators."""
    if BACKEND != "tensorflow":
        return False
    import tensorflow
    from tensorflow.python.framework import op_def_registry

    with untouched():
        traced = tensorflow.function(function, autograph=False).get_concrete_function(
            *(tensorflow.TensorSpec(array.shape, array.dtype) for array in arguments))
    graph = traced.graph.as_graph_def()
    names = {node.op for part in (graph, *graph.library.function) for node in (part.node if part is graph else part.node_def)}
    definitions = [op_def_registry.get(name) for name in names - set(_HARMLESS)]
    return any(definition is not None and definition.is_stateful for definition in definitions)


def has_own_code(model: Any) -> bool:
    """Whether a model computes with something that is not Keras's: Keras's layers draw from variables, which `untouched` keeps."""
    parts = [part for layer in model._flatten_layers() for part in (type(layer), getattr(layer, "activation", None)) if part is not None]
    return any(not _is_of_library(part) or part is keras.layers.Lambda for part in parts)


def is_pure(loss: Any) -> bool:
    """Whether a loss of the user's, or a function, has nothing that a call could change: attributes that are plain values, and code that reaches
    only such values, functions of the user's of which that is true, and libraries."""
    if isinstance(loss, types.FunctionType):
        return _is_pure(loss, object, set())
    if not hasattr(loss, "__dict__") or not hasattr(type(loss), "call"):
        return False
    if not all(_is_value(value) for value in vars(loss).values()):
        return False
    return _is_pure(type(loss).call, type(loss), set())


def _is_value(value: Any) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_value, value))
    return isinstance(value, _VALUES) or _is_of_library(type(value)) and isinstance(value, (keras.DTypePolicy, keras.losses.Loss))


def _is_of_library(thing: Any) -> bool:
    name = getattr(thing, "__module__", None) or ""
    return name.partition(".")[0] in _LIBRARIES


def _is_pure(function: Any, owner: type, seen: set[Any]) -> bool:
    if not isinstance(function, types.FunctionType):
        return False
    if function in seen:
        return True
    seen.add(function)
    code = function.__code__
    if any(step.opname in _STORES for step in dis.get_instructions(code)) \
            or any(isinstance(constant, types.CodeType) for constant in code.co_consts) or set(code.co_names) & set(_OWN_GENERATORS):
        return False
    reached = [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    reached += [cell.cell_contents for cell in function.__closure__ or () if cell.cell_contents is not owner]
    reached += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    reached += [found for name in code.co_names if (found := getattr(owner, name, None)) is not None and not _is_of_library(found)]
    return all(_may_be_reached(thing, owner, seen) for thing in reached)


def _may_be_reached(thing: Any, owner: type, seen: set[Any]) -> bool:
    if isinstance(thing, types.ModuleType):
        return thing.__name__.partition(".")[0] in (*_LIBRARIES, "random")
    if callable(thing) and _is_of_library(thing):
        return True
    return _is_value(thing) or _is_pure(thing, owner, seen)
