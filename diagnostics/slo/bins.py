"""The events of one objective over time, minute by minute, and hour by hour once they are old."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from diagnostics.slo.attribution import Cause
from diagnostics.slo.tally import NOTHING, Tally

MINUTE, HOUR = 60, 3600
# As the history does: single minutes are asked for by windows of a day at most.
MINUTES_KEPT = 86400.0


@dataclass(slots=True)
class Bin:
    """What happened within one bin: events, and how many bad ones each cause took.

    `began` and `ended` are the Unix seconds between which they were counted; infinite where nothing was.
    """

    tally: Tally = NOTHING
    causes: dict[Cause, float] = field(default_factory=lambda: defaultdict(float))
    began: float = inf
    ended: float = -inf

    def add(self, tally: Tally, causes: Mapping[Cause, float]) -> None:
        """Take more events."""
        self.tally = self.tally + tally
        for cause, bad in causes.items():
            self.causes[cause] = self.causes.get(cause, 0.0) + bad

    def reach(self, began: float, ended: float) -> None:
        """Take note of the Unix seconds between which more events were counted."""
        self.began, self.ended = min(self.began, began), max(self.ended, ended)


class Seen(Protocol):
    """Whoever can say what happened to one objective."""

    def over(self, start: float, end: float) -> Bin:
        """Return the events of [start, end], Unix seconds; of no known time, a bin of nothing."""
        ...

    def since(self) -> float | None:
        """Return the Unix second from which on events are known; None for nothing."""
        ...

    def until(self) -> float | None:
        """Return the Unix second up to which events are known; None for nothing."""
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
        self._bins: dict[tuple[int, int], Bin] = {}
        self._since: float | None = None

    def add(
        self,
        at: float,
        tally: Tally,
        causes: Mapping[Cause, float],
        seconds: int = MINUTE,
        began: float | None = None,
        ended: float | None = None,
    ) -> None:
        """Put events that were counted at Unix second `at` into the bin of `seconds` that it lies in.

        `began` and `ended` are when counting them did; by default the edges of their bin.
        """
        key = (seconds, int(at) // seconds * seconds)
        start = float(key[1]) if began is None else began
        self._since = start if self._since is None else min(self._since, start)
        one = self._bins.setdefault(key, Bin())
        one.add(tally, causes)
        one.reach(start, float(seconds + key[1]) if ended is None else ended)

    def over(self, start: float, end: float) -> Bin:
        """Return the events of the bins that begin in [start, end]; a bin's length is the precision."""
        found = Bin()
        for (seconds, at), one in self._bins.items():
            if start - seconds < at <= end:
                part = min((at + seconds - start) / seconds, 1.0) if seconds > MINUTE else 1.0
                found.add(_scaled(one.tally, part), {cause: bad * part for cause, bad in one.causes.items()})
        return found

    def since(self) -> float | None:
        """Return when counting began."""
        return self._since

    def until(self) -> float | None:
        """Return when counting ended, up to now; None where nothing was counted."""
        return max((one.ended for one in self._bins.values()), default=None)

    def silence(self) -> str:
        """Return why there are none."""
        return self.why_none

    def minutes(self, start: float, end: float) -> Iterator[tuple[int, Bin]]:
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
        self._since = max(self._since, before) if self._since is not None else None


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

    def __init__(self, parts: Iterable[Seen]) -> None:
        self._parts = tuple(parts)

    def over(self, start: float, end: float) -> Bin:
        """Return the sum."""
        found = Bin()
        for part in self._parts:
            one = part.over(start, end)
            found.add(one.tally, one.causes)
        return found

    def since(self) -> float | None:
        """Return when the first of them began."""
        return min((since for part in self._parts if (since := part.since()) is not None), default=None)

    def until(self) -> float | None:
        """Return when the last of them ended."""
        return max((until for part in self._parts if (until := part.until()) is not None), default=None)

    def silence(self) -> str:
        """Return why the first has none that knows it."""
        return next((why for part in self._parts if (why := part.silence())), "")
