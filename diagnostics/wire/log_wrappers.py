"""What collectors of logs put around a line: Compose, kubectl, CRI, Docker's json-file, and the JSON of clouds.

Each layer is taken off in turn, so that layers may be nested. The time that a wrapper names is kept: it knows the
year, which Triton's classic format lacks. Parts of a line that CRI split (`P` … `F`) are joined per stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from diagnostics.wire.json_body import json_value

# Events of models are short lines; what is longer is a request's body or no log.
LONGEST_LINE = 65_536
MOST_LAYERS = 4
_BARE = re.compile(r"[IWEF]\d{4} ")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
_STAMP = r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2}))"
_CRI = re.compile(rf"^{_STAMP} (stdout|stderr) ([PF]) ?(.*)$")
_KUBECTL = re.compile(rf"^{_STAMP} (?=[IWEF]\d{{4}} |\d{{4}}-\d{{2}}-\d{{2}}T)(.*)$")
_NAMED = re.compile(r"^(?:\[pod/[^\]\s]{1,512}\] |[\w.-]{1,128} {1,64}\| ?)(.*)$")
_TEXTS = ("textPayload", "jsonPayload", "message", "log", "line")
# Unix seconds of the year 2096: a larger number counts milliseconds, or is no time.
_LATEST = 4_000_000_000
_TIMES = ("timestamp", "time")


def unwrapped(lines: Iterable[str]) -> Iterator[tuple[str, float | None]]:
    """Yield each line as the server wrote it, and the Unix seconds its wrapper names; None where it names none."""
    partial: dict[str, str] = {}
    for line in lines:
        if _BARE.match(line):  # nearly always
            yield line[:LONGEST_LINE], None
            continue
        text, at = _COLOUR.sub("", line[:LONGEST_LINE]), None
        for _ in range(MOST_LAYERS):
            cri = _CRI.match(text)
            if cri is not None:
                stream, whole = cri[2], (partial.pop(cri[2], "") + cri[4])[:LONGEST_LINE]
                if cri[3] == "P":
                    partial[stream] = whole
                    text = ""
                    break
                text, at = whole, _seconds(cri[1])
                continue
            inner = _layer(text)
            if inner is None:
                break
            text, at = inner[0], at if inner[1] is None else inner[1]
        if text:
            yield text, at


def _layer(text: str) -> tuple[str, float | None] | None:
    if text.startswith("{"):
        return _json(text)
    stamped = _KUBECTL.match(text)
    if stamped is not None:
        return stamped[2], _seconds(stamped[1])
    named = _NAMED.match(text)
    return (named[1], None) if named else None


def _json(text: str) -> tuple[str, float | None] | None:
    try:
        found = json_value(text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    inner = next((found[key] for key in _TEXTS if key in found), None)
    inner = inner.get("message") if isinstance(inner, dict) else inner
    if not isinstance(inner, str):
        return None
    return _COLOUR.sub("", inner).rstrip("\n"), _seconds(next((found[key] for key in _TIMES if key in found), None))


def _seconds(stamp: object) -> float | None:
    """Return Unix seconds of ISO 8601 with an offset, or of seconds or milliseconds; None where it is neither."""
    if isinstance(stamp, int | float):
        return next((stamp / unit for unit in (1, 1000) if 0 < stamp < _LATEST * unit), None)
    try:
        moment = datetime.fromisoformat(stamp) if isinstance(stamp, str) else None
    except ValueError:
        return None
    return _seconds(moment.timestamp()) if moment is not None and moment.tzinfo is not None else None
