"""Recorded incidents, seen through a Prometheus that scraped their servers: the same cause, or none; never another."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.cli.sources import WindowOptions
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.render.explanation.json import report
from diagnostics.wire.records import BodyKind
from tests.captures.judging import Outcome, judge
from tests.captures.recorded import labels, scrapes_of
from tests.promql.stored import explained, stored

# What tells these is of the machine: its processors, and other processes on its GPU.
OF_THE_MACHINE = {"cpu-handed-host-cpu-starved", "gpu-handed-noisy-neighbour"}
# Processes on a GPU are exported by nobody.
OF_OTHERS = {"gpu-handed-noisy-neighbour"}
# What tells these is how executions spread over batch sizes, which is neither on Triton's page nor in a file.
OF_BATCHES = {"cpu-handed-batch-no-gain", "cpu-handed-batch-window-long", "gpu-handed-batch-window-long"}

# One of each kind: queues, batches, engines, failures, bursts, a full GPU, and nothing wrong.
BARE = (
    "cpu-handed-backend-errors",
    "cpu-handed-batch-no-gain",
    "cpu-handed-bursty",
    "cpu-handed-healthy",
    "cpu-handed-kv-exhausted",
    "cpu-handed-single-instance",
    "gpu-handed-batch-window-long",
    "gpu-handed-gpu-saturated",
)


def outcome(name: str, explanation: Explanation) -> Outcome:
    judgement = judge(labels()[name], explanation)
    assert not judgement.wrong
    return judgement.outcome


@pytest.mark.parametrize("name", labels())
def test_what_the_service_exports_leads_to_the_same_cause(name: str) -> None:
    explanation = explained(stored(scrapes_of(name), with_service=True))
    assert outcome(name, explanation) is (Outcome.ABSTAINED if name in OF_OTHERS else Outcome.SAME)
    if labels()[name].healthy:
        assert explanation.verdict is Verdict.HEALTHY
    elif name in OF_OTHERS:
        assert explanation.verdict is Verdict.NO_CLEAR_CAUSE


@pytest.mark.parametrize("name", labels())
def test_a_repository_leads_to_the_same_cause_as_far_as_it_goes(name: str, tmp_path: Path) -> None:
    for one in scrapes_of(name):
        if one.kind is BodyKind.REPOSITORY and one.body is not None:
            (tmp_path / one.name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / one.name).write_bytes(one.body)
    explanation = explained(stored(scrapes_of(name), with_service=False), WindowOptions(repository=tmp_path))
    far = name not in OF_THE_MACHINE | OF_BATCHES
    assert outcome(name, explanation) is (Outcome.SAME if far else Outcome.ABSTAINED)
    bases = {
        finding["suggestion"]["patch_base"] for finding in report(explanation)["findings"] if finding["suggestion"]
    }
    assert bases <= {None, "file"}


@pytest.mark.parametrize("name", BARE)
def test_pages_alone_lead_to_no_other_cause_and_it_is_stated_what_to_add(name: str) -> None:
    explanation = explained(stored(scrapes_of(name), with_service=False))
    outcome(name, explanation)
    (stated,) = [gap for gap in explanation.blind_spots if "diag serve" in gap.fix]
    assert "--repository" in stated.fix
    assert "instance counts" in stated.what


def test_pages_alone_name_the_symptom() -> None:
    explanation = explained(stored(scrapes_of("cpu-handed-single-instance"), with_service=False))
    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "for safety" in explanation.reason
    assert explanation.symptoms[0].next_measurement
