"""Which of the waiting requests go into the payload, and when (GetDynamicBatch in Triton's core)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from diagnostics.tuning.simulation.payload import Payload
from diagnostics.tuning.simulation.scenario import Model
from diagnostics.tuning.simulation.visits import SimulatedVisit
from diagnostics.tuning.simulation.waiting import Waiting, is_plain

# The core waits in whole microseconds: less is no wait.
TICK = 1e-6
_ROUNDING = 1e-9


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
        exceeded = self._delay > 0 and now - pending.oldest >= self._delay - _ROUNDING
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
        if visit.items in self._sizes and not (self._delay > 0 and wait <= _ROUNDING):
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
