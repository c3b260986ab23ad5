"""An effect inside and outside of the stretches in which something else is up: do the two step together?

An effect is a series of pieces, each with an amount (seconds) over events of its own: requests, executions, iterations
of an engine. Those events decide whether there is enough to compare, not the requests that happened to end meanwhile.
A difference that is certain speaks for the driver; one that is certainly small speaks against it.
Source: the mean of a ratio estimator and its error (Cochran, Sampling Techniques, 1977, chapter 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.signal import Missing, Reading
from diagnostics.units import Unit
from diagnostics.window.view import Counter, CounterStep

When = Callable[[float, float], bool | None]
"""Whether a driver is up between two instants (Unix seconds): all of the time, none of it, or neither (None)."""

# Requests come at about the same rate on both sides, or the difference may be their own doing.
SAME_LOAD = 1.3


@dataclass(frozen=True, slots=True)
class SeriesInterval:
    """A part of an effect's series.

    Attributes:
        start, end: Unix seconds.
        amount: what was spent, in seconds.
        events: on how many events.
        seconds: the steady time that it took; 0 where that says nothing of the load.

    """

    start: float
    end: float
    amount: float
    events: float
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class IntervalMean:
    """The pieces of one side together: the mean per event, its standard error, events, their rate per second."""

    mean: float
    error: float
    events: float
    rate: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """An effect inside and outside of a driver's stretches. `part` is the share of all events that are inside."""

    inside: IntervalMean
    outside: IntervalMean
    part: float

    @property
    def difference(self) -> tuple[float, float, float]:
        """How much more an event takes inside, with its 95 % interval: (value, low, high)."""
        value = self.inside.mean - self.outside.mean
        spread = 1.96 * math.hypot(self.inside.error, self.outside.error)
        return value, value - spread, value + spread

    def reading(self, source: str) -> Reading:
        """Return the difference spread over all events, in seconds per event."""
        value, low, high = (self.part * one for one in self.difference)
        events = min(self.inside.events, self.outside.events)
        return Reading.of(value, Unit.SECONDS, source, low=low, high=high, events=events)


def contrasted(pieces: Iterable[SeriesInterval], when: When, *, same_load: bool = True) -> Contrast | Missing:
    """Return an effect inside and outside of a driver's stretches, or why that cannot be determined.

    Args:
        pieces: the effect.
        when: the driver.
        same_load: whether the events are the load itself, which may not be higher inside.

    """
    found = [piece for piece in pieces if piece.events > 0]
    sides: dict[bool, list[SeriesInterval]] = {True: [], False: []}
    for piece in found:
        up = when(piece.start, piece.end)
        if up is not None:
            sides[up].append(piece)
    if min(sum(piece.events for piece in side) for side in sides.values()) < ENOUGH_EVENTS:
        return Missing.TOO_FEW_EVENTS
    inside, outside = _side(sides[True]), _side(sides[False])
    if same_load and inside.rate > SAME_LOAD * outside.rate:
        return Missing.CONFLICTING
    return Contrast(inside, outside, inside.events / sum(piece.events for piece in found))


def _side(pieces: Sequence[SeriesInterval]) -> IntervalMean:
    """Return pieces together; their error is that of their spread, or of events that spread as much as their mean."""
    events = sum(piece.events for piece in pieces)
    mean = sum(piece.amount for piece in pieces) / events
    counted = mean / math.sqrt(events)
    spread = math.sqrt(sum((piece.amount - mean * piece.events) ** 2 for piece in pieces)) / events
    if (count := len(pieces)) > 1:
        spread *= math.sqrt(count / (count - 1))
    seconds = sum(piece.seconds for piece in pieces)
    return IntervalMean(mean, max(spread, counted), events, events / seconds if seconds > 0 else 0.0)


def pieces_per_request(steps: Iterable[CounterStep], counter: Counter) -> list[SeriesInterval]:
    """Return what a counter of seconds grew by per request, step by step."""
    return [
        SeriesInterval(step.start, step.end, step.values[counter], step.values[Counter.SUCCESS], step.seconds)
        for step in steps
        if counter in step.values and Counter.SUCCESS in step.values
    ]


def up_while(samples: Sequence[tuple[float, bool]], slack: float) -> When:
    """Return the driver that some samples of its state name.

    Args:
        samples: (Unix seconds, whether it is up), in time order.
        slack: seconds by which the samples around a piece may miss its ends.

    """

    def when(start: float, end: float) -> bool | None:
        seen = {up for at, up in samples if start - slack <= at <= end + slack}
        return seen.pop() if len(seen) == 1 else None

    return when
