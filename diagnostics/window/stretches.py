"""A window in which settings were changed, cut there: before and after it other instances, batches and limits work.

What is counted over both sides is of neither: executions of one instance and then of two keep "two instances" half
busy. So each side is a window of its own, with its own configuration. A read's round in which the change was made
belongs to none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from diagnostics.window.lifecycle import Happened, ServerChange, changes
from diagnostics.window.parsed import ClientRecord, ClientRequest, Parsed
from diagnostics.window.traces import Traces
from diagnostics.window.window import METRICS, STATISTICS, ServerWindow, Window, WindowBuilder
from diagnostics.wire.records import BodyKind

# What holds from when it was read on, and events that state their own time.
_LASTING = frozenset({BodyKind.CONFIG, BodyKind.SERVER, BodyKind.REPOSITORY, BodyKind.LOG})
# Of no effect on how requests that come are scheduled and executed.
_WITHOUT_EFFECT = ("version_policy", "model_warmup", "parameters.")
Bounds = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """The two sides of the newest change on each server.

    Attributes:
        changes: the changes of settings that cut the window, by server, in time order.
        before: the window up to the newest change, from the one before it on.
        after: the window since the newest change.

    """

    changes: Mapping[str, tuple[ServerChange, ...]]
    before: Window
    after: Window


def settings_changed(window: Window) -> Mapping[str, tuple[ServerChange, ...]]:
    """Return every change of settings between two reads, by server, in time order; whatever it changes."""
    return {name: made for name, server in window.servers.items() if (made := _configured(server))}


def stretches(window: Window, changed: Mapping[str, tuple[ServerChange, ...]]) -> Stretches | None:
    """Return the sides of a window by its `settings_changed`; None where these are of no model that works."""
    found: dict[str, tuple[ServerChange, ...]] = {}
    for name, ones in changed.items():
        cuts = (one for one in ones if _works(window.servers[name], one.model) and _has_effect(one))
        if made := tuple(cuts):
            found[name] = made
    if not found:
        return None
    before = {name: _before(made) for name, made in found.items()}
    after = {name: (_counted_at(window.servers[name], made[-1].at), inf) for name, made in found.items()}
    return Stretches(changes=found, before=_within(window, before), after=_within(window, after))


def _configured(server: ServerWindow) -> tuple[ServerChange, ...]:
    """Return the changes of settings between two reads."""
    if not any(len(read) > 1 for read in server.configured.values()):  # nearly always
        return ()
    reads = [at for read in server.reads.values() for at, _ in read]
    return tuple(
        change
        for change in changes(server)
        if change.kind is Happened.CONFIGURED
        and reads
        and min(reads) < change.at <= max(reads) + (change.at - change.since)
    )


def in_order(made: Mapping[str, tuple[ServerChange, ...]]) -> tuple[tuple[str, ServerChange], ...]:
    """Return changes of several servers in time order, each with its server."""
    return tuple(sorted(((name, one) for name, ones in made.items() for one in ones), key=lambda pair: pair[1].at))


def _works(server: ServerWindow, model: str) -> bool:
    """Return whether a model executed, or an ensemble was called."""
    tables = (server.tables[source].get(key) for source in (METRICS, STATISTICS) for key in server.keys_of(model))
    return any(table.rose for table in tables if table is not None)


def _has_effect(change: ServerChange) -> bool:
    return any(not setting.path.startswith(_WITHOUT_EFFECT) for setting in change.settings)


def _before(cuts: tuple[ServerChange, ...]) -> tuple[float, float]:
    """Return the bounds of what lies between the newest change and the one before it."""
    last = cuts[-1]
    return max((one.at for one in cuts if one.at < last.since), default=-inf), last.since


def _counted_at(server: ServerWindow, at: float) -> float:
    """Return when the counters were read in the round in which a configuration was."""
    reads = [read for read, _ in server.reads[METRICS] or server.reads[STATISTICS] if read <= at]
    return reads[-1] if reads else at


def _within(window: Window, bounds: Bounds) -> Window:
    """Return the window with what was read of some servers between two Unix seconds, ends included."""
    builder = WindowBuilder()
    for parsed in window.records:
        if _inside(parsed, *bounds.get(parsed.scrape.server, (-inf, inf))):
            builder.add_parsed(parsed)
    made = builder.build(window.name, Traces())
    requests = [one for one in window.traces.requests if made.start <= one.end_seconds <= made.end]
    return replace(
        made, traces=Traces(requests, window.traces.counts), clients=tuple(_sent_in(made.clients, made.start, made.end))
    )


def _inside(parsed: Parsed, first: float, last: float) -> bool:
    at, kind = parsed.scrape.at, parsed.scrape.kind
    if isinstance(parsed.content, ClientRecord):
        return True
    return at <= last if kind in _LASTING else first <= at <= last


def _sent_in(clients: Iterable[ClientRequest], start: float, end: float) -> Iterable[ClientRequest]:
    return (one for one in clients if start <= one.at <= end)
