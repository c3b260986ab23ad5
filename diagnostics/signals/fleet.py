"""One server against the others that serve the same entry: share of the traffic, latency, speed at the same work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.triton import BATCH_SIZE, QUEUE_SECONDS, REQUEST_RATE, REQUESTS
from diagnostics.units import Unit
from diagnostics.window.view import ModelView


def peers(view: ModelView) -> list[ModelView]:
    """Return the same entry on the other servers that hold it, with counters."""
    return [_on(view, name) for name in sorted(view.window.servers) if name != view.server.name and _holds(view, name)]


def _on(view: ModelView, server: str) -> ModelView:
    return ModelView(
        window=view.window,
        server=view.window.servers[server],
        model=view.model,
        version=view.version,
        start=view.start,
        end=view.end,
    )


def _holds(view: ModelView, server: str) -> bool:
    return any(model == view.model for model, _ in view.window.servers[server].keys_seen())


def _stages(view: ModelView) -> Sequence[str]:
    ensemble = view.server.graph.ensembles.get(view.model or "")
    return ensemble.models() if ensemble else (view.model or "",)


def _present(signal: Signal, views: Sequence[ModelView]) -> list[float]:
    return [value for value in (signal.read(view).value for view in views) if value is not None]


def _why_alone(signal: Signal, view: ModelView) -> Missing:
    """Return why no peer has a value: counters that mean nothing are no traffic of zero."""
    missing = (signal.read(peer).missing for peer in peers(view))
    return next((reason for reason in missing if reason is not None), Missing.IDLE)


def _replicas(view: ModelView) -> Reading:
    return Reading.of(1.0 + len(peers(view)), Unit.COUNT, "captures")


def _traffic_ratio(view: ModelView) -> Reading:
    own, others = REQUEST_RATE.read(view), _present(REQUEST_RATE, peers(view))
    if own.value is None or not others:
        return Reading.unknown(own.missing or _why_alone(REQUEST_RATE, view), Unit.COUNT)
    mean = (own.value + sum(others)) / (1 + len(others))
    if mean <= 0:
        return Reading.unknown(Missing.IDLE, Unit.COUNT)
    return Reading.of(own.value / mean, Unit.COUNT, own.source, events=own.events, span=own.span)


def _traffic_certainty(view: ModelView) -> Reading:
    """(own − mean of all) ÷ its standard deviation if each request chose its server independently and evenly."""
    own, others = REQUESTS.read(view), _present(REQUESTS, peers(view))
    if own.value is None or not others:
        return Reading.unknown(own.missing or _why_alone(REQUESTS, view), Unit.COUNT)
    total, share = own.value + sum(others), 1 / (1 + len(others))
    if total <= 0:
        return Reading.unknown(Missing.IDLE, Unit.COUNT)
    spread = (total * share * (1 - share)) ** 0.5
    return Reading.of((own.value - total * share) / spread, Unit.COUNT, own.source, events=total)


def _queue_ahead(view: ModelView) -> Reading:
    """Queue seconds of all stages here minus the median of the others: what even traffic would save, at most."""
    own = _queue(view)
    others = [value for value in map(_queue, peers(view)) if value is not None]
    if own is None or not others:
        return Reading.unknown(Missing.IDLE, Unit.SECONDS)
    return Reading.of(own - median(others), Unit.SECONDS, "statistics")


def _queue(view: ModelView) -> float | None:
    found = _present(QUEUE_SECONDS, [view.beside(model) for model in _stages(view)])
    return sum(found) if found else None


def _comparable(here: ModelView, there: Sequence[ModelView]) -> list[float]:
    """Return the executions' seconds of peers whose configuration is the same and whose batches are about as large."""
    own = BATCH_SIZE.read(here).value
    found = []
    for peer in there:
        size, seconds = BATCH_SIZE.read(peer).value, EXECUTION_SECONDS.read(peer).value
        if own is None or size is None or seconds is None or here.config != peer.config:
            continue
        # A batch a quarter larger explains an execution a quarter longer at most.
        if own <= 1.25 * size:
            found.append(seconds)
    return found


def _against_like(compute: Callable[[float, float], float], unit: Unit) -> Callable[[ModelView], Reading]:
    """Return a reader of (seconds of an execution here, median of the peers that do the same work)."""

    def read(view: ModelView) -> Reading:
        own, others = EXECUTION_SECONDS.read(view), _comparable(view, peers(view))
        if own.value is None or not others:
            return Reading.unknown(own.missing or Missing.IDLE, unit)
        return Reading.of(compute(own.value, median(others)), unit, own.source, events=own.events, span=own.span)

    return read


def _signal(name: str, unit: Unit, doc: str, read: Callable[[ModelView], Reading]) -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.ENTRY, doc=doc, readers=(read,))


REPLICAS = _signal("replicas", Unit.COUNT, "Servers of the window that serve this entry.", _replicas)
TRAFFIC_RATIO = _signal(
    "traffic_ratio",
    Unit.COUNT,
    "Request rate here ÷ the mean over the servers of the entry whose counters can be read.",
    _traffic_ratio,
)
TRAFFIC_CERTAINTY = _signal(
    "traffic_certainty",
    Unit.COUNT,
    "Standard score of that, had each request chosen its server independently and evenly.",
    _traffic_certainty,
)
QUEUE_AHEAD = _signal(
    "queue_ahead", Unit.SECONDS, "Queue of all stages here minus the median of the other servers.", _queue_ahead
)
EXECUTION_RATIO = Signal(
    name="execution_ratio",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Seconds of an execution here ÷ the median of the servers with the same configuration and batches.",
    readers=(_against_like(lambda own, other: own / max(other, 1e-9), Unit.COUNT),),
)
EXECUTION_EXCESS = Signal(
    name="execution_excess",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="Seconds of an execution here minus that median.",
    readers=(_against_like(lambda own, other: own - other, Unit.SECONDS),),
)
