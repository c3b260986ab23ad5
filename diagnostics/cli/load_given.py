"""`--rate 2x`, `--rate 40/s`: how much shall arrive."""

from __future__ import annotations

import re

from diagnostics.errors import UsageError

_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(x|/s)\s*")
_HINT = "write it like 2x or 40/s"


def rate_factor(text: str, measured: float | None, where: str = "--rate") -> float:
    """Return by what the arrivals are multiplied.

    Args:
        text: a multiple of what arrives (`2x`), or requests per second to the entry (`40/s`).
        measured: requests per second that arrive at the entry; None where that is unknown.
        where: the option that is to be named in an error.

    Raises:
        UsageError: the text is neither, or a rate was given and none was measured.

    """
    match = _RATE.fullmatch(text)
    if match is None or not float(match[1]) > 0:
        raise UsageError(f"cannot read the rate {text!r}", where=where, hint=_HINT)
    number, unit = float(match[1]), match[2]
    if unit == "x":
        return number
    if not measured:
        raise UsageError("no rate was measured that could be scaled to it", where=where, hint="look at it under load")
    return number / measured
