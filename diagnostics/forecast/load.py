"""Which stages of a scenario cannot keep up with what is offered to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from diagnostics.tuning.simulation import stability
from diagnostics.tuning.simulation.observing import SimulationResult
from diagnostics.tuning.simulation.scenario import ClosedLoop, Model, OpenLoop, Scenario


def offered(scenario: Scenario, passing: Mapping[str, float] | None = None) -> Mapping[str, float]:
    """Return the items per second that open traffic offers to each model.

    Of what reaches a model those behind it are offered the share in `passing`, by model; all, where it is not given. A
    model without a batcher executes a request whole, as one item (`whole`).
    """
    entries = {entry.name: entry for entry in scenario.entries}
    splits = {model.name for model in scenario.models if model.batcher is not None and model.engine is None}
    found: dict[str, float] = {}
    for traffic in scenario.traffic:
        if isinstance(traffic, ClosedLoop):
            continue
        for model, rate in stability.visits(entries[traffic.entry], open_rate(traffic), passing or {}):
            found[model] = found.get(model, 0.0) + rate * (traffic.items if model in splits else 1)
    return found


def reaching(scenario: Scenario) -> Mapping[str, float]:
    """Return the items per second that reach each model, where those before it pass on no more than they can do."""
    most = {model.name: 1 / drain_seconds(model) for model in lanes(scenario)}
    wanted, passing = offered(scenario), dict[str, float]()
    for _ in scenario.models:
        now = {name: most[name] / rate for name, rate in wanted.items() if rate > most[name]}
        if now == passing:
            break
        wanted, passing = offered(scenario, now), now
    return wanted


def lanes(scenario: Scenario) -> tuple[Model, ...]:
    """Return the models whole, executing for as long as they hold an instance: callers while they call, too."""
    return stability.holding(whole(scenario)).models


def whole(scenario: Scenario) -> Scenario:
    """Return the scenario with requests of several items as one item at models that do not batch."""
    entries = {entry.name: entry for entry in scenario.entries}
    sizes: dict[str, int] = {}
    for traffic in scenario.traffic:
        for step in entries[traffic.entry].steps:
            sizes[step.model] = max(sizes.get(step.model, 1), traffic.items)
    return replace(scenario, models=tuple(_whole(model, sizes.get(model.name, 1)) for model in scenario.models))


def _whole(model: Model, items: int) -> Model:
    if model.batcher is not None or items == 1:
        return model
    one = model.service
    service = replace(
        one,
        per_item=one.per_item * items,
        per_item_low=one.per_item_low * items,
        per_item_high=one.per_item_high * items,
        pivot=one.pivot / items,
    )
    return replace(model, service=service)


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
    return 1 / (capacity(model) or stability.capacity(model))


def overloaded(scenario: Scenario, outcome: SimulationResult) -> frozenset[str]:
    """Return the models that cannot keep up: those that more reaches than they can do, and where the run says that
    something grew without end, the one that was busiest.

    A queue with a limit, or with a timeout that rejects, drops the excess and stays finite.
    """
    wanted = reaching(scenario)
    full = {model.name for model in lanes(scenario) if is_full(model, wanted.get(model.name, 0.0))}
    growing = [model.name for model in scenario.models if not stability.sheds(model)]
    if not full and not outcome.stable and growing:
        full = {max(growing, key=lambda name: outcome.models[name].queue_length)}
    return frozenset(full)


def is_full(model: Model, wanted: float) -> bool:
    """Say whether as many items per second (of an engine, requests) as it can do reach a model that turns none away."""
    return wanted >= 1 / drain_seconds(model) and not stability.sheds(model)


def relaxation_seconds(scenario: Scenario) -> float:
    """Return how long the slowest queue that keeps up takes to forget how it began; 0 where none is loaded.

    For G/G/c in heavy traffic `(scv of arrivals + scv of service) / (capacity × slack²)` (Whitt 1989).
    """
    wanted, longest = offered(scenario), 0.0
    open_loops = [traffic for traffic in scenario.traffic if isinstance(traffic, OpenLoop)]
    scv = max((max(traffic.scv, traffic.burst) for traffic in open_loops), default=1.0)
    for model in lanes(scenario):
        most, rate = capacity(model), wanted.get(model.name, 0.0)
        if most is not None and 0 < rate < most:
            longest = max(longest, (scv + model.service_scv) / (most * (1 - rate / most) ** 2))
    return longest
