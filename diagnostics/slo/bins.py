"""The events of one objective over time, minute by minute, and hour by hour once they are old."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from diagnostics.slo.attribution import BudgetCause
from diagnostics.slo.tally import NOTHING, Tally

MINUTE, HOUR = 60, 3600
# As the history does: single minutes are asked for by windows of a day at most.
MINUTES_KEPT = 86400.0


@dataclass(slots=True)
class EventBin:
    """What happened within one bin: events, and how many bad ones each cause took.

    `began` and `ended` are the Unix seconds between which they were counted; infinite where nothing was.
    """

    tally: Tally = NOTHING
    causes: dict[BudgetCause, float] = field(default_factory=lambda: defaultdict(float))
    began: float = inf
    ended: float = -inf

    def add(self, tally: Tally, causes: Mapping[BudgetCause, float]) -> None:
        """Take more events."""
        self.tally = self.tally + tally
        for cause, bad in causes.items():
            self.causes[cause] = self.causes.get(cause, 0.0) + bad

    def reach(self, began: float, ended: float) -> None:
        """Take note of the Unix seconds between which more events were counted."""
        self.began, self.ended = min(self.began, began), max(self.ended, ended)


Span = tuple[float, float]
"""Unix seconds from which, and up to which."""


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return what any of the spans covers, in order and apart; those that end before they begin are left out."""
    found = list[Span]()
    for began, ended in sorted(span for span in spans if span[1] > span[0]):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        else:
            found.append((began, ended))
    return found


def stretches(times: Sequence[float], most_apart: float) -> Iterator[Span]:
    """Yield first and last of ascending times whose neighbours are so many seconds apart at most."""
    if not times:
        return
    first = last = times[0]
    for at in times[1:]:
        if at - last > most_apart:
            yield first, last
            first = at
        last = at
    yield first, last


class EventSource(Protocol):
    """Whoever can say what happened to one objective."""

    def over(self, start: float, end: float) -> EventBin:
        """Return the events of [start, end], Unix seconds; of no known time, a bin of nothing."""
        ...

    def known(self, start: float, end: float) -> Sequence[Span]:
        """Return the parts of [start, end], Unix seconds, in which events are known, in order and apart."""
        ...

    def silence(self) -> str:
        """Return why no events are known, and what to do; empty where that is not known."""
        ...


class Bins:
    """Events by the time at which they were counted. For use by one thread at a time.

    Attributes:
        why_none: why there are none, and what to do; empty where that was not looked into.

    """

    def __init__(self, why_none: str = "") -> None:
        self.why_none = why_none
        self._bins: dict[tuple[int, int], EventBin] = {}

    def add(
        self,
        at: float,
        tally: Tally,
        causes: Mapping[BudgetCause, float],
        seconds: int = MINUTE,
        began: float | None = None,
        ended: float | None = None,
    ) -> None:
        """Put events that were counted at Unix second `at` into the bin of `seconds` that it lies in.

        `began` and `ended` are when counting them did; by default the edges of their bin.
        """
        key = (seconds, int(at) // seconds * seconds)
        start = float(key[1]) if began is None else began
        one = self._bins.setdefault(key, EventBin())
        one.add(tally, causes)
        one.reach(start, float(seconds + key[1]) if ended is None else ended)

    def over(self, start: float, end: float) -> EventBin:
        """Return the events of the bins that begin in [start, end]; a bin's length is the precision."""
        found = EventBin()
        for (seconds, at), one in self._bins.items():
            if start - seconds < at <= end:
                part = min((at + seconds - start) / seconds, 1.0) if seconds > MINUTE else 1.0
                found.add(_scaled(one.tally, part), {cause: bad * part for cause, bad in one.causes.items()})
        return found

    def known(self, start: float, end: float) -> Sequence[Span]:
        """Return when was counted; within an hour that is old, a pause is not known any more."""
        within = (one for one in self._bins.values() if one.ended > start and one.began < end)
        return joined((max(one.began, start), min(one.ended, end)) for one in within)

    def until(self) -> float | None:
        """Return when counting ended, up to now; None where nothing was counted."""
        return max((one.ended for one in self._bins.values()), default=None)

    def silence(self) -> str:
        """Return why there are none."""
        return self.why_none

    def minutes(self, start: float, end: float) -> Iterator[tuple[int, EventBin]]:
        """Yield the minutes that begin in [start, end)."""
        for (seconds, at), one in sorted(self._bins.items(), key=lambda pair: pair[0]):
            if seconds == MINUTE and start <= at < end:
                yield at, one

    def forget(self, before: float, minutes_before: float) -> None:
        """Let go of bins that begin before Unix second `before`, and turn old minutes into hours."""
        for key in [key for key in self._bins if key[0] == MINUTE and key[1] < minutes_before // HOUR * HOUR]:
            old = self._bins.pop(key)
            self.add(key[1], old.tally, old.causes, HOUR, old.began, old.ended)
        self._bins = {key: one for key, one in self._bins.items() if key[1] >= before}


def _scaled(tally: Tally, part: float) -> Tally:
    if part >= 1.0:
        return tally
    return Tally(
        total=tally.total * part,
        bad=tally.bad * part,
        low=tally.low * part,
        high=tally.high * part,
        source=tally.source,
    )


class Together:
    """The events of several deployments as one."""

    def __init__(self, parts: Iterable[EventSource]) -> None:
        self._parts = tuple(parts)

    def over(self, start: float, end: float) -> EventBin:
        """Return the sum."""
        found = EventBin()
        for part in self._parts:
            one = part.over(start, end)
            found.add(one.tally, one.causes)
        return found

    def known(self, start: float, end: float) -> Sequence[Span]:
        """Return when events of any of them are known."""
        return joined(span for part in self._parts for span in part.known(start, end))

    def silence(self) -> str:
        """Return why the first has none that knows it."""
        return next((why for part in self._parts if (why := part.silence())), "")
