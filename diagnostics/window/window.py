"""Samples of a machine's GPUs, by card."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any

from diagnostics.window.counters import Counter, CounterPoint, CounterTable, contradicted_resets, longest_gap
from diagnostics.window.from_files import FILE, config_of_file
from diagnostics.window.graph import DeploymentGraph, graph_of
from diagnostics.window.logs import MOST_EVENTS, LogEvent
from diagnostics.window.normalize import ModelKey, positions_of, under_their_own_names
from diagnostics.window.parsed import (
    BEYOND_MODELS,
    MOST_MODELS,
    ClientRecord,
    ClientRequest,
    Content,
    Index,
    Iterations,
    LogLines,
    MetricsPage,
    Parsed,
    RepositoryFile,
    ScrapeParser,
    StatisticsRows,
)
from diagnostics.window.restarts import Between, restart_reported, several_servers_answer
from diagnostics.window.traces import SpanStore, Traces
from diagnostics.window.unanswered import (
    INFERENCE_PORT,
    METRICS_PORT,
    FailedRead,
    Try,
    Unanswered,
    stretches_unanswered,
)
from diagnostics.wire.engine import EngineSample
from diagnostics.wire.exposition import SeriesLayout, Snapshot
from diagnostics.wire.gpu import Gpu, GpuSample
from diagnostics.wire.host import HostSample
from diagnostics.wire.json_body import excerpt
from diagnostics.wire.model_config import ModelConfig
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.server import IndexEntry, ServerMetadata
from diagnostics.wire.servers.catalogue import kinds_of


def by_card(samples: Sequence[GpuSample]) -> dict[str, list[tuple[float, Gpu]]]:
    """Return the cards' samples with their times; one that did not say who it is goes by its index."""
    known = {gpu.index: gpu.uuid for sample in samples for gpu in sample.gpus if gpu.uuid}
    series: dict[str, list[tuple[float, Gpu]]] = {}
    for sample in samples:
        for gpu in sample.gpus:
            if sample.at is not None:
                series.setdefault(gpu.uuid or known.get(gpu.index, ""), []).append((sample.at, gpu))
    return series


Gauge = Sequence[tuple[float, float]]


class Gauges:
    """The pages of one server, in time order.

    Neighbouring pages of the same series share their layout: labels are compared once for all of them.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[SeriesLayout, list[tuple[float, Sequence[float]]]]] = []

    def add(self, at: float, page: Snapshot) -> None:
        """Add a page that was read at Unix second `at`."""
        if not self._runs or self._runs[-1][0] is not page.layout:
            self._runs.append((page.layout, []))
        self._runs[-1][1].append((at, page.values))

    def read(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Return (Unix seconds, value) of the series of `name` that carry `labels`, summed per page, in time order.

        A page without such a series, or with none that is a number, gives no point.
        """
        points: list[tuple[float, float]] = []
        for layout, pages in self._runs:
            positions = positions_of(layout, name, labels)
            if len(positions) == 1:  # nearly always
                points += [(at, value) for at, values in pages if isfinite(value := values[positions[0]])]
            elif positions:
                every = ((at, [v for position in positions if isfinite(v := values[position])]) for at, values in pages)
                points += [(at, sum(matching)) for at, matching in every if matching]
        return points


STATISTICS = "statistics"
METRICS = "metrics"
_SOURCES = {BodyKind.STATISTICS: STATISTICS, BodyKind.METRICS: METRICS}
_OF_MACHINES = frozenset({BodyKind.NVML, BodyKind.DCGM, BodyKind.CLIENT})

# Of a server whose entries are refused, how many are named.
_MOST_REFUSED = 20


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
        self.options: dict[str, str] = {}
        self.repository: dict[str, str] = {}
        self.index: list[tuple[float, tuple[IndexEntry, ...]]] = []
        self.hosts: list[HostSample] = []
        self.gpus: dict[str, list[tuple[float, Gpu]]] = {}
        self.failures: dict[BodyKind, Failures] = {}
        self.refused: dict[str, str] = {}  # why entries of what was read were left out, by what they call themselves
        self.has_more_models = False  # than a server is judged by
        self.failed: list[FailedRead] = []
        self.tables: dict[str, dict[ModelKey, CounterTable]] = {STATISTICS: {}, METRICS: {}}
        self.reads: dict[str, list[tuple[float, float]]] = {STATISTICS: [], METRICS: []}
        self.tries: dict[str, list[float]] = {STATISTICS: [], METRICS: []}
        self.front: ServerWindow | None = None  # that hands it the requests of its models, and tells its limits
        self._pages: list[MetricsPage] = []
        self._gauges = Gauges()
        self._keys: dict[str, list[ModelKey]] = {}
        self._keys_of: tuple[int, int] = (0, 0)
        self._graph: DeploymentGraph | None = None
        self._logged: dict[str, list[LogEvent]] = {}

    def log_of(self, model: str) -> Sequence[LogEvent]:
        """Return what was logged of a model; sorted out once for the log read so far."""
        if self.log and not self._logged:
            for event in self.log:
                self._logged.setdefault(event.model, []).append(event)
        return self._logged.get(model, ())

    @property
    def rate_limited(self) -> bool | None:
        """Whether the rate limiter is on; None where no log says so."""
        return self.options["rate_limit"] != "OFF" if "rate_limit" in self.options else None

    @property
    def graph(self) -> DeploymentGraph:
        """Which ensemble calls which models; made once for the configurations read so far."""
        if self._graph is None:
            self._graph = graph_of(self.configs)
        return self._graph

    def keys_seen(self) -> list[ModelKey]:
        """Return every (model, version) seen in counters, sorted."""
        return [key for keys in self._keys_by_model().values() for key in keys]

    def requests_of(self, key: ModelKey) -> float:
        """Return how many requests to a model version ended while it was read, by the source that counts more."""
        return max((_grown(tables[key]) for tables in self.tables.values() if key in tables), default=0.0)

    def keys_of(self, model: str) -> Sequence[ModelKey]:
        """Return the (model, version) pairs of one model, sorted."""
        return self._keys_by_model().get(model, ())

    def _keys_by_model(self) -> Mapping[str, list[ModelKey]]:
        # Every reading of every model asks; a table that is there stays, so that their numbers show new ones.
        have = (len(self.tables[STATISTICS]), len(self.tables[METRICS]))
        if have != self._keys_of:
            self._keys, self._keys_of = {}, have
            for key in sorted(set(self.tables[STATISTICS]) | set(self.tables[METRICS])):
                self._keys.setdefault(key[0], []).append(key)
        return self._keys

    def gauge(self, name: str, labels: Mapping[str, str]) -> Gauge:
        """Return (Unix seconds, value) of the series of `name` that carry `labels`, summed per read, in time order."""
        return self._gauges.read(name, labels)

    def exports(self, family: str) -> bool:
        """Return whether the newest metrics page has any series of this family."""
        return bool(self.snapshots) and family in self.snapshots[-1][2].layout.by_name

    def unanswered(self) -> list[Unanswered]:
        """Return the stretches in which one port answered no read and the other did, the inference port's first."""
        pages = [Try(at, "", BodyKind.METRICS) for at, _ in self.reads[METRICS]]
        statistics = [Try(at, "", BodyKind.STATISTICS) for at, _ in self.reads[STATISTICS]]
        answers = [*statistics, *(Try(at, "", BodyKind.INDEX) for at, _ in self.index)]
        return [
            *stretches_unanswered(INFERENCE_PORT, answers, self.failed, pages),
            *stretches_unanswered(METRICS_PORT, pages, self.failed, answers),
        ]

    def add(self, parsed: Parsed) -> None:
        """Add one scrape; one without content counts as a failed read with its reason."""
        kind = parsed.scrape.kind
        if kind in _SOURCES:
            self.tries[_SOURCES[kind]].append(parsed.scrape.mono)
        if parsed.content is None:
            self._fail(kind, parsed.error)
            if kind is BodyKind.CONFIG and parsed.answered:
                self._refuse({excerpt(parsed.scrape.name): parsed.error})
            self.failures[kind].answered += parsed.answered
            if not parsed.answered:
                self.failed.append(FailedRead(parsed.scrape.at, kind, parsed.error))
            return
        self._refuse(_refused(parsed.content))
        self._take_counters(parsed.scrape, parsed.content)
        self._take_particulars(parsed.scrape, parsed.content)

    def _take_counters(self, scrape: Scrape, content: Content) -> None:
        match content:
            case MetricsPage() as page:
                self._pages.append(page)
                self.snapshots.append((page.at, page.mono, page.snapshot))
                self._gauges.add(page.at, page.snapshot)
            case Iterations(samples):
                self.iterations += samples
            case StatisticsRows(rows):
                self._append(STATISTICS, scrape.at, scrape.mono, rows)
            case HostSample() as sample:
                self.hosts.append(sample)
            case _:
                pass

    def _take_particulars(self, scrape: Scrape, content: Content) -> None:
        match content:
            case Index(entries):
                self.index.append((scrape.at, entries))
            case ModelConfig() as config:
                self._take_config(scrape, config)
            case ServerMetadata() as metadata:
                self.metadata = metadata
            case LogLines(events, options):
                self.log = (*self.log, *events)[-MOST_EVENTS:]
                self._logged.clear()
                self.options = {**self.options, **options}
            case RepositoryFile(text):
                self.repository[scrape.name] = text
            case _:
                pass  # GPU samples and client records belong to the window as a whole

    def _take_config(self, scrape: Scrape, config: ModelConfig) -> None:
        name = config.name or scrape.name
        self.configs[name] = config
        self._graph = None
        self.configured.setdefault(name, []).append((scrape.at, config))

    def fold_metrics(self) -> None:
        """Turn the pages taken so far into counter tables; called once a window is complete."""
        self.tables[METRICS], self.reads[METRICS] = {}, []
        self.gpus = {}
        for page in self._pages:
            self._append(METRICS, page.at, page.mono, page.rows)
            self._refuse(page.refused)
            for gpu in page.gpus:
                self.gpus.setdefault(gpu.uuid, []).append((page.at, gpu))
        mixed = several_servers_answer(self.tables.values(), self._begun_anew)
        reported, counted = self.tables[STATISTICS], self.tables[METRICS]
        denied = [
            (table, contradicted_resets(table, others.get(key)))
            for tables, others in ((reported, counted), (counted, reported))
            for key, table in tables.items()
        ]
        for table, openings in denied:
            table.mark_unreliable(mixed=mixed, denied=openings)
        self._configure_from_files()

    def _begun_anew(self, mono: float, rows: Collection[ModelKey]) -> bool:
        """Return whether something else explains why these rows begin at zero at the read of a steady time."""
        return self._loaded_together(rows) or any(
            restart_reported(
                Between(since, at),
                {model for model, _ in rows},
                failed=(one.at for one in self.failed),
                hosts=self.hosts,
                index=self.index,
                log=self.log,
            )
            for reads in self.reads.values()
            for (since, _), (at, steady) in pairwise(reads)
            if steady == mono
        )

    def _loaded_together(self, rows: Collection[ModelKey]) -> bool:
        """Return whether these rows are those of one model and of ensembles that call it."""
        models = {model for model, _ in rows}
        return any(
            models <= {model, *(ensemble.name for ensemble in self.graph.callers(model))}
            for model in models - set(self.graph.ensembles)
        )

    def _configure_from_files(self) -> None:
        """Take the configurations that were not read from the repository's files, of the models that were seen."""
        if not self.repository:
            return
        for model, _ in self.keys_seen():
            text = self.repository.get(f"{model}/{FILE}")
            if text is not None and model not in self.configured:
                config = config_of_file(model, text, on_gpus=bool(self.gpus))
                if config is not None:
                    self.configs[model] = config
                    self._graph = None

    def _append(self, source: str, at: float, mono: float, rows: Mapping[ModelKey, CounterPoint]) -> None:
        previous = self.reads[source][-1] if self.reads[source] else None
        tables, tries = self.tables[source], self.tries[source]
        tried = mono - longest_gap(tries, previous[1], mono) if previous else None
        for key, point in under_their_own_names(rows, tables).items():
            table = tables.get(key)
            if table is None:
                if len(tables) >= MOST_MODELS:  # names that come and go must not fill the memory
                    self._refuse({"'more models'": BEYOND_MODELS})
                    continue
                table = tables[key] = CounterTable(source)
            table.add(point, previous, tried)
        self.reads[source].append((at, mono))

    def _refuse(self, entries: Mapping[str, str]) -> None:
        for name, why in entries.items():
            self.has_more_models |= why == BEYOND_MODELS
            if len(self.refused) < _MOST_REFUSED:
                self.refused.setdefault(name, why)

    def _fail(self, kind: BodyKind, reason: str) -> None:
        failures = self.failures.setdefault(kind, Failures())
        failures.count += 1
        failures.reason = reason


def _grown(table: CounterTable) -> float:
    """Return the requests between the first read and the last one; of counters that began again, those of the last."""
    if table.first is None or table.last is None:
        return 0.0
    first, last = (sum(point.values.get(one, 0.0) for one in _ENDED) for point in (table.first, table.last))
    return last - first if last >= first else last


_ENDED = (Counter.SUCCESS, Counter.FAILURE)


def _refused(content: Content) -> Mapping[str, str]:
    """Return why parts of what was read were left out, by what they call themselves."""
    match content:
        case MetricsPage():
            return content.snapshot.refused
        case StatisticsRows() | Index():
            return content.refused
        case _:
            return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A complete window, made of `records`. `start` and `end` are Unix seconds of the first and last read."""

    servers: Mapping[str, ServerWindow]
    gpus: Sequence[GpuSample]
    dcgm: Sequence[GpuSample] = ()
    clients: Sequence[ClientRequest] = ()
    traces: Traces = field(default_factory=Traces)
    start: float
    end: float
    name: str = ""
    records: Sequence[Parsed] = ()
    cards: Mapping[str, Sequence[tuple[float, Gpu]]] = field(init=False)
    """The samples of each GPU by its uuid with their Unix seconds, in time order: NVML's, else DCGM's."""
    across: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What signals found in all servers at once, and each server is compared with."""

    def __post_init__(self) -> None:
        """Sort the samples by card once: a hundred readings of sixteen cards ask for them."""
        object.__setattr__(self, "cards", {**by_card(self.dcgm), **by_card(self.gpus)})

    @property
    def seconds(self) -> float:
        """Length of the window; 0 when nothing was read twice."""
        return max(self.end - self.start, 0.0)


@dataclass(slots=True)
class WindowBuilder:
    """Collects scrapes in time order into a `Window`."""

    servers: dict[str, ServerWindow] = field(default_factory=dict)
    gpus: list[GpuSample] = field(default_factory=list)
    dcgm: list[GpuSample] = field(default_factory=list)
    clients: list[ClientRequest] = field(default_factory=list)
    spans: SpanStore = field(default_factory=SpanStore)
    _parser: ScrapeParser = field(default_factory=ScrapeParser)
    _times: list[float] = field(default_factory=list)
    _taken: list[Parsed] = field(default_factory=list)

    def add(self, scrape: Scrape) -> None:
        """Add one scrape; scrapes of one kind and server must come in time order."""
        if scrape.kind is not BodyKind.TRACES:
            self.add_parsed(self._parser.parse(scrape))
        elif scrape.body is not None:
            self.spans.add(scrape.body, scrape.at)

    def add_parsed(self, parsed: Parsed) -> None:
        """Add one scrape that was parsed before; the order is that of `add`."""
        scrape, content = parsed.scrape, parsed.content
        self._taken.append(parsed)
        match content:
            case ClientRecord(requests):
                self.clients += requests
            case GpuSample() as sample:
                (self.gpus if scrape.kind is BodyKind.NVML else self.dcgm).append(sample)
            case _ if scrape.server and scrape.kind not in _OF_MACHINES:
                self.servers.setdefault(scrape.server, ServerWindow(scrape.server)).add(parsed)
            case _:
                pass  # one bad GPU sample of many: its absence shows in the number of samples behind a reading
        if scrape.kind in (BodyKind.METRICS, BodyKind.STATISTICS) and parsed.answered:
            self._times.append(scrape.at)

    def build(self, name: str = "", traces: Traces | None = None) -> Window:
        """Return the window of all that was added; start and end are 0 when nothing was read.

        Args:
            name: the window's.
            traces: its traced requests; None makes them of the spans that were added.

        """
        for server in self.servers.values():
            server.fold_metrics()
        return Window(
            servers=_behind_fronts(self.servers),
            gpus=tuple(self.gpus),
            dcgm=tuple(self.dcgm),
            clients=tuple(self.clients),
            traces=self.spans.traces() if traces is None else traces,
            start=min(self._times, default=0.0),
            end=max(self._times, default=0.0),
            name=name,
            records=self._taken,
        )


def _behind_fronts(servers: Mapping[str, ServerWindow]) -> dict[str, ServerWindow]:
    """Return the servers without those whose requests others of them count again: that stand in front of these.

    One that counts failures stays, as these may be its own.
    """
    found = dict(servers)
    for name, front in servers.items():
        if not any(kind.behind for _, _, page in front.snapshots[-1:] for kind in kinds_of(page.layout)):
            continue
        models = front.tables[METRICS].keys()
        behind = [one for one in servers.values() if one is not front and models & one.tables[METRICS].keys()]
        for one in behind:
            one.front = front
        seen = {key for one in behind for key in one.tables[METRICS]}
        failed = any(step.values.get(Counter.FAILURE) for one in front.tables[METRICS].values() for step in one.steps)
        if behind and models <= seen and not failed:
            del found[name]
    return found


def window_of(scrapes: Iterable[Scrape], name: str = "", go_on: Callable[[], bool] = lambda: True) -> Window:
    """Return the window of some scrapes, sorted by steady time first (captures list them folder by folder).

    Those that follow once `go_on` returns False are left out.
    """
    builder = WindowBuilder()
    for scrape in sorted(scrapes, key=lambda scrape: scrape.mono):
        if not go_on():
            break
        builder.add(scrape)
    return builder.build(name)
