"""What is noted while a scenario runs, between the end of the warm-up and the end."""

from __future__ import annotations

from diagnostics.tuning.simulation.clock import Clock
from diagnostics.tuning.simulation.outcome import EntryOutcome, ModelOutcome


class Population:
    """How many there are, as an integral over the observed time."""

    __slots__ = ("_area", "_begin", "_end")

    def __init__(self, clock: Clock) -> None:
        self._begin, self._end = clock.begin, clock.end
        self._area = 0.0

    def enter(self, now: float) -> None:
        self._area += self._end - (now if now > self._begin else self._begin)

    def leave(self, now: float) -> None:
        """Take one out; `now` may lie ahead where the time of leaving is known already."""
        if now < self._end:
            self._area -= self._end - (now if now > self._begin else self._begin)

    @property
    def mean(self) -> float:
        """Return the time average."""
        return self._area / (self._end - self._begin)


class ModelLog:
    """What a model does."""

    __slots__ = (
        "_begin",
        "_end",
        "_slots",
        "arrived",
        "executions",
        "items",
        "refused",
        "running",
        "service",
        "waiting",
        "waits",
    )

    def __init__(self, clock: Clock, slots: int) -> None:
        self._begin, self._end, self._slots = clock.begin, clock.end, slots
        self.waiting = Population(clock)
        self.running = Population(clock)
        self.waits: list[float] = []
        self.service: list[float] = []
        self.executions = self.items = self.arrived = self.refused = 0

    def joined(self, now: float) -> None:
        """Note a request that joins the queue."""
        self.waiting.enter(now)
        if now >= self._begin:
            self.arrived += 1

    def turned_away(self, now: float) -> None:
        """Note a request that was refused at arrival and never joined the queue."""
        if now >= self._begin:
            self.arrived += 1
            self.refused += 1

    def expired(self, now: float) -> None:
        """Note a request that was refused while it waited."""
        self.waiting.leave(now)
        if now >= self._begin:
            self.refused += 1

    def taken(self, now: float, joined: float, seconds: float) -> None:
        """Note that a request is taken at `now` for an execution of `seconds`."""
        self.waiting.leave(now)
        if self._begin <= now < self._end:
            self.waits.append(now - joined)
            self.service.append(seconds)

    def noted(self, now: float) -> int | None:
        """Return at which position the next request's times will be noted; None outside the observed time."""
        return len(self.service) if self._begin <= now < self._end else None

    def served(self, noted: int, requests: int, seconds: float) -> None:
        """Correct the time of an execution whose end was not known when it began."""
        for position in range(noted, noted + requests):
            self.service[position] = seconds

    def executed(self, begun: float, items: int) -> None:
        """Note that an execution begins and occupies an instance until `running.leave`."""
        self.running.enter(begun)
        if self._begin <= begun < self._end:
            self.executions += 1
            self.items += items

    def iterated(self, begun: float, iterations: int, items: int) -> None:
        """Note iterations of an engine that began at `begun`, and the requests in each."""
        if self._begin <= begun < self._end:
            self.executions += iterations
            self.items += iterations * items

    def passed(self, joined: float, begun: float, seconds: float, freed: float, items: int) -> None:
        """Note a request that is executed alone, all of whose times are known; they may lie ahead."""
        self.taken(begun, joined, seconds)
        if begun < self._end:
            self.executed(begun, items)
            self.running.leave(freed)

    def outcome(self) -> ModelOutcome:
        return ModelOutcome(
            waits=self.waits,
            service=self.service,
            executions=self.executions,
            items=self.items,
            busy_share=self.running.mean / self._slots,
            queue_length=self.waiting.mean,
            arrived=self.arrived,
            refused=self.refused,
        )


class EntryLog:
    """What requests to an entry experience."""

    __slots__ = ("_begin", "_count", "arrived", "failed", "inside", "latencies", "seen")

    def __init__(self, clock: Clock) -> None:
        self._begin = clock.begin
        self.inside = Population(clock)
        self.latencies: list[float] = []
        self.arrived = self.failed = self._count = 0
        self.seen: list[int] = []

    def look(self, _now: float, _: object) -> None:
        """Note how many are inside."""
        self.seen.append(self._count)

    def arrives(self, now: float) -> None:
        self._count += 1
        self.inside.enter(now)
        if now >= self._begin:
            self.arrived += 1

    def answered(self, now: float, arrived: float) -> None:
        self._count -= 1
        self.inside.leave(now)
        if arrived >= self._begin:
            self.latencies.append(now - arrived)

    def fails(self, now: float, arrived: float) -> None:
        self._count -= 1
        self.inside.leave(now)
        if arrived >= self._begin:
            self.failed += 1

    def outcome(self) -> EntryOutcome:
        return EntryOutcome(
            latencies=self.latencies, arrived=self.arrived, failed=self.failed, in_system=self.inside.mean
        )
