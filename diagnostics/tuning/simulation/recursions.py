"""Stages of which all arrivals are known: when each execution begins follows from those before it, without events.

What they say is what the event-driven schedulers do (`schedulers`), which a test holds them to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush, heapreplace
from itertools import accumulate
from math import inf
from operator import add

from diagnostics.tuning.simulation.draws import durations, seconds_of, stream
from diagnostics.tuning.simulation.forming import ROUNDING, TICK, is_plain
from diagnostics.tuning.simulation.scenario import DynamicBatcher, Model
from diagnostics.tuning.simulation.schedulers import LONGEST_SLEEP, prefetches


@dataclass(slots=True)
class Executed:
    """What became of the requests that joined a queue, in their order.

    Attributes:
        begun: seconds at which the execution of each began.
        ended: seconds at which it ended.
        answered: seconds at which its response left.
        sizes: the requests of each execution, which are the next ones; empty where each is executed alone.

    """

    begun: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    answered: Sequence[float] = ()
    sizes: list[int] = field(default_factory=list)


def executed(model: Model, joined: Sequence[float], items: Sequence[int], seed: int) -> Executed | None:
    """Return what a model does with requests that join at ascending seconds; None where only events decide.

    It needs executions that nothing slows, one at a time on an instance, in the order of arrival; and is of no engine
    (`engine.run_alone`).
    """
    if model.in_flight > 1:
        return None
    rng = stream(seed, f"service {model.name}")
    if model.batcher is None:
        return _first_come(model, joined, seconds_of(model, items, rng))
    batcher, most = model.batcher, max(model.max_batch, 1)
    plain = is_plain(batcher) and prefetches(batcher) and set(batcher.preferred) <= {most}
    if not plain or set(items) - {1} or 0 < batcher.delay_seconds < TICK:
        return None
    instances = _Instances(model, durations(model, rng))
    if batcher.delay_seconds > 0 and most > 1:
        batched = _Windows(batcher, most, joined, instances, stream(seed, f"race {model.name}").random).executed()
    else:  # a batch of one is full as it begins
        batched = _Bulks(replace(batcher, delay_seconds=0.0), most, joined, instances).executed()
    if batched is not None:
        batched.answered = list(accumulate(batched.ended, max)) if batcher.preserve_ordering else batched.ended
    return batched


def _first_come(model: Model, joined: Sequence[float], seconds: Sequence[float]) -> Executed:
    """Give each request to the instance that is free first (Kiefer and Wolfowitz 1955)."""
    gap, start, begun = model.service.dispatch_gap, model.start_seconds, list[float]()
    begin = begun.append
    comes = [came + start for came in joined] if start > 0 else joined
    if model.instances == 1:
        now = 0.0  # at first when the instance is free
        for came, work in zip(comes, seconds, strict=True):
            if now < came:
                now = came
            begin(now)
            now = now + work + gap
    else:
        free = [0.0] * model.instances
        for came, work in zip(comes, seconds, strict=True):
            now = free[0]
            if now < came:
                now = came
            begin(now)
            heapreplace(free, now + work + gap)
    ended = list(map(add, begun, seconds))
    return Executed(begun, ended, ended)


# How an instance came to a payload: at once, a while after it was idle, or as it had ended its last execution.
_AT_ONCE, _ROUSED, _FREED = range(3)


class _Instances:
    """Instances that take payloads in turn.

    Attributes:
        seconds: gives the seconds of an execution by its requests.
        gap: seconds that an execution holds its instance after its end.
        start: seconds that an idle instance takes to begin.
        found: what they executed.
        idle: those that wait for a payload.
        taking: when each of the others would take one next, and how it comes to it (a heap).

    """

    __slots__ = ("found", "gap", "idle", "seconds", "start", "taking")

    def __init__(self, model: Model, seconds: Callable[[int], float]) -> None:
        self.gap, self.seconds, self.start = model.service.dispatch_gap, seconds, model.start_seconds
        self.idle = model.instances
        self.taking: list[tuple[float, int]] = []
        self.found = Executed()

    def take(self, handed: float) -> tuple[float, int]:
        """Return when an instance takes a payload that is handed over then, and how it came to it."""
        taking = self.taking
        while taking and taking[0][0] <= handed:
            heappop(taking)
            self.idle += 1
        if self.idle:
            self.idle -= 1
            if not self.start:
                return handed, _AT_ONCE
            heappush(taking, (handed + self.start, _ROUSED))
        return heappop(taking)

    def execute(self, begun: float, requests: int) -> None:
        """Execute the next requests, so many, from then on."""
        found, ended = self.found, begun + self.seconds(requests)
        heappush(self.taking, (ended + self.gap, _FREED))
        found.sizes.append(requests)
        if requests == 1:
            found.begun.append(begun)
            found.ended.append(ended)
        else:
            found.begun += [begun] * requests
            found.ended += [ended] * requests


class _Payloads:
    """Payloads of one request each, unless others come before an instance takes it: then `_formed` says which."""

    __slots__ = ("_delay", "_instances", "_joined", "_most")

    def __init__(self, batcher: DynamicBatcher, most: int, joined: Sequence[float], instances: _Instances) -> None:
        self._delay, self._most, self._instances = batcher.delay_seconds, most, instances
        self._joined = [*joined, inf, inf]  # nobody comes after the last

    def executed(self) -> Executed | None:
        """Return what is executed; None where only events decide."""
        count, first, begun = len(self._joined) - 2, 0, 0.0
        lonely = self._lonely_of_one if self._instances.idle == 1 else self._lonely
        while True:
            first, begun = lonely(first, begun)
            if first == count:
                return self._instances.found
            formed = self._formed(first, begun)
            if formed is None:
                return None
            last, begun = formed
            self._instances.execute(begun, last - first)
            first = last

    def _formed(self, first: int, begun: float) -> tuple[int, float] | None:
        """Return where the payload after the next one begins, and when the next one's execution does; None where only
        events decide. `first` is its first request, `begun` when the payload before began.
        """
        raise NotImplementedError

    def _lonely_of_one(self, first: int, begun: float) -> tuple[int, float]:
        """Execute what nobody else comes beside, on one instance; return the first that is not, and the last begin."""
        joined, delay, instances, before = self._joined, self._delay, self._instances, first
        start, seconds, gap, found = instances.start, instances.seconds, instances.gap, instances.found
        begin, end, freed = found.begun.append, found.ended.append, instances.taking[0][0] if instances.taking else -inf
        while True:
            oldest = joined[first]
            closes = oldest + delay
            taken = closes + start if freed <= oldest else freed
            if begun > oldest or oldest < freed <= closes or taken >= joined[first + 1]:
                break
            ended = taken + seconds(1)
            begin(taken)
            end(ended)
            begun, freed, first = taken, ended + gap, first + 1
        if first > before:
            instances.idle, instances.taking[:] = 0, [(freed, _FREED)]
            found.sizes += [1] * (first - before)
        return first, begun

    def _lonely(self, first: int, begun: float) -> tuple[int, float]:
        """Do as `_lonely_of_one`, on several instances."""
        joined, instances, taking = self._joined, self._instances, self._instances.taking
        while True:
            oldest = joined[first]
            while taking and taking[0][0] <= oldest < inf:
                heappop(taking)
                instances.idle += 1
            freed, closes = taking[0][0] if taking else inf, oldest + self._delay
            taken = closes + instances.start if instances.idle else freed
            if begun > oldest or freed <= closes or taken > freed or taken >= joined[first + 1]:
                return first, begun
            if instances.idle:
                instances.idle -= 1
            else:
                heappop(taking)
            instances.execute(taken, 1)
            begun, first = taken, first + 1


class _Bulks(_Payloads):
    """Payloads without a window, which grow until an instance takes them."""

    __slots__ = ()

    def _formed(self, first: int, begun: float) -> tuple[int, float]:
        joined = self._joined
        begun, how = self._instances.take(joined[first])
        last = first + 1
        if how != _AT_ONCE:
            limit = first + self._most
            while last < limit and joined[last] <= begun:
                last += 1
        return last, begun


class _Windows(_Payloads):
    """Payloads with a window, as long as no more wait beside one that is formed than make the next one."""

    __slots__ = ("_overtakes", "_races")

    def __init__(
        self,
        batcher: DynamicBatcher,
        most: int,
        joined: Sequence[float],
        instances: _Instances,
        races: Callable[[], float],
    ) -> None:
        super().__init__(batcher, most, joined, instances)
        self._overtakes, self._races = batcher.overtakes, races

    def _formed(self, first: int, begun: float) -> tuple[int, float] | None:
        joined = self._joined
        closed, last, wakes = self._closed(first, max(joined[first], begun))
        begun, how = self._instances.take(closed)
        if how != _AT_ONCE and joined[last] <= begun:
            grown = self._grown(first, last, wakes, begun, how)
            if grown is None or begun - closed >= LONGEST_SLEEP:
                return None
            last = grown
        return last, begun

    def _closed(self, first: int, looks: float) -> tuple[float, int, int]:
        """Return when the payload that begins with a request is handed over, if it is looked at then; where the next
        begins; and how many that wait for that wake the thread before an instance takes this one.
        """
        joined, most = self._joined, self._most
        oldest, limit = joined[first], min(first + most, len(joined) - 2)
        closes, closed, wakes = oldest + self._delay, looks, 0
        if looks - oldest < self._delay - ROUNDING and closes - looks >= TICK:
            closed, wakes = closes, most
            if limit == first + most:
                closed = min(closed, max(looks, joined[limit - 1]))
            for time, how in self._instances.taking:
                if looks < time < closed:
                    if how == _FREED:
                        self._races()  # lost or won, there is no payload to hand over yet
                    if closes - time < TICK:
                        closed = time
        last = first + 1
        while last < limit and joined[last] <= closed:
            last += 1
        return closed, last, wakes

    def _grown(self, first: int, last: int, wakes: int, begun: float, how: int) -> int | None:
        """Return where the next payload begins, if one that was formed waits for an instance until `begun`."""
        joined, most = self._joined, self._most
        until = bisect_right(joined, begun, last)
        if not wakes:
            held = last - first
            if held >= most:
                return None
            last, wakes = last + 1, most - held if held + 1 < most else 0
        waiting = until - last
        if waiting >= max(wakes, 1):
            return None
        if waiting and how == _FREED and self._races() < self._overtakes:
            return until if until - first <= most else None
        return last
