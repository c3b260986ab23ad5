"""How requests arrive at an entry: evenly, as independent clients send them, or in bursts, and what bursts cost.

Counts per interval come from a client's own record, else from what the first stages of the entry took in (completions
plus the growth of their backlog). Completions of the entry itself will not do: a stall anywhere behind makes them
bunch, too. Where intervals differ in length, arrivals are bunched only if they are also without what the clock says of
the lengths: a clock that trembles makes even arrivals look bunched.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, sqrt
from statistics import correlation, fmean, linear_regression

from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, Counter, View

CLIENT = "client"
BIN_SECONDS = 1.0
# The chi-squared approximation of a dispersion test wants five expected events per interval (Cochran 1954).
EXPECTED_PER_BIN = 5.0
# Fewer intervals than this, and one burst decides everything.
FEWEST_BINS = 8
MOST_BINS = 172_800  # two days: a longer window is one whose clock jumped, and would fill the memory


@dataclass(frozen=True, slots=True)
class Bin:
    """One interval: its length in seconds, requests that arrived in it, their mean latency (None without any)."""

    seconds: float
    count: float
    latency: float | None


@dataclass(frozen=True, slots=True)
class Arrivals:
    """All intervals of an entry, in time order and without gaps, and where they were read."""

    bins: tuple[Bin, ...]
    source: str

    @property
    def requests(self) -> float:
        """Requests in all intervals."""
        return sum(one.count for one in self.bins)

    @property
    def seconds(self) -> float:
        """Seconds of all intervals."""
        return sum(one.seconds for one in self.bins)


def arrivals_of(view: View) -> Arrivals | Missing:
    """Return an entry's intervals: from the client's record where it covers the span, else from counters."""
    if view.has_holes():  # what nobody saw would pass for a lull between bursts
        return Missing.STALE
    if bins := _client_bins(view):
        return Arrivals(tuple(bins), CLIENT)
    found = _counter_bins(view)
    return found if isinstance(found, Missing) else Arrivals(tuple(found), METRICS)


def _client_bins(view: View) -> list[Bin]:
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
    return [Bin(BIN_SECONDS, len(latencies), fmean(latencies) if latencies else None) for latencies in inside]


def _counter_bins(view: View) -> list[Bin] | Missing:
    if not view.server.reads[METRICS]:
        return Missing.NOT_EXPORTED
    if view.ticks_coarsely(METRICS):
        return Missing.CONFLICTING
    ensemble = view.server.graph.ensembles.get(view.model or "")
    firsts = [name for name in ensemble.models() if not ensemble.before(name)] if ensemble else [view.model or ""]
    taken = [_taken_in(_other(view, model)) for model in firsts]
    if not taken or not all(taken):  # an ensemble that calls one model again and again has no first stage
        return Missing.NOT_EXPORTED
    latency = _latencies(view)
    spans = sorted(set.intersection(*(set(each) for each in taken)))
    # Every first stage of an ensemble gets each request once.
    return [
        Bin(end - start, max(each[start, end] for each in taken), latency.get((start, end))) for start, end in spans
    ]


def _other(view: View, model: str) -> View:
    return View(window=view.window, server=view.server, model=model, version=None, start=view.start, end=view.end)


def _taken_in(view: View) -> Mapping[tuple[float, float], float]:
    """Return requests that arrived per step: completions + growth of the backlog; empty without the pending gauge."""
    pending = dict(view.pending())
    if not pending:
        return {}
    taken: dict[tuple[float, float], float] = {}
    for step in view.steps(METRICS):
        if step.start in pending and step.end in pending:
            arrived = step.values.get(Counter.SUCCESS, 0.0) + step.values.get(Counter.FAILURE, 0.0)
            taken[step.start, step.end] = taken.get((step.start, step.end), 0.0) + arrived
    return {span: max(n + pending[span[1]] - pending[span[0]], 0.0) for span, n in taken.items()}


def _latencies(view: View) -> Mapping[tuple[float, float], float]:
    totals: dict[tuple[float, float], tuple[float, float]] = {}
    for step in view.steps(METRICS):
        seconds, requests = totals.get((step.start, step.end), (0.0, 0.0))
        seconds += step.values.get(Counter.REQUEST_SECONDS, 0.0)
        totals[step.start, step.end] = (seconds, requests + step.values.get(Counter.SUCCESS, 0.0))
    return {span: seconds / requests for span, (seconds, requests) in totals.items() if requests > 0}


def _merged(bins: Sequence[Bin], by: int) -> list[Bin]:
    groups = [bins[i : i + by] for i in range(0, len(bins) - by + 1, by)]
    return [Bin(sum(b.seconds for b in group), sum(b.count for b in group), None) for group in groups]


@dataclass(frozen=True, slots=True)
class Dispersion:
    """Index of dispersion, its standard score against a Poisson process, and how many intervals it rests on."""

    index: float
    z: float
    bins: int


def dispersion(bins: Sequence[Bin]) -> Dispersion | None:
    """Return the index of dispersion at the interval length where it is most certain; None with too little to tell.

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


def _dispersion(bins: Sequence[Bin], rate: float) -> Dispersion:
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
        tail_seconds: what the slowest twentieth of requests take above the fastest quarter, by interval means.
        saved_seconds: what the mean would lose if the same requests came evenly, by the line through the intervals.

    """

    z: float
    tail_seconds: float
    saved_seconds: float


def crowding(bins: Sequence[Bin]) -> Crowding | None:
    """Return how latency goes with company; None with too few intervals that had requests."""
    busy = [(one.count, one.latency) for one in bins if one.latency is not None and one.count > 0]
    if len(busy) < FEWEST_BINS or len({count for count, _ in busy}) < 2:
        return None
    counts, latencies = [count for count, _ in busy], [latency for _, latency in busy]
    rank = correlation(_ranks(counts), _ranks(latencies)) if len(set(latencies)) > 1 else 0.0
    weighted = sum(n * n for n in counts) / sum(counts)
    slope = linear_regression(counts, latencies).slope
    even = sum(one.count for one in bins) / len(bins)
    low = _weighted_quantile(busy, 0.25)
    return Crowding(
        z=rank * sqrt(len(busy) - 1),
        tail_seconds=_weighted_quantile(busy, 0.95) - low,
        saved_seconds=max(slope, 0.0) * max(weighted - even, 0.0),
    )


def _ranks(values: Sequence[float]) -> list[float]:
    """Return each value's rank, equal ones sharing the mean of theirs (Spearman's correlation is that of ranks)."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) - 1) / 2 for value in values]


def _weighted_quantile(weighted: Iterable[tuple[float, float]], share: float) -> float:
    ordered = sorted((value, weight) for weight, value in weighted)
    left = share * sum(weight for _, weight in ordered)
    for value, weight in ordered:
        left -= weight
        if left <= 0:
            return value
    return ordered[-1][0]


def _from_bins(unit: Unit, compute: Callable[[Sequence[Bin]], float | None]) -> Callable[[View], Reading]:
    def read(view: View) -> Reading:
        arrivals = arrivals_of(view)
        if isinstance(arrivals, Missing):
            return Reading.unknown(arrivals, unit)
        value = compute(arrivals.bins)
        if value is None:
            return Reading.unknown(Missing.TOO_FEW_EVENTS, unit, arrivals.source)
        return Reading.of(value, unit, arrivals.source, events=arrivals.requests, span=arrivals.seconds)

    return read


def evened(bins: Sequence[Bin]) -> list[Bin]:
    """Return the intervals as if all were equally long."""
    mean = fmean(one.seconds for one in bins)
    return [Bin(mean, one.count, one.latency) for one in bins]


def _at_least(compute: Callable[[Sequence[Bin]], float | None]) -> Callable[[Sequence[Bin]], float | None]:
    """Return the smaller of two values: by the intervals' lengths, and as if all were equally long."""

    def least(bins: Sequence[Bin]) -> float | None:
        measured, even = (compute(bins), compute(evened(bins))) if bins else (None, None)
        return None if measured is None or even is None else min(measured, even)

    return least


def _index(bins: Sequence[Bin]) -> float | None:
    found = dispersion(bins)
    return found.index if found else None


def _index_score(bins: Sequence[Bin]) -> float | None:
    found = dispersion(bins)
    return found.z if found else None


def _peak(bins: Sequence[Bin]) -> float | None:
    rates = [one.count / one.seconds for one in bins if one.seconds > 0]
    mean = sum(one.count for one in bins) / max(sum(one.seconds for one in bins), 1e-9)
    return max(rates) / mean if rates and mean > 0 else None


def _crowd(pick: Callable[[Crowding], float]) -> Callable[[Sequence[Bin]], float | None]:
    def compute(bins: Sequence[Bin]) -> float | None:
        found = crowding(bins)
        return pick(found) if found else None

    return compute


def _signal(name: str, unit: Unit, doc: str, compute: Callable[[Sequence[Bin]], float | None]) -> Signal:
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
    "Latency of the intervals of the slowest twentieth of requests above that of the fastest quarter.",
    _crowd(lambda found: found.tail_seconds),
)
CROWDED_SECONDS = _signal(
    "crowded_seconds",
    Unit.SECONDS,
    "What the mean latency would lose if the same requests came evenly, by the line through the intervals.",
    _crowd(lambda found: found.saved_seconds),
)
