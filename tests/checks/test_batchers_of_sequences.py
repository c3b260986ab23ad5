"""A model has either a sequence batcher or a dynamic one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Expected, Fires
from diagnostics.signals.signal import Signal
from diagnostics.signals.triton import SEQUENCE_BATCHING
from tests.checks.stated import decided

COLLAPSE, SINGLE = "batch-size-collapse", "single-instance-serialization"


def firing(check: str) -> Mapping[Signal, float]:
    return next(case.readings for case in catalogue()[check].cases if case.expect is Expected.FIRES)


@pytest.mark.parametrize(("sequences", "check"), [(1, SINGLE), (0, COLLAPSE)])
def test_no_other_batcher_joins_requests_of_sequences(sequences: int, check: str) -> None:
    readings = {**firing(SINGLE), **firing(COLLAPSE), SEQUENCE_BATCHING: sequences}
    found = [one for one in (COLLAPSE, SINGLE) if isinstance(decided(catalogue()[one], readings)[0], Fires)]

    assert found == [check]
