"""When a model, or a server, could not be called: what the index, the log, the counters and failed reads show.

Triton counts only requests that it accepts: those that meet a model that is not there are refused at once and leave no
trace in any counter. What shows is the model's absence. The index gives its state at each read; the log says when it
was unloaded and loaded; statistics and metrics do not list what is not loaded; a server that is down answers none.
Sources: Triton core, `model_lifecycle.cc`, `model_repository_manager.cc`, `metric_model_reporter.cc`; all tried on
2.51: the refusals begin with UNLOADING, while a Python model's processes may take seconds more to end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import median

from diagnostics import names
from diagnostics.window.counters import MOST_MISSED_ROUNDS, Counter, CounterStep, CounterTable, Opened
from diagnostics.window.lifecycle import READY, UNAVAILABLE, UNLOADED_REASON
from diagnostics.window.logs import LogEvent, LogKind
from diagnostics.window.unanswered import FEWEST_ROUNDS, INFERENCE_PORT, FailedRead
from diagnostics.window.window import METRICS, STATISTICS, ServerWindow
from diagnostics.wire.failed_reads import longest_wait, refused, unanswered
from diagnostics.wire.host import HostSample
from diagnostics.wire.records import BodyKind
from diagnostics.wire.server import IndexEntry

INDEX, LOG, READS, PORT, HOST = "index", "log", "failed reads", "failed reads of the inference port", "host"
LOADING, UNLOADING, RESTARTED, REFUSING, STOPPED = "LOADING", "UNLOADING", "RESTARTED", "REFUSING", "STOPPED"
# A version that was listed and is no longer at so many reads in a row, to the last one: bodies that lost a row are
# rarer. One that is back with counters from zero was unloaded, however few reads missed it.
FEWEST_UNLISTED = 3
# One model whose counters begin again was loaded; of two, that both were at once is less likely than a restart.
FEWEST_RESTARTED = 2
# The kernel counts processor time in ticks of 10 ms: where ten are usual, none at all is no chance (e^-10).
_TICKS_MISSED = 0.1
# A processor that is busy for so much of the time is full (the limit of `host-cpu-starved`, whose case this then is):
# who uses none of it may just not have had its turn.
_FULL = 0.9
_SLACK = 1e-6
# A reader that doubles its pause with each failure, as `diag serve` does, leaves half of the time untried; a twentieth
# more, as rounds begin a little late.
_MOST_UNTRIED = 0.55


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A stretch in which a model (all its versions), or a server, was not there.

    Attributes:
        model: empty for the server as a whole.
        after: Unix seconds at which it was last seen there; None when it was away from the first read on.
        since, until: it was away from `since` to `until` for certain.
        before: when it was first seen there again; None when it was still away at the last read.
        source: `index`, `log`, `metrics`, `statistics`, `host`, `failed reads` or `failed reads of the inference port`,
            the most exact that shows it.
        state: its last state meanwhile, as the index names it; `RESTARTED` of a server whose counters all began again;
            `REFUSING` where nothing listened on its inference port; `STOPPED` where its process stood still and went
            on; empty where nothing shows.
        reason: why, where the index or the log gives one.
        tried: whether somebody tried to read it meanwhile; a hole that nobody tried to read may be the reader's own.

    """

    model: str = ""
    after: float | None
    since: float
    until: float
    before: float | None
    source: str
    state: str = ""
    reason: str = ""
    tried: bool = True

    @property
    def over(self) -> bool:
        """Whether it ended inside the window."""
        return self.before is not None

    def may_hold(self, start: float, end: float) -> bool:
        """Return whether it may overlap a stretch of time."""
        first, last = self._bounds
        return start < last and first < end

    def may_touch(self, other: Outage) -> bool:
        """Return whether two may have been at the same time."""
        return self.may_hold(*other._bounds)

    @property
    def _bounds(self) -> tuple[float, float]:
        return (
            float("-inf") if self.after is None else self.after,
            float("inf") if self.before is None else self.before,
        )


def outages(server: ServerWindow, end: float, wanted: Collection[str] = ()) -> tuple[Outage, ...]:
    """Return when a server was down and when its models were away, in time order of their beginning.

    Args:
        server: what was read of it.
        end: Unix seconds of the window's last read, of any server.
        wanted: models that somebody asks it for, whether it lists them or not.

    """
    closed = list(_port_unanswered(server))
    down = [_with_port(one, closed) for one in _unanswered(server, end)]
    down = [replace(one, state=RESTARTED) if _fell(server, one) else one for one in down]
    still = list(_stopped(server))
    down = [*still, *(one for one in down if not any(one.may_touch(other) for other in still))]
    down += [one for one in _restarted(server) if not any(one.may_touch(other) for other in down)]
    states = _states(server)
    away = [one for model in _models(server, states) for one in _of_model(server, model, states.get(model, ()))]
    away += _never_counted(server, states, wanted)
    # While a server is down, and while it loads its models again, they are away with it.
    apart = [one for one in away if not any(one.may_touch(whole) for whole in down)]
    closed = [one for one in closed if not any(one.may_touch(whole) for whole in down)]
    return tuple(sorted([*down, *closed, *apart], key=lambda one: (one.since, one.model)))


def _models(server: ServerWindow, states: Mapping[str, Sequence[_Spell]]) -> list[str]:
    counted = {model for model, _ in server.keys_seen()}
    return sorted(counted | {model for model, spells in states.items() if not all(spell.ready for spell in spells)})


def _of_model(server: ServerWindow, model: str, spells: Sequence[_Spell]) -> Iterator[Outage]:
    events = server.log_of(model)
    listed = [one for one in _from_spells(model, spells) if not _served(server, one)]
    yield from (_refined(one, events) for one in listed)
    between = [one for one in _from_log(server, model, events, spells) if not _served(server, one)]
    yield from (one for one in between if not any(one.may_touch(other) for other in listed))
    if not spells:
        yield from _unlisted(server, model)
    known = [*listed, *between]
    yield from (one for one in _anew(server, model) if not any(one.may_touch(other) for other in known))


# --- the index


@dataclass(frozen=True, slots=True)
class _Spell:
    """Reads of the index, one after another, in which a model's entries were the same."""

    first: float
    last: float
    entries: tuple[IndexEntry, ...]

    @property
    def ready(self) -> bool:
        return any(entry.state == READY for entry in self.entries)

    @property
    def loading(self) -> bool:
        return any(entry.state == LOADING for entry in self.entries)


def _states(server: ServerWindow) -> Mapping[str, Sequence[_Spell]]:
    """Return each listed model's spells, in time order; a read that leaves a model out says nothing of it."""
    found: dict[str, list[_Spell]] = {}
    for entries, reads in groupby(server.index, key=lambda read: read[1]):
        times = [at for at, _ in reads]
        by_model: dict[str, list[IndexEntry]] = {}
        for entry in entries:
            by_model.setdefault(entry.name, []).append(entry)
        for model, own in by_model.items():
            spells = found.setdefault(model, [])
            if spells and spells[-1].entries == tuple(own):
                spells[-1] = _Spell(spells[-1].first, times[-1], tuple(own))
            else:
                spells.append(_Spell(times[0], times[-1], tuple(own)))
    return found


def _from_spells(model: str, spells: Sequence[_Spell]) -> Iterator[Outage]:
    after: float | None = None
    for ready, group in groupby(spells, key=lambda spell: spell.ready):
        run = list(group)
        if ready:
            after = run[-1].last
            continue
        following = next((spell.first for spell in spells if spell.first > run[-1].last), None)
        reported = _most_informative(run[-1].entries)
        yield Outage(
            model=model,
            after=after,
            since=run[0].first,
            until=run[-1].last,
            before=following,
            source=INDEX,
            state=reported.state,
            reason=_reason(run),
        )


def _most_informative(entries: Sequence[IndexEntry]) -> IndexEntry:
    """Return the entry that says most of a model that is not ready."""
    return max(entries, key=lambda entry: (entry.reason not in ("", UNLOADED_REASON), entry.state == UNAVAILABLE))


def _reason(run: Sequence[_Spell]) -> str:
    """Return the newest reason but `unloaded`; that one where it is the only one; empty without any."""
    reasons = [entry.reason for spell in run for entry in spell.entries if entry.reason]
    return next((one for one in reversed(reasons) if one != UNLOADED_REASON), reasons[-1] if reasons else "")


# --- what contradicts it, and what makes it exact


def _served(server: ServerWindow, one: Outage) -> bool:
    """Return whether the model went on answering all the while, as an old copy does until a new one is loaded.

    What was accepted before it was unloaded may still end, so the half of the stretch that counts is the later one.
    """
    middle = (one.since + one.until) / 2
    return any(
        step.start >= middle and step.end <= one.until and step.values.get(Counter.SUCCESS, 0.0) > 0
        for table in _tables(server, one.model)
        for step in table.steps
    )


def _tables(server: ServerWindow, model: str) -> list[CounterTable]:
    tables = (server.tables[source].get(key) for source in (METRICS, STATISTICS) for key in server.keys_of(model))
    return [table for table in tables if table is not None]


def _refined(one: Outage, events: Sequence[LogEvent]) -> Outage:
    """Return the outage with the instants from the log: it was there up to the one, and from the other on."""
    gone = [e.at for e in events if e.kind is LogKind.UNLOADED and (one.after or one.since) <= e.at <= one.since]
    back = [e.at for e in events if e.kind is LogKind.LOADED and one.over and one.until <= e.at <= (one.before or 0.0)]
    failed = [e.reason for e in events if e.kind is LogKind.FAILED and one.may_hold(e.at, e.at) and e.reason]
    since = gone[0] if gone else one.since
    until = back[-1] if back else one.until
    return replace(
        one,
        after=since if gone and one.after is not None else one.after,
        since=since,
        until=until,
        before=until if back else one.before,
        reason=failed[-1] if failed and one.reason in ("", UNLOADED_REASON) else one.reason,
    )


def _from_log(
    server: ServerWindow, model: str, events: Sequence[LogEvent], spells: Sequence[_Spell]
) -> Iterator[Outage]:
    """Yield what was unloaded and loaded again between two reads. A load that began before is a reload in place."""
    start, end = _span(server)
    for number, event in enumerate(events):
        if event.kind is not LogKind.UNLOADED or not start <= event.at <= end:
            continue
        later = events[number + 1 :]
        begun = next((e for e in later if e.kind is LogKind.LOADING), None)
        back = next((e for e in later if e.kind is LogKind.LOADED), None)
        if begun is None or back is None or back.at < begun.at or _another_serves(spells, event):
            continue
        yield Outage(model=model, after=event.at, since=event.at, until=back.at, before=back.at, source=LOG)


def _another_serves(spells: Sequence[_Spell], event: LogEvent) -> bool:
    """Return whether another version of the model was ready at the last read before it was unloaded."""
    before = [spell for spell in spells if spell.first <= event.at]
    return any(e.state == READY and e.version != event.version for spell in before[-1:] for e in spell.entries)


def _span(server: ServerWindow) -> tuple[float, float]:
    times = [at for reads in server.reads.values() for at, _ in reads]
    return min(times, default=0.0), max(times, default=0.0)


# --- counters, where the index was not read


def _unlisted(server: ServerWindow, model: str) -> Iterator[Outage]:
    """Yield when a source listed no version of a model: then none is loaded. Without the index there is no more.

    A Python model's row stays in the metrics until its processes have ended, and not in the statistics. The index lists
    whatever is loaded: one that it did not list while others counted it is none of this server's.
    """
    for source in (STATISTICS, METRICS):
        tables = [table for table in _tables(server, model) if table.source == source and table.steps]
        if not tables:
            continue
        if any(step.start <= at <= step.end for table in tables for step in table.steps for at, _ in server.index):
            return
        reads = [at for at, _ in server.reads[source]]
        paged = [table for table in _tables(server, model) if table.source == METRICS and table.source != source]
        gaps = [one for one in _gaps(tables, reads) if not _went_on(paged, one)]
        yield from (replace(one, model=model, source=source) for one in [*gaps, *_gone(tables, reads)])
        return


def _gaps(tables: Sequence[CounterTable], reads: Sequence[float]) -> Iterator[Outage]:
    for step in (step for table in tables for step in table.resets if step.opened is Opened.RESET):
        missed = [at for at in reads if step.start < at < step.end]
        if missed and not any(_covers(table, missed) for table in tables):
            yield Outage(after=step.start, since=missed[0], until=missed[-1], before=step.end, source="")


def _went_on(paged: Sequence[CounterTable], one: Outage) -> bool:
    """Return whether a model's metrics go on over a hole in its statistics: it was loaded again in place."""
    over = [step for table in paged for step in table.steps if one.may_hold(step.start, step.end)]
    return bool(over) and all(step.opened is not Opened.RESET or step.end <= one.since for step in over)


def _anew(server: ServerWindow, model: str) -> Iterator[Outage]:
    """Yield when a model's metrics began again between two reads: it was unloaded and loaded, nobody knows how long.

    A reload in place goes on with the same metrics, and lets only the statistics begin again.
    """
    reads = [at for at, _ in server.reads[METRICS]]
    tables = [table for table in _tables(server, model) if table.source == METRICS]
    for step in (step for table in tables for step in table.resets if step.opened is Opened.RESET):
        between = not any(step.start < at < step.end for at in reads)
        if between and not any(other.inside(step.start, step.end) for other in tables if step not in other.steps):
            yield Outage(model=model, after=step.start, since=step.end, until=step.end, before=step.end, source=METRICS)


def _covers(table: CounterTable, missed: Sequence[float]) -> bool:
    """Return whether a version was listed at any of these reads."""
    return any(step.end in missed or step.start in missed for step in table.steps)


def _gone(tables: Sequence[CounterTable], reads: Sequence[float]) -> Iterator[Outage]:
    last = max(table.last.at for table in tables if table.last is not None)
    missed = [at for at in reads if at > last]
    if len(missed) >= FEWEST_UNLISTED:
        yield Outage(after=last, since=missed[0], until=missed[-1], before=None, source="")


def _never_counted(
    server: ServerWindow, states: Mapping[str, Sequence[_Spell]], wanted: Collection[str]
) -> Iterator[Outage]:
    """Yield the models that no read of the counters lists, nor the index: those that are wanted, or were configured.

    Triton lists each model that is loaded in its statistics. A configuration is read of what is ready; without the
    index nothing shows whether it went since.
    """
    reads = max(server.reads.values(), key=len)
    if len(reads) < FEWEST_UNLISTED:
        return
    configured = set() if server.index else set(server.configured)
    for model in sorted((configured | set(wanted)) - set(states)):
        if not server.keys_of(model):
            source = STATISTICS if server.reads[STATISTICS] else METRICS
            yield Outage(model=model, after=None, since=reads[0][0], until=reads[-1][0], before=None, source=source)


# --- servers that do not answer


def _port_unanswered(server: ServerWindow) -> Iterator[Outage]:
    """Yield when the inference port answered no read while the metrics page did.

    Requests that wait inside were let in: then the port is not what holds them.
    """
    waiting = server.gauge(names.PENDING_REQUESTS, {})
    for one in server.unanswered():
        inside = any(one.since <= at <= one.until and count >= 1 for at, count in waiting)
        if one.port == INFERENCE_PORT and unanswered(one.reason) and not inside:
            yield Outage(
                after=one.after,
                since=one.since,
                until=one.until,
                before=one.before,
                source=PORT,
                state=REFUSING if one.refused else "",
                reason=one.reason,
            )


def _with_port(one: Outage, closed: Sequence[Outage]) -> Outage:
    """Return an outage from when the inference port closed: a server that stops closes it before the metrics page."""
    first = next((port for port in closed if port.may_touch(one) and port.since < one.since), None)
    return one if first is None else replace(one, after=first.after, since=first.since)


def _unanswered(server: ServerWindow, end: float) -> Iterator[Outage]:
    """Yield when no read of a server was answered: at several tries in a row, or for several rounds without a trace.

    A recorder that keeps no failed read leaves a hole, as one does that was away itself. Whether the server was down,
    or nobody read, follows from its clients, or from what it had counted meanwhile where it did not restart.
    """
    often = max(server.reads.values(), key=len)
    rounds = [later - sooner for (sooner, _), (later, _) in pairwise(often) if later > sooner]
    answered = sorted({at for reads in server.reads.values() for at, _ in reads} | {at for at, _ in server.index})
    failed = sorted(one for one in server.failed if one.kind is not BodyKind.HOST)  # nobody asks the server for that
    if not answered and len(failed) > 1 and all(unanswered(one.reason) for one in failed):
        yield Outage(after=None, since=failed[0].at, until=failed[-1].at, before=None, source=READS)
    yield from _unanswered_first(answered, failed)
    if not rounds:
        return
    usual = median(rounds)
    steady = {at: mono for reads in server.reads.values() for at, mono in reads}
    last = max([end, *(one.at for one in failed)])
    for sooner, later in pairwise([*answered, last]):
        if _least(steady, sooner, later) <= MOST_MISSED_ROUNDS * usual:
            continue
        tries = [one for one in failed if sooner < one.at <= later]
        back = later if later in answered else None
        until = later - usual if back else later
        tried = bool(tries) and _longest_untried(sooner, tries, later) <= _MOST_UNTRIED * (later - sooner)
        since, until = (tries[0].at, tries[-1].at) if tried else (sooner + usual, until)
        yield Outage(after=sooner, since=since, until=until, before=back, source=READS, tried=tried)


def _unanswered_first(answered: Sequence[float], failed: Sequence[FailedRead]) -> Iterator[Outage]:
    """Yield when nothing listened at a server in the first rounds of a window, until it answered: it was starting."""
    first = [one for one in failed if answered and one.at < answered[0]]
    kinds = [one.kind for one in first]
    several = any(kinds.count(kind) >= FEWEST_ROUNDS for kind in kinds)
    if several and all(refused(one.reason) for one in first):
        yield Outage(after=None, since=first[0].at, until=first[-1].at, before=answered[0], source=READS)


def _least(steady: Mapping[float, float], sooner: float, later: float) -> float:
    """Return the seconds between two reads by the clock that says less: one that was set jumps, and no time passes."""
    apart = later - sooner
    known = sooner in steady and later in steady
    return min(apart, steady[later] - steady[sooner]) if known else apart


def _longest_untried(sooner: float, tries: Sequence[FailedRead], later: float) -> float:
    """Return the longest time between two answers in which no read was under way; a failed one is filed as it ended.

    One that failed at the edge says nothing of the rest: two recordings kept in one folder look like this.
    """
    begun = [*(one.at - longest_wait(one.reason) for one in tries), later]
    return max(start - ended for ended, start in zip([sooner, *(one.at for one in tries)], begun, strict=True))


def _stopped(server: ServerWindow) -> Iterator[Outage]:
    """Yield when a server's own process stood still: stopped by a signal, frozen, or given no processor at all.

    A read that is answered meanwhile denies it: the samples of the machine were another's, or old ones.
    """
    samples = [sample for sample in server.hosts if sample.at is not None]
    answered = sorted({at for reads in server.reads.values() for at, _ in reads} | {at for at, _ in server.index})
    still = [is_stopped(sample) for sample in samples]
    for number in _standing(samples):
        still[number] = still[number + 1] = True
    for stopped, run in groupby(range(len(samples)), key=lambda number: still[number]):
        inside = list(run)
        since, until = samples[inside[0]].at or 0.0, samples[inside[-1]].at or 0.0
        if stopped and bisect_right(answered, since) >= bisect_left(answered, until):
            yield Outage(
                after=samples[inside[0] - 1].at if inside[0] else None,
                since=since,
                until=until,
                before=samples[inside[-1] + 1].at if inside[-1] + 1 < len(samples) else None,
                source=HOST,
                state=STOPPED,
            )


def is_stopped(sample: HostSample) -> bool:
    """Return whether all threads of the server's process are stopped, or in the state into which cgroup v1 freezes."""
    own = next((one for one in sample.processes if one.pid == sample.server_pid), None)
    if own is None or not own.thread_count:
        return False
    return own.thread_count in (own.stopped_threads, own.io_threads if own.thread_count > 1 else None)


def _standing(samples: Sequence[HostSample]) -> Iterator[int]:
    """Yield after which samples no process of the server used a processor, where they usually do and one was free."""
    grown = [_grown(sooner, later) for sooner, later in pairwise(samples)]
    seconds = (samples[-1].at or 0.0) - (samples[0].at or 0.0) if samples else 0.0
    known = [one for one in grown if one is not None]
    if not known or seconds <= 0 or len(known) < len(grown):
        return
    usual = sum(known) / seconds
    for number, (sooner, later) in enumerate(pairwise(samples)):
        missed = usual * ((later.at or 0.0) - (sooner.at or 0.0)) >= _TICKS_MISSED
        if not known[number] and missed and not _machine_was_full(sooner, later):
            yield number


def _machine_was_full(sooner: HostSample, later: HostSample) -> bool:
    """Return whether no processor was free between two samples; False where that was not recorded."""
    counted = (sooner.cpu_busy_seconds, later.cpu_busy_seconds, sooner.cpu_total_seconds, later.cpu_total_seconds)
    if None in counted:
        return False
    busy, busy_later, total, total_later = (one or 0.0 for one in counted)
    return busy_later - busy >= _FULL * (total_later - total) > 0


def _grown(sooner: HostSample, later: HostSample) -> float | None:
    """Return the processor time that the same processes used between two samples; None where that is not known."""
    before = {one.pid: one.cpu_seconds for one in sooner.processes}
    spans = [(one.cpu_seconds, before.get(one.pid)) for one in later.processes]
    used = [now - then for now, then in spans if now is not None and then is not None]
    same = sooner.server_pid is not None and sooner.server_pid == later.server_pid
    return sum(used) if used and same and min(used) >= 0 else None


def _fell(server: ServerWindow, one: Outage) -> bool:
    """Return whether all that is counted stood lower when a server answered again, and not because a clock was set."""
    back = {mono for reads in server.reads.values() for at, mono in reads if one.may_hold(at - _SLACK, at)}
    tables = [table for source in (METRICS, STATISTICS) for table in server.tables[source].values() if table.counts]
    return bool(tables) and all(back.intersection(table.fell_at) and not table.clock_set_back for table in tables)


def _restarted(server: ServerWindow) -> Iterator[Outage]:
    """Yield when every model's counters began again between two reads: nobody knows how long the server was down."""
    for source in (METRICS, STATISTICS):
        tables = [table for table in server.tables[source].values() if table.counts]
        resets = [[step for step in table.resets if step.opened is Opened.RESET] for table in tables]
        if len(tables) < FEWEST_RESTARTED or not all(resets):
            continue
        for step in resets[0]:
            answered = any(step.start < at < step.end for at, _ in server.reads[source])
            if not answered and all(any(_overlap(step, other) for other in others) for others in resets):
                yield Outage(
                    after=step.start, since=step.end, until=step.end, before=step.end, source=source, state=RESTARTED
                )
        return


def _overlap(one: CounterStep, other: CounterStep) -> bool:
    return one.start < other.end and other.start < one.end


__all__ = [
    *("HOST", "INDEX", "LOADING", "LOG", "PORT", "READS", "REFUSING", "RESTARTED", "STOPPED", "UNLOADING"),
    *("Outage", "is_stopped", "outages"),
]
