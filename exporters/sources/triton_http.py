"""Triton's HTTP endpoints: the inference port's API and the metrics page. Bodies pass as they came."""

from __future__ import annotations

from urllib.parse import quote

from diagnostics.wire.records import BodyKind
from exporters.sources.http import HttpReader, Obstacle, ReadFailure
from exporters.sources.trtllm_serve import is_list

_EXPOSITION = "text/plain;version=0.0.4"


class ListInstead(ReadFailure):
    """A JSON list stands where a metrics page was sought: `trtllm-serve`'s iterations."""


class HttpApi:
    """The HTTP API of one server. `options` are how it is read: of a port that nobody named, without credentials.

    Args:
        reader: what reads.
        base: the URL in front of `/v2`, without a trailing slash.

    """

    def __init__(self, reader: HttpReader, base: str) -> None:
        self._reader, self.url, self.options = reader, base, reader.options

    def read(self, kind: BodyKind, name: str = "") -> bytes:
        """Return the JSON body of `kind` (statistics, index, server, or config of the model `name`).

        Raises:
            ReadFailure: there is none, or it is no JSON.

        """
        method, path, body = _request(kind, name)
        return _json(self._reader.read(method, f"{self.url}/v2{path}", body, accept="application/json"))

    def close(self) -> None:
        """Do nothing: no connection outlives its read."""


def read_metrics(reader: HttpReader, url: str) -> bytes:
    """Return the page at `url` if it may be a metrics page.

    Raises:
        ListInstead: it is a JSON list.
        ReadFailure: there is none, or it is an HTML page, JSON or binary.

    """
    body = reader.read("GET", url, accept=_EXPOSITION)
    if is_list(body):
        raise ListInstead("JSON, not a page of Prometheus metrics", Obstacle.ANSWER)
    # `{` opens no line of a Prometheus page: a JSON answer of some other program.
    if body.lstrip()[:1] in (b"<", b"{", b"[") or b"\0" in body[:4096]:
        raise ReadFailure(f"{_what(body)}, not a page of Prometheus metrics", Obstacle.ANSWER)
    return body


def _request(kind: BodyKind, name: str) -> tuple[str, str, bytes | None]:
    match kind:
        case BodyKind.STATISTICS:
            return "GET", "/models/stats", None
        case BodyKind.INDEX:
            return "POST", "/repository/index", b"{}"
        case BodyKind.CONFIG:
            return "GET", f"/models/{quote(name, safe='')}/config", None
        case _:
            return "GET", "", None


def _json(body: bytes) -> bytes:
    if body.lstrip()[:1] not in (b"{", b"["):
        raise ReadFailure(f"{_what(body)}, not Triton's JSON", Obstacle.ANSWER)
    return body


def _what(body: bytes) -> str:
    start = body.lstrip()[:1]
    if not start:
        return "an empty answer"
    if start == b"<":
        return "an HTML page"
    if start in (b"{", b"["):
        return "JSON"
    return "binary data" if b"\0" in body[:4096] else "other text"
