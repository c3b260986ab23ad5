"""How fast scenarios are simulated, against the same model in `simpy`, both in this one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TypeVar

import pytest

from diagnostics.tuning.simulation.draws import stream
from diagnostics.tuning.simulation.observing import SimulationResult
from diagnostics.tuning.simulation.scenario import (
    ClosedLoop,
    DynamicBatcher,
    EntryGraph,
    ModelVisit,
    OpenLoop,
    Scenario,
)
from diagnostics.tuning.simulation.simulate import simulate
from tests.bench.conftest import Goals
from tests.bench.simpy_clients import Clients
from tests.bench.simpy_ensemble import Chain
from tests.tuning.simulated import mean, model

T = TypeVar("T")

SECONDS = (0.004, 0.008, 0.002, 0.01, 0.003)
GAP = 0.00015
RATE = 70.0
REQUESTS = 100_000
CLIENTS, THINK = 8, 0.1
# Times as fast as simpy.
IN_ROWS, BATCHED, WAITED_FOR = 20.0, 8.0, 8.0


def _times(requests: int) -> list[float]:
    rng, now, times = Random(3), 0.0, []
    for _ in range(requests):
        now += rng.expovariate(RATE)
        times.append(now)
    return times


def _scenario(times: list[float], batcher: DynamicBatcher | None = None) -> Scenario:
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


def _compared(ours: Callable[[], T], theirs: Callable[[], object]) -> tuple[T, float]:
    """Return the outcome of ours, and how many times as fast it is: the least that either took of several."""
    took: list[float] = []
    reference: list[float] = []
    for _ in range(3):
        # In turns, as a shared machine's speed drifts.
        result, seconds = _timed(ours)
        took.append(seconds)
        reference.append(_timed(theirs)[1])
    return result, min(reference) / min(took)


def test_a_hundred_thousand_requests_through_five_stages_take_a_twentieth_of_what_simpy_takes(goals: Goals) -> None:
    times = _times(REQUESTS)
    work = [[seconds] * REQUESTS for seconds in SECONDS]
    chains: list[Chain] = []
    ours, ratio = _compared(
        lambda: simulate(_scenario(times), seconds=times[-1] + 10),
        lambda: chains.append(Chain(times, work, GAP).run()),
    )

    assert mean(ours.entries["ensemble"].latencies) == pytest.approx(mean(chains[0].latencies), rel=1e-9)
    for name, waits in zip(ours.models, chains[0].waits, strict=True):
        assert sum(ours.models[name].waits) == pytest.approx(sum(waits), rel=1e-6, abs=1e-6)
    goals.at_least("five stages in a row, times as fast as simpy", ratio, IN_ROWS)


@pytest.mark.parametrize("delay", [0.0, 0.0005])
def test_stages_with_batches_take_an_eighth_of_what_simpy_takes_for_plain_queues(delay: float, goals: Goals) -> None:
    times = _times(REQUESTS // 5)
    work = [[seconds] * len(times) for seconds in SECONDS]
    ours, ratio = _compared(
        lambda: simulate(_scenario(times, DynamicBatcher(delay_seconds=delay)), seconds=times[-1] + 10),
        lambda: Chain(times, work, GAP).run(),
    )

    assert len(ours.entries["ensemble"].latencies) == len(times)
    goals.at_least(f"five stages with batches, window {delay * 1e3:g} ms, times as fast as simpy", ratio, BATCHED)


def test_clients_that_wait_take_an_eighth_of_what_simpy_takes_for_them(goals: Goals) -> None:
    scenario = replace(_scenario([]), traffic=(ClosedLoop(entry="ensemble", clients=CLIENTS, think_seconds=THINK),))
    seconds = REQUESTS / 300
    theirs: list[Clients] = []

    def run() -> SimulationResult:
        return simulate(scenario, seconds=seconds)

    def reference() -> None:
        theirs.append(Clients(CLIENTS, THINK, SECONDS, GAP, stream(0, "traffic 0")).run(seconds))

    ours, ratio = _compared(run, reference)
    assert ours.entries["ensemble"].latencies == pytest.approx(theirs[0].latencies)
    goals.at_least("five stages and clients that wait, times as fast as simpy", ratio, WAITED_FOR)
