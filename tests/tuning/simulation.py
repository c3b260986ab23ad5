"""A discrete-event simulation of one stage, to hold the formulas against."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Simulation:
    """Poisson arrivals, `instances` lanes, batches by window; `frozen` payloads do not grow while they wait.

    Times in seconds. `occupancy(size)` is how long a batch holds its lane.
    """

    rate: float
    occupancy: Callable[[int, random.Random], float]
    instances: int = 1
    max_batch: int = 1
    delay: float = 0.0
    preferred: int | None = None
    frozen: bool = False
    arrivals: int = 60_000
    seed: int = 1
    waits: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    busy: float = 0.0
    end: float = 0.0

    def run(self) -> Simulation:
        rng = random.Random(self.seed)
        queue: deque[float] = deque()
        payloads: deque[list[float]] = deque()
        events: list[tuple[float, int]] = []
        running, fire = 0, self.preferred or self.max_batch
        slots = 2 * self.instances if self.frozen else self.instances
        arrivals = self._arrivals(rng)
        upcoming: float | None = next(arrivals)
        while upcoming is not None or events:
            if upcoming is not None and (not events or upcoming <= events[0][0]):
                now = upcoming
                queue.append(now)
                heapq.heappush(events, (now + self.delay, 0))
                upcoming = next(arrivals, None)
            else:
                now, finished = heapq.heappop(events)
                running -= finished
            while payloads or self._ready(queue, now, fire, running + len(payloads), slots):
                if self._ready(queue, now, fire, running + len(payloads), slots):
                    payloads.append([queue.popleft() for _ in range(min(len(queue), self.max_batch))])
                    if running >= self.instances:
                        continue
                if running >= self.instances:
                    break
                running += 1
                batch = payloads.popleft()
                held = self.occupancy(len(batch), rng)
                self.waits.extend(now - start for start in batch)
                self.sizes.append(len(batch))
                self.busy += held
                heapq.heappush(events, (now + held, 1))
            self.end = now
        return self

    def _arrivals(self, rng: random.Random) -> Iterator[float]:
        now = 0.0
        for _ in range(self.arrivals):
            now += rng.expovariate(self.rate)
            yield now

    def _ready(self, queue: deque[float], now: float, fire: int, held: int, slots: int) -> bool:
        if not queue or held >= slots:
            return False
        return len(queue) >= fire or now >= queue[0] + self.delay - 1e-12

    @property
    def queue_seconds(self) -> float:
        return sum(self.waits) / len(self.waits)

    @property
    def batch_size(self) -> float:
        return len(self.waits) / len(self.sizes)

    @property
    def busy_share(self) -> float:
        return self.busy / self.end / self.instances
