"""How fast an engine iterates, how often it works at all, and what a joining request adds to an iteration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import sqrt
from statistics import fmean

from diagnostics.signals.engine import ENGINE_WORK_SECONDS, engine_signal
from diagnostics.signals.engine_samples import FEWEST_READS, EngineReads
from diagnostics.signals.reading import Missing, Reading
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, Counter, ModelView

# Fewer stretches between reads than this leave a line through them free to tilt either way.
_FEWEST_STRETCHES = 8


def _rate(engine: EngineReads, _: ModelView) -> Reading:
    said = [(read.at, read.iterations) for read in engine.samples if read.iterations is not None]
    if len(said) < 2 or said[-1][0] <= said[0][0] or said[-1][1] < said[0][1]:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.PER_SECOND, METRICS)
    count, seconds = said[-1][1] - said[0][1], said[-1][0] - said[0][0]
    return Reading.of(count / seconds, Unit.PER_SECOND, METRICS, events=count, span=seconds)


def _at_work(engine: EngineReads, _: ModelView) -> Reading:
    """Return the share of reads with a scheduled request; the interval is Wilson's, which no count leaves empty."""
    live = set(map(id, engine.live))
    said = [id(read) in live and read.scheduled > 0 for read in engine.samples if read.scheduled is not None]
    if len(said) < FEWEST_READS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, METRICS)
    count, share = len(said), fmean(said)
    middle = (share + 1.92 / count) / (1 + 3.84 / count)
    spread = 1.96 * sqrt(share * (1 - share) / count + 0.96 / count**2) / (1 + 3.84 / count)
    working = engine.working
    return Reading.of(
        share * working,
        Unit.RATIO,
        METRICS,
        low=max(middle - spread, 0.0) * working,
        high=min(middle + spread, 1.0) * working,
        events=count,
    )


def _stretches(engine: EngineReads, view: ModelView) -> Iterator[tuple[float, float]]:
    """Yield iterations and joining requests per second of each stretch between two reads that found requests scheduled.

    Of generations shorter than a stretch, those that end in it joined in it or just before. Of longer ones, those join
    that end in it and did not run before it, and those that run after it; the gauge is of one iteration's moment.
    """
    work = ENGINE_WORK_SECONDS.read(view).value or 0.0
    steps = {(step.start, step.end): step for step in view.steps(METRICS)}
    for before, after in pairwise(engine.samples):
        step = steps.get((before.at, after.at))
        if step is None or before.iterations is None or after.iterations is None:
            continue
        if before.scheduled and after.scheduled and after.iterations > before.iterations:
            # Steady time: a clock that was set may give both reads one time.
            ended = step.values.get(Counter.SUCCESS, 0.0)
            requests = max(ended + after.scheduled - before.scheduled, 0.0) if work > step.seconds else ended
            yield (after.iterations - before.iterations) / step.seconds, requests / step.seconds


def _joining_seconds(engine: EngineReads, view: ModelView) -> Reading:
    """Least squares of `1 = base × iterations + joining × requests`, both per second, over the stretches."""
    points = list(_stretches(engine, view))
    if len(points) < _FEWEST_STRETCHES:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, METRICS)
    iterations, requests = [point[0] for point in points], [point[1] for point in points]
    x, y = fmean(requests), fmean(iterations)
    spread = sum((one - x) ** 2 for one in requests)
    if spread <= 0:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, METRICS)
    slope = sum((one - x) * (other - y) for other, one in points) / spread
    left = sum((other - y - slope * (one - x)) ** 2 for other, one in points)
    error = 1.96 * sqrt(left / (len(points) - 2) / spread)
    # The line meets the axis of iterations at 1 / base; its slope is -joining / base.
    low, value, high = (_joining(one, x, y) for one in (slope + error, slope, slope - error))
    return Reading.of(value, Unit.SECONDS, METRICS, low=low, high=high, estimated=True, events=len(points))


def _joining(slope: float, requests: float, iterations: float) -> float:
    return max(-slope, 0.0) / (iterations + max(-slope, 0.0) * requests)


ENGINE_ITERATION_RATE = engine_signal(
    "engine_iteration_rate", Unit.PER_SECOND, "Iterations of the engine per second of the window.", _rate
)
ENGINE_AT_WORK = engine_signal(
    "engine_at_work_share", Unit.RATIO, "Share of the reads at which the engine has scheduled requests.", _at_work
)
ENGINE_JOINING_SECONDS = engine_signal(
    "engine_joining_seconds",
    Unit.SECONDS,
    "What a request that joins adds to the engine's iterations (its prefill): by how much fewer iterations there are "
    "where more requests join.",
    _joining_seconds,
)
