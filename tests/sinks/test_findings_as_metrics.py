from __future__ import annotations

import re
import subprocess
import time
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPENMETRICS
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from diagnostics.anatomy.cells import Spread
from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import IncidentBook
from diagnostics.gen.finding_alerts import FINDING, finding_alerts
from diagnostics.service.http.metrics import rendered
from exporters.sinks import exposition
from exporters.sinks.exposition import (
    FOUND,
    TARGET_UP,
    Row,
    families,
    joined,
    rows_of,
    rows_of_incidents,
    rows_of_targets,
)
from tests.builders import SERVER, Stage, SyntheticTriton, model_config
from tests.gen.conftest import promtool

__all__ = ["promtool"]
QUEUED = Stage("slow", rate=38, execution=0.0245, queue=0.17, failing={"BACKEND": 5.0}, config=model_config("slow"))
HOSTILE = 'a"b\\c\n# HELP x\u2028{}'


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    return SyntheticTriton(models=(QUEUED,)).explain()


def values(rows: list[Row], name: str) -> dict[tuple[str, ...], float]:
    return {labels: value for family, labels, value in rows if family.name == name}


def page(rows: list[Row], media_type: str = "text/plain") -> str:
    return rendered(lambda: families(rows), media_type).decode()


def test_a_finding_is_a_series_with_the_labels_that_its_alert_selects(explanation: Explanation) -> None:
    rows = rows_of("chat", explanation)
    (alert,) = [one for one in finding_alerts(catalogue().values()) if one.id == "request-failures"]
    assert alert.expr == f'{FINDING}{{check="request-failures"}} == 1'
    found = {labels[1]: (labels, value) for labels, value in values(rows, FINDING).items()}
    labels, value = found["request-failures"]
    named = dict(zip(FOUND.labels, labels, strict=True))
    assert value == 1
    assert (named["server"], named["model"], named["version"]) == (SERVER, "slow", "1")
    assert set(alert.labels) <= set(FOUND.labels)


def test_every_alert_over_findings_names_labels_that_findings_have() -> None:
    for alert in finding_alerts(catalogue().values()):
        assert set(alert.labels) <= set(FOUND.labels)
        assert set(re.findall(r"\$labels\.(\w+)", alert.summary + alert.description)) <= set(FOUND.labels)


def test_a_finding_that_is_too_small_to_act_on_raises_no_alert(explanation: Explanation) -> None:
    small = replace(explanation.findings[0], severity=Severity.INFO, check="request-failures")
    rows = rows_of("chat", replace(explanation, findings=(small,)))
    assert list(values(rows, FINDING).values()) == [0]


def test_exactly_one_verdict_is_true(explanation: Explanation) -> None:
    found = values(rows_of("chat", explanation), "diag_verdict")
    assert sum(found.values()) == 1
    assert found["chat", explanation.verdict.value] == 1


def test_derived_signals_equal_the_readings_that_they_are(explanation: Explanation) -> None:
    rows = rows_of("chat", explanation)
    about = ("chat", SERVER, "slow", "1")
    assert values(rows, "diag_model_instances")[about] == 1
    assert values(rows, "diag_model_queue_seconds_mean")[about] == pytest.approx(0.17, rel=0.02)
    assert values(rows, "diag_model_instance_busy_ratio")[about] == pytest.approx(38 * 0.0245, rel=0.02)
    reported = values(rows, "diag_signal_readings")
    assert reported["chat", "instances", "configuration", "false"] == 1


def test_the_latency_of_an_entry_point_has_the_statistics_that_are_known(explanation: Explanation) -> None:
    found = values(rows_of("chat", explanation), "diag_request_seconds")
    (item,) = explanation.anatomy
    assert found == {("chat", SERVER, "", "slow", "mean"): pytest.approx(item.mean_seconds)}
    traced = replace(explanation, anatomy=(replace(item, spread=Spread(p50=0.1, p95=0.6)),))
    found = values(rows_of("chat", traced), "diag_request_seconds")
    assert {labels[-1]: value for labels, value in found.items() if labels[-1] != "mean"} == {"p50": 0.1, "p95": 0.6}


def test_gpu_readings_go_by_the_card() -> None:
    rows = rows_of("chat", SyntheticTriton(models=(QUEUED,), gpu={"gpm": {"sm_util": 40.0}}).explain())
    assert values(rows, "diag_gpu_sm_active_ratio") == {("chat", SERVER, "GPU-0"): pytest.approx(0.4)}


def test_a_reading_that_is_missing_has_no_series() -> None:
    rows = rows_of("chat", SyntheticTriton(models=(Stage("idle", config=model_config("idle")),)).explain())
    assert not values(rows, "diag_model_queue_seconds_mean")
    assert values(rows, "diag_model_instances")


def test_a_server_with_more_models_than_a_page_holds_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MOST_SUBJECTS", 2)
    stages = tuple(Stage(f"m{i}", config=model_config(f"m{i}")) for i in range(3))
    rows = rows_of("chat", SyntheticTriton(models=stages).explain())
    assert len(values(rows, "diag_model_instances")) == 2


def test_open_incidents_are_reported_with_their_beginning(explanation: Explanation) -> None:
    book = IncidentBook("chat", open_after=1)
    book.update(explanation, 1_000.0, 1.0)
    rows = list(rows_of_incidents(book.open))
    assert {value for _, _, value in rows} == {1_000.0}
    assert {labels[1] for _, labels, _ in rows} == {finding.check for finding in explanation.actionable}


def test_names_that_servers_choose_stay_within_their_label(explanation: Explanation) -> None:
    rows = [*rows_of(HOSTILE, explanation), *rows_of_targets([(HOSTILE, "d", True, 1.0)])]
    for text, parse in ((page(rows), plain), (page(rows, OPENMETRICS), openmetrics)):
        parsed = {
            sample.labels["server"]
            for family in parse(text)
            for sample in family.samples
            if sample.name == TARGET_UP.name
        }
        assert parsed == {HOSTILE}


def test_both_formats_say_the_same(explanation: Explanation) -> None:
    rows = rows_of("chat", explanation)

    def samples(parse, text: str) -> set[tuple[str, frozenset[tuple[str, str]], float]]:
        found = (sample for family in parse(text) for sample in family.samples)
        return {(one.name, frozenset(one.labels.items()), one.value) for one in found}

    assert samples(plain, page(rows)) == samples(openmetrics, page(rows, OPENMETRICS))
    assert len(samples(plain, page(rows))) == len(rows)


def test_two_deployments_are_one_family(explanation: Explanation) -> None:
    text = rendered(lambda: joined(rows_of("a", explanation), rows_of("b", explanation)), "text/plain").decode()
    assert text.count("# TYPE diag_finding gauge") == 1
    assert text.count("# TYPE diag_verdict gauge") == 1


def test_promtool_finds_nothing_to_criticise(explanation: Explanation, promtool) -> None:
    rows = [*rows_of("chat", explanation), *rows_of_targets([(SERVER, "chat", True, 1.0)])]
    book = IncidentBook("chat", open_after=1)
    book.update(explanation, time.time(), 1.0)
    text = page([*rows, *rows_of_incidents(book.open)])
    done: subprocess.CompletedProcess[str] = promtool("check", "metrics", text=text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
