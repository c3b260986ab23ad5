"""What the rules say of the recorded incidents when they go on for half an hour, in real Prometheus code."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.gen.rule_groups import SYMPTOMS
from tests.captures.recorded import labels, scrapes_of
from tests.gen.stretching import Firing, explained, families_read, firing

# What the recorded servers do not have: a response cache, first-response histograms, an engine's memory, and 24.11's
# duration of a load.
UNRECORDED = {
    "nv_cache_num_hits_per_model",
    "nv_cache_num_misses_per_model",
    "nv_inference_first_response_histogram_ms_bucket",
    "nv_model_load_duration_secs",
    "nv_trt_llm_runtime_memory_metrics",
}


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory, promtool: Callable) -> Mapping[str, set[Firing]]:
    return firing(list(labels()), tmp_path_factory.mktemp("stretched"), promtool)


def _symptoms(found: set[Firing]) -> set[str]:
    return {one.alert for one in found} & {one.alert.name for one in SYMPTOMS.values()}


@pytest.mark.parametrize("name", [name for name, label in labels().items() if label.healthy])
def test_no_symptom_of_a_healthy_capture_raises_an_alert(fired: Mapping[str, set[Firing]], name: str) -> None:
    assert _symptoms(fired[name]) == set()


@pytest.mark.parametrize("name", [name for name, label in labels().items() if not label.healthy])
def test_an_incident_raises_the_alerts_on_the_symptoms_of_its_cause(
    fired: Mapping[str, set[Firing]], name: str
) -> None:
    pointed = {catalogue()[check].check.symptom for check in labels()[name].causes}
    expected = {SYMPTOMS[symptom].alert.name for symptom in pointed if symptom}
    assert expected <= _symptoms(fired[name])


@pytest.mark.parametrize("name", labels())
def test_alerts_on_causes_are_the_findings(fired: Mapping[str, set[Firing]], name: str) -> None:
    explanation = explained(name)
    actionable = {
        Firing(f"TritonDiag{catalogue()[one.check].alert}", one.subject.model or "") for one in explanation.actionable
    }
    causes = {one for one in fired[name] if one.alert.startswith("TritonDiag")}
    assert actionable <= causes
    informing = {f"TritonDiag{catalogue()[one.check].alert}" for one in explanation.findings}
    assert {one.alert for one in causes} <= informing


def test_the_rules_read_no_metric_that_triton_does_not_have() -> None:
    pages = b"".join(
        next(scrape.body for scrape in scrapes_of(name) if scrape.kind.value == "metrics" and scrape.body)
        for name in ("cpu-handed-healthy", "gpu-handed-healthy")
    ).decode()
    missing = {metric for metric in families_read() if f"\n{metric}{{" not in pages and f"\n{metric} " not in pages}
    assert missing == UNRECORDED
