"""What examples and their labels are like, of any framework: whether neighbours have the same class, whether validation examples
are copies of training examples, whether labels are those of other classes. Arrays of numpy come in, numbers for facts come out."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator
from typing import Any

import numpy

EXAMPLES = 400  # whose neighbours are looked at
COLUMNS = 1024  # of an example that its distance is made of
_TELLING = 4  # whole numbers of an example: fewer are no name
CLASSES = 64  # whose predictions are counted
_BAGS = 256  # columns of counts of words
_CELLS = 1 << 20  # of a table of tokens and labels
_TOKEN_ORDERS = 19
_CHANNELS = 8  # of inputs with a target for each place
_COLUMN_ORDERS = 19
_ORDERS = 99  # that values are put into: a result that all of them stay below comes by chance in one of a hundred
_NEAREST = (3, 12)  # neighbours whose mean tells a value
_PENALTIES = (0.1, 3.0)  # of ridge regression, of the mean length of a row


def as_json(facts: dict[str, Any]) -> str:
    """The note of a loop. JSON has no NaN and no infinity: they are left out, or nothing of the note could be read."""
    try:
        return json.dumps(facts, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(facts))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items() if not (isinstance(each, float) and not math.isfinite(each))}
    return [_finite(each) for each in value] if isinstance(value, list) else value


def flat_rows(values: Any) -> numpy.ndarray:
    """Examples as rows of at most about `COLUMNS` numbers; the odd stride does not stay in one column of an image."""
    rows = numpy.asarray(values)
    rows = rows.reshape(len(rows), -1)
    return rows[:, :: (rows.shape[1] // COLUMNS) | 1] if rows.shape[1] > COLUMNS else rows


def is_told_apart(examples: Any) -> bool:
    """Whether examples that are equal are copies: rows of a few whole numbers, as a user and an item, come again by chance."""
    is_whole = not examples.is_floating_point() if hasattr(examples, "is_floating_point") else examples.dtype.kind in "iub"
    return len(examples.shape) > 1 and not (is_whole and math.prod(examples.shape[1:]) < _TELLING)


def bag_of_words(examples: Any) -> numpy.ndarray:
    """Rows of whole numbers as rows of counts: of each number, and of each pair of neighbours. Counts of several share a column."""
    words = numpy.asarray(examples).astype(numpy.int64)
    words = words.reshape(len(words), -1)
    pairs = (words[:, :-1] * 1000003 + words[:, 1:]) * 7919
    rows = numpy.zeros((len(words), _BAGS))
    for found in (words * 31, pairs):
        columns = (found ^ (found >> 15)) % _BAGS
        numpy.add.at(rows, (numpy.arange(len(rows))[:, None], columns), 1)
    return rows


def token_dependence(tokens: numpy.ndarray, labels: numpy.ndarray) -> dict[str, float] | None:
    """Of sequences with a label for each place: how often the most frequent label of the other places with the same token (there, before it or
    after it), or the same two, is the right one, and how often at best where labels are those of other sequences. Labels below 0 are none."""
    if len(tokens) < 8 or tokens.shape[1] < 3:
        return None
    orders = numpy.random.default_rng(0)
    classes = numpy.unique(labels, return_inverse=True)[1].reshape(labels.shape)[:, 1:-1]
    before, here, after = (tokens[:, i : tokens.shape[1] - 2 + i].astype(numpy.int64) for i in range(3))
    keys = [numpy.unique(key, return_inverse=True)[1].reshape(key.shape)
            for key in (before, here, after, before * 1000003 + here, here * 1000003 + after)]
    has_label = labels[:, 1:-1] >= 0
    if max(int(key.max()) + 1 for key in keys) * (int(classes.max()) + 2) > _CELLS or not has_label.any():
        return None
    told = [max(_told_by_key(key[has_label[order]], classes[order][has_label[order]]) for key in keys)
            for order in [numpy.arange(len(tokens))] + [orders.permutation(len(tokens)) for _ in range(_TOKEN_ORDERS)]]
    return {"examples": int(has_label.sum()), "same": told[0], "chance": max(told[1:]),
            "copied": float((labels == tokens)[:, 1:-1][has_label].mean())}


def _told_by_key(key: numpy.ndarray, label: numpy.ndarray) -> float:
    table = numpy.zeros((int(key.max()) + 1, int(label.max()) + 2), numpy.int64)  # the last column stays 0: there is a second label
    numpy.add.at(table, (key, label), 1)
    best = numpy.partition(table, -2, axis=1)[:, -2:]
    own = table[key, label]
    others = numpy.where(own == best[key, 1], best[key, 0], best[key, 1])
    return float((own - 1 > others).mean())


def place_dependence(inputs: numpy.ndarray, targets: numpy.ndarray) -> dict[str, float] | None:
    """Of examples with a target for each place, as masks have: how far the numbers of a channel and the targets go up and down together, and at best
    with targets that are those of other examples. `inputs`: (examples, channels, places)."""
    if not (numpy.isfinite(inputs).all() and numpy.isfinite(targets).all()):
        return None

    def standard(values: numpy.ndarray) -> numpy.ndarray:
        values = values - values.mean(-1, keepdims=True)
        lengths = numpy.sqrt((values * values).sum(-1, keepdims=True))
        return values / numpy.where(lengths > 0, lengths, 1)

    orders = numpy.random.default_rng(0)
    x, y = standard(inputs[:, :_CHANNELS].astype(numpy.float64)), standard(targets.astype(numpy.float64))
    found = [float(numpy.abs(numpy.einsum("ncp,np->c", x, y[order])).max()) / len(y)
             for order in [numpy.arange(len(y))] + [orders.permutation(len(y)) for _ in range(_ORDERS)]]
    return {"examples": len(y), "explained": found[0], "chance": max(found[1:])}


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
            "most": float(shares.max())} | (_told_by_columns(rows, labels) if len(shares) == 2 else {})


def _told_by_columns(rows: numpy.ndarray, labels: numpy.ndarray) -> dict[str, float]:
    """How often one column, the best of them, puts an example of one class above one of the other, and at best of labels in other orders."""
    order = rows[:, rows.std(0) > 0].argsort(0, kind="stable")
    if order.shape[1] == 0:
        return {}
    orders = numpy.random.default_rng(0)
    best = []
    along = []  # the line through the means of both classes, each example left out
    for some in [labels] + [orders.permutation(labels) for _ in range(_COLUMN_ORDERS)]:
        ones = some[order] == labels.max()
        above = _above(ones)
        best.append(float(numpy.maximum(above, 1 - above).max()))
        one = some == labels.max()
        places = _along_means(rows, one).argsort(kind="stable")[:, None]
        along.append(float(_above(one[places])[0]))
    return {"column": best[0], "column_chance": max(best[1:]), "line": along[0], "line_chance": max(along[1:])}


def _above(ones: numpy.ndarray) -> numpy.ndarray:
    """How often one of one class comes after one of the other, for each column of examples in order."""
    count = int(ones[:, 0].sum())
    return (numpy.cumsum(~ones, 0) * ones).sum(0) / (count * (len(ones) - count))


def _along_means(rows: numpy.ndarray, one: numpy.ndarray) -> numpy.ndarray:
    counts = numpy.array([(~one).sum(), one.sum()])
    sums = numpy.stack([rows[~one].sum(0), rows[one].sum(0)])
    own = one.astype(numpy.int64)
    means = [(sums[i] - rows * (own == i)[:, None]) / numpy.maximum(counts[i] - (own == i), 1)[:, None] for i in (0, 1)]
    middle = (means[0] + means[1]) / 2
    return ((rows - middle) * (means[1] - means[0])).sum(1)


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


def values_of(targets: Any) -> numpy.ndarray | None:
    """A column of values; None: they are classes, several in a row, or no numbers."""
    targets = numpy.asarray(targets)
    if targets.dtype.kind != "f" or targets.size == 0 or targets.size != len(targets) or classes_of(targets) is not None:
        return None
    return targets.reshape(-1).astype(numpy.float64)


def main_values_of(targets: Any) -> numpy.ndarray | None:
    """Several values of each example as one: their largest principal component."""
    targets = numpy.asarray(targets)
    if targets.dtype.kind != "f" or targets.ndim < 2 or len(targets) < 2 or targets[0].size < 2 or classes_of(targets) is not None:
        return None
    rows = flat_rows(targets)[:EXAMPLES].astype(numpy.float64)
    if not bool(numpy.isfinite(rows).all()):
        return None
    rows = rows - rows.mean(0)
    vectors, sizes, _ = numpy.linalg.svd(rows, full_matrices=False)
    return vectors[:, 0] * sizes[0]


def copied_columns(examples: numpy.ndarray, targets: numpy.ndarray) -> tuple[int, int] | None:
    """How many columns of the targets are columns of the inputs, and of how many. None: the targets are the inputs, as an autoencoder has
    them, or there are too few rows to tell."""
    if len(examples) < 32 or len(examples) != len(targets) or targets.dtype.kind not in "iuf" or examples.dtype.kind != "f":
        return None
    inputs, wanted = (part.reshape(len(part), -1).astype(numpy.float32) for part in (examples, targets))
    if wanted.shape[1] > COLUMNS or inputs.shape[1] <= wanted.shape[1]:
        return None
    known = {column.tobytes() for column in numpy.ascontiguousarray(inputs.T) if column.min() < column.max()}
    return sum(column.tobytes() in known for column in numpy.ascontiguousarray(wanted.T)), wanted.shape[1]


def told_by_places(tokens: numpy.ndarray, labels: numpy.ndarray) -> list[float] | None:
    """How often the token before a label, its own and the one after it predict it, as `token_dependence` has it."""
    if len(tokens) < 8 or tokens.shape[1] < 3:
        return None
    classes = numpy.unique(labels, return_inverse=True)[1].reshape(labels.shape)[:, 1:-1]
    keys = [numpy.unique(tokens[:, i : tokens.shape[1] - 2 + i], return_inverse=True)[1].reshape(classes.shape) for i in range(3)]
    if max(int(key.max()) + 1 for key in keys) * (int(classes.max()) + 2) > _CELLS:
        return None
    return [_told_by_key(key.reshape(-1), classes.reshape(-1)) for key in keys]


def dependence(examples: Any, values: numpy.ndarray) -> dict[str, float] | None:
    """How much of the values' variance examples explain, and how much they explain at best of the same values in another order.

    An example is left out and its value told from the others: by its nearest neighbours, a plane, and squares and products of
    columns. Each is a matrix times the values, so that many orders cost little more than one."""
    rows = flat_rows(examples)[:EXAMPLES].astype(numpy.float64)
    values = values[:EXAMPLES]
    if len(rows) < 128 or not bool(numpy.isfinite(rows).all() and numpy.isfinite(values).all()) or values.std() == 0:
        return None
    deviation = rows.std(0)
    rows = (rows - rows.mean(0)) / numpy.where(deviation > 0, deviation, 1) / numpy.sqrt(max(1, int((deviation > 0).sum())))
    products = rows @ rows.T
    orders = numpy.random.default_rng(0)
    columns = numpy.stack([values] + [orders.permutation(values) for _ in range(_ORDERS)], 1)
    columns = (columns - values.mean()) / values.std()
    explained = numpy.full(columns.shape[1], -numpy.inf)
    for matrix in _left_out(products):
        errors = columns - matrix @ columns
        explained = numpy.maximum(explained, 1 - (errors * errors).mean(0))
    return {"examples": len(rows), "explained": float(explained[0]), "chance": float(explained[1:].max())}


def _left_out(products: numpy.ndarray) -> Iterator[numpy.ndarray]:
    """Matrices that tell the value of each row from those of the others; `products` are of rows of length about 1."""
    count = len(products)
    lengths = products.diagonal()
    distances = lengths[:, None] + lengths[None, :] - 2 * products
    numpy.fill_diagonal(distances, numpy.inf)
    for near in _NEAREST:
        matrix = numpy.zeros((count, count))
        numpy.put_along_axis(matrix, numpy.argpartition(distances, near, 1)[:, :near], 1 / near, 1)
        yield matrix
    for kernel in (products, (1 + products) ** 2):
        for penalty in _PENALTIES:
            smooth = numpy.linalg.solve(kernel + penalty * numpy.trace(kernel) / count * numpy.eye(count), kernel).T
            own = smooth.diagonal()
            yield (smooth - numpy.diag(own)) / (1 - own)[:, None]


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
