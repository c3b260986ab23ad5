"""What traced requests show of one model: how many there are, and waits that idle instances explain."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from diagnostics.signals.counting import ENOUGH_EVENTS, FEWEST_EVENTS
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.traces import NANOSECOND, TracedVisit
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView

TRACES = "traces"
# Requests at either end of a window are traced and not yet counted, or the other way round.
ALL_TRACED = 0.98
# A queue that holds L requests in front of n instances is L ÷ n executions long; one more is under way, and one is
# already taken out of the queue for the next free instance (core, payload queue).
_EXECUTIONS_AHEAD = 2
# One setting an option: Triton refuses several in one.
TRACE_FIX = (
    "start Triton with --trace-config=mode=opentelemetry --trace-config=level=TIMESTAMPS --trace-config=rate=100 "
    "--trace-config=opentelemetry,url=http://HOST:9177/v1/traces, where HOST runs diag serve"
)


def executed_visits(view: ModelView) -> list[TracedVisit]:
    """Return the visits to the model that ended in the span and computed, in order of arrival."""
    low, high = view.start / NANOSECOND, view.end / NANOSECOND
    found = [
        visit
        for _, visit in view.traces().visits(view.model or "")
        if low <= visit.end <= high and view.version in (None, visit.version) and visit.executed
    ]
    return sorted(found, key=lambda visit: visit.start)


def mean_reading(values: Sequence[float], unit: Unit, source: str, *, estimated: bool = False) -> Reading:
    """Return the mean of sampled values with its 95 % interval; too few of them are unknown."""
    if len(values) < FEWEST_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, unit, source)
    mean = sum(values) / len(values)
    spread = 1.96 * math.sqrt(sum((value - mean) ** 2 for value in values)) / len(values)
    return Reading.of(
        mean,
        unit,
        source,
        low=max(mean - spread, 0.0),
        high=mean + spread,
        estimated=estimated or len(values) < ENOUGH_EVENTS,
        events=len(values),
    )


def completed(view: ModelView) -> float | None:
    """Return how many requests the counters say were completed; None when they cannot be read."""
    for source in (STATISTICS, METRICS):
        delta = view.delta(source)
        if delta is not None and Counter.SUCCESS in delta.values:
            return delta.values[Counter.SUCCESS]
    return None


def _traced_share(view: ModelView) -> Reading:
    visits, everything = executed_visits(view), completed(view)
    if not visits or not everything:
        return Reading.unknown(Missing.NOT_EXPORTED if not visits else Missing.IDLE, Unit.RATIO, TRACES)
    return Reading.of(min(len(visits) / everything, 1.0), Unit.RATIO, TRACES, events=len(visits))


def _blocked(view: ModelView) -> Reading:
    """Waits with a free instance, from the whole traffic; else waits beyond what the queue's limit can hold."""
    visits, share = executed_visits(view), _traced_share(view)
    if not visits:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    instances = INSTANCES.read(view).value
    if instances is None or view.config is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, "configuration")
    batching = view.config.dynamic_batching
    window = batching.max_queue_delay_seconds if batching else 0.0
    if (share.value or 0.0) >= ALL_TRACED:
        free = _free_seconds(visits, round(instances))
        return mean_reading([max(wait - window, 0.0) for wait in free], Unit.SECONDS, TRACES)
    limit = batching.queue_policy.max_queue_size if batching else 0
    if not limit:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, TRACES)
    longest = max((visit.computed or 0) - (visit.began or 0) for visit in visits) * NANOSECOND
    most = longest * (limit / instances + _EXECUTIONS_AHEAD) + window
    beyond = [max((visit.queue_seconds or 0.0) - most, 0.0) for visit in visits]
    return mean_reading(beyond, Unit.SECONDS, f"configuration and {TRACES}")


def _free_seconds(visits: Sequence[TracedVisit], instances: int) -> list[float]:
    """Return per visit for how long it waited while fewer executions ran than there are instances."""
    runs = {(visit.began or 0, visit.computed or 0) for visit in visits}  # a batch's requests share one execution
    changes = sorted([(start, 1) for start, _ in runs] + [(end, -1) for _, end in runs])
    times = [at for at, _ in changes]
    running = list(accumulate(step for _, step in changes))
    free = [0]
    for position in range(1, len(times)):
        idle = running[position - 1] < instances
        free.append(free[-1] + (times[position] - times[position - 1] if idle else 0))

    def until(at: int) -> int:
        position = bisect_right(times, at) - 1
        if position < 0:
            return at - times[0]
        return free[position] + (at - times[position] if running[position] < instances else 0)

    return [(until(visit.began or 0) - until(visit.queued or 0)) * NANOSECOND for visit in visits]


def union_of(intervals: Iterable[tuple[int, int]]) -> int:
    """Return the length that intervals cover together."""
    total, reached = 0, 0
    for start, end in sorted(intervals):
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total


def _signal(name: str, unit: Unit, doc: str, read: Callable[[ModelView], Reading], fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=(read,), fix=fix)


TRACED_SHARE = _signal(
    "traced_share", Unit.RATIO, "Share of the completed requests of which a whole trace is there.", _traced_share
)
BLOCKED_SECONDS = _signal(
    "blocked_seconds",
    Unit.SECONDS,
    "Mean time a request waits although an instance is free: measured where every request is traced, else the part of "
    "its wait that its queue's limit cannot explain.",
    _blocked,
    fix=TRACE_FIX,
)
