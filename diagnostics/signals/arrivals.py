"""How requests arrive at an entry point: evenly or in bursts, open or in a closed loop, and what bursts cost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import ceil, sqrt
from statistics import correlation, fmean, linear_regression, median

from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.engine_samples import held_by_engine, is_engine
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.traces import ALL_TRACED, TRACE_FIX, TRACES, completed
from diagnostics.units import Unit
from diagnostics.window.lifecycle import Happened
from diagnostics.window.view import METRICS, Counter, ModelView

# The chi-squared approximation of a dispersion test wants five expected events per interval (Cochran 1954).
EXPECTED_PER_BIN = 5.0
# Fewer intervals than this, and one burst decides everything.
FEWEST_BINS = 8


@dataclass(frozen=True, slots=True)
class ArrivalBin:
    """One interval.

    Attributes:
        seconds: its length.
        count: requests that arrived in it.
        latency: their mean latency; None without any.
        held: whether requests may have been held until it: a model was loaded in it or just before.

    """

    seconds: float
    count: float
    latency: float | None
    held: bool = False


def _merged(bins: Sequence[ArrivalBin], by: int) -> list[ArrivalBin]:
    groups = [bins[i : i + by] for i in range(0, len(bins) - by + 1, by)]
    return [ArrivalBin(sum(b.seconds for b in group), sum(b.count for b in group), None) for group in groups]


@dataclass(frozen=True, slots=True)
class Dispersion:
    """Index of dispersion, its standard score against a Poisson process, and how many intervals it rests on."""

    index: float
    z: float
    bins: int


def dispersion(bins: Sequence[ArrivalBin]) -> Dispersion | None:
    """Return the index of dispersion at the interval length where it is most certain; None with too few intervals.

    Differences of successive intervals take out what changes slowly (von Neumann 1941), and the largest difference is
    left out: one change of level is a shift of load, a burst has two. For requests that come in groups, the index is
    the mean size of the group that a request arrives in, at any interval length (Fendick and Whitt 1989).
    """
    rate = sum(one.count for one in bins) / max(sum(one.seconds for one in bins), 1e-9)
    if rate <= 0:
        return None
    mean = fmean(one.seconds for one in bins) * rate
    by, found = max(ceil(EXPECTED_PER_BIN / mean), 1), []
    while len(bins) // by >= FEWEST_BINS:
        found.append(_dispersion(_merged(bins, by), rate))
        by *= 2
    return max(found, key=lambda one: one.z, default=None)


def _dispersion(bins: Sequence[ArrivalBin], rate: float) -> Dispersion:
    residues = [(one.count - rate * one.seconds) / sqrt(rate * one.seconds) for one in bins]
    squares = sorted((after - before) ** 2 for before, after in pairwise(residues))[:-1]
    count = len(squares)
    index = sum(squares) / (2 * count)
    # Successive differences overlap: as many degrees of freedom as give their mean square its variance.
    freedom = 2 * count**2 / (3 * count - 1)
    return Dispersion(index, _score(index * freedom, freedom), len(bins))


def _score(chi_squared: float, freedom: float) -> float:
    """Return the standard normal score of a chi-squared value (Wilson and Hilferty 1931)."""
    spread = 2 / (9 * freedom)
    return float(((chi_squared / freedom) ** (1 / 3) - (1 - spread)) / sqrt(spread))


@dataclass(frozen=True, slots=True)
class Crowding:
    """How latency goes with company.

    Attributes:
        z: standard score of the rank correlation between an interval's requests and their latency.
        tail_seconds: what requests of the most crowded twentieth would lose if the same requests came evenly, by that
            line.
        saved_seconds: what the mean would lose if the same requests came evenly, by the line through the intervals.

    """

    z: float
    tail_seconds: float
    saved_seconds: float


def crowding(bins: Sequence[ArrivalBin]) -> Crowding | None:
    """Return how latency goes with company; None with too few intervals that had requests."""
    busy = [(one.count, one.latency) for one in bins if one.latency is not None and one.count > 0]
    if len(busy) < FEWEST_BINS or len({count for count, _ in busy}) < 2:
        return None
    counts, latencies = [count for count, _ in busy], [latency for _, latency in busy]
    rank = correlation(_ranks(counts), _ranks(latencies)) if len(set(latencies)) > 1 else 0.0
    weighted = sum(n * n for n in counts) / sum(counts)
    slope = linear_regression(counts, latencies).slope
    even = sum(one.count for one in bins) / len(bins)
    return Crowding(
        z=rank * sqrt(len(busy) - 1),
        tail_seconds=max(slope, 0.0) * max(_met_by_few(counts) - even, 0.0),
        saved_seconds=max(slope, 0.0) * max(weighted - even, 0.0),
    )


def _ranks(values: Sequence[float]) -> list[float]:
    """Return each value's rank, equal ones sharing the mean of theirs (Spearman's correlation is that of ranks)."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) - 1) / 2 for value in values]


def _met_by_few(counts: Sequence[float]) -> float:
    """Return how many requests are in the interval of a request that one in twenty is more crowded than."""
    left = 0.05 * sum(counts)
    for count in sorted(counts, reverse=True):
        left -= count
        if left <= 0:
            return count
    return 0.0


def evened(bins: Sequence[ArrivalBin]) -> list[ArrivalBin]:
    """Return the intervals as if all were equally long."""
    mean = fmean(one.seconds for one in bins)
    return [replace(one, seconds=mean) for one in bins]


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
    loads = [change for change in view.server_changes() if change.kind in (Happened.LOADED, Happened.RELOADED)]
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


def _crowding(pick: Callable[[Crowding], float]) -> Callable[[Sequence[ArrivalBin]], float | None]:
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
    _crowding(lambda found: found.z),
)
CROWDED_TAIL_SECONDS = _signal(
    "crowded_tail_seconds",
    Unit.SECONDS,
    "What the most crowded twentieth of requests would lose if all came evenly, by the line through the intervals.",
    _crowding(lambda found: found.tail_seconds),
)
CROWDED_SECONDS = _signal(
    "crowded_seconds",
    Unit.SECONDS,
    "What the mean latency would lose if the same requests came evenly, by the line through the intervals.",
    _crowding(lambda found: found.saved_seconds),
)


Interval = tuple[float, float]


def under_way(view: ModelView) -> tuple[Sequence[Interval], str]:
    """Return (start, end) of each request of the entry in Unix seconds, and where they were read.

    From the client's record, else from traces where every request was traced; empty where neither is there.
    """
    sent = [(r.at, r.at + r.seconds) for r in view.window.clients if r.model == view.model]
    inside = [one for one in sent if one[1] > view.start and one[0] < view.end]
    if inside and len(view.window.servers) == 1:
        return inside, CLIENT
    roots = [request.root for request in view.traces().roots(view.model or "")]
    spans = [(root.start * 1e-9, root.end * 1e-9) for root in roots if view.start <= root.end * 1e-9 <= view.end]
    everything = completed(view)
    if not everything or len(spans) < ALL_TRACED * everything:
        return [], TRACES
    return spans, TRACES


def _changes(intervals: Sequence[Interval]) -> list[tuple[float, int]]:
    return sorted([(start, 1) for start, _ in intervals] + [(end, -1) for _, end in intervals])


def _counted(view: ModelView) -> tuple[float, int, str, int] | None:
    """Return mean and most requests under way, the source, and how many there were; None with too few of them."""
    intervals, source = under_way(view)
    if len(intervals) < ENOUGH_EVENTS:
        return None
    # Outside of what was sent nobody sees the clients: before the first one ended and after the last one began.
    begin, stop = min(end for _, end in intervals), max(start for start, _ in intervals)
    begin, stop = max(begin, view.start), min(stop, view.end)
    if stop <= begin:
        return None
    area, most, now, last = 0.0, 0, 0, begin
    for at, step in _changes(intervals):
        if begin < at <= stop:
            area, last, most = area + now * (at - last), at, max(most, now)
        now += step
        if at >= stop:
            break
    return area / max(last - begin, 1e-9), most, source, len(intervals)


def _most(view: ModelView) -> Reading:
    found = _counted(view)
    if found is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT)
    return Reading.of(float(found[1]), Unit.COUNT, found[2], events=found[3])


def _steadiness(view: ModelView) -> Reading:
    found = _counted(view)
    if found is None or not found[1]:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO)
    return Reading.of(found[0] / found[1], Unit.RATIO, found[2], events=found[3])


CONCURRENCY = Signal(
    name="concurrency",
    unit=Unit.COUNT,
    scope=Scope.ENTRY,
    doc="Most requests of the entry that are under way at once.",
    readers=(_most,),
    fix=TRACE_FIX,
)
CONCURRENCY_STEADINESS = Signal(
    name="concurrency_steadiness",
    unit=Unit.RATIO,
    scope=Scope.ENTRY,
    doc="Mean ÷ most requests under way: near 1 where clients in a closed loop keep their number constant.",
    readers=(_steadiness,),
    fix=TRACE_FIX,
)
