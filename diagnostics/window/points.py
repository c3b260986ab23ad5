"""Reads of a model version's cumulative counters, and what happened between two of them."""

from __future__ import annotations

from array import array
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from operator import sub
from struct import Struct
from types import MappingProxyType
from typing import Generic, TypeVar, overload

import msgspec

T = TypeVar("T")
K = TypeVar("K", bound=StrEnum)
_NUMBER = Struct("d")
_number_at = _NUMBER.unpack_from


class Numbers(Mapping[K, float], Generic[K]):
    """An immutable mapping to floats. Those with the same keys in the same order share them."""

    __slots__ = ("_packed", "_places")

    def __init__(self, values: Mapping[K, float]) -> None:
        self._places: Mapping[K, int] = _places(tuple(values))
        # Bytes hold their content themselves; an array is as large again.
        self._packed = array("d", values.values()).tobytes()

    def __getitem__(self, key: K) -> float:
        number: float = _number_at(self._packed, self._places[key])[0]
        return number

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[K]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return repr(self.plain())

    @overload
    def get(self, key: K, /) -> float | None: ...
    @overload
    def get(self, key: K, /, default: float | T) -> float | T: ...
    def get(self, key: K, /, default: float | T | None = None) -> float | T | None:
        """Return the number of a key, `default` where there is none."""
        place = self._places.get(key)
        return default if place is None else _number_at(self._packed, place)[0]

    def items(self) -> ItemsView[K, float]:
        """Return keys with their numbers."""
        return self.plain().items()

    def values(self) -> ValuesView[float]:
        """Return the numbers."""
        return self.plain().values()

    def plain(self) -> dict[K, float]:
        """Return them as a dictionary of the caller's own."""
        return dict(zip(self._places, self.numbers(), strict=True))

    def numbers(self) -> array[float]:
        """Return the numbers alone, in the order of the keys."""
        return array("d", self._packed)

    def less(self, before: Mapping[K, float]) -> dict[K, float]:
        """Return by how much each exceeds an earlier number, where there is one."""
        if isinstance(before, Numbers) and before._places is self._places:
            return dict(zip(self._places, map(sub, self.numbers(), before.numbers()), strict=True))
        return {key: value - before[key] for key, value in self.items() if key in before}


def sum_of(rows: Sequence[Mapping[K, float]]) -> dict[K, float]:
    """Return the sum of each number that all rows carry; nothing where there is no row."""
    alike = [row for row in rows if isinstance(row, Numbers)]
    if rows and len(alike) == len(rows) and len({id(row._places) for row in alike}) == 1:
        every, width = array("d", b"".join([row._packed for row in alike])), len(alike[0])
        return {key: sum(every[place::width]) for place, key in enumerate(alike[0])}
    common = set.intersection(*map(set, rows)) if rows else set()
    return {key: sum(row[key] for row in rows) for key in common}


@lru_cache(maxsize=1_000)
def _places(keys: tuple[K, ...]) -> Mapping[K, int]:
    return {key: place * _NUMBER.size for place, key in enumerate(keys)}


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
    CACHE_MISSES = "cache_misses"
    CACHE_MISS_SECONDS = "cache_miss_seconds"


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


class Opened(StrEnum):
    """How the epoch of a step began."""

    BEFORE_WINDOW = "before_window"
    RESET = "reset"
    APPEARED = "appeared"


# A structure is made in half of a named tuple's time: a window has as many as it has reads of models.
class CounterStep(msgspec.Struct, frozen=True, gc=False):
    """What happened between two neighbouring reads of one epoch.

    `seconds` is the steady-clock time between them, `unwatched` the longest in which nobody tried to read (less, where
    reads failed); `opened` says how the epoch began and `first` whether this is its first step. An epoch that began
    inside the window starts at the previous read, from zero. `from_zero` says that the version had executed nothing
    before this step.
    """

    start: float
    end: float
    seconds: float
    unwatched: float
    values: Mapping[Counter, float]
    batches: Mapping[int, Batches]
    opened: Opened
    first: bool
    from_zero: bool

    @property
    def opens(self) -> bool:
        """Whether it begins an epoch that began inside the window."""
        return self.first and self.opened is not Opened.BEFORE_WINDOW


def increase(steps: Iterable[CounterStep], counter: Counter) -> float:
    """Return by how much a counter rose over steps, in its own unit; a step that lacks it adds nothing."""
    return sum(step.values.get(counter, 0.0) for step in steps)


class Delta(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The sum of some steps: events and seconds of work over `seconds` of observation.

    `resets` counts epochs that began inside; `dropped` counts steps left out as implausible.
    """

    values: Mapping[Counter, float]
    batches: Mapping[int, Batches]
    seconds: float
    steps: int
    resets: int
    dropped: int

    @property
    def occupied(self) -> float:
        """Seconds for which executions occupied instances, of all batch sizes."""
        return sum(batch.seconds for batch in self.batches.values())

    def get(self, counter: Counter) -> float | None:
        """Return the increase of one counter, None where the source does not carry it."""
        return self.values.get(counter)


def sum_steps(steps: Iterable[CounterStep], dropped: int = 0) -> Delta:
    """Return the total of some steps; a counter counts only if every step carries it."""
    steps = list(steps)
    by_size: dict[int, list[Batches]] = {}
    for step in steps:
        for size, batch in step.batches.items() if step.batches else ():
            by_size.setdefault(size, []).append(batch)
    return Delta(
        values=sum_of([step.values for step in steps]),
        batches={size: _sum(batches) for size, batches in by_size.items()},
        seconds=sum([step.seconds for step in steps]),
        steps=len(steps),
        resets=sum([step.first and step.opened is not Opened.BEFORE_WINDOW for step in steps]),
        dropped=dropped,
    )


def _sum(batches: Sequence[Batches]) -> Batches:
    return Batches(sum([batch.executions for batch in batches]), sum([batch.seconds for batch in batches]))
