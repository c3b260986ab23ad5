"""The requests that wait in a dynamic batcher's queue, by priority and under a queue policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from math import inf

from diagnostics.tuning.simulation.scenario import DynamicBatcher, QueueDiscipline, TimeoutAction
from diagnostics.tuning.simulation.visits import SimulatedVisit

# A timer rings a little late, so that what expires at that instant has expired.
_LATE = 1e-9


class _Level:
    """Requests of one priority: those in time, then those delayed past their timeout."""

    __slots__ = ("fresh", "late")

    def __init__(self) -> None:
        self.fresh: deque[SimulatedVisit] = deque()
        self.late: deque[SimulatedVisit] = deque()

    def __len__(self) -> int:
        return len(self.fresh) + len(self.late)


class Waiting:
    """A queue per priority level, all under the default policy.

    Attributes:
        size: requests that wait.

    """

    __slots__ = ("_default", "_levels", "_policy", "_single", "size")

    def __init__(self, batcher: DynamicBatcher) -> None:
        self._policy = batcher.policy or QueueDiscipline()
        self._default = batcher.default_priority if batcher.priority_levels else 0
        lowest = batcher.priority_levels
        self._levels = {level: _Level() for level in (range(1, lowest + 1) if lowest else (0,))}
        self._single = self._levels[0].fresh if is_plain(batcher) else None
        self.size = 0

    def accepts(self, visit: SimulatedVisit) -> bool:
        """Tell whether the policy's size leaves room at the visit's level."""
        most = self._policy.max_size
        return not most or len(self._level(visit)) < most

    def append(self, visit: SimulatedVisit) -> None:
        self.size += 1
        if self._single is not None:
            self._single.append(visit)
        else:
            self._level(visit).fresh.append(visit)

    @property
    def first(self) -> SimulatedVisit:
        """Return the oldest request of a plain queue that has one."""
        assert self._single is not None
        return self._single[0]

    def scan(self, now: float, expired: list[SimulatedVisit]) -> Iterable[SimulatedVisit]:
        """Go through the queue in the order of service; what has expired goes to `expired` as its level is reached."""
        return self._single if self._single is not None else self._scan(now, expired)

    def take(self, count: int) -> list[SimulatedVisit]:
        """Remove the first `count` requests in the order of service."""
        self.size -= count
        if self._single is not None:
            return [self._single.popleft() for _ in range(count)]
        taken: list[SimulatedVisit] = []
        for level in self._levels.values():
            for queue in (level.fresh, level.late):
                while queue and len(taken) < count:
                    taken.append(queue.popleft())
        return taken

    def expire(self, now: float) -> list[SimulatedVisit]:
        """Remove what has expired at any level, where the policy rejects it."""
        expired: list[SimulatedVisit] = []
        if self._policy.action is TimeoutAction.REJECT:
            for level in self._levels.values():
                self._expire(level, now, expired)
        return expired

    def deadline(self, now: float, visit: SimulatedVisit) -> float:
        """Return when a visit's timeout ends, in seconds; infinity where it has none or is past it."""
        end = visit.joined + self._policy.timeout_seconds
        return end if end > now + _LATE else inf

    def _level(self, visit: SimulatedVisit) -> _Level:
        level = self._levels.get(visit.priority)
        return self._levels[self._default] if level is None else level

    def _scan(self, now: float, expired: list[SimulatedVisit]) -> Iterator[SimulatedVisit]:
        for level in self._levels.values():
            self._expire(level, now, expired)
            yield from level.fresh
            yield from level.late

    def _expire(self, level: _Level, now: float, expired: list[SimulatedVisit]) -> None:
        timeout = self._policy.timeout_seconds
        while timeout > 0 and level.fresh and now >= level.fresh[0].joined + timeout - _LATE:
            visit = level.fresh.popleft()
            if self._policy.action is TimeoutAction.DELAY:
                level.late.append(visit)
            else:
                self.size -= 1
                expired.append(visit)


def is_plain(batcher: DynamicBatcher) -> bool:
    """Tell whether requests leave the queue in the order in which they came, whatever the time."""
    return not batcher.priority_levels and (batcher.policy is None or batcher.policy.timeout_seconds <= 0)
