"""With a source of a recorded incident dropped, its cause is kept or none is named, and no fault reads as healthy."""

from __future__ import annotations

from itertools import pairwise

import pytest

from diagnostics.wire.records import BodyKind
from tests.captures.drops import DROPS, FORBIDDEN, recordings, without_a_source
from tests.captures.recorded import scrapes_of

NAMES = tuple(recordings())
# Every second recording loses one source; `make accuracy` drops every source of every one.
SAMPLE = [(name, tuple(DROPS)[i % len(DROPS)]) for i, name in enumerate(NAMES[::2])]


@pytest.mark.parametrize(("name", "drop"), SAMPLE)
def test_less_to_see_is_no_wrong_cause_and_no_health_over_a_fault(name: str, drop: str) -> None:
    found = without_a_source(name, (drop,))[drop]

    assert found.result not in FORBIDDEN, found


def test_a_healthy_deployment_is_never_degraded_without_traces_or_statistics() -> None:
    healthy = [name for name in NAMES if recordings()[name][1]["cause"] == "healthy"][::6]

    for name in healthy:
        for scored in without_a_source(name, ("no-traces", "no-statistics")).values():
            # Without statistics, or read rarely, a cost may stay undecided: that is said, and is no alarm.
            assert scored.stated.split()[0] != "degraded", scored


def test_a_metrics_page_every_15_seconds_is_all_that_is_left() -> None:
    left = DROPS["metrics-every-15s"](scrapes_of("cpu-handed-single-instance"))
    times = [scrape.at for scrape in left]

    assert {scrape.kind for scrape in left} == {BodyKind.METRICS}
    assert all(later - earlier >= 15 for earlier, later in pairwise(times))
