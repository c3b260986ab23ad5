"""One request's time as bars: each stage begins when the slowest stage it waits for has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.render.html_scale import axis_end
from diagnostics.render.words import rest, share
from diagnostics.units import Unit
from diagnostics.window.graph import Ensemble

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
    told: str


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
    told = ", ".join(f"{segment.phase} {segment.shown}" for segment in segments)
    return Bar(
        name=name,
        segments=tuple(segments),
        shown=Unit.SECONDS.show(at - begin),
        share=share(at - begin, item),
        told=told or "no time",
    )
