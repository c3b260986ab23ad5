"""What makes a request a good one: the limits whose keeping goodput counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from diagnostics.bench.answer import RequestResult
from diagnostics.errors import UsageError
from diagnostics.units import Unit, parse_duration

_FORM = re.compile(r"\s*(\w+)\s*<=?\s*(\S+)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Seconds that each request may take; None is no limit.

    Goodput is the rate of requests that keep all limits (DistServe, OSDI 2024).
    """

    latency: float | None = None
    ttft: float | None = None
    tpot: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for _, limit in self.pairs())

    def pairs(self) -> tuple[tuple[str, float | None], ...]:
        """Return each limit's name and seconds."""
        return tuple((field.name, getattr(self, field.name)) for field in fields(self))

    def kept(self, answer: RequestResult) -> bool | None:
        """Return whether a request keeps every limit; a failed one does not; None where that cannot be known."""
        if not answer.ok:
            return False
        held = [self._held(name, limit, answer) for name, limit in self.pairs() if limit is not None]
        return False if False in held else None if None in held else True

    def _held(self, name: str, limit: float, answer: RequestResult) -> bool | None:
        value: float | None = getattr(answer, name)
        if value is None and name == "tpot" and answer.tokens is not None and answer.tokens < 2:
            return True  # there is no token after the first
        return None if value is None else value <= limit

    def __str__(self) -> str:
        return ", ".join(f"{name} ≤ {Unit.SECONDS.show(limit)}" for name, limit in self.pairs() if limit is not None)


def parse_limits(texts: Sequence[str]) -> RequestLimits:
    """Return the limits that texts such as `latency < 500ms`, `ttft<200ms` and `tpot<30ms` name.

    Raises:
        UsageError: one cannot be read, or names what is no limit.

    """
    names = [field.name for field in fields(RequestLimits)]
    found: dict[str, float] = {}
    for text in texts:
        match = _FORM.fullmatch(text)
        seconds = parse_duration(match[2]) if match else None
        if match is None or match[1] not in names or not seconds:
            hint = f"write {', '.join(names)}, as in 'latency < 500ms'"
            raise UsageError(f"cannot read the limit {text!r}", where="--slo", hint=hint)
        if match[1] in found:
            raise UsageError(f"{match[1]} is limited twice", where="--slo", hint="give each limit once")
        found[match[1]] = seconds
    return RequestLimits(**found)
