"""The service's log: one line an event on standard error, as logfmt or JSON."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Literal

from diagnostics.wire.secret_shapes import scrub_shapes

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_BARE = re.compile(r"[^\s\"=]+")


class _Line(logging.Formatter):
    def _fields(self, record: logging.LogRecord) -> dict[str, str]:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "ts": f"{at}.{int(record.msecs):03d}Z",
            "level": {"WARNING": "warn"}.get(record.levelname, record.levelname.lower()),
            "component": record.name.removeprefix("diagnostics."),
            "msg": scrub_shapes(record.getMessage()),
        }
        if record.exc_info and record.exc_info[1] is not None:
            # The whole stack, on the one line: what reads logs splits them at line ends.
            fields["err"] = scrub_shapes(self.formatException(record.exc_info))
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
        return json.dumps(self._fields(record), ensure_ascii=False)


def log_to_stderr(level: str, form: Literal["logfmt", "json"]) -> None:
    """Send every record of `level` (a key of LEVELS) or worse to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLine() if form == "json" else Logfmt())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])


def _quoted(value: str) -> str:
    return value if _BARE.fullmatch(value) else json.dumps(value, ensure_ascii=False)
