"""What a model calls from inside its executions, as far as a simulation of it must know.

An execution is its own part and its calls, one after another. That is simulated where each execution makes as many
calls, which do not run beside each other. Else it is not, and the reason is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import instants, series
from diagnostics.forecast.traffic import visits
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.signal import Subject
from diagnostics.signals.traces import union_of
from diagnostics.signals.triton import REQUEST_SECONDS
from diagnostics.tuning.service import ServiceTime
from diagnostics.window.traces import NANOSECOND, TracedVisit

# A call costs its caller a tenth of its execution at most beyond the called model's time (`signals.inner_calls`): what
# fills the rest one after another would not fill it by chance at once, and less than that changes no forecast.
_FILLED, _LITTLE = 0.9, 0.1
# Spans of calls in a row hardly overlap: two in a hundred is what rounding and answers on their way explain.
_AT_ONCE = 1.02
# One request in twenty that calls otherwise, as where a call fails, is left out of a mean.
_ALIKE = 0.95
_PARTS, _FEWEST_PARTS = 8, 4
# By this even undisturbed hosts differ from one window to the next (`forecast.drift`).
_LEAST_DRIFT = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledModel:
    """ExecutionCalls of one model in each execution.

    Attributes:
        model: what is called.
        times: calls per execution.
        seconds: mean seconds of a call, its wait included.
        waits: mean seconds of it in the called model's queue.

    """

    model: str
    times: int
    seconds: float
    waits: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionCalls:
    """What a model calls from inside its executions.

    Attributes:
        called: by model; empty where it calls none.
        unknown: why that cannot be simulated; empty where it can be.

    """

    called: tuple[CalledModel, ...] = ()
    unknown: str = ""

    @property
    def in_order(self) -> tuple[str, ...]:
        """The models that an execution calls, one after another: which is first does not matter to a mean."""
        return tuple(one.model for one in self.called for _ in range(one.times))

    @property
    def seconds(self) -> float:
        """Mean seconds of all calls of an execution."""
        return sum(one.times * one.seconds for one in self.called)


def inner_calls_of(evidence: Evidence, server: str, model: str) -> ExecutionCalls:
    """Return what a model calls from inside its executions: from traces where these show calls, else from counters."""
    on = Subject(server=server, model=model)
    callers = [ensemble.name for ensemble in evidence.graph(server).callers(model)]
    found = _traced([visit for visit in visits(evidence, server, model, callers) if visit.below])
    if found is None:
        found = _counted(evidence, on)
    elif not _shows_all(evidence, on, found):
        return ExecutionCalls(unknown="traces show some of its calls only")
    return found if found.unknown else _checked(evidence, on, found)


def _shows_all(evidence: Evidence, on: Subject, traced: ExecutionCalls) -> bool:
    """Return whether traces show all models that counters know to be called: a caller may not pass its trace on."""
    counted = evidence.inner_calls(on.server).get(on.model or "")
    named = {call.model for call in counted.calls} if counted else set()
    return bool(traced.unknown) or named <= {one.model for one in traced.called}


def _traced(found: Sequence[TracedVisit]) -> ExecutionCalls | None:
    """Return the calls that traces show; None where they show too few."""
    if len(found) < ENOUGH_EVENTS:
        return None
    ways = Counter(tuple(sorted(Counter(call.model for call in visit.below).items())) for visit in found)
    (usual, count), *_ = ways.most_common(1)
    if count < _ALIKE * len(found):
        return ExecutionCalls(unknown="how often it calls which differs between requests")
    alike = [visit for visit in found if tuple(sorted(Counter(call.model for call in visit.below).items())) == usual]
    whole = sum(call.end - call.start for visit in alike for call in visit.below)
    inside = sum(union_of((call.start, call.end) for call in visit.below) for visit in alike)
    if whole > _AT_ONCE * inside:
        return ExecutionCalls(unknown="parallel calls are not simulated")
    each = {name: [call for visit in alike for call in visit.below if call.model == name] for name, _ in usual}
    return ExecutionCalls(
        called=tuple(
            CalledModel(
                model=name,
                times=times,
                seconds=fmean(call.end - call.start for call in each[name]) * NANOSECOND,
                waits=fmean(call.queue_seconds or 0.0 for call in each[name]),
            )
            for name, times in usual
        )
    )


def _counted(evidence: Evidence, on: Subject) -> ExecutionCalls:
    """Return the calls that counters show."""
    found = evidence.inner_calls(on.server).get(on.model or "")
    execution = evidence.read(EXECUTION_SECONDS, on).value
    if found is None:
        return ExecutionCalls()
    if not all(call.in_step for call in found.calls):
        return ExecutionCalls(unknown="how many calls an execution makes is not known")
    if any(call.beside for call in found.calls):
        return ExecutionCalls(unknown="parallel calls are not simulated")
    if any(evidence.hides_time(Subject(server=on.server, model=call.model)) for call in found.calls):
        return ExecutionCalls(unknown="how long a call takes is hidden")
    made = ExecutionCalls(
        called=tuple(
            CalledModel(model=call.model, times=max(round(call.times), 1), seconds=call.seconds, waits=call.waits)
            for call in found.calls
        )
    )
    if execution is None or not _is_sequence(made, execution):
        return ExecutionCalls(unknown="whether its calls run in sequence or in parallel is unknown")
    return made


def _is_sequence(calls: ExecutionCalls, execution: float) -> bool:
    """Return whether calls run one after another, as far as it matters.

    Where they fill the execution so, they hardly ran beside each other. Of calls at once the longest holds the
    instance. As long as it stays the longest, an execution gets longer and shorter with it as with calls in a row. Open
    is only what the others wait, and by how much the second may become the longest.
    """
    if calls.seconds >= _FILLED * execution:
        return True
    each = sorted((one for one in calls.called for _ in range(one.times)), key=lambda one: -one.seconds)
    if len(each) == 1:
        return True
    first, second, *_ = each
    open_seconds = sum(one.waits for one in each[1:]) + max(second.seconds - (first.seconds - first.waits), 0.0)
    return open_seconds <= _LITTLE * execution


def _checked(evidence: Evidence, on: Subject, calls: ExecutionCalls) -> ExecutionCalls:
    """Return calls, unless the caller batches, or calls an ensemble."""
    config = evidence.config(on)
    if calls.called and config is not None and config.dynamic_batching is not None and config.max_batch_size > 1:
        return ExecutionCalls(unknown="how many calls an execution of several requests makes is not known")
    ensembles = evidence.graph(on.server).ensembles
    if any(one.model in ensembles for one in calls.called):
        return ExecutionCalls(unknown="calls of an ensemble are not simulated")
    return calls


def own_part(service: ServiceTime, calls: ExecutionCalls) -> ServiceTime:
    """Return the service time of an execution without its calls."""
    left = max(service.time(1) - calls.seconds, 0.0)
    return ServiceTime(
        base=left,
        per_item=0.0,
        per_item_low=0.0,
        per_item_high=0.0,
        sizes_seen=service.sizes_seen,
        executions=service.executions,
        dispatch_gap=service.dispatch_gap,
    )


def own_drift(evidence: Evidence, on: Subject, calls: ExecutionCalls) -> float:
    """Return by how much the own part may be another, as a share of it.

    Between the eighths of a window it differs mostly by what lies across their ends, and is booked in one eighth of the
    caller and in another of what it calls. The window has two ends, as each of its parts.
    """
    at = instants(evidence.moments(on.server), _PARTS)
    whole = [one.reading.value for one in series(evidence, EXECUTION_SECONDS, on, at)]
    inside: Mapping[str, list[float | None]] = {
        one.model: [
            part.reading.value
            for part in series(evidence, REQUEST_SECONDS, Subject(server=on.server, model=one.model), at)
        ]
        for one in calls.called
    }
    parts = []
    for position, seconds in enumerate(whole):
        each = [(one.times, inside[one.model][position]) for one in calls.called]
        if seconds is not None and all(value is not None for _, value in each):
            parts.append(seconds - sum(times * (value or 0.0) for times, value in each))
    mean = fmean(parts) if parts else 0.0
    return (
        max(pstdev(parts) / mean / len(parts), _LEAST_DRIFT)
        if len(parts) >= _FEWEST_PARTS and mean > 0
        else _LEAST_DRIFT
    )
