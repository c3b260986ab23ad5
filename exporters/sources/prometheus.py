"""What a store holds beside Triton's pages: what `diag serve`, dcgm-exporter and node_exporter exported."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from diagnostics import names
from diagnostics.diagnosis.explanation import BlindSpot
from diagnostics.errors import CollectError
from diagnostics.units import parse_whole, time_text
from diagnostics.window.from_samples import (
    INSTANCE,
    NAME,
    Labelled,
    SamplePages,
    ServerSeries,
    configurations,
    hosts,
    machines,
    servers_of,
    statistics,
)
from diagnostics.window.parsed import Parsed
from diagnostics.wire import exported, node_exporter
from diagnostics.wire.exposition import Series, SeriesLayout
from diagnostics.wire.prometheus_answer import QueryResult, SampledSeries, joined
from diagnostics.wire.records import BodyKind
from diagnostics.wire.servers.catalogue import instead_of, kinds_of, named, readable, stored_names
from exporters.sources.prometheus_api import PrometheusApi, matcher
from exporters.sources.prometheus_samples import SampleReader, among

# The label by which dcgm-exporter's series name their card.
CARD = "UUID"
_EXPORTED = f'__name__=~"{"|".join((*exported.FAMILIES, *exported.HOST_FAMILIES))}"'
_OWN_LABELS = exported.LABELS | {*exported.PROCESS_LABELS}
_MACHINES = f'__name__=~"{"|".join(node_exporter.FAMILIES)}"'
_PROCESSORS = (f'__name__="{names.NODE_CPU}"', f'mode=~"{"|".join(node_exporter.IDLE_MODES)}"')
_CARDS = f'__name__=~"{names.DCGM_PREFIX}.+"'
# VictoriaMetrics takes queries of 16 KiB; beyond, what is stored of all servers is read.
_LONGEST_MATCHER = 8_000
_Way = tuple[tuple[str, str], ...]


def exported_records(reader: SampleReader, servers: Sequence[str], span: tuple[float, float]) -> Iterator[Parsed]:
    """Yield statistics, configurations and machines of some servers as `diag serve` exported them.

    Where several services watch a server, that one counts whose samples are the newest.
    """
    ways: dict[str, dict[_Way, list[SampledSeries]]] = {}
    for one in _read(reader, [_EXPORTED, *_few("server", servers)], span):
        way = _added(one.labels, _OWN_LABELS)
        ways.setdefault(one.labels.get("server", ""), {}).setdefault(way, []).append(one)
    for server in servers:
        if server in ways:
            series = max(ways[server].values(), key=_newest)
            yield from configurations(server, series)
            yield from statistics(server, series)
            yield from hosts(server, series)


def card_records(
    reader: SampleReader, pages: Sequence[SampledSeries], make: SamplePages, span: tuple[float, float]
) -> Iterator[Parsed]:
    """Yield what dcgm-exporters say of the cards that Triton's pages name; each exporter by itself."""
    cards = sorted({card for one in pages if (card := one.labels.get(names.GPU_UUID))})
    if not cards:
        return
    exporters: dict[str, list[Labelled]] = {}
    for one in _read(reader, [_CARDS, *_few(CARD, cards)], span):
        exporters.setdefault(one.labels.get(INSTANCE, ""), []).append((one.labels, one))
    for series in exporters.values():
        yield from make.cards(series)


def machine_records(reader: SampleReader, servers: Sequence[str], span: tuple[float, float]) -> Iterator[Parsed]:
    """Yield what node_exporters say of the machines of some servers; of several on one machine, the newest counts.

    A server's machine is the one whose node_exporter is scraped at the same host, under whatever port.
    """
    hosts = sorted({_host_of(server) for server in servers})
    pattern = "|".join(re.escape(host) for host in hosts)
    there = matcher(INSTANCE, f"({pattern})(:[0-9]+)?", sign="=~")
    found: dict[str, dict[str, list[SampledSeries]]] = {}
    known = bool(hosts) and len(pattern) < _LONGEST_MATCHER
    selections = ([_MACHINES, there], [*_PROCESSORS, there]) if known else ()
    for one in (one for matchers in selections for one in _read(reader, matchers, span)):
        instance = one.labels.get(INSTANCE, "")
        found.setdefault(_host_of(instance), {}).setdefault(instance, []).append(one)
    for server in servers:
        if of_host := found.get(_host_of(server)):
            series = max(of_host.values(), key=_newest)
            yield from machines(server, series)


def _host_of(instance: str) -> str:
    host, colon, port = instance.rpartition(":")
    return host if colon and parse_whole(port) is not None else instance


def _read(reader: SampleReader, matchers: Sequence[str], span: tuple[float, float]) -> Sequence[SampledSeries]:
    """Return the series; none, with a warning, where the store does not give them: Triton's own pages remain."""
    try:
        return reader.read(matchers, *span).series
    except CollectError as error:
        reader.warnings.append(error.what)
        return ()


def _few(label: str, values: Sequence[str]) -> list[str]:
    matcher = among(label, values)
    return [matcher] if len(matcher) < _LONGEST_MATCHER else []


def _added(labels: Mapping[str, str], own: frozenset[str]) -> _Way:
    return tuple(sorted((name, value) for name, value in labels.items() if name not in own))


def _newest(series: Sequence[SampledSeries]) -> tuple[float, int]:
    return max(one.times[-1] for one in series), max(len(one.times) for one in series)


# Fewer scrapes show little of what changes within a window: where they are rare, the window is longer.
USUAL_SECONDS, LONGEST_SECONDS = 300.0, 3600.0
FEWEST_SCRAPES = 20
# A server without samples for so many scrapes is not there any more.
_MISSED_SCRAPES = 5
_PAGES = f'__name__=~"{"|".join(stored_names())}"'
_SCRAPE = "let it scrape Triton's metrics page (port 8002), or look at the selector and the time"
_SHOWN = 5
Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWindow:
    """What a store holds of a span.

    Attributes:
        records: what was read, in time order.
        servers: the servers that it covers.
        blind_spots: what it does not show.

    """

    records: tuple[Parsed, ...]
    servers: tuple[str, ...]
    blind_spots: tuple[BlindSpot, ...]


def read_window(
    api: PrometheusApi, end: float, seconds: float | None, announce: Announce, *, configured: bool
) -> StoredWindow:
    """Return what a store holds of the `seconds` before Unix second `end`.

    Args:
        api: the store.
        end: the last moment to look at.
        seconds: how long to look back; None is five minutes, or as long as twenty scrapes take.
        announce: called with how long that is where it is not five minutes.
        configured: whether configurations come from elsewhere.

    Raises:
        CollectError: it does not answer, or holds nothing of a Triton.

    """
    reader = SampleReader(api)
    span = seconds or USUAL_SECONDS
    found = reader.read([_PAGES], end - span, end)
    interval = _interval(found)
    wanted = min(FEWEST_SCRAPES * interval, LONGEST_SECONDS)
    if seconds is None and wanted > span * 1.1:
        announce(f"scrapes are {interval:.0f} s apart: the last {wanted / 60:.0f} minutes are looked at, not five")
        found, span = _prolonged(reader, found, end, span, wanted)
    if not found.series:
        raise CollectError(
            f"holds nothing of a Triton in the {span:.0f} s before {_clock(end)}",
            where=str(api.address),
            hint=_SCRAPE,
        )
    return _window(reader, found, (end - span, end), interval, configured=configured)


def _prolonged(
    reader: SampleReader, found: QueryResult, end: float, span: float, wanted: float
) -> tuple[QueryResult, float]:
    """Return what is stored of `wanted` seconds, and that; what was found, and `span`, where no more is given."""
    try:
        return joined([reader.read([_PAGES], end - wanted, end - span), found]), wanted
    except CollectError as error:
        reader.warnings.append(error.what)
        return found, span


def _window(
    reader: SampleReader, found: QueryResult, span: tuple[float, float], interval: float, *, configured: bool
) -> StoredWindow:
    pages, stored, others = SamplePages(), list[ServerSeries](), list[tuple[ServerSeries, SeriesLayout]]()
    for one in servers_of(found.series):
        layout = _layout(one)
        if readable(layout):
            stored.append(one)
        elif kinds_of(layout):
            others.append((one, layout))
    if not stored:
        raise _nothing_read(reader.api, others)
    servers = [one.server for one in stored]
    records = [record for one in stored for record in pages.of(one)]
    records += exported_records(reader.beside("server"), servers, span)
    records += card_records(reader.beside(CARD), found.series, pages, span)
    measured = {record.scrape.server for record in records if record.scrape.kind is BodyKind.HOST}
    unmeasured = [server for server in servers if server not in measured]
    records += machine_records(reader.beside(INSTANCE), unmeasured, span)
    records.sort(key=lambda record: record.scrape.mono)
    configs = {record.scrape.server for record in records if record.scrape.kind is BodyKind.CONFIG}
    unseen = [BlindSpot(what="a part of what is stored", why=text, fix=_ASK_LESS) for text in reader.warnings]
    unseen += _ended(stored, span[1], interval)
    unseen += _copied(stored)
    unseen += [
        BlindSpot(what=f"all of {one.server}", why=f"it is {named(layout)}, which is not read", fix=instead_of(layout))
        for one, layout in others
    ]
    if not configured and (bare := [server for server in servers if server not in configs]):
        unseen.append(_unconfigured(bare))
    return StoredWindow(records=tuple(records), servers=tuple(servers), blind_spots=tuple(unseen))


_ASK_LESS = "ask again, for less with --since or a selector, or with a longer --timeout"


def _interval(found: QueryResult) -> float:
    """Return the seconds between two scrapes; that of the usual window where nothing was scraped twice."""
    rhythms = {id(one.times): one.times for one in found.series if len(one.times) > 1}
    gaps = [median(later - sooner for sooner, later in pairwise(times)) for times in rhythms.values()]
    if gaps:
        return median(gaps)
    return USUAL_SECONDS if found.series else 0.0


def _ended(stored: Sequence[ServerSeries], end: float, interval: float) -> Iterator[BlindSpot]:
    for one in stored:
        last = max(sampled.times[-1] for _, sampled in one.series)
        if end - last > max(_MISSED_SCRAPES * interval, 1.0):
            yield BlindSpot(
                what=f"{one.server} after {_clock(last)}",
                why="there are no samples of it",
                fix="look whether it runs, is still scraped, or goes by another name since",
            )


def _layout(one: ServerSeries) -> SeriesLayout:
    """Return which series a server has stored, whenever it had them."""
    by_name: dict[str, list[int]] = {}
    for slot, (labels, _) in enumerate(one.series):
        by_name.setdefault(labels[NAME], []).append(slot)
    series = tuple(Series(name=labels[NAME], labels=labels) for labels, _ in one.series)
    return SeriesLayout(series=series, by_name={name: tuple(slots) for name, slots in by_name.items()}, types={})


def _nothing_read(api: PrometheusApi, others: Sequence[tuple[ServerSeries, SeriesLayout]]) -> CollectError:
    if not others:
        return CollectError("holds no server that is read", where=str(api.address), hint=_SCRAPE)
    one, layout = others[0]
    what = f"holds {named(layout)} ({one.server}), whose page is not read"
    return CollectError(what, where=str(api.address), hint=instead_of(layout))


def _copied(stored: Sequence[ServerSeries]) -> Iterator[BlindSpot]:
    copied = [one.server for one in stored if one.copies]
    if copied:
        yield BlindSpot(
            what=f"further copies of {_some(copied)}",
            why="the same servers are stored more than once; the copy with the most samples is read",
            fix="choose one with a selector",
        )


def _unconfigured(servers: Sequence[str]) -> BlindSpot:
    return BlindSpot(
        what=f"instance counts, settings and batch distributions of {_some(servers)}",
        why="Triton's metrics page does not have them",
        fix="run `diag serve` and let it be scraped too, or give the configurations with --repository",
    )


def _some(listed: Sequence[str]) -> str:
    few = ", ".join(listed[:_SHOWN])
    return few if len(listed) <= _SHOWN else f"{few} and {len(listed) - _SHOWN} more"


def _clock(at: float) -> str:
    return time_text(at)
