"""Which stages of a scenario cannot keep up with what is offered to them."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.tuning.simulation.outcome import Outcome
from diagnostics.tuning.simulation.scenario import ClosedLoop, Model, OpenLoop, Scenario


def offered(scenario: Scenario) -> Mapping[str, float]:
    """Return the items per second that open traffic offers to each model, nothing being turned away before."""
    entries = {entry.name: entry for entry in scenario.entries}
    found: dict[str, float] = {}
    for traffic in scenario.traffic:
        if isinstance(traffic, ClosedLoop):
            continue
        for step in entries[traffic.entry].steps:
            found[step.model] = found.get(step.model, 0.0) + open_rate(traffic) * traffic.items
    return found


def open_rate(traffic: OpenLoop) -> float:
    """Return the requests per second, of recorded arrivals their mean."""
    if traffic.times is None:
        return traffic.rate
    span = traffic.times[-1] - traffic.times[0] if traffic.times else 0.0
    return (len(traffic.times) - 1) / span if span > 0 else 0.0


def capacity(model: Model) -> float | None:
    """Return items per second with full batches, all instances at work and nothing shared; None for an engine."""
    if model.engine is not None:
        return None
    most = model.max_batch if model.batcher is not None else 1
    return model.instances * most / model.held(most)


def drain_seconds(model: Model) -> float:
    """Return the seconds per request at which a model works off what came at once."""
    most = capacity(model)
    if most is not None:
        return 1 / most
    engine = model.engine
    if engine is None:
        return 0.0
    iteration = engine.iteration_seconds + engine.iteration_seconds_per_request * engine.slots
    return engine.iterations * iteration / engine.slots + engine.prefill_seconds


def overloaded(scenario: Scenario, outcome: Outcome) -> frozenset[str]:
    """Return the models that cannot keep up: those offered more than they can do, and where the run says that something
    grew without end, the one that was busiest.

    A queue with a limit turns away what is too much, and stays finite.
    """
    wanted = offered(scenario)
    full = {model.name for model in scenario.models if _full(model, wanted.get(model.name, 0.0))}
    if not full and not outcome.stable:
        full = {max(outcome.models, key=lambda name: outcome.models[name].queue_length)}
    return frozenset(full)


def _full(model: Model, wanted: float) -> bool:
    most = capacity(model)
    limited = model.batcher is not None and model.batcher.policy is not None and model.batcher.policy.max_size > 0
    return most is not None and wanted >= most and not limited


def relaxation_seconds(scenario: Scenario) -> float:
    """Return how long the slowest queue that keeps up takes to forget how it began; 0 where none is loaded.

    For G/G/c in heavy traffic `(scv of arrivals + scv of service) / (capacity × slack²)` (Whitt 1989).
    """
    wanted, longest = offered(scenario), 0.0
    open_loops = [traffic for traffic in scenario.traffic if isinstance(traffic, OpenLoop)]
    scv = max((max(traffic.scv, traffic.burst) for traffic in open_loops), default=1.0)
    for model in scenario.models:
        most, rate = capacity(model), wanted.get(model.name, 0.0)
        if most is not None and 0 < rate < most:
            longest = max(longest, (scv + model.service_scv) / (most * (1 - rate / most) ** 2))
    return longest
