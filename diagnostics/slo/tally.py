"""How many events there were, and how many of them were bad, as surely as the source allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

_SAME_EVENTS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Events of some span.

    Attributes:
        total: all events.
        bad: how many were bad: the best estimate where there is one, else as many as certainly were.
        low, high: as many as certainly, and as possibly, were bad; equal to `bad` where each was counted.
        source: where it was read; several are joined by ` and `.

    """

    total: float
    bad: float
    low: float
    high: float
    source: str

    @classmethod
    def exact(cls, total: float, bad: float, source: str) -> Tally:
        """Return a count of each event."""
        return cls(total=total, bad=bad, low=bad, high=bad, source=source)

    def __add__(self, other: Tally) -> Tally:
        sources = [self.source]
        if other.source != self.source:  # thousands of minutes with one source are added for each report
            sources = sorted({*self.source.split(" and "), *other.source.split(" and ")} - {""})
        return Tally(
            total=self.total + other.total,
            bad=self.bad + other.bad,
            low=self.low + other.low,
            high=self.high + other.high,
            source=" and ".join(sources),
        )

    @property
    def counted(self) -> bool:
        """Whether each bad event was counted, rather than estimated or bounded."""
        return self.high - self.low < 0.5

    def within(self, certain: Tally | None) -> Tally:
        """Return it cut to bounds of the same events that always hold; itself where those are of other events."""
        if certain is None or abs(certain.total - self.total) > _SAME_EVENTS * self.total + 1:
            return self
        low, high = (min(max(value, certain.low), certain.high) for value in (self.low, self.high))
        return replace(self, low=low, high=high, bad=min(max(self.bad, low), high))


NOTHING = Tally.exact(0.0, 0.0, "")


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the sum; of nothing, a tally of nothing."""
    return reduce(Tally.__add__, tallies, NOTHING)
