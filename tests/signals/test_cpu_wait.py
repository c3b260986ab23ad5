"""Processors are the limit of those only who wait for one, full or not."""

from __future__ import annotations

import pytest

from diagnostics.checks.gates import host_is_full
from diagnostics.evidence.ledger import Ledger
from diagnostics.evidence.stated import SUBJECT, StatedEvidence
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.host import CPU_WAIT_PER_LANE


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
