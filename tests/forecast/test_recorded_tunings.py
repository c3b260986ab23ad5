"""The search on recorded incidents whose cure is known: it was applied and recorded, too."""

from __future__ import annotations

import pytest

from diagnostics.diagnosis.proposing import entry_of
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.target import LatencyTarget
from diagnostics.window.window import window_of
from tests.captures.recorded import scrapes_of
from tests.forecast.tunable import tune


@pytest.mark.parametrize(
    ("capture", "objective", "cures"),
    [
        ("cpu-handed-single-instance", "p95 < 200ms", {"safety.instance_group.count"}),
        ("cpu-handed-batch-collapse", "p95 < 30ms", {"embedder.dynamic_batching"}),
    ],
)
def test_a_recorded_incident_gets_the_cure_that_was_applied_to_it(
    capture: str, objective: str, cures: set[str]
) -> None:
    evidence = WindowEvidence(window_of(scrapes_of(capture)))

    found = tune(fit(evidence, entry_of(evidence, None)), LatencyTarget.parse(objective), draws=0)

    assert found.best is not None
    assert {f"{one.model}.{each.path}" for one in found.best.changes for each in one.settings} == cures
