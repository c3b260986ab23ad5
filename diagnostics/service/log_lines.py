"""The service's log: one line an event on standard error, as logfmt or JSON.

Fields are named as in the service's metrics (`server`, `deployment`, `check`, `receiver`, `outcome`), so that lines and
series can be joined. Events have a name, as OpenTelemetry's logs do: https://opentelemetry.io/docs/specs/semconv/general/events/.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Literal

from diagnostics.render.plain import visible
from diagnostics.wire.redact import scrub_shapes

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
LINES_PER_MINUTE = 120
"""Lines of one event, or of one library, a minute: an outage of a fleet of 100 servers names each, and a loop, or
whatever a stranger sends to a library, cannot fill a disk (ours)."""
_OURS = "diagnostics."
_LONGEST_TEXT = 2_000
"""Characters of one field: names of models and reasons are others', and may be of any length (ours)."""
_LONGEST_STACK = 10_000
"""Characters of a stack, of which the end tells what failed (ours)."""
_BARE = re.compile(r"[^\s\"=]+")


class LoggedEvent(StrEnum):
    """What the log names, under `event.name`."""

    INCIDENT_OPENED = "diag.incident.opened"
    INCIDENT_CHANGED = "diag.incident.changed"
    INCIDENT_ENDED = "diag.incident.ended"
    SERVER_LOST = "diag.server.lost"
    SERVER_FOUND = "diag.server.found"
    NOTIFICATION_SENT = "diag.notification.sent"
    NOTIFICATION_DROPPED = "diag.notification.dropped"
    RECEIVER_FAILED = "diag.receiver.failed"
    RECEIVER_RECOVERED = "diag.receiver.recovered"
    EVALUATION_LATE = "diag.evaluation.late"
    EVALUATION_RECOVERED = "diag.evaluation.recovered"
    WRITTEN = "diag.written"
    OBSERVED = "diag.observed"

    @property
    def level(self) -> int:
        """WARNING for what an operator may have to repair, INFO for the others."""
        repaired = (
            LoggedEvent.SERVER_LOST,
            LoggedEvent.NOTIFICATION_DROPPED,
            LoggedEvent.RECEIVER_FAILED,
            LoggedEvent.EVALUATION_LATE,
        )
        return logging.WARNING if self in repaired else logging.INFO


Field = str | float | None


def log_event(log: logging.Logger, event: LoggedEvent, message: str, **fields: Field) -> None:
    """Log an event with its fields; those that are None or empty are left out."""
    given = {name: value for name, value in fields.items() if value is not None and value != ""}
    log.log(event.level, "%s", message, extra={"event": event, "fields": given})


class EventRate(logging.Filter):
    """Lets `LINES_PER_MINUTE` of each event and library through; the next line says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock, self._lock = clock, threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}
        self._suppressed = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        event = getattr(record, "event", None if record.name.startswith(_OURS) else record.name)
        with self._lock:
            if event is not None and not self._allowed(event):
                self._suppressed += 1
                return False
            if self._suppressed:
                record.suppressed, self._suppressed = self._suppressed, 0
        return True

    def _allowed(self, event: str) -> bool:
        now = self._clock()
        left, since = self._left.get(event, (float(LINES_PER_MINUTE), now))
        left = min(left + (now - since) * LINES_PER_MINUTE / 60, LINES_PER_MINUTE)
        self._left[event] = (left - 1 if left >= 1 else left, now)
        return left >= 1


class _Line(logging.Formatter):
    def _fields(self, record: logging.LogRecord) -> dict[str, str | float]:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, str | float] = {
            "ts": f"{at}.{int(record.msecs):03d}Z",
            "level": {"WARNING": "warn"}.get(record.levelname, record.levelname.lower()),
            "component": record.name.removeprefix(_OURS),
            "msg": _beginning(record.getMessage()),
        }
        event = getattr(record, "event", None)
        if event is not None:
            fields["event.name"] = event.value
        for name, value in getattr(record, "fields", {}).items():
            fields[name] = _beginning(value) if isinstance(value, str) else value
        if suppressed := getattr(record, "suppressed", 0):
            fields["suppressed"] = suppressed
        if record.exc_info and record.exc_info[1] is not None:
            # The whole stack, on the one line: what reads logs splits them at line ends.
            fields["err"] = _end(self.formatException(record.exc_info))
        return fields


class Logfmt(_Line):
    """`key=value` pairs, quoted where needed."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        return " ".join(f"{key}={_quoted(value)}" for key, value in self._fields(record).items())


class JsonLine(_Line):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        return visible(json.dumps(self._fields(record), ensure_ascii=False))


# Half of what is searched for secrets is left: of one that was cut nothing would show that it is a secret.
def _beginning(text: str) -> str:
    return scrub_shapes(text[: 2 * _LONGEST_TEXT])[:_LONGEST_TEXT]


def _end(text: str) -> str:
    return scrub_shapes(text[-2 * _LONGEST_STACK :])[-_LONGEST_STACK:]


def log_to_stderr(level: str, form: Literal["logfmt", "json"]) -> None:
    """Send every record of `level` (a key of LEVELS) or worse to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if form == "json" else Logfmt())
    handler.addFilter(EventRate())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])


def _quoted(value: str | float) -> str:
    text = str(value)
    bare = text.isprintable() and _BARE.fullmatch(text)
    return text if bare else visible(json.dumps(text, ensure_ascii=False))
