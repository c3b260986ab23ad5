"""A scenario, run."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.tuning.simulation.batcher import Batcher
from diagnostics.tuning.simulation.clock import Clock
from diagnostics.tuning.simulation.draws import durations, stream
from diagnostics.tuning.simulation.instances import Instances
from diagnostics.tuning.simulation.observing import EntryLog, ModelLog
from diagnostics.tuning.simulation.outcome import Outcome
from diagnostics.tuning.simulation.scenario import Model, Scenario
from diagnostics.tuning.simulation.traffic import start
from diagnostics.tuning.simulation.unbatched import Unbatched
from diagnostics.tuning.simulation.visits import Flow, Station


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    scenario: Scenario
    clock: Clock
    seed: int

    @property
    def most_items(self) -> int:
        return max((traffic.items for traffic in self.scenario.traffic), default=1)


def simulate(scenario: Scenario, *, seconds: float, warmup_seconds: float = 0.0, seed: int = 0) -> Outcome:
    """Run a scenario from empty queues for the warm-up and then `seconds`, and return what happened in the latter.

    The same scenario, seconds and seed give the same outcome. What is still inside at the end is in no latency.
    """
    run = _Run(scenario=scenario, clock=Clock(warmup_seconds, warmup_seconds + seconds), seed=seed)
    logs = {model.name: ModelLog(run.clock, _slots(model)) for model in scenario.models}
    stations = {model.name: _station(run, model, logs[model.name]) for model in scenario.models}
    entries = {entry.name: EntryLog(run.clock) for entry in scenario.entries}
    flows = {entry.name: Flow(run.clock, entry, stations, entries[entry.name]) for entry in scenario.entries}
    for position, traffic in enumerate(scenario.traffic):
        start(run.clock, traffic, flows[traffic.entry], stream(seed, f"traffic {position}"))
    run.clock.run()
    return Outcome(
        seconds=seconds,
        models={name: log.outcome() for name, log in logs.items()},
        entries={name: log.outcome() for name, log in entries.items()},
        stable=True,
    )


def _slots(model: Model) -> int:
    return 1 if model.engine else model.instances


def _station(run: _Run, model: Model, log: ModelLog) -> Station:
    seconds = durations(model, stream(run.seed, f"service {model.name}"), max(model.max_batch, run.most_items, 1))
    gap = model.service.dispatch_gap
    if model.batcher is None:
        return Unbatched(run.clock, log, model.instances, seconds, gap)
    batcher = Batcher(run.clock, log, model, stream(run.seed, f"race {model.name}"))
    batcher.instances = Instances(run.clock, log, model.instances, seconds, gap, batcher.freed)
    return batcher
