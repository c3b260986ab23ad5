"""Cumulative counters of one model version from one source, as steps between neighbouring reads.

Resets, reloads, vanished series and absurd jumps are normal events and are handled here, once:
a drop of a request or execution counter opens a new epoch that started from zero; a version that appears while the
server was already being read started from zero too; a step whose durations run backwards or exceed what its requests
could have taken is dropped whole, so that ratios of two counters always cover the same requests; a read whose counters
stand above both its neighbours' (a corrupted value, a body filed under the wrong time) is taken out again. Counters
that jump back again and again are several servers' behind one address, and counters that end where they began are one
recording whose clock was set back: then no zero was ever there to start from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnostics.window.points import (
    EPOCH_COUNTERS,
    Batches,
    Counter,
    Point,
    fell,
    increase_between,
    stands_out,
    zero_at,
)

__all__ = ["Batches", "Counter", "CounterTable", "Delta", "Opened", "Point", "Step", "sum_steps"]


class Opened(StrEnum):
    """How the epoch of a step began."""

    BEFORE_WINDOW = "before_window"
    RESET = "reset"
    APPEARED = "appeared"


# A server whose counters jump back more often, and at more than one of so many reads, is not told from several servers
# behind one address: two that are read in turn jump at every second read, at random at every fourth.
MOST_JUMPS = 2
READS_PER_JUMP = 8
# Neighbouring reads of steady traffic differ by less than this factor in what they count.
_NEIGHBOURS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What happened between two neighbouring reads of one epoch.

    `seconds` is the steady-clock time between them; `opened` says how the epoch began and `first` whether this is its
    first step. An epoch that began inside the window starts at the previous read, from zero. `from_zero` says that the
    version had executed nothing before this step.
    """

    start: float
    end: float
    seconds: float
    values: Mapping[Counter, float]
    batches: Mapping[int, Batches]
    opened: Opened
    first: bool
    from_zero: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The sum of some steps: events and seconds of work over `seconds` of observation.

    `resets` counts epochs that began inside; `dropped` counts steps left out as implausible.
    """

    values: Mapping[Counter, float]
    batches: Mapping[int, Batches]
    seconds: float
    steps: int
    resets: int
    dropped: int

    def get(self, counter: Counter) -> float | None:
        """Return the increase of one counter, None where the source does not carry it."""
        return self.values.get(counter)


class CounterTable:
    """All reads of one model version from one source, in time order."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._steps: list[Step] = []
        self._dropped_at: list[float] = []
        # A dozen signals ask for the same span; it is summed once, until another read comes.
        self._deltas: dict[tuple[float, float], Delta | None] = {}
        self._reads = self._jumps = 0
        self._first: Point | None = None
        self._last: Point | None = None
        self._earlier: Point | None = None
        self._opened = Opened.BEFORE_WINDOW
        self._fresh = True

    @property
    def last(self) -> Point | None:
        """The newest read; None before the first."""
        return self._last

    @property
    def steps(self) -> Sequence[Step]:
        """All plausible steps in time order."""
        if self.unsteady:
            return []
        openings = [step for step in self._steps if step.first and step.opened is Opened.RESET]
        if not openings:
            return self._steps
        return [step for step in self._steps if step not in openings] if self._clock_set_back(openings) else self._steps

    @property
    def unsteady(self) -> bool:
        """Whether the counters jump back so often that no difference of two of them means anything."""
        return self._jumps > max(MOST_JUMPS, self._reads / READS_PER_JUMP)

    def add(self, point: Point, previous_read: tuple[float, float] | None) -> None:
        """Append a read.

        Args:
            point: the values read.
            previous_read: wall and steady time of the server's previous successful read of this source, which did
                not list this version if there is no earlier point; None at the first read of all.

        """
        self._deltas.clear()
        before, earlier = self._last, self._earlier
        self._last, self._earlier = point, before
        self._first, self._reads = self._first or point, self._reads + 1
        if before is None:
            if previous_read is None:
                return
            self._open(Opened.APPEARED)
            self._step(zero_at(*previous_read, point), point)
        elif earlier is not None and stands_out(earlier, before, point):
            self._take_out(before)
            self._jumps += 1
            self._earlier = earlier
            self._step(earlier, point)
        elif fell(before, point):
            self._open(Opened.RESET)
            self._jumps += 1
            self._earlier = None
            self._step(zero_at(before.at, before.mono, point), point)
        elif point.mono > before.mono:
            self._step(before, point)

    def delta(self, start: float, end: float) -> Delta | None:
        """Return the sum over the steps inside [start, end] (wall seconds); None when there are none."""
        if (start, end) not in self._deltas:
            inside = [step for step in self.steps if step.start >= start - 1e-6 and step.end <= end + 1e-6]
            left_out = sum(1 for at in self._dropped_at if start <= at <= end)
            self._deltas[start, end] = sum_steps(inside, left_out) if inside else None
        return self._deltas[start, end]

    def _clock_set_back(self, openings: Sequence[Step]) -> bool:
        """Return whether the one reset is where the end of the recording was filed before its beginning.

        Then the last read is the neighbour of the first, one read earlier, in every counter.
        """
        if len(openings) > 1 or self._first is None or self._last is None or self._steps[-1] is openings[0]:
            return False
        beside = (self._steps[0], self._steps[-1])
        return all(
            _alike(self._first.values[counter] - self._last.values[counter], [step.values[counter] for step in beside])
            for counter in EPOCH_COUNTERS
            if counter in self._first.values and all(counter in step.values for step in (*beside, self._last))
        )

    def _take_out(self, point: Point) -> None:
        """Forget the step that ended at this read; the epoch goes on as if the read had not been."""
        if self._steps and self._steps[-1].end == point.at:
            self._fresh = self._steps.pop().first

    def _open(self, how: Opened) -> None:
        self._opened, self._fresh = how, True

    def _step(self, before: Point, after: Point) -> None:
        # A zero that was made up stands at the time of a real read, and must not be taken for it.
        increase = (
            after.since(before) if before.batches or any(before.values.values()) else increase_between(before, after)
        )
        if not increase.possible:
            self._dropped_at.append(after.at)
            return
        self._steps.append(
            Step(
                start=before.at,
                end=after.at,
                seconds=after.mono - before.mono,
                values=increase.values,
                batches=increase.batches,
                opened=self._opened,
                first=self._fresh,
                from_zero=before.values.get(Counter.EXECUTIONS) == 0,
            )
        )
        self._fresh = False


def sum_steps(steps: Iterable[Step], dropped: int = 0) -> Delta:
    """Return the total of some steps; a counter counts only if every step carries it."""
    steps = list(steps)
    common = set.intersection(*(set(step.values) for step in steps)) if steps else set()
    batches: dict[int, Batches] = {}
    for step in steps:
        for size, more in step.batches.items():
            have = batches.get(size, Batches(0.0, 0.0))
            batches[size] = Batches(have.executions + more.executions, have.seconds + more.seconds)
    return Delta(
        values={counter: sum(step.values[counter] for step in steps) for counter in common},
        batches=batches,
        seconds=sum(step.seconds for step in steps),
        steps=len(steps),
        resets=sum(1 for step in steps if step.first and step.opened is not Opened.BEFORE_WINDOW),
        dropped=dropped,
    )


def _alike(gap: float, steps: Sequence[float]) -> bool:
    return min(steps) / _NEIGHBOURS <= gap <= max(steps) * _NEIGHBOURS and gap > 0
