"""The time of each body: one wall time, read at the start, plus what a steady clock counted since.

A wall clock that is set meanwhile (NTP, a virtual machine that woke, an operator) would file bodies before or long
after their neighbours, as if the server had stood still. Summer time does not matter: all times are Unix seconds.
The steady clock stands still while the machine sleeps, so that a sleep shows as a step of the wall clock.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

from diagnostics.wire.records import Scrape

# Clocks that are disciplined are slewed by less than half a millisecond per second; a step is more at once.
STEP_SECONDS = 0.5


class SteadyWallClock:
    """Wall time that goes on evenly whatever the machine's clock is set to."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._offset = wall() - steady()

    def now(self) -> float:
        """Return Unix seconds by the clock as it was at the start."""
        return self._steady() + self._offset

    def stepped(self) -> float:
        """Return by how many seconds the machine's clock was set forward since the start; 0 for less than a step."""
        by = self._wall() - self.now()
        return by if abs(by) >= STEP_SECONDS else 0.0


CLOCK = SteadyWallClock()


# How long `stop` may go unasked.
_ATTENTION = 0.2
# Seconds from the beginning of the last round for which sources that are not done are waited for.
PATIENCE = 30.0
_Inbox = SimpleQueue["Scrape | _Done"]


class Source(Protocol):
    """What is read once a round. A round is a list of scrapes and raises nothing."""

    name: str

    def round(self) -> list[Scrape]: ...


class Clock(Protocol):
    """A steady clock that can wait on a queue."""

    def now(self) -> float: ...
    def wait(self, inbox: _Inbox, seconds: float) -> Scrape | _Done | None: ...


class SystemClock:
    """The machine's own steady clock."""

    def now(self) -> float:
        """Return a steady clock's seconds."""
        return time.monotonic()

    def wait(self, inbox: _Inbox, seconds: float) -> Scrape | _Done | None:
        """Return the next item within `seconds`, else None."""
        try:
            return inbox.get(timeout=max(0.0, seconds))
        except Empty:
            return None


class _Done:
    """A server's round has ended; `error` is set when it raised."""

    def __init__(self, source: Source, error: Exception | None) -> None:
        self.source, self.error = source, error


def collect(
    sources: Sequence[Source],
    interval: float,
    *,
    seconds: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    clock: Clock | None = None,
    left: Callable[[str], object] = lambda _: None,
) -> Iterator[Scrape]:
    """Yield the scrapes of all sources as they come.

    Args:
        sources: what to read; a round of one is never begun before its last one has ended.
        interval: seconds between the beginnings of two rounds.
        seconds: the last round begins at most this long after the first; None for no end.
        stop: asked several times a second; once true, no more is read and rounds under way are left.
        clock: the time.
        left: called with the name of each source whose last round is left under way, `PATIENCE` after it was due.

    """
    clock = clock or SystemClock()
    return _Rounds(sources, interval, seconds, stop, clock, left).scrapes()


class _Rounds:
    def __init__(
        self,
        sources: Sequence[Source],
        interval: float,
        seconds: float | None,
        stop: Callable[[], bool],
        clock: Clock,
        left: Callable[[str], object],
    ) -> None:
        self.sources, self.interval, self.stop, self.clock, self.left = sources, interval, stop, clock, left
        self.start = clock.now()
        # A little slack, so that 3 s in steps of 0.1 s end with round 30 in spite of rounding.
        self.rounds = None if seconds is None else int(seconds / interval + 1e-6) + 1
        self.begun = 0
        self.busy: set[str] = set()
        self.inbox: _Inbox = SimpleQueue()

    def scrapes(self) -> Iterator[Scrape]:
        while not self.stop():
            self._begin_due()
            if self._ended() and (not self.busy or self.clock.now() > self._deadline()):
                break
            item = self.clock.wait(self.inbox, self._patience())
            if isinstance(item, Scrape):
                yield item
            elif item is not None:
                self._finish(item)
        yield from self._rest()
        for name in sorted(self.busy) if self._ended() else ():
            self.left(name)

    def _deadline(self) -> float:
        return self.start + (self.begun - 1) * self.interval + PATIENCE

    def _ended(self) -> bool:
        return self.rounds is not None and self.begun >= self.rounds

    def _patience(self) -> float:
        if self._ended():
            return _ATTENTION
        return min(_ATTENTION, self.start + self.begun * self.interval - self.clock.now())

    def _begin_due(self) -> None:
        if self._ended():
            return
        due = int((self.clock.now() - self.start) / self.interval + 1e-6)
        if due < self.begun:
            return
        for source in self.sources:
            if source.name not in self.busy:
                self.busy.add(source.name)
                threading.Thread(target=self._run, args=(source,), daemon=True).start()
        # Rounds that were slept through (a suspended machine) are not made up for.
        self.begun = due + 1

    def _run(self, source: Source) -> None:
        error: Exception | None = None
        try:
            for scrape in source.round():
                self.inbox.put(scrape)
        except Exception as raised:  # noqa: BLE001 - carried to the thread that collects, which raises it
            error = raised
        self.inbox.put(_Done(source, error))

    def _finish(self, done: _Done) -> None:
        self.busy.discard(done.source.name)
        if done.error is not None:
            raise done.error

    def _rest(self) -> Iterator[Scrape]:
        with contextlib.suppress(Empty):
            while True:
                item = self.inbox.get_nowait()
                if isinstance(item, Scrape):
                    yield item
                else:
                    self.busy.discard(item.source.name)
