"""A template filled in as one HTML file that needs nothing else, under a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from math import isfinite

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from diagnostics import __version__
from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.render import phrases
from diagnostics.render.phrases import rest, share
from diagnostics.render.plain import clean, code_lines
from diagnostics.units import Unit, time_text
from diagnostics.window.graph import Ensemble


def page(template: str, **shown: object) -> str:
    """Return a template of the folder `page` with what it shows; names from servers cannot break out of it."""
    style, script = asset("page.css"), asset("copy.js") + asset("page.js")
    # What is between the tags and what the policy names must be the same to the byte.
    return (
        environment()
        .get_template(template)
        .render(
            version=__version__,
            style=style,
            script=script,
            policy=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:",
            **shown,
        )
    )


def environment() -> Environment:
    """Return what renders pages: everything printed is cleaned and escaped, filters and `words` are there."""
    made = Environment(
        loader=PackageLoader("diagnostics.render", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "seconds": Unit.SECONDS.show,
        "ratio": Unit.RATIO.show,
        "count": Unit.COUNT.show,
        "time": time_text,
        "pixels": lambda value: f"{value:.1f}",
        "lines": code_lines,
        "change": _change,
        "interval": _interval,
        "signs": lambda text: text.replace(">=", "≥").replace("<=", "≤"),
    }
    made.globals["words"] = phrases
    return made


def _printable(value: object) -> object:
    """Make whatever a template prints safe to look at; what it may not contain is escaped after this."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _change(line: str) -> str:
    """Return what a diff's line does, as a class."""
    if line.startswith(("+++", "---", "@@", "#")):
        return "about"
    return {"+": "added", "-": "removed"}.get(line[:1], "")


def _interval(line: LedgerLine) -> str:
    """Return the interval of a reading that is not exact."""
    low, high, unit = line.reading.low, line.reading.high, line.reading.unit
    if low is None or high is None or low == high:
        return "—"
    return f"{_end(unit, low)} to {_end(unit, high)}"


def _end(unit: Unit, value: float) -> str:
    return unit.show(value) if isfinite(value) else "no limit"


def asset(name: str) -> str:
    """Return the text of a file that pages are made with."""
    return resources.files(__package__).joinpath(f"page/{name}").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return how a content security policy names a text that may be used."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def axis_end(largest: float) -> float:
    """Return the next round number at or above `largest`, 1 for nothing to show."""
    if not math.isfinite(largest) or largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(step * power for step in _STEPS if step * power >= largest * (1 - 1e-9) or step == _STEPS[-1])


# The bar's own units; the style sheet stretches them over the width there is.
SPAN = 1000.0
# A phase that exists is seen, however short.
_THINNEST = 1.5
TICKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A phase on a bar; `x` and `width` of `SPAN`."""

    phase: str
    x: float
    width: float
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stage's bar; `shown` is its whole time and `share` what that is of the request's."""

    name: str
    segments: tuple[Segment, ...]
    shown: str
    share: str
    reported: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """All bars of an entry's request, with the ticks of their time axis."""

    title: str
    bars: tuple[Bar, ...]
    ticks: tuple[str, ...]
    phases: tuple[str, ...]


def waterfall(title: str, item: Anatomy, ensemble: Ensemble | None, longest: float) -> Waterfall:
    """Return the bars of an entry's mean request; without a graph the stages follow one another.

    `longest` is the time in seconds that the axis must hold at least, so that several pictures can share it.
    """
    begins, end = _begins(item, ensemble)
    scale = axis_end(max(end, item.mean_seconds, longest))
    bars = [_bar(stage.model, stage.cells, begins[stage.model], scale, item) for stage in item.stages]
    if item.unattributed_seconds > 0:
        gap = {Phase.GAP: item.unattributed_seconds}
        bars.append(_bar(rest(item), gap, max(end - item.unattributed_seconds, 0.0), scale, item))
    present = {segment.phase for bar in bars for segment in bar.segments}
    return Waterfall(
        title=title,
        bars=tuple(bars),
        ticks=tuple(Unit.SECONDS.show(scale * i / TICKS) for i in range(TICKS + 1)),
        phases=tuple(phase.value for phase in Phase if phase.value in present),
    )


def _begins(item: Anatomy, ensemble: Ensemble | None) -> tuple[dict[str, float], float]:
    """Return when each stage begins, in seconds of the request, and when all is done."""
    begins: dict[str, float] = {}
    done = 0.0
    if ensemble is None:
        for stage in item.stages:
            begins[stage.model] = done
            done += stage.seconds
        return begins, done + item.unattributed_seconds
    lengths = {stage.model: stage.seconds for stage in item.stages}
    starts = [0.0] * len(ensemble.steps)
    for i, step in enumerate(ensemble.steps):
        begins[step.model] = max(starts[i], begins.get(step.model, 0.0))
        end = starts[i] + lengths.get(step.model, 0.0)
        done = max(done, end)
        for j in ensemble.edges[i]:
            starts[j] = max(starts[j], end)
    return begins, done + item.unattributed_seconds


def _bar(name: str, cells: Mapping[Phase, float], begin: float, scale: float, item: Anatomy) -> Bar:
    segments, at = [], begin
    for phase in Phase:
        seconds = cells.get(phase, 0.0)
        if seconds > 0:
            width = max(seconds / scale * SPAN, _THINNEST)
            segments.append(
                Segment(phase=phase.value, x=at / scale * SPAN, width=width, shown=Unit.SECONDS.show(seconds))
            )
            at += seconds
    reported = ", ".join(f"{segment.phase} {segment.shown}" for segment in segments)
    return Bar(
        name=name,
        segments=tuple(segments),
        shown=Unit.SECONDS.show(at - begin),
        share=share(at - begin, item),
        reported=reported or "no time",
    )
