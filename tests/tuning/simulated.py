"""Scenarios of one model, and of chains of models, for tests of the simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.simulation.observing import EntryOutcome, ModelOutcome, SimulationResult
from diagnostics.tuning.simulation.scenario import EngineModel, EntryGraph, Model, ModelVisit, OpenLoop, Scenario
from diagnostics.tuning.simulation.simulate import simulate

# No two of these times are multiples of one another: what happens at one instant has no order of its own.
ENGINES = st.builds(
    EngineModel,
    slots=st.integers(1, 4),
    prefill_seconds=st.sampled_from([0.0, 0.00103]),
    iteration_seconds=st.just(0.00207),
    iteration_seconds_per_request=st.sampled_from([0.0, 0.00011]),
    iterations=st.sampled_from([1.0, 3.5]),
    iterations_scv=st.sampled_from([0.0, 0.5]),
    tokens_per_request=st.just(10.0),
    cache_tokens=st.sampled_from([None, 25.0]),
    prefill_tokens=st.just(5.0),
    token_budget=st.sampled_from([None, 8]),
    continuous=st.booleans(),
)


def service(seconds: float, *, per_item: float = 0.0, gap: float = 0.0) -> ServiceTime:
    return ServiceTime(
        base=seconds - per_item, per_item=per_item, per_item_low=per_item, per_item_high=per_item, dispatch_gap=gap
    )


def model(seconds: float = 0.01, *, name: str = "m", per_item: float = 0.0, gap: float = 0.0, **settings: Any) -> Model:
    return Model(name=name, service=service(seconds, per_item=per_item, gap=gap), **settings)


def single(name: str = "m") -> EntryGraph:
    return EntryGraph(name=name, steps=(ModelVisit(model=name),))


def alone(model: Model, *traffic: OpenLoop, **shared: Any) -> Scenario:
    """Return a scenario whose only model is called directly."""
    return Scenario(models=(model,), entries=(single(model.name),), traffic=traffic, **shared)


def replayed(
    model: Model, times: Sequence[float], *, items: Sequence[int] = (), levels: Sequence[int] = (), **shared: Any
) -> Scenario:
    """Return requests at given milliseconds to one model, each with its items and priority level."""
    plain = OpenLoop(entry=model.name)
    traffic = [
        replace(
            plain,
            times=(time / 1e3,),
            items=items[position] if items else 1,
            priority=levels[position] if levels else 0,
        )
        for position, time in enumerate(times)
    ]
    return alone(model, *traffic, **shared)


def milliseconds(values: Sequence[float]) -> list[float]:
    return [round(value * 1e3, 6) for value in values]


def run(scenario: Scenario, *, seconds: float = 2.0, seed: int = 0) -> SimulationResult:
    return simulate(scenario, seconds=seconds, seed=seed)


def waits(scenario: Scenario, name: str = "m") -> list[float]:
    """Return the milliseconds that each request waited, in the order in which they were taken."""
    return milliseconds(run(scenario).models[name].waits)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def queue(outcome: ModelOutcome) -> float:
    return mean(outcome.waits)


def assert_one_outcome(scenario: Scenario, *, seed: int, seconds: float = 3.0) -> None:
    """Refuse a scenario that events, one after the other, give another outcome than the way that is chosen for it."""
    ours = simulate(scenario, seconds=seconds, warmup_seconds=0.5, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diagnostics.tuning.simulation.simulate.in_order", lambda _: None)
        patch.setattr("diagnostics.tuning.simulation.simulate.holds_rows", lambda _: False)
        theirs = simulate(scenario, seconds=seconds, warmup_seconds=0.5, seed=seed)
    assert ours.stable == theirs.stable
    for name, entry in ours.entries.items():
        _alike(entry, theirs.entries[name], ("latencies",), ("in_system",), ("arrived", "failed", "answered"))
    for name, one in ours.models.items():
        numbers = ("arrived", "executions", "items", "refused")
        _alike(one, theirs.models[name], ("waits", "service"), ("busy_share", "queue_length"), numbers)


def _alike(
    ours: EntryOutcome | ModelOutcome,
    theirs: EntryOutcome | ModelOutcome,
    series: Sequence[str],
    means: Sequence[str],
    numbers: Sequence[str],
) -> None:
    assert [getattr(ours, name) for name in numbers] == [getattr(theirs, name) for name in numbers]
    for name in series:
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-9, abs=1e-9)
    for name in means:
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-6, abs=1e-9)
