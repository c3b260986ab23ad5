"""What a simulation observed, as the server's own clocks would have seen it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from diagnostics.tuning.simulation.clock import EventQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutcome:
    """What a model did between the end of the warm-up and the end of the run.

    Attributes:
        waits: seconds each of its requests queued, in the order in which they were taken.
        service: seconds each of its requests spent in the execution it was part of, in the same order; of one that
            had not ended, what it would take alone (0 in an engine).
        executions: executions that began; of an engine, iterations.
        items: items in them; of an engine, the requests in each iteration.
        busy_share: share of time an instance was occupied, dispatch gaps included, mean over instances; where
            executions overlap, in which it computed. Of an engine, the share of time in which it ran anything.
        queue_length: time average of the requests that waited.
        arrived: requests that joined its queue, refused ones included.
        refused: requests turned away by its queue policy (size or timeout).

    """

    waits: Sequence[float]
    service: Sequence[float]
    executions: int
    items: int
    busy_share: float
    queue_length: float
    arrived: int
    refused: int

    @property
    def batch_size_mean(self) -> float | None:
        """Items per execution; None when nothing executed."""
        return self.items / self.executions if self.executions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryOutcome:
    """What requests to an entry experienced.

    Attributes:
        latencies: seconds from arrival to answer of each request that arrived after the warm-up and was answered.
        arrived: requests that arrived after the warm-up.
        failed: those of them that a queue policy turned away at some stage.
        answered: requests that were answered after the warm-up, those included that arrived in it.
        in_system: time average of the requests inside (Little's law: rate × mean latency).

    """

    latencies: Sequence[float]
    arrived: int
    failed: int
    answered: int
    in_system: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """The run of a scenario.

    Attributes:
        seconds: simulated seconds after the warm-up.
        models: by model.
        entries: by entry.
        stable: False where the requests inside kept growing, so that means depend on the run's length.

    """

    seconds: float
    models: Mapping[str, ModelOutcome]
    entries: Mapping[str, EntryOutcome]
    stable: bool


_JOINED, _BEGUN, _ITEMS = itemgetter(0), itemgetter(1), itemgetter(3)


class Population:
    """How many there are, as an integral over the observed time."""

    __slots__ = ("_area", "_begin", "_end")

    def __init__(self, clock: EventQueue) -> None:
        self._begin, self._end = clock.begin, clock.end
        self._area = 0.0

    def enter(self, now: float) -> None:
        self._area += self._end - (now if now > self._begin else self._begin)

    def leave(self, now: float) -> None:
        """Take one out; `now` may lie ahead where the time of leaving is known already."""
        if now < self._end:
            self._area -= self._end - (now if now > self._begin else self._begin)

    def add(self, area: float) -> None:
        """Count the seconds that others were there within the observed time, all together."""
        self._area += area

    @property
    def mean(self) -> float:
        """Return the time average."""
        return self._area / (self._end - self._begin)


class ModelLog:
    """What a model does.

    Attributes:
        passages: when each request that was executed alone joined, began and ended, and its items, where that is known
            as it comes.
        gap: seconds that such an execution holds its instance after its end.

    """

    __slots__ = (
        "_begin",
        "_end",
        "_slots",
        "arrived",
        "executions",
        "gap",
        "items",
        "passages",
        "refused",
        "running",
        "service",
        "waiting",
        "waits",
    )

    def __init__(self, clock: EventQueue, slots: int) -> None:
        self._begin, self._end, self._slots = clock.begin, clock.end, slots
        self.waiting = Population(clock)
        self.running = Population(clock)
        self.waits: list[float] = []
        self.service: list[float] = []
        self.passages: list[tuple[float, float, float, int]] = []
        self.gap = 0.0
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
        """Note that an execution begins; it occupies an instance from `running.enter` to `running.leave`."""
        if self._begin <= begun < self._end:
            self.executions += 1
            self.items += items

    def iterated(self, begun: float, iterations: int, items: int) -> None:
        """Note iterations of an engine that began at `begun`, and the requests in each."""
        if self._begin <= begun < self._end:
            self.executions += iterations
            self.items += iterations * items

    def outcome(self) -> ModelOutcome:
        if self.passages:
            self._settle()
        return ModelOutcome(
            waits=self.waits,
            service=self.service,
            executions=self.executions,
            items=self.items,
            busy_share=min(self.running.mean / self._slots, 1.0),  # sums of a million times are rounded
            queue_length=self.waiting.mean,
            arrived=self.arrived,
            refused=self.refused,
        )

    def _settle(self) -> None:
        """Note the passages, which are in order of `joined` and of `begun`: first come, first served."""
        begin, end, passages = self._begin, self._end, self.passages
        first, last = (bisect_left(passages, edge, key=_BEGUN) for edge in (begin, end))
        seen = passages[first:last]
        waits = [begun - joined for joined, begun, _, _ in seen]
        service = [ended - begun for _, begun, ended, _ in seen]
        self.waits += waits
        self.service += service
        self.executions += len(seen)
        self.items += sum(map(_ITEMS, seen))
        earlier = bisect_left(passages, begin, key=_JOINED)
        self.arrived += len(passages) - earlier
        # All of what is between the edges, less what lies before them and with what reaches in from outside.
        before = sum(begin - joined for joined, _, _, _ in passages[first : min(earlier, last)])
        after = sum(end - max(joined, begin) for joined, _, _, _ in passages[last:])
        self.waiting.add(sum(waits) - before + after)
        over = sum(freed - end for _, _, ended, _ in seen if (freed := ended + self.gap) > end)
        into = sum(
            min(freed, end) - begin for _, _, ended, _ in passages[:first] if (freed := ended + self.gap) > begin
        )
        self.running.add(sum(service) + len(seen) * self.gap - over + into)


class EntryLog:
    """What requests to an entry experience.

    Attributes:
        came: when each arrived.
        left: when each that was answered arrived, and was answered.
        lost: when each that failed arrived, and failed.
        seen: how many were inside at each look.

    """

    __slots__ = ("_begin", "_end", "came", "left", "lost", "seen")

    def __init__(self, clock: EventQueue) -> None:
        self._begin, self._end = clock.begin, clock.end
        self.came: list[float] = []
        self.left: list[tuple[float, float]] = []
        self.lost: list[tuple[float, float]] = []
        self.seen: list[int] = []

    def look(self, _now: float, _: object) -> None:
        """Note how many are inside."""
        self.seen.append(len(self.came) - len(self.left) - len(self.lost))

    @property
    def arrived(self) -> int:
        """Return how many arrived in the observed time."""
        return sum(came >= self._begin for came in self.came)

    def outcome(self) -> EntryOutcome:
        begin, end = self._begin, self._end
        # Since each came until the end, less what is after each left.
        inside = sum([end - (came if came > begin else begin) for came in self.came])
        for gone in (self.left, self.lost):
            inside -= sum([end - (left if left > begin else begin) for _, left in gone])
        return EntryOutcome(
            latencies=[left - came for came, left in self.left if came >= begin],
            arrived=self.arrived,
            failed=sum(came >= begin for came, _ in self.lost),
            answered=sum(left >= begin for _, left in self.left),
            in_system=inside / (end - begin),
        )
