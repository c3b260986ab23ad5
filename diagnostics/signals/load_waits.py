"""Requests that waited for a load, as those know them whose counters a load does not take away.

A load begins the model's statistics and its ensembles' again, and what waited in the frontend was in none of them. What
still knows such waits: the rows of the metrics page, which go on; the pending gauge; clients and traces; and answers
that stop for as long as a load takes and then come at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import median, quantiles

import msgspec

from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.stalls import changes_capacity, in_load, is_denied, judged_requests, loads_seen, waits_without
from diagnostics.signals.traces import TRACES
from diagnostics.units import Unit
from diagnostics.window.lifecycle import LOG, Happened, ServerChange, touch
from diagnostics.window.points import sum_steps
from diagnostics.window.view import METRICS, STATISTICS, Counter, CounterStep, ModelView, increase

_CLIENT = "client records"
_FEWEST_STEPS = 4
# Executions half again as slow make requests wait by themselves.
WARM = 1.5
# A record of clients with as many requests as were counted, but for those at its ends, holds all of them.
_MOST_SENT = 1.1
# A stop: fewer than half as many answers as usual. Steady traffic of ten requests a read varies by a third.
_STOPPED = 0.5
# Of so many requests one in ten that is slow is seen nine times in ten (1 - 0.9^20).
_LAST = 20
# Steps that follow each other share a read; of several versions' they may lie milliseconds apart.
_SAME_READ = 0.1


@dataclass(frozen=True, slots=True)
class _Held:
    """Seconds that requests waited during loads, and at all above what is usual; of how many, and of `requests`."""

    during: float
    everything: float
    waited: float
    requests: float
    source: str

    def per_request(self, view: ModelView, amount: float) -> float:
        """Return an amount, as seconds, per request that it is judged by."""
        return amount / judged_requests(view, self.requests) if self.requests > 0 else 0.0


def _held(view: ModelView) -> _Held | Missing | None:
    """Return what the source that knows of the longest waits shows; None where nothing shows any."""
    restarts = [change for change in view.server_changes() if change.kind is Happened.RESTARTED]
    loads = [load for load in loads_seen(view) if not any(touch(load, restart) for restart in restarts)]
    loads = [load for load in loads if not is_denied(view, load) and not changes_capacity(view, load)]
    if not loads:
        return None
    cold = _cold_waits(view, loads)
    if cold is None:
        return Missing.TOO_FEW_EVENTS
    callers = [view.beside(ensemble.name) for ensemble in view.server.graph.callers(view.model or "")]
    found = [held for entry in (*callers, view.beside(view.model)) for held in _all_of(entry, loads)]
    held = max(found, key=lambda held: held.per_request(view, held.during), default=None)
    if held is None:
        return Missing.TOO_FEW_EVENTS
    return held if held.during > cold else None


def _cold_waits(view: ModelView, loads: Sequence[ServerChange]) -> float | None:
    """Return the most that requests can have waited for slow executions since a load, seconds; None if not known.

    All that were answered meanwhile may have waited out all that those took longer.
    """
    steps, _ = _steps(view.beside(view.model))
    worked = [step for step in steps if step.values[Counter.SUCCESS] > 0 and Counter.INFER_SECONDS in step.values]
    if len(worked) < _FEWEST_STEPS:
        return None
    times = [step.values[Counter.INFER_SECONDS] / step.values[Counter.SUCCESS] for step in worked]
    usual = quantiles(times, n=4)[0]
    began = min(load.since for load in loads)
    cold = [(step, took) for step, took in zip(worked, times, strict=True) if step.end > began and took > WARM * usual]
    longer = sum((took - usual) * step.values[Counter.SUCCESS] for step, took in cold)
    return longer * increase([step for step, _ in cold], Counter.SUCCESS)


def _all_of(entry: ModelView, loads: Sequence[ServerChange]) -> Iterator[_Held]:
    """Yield what each source shows; clients whose record holds all requests know of each stop of answers."""
    steps, source = _steps(entry)
    steps = _of_all_versions(steps)
    callers = (entry.beside(ensemble.name) for ensemble in entry.server.graph.callers(entry.model or ""))
    whole = increase(steps, Counter.SUCCESS) <= _MOST_SENT * sum(len(_by_clients(one)) for one in (entry, *callers))
    if len(steps) >= _FEWEST_STEPS and not entry.has_holes():
        yield _from_row(steps, loads, source)
        if not whole and not _went_on(entry, source, loads):
            yield _from_answers(steps, loads, source)
        yield _from_pending(entry, steps, loads)
    for sent, named in ((_by_clients(entry), _CLIENT), (_by_traces(entry), TRACES)):
        if len(sent) >= ENOUGH_EVENTS:
            yield _from_requests(sent, loads, named)


def _steps(entry: ModelView) -> tuple[list[CounterStep], str]:
    """Return the steps that count requests and their time: of the page where there is one: it goes on through loads."""
    for source in (METRICS, STATISTICS):
        steps = [step for step in entry.steps(source) if {Counter.SUCCESS, Counter.REQUEST_SECONDS} <= set(step.values)]
        if any(step.values[Counter.SUCCESS] for step in steps):
            return steps, source
    return [], METRICS


def _of_all_versions(steps: Sequence[CounterStep]) -> list[CounterStep]:
    """Return one step for each stretch: where one version takes over from another, both answer between two reads."""
    spans: dict[tuple[float, float], list[CounterStep]] = {}
    for step in steps:
        spans.setdefault((step.start, step.end), []).append(step)
    return [msgspec.structs.replace(some[0], values=sum_steps(some).values) for _, some in sorted(spans.items())]


def _from_row(steps: Sequence[CounterStep], loads: Sequence[ServerChange], source: str) -> _Held:
    """Return the time of requests above the steady level, the lower quartile of the steps that answered any."""
    answered = [step for step in steps if step.values[Counter.SUCCESS] > 0]
    means = [step.values[Counter.REQUEST_SECONDS] / step.values[Counter.SUCCESS] for step in answered]
    steady = quantiles(means, n=4)[0] if len(means) > 1 else means[0]
    excess = [
        max(mean - steady, 0.0) * step.values[Counter.SUCCESS] for mean, step in zip(means, answered, strict=True)
    ]
    marked = in_load(answered, loads)
    before = _before(answered, excess, marked)
    during = sum(
        max(seconds - usual, 0.0) for seconds, usual, inside in zip(excess, before, marked, strict=True) if inside
    )
    return _Held(during, sum(excess), _how_many(during, answered, loads), increase(answered, Counter.SUCCESS), source)


def _how_many(seconds: float, steps: Sequence[CounterStep], loads: Sequence[ServerChange]) -> float:
    """Return about how many requests waited so long in all: those that come evenly during a load wait half of it.

    What is seen between two reads may have taken longer or less. But of all that come at rate r in t seconds, r t wait,
    r t² / 2 in all: so long a time is no more than that many requests' in each load.
    """
    rate = increase(steps, Counter.SUCCESS) / sum(step.seconds for step in steps)
    length = max(load.at - load.since for load in loads)
    most = sqrt(2 * seconds * rate * len(loads))
    return min(2 * seconds / length, most) if length > 0 else most


def _before(steps: Sequence[CounterStep], excess: Sequence[float], marked: Sequence[bool]) -> list[float]:
    """Return per step the excess that its requests would have without the load."""
    requests = [step.values[Counter.SUCCESS] for step in steps]
    each = waits_without([seconds / many for seconds, many in zip(excess, requests, strict=True)], marked)
    return [seconds * many for seconds, many in zip(each, requests, strict=True)]


def _from_answers(steps: Sequence[CounterStep], loads: Sequence[ServerChange], source: str) -> _Held:
    """Return the waits of those whose answers stopped up to a load's end and came at once after it.

    Requests that arrive evenly while nothing is answered wait half of the stop on average.
    """
    marked = in_load(steps, loads)
    usual = median([step.values[Counter.SUCCESS] / step.seconds for step in steps])
    waited = seconds = 0.0
    for number, (before, inside) in enumerate(zip([False, *marked], marked, strict=False)):
        if inside and not before:
            requests, length = _stop(steps, number, usual)
            waited, seconds = waited + requests, seconds + requests * length / 2
    return _Held(seconds, seconds, waited, increase(steps, Counter.SUCCESS), source)


def _went_on(entry: ModelView, source: str, loads: Sequence[ServerChange]) -> bool:
    """Return whether the other source counted answers as usual around the loads: then only reads were lost."""
    other = STATISTICS if source == METRICS else METRICS
    steps = [step for step in entry.steps(other) if Counter.SUCCESS in step.values]
    if len(steps) < _FEWEST_STEPS or not all(_follow(steps)):
        return False
    usual = median([_answers(step) / step.seconds for step in steps])
    marked = in_load(steps, loads)
    near = [step for step, before, now in zip(steps, [*marked[1:], False], marked, strict=True) if before or now]
    return bool(near) and all(_answers(step) >= _STOPPED * usual * step.seconds for step in near)


def _follow(steps: Sequence[CounterStep]) -> Iterator[bool]:
    """Yield whether each step begins where the one before ended; what lies between them was not understood."""
    return (later.start - sooner.end <= _SAME_READ * later.seconds for sooner, later in pairwise(steps))


def _stop(steps: Sequence[CounterStep], number: int, usual: float) -> tuple[float, float]:
    """Return how many requests a stop around a load held, and its seconds; zeros where the steps there show none."""
    near = range(max(number - 1, 0), min(number + 2, len(steps)))
    last = next((i for i in reversed(near) if _answers(steps[i]) < _STOPPED * usual * steps[i].seconds), None)
    if last is None:
        return 0.0, 0.0
    first = last
    while first > 0 and _answers(steps[first - 1]) < _STOPPED * usual * steps[first - 1].seconds:
        first -= 1
    if not all(_follow(steps[max(first - 1, 0) : last + 3])):
        return 0.0, 0.0
    stopped = steps[first : last + 1]
    missing = sum(usual * step.seconds - _answers(step) for step in stopped)
    at_once = sum(max(_answers(step) - usual * step.seconds, 0.0) for step in steps[last + 1 : last + 3])
    return min(missing, at_once), sum(step.seconds for step in stopped)


def _from_pending(entry: ModelView, steps: Sequence[CounterStep], loads: Sequence[ServerChange]) -> _Held:
    """Return the waits by Little's law: what waits, over time, is the sum of all waits.

    What waited as a load began waited for something else.
    """
    points = entry.pending()
    usual = median([value for _, value in points]) if points else 0.0
    waits = [(before, at, max(value - usual, 0.0) * (at - before)) for (before, _), (at, value) in pairwise(points)]
    during = 0.0
    for (before, _), (at, value) in pairwise(points):
        begun = [load.since for load in loads if load.since < at and before < load.at]
        sooner = [waiting for then, waiting in points if begun and then <= min(begun)]
        during += max(value - max([usual, *sooner[-1:]]), 0.0) * (at - before) if begun else 0.0
    waited = _how_many(during, steps, loads)
    return _Held(during, sum(wait for _, _, wait in waits), waited, increase(steps, Counter.SUCCESS), "pending gauge")


def _from_requests(sent: Sequence[tuple[float, float]], loads: Sequence[ServerChange], source: str) -> _Held:
    """Return the time of requests above the usual one, in all and what those took longer that a load met.

    They waited for it by as much as they took longer than those that ended before. Where the log says when it began,
    they waited for it no longer than since then.
    """
    usual = median(seconds for _, seconds in sent)
    everything = sum(max(seconds - usual, 0.0) for _, seconds in sent)
    before = {load: _longest_before(sent, load.since, usual) for load in loads}
    inside = []
    for at, seconds in sent:
        met = [load for load in loads if at <= load.at and load.since <= at + seconds]
        if met:
            since = at + seconds - met[0].since if met[0].source == LOG else seconds
            inside.append(max(min(seconds - before[met[0]], since), 0.0))
    waited = sum(excess > usual for excess in inside)
    return _Held(sum(inside), everything, float(waited), float(len(sent)), source)


def _longest_before(sent: Sequence[tuple[float, float]], began: float, usual: float) -> float:
    """Return the longest time of the last requests that ended before a load began; at least the usual one."""
    ended = sorted((at + seconds, seconds) for at, seconds in sent if at + seconds < began)
    return max([usual, *(seconds for _, seconds in ended[-_LAST:])])


def _by_clients(entry: ModelView) -> list[tuple[float, float]]:
    if len(entry.window.servers) != 1:
        return []
    return [
        (one.at, one.seconds)
        for one in entry.window.clients
        if one.model == entry.model and entry.start <= one.at <= entry.end
    ]


def _by_traces(entry: ModelView) -> list[tuple[float, float]]:
    found = entry.traces().roots(entry.model or "")
    sent = [(one.end_seconds - one.server_seconds, one.server_seconds) for one in found]
    return [one for one in sent if entry.start <= one[0] <= entry.end]


def _answers(step: CounterStep) -> float:
    return step.values[Counter.SUCCESS]


def _reader(unit: Unit, pick: Callable[[_Held, ModelView], float]) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        held = view.once(_held)
        if held is None:
            return Reading.of(0.0, unit, METRICS)
        if isinstance(held, Missing):
            return Reading.unknown(held, unit, METRICS)
        return Reading.of(pick(held, view), unit, held.source, estimated=True, events=held.requests)

    return read


def _waited(view: ModelView) -> Reading:
    """Return the share of requests that waited; which of them fall into loads is chance, and varies as √N."""
    share = _reader(Unit.RATIO, lambda held, view: held.per_request(view, held.waited))(view)
    if not share.value or not share.events:
        return share
    spread = 2 * sqrt(share.value / share.events)
    low, high = max(share.value - spread, 0.0), min(share.value + spread, 1.0)
    return Reading.of(share.value, share.unit, share.source, low=low, high=high, estimated=True, events=share.events)


HELD_SECONDS = Signal(
    name="held_seconds",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="Time that requests waited during loads of the model, per request of its entry in the window, or in half a "
    "minute where it is shorter, by whoever knows of most: the entry's row, answers that stop, the pending gauge, "
    "clients, traces.",
    readers=(_reader(Unit.SECONDS, lambda held, view: held.per_request(view, held.during)),),
)
HELD_REQUESTS = Signal(
    name="held_requests",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of requests of its entry that waited during loads of the model, by the same source.",
    readers=(_waited,),
)
HELD_SHARE = Signal(
    name="held_share",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of all time above the usual, by the same source, that falls into loads of the model.",
    readers=(_reader(Unit.RATIO, lambda held, _: held.during / held.everything if held.everything > 0 else 0.0),),
)
