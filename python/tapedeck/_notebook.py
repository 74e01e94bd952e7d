"""Runs in notebooks: as HTML that needs nothing else, with the viewer's pages inline, and as figures of matplotlib."""

from __future__ import annotations

import base64
import math
import os
import tempfile
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from . import _native

if TYPE_CHECKING:
    from .run import Run, Signal

_WIDTH, _HEIGHT, _PARTS = 480, 120, 60
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")


def _series(run: "Run", name: str, form: str, cell: int) -> list[tuple[int, float]]:
    """(step, value) of a signal; cell is the place of the value in a row of `_native.Run.table`."""
    import struct

    layout = struct.Struct("=qqdd" if form == "scalar" else "=qqdqdddddqqq")
    return [(row[1], row[cell]) for row in layout.iter_unpack(run._native.table(name, _native.FORMS[form]))]


def _thin(points: list[tuple[int, float]], most: int = 400) -> list[tuple[int, float]]:
    every = max(1, -(-len(points) // most))
    kept = points[::every]
    return kept if not points or kept[-1] == points[-1] else kept + points[-1:]


def _lines(run: "Run") -> str:
    """The losses over the steps, as a picture; nothing where there is none."""
    names = [name for name, signal in run.items() if "scalar" in signal.forms and name.split(".")[-1].endswith("loss")]
    series = {name: [p for p in _thin(_series(run, name, "scalar", 3)) if math.isfinite(p[1])] for name in names[:len(_COLORS)]}
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    every = [point for points in series.values() for point in points]
    first, last = min(p[0] for p in every), max(p[0] for p in every)
    low, high = min(p[1] for p in every), max(p[1] for p in every)
    parts, legend = [], []
    for color, (name, points) in zip(_COLORS, series.items()):
        at = " ".join(f"{_WIDTH * (s - first) / max(1, last - first):.1f},{_HEIGHT - (_HEIGHT - 4) * (v - low) / ((high - low) or 1) - 2:.1f}"
                      for s, v in points)
        parts.append(f"<polyline fill='none' stroke='{color}' stroke-width='1.5' points='{at}'/>")
        legend.append(f"<span style='color:{color}'>{escape(name)} {points[-1][1]:.4g}</span>")
    return (f"<div>{' &nbsp; '.join(legend)} <small>{low:.3g} to {high:.3g}, steps {first} to {last}</small></div>"
            f"<svg width='{_WIDTH}' height='{_HEIGHT}' role='img' aria-label='losses' style='border:1px solid #ccc'>{''.join(parts)}</svg>")


def _map(run: "Run") -> str:
    """Layers x time: the norm of each layer's error, or output, by the order it was recorded in. Dark is small, bright
    is large, on a scale of powers of ten; red is a step with numbers that are not finite."""
    kind = next((end for end in (".error", ".output", ".gradient")
                 if any(name.endswith(end) and "stats" in signal.forms for name, signal in run.items())), None)
    if kind is None:
        return ""
    names = [name for name, signal in run.items() if name.endswith(kind) and "stats" in signal.forms][:100]
    series = {name: _thin(_series(run, name, "stats", 8), _PARTS) for name in names}
    bad = {name: {s for s, n in _series(run, name, "stats", 10) if n} | {s for s, n in _series(run, name, "stats", 11) if n} for name in names}
    logs = [math.log10(v) for points in series.values() for _, v in points if math.isfinite(v) and v > 0]
    low, high = (min(logs), max(logs)) if logs else (0.0, 0.0)
    rows = []
    for name, points in series.items():
        cells, before = [], 0
        for step, value in points:  # a cell stands for the steps since the one before it
            share = (math.log10(value) - low) / ((high - low) or 1) if math.isfinite(value) and value > 0 else 0.0
            wrong = not math.isfinite(value) or any(before < s <= step for s in bad[name])
            before = step
            color = "#d00" if wrong else f"hsl(265,60%,{10 + 80 * share:.0f}%)"
            cells.append(f"<td title='step {step}: {value:.3g}' style='background:{color};padding:0;width:6px;height:14px'></td>")
        rows.append(f"<tr><td style='text-align:left;padding-right:8px'>{escape(name)}</td>{''.join(cells)}</tr>")
    return (f"<div>norm of {kind[1:]}, 10^{low:.1f} (dark) to 10^{high:.1f} (bright); red: NaN or infinite</div>"
            f"<table style='border-collapse:collapse'>{''.join(rows)}</table>")


def _latest(signal: "Signal") -> str:
    try:
        if "scalar" in signal.forms:
            return f"{signal.at(form='scalar'):.6g}"
        if "stats" in signal.forms:
            stats = signal.at(form="stats")
            return f"mean {stats['mean']:.3g}, norm {stats['norm']:.3g}"
    except (KeyError, _native.Error):
        pass
    return ""


def _signals(run: "Run") -> str:
    rows = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td><td>{', '.join(signal.forms)}</td>"
        f"<td>{signal.first_step}&ndash;{signal.last_step}</td><td>{_latest(signal)}</td></tr>" for name, signal in run.items()
    )
    return (f"<details><summary>{len(run)} signals</summary><table><tr><th>signal</th><th>forms</th><th>steps</th><th>last</th></tr>"
            f"{rows}</table></details>")


def to_html(run: "Run") -> str:
    """A run as self-contained HTML: how it is doing, its losses, layers x time, and what the last diagnosis found."""
    found = "".join(f"<li><pre style='margin:0'>{escape(str(finding))}</pre></li>" for finding in run.findings)
    return (f"<div><b>{escape(run.name)}</b> {run.state}, {run.steps} steps</div>{_lines(run)}{_map(run)}"
            + (f"<div>Findings</div><ul>{found}</ul>" if found else "") + _signals(run))


class Page:
    """A page of the viewer with a run's data, for a notebook to show."""

    def __init__(self, run: "Run", page: str, height: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = run.report(os.path.join(folder, "report.html"))
            with open(path, "rb") as file:
                self._page = file.read()
        self._address, self._height = f"#/{quote(page, safe='')}", height

    def _repr_html_(self) -> str:
        # A page of its own: the notebook's styles and the report's do not meet. The part behind # says which page.
        data = base64.b64encode(self._page).decode()
        return (f"<iframe title='tapedeck' style='width:100%;height:{self._height}px;border:1px solid #ccc'></iframe>"
                "<script>(() => { const frame = document.currentScript.previousElementSibling;"
                f" const bytes = Uint8Array.from(atob('{data}'), (c) => c.charCodeAt(0));"
                f" frame.src = URL.createObjectURL(new Blob([bytes], {{ type: 'text/html' }})) + '{self._address}'; }})()</script>")


def plot(run: "Run", *names: str, statistic: str = "norm", ax: Any = None) -> Any:
    """Draws signals over the steps by matplotlib: scalars, of tensors a statistic. Returns the axes."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot() draws by matplotlib, which is not installed: pip install matplotlib") from error
    cells = {"mean": 4, "std": 5, "min": 6, "max": 7, "norm": 8}
    if statistic not in cells:
        raise ValueError(f"statistic is one of {', '.join(cells)}, not {statistic!r}")
    chosen = [run[name] for name in names] or [signal for name, signal in run.items() if name.endswith("loss") and "scalar" in signal.forms]
    axes = pyplot.subplots()[1] if ax is None else ax
    for signal in chosen:
        if "scalar" in signal.forms:
            points, label = _series(run, signal.name, "scalar", 3), signal.name
        elif "stats" in signal.forms:
            points, label = _series(run, signal.name, "stats", cells[statistic]), f"{signal.name} {statistic}"
        else:
            raise KeyError(f"{signal.name} has neither scalars nor statistics to draw (it has: {', '.join(signal.forms)})")
        axes.plot([p[0] for p in points], [p[1] for p in points], label=label)
    axes.set_xlabel("step")
    if chosen:
        axes.legend()
    return axes


def load(ipython: Any) -> None:
    """Adds the magic ``%tapedeck FOLDER [PAGE]``: a run's page, or the table of the runs below a folder."""
    from .run import Run, runs

    def magic(line: str) -> Any:
        words = line.split()
        folder = words[0] if words else "runs"
        if os.path.exists(os.path.join(folder, "run.db")):
            return Run(folder).show(*words[1:2])
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{folder} is no folder: %tapedeck FOLDER [PAGE]")
        return runs(folder)

    ipython.register_magic_function(magic, "line", "tapedeck")
