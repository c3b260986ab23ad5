"""Whether anybody asked for what was not there, and how many requests were refused.

A refused request is counted nowhere. A client's record has it; else it is what would have arrived: the rate at which a
model was asked until it was gone, times how long it was gone. A model that nobody asks may be unloaded, a server from
which the traffic was taken first may restart, and traffic may pause by itself: so a gap counts only where requests came
up to its beginning and neither chance nor the bursts of the other times leave gaps like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import log, sqrt
from statistics import median

from diagnostics import names
from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.outages import PORT, READS, RESTARTED, STOPPED, Outage, outages
from diagnostics.window.parsed import ClientRequest
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView
from diagnostics.window.window import ServerWindow

CLIENT = "client"
# Requests that must be missing, by groups that arrive together, before chance does not explain it: e^-5 is under 1 %.
BEYOND_CHANCE = 5.0
# A pause of half the length, at another time, says that the traffic pauses by itself.
USUAL_PAUSE = 0.5
# Replicas that take in this share of what one lost were given its requests.
TAKEN_OVER = 0.8
# A Python model's processes end within so many seconds; their metrics are listed until then, and refused is what comes.
ENDING_SECONDS = 10.0
# A client's record that holds this share of what the server counted at other times is of its clients as a whole. As
# many of those that came while nobody read it, and wait in it afterwards, show that it took in what came.
MOST_CLIENTS = 0.5
# What a server answers to a request that it cannot take as it is: its rows, shapes, types, names or version. Errors of
# authorization, rate and time (401, 403, 408, 429) are rather those of what is between clients and server.
_NOT_TAKEN = frozenset({400, 404, 413, 415, 422})
# What Triton answers where a model's answer is an error (TRITONSERVER_ERROR_INTERNAL). Requests under way at the ends
# of a window are counted on one side only; more than a tenth that no client recorded may be who was counted instead.
_INTERNAL = 500
# What it answers where a queue is full (TRITONSERVER_ERROR_UNAVAILABLE). Between two reads its length may fall to half.
_UNAVAILABLE = 503
_FILLED = 0.5
_AS_SUCCESSES = 0.8
_UNRECORDED = 0.1
# Runs of refusals that are less likely than this, where each request is refused by chance, are a stretch of time.
_BY_CHANCE = 1e-3
_SLACK = 1e-6
# A stretch of which so little may lie in an outage is as good as outside.
_EDGE = 0.1
# Timers fire late by milliseconds; what fails for another reason fails after any time.
_SAME_TIMEOUT, _MOST_ALIKE = 0.1, 0.9
_NEAR, _BUSY, _SILENT = "near", "busy", "silent"
# Two standard deviations of a count; three where the place is chosen among all of a window's.
_DEVIATIONS = 2.0
_DEVIATIONS_OF_MANY = 3.0
# A variance of five counts is off by a factor of 1.7 (√(2 ÷ 4) of it); one of fewer by more than itself.
_FEWEST_GROUPS = 5


@dataclass(frozen=True, slots=True)
class _Stretch:
    """What arrived between two reads: successes and failures, of all versions."""

    start: float
    end: float
    count: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def touches(self, one: Outage) -> bool:
        """Return whether an outage may have been in it; the reads of one round lie some milliseconds apart."""
        edge = _EDGE * self.seconds
        return one.may_hold(self.start + edge, self.end - edge)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests at the times when what they ask was there.

    Attributes:
        rate: per second; 0 without any. Where an outage touches all that was counted, the least that it can be.
        known: whether it was counted at other times than an outage's.
        group: requests that arrive together, by the dispersion of counts; 1 for independent ones.
        pause: longest stretch without one, in seconds.
        stretches: all, also those around outages, in time order.
        apart: those of `stretches` that no outage touches.

    """

    rate: float
    known: bool
    group: float
    pause: float
    stretches: Sequence[_Stretch]
    apart: Sequence[_Stretch]
    source: str

    def unlikely(self, seconds: float) -> bool:
        """Return whether neither chance nor bursts leave so long a gap."""
        return self.known and self.rate * seconds >= BEYOND_CHANCE * self.group and self.pause < USUAL_PAUSE * seconds

    def noise(self, seconds: float) -> float:
        """Return by how many requests a count over so many seconds may be off."""
        return _DEVIATIONS * sqrt(max(self.group * self.rate * seconds, 0.0))


@dataclass(frozen=True, slots=True)
class Refusal:
    """One outage with what it cost.

    Attributes:
        outage: when it was.
        seconds: how long, as (least, likely, most).
        requests: refused ones, as (least, likely, most); likely is 0 where nothing shows that any was.
        source: `client`, or the counters that the estimate is from.

    """

    outage: Outage
    seconds: tuple[float, float, float]
    requests: tuple[float, float, float]
    source: str


def all_outages(view: ModelView) -> tuple[Outage, ...]:
    """Return the outages of the view's server and of its models."""
    return view.beside(None).once(_outages)


def _outages(view: ModelView) -> tuple[Outage, ...]:
    found = outages(view.server, view.window.end, _all_failed(view))
    return tuple(_as_clients_saw(view, one) for one in found)


def _as_clients_saw(view: ModelView, one: Outage) -> Outage:
    """Return an outage in which no read was answered as a stop, where no client was either, and all were afterwards.

    A server that stood still answers those that had waited; one that restarted forgets whom it had let in.
    """
    if one.source != READS or one.state or one.after is None or one.before is None or len(view.window.servers) > 1:
        return one
    answered = [request for request in view.window.clients if request.ok]
    ends = sorted(request.at + request.seconds for request in answered)
    pauses = sorted((later - sooner, sooner, later) for sooner, later in pairwise(ends))
    if not one.tried or len(pauses) < 2:
        return one
    seconds, since, until = pauses[-1]
    usual, before = len(ends) / max(ends[-1] - ends[0] - seconds, _SLACK), pauses[-2][0]
    waited = any(request.at <= (since + until) / 2 and request.at + request.seconds >= until for request in answered)
    certain = usual * seconds >= BEYOND_CHANCE and before < USUAL_PAUSE * seconds and waited
    if not certain or not one.may_hold(since, until):
        return one
    return replace(one, state=STOPPED, after=since, since=since, until=until, before=until)


def _all_failed(view: ModelView) -> frozenset[str]:
    """Return the models of which clients got nothing but errors; of several servers nobody knows which answered."""
    if len(view.window.servers) > 1:
        return frozenset()
    return frozenset(r.model for r in view.window.clients) - {r.model for r in view.window.clients if r.ok}


def refusals(view: ModelView) -> Sequence[Refusal]:
    """Return the outages of a view's model, or of its server as a whole, each with what it cost."""
    return view.once(_refusals)


def _refusals(view: ModelView) -> Sequence[Refusal]:
    own = [one for one in all_outages(view) if one.model == (view.model or "")]
    if not own:
        return ()
    traffic = _traffic(view, own)
    return [_refusal(view, one, traffic) for one in own]


def _refusal(view: ModelView, one: Outage, traffic: Traffic) -> Refusal:
    low, high = _length(one, traffic)
    likely = (low + high) / 2
    seconds = (low, likely, high)
    if one.state == STOPPED:
        refused = _clients(view, one, traffic) or 0.0
        return Refusal(one, seconds, (refused, refused, refused), CLIENT)
    if _let_in(view, one, traffic):
        return Refusal(one, (0.0, 0.0, high), (0.0, 0.0, 0.0), traffic.source)
    seen = _clients(view, one, traffic)
    if seen is not None:
        return Refusal(one, seconds, (seen, seen, seen), CLIENT)
    least = max(traffic.rate * low - traffic.noise(low), 0.0)
    most = traffic.rate * high + traffic.noise(high)
    requested = _callers_were_requested(view, one) or _requested(one, traffic)
    if requested is False or _taken_over(view, one, traffic):
        return Refusal(one, seconds, (0.0, 0.0, 0.0), traffic.source)
    certain = requested and one.tried and traffic.unlikely(likely)
    return Refusal(one, seconds, (least, traffic.rate * likely, most) if certain else (0.0, 0.0, most), traffic.source)


def _let_in(view: ModelView, one: Outage, traffic: Traffic) -> bool:
    """Return whether what came while nobody tried to read a server waits in it afterwards: then it was there."""
    if one.tried or one.model or one.state == RESTARTED or one.after is None or one.before is None:
        return False
    waiting = view.server.gauge(names.PENDING_REQUESTS, {})
    sooner = [count for at, count in waiting if at <= one.after + _SLACK]
    later = [count for at, count in waiting if at >= one.before - _SLACK]
    sent = sum(one.after <= r.at < one.before for r in view.window.clients)
    came = max(traffic.rate * (one.before - one.after), sent)
    return bool(sooner and later) and later[0] - sooner[-1] >= MOST_CLIENTS * came > 0


# --- traffic


def _traffic(view: ModelView, own: Sequence[Outage]) -> Traffic:
    stretches, source = arrivals(view)
    apart = _apart(stretches, own)
    known = sum(s.count for s in apart) >= FEWEST_EVENTS
    counted = apart if known else stretches
    seconds, count = sum(s.seconds for s in counted), sum(s.count for s in counted)
    rate = count / seconds if seconds > 0 else 0.0
    return Traffic(rate, known, _group(apart, rate), _pause(apart), stretches, apart, source)


def _apart(stretches: Sequence[_Stretch], own: Sequence[Outage]) -> list[_Stretch]:
    """Return the stretches that no outage touches, without the silence right before and after one."""
    kinds = [(s.start, _kind(s, own), [s]) for s in stretches]
    marks = sorted([*kinds, *((one.since, _NEAR, []) for one in own)], key=lambda mark: mark[0])
    runs = [(kind, [s for _, _, part in run for s in part]) for kind, run in groupby(marks, key=lambda mark: mark[1])]
    beside = [{kind for kind, _ in runs[max(at - 1, 0) : at + 2]} for at in range(len(runs))]
    kept = [run for (kind, run), near in zip(runs, beside, strict=True) if kind == _BUSY or _NEAR not in near]
    return [s for run in kept for s in run]


def _kind(stretch: _Stretch, own: Sequence[Outage]) -> str:
    if any(stretch.touches(one) for one in own):
        return _NEAR
    return _BUSY if stretch.count > 0 else _SILENT


def _group(apart: Sequence[_Stretch], rate: float) -> float:
    """Return the index of dispersion of the counts; 1 with too few of them."""
    if rate <= 0 or len(apart) < 2:
        return 1.0
    squares = sum((s.count - rate * s.seconds) ** 2 / (rate * s.seconds) for s in apart)
    return max(squares / (len(apart) - 1), 1.0)


def _pause(apart: Sequence[_Stretch]) -> float:
    runs = (list(run) for empty, run in groupby(apart, key=lambda s: s.count == 0) if empty)
    return max((run[-1].end - run[0].start for run in runs), default=0.0)


def arrivals(view: ModelView) -> tuple[list[_Stretch], str]:
    """Return what arrived at the model, or at all that a server's clients call, by steps of the better source."""
    models = [view.model] if view.model else _entries(view)
    for source in (METRICS, STATISTICS):
        counts: dict[tuple[float, float], float] = {}
        for step in (step for model in models for step in view.beside(model).steps(source)):
            arrived = step.values.get(Counter.SUCCESS, 0.0) + step.values.get(Counter.FAILURE, 0.0)
            counts[step.start, step.end] = counts.get((step.start, step.end), 0.0) + arrived
        if counts:
            return [_Stretch(start, end, counts[start, end]) for start, end in sorted(counts) if end > start], source
    return [], METRICS


def _entries(view: ModelView) -> list[str]:
    """Return what a server's clients call; without configurations, which list an ensemble's members, the busiest."""
    graph, models = view.server.graph, {model for model, _ in view.server.keys_seen()}
    if not view.server.configs:
        return sorted(models, key=lambda model: -_counted(view.beside(model)))[:1]
    members = {model for ensemble in graph.ensembles.values() for model in ensemble.models()}
    return sorted(models - members)


def _counted(view: ModelView) -> float:
    delta = view.delta(METRICS) or view.delta(STATISTICS)
    return delta.values.get(Counter.SUCCESS, 0.0) if delta else 0.0


# --- how long


def _length(one: Outage, traffic: Traffic) -> tuple[float, float]:
    """Return the least and the most seconds that an outage can have lasted, also by what was counted around it.

    Where counters began again, what was counted before it is seen only up to the last read there. A server whose
    counters went on as usual while nobody read it was there; so was one whose counters began again between two reads
    and had counted all that usually comes from one to the other.
    """
    after = one.since if one.after is None else one.after
    before = one.until if one.before is None else one.before
    low, high = one.until - one.since, before - after
    if one.state == STOPPED:  # what came meanwhile was let in afterwards: counts tell nothing
        return low, high
    if not traffic.known:
        return low, max(high, low)
    near = [s for s in traffic.stretches if s.touches(one)]
    span = max([before, *(s.end for s in near)]) - min([after, *(s.start for s in near)])
    missing = span - sum(s.count for s in near) / traffic.rate
    slack = traffic.noise(span) / traffic.rate
    of_reads = one.source in (READS, PORT)
    between = one.since == one.until == one.before
    if (between or (of_reads and one.state != RESTARTED)) and near and missing < slack:
        return 0.0, 0.0
    high = min(high, missing + slack)
    low = min(low, high) if of_reads else low
    low = max(low, min(missing - slack - (one.since - after), high), 0.0)
    return low, max(high, low)


# --- who asked


def _requested(one: Outage, traffic: Traffic) -> bool | None:
    """Return whether requests came up to its beginning; or, where nobody saw that, at once when it was over.

    None where they stopped so shortly before that its end may have been the reason, and of a server that started as the
    window began: a new replica was sent nothing before. What is loaded for the first time was not asked before.
    """
    if traffic.rate <= 0:
        return False
    after, since = one.after, one.since + _SLACK
    sooner = [s for s in traffic.stretches if after is not None and s.start < after and s.end <= since]
    if sooner:
        last = max((s.end for s in sooner if s.count > 0), default=None)
        quiet = float("inf") if last is None else sooner[-1].end - last
        ending = quiet <= ENDING_SECONDS and one.source in (METRICS, STATISTICS)
        if last is None or traffic.unlikely(quiet):
            return None if ending else False
        return None if _stayed_away(one, traffic) else True
    pause = _pause_after(one, traffic)
    at_once = pause is not None and not traffic.unlikely(pause)
    if at_once and after is None and one.source == READS:
        return None
    return at_once and (after is not None or one.reason != "")


def _pause_after(one: Outage, traffic: Traffic) -> float | None:
    """Return the seconds from an outage's end to the first requests after it; None without one of both."""
    if one.before is None:
        return None
    first = min((s.start for s in traffic.stretches if s.count > 0 and s.end > one.until), default=None)
    return None if first is None else max(first - one.before, 0.0)


def _stayed_away(one: Outage, traffic: Traffic) -> bool:
    """Return whether nobody came for longer than an outage lasted once it was over: they may have ended before it.

    Clients that are refused try again after pauses that grow by a factor of two at most (gRPC connection backoff: 1.6),
    so that the last is no longer than all before it.
    """
    pause = _pause_after(one, traffic)
    after = one.since if one.after is None else one.after
    return pause is not None and one.before is not None and pause > one.before - after and traffic.unlikely(pause)


def _callers_were_requested(view: ModelView, one: Outage) -> bool:
    """Return whether an ensemble that calls the model was away with it, and asked up to then."""
    graph = view.server.graph.ensembles
    callers = [name for name, ensemble in graph.items() if view.model in ensemble.models() and name != view.model]
    for name in callers:
        own = _away(view, name)
        traffic = _traffic(view.beside(name), own) if own else None
        if traffic and any(one.may_touch(other) and _requested(other, traffic) for other in own):
            return True
    return False


def _taken_over(view: ModelView, one: Outage, traffic: Traffic) -> bool:
    """Return whether other servers of the window were given the requests meanwhile."""
    gained = 0.0
    for name, server in view.window.servers.items():
        if name == view.server.name:
            continue
        stretches, _ = arrivals(whole_of(view, server).beside(view.model))
        inside = [s for s in stretches if s.start >= one.since - _SLACK and s.end <= one.until + _SLACK]
        outside = [s for s in stretches if not s.touches(one)]
        gained += _rate(inside) - _rate(outside) if inside else 0.0
    return gained >= TAKEN_OVER * traffic.rate


def _rate(stretches: Sequence[_Stretch]) -> float:
    seconds = sum(s.seconds for s in stretches)
    return sum(s.count for s in stretches) / seconds if seconds > 0 else 0.0


def _clients(view: ModelView, one: Outage, traffic: Traffic) -> float | None:
    """Return how many requests of clients failed in an outage; None where no record is whole enough to say so."""
    requested = _callers(view)
    sent = [r for r in view.window.clients if requested is None or r.model in requested]
    throughout = one.after is None and one.before is None
    if throughout and not sent and _recorded_most(view):
        return 0.0  # nobody asked for it
    if len(view.window.servers) > 1 or not sent:
        # A client's record does not say which of several servers answered, nor what other models call.
        return 0.0 if _served_all(view, one) else None
    if (view.model is None or throughout) and (_answered(sent, one) or _answered_all_along(sent, one)):
        return 0.0  # what is down answers nobody, whatever its reader says
    failed = _beyond_usual(sent, one)
    apart = sum(1 for r in sent if any(s.start <= r.at < s.end for s in traffic.apart))
    whole = apart >= MOST_CLIENTS * sum(s.count for s in traffic.apart) > 0
    return failed if whole or failed >= FEWEST_EVENTS else None


def _recorded_most(view: ModelView) -> bool:
    """Return whether the clients' records hold most of what all servers counted."""
    servers = view.window.servers.values()
    counted = sum(s.count for server in servers for s in arrivals(whole_of(view, server))[0])
    return len(view.window.clients) >= MOST_CLIENTS * counted > 0


def _answered(sent: Sequence[ClientRequest], one: Outage) -> bool:
    """Return whether clients got answers to what they sent while an outage is certain, more than chance misplaces."""
    inside = [r for r in sent if one.since <= r.at < one.until]
    return sum(1 for r in inside if r.ok) > _DEVIATIONS * sqrt(len(inside))


def _answered_all_along(sent: Sequence[ClientRequest], one: Outage) -> bool:
    """Return whether clients got answers all the time in which a restart of unknown length may have been.

    No server restarts between two requests that follow each other as at any other time.
    """
    near = [r for r in sent if one.may_hold(r.at, r.at + _SLACK)]
    if one.since < one.until or len(near) < FEWEST_EVENTS or not all(r.ok for r in near):
        return False
    pauses = [(later.at - sooner.at, one.may_hold(sooner.at, later.at)) for sooner, later in pairwise(sent)]
    usual = max((seconds for seconds, around in pauses if not around), default=0.0)
    return all(seconds <= usual for seconds, around in pauses if around)


def _served_all(view: ModelView, one: Outage) -> bool:
    """Return whether a record of most requests to all servers shows none that failed while one of them was away."""
    meanwhile = [r for r in view.window.clients if one.may_hold(r.at, r.at + _SLACK)]
    if len(meanwhile) < FEWEST_EVENTS or not all(r.ok for r in meanwhile):
        return False
    counted = [s for server in view.window.servers.values() for s in _counted_apart(view, server, one)]
    start, end = min((s.start for s in counted), default=0.0), max((s.end for s in counted), default=0.0)
    sent = sum(start <= r.at < end and not one.may_hold(r.at, r.at + _SLACK) for r in view.window.clients)
    return sent >= MOST_CLIENTS * sum(s.count for s in counted) > 0


def _counted_apart(view: ModelView, server: ServerWindow, one: Outage) -> list[_Stretch]:
    return [s for s in arrivals(whole_of(view, server))[0] if not s.touches(one)]


def whole_of(view: ModelView, server: ServerWindow) -> ModelView:
    """Return the view of another server as a whole."""
    return ModelView(window=view.window, server=server, model=None, version=None, start=view.start, end=view.end)


def _beyond_usual(sent: Sequence[ClientRequest], one: Outage) -> float:
    """Return how many requests failed in an outage beyond those that fail at other times as well.

    Failures of a full queue come in bunches: how much other requests vary shows what chance does.
    """
    meanwhile = [r for r in sent if one.may_hold(r.at, r.at + _SLACK)]
    elsewhere = [not r.ok for r in sent if not one.may_hold(r.at, r.at + _SLACK)]
    failed, many = sum(1 for r in meanwhile if not r.ok), len(meanwhile)
    usual = sum(elsewhere) / len(elsewhere) * many if elsewhere else 0.0
    groups = [sum(elsewhere[at : at + many]) for at in range(0, len(elsewhere) - many + 1, many)] if many else []
    known = len(groups) >= _FEWEST_GROUPS and usual > 0
    bunched = sum((count - usual) ** 2 for count in groups) / (len(groups) * usual) if known else 1.0
    beyond = failed - usual
    return beyond if beyond > _DEVIATIONS_OF_MANY * sqrt(usual * max(bunched, 1.0)) else 0.0


def _callers(view: ModelView) -> frozenset[str] | None:
    """Return the names under which clients ask a model; None for a server: whatever they ask."""
    if view.model is None:
        return None
    found, graph = {view.model}, view.server.graph.ensembles
    for _ in graph:  # ensembles of ensembles
        found |= {name for name, ensemble in graph.items() if found & set(ensemble.models())}
    return frozenset(found)


# --- what goes with what


def with_another(view: ModelView) -> bool:
    """Return whether a model was away because another was, which is the one to look at.

    Triton unloads an ensemble with its first member that goes. Where all its members went, the ensemble was unloaded
    with what it depends on, and is the one that somebody unloaded.
    """
    if view.model is None:
        return False
    graph, own = view.server.graph.ensembles, _away(view, view.model)
    if view.model in graph:
        gone = [member for member in set(graph[view.model].models()) if _together(own, _away(view, member))]
        return bool(gone) and not _all_of(view, view.model)
    return any(_all_of(view, name) for name, ensemble in graph.items() if view.model in ensemble.models())


def _all_of(view: ModelView, ensemble: str) -> bool:
    """Return whether an ensemble of several members was away with all of them."""
    members, own = set(view.server.graph.ensembles[ensemble].models()), _away(view, ensemble)
    return len(members) > 1 and all(_together(own, _away(view, member)) for member in members)


def _away(view: ModelView, model: str) -> Sequence[Outage]:
    return [one for one in all_outages(view) if one.model == model]


def _together(some: Sequence[Outage], others: Sequence[Outage]) -> bool:
    return any(one.may_touch(other) for one in some for other in others)


# --- what clients saw


def _client_failures(view: ModelView) -> Reading:
    """Return how many of the requests that clients recorded for a model came back as errors, or not at all."""
    sent = [r for r in view.window.clients if r.model == view.model and view.start <= r.at <= view.end]
    if not sent:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, CLIENT)
    failed = sum(1 for request in sent if not request.ok)
    return Reading.of(float(failed), Unit.COUNT, CLIENT, events=len(sent))


def _patience(view: ModelView) -> Reading:
    """Return after how long clients gave up: most requests without an answer failed after one and the same time."""
    waited = sorted(
        r.seconds
        for r in view.window.clients
        if r.model == view.model and view.start <= r.at <= view.end and not r.ok and not r.code
    )
    if len(waited) < FEWEST_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS if waited else Missing.IDLE, Unit.SECONDS, CLIENT)
    middle = median(waited)
    alike = sum(1 for seconds in waited if abs(seconds - middle) <= _SAME_TIMEOUT * middle)
    if alike < _MOST_ALIKE * len(waited):
        return Reading.unknown(Missing.CONFLICTING, Unit.SECONDS, CLIENT)
    return Reading.of(middle, Unit.SECONDS, CLIENT, events=len(waited))


def _not_taken(view: ModelView) -> Reading:
    """Return how many requests a server that was there all the while answered with an error of the client's making.

    With several servers nobody knows which answered. A model that is away answers alike, and so may a proxy: refusals
    that come in one stretch are rather of a time than of some requests.
    """
    sent = [r for r in view.window.clients if r.model == view.model and view.start <= r.at <= view.end]
    if not sent or len(view.window.servers) > 1:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, CLIENT)
    if any(one.model in ("", view.model) for one in all_outages(view)):
        return Reading.of(0.0, Unit.COUNT, CLIENT, events=len(sent))
    refused = [one.code in _NOT_TAKEN for one in sorted(sent, key=lambda one: one.at)]
    longest = max((sum(1 for _ in run) for is_refused, run in groupby(refused) if is_refused), default=0)
    share = sum(refused) / len(refused)
    if share == 1 or (share and longest * log(share) < log(_BY_CHANCE / len(refused))):
        return Reading.unknown(Missing.CONFLICTING, Unit.COUNT, CLIENT)
    return Reading.of(float(sum(refused)), Unit.COUNT, CLIENT, events=len(sent))


def _error_answers(view: ModelView) -> Reading:
    """Return how many requests clients saw fail that the server counts as successes: the model's answers are errors.

    Its count holds about all that clients sent, or what it did with these is not known.
    """
    source = STATISTICS if view.delta(STATISTICS) else METRICS
    counted, servers = view.delta(source), len(view.window.servers)
    sent = [r for r in view.window.clients if r.model == view.model and view.start <= r.at + r.seconds <= view.end]
    if not sent or counted is None or servers > 1 or counted.resets or Counter.SUCCESS not in counted.values:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, CLIENT)
    failed = sum(request.code == _INTERNAL for request in sent)
    others = counted.values[Counter.SUCCESS] - sum(request.ok for request in sent)
    if not _AS_SUCCESSES * failed <= others <= failed + _UNRECORDED * len(sent):
        return Reading.of(0.0, Unit.COUNT, CLIENT, events=len(sent))
    return Reading.of(float(failed), Unit.COUNT, f"{CLIENT} and {source}", events=len(sent))


def _refused_at_queue(view: ModelView) -> Reading:
    """Return how many requests clients saw refused as Triton refuses those that its limited queue has no room for.

    What is in front of it may answer alike for reasons of its own: the queue was seen to be at least half full.
    """
    batching = view.config.dynamic_batching if view.config else None
    limit = batching.queue_policy.max_queue_size if batching else 0
    sent = [r for r in view.window.clients if r.model == view.model and view.start <= r.at <= view.end]
    if not sent or not limit or len(view.window.servers) > 1:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, CLIENT)
    refused = sum(request.code == _UNAVAILABLE for request in sent)
    filled = max((waiting for _, waiting in view.pending()), default=0.0) >= _FILLED * limit
    away = any(one.model in ("", view.model) for one in all_outages(view))
    if not filled or away or refused == len(sent):
        return Reading.of(0.0, Unit.COUNT, CLIENT, events=len(sent))
    return Reading.of(float(refused), Unit.COUNT, f"{CLIENT} and {METRICS}", estimated=True, events=len(sent))


# --- signals


def _summed(pick: Callable[[Refusal], tuple[float, float, float]], unit: Unit) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        found = refusals(view)
        low, value, high = (sum(parts) for parts in zip(*map(pick, found), strict=True)) if found else (0.0, 0.0, 0.0)
        estimated = any(one.source != CLIENT for one in found) if unit is Unit.COUNT else False
        return Reading.of(value, unit, _sources(found), low=low, high=high, estimated=estimated, events=value)

    return read


def _sources(found: Iterable[Refusal]) -> str:
    return " and ".join(sorted({source for one in found for source in (one.outage.source, one.source)})) or "index"


def _share(view: ModelView) -> Reading:
    """Refused ÷ (refused + answered) requests of the window."""
    found = refusals(view)
    refused = sum(one.requests[1] for one in found)
    answered = sum(stretch.count for stretch in arrivals(view)[0])
    return Reading.of(refused / max(refused + answered, 1.0), Unit.RATIO, _sources(found), estimated=True)


def _still(view: ModelView) -> Reading:
    found = refusals(view)
    now = any(not one.outage.over and one.requests[2] > 0 for one in found)
    return Reading.of(float(now), Unit.COUNT, _sources(found))


def _signal(name: str, unit: Unit, doc: str, read: Callable[[ModelView], Reading], fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.LISTED, doc=doc, readers=(read,), fix=fix)


UNAVAILABLE_SECONDS = _signal(
    "unavailable_seconds",
    Unit.SECONDS,
    "How long no version of the model was ready, or the server did not answer; 0 when it was there all the while.",
    _summed(lambda one: one.seconds, Unit.SECONDS),
)
REFUSED_REQUESTS = _signal(
    "refused_while_unavailable",
    Unit.COUNT,
    "Requests refused meanwhile: as clients record them, else the usual rate times that time; 0 where nobody asked.",
    _summed(lambda one: one.requests, Unit.COUNT),
)
REFUSED_SHARE = _signal(
    "refused_while_unavailable_share", Unit.RATIO, "Those refused ÷ (refused + answered) of the window.", _share
)
STOPPED_SECONDS = _signal(
    "stopped_seconds",
    Unit.SECONDS,
    "How long the server stood still and then went on with what it had: its process was stopped, frozen, or got no "
    "processor, or neither reads nor clients were answered and those that waited were afterwards. 0 when it did not.",
    _summed(lambda one: one.seconds if one.outage.state == STOPPED else (0.0, 0.0, 0.0), Unit.SECONDS),
    fix="record on the server's machine: the state of its process (grep State /proc/PID/status) and its CPU time show "
    "whether it stands still",
)
STILL_UNAVAILABLE = _signal(
    "still_unavailable", Unit.COUNT, "1 when it was still away at the last read and is asked for; else 0.", _still
)
CLIENT_FAILURES = _signal(
    "client_failures", Unit.COUNT, "Requests to the model that clients recorded as failed.", _client_failures
)
CLIENT_PATIENCE = _signal(
    "client_patience",
    Unit.SECONDS,
    "Time after which clients gave up: that of nine in ten of the requests that got no answer, within a tenth of it.",
    _patience,
)
NOT_TAKEN = _signal(
    "requests_not_taken",
    Unit.COUNT,
    "Requests that clients recorded as answered with HTTP 400, 404, 413, 415 or 422 while the model was there: the "
    "server does not take them, and counts none of them.",
    _not_taken,
)
REFUSED_AT_QUEUE = _signal(
    "refused_at_queue",
    Unit.COUNT,
    "Requests that clients recorded as refused with HTTP 503 while the model was there and its limited queue was seen "
    "half full or more: no counter shows them.",
    _refused_at_queue,
)
ERROR_ANSWERS = _signal(
    "error_answers",
    Unit.COUNT,
    "Requests that clients recorded as answered with HTTP 500, where the server counted them as successes: the answers "
    "of the model are errors.",
    _error_answers,
)
AWAY_WITH_ANOTHER = _signal(
    "away_with_another",
    Unit.COUNT,
    "1 when it was away because a member, or the ensemble that it was unloaded with, was; else 0.",
    lambda view: Reading.of(float(with_another(view)), Unit.COUNT, "configuration"),
)
