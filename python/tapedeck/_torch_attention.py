"""MODULE.entropy, .max_logit and .map of attention in a PyTorch model: of `scaled_dot_product_attention`, and of
`nn.MultiheadAttention`, which computes weights of its own where it is asked to return them.

The scores of a recorded step are computed again from queries and keys, a block of queries at a time, so that the score
matrix is never held. The functions are replaced only in steps in which that may be wanted.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import torch

from . import _observe

_WORDS = ("entropy", "max_logit", "map")
_BLOCK = 1 << 22  # scores at a time
_FRAMES = 16  # between the function and the module that calls it
_LEAST = -1e8  # scores at or below it count as masked


def _masked(scores: torch.Tensor, mask: Any, causal: bool, first: int) -> torch.Tensor:
    if causal:
        rows, columns = scores.shape[-2:]
        seen = torch.arange(columns, device=scores.device) <= torch.arange(first, first + rows, device=scores.device)[:, None]
        scores = scores.masked_fill(~seen, -math.inf)
    if mask is not None:
        mask = mask if mask.shape[-2] == 1 else mask[..., first:first + scores.shape[-2], :]
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.float()
    return scores


class Heads:
    """Sums over blocks of queries: (examples, heads)."""

    def __init__(self, wants_map: bool) -> None:
        self.wants_map = wants_map
        self.entropies: Any = 0
        self.rows: Any = 0
        self.largest: Any = None
        self.maps: list[torch.Tensor] = []

    def add(self, scores: torch.Tensor) -> None:
        largest = scores.amax(-1)
        counts = largest > _LEAST
        shares = torch.softmax(scores, -1)
        below = torch.where(shares > 0, scores - largest[..., None], 0)
        entropy = (below.exp() * (shares > 0)).sum(-1).log() - (shares * below).sum(-1)
        self.entropies = self.entropies + torch.where(counts, entropy, 0).double().sum(-1)
        self.rows = self.rows + counts.sum(-1)
        most = torch.where(counts, largest, -math.inf).amax(-1)
        self.largest = most if self.largest is None else torch.maximum(self.largest, most)
        if self.wants_map:
            self.maps.append(shares)

    def values(self) -> dict[str, torch.Tensor]:
        found = {"entropy": (self.entropies / self.rows).float(), "max_logit": self.largest}
        if self.wants_map:
            found["map"] = torch.cat(self.maps, -2)
        return found


class Attention:
    """The attention of one model."""

    def __init__(self, watcher: Any) -> None:
        self.watcher = watcher
        self.names = {id(module): layer for module, layer in watcher.layers}
        self.signals: dict[tuple[str, str], Any] = {}
        self.listens = False
        self.of_pass = (-1, 0)  # calls are: the step's serial number, and the pass of it
        self.calls: dict[str, int] = {}

    def open_step(self, due: bool) -> None:
        """The first steps that are due find out which modules attend; later ones ask only for what is wanted."""
        known = list(self.signals.values())
        deck = self.watcher.deck  # by epochs: asking would begin the step, before an end_epoch() that may follow
        needed = due and (not known or deck._by_epoch or deck._native.wants_any(known))
        if needed != self.listens:
            (_observe.attention.add if needed else _observe.attention.remove)(self.see)
            self.listens = needed

    def before_update(self) -> None:
        pass

    def finish(self) -> None:
        self.open_step(False)

    def see(self, kind: str, values: tuple) -> None:
        if not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
            return
        self.watcher.guard("attention", self._record, kind, values)

    def _owner(self, kind: str) -> Any:
        """The innermost module of the model that is running."""
        frame: Any = sys._getframe(4)
        within = kind != "softmax"
        for _ in range(_FRAMES):
            if frame is None:
                break
            within = within or frame.f_code.co_name == "multi_head_attention_forward"
            layer = self.names.get(id(frame.f_locals.get("self")))
            if layer is not None:
                return (layer if within else None), frame.f_locals["self"]
            frame = frame.f_back
        return None, None

    def _signal(self, name: str, layer: Any, word: str) -> Any:
        signal = self.signals.get((name, word))
        if signal is None:
            signal = self.watcher.declare(f"{name}.{word}", kind="derived", layer=layer.name, order=layer.order, batched=True)
            self.signals[name, word] = signal
        return signal

    def _record(self, kind: str, values: tuple) -> None:
        layer, module = self._owner(kind)
        if layer is None or not self.watcher.begin_pass() or (self.watcher.passes > 1 and not self.watcher.merges):
            return
        if self.of_pass != (self.watcher.serial, self.watcher.passes):
            self.of_pass, self.calls = (self.watcher.serial, self.watcher.passes), {}
        call = self.calls.get(layer.name, 0)
        self.calls[layer.name] = call + 1
        name = layer.name + (f"@{call}" if call else "")
        wanted = [word for word in _WORDS if self._signal(name, layer, word).wants()]
        if not wanted:
            return
        with torch.no_grad():
            heads = Heads("map" in wanted)
            if kind == "softmax":
                scores = values[0].detach().float()
                scores = scores.view(-1, module.num_heads, *scores.shape[-2:]) if scores.dim() == 3 else scores
                heads.add(scores)
            else:
                _add_products(heads, *values)
        found = heads.values()
        for word in wanted:
            self.watcher.put(self.signals[name, word], found[word], self.watcher.merges)


def _add_products(heads: Heads, query: torch.Tensor, key: torch.Tensor, mask: Any, causal: bool, scale: Any, grouped: bool) -> None:
    query, key = query.detach().float(), key.detach().float()
    if query.dim() == 3:
        query, key = query[:, None], key[:, None]
        mask = mask[:, None] if mask is not None and mask.dim() == 3 else mask
    if grouped:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    rows = query.shape[-2]
    block = max(1, _BLOCK // max(1, query[..., 0, 0].numel() * key.shape[-2]))
    for first in range(0, rows, block):
        scores = query[..., first:first + block, :] @ key.transpose(-2, -1) * scale
        heads.add(_masked(scores, mask, causal, first))
