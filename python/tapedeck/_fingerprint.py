"""Small numbers that stand for tensors: equal tensors have equal ones, in every process."""

from __future__ import annotations

import zlib

import torch

_MASK = (1 << 48) - 1  # exact in every reader of JSON
_BATCH_ELEMENTS = 4096  # of a batch that its fingerprint is made of
_PARAMETER_ELEMENTS = 64


def spread(flat: torch.Tensor, maximum: int) -> torch.Tensor:
    """At most about `maximum` elements from all over the last axis. The odd stride does not stay in one column of an image."""
    count = flat.shape[-1]
    return flat if count <= maximum else flat[..., :: (count // maximum) | 1]


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This process's part of a distributed tensor: asking for the whole would be a collective operation."""
    return getattr(tensor, "_local_tensor", tensor)


def sample(tensor: torch.Tensor) -> torch.Tensor:
    """Some elements of a parameter or its gradient."""
    return spread(local(tensor.detach()).reshape(-1), _PARAMETER_ELEMENTS)


def middle_of(some: torch.Tensor) -> float:
    """How large those of some numbers are that are not 0, in the middle: few that are far larger say nothing of the others."""
    sizes = some[some != 0].abs()
    return float(sizes.median()) if len(sizes) else 0.0


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def bytes_of_rows(tensor: torch.Tensor, places: list[int]) -> list[bytes]:
    """Of a tensor on the CPU. Types that numpy does not have are read as whole numbers of their size."""
    size = tensor.element_size()
    rows = (tensor.view(torch.int16 if size == 2 else torch.uint8) if size < 4 and tensor.is_floating_point() else tensor).numpy()
    return [rows[i].tobytes() for i in places]


def digest(data: bytes) -> int:
    """The same in every process, as hash() of bytes is not."""
    return zlib.crc32(data) << 16 | zlib.adler32(data[::-1]) & 0xFFFF


def of_batch(tensor: torch.Tensor) -> int:
    flat = tensor.detach().reshape(-1)
    return hash((tuple(tensor.shape), digest(bytes_of(spread(flat, _BATCH_ELEMENTS))))) & _MASK
