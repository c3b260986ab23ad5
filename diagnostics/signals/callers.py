"""What clients recorded and what the server counted, piece of time by piece of time, and whether their clocks agree."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from diagnostics import names
from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.engine_samples import hides_its_time
from diagnostics.signals.orchestration import client_seconds, ensemble_of
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.traces import TRACES, mean_reading
from diagnostics.units import Unit
from diagnostics.window.parsed import ClientRequest
from diagnostics.window.traces import NANOSECOND, TracedRequest
from diagnostics.window.view import METRICS, STATISTICS, Counter, Delta, ModelView, increase
from diagnostics.wire.host import HostThread
from diagnostics.wire.records import BodyKind
from diagnostics.wire.spans import CLIENT_KIND

# Clients and server count the same requests when their numbers are this close; else others call too.
_SAME_REQUESTS = 0.1
# A mean of twenty is within half of what it stands for; the middle one of three such means survives one that is off.
_PIECE_REQUESTS = 20
FEWEST_PIECES = 3
_PIECES_WANTED = 5
# A clock is looked for in steps of half a piece, and in no more of them: a record of hours is longer than any window.
_MOST_SHIFTS = 400
# Clients saw what the server counted where they waited longer by a smaller part of its time than this: less is not
# worth a change of either, and steps of half a piece show no more.
_SMALL = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInterval:
    """A part of the span: Unix seconds, requests that the server completed, and their mean seconds there."""

    start: float
    end: float
    requests: float
    seconds: float


def pieces_of(view: ModelView, source: str) -> list[ServerInterval]:
    """Return pieces of the span, each long enough for a mean; none where the source counts no requests."""
    found: list[ServerInterval] = []
    start, requests, seconds, steps = None, 0.0, 0.0, view.steps(source)
    everything = increase(steps, Counter.SUCCESS)
    enough = max(min(_PIECE_REQUESTS, everything / _PIECES_WANTED), 1.0)
    for step in steps:
        start = step.start if start is None else start
        requests += step.values.get(Counter.SUCCESS, 0.0)
        seconds += step.values.get(Counter.REQUEST_SECONDS, 0.0)
        if requests >= enough:
            found.append(ServerInterval(start=start, end=step.end, requests=requests, seconds=seconds / requests))
            start, requests, seconds = None, 0.0, 0.0
    return found


class ClientCompletions:
    """Answered requests to one model by the Unix seconds at which their answers came, by the clients' clock."""

    def __init__(self, ended: Sequence[tuple[float, float]]) -> None:
        """Take (Unix seconds, seconds taken) of each."""
        ordered = sorted(ended)
        self.ends = [end for end, _ in ordered]
        self._sums = [0.0, *accumulate(seconds for _, seconds in ordered)]

    def beyond(self, pieces: Sequence[ServerInterval], ahead: float = 0.0) -> list[float]:
        """Return how much longer clients waited than the server took, of the pieces in which both count the same.

        Args:
            pieces: those of the server.
            ahead: seconds by which the clients' clock is taken to be ahead of the server's.

        """
        found = []
        for piece in pieces:
            first = bisect_left(self.ends, piece.start + ahead)
            last = bisect_left(self.ends, piece.end + ahead)
            alike = abs(last - first - piece.requests) <= max(_SAME_REQUESTS * piece.requests, 2.0)
            if alike and last > first:
                found.append((self._sums[last] - self._sums[first]) / (last - first) - piece.seconds)
        return found


def calls_of(view: ModelView) -> ClientCompletions:
    """Return the answered requests that clients say they sent to the model or ensemble looked at."""
    model = view.model
    requests = (request for request in view.window.clients if request.ok and request.model == model)
    return ClientCompletions([(request.at + request.seconds, request.seconds) for request in requests])


def is_another_times(pieces: Sequence[ServerInterval], calls: ClientCompletions) -> bool:
    """Return whether a clock that is off explains what clients wait beyond the server's time; False without calls.

    Then there is another time at which they saw just what the server counted. Where its time hardly changes, there is
    none, whatever the clocks show.
    """
    beyond = sorted(calls.beyond(pieces))
    small, fewest = _SMALL * max(piece.seconds for piece in pieces), max(len(pieces) / 2, FEWEST_PIECES)
    if not beyond or beyond[len(beyond) // 2] <= small:
        return False
    return any(_agree(calls.beyond(pieces, ahead), small, fewest) for ahead in _shifts(pieces, calls))


def _agree(beyond: Sequence[float], most: float, fewest: float) -> bool:
    """Return whether enough differences are there, and three in four of them lie within `most` of zero."""
    return len(beyond) >= fewest and 4 * sum(abs(one) <= most for one in beyond) >= 3 * len(beyond)


def _shifts(pieces: Sequence[ServerInterval], calls: ClientCompletions) -> list[float]:
    """Return by how many seconds the clients' clock may be ahead for the records to have pieces in common."""
    least, most = calls.ends[0] - pieces[-1].end, calls.ends[-1] - pieces[0].start
    shortest = min(piece.end - piece.start for piece in pieces)
    step = max(shortest / 2, (most - least) / _MOST_SHIFTS)
    return [least + step * number for number in range(int((most - least) / step) + 1)] if step > 0 else []


_HOST = "host"
# A thread is noted from its first second of processor time on: what it did over less than half of the span is no mean.
_LEAST_OF_SPAN = 0.5
Share = tuple[float, float]


def _busiest(view: ModelView) -> Share | None:
    """Return (has work, has work and no processor) as shares of the time of the thread that had work for longest.

    (0, 0) where no thread has used a second of a processor; None where the recorder did not note threads.
    """
    samples = [(at, threads) for host in view.hosts() if (at := host.at) is not None and (threads := host.threads)]
    noted = [host.at for host in view.hosts() if host.at is not None and host.threads is not None]
    if len(noted) < 2 or noted[-1] <= noted[0]:
        return None
    seen: dict[int, list[tuple[float, HostThread]]] = {}
    for at, threads in samples:
        for thread in threads:
            seen.setdefault(thread.tid, []).append((at, thread))
    return max(_shares(list(seen.values()), (noted[-1] - noted[0]) * _LEAST_OF_SPAN), default=(0.0, 0.0))


def _shares(threads: list[list[tuple[float, HostThread]]], least: float) -> Iterator[Share]:
    for samples in threads:
        (start, first), (end, last) = samples[0], samples[-1]
        seconds, used = end - start, last.cpu_seconds - first.cpu_seconds
        if seconds > 0 and seconds >= least and used >= 0:  # less is another thread of the same number
            waited = max(last.run_delay_seconds - first.run_delay_seconds, 0.0)
            busy = min((used + waited) / seconds, 1.0)
            yield busy, min(waited / seconds, busy)


def _executing(view: ModelView) -> float | None:
    """Return how many instances execute at a time on threads of the server's own process; None without statistics.

    A Python model executes in a process of its own. A model whose configuration was not read counts as one that does
    not.
    """
    lanes, seen = 0.0, False
    for one in view.executing():
        delta = one.delta(STATISTICS)
        seen = seen or delta is not None
        if delta is not None and not (one.config and one.config.backend == names.PYTHON_BACKEND):
            lanes += delta.occupied / delta.seconds
    return lanes if seen else None


def _frontend_busy(view: ModelView) -> Reading:
    found, lanes = view.once(_busiest), _executing(view)
    if found is None or lanes is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _HOST)
    busy, _ = found
    return Reading.of(max(busy - lanes, 0.0), Unit.RATIO, _HOST, high=busy, estimated=lanes > 0, span=view.seconds)


def _frontend_waits(view: ModelView) -> Reading:
    found = view.once(_busiest)
    if found is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _HOST)
    busy, waited = found
    if busy <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, _HOST)
    return Reading.of(waited / busy, Unit.RATIO, _HOST, span=view.seconds)


FRONTEND_BUSY = Signal(
    name="frontend_busy",
    unit=Unit.RATIO,
    scope=Scope.SERVER,
    doc="Share of the time for which the busiest thread of the server's own process runs or waits for a processor, "
    "less what instances execute in that process: at least so busy is a thread that reads requests and sends answers.",
    readers=(_frontend_busy,),
    fix="record on the server's machine, so that its threads can be seen",
)
FRONTEND_CPU_WAIT = Signal(
    name="frontend_cpu_wait",
    unit=Unit.RATIO,
    scope=Scope.SERVER,
    doc="Of the time for which that thread is busy, the share in which it waits for a processor (schedstat).",
    readers=(_frontend_waits,),
)


_CLIENT = "client records"
# Timers and threads are late by less.
_LATE_SECONDS = 0.005
# A client notes the end of one request up to a millisecond after the next one took its connection.
_SAME_MOMENT = 0.001
# Nine in ten alike are no chance of a number that varies.
_MOST_ALIKE = 0.9


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


def _sent_late(view: ModelView) -> list[ClientRequest]:
    """Return the answered requests to the model or ensemble of which their client says how late it sent them."""
    return [
        one
        for one in view.window.clients
        if one.ok and one.delay is not None and one.model == view.model and view.start <= one.at <= view.end
    ]


def _delay(view: ModelView) -> Reading:
    delays = [one.delay for one in _sent_late(view) if one.delay is not None]
    if not delays:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, _CLIENT)
    return mean_reading(delays, Unit.SECONDS, _CLIENT)


def _under_way(view: ModelView) -> Reading:
    """Of requests that were sent late, how many of the same clients' are under way then: with a full pool, always N.

    A client that is late for another reason sends them whatever is under way.
    """
    late = [one.at for one in _sent_late(view) if (one.delay or 0.0) >= _LATE_SECONDS]
    if len(late) < FEWEST_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS if late else Missing.IDLE, Unit.COUNT, _CLIENT)
    begun = sorted(one.at for one in view.window.clients)
    ended = sorted(one.at + one.seconds for one in view.window.clients)
    counts = sorted(bisect_right(begun, at) - bisect_right(ended, at + _SAME_MOMENT) for at in late)
    middle = counts[len(counts) // 2]
    if sum(abs(count - middle) <= 1 for count in counts) < _MOST_ALIKE * len(counts):
        return Reading.unknown(Missing.CONFLICTING, Unit.COUNT, _CLIENT)
    return Reading.of(float(middle), Unit.COUNT, _CLIENT, events=len(counts))


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
CLIENT_DELAY_SECONDS = _signal(
    "client_delay_seconds",
    Unit.SECONDS,
    "Mean time that a request waits in its client before it is sent, by the client's record (`delay_ms`).",
    _delay,
)
CLIENT_CONNECTIONS = _signal(
    "client_connections",
    Unit.COUNT,
    "Requests of the clients that are under way whenever one is sent late: as many as their pool has connections.",
    _under_way,
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
