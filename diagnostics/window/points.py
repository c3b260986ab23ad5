"""One read of a model version's cumulative counters, and what can be true of two that follow each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import msgspec

from diagnostics.window.numbers import Numbers


class Counter(StrEnum):
    """Canonical cumulative counters; seconds and counts, whatever the wire used."""

    SUCCESS = "success"
    FAILURE = "failure"
    REJECTED = "rejected"
    CANCELED = "canceled"
    INFERENCES = "inferences"
    EXECUTIONS = "executions"
    REQUEST_SECONDS = "request_seconds"
    QUEUE_SECONDS = "queue_seconds"
    INPUT_SECONDS = "input_seconds"
    INFER_SECONDS = "infer_seconds"
    OUTPUT_SECONDS = "output_seconds"
    CACHE_HITS = "cache_hits"


# The counters whose drop means a new epoch. Failures are left out: Triton never removes nor resets that family on
# reload (core, model reporter), so they disagree with the others after one.
EPOCH_COUNTERS = (Counter.SUCCESS, Counter.EXECUTIONS, Counter.INFERENCES)
_EVENTS = (Counter.SUCCESS, Counter.FAILURE, Counter.REJECTED, Counter.CANCELED, Counter.EXECUTIONS)
_DURATIONS = (
    Counter.REQUEST_SECONDS,
    Counter.QUEUE_SECONDS,
    Counter.INPUT_SECONDS,
    Counter.INFER_SECONDS,
    Counter.OUTPUT_SECONDS,
)
# No request is served for longer than this: a larger mean per request is an unsigned underflow (1.8e16 µs = 585 years).
LONGEST_REQUEST_SECONDS = 7 * 86_400.0
# Triton times each request in nanoseconds: as many that took none at all are counted by a clock that stands still. A
# page may be written between the count and the time of the few that end meanwhile.
MOST_WITHOUT_TIME = 30.0
# No server completes more than this; a larger rate is a corrupted value, not traffic.
LARGEST_RATE_PER_SECOND = 1e7


# Windows hold hundreds of thousands, and a structure that is part of no cycle takes a third less room.
class Batches(msgspec.Struct, frozen=True, gc=False):
    """Executions of one batch size and the seconds that they occupied an instance (input + infer + output)."""

    executions: float
    seconds: float


NO_BATCHES: Mapping[int, Batches] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterPoint:
    """Cumulative values at one read. `batches` maps batch size to executions; empty where the source has none.

    `last_inference` is the server's Unix second of the newest one; None where the source does not say.
    """

    at: float
    mono: float
    values: Numbers[Counter]
    batches: Mapping[int, Batches]
    last_inference: float | None = None
    _increase: Increase | None = field(default=None, init=False, repr=False, compare=False)

    def since(self, before: CounterPoint) -> Increase:
        """Return what was counted since another read of the same source.

        It is kept, as a read that lives through many windows has the same read before it in each. What is kept knows
        the read before by its steady time alone: else each read would hold on to all that came before it.
        """
        increase = self._increase
        if increase is None or increase.since != before.mono:
            increase = increase_between(before, self)
            object.__setattr__(self, "_increase", increase)
        return increase


class Increase(msgspec.Struct, frozen=True, gc=False):
    """What was counted between two reads.

    Attributes:
        since: steady time of the first one.
        values: by how much each counter grew.
        batches: what was executed, by batch size.
        possible: whether a server can have done this in that time.
        fell: whether a counter that never falls fell.
        from_zero: whether nothing had been executed at the first one.

    """

    since: float
    values: Numbers[Counter]
    batches: Mapping[int, Batches]
    possible: bool
    fell: bool
    from_zero: bool


def increase_between(before: CounterPoint, after: CounterPoint) -> Increase:
    """Return what was counted from one read to another."""
    seconds = after.mono - before.mono
    values = after.values.less(before.values)
    fell = any(values.get(counter, 0.0) < 0 for counter in EPOCH_COUNTERS)
    # Triton's failure counters survive a reload that resets the rest, or restart with the server.
    for counter in (Counter.FAILURE, Counter.REJECTED, Counter.CANCELED):
        if values.get(counter, 0.0) < 0:
            values[counter] = 0.0
    batches = batch_increase(before.batches, after.batches)
    possible = seconds > 0 and plausible(values, batches, seconds)
    from_zero = before.values.get(Counter.EXECUTIONS) == 0
    return Increase(before.mono, Numbers(values), batches, possible, fell, from_zero)


def zero_at(at: float, mono: float, like: CounterPoint) -> CounterPoint:
    """Return a read of nothing counted yet, of the same counters."""
    return CounterPoint(at=at, mono=mono, values=Numbers(dict.fromkeys(like.values, 0.0)), batches=NO_BATCHES)


def fell(before: CounterPoint, after: CounterPoint) -> bool:
    """Return whether a counter that never falls fell."""
    return any(
        after.values[counter] < before.values[counter]
        for counter in EPOCH_COUNTERS
        if counter in before.values and counter in after.values
    )


def stands_out(earlier: CounterPoint, middle: CounterPoint, later: CounterPoint) -> bool:
    """Return whether the middle read is above both its neighbours, which a reset does not look like.

    After a reset counters are below those of all earlier reads, unless the version had hardly begun to count.
    """
    if not later.since(middle).fell or later.mono <= earlier.mono:
        return False
    begun = all(earlier.values[counter] > 0 for counter in EPOCH_COUNTERS if counter in earlier.values)
    return begun and not fell(earlier, later)


def batch_increase(before: Mapping[int, Batches], after: Mapping[int, Batches]) -> Mapping[int, Batches]:
    """Return what was executed between two reads, by batch size."""
    zero = Batches(0.0, 0.0)
    increase = {}
    for size, now in after.items():
        then = before.get(size, zero)
        if now.executions != then.executions:
            increase[size] = Batches(now.executions - then.executions, now.seconds - then.seconds)
    return increase or NO_BATCHES


def plausible(values: Mapping[Counter, float], batches: Mapping[int, Batches], seconds: float) -> bool:
    """Return whether a server can have done this in so many seconds."""
    if any(value < 0 for value in values.values()) or any(b.executions < 0 or b.seconds < 0 for b in batches.values()):
        return False
    if any(values.get(counter, 0.0) > LARGEST_RATE_PER_SECOND * seconds for counter in _EVENTS):
        return False
    if values.get(Counter.SUCCESS, 0.0) >= MOST_WITHOUT_TIME and values.get(Counter.REQUEST_SECONDS) == 0:
        return False
    longest = LONGEST_REQUEST_SECONDS * max(values.get(Counter.SUCCESS, 0.0), 1.0)
    return all(values.get(duration, 0.0) <= longest for duration in _DURATIONS)
