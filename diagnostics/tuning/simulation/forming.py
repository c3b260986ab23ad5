"""The dynamic batcher's queue, and which of its requests go into a payload (GetDynamicBatch in Triton's core)."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from diagnostics.tuning.simulation.scenario import DynamicBatcher, Model, QueueDiscipline, TimeoutAction
from diagnostics.tuning.simulation.visits import SimulatedVisit


class Payload:
    """A batch that an instance will take.

    Attributes:
        visits: what is in it.
        items: their items.
        oldest: when the first of them joined the queue, in seconds.
        handed: whether it was handed over to the instances.
        taken: whether an instance has taken it, or marked it as taken.

    """

    __slots__ = ("handed", "items", "oldest", "taken", "visits")

    def __init__(self) -> None:
        self.visits: list[SimulatedVisit] = []
        self.items = 0
        self.oldest = float("inf")
        self.handed = False
        self.taken = False

    def add(self, visits: list[SimulatedVisit]) -> None:
        self.visits += visits
        for visit in visits:
            self.items += visit.items
            if visit.joined < self.oldest:
                self.oldest = visit.joined


def take_first(ready: deque[Payload], now: float, delay: float, max_batch: int) -> Payload:
    """Take the first payload, and with a window those behind it whose window is over and that fit (instance_queue.cc).

    The first that does not fit any more counts as taken, so that it no longer grows, although it stays.
    """
    first = ready.popleft()
    first.taken = True
    while delay > 0 and max_batch > 1 and ready and now - ready[0].oldest > delay:
        ready[0].taken = True
        if first.items + ready[0].items > max_batch:
            break
        first.add(ready.popleft().visits)
    return first


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
        """Return whether the policy's size leaves room at the visit's level."""
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

    def pop(self, count: int) -> list[SimulatedVisit]:
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
    """Return whether requests leave the queue in the order in which they came, whatever the time."""
    return not batcher.priority_levels and (batcher.policy is None or batcher.policy.timeout_seconds <= 0)


# The core waits in whole microseconds: less is no wait.
TICK = 1e-6
ROUNDING = 1e-9


class Formed:
    """What was decided.

    Attributes:
        count: requests from the front of the queue that go into the payload now.
        wait: seconds to sleep before looking again; 0 where the payload is to go.
        full: whether the payload takes no more.
        wake_at_items: items in the queue that end the sleep; 0 for any.
        expired: requests that the policy rejects.

    """

    __slots__ = ("count", "expired", "full", "wait", "wake_at_items")

    def __init__(self) -> None:
        self.count = 0
        self.wait = 0.0
        self.full = False
        self.wake_at_items: float | None = None
        self.expired: list[SimulatedVisit] = []


@dataclass(slots=True)
class _Pending:
    """The requests looked at: how many, their items; the best preferred size among their prefixes."""

    count: int = 0
    items: int = 0
    oldest: float = float("inf")
    closest: float = float("inf")
    best_count: int = 0
    best_items: int = 0
    overfull: bool = False


class Forming:
    """A batcher's rules; its batch sizes and its window in seconds."""

    __slots__ = ("_delay", "_max_batch", "_most_preferred", "_preferred", "_simple", "_sizes", "_timeouts")

    def __init__(self, model: Model) -> None:
        assert model.batcher
        self._max_batch = max(model.max_batch, 1)
        # Where no preferred size is given, the core sets the largest batch as one. It loads no model with a larger one,
        # but a recorded configuration may be of another time than what else was recorded.
        self._preferred = sorted(size for size in model.batcher.preferred if 0 < size <= self._max_batch) or [
            self._max_batch
        ]
        self._sizes = frozenset(self._preferred)
        self._most_preferred = self._preferred[-1]
        self._delay = model.batcher.delay_seconds
        self._simple = is_plain(model.batcher)
        self._timeouts = model.batcher.policy is not None and model.batcher.policy.timeout_seconds > 0

    def form(self, now: float, payload: Payload, waiting: Waiting) -> Formed:
        """Decide what goes into the payload; the caller removes it from the queue."""
        formed = Formed()
        if self._simple and waiting.size == 1 and not payload.items:
            self._form_one(now, waiting, formed)
            return formed
        pending = self._look(now, payload, waiting, formed)
        exceeded = self._delay > 0 and now - pending.oldest >= self._delay - ROUNDING
        if pending.best_items and not exceeded:
            formed.full = formed.full or self._delay == 0
            formed.count = pending.best_count
        elif pending.overfull or payload.items + pending.items >= self._most_preferred:
            formed.full = formed.full or pending.count > 0
            formed.count = pending.count
        elif exceeded or self._delay == 0 or not pending.count:
            formed.count = pending.count
        else:
            self._sleep_or_grow(now, payload, pending, formed)
        return formed

    def _form_one(self, now: float, waiting: Waiting, formed: Formed) -> None:
        """Decide on one request and an empty payload, of which most decisions are, as for several."""
        visit = waiting.first
        wait = self._delay - (now - visit.joined)
        if visit.items in self._sizes and not (self._delay > 0 and wait <= ROUNDING):
            formed.count, formed.full = 1, self._delay == 0
        elif visit.items >= self._most_preferred or wait < TICK:
            formed.count, formed.full = 1, visit.items >= self._most_preferred
        else:
            formed.wait = wait
            formed.wake_at_items = self._next_preferred(0, visit.items)

    def _look(self, now: float, payload: Payload, waiting: Waiting, formed: Formed) -> _Pending:
        pending, held = _Pending(), payload.items
        for visit in waiting.scan(now, formed.expired):
            if held or pending.count:
                total = held + pending.items + visit.items
                if total > self._most_preferred and not pending.best_items:
                    pending.best_items, pending.best_count, formed.full = pending.items, pending.count, True
                if total > self._max_batch:
                    pending.overfull = True
                    break
            pending.count += 1
            pending.items += visit.items
            pending.oldest = min(pending.oldest, visit.joined)
            if self._timeouts:
                pending.closest = min(pending.closest, waiting.deadline(now, visit))
            if held + pending.items in self._sizes:
                pending.best_items, pending.best_count = pending.items, pending.count
        return pending

    def _sleep_or_grow(self, now: float, payload: Payload, pending: _Pending, formed: Formed) -> None:
        formed.wake_at_items = self._next_preferred(payload.items, pending.items)
        if not formed.full and payload.items and payload.items not in self._sizes:
            formed.count = pending.count
            return
        wait = min(self._delay - (now - pending.oldest), max(pending.closest - now, TICK))
        formed.wait = wait if wait >= TICK else 0.0
        if not formed.wait:
            formed.count = pending.count

    def _next_preferred(self, held: int, pending: int) -> float:
        position = bisect_right(self._preferred, held + pending)
        size = self._preferred[position] if position < len(self._preferred) else self._preferred[0]
        # The core subtracts without sign: what would be negative is out of reach.
        return size - held if size >= held else float("inf")
