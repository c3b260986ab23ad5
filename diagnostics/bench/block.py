"""What the client saw of one request."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from diagnostics.errors import UsageError
from diagnostics.units import Unit, parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestResult:
    """One request and its answer; times are seconds of one steady clock.

    Attributes:
        due: when it was to be sent. Where requests have no schedule (closed loop) it is `sent`.
        sent: when it was sent.
        first: when the first response came; None if none did, or if responses do not come one by one.
        end: when the last byte came, or the failure.
        ok: whether the answer is a result.
        code: HTTP status; of gRPC, 200 for a result and 500 for a refusal; 0 where no answer came.
        tokens: tokens of the answer; None where nothing counted them.
        error: why it failed; empty otherwise.

    """

    due: float
    sent: float
    first: float | None = None
    end: float
    ok: bool
    code: int
    tokens: int | None = None
    error: str = ""

    @property
    def late(self) -> float:
        """Seconds that the client itself sent it too late."""
        return self.sent - self.due

    @property
    def latency(self) -> float:
        """Seconds from the intended sending to the end.

        A request that had to wait for a slow server before it was sent has waited, too; to leave that out is
        coordinated omission (Tene, How NOT to Measure Latency, 2013).
        """
        return self.end - self.due

    @property
    def ttft(self) -> float | None:
        """Time to first token: seconds from the intended sending to the first response; None if it is not seen."""
        return None if self.first is None else self.first - self.due

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first, (end − first) ÷ (tokens − 1), in seconds.

        None where tokens were not counted, are fewer than two, or do not come one by one.
        """
        if self.first is None or self.tokens is None or self.tokens < 2:
            return None
        return (self.end - self.first) / (self.tokens - 1)


# A number without a unit is none: of 300, seconds and milliseconds are as likely meant.
_FORM = re.compile(r"\s*(\w+)\s*<=?\s*(\S+[a-z])\s*")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What `diag explain` says of the server during a run.

    Attributes:
        verdict: the verdict's word; empty where the server could not be read.
        cause: the root cause as `check of model`; empty where none is named.
        text: the cause in one sentence, or why there is none.
        step: what to do first, as `fix: …` or `next: …`; empty where nothing is to be done.
        others: requests per second to the same model that were not the test's; None where counters do not show it.

    """

    verdict: str
    cause: str
    text: str
    step: str = ""
    others: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBlock:
    """What one run measured. Times are seconds; None is what was not seen.

    Latencies are of successful requests that were due inside the measured time, whenever they were answered, from
    the time they were due. Percentiles are order statistics (nearest rank).

    Attributes:
        seconds: the measured time, without warm-up.
        requests: requests that were due in it.
        failed: those of them that failed.
        throughput: successful answers per second of the measured time; of a closed loop see `block_of`.
        mean, p50, p95, p99: end-to-end latency.
        ttft_p50, ttft_p95: time to first token.
        tpot: mean time per output token of the requests.
        tokens: tokens of an answer, on average; None unless every answer's were counted.
        fewest_tokens, most_tokens: the extremes of that.
        good: requests within the limits; None without limits, or where that cannot be known of some.
        late_p99: by how much the client sent too late.
        client_busy: share of one processor that the client's process used.
        error: why most of the failed ones failed, in the server's words; of the warm-up's where no request began in
            the measured time; empty where none did.
        diagnosis: what was wrong with the server meanwhile; None where it was not looked at.

    """

    seconds: float
    requests: int
    failed: int
    throughput: float
    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    ttft_p50: float | None = None
    ttft_p95: float | None = None
    tpot: float | None = None
    tokens: float | None = None
    fewest_tokens: int | None = None
    most_tokens: int | None = None
    good: int | None = None
    late_p99: float | None = None
    client_busy: float | None = None
    error: str = ""
    diagnosis: Diagnosis | None = None

    @property
    def token_throughput(self) -> float | None:
        """Tokens per second; None where they were not counted."""
        return None if self.tokens is None else self.tokens * self.throughput

    @property
    def goodput(self) -> float | None:
        """The part of the throughput that kept the limits, per second; None as `good`, and of no request."""
        if self.good is None or not self.requests:
            return None
        answered = self.requests - self.failed
        return self.throughput * self.good / answered if answered else 0.0


def block_of(
    answers: Sequence[RequestResult],
    start: float,
    seconds: float,
    *,
    closed: bool = False,
    limits: RequestLimits | None = None,
    client_busy: float | None = None,
) -> LoadBlock:
    """Return the block of a run.

    Throughput counts what was answered in the measured time. Of a closed loop each answer counts by the part of its
    time that lies in it, so that throughput is clients ÷ latency (Little's law) however few answers there are; in an
    open loop that would count a growing queue.

    Args:
        answers: all of the run's, in any order, warm-up included.
        start: when the measured time began, on the answers' clock.
        seconds: how long it is.
        closed: whether each client sent once its last request was answered.
        limits: what goodput counts; None counts none.
        client_busy: share of one processor that the client used.

    """
    measured = [one for one in answers if start <= one.due < start + seconds]
    fine = [one for one in measured if one.ok]
    latency = sorted(one.latency for one in fine)
    ttft = sorted(value for one in fine if (value := one.ttft) is not None)
    tpot = [value for one in fine if (value := one.tpot) is not None]
    return LoadBlock(
        seconds=seconds,
        requests=len(measured),
        failed=len(measured) - len(fine),
        throughput=_done(answers, start, start + seconds, closed=closed) / seconds,
        mean=_mean(latency),
        **_percentiles(latency),
        ttft_p50=percentile(ttft, 0.5),
        ttft_p95=percentile(ttft, 0.95),
        tpot=_mean(tpot),
        **_tokens(fine),
        good=_good(measured, limits),
        late_p99=percentile(sorted(one.late for one in measured), 0.99),
        client_busy=client_busy,
        error=_commonest(one.error for one in measured or answers if not one.ok),
    )


def _percentiles(latency: Sequence[float]) -> dict[str, Any]:
    return {f"p{share}": percentile(latency, share / 100) for share in (50, 95, 99)}


def _tokens(fine: Sequence[RequestResult]) -> dict[str, Any]:
    """Return the lines about tokens: none where the tokens of an answer are not counted."""
    counted = [one.tokens for one in fine if one.tokens is not None]
    if not counted or len(counted) < len(fine):
        return {}
    return {"tokens": _mean(counted), "fewest_tokens": min(counted), "most_tokens": max(counted)}


def _done(answers: Sequence[RequestResult], start: float, end: float, *, closed: bool) -> float:
    return sum(_part(one, start, end) if closed else float(start <= one.end < end) for one in answers if one.ok)


def _part(answer: RequestResult, start: float, end: float) -> float:
    """Return which part of an answer's time lies between two moments."""
    inside = max(0.0, min(answer.end, end) - max(answer.sent, start))
    return inside / max(answer.end - answer.sent, 1e-9)


def _commonest(errors: Iterable[str]) -> str:
    return max(Counter(errors).items(), key=lambda each: each[1], default=("", 0))[0]


def _good(measured: Sequence[RequestResult], limits: RequestLimits | None) -> int | None:
    kept = [limits.kept(one) for one in measured] if limits else [None]
    return None if None in kept else sum(map(bool, kept))


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile of ascending values; None of none."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)] if ascending else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


MEASURES: Mapping[str, Callable[[LoadBlock], float | None]] = {
    "throughput": lambda block: block.throughput if block.requests else None,
    "mean": lambda block: block.mean,
    "p50": lambda block: block.p50,
    "p95": lambda block: block.p95,
    "p99": lambda block: block.p99,
    "ttft_p50": lambda block: block.ttft_p50,
    "ttft_p95": lambda block: block.ttft_p95,
    "tpot": lambda block: block.tpot,
    "token_throughput": lambda block: block.token_throughput,
    "goodput": lambda block: block.goodput,
    "failed": lambda block: block.failed / block.requests if block.requests else None,
}
"""What a block shows to compare points by, by its name in reports."""
