"""How the layers of a PyTorch model are connected, as the viewer shows it: seen in autograd's graph of the first recorded step."""

from __future__ import annotations

import json
from typing import Any

import torch

_ABOUT = 200  # characters of what a module says of itself


class Network:
    """The outputs of one step's forward pass, in the order of the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, int, torch.Size, list[Any]]] = []  # name, layer, call, shape, nodes of the graph

    def see(self, layer: Any, call: int, tensors: list[torch.Tensor]) -> None:
        if not layer.is_root and tensors:
            self.calls.append((layer.name + (f"@{call}" if call else ""), layer, call, tensors[0].shape,
                               [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]))

    def text(self, layers: list[tuple[torch.nn.Module, Any]]) -> str:
        """The note `network`: JSON, a list of layers as native runs have it."""
        modules = {id(layer): module for module, layer in layers}
        makers = {node: name for name, _, _, _, nodes in self.calls for node in nodes}
        place = {call[0]: i for i, call in enumerate(self.calls)}
        batch = next((shape[0] for _, _, _, shape, _ in self.calls if len(shape) > 1), None)
        made, outside = [], []  # outside: the last layer that autograd does not see, because nothing before it is trained
        for name, layer, call, shape, nodes in self.calls:
            module = modules[id(layer)]
            sources = sorted(_sources(nodes, makers), key=place.__getitem__) or outside
            size = tuple(shape[1:] if len(shape) > 1 and shape[0] == batch else shape)
            own = [] if call else [p for p in module.parameters(recurse=False) if not torch.nn.parameter.is_lazy(p)]
            made.append({"name": name, "kind": type(module).__name__, "shape": str(size), "parameters": sum(p.numel() for p in own),
                         "from": sources, "about": module.extra_repr()[:_ABOUT]})
            outside = outside if nodes else [name]
        return json.dumps(made)


def _sources(nodes: list[Any], makers: dict[Any, str]) -> set[str]:
    """The layers whose outputs these nodes of the graph are computed from, without a layer between."""
    found: set[str] = set()
    seen = set(nodes)
    waiting = list(nodes)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is None or node in seen:
                continue
            seen.add(node)
            if node in makers:
                found.add(makers[node])
            else:
                waiting.append(node)
    return found
