"""Units of every quantity, and the only formatter of a number for people.

Inside, times are seconds, sizes bytes and shares ratios between 0 and 1; other units exist only on the wire.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

_DURATIONS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
WHOLE = r"[0-9]{1,20}"
"""A whole number as people write it: an unsigned 64-bit one has 20 digits. Python reads digits of all scripts."""
DECIMAL = rf"{WHOLE}(?:\.[0-9]{{1,20}})?"
"""A number as people write it, without a sign or an exponent."""
_PART = re.compile(rf"({DECIMAL})(ms|s|m|h|d)")
_PLAIN = re.compile(DECIMAL)
_SIZE = re.compile(rf"({DECIMAL})\s*(B|[KMGT]i?B)")
_LONG = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
# More of a unit than these are shown in a larger one.
_MOST = 1000
_POWERS = {"B": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class Unit(Enum):
    """A unit; its value is the word that JSON output and metric names use."""

    SECONDS = "seconds"
    BYTES = "bytes"
    RATIO = "ratio"
    COUNT = "count"
    PER_SECOND = "per_second"
    WATTS = "watts"
    HERTZ = "hertz"
    CELSIUS = "celsius"

    def show(self, value: float | None) -> str:
        """Return `value` for a person, three significant digits: `169 ms`, `97 %`, `1.5 GiB`; `unknown` for None."""
        if value is None:
            return "unknown"
        return _FORMATS[self](value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A number that something is compared with, and why it is that number."""

    value: float
    unit: Unit
    because: str


# Beyond it a number has more digits than anybody reads, and than a float holds exactly.
_EXACT = 1e15


def _number(value: float) -> str:
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude >= _EXACT:
        return f"{value:.3g}"
    if magnitude >= 100:
        return f"{value:,.0f}"
    if magnitude >= 10:
        return f"{value:.3g}"
    return f"{value:.2g}"


def _seconds(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 120:
        return f"{_number(value / 60)} min"
    if magnitude >= 1:
        return f"{value:.3g} s"
    if magnitude >= 1e-3 or value == 0:
        return f"{_number(value * 1e3)} ms"
    return f"{_number(value * 1e6)} µs"


def _bytes(value: float) -> str:
    for factor, word in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if abs(value) >= factor:
            return f"{_number(value / factor)} {word}"
    return f"{value:.0f} B"


def _ratio(value: float) -> str:
    return f"{value * 100:.2g} %" if abs(value) < 0.1 or abs(value) >= _EXACT else f"{value * 100:.0f} %"


_FORMATS: Mapping[Unit, Callable[[float], str]] = {
    Unit.SECONDS: _seconds,
    Unit.BYTES: _bytes,
    Unit.RATIO: _ratio,
    Unit.COUNT: _number,
    Unit.PER_SECOND: lambda value: f"{_number(value)}/s",
    Unit.WATTS: lambda value: f"{_number(value)} W",
    Unit.HERTZ: lambda value: f"{_number(value / 1e6)} MHz",
    Unit.CELSIUS: lambda value: f"{_number(value) if abs(value) >= _EXACT else f'{value:.0f}'} °C",
}


def span(seconds: float) -> str:
    """Return a length of time that may be weeks, as `30 d`, `41.4 h`, `5 min` or `36.1 s`.

    It is shown in the largest unit in which it is whole, else in the largest of which it is two or more.
    """
    for size, word in _LONG:
        if size <= seconds < _MOST * size and abs(seconds / size - round(seconds / size)) < 1e-6:
            return f"{seconds / size:.0f} {word}"
    for size, word in _LONG:
        if seconds >= 2 * size:
            return f"{_number(seconds / size)} {word}"
    return Unit.SECONDS.show(seconds)


def parse_whole(text: str) -> int | None:
    """Return the whole number that `text` names, without a sign; None when it names none, or a longer one."""
    return int(text) if re.fullmatch(WHOLE, text) else None


def parse_duration(text: str) -> float | None:
    """Return the seconds that `text` names; None when it names none."""
    if _PLAIN.fullmatch(text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _DURATIONS[unit] for number, unit in parts)


def parse_size(text: str) -> int | None:
    """Return the bytes that `text` names, as in `512MB` or `10GiB`; None when it names none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    number, unit = match.groups()
    base = 1024 if unit.endswith("iB") else 1000
    return int(float(number) * base ** _POWERS[unit[0]])


LATEST_SECOND = 253_402_300_799.0
"""The last second of the year 9999, after which no calendar has a name for a time."""


def utc(at: float) -> datetime:
    """Return Unix seconds as a time in UTC; of what no calendar holds, 1970 or the end of 9999.

    A recording, a store and a clock may give any number.
    """
    return datetime.fromtimestamp(min(at, LATEST_SECOND) if at > 0 else 0.0, UTC)


def time_text(at: float) -> str:
    """Return Unix seconds as ISO 8601 in UTC, whole seconds."""
    return utc(at).strftime("%Y-%m-%dT%H:%M:%SZ")
