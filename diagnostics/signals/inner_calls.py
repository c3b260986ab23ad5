"""Which models call others from inside their executions, as counters show where no trace does.

A Python model that calls another (business logic scripting) leaves three marks in counters. The other's requests come
in step with its own: their running totals never part by more than what is under way. They lie inside its executions,
so their time is part of its own. And they end before it: at each read the other has completed as many, or a few more.
A client that calls two models one after another makes the first mark, and neither of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from diagnostics import names
from diagnostics.signals.counting import ENOUGH_EVENTS, FEWEST_EVENTS
from diagnostics.signals.engine_samples import hides_its_time
from diagnostics.signals.inner_rows import CallCounters, in_step, lengthens_with, row_of, runs_ahead
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.traces import TRACE_FIX, TRACES, executed_visits, union_of
from diagnostics.units import Unit
from diagnostics.window.graph import calls_of
from diagnostics.window.traces import NANOSECOND, TracedVisit
from diagnostics.window.view import METRICS, STATISTICS, ModelView

# What a call costs its caller beyond the called model's own time, a message between two processes and a copy, was
# measured as 0.1 to 2 ms: under a tenth of executions that are long enough to be somebody's trouble.
_FILLED = 0.9
# Where the number of calls does not show it, their time must agree more closely than it does by chance.
_CLOSELY = 0.95
# An execution that began before a read and ends behind it is counted with all of its time.
_EDGE = 1.05
# A model that waits for others most of the time waits for them whatever fills the rest.
_MOST = 0.5
# Counts of independent streams vary from read to read as √N, their ratio as both do. One that is made of the other
# varies by less than a third of that.
_STEADIER = 3.0
# The combinations of so many others are 255.
_MOST_TRIED = 8
# Calls whose number does not show it are few, or anything would be made of them.
_MOST_BY_TIME = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerCall:
    """Calls of one model from inside another's executions.

    Attributes:
        model: the model or ensemble that is called.
        times: calls per request of the caller.
        seconds: mean seconds of a call, the wait for an instance included.
        waits: mean seconds of it in queues.
        beside: whether longer calls run beside it, so that it adds no time of its own.
        in_step: whether each request makes as many of them; else now and then, or others call it, too.

    """

    model: str
    times: float
    seconds: float
    waits: float
    beside: bool = False
    in_step: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerCalls:
    """What a model calls from inside its executions.

    Attributes:
        calls: the longest first.
        share: share of the caller's executions in which some call is under way.
        low: the least that it may be, as all may be made at once: the longest of those that surely run ahead; 0 where
            only the times agree.
        high: the most that it may be.
        requests: requests of the caller that count as evidence.
        source: the counters that show it.

    """

    calls: tuple[InnerCall, ...]
    share: float
    low: float
    high: float
    requests: float
    source: str

    @property
    def at_once(self) -> bool:
        """Whether calls surely run at the same time: their times add up to more than the caller's executions."""
        return any(call.beside for call in self.calls)

    @property
    def waits(self) -> float:
        """Share of the calls' time that passes in queues."""
        whole = sum(call.times * call.seconds for call in self.calls)
        return sum(call.times * call.waits for call in self.calls) / whole if whole > 0 else 0.0


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A model that another may call, `times` per request, which takes `part` of its executions.

    `in_step` and `ahead` are of the functions of these names; `shared` where others call it, too, if it is called at
    all.
    """

    row: CallCounters
    times: float
    part: float
    in_step: bool | None
    ahead: bool | None = None
    shared: bool = False


def inner_calls(view: ModelView) -> Mapping[str, InnerCalls]:
    """Return what models of the server call from inside their executions, by the caller's name."""
    return view.beside(None).once(_found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Possible:
    """The share of a model's executions that others, called in step with it, fill if it is what calls them.

    `ahead` is the part of those whose calls run ahead of it as calls from inside do; `undecided` the share with those
    of which too few reads show whether they are called in step; `source` the counters that show it.
    """

    share: float = 0.0
    ahead: float = 0.0
    undecided: float = 0.0
    source: str = METRICS


def possible_share(view: ModelView) -> Possible:
    """Return the share of a model's executions that others, called in step with it, fill if it calls them.

    Those that another model is found to call, or that a client calls before or after this one, are none of them. One
    that hides its time may fill all of it.
    """
    rows = view.beside(None).once(_rows)
    own = rows.get(view.model or "")
    if own is None or own.busy <= 0 or not _may_call(view):
        return Possible()
    known = inner_calls(view)
    others = {call.model for caller, found in known.items() if caller != own.model for call in found.calls}
    parts = [
        (one, 1.0 if hides_its_time(view.beside(one.row.model)) else one.part)
        for one in _candidates(own, rows, others)
        if one.in_step is not False and one.ahead is not False
    ]
    return Possible(
        share=min(sum(part for one, part in parts if one.in_step), 1.0),
        ahead=min(sum(part for one, part in parts if one.in_step and one.ahead), 1.0),
        undecided=min(sum(part for _, part in parts), 1.0),
        source=own.source,
    )


def _may_call(view: ModelView) -> bool:
    config = view.config
    return config is None or config.backend in ("", names.PYTHON_BACKEND, *names.ENGINE_BACKENDS)


def _rows(view: ModelView) -> Mapping[str, CallCounters]:
    """Return what was counted of the models and ensembles that worked, all from the best source that has any."""
    models = sorted({model for model, _ in view.server.keys_seen()})
    for source in (STATISTICS, METRICS):
        found = {model: row for model in models if (row := row_of(view.beside(model), source)) is not None}
        if found:
            return found
    return {}


def _found(view: ModelView) -> Mapping[str, InnerCalls]:
    """Look first for calls whose order shows it, then for those whose time does.

    What lies inside a call lies inside its caller's caller as well: where order shows it, it belongs to the shortest
    that holds it. Where only time does, what the longest calls is not called by what it calls as well.
    """
    rows = view.once(_rows)
    found: dict[str, InnerCalls] = {}
    taken: set[str] = set()
    callers = [own for own in sorted(rows.values(), key=lambda row: row.execution) if _is_script(view, own)]
    for own, by_time in (*((own, False) for own in callers), *((own, True) for own in reversed(callers))):
        candidates = [one for one in _candidates(own, rows, taken) if one.ahead is not False]
        hidden = [one for one in candidates if one.in_step and hides_its_time(view.beside(one.row.model))]
        if own.model in found or (hidden and by_time):
            continue  # what hides its time may fill the rest
        candidates = [one for one in candidates if one.row.model not in found or one.row.execution < own.execution]
        if chosen := _by_time(own, candidates, called=own.model in taken) if by_time else _by_order(candidates):
            if hidden and not _part([one for one in chosen if one.ahead]) >= _MOST:
                continue
            found[own.model] = _calls(own, chosen, hidden=bool(hidden))
            taken |= {one.row.model for one in chosen}
    for caller, one in found.items():
        beside = [c for c in _candidates(rows[caller], rows, taken) if c.in_step and c.ahead is not False]
        taken |= {c.row.model for c in beside}
        found[caller] = _with(one, rows[caller], beside)
    return found


def _is_script(view: ModelView, own: CallCounters) -> bool:
    """Return whether a model may call others as far as its configuration and counters show: Python, and it worked."""
    config = view.beside(own.model).config
    return config is not None and config.backend == names.PYTHON_BACKEND and own.busy > 0


def _candidates(own: CallCounters, rows: Mapping[str, CallCounters], taken: Collection[str]) -> list[_Candidate]:
    """Return the models whose requests may lie inside a model's executions, those that take most of them first."""
    found = [
        candidate
        for row in rows.values()
        if row.model != own.model and row.model not in taken and own.model not in row.members
        if min(row.calls, own.count) >= ENOUGH_EVENTS and _fits(own, row)
        for candidate in _ways(own, row)
    ]
    return sorted(found, key=lambda one: (not one.in_step, -one.part))[:_MOST_TRIED]


def _fits(own: CallCounters, row: CallCounters) -> bool:
    """Return whether a call may lie in an execution: the mean of one that is made now and then takes its part only."""
    return row.request * min(row.calls / own.count, 1.0) <= own.execution * _EDGE


def _ways(own: CallCounters, row: CallCounters) -> Iterator[_Candidate]:
    """Yield how a model may be called: each time, so and so often; else now and then, or by others as well."""
    whole, ratio = sum(row.seconds.values()) / own.busy, row.calls / own.count
    for base in (own.requests, own.executions):
        times = round(row.calls / sum(base.values())) if sum(base.values()) > 0 else 0
        if times < 1 or row.request >= own.execution:
            continue
        step = in_step(base, row, times)
        if step is not False:
            ahead = runs_ahead(own, row, times) if base is own.requests else None
            yield _Candidate(row, ratio, whole, in_step=step, ahead=ahead)
            return
    if not 1 / _EDGE <= ratio <= _EDGE:  # else it is called as often, and not from inside
        yield _Candidate(row, ratio, whole, in_step=False)
    if ratio > _EDGE:
        yield _Candidate(row, 1.0, row.request * own.count / own.busy, in_step=False, shared=True)


def _by_order(candidates: Sequence[_Candidate]) -> Sequence[_Candidate]:
    """Return those of the models called in step that fit in, the most of them, where most of that runs ahead for sure.

    The last call of an execution ends with it, and does not run ahead far enough to be separated from one that a client
    makes afterwards.
    """
    best = max(_subsets([one for one in candidates if one.in_step]), key=_part, default=())
    return best if _is_sure(best) else ()


def _is_sure(some: Sequence[_Candidate]) -> bool:
    """Return whether most of the time of calls is of those that run ahead as calls from inside do."""
    sure = _part([one for one in some if one.ahead])
    return sure > 0 and sure >= _part(some) / 2


def _by_time(own: CallCounters, candidates: Sequence[_Candidate], *, called: bool) -> Sequence[_Candidate]:
    """Return models whose calls fill the executions, each time or now and then; none where that may be chance."""
    return _each_time(own, candidates, called=called) or _now_and_then(own, candidates)


def _each_time(own: CallCounters, candidates: Sequence[_Candidate], *, called: bool) -> Sequence[_Candidate]:
    """Return those of the models called in step that fill the executions, the most of them.

    A client may call models of the same length at once: where that cannot be determined, executions must lengthen with
    their calls. One that is called itself is in step with what is called beside it, and that runs ahead if it is
    shorter.
    """
    best = max(_subsets([one for one in candidates if one.in_step]), key=_part, default=())
    if _part(best) < (_CLOSELY if called else _FILLED):
        return ()
    return best if any(one.ahead for one in best) or _lengthened(own, best) else ()


def _lengthened(own: CallCounters, some: Sequence[_Candidate]) -> bool:
    """Return whether executions take longer whenever these calls do."""
    spans = [span for span in own.held if all(one.row.direct.get(span, 0.0) > 0 for one in some)]
    each = {span: sum(one.times * one.row.seconds[span] / one.row.direct[span] for one in some) for span in spans}
    return lengthens_with(own, each)


def _now_and_then(own: CallCounters, candidates: Sequence[_Candidate]) -> Sequence[_Candidate]:
    """Return models that fill the executions at each read, however often they are called; none where chance may."""
    sets = (one for one in _subsets(candidates, _MOST_BY_TIME) if _part(one) >= _FILLED and _steadily(own, one))
    return max(sets, key=_part, default=())


def _subsets(candidates: Sequence[_Candidate], most: int = _MOST_TRIED) -> Iterator[tuple[_Candidate, ...]]:
    """Yield those that fill no more than there is, a model in one way each."""
    for size in range(1, min(len(candidates), most) + 1):
        for some in combinations(candidates, size):
            if _part(some) <= _EDGE and len({one.row.model for one in some}) == size:
                yield some


def _part(some: Sequence[_Candidate]) -> float:
    return sum(one.part for one in some)


def _steadily(own: CallCounters, some: Sequence[_Candidate]) -> bool:
    """Return whether calls fill the executions by so much the same share at each read that chance does not do it."""
    spans = [span for span, held in own.held.items() if held > 0 and own.requests.get(span, 0.0) > 0]
    spans = [span for span in spans if all(one.row.direct.get(span, 0.0) > 0 for one in some)]
    if len(spans) < FEWEST_EVENTS:
        return False
    shares = [sum(_seconds_in(own, one, span) for one in some) / own.held[span] for span in spans]
    longer = [own.held[span] / own.requests[span] for span in spans]
    # Time that never changes agrees with any other that does not.
    bounds = [_spread(longer) if one.shared else _by_chance(own, one, spans) for one in some if not one.in_step]
    return bool(bounds) and _spread(shares) <= min(bounds) / _STEADIER**2


def _seconds_in(own: CallCounters, one: _Candidate, span: tuple[float, float]) -> float:
    seconds = one.row.seconds[span]
    return seconds / one.row.direct[span] * own.requests[span] if one.shared else seconds


def _by_chance(own: CallCounters, one: _Candidate, spans: Sequence[tuple[float, float]]) -> float:
    return fmean(1 / own.requests[span] + 1 / one.row.direct[span] for span in spans)


def _spread(values: Sequence[float]) -> float:
    """Return the squared coefficient of variation."""
    mean = fmean(values)
    return fmean((value / mean - 1) ** 2 for value in values) if mean > 0 else 0.0


def _calls(own: CallCounters, chosen: Sequence[_Candidate], *, hidden: bool) -> InnerCalls:
    """Return what is called; `hidden` where one of them hides its time, which may be all that the others leave."""
    share = min(_part(chosen), 1.0)
    return InnerCalls(
        calls=tuple(_call(one) for one in sorted(chosen, key=lambda one: -one.part)),
        share=share,
        low=min(max(one.part for one in chosen if one.ahead), share) if _is_sure(chosen) else 0.0,
        high=1.0 if hidden else min(share * _EDGE, 1.0),
        requests=own.count,
        source=own.source,
    )


def _call(one: _Candidate, *, beside: bool = False) -> InnerCall:
    row = one.row
    waits = min(row.waits, row.request)
    return InnerCall(
        model=row.model, times=one.times, seconds=row.request, waits=waits, beside=beside, in_step=one.in_step is True
    )


def _with(found: InnerCalls, own: CallCounters, beside: Sequence[_Candidate]) -> InnerCalls:
    """Return calls with those that have no room beside them one after another: they are made at the same time."""
    if not beside:
        return found
    high = min(found.share + _part(beside), 1.0)
    calls = (*found.calls, *(_call(one, beside=True) for one in beside))
    return InnerCalls(
        calls=calls, share=found.share, low=found.low, high=max(found.high, high), requests=own.count, source=own.source
    )


# Half of the time: what a model does most of it.
MOSTLY_NESTED = 0.5


def may_hide(view: ModelView, model: str) -> bool:
    """Return whether a model may go on after its span without a sign of it: a Python model's response sender."""
    config = view.beside(model).config
    return config is None or config.backend in ("", names.PYTHON_BACKEND, *names.ENGINE_BACKENDS)


def _called(visits: Collection[TracedVisit], which: Callable[[str], bool]) -> frozenset[str]:
    return frozenset(model for model in {below.model for visit in visits for below in visit.below} if which(model))


def _inside(visits: Collection[TracedVisit], hidden: Collection[str]) -> int:
    """Return for how long at least one called model is at work, over all visits, in nanoseconds."""
    return sum(union_of((call.visit.start, call.answered) for call in calls_of(visit, hidden)) for visit in visits)


def _nested_share(view: ModelView) -> Reading:
    """Time in which at least one called model is at work, as a share of the caller's own execution.

    An engine's span ends where the request is handed to it; until the caller goes on, it is at work. Of a Python model
    that may be so, which is the upper end. Calls that were traced at another time show that there are some, and not how
    long they take now. A caller that does not pass its trace on shows none, whatever it calls: then counters decide.
    """
    visits = executed_visits(view)
    if not any(visit.below for visit in visits):
        if (view.model or "") in inner_calls(view):
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, TRACES)
        if FILLABLE_SHARE.read(view).missing is Missing.TOO_FEW_EVENTS:
            return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, TRACES)
    if not visits:
        calls = any(visit.below for _, visit in view.traces().visits(view.model or ""))
        return Reading.unknown(Missing.STALE if calls else Missing.NOT_EXPORTED, Unit.RATIO, TRACES)
    own = sum((visit.computed or 0) - (visit.began or 0) for visit in visits)
    if own <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, TRACES)
    hidden = _called(visits, lambda model: hides_its_time(view.beside(model)))
    possible = _called(visits, lambda model: may_hide(view, model))
    low, value, high = (min(_inside(visits, models) / own, 1.0) for models in ((), hidden, hidden | possible))
    return Reading.of(value, Unit.RATIO, TRACES, low=low, high=high, estimated=bool(hidden), events=len(visits))


def _nested_wait(view: ModelView) -> Reading:
    """The called models' queues as a share of their whole time."""
    visits = executed_visits(view)
    hidden = _called(visits, lambda model: hides_its_time(view.beside(model)))
    called = [call for visit in visits for call in calls_of(visit, hidden)]
    whole = sum(call.answered - call.visit.start for call in called) * NANOSECOND
    if not called or whole <= 0:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, TRACES)
    waited = sum(call.visit.queue_seconds or 0.0 for call in called)
    return Reading.of(waited / whole, Unit.RATIO, TRACES, events=len(called))


def _share_by_counters(view: ModelView) -> Reading:
    found = inner_calls(view).get(view.model or "")
    if found is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return Reading.of(
        found.share,
        Unit.RATIO,
        found.source,
        low=found.low,
        high=found.high,
        estimated=True,
        events=found.requests,
    )


def _wait_by_counters(view: ModelView) -> Reading:
    found = inner_calls(view).get(view.model or "")
    if found is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return Reading.of(found.waits, Unit.RATIO, found.source, estimated=True, events=found.requests)


def _fillable(view: ModelView) -> Reading:
    found = possible_share(view)
    if found.share < MOSTLY_NESTED <= found.undecided:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, found.source)
    return Reading.of(
        found.share, Unit.RATIO, found.source, low=found.ahead, high=found.share, estimated=found.share > 0
    )


NESTED_WAIT = Signal(
    name="nested_wait",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of the called models' time for which the calls wait for an instance.",
    readers=(_nested_wait, _wait_by_counters),
)
NESTED_SHARE = Signal(
    name="nested_share",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of the model's execution in which models that it calls are at work, queues included.",
    readers=(_nested_share, _share_by_counters),
    fix=TRACE_FIX,
)
FILLABLE_SHARE = Signal(
    name="fillable_share",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of the model's execution that others, called in step with it, would fill if it is what calls them. "
    "Unknown where too few reads tell whether those are called in step that would fill most of it.",
    readers=(_fillable,),
)
