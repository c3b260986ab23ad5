"""Triton's statistics extension: `GET v2/models/stats`, and gRPC's `ModelStatistics` as JSON."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.wire.entries import Listed, readable
from diagnostics.wire.json_body import LARGEST_INTEGER, JsonFields, decode_object

NANOSECONDS = 1e-9
MILLISECONDS = 1e-3
_MOST = 10**300


@dataclass(frozen=True, slots=True)
class Timed:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatistics:
    """Executions at one batch size: their count, and their time in each phase (once per execution)."""

    size: int
    input: Timed = NEVER
    infer: Timed = NEVER
    output: Timed = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatistics:
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
