"""What happened to a server's models: loads, reloads in place, new versions, failed loads, restarts, new settings.

Each source shows it its own way: the statistics belong to the model object and start from zero with each load, the
metrics go on through a reload in place; the index gives states and reasons at each read; the log gives exact times; the
load duration changes on a successful load. Events that several sources show are reported once, by the most exact.
Sources: Triton core, `model_lifecycle.cc`, `metric_model_reporter.cc`; server, `extension_model_repository.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby, pairwise

from diagnostics import names
from diagnostics.tuning.changes import SettingChange, changed_settings
from diagnostics.window.counters import Opened
from diagnostics.window.logs import LogEvent, LogKind
from diagnostics.window.window import METRICS, STATISTICS, ServerWindow
from diagnostics.wire.server import IndexEntry

LOG, CONFIGURATION = "log", "configuration"
READY = "READY"
UNAVAILABLE = "UNAVAILABLE"
# What the index gives as the reason of a version that was unloaded as asked, which is no failure.
UNLOADED_REASON = "unloaded"


class Happened(StrEnum):
    """The kind of a change."""

    LOADED = "loaded"
    RELOADED = "reloaded"
    RESTARTED = "restarted"
    LOAD_FAILED = "load failed"
    UNLOADED = "unloaded"
    CONFIGURED = "reconfigured"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange:
    """One change of a server or of one of its models.

    Attributes:
        since, at: Unix seconds; it happened between them. A load that was logged began at `since` and was done at `at`.
        kind: what happened.
        model: empty for the server as a whole.
        version: empty where the source names none.
        source: where it was seen: `log`, `index`, `statistics`, `metrics` or `configuration`.
        reason: why, for a load that failed.
        settings: what is set otherwise, for new settings.
        zoned: whether it is certain from which time zone the times are.

    """

    since: float
    at: float
    kind: Happened
    model: str = ""
    version: str = ""
    source: str
    reason: str = ""
    settings: tuple[SettingChange, ...] = ()
    zoned: bool = True

    def __str__(self) -> str:
        if self.kind is Happened.CONFIGURED:
            return f"settings of {self.model} changed: {self.differences}"
        version = f" version {self.version}" if self.version else ""
        return f"{self.model or 'server'}{version} {self.kind.value}"

    @property
    def differences(self) -> str:
        """The settings that changed, each with its values before and after."""
        return ", ".join(str(one).removeprefix("instance_group.") for one in self.settings)


def changes(server: ServerWindow) -> tuple[ServerChange, ...]:
    """Return everything that happened to a server, in time order, each event once."""
    restarts = _restarts(server)
    loads = [
        change
        for model in _models(server)
        for change in changes_of(server, model)
        if not any(touch(change, restart) for restart in restarts)
    ]
    return tuple(sorted([*restarts, *loads], key=lambda change: (change.at, change.model)))


def changes_of(server: ServerWindow, model: str) -> tuple[ServerChange, ...]:
    """Return what happened to one model, in time order; a restart of the server shows as its load."""
    found = [
        *_from_log(server.log_of(model)),
        *(change for change in _from_index(server, model) if not _went_on(server, change)),
        *_from_counters(server, model),
        *_from_configurations(server, model),
    ]
    return tuple(sorted(_once(found), key=lambda change: change.at))


def _models(server: ServerWindow) -> list[str]:
    listed = {entry.name for _, entries in server.index for entry in entries}
    return sorted({*(model for model, _ in server.keys_seen()), *(event.model for event in server.log), *listed})


def _from_log(events: Sequence[LogEvent]) -> Iterator[ServerChange]:
    loading: dict[str, LogEvent] = {}
    # A folder that cannot be read is refused again whenever the repository is polled.
    alike = (list(run) for _, run in groupby(events, key=lambda e: (e.kind, e.version, e.reason)))
    for event in (e for run in alike for e in (run[:1] if run[0].kind is LogKind.FAILED else run)):
        if event.kind is LogKind.LOADING:
            loading[event.model] = event
            continue
        begun = loading.get(event.model)
        since = begun.at if begun and event.kind is not LogKind.UNLOADED else event.at
        version = event.version or (begun.version if begun and event.kind is LogKind.LOADED else "")
        yield ServerChange(
            since=since,
            at=event.at,
            kind=_LOGGED[event.kind],
            model=event.model,
            version=version,
            source=LOG,
            reason=event.reason,
            zoned=event.zoned,
        )


_LOGGED = {
    LogKind.LOADED: Happened.LOADED,
    LogKind.FAILED: Happened.LOAD_FAILED,
    LogKind.UNLOADED: Happened.UNLOADED,
}


def _from_index(server: ServerWindow, model: str) -> Iterator[ServerChange]:
    for at, entries in server.index[:1]:
        for entry in entries:
            if entry.name == model and _became("", entry.state, entry.reason) is Happened.LOAD_FAILED:
                yield _failed(at, at, entry)
    for (since, before), (at, after) in pairwise(server.index):
        if before == after:  # nearly always
            continue
        states = {entry.version: entry for entry in before if entry.name == model}
        for entry in after:
            if entry.name != model:
                continue
            earlier = states.get(entry.version)
            kind = _became(earlier.state if earlier else "", entry.state, entry.reason)
            if kind is Happened.LOAD_FAILED and earlier != entry:
                yield _failed(since, at, entry)
            elif kind and not (earlier and (earlier.state, earlier.reason) == (entry.state, entry.reason)):
                yield ServerChange(
                    since=since,
                    at=at,
                    kind=kind,
                    model=entry.name,
                    version=entry.version,
                    source="index",
                )


def _went_on(server: ServerWindow, change: ServerChange) -> bool:
    """Return whether the version's own statistics show no load: they start from zero with each.

    An index that left an entry out once, as a damaged one does, looks like an unload and a load.
    """
    table = server.tables[STATISTICS].get((change.model, change.version))
    if table is None or change.kind not in (*_LOADS, Happened.UNLOADED):
        return False
    before = any(step.start <= change.since for step in table.steps)
    after = any(step.end > change.at and step.start <= change.at and not step.opens for step in table.steps)
    return before and after and not table.resets


def _failed(since: float, at: float, entry: IndexEntry) -> ServerChange:
    return ServerChange(
        since=since,
        at=at,
        kind=Happened.LOAD_FAILED,
        model=entry.name,
        version=entry.version,
        source="index",
        reason=entry.reason,
    )


def _became(before: str, after: str, reason: str) -> Happened | None:
    if after == READY:
        return None if before == READY else Happened.LOADED
    if after == UNAVAILABLE:
        failed = reason not in ("", UNLOADED_REASON)
        return Happened.LOAD_FAILED if failed else Happened.UNLOADED if before else None
    return None


def _from_counters(server: ServerWindow, model: str) -> Iterator[ServerChange]:
    keys = server.keys_of(model)
    in_metrics = {key: _openings(server, METRICS, key) for key in keys if key in server.tables[METRICS]}
    for key in (key for key in keys if key in server.tables[STATISTICS]):
        for since, at, how in _openings(server, STATISTICS, key):
            elsewhere = in_metrics.get(key)
            goes_on = elsewhere is not None and not any(a <= at and since <= b for a, b, _ in elsewhere)
            kind = Happened.RELOADED if how is Opened.RESET and goes_on else Happened.LOADED
            yield _counted(since, at, kind, key, STATISTICS)
    for key, openings in in_metrics.items():
        if key not in server.tables[STATISTICS]:
            yield from (_counted(since, at, Happened.LOADED, key, METRICS) for since, at, _ in openings)
    yield from _from_load_duration(server, model)


def _counted(since: float, at: float, kind: Happened, key: tuple[str, str], source: str) -> ServerChange:
    return ServerChange(since=since, at=at, kind=kind, model=key[0], version=key[1], source=source)


def _from_load_duration(server: ServerWindow, model: str) -> Iterator[ServerChange]:
    if not server.exports(names.LOAD_DURATION):
        return
    for _, version in server.keys_of(model):
        labels = {names.MODEL: model, names.VERSION: version}
        for (_, before), (at, after) in pairwise(server.gauge(names.LOAD_DURATION, labels)):
            if after not in (before, 0.0):
                yield _counted(at - after, at, Happened.RELOADED, (model, version), METRICS)


def _openings(server: ServerWindow, source: str, key: tuple[str, str]) -> list[tuple[float, float, Opened]]:
    """Return (start, end, how) of the first step of every epoch that began inside the window."""
    return [(step.start, step.end, step.opened) for step in server.tables[source][key].resets]


def _restarts(server: ServerWindow) -> list[ServerChange]:
    """Return the instants at which every model's counters began again: the server as a whole was restarted."""
    source = STATISTICS if server.tables[STATISTICS] else METRICS
    keys = list(server.tables[source])
    resets = {key: [o for o in _openings(server, source, key) if o[2] is Opened.RESET] for key in keys}
    if len(keys) < 2 or not all(resets.values()):
        return []
    first = resets[keys[0]]
    return [
        ServerChange(since=since, at=at, kind=Happened.RESTARTED, source=source)
        for since, at, _ in first
        if all(any(a <= at and since <= b for a, b, _ in resets[key]) for key in keys)
    ]


def _from_configurations(server: ServerWindow, model: str) -> Iterator[ServerChange]:
    for (earlier, before), (at, after) in pairwise(server.configured.get(model, ())):
        settings = changed_settings(model, before, after) if before != after else ()
        if settings:
            yield ServerChange(
                since=max(earlier, _round_before(server, at)),
                at=at,
                kind=Happened.CONFIGURED,
                model=model,
                source=CONFIGURATION,
                settings=settings,
            )


def _round_before(server: ServerWindow, at: float) -> float:
    """Return when the counters were read before the round in which a configuration was; 0 where they were not.

    Only bodies that differ are kept: in that round the configuration was still the one before.
    """
    reads = [read for read, _ in server.reads[METRICS] or server.reads[STATISTICS] if read <= at]
    return reads[-2] if len(reads) > 1 else 0.0


_LOADS = (Happened.LOADED, Happened.RELOADED)
_EXACTNESS = (LOG, METRICS, STATISTICS, "index", CONFIGURATION)
# Reads of one event through several sources lie a few scrape intervals apart: two rounds of the usual 15 s.
SAME_EVENT_SECONDS = 30.0


def _once(found: Iterable[ServerChange]) -> list[ServerChange]:
    """Return each event once: of those that are about the same, the most exact, with what others know besides."""
    kept: list[ServerChange] = []
    before, source = 0, ""
    for change in sorted(found, key=lambda change: _EXACTNESS.index(change.source)):
        if change.source != source:  # what one source tells twice happened twice: only others' are compared
            before, source = len(kept), change.source
        same = next((i for i in range(before) if _same(kept[i], change)), None)
        if same is None:
            kept.append(change)
        elif change.kind is Happened.RELOADED and not kept[same].version:
            kept[same] = replace(kept[same], version=change.version)
    return kept


def _same(one: ServerChange, other: ServerChange) -> bool:
    kinds = one.kind is other.kind or (one.kind in _LOADS and other.kind in _LOADS)
    versions = one.version == other.version or not one.version or not other.version
    return kinds and one.model == other.model and versions and touch(one, other)


def touch(one: ServerChange, other: ServerChange) -> bool:
    """Return whether two changes may be one event, by their times."""
    return one.since - SAME_EVENT_SECONDS <= other.at and other.since - SAME_EVENT_SECONDS <= one.at
