"""Processors are the limit of those only who wait for one, full or not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from diagnostics.checks import host_cpu_starved
from diagnostics.checks.check import Fires, Quiet
from diagnostics.checks.gates import host_is_full
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.device import HOST_CPU_BUSY, ON_GPU
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.host import CPU_PER_LANE, CPU_PRESSURE, CPU_THROTTLED, CPU_WAIT_PER_LANE, SERVER_CORES
from diagnostics.signals.signal import Signal
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_SECONDS
from tests.stated_evidence import SUBJECT, StatedEvidence


@pytest.mark.parametrize(
    ("busy", "wait", "full"),
    [
        (0.99, 0.9, True),
        (0.99, 0.12, True),
        (0.99, 0.08, False),
        (0.85, 0.4, False),
        (0.85, 0.6, True),
        (0.99, None, True),
    ],
)
def test_processors_count_for_stages_that_wait_for_one_full_or_not(busy: float, wait: float | None, full: bool) -> None:
    stated = {HOST_CPU_BUSY: busy} if wait is None else {HOST_CPU_BUSY: busy, CPU_WAIT_PER_LANE: wait}
    evidence = StatedEvidence(stated)

    assert host_is_full(Ledger(evidence, evidence.entry), SUBJECT) is full


# Three instances of a stage whose work takes 25 ms of a core, on two cores that another program fills.
SLOWED = {
    QUEUE_SECONDS: 0.002,
    INSTANCE_BUSY_SHARE: 0.5,
    EXECUTION_SECONDS: 0.08,
    HOST_CPU_BUSY: 0.62,
    CPU_PER_LANE: 0.3,
    CPU_WAIT_PER_LANE: 0.7,
    CPU_PRESSURE: 0.6,
    CPU_THROTTLED: 0.0,
    SERVER_CORES: 2,
    ON_GPU: 0,
    REQUEST_SECONDS: 0.127,
}


def judged(readings: Mapping[Signal, float]) -> Fires | Quiet:
    evidence = StatedEvidence(readings)
    return host_cpu_starved.diagnose(Ledger(evidence, evidence.entry), SUBJECT)


def test_executions_that_wait_for_a_processor_are_starved_though_no_request_queues() -> None:
    found = judged(SLOWED)

    assert isinstance(found, Fires)
    assert found.saved_seconds == pytest.approx(0.002 + 0.7 * 0.08)
    assert "waits 56 ms of each execution for one" in found.summary
    assert found.summary.startswith("its processes wait for a processor")


@pytest.mark.parametrize(
    "healthy",
    [
        {CPU_WAIT_PER_LANE: 0.13},  # a busy host on which they get their turn
        {CPU_PER_LANE: 0.03},  # they sleep, and what little they do waits
        {ON_GPU: 1},
        {INSTANCE_BUSY_SHARE: 0.05},  # its process waits beside its executions
        {EXECUTION_SECONDS: 0.004, REQUEST_SECONDS: 0.006},
        {EXECUTION_SECONDS: 0.02, REQUEST_SECONDS: 0.4},  # a small part of the request
    ],
)
def test_executions_that_hardly_wait_for_a_processor_are_not_starved(healthy: Mapping[Signal, float]) -> None:
    assert isinstance(judged({**SLOWED, **healthy}), Quiet)
