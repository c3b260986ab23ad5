"""Everything read between two instants, per server, ready to be asked for differences and gauges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from diagnostics.errors import MalformedBody
from diagnostics.window.client import ClientRequest, parse_client
from diagnostics.window.counters import CounterTable, Point
from diagnostics.window.graph import DeploymentGraph, graph_of
from diagnostics.window.logs import LogEvent, parse_log
from diagnostics.window.normalize import (
    ModelKey,
    batches_from_statistics,
    counters_from_metrics,
    counters_from_statistics,
    gpus_from_metrics,
    positions_of,
)
from diagnostics.window.renamed import under_their_own_names
from diagnostics.window.traces import SpanStore, Traces
from diagnostics.wire.dcgm import parse_dcgm
from diagnostics.wire.engine import EngineSample, samples_of_iterations
from diagnostics.wire.exposition import ExpositionReader, Snapshot
from diagnostics.wire.gpu import Gpu, GpuSample, parse_nvml
from diagnostics.wire.host import HostSample, parse_host
from diagnostics.wire.model_config import ModelConfig, parse_model_config
from diagnostics.wire.records import Kind, Scrape
from diagnostics.wire.server import IndexEntry, ServerMetadata, parse_index, parse_server
from diagnostics.wire.statistics import parse_statistics

STATISTICS = "statistics"
METRICS = "metrics"
_SOURCES = {Kind.STATISTICS: STATISTICS, Kind.METRICS: METRICS}
Gauge = Sequence[tuple[float, float]]


@dataclass(slots=True)
class Failures:
    """Reads of one kind that gave nothing: how many, how many of them were answered, and the newest reason."""

    count: int = 0
    answered: int = 0
    reason: str = ""


class ServerWindow:
    """What one server said. Filled by `WindowBuilder`, read by everything above."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metadata: ServerMetadata | None = None
        self.snapshots: list[tuple[float, float, Snapshot]] = []
        self.iterations: list[EngineSample] = []
        self.configs: dict[str, ModelConfig] = {}
        self.configured: dict[str, list[tuple[float, ModelConfig]]] = {}
        self.log: tuple[LogEvent, ...] = ()
        self.repository: dict[str, str] = {}
        self.index: list[tuple[float, tuple[IndexEntry, ...]]] = []
        self.hosts: list[HostSample] = []
        self.gpus: dict[str, list[tuple[float, Gpu]]] = {}
        self.failures: dict[Kind, Failures] = {}
        self.tables: dict[str, dict[ModelKey, CounterTable]] = {STATISTICS: {}, METRICS: {}}
        self.reads: dict[str, list[tuple[float, float]]] = {STATISTICS: [], METRICS: []}
        self.tries: dict[str, list[float]] = {STATISTICS: [], METRICS: []}
        self._exposition = ExpositionReader()
        self._keys: dict[str, list[ModelKey]] = {}
        self._keys_of: tuple[int, int] = (0, 0)
        self._graph: DeploymentGraph | None = None

    @property
    def graph(self) -> DeploymentGraph:
        """Which ensemble calls which models; made once for the configurations read so far."""
        if self._graph is None:
            self._graph = graph_of(self.configs)
        return self._graph

    def keys_seen(self) -> list[ModelKey]:
        """Return every (model, version) seen in counters, sorted."""
        return [key for keys in self._keys_by_model().values() for key in keys]

    def keys_of(self, model: str) -> Sequence[ModelKey]:
        """Return the (model, version) pairs of one model, sorted."""
        return self._keys_by_model().get(model, ())

    def _keys_by_model(self) -> Mapping[str, list[ModelKey]]:
        # Every reading of every model asks; a table that is there stays, so that their numbers tell of new ones.
        have = (len(self.tables[STATISTICS]), len(self.tables[METRICS]))
        if have != self._keys_of:
            self._keys, self._keys_of = {}, have
            for key in sorted(set(self.tables[STATISTICS]) | set(self.tables[METRICS])):
                self._keys.setdefault(key[0], []).append(key)
        return self._keys

    def gauge(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Return (Unix seconds, value) of the series of `name` that carry `labels`, summed per read, in time order."""
        points: list[tuple[float, float]] = []
        layout, positions = None, tuple[int, ...]()
        for at, _, snapshot in self.snapshots:
            if snapshot.layout is not layout:  # pages of the same series share it: labels are compared once
                layout, positions = snapshot.layout, positions_of(snapshot.layout, name, labels)
            matching = [value for position in positions if isfinite(value := snapshot.values[position])]
            if matching:
                points.append((at, sum(matching)))
        return points

    def exports(self, family: str) -> bool:
        """Return whether the newest metrics page has any series of this family."""
        return bool(self.snapshots) and family in self.snapshots[-1][2].layout.by_name

    def take(self, scrape: Scrape) -> None:
        """Add one scrape; a body that cannot be parsed counts as a failed read with its reason."""
        if scrape.kind in _SOURCES:
            self.tries[_SOURCES[scrape.kind]].append(scrape.mono)
        if scrape.body is None:
            self._fail(scrape.kind, scrape.error or "no answer")
            return
        try:
            self._parse(scrape, scrape.body)
        except MalformedBody as error:
            self._fail(scrape.kind, error.what)
            self.failures[scrape.kind].answered += 1

    def _parse(self, scrape: Scrape, body: bytes) -> None:
        match scrape.kind:
            case Kind.METRICS:
                self._take_metrics(scrape, body)
            case Kind.STATISTICS:
                self._take_statistics(scrape, body)
            case Kind.INDEX:
                self.index.append((scrape.at, parse_index(body)))
            case Kind.CONFIG:
                self._take_config(scrape, body)
            case Kind.LOG:
                self.log = (*self.log, *parse_log(body, scrape.at))
            case Kind.SERVER:
                self.metadata = parse_server(body)
            case Kind.HOST:
                self.hosts.append(parse_host(body))
            case Kind.REPOSITORY:
                self.repository[scrape.name] = body.decode("utf-8", "replace")
            case _:
                pass  # traces and client records belong to the window as a whole

    def _take_config(self, scrape: Scrape, body: bytes) -> None:
        config = parse_model_config(body)
        name = config.name or scrape.name
        self.configs[name] = config
        self._graph = None
        self.configured.setdefault(name, []).append((scrape.at, config))

    def _take_metrics(self, scrape: Scrape, body: bytes) -> None:
        if body.lstrip()[:1] == b"[":  # trtllm-serve's list of iterations, at the same path as others' metrics
            self.iterations += samples_of_iterations(body, scrape.at)
        else:
            self.snapshots.append((scrape.at, scrape.mono, self._exposition.read(body)))

    def _take_statistics(self, scrape: Scrape, body: bytes) -> None:
        rows = {
            (model.name, model.version): Point(
                at=scrape.at,
                mono=scrape.mono,
                values=counters_from_statistics(model),
                batches=batches_from_statistics(model),
            )
            for model in parse_statistics(body)
        }
        self._append(STATISTICS, scrape.at, scrape.mono, rows)

    def fold_metrics(self) -> None:
        """Turn the snapshots taken so far into counter tables; called once a window is complete."""
        self.tables[METRICS], self.reads[METRICS] = {}, []
        self.gpus = {}
        for at, mono, snapshot in self.snapshots:
            rows = {
                key: Point(at=at, mono=mono, values=values, batches={})
                for key, values in counters_from_metrics(snapshot).items()
            }
            self._append(METRICS, at, mono, rows)
            for gpu in gpus_from_metrics(snapshot):
                self.gpus.setdefault(gpu.uuid, []).append((at, gpu))

    def _append(self, source: str, at: float, mono: float, rows: Mapping[ModelKey, Point]) -> None:
        previous = self.reads[source][-1] if self.reads[source] else None
        tables, tries = self.tables[source], self.tries[source]
        before = bisect_left(tries, mono)
        tried = tries[before - 1] if before else None
        for key, point in under_their_own_names(rows, tables, previous).items():
            tables.setdefault(key, CounterTable(source)).add(point, previous, tried)
        self.reads[source].append((at, mono))

    def _fail(self, kind: Kind, reason: str) -> None:
        failures = self.failures.setdefault(kind, Failures())
        failures.count += 1
        failures.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A complete window. `start` and `end` are Unix seconds of the first and last read."""

    servers: Mapping[str, ServerWindow]
    gpus: Sequence[GpuSample]
    dcgm: Sequence[GpuSample] = ()
    clients: Sequence[ClientRequest] = ()
    traces: Traces = field(default_factory=Traces)
    start: float
    end: float
    name: str = ""
    cards: Mapping[str, Sequence[tuple[float, Gpu]]] = field(init=False)
    """The samples of each GPU by its uuid with their Unix seconds, in time order: NVML's, else DCGM's."""

    def __post_init__(self) -> None:
        """Sort the samples by card once: a hundred readings of sixteen cards ask for them."""
        object.__setattr__(self, "cards", {**_by_card(self.dcgm), **_by_card(self.gpus)})

    @property
    def seconds(self) -> float:
        """Length of the window; 0 when nothing was read twice."""
        return max(self.end - self.start, 0.0)


def _by_card(samples: Sequence[GpuSample]) -> dict[str, list[tuple[float, Gpu]]]:
    """Return the cards' samples with their times; one that did not say who it is goes by its index."""
    known = {gpu.index: gpu.uuid for sample in samples for gpu in sample.gpus if gpu.uuid}
    series: dict[str, list[tuple[float, Gpu]]] = {}
    for sample in samples:
        for gpu in sample.gpus:
            if sample.at is not None:
                series.setdefault(gpu.uuid or known.get(gpu.index, ""), []).append((sample.at, gpu))
    return series


@dataclass(slots=True)
class WindowBuilder:
    """Collects scrapes in time order into a `Window`."""

    servers: dict[str, ServerWindow] = field(default_factory=dict)
    gpus: list[GpuSample] = field(default_factory=list)
    dcgm: list[GpuSample] = field(default_factory=list)
    clients: list[ClientRequest] = field(default_factory=list)
    spans: SpanStore = field(default_factory=SpanStore)
    _times: list[float] = field(default_factory=list)

    def add(self, scrape: Scrape) -> None:
        """Add one scrape; scrapes of one kind and server must come in time order."""
        if scrape.kind in (Kind.NVML, Kind.DCGM):
            self._add_gpu(scrape)
        elif scrape.kind is Kind.CLIENT and scrape.body is not None:
            self.clients += parse_client(scrape.body)
        elif scrape.kind is Kind.TRACES and scrape.body is not None:
            self.spans.add(scrape.body, scrape.at)
        elif scrape.server:
            self.servers.setdefault(scrape.server, ServerWindow(scrape.server)).take(scrape)
        if scrape.kind in (Kind.METRICS, Kind.STATISTICS) and scrape.body is not None:
            self._times.append(scrape.at)

    def _add_gpu(self, scrape: Scrape) -> None:
        if scrape.body is None:
            return
        try:
            if scrape.kind is Kind.NVML:
                self.gpus.append(parse_nvml(scrape.body))
            else:
                self.dcgm.append(parse_dcgm(scrape.body, scrape.at))
        except MalformedBody:
            return  # one bad GPU sample of many: its absence shows in the number of samples behind a reading

    def build(self, name: str = "") -> Window:
        """Return the window of all that was added; start and end are 0 when nothing was read."""
        for server in self.servers.values():
            server.fold_metrics()
        return Window(
            servers=dict(self.servers),
            gpus=tuple(self.gpus),
            dcgm=tuple(self.dcgm),
            clients=tuple(self.clients),
            traces=self.spans.traces(),
            start=min(self._times, default=0.0),
            end=max(self._times, default=0.0),
            name=name,
        )


def window_of(scrapes: Iterable[Scrape], name: str = "") -> Window:
    """Return the window of some scrapes, sorted by steady time first (captures list them folder by folder)."""
    builder = WindowBuilder()
    for scrape in sorted(scrapes, key=lambda scrape: scrape.mono):
        builder.add(scrape)
    return builder.build(name)
