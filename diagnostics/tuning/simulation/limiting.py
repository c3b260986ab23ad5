"""Triton's rate limiter: what executions must hold of counted resources before they start.

Read in rate_limiter.cc of releases 24.10 and 26.06. A payload that was handed over waits for an instance; the pair is
*staged*, and the staged pair whose instance has executed least comes first, over all models. Only that one is tried,
once for each pair staged and each execution released: one that needs much holds up those behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count

Start = Callable[[float], None]


class Limited:
    """A model under the rate limiter.

    Attributes:
        needs: what one execution holds of each resource.
        deferred: starts of the payloads that no instance is set apart for.
        available: executions so far of each instance that is not staged or executing (a heap).
        executing: the same of those that execute, in the order of their start.

    """

    __slots__ = ("available", "deferred", "executing", "needs")

    def __init__(self, needs: Mapping[str, int], instances: int) -> None:
        self.needs = needs
        self.deferred: deque[Start] = deque()
        self.available = [0] * instances
        self.executing: deque[int] = deque()


class RateLimiter:
    """The resources, and who waits for them."""

    __slots__ = ("_free", "_order", "_staged")

    def __init__(self, resources: Mapping[str, int]) -> None:
        self._free = dict(resources)
        self._staged: list[tuple[int, int, Limited, Start]] = []
        self._order = count().__next__

    def defer(self, now: float, model: Limited, start: Start) -> None:
        """Take a payload; `start(time)` is called when it holds an instance and its resources."""
        model.deferred.append(start)
        self._stage(now, model)

    def release(self, now: float, model: Limited) -> None:
        """Be told that an execution of the model gave its instance and its resources back."""
        for name, amount in model.needs.items():
            self._free[name] = self._free.get(name, 0) + amount
        heappush(model.available, model.executing.popleft() + 1)
        self._stage(now, model)
        self._attempt(now)

    def _stage(self, now: float, model: Limited) -> None:
        while model.deferred and model.available:
            heappush(self._staged, (heappop(model.available), self._order(), model, model.deferred.popleft()))
            self._attempt(now)

    def _attempt(self, now: float) -> None:
        if not self._staged:
            return
        executed, _, model, start = self._staged[0]
        if any(self._free.get(name, 0) < amount for name, amount in model.needs.items()):
            return
        heappop(self._staged)
        for name, amount in model.needs.items():
            self._free[name] -= amount
        model.executing.append(executed)
        start(now)
