"""Which stored series are one server's: several Prometheis may hold the same server, and several servers one name.

The labels that a scrape adds (`job`, `instance`, a pod's, a replica's) are separated from Triton's own by what they do:
where two series differ in nothing that Triton writes, what they differ in is how they came there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite

from diagnostics import names
from diagnostics.window.counters import Batches, Counter, CounterPoint
from diagnostics.window.normalize import ModelKey
from diagnostics.window.parsed import MetricsPage, Parsed, StatisticsRows
from diagnostics.window.points import Numbers
from diagnostics.wire import exported, node_exporter
from diagnostics.wire.exposition import Series, SeriesLayout, Snapshot
from diagnostics.wire.gpu import sample_of
from diagnostics.wire.json_body import decimal
from diagnostics.wire.model_config import ModelConfig
from diagnostics.wire.prometheus_answer import SampledSeries
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.servers.catalogue import own_labels

NAME, INSTANCE, JOB = "__name__", "instance", "job"
OWN_LABELS = frozenset(
    {
        NAME,
        names.MODEL,
        names.VERSION,
        names.REASON,
        names.QUANTILE,
        names.GPU_UUID,
        names.SERVE_MODEL,
        names.ENGINE_REQUEST_TYPE,
        names.ENGINE_KV_TYPE,
        names.ENGINE_INFLIGHT_TYPE,
        names.ENGINE_V1_TYPE,
        names.ENGINE_GENERAL_TYPE,
        "le",
    }
    | own_labels()
)
_EXPORTED = "exported_"
Ways = tuple[tuple[str, str], ...]
Labelled = tuple[Mapping[str, str], SampledSeries]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSeries:
    """One server's series from one scraper, without the labels that its scrape added.

    Attributes:
        server: its `instance`; with what separates it from others where several servers share one.
        series: (own labels, samples).
        copies: how many further times the same server is stored; those are not read.

    """

    server: str
    series: tuple[Labelled, ...]
    copies: int = 0


def servers_of(found: Iterable[SampledSeries]) -> list[ServerSeries]:
    """Return the servers that these series are of, sorted by name."""
    by_instance: dict[str, list[Labelled]] = {}
    for one in found:
        labels = _unclashed(one.labels)
        by_instance.setdefault(labels.get(INSTANCE, ""), []).append((labels, one))
    servers = [one for instance, series in by_instance.items() for one in _of_instance(instance, series)]
    return sorted(servers, key=lambda one: one.server)


def _unclashed(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return labels in which Triton's own win over a target's of the same name, which Prometheus put in their place."""
    clashing = {key.removeprefix(_EXPORTED): value for key, value in labels.items() if key.startswith(_EXPORTED)}
    own = {key: value for key, value in clashing.items() if key in OWN_LABELS}
    return {**labels, **own} if own else labels


def _of_instance(instance: str, series: Sequence[Labelled]) -> list[ServerSeries]:
    ways = _differing(series)
    parts: dict[Ways, list[Labelled]] = {}
    for labels, one in series:
        way = tuple((name, labels.get(name, "")) for name in ways)
        parts.setdefault(way, []).append((labels, one))
    kept: list[tuple[Ways, list[Labelled], int]] = []
    for way, part in sorted(parts.items(), key=lambda item: (-_samples(item[1]), item[0])):
        same = next((i for i, (_, other, _) in enumerate(kept) if _same_server(other, part)), None)
        if same is None:
            kept.append((way, part, 0))
        else:
            kept[same] = (*kept[same][:2], kept[same][2] + 1)
    alone = len(kept) == 1
    return [
        ServerSeries(server=_named(instance, () if alone else way), series=_bare(part), copies=copies)
        for way, part, copies in kept
    ]


def _differing(series: Sequence[Labelled]) -> list[str]:
    """Return the labels, not Triton's own, in which series differ that are otherwise the same."""
    seen: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
    differing: set[str] = set()
    for labels, _ in series:
        key = tuple(sorted((name, value) for name, value in labels.items() if name in OWN_LABELS))
        other = seen.setdefault(key, labels)
        if other is not labels:
            differing |= {
                name for name in {*labels, *other} - OWN_LABELS if labels.get(name, "") != other.get(name, "")
            }
    return sorted(differing)


def _samples(part: Sequence[Labelled]) -> int:
    return max(len(one.times) for _, one in part)


def _same_server(one: Sequence[Labelled], other: Sequence[Labelled]) -> bool:
    """Return whether the counters of one part run between those of the other: then both read the same server."""
    counts = {_key(labels): sampled for labels, sampled in one if labels[NAME] == names.REQUEST_SUCCESS}
    pairs = [(counts.get(_key(labels)), sampled) for labels, sampled in other if labels[NAME] == names.REQUEST_SUCCESS]
    if not pairs:
        return {_key(labels) for labels, _ in one} == {_key(labels) for labels, _ in other}
    return all(known is not None and _between(known, sampled) for known, sampled in pairs)


def _key(labels: Mapping[str, str]) -> tuple[str, str, str]:
    return labels[NAME], labels.get(names.MODEL, ""), labels.get(names.VERSION, "")


def _between(known: SampledSeries, sampled: SampledSeries) -> bool:
    """Return whether each sample lies between the neighbours of its time, one further for clocks that differ."""
    for at, value in zip(sampled.times, sampled.values, strict=True):
        place = bisect_left(known.times, at)
        near = known.values[max(place - 2, 0) : place + 2]
        if place in (0, len(known.times)):
            if not min(near) * 0.5 <= value <= max(near) * 2 + 1:
                return False
        elif not _reset_in(near) and not min(near) <= value <= max(near):
            return False
    return True


def _reset_in(values: Sequence[float]) -> bool:
    return any(later < sooner for sooner, later in pairwise(values))


def _named(instance: str, way: Ways) -> str:
    reported = " ".join(f"{name}={value}" for name, value in way if value)
    return f"{instance} {reported}".strip() or "unnamed"


def _bare(
    part: Sequence[Labelled],
) -> tuple[Labelled, ...]:
    """Return the series without the labels that all of them have alike, which no page of Triton's has."""
    first = part[0][0]
    added = {
        name
        for name, value in first.items()
        if name not in OWN_LABELS and all(labels.get(name) == value for labels, _ in part)
    } | {INSTANCE, JOB}
    return tuple(({name: value for name, value in labels.items() if name not in added}, one) for labels, one in part)


_Head = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class SamplePages:
    """Makes pages; servers with the same series share what describes them."""

    _layouts: dict[tuple[_Head, ...], SeriesLayout] = field(default_factory=dict)
    _series: dict[_Head, Series] = field(default_factory=dict)

    def of(self, server: ServerSeries) -> Iterator[Parsed]:
        """Yield the pages of one server, in time order. Series that a scrape did not have are not on its page."""
        for at, snapshot in self.snapshots(server.series):
            scrape = Scrape(server=server.server, kind=BodyKind.METRICS, at=at, mono=at)
            yield Parsed(scrape=scrape, content=MetricsPage(at, at, snapshot))

    def cards(self, series: Sequence[Labelled]) -> Iterator[Parsed]:
        """Yield the samples of GPUs in the pages of one dcgm-exporter."""
        for at, snapshot in self.snapshots(series):
            scrape = Scrape(server="", kind=BodyKind.DCGM, at=at, mono=at)
            yield Parsed(scrape=scrape, content=sample_of(snapshot, at))

    def snapshots(self, series: Sequence[Labelled]) -> Iterator[tuple[float, Snapshot]]:
        """Yield each scrape's Unix seconds and what was on its page, in time order."""
        # Most series were there at every scrape; those that came or went have other times.
        rhythms: dict[int, tuple[SampledSeries, list[int]]] = {}
        for position, (_, sampled) in enumerate(series):
            rhythms.setdefault(id(sampled.times), (sampled, []))[1].append(position)
        where = [({at: i for i, at in enumerate(one.times)}, positions) for one, positions in rhythms.values()]
        heads = [_head(labels) for labels, _ in series]
        known: dict[tuple[int, ...], tuple[SeriesLayout, list[int]]] = {}
        for at in sorted({at for times, _ in where for at in times}):
            present = tuple(i for i, (times, _) in enumerate(where) if at in times)
            if present not in known:
                order = sorted(position for i in present for position in where[i][1])
                known[present] = self._layout([heads[position] for position in order]), order
            layout, order = known[present]
            index = {id(series[where[i][1][0]][1].times): where[i][0][at] for i in present}
            values = array("d", [series[p][1].values[index[id(series[p][1].times)]] for p in order])
            yield at, Snapshot(layout=layout, values=values)

    def _layout(self, heads: Sequence[_Head]) -> SeriesLayout:
        key = tuple(heads)
        if key not in self._layouts:
            self._layouts[key] = _layout([self._known(head) for head in heads])
        return self._layouts[key]

    def _known(self, head: _Head) -> Series:
        name, labels = head
        return self._series.setdefault(head, Series(name=name, labels=dict(labels)))


def statistics(server: str, series: Iterable[SampledSeries]) -> Iterator[Parsed]:
    """Yield what `diag serve` exported of a server's statistics, each at the time when it had read them.

    They hold executions and seconds by batch size; all else of the statistics is on the server's page of metrics.
    """
    read_at: dict[float, float] = {}
    counts: dict[float, dict[ModelKey, dict[int, dict[str, float]]]] = {}
    for one in series:
        name, labels = one.labels.get(NAME, ""), one.labels
        if name == exported.STATISTICS_READ:
            read_at.update(zip(one.times, one.values, strict=True))
        elif name in (exported.BATCH_EXECUTIONS, exported.BATCH_SECONDS):
            key, size = (labels.get("model", ""), labels.get("version", "")), decimal(labels.get("batch_size"))
            if size is None:
                continue
            for at, value in zip(one.times, one.values, strict=True):
                counts.setdefault(at, {}).setdefault(key, {}).setdefault(size, {})[name] = value
    newest = 0.0
    for at in sorted(counts):
        # One that was exported twice was read once.
        if (moment := read_at.get(at, 0.0)) > newest:
            newest = moment
            yield _statistics(server, moment, counts[at])


def _statistics(server: str, at: float, counts: Mapping[ModelKey, Mapping[int, Mapping[str, float]]]) -> Parsed:
    rows = {key: _point(at, sizes) for key, sizes in counts.items()}
    return Parsed(scrape=Scrape(server=server, kind=BodyKind.STATISTICS, at=at, mono=at), content=StatisticsRows(rows))


def _point(at: float, sizes: Mapping[int, Mapping[str, float]]) -> CounterPoint:
    batches = {
        size: Batches(pair.get(exported.BATCH_EXECUTIONS, 0.0), pair.get(exported.BATCH_SECONDS, 0.0))
        for size, pair in sizes.items()
    }
    # Their sum is the execution count, which shows resets.
    executions = sum(one.executions for one in batches.values())
    return CounterPoint(at=at, mono=at, values=Numbers({Counter.EXECUTIONS: executions}), batches=batches)


def hosts(server: str, series: Iterable[SampledSeries]) -> Iterator[Parsed]:
    """Yield what `diag serve` exported of a server's machine, each at the time when it had read it."""
    read_at: dict[float, float] = {}
    reported: dict[float, list[exported.Reading]] = {}
    for one in series:
        if one.labels.get(NAME) == exported.HOST_READ:
            read_at.update(zip(one.times, one.values, strict=True))
        elif one.labels.get(NAME) in exported.HOST_FAMILIES:
            for at, value in zip(one.times, one.values, strict=True):
                if isfinite(value):
                    reported.setdefault(at, []).append((one.labels, value))
    newest = 0.0
    for at in sorted(reported):
        if (moment := read_at.get(at, 0.0)) > newest:
            newest = moment
            sample = exported.sample_of(moment, reported[at])
            yield Parsed(scrape=Scrape(server=server, kind=BodyKind.HOST, at=moment, mono=moment), content=sample)


def machines(server: str, series: Sequence[SampledSeries]) -> Iterator[Parsed]:
    """Yield what a node_exporter says of a server's machine, at each of its scrapes."""
    readings: dict[float, dict[str, float]] = {}
    for one in series:
        if (name := one.labels.get(NAME, "")) != names.NODE_CPU:
            for at, value in zip(one.times, one.values, strict=True):
                if isfinite(value):
                    readings.setdefault(at, {})[name] = value
    processors = _processors([one for one in series if one.labels.get(NAME) == names.NODE_CPU])
    for at in sorted({*readings, *processors}):
        sample = node_exporter.machine_of(at, readings.get(at, {}), processors.get(at))
        yield Parsed(scrape=Scrape(server=server, kind=BodyKind.HOST, at=at, mono=at), content=sample)


def _processors(series: Sequence[SampledSeries]) -> dict[float, node_exporter.NodeProcessors]:
    """Return the processors at each scrape that has all of them in each mode; those of a machine that booted again."""
    idle: dict[float, dict[tuple[str, str], float]] = {}
    for one in series:
        key = one.labels.get("cpu", ""), one.labels.get("mode", "")
        for at, value in zip(one.times, one.values, strict=True):
            if isfinite(value):
                idle.setdefault(at, {})[key] = value
    keys = {key for counted in idle.values() for key in counted}
    cores = len({cpu for cpu, _ in keys})
    found: dict[float, node_exporter.NodeProcessors] = {}
    before, booted = 0.0, 0.0
    for at, counted in sorted(idle.items()):
        if len(counted) < len(keys):
            continue
        now = sum(counted.values())
        if not found or now < before:
            booted = at
        before = now
        found[at] = node_exporter.NodeProcessors(cores=cores, up_seconds=at - booted, idle_seconds=now)
    return found


def configurations(server: str, series: Sequence[SampledSeries]) -> Iterator[Parsed]:
    """Yield the configurations that `diag serve` exported of a server, each when it was first seen and changed."""
    beside: dict[tuple[str, str], list[SampledSeries]] = {}
    for one in series:
        name = one.labels.get(NAME, "")
        owner = one.labels.get("ensemble" if name == exported.STEP_INFO else "model", "")
        beside.setdefault((name, owner), []).append(one)
    infos = sorted(
        (one for one in series if one.labels.get(NAME) == exported.CONFIG_INFO), key=lambda one: one.times[-1]
    )
    ended: dict[str, float] = {}
    for info in infos:
        model, last = info.labels.get("model", ""), None
        # One that was changed and put back is in force since the other ended.
        since = max(info.times[0], ended.get(model, 0.0))
        ended[model] = info.times[-1]
        parts = [part for name in _PARTS for part in beside.get((name, model), ())]
        moments = sorted({since, *(at for part in parts for at in _changed(part) if at >= since)})
        for at in moments:
            config, steps = _configuration(info, parts, at)
            why = exported.why_incomplete(config, steps)
            # A part that begins a sample later than the others is not missing.
            if config != last and not (why and at != moments[-1]):
                last = config
                scrape = Scrape(server=server, kind=BodyKind.CONFIG, at=at, mono=at, name=model)
                yield Parsed(scrape=scrape, content=None if why else config, error=why)


_PARTS = (exported.GROUP_INSTANCES, exported.PARAMETER_INFO, exported.STEP_INFO)


def _changed(part: SampledSeries) -> Iterator[float]:
    """Yield when a series began, and when its value changed."""
    yield part.times[0]
    for at, (before, after) in zip(part.times[1:], pairwise(part.values), strict=True):
        if before != after:
            yield at


def _configuration(
    info: SampledSeries, parts: Iterable[SampledSeries], at: float
) -> tuple[ModelConfig, Sequence[Mapping[str, str]]]:
    """Return what these series say of a model at a Unix second, and the labels of its steps."""
    there = [part for part in parts if part.times[0] <= at <= part.times[-1]]
    by_name = {name: [part for part in there if part.labels.get(NAME) == name] for name in _PARTS}
    steps = [one.labels for one in by_name[exported.STEP_INFO]]
    config = exported.config_of(
        info.labels,
        [(one.labels, one.values[bisect_right(one.times, at) - 1]) for one in by_name[exported.GROUP_INSTANCES]],
        [one.labels for one in by_name[exported.PARAMETER_INFO]],
        steps,
    )
    return config, steps


def _head(labels: Mapping[str, str]) -> _Head:
    return labels[NAME], tuple(sorted((key, value) for key, value in labels.items() if key != NAME))


def _layout(series: Sequence[Series]) -> SeriesLayout:
    by_name: dict[str, list[int]] = {}
    for slot, one in enumerate(series):
        by_name.setdefault(one.name, []).append(slot)
    return SeriesLayout(series=tuple(series), by_name={name: tuple(found) for name, found in by_name.items()}, types={})
