"""Triton's log, read for what happened to models: loads, failed loads, unloads.

Two formats exist: `I0819 17:23:47.123456 <pid> file.cc:line] "message"` (older servers: without quotes; no year), and
ISO 8601 with `--log-format=ISO8601`. Lines of neither, such as tables and what models print, are passed over. Triton
writes both in UTC, whatever its machine's time zone (common, `logging.cc`: `gmtime_r`; ISO 8601 ends with Z): a time
without an offset that is not in its own format is somebody else's rewriting.
Markers: Triton core, `model_lifecycle.cc`, `model_repository_manager.cc`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from diagnostics.units import utc
from diagnostics.wire.log_wrappers import unwrapped
from diagnostics.wire.redact import scrub


class LogKind(StrEnum):
    """What a line says happened."""

    LOADING = "loading"
    LOADED = "loaded"
    FAILED = "failed"
    UNLOADED = "unloaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One event of a model. `at` is Unix seconds; `version` is empty where the line names none.

    `zoned` says whether it is certain from which time zone `at` is.
    """

    at: float
    kind: LogKind
    model: str
    version: str = ""
    reason: str = ""
    zoned: bool = True


MOST_EVENTS = 20_000
"""The newest of a server: its log can hold gigabytes of request lines, of models' events few (ours)."""
LONGEST_REASON = 400
_CLASSIC = re.compile(r"^[IWEF](\d{2})(\d{2}) (\d{2}):(\d{2}):(\d{2})\.(\d{1,9}) \d+ [^\]]{1,200}\] (.*)$")
_ISO = re.compile(r"^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.\d+)?(Z|[+-]\d{2}:?\d{2})? [^\]]{1,200}\] (.*)$")
# A row of the table that is logged once at the start (core, `server.cc`, `PrintBackendAndModelInfo`).
_OPTION = re.compile(r"^[^|]{0,200}\|\s*(rate_limit|model_control_mode)\s*\|\s*([A-Z_]+)\s*\|")
_NAME = r"([^:'\s]{1,256})"
_MARKERS = (
    (LogKind.LOADING, re.compile(rf"^loading: {_NAME}:(\d+)$")),
    (LogKind.LOADED, re.compile(rf"^successfully loaded '{_NAME}'(?: version (\d+))?$")),
    (LogKind.FAILED, re.compile(rf"^failed to load '{_NAME}' version (\d+): (.*)$", re.DOTALL)),
    # What is refused before there is a version of it: a folder that cannot be read, or that holds none (tried on 2.51).
    (LogKind.FAILED, re.compile(rf"^Poll failed for model directory '{_NAME}'(): (.*)$", re.DOTALL)),
    (LogKind.FAILED, re.compile(rf"^failed to (?:load|poll) model '{_NAME}'(): (.*)$", re.DOTALL)),
    (LogKind.UNLOADED, re.compile(rf"^successfully unloaded '{_NAME}' version (\d+)$")),
)


_TELLING = re.compile(r"\]\s+\"?(?:loading: |successfully |failed to |Poll failed)")
# The same in any wrapper, and the lines that may be a part of one: what CRI splits is marked so.
_PERHAPS_TELLING = re.compile(rb"loading: |successfully |failed to |Poll failed| std(?:out|err) [PF]")
_PERHAPS_OPTION = re.compile(rb"rate_limit|model_control_mode")


def _lines(body: bytes, holding: re.Pattern[bytes]) -> Iterator[str]:
    """Yield the lines that hold a pattern: of gigabytes of request lines, few do."""
    end = 0
    for found in holding.finditer(body):
        if found.start() >= end:
            start, end = body.rfind(b"\n", end, found.start()) + 1, body.find(b"\n", found.end())
            end = len(body) if end < 0 else end
            yield from body[start:end].decode("utf-8", "replace").splitlines()


def parse_log(body: bytes, near: float) -> tuple[LogEvent, ...]:
    """Return the events of a server's log in the order of its lines.

    Args:
        body: the log's text.
        near: Unix seconds within half a year of the lines: the classic format names no year.

    """
    found: list[LogEvent] = []
    lines = unwrapped(_lines(body, _PERHAPS_TELLING))
    for line, at in deque((one for one in lines if _TELLING.search(one[0])), MOST_EVENTS):
        event = _event(line, near if at is None else at)
        if event is not None and at is not None and not event.zoned:
            event = replace(event, at=at, zoned=True)
        if event is not None:
            found.append(event)
    return tuple(found)


def options_of(body: bytes) -> dict[str, str]:
    """Return what a server's log says of its options, in the table that it begins with.

    `rate_limit` is `OFF` or another mode, `model_control_mode` is `MODE_NONE`, `MODE_POLL` or `MODE_EXPLICIT`. What the
    log does not say is left out.
    """
    rows = [_OPTION.match(line) for line, _ in unwrapped(_lines(body, _PERHAPS_OPTION))]
    return {row[1]: row[2] for row in rows if row}


def _event(line: str, near: float) -> LogEvent | None:
    stamped = _classic(line, near) or _iso(line)
    if stamped is None:
        return None
    at, message, zoned = stamped
    text = message.strip().strip('"')
    for kind, marker in _MARKERS:
        match = marker.match(text)
        if match:
            model, version, *rest = match.groups()
            reason = scrub(rest[0][:LONGEST_REASON]) if rest else ""
            return LogEvent(at=at, kind=kind, model=model, version=version or "", reason=reason, zoned=zoned)
    return None


def _classic(line: str, near: float) -> tuple[float, str, bool] | None:
    match = _CLASSIC.match(line)
    if match is None:
        return None
    month, day, hour, minute, second, fraction, message = match.groups()
    reference = utc(near)
    candidates = []
    for year in (reference.year - 1, reference.year, reference.year + 1):
        try:
            moment = datetime(year, int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
        except ValueError:
            continue
        candidates.append(moment + timedelta(seconds=float(f"0.{fraction}")))
    if not candidates:
        return None
    return min((moment.timestamp() for moment in candidates), key=lambda at: abs(at - near)), message, True


def _iso(line: str) -> tuple[float, str, bool] | None:
    match = _ISO.match(line)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1] + (match[2] or "Z"))
    except ValueError:
        return None
    return moment.timestamp(), match[3], match[2] is not None
