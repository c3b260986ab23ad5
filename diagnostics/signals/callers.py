"""A request's time outside the models: with its client and the network, and in the server's own frontend."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Sequence

from diagnostics.signals.client_pieces import FEWEST_PIECES, calls_of, is_another_times, pieces_of
from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.engine_rows import hides_its_time
from diagnostics.signals.orchestration import client_seconds, ensemble_of
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.signals.traces import TRACES, mean_reading
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, Delta, ModelView
from diagnostics.window.visits import NANOSECOND, TracedRequest
from diagnostics.wire.records import BodyKind
from diagnostics.wire.spans import CLIENT_KIND

_CLIENT = "client records"


def requests_of(view: ModelView) -> list[TracedRequest]:
    """Return the traced requests that called this model or ensemble themselves and ended in the span."""
    return [r for r in view.traces().roots(view.model or "") if view.start <= r.end_seconds <= view.end]


def _outside_from_traces(view: ModelView) -> Reading:
    """A caller's span around the call, less the call at the server: durations only, so clocks may differ."""
    found = [
        max(near.seconds - request.server_seconds, 0.0)
        for request in requests_of(view)
        for near in request.outer[:1]
        if near.kind == CLIENT_KIND
    ]
    if len(found) < FEWEST_EVENTS:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    return mean_reading(found, Unit.SECONDS, TRACES)


def _outside_from_clients(view: ModelView) -> Reading:
    """The middle one of many short comparisons: where requests are lost to a reset, a mean over all of them lies."""
    whole = client_seconds(view)
    if whole.value is None:
        return whole
    if view.has_holes():  # a clock that jumped: pieces of the client's record are not those of the server's
        return Reading.unknown(Missing.STALE, Unit.SECONDS, _CLIENT)
    source = _source_of_time(view)
    if source is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, f"{_CLIENT} and {METRICS}")
    named = f"{_CLIENT} and {source}"
    pieces, calls = pieces_of(view, source), calls_of(view)
    outside = sorted(calls.beyond(pieces))
    if len(outside) < FEWEST_PIECES or len(outside) < len(pieces) / 2:
        reason = Missing.TOO_FEW_EVENTS if len(pieces) < FEWEST_PIECES else Missing.CONFLICTING
        return Reading.unknown(reason, Unit.SECONDS, named)
    if is_another_times(pieces, calls):
        return Reading.unknown(Missing.CONFLICTING, Unit.SECONDS, named)
    quarter = len(outside) // 4
    return Reading.of(
        max(outside[len(outside) // 2], 0.0),
        Unit.SECONDS,
        named,
        low=max(outside[quarter], 0.0),
        high=max(outside[-1 - quarter], 0.0),
        events=whole.events,
        span=whole.span,
    )


def _source_of_time(view: ModelView) -> str | None:
    """Return the source of the time at the server; None where a direct call's row hides it, or without one."""
    if hides_its_time(view) and ensemble_of(view) is None:
        return None
    return next((s for s in (STATISTICS, METRICS) if (delta := view.delta(s)) is not None and _has_time(delta)), None)


def _has_time(delta: Delta) -> bool:
    return Counter.REQUEST_SECONDS in delta.values and delta.values.get(Counter.SUCCESS, 0.0) > 0


def _handling(view: ModelView) -> Reading:
    values = [seconds for request in requests_of(view) if (seconds := request.handling_seconds) is not None]
    if not values:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    found = mean_reading(values, Unit.SECONDS, TRACES)
    # Its interval reaches zero where one or two requests make the mean: what held those is not what holds requests.
    if found.value and not found.low:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, TRACES)
    return found


def _waiting_elsewhere(view: ModelView) -> Reading:
    """By Little's law, of all the requests in the clients' record: queue seconds of other models ÷ all seconds."""
    under_way = sum(
        request.seconds for request in view.window.clients if view.start <= request.at + request.seconds <= view.end
    )
    if len(view.window.servers) > 1 or under_way <= 0:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _CLIENT)
    ensemble = ensemble_of(view)
    own = set(ensemble.models()) if ensemble else {view.model}
    deltas = [_counted(other) for other in view.executing() if other.model not in own]
    queued = sum(delta.values.get(Counter.QUEUE_SECONDS, 0.0) for delta in deltas if delta is not None)
    return Reading.of(min(queued / under_way, 1.0), Unit.RATIO, f"{_CLIENT} and {METRICS}")


def _counted(view: ModelView) -> Delta | None:
    return view.delta(STATISTICS) or view.delta(METRICS)


def _transfer(view: ModelView) -> Reading:
    """From the first byte of a request read to its last, and of its answer; where the client is slow it is long."""
    values = [
        max(front.received - front.start, 0) + max(front.end - front.sending, 0)
        for request in requests_of(view)
        if (front := request.front) is not None and front.received is not None and front.sending is not None
    ]
    if not values:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    return mean_reading([value * NANOSECOND for value in values], Unit.SECONDS, TRACES)


def _missed(view: ModelView) -> Reading:
    """Reads of the inference port that gave nothing, as a share of those of the metrics port.

    Both are read once a round; a recorder that does not keep failures leaves a hole.
    """
    metrics, answered = len(view.server.reads[METRICS]), len(view.server.reads[STATISTICS])
    if (unread := view.server.failures.get(BodyKind.STATISTICS)) is not None:
        answered += unread.answered  # a proxy's page or a cut body: something answered
    if not metrics or not answered:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, "reads")
    return Reading.of(max(metrics - answered, 0) / metrics, Unit.RATIO, "reads", events=metrics)


def _port_lag(view: ModelView) -> Reading:
    """How much later a read of the inference port ends than one of the metrics port that began with it, median.

    Both go the same way, and only one of them shares its threads with the requests. A recorder that gives a whole
    round one time says nothing of it.
    """
    reads = view.server.reads
    metrics, answered = (
        [at for at, _ in reads[source] if view.start <= at <= view.end] for source in (METRICS, STATISTICS)
    )
    if len(metrics) < FEWEST_EVENTS or len(answered) < FEWEST_EVENTS:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, "reads")
    lags = sorted(_nearest(answered, at) - at for at in metrics)
    if not any(lags):
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, "reads")
    quarter = len(lags) // 4
    middle, low, high = (max(lags[place], 0.0) for place in (len(lags) // 2, quarter, len(lags) - 1 - quarter))
    return Reading.of(middle, Unit.SECONDS, "reads", low=low, high=high, events=len(lags))


def _nearest(ascending: Sequence[float], at: float) -> float:
    place = bisect_left(ascending, at)
    return min(ascending[max(place - 1, 0) : place + 1], key=lambda other: abs(other - at))


def _own_time(view: ModelView) -> Reading:
    """A caller's whole span less its call at the server; where it makes several calls it is an orchestration."""
    calls = Tally(request.trace for request in view.traces().requests)
    values = [
        max(request.outer[-1].seconds - request.server_seconds, 0.0)
        for request in requests_of(view)
        if calls[request.trace] == 1 and request.outer and request.outer[-1].kind != CLIENT_KIND
    ]
    if len(values) < FEWEST_EVENTS:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, TRACES)
    return mean_reading(values, Unit.SECONDS, TRACES)


def _signal(name: str, unit: Unit, doc: str, *readers: Callable[[ModelView], Reading], fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.ENTRY, doc=doc, readers=readers, fix=fix)


OUTSIDE_SECONDS = _signal(
    "outside_seconds",
    Unit.SECONDS,
    "Mean time that a client waits beyond the request's time in the server: network, encoding, the client itself.",
    _outside_from_traces,
    _outside_from_clients,
)
HANDLING_SECONDS = _signal(
    "handling_seconds",
    Unit.SECONDS,
    "Mean time for which the server's frontend holds a request that it has read, or an answer that it has.",
    _handling,
)
TRANSFER_SECONDS = _signal(
    "transfer_seconds",
    Unit.SECONDS,
    "Mean time from a request's first byte to its last, and from its answer's first byte to its last.",
    _transfer,
)
WAITING_ELSEWHERE = _signal(
    "waiting_elsewhere",
    Unit.RATIO,
    "Share of the requests which the recorded clients have under way that wait in queues of other models.",
    _waiting_elsewhere,
)
CALLER_SECONDS = _signal(
    "caller_seconds", Unit.SECONDS, "Mean time of the service in front, outside its call to the server.", _own_time
)
PORT_LAG = Signal(
    name="port_lag",
    unit=Unit.SECONDS,
    scope=Scope.SERVER,
    doc="How much longer a read of the inference port takes than one of the metrics port at the same time, median.",
    readers=(_port_lag,),
)
MISSED_READS = Signal(
    name="missed_reads",
    unit=Unit.RATIO,
    scope=Scope.SERVER,
    doc="Share of reads of the inference port that gave nothing while the metrics port answered.",
    readers=(_missed,),
)
