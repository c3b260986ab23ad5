"""What a simulation observed, as the server's own clocks would have seen it."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from typing import NamedTuple, TypeVar

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
        refused: requests rejected by its queue policy (size or timeout).

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
        failed: those of them that a queue policy rejected at some stage.
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


class Passages(NamedTuple):
    """Executions of one request each, in columns."""

    joined: array[float]
    begun: array[float]
    ended: array[float]
    items: array[int]


class ModelLog:
    """What a model does.

    Attributes:
        passages: of requests that were executed alone, where that is known as they come: when each joined, when its
            execution began and ended, and its items.
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
        self.passages = Passages(array("d"), array("d"), array("d"), array("Q"))
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
        joined, begun, ended, items = self.passages
        self.ran(begun, ended, items, self.passed(joined, begun, ended))
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

    def passed(self, joined: Sequence[float], begun: Sequence[float], ended: Sequence[float]) -> float:
        """Note when requests joined, and their executions began and ended; the first two are ascending.

        Returns:
            The seconds of all executions that began in the observed time, once for each of their requests.

        """
        begin, end = self._begin, self._end
        first, last = bisect_left(begun, begin), bisect_left(begun, end)
        waits = list(map(sub, _part(begun, first, last), _part(joined, first, last)))
        service = list(map(sub, _part(ended, first, last), _part(begun, first, last)))
        self.waits += waits
        self.service += service
        earlier = bisect_left(joined, begin)
        self.arrived += len(joined) - earlier
        # All of what is between the edges, less what lies before them and with what reaches in from outside.
        before = sum(begin - one for one in joined[first : min(earlier, last)])
        after = sum(end - max(one, begin) for one in joined[last:])
        self.waiting.add(sum(waits) - before + after)
        worked: float = sum(service)
        return worked

    def worked(self, begun: Sequence[float], ended: Sequence[float]) -> float:
        """Return the seconds of those executions that began in the observed time, in the order of their begin."""
        first, last = bisect_left(begun, self._begin), bisect_left(begun, self._end)
        worked: float = sum(map(sub, ended[first:last], begun[first:last]))
        return worked

    def ran(self, begun: Sequence[float], ended: Sequence[float], items: Sequence[int], worked: float) -> None:
        """Note executions, of which each holds an instance until `gap` after its end, in the order of their begin.

        `worked` is the seconds of those that began in the observed time.
        """
        begin, end, gap = self._begin, self._end, self.gap
        first, last = bisect_left(begun, begin), bisect_left(begun, end)
        self.executions += last - first
        self.items += sum(_part(items, first, last))
        seen = _part(ended, first, last)
        over = 0.0
        if last > first and max(seen) + gap > end:
            over = sum([one + gap - end for one in seen if one + gap > end])
        into = sum([min(one + gap, end) - begin for one in ended[:first] if one + gap > begin])
        self.running.add(worked + (last - first) * gap - over + into)


_T = TypeVar("_T")


def _part(values: Sequence[_T], first: int, last: int) -> Sequence[_T]:
    """Return a part of a column, without a copy where it is all."""
    return values if last - first == len(values) else values[first:last]


class Departures:
    """Requests that are no longer inside: when each had arrived, and when it went, which is ascending."""

    __slots__ = ("at", "came")

    def __init__(self) -> None:
        self.came: list[float] = []
        self.at: list[float] = []

    def note(self, came: Iterable[float], at: Iterable[float]) -> None:
        """Note several, in the order in which they go."""
        self.came += came
        self.at += at


class EntryLog:
    """What requests to an entry experience.

    Attributes:
        came: when each arrived.
        left: those that were answered.
        lost: those that failed.
        seen: how many were inside at each look.

    """

    __slots__ = ("_begin", "_end", "came", "left", "lost", "seen")

    def __init__(self, clock: EventQueue) -> None:
        self._begin, self._end = clock.begin, clock.end
        self.came: list[float] = []
        self.left = Departures()
        self.lost = Departures()
        self.seen: list[int] = []

    def look(self, _now: float, _: object) -> None:
        """Note how many are inside."""
        self.seen.append(len(self.came) - len(self.left.at) - len(self.lost.at))

    def looks(self, number: int) -> Sequence[float]:
        """Return so many moments in seconds, at equal distances within the observed time."""
        return [self._begin + (self._end - self._begin) * (look + 0.5) / number for look in range(number)]

    def look_back(self, number: int) -> None:
        """Note how many were inside at so many moments, of a run that is over."""
        for moment in self.looks(number):
            came, left, lost = (bisect_left(times, moment) for times in (self.came, self.left.at, self.lost.at))
            self.seen.append(came - left - lost)

    @property
    def arrived(self) -> int:
        """Return how many arrived in the observed time."""
        return len(self.came) - bisect_left(self.came, self._begin)

    def outcome(self) -> EntryOutcome:
        begin, left = self._begin, self.left
        # Since each came until the end, less what is after each left.
        inside = self._until_end(self.came) - self._until_end(left.at) - self._until_end(self.lost.at)
        return EntryOutcome(
            latencies=[gone - came for came, gone in zip(left.came, left.at, strict=True) if came >= begin],
            arrived=self.arrived,
            failed=sum(came >= begin for came in self.lost.came),
            answered=len(left.at) - bisect_left(left.at, begin),
            in_system=inside / (self._end - begin),
        )

    def _until_end(self, times: Sequence[float]) -> float:
        """Return the observed seconds that follow on each of these ascending times."""
        begin, end = self._begin, self._end
        before = bisect_left(times, begin)
        return before * (end - begin) + sum([end - time for time in times[before:]])
