"""What traces say of single requests: when they came, how long executions took, what engines hid."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from statistics import fmean, pvariance

from diagnostics.anatomy.anatomy import Anatomy
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.arrivals import BURST_CERTAINTY, BURST_SIZE, CONCURRENCY, CONCURRENCY_STEADINESS
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.flow import LOST_BEFORE_STAGE
from diagnostics.signals.settings import QUEUE_LIMIT
from diagnostics.signals.signal import Subject
from diagnostics.signals.traces import ALL_TRACED
from diagnostics.signals.triton import ARRIVAL_RATE, CLIENT_BATCH_SIZE, REQUEST_RATE, REQUESTS
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop
from diagnostics.window.traces import NANOSECOND, TracedVisit


def visits(evidence: Evidence, server: str, model: str, ensembles: Collection[str]) -> Sequence[TracedVisit]:
    """Return the traced visits to a model that computed: its own callers' and those of these ensembles."""
    direct = [request.root for request in evidence.calls(Subject(server=server, model=model))]
    members = [
        visit
        for name in ensembles
        for request, _ in evidence.paths(Subject(server=server, ensemble=name))
        for visit in request.root.below
        if visit.model == model
    ]
    return [visit for visit in (*direct, *members) if visit.executed]


def execution_scv(found: Sequence[TracedVisit]) -> float | None:
    """Return the squared coefficient of variation of executions' lengths; None with too few of them."""
    lengths = [(visit.computed or 0) - (visit.began or 0) for visit in found]
    if len(lengths) < ENOUGH_EVENTS or fmean(lengths) <= 0:
        return None
    return scv(lengths)


def scv(values: Sequence[float]) -> float:
    """Return variance ÷ squared mean; 0 where the mean is."""
    mean = fmean(values) if values else 0.0
    return pvariance(values, mean) / mean**2 if mean > 0 else 0.0


def hidden_seconds(evidence: Evidence, entry: Subject, model: str) -> Sequence[float]:
    """Return the time that each traced request of an entry spent in an engine behind its visit to this model."""
    if entry.ensemble is not None:
        return [path.gap_seconds({model}.__contains__) for _, path in evidence.paths(entry)]
    found = []
    for request in evidence.calls(entry):
        if request.front is not None and request.root.executed:
            answered = request.front.sending or request.front.end
            found.append(max(answered - request.root.end, 0) * NANOSECOND)
    return found


def arrival_times(evidence: Evidence, entry: Subject) -> Sequence[float] | None:
    """Return when each request of an entry arrived, Unix seconds ascending; None unless all of them were traced."""
    everything = evidence.read(REQUESTS, entry).value
    model = entry.ensemble or entry.model
    found = [request.root.start * NANOSECOND for request in evidence.calls(Subject(server=entry.server, model=model))]
    if not everything or len(found) < max(ALL_TRACED * everything, ENOUGH_EVENTS):
        return None
    return sorted(found)


Interval = tuple[float, float]

# Open arrivals come by chance: for a tenth of its time at most, their number would have to be that near its peak.
_CLOSED = 0.9
# Two standard errors: bunching that chance makes once in forty windows counts as none. The index leaves out the largest
# difference, so that few intervals look even by two in one window of twenty, and by three in one of 500.
_BUNCHED, _EVEN = 2.0, -3.0
# An index that may be 1 is this much less or more at most, where few intervals say little of it.
_UNTOLD = (0.5, 2.0)
# An index of dispersion beyond this is a change of level, not a process that simulation can draw.
_MOST_DISPERSION = 64.0
_LEAST_DISPERSION = 0.05
# Recorded arrivals that are replayed at most: a forecast replays them some fifty times, in a quarter of a second each.
_MOST_REPLAYED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryTraffic:
    """The traffic of one entry with the requests per second that were measured, and what was assumed of it.

    `dispersion` bounds its index where arrivals are drawn.
    """

    traffic: OpenLoop | ClosedLoop
    rate: float
    dispersion: Interval | None
    replayed: bool
    assumptions: tuple[str, ...]


def calls_of(evidence: Evidence, item: Anatomy) -> EntryTraffic | None:
    """Return the traffic of an entry; None where its rate cannot be read."""
    entry = entry_subject(item)
    name = item.ensemble or item.stages[0].model
    rate = arrival_rate(evidence, item)
    if rate is None or rate <= 0:
        return None
    items = max(round(evidence.read(CLIENT_BATCH_SIZE, entry).value or 1.0), 1)
    closed = _closed(evidence, entry, name, rate, item.mean_seconds, items)
    if closed is not None:
        return closed
    times = arrival_times(evidence, entry)
    if times is not None:
        return _replayed(name, times, rate, items)
    return _process(evidence, entry, name, rate, items)


def entry_subject(item: Anatomy) -> Subject:
    """Return the entry of an anatomy: its ensemble, else its model."""
    if item.ensemble is not None:
        return Subject(server=item.server, ensemble=item.ensemble)
    return Subject(server=item.server, model=item.stages[0].model)


def arrival_rate(evidence: Evidence, item: Anatomy) -> float | None:
    """Return the requests per second that an entry is offered, those rejected at a queue's limit included.

    An ensemble's own counters only hold what came out of it: its first stages say what went in, unless others call
    them, too.
    """
    own = evidence.read(REQUEST_RATE, entry_subject(item)).value
    if item.ensemble is None:
        return offered(evidence, entry_subject(item)) or own
    ensemble = evidence.graph(item.server).ensembles[item.ensemble]
    graph = evidence.graph(item.server)
    firsts = [Subject(server=item.server, model=name) for name in ensemble.models() if not ensemble.before(name)]
    alone = [
        on
        for on in firsts
        if on.model
        and len(graph.callers(on.model)) == 1
        and not evidence.calls(on)
        and sum(step.model == on.model for step in ensemble.steps) == 1
    ]
    rates = [rate for rate in (offered(evidence, on) for on in alone) if rate is not None]
    return max(rates, default=own)


def offered(evidence: Evidence, on: Subject) -> float | None:
    """Return the requests per second that a model is offered."""
    arrivals = evidence.read(ARRIVAL_RATE, on)
    if arrivals.value is None:
        return None
    refused = 0.0
    if evidence.read(QUEUE_LIMIT, on).value and arrivals.span:
        refused = max(evidence.read(LOST_BEFORE_STAGE, on).value or 0.0, 0.0) / arrivals.span
    return arrivals.value + refused


def _closed(
    evidence: Evidence, entry: Subject, name: str, rate: float, mean_seconds: float, items: int
) -> EntryTraffic | None:
    """Return a closed loop where the number of requests under way hardly changes.

    Clients think for what the interactive response time law leaves: clients ÷ rate − time at the server (Lazowska et
    al., Quantitative System Performance, 1984).
    """
    steadiness, most = evidence.read(CONCURRENCY_STEADINESS, entry), evidence.read(CONCURRENCY, entry)
    if steadiness.value is None or most.value is None or steadiness.value < _CLOSED:
        return None
    clients = round(most.value)
    think = max(clients / rate - mean_seconds, 0.0)
    traffic = ClosedLoop(entry=name, clients=clients, think_seconds=think, items=items)
    stated = f"{clients} clients call {name} in a closed loop: the number of requests under way hardly changes"
    return EntryTraffic(traffic=traffic, rate=rate, dispersion=None, replayed=False, assumptions=(stated,))


def _replayed(name: str, times: Sequence[float], rate: float, items: int) -> EntryTraffic:
    last = times[-_MOST_REPLAYED:]
    traffic = OpenLoop(entry=name, rate=rate, times=tuple(at - last[0] for at in last), items=items)
    stated = f"requests to {name} arrive as recorded, whatever the server does (open loop)"
    if len(last) < len(times):
        stated += f"; of {len(times)}, the last {len(last)} are replayed"
    return EntryTraffic(traffic=traffic, rate=rate, dispersion=None, replayed=True, assumptions=(stated,))


def _process(evidence: Evidence, entry: Subject, name: str, rate: float, items: int) -> EntryTraffic:
    index, score = evidence.read(BURST_SIZE, entry), evidence.read(BURST_CERTAINTY, entry)
    central, bounds = 1.0, _UNTOLD
    if index.value is not None and score.value is not None and index.value > 0:
        certain = score.value >= _BUNCHED or score.value <= _EVEN
        central = min(max(index.value, _LEAST_DISPERSION), _MOST_DISPERSION) if certain else 1.0
        bounds = _bounds(index.value, score.value, central)
        if not certain:
            what = "are independent (Poisson)"
        elif central > 1:
            what = f"come in bursts of about {central:.2g} at once, by their index of dispersion"
        else:
            what = f"come more evenly than by chance (index of dispersion {index.value:.2g})"
    else:
        what = "are taken to be independent (Poisson): how they bunch could not be read"
    stated = f"requests to {name} arrive whatever the server does (open loop) and {what}"
    # An index above 1 is the size of the group that a request arrives in, whatever the time within it.
    traffic = OpenLoop(entry=name, rate=rate, scv=min(central, 1.0), burst=max(central, 1.0), items=items)
    return EntryTraffic(traffic=traffic, rate=rate, dispersion=bounds, replayed=False, assumptions=(stated,))


def _bounds(index: float, score: float, central: float) -> Interval:
    """Return two standard errors around the index, as far as its score shows its degrees of freedom.

    A score is about `(index − 1) × √(freedom / 2)`.
    """
    freedom = max(2 * (score / (index - 1)) ** 2, 4.0) if abs(index - 1) > 1e-6 else 4.0
    spread = exp(min(2 * sqrt(2 / freedom), 2.0))
    low, high = min(index / spread, central), max(index * spread, central)
    if central == 1.0:
        # Independent arrivals are not refuted: they bunch as likely more as less, however the window happened to be.
        low, high = max(min(low, 1 / spread), _UNTOLD[0]), min(max(high, spread), _UNTOLD[1])
    return max(low, _LEAST_DISPERSION), min(high, _MOST_DISPERSION)
