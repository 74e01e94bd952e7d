"""The states of the random generators that a training uses: Python's, NumPy's, PyTorch's on the CPU and on each GPU."""

from __future__ import annotations

import random
import sys
import zlib
from typing import Any

import torch

from ._capsule import Array

_BITS = (1 << 48) - 1  # exact in a float64 and in JSON


def states() -> dict[str, Any]:
    found: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        found["numpy"] = sys.modules["numpy"].random.get_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.get_rng_state_all()
    return found


def fingerprint(found: dict[str, Any]) -> int:
    """The same for the same states, in every process."""
    generators = [found["torch"], *found.get("cuda", ())]
    code = 0
    for state in generators:
        code = zlib.crc32(state.cpu().numpy(), code)
    code = zlib.crc32(str((found["python"][1][-1], hash(found["python"][1]))).encode(), code)
    if "numpy" in found:
        _, keys, position, *rest = found["numpy"]
        code = zlib.crc32(keys, code)
        code = zlib.crc32(str((position, *rest)).encode(), code)
    return (code << 16 | zlib.adler32(found["torch"].numpy()[-64:]) & 0xFFFF) & _BITS


def as_arrays(found: dict[str, Any]) -> dict[str, Any]:
    """For a capsule's file."""
    import numpy

    version, numbers, gauss = found["python"]
    arrays: dict[str, Any] = {"python": [version, Array(numpy.array(numbers, numpy.uint32)), gauss],
                              "torch": Array(found["torch"].numpy())}
    if "numpy" in found:
        kind, keys, *rest = found["numpy"]
        arrays["numpy"] = [kind, Array(keys), *rest]
    if "cuda" in found:
        arrays["cuda"] = [Array(state.cpu().numpy()) for state in found["cuda"]]
    return arrays


def restore(arrays: dict[str, Any]) -> None:
    """The states that `as_arrays` gave."""
    version, numbers, gauss = arrays["python"]
    random.setstate((version, tuple(map(int, numbers.data)), gauss))
    torch.set_rng_state(torch.from_numpy(arrays["torch"].data.copy()))
    if "numpy" in arrays:
        import numpy

        kind, keys, *rest = arrays["numpy"]
        numpy.random.set_state((kind, keys.data, *rest))
    if "cuda" in arrays and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([torch.from_numpy(state.data.copy()) for state in arrays["cuda"]])
