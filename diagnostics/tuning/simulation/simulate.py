"""Who sends requests, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from random import Random

from diagnostics.errors import UsageError
from diagnostics.tuning.simulation.calling import Calling
from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.draws import arrivals, durations, stream
from diagnostics.tuning.simulation.engine import InFlight
from diagnostics.tuning.simulation.instances import Alone, Computing, Instances, Limited, Overlapping, RateLimiter
from diagnostics.tuning.simulation.observing import EntryLog, ModelLog, SimulationResult
from diagnostics.tuning.simulation.scenario import ClosedLoop, Model, OpenLoop, Scenario
from diagnostics.tuning.simulation.schedulers import Batcher, Queued, Unbatched
from diagnostics.tuning.simulation.sharing import ProcessorSharing, SharedComputing
from diagnostics.tuning.simulation.stability import LOOKS, bounded, grew
from diagnostics.tuning.simulation.visits import Flow, Station

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
        # Planned rather than sent at once, so that no scheduler is asked anew while it answers.
        self._clock.at(now + (max(think, _REFUSAL) if failed else think), self.send, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What the models of a run have in common."""

    clock: EventQueue
    seed: int
    sharing: ProcessorSharing
    limiter: RateLimiter
    callers: Collection[str]

    def computing(self, model: Model) -> Computing:
        """Return what a model's executions compute on."""
        computing = self.sharing.computing(model.demand)
        return Calling(self.clock, computing) if model.name in self.callers else computing


def simulate(scenario: Scenario, *, seconds: float, warmup_seconds: float = 0.0, seed: int = 0) -> SimulationResult:
    """Run a scenario from empty queues for the warm-up and then `seconds`, and return what happened in the latter.

    The same scenario, seconds and seed give the same outcome; scenarios that differ in one model see the same
    arrivals and the same luck elsewhere. What is still inside at the end is in no latency. `stable` is False where
    open-loop traffic asks for more than a model or a resource can do and no queue policy sheds it, and where the
    requests inside kept growing (`stability.grew`).

    Raises:
        UsageError: `seconds` is not positive, or a step or traffic names what the scenario does not hold.
        Endless: it takes more than a million events (`clock.MOST_EVENTS`).

    """
    _check(scenario, seconds)
    end = warmup_seconds + seconds
    clock = EventQueue(warmup_seconds, end)
    run = _Run(
        clock=clock,
        seed=seed,
        sharing=ProcessorSharing(clock, scenario.resources),
        limiter=RateLimiter(scenario.rate_limits),
        callers=scenario.calls,
    )
    models = {model.name: ModelLog(clock, 1 if model.engine else model.instances) for model in scenario.models}
    entries = {entry.name: EntryLog(clock) for entry in scenario.entries}
    _start(run, scenario, models, entries)
    clock.run()
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


def _start(run: _Run, scenario: Scenario, models: dict[str, ModelLog], entries: dict[str, EntryLog]) -> None:
    clock = run.clock
    stations = {model.name: _station(run, model, models[model.name]) for model in scenario.models}
    flows = {entry.name: Flow(clock, entry, stations, entries[entry.name], run.seed) for entry in scenario.entries}
    for position, traffic in enumerate(scenario.traffic):
        start(clock, traffic, flows[traffic.entry], stream(run.seed, f"traffic {position}"))
    for log in entries.values():
        for look in range(LOOKS):
            clock.at(clock.begin + (clock.end - clock.begin) * (look + 0.5) / LOOKS, log.look, None)


def _station(run: _Run, model: Model, log: ModelLog) -> Station:
    rng = stream(run.seed, f"service {model.name}")
    computing = run.computing(model)
    if model.engine:
        shared = computing if isinstance(computing, SharedComputing) else None
        return InFlight(run.clock, log, model.engine, rng, shared)
    seconds = durations(model, rng)
    limited = Limited(model.rate_limit, model.instances) if model.rate_limit else None
    limiter = run.limiter if limited else None
    kind = Overlapping if model.in_flight > 1 else Instances
    if model.batcher:
        batcher = Batcher(run.clock, log, model, stream(run.seed, f"race {model.name}"), limiter, limited)
        batcher.instances = kind(run.clock, log, model, seconds, computing, batcher.freed)
        if batcher.ordering:
            batcher.instances.respond = batcher.ordering.respond
        return batcher
    if limited or model.in_flight > 1 or not isinstance(computing, Alone):
        queued = Queued(run.clock, log, model, limiter, limited)
        queued.instances = kind(run.clock, log, model, seconds, computing, queued.freed)
        return queued
    return Unbatched(run.clock, log, model, seconds)
