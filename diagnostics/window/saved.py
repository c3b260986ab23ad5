"""Saved readings become scrapes: whose they are, in which order they were taken, and how long it was between them.

Two pages of one server are ordered by their counters, which never fall. The time between them is that of their names;
else, for statistics, that of their last inferences; else that of the files, unless these were copied at once. Where
none shows it, only what does not depend on it can be known: the window is laid out twice, as short and as long as may
be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise

from diagnostics.window.parsed import MetricsPage, ScrapeParser, StatisticsRows
from diagnostics.window.points import Counter, CounterPoint, fell
from diagnostics.wire.capture_layout import LATEST_MS
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.saved import at_start
from diagnostics.wire.server import parse_statistics

SERVER = "triton"
"""The name of a server whose saved bodies do not name it."""
# Files that are copied or unpacked together get times within a second of each other.
LEAST_APART = 1.0
MOST_APART = 86_400.0
# So many requests between two readings: the last one of each came within a tenth of the time between them.
ENOUGH_REQUESTS = 30
# Two estimates of the time between two readings agree where they differ by no more than the second that a file's time
# is rounded to, twice, or a fifth.
_SECONDS_OFF, _SHARE_OFF = 2.0, 0.2
# No server spends more request time a second than this many requests at once, nor less than a thousandth of one.
_MOST_AT_ONCE, _LEAST_AT_ONCE = 1000.0, 0.001
_UNIX = re.compile(r"(?<!\d)(1[5-9]\d{8}|2\d{9})(\d{3})?(?!\d)")
_DATED = re.compile(r"(20\d{2})-?(\d{2})-?(\d{2})[T_ .-]?(\d{2})[:_.-]?(\d{2})[:_.-]?(\d{2})(?!\d)")
# What stays the same on one machine for as long as its Triton runs, in a metrics page.
_MACHINE = (
    re.compile(rb'^nv_gpu_[a-z_]+\{[^}\n]{0,200}?gpu_uuid="([^"\n]{1,100})"', re.MULTILINE),
    re.compile(rb"^nv_cpu_memory_total_bytes (\S{1,40})", re.MULTILINE),
)
_COUNTED = (BodyKind.METRICS, BodyKind.STATISTICS)
Rows = Mapping[tuple[str, str], CounterPoint]


class Basis(StrEnum):
    """What the times of a window are."""

    NAMES = "times from the files' names"
    INFERENCES = "times of the last inferences"
    FILES = "times at which the files were written"
    TEST = "a load test"
    UNKNOWN = "averages between two readings, an unknown time apart"
    LIFETIME = "averages since the server started"
    NOTHING = "no counters"

    @property
    def timed(self) -> bool:
        """Whether the time between the readings is known."""
        return self not in (Basis.UNKNOWN, Basis.LIFETIME, Basis.NOTHING)


_LEAST_SURE = tuple(Basis)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBody:
    """One saved body.

    Attributes:
        file: the file's name.
        kind: what it is.
        body: the bytes.
        at: when the file was written, Unix seconds.
        model: of a configuration file.
        server: whose it is; empty where nothing shows.
        basis: where `at` is from, when that is sure; None when it is the file's.

    """

    file: str
    kind: BodyKind
    body: bytes
    at: float
    model: str = ""
    server: str = ""
    basis: Basis | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWindow:
    """Saved bodies laid out in time.

    Attributes:
        scrapes: what was read when.
        stretched: the same over another time; equal where the time is known.
        basis: what the times are.
        unused: files that say nothing beside the others.

    """

    scrapes: tuple[Scrape, ...]
    stretched: tuple[Scrape, ...]
    basis: Basis
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    saved: SavedBody
    rows: Rows

    def total(self, counter: Counter) -> float:
        return sum(point.values.get(counter, 0.0) for point in self.rows.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Laid:
    """The readings of one server; `at` holds their times over a short and a long stretch."""

    bodies: tuple[tuple[SavedBody, float, float], ...]
    basis: Basis
    unused: tuple[str, ...] = ()


def laid_out(bodies: Sequence[SavedBody]) -> SavedWindow:
    """Return saved bodies as scrapes.

    Args:
        bodies: what was saved, as it was named. Not empty.

    """
    readings = [_Reading(saved=body, rows=_rows(body)) for body in bodies if body.kind in _COUNTED]
    servers = _by_server(readings)
    laid = {name: _laid(found) for name, found in servers.items()}
    names = tuple(servers) or (SERVER,)
    basis = max((one.basis for one in laid.values()), key=_LEAST_SURE.index, default=Basis.NOTHING)
    unused = tuple(name for one in laid.values() for name in one.unused)
    short = tuple(_scrape(name, body, at) for name, one in laid.items() for body, at, _ in one.bodies)
    long = tuple(_scrape(name, body, at) for name, one in laid.items() for body, _, at in one.bodies)
    end = max((scrape.at for scrape in short), default=max(body.at for body in bodies))
    beside = tuple(_beside(bodies, names, end))
    return SavedWindow(scrapes=short + beside, stretched=long + beside, basis=basis, unused=unused)


def named_time(file: str) -> float | None:
    """Return the Unix seconds that a file's name holds: seconds, milliseconds, or a date with a time (UTC)."""
    if found := _UNIX.search(file):
        seconds = float(found[1]) + (int(found[2]) / 1000 if found[2] else 0.0)
        return seconds if seconds * 1000 <= LATEST_MS else None
    if dated := _DATED.search(file):
        try:
            return datetime(*(int(part) for part in dated.groups()), tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]
        except ValueError:
            return None
    return None


def _rows(body: SavedBody) -> Rows:
    content = ScrapeParser().parse(_scrape(SERVER, body, body.at)).content
    match content:
        case MetricsPage():
            return content.rows
        case StatisticsRows():
            return content.rows
        case _:
            return {}


def _by_server(readings: Sequence[_Reading]) -> dict[str, list[_Reading]]:
    """Return the readings by server: one's, unless counters contradict that."""
    named = {reading.saved.server or SERVER for reading in readings}
    if len(named) > 1 or not _contradict(readings):
        found: dict[str, list[_Reading]] = {}
        for reading in readings:
            found.setdefault(reading.saved.server or SERVER, []).append(reading)
        return found
    return {_free(reading.saved.file, i, readings): [reading] for i, reading in enumerate(readings)}


def _free(file: str, position: int, readings: Sequence[_Reading]) -> str:
    """Return a file's name without its ending, with its position where another one's is the same."""
    stems = [reading.saved.file.partition(".")[0] for reading in readings]
    stem = file.partition(".")[0] or SERVER
    return f"{stem}-{position + 1}" if stems.count(stem) > 1 else stem


def _contradict(readings: Sequence[_Reading]) -> bool:
    return any(
        _fell(before, after)
        for kind in _COUNTED
        for before, after in pairwise(_ordered([r for r in readings if r.saved.kind is kind]))
        if before.rows and after.rows
    )


def _fell(before: _Reading, after: _Reading) -> bool:
    """Return whether two readings are not one server's: other machines, no model in common, or some that count less.

    Where all that is in common counts less, and names say that it is later, the server was started again.
    """
    if _machines_differ(before.saved.body, after.saved.body):
        return True
    common = before.rows.keys() & after.rows.keys()
    down = [fell(before.rows[key], after.rows[key]) for key in common]
    return not common or (any(down) and not (all(down) and _named([before, after])))


def _machines_differ(before: bytes, after: bytes) -> bool:
    """Return whether two pages name other GPUs, or processors with another memory."""
    for mark in _MACHINE:
        one, other = (frozenset(mark.findall(page)) for page in (before, after))
        if one and other and not one & other:
            return True
    return False


def _ordered(readings: Sequence[_Reading]) -> list[_Reading]:
    if _named(readings):
        return sorted(readings, key=lambda reading: named_time(reading.saved.file) or 0.0)
    return sorted(readings, key=lambda reading: (reading.total(Counter.SUCCESS), reading.saved.at))


def _named(readings: Sequence[_Reading]) -> bool:
    times = [named_time(reading.saved.file) for reading in readings]
    return None not in times and len(set(times)) == len(times)


def _laid(readings: Sequence[_Reading]) -> _Laid:
    """Return one server's readings in time: those of the source whose times are known, else that was read twice."""
    kinds = {kind: _ordered([r for r in readings if r.saved.kind is kind]) for kind in _COUNTED}
    timed = {kind: found for kind, ordered in kinds.items() if (found := _times(ordered))}
    if timed:
        return _over_times(kinds, timed)
    twice = [kind for kind, ordered in kinds.items() if len(ordered) > 1]
    if twice:
        return _between(kinds, twice)
    bodies = [entry for ordered in kinds.values() for one in ordered for entry in _lifetime(one)]
    counted = any(reading.rows for reading in readings)
    return _Laid(bodies=tuple(bodies), basis=Basis.LIFETIME if counted else Basis.NOTHING)


def _over_times(
    kinds: Mapping[BodyKind, Sequence[_Reading]], timed: Mapping[BodyKind, tuple[Sequence[float], Basis]]
) -> _Laid:
    lasting, _ = max(timed.values(), key=lambda found: found[0][-1])
    bodies, unused = list[tuple[SavedBody, float, float]](), list[str]()
    for kind, ordered in kinds.items():
        times = timed[kind][0] if kind in timed else lasting
        if len(ordered) == len(times):  # saved in turn with the others
            bodies += [(one.saved, at, at) for one, at in zip(ordered, times, strict=True)]
        elif ordered:
            bodies.append((ordered[-1].saved, times[-1], times[-1]))
            unused += [one.saved.file for one in ordered]
    basis = max((basis for _, basis in timed.values()), key=_LEAST_SURE.index)
    return _Laid(bodies=tuple(bodies), basis=basis, unused=tuple(unused))


def _between(kinds: Mapping[BodyKind, Sequence[_Reading]], twice: Sequence[BodyKind]) -> _Laid:
    """Return the first and last reading of each source that was read twice. What is between has no time either."""
    bodies, unused = list[tuple[SavedBody, float, float]](), list[str]()
    for kind, ordered in kinds.items():
        if kind in twice:
            last = ordered[-1]
            short, long = _stretches(last.total(Counter.REQUEST_SECONDS) - ordered[0].total(Counter.REQUEST_SECONDS))
            end = last.saved.at
            bodies += [(ordered[0].saved, end - short, end - long), (last.saved, end, end)]
            unused += [one.saved.file for one in ordered[1:-1]]
        elif ordered:
            bodies.append((ordered[-1].saved, ordered[-1].saved.at, ordered[-1].saved.at))
            unused += [one.saved.file for one in ordered]
    return _Laid(bodies=tuple(bodies), basis=Basis.UNKNOWN, unused=tuple(unused))


def _lifetime(reading: _Reading) -> Iterable[tuple[SavedBody, float, float]]:
    """Yield what the server said when it had counted nothing, and what it says now."""
    saved = reading.saved
    if reading.rows:
        short, long = _stretches(reading.total(Counter.REQUEST_SECONDS))
        zero = replace(saved, body=at_start(saved.kind, saved.body))
        yield zero, saved.at - short, saved.at - long
    yield saved, saved.at, saved.at


def _stretches(request_seconds: float) -> tuple[float, float]:
    """Return the shortest and the longest time in which a server can have spent so much time on requests."""
    return max(request_seconds / _MOST_AT_ONCE, 1.0), min(max(request_seconds / _LEAST_AT_ONCE, 3600.0), 1e9)


def _times(ordered: Sequence[_Reading]) -> tuple[Sequence[float], Basis] | None:
    """Return when readings were taken and how that is known; None where it is not, or there is only one."""
    if len(ordered) < 2:
        return None
    if all(reading.saved.basis is not None for reading in ordered):
        return [reading.saved.at for reading in ordered], Basis.TEST
    if _named(ordered):
        return [named_time(reading.saved.file) or 0.0 for reading in ordered], Basis.NAMES
    written, inferred = [reading.saved.at for reading in ordered], _inferences(ordered)
    by_file = all(LEAST_APART <= after - before <= MOST_APART for before, after in pairwise(written))
    if by_file and (inferred is None or _agree(written, inferred)):
        return written, Basis.FILES
    return (inferred, Basis.INFERENCES) if inferred is not None else None


def _agree(written: Sequence[float], inferred: Sequence[float]) -> bool:
    one, other = written[-1] - written[0], inferred[-1] - inferred[0]
    return abs(one - other) <= max(_SECONDS_OFF, _SHARE_OFF * other)


def _inferences(ordered: Sequence[_Reading]) -> list[float] | None:
    """Return the times of the last inference at each reading; None where requests are too few to know when it was."""
    if any(reading.saved.kind is not BodyKind.STATISTICS for reading in ordered):
        return None
    enough = all(
        after.total(Counter.SUCCESS) - before.total(Counter.SUCCESS) >= ENOUGH_REQUESTS
        for before, after in pairwise(ordered)
    )
    last = [max((m.last_inference or 0.0 for m in parse_statistics(r.saved.body)), default=0.0) for r in ordered]
    apart = all(LEAST_APART <= after - before <= MOST_APART for before, after in pairwise(last))
    return last if enough and apart and last[0] > 0 else None


def _scrape(server: str, saved: SavedBody, at: float) -> Scrape:
    return Scrape(server=server, kind=saved.kind, at=at, mono=at, body=saved.body, name=saved.model)


def _beside(bodies: Sequence[SavedBody], servers: Sequence[str], end: float) -> Iterable[Scrape]:
    """Yield what is no counter, for every server that it may be of; of several, a log or an index is nobody's."""
    for body in bodies:
        if body.kind in (BodyKind.NVML, BodyKind.DCGM, BodyKind.TRACES, BodyKind.CLIENT):
            yield _scrape("", body, end)
        elif body.kind not in _COUNTED and (len(servers) == 1 or body.kind in (BodyKind.CONFIG, BodyKind.REPOSITORY)):
            yield from (_scrape(server, body, end) for server in servers)
