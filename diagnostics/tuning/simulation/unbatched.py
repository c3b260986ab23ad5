"""The default scheduler: one request per execution, first come, first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappush, heapreplace

from diagnostics.tuning.simulation.clock import Call, EventQueue
from diagnostics.tuning.simulation.instances import Instances
from diagnostics.tuning.simulation.limiting import Limited, RateLimiter
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.scenario import Model
from diagnostics.tuning.simulation.visits import SimulatedVisit


class Unbatched:
    """Instances that share nothing: who takes a request, and when, is known as it arrives.

    Attributes:
        join: queue a visit for the instance that is free first.

    """

    __slots__ = ("join",)

    def __init__(self, clock: EventQueue, log: ModelLog, model: Model, seconds: Callable[[int], float]) -> None:
        log.gap = model.service.dispatch_gap
        self.join = _joining(clock, log, model, seconds)


def _joining(clock: EventQueue, log: ModelLog, model: Model, seconds: Callable[[int], float]) -> Call:
    """Return what queues a visit: a closure, as this is where simulations spend their time."""
    events, order, passages = clock.events, clock.order, log.passages
    free, gap, start = [0.0] * model.instances, model.service.dispatch_gap, model.start_seconds

    def join(now: float, visit: SimulatedVisit) -> None:
        begun = free[0]
        if begun < now + start:
            begun = now + start
        ended = begun + seconds(visit.items)
        heapreplace(free, ended + gap)
        heappush(events, (ended, order(), visit.stage.done, visit))
        passages.append((now, begun, ended, visit.items))

    return join


class Queued:
    """Instances that share something, so that nothing is known ahead."""

    __slots__ = ("_at", "_limited", "_limiter", "_log", "_queue", "_start", "instances")

    instances: Instances

    def __init__(
        self, clock: EventQueue, log: ModelLog, model: Model, limiter: RateLimiter | None, limited: Limited | None
    ) -> None:
        self._at, self._log, self._start = clock.at, log, model.start_seconds
        self._limiter, self._limited = limiter, limited
        self._queue: deque[SimulatedVisit] = deque()

    def join(self, now: float, visit: SimulatedVisit) -> None:
        """Queue a visit."""
        self._log.joined(now)
        self._queue.append(visit)
        if self._limiter and self._limited:
            self._limiter.defer(now, self._limited, self._begin)
        elif self.instances.idle:
            self.instances.idle -= 1
            self._at(now + self._start, self._take, None)

    def freed(self, now: float) -> None:
        """Be told that an instance can take a request."""
        if self._limiter and self._limited:
            self._limiter.release(now, self._limited)
        else:
            self._take(now, None)

    def _begin(self, now: float) -> None:
        self._take(now, None)

    def _take(self, now: float, _: object) -> None:
        if self._queue:
            visit = self._queue.popleft()
            self.instances.take(now, (visit,), visit.items)
        else:
            self.instances.idle += 1
