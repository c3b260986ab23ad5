"""How requests arrive at an entry: evenly, as independent clients send them, or in bursts, and what bursts cost.

Counts per interval come from a client's own record, else from what the first stages of the entry took in (completions
plus the growth of their backlog). Completions of the entry itself will not do: a stall anywhere behind makes them
bunch, too. Where intervals differ in length, arrivals are bunched only if they are also without what the clock says of
the lengths: a clock that trembles makes even arrivals look bunched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, median

from diagnostics.signals.bunching import FEWEST_BINS, ArrivalBin, Crowding, crowding, dispersion, evened
from diagnostics.signals.engine_rows import is_engine
from diagnostics.signals.engine_samples import held_by_engine
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.lifecycle import Happened, changes
from diagnostics.window.view import METRICS, Counter, ModelView

CLIENT = "client"
BIN_SECONDS = 1.0
# Of steady traffic, ten requests an interval vary by a third: half as many are a stop, half again as many a crowd, and
# between them what makes up for a stop is known.
_STOPPED, _CROWDED = 0.5, 1.5
_LEAST_MADE_UP = 2 / 3
MOST_BINS = 172_800  # two days: a longer window is one whose clock jumped, and would fill the memory


@dataclass(frozen=True, slots=True)
class Arrivals:
    """All intervals of an entry, in time order and without gaps, and where they were read."""

    bins: tuple[ArrivalBin, ...]
    source: str

    @property
    def requests(self) -> float:
        """Requests in all intervals."""
        return sum(one.count for one in self.bins)

    @property
    def seconds(self) -> float:
        """Seconds of all intervals."""
        return sum(one.seconds for one in self.bins)


def arrivals_of(view: ModelView) -> Arrivals | Missing:
    """Return an entry's intervals: from the client's record where it covers the span, else from counters."""
    return view.once(_arrivals)


def _arrivals(view: ModelView) -> Arrivals | Missing:
    if view.has_holes():  # what nobody saw would pass for a lull between bursts
        return Missing.STALE
    if bins := _client_bins(view):
        return Arrivals(tuple(bins), CLIENT)
    found = _counter_bins(view)
    return found if isinstance(found, Missing) else Arrivals(tuple(found), METRICS)


def _client_bins(view: ModelView) -> list[ArrivalBin]:
    if len(view.window.servers) > 1:
        return []  # a client's record does not say which of several servers answered
    sent = [r for r in view.window.clients if r.model == view.model and view.start <= r.at < view.end]
    # A record does not say when it began and ended: what is outside its requests is no lull.
    times = [r.at for r in view.window.clients if view.start <= r.at < view.end]
    start, end = min(times, default=view.start), max(times, default=view.start)
    count = int((end - start) / BIN_SECONDS)
    if not sent or not FEWEST_BINS <= count <= MOST_BINS:
        return []
    inside: list[list[float]] = [[] for _ in range(count)]
    for request in sent:
        if (position := int((request.at - start) / BIN_SECONDS)) < count:
            inside[position].append(request.seconds)
    return [ArrivalBin(BIN_SECONDS, len(latencies), fmean(latencies) if latencies else None) for latencies in inside]


def _counter_bins(view: ModelView) -> list[ArrivalBin] | Missing:
    if not view.server.reads[METRICS]:
        return Missing.NOT_EXPORTED
    if view.ticks_coarsely(METRICS):
        return Missing.CONFLICTING
    ensemble = view.server.graph.ensembles.get(view.model or "")
    firsts = [name for name in ensemble.models() if not ensemble.before(name)] if ensemble else [view.model or ""]
    taken = [_taken_in(view.beside(model)) for model in firsts]
    if not taken or not all(taken):  # an ensemble that calls one model again and again has no first stage
        return Missing.NOT_EXPORTED
    latency = _latencies(view)
    spans = sorted(set.intersection(*(set(each) for each in taken)))
    if any(end <= start for start, end in spans):  # the clock was set back, or stands still
        return Missing.CONFLICTING
    held = _held(view, spans)
    # Every first stage of an ensemble gets each request once.
    return _with_held_spread(
        [
            ArrivalBin(span[1] - span[0], max(each[span] for each in taken), latency.get(span), was_held)
            for span, was_held in zip(spans, held, strict=True)
        ]
    )


def _with_held_spread(bins: Sequence[ArrivalBin]) -> list[ArrivalBin]:
    """Return the intervals with the longest stop, and what makes up for it at once behind it, as one.

    Requests that a load or a gateway holds reach the first stage together: their clients sent them all the while.
    Bursts come without such a stop, or with one before each.
    """
    usual = median([one.count / one.seconds for one in bins]) if bins else 0.0
    stop = _longest_stop(bins, usual)
    if stop is None:
        return list(bins)
    first, last = stop
    missed = sum(usual * one.seconds - one.count for one in bins[first:last])
    end = next((i for i in range(last, len(bins)) if bins[i].count <= _CROWDED * usual * bins[i].seconds), len(bins))
    beyond = sum(one.count - usual * one.seconds for one in bins[last:end])
    if not _LEAST_MADE_UP * missed <= beyond <= missed / _LEAST_MADE_UP:
        return list(bins)
    return [*bins[:first], _joined(bins[first:end]), *bins[end:]]


def _longest_stop(bins: Sequence[ArrivalBin], usual: float) -> tuple[int, int] | None:
    """Return where the longest run of intervals with few arrivals begins and ends; None without any."""
    found, first = [], 0
    for few, run in groupby(bins, key=lambda one: one.count < _STOPPED * usual * one.seconds):
        last = first + len(list(run))
        if few:
            found.append((first, last))
        first = last
    return max(found, key=lambda stop: sum(one.seconds for one in bins[stop[0] : stop[1]]), default=None)


def _joined(bins: Sequence[ArrivalBin]) -> ArrivalBin:
    count = sum(one.count for one in bins)
    seconds = sum(one.count * one.latency for one in bins if one.latency is not None)
    held = any(one.held for one in bins)
    return ArrivalBin(sum(one.seconds for one in bins), count, seconds / count if count > 0 else None, held)


def _held(view: ModelView, spans: Sequence[tuple[float, float]]) -> list[bool]:
    """Return in which spans requests may come at once that a load held: those that touch one, and each one after.

    A load through the HTTP port holds one of the frontend's threads, and who is connected to it, whatever they ask.
    """
    loads = [change for change in changes(view.server) if change.kind in (Happened.LOADED, Happened.RELOADED)]
    inside = [any(load.since < end and start <= load.at for load in loads) for start, end in spans]
    return [now or before for before, now in zip([False, *inside], inside, strict=False)]


def _taken_in(view: ModelView) -> Mapping[tuple[float, float], float]:
    """Return requests that arrived per step: completions + growth of the backlog; empty without the pending gauge.

    An engine takes every request at once: its backlog is what it holds, and not said where it exports no gauges.
    """
    pending = dict(view.pending())
    if pending and is_engine(view):
        held = held_by_engine(view)
        pending = {at: count + held[at] for at, count in pending.items() if at in held}
    if not pending:
        return {}
    taken: dict[tuple[float, float], float] = {}
    for step in view.steps(METRICS):
        if step.start in pending and step.end in pending:
            arrived = step.values.get(Counter.SUCCESS, 0.0) + step.values.get(Counter.FAILURE, 0.0)
            taken[step.start, step.end] = taken.get((step.start, step.end), 0.0) + arrived
    return {span: max(n + pending[span[1]] - pending[span[0]], 0.0) for span, n in taken.items()}


def _latencies(view: ModelView) -> Mapping[tuple[float, float], float]:
    totals: dict[tuple[float, float], tuple[float, float]] = {}
    for step in view.steps(METRICS):
        seconds, requests = totals.get((step.start, step.end), (0.0, 0.0))
        seconds += step.values.get(Counter.REQUEST_SECONDS, 0.0)
        totals[step.start, step.end] = (seconds, requests + step.values.get(Counter.SUCCESS, 0.0))
    return {span: seconds / requests for span, (seconds, requests) in totals.items() if requests > 0}


def _from_bins(unit: Unit, compute: Callable[[Sequence[ArrivalBin]], float | None]) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        arrivals = arrivals_of(view)
        if isinstance(arrivals, Missing):
            return Reading.unknown(arrivals, unit)
        value = compute(arrivals.bins)
        if value is None:
            return Reading.unknown(Missing.TOO_FEW_EVENTS, unit, arrivals.source)
        return Reading.of(value, unit, arrivals.source, events=arrivals.requests, span=arrivals.seconds)

    return read


def _at_least(
    compute: Callable[[Sequence[ArrivalBin]], float | None],
) -> Callable[[Sequence[ArrivalBin]], float | None]:
    """Return the smallest of some values: by the intervals' lengths, as if all were equally long, and without loads."""

    def least(bins: Sequence[ArrivalBin]) -> float | None:
        measured, even = (compute(bins), compute(evened(bins))) if bins else (None, None)
        if measured is None or even is None:
            return None
        free = [one for one in bins if not one.held]
        unheld = compute(free) if len(free) < len(bins) else None
        return min(one for one in (measured, even, unheld) if one is not None)

    return least


def _index(bins: Sequence[ArrivalBin]) -> float | None:
    found = dispersion(bins)
    return found.index if found else None


def _index_score(bins: Sequence[ArrivalBin]) -> float | None:
    found = dispersion(bins)
    return found.z if found else None


def _peak(bins: Sequence[ArrivalBin]) -> float | None:
    rates = [one.count / one.seconds for one in bins if one.seconds > 0]
    mean = sum(one.count for one in bins) / max(sum(one.seconds for one in bins), 1e-9)
    return max(rates) / mean if rates and mean > 0 else None


def _crowd(pick: Callable[[Crowding], float]) -> Callable[[Sequence[ArrivalBin]], float | None]:
    def compute(bins: Sequence[ArrivalBin]) -> float | None:
        found = crowding(bins)
        return pick(found) if found else None

    return compute


def _signal(name: str, unit: Unit, doc: str, compute: Callable[[Sequence[ArrivalBin]], float | None]) -> Signal:
    fix = "record what a client sees, or read the metrics every second or two (pending gauge: Triton 23.09)"
    return Signal(name=name, unit=unit, scope=Scope.ENTRY, doc=doc, readers=(_from_bins(unit, compute),), fix=fix)


BURST_SIZE = _signal(
    "burst_size",
    Unit.COUNT,
    "Index of dispersion of arrivals: mean size of the group that a request arrives in; 1 for independent requests.",
    _at_least(_index),
)
BURST_CERTAINTY = _signal(
    "burst_certainty",
    Unit.COUNT,
    "Standard score of that index against independent (Poisson) arrivals at the same rate.",
    _at_least(_index_score),
)
PEAK_TO_MEAN = _signal(
    "peak_to_mean",
    Unit.COUNT,
    "Highest arrival rate of an interval ÷ the mean rate; intervals of a second or a read.",
    _at_least(_peak),
)
CROWDING_CERTAINTY = _signal(
    "crowding_certainty",
    Unit.COUNT,
    "Standard score of the rank correlation between requests in an interval and their latency.",
    _crowd(lambda found: found.z),
)
CROWDED_TAIL_SECONDS = _signal(
    "crowded_tail_seconds",
    Unit.SECONDS,
    "What the most crowded twentieth of requests would lose if all came evenly, by the line through the intervals.",
    _crowd(lambda found: found.tail_seconds),
)
CROWDED_SECONDS = _signal(
    "crowded_seconds",
    Unit.SECONDS,
    "What the mean latency would lose if the same requests came evenly, by the line through the intervals.",
    _crowd(lambda found: found.saved_seconds),
)
