"""One server against the others that serve the same entry: share of the traffic, latency, speed at the same work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, TypeVar

from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.triton import BATCH_SIZE, QUEUE_SECONDS, REQUEST_RATE, REQUESTS
from diagnostics.units import Unit
from diagnostics.window.view import ModelView
from diagnostics.wire.model_config import ModelConfig

T = TypeVar("T")


class _Replicas:
    """An entry on all servers that hold it, with counters: each is read once, however many are compared with it.

    Attributes:
        views: by server.

    """

    def __init__(self, view: ModelView) -> None:
        self.views = {name: _on(view, name) for name in sorted(view.window.servers) if _holds(view, name)}
        self._found: dict[Callable[..., Any], Mapping[str, Any]] = {}

    def all(self, read: Callable[[ModelView], T]) -> Mapping[str, T]:
        """Return what a function finds on each server."""
        if read not in self._found:
            self._found[read] = {name: read(view) for name, view in self.views.items()}
        return self._found[read]


def _replicas_of(view: ModelView) -> _Replicas:
    key, across = (view.model, view.version, view.start, view.end), view.window.across
    found: _Replicas | None = across.get(key)
    if found is None:
        found = across[key] = _Replicas(view)
    return found


def _elsewhere(read: Callable[[ModelView], T], view: ModelView) -> Iterator[T]:
    """Yield what a function finds of the same entry on the other servers that hold it, with counters."""
    return (found for name, found in _replicas_of(view).all(read).items() if name != view.server.name)


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
    return bool(view.model and view.window.servers[server].keys_of(view.model))


def _stages(view: ModelView) -> Sequence[str]:
    ensemble = view.server.graph.ensembles.get(view.model or "")
    return ensemble.models() if ensemble else (view.model or "",)


def _others(signal: Signal, view: ModelView) -> list[float]:
    return [one.value for one in _elsewhere(signal.read, view) if one.value is not None]


def _why_alone(signal: Signal, view: ModelView) -> Missing:
    """Return why no peer has a value: counters that mean nothing are no traffic of zero."""
    missing = (one.missing for one in _elsewhere(signal.read, view))
    return next((reason for reason in missing if reason is not None), Missing.IDLE)


def _replicas(view: ModelView) -> Reading:
    return Reading.of(1.0 + len(_replicas_of(view).views.keys() - {view.server.name}), Unit.COUNT, "captures")


def _traffic_ratio(view: ModelView) -> Reading:
    own, others = REQUEST_RATE.read(view), _others(REQUEST_RATE, view)
    if own.value is None or not others:
        return Reading.unknown(own.missing or _why_alone(REQUEST_RATE, view), Unit.COUNT)
    mean = (own.value + sum(others)) / (1 + len(others))
    if mean <= 0:
        return Reading.unknown(Missing.IDLE, Unit.COUNT)
    return Reading.of(own.value / mean, Unit.COUNT, own.source, events=own.events, span=own.span)


def _traffic_certainty(view: ModelView) -> Reading:
    """(own − mean of all) ÷ its standard deviation if each request chose its server independently and evenly."""
    own, others = REQUESTS.read(view), _others(REQUESTS, view)
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
    others = [value for value in _elsewhere(_queue, view) if value is not None]
    if own is None or not others:
        return Reading.unknown(Missing.IDLE, Unit.SECONDS)
    return Reading.of(own - median(others), Unit.SECONDS, "statistics")


def _queue(view: ModelView) -> float | None:
    read = (QUEUE_SECONDS.read(view.beside(model)).value for model in _stages(view))
    found = [value for value in read if value is not None]
    return sum(found) if found else None


def _work(view: ModelView) -> tuple[float | None, float | None, ModelConfig | None]:
    return BATCH_SIZE.read(view).value, EXECUTION_SECONDS.read(view).value, view.config


def _comparable(here: ModelView) -> list[float]:
    """Return the executions' seconds of peers whose configuration is the same and whose batches are about as large."""
    own, config = BATCH_SIZE.read(here).value, here.config
    if own is None:
        return []
    return [
        seconds
        for size, seconds, theirs in _elsewhere(_work, here)
        # A batch a quarter larger explains an execution a quarter longer at most.
        if size is not None and seconds is not None and own <= 1.25 * size and (theirs is config or theirs == config)
    ]


def _against_like(compute: Callable[[float, float], float], unit: Unit) -> Callable[[ModelView], Reading]:
    """Return a reader of (seconds of an execution here, median of the peers that do the same work)."""

    def read(view: ModelView) -> Reading:
        own, others = EXECUTION_SECONDS.read(view), view.once(_comparable)
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
