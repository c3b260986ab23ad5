"""Models that are called from inside a model's execution (business logic scripting): what of its time is theirs.

Traces show it where the caller passes its trace on; else counters may tell (`diagnostics.signals.inner_calls`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from diagnostics import names
from diagnostics.signals.engine_rows import hides_its_time
from diagnostics.signals.inner_calls import inner_calls, possible_share
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.signals.traces import TRACE_FIX, TRACES, executed_visits, union_of
from diagnostics.units import Unit
from diagnostics.window.paths import calls_of
from diagnostics.window.view import METRICS, ModelView
from diagnostics.window.visits import NANOSECOND, TracedVisit

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
    that may be so, which is the upper end. Calls that were traced at another time tell that there are some, and not
    how long they take now. A caller that does not pass its trace on shows none, whatever it calls: then counters tell.
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
