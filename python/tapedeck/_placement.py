"""How the processes of a training hold a tensor: the words of docs/distributed.md. Nothing here communicates."""

from __future__ import annotations

from typing import Any

# Nodes of the graph behind which a tensor is held as the one before.
_ELEMENTWISE = frozenset(f"{name}Backward0" for name in (
    "Alias", "Elu", "Gelu", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyRelu", "Relu", "Sigmoid", "Silu", "Softplus", "Tanh"))
_MOST_NODES = 8


def _root(mesh: Any) -> Any:
    """The mesh that this one is a part of."""
    find = getattr(mesh, "_get_root_mesh", None)
    return mesh if find is None else find() or mesh


def _names(mesh: Any) -> tuple[str, ...]:
    return mesh.mesh_dim_names or tuple(f"d{i}" for i in range(mesh.ndim))


def _words(mesh: Any, placements: Any) -> dict[str, str]:
    """The word for each dimension of the mesh. (A strided shard is one that does not call itself a shard.)"""
    return {name: "replicated" if placement.is_replicate() else "partial" if placement.is_partial() else f"shard:{placement.dim}"
            for name, placement in zip(_names(mesh), placements)}


def _text(mesh: Any, words: dict[str, str]) -> str:
    if len(words) == 1 and mesh.mesh_dim_names is None:
        return next(iter(words.values()))
    return ",".join(f"{name}={word}" for name, word in words.items())


def placement_of(tensor: Any) -> str | None:
    """Of a parameter, its gradient and its update. None: it is no distributed tensor, so each process has all of it."""
    if not hasattr(tensor, "device_mesh"):
        return None
    return _text(tensor.device_mesh, _words(tensor.device_mesh, tensor.placements))


def _largest_mesh(model: Any) -> Any:
    """That of the model's parameters with most dimensions; None when no parameter is distributed."""
    return max((p.device_mesh for p in model.parameters() if hasattr(p, "device_mesh")), key=lambda mesh: mesh.ndim, default=None)


def mesh_of(model: Any) -> str:
    """This process's coordinates in the mesh of the model; "" where its only dimension has no name."""
    mesh = _largest_mesh(model)
    root = None if mesh is None else _root(mesh)
    if root is None or root.get_coordinate() is None or (root.ndim == 1 and root.mesh_dim_names is None):
        return ""
    return ",".join(f"{name}={at}" for name, at in zip(_names(root), root.get_coordinate()))


def _data_dimensions(model: Any) -> int:
    """Of the mesh: those over which FSDP2 splits the batch."""
    for module in model.modules():
        state = module._get_fsdp_state() if hasattr(module, "_get_fsdp_state") else None
        group = getattr(state, "_fsdp_param_group", None)
        if group is not None:
            return int(group.mesh_info.mesh.ndim)
    return 0


class Activations:
    """Of a model's outputs and errors: parts of the batch, unless parameters are also split in another way than FSDP2's.
    Then PyTorch's graph says of what comes from a distributed layer how it is held; of anything else a process may have
    all, a part or a term: that is not put together."""

    def __init__(self, model: Any, world: int) -> None:
        mesh = _largest_mesh(model)
        self.parted = mesh is not None and mesh.ndim > _data_dimensions(model)
        self.mesh = _root(mesh) if self.parted else None
        self.whole = self.mesh is not None and self.mesh.size() == world  # otherwise there are dimensions that are not known here

    def placement_of(self, tensor: Any) -> str | None:
        """None: part of the batch."""
        if not self.parted:
            return None
        words = _spec_words(tensor)
        if words is None or not self.whole or not words.keys() <= set(_names(self.mesh)) or "partial" in words.values():
            return "partial"
        return _text(self.mesh, {name: words.get(name, "batch") for name in _names(self.mesh)})


def _spec_words(tensor: Any) -> dict[str, str] | None:
    if hasattr(tensor, "device_mesh"):
        return _words(tensor.device_mesh, tensor.placements)
    node = tensor.grad_fn
    for _ in range(_MOST_NODES):
        spec = getattr(node, "dtensor_spec", None)  # the node of DTensor.to_local()
        if spec is not None:
            return _words(spec.mesh, spec.placements)
        if node is None or node.name() not in _ELEMENTWISE:
            return None
        node = node.next_functions[0][0]
    return None
