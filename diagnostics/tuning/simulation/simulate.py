"""Runs of a scenario, and who sends its requests when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from diagnostics.errors import UsageError
from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.draws import arrivals, stream
from diagnostics.tuning.simulation.feed_forward import by_stages, in_order
from diagnostics.tuning.simulation.instances import RateLimiter
from diagnostics.tuning.simulation.observing import EntryLog, ModelLog, SimulationResult
from diagnostics.tuning.simulation.rows import by_rows, holds_rows
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop, Scenario
from diagnostics.tuning.simulation.sharing import ProcessorSharing
from diagnostics.tuning.simulation.stability import LOOKS, bounded, grew
from diagnostics.tuning.simulation.stations import Surroundings, station
from diagnostics.tuning.simulation.visits import Flow

# A client that is refused learns it after a round trip at the soonest: without one, a closed loop at a full queue
# would ask without end at one instant. 1 ms is what a request and its refusal take over HTTP in one data centre.
_REFUSAL = 0.001


def start(clock: EventQueue, traffic: OpenLoop | ClosedLoop, flow: Flow, rng: Random) -> None:
    """Let traffic begin."""
    if isinstance(traffic, OpenLoop):
        _Arrivals(clock, traffic, flow, rng).plan()
        return
    for _ in range(traffic.clients):
        clock.at(0.0, _Client(clock, traffic, flow, rng).send, None)


class _Arrivals:
    """Requests that come whatever the server does."""

    __slots__ = ("_clock", "_flow", "_items", "_priority", "_times")

    def __init__(self, clock: EventQueue, traffic: OpenLoop, flow: Flow, rng: Random) -> None:
        self._clock, self._flow = clock, flow
        self._items, self._priority = traffic.items, traffic.priority
        self._times: Iterator[float] = arrivals(traffic, rng)

    def plan(self) -> None:
        time = next(self._times, None)
        if time is not None:
            self._clock.at(time, self._arrive, None)

    def _arrive(self, now: float, _: object) -> None:
        self._flow.arrive(now, self._items, self._priority, None)
        self.plan()


class _Client:
    """A client that waits for its answer before it asks again."""

    __slots__ = ("_clock", "_flow", "_rng", "_traffic")

    def __init__(self, clock: EventQueue, traffic: ClosedLoop, flow: Flow, rng: Random) -> None:
        self._clock, self._traffic, self._flow, self._rng = clock, traffic, flow, rng

    def send(self, now: float, _: object) -> None:
        self._flow.arrive(now, self._traffic.items, 0, self._answered)

    def _answered(self, now: float, failed: bool) -> None:
        mean = self._traffic.think_seconds
        think = self._rng.expovariate(1 / mean) if mean > 0 else 0.0
        # Planned rather than sent at once, so that no scheduler is asked again while it answers.
        self._clock.at(now + (max(think, _REFUSAL) if failed else think), self.send, None)


def simulate(scenario: Scenario, *, seconds: float, warmup_seconds: float = 0.0, seed: int = 0) -> SimulationResult:
    """Run a scenario from empty queues for the warm-up and then `seconds`, and return what happened in the latter.

    The same scenario, seconds and seed give the same outcome; scenarios that differ in one model see the same
    arrivals and the same luck elsewhere. What is still inside at the end is in no latency. `stable` is False where
    open-loop traffic asks for more than a model or a resource can do and no queue policy sheds it, and where the
    requests inside kept growing (`stability.grew`).

    The way depends on the scenario: the first of these that holds it. All give the same outcome; only requests that
    come to a model at one instant may change places.

    - `feed_forward`: models that need not wait for one another run one after the other, each with all its arrivals.
    - `rows`: of models without batches, one event for each visit.
    - Event by event, all models together: batches where clients wait for answers, shared devices, rate limits, calls.

    Raises:
        UsageError: `seconds` is not positive, or a step or traffic names what the scenario does not hold.
        Endless: it takes more than a million events (`clock.MOST_EVENTS`).

    """
    _check(scenario, seconds)
    end = warmup_seconds + seconds
    clock = EventQueue(warmup_seconds, end)
    models = {model.name: ModelLog(clock, 1 if model.engine else model.instances) for model in scenario.models}
    entries = {entry.name: EntryLog(clock) for entry in scenario.entries}
    if order := in_order(scenario):
        by_stages(scenario, order, clock, seed, models, entries)
    elif holds_rows(scenario):
        by_rows(scenario, clock, seed, models, entries)
    else:
        _by_events(scenario, clock, seed, models, entries)
    return SimulationResult(
        seconds=seconds,
        models={name: log.outcome() for name, log in models.items()},
        entries={name: log.outcome() for name, log in entries.items()},
        stable=bounded(scenario, end) and not any(grew(log.seen, log.arrived) for log in entries.values()),
    )


def _check(scenario: Scenario, seconds: float) -> None:
    if seconds <= 0:
        raise UsageError(f"cannot simulate {seconds:g} seconds", hint="give a positive time")
    models, entries = {model.name for model in scenario.models}, {entry.name for entry in scenario.entries}
    unknown = {step.model for entry in scenario.entries for step in entry.steps} - models
    unknown |= {traffic.entry for traffic in scenario.traffic} - entries
    if unknown:
        raise UsageError(f"the scenario lacks {', '.join(sorted(unknown))}", hint="add it to its models or entries")


def _by_events(
    scenario: Scenario,
    clock: EventQueue,
    seed: int,
    models: Mapping[str, ModelLog],
    entries: Mapping[str, EntryLog],
) -> None:
    """Let all models of a scenario run together, one event after the other."""
    run = Surroundings(
        clock=clock,
        seed=seed,
        sharing=ProcessorSharing(clock, scenario.resources),
        limiter=RateLimiter(scenario.rate_limits),
        callers=scenario.calls,
    )
    stations = {model.name: station(run, model, models[model.name]) for model in scenario.models}
    flows = {entry.name: Flow(clock, entry, stations, entries[entry.name], seed) for entry in scenario.entries}
    for position, traffic in enumerate(scenario.traffic):
        start(clock, traffic, flows[traffic.entry], stream(seed, f"traffic {position}"))
    for log in entries.values():
        for moment in log.looks(LOOKS):
            clock.at(moment, log.look, None)
    clock.run()
