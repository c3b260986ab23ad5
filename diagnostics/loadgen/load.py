"""Load on a server: what is sent, when requests are due, and what the client saw."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnostics.errors import UsageError


class Pattern(StrEnum):
    """How requests follow each other."""

    POISSON = "poisson"
    CLOSED = "closed"
    BURST = "burst"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProfile:
    """What to send, how often and for how long.

    Attributes:
        model: the model or ensemble that is asked.
        pattern: `poisson` (open loop), `burst` (open loop, `burst` requests at once) or `closed` (each of
            `concurrency` clients sends when its last request was answered).
        rate: requests per second of the open-loop patterns.
        concurrency: clients of the closed loop.
        burst: requests per burst; bursts come evenly, so that the mean rate is `rate`.
        duration: seconds during which requests become due.
        max_tokens: tokens that each request asks for.
        seed: equal seeds give equal schedules and prompts.

    Raises:
        UsageError: the numbers do not describe a load.

    """

    model: str = "ensemble"
    pattern: Pattern = Pattern.POISSON
    rate: float = 0.0
    concurrency: int = 0
    burst: int = 1
    duration: float
    max_tokens: int = 24
    seed: int = 1

    def __post_init__(self) -> None:
        closed = self.pattern is Pattern.CLOSED
        wanted, value = ("concurrency", self.concurrency) if closed else ("rate", self.rate)
        for name, number in ((wanted, value), ("duration", self.duration), ("burst", self.burst)):
            if not (math.isfinite(number) and number > 0):
                raise UsageError(f"a {self.pattern} load needs a {name} above 0, not {number:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """What the client saw of one request; the fields of a capture's `client.jsonl`.

    Attributes:
        t: Unix seconds at which it was sent.
        model: what was asked.
        ms: milliseconds from sending to the answer's last byte.
        ok: whether the answer was a result.
        code: the HTTP status; 0 if there was no answer.
        delay_ms: milliseconds from the time it was due to the time it was sent; 0 in a closed loop.

    """

    t: float
    model: str
    ms: float
    ok: bool
    code: int
    delay_ms: float = 0.0

    def line(self) -> str:
        """Return the record as a line of `client.jsonl`, without its end of line."""
        record = {"t": self.t, "model": self.model, "ms": round(self.ms, 3), "ok": self.ok, "code": self.code}
        return json.dumps(record | {"delay_ms": round(self.delay_ms, 3)})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSummary:
    """Client-side latencies of a run, in milliseconds of successful requests; None if there is none.

    Percentiles are order statistics (nearest rank). `delay_p99_ms` shows how exact the generator was.
    """

    requests: int
    errors: int
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    delay_p99_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """How far a run is: seconds since its start, requests answered, and how many of them failed."""

    elapsed: float
    answered: int
    errors: int


def schedule(profile: LoadProfile) -> tuple[float, ...]:
    """Return the seconds after the start at which the requests of an open-loop profile are due, ascending.

    A Poisson process is drawn given its number of events, `rate × duration`: sorted uniform times
    (Kingman, Poisson Processes, 1993, §2.4). The mean rate then is the stated one in short runs, too.
    The closed loop has no schedule: the result is empty.
    """
    count = round(profile.rate * profile.duration)
    match profile.pattern:
        case Pattern.CLOSED:
            return ()
        case Pattern.BURST:
            return tuple(index // profile.burst * profile.burst / profile.rate for index in range(count))
        case Pattern.POISSON:
            chance = random.Random(profile.seed)  # noqa: S311
            return tuple(sorted(chance.uniform(0.0, profile.duration) for _ in range(count)))


def summarise(records: Iterable[SentRequest]) -> LoadSummary:
    """Return count, errors and latencies of the records."""
    everything = list(records)
    latencies = sorted(record.ms for record in everything if record.ok)
    return LoadSummary(
        requests=len(everything),
        errors=len(everything) - len(latencies),
        mean_ms=sum(latencies) / len(latencies) if latencies else None,
        p50_ms=_percentile(latencies, 0.5),
        p95_ms=_percentile(latencies, 0.95),
        p99_ms=_percentile(latencies, 0.99),
        delay_p99_ms=_percentile(sorted(record.delay_ms for record in everything), 0.99),
    )


def _percentile(ascending: Sequence[float], share: float) -> float | None:
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)] if ascending else None
