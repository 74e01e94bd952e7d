"""LAYER.entropy, .max_logit and .map of Keras's attention: MultiHeadAttention, GroupQueryAttention, Attention, AdditiveAttention.

The scores of a recorded step are computed again beside the layer's own, which a backend may fuse: from the projected
queries and keys, a block of queries at a time. The layers are as they were in a step in which none of it is wanted.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

try:
    from keras.src.backend.common.symbolic_scope import in_symbolic_scope
except ImportError:
    def in_symbolic_scope() -> bool:
        return False

WORDS = ("entropy", "max_logit", "map")
_BLOCK = 1 << 22  # scores at a time
_MOST_BLOCKS = 32  # a graph has a copy of each
_HEADED = tuple(getattr(keras.layers, name) for name in ("MultiHeadAttention", "GroupQueryAttention") if hasattr(keras.layers, name))
KINDS = (*_HEADED, keras.layers.Attention)  # AdditiveAttention is one
Put = Callable[[str, str, Any], None]  # of a layer, or a call of it, and a word
Tell = Callable[[Callable[[], dict[str, Any]]], None]


def reason_against(layer: Any) -> str:
    """Why what is computed here is not what the layer computes; "" if it is."""
    for method in ("_compute_attention", "_masked_softmax") if isinstance(layer, _HEADED) else ("_apply_scores",):
        kind = next((kind for kind in type(layer).__mro__ if method in vars(kind)), None)
        if kind is None or not kind.__module__.startswith("keras."):
            return f"{type(layer).__name__} has a {method} of its own"
    return ""


def _see(parts: list[dict[str, Any]], scores: Any, mask: Any, wants_map: bool) -> None:
    """Of a block of queries. Queries that may see no key count for nothing."""
    if mask is not None:
        scores = ops.where(mask, scores, -math.inf)
    largest = ops.max(scores, -1)
    counts = ops.cast(largest > -math.inf, "float32")
    below = scores - ops.where(largest > -math.inf, largest, 0.0)[..., None]
    shares, at_top = ops.exp(below), ops.cast(below == 0, "float32")
    rest = ops.sum(shares * (1 - at_top), -1) + ops.sum(at_top, -1) - 1  # beside the largest one: it may be tiny
    shares = ops.where(counts[..., None] > 0, shares / ops.maximum(1 + rest, 1.0)[..., None], 0.0)
    finite = ops.where(below > -math.inf, below, 0.0)
    entropy = ops.log1p(ops.maximum(rest, 0.0)) - ops.sum(shares * finite, -1)
    parts.append({"entropy": ops.sum(entropy * counts, -1), "rows": ops.sum(counts, -1), "max_logit": ops.max(largest, -1),
                  **({"map": shares} if wants_map else {})})


def _join(parts: list[dict[str, Any]]) -> dict[str, Any]:
    found = {"entropy": sum(part["entropy"] for part in parts) / sum(part["rows"] for part in parts),
             "max_logit": ops.max(ops.stack([part["max_logit"] for part in parts]), 0)}
    if "map" in parts[0]:
        found["map"] = ops.concatenate([part["map"] for part in parts], -2)
    return found


def _causal(first: int, rows: Any, columns: Any) -> Any:
    return ops.arange(columns)[None, :] <= first + ops.arange(rows)[:, None]


def _of_heads(layer: Any, wants_map: bool, query: Any, key: Any, mask: Any, causal: bool) -> dict[str, Any]:
    query, key = (ops.cast(ops.stop_gradient(value), "float32") for value in (query, key))
    scale = 1 / math.sqrt(query.shape[-1])
    parts: list[dict[str, Any]] = []
    if len(query.shape) != 4:  # MultiHeadAttention over several axes, of examples that may have others
        scores = ops.einsum(layer._dot_product_equation, key, query) * scale
        axes = len(layer._attention_axes)
        if mask is not None:
            for _ in range(len(scores.shape) - len(mask.shape)):
                mask = ops.expand_dims(mask, -2 * axes - 1)
            scores = ops.where(ops.cast(mask, "bool"), scores, -math.inf)
        shape = ops.shape(scores)
        keys = math.prod(scores.shape[-axes:])
        _see(parts, ops.reshape(scores, (*shape[:-2 * axes], -1, keys)), None, wants_map)
        return _join(parts)
    if mask is not None:
        mask = ops.cast(mask, "bool")
        for _ in range(4 - len(mask.shape)):
            mask = ops.expand_dims(mask, -3)
    queries, keys = query.shape[1], key.shape[1]
    block = queries or 1
    if queries and keys:
        block = min(queries, max(1, _BLOCK // ((query.shape[0] or 1) * query.shape[2] * keys), -(-queries // _MOST_BLOCKS)))
    for first in range(0, queries or 1, block):
        rows = query[:, first:first + block] if queries else query
        scores = ops.einsum("bqnh,bknh->bnqk", rows, key) * scale
        seen = mask if mask is None or mask.shape[-2] == 1 or not queries else mask[..., first:first + block, :]
        if causal:
            below = _causal(first, *ops.shape(scores)[-2:])
            seen = below if seen is None else ops.logical_and(seen, below)
        _see(parts, scores, seen, wants_map)
    return _join(parts)


def _headed(layer: Any, wants_map: bool, told: Tell) -> dict[str, Callable]:
    compute = layer._compute_attention

    def computed(query: Any, key: Any, value: Any, attention_mask: Any = None, *arguments: Any, use_causal_mask: bool = False,
                 **options: Any) -> Any:
        told(lambda: _of_heads(layer, wants_map, query, key, attention_mask, use_causal_mask))
        if use_causal_mask:
            options["use_causal_mask"] = True
        return compute(query, key, value, attention_mask, *arguments, **options)

    return {"_compute_attention": computed}


def _single(layer: Any, wants_map: bool, told: Tell) -> dict[str, Callable]:
    """Attention and AdditiveAttention have one head, and scores that are there anyway."""
    apply, validate = layer._apply_scores, layer._validate_inputs
    of_queries: list[Any] = [None]  # the mask of the call under way

    def validated(inputs: Any, mask: Any = None) -> None:
        of_queries[0] = mask[0] if mask else None
        validate(inputs=inputs, mask=mask)

    def values(scores: Any, mask: Any) -> dict[str, Any]:
        if mask is not None:
            mask = ops.cast(mask, "bool")
            mask = mask[:, None] if len(mask.shape) == 2 else mask
        if of_queries[0] is not None:
            rows = ops.cast(of_queries[0], "bool")[..., None]
            mask = rows if mask is None else ops.logical_and(mask, rows)
        parts: list[dict[str, Any]] = []
        _see(parts, ops.cast(ops.stop_gradient(scores), "float32")[:, None], None if mask is None else mask[:, None], wants_map)
        return _join(parts)

    def applied(scores: Any, value: Any, scores_mask: Any = None, *arguments: Any, **options: Any) -> Any:
        told(lambda: values(scores, scores_mask))
        return apply(scores, value, scores_mask, *arguments, **options)

    return {"_validate_inputs": validated, "_apply_scores": applied}


def _is_again() -> bool:
    """PyTorch computes a forward pass again, within the backward pass, for a layer that keeps nothing."""
    if keras.backend.backend() != "torch":
        return False
    import torch

    return torch._C._current_graph_task_id() != -1


@contextlib.contextmanager
def attending(layers: dict[str, Any], wanted: dict[str, tuple[str, ...]], put: Put) -> Iterator[None]:
    """Within it these layers tell what is wanted of them, by name."""
    calls: dict[str, int] = {}
    replaced: list[tuple[Any, str]] = []

    def teller(name: str, words: tuple[str, ...]) -> Callable:
        def told(values_of: Callable[[], dict[str, Any]]) -> None:
            if in_symbolic_scope() or _is_again():
                return
            count = calls[name] = calls.get(name, -1) + 1
            values = values_of()
            for word in words:
                put(f"{name}@{count}" if count else name, word, values[word])

        return told

    try:
        for name, words in wanted.items():
            layer = layers[name]
            wrap = _headed if isinstance(layer, _HEADED) else _single
            for method, function in wrap(layer, "map" in words, teller(name, words)).items():
                object.__setattr__(layer, method, function)
                replaced.append((layer, method))
        yield
    finally:
        for layer, method in replaced:
            object.__delattr__(layer, method)
