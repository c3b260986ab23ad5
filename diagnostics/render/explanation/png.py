"""The stage graph of an incident and what happened over time as one picture, with matplotlib: the extra `plot`.

Names come from servers: no text is read as mathematics, and control characters are replaced.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from diagnostics.errors import not_installed
from diagnostics.render.explanation.graph import GraphNode, Picture
from diagnostics.render.plain import clean
from diagnostics.units import Unit, utc

try:
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch, PathPatch
    from matplotlib.path import Path
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ModuleNotFoundError as error:
    raise not_installed(error, "plot", where="the picture of an incident") from error

WIDTH, DPI = 1040.0, 100
# Heights in pixels: of the title, of a chart with its axis, below a graph, and the most of a graph.
_TITLE, _CHART, _GAP, _MOST_GRAPH = 52.0, 150.0, 12.0, 460.0
# More nodes than these cannot be read at this width.
MOST_NODES = 30
_POINT = 72 / DPI
# Below so many seconds the axis shows seconds.
_SHORT = 900.0
_INK, _QUIET, _RULE, _GROUND = "#1a1d21", "#555c66", "#c9ccd1", "#ffffff"
_CAUSE, _AFFECTED = "#a3211a", "#7a4d00"
_TONES = {"time": "#1a1d21", "queue": "#d4582a", "failed": "#a3211a", "rate": "#2b62a5", "compute": "#2b62a5"}
_COMMANDS = str.maketrans("MC,", "   ")
# matplotlib's caches of fonts are no thread's own.
_drawing = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureChart:
    """A signal over time.

    Attributes:
        title: what it shows.
        kind: which colour it has, as `time` or `queue`.
        unit: of its values.
        at: Unix seconds of the values.
        values: None where nothing is known.
        objective: a line to draw in the unit; None for none.

    """

    title: str
    kind: str
    unit: Unit
    at: Sequence[float]
    values: Sequence[float | None]
    objective: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSpan:
    """The time that all charts show, and what happened in it: the incident, and marks with a word. Unix seconds."""

    start: float
    end: float
    onset: float
    closed: float | None = None
    marks: Sequence[tuple[float, str]] = ()


def incident_png(title: str, graph: Picture | None, charts: Sequence[PictureChart], span: PictureSpan) -> bytes:
    """Return a PNG of 1040 pixels width: the title, the stage graph, and the charts below each other.

    Args:
        title: what users feel, and the cause.
        graph: of the entry point; None, or one of more than `MOST_NODES` nodes, is left out.
        charts: of its time, the most important first.
        span: what they show.

    """
    shown = graph if graph is not None and len(graph.nodes) <= MOST_NODES else None
    scale = min(1.0, WIDTH / shown.width, _MOST_GRAPH / shown.height) if shown is not None else 1.0
    rows = [_TITLE, *([shown.height * scale + _GAP] if shown is not None else []), *(_CHART for _ in charts)]
    with _drawing, warnings.catch_warnings():
        # The font lacks glyphs of some scripts: they become boxes, as in every picture.
        warnings.simplefilter("ignore")
        figure = Figure(figsize=(WIDTH / DPI, sum(rows) / DPI), dpi=DPI, facecolor=_GROUND)
        _text(figure, 16 / WIDTH, 1 - 26 / sum(rows), _cut(title), size=15, weight="bold", va="center")
        below = _TITLE
        if shown is not None:
            _graph(figure, shown, scale, below, sum(rows))
            below += shown.height * scale + _GAP
        for number, chart in enumerate(charts):
            _chart(figure, chart, span, below + number * _CHART, sum(rows))
        written = io.BytesIO()
        figure.savefig(written, format="png", facecolor=_GROUND)
    return written.getvalue()


def _cut(text: str, most: int = 118) -> str:
    shown = clean(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _text(where: Any, x: float, y: float, text: str, *, size: float, color: str = _INK, **more: Any) -> None:
    """Write a text of a height in pixels."""
    where.text(x, y, text, fontsize=size * _POINT, color=color, parse_math=False, **more)


def _graph(figure: Figure, graph: Picture, scale: float, below: float, height: float) -> None:
    tall = graph.height * scale
    width = graph.width * scale
    axes = figure.add_axes((16 / WIDTH, 1 - (below + tall) / height, width / WIDTH, tall / height))
    axes.set(xlim=(0, graph.width), ylim=(graph.height, 0))
    axes.axis("off")
    for edge in graph.edges:
        numbers = [float(one) for one in edge.translate(_COMMANDS).split()]
        points = list(zip(numbers[::2], numbers[1::2], strict=True))
        codes = [Path.MOVETO, *(Path.CURVE4 for _ in points[1:])]
        axes.add_patch(PathPatch(Path(points, codes), fill=False, edgecolor=_QUIET, linewidth=1.4 * scale))
    for node in graph.nodes:
        _node(axes, node, scale)


def _node(axes: Any, node: GraphNode, scale: float) -> None:
    tone = {"cause": _CAUSE, "affected": _AFFECTED}.get(node.mark, _RULE)
    box = (node.x, node.y)
    rounded = "round,pad=0,rounding_size=8"
    axes.add_patch(
        FancyBboxPatch(
            box,
            node.width,
            node.height,
            boxstyle=rounded,
            facecolor=_GROUND,
            edgecolor=tone,
            linewidth=(2.2 if node.mark else 1.2) * scale,
        )
    )
    if node.mark:
        _text(
            axes,
            node.x + node.width - 12,
            node.y,
            node.mark,
            size=12 * scale,
            color=_GROUND,
            ha="right",
            va="center",
            bbox={"boxstyle": "round,pad=0.3", "facecolor": tone, "edgecolor": tone},
        )
    for label in node.labels:
        value = label.kind == "value"
        _text(
            axes,
            label.x,
            label.y,
            label.text,
            size=(14 if label.kind == "name" else 12.5) * scale,
            color=_QUIET if label.kind == "fact" else _INK,
            weight="bold" if label.kind == "name" else "normal",
            ha="right" if value else "left",
            va="baseline",
        )


def _chart(figure: Figure, chart: PictureChart, span: PictureSpan, below: float, height: float) -> None:
    """Draw a chart whose title begins so many pixels below the picture's top."""
    axes = figure.add_axes((84 / WIDTH, 1 - (below + _CHART - 26) / height, 1 - 134 / WIDTH, (_CHART - 54) / height))
    _text(figure, 16 / WIDTH, 1 - (below + 14) / height, _cut(chart.title), size=13, color=_QUIET, va="center")
    values = [float("nan") if value is None else value for value in chart.values]
    axes.axvspan(span.onset, span.closed or span.end, color=_CAUSE, alpha=0.08, linewidth=0)
    axes.plot(chart.at, values, color=_TONES.get(chart.kind, _INK), linewidth=1.4, solid_joinstyle="round")
    if chart.objective is not None:
        axes.axhline(chart.objective, color=_CAUSE, linewidth=1, linestyle="--")
        shown = f"objective {chart.unit.show(chart.objective)} "
        _text(axes, span.end, chart.objective, shown, size=11, color=_CAUSE, ha="right", va="bottom")
    across = axes.get_xaxis_transform()
    for at, word in span.marks:
        axes.axvline(at, color=_QUIET, linewidth=1, linestyle=":")
        _text(axes, at, 1.0, f" {_cut(word, 24)}", size=11, color=_QUIET, va="top", transform=across)
    known = [value for value in (*chart.values, chart.objective) if value is not None]
    axes.set(xlim=(span.start, span.end), ylim=(0, 1.12 * max(known, default=0.0) or 1.0))
    _axes(axes, chart.unit)


def _axes(axes: Any, unit: Unit) -> None:
    first, last = axes.get_xlim()
    form = "%H:%M:%SZ" if last - first < _SHORT else "%b %d %H:%MZ"
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: utc(at).strftime(form)))
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: unit.show(value) if value else "0"))
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.tick_params(labelsize=11 * _POINT, colors=_QUIET, length=3)
    axes.grid(color=_RULE, alpha=0.5, linewidth=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_RULE)
