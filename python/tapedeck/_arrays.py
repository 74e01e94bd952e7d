"""What is no array for the library, as arrays that are."""

from __future__ import annotations

from typing import Any


def as_arrays(name: str, value: Any) -> list[tuple[str, Any, str | None]]:
    """What is no array for the library, as signals that are: lists, device tensors, types of elements that NumPy has not,
    complex numbers as NAME.real and NAME.imag."""
    import numpy

    if hasattr(value, "detach"):
        import torch

        from ._tensors import host_parts

        return [(part, tensor.contiguous().view(torch.int16).numpy(), "bfloat16") if tensor.dtype == torch.bfloat16
                else (part, tensor.numpy(), None) for part, tensor in host_parts(name, value)]
    array = numpy.asarray(value)
    kind = array.dtype.name
    if kind == "bfloat16":
        return [(name, numpy.ascontiguousarray(array).view(numpy.uint16), "bfloat16")]
    if kind.startswith(("float8_", "float6_", "float4_")):  # of ml_dtypes
        return [(name, array.astype(numpy.float32), None)]
    if kind in ("int4", "uint4", "int2", "uint2"):
        return [(name, array.astype(numpy.int8), None)]
    if kind in ("complex64", "complex128"):
        return [(f"{name}.real", array.real, None), (f"{name}.imag", array.imag, None)]
    if array.dtype.hasobject or array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise TypeError(f"arrays of {array.dtype} are not recorded")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return [(name, array if array.flags.aligned else array.copy(), None)]
