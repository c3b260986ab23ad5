"""How fast scenarios are simulated, against the same model in `simpy`, both in this one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import TypeVar

import pytest

from diagnostics.tuning.simulation.observing import SimulationResult
from diagnostics.tuning.simulation.scenario import DynamicBatcher, EntryGraph, ModelVisit, OpenLoop, Scenario
from diagnostics.tuning.simulation.simulate import simulate
from tests.bench.simpy_ensemble import Chain
from tests.tuning.simulated import mean, model

T = TypeVar("T")

SECONDS = (0.004, 0.008, 0.002, 0.01, 0.003)
GAP = 0.00015
RATE = 70.0
REQUESTS = 100_000
RATIO = 5.0


def _times(requests: int) -> list[float]:
    rng, now, times = Random(3), 0.0, []
    for _ in range(requests):
        now += rng.expovariate(RATE)
        times.append(now)
    return times


def _scenario(times: list[float], batcher: DynamicBatcher | None) -> Scenario:
    names = [f"stage {position}" for position in range(len(SECONDS))]
    return Scenario(
        models=tuple(
            model(seconds, name=name, gap=GAP, batcher=batcher, max_batch=8 if batcher else 1)
            for name, seconds in zip(names, SECONDS, strict=True)
        ),
        entries=(
            EntryGraph(
                name="ensemble",
                steps=tuple(ModelVisit(model=name, after=(k - 1,) if k else ()) for k, name in enumerate(names)),
            ),
        ),
        traffic=(OpenLoop(entry="ensemble", times=times),),
    )


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    # Of the processor, not of the wall clock: the machine is shared, and nothing here waits for anything.
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def _ours(times: list[float], batcher: DynamicBatcher | None = None) -> tuple[SimulationResult, float]:
    return _timed(lambda: simulate(_scenario(times, batcher), seconds=times[-1] + 10))


def test_a_hundred_thousand_requests_through_five_stages_take_a_fifth_of_what_simpy_takes() -> None:
    times = _times(REQUESTS)
    work = [[seconds] * REQUESTS for seconds in SECONDS]
    ours, before = _ours(times)
    theirs, reference = _timed(lambda: Chain(times, work, GAP).run())
    # On both sides of the reference, as a shared machine's speed drifts.
    mine = (before + _ours(times)[1]) / 2

    print(f"\n{mine:.2f} s, simpy {reference:.2f} s: {reference / mine:.1f} times as fast")
    assert mean(ours.entries["ensemble"].latencies) == pytest.approx(mean(theirs.latencies), rel=1e-9)
    for name, waits in zip(ours.models, theirs.waits, strict=True):
        assert sum(ours.models[name].waits) == pytest.approx(sum(waits), rel=1e-6, abs=1e-6)
    assert reference / mine >= RATIO


@pytest.mark.parametrize("delay", [0.0, 0.0005])
def test_a_visit_to_a_batcher_takes_at_most_twice_what_simpy_takes_for_a_plain_queue(delay: float) -> None:
    times = _times(REQUESTS // 20)
    work = [[seconds] * len(times) for seconds in SECONDS]
    ours = min(_ours(times, DynamicBatcher(delay_seconds=delay))[1] for _ in range(3))
    reference = min(_timed(lambda: Chain(times, work, GAP).run())[1] for _ in range(3))

    visits = len(times) * len(SECONDS)
    print(f"\n{visits / ours:,.0f} visits per second; simpy {visits / reference:,.0f}")
    assert ours < 2 * reference
