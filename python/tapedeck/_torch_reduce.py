"""Statistics and histograms of PyTorch tensors, on the device that holds them.

The results are those of the library's own pass (src/core/tensor): histograms, counts, minimum and maximum to the last bit;
mean, std and norm from sums in float64. Nothing waits for the device: results stay there until `Reductions.fetch` copies
those of a step together.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import torch

from . import _native

FORCED = False  # tests: tensors in the CPU's memory go this way, too
_SMALLEST = 2048  # fewer elements are copied: they take no more room than what is known of them
_MOST = 2**31 - 1  # a count is an int32
_BINS = 4096
_CHUNK = 1 << 24  # elements at a time: what is computed of them takes 8 bytes each
_LARGEST = torch.finfo(torch.float32).max
_EXACT = frozenset({torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.uint8, torch.int16,
                    *([torch.uint16] if hasattr(torch, "uint16") else [])})  # every value of them is a float32
_TENSOR, _HISTOGRAM = _native.FORMS["tensor"], _native.FORMS["histogram"]
_TAIL = struct.Struct("<4q5d")


def _chunks(flat: torch.Tensor) -> Iterator[torch.Tensor]:
    """In a type that the library counts in, too: float32, or float64 where that does not hold every value."""
    for chunk in flat.split(_CHUNK):
        yield chunk.float() if chunk.dtype in _EXACT else chunk.double()


def _count_bins(chunk: torch.Tensor) -> torch.Tensor:
    """Counts by the upper twelve bits of a float32; what is too large for one counts as the largest. The negative numbers
    closest to zero share theirs with -0, which counts as 0."""
    if chunk.dtype == torch.float64:
        chunk = torch.where(chunk.isinf(), chunk, chunk.clamp(-_LARGEST, _LARGEST)).float()
    bits = chunk.view(torch.int32)
    entries = torch.where((bits & 0x7FFFFFFF) == 0, 0, (bits >> 20) & 0xFFF).long()
    ones = torch.ones((), dtype=torch.int32, device=bits.device).expand(entries.shape)
    return torch.zeros(_BINS, dtype=torch.int32, device=bits.device).scatter_add_(0, entries, ones)  # bincount would wait


def _first_nonfinite(chunk: torch.Tensor, begin: int) -> torch.Tensor:
    bad = ~chunk.isfinite()
    return torch.where(bad.any(), bad.to(torch.uint8).argmax() + begin, _MOST)


def reduce(tensor: torch.Tensor, histogram: bool) -> torch.Tensor:
    """What is known of a tensor, in one vector of int32 on its device: 4096 counts if there is to be a histogram, then four
    integers and five floats of 8 bytes each."""
    flat = tensor.detach().reshape(-1)
    finite = nan = zeros = 0
    first, low, high = [], [], []
    for i, chunk in enumerate(_chunks(flat)):
        good = chunk.isfinite()
        finite, nan, zeros = finite + good.sum(), nan + chunk.isnan().sum(), zeros + (chunk == 0).sum()
        low.append(torch.where(good, chunk, torch.inf).amin())
        high.append(torch.where(good, chunk, -torch.inf).amax())
        first.append(_first_nonfinite(chunk, i * _CHUNK))
    least, most = torch.stack(low).amin().double(), torch.stack(high).amax().double()
    scale = torch.maximum(least.abs(), most.abs())  # squares of any double neither overflow nor vanish
    scale = torch.where((scale > 0) & scale.isfinite(), scale, 1.0) if flat.dtype == torch.float64 else torch.ones_like(scale)
    scaled = lambda chunk: torch.where(chunk.isfinite(), chunk.double() / scale, 0)  # noqa: E731
    mean = sum(scaled(chunk).sum() for chunk in _chunks(flat)) / finite
    squares = sum(torch.where(chunk.isfinite(), scaled(chunk) - mean, 0).square().sum() for chunk in _chunks(flat))
    integers = torch.stack([finite, zeros, nan, torch.stack(first).amin()])
    parts = [integers.view(torch.int32), torch.stack([mean, squares, scale, least, most]).view(torch.int32)]
    if histogram:
        parts.insert(0, torch.stack([_count_bins(chunk) for chunk in _chunks(flat)]).sum(0, dtype=torch.int32))
    return torch.cat(parts)


def _summary(data: bytes, count: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    finite, zeros, nan, first, mean, squares, scale, least, most = _TAIL.unpack(data)
    integers = (count, zeros, nan, count - finite - nan, first if finite < count else -1)
    if finite == 0:
        return integers, (math.nan,) * 5
    moments = (mean * scale, math.sqrt(squares / finite) * scale)
    return integers, (*moments, least + 0.0, most + 0.0, math.sqrt(squares + finite * mean * mean) * scale)


class Reduction:
    """A tensor's, under way."""

    __slots__ = ("signal", "dtype", "shape", "count", "histogram", "more", "vector")

    def __init__(self, signal: Any, tensor: torch.Tensor, histogram: bool, more: bool) -> None:
        self.signal, self.histogram, self.more = signal, histogram, more
        self.dtype, self.shape, self.count = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.numel()
        with torch.no_grad():
            self.vector = reduce(tensor.resolve_neg(), histogram)

    def put(self, data: bytes) -> None:
        table, tail = (data[:4 * _BINS], data[4 * _BINS:]) if self.histogram else (None, data)
        integers, floats = _summary(tail, self.count)
        self.signal.put_summary(self.dtype, self.shape, integers, floats, table, self.more)


class Reductions:
    """Those of one step."""

    def __init__(self) -> None:
        self.waiting: dict[torch.device, list[Reduction]] = {}
        self.streams: dict[torch.device, set[Any]] = {}

    def takes(self, tensor: torch.Tensor, forms: int) -> bool:
        """Where nothing needs the elements; mps has no float64."""
        return ((FORCED or not tensor.is_cpu) and not forms & _TENSOR and _SMALLEST <= tensor.numel() <= _MOST
                and tensor.device.type != "mps" and not tensor.is_complex())

    def add(self, signal: Any, tensor: torch.Tensor, forms: int, more: bool) -> None:
        self.waiting.setdefault(tensor.device, []).append(Reduction(signal, tensor, bool(forms & _HISTOGRAM), more))
        if tensor.is_cuda:  # a backward pass may have streams of its own
            self.streams.setdefault(tensor.device, set()).add(torch.cuda.current_stream(tensor.device))

    def fetch(self, refuse: Any) -> None:
        """Records them: one copy from each device."""
        fetched = [(each, *self._copy(device, each)) for device, each in self.waiting.items()]
        self.waiting.clear()
        for reductions, host, done in fetched:
            if done is not None:
                done.synchronize()
            data, begin = host.numpy().tobytes(), 0
            for each in reductions:
                end = begin + 4 * each.vector.numel()
                try:
                    each.put(data[begin:end])
                except Exception as error:
                    refuse(each.signal, error)
                begin = end

    def _copy(self, device: torch.device, reductions: list[Reduction]) -> tuple[torch.Tensor, Any]:
        for stream in self.streams.pop(device, ()):
            torch.cuda.current_stream(device).wait_stream(stream)
        every = torch.cat([each.vector for each in reductions])
        host = torch.empty(every.shape, dtype=every.dtype, pin_memory=every.is_cuda)
        host.copy_(every, non_blocking=True)
        done = None
        if every.is_cuda:
            done = torch.cuda.Event()
            done.record(torch.cuda.current_stream(device))
        return host, done
