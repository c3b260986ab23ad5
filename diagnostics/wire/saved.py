"""What people save of a server, known by its content: a page of metrics, a JSON answer, a log, a load test's output.

A file's name says nothing here. What `curl -i` and `curl -v` write around a body, and what Windows writes before a
text, is cut off; what gzip packed is unpacked.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from enum import StrEnum

from diagnostics import names
from diagnostics.errors import MalformedBody
from diagnostics.wire.exposition import ExpositionReader, SeriesLayout
from diagnostics.wire.json_body import excerpt, json_value
from diagnostics.wire.records import BodyKind
from diagnostics.wire.servers.catalogue import instead_of, kinds_of, named, readable


class Other(StrEnum):
    """What is known and no scrape: a load test's output, and an answer that says nothing of time."""

    PERF_ANALYZER = "perf_analyzer"
    MODEL_METADATA = "model metadata"


SavedKind = BodyKind | Other
KNOWN = (
    "a metrics page, statistics, a configuration, a repository index, server metadata, a log, client records, NVML "
    "samples, traces, or perf_analyzer's output"
)
_HEADERS = re.compile(rb"^HTTP/[\d.]+ \d{3}[^\n]*\n(?:[^\r\n]+\r?\n){0,200}\r?\n", re.MULTILINE)
# What `curl -v` and its meter write to the error stream, which `2>&1` and `&>` put into the file, too.
_CURL = re.compile(
    rb"(?:(?:[*<>](?: [^\n]*)?|[{}] \[[^\n]*| +% Total [^\n]*| +Dload [^\n]*|[^\n]{0,999}--:--:--[^\n]*)\r?\n)+"
)
_GZIP = b"\x1f\x8b"
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_LOG = re.compile(
    rb"(?:^|[\s|\"]|\x1b\[[0-9;]{0,20}m)[IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d{1,9} \d{1,10} \S{1,300}\]|"
    rb"(?:^|[\s|\"])\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\S{0,40} \d{1,10} [IWEF] \S{1,300}\]",
    re.MULTILINE,
)
_PERF_TABLE = re.compile(
    rb"^Request (?:concurrency|rate): |^[^\S\n]*Avg request latency: \d+ usec", re.MULTILINE | re.IGNORECASE
)
_PERF_CSV = re.compile(rb"\A(?:Concurrency|Request Rate),Inferences/Second,", re.I)
_PBTXT = re.compile(rb"^[ \t]*(?:name|backend|platform|max_batch_size)[ \t]*:", re.MULTILINE)
# Prose may hold a line like a field; a configuration begins with one, after comments.
_FIELD_FIRST = re.compile(rb"(?:[ \t]*(?:#[^\n]*)?\r?\n)*+[ \t]*[a-z_]{1,64}[ \t]*[:{\[]")
_SHOWN_FIRST = 2**16
_SERIES = re.compile(rb"([a-zA-Z_:][a-zA-Z0-9_:]*+)(\{.*\})?[ \t]+\S+")
_TYPE = re.compile(rb"#[ \t]+TYPE[ \t]+(\S+)[ \t]+(\S+)")
_PART = re.compile(rb"_(?:sum|count|bucket)$")
_COUNTERS = frozenset(
    name.encode()
    for name in (
        names.REQUEST_SUCCESS,
        names.REQUEST_FAILURE,
        names.INFERENCE_COUNT,
        names.EXECUTION_COUNT,
        names.REQUEST_DURATION,
        names.QUEUE_DURATION,
        names.INPUT_DURATION,
        names.INFER_DURATION,
        names.OUTPUT_DURATION,
        names.CACHE_HITS,
    )
)
_COUNTED = frozenset({"count", "ns", "inference_count", "execution_count", "last_inference"})


def bare(data: bytes, most: int = 2**26) -> bytes:
    """Return a saved body as the server sent it: unpacked, UTF-8, without HTTP headers.

    Raises:
        MalformedBody: it is packed and damaged, or would be longer than so many bytes.

    """
    data = _unpacked(data, most)
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            data = data.decode(encoding, "replace").encode()
            break
    while before := _HEADERS.match(data) or _CURL.match(data):
        data = _unpacked(data[before.end() :], most)
    while (last := data.rstrip().rfind(b"\n") + 1) and data[last:].startswith(b"* "):
        data = data[:last]  # how the connection ended
    return data


def _unpacked(data: bytes, most: int) -> bytes:
    if not data.startswith(_GZIP):
        return data
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        found = unpacker.decompress(data, most)
    except zlib.error as error:
        raise MalformedBody(f"is packed with gzip and damaged: {error}") from None
    if unpacker.unconsumed_tail:
        raise MalformedBody(f"unpacks to more than {most >> 20} MiB")
    return found


def recognised(body: bytes) -> SavedKind:
    """Return what a body is.

    Raises:
        MalformedBody: it is nothing that is read here, or a server's error answer.

    """
    start = body.lstrip()[:1]
    if not start:
        raise MalformedBody("is empty")
    found = (_json(body) if start in (b"{", b"[") else None) or _text(body)
    if found is None:
        raise MalformedBody(f"is not recognised, it starts with {excerpt(body.lstrip())}", hint=f"diag reads {KNOWN}")
    return found


def _json(body: bytes) -> SavedKind | None:
    try:
        value = json_value(body)
    except ValueError:
        return BodyKind.CLIENT if _is_client(body.lstrip().split(b"\n", 1)[0]) else None
    if isinstance(value, list):
        return _of_list(value)
    return _of_object(value) if isinstance(value, dict) else None


def whole_answer(body: bytes) -> bytes:
    """Return statistics as the server answers them, where a part was cut out (`jq .model_stats`)."""
    value = json_value(body)
    if isinstance(value, dict) and not {"model_stats", "modelStats"} & value.keys():
        value = [value]
    return json.dumps({"model_stats": value}).encode() if isinstance(value, list) else body


def _is_row(value: object) -> bool:
    return isinstance(value, dict) and bool({"inference_stats", "inferenceStats"} & value.keys())


def _of_list(value: list[object]) -> SavedKind | None:
    first = value[0] if value else {}
    if not isinstance(first, dict):
        return None
    if _is_row(first):
        return BodyKind.STATISTICS
    if "iter" in first or "kvCacheStats" in first:
        return BodyKind.METRICS
    if "timestamps" in first or "trace_id" in first or "tensor" in first or "activity" in first:
        return BodyKind.TRACES
    return BodyKind.INDEX if not value or "name" in first else None


def _of_object(value: dict[str, object]) -> SavedKind | None:
    if isinstance(error := value.get("error"), str):
        raise MalformedBody(f"is an error that a server answered: {excerpt(error)}", hint="save its body anew")
    keys = {re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower() for key in value}
    named = "name" in keys
    wanted: tuple[tuple[bool, SavedKind], ...] = (
        ("model_stats" in keys or _is_row(value), BodyKind.STATISTICS),
        ("models" in keys, BodyKind.INDEX),
        ("gpus" in keys, BodyKind.NVML),
        ("resource_spans" in keys, BodyKind.TRACES),
        ({"t", "ms"} <= keys, BodyKind.CLIENT),
        (named and "extensions" in keys, BodyKind.SERVER),
        (named and "versions" in keys, Other.MODEL_METADATA),
        (
            bool(keys & {"max_batch_size", "instance_group", "ensemble_scheduling", "backend", "platform"}),
            BodyKind.CONFIG,
        ),
    )
    return next((kind for holds, kind in wanted if holds), None)


def _is_client(line: bytes) -> bool:
    try:
        value = json_value(line)
    except ValueError:
        return False
    return isinstance(value, dict) and {"t", "ms", "model"} <= value.keys()


def _text(body: bytes) -> SavedKind | None:
    if _PERF_CSV.search(body) or _PERF_TABLE.search(body):
        return Other.PERF_ANALYZER
    if _LOG.search(body[:_SHOWN_FIRST]):
        return BodyKind.LOG
    layout = _layout(whole_page(body))
    if layout is not None and layout.series:
        return _of_page(layout)
    shown = body[:_SHOWN_FIRST]
    return BodyKind.REPOSITORY if _FIELD_FIRST.match(shown) and _PBTXT.search(shown) else None


def _of_page(layout: SeriesLayout) -> BodyKind:
    """Return what a metrics page is.

    Raises:
        MalformedBody: it is of a server that is not read.

    """
    if any(name.startswith(names.DCGM_PREFIX) for name in layout.by_name):
        return BodyKind.DCGM
    if readable(layout):
        return BodyKind.METRICS
    if kinds_of(layout):
        raise MalformedBody(f"is the page of {named(layout)}, which is not read", hint=instead_of(layout))
    raise MalformedBody(f"is a metrics page of {named(layout)}", hint=f"diag reads {KNOWN}")


def _layout(body: bytes) -> SeriesLayout | None:
    try:
        return ExpositionReader().read(body).layout
    except MalformedBody:
        return None


def whole_page(body: bytes) -> bytes:
    """Return a page without a last line that was cut, which would make all of it unreadable."""
    whole, newline, last = body.rpartition(b"\n")
    return whole + newline if newline and last and _layout(last) is None else body


def pages_in(body: bytes) -> list[bytes]:
    """Return the pages that a file holds, one after another where several were appended (`curl … >> FILE`)."""
    first, newline, _ = body.partition(b"\n")
    mark = first + newline
    if not mark.startswith(b"# HELP ") or body.count(mark) < 2:
        return [body]
    return [mark + _HEADERS.sub(b"", page) for page in body.split(mark)[1:]]


def at_start(kind: BodyKind, body: bytes) -> bytes:
    """Return what a server said when it had counted nothing yet: a page or statistics with every counter at 0."""
    return _statistics_at_start(body) if kind is BodyKind.STATISTICS else b"\n".join(_page_at_start(body))


def _page_at_start(body: bytes) -> list[bytes]:
    kinds: dict[bytes, bytes] = {}
    lines = body.split(b"\n")
    for position, line in enumerate(lines):
        if stated := _TYPE.match(line):
            kinds[stated[1]] = stated[2]
        elif (series := _SERIES.match(line)) and _counts(series[1], kinds):
            lines[position] = series[1] + (series[2] or b"") + b" 0"
    return lines


def _counts(name: bytes, kinds: dict[bytes, bytes]) -> bool:
    if name in _COUNTERS or kinds.get(name) == b"counter":
        return True
    return kinds.get(_PART.sub(b"", name)) in (b"histogram", b"summary") and bool(_PART.search(name))


def _statistics_at_start(body: bytes) -> bytes:
    def zero(value: object) -> object:
        if isinstance(value, dict):
            return {
                key: 0 if key in _COUNTED and not isinstance(item, dict) else zero(item) for key, item in value.items()
            }
        return [zero(item) for item in value] if isinstance(value, list) else value

    return json.dumps(zero(json_value(body))).encode()
