"""Time that an ensemble's requests spend between its stages, as far as no stage can be working then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.engine_samples import hides_its_time
from diagnostics.signals.inner_calls import may_hide
from diagnostics.signals.orchestration import ensemble_of
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.traces import TRACE_FIX, TRACES, mean_reading
from diagnostics.units import Unit
from diagnostics.window.graph import Path, path_of
from diagnostics.window.traces import TracedRequest
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView

_PHASES = (Counter.QUEUE_SECONDS, Counter.INPUT_SECONDS, Counter.INFER_SECONDS, Counter.OUTPUT_SECONDS)


def hidden_members(view: ModelView) -> frozenset[str]:
    """Return the members that answer from threads of their own, as far as is known."""
    ensemble = ensemble_of(view)
    return frozenset(model for model in (ensemble.models() if ensemble else ()) if hides_its_time(view.beside(model)))


def paths(view: ModelView) -> list[tuple[TracedRequest, Path]]:
    """Return the critical path of each traced request of the ensemble in which every stage was seen."""
    return view.once(_paths)


def _paths(view: ModelView) -> list[tuple[TracedRequest, Path]]:
    ensemble, hidden = ensemble_of(view), hidden_members(view)
    wanted = set(ensemble.models()) if ensemble else set()
    found = []
    for request in view.traces().roots(view.model or ""):
        whole = wanted <= {visit.model for visit in request.root.below}
        if whole and view.start <= request.end_seconds <= view.end:
            path = path_of(request.root, ensemble, hidden)
            if path is not None:
                found.append((request, path))
    return found


def _overhead(view: ModelView) -> Reading:
    """Gaps behind stages that hide no time; of those that might, the one with the longest gap is taken to."""
    walked = [path for _, path in paths(view)]
    if len(walked) < FEWEST_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS if walked else Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    hidden = hidden_members(view)
    behind: dict[str | None, float] = defaultdict(float)
    for path in walked:
        for model in {step.after for step in path.steps} | {path.steps[-1].visit.model}:
            behind[model] += path.gap_seconds({model}.__contains__)
    suspects = {model: seconds for model, seconds in behind.items() if model is not None and may_hide(view, model)}
    engine = max(suspects, key=lambda model: suspects[model], default=None)
    left = [
        path.gap_seconds(lambda after: after not in hidden and (after is None or after != engine)) for path in walked
    ]
    return mean_reading(left, Unit.SECONDS, TRACES)


def _overhead_from_counters(view: ModelView) -> Reading:
    """The ensemble's time less its members', where none of them can hide time and none runs beside another."""
    ensemble = ensemble_of(view)
    if ensemble is None or not ensemble.steps or any(may_hide(view, model) for model in ensemble.models()):
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    if any(len(ensemble.after(model)) > 1 or len(ensemble.before(model)) > 1 for model in ensemble.models()):
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    for source in (STATISTICS, METRICS):
        whole = _mean(view, source, (Counter.REQUEST_SECONDS,))
        members = [_mean(view.beside(model), source, _PHASES) for model in ensemble.models()]
        if whole is not None and None not in members:
            rest = whole - sum(seconds for seconds in members if seconds is not None)
            return Reading.of(max(rest, 0.0), Unit.SECONDS, source, estimated=True)
    return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)


def _mean(view: ModelView, source: str, counters: tuple[Counter, ...]) -> float | None:
    delta = view.delta(source)
    requests = delta.values.get(Counter.SUCCESS, 0.0) if delta else 0.0
    if delta is None or requests < FEWEST_EVENTS or not set(counters) <= set(delta.values):
        return None
    return sum(delta.values[counter] for counter in counters) / requests


def _hidden_count(view: ModelView) -> Reading:
    ensemble = ensemble_of(view)
    if ensemble is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, "configuration")
    return Reading.of(float(len(hidden_members(view))), Unit.COUNT, "configuration")


def _signal(name: str, unit: Unit, doc: str, *readers: Callable[[ModelView], Reading], fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.ENSEMBLE, doc=doc, readers=readers, fix=fix)


OVERHEAD_SECONDS = _signal(
    "overhead_seconds",
    Unit.SECONDS,
    "Mean time of an ensemble's request between its stages, without gaps in which a stage may still be at work.",
    _overhead,
    _overhead_from_counters,
)
HIDDEN_MEMBERS = _signal(
    "hidden_members",
    Unit.COUNT,
    "Members that answer from threads of their own, so that their time shows as a gap.",
    _hidden_count,
)

__all__ = ["HIDDEN_MEMBERS", "OVERHEAD_SECONDS", "TRACE_FIX", "hidden_members", "paths"]
