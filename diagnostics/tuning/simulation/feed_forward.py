"""Scenarios in which nothing comes back: one model after the other, each with all of its arrivals at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from operator import itemgetter

from diagnostics.tuning.simulation.clock import Call, EventQueue, check_events, no_more_than
from diagnostics.tuning.simulation.draws import arrivals, factors, stream
from diagnostics.tuning.simulation.engine import run_alone
from diagnostics.tuning.simulation.instances import RateLimiter
from diagnostics.tuning.simulation.observing import EntryLog, ModelLog
from diagnostics.tuning.simulation.recursions import Executed, executed
from diagnostics.tuning.simulation.scenario import EntryGraph, Model, OpenLoop, Scenario
from diagnostics.tuning.simulation.sharing import ProcessorSharing
from diagnostics.tuning.simulation.stability import LOOKS, sheds
from diagnostics.tuning.simulation.stations import Surroundings, station
from diagnostics.tuning.simulation.visits import SimulatedVisit


def in_order(scenario: Scenario) -> Sequence[Model] | None:
    """Return the models, each after those that feed it; None where they have to be simulated together.

    That is so where clients wait for answers, executions call models or slow each other, a rate limiter lets them
    wait for each other, requests visit a model again, or a queue policy ends a request that has branches.
    """
    steps = [step for entry in scenario.entries for step in entry.steps]
    bound = any(not isinstance(traffic, OpenLoop) for traffic in scenario.traffic)
    bound = bound or any(step.caller is not None for step in steps)
    bound = bound or any(model.rate_limit for model in scenario.models)
    bound = bound or scenario.contended
    shedding = {model.name for model in scenario.models if sheds(model)}
    for entry in scenario.entries:
        bound = bound or (not entry.is_row and any(step.model in shedding for step in entry.steps))
    if bound:
        return None
    sorter = TopologicalSorter({model.name: set[str]() for model in scenario.models})
    for entry in scenario.entries:
        for step in entry.steps:
            sorter.add(step.model, *(entry.steps[before].model for before in step.after))
    models = {model.name: model for model in scenario.models}
    try:
        return [models[name] for name in sorter.static_order()]
    except CycleError:
        return None


@dataclass(frozen=True, slots=True)
class _Passage:
    """When requests of an entry pass a point: ascending seconds, and the number of each request."""

    times: Sequence[float]
    requests: Sequence[int]

    def until(self, end: float) -> _Passage:
        """Return those before the end of the run."""
        count = bisect_left(self.times, end)
        return self if count == len(self.times) else _Passage(self.times[:count], self.requests[:count])

    def sorted(self) -> _Passage:
        """Return them in order of time; those of one time stay in their order."""
        order = sorted(range(len(self.times)), key=self.times.__getitem__)
        return _Passage([self.times[at] for at in order], [self.requests[at] for at in order])


@dataclass(slots=True)
class _EntryFlow:
    """An entry's requests, by number, and how far they have come.

    Attributes:
        came: when each arrived.
        items: its items.
        priorities: its level.
        passed: by step, when it ended.
        lost: when requests failed, and their numbers.

    """

    graph: EntryGraph
    end: float
    seed: int
    came: list[float] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    priorities: list[int] = field(default_factory=list)
    passed: dict[int, _Passage] = field(default_factory=dict)
    lost: list[tuple[float, int]] = field(default_factory=list)

    def come(self, traffic: Sequence[tuple[OpenLoop, Sequence[float]]]) -> None:
        """Take the requests of this entry: of each traffic its instants, in ascending seconds."""
        if len(traffic) == 1:
            ((one, times),) = traffic
            self.came, count = list(times), len(times)
            self.items, self.priorities = [one.items] * count, [one.priority] * count
            return
        rows = sorted(((time, one.items, one.priority) for one, times in traffic for time in times), key=itemgetter(0))
        self.came = [time for time, _, _ in rows]
        self.items = [items for _, items, _ in rows]
        self.priorities = [priority for _, _, priority in rows]

    def queued(self, position: int) -> _Passage:
        """Return when requests join the queue of a step."""
        step = self.graph.steps[position]
        comes = self._after(step.after) if step.after else _Passage(self.came, range(len(self.came)))
        if step.gap_seconds > 0:
            comes = _Passage([time + step.gap_seconds for time in comes.times], comes.requests).until(self.end)
        return comes

    def leave(self, position: int, answered: _Passage) -> None:
        """Note when the executions of a step ended."""
        step = self.graph.steps[position]
        if step.tail_seconds > 0:
            vary = factors(step.tail_scv, stream(self.seed, f"tail {self.graph.name} {position}"))
            tails = [step.tail_seconds * vary() if vary else step.tail_seconds for _ in answered.times]
            times = [time + tail for time, tail in zip(answered.times, tails, strict=True)]
            answered = _Passage(times, answered.requests)
            answered = (answered.sorted() if vary else answered).until(self.end)
        self.passed[position] = answered

    def note(self, log: EntryLog) -> None:
        """Write down what the requests experienced."""
        followed = {before for step in self.graph.steps for before in step.after}
        left = self._after([at for at in range(len(self.graph.steps)) if at not in followed])
        log.came = self.came
        log.left.note(map(self.came.__getitem__, left.requests), left.times)
        self.lost.sort()
        log.lost.note([self.came[request] for _, request in self.lost], [time for time, _ in self.lost])
        log.look_back(LOOKS)

    def _after(self, steps: Sequence[int]) -> _Passage:
        """Return when requests have passed all of some steps."""
        first, *others = passages = [self.passed[step] for step in steps]
        if not others:
            return first
        latest = dict(zip(first.requests, first.times, strict=True))
        for other in others:
            latest = {
                request: max(time, latest[request])
                for time, request in zip(other.times, other.requests, strict=True)
                if request in latest
            }
        # Those of one execution stay in its order.
        last = [
            (time, request)
            for one in passages
            for time, request in zip(one.times, one.requests, strict=True)
            if latest.get(request) == time and latest.pop(request) is not None
        ]
        last.sort(key=itemgetter(0))
        return _Passage([time for time, _ in last], [request for _, request in last])


def by_stages(
    scenario: Scenario,
    order: Sequence[Model],
    clock: EventQueue,
    seed: int,
    models: Mapping[str, ModelLog],
    entries: Mapping[str, EntryLog],
) -> None:
    """Let a scenario's models run in this order, each from the begin to the end.

    Raises:
        Endless: requests visit models more often than `clock.MOST_EVENTS`, or a model takes more events than that.

    """
    flows = {entry.name: _EntryFlow(entry, clock.end, seed) for entry in scenario.entries}
    visits = 0
    for name, flow in flows.items():
        flow.come(list(_instants(scenario, name, clock.end, seed)))
        visits += len(flow.came)
    for model in order:
        joining = _Joining.at(model, flows.values())
        visits += len(joining.times)
        check_events(visits, clock.end)
        _execute(model, joining, models[model.name], clock, seed)
    for name, flow in flows.items():
        flow.note(entries[name])


def _instants(scenario: Scenario, entry: str, end: float, seed: int) -> Iterator[tuple[OpenLoop, Sequence[float]]]:
    for position, traffic in enumerate(scenario.traffic):
        if isinstance(traffic, OpenLoop) and traffic.entry == entry:
            yield traffic, no_more_than(arrivals(traffic, stream(seed, f"traffic {position}")), end)


def _at(values: Sequence[int], places: Sequence[int]) -> Sequence[int]:
    """Return the values at these places: a range of them begins at the first."""
    if isinstance(places, range):
        return values if len(places) == len(values) else values[: len(places)]
    return list(map(values.__getitem__, places))


class _NumberedVisit(SimulatedVisit):
    """A visit by its place among those that join a model."""

    __slots__ = ("number",)

    def __init__(self, stage: _Exit, items: int, priority: int, number: int) -> None:
        super().__init__(stage, items, priority)
        self.number = number


class _Exit:
    """Where visits to a model end: when those did that were answered and those that were not, and their places."""

    __slots__ = ("done", "left", "lost")

    def __init__(self) -> None:
        self.left: list[tuple[float, int]] = []
        self.lost: list[tuple[float, int]] = []
        self.done: Call = self._done

    def _done(self, now: float, visit: _NumberedVisit) -> None:
        self.left.append((now, visit.number))

    def refuse(self, now: float, visit: _NumberedVisit) -> None:
        """Note that a queue policy turned a visit away."""
        self.lost.append((now, visit.number))


@dataclass(frozen=True, slots=True)
class _Joining:
    """All visits to a model, in the order in which they join its queue.

    Attributes:
        steps: the steps that make them, each of an entry.
        times: when each joins.
        of: which step makes each.
        requests: which request of that step's entry.

    """

    steps: Sequence[tuple[_EntryFlow, int]]
    times: Sequence[float]
    of: Sequence[int]
    requests: Sequence[int]

    @classmethod
    def at(cls, model: Model, flows: Iterable[_EntryFlow]) -> _Joining:
        """Return the visits to a model."""
        steps = [
            (flow, position)
            for flow in flows
            for position, step in enumerate(flow.graph.steps)
            if step.model == model.name
        ]
        queued = [flow.queued(position) for flow, position in steps]
        if len(queued) == 1:
            return cls(steps, queued[0].times, bytes(len(queued[0].times)), queued[0].requests)
        rows = [
            (time, at, request)
            for at, one in enumerate(queued)
            for time, request in zip(one.times, one.requests, strict=True)
        ]
        rows.sort(key=itemgetter(0))
        return cls(steps, [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])

    @property
    def items(self) -> Sequence[int]:
        """The items of each visit."""
        if len(self.steps) == 1:
            return _at(self.steps[0][0].items, self.requests)
        return [self.steps[at][0].items[request] for at, request in zip(self.of, self.requests, strict=True)]

    def visits(self, end: _Exit) -> Iterator[_NumberedVisit]:
        """Yield the visits, which all end at one place."""
        for number, (at, request) in enumerate(zip(self.of, self.requests, strict=True)):
            flow = self.steps[at][0]
            visit = _NumberedVisit(end, flow.items[request], flow.priorities[request], number)
            visit.joined = self.times[number]
            yield visit

    def leave(self, answered: _Passage) -> None:
        """Let visits pass on that were answered, by their places."""
        if len(self.steps) == 1:
            flow, position = self.steps[0]
            flow.leave(position, _Passage(answered.times, _at(self.requests, answered.requests)))
            return
        for at, (flow, position) in enumerate(self.steps):
            mine = [place for place, number in enumerate(answered.requests) if self.of[number] == at]
            times = [answered.times[place] for place in mine]
            flow.leave(position, _Passage(times, [self.requests[answered.requests[place]] for place in mine]))

    def lose(self, lost: Sequence[tuple[float, int]]) -> None:
        """Let the requests of visits fail, by their places."""
        for time, number in lost:
            self.steps[self.of[number]][0].lost.append((time, self.requests[number]))


def _execute(model: Model, joining: _Joining, log: ModelLog, clock: EventQueue, seed: int) -> None:
    """Let a model execute all visits to it, and those pass on that are answered."""
    if model.engine:
        rng = stream(seed, f"service {model.name}")
        answered = run_alone(model.engine, rng, joining.times, log, clock.end)
        joining.leave(_Passage(answered, range(len(answered))).sorted().until(clock.end))
        return
    items = joining.items
    found = executed(model, joining.times, items, seed)
    if found is None:
        _execute_by_events(model, joining, log, EventQueue(clock.begin, clock.end), seed)
        return
    _note(found, joining, items, log, model.service.dispatch_gap)
    passage = _Passage(found.answered, range(len(found.answered)))
    joining.leave((passage.sorted() if model.instances > 1 else passage).until(clock.end))


def _note(found: Executed, joining: _Joining, items: Sequence[int], log: ModelLog, gap: float) -> None:
    log.gap = gap
    worked = log.passed(joining.times, found.begun, found.ended)
    if len(found.sizes) in (0, len(found.begun)):
        log.ran(found.begun, found.ended, items, worked)
        return
    firsts = list(accumulate(found.sizes, initial=0))[:-1]
    begun, ended = ([column[at] for at in firsts] for column in (found.begun, found.ended))
    log.ran(begun, ended, found.sizes, log.worked(begun, ended))


def _execute_by_events(model: Model, joining: _Joining, log: ModelLog, clock: EventQueue, seed: int) -> None:
    ends = _Exit()
    run = Surroundings(
        clock=clock, seed=seed, sharing=ProcessorSharing(clock, ()), limiter=RateLimiter({}), callers=frozenset()
    )
    clock.run_beside(joining.times, joining.visits(ends), station(run, model, log).join)
    joining.lose(ends.lost)
    joining.leave(_Passage([time for time, _ in ends.left], [number for _, number in ends.left]))
