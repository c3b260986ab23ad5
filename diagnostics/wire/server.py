"""Who answers, and what it holds: `GET v2` and `POST v2/repository/index`."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.errors import MalformedBody
from diagnostics.wire.entries import Listed, readable
from diagnostics.wire.json_body import JsonFields, decode, decode_object, excerpt


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
        reason: why it is not ready; empty when there is none.

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
        reason=fields.text("reason"),
    )
