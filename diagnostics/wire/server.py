"""Who answers, what it holds, and its statistics: `GET v2`, the repository index, `GET v2/models/stats`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import msgspec

from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import LARGEST_INTEGER, JsonFields, decode, decode_object, excerpt
from diagnostics.wire.redact import scrub

# A model's name is that of a folder (Triton, `docs/user_guide/model_repository.md`), which file systems end at 255.
LONGEST_NAME = 255
# Of refused entries, what is remembered of one body.
_MOST_REFUSED = 20
_REPLACED = "\N{REPLACEMENT CHARACTER}"
T = TypeVar("T")


MOST_ENTRIES = 20_000
"""Of one answer: ten times as many models as a server is judged by (ours). Each costs 40 µs, without any content."""


class Listed(NamedTuple, Generic[T]):
    """What could be read of a list; and why the rest could not, by what it calls itself, in quotes."""

    entries: tuple[T, ...]
    refused: Mapping[str, str]


def why_no_name(name: str) -> str:
    """Return why a text cannot be a model's name; empty where it can."""
    if not name or name in (".", ".."):
        return "it is no name of a model"
    if len(name) > LONGEST_NAME:
        return f"its name is longer than {LONGEST_NAME} characters"
    if "/" in name or _REPLACED in name or not name.isprintable():
        return "its name holds a slash, a control character or half of one"
    return ""


def readable(listed: Iterable[JsonFields], read: Callable[[JsonFields], T]) -> Listed[T]:
    """Return what can be read of a list.

    Raises:
        MalformedBody: there are entries, and none can be read.

    """
    found: list[T] = []
    refused: dict[str, str] = {}
    first: MalformedBody | None = None
    for number, fields in enumerate(listed):
        if number == MOST_ENTRIES:
            refused[f"'all beyond {MOST_ENTRIES:,}'"] = "no server has as many models"
            break
        try:
            found.append(_one(fields, read))
        except MalformedBody as error:
            first = first or error
            if len(refused) < _MOST_REFUSED:
                name = fields.raw("name")
                refused[excerpt(name if isinstance(name, str) else "")] = error.what
    if first is not None and not found:
        raise first
    return Listed(tuple(found), refused)


def _one(fields: JsonFields, read: Callable[[JsonFields], T]) -> T:
    if why := why_no_name(fields.text("name")):
        raise MalformedBody(why)
    return read(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetadata:
    """What a server says of itself: its id (`triton` unless set), its version (2.51.0), its extensions."""

    name: str
    version: str
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """One model version of the repository index.

    Attributes:
        name: the model.
        version: the version; empty for a model that has none loaded.
        state: READY, UNAVAILABLE, LOADING, UNLOADING, UNKNOWN; empty when the server gives none.
        reason: why it is not ready, without secrets; empty when there is none.

    """

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""


def parse_server(body: bytes) -> ServerMetadata:
    """Return the server's metadata.

    Raises:
        MalformedBody: it is no server metadata, which has at least a name and a version.

    """
    fields = decode_object(body, "the server metadata")
    if not (fields.has("name") and fields.has("version")):
        raise MalformedBody(
            f"the server metadata has no name and version: {excerpt(body)}",
            hint="check that the address is Triton's HTTP port",
        )
    return ServerMetadata(
        name=fields.text("name"), version=fields.text("version"), extensions=fields.texts("extensions")
    )


def parse_index(body: bytes) -> tuple[IndexEntry, ...]:
    """Return the entries of the repository index that can be read; raises as `read_index`."""
    return read_index(body).entries


def read_index(body: bytes) -> Listed[IndexEntry]:
    """Return the repository index, from HTTP's array or from gRPC's `{"models": […]}`.

    Raises:
        MalformedBody: it is neither, or no entry of it can be read.

    """
    value = decode(body, "the repository index")
    if isinstance(value, list):
        listed = JsonFields({"models": value}, "the repository index")
    else:
        listed = decode_object(body, "the repository index")
    return readable(listed.children("models"), _entry)


def _entry(fields: JsonFields) -> IndexEntry:
    return IndexEntry(
        name=fields.text("name"),
        version=fields.text("version"),
        state=fields.text("state"),
        reason=scrub(fields.text("reason")),  # what a loader tried, addresses and arguments included
    )


NANOSECONDS = 1e-9
MILLISECONDS = 1e-3
_MOST = 10**300


# Each body holds hundreds: a structure is made in a fifth of a frozen dataclass's time.
class Timed(msgspec.Struct, frozen=True, gc=False):
    """A cumulative counter of events and of the time they took, since the model version was loaded.

    Attributes:
        count: events.
        seconds: their total time. An unsigned underflow in the server (about 1.8e10 s) is kept as it came:
            the window judges it.

    """

    count: int
    seconds: float


NEVER = Timed(0, 0.0)
_DURATIONS = ("fail", "queue", "compute_input", "compute_infer", "compute_output")
_NONE = frozenset[str]()


class BatchStatistics(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Executions at one batch size: their count, and their time in each phase (once per execution)."""

    size: int
    input: Timed = NEVER
    infer: Timed = NEVER
    output: Timed = NEVER


class ModelStatistics(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Cumulative statistics of one model version.

    Attributes:
        name: the model.
        version: the version; empty when the server names none.
        last_inference: Unix seconds of the last inference; None when there was none.
        inference_count: inferences, counting each element of a batch that a client sent.
        execution_count: executions of the model.
        success: requests answered, and their time from receipt to answer.
        fail: requests failed, and their time.
        queue: time requests waited for an instance.
        compute_input: time spent on inputs, booked once per request of a batch.
        compute_infer: time in the backend, booked once per request of a batch.
        compute_output: time spent on outputs, booked once per request of a batch.
        cache_hit: requests answered from the response cache.
        cache_miss: requests looked up there in vain, and the lookup's and insertion's time.
        batches: executions by batch size, in the server's order.
        lost: the durations above that the entry leaves out although it has answered requests. A server lists them all.

    """

    name: str
    version: str
    last_inference: float | None = None
    inference_count: int = 0
    execution_count: int = 0
    success: Timed = NEVER
    fail: Timed = NEVER
    queue: Timed = NEVER
    compute_input: Timed = NEVER
    compute_infer: Timed = NEVER
    compute_output: Timed = NEVER
    cache_hit: Timed = NEVER
    cache_miss: Timed = NEVER
    batches: tuple[BatchStatistics, ...] = ()
    lost: frozenset[str] = frozenset()


def parse_statistics(body: bytes) -> tuple[ModelStatistics, ...]:
    """Return the statistics of every model version that can be read; raises as `read_statistics`."""
    return read_statistics(body).entries


def read_statistics(body: bytes) -> Listed[ModelStatistics]:
    """Return the statistics of every model version in `body`, in the server's order; absent parts are zero.

    Source: Triton, `docs/protocol/extension_statistics.md`; nanoseconds and milliseconds become seconds.

    Raises:
        MalformedBody: it is no statistics answer, or no entry of it can be read.

    """
    answer = decode_object(body, "the statistics")
    return readable(answer.children("model_stats"), _model)


def _model(fields: JsonFields) -> ModelStatistics:
    inference = fields.child("inference_stats")
    last_ms = fields.integer("last_inference")
    return ModelStatistics(
        name=fields.text("name"),
        version=fields.text("version"),
        last_inference=_scaled(last_ms, MILLISECONDS) if last_ms else None,
        inference_count=fields.integer("inference_count"),
        execution_count=fields.integer("execution_count"),
        success=_timed(inference, "success"),
        fail=_timed(inference, "fail"),
        queue=_timed(inference, "queue"),
        compute_input=_timed(inference, "compute_input"),
        compute_infer=_timed(inference, "compute_infer"),
        compute_output=_timed(inference, "compute_output"),
        cache_hit=_timed(inference, "cache_hit"),
        cache_miss=_timed(inference, "cache_miss"),
        batches=tuple(_batch(batch) for batch in fields.children("batch_stats")),
        lost=frozenset(part for part in _DURATIONS if not inference.has(part)) if inference.has("success") else _NONE,
    )


def _batch(fields: JsonFields) -> BatchStatistics:
    return BatchStatistics(
        size=fields.integer("batch_size"),
        input=_timed(fields, "compute_input"),
        infer=_timed(fields, "compute_infer"),
        output=_timed(fields, "compute_output"),
    )


def _timed(parent: JsonFields, key: str) -> Timed:
    value = parent.raw(key)
    if (
        type(value) is dict
        and type(count := value.get("count")) is type(ns := value.get("ns")) is int
        and abs(count) <= LARGEST_INTEGER
    ):
        return Timed(count, _scaled(ns, NANOSECONDS))  # HTTP's plain form, a few hundred times in each body
    fields = parent.child(key)
    return Timed(fields.integer("count"), _scaled(fields.integer("ns"), NANOSECONDS))


def _scaled(value: int, factor: float) -> float:
    """Return `value * factor`; an integer past a float's range, which no server sends, is cut to it."""
    return value * factor if -_MOST <= value <= _MOST else (_MOST if value > 0 else -_MOST) * factor
