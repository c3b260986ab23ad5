"""Reads the spans of a trace export: OTLP in JSON or protobuf, gzip around either, Triton's own trace files."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import excerpt
from diagnostics.wire.spans import Span, Take
from diagnostics.wire.spans_json import read_json
from diagnostics.wire.spans_protobuf import read_protobuf
from diagnostics.wire.spans_triton import read_triton

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

    Told apart by content: gzip, JSON (`{` an OTLP request in either spelling of its keys, `[` Triton's own file),
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
