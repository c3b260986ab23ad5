"""What a client saw of its requests: when it sent them, how long they took, whether they came back well."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from diagnostics.errors import MalformedBody
from diagnostics.window.counters import CounterPoint
from diagnostics.window.logs import LogEvent, options_of, parse_log
from diagnostics.window.normalize import (
    ModelKey,
    batches_from_statistics,
    counters_from_metrics,
    counters_from_statistics,
    gpus_from_metrics,
    key_of,
)
from diagnostics.window.points import NO_BATCHES, Numbers
from diagnostics.wire.engine import EngineSample, samples_of_iterations
from diagnostics.wire.exposition import ExpositionReader, SeriesLayout, Snapshot
from diagnostics.wire.gpu import Gpu, GpuSample, parse_dcgm, parse_nvml
from diagnostics.wire.host import HostSample, parse_host
from diagnostics.wire.json_body import LARGEST_NUMBER, json_value, number
from diagnostics.wire.model_config import ModelConfig, parse_model_config
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.server import IndexEntry, ServerMetadata, parse_server, read_index, read_statistics

_MILLISECOND = 1e-3
# A load generator writes one line per request; ten million are hours of the fastest one, and a bound on memory.
MOST_REQUESTS = 10_000_000


# A record has tens of thousands: a structure is made in a fifth of a frozen dataclass's time.
class ClientRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One request as its client saw it.

    Attributes:
        at: Unix seconds of sending, by the client's clock.
        model: the model or ensemble that was called.
        seconds: time from sending to the whole answer.
        ok: whether it was answered as asked.
        code: the status code; None when none came back.
        delay: seconds from the time at which it was due to that of sending; None where the client does not say.

    """

    at: float
    model: str
    seconds: float
    ok: bool
    code: int | None = None
    delay: float | None = None


def parse_client(body: bytes) -> tuple[ClientRequest, ...]:
    """Return the requests of a client record (a JSON object per line) in order of sending.

    Lines that are no such object, as the last one of a record that was cut, are left out.
    """
    return tuple(sorted(_requests(body), key=lambda request: request.at))


def _requests(body: bytes) -> Iterator[ClientRequest]:
    for count, line in enumerate(body.splitlines()):
        if count >= MOST_REQUESTS:
            return
        request = _request(line)
        if request is not None:
            yield request


class _ClientLine(msgspec.Struct):
    """A line as clients write it; all others are read with care."""

    t: float
    ms: float
    model: str
    ok: bool = True
    code: int | None = None
    delay_ms: float | None = None


_CLIENT_LINE = msgspec.json.Decoder(_ClientLine)


def _request(line: bytes) -> ClientRequest | None:
    try:
        usual = _CLIENT_LINE.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _unusual_request(line)
    if not abs(usual.t) <= LARGEST_NUMBER >= abs(usual.ms):
        return None
    seconds, delay = max(usual.ms, 0.0) * _MILLISECOND, _delay(usual.delay_ms)
    return ClientRequest(at=usual.t, model=usual.model, seconds=seconds, ok=usual.ok, code=usual.code, delay=delay)


def _delay(ms: object) -> float | None:
    """Return the seconds of a delay in milliseconds; None where it is no number."""
    found = number(ms)
    return None if found is None else max(found, 0.0) * _MILLISECOND


def _unusual_request(line: bytes) -> ClientRequest | None:
    try:
        value = json_value(line)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    at, ms = number(value.get("t")), number(value.get("ms"))
    model, code = value.get("model"), value.get("code")
    if at is None or ms is None or not isinstance(model, str):
        return None
    return ClientRequest(
        at=at,
        model=model,
        seconds=max(ms, 0.0) * _MILLISECOND,
        ok=value.get("ok") is not False,
        code=code if isinstance(code, int) else None,
        delay=_delay(value.get("delay_ms")),
    )


Rows = Mapping[ModelKey, CounterPoint]
_BYTES_OF_A_NUMBER, _BYTES_OF_A_SERIES = 8, 1024
_BYTES_OF_A_ROW = 1024
"""A model's counters, and those of its batch sizes."""


T = TypeVar("T")
MOST_MODELS = 2_000
"""Versions of models of one server: a verdict on as many takes ten seconds, and other deployments wait for it."""


BEYOND_MODELS = f"a server is judged by {MOST_MODELS:,} models at most"


def of_so_many_models(models: Collection[T]) -> tuple[list[T], Mapping[str, str]]:
    """Return the first `MOST_MODELS` of a server's models, and why others are left out."""
    beyond = len(models) - MOST_MODELS
    refused = {f"'{beyond:,} more'": BEYOND_MODELS} if beyond > 0 else {}
    return list(islice(models, MOST_MODELS)), refused


class MetricsPage:
    """One page of metrics. What only a complete window needs of it is made when first asked for, and kept."""

    def __init__(self, at: float, mono: float, snapshot: Snapshot) -> None:
        self.at, self.mono, self.snapshot = at, mono, snapshot

    @property
    def rows(self) -> Rows:
        """Cumulative counters per model version."""
        return self._rows[0]

    @property
    def refused(self) -> Mapping[str, str]:
        """Why models were left out."""
        return self._rows[1]

    @cached_property
    def _rows(self) -> tuple[Rows, Mapping[str, str]]:
        found, refused = of_so_many_models(counters_from_metrics(self.snapshot).items())
        rows = {
            key: CounterPoint(at=self.at, mono=self.mono, values=Numbers(values), batches=NO_BATCHES)
            for key, values in found
        }
        return rows, refused

    @cached_property
    def gpus(self) -> Sequence[Gpu]:
        """Triton's own gauges of its GPUs."""
        return gpus_from_metrics(self.snapshot)


@dataclass(frozen=True, slots=True)
class Iterations:
    """A list of an engine's iterations, `trtllm-serve`'s answer where others have a metrics page."""

    samples: Sequence[EngineSample]


@dataclass(frozen=True, slots=True)
class StatisticsRows:
    """Cumulative counters per model version, with their batch sizes."""

    rows: Rows
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Index:
    """The models of the repository with their states."""

    entries: tuple[IndexEntry, ...]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogLines:
    """The events of a server's log, and the options that it names, as `options_of`."""

    events: tuple[LogEvent, ...]
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """Requests as their sender saw them."""

    requests: tuple[ClientRequest, ...]


@dataclass(frozen=True, slots=True)
class RepositoryFile:
    """The text of one file of a model repository."""

    text: str


Content = (
    MetricsPage
    | Iterations
    | StatisticsRows
    | ModelConfig
    | ServerMetadata
    | HostSample
    | GpuSample
    | Index
    | LogLines
    | ClientRecord
    | RepositoryFile
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A scrape without its body.

    Attributes:
        scrape: what was read, its body left out.
        content: what the body held; None where there was none, or it could not be read.
        error: why there is no content; empty when there is one.
        answered: whether there was a body, readable or not.
        size: bytes that the content takes in memory, about.

    """

    scrape: Scrape
    content: Content | None
    error: str = ""
    answered: bool = True
    size: int = 0


class ScrapeParser:
    """Reads bodies. Pages of one server mostly differ in their values only: it remembers their layout."""

    def __init__(self) -> None:
        self._pages: dict[str, ExpositionReader] = {}
        self._layouts: dict[str, SeriesLayout] = {}

    def parse(self, scrape: Scrape) -> Parsed:
        """Return what a scrape holds; a body that cannot be parsed is a failed read with its reason."""
        bare = without_body(scrape)
        if scrape.body is None:
            return Parsed(scrape=bare, content=None, error=scrape.error or "no answer", answered=False)
        try:
            content = self._content(scrape, scrape.body)
            return Parsed(scrape=bare, content=content, size=self._size_of(content, scrape))
        except MalformedBody as error:
            return Parsed(scrape=bare, content=None, error=error.what)

    def _size_of(self, content: Content | None, scrape: Scrape) -> int:
        """Return about how many bytes a content takes: of a page like the last one little more than its numbers."""
        if isinstance(content, MetricsPage):
            layout, numbers = content.snapshot.layout, len(content.snapshot.values)
            before, self._layouts[scrape.server] = self._layouts.get(scrape.server), layout
            return numbers * (_BYTES_OF_A_NUMBER if layout is before else _BYTES_OF_A_SERIES)
        if isinstance(content, StatisticsRows):
            return _BYTES_OF_A_ROW * len(content.rows)
        return len(scrape.body or b"")

    def _content(self, scrape: Scrape, body: bytes) -> Content | None:
        if scrape.kind is BodyKind.METRICS:
            return self._page(scrape, body)
        read = _READERS.get(scrape.kind)
        return read(scrape, body) if read else None

    def _page(self, scrape: Scrape, body: bytes) -> MetricsPage | Iterations:
        if body.lstrip()[:1] == b"[":
            return Iterations(samples_of_iterations(body, scrape.at))
        reader = self._pages.setdefault(scrape.server, ExpositionReader())
        return MetricsPage(scrape.at, scrape.mono, reader.read(body))


def without_body(scrape: Scrape) -> Scrape:
    """Return the scrape's particulars alone."""
    return Scrape(
        server=scrape.server,
        kind=scrape.kind,
        at=scrape.at,
        mono=scrape.mono,
        took=scrape.took,
        error=scrape.error,
        name=scrape.name,
    )


def _index(body: bytes) -> Index:
    listed = read_index(body)
    entries, refused = of_so_many_models(listed.entries)
    return Index(tuple(entries), {**refused, **listed.refused})


def _statistics(scrape: Scrape, body: bytes) -> StatisticsRows:
    listed = read_statistics(body)
    models, refused = of_so_many_models(listed.entries)
    return StatisticsRows(
        {
            key_of(model.name, model.version): CounterPoint(
                at=scrape.at,
                mono=scrape.mono,
                values=Numbers(counters_from_statistics(model)),
                batches=batches_from_statistics(model),
                last_inference=model.last_inference,
            )
            for model in models
        },
        {**refused, **listed.refused},
    )


_ALIKE: WeakValueDictionary[tuple[BodyKind, bytes], Index | ModelConfig] = WeakValueDictionary()


def _once(kind: BodyKind, read: Callable[[bytes], Index | ModelConfig]) -> Callable[[Scrape, bytes], Content]:
    """Return a reader of bodies that replicas say alike, and servers again and again: each is read and held once."""

    def find(_: Scrape, body: bytes) -> Content:
        key = (kind, sha256(body).digest())
        found = _ALIKE.get(key)
        if found is None:
            found = _ALIKE[key] = read(body)
        return found

    return find


# Export bodies are not among them: one may hold a million spans, and `SpanStore` takes them as they are read.
_READERS: Mapping[BodyKind, Callable[[Scrape, bytes], Content]] = {
    BodyKind.STATISTICS: _statistics,
    BodyKind.INDEX: _once(BodyKind.INDEX, _index),
    BodyKind.CONFIG: _once(BodyKind.CONFIG, parse_model_config),
    BodyKind.LOG: lambda scrape, body: LogLines(parse_log(body, scrape.at), options_of(body)),
    BodyKind.SERVER: lambda _, body: parse_server(body),
    BodyKind.HOST: lambda _, body: parse_host(body),
    BodyKind.NVML: lambda _, body: parse_nvml(body),
    BodyKind.DCGM: lambda scrape, body: parse_dcgm(body, scrape.at),
    BodyKind.CLIENT: lambda _, body: ClientRecord(parse_client(body)),
    BodyKind.REPOSITORY: lambda _, body: RepositoryFile(body.decode("utf-8", "replace")),
}
