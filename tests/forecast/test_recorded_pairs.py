"""What a repair was measured to bring is what the broken window's forecast says, and the other way round.

Arrivals are those of the window that is predicted, as its client recorded them, so that only the model is tested.
"""

from __future__ import annotations

from functools import cache

import pytest

from diagnostics.anatomy.anatomy import anatomies
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.fitted import Fitted, Measured
from diagnostics.forecast.fitting import fit, measured
from diagnostics.forecast.performance import Estimate, Performance
from diagnostics.forecast.predict import performance
from diagnostics.forecast.runs import DRAWS
from diagnostics.forecast.traffic import entry_subject
from diagnostics.forecast.what_if import WhatIf
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.tuning.simulation.scenario import OpenLoop
from diagnostics.window.window import window_of
from tests.captures.recorded import scrapes_of

CHAT = Subject(server="triton-0", ensemble="chat")
EMBEDDER = Subject(server="triton-0", model="embedder")


@cache
def evidence(capture: str) -> WindowEvidence:
    return WindowEvidence(window_of(scrapes_of(capture)))


def subject(capture: str) -> Subject:
    return CHAT if "single-instance" in capture else EMBEDDER


def fitted(capture: str) -> Fitted:
    return fit(evidence(capture), subject(capture))


def seen(capture: str) -> Measured:
    entry = subject(capture)
    found = next(one for one in anatomies(evidence(capture)) if entry_subject(one) == entry)
    return measured(evidence(capture), found)


def arrivals(capture: str, entry: str) -> tuple[float, ...]:
    window = evidence(capture).window
    times = [one.at for one in window.clients if one.model == entry and window.start <= one.at < window.end]
    return tuple(at - times[0] for at in times)


def predicted(
    source: Fitted, target: str, change: ConfigChange, *, draws: int, seconds: float = float("inf")
) -> Performance:
    """Return the forecast of as many draws as a test can afford, of the first seconds where those will do."""
    times = tuple(at for at in arrivals(target, source.entry) if at < seconds)
    traffic = OpenLoop(entry=source.entry, times=times)
    return performance(source, WhatIf(changes=(change,), traffic=(traffic,)), draws=draws)


def instances(count: int) -> ConfigChange:
    return ConfigChange(model="safety", settings=(Setting(path="instance_group.count", value=count),))


BATCHED = ConfigChange(
    model="embedder",
    settings=(
        Setting(path="dynamic_batching", value=True),
        Setting(path="dynamic_batching.max_queue_delay_microseconds", value=1000),
    ),
)
UNBATCHED = ConfigChange(model="embedder", settings=(Setting(path="dynamic_batching", value=None),))


def holds(estimate: Estimate | None, value: float | None) -> bool:
    return estimate is not None and value is not None and estimate.low <= value <= (estimate.high or value)


def test_three_instances_bring_what_was_measured() -> None:
    before, target = fitted("cpu-handed-single-instance"), "cpu-handed-single-instance-fixed"
    reported, after = predicted(before, target, instances(3), draws=5), seen(target)

    assert reported.mean
    assert reported.p95
    assert reported.mean.value == pytest.approx(after.mean, rel=0.10)
    assert reported.p95.value == pytest.approx(after.p95, rel=0.15)
    assert reported.throughput.value == pytest.approx(after.throughput, rel=0.03)
    assert holds(reported.mean, after.mean)
    assert holds(reported.p95, after.p95)


def test_three_instances_on_one_card_bring_what_the_interval_holds() -> None:
    """What an execution takes of a card lies between what power and what NVML's utilization show of it."""
    before, target = fitted("gpu-handed-single-instance"), "gpu-handed-single-instance-fixed"
    reported, after = predicted(before, target, instances(3), draws=DRAWS), seen(target)

    assert reported.mean
    assert reported.mean.value < (before.measured.mean or 0.0) / 10
    assert reported.throughput.value == pytest.approx(after.throughput, rel=0.03)
    assert holds(reported.mean, after.mean)
    assert holds(reported.p95, after.p95)


@pytest.mark.parametrize("machine", ["cpu", "gpu"])
def test_batches_that_were_never_seen_bring_what_was_measured_within_a_wider_interval(machine: str) -> None:
    before, target = fitted(f"{machine}-handed-batch-collapse"), f"{machine}-handed-batch-collapse-fixed"
    reported, after = predicted(before, target, BATCHED, draws=20, seconds=6.0), seen(target)

    assert reported.mean
    assert before.measured.mean
    assert reported.mean.value < before.measured.mean / 2
    assert holds(reported.mean, after.mean)
    assert holds(reported.p95, after.p95)


def test_without_batching_the_queue_would_be_about_as_long_as_it_was_measured() -> None:
    """At 94 % busy, 0.1 ms of a dispatch gap is a third of the queue."""
    target = "cpu-handed-batch-collapse"
    reported, measured_before = predicted(fitted(f"{target}-fixed"), target, UNBATCHED, draws=1), seen(target)

    assert reported.mean
    assert reported.mean.value == pytest.approx(measured_before.mean, rel=0.5)
