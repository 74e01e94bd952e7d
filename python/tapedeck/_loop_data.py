"""What examples and their labels are like, of any framework: whether neighbours have the same class, whether validation examples
are copies of training examples, whether labels are those of other classes. Arrays of numpy come in, numbers for facts come out."""

from __future__ import annotations

import zlib
from typing import Any

import numpy

EXAMPLES = 400  # whose neighbours are looked at
COLUMNS = 1024  # of an example that its distance is made of
CLASSES = 64  # whose predictions are counted


def flat_rows(values: Any) -> numpy.ndarray:
    """Examples as rows of at most about `COLUMNS` numbers; the odd stride does not stay in one column of an image."""
    rows = numpy.asarray(values)
    rows = rows.reshape(len(rows), -1)
    return rows[:, :: (rows.shape[1] // COLUMNS) | 1] if rows.shape[1] > COLUMNS else rows


def classes_of(labels: Any) -> numpy.ndarray | None:
    """Whole numbers from labels: classes, a column of them, one-hot rows, 0 and 1 as floats. None: they are no classes."""
    labels = numpy.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] > 1:
        is_one_hot = labels.size and bool(((labels == 0) | (labels == 1)).all() and (labels.sum(1) == 1).all())
        return labels.argmax(1) if is_one_hot else None
    if labels.ndim > 2 or labels.size == 0 or labels.size != len(labels) or labels.dtype.kind not in "iufb":
        return None
    labels = labels.reshape(-1)
    if labels.dtype.kind == "f":
        if not bool(numpy.isin(labels, (0, 1)).all()):
            return None
    return labels.astype(numpy.int64)


def agreement(examples: Any, labels: numpy.ndarray) -> dict[str, float] | None:
    """How often the nearest other example has the same class, how often any other has it, and how far the nearest is."""
    rows = flat_rows(examples)[:EXAMPLES].astype(numpy.float64)
    labels = labels[:EXAMPLES]
    if len(rows) < 64 or not bool(numpy.isfinite(rows).all()) or len(numpy.unique(labels)) < 2:
        return None
    deviation = rows.std(0)
    rows = (rows - rows.mean(0)) / numpy.where(deviation > 0, deviation, 1)
    squares = (rows * rows).sum(1)
    distances = squares[:, None] + squares[None, :] - 2 * rows @ rows.T
    numpy.fill_diagonal(distances, numpy.inf)
    nearest = distances.argmin(1)
    shares = numpy.unique(labels, return_counts=True)[1] / len(labels)
    return {"examples": len(rows), "same": float((labels[nearest] == labels).mean()), "chance": float((shares * shares).sum()),
            "distance": float(numpy.sqrt(numpy.maximum(distances.min(1), 0)).mean()), "told": _told(rows, labels),
            "most": float(shares.max())}


def _told(rows: numpy.ndarray, labels: numpy.ndarray) -> float:
    """How often the nearest mean of a class is that of an example's own, which the example itself is no part of."""
    names, places, counts = numpy.unique(labels, return_inverse=True, return_counts=True)
    if len(names) > CLASSES or counts.min() < 2:
        return 0.0
    sums = numpy.stack([rows[places == i].sum(0) for i in range(len(names))])
    means = sums / counts[:, None]
    distances = ((rows[:, None] - means[None]) ** 2).sum(2) if rows.size * len(names) < 1 << 24 else \
        (rows * rows).sum(1)[:, None] + (means * means).sum(1)[None] - 2 * rows @ means.T
    own = (sums[places] - rows) / (counts[places] - 1)[:, None]
    distances[numpy.arange(len(rows)), places] = ((rows - own) ** 2).sum(1)
    return float((distances.argmin(1) == places).mean())


def agreement_in_batch(examples: Any, labels: numpy.ndarray) -> tuple[float, float] | None:
    """How often an example's nearest neighbour of the same batch has its class, and by chance."""
    rows, labels = flat_rows(examples)[:64].astype(numpy.float64), labels[:64]
    counts = numpy.unique(labels, return_counts=True)[1]
    if len(rows) < 8 or len(counts) < 2 or len(counts) > len(rows) // 2 or not bool(numpy.isfinite(rows).all()):
        return None
    squares = (rows * rows).sum(1)
    distances = squares[:, None] + squares[None, :] - 2 * rows @ rows.T
    numpy.fill_diagonal(distances, numpy.inf)
    chance = (counts * (counts - 1)).sum() / (len(rows) * (len(rows) - 1))
    return float((labels[distances.argmin(1)] == labels).mean()), float(chance)


def digests(examples: Any) -> list[int]:
    """A number for each example: equal examples have equal ones."""
    rows = numpy.ascontiguousarray(flat_rows(examples))
    return [zlib.crc32(row.tobytes()) << 16 | zlib.adler32(row.tobytes()) & 0xFFFF for row in rows]


class Predictions:
    """Counts which class a model predicts for examples of each class: (label, predicted)."""

    def __init__(self) -> None:
        self.counts: numpy.ndarray | None = None

    def add(self, outputs: numpy.ndarray, labels: numpy.ndarray) -> None:
        """`outputs` has a column for each class, or is one number whose sign (of a logit) says it."""
        classes = outputs.shape[1]
        if classes > CLASSES or classes < 2 or int(labels.min()) < 0 or int(labels.max()) >= classes:
            return
        if self.counts is None:
            self.counts = numpy.zeros((classes, classes), numpy.int64)
        if self.counts.shape == (classes, classes):
            numpy.add.at(self.counts, (labels, outputs.argmax(1)), 1)

    def _renamed(self) -> int:
        """How many are right when each label is given the name of one class, the most frequent first."""
        left, right = self.counts.copy(), 0
        for _ in range(len(left)):
            label, said = numpy.unravel_index(left.argmax(), left.shape)
            right += max(0, int(left[label, said]))
            left[label, :] = left[:, said] = -1
        return right

    def facts(self) -> dict[str, Any] | None:
        """The share that is right, and the share that would be if labels had the names of other classes."""
        if self.counts is None or not self.counts.sum():
            return None
        total = int(self.counts.sum())
        said = self.counts.argmax(1)
        present = self.counts.sum(1) > 0
        others = present & (said != numpy.arange(len(said)))
        label = int(numpy.where(others, self.counts.max(1), -1).argmax()) if others.any() else 0
        expected = float((self.counts.sum(1) * self.counts.sum(0)).sum()) / total**2
        return {"examples": total, "expected": expected, "classes": int(present.sum()), "right": float(numpy.trace(self.counts)) / total,
                "renamed": self._renamed() / total, "moved": int(others.sum()),
                "label": label, "said": int(said[label])}


def purity(labels: numpy.ndarray, batch: int) -> dict[str, float] | None:
    """How often two examples of a batch have the same class, in the order given, and two of all examples."""
    count = len(labels) // batch
    if count < 2 or batch < 4 or int(labels.min()) < 0:
        return None
    shares = numpy.unique(labels, return_counts=True)[1] / len(labels)
    inside = [numpy.square(numpy.unique(labels[i * batch : (i + 1) * batch], return_counts=True)[1] / batch).sum()
              for i in range(min(count, 256))]
    return {"count": len(shares), "batches": len(inside), "purity": float(numpy.mean(inside)),
            "chance": float((shares * shares).sum()), "labels": len(labels)}
