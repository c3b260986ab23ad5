"""What every source produces: scrapes, one body or one failure each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BodyKind(StrEnum):
    """What a body is. The value is the folder or file stem that holds it in a capture."""

    METRICS = "metrics"
    STATISTICS = "stats"
    INDEX = "index"
    CONFIG = "config"
    SERVER = "server"
    LOG = "log"
    HOST = "host"
    NVML = "nvml"
    DCGM = "dcgm"
    TRACES = "traces"
    REPOSITORY = "repository"
    CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """One body read from one endpoint of one server, or the reason why there is none.

    Attributes:
        server: name of the server; empty for kinds that belong to the machine (`nvml`, `dcgm`, `traces`, `client`).
        kind: what the body is.
        at: wall time of the read, Unix seconds. For labels and for joining servers, never for rates.
        mono: a steady clock's seconds, for deltas. In a capture it equals `at`.
        took: seconds the read took; None when replayed.
        body: the raw bytes; None when the read failed.
        error: why there is no body; None when there is one.
        name: the model of a `config` body, the path below `repository/` of a `repository` body, else empty.

    """

    server: str
    kind: BodyKind
    at: float
    mono: float
    took: float | None = None
    body: bytes | None = None
    error: str | None = None
    name: str = ""
