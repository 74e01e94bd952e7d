"""How the processes of a training hold a tensor: the words of docs/distributed.md. Nothing here communicates."""

from __future__ import annotations

from typing import Any


def _words(tensor: Any) -> list[tuple[str, str]]:
    """(mesh dimension, word) for each placement of a DTensor."""
    names = tensor.device_mesh.mesh_dim_names or [f"d{i}" for i in range(tensor.device_mesh.ndim)]
    words = []
    for name, placement in zip(names, tensor.placements):
        word = (f"shard:{placement.dim}" if placement.is_shard() else
                "replicated" if placement.is_replicate() else "partial")
        words.append((name, word))
    return words


def placement_of(tensor: Any) -> str | None:
    """Of a parameter, its gradient and its update. None: it is no distributed tensor, so each process has all of it."""
    if not hasattr(tensor, "device_mesh"):
        return None
    words = _words(tensor)
    return words[0][1] if len(words) == 1 and tensor.device_mesh.mesh_dim_names is None else ",".join(
        f"{name}={word}" for name, word in words)


def mesh_of(model: Any) -> str:
    """This process's coordinates in the mesh of the model's parameters with most dimensions; "" without a mesh of names."""
    meshes = [p.device_mesh for p in model.parameters() if hasattr(p, "device_mesh")]
    mesh = max(meshes, key=lambda each: each.ndim, default=None)
    if mesh is None or mesh.mesh_dim_names is None or mesh.get_coordinate() is None:
        return ""
    return ",".join(f"{name}={at}" for name, at in zip(mesh.mesh_dim_names, mesh.get_coordinate()))


def activations_of(model: Any) -> str | None:
    """Of outputs and errors: parts of the batch, unless parameters are split and not by FSDP2. Then a process may have
    all of an output, a part or a term of it, and nothing of that can be put together."""
    split = any(hasattr(p, "device_mesh") for p in model.parameters())
    meshes = {p.device_mesh.ndim for p in model.parameters() if hasattr(p, "device_mesh")}
    by_fsdp = any(type(module).__name__.startswith("FSDP") for module in model.modules())
    return "partial" if split and (not by_fsdp or max(meshes) > 1) else None
