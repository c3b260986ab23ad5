"""What happened between two reads of a counter, and the sum of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from diagnostics.window.numbers import sum_of
from diagnostics.window.points import Batches, Counter


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
