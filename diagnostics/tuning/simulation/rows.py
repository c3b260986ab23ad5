"""Rows of models that execute requests one by one, in the order in which they come; their clients may wait for answers.

When an execution ends is known as its request joins, so that a visit is one event. They do what the event-driven
schedulers do (`schedulers.Unbatched`), which a test holds them to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from random import Random

from diagnostics.tuning.simulation import clock as events
from diagnostics.tuning.simulation.clock import EventQueue, endless
from diagnostics.tuning.simulation.draws import arrivals, durations, stream
from diagnostics.tuning.simulation.observing import EntryLog, ModelLog
from diagnostics.tuning.simulation.scenario import ClosedLoop, EntryGraph, Model, OpenLoop, Scenario
from diagnostics.tuning.simulation.stability import LOOKS


def holds_rows(scenario: Scenario) -> bool:
    """Return whether a scenario consists of such rows, whose executions do not slow each other."""
    steps = [step for entry in scenario.entries for step in entry.steps]
    plain = all(
        model.batcher is None and model.engine is None and model.in_flight == 1 and not model.rate_limit
        for model in scenario.models
    )
    in_rows = all(entry.is_row and entry.steps for entry in scenario.entries)
    return plain and in_rows and not scenario.contended and all(step.tail_scv == 0 for step in steps)


# A step of a row: when its instances are free (a heap), what gives the seconds of an execution by its items, its
# dispatch gap, the seconds that an idle instance takes to begin, what notes when a request joins and its execution
# begins, ends, and its items, and the seconds that pass after an execution until the next queue or the answer.
_Note = Callable[[float], None]
_Step = tuple[list[float], Callable[[int], float], float, float, _Note, _Note, _Note, Callable[[int], None], float]


class _Row:
    """The way of one traffic's requests.

    Attributes:
        steps: what they pass.
        items: of each request.
        gap: seconds from an arrival to the first queue.
        log: what is noted of the requests.
        waits: whether clients wait for answers.
        again: returns when the next request comes: after an answer where clients wait, else after an arrival.

    """

    __slots__ = ("again", "gap", "items", "log", "steps", "waits")

    def __init__(
        self,
        traffic: OpenLoop | ClosedLoop,
        entry: EntryGraph,
        models: Mapping[str, Callable[[float], _Step]],
        log: EntryLog,
        rng: Random,
    ) -> None:
        gaps = [*(step.gap_seconds for step in entry.steps[1:]), 0.0]
        self.steps = [models[step.model](step.tail_seconds + gap) for step, gap in zip(entry.steps, gaps, strict=True)]
        self.items, self.gap, self.log = traffic.items, entry.steps[0].gap_seconds, log
        self.waits = isinstance(traffic, ClosedLoop)
        self.again = _after_thought(traffic, rng) if isinstance(traffic, ClosedLoop) else _as_drawn(traffic, rng)


def _after_thought(traffic: ClosedLoop, rng: Random) -> Callable[[float], float]:
    mean = traffic.think_seconds
    return lambda now: now + rng.expovariate(1 / mean) if mean > 0 else now


def _as_drawn(traffic: OpenLoop, rng: Random) -> Callable[[float], float]:
    times = arrivals(traffic, rng)
    return lambda _: next(times, inf)


def _steps(model: Model, log: ModelLog, rng: Random) -> Callable[[float], _Step]:
    """Return what makes a step of a model, given the seconds that pass after it."""
    free, seconds, gap = [0.0] * model.instances, durations(model, rng), model.service.dispatch_gap
    log.gap = gap
    joined, begun, ended, items = log.passages
    notes = joined.append, begun.append, ended.append, items.append
    return lambda after: (free, seconds, gap, model.start_seconds, *notes, after)


# What is next: when, its place among those of one time, its row, the step (or that it arrives), and when it arrived.
_Event = tuple[float, float, _Row, int, float]
_ARRIVES = -1


def by_rows(
    scenario: Scenario, clock: EventQueue, seed: int, models: Mapping[str, ModelLog], entries: Mapping[str, EntryLog]
) -> None:
    """Let the requests of a scenario of rows pass.

    Raises:
        Endless: more than `clock.MOST_EVENTS` of them arrive, come to a step or are answered.

    """
    steps = {
        model.name: _steps(model, models[model.name], stream(seed, f"service {model.name}"))
        for model in scenario.models
    }
    graphs = {entry.name: entry for entry in scenario.entries}
    plans: list[_Event] = []
    for position, traffic in enumerate(scenario.traffic):
        rng = stream(seed, f"traffic {position}")
        row = _Row(traffic, graphs[traffic.entry], steps, entries[traffic.entry], rng)
        firsts = [0.0] * traffic.clients if isinstance(traffic, ClosedLoop) else [row.again(0.0)]
        plans += [(first, len(plans) + at, row, _ARRIVES, 0.0) for at, first in enumerate(firsts)]
    heapify(plans)
    _pass(plans, clock.end)
    for log in entries.values():
        log.look_back(LOOKS)


def _pass(plans: list[_Event], end: float) -> None:
    for number in range(len(plans), len(plans) + events.MOST_EVENTS):
        if not plans or plans[0][0] >= end:
            return
        now, _, row, at, came = plans[0]
        if at == _ARRIVES:
            row.log.came.append(now)
            came, at = now, 0
            if not row.waits:
                heappush(plans, (row.again(now), number + 0.5, row, _ARRIVES, now))
            if row.gap > 0:
                heapreplace(plans, (now + row.gap, number, row, 0, now))
                continue
        if at < len(row.steps):
            free, seconds, gap, start, joins, begins, ends, holds, after = row.steps[at]
            begun = free[0]
            if begun < now + start:
                begun = now + start
            ended = begun + seconds(row.items)
            heapreplace(free, ended + gap)
            joins(now)
            begins(begun)
            ends(ended)
            holds(row.items)
            heapreplace(plans, (ended + after, number, row, at + 1, came))
            continue
        row.log.left.came.append(came)
        row.log.left.at.append(now)
        if row.waits:
            heapreplace(plans, (row.again(now), number, row, _ARRIVES, now))
        else:
            heappop(plans)
    raise endless(end)
