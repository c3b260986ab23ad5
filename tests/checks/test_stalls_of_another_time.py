"""Waits that were traced before a load, beside counters that began anew with it."""

from __future__ import annotations

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Expected, Fires, Unknown
from diagnostics.signals.traces import BLOCKED_SECONDS
from tests.checks.stated import decided


@pytest.mark.parametrize(("blocked", "expected"), [(0.05, Fires), (0.13, Unknown)], ids=["a part", "more than all"])
def test_no_more_than_the_whole_queue_passes_with_an_instance_free(blocked: float, expected: type) -> None:
    check = catalogue()["scheduler-stall"]
    readings = next(case.readings for case in check.cases if case.expect is Expected.FIRES)
    outcome, _ = decided(check, {**readings, BLOCKED_SECONDS: blocked})

    assert isinstance(outcome, expected)
