"""Triton's own trace files (`mode=triton`): one array of objects in no order, which a killed server leaves open."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import excerpt, number
from diagnostics.wire.spans import MARKS, Span, Take, first_marks, read_json, valid_times

SERVICE = "triton-inference-server"
_SEPARATORS = ", \t\r\n["
_SERVER_KIND = 2
MOST_OBJECTS, MOST_EVENTS = 1_000_000, 2_000_000
"""Of one file, some 200,000 visits of requests to models. All of it is held until the last of them is read."""
_MOST_EVENTS_OF_ONE = 64
"""Triton writes a dozen for each visit."""
# Of what cannot be read, how often as much as the file is long may be read over again.
_MOST_WASTED = 2
_SMALL = 1_000_000
# Of objects are made that take fifty times their two bytes: counted before. An event has 5 parts in 40 bytes.
_FEW_PARTS, _BYTES_OF_A_PART = 1000, 5
# September 2001 in Unix nanoseconds, and 31 years of uptime.
_UNIX_NS = 10**18


@dataclass(slots=True)
class _Trace:
    """What the objects of one id say together."""

    model: str = ""
    version: str = ""
    parent: int = 0
    events: list[tuple[str, int]] = field(default_factory=list)


def read_triton(body: bytes, take: Take, until: float | None = None) -> int:
    """Give a span per traced request of a model; its marks hold the computation's events too.

    Returns how many objects could not be read: they are passed over up to the next one. Ids are Triton's numbers, of
    one server run: the trace of a request is the number of its outermost request.

    Raises:
        MalformedBody: the file holds more than is read, or is damaged in very many places (what came before is given),
            or is little but brackets and commas.

    """
    if sum(map(body.count, (b"{", b"[", b","))) > _FEW_PARTS + len(body) // _BYTES_OF_A_PART:
        raise MalformedBody("the trace file holds more empty objects than events")
    corrupt, objects, events, traces = 0, 0, 0, dict[int, _Trace]()
    rest = ""
    try:
        for item in _objects(body.decode("utf-8", "replace")):
            objects += 1
            if objects > MOST_OBJECTS or events > MOST_EVENTS:
                rest = f"the trace file holds more than {objects - 1:,} objects with {events:,} events"
                break
            try:
                events += _take(item, traces)
            except (ValueError, TypeError, AttributeError):
                corrupt += 1
    except _TooDamaged:
        rest = "the trace file is damaged in very many places"
    _set_clock(traces, until)
    outermost = _outermost(traces)
    for identity, trace in traces.items():
        span = _span(identity, trace, outermost[identity])
        if span is None:
            corrupt += 1
        else:
            take(span)
    if rest:
        raise MalformedBody(f"{rest}, of which the first {len(traces):,} requests are used")
    return corrupt


class _TooDamaged(Exception):
    """More has been read in vain than the file is long."""


def _set_clock(traces: Mapping[int, _Trace], until: float | None) -> None:
    """Move instants that count from the host's boot so that the newest is `until`; durations stay exact."""
    newest = max((at for trace in traces.values() for _, at in trace.events), default=0)
    if until is None or newest >= _UNIX_NS:
        return
    shift = round(until * 1e9) - newest
    for trace in traces.values():
        trace.events = [(name, at + shift) for name, at in trace.events]


def _objects(text: str) -> Iterator[Mapping[str, Any] | None]:
    """Yield the array's objects, None for what is no object or cannot be read.

    Raises:
        _TooDamaged: after each piece that cannot be read the next one is sought, and that took too long.

    """
    decoder, at, wasted = json.JSONDecoder(), 0, 0
    while True:
        while at < len(text) and text[at] in _SEPARATORS:
            at += 1
        if at >= len(text) or text[at] == "]":
            return
        try:
            item, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            yield None
            # An error counts the lines before it. Of values nested without end it does not say how far it came.
            read_to, counted = (
                (error.pos, error.pos // 64) if isinstance(error, json.JSONDecodeError) else (len(text), 0)
            )
            wasted += read_to - at + counted
            if wasted > _MOST_WASTED * max(len(text), _SMALL):
                raise _TooDamaged from None
            at = text.find('{"id"', at + 1)
            if at < 0:
                return
            continue
        yield item if isinstance(item, dict) else None


def _take(item: Mapping[str, Any] | None, traces: dict[int, _Trace]) -> int:
    """Add what an object says to the trace of its id; return how many events that are."""
    if item is None:
        raise ValueError("no object")
    trace = traces.setdefault(int(item.get("id", "none")), _Trace())
    if "model_name" in item:
        trace.model, trace.version = str(item["model_name"]), str(item.get("model_version", ""))
        trace.parent = int(item.get("parent_id") or 0)
    before = len(trace.events)
    for event in item.get("timestamps") or ():
        name, at = MARKS.get(str(event.get("name"))), number(event.get("ns"))
        if name is not None and at is not None and len(trace.events) < _MOST_EVENTS_OF_ONE:
            trace.events.append((name, int(event["ns"])))
    return len(trace.events) - before


def _span(identity: int, trace: _Trace, outermost: int) -> Span | None:
    times = [at for _, at in trace.events]
    if not trace.model or not times or not valid_times(min(times), max(times)):
        return None
    known = dict(trace.events)
    start, end = known.get("REQUEST_START", min(times)), known.get("REQUEST_END", max(times))
    return Span(
        str(outermost),
        str(identity),
        str(trace.parent) if trace.parent else "",
        trace.model,
        min(start, end),
        max(start, end),
        SERVICE,
        _SERVER_KIND,
        trace.model,
        trace.version,
        trace.parent != 0,
        first_marks(trace.events, min(times)),
    )


def _outermost(traces: Mapping[int, _Trace]) -> Mapping[int, int]:
    """Return the outermost request of each one, in one walk over all: they may be a chain as long as the file."""
    found: dict[int, int] = {}
    for identity in traces:
        way: dict[int, None] = {}
        while identity not in found and identity not in way and traces[identity].parent in traces:
            way[identity] = None
            identity = traces[identity].parent
        last = found.get(identity, identity)
        found[identity] = last
        found.update(dict.fromkeys(way, last))
    return found


MAX_UNPACKED_BYTES = 512 * 2**20
"""A million spans of Triton's exporter; a compressed body that grows beyond is an attack on memory."""
_GZIP = b"\x1f\x8b"
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class SpanBatch:
    """What one body held: its spans, and how many were there that could not be read."""

    spans: list[Span] = field(default_factory=list)
    corrupt: int = 0


def decode_spans(body: bytes) -> SpanBatch:
    """Return the spans of one export body or trace file, and how many could not be read.

    Raises:
        MalformedBody: as `read_spans`.

    """
    batch = SpanBatch()
    batch.corrupt = read_spans(body, batch.spans.append)
    return batch


def read_spans(body: bytes, take: Take, until: float | None = None) -> int:
    """Give each span of one export body or trace file to `take`; return how many could not be read.

    `until` is when the body was read, Unix seconds: Triton's own files count from the host's boot, so their newest
    instant is taken to be then.

    Recognised by content: gzip, JSON (`{` an OTLP request in either spelling of its keys, `[` Triton's own file),
    protobuf.

    Raises:
        MalformedBody: it is none of these, is cut off, or unpacks to more than 512 MiB.

    """
    plain = _unpacked(body) if body.startswith(_GZIP) else body
    first = plain[:64].removeprefix(_BOM).lstrip(_SPACE)[:1]
    if first == b"{":
        return read_json(plain.removeprefix(_BOM), take)
    if first == b"[":
        return read_triton(plain.removeprefix(_BOM), take, until)
    if first == b"<":
        raise MalformedBody(f"the trace export is a page of HTML or XML: {excerpt(plain)}")
    from diagnostics.wire.spans_protobuf import read_protobuf  # few captures hold it, and its library takes 12 ms

    return read_protobuf(plain, take)


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = unpacker.decompress(body, MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise MalformedBody(f"the trace export is damaged gzip: {error}") from error
    if unpacker.unconsumed_tail:
        raise MalformedBody(f"the trace export unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB")
    if not unpacker.eof:
        raise MalformedBody("the trace export is gzip that is cut off")
    return plain
