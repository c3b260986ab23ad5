"""Whether an ensemble's members are called one by one from outside, or by a model, while the ensemble idles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace as with_changes

from diagnostics.signals.counting import FEWEST_EVENTS, absent
from diagnostics.signals.engine_samples import hides_its_time
from diagnostics.signals.flow import ENSEMBLE_FAILURES_PER_REQUEST
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.traces import TRACES, mean_reading
from diagnostics.units import Unit
from diagnostics.window.graph import Ensemble
from diagnostics.window.traces import NANOSECOND, TracedRequest
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView

_CLIENT = "client records"


def ensemble_of(view: ModelView) -> Ensemble | None:
    """Return the ensemble that is looked at, None for anything else."""
    return view.server.graph.ensembles.get(view.model or "")


def _source(view: ModelView) -> str | None:
    return next((s for s in (STATISTICS, METRICS) if view.delta(s) is not None), None)


def _count(view: ModelView, source: str, *counters: Counter) -> float | None:
    delta = view.delta(source)
    if delta is None or Counter.SUCCESS not in delta.values:
        return None
    return sum(delta.values.get(counter, 0.0) for counter in counters)


def _ensemble_calls(view: ModelView) -> Reading:
    source = _source(view)
    succeeded = _count(view, source, Counter.SUCCESS) if source else None
    if source is None or succeeded is None:
        return absent(view, METRICS, Unit.COUNT)
    failed = (_count(view, source, Counter.FAILURE) or 0.0) / ENSEMBLE_FAILURES_PER_REQUEST
    return Reading.of(succeeded + failed, Unit.COUNT, source, events=succeeded + failed)


def direct_steps(view: ModelView, model: str, source: str) -> Mapping[tuple[float, float], float]:
    """Return requests completed per step that no ensemble sent: the model's less those of the ensembles around it."""
    return view.beside(model).once(_DIRECT[source])


def _direct_to(view: ModelView, source: str) -> dict[tuple[float, float], float]:
    counts = dict(view.once(_COMPLETED[source]))
    for caller in view.server.graph.callers(view.model or ""):
        times = sum(1 for step in caller.steps if step.model == view.model)
        for key, count in view.beside(caller.name).once(_COMPLETED[source]).items():
            if key in counts:
                counts[key] -= times * count
    return counts


def _completed(view: ModelView, source: str) -> Mapping[tuple[float, float], float]:
    counts: dict[tuple[float, float], float] = {}
    for step in view.steps(source):
        key = (step.start, step.end)
        counts[key] = counts.get(key, 0.0) + step.values.get(Counter.SUCCESS, 0.0)
    return counts


_COMPLETED = {source: partial(_completed, source=source) for source in (STATISTICS, METRICS)}
_DIRECT = {source: partial(_direct_to, source=source) for source in (STATISTICS, METRICS)}


def _direct(view: ModelView) -> tuple[str, Mapping[str, Mapping[tuple[float, float], float]]] | None:
    ensemble, source = ensemble_of(view), _source(view)
    if ensemble is None or source is None:
        return None
    return source, {model: direct_steps(view, model, source) for model in ensemble.models()}


def _direct_calls(view: ModelView) -> Reading:
    found = view.once(_direct)
    if found is None:
        return absent(view, METRICS, Unit.COUNT)
    source, counts = found
    least = max(min((sum(steps.values()) for steps in counts.values()), default=0.0), 0.0)
    return Reading.of(least, Unit.COUNT, source, events=least)


def _lockstep(view: ModelView) -> Reading:
    """Return how far the members' running totals part, in units of what independent callers' would part by.

    Two independent streams of N requests differ by √(2N); the running difference of one stream seen at two places only
    by what is under way between them.
    """
    found = view.once(_direct)
    if found is None:
        return absent(view, METRICS, Unit.RATIO)
    source, counts = found
    return parting_of(list(counts.values()), source)


def parting_of(counts: Sequence[Mapping[tuple[float, float], float]], source: str) -> Reading:
    """Return how far running totals part at most, in units of √(2N); unknown for too few requests or steps."""
    if len(counts) < 2:  # a single member is in step with nobody
        return Reading.of(1.0, Unit.RATIO, source)
    shared = sorted(set.intersection(*(set(steps) for steps in counts)))
    totals, apart = [0.0] * len(counts), 0.0
    for key in shared:
        totals = [total + steps[key] for total, steps in zip(totals, counts, strict=True)]
        apart = max(apart, max(totals) - min(totals))
    least = min(totals)
    if least < FEWEST_EVENTS or len(shared) < FEWEST_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, source)
    return Reading.of(apart / math.sqrt(2 * least), Unit.RATIO, source, events=least)


MOST_USED = 0.05
"""An ensemble that gets a twentieth of its members' requests is tried out, not used."""
LOCKSTEP = 0.5
"""Running totals of independent streams stay this close with a probability below 1 % (Brownian motion: 4/π·e^(−π²/8x²)
for a pair, at x = 0.5)."""


def _wrapped(view: ModelView) -> Reading:
    """Return 1 when a model outside the ensemble is called in step with its members: it may be what calls them."""
    found = view.once(_direct)
    if found is None:
        return absent(view, METRICS, Unit.COUNT)
    source, counts = found
    ensemble = ensemble_of(view)
    first = next(iter(counts.values()), {})
    members = {*(ensemble.models() if ensemble else ()), view.model or ""}
    for model in (one.model or "" for one in view.executing() if one.model not in members):
        parting = parting_of([first, direct_steps(view, model, source)], source).value
        if parting is not None and parting <= LOCKSTEP:
            return Reading.of(1.0, Unit.COUNT, source)
    return Reading.of(0.0, Unit.COUNT, source)


def _in_step(view: ModelView) -> Reading:
    """Count the other models that are called as often, read for read; unknown for too few requests or reads."""
    source = _source(view)
    if source is None:
        return absent(view, METRICS, Unit.COUNT)
    counts = _completed(view, source)
    others = [_completed(one, source) for one in view.executing() if one.model != view.model]
    partings = [parting_of([counts, other], source) for other in others if sum(other.values())]
    if partings and all(parting.value is None for parting in partings):
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.COUNT, source)
    in_step = [parting for parting in partings if parting.value is not None and parting.value <= LOCKSTEP]
    return Reading.of(float(len(in_step)), Unit.COUNT, source)


def _hops_from_traces(view: ModelView) -> Reading:
    """Per trace: from the first call's start to the last one's end, less the calls on the longest way through."""
    ensemble = ensemble_of(view)
    traces: dict[str, list[TracedRequest]] = {}
    for model in ensemble.models() if ensemble else ():
        for request in view.traces().roots(model):
            traces.setdefault(request.trace, []).append(request)
    whole = [calls for calls in traces.values() if ensemble and len(calls) >= len(ensemble.models()) > 1]
    if not whole:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    return mean_reading([_outside(calls) for calls in whole], Unit.SECONDS, TRACES)


def _outside(calls: Sequence[TracedRequest]) -> float:
    """Return seconds between the first start and the last end in which no call is at the server."""
    reached, outside = 0, 0
    for start, end in sorted(_extent(call) for call in calls):
        outside += max(start - reached, 0) if reached else 0
        reached = max(reached, end)
    return outside * NANOSECOND


def _extent(call: TracedRequest) -> tuple[int, int]:
    return (call.front.start, call.front.end) if call.front else (call.root.start, call.root.end)


def client_seconds(view: ModelView) -> Reading:
    """Return the mean time of the answered requests that clients say they sent to this model or ensemble."""
    times = [
        request.seconds
        for request in view.window.clients
        if request.ok and request.model == view.model and view.start <= request.at + request.seconds <= view.end
    ]
    if not times:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, _CLIENT)
    return mean_reading(times, Unit.SECONDS, _CLIENT)


def member_seconds(view: ModelView, model: str) -> Reading:
    """Return the mean time at the server of a member that is called directly; unknown where its row hides it."""
    member = view.beside(model)
    calls = [call.server_seconds for call in member.traces().roots(model) if view.start <= call.end_seconds <= view.end]
    if len(calls) >= FEWEST_EVENTS:
        return mean_reading(calls, Unit.SECONDS, TRACES)
    if hides_its_time(member):
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    for source in (STATISTICS, METRICS):
        delta = member.delta(source)
        if delta and delta.values.get(Counter.SUCCESS) and Counter.REQUEST_SECONDS in delta.values:
            mean = delta.values[Counter.REQUEST_SECONDS] / delta.values[Counter.SUCCESS]
            return Reading.of(mean, Unit.SECONDS, source, events=delta.values[Counter.SUCCESS])
    return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)


def _hops_from_clients(view: ModelView) -> Reading:
    """What clients take for the whole, less the members' time at the server on the longest way through."""
    whole, ensemble = client_seconds(view), ensemble_of(view)
    if whole.value is None or ensemble is None:
        return whole
    members = {model: member_seconds(view, model) for model in ensemble.models()}
    missing = [reading for reading in members.values() if reading.value is None]
    if missing:
        return missing[0]
    path, _ = ensemble.longest_path({model: reading.value or 0.0 for model, reading in members.items()})
    total = whole
    for model in path:
        total = total - members[model]
    least, most = total.low or 0.0, total.high or 0.0
    return with_changes(total, value=max(total.value or 0.0, 0.0), low=max(least, 0.0), high=max(most, 0.0))


def _signal(name: str, unit: Unit, doc: str, *readers: Callable[[ModelView], Reading], fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.ENSEMBLE, doc=doc, readers=readers, fix=fix)


ENSEMBLE_CALLS = _signal(
    "ensemble_calls", Unit.COUNT, "Requests to the ensemble itself, failed ones too.", _ensemble_calls
)
DIRECT_CALLS = _signal(
    "direct_calls",
    Unit.COUNT,
    "Requests that every member got from outside any ensemble: the least of them.",
    _direct_calls,
)
LOCKSTEP_GAP = _signal(
    "lockstep_gap",
    Unit.RATIO,
    "How far the members' running totals part, as a share of what independent callers' would (√2N).",
    _lockstep,
)
WRAPPED = _signal(
    "called_in_step_with_a_model",
    Unit.COUNT,
    "1 when a model outside the ensemble is called as often, read for read: it may call the members itself.",
    _wrapped,
)
HOP_SECONDS = _signal(
    "hop_seconds",
    Unit.SECONDS,
    "Mean time of an orchestrated request that is spent outside the server, between its calls.",
    _hops_from_traces,
    _hops_from_clients,
)
ORCHESTRATED_SECONDS = _signal(
    "orchestrated_seconds", Unit.SECONDS, "Mean time of the whole as its clients see it.", client_seconds
)
MODELS_IN_STEP = Signal(
    name="models_in_step",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Other models that are called as often, read for read, whoever calls them.",
    readers=(_in_step,),
)
