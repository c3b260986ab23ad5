"""Spans of what the service itself does. Nothing is imported, and nothing made, where nobody wants them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Protocol
from urllib.parse import urlsplit

Value = str | int | float
_NONE: Mapping[str, Value] = {}
_NOBODY: Mapping[str, str] = {}


class SpanRole(Enum):
    """What a span is of, by the names of OpenTelemetry."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


class OwnSpan(Protocol):
    """Something that is under way."""

    def note(self, name: str, value: Value) -> None:
        """Set an attribute, by the names of the semantic conventions where they have one."""
        ...

    def call(self, name: str) -> None:
        """Give it another name, once that is known."""
        ...

    def failed(self, kind: str, reason: str = "") -> None:
        """Log that it failed: what kind of failure, as `error.type` has it, and a line without secrets."""
        ...


class Tracer(Protocol):
    """Makes spans.

    Attributes:
        on: whether anyone wants them.

    """

    on: bool

    def span(
        self,
        name: str,
        attributes: Mapping[str, Value] = _NONE,
        *,
        kind: SpanRole = SpanRole.INTERNAL,
        caller: Mapping[str, str] = _NOBODY,
    ) -> AbstractContextManager[OwnSpan]:
        """Return a span that lasts as long as the context; `caller` is the headers of the request that it answers."""
        ...


class _Nothing:
    def note(self, name: str, value: Value) -> None: ...
    def call(self, name: str) -> None: ...
    def failed(self, kind: str, reason: str = "") -> None: ...


class _Off:
    on = False

    def span(
        self,
        name: str,  # noqa: ARG002 - nobody wants it
        attributes: Mapping[str, Value] = _NONE,  # noqa: ARG002
        *,
        kind: SpanRole = SpanRole.INTERNAL,  # noqa: ARG002
        caller: Mapping[str, str] = _NOBODY,  # noqa: ARG002
    ) -> AbstractContextManager[OwnSpan]:
        return _UNSEEN


_UNSEEN: AbstractContextManager[OwnSpan] = nullcontext(_Nothing())
OFF: Tracer = _Off()


def server_of(url: str) -> dict[str, Value]:
    """Return the attributes that name the server of a URL; none for what is no URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return {}
    if not parts.hostname:
        return {}
    default = {"https": 443, "http": 80}.get(parts.scheme)
    found = port or default
    return {"server.address": parts.hostname, **({"server.port": found} if found else {})}
