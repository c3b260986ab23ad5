"""The dynamic batcher, as Triton's core runs it.

Read in dynamic_batch_scheduler.cc, scheduler_utils.cc, payload.cc, instance_queue.cc and rate_limiter.cc of releases
24.10 and 26.06, which agree there. A thread of its own forms batches into a *payload* and hands that over to the
instances' queue, where it may go on growing until an instance takes it. What decides is when the thread wakes:

- A request wakes it where one more payload may be handed over and either the last one was taken, is full, or the
  requests that wait reach the next preferred size. With a window of 0 that is every request, so the waiting payload
  grows. With a window it is not: a payload that was cut at its window's end stays as it is, and requests wait beside
  it until they reach the preferred size.
- The taking of a payload and the end of an execution wake it too. At the end of an execution it and the instance
  race: where it comes first, the waiting payload takes in what waits beside it.
- Up to two payloads per instance may be handed over ahead, unless there is a queue policy or there are priorities:
  then none is, and an instance must be seen waiting. Where the thread looks before the instance has said that it
  waits, nothing wakes it until the next request that the policy accepts, or until its sleep of 500 ms ends.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from random import Random

from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.forming import Formed, Forming
from diagnostics.tuning.simulation.instances import Instances
from diagnostics.tuning.simulation.limiting import Limited, RateLimiter
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.ordering import Ordering
from diagnostics.tuning.simulation.payload import Payload, take_first
from diagnostics.tuning.simulation.scenario import DynamicBatcher, Model
from diagnostics.tuning.simulation.visits import SimulatedVisit
from diagnostics.tuning.simulation.waiting import Waiting

# How long the thread sleeps where nothing wakes it (dynamic_batch_scheduler.cc).
LONGEST_SLEEP = 0.5


class Batcher:
    """A model's dynamic batcher: its queue, its payloads and its thread."""

    __slots__ = (
        "_alarm",
        "_at",
        "_blocked",
        "_forming",
        "_limited",
        "_limiter",
        "_log",
        "_max_batch",
        "_payload",
        "_queued",
        "_ready",
        "_rng",
        "_saturated",
        "_settings",
        "_slots",
        "_start",
        "_waiting",
        "_wake_at",
        "_wake_at_items",
        "instances",
        "ordering",
    )

    instances: Instances

    def __init__(
        self,
        clock: EventQueue,
        log: ModelLog,
        model: Model,
        rng: Random,
        limiter: RateLimiter | None,
        limited: Limited | None,
    ) -> None:
        assert model.batcher
        self._at, self._log, self._rng = clock.at, log, rng
        self._settings = model.batcher
        self._forming, self._waiting = Forming(model), Waiting(model.batcher)
        self._max_batch, self._start = model.max_batch, model.start_seconds
        self._limiter, self._limited = limiter, limited
        self.ordering = Ordering() if model.batcher.preserve_ordering else None
        self._slots = 2 * model.instances if prefetches(model.batcher) else 0
        self._ready: deque[Payload] = deque()
        self._payload = Payload()
        self._saturated = self._blocked = False
        self._queued = 0
        self._wake_at_items = 0.0
        self._wake_at, self._alarm = LONGEST_SLEEP, float("inf")

    def join(self, now: float, visit: SimulatedVisit) -> None:
        """Queue a visit, or refuse it where the policy's size leaves no room."""
        # The core counts a request before it asks the policy, and a refused one for ever.
        self._queued += visit.items
        if not self._waiting.accepts(visit):
            self._log.turned_away(now)
            visit.stage.refuse(now, visit)
            return
        self._log.joined(now)
        self._waiting.append(visit)
        due = self._saturated or self._payload.taken or self._queued >= self._wake_at_items
        if due and self._slot():
            self.wake(now)
        elif not self._blocked:
            self._oversleep(now)

    def wake(self, now: float) -> None:
        """Wake the thread; where it waits for a slot, it looks only for one."""
        if not self._blocked:
            self._work(now)
        elif self._slot():
            self._blocked = False
            self._fill(now)
            self._work(now)

    def freed(self, now: float) -> None:
        """Be told that an instance can take a payload."""
        if self._limiter and self._limited:
            self._limiter.release(now, self._limited)
        early = self._waiting.size > 0 and self._rng.random() < self._settings.overtakes
        if early and self._ready:
            self.wake(now)
        if early and not self._slots and not self._ready:
            self.instances.idle += 1
            if not self._blocked:
                self._block(now)
        else:
            self._next(now, None)

    def _next(self, now: float, _: object) -> None:
        """Let an instance take the first payload, or wait for one."""
        if self._ready:
            self._take(now, take_first(self._ready, now, self._settings.delay_seconds, self._max_batch))
        else:
            self.instances.idle += 1
        if self._waiting.size:
            self.wake(now)

    def _slot(self) -> bool:
        return len(self._ready) < self._slots if self._slots else self.instances.idle > 0

    def _work(self, now: float) -> None:
        while True:
            if self._saturated or self._payload.taken:
                self._payload, self._saturated, self._wake_at_items = Payload(), False, 0.0
            if not self._waiting.size:
                self._wake_at = now + LONGEST_SLEEP
                return
            if not self._slot():
                self._block(now)
                return
            if not self._fill(now):
                return

    def _fill(self, now: float) -> bool:
        """Put what is due into the payload and hand it over; return whether there is more to look at now."""
        payload = self._payload
        if payload.taken:
            return True
        formed = self._forming.form(now, payload, self._waiting)
        self._apply(payload, formed)
        if formed.wait:
            self._sleep(now + formed.wait)
        elif payload.visits and not payload.handed:
            self._hand_over(now, payload)
        self._reject(now, formed.expired)
        return not formed.wait

    def _apply(self, payload: Payload, formed: Formed) -> None:
        self._saturated = self._saturated or formed.full
        if formed.wake_at_items is not None:
            self._wake_at_items = formed.wake_at_items
        if formed.count:
            before, visits = payload.items, self._waiting.take(formed.count)
            payload.add(visits)
            self._queued -= payload.items - before
            if self.ordering:
                self.ordering.batched(visits)

    def _hand_over(self, now: float, payload: Payload) -> None:
        payload.handed = True
        if self._limiter and self._limited:
            self.instances.idle -= 1
            self._limiter.defer(now, self._limited, lambda time: self._granted(time, payload))
            return
        self._ready.append(payload)
        if self.instances.idle:
            self.instances.idle -= 1
            if self._start > 0:
                self._at(now + self._start, self._next, None)
            else:
                self._take(now, self._ready.popleft())

    def _granted(self, now: float, payload: Payload) -> None:
        """Be told by the rate limiter that a payload may run; planned wake-ups do not interrupt the thread."""
        self._take(now, payload)
        self._at(now, self._roused, None)

    def _roused(self, now: float, _: object) -> None:
        if self._waiting.size:
            self.wake(now)

    def _take(self, now: float, payload: Payload) -> None:
        payload.taken = True
        self.instances.take(now, payload.visits, payload.items)

    def _block(self, now: float) -> None:
        self._blocked = True
        if self._slots:
            self._wake_at = now + LONGEST_SLEEP
        else:
            self._sleep(now + LONGEST_SLEEP)

    def _oversleep(self, now: float) -> None:
        """Let the sleep that began with an empty queue end when it must, although this request wakes nobody."""
        if self._wake_at < now:
            self._wake_at += ceil((now - self._wake_at) / LONGEST_SLEEP) * LONGEST_SLEEP
        self._sleep(max(self._wake_at, now))

    def _sleep(self, until: float) -> None:
        self._wake_at = until
        if until < self._alarm:
            self._alarm = until
            self._at(until, self._ring, None)

    def _ring(self, now: float, _: object) -> None:
        if now != self._alarm:
            return
        self._alarm = float("inf")
        if self._wake_at > now:
            if self._waiting.size:
                self._sleep(self._wake_at)
        elif self._blocked and not self._slot():
            self._reject(now, self._waiting.expire(now))
            self._sleep(now + LONGEST_SLEEP)
        else:
            self.wake(now)

    def _reject(self, now: float, expired: list[SimulatedVisit]) -> None:
        for visit in expired:
            self._queued -= visit.items
            self._log.expired(now)
            visit.stage.refuse(now, visit)


def prefetches(batcher: DynamicBatcher) -> bool:
    """Tell whether payloads are handed over before an instance waits for one: not with any policy or priorities."""
    policy = batcher.policy
    limited = policy is not None and (policy.max_size > 0 or policy.timeout_seconds > 0)
    return not limited and not batcher.priority_levels
