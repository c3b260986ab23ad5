"""Triton's schedulers as its core runs them: the default one and the dynamic batcher."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappush, heapreplace
from math import ceil
from random import Random

from diagnostics.tuning.simulation.clock import Call, EventQueue
from diagnostics.tuning.simulation.forming import Formed, Forming, Payload, Waiting, take_first
from diagnostics.tuning.simulation.instances import Instances, Limited, RateLimiter
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.scenario import DynamicBatcher, Model
from diagnostics.tuning.simulation.visits import SimulatedVisit


class Ordering:
    """Holds a response back until those of all requests that were batched before it have left.

    So the core did until release 25.08. Since 25.09 it takes a place in the order only when a response is there, which
    holds nothing back.
    """

    __slots__ = ("_batched", "_ready")

    def __init__(self) -> None:
        self._batched: deque[SimulatedVisit] = deque()
        self._ready: set[int] = set()

    def batched(self, visits: Iterable[SimulatedVisit]) -> None:
        """Take note of requests that left the queue for a payload."""
        self._batched.extend(visits)

    def respond(self, now: float, visit: SimulatedVisit) -> None:
        """Take a response, and let go all whose turn it is."""
        self._ready.add(id(visit))
        while self._batched and id(self._batched[0]) in self._ready:
            first = self._batched.popleft()
            self._ready.remove(id(first))
            first.stage.done(now, first)


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
    events, order = clock.events, clock.order
    joined, started, finished, items = log.passages
    free, gap, start = [0.0] * model.instances, model.service.dispatch_gap, model.start_seconds

    def join(now: float, visit: SimulatedVisit) -> None:
        begun = free[0]
        if begun < now + start:
            begun = now + start
        ended = begun + seconds(visit.items)
        heapreplace(free, ended + gap)
        heappush(events, (ended, order(), visit.stage.done, visit))
        joined.append(now)
        started.append(begun)
        finished.append(ended)
        items.append(visit.items)

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
        """Note that an instance can take a request."""
        if self._limiter and self._limited:
            self._limiter.release(now, self._limited)
        else:
            self._take(now, None)

    def _begin(self, now: float) -> None:
        self._take(now, None)

    def _take(self, now: float, _: object) -> None:
        if self._queue:
            visit = self._queue.popleft()
            self.instances.start(now, (visit,), visit.items)
        else:
            self.instances.idle += 1


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
        """Note that an instance can take a payload."""
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
            before, visits = payload.items, self._waiting.pop(formed.count)
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
        """Run a payload that the rate limiter admits; planned wake-ups do not interrupt the thread."""
        self._take(now, payload)
        self._at(now, self._roused, None)

    def _roused(self, now: float, _: object) -> None:
        if self._waiting.size:
            self.wake(now)

    def _take(self, now: float, payload: Payload) -> None:
        payload.taken = True
        self.instances.start(now, payload.visits, payload.items)

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
    """Return whether payloads are handed over before an instance waits for one: not with any policy or priorities."""
    policy = batcher.policy
    limited = policy is not None and (policy.max_size > 0 or policy.timeout_seconds > 0)
    return not limited and not batcher.priority_levels
