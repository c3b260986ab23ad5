"""Simulated schedulers behave as recorded ones did, under the same arrivals or the same rate."""

from __future__ import annotations

import json
import tarfile

import pytest

from diagnostics.tuning.simulation.observing import SimulationResult
from diagnostics.tuning.simulation.scenario import OVERTAKES, DynamicBatcher, Model, OpenLoop, QueueDiscipline
from diagnostics.tuning.simulation.simulate import simulate
from tests.tuning.simulated import alone, mean, queue
from tests.tuning.test_queueing_captures import CAPTURES, recorded

SEEDS = range(4)


def sent(capture: str) -> list[float]:
    """Return when the recording's client sent its requests, in seconds from the first."""
    with tarfile.open(CAPTURES / f"{capture}.tar.xz") as archive:
        lines = archive.extractfile(f"{capture}/client.jsonl")
        assert lines
        times = sorted(json.loads(line)["t"] for line in lines)
    return [time - times[0] for time in times]


@pytest.mark.parametrize(("capture", "overtakes"), [("cpu", 0.09), ("gpu", OVERTAKES[0])])
def test_a_queue_limit_under_overload_stalls_as_recorded(capture: str, overtakes: float) -> None:
    name = f"{capture}-handed-queue-overflow"
    seen, times = recorded(name, "safety"), sent(name)
    batcher = DynamicBatcher(policy=QueueDiscipline(max_size=4), overtakes=overtakes)
    stage = Model(name="safety", service=seen.load.service, batcher=batcher)
    outcomes: list[SimulationResult] = [
        simulate(alone(stage, OpenLoop(entry="safety", times=times)), seconds=times[-1], seed=seed) for seed in SEEDS
    ]
    stages = [outcome.models["safety"] for outcome in outcomes]

    assert mean([queue(each) for each in stages]) == pytest.approx(seen.queue_seconds, rel=0.1)
    assert mean([each.executions / times[-1] for each in stages]) == pytest.approx(seen.load.arrival_rate, rel=0.1)


@pytest.mark.parametrize("capture", ["cpu", "gpu"])
def test_payloads_that_freeze_at_their_windows_end_wait_as_recorded(capture: str) -> None:
    seen = recorded(f"{capture}-handed-batch-collapse-fixed", "embedder")
    stage = Model(
        name="embedder",
        service=seen.load.service,
        max_batch=seen.load.max_batch,
        batcher=DynamicBatcher(delay_seconds=seen.load.delay_seconds),
        start_seconds=seen.load.service.dispatch_gap,
    )
    simulated = simulate(alone(stage, OpenLoop(entry="embedder", rate=seen.load.arrival_rate)), seconds=30.0)

    # Binding late would give 1.7 to 2.0 ms, a third less.
    assert queue(simulated.models["embedder"]) == pytest.approx(seen.queue_seconds, rel=0.07)
    assert simulated.models["embedder"].batch_size_mean == pytest.approx(seen.batch_size, rel=0.03)
