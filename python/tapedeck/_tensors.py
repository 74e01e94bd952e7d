"""PyTorch tensors as the library reads them: in the CPU's memory, with elements of a type that it has."""

from __future__ import annotations

from typing import Any

import torch

# A complex tensor is two signals.
COMPLEX = (("real", lambda tensor: tensor.real), ("imag", lambda tensor: tensor.imag))
_DIRECT = frozenset({
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, *(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)),
})
# Every value of these is a float32. Two elements in a byte (float4_e2m1fn_x2) have no place here.
_WIDENED = frozenset(
    getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if hasattr(torch, name)
)


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """The same values without gradient, as a dense tensor that the library can read: of a distributed tensor this
    process's shard. Raises TypeError with the type's name where there is none."""
    tensor = tensor.detach()
    if hasattr(tensor, "_local_tensor"):  # DTensor
        tensor = tensor._local_tensor
    if hasattr(tensor, "wait"):  # the result of a collective that is under way
        tensor = tensor.wait()
    if tensor.is_sparse:
        tensor = tensor.coalesce().to_dense()
    elif tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.dtype in _WIDENED:
        return tensor.to(torch.float32)
    if tensor.is_complex():
        return tensor if tensor.dtype in (torch.complex64, torch.complex128) else tensor.to(torch.complex64)
    if tensor.dtype not in _DIRECT:
        raise TypeError(f"elements of {tensor.dtype} are not recorded")
    return tensor


def put(signal: Any, tensor: torch.Tensor, more: bool = False) -> None:
    """Records a tensor that is in the CPU's memory, or another part of what the open step has."""
    tensor = readable(tensor).resolve_neg()
    try:
        (signal.add if more else signal.put)(tensor)
    except (TypeError, BufferError, RuntimeError):  # an older PyTorch, without DLPack's interface
        if more:  # every value of both is a float32
            signal.add(tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy())
        elif tensor.dtype == torch.bfloat16:
            signal.record(tensor.contiguous().view(torch.int16).numpy(), dtype="bfloat16")
        else:
            signal.record(tensor.numpy())


def host_parts(name: str, tensor: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
    """A tensor as signals: its name, or NAME.real and NAME.imag."""
    tensor = readable(tensor).cpu()
    if tensor.is_complex():
        return [(f"{name}.{part}", pick(tensor.resolve_conj())) for part, pick in COMPLEX]
    return [(name, tensor)]
