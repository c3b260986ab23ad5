"""The event list: what happens next, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import chain, count, islice, takewhile
from typing import Any

from diagnostics.errors import DiagError

# Five times what the longest run of a recorded deployment makes; 2 to 10 s of a processor and a quarter of a GB. So
# many may also be planned at once: each may plan several.
MOST_EVENTS = 1_000_000

# Called with the time in seconds and what the event is about.
Call = Callable[[float, Any], None]


class Endless(DiagError):
    """A run would take more events than it may have, as where clients ask far more often than was thought."""


class EventQueue:
    """Events in order of time; those of one time in the order in which they were planned.

    Attributes:
        begin: end of the warm-up, in seconds; what happens before is not observed.
        end: seconds at which the run ends.
        events: a heap of time, order, what to call and what about.
        order: gives the next event's place among those of its time.

    """

    __slots__ = ("begin", "end", "events", "order")

    def __init__(self, begin: float, end: float) -> None:
        self.begin = begin
        self.end = end
        self.events: list[tuple[float, int, Call, Any]] = []
        self.order = count().__next__

    def at(self, time: float, call: Call, about: Any) -> None:
        """Plan `call(time, about)`."""
        heappush(self.events, (time, self.order(), call, about))

    def run_beside(self, times: Iterable[float], abouts: Iterable[Any], call: Call) -> None:
        """Let `call` happen at ascending times, each with what it is about, and all else that is due before the end.

        Raises:
            Endless: more than `MOST_EVENTS` of the latter happened.

        """
        events, end = self.events, self.end
        left = MOST_EVENTS
        for due, matter in chain(zip(times, abouts, strict=True), ((end, None),)):
            while events and events[0][0] < due and left:
                time, _, planned, about = heappop(events)
                planned(time, about)
                left -= 1
            if due < end:
                call(due, matter)
        if not left:
            raise endless(end)

    def run(self) -> None:
        """Let everything happen that is due before the end.

        Raises:
            Endless: more than `MOST_EVENTS` happened, or were planned at once; nothing of the run is to be used.

        """
        events, end = self.events, self.end
        for _number in range(MOST_EVENTS):
            if not events:
                return
            time, _, call, about = heappop(events)
            if time >= end:
                return
            call(time, about)
            if len(events) > MOST_EVENTS:
                break
        raise endless(end)


def check_events(count: int, end: float) -> None:
    """Refuse what takes so many events until the end, in seconds, where these are too many.

    Raises:
        Endless: they are more than `MOST_EVENTS`.

    """
    if count > MOST_EVENTS:
        raise endless(end)


def no_more_than(times: Iterable[float], end: float) -> Sequence[float]:
    """Return ascending times until the end.

    Raises:
        Endless: they are more than `MOST_EVENTS`.

    """
    found = list(islice(takewhile(lambda time: time < end, times), MOST_EVENTS + 1))
    check_events(len(found), end)
    return found


def endless(end: float) -> Endless:
    """Return that a run until then, in seconds, takes too many events."""
    return Endless(
        f"{end:.3g} simulated seconds take more than {MOST_EVENTS} events",
        hint="simulate less time, a lower rate, or fewer clients or instances",
    )
