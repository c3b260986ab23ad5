"""Answers of Prometheus' HTTP API (`/api/v1/query`, `/api/v1/query_range`): series with their samples.

Format: prometheus.io, "HTTP API". Thanos and Mimir answer alike; VictoriaMetrics adds `isPartial`. Native histograms
are left out: Triton has none.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from diagnostics import names
from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import excerpt, in_utf8, measured

PARTIAL = "a part of the store did not answer"
_MOST_NAMED = 20
"""Of the series of one answer that cannot be read, how many are named."""
MOST_SERIES, MOST_SAMPLES, MOST_OF_A_SERIES = 500_000, 10_000_000, 1_000_000
"""Of one answer: 500 servers of 20 models have 300,000 series, twenty scrapes of them 6,000,000 samples (ours). As
Python's numbers a sample takes 170 bytes, which those of one series do at once."""
_LABEL_BYTES, _SAMPLE_BYTES, _WARNING_BYTES = 2**16, 64, 2**20
"""Of the labels of a series, of a sample, and of all warnings (ours)."""
T = TypeVar("T")
_LOG = "look at the store's log, or ask for less"
_HINT = "give the address under which /api/v1/query answers (Mimir: …/prometheus, Thanos: its querier)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSeries:
    """One series: its labels with `__name__`, and its samples in time order: Unix seconds and values, side by side."""

    labels: Mapping[str, str]
    times: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """What a query gave.

    Attributes:
        series: the series found; a scalar is one without labels.
        warnings: what is missing or doubtful: what the store says of it, and series that cannot be read; empty when the
            answer is whole.

    """

    series: tuple[SampledSeries, ...]
    warnings: tuple[str, ...] = ()


class _Sampled(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Body(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: msgspec.Raw = msgspec.Raw(b"[]")
    is_partial: bool = False


class _Values(msgspec.Struct):
    data: list[str]


_VALUES = msgspec.json.Decoder(_Values)
_BODY = msgspec.json.Decoder(_Body)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_TEXTS = msgspec.json.Decoder(list[str])
_SERIES = msgspec.json.Decoder(_Sampled)
_SCALAR = msgspec.json.Decoder(tuple[float, str])
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)


class TooManySamples(MalformedBody):
    """An answer is too large for our memory; one to a smaller question may not be."""


def parse_answer(body: bytes) -> QueryResult:
    """Return what a query gave. Series without a plain sample are left out; one that cannot be read is named.

    Raises:
        TooManySamples: it holds more than `MOST_SERIES` or `MOST_SAMPLES`, or one series more than `MOST_OF_A_SERIES`.
        MalformedBody: it is no answer of this API (an HTML page, another service, cut off), says that it failed, or
            none of its series can be read.

    """
    _refuse_more(body.count(b"{"), 2 * MOST_SERIES + 2, f"{MOST_SERIES:,} series")
    _refuse_more(body.count(b"["), MOST_SAMPLES + MOST_SERIES + 1, f"{MOST_SAMPLES:,} samples")
    try:
        stated = _decoded(_BODY, body)
        warnings = _warnings(stated.warnings)
        found = _series(stated.data) if stated.status == "success" and stated.data is not None else None
    except _UNREADABLE:
        raise MalformedBody(f"answers with something else than query results: {excerpt(body)}", hint=_HINT) from None
    if found is None:
        raise _failure(stated, body)
    series, refused = found
    return QueryResult(series=series, warnings=(*warnings, *((PARTIAL,) if stated.is_partial else ()), *refused))


def _refuse_more(count: int, most: int, what: str) -> None:
    if count > most:
        raise TooManySamples(f"the answer holds more than {what}")


def _warnings(stated: msgspec.Raw) -> Sequence[str]:
    if len(bytes(stated)) > _WARNING_BYTES:
        return (f"the store gave more than {_WARNING_BYTES >> 20} MiB of warnings",)
    return _decoded(_TEXTS, bytes(stated))


def _failure(stated: _Body, body: bytes) -> MalformedBody:
    if stated.status != "error":
        return MalformedBody(f"answers without a result: {excerpt(body)}", hint=_HINT)
    return MalformedBody(
        f"the query failed: {excerpt(stated.error) if stated.error else 'no reason is given'}", hint=_LOG
    )


def parse_values(body: bytes) -> tuple[str, ...]:
    """Return the values of a label, as `/api/v1/label/NAME/values` gives them; raises as `parse_answer`."""
    _refuse_more(body.count(b","), MOST_SERIES, f"{MOST_SERIES:,} values")
    try:
        return tuple(_decoded(_VALUES, body).data)
    except _UNREADABLE:
        raise MalformedBody(f"answers with something else than a label's values: {excerpt(body)}", hint=_HINT) from None


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError:
        return decoder.decode(in_utf8(body))


def _series(data: _Data) -> tuple[tuple[SampledSeries, ...], Sequence[str]]:
    """Return the series that can be read, and what is to be said of the others."""
    if data.result_type == "scalar":
        return _sampled(_Sampled(value=_SCALAR.decode(data.result)), {}), ()
    parts = _LIST.decode(data.result)
    shared: dict[bytes, array[float]] = {}
    refused: list[str] = []
    # One series after another: an answer may hold a hundred thousand, and as Python's numbers is ten times as large.
    series = tuple(_each(parts, shared, refused))
    if refused and len(refused) == len(parts):
        raise ValueError(refused[0])
    more = len(refused) - _MOST_NAMED
    return series, (*refused[:_MOST_NAMED], *((f"{more} more series cannot be read",) if more > 0 else ()))


def _each(
    parts: Iterable[msgspec.Raw], shared: dict[bytes, array[float]], refused: list[str]
) -> Iterable[SampledSeries]:
    for part in parts:
        samples = bytes(part).count(b"[")
        _refuse_more(samples, MOST_OF_A_SERIES + 1, f"{MOST_OF_A_SERIES:,} samples of one series")
        try:
            if len(bytes(part)) > _LABEL_BYTES + _SAMPLE_BYTES * samples:
                raise ValueError("its labels are too long")
            yield from _sampled(_SERIES.decode(part), shared)
        except _UNREADABLE:
            refused.append(f"a series cannot be read: {excerpt(bytes(part))}")


def _sampled(one: _Sampled, shared: dict[bytes, array[float]]) -> tuple[SampledSeries, ...]:
    pairs = [one.value] if one.value is not None else one.values
    if not pairs:
        return ()
    times = array("d", [at for at, _ in pairs])
    values = array("d", [measured(text) for _, text in pairs])
    labels = {k: names.as_exported(v) if k == "__name__" else v for k, v in one.metric.items()}
    # All series of a scrape have its time.
    return (SampledSeries(labels=labels, times=shared.setdefault(times.tobytes(), times), values=values),)


def joined(answers: Sequence[QueryResult]) -> QueryResult:
    """Return one answer of those to neighbouring spans, in time order; a sample that is in two of them counts once."""
    if len(answers) == 1:
        return answers[0]
    found: dict[tuple[tuple[str, str], ...], tuple[Mapping[str, str], array[float], array[float]]] = {}
    for answer in answers:
        for one in answer.series:
            key = tuple(sorted(one.labels.items()))
            _, times, values = found.setdefault(key, (one.labels, array("d"), array("d")))
            newer = bisect_right(one.times, times[-1]) if times else 0
            times.extend(one.times[newer:])
            values.extend(one.values[newer:])
    shared: dict[bytes, array[float]] = {}
    series = (
        SampledSeries(labels=labels, times=shared.setdefault(times.tobytes(), times), values=values)
        for labels, times, values in found.values()
    )
    warnings = dict.fromkeys(text for answer in answers for text in answer.warnings)
    return QueryResult(series=tuple(series), warnings=tuple(warnings))
