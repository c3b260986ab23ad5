from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import _gojsonnet as gojsonnet
import pytest
import yaml

from diagnostics.checks.catalogue import catalogue
from diagnostics.gen.alert import Alert, filled
from diagnostics.gen.files import NOTICE, WATCHING, generated
from diagnostics.gen.finding_alerts import finding_alerts
from diagnostics.gen.overview_page import metrics_read
from diagnostics.gen.recordings import Recording
from diagnostics.gen.rule_groups import RECORDED, SYMPTOMS, alone
from tests.gen.shipped import RUNBOOKS, files

ROOT = Path(__file__).parents[2]


@cache
def alerts() -> dict[str, dict]:
    return {
        rule["alert"]: rule
        for name, text in files().items()
        if name.startswith("alerts/")
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
    }


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    for name, text in files().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def _parts(folder: Path, part: str) -> list[Path]:
    return sorted((folder / part).glob("*.yaml"))


def test_prometheus_accepts_every_rule(rules: Path, promtool: Callable) -> None:
    done = promtool("check", "rules", *_parts(rules, "alerts"), *_parts(rules, "recording"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(map(int, re.findall(r"(\d+) rules found", done.stdout))) == len(alerts()) + len(RECORDED)


def test_every_alert_fires_stays_silent_and_resolves_in_prometheus(rules: Path, promtool: Callable) -> None:
    done = promtool("test", "rules", *_parts(rules, "tests"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("== 1", "== 2"),
        ("== 1", ">= 0"),
        ('check="cold-start"', 'check=~".+"'),
        ('for: "2m"', 'for: "1m"'),
        ('for: "2m"', 'for: "3m"'),
        ("severity: warning", "severity: critical"),
        ("$labels.model", "$labels.version"),
    ],
)
def test_a_wrong_alert_fails_its_test(rules: Path, promtool: Callable, right: str, wrong: str) -> None:
    path = rules / "alerts/serving.yaml"
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    assert promtool("test", "rules", rules / "tests/cold-start.yaml").returncode != 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (
            "/ (instance_model_version:triton_requests:rate5m > 0)",
            "/ clamp_min(instance_model_version:triton_requests:rate5m, 1)",
        ),
        ("sum without (gpu_uuid) (rate(nv_inference_request_success[5m]))", "rate(nv_inference_request_success[5m])"),
        (
            "sum without (gpu_uuid) (rate(nv_inference_request_success[5m]))",
            "sum without (gpu_uuid) (delta(nv_inference_request_success[5m])) / 300",
        ),
        (" < 1e12", ""),
        ('{reason!="CANCELED"}', ""),
        (
            "- (instance_model_version:triton_cache_hits:rate5m or instance_model_version:triton_requests:rate5m * 0)",
            "",
        ),
        ("sum by (cluster, namespace, job, model) (", "avg by (cluster, namespace, job, model) ("),
        ("/ 1e3 >= 0", ">= 0"),
    ],
)
def test_a_wrong_recording_rule_fails_its_test(rules: Path, promtool: Callable, right: str, wrong: str) -> None:
    path = rules / "recording/models.yaml"
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    assert promtool("test", "rules", rules / "tests/recorded-metrics.yaml").returncode != 0


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("mean5m > 0.005", "mean5m > 0.5"),
        ("mean5m > 0.005", "mean5m > 0.0005"),
        ("ratio5m > 0.4", "ratio5m > 0.9"),
        (" * 300 >= 10", " * 300 >= 1"),
        ("{{ $labels.instance }}", "{{ $labels.job }}"),
    ],
)
def test_a_wrong_symptom_fails_its_test(rules: Path, promtool: Callable, right: str, wrong: str) -> None:
    path = rules / "alerts/symptoms.yaml"
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    assert promtool("test", "rules", rules / "tests/model-queue-dominates.yaml").returncode != 0


def test_every_alert_can_be_reported_without_recording_rules(tmp_path: Path, promtool: Callable) -> None:
    rules = [{"record": f"alone:{name}", "expr": alone(rule["expr"])} for name, rule in alerts().items()]
    assert not any(metric in rule["expr"] for metric in RECORDED for rule in rules)
    path = tmp_path / "alone.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "alone", "rules": rules}]}))
    done = promtool("check", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_checks_call_their_symptoms_are_the_alerts_on_symptoms() -> None:
    named = {found.check.symptom for found in catalogue().values() if found.check.symptom}
    assert named == set(SYMPTOMS)
    for found in catalogue().values():
        if found.check.symptom:
            assert f"[{found.id}]({found.id}.md)" in files()[f"runbooks/{found.check.symptom}.md"]
            assert f"({found.check.symptom}.md)" in files()[f"runbooks/{found.id}.md"]


@pytest.mark.parametrize("name", [*SYMPTOMS, *(alert.id for alert in WATCHING)])
def test_a_page_of_an_alert_says_what_it_means_and_what_to_do(name: str) -> None:
    page = files()[f"runbooks/{name}.md"]
    assert re.findall("^## (.*)", page, re.MULTILINE) == ["Meaning", "Impact", "Diagnosis", "Mitigation", "Alert"]
    assert "diag explain" in page or name not in SYMPTOMS


def test_every_metric_that_a_rule_reads_is_counted_in_its_cost() -> None:
    for expr in [*(rule["expr"] for rule in alerts().values()), *(one.expr for one in RECORDED.values())]:
        assert set(re.findall(r"\b(?:nv_|vllm:|DCGM_|diag_)\w+", expr)) <= set(metrics_read(expr)), expr


@pytest.mark.parametrize("metric", RECORDED.values(), ids=RECORDED)
def test_a_recorded_metric_keeps_its_model_and_tells_its_unit_and_its_cost(metric: Recording) -> None:
    assert re.fullmatch(r"(instance|job)(_model|_model_version|_gpu)?:triton_[a-z_]+:[a-z0-9_]+", metric.name)
    kept = [labels for labels in re.findall(r"\bby \(([^)]*)\)", metric.expr) if ":triton_server:" not in metric.name]
    assert all("model" in labels for labels in kept)
    assert "clamp_min(" not in metric.expr.partition("/")[2]
    line = next(line for line in files()["README.md"].splitlines() if line.startswith(f"| `{metric.name}`"))
    assert f"| {metric.unit.value} |" in line
    assert re.search(r"\d+ per (model|engine|GPU|server)", line)


def test_the_operators_resource_and_the_mixin_hold_the_same_rules(promtool: Callable, tmp_path: Path) -> None:
    groups = [
        group
        for part in ("recording/", "alerts/")
        for name, text in files().items()
        if name.startswith(part)
        for group in yaml.safe_load(text)["groups"]
    ]
    resource = yaml.safe_load(files()["prometheusrule.yaml"])
    assert (resource["apiVersion"], resource["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert sorted(resource["spec"]["groups"], key=str) == sorted(groups, key=str)
    # A mixin's parts are hidden; its user names them.
    config = "{_config+:: {runbooks: 'https://runbooks.example.org/triton'}}"
    wanted = "{a: mixin.prometheusAlerts, r: mixin.prometheusRules, d: std.objectFields(mixin.grafanaDashboards)}"
    text = f"local mixin = ({files()['mixin/mixin.libsonnet']}) + {config}; {wanted}"
    mixin = json.loads(gojsonnet.evaluate_snippet("mixin", text))
    assert sorted(mixin["a"]["groups"] + mixin["r"]["groups"], key=str) == sorted(groups, key=str)
    assert mixin["d"] == sorted(path.name for path in (ROOT / "dashboards").glob("*.json"))


@pytest.mark.parametrize("found", catalogue().values(), ids=lambda found: found.id)
def test_a_check_brings_its_alert_its_test_and_its_runbook(found: object) -> None:
    rule = alerts()[f"TritonDiag{found.alert}"]
    assert f'check="{found.id}"' in rule["expr"]
    assert rule["annotations"]["runbook_url"] == f"https://runbooks.example.org/triton/{found.id}.md"
    assert f"tests/{found.id}.yaml" in files()
    page = files()[f"runbooks/{found.id}.md"]
    assert all(f"## {heading}\n{text}" in page for heading, text in found.sections().items())
    assert all(limit.because in page.replace("\\|", "|") for limit in found.check.limits.values())
    assert all(case.title in page for case in found.cases)
    assert found.id in files()["README.md"]


def test_no_cause_pages_and_every_alert_says_what_it_is() -> None:
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in {"warning", "info"}, name
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, name
        assert all(rule["annotations"].values()), name
        assert f"runbooks/{rule['annotations']['runbook_url'].rpartition('/')[2]}" in files(), name


@pytest.mark.parametrize("rule", finding_alerts(catalogue().values()), ids=lambda rule: rule.id)
def test_a_cause_says_first_whom_it_hits_and_how_much_and_leaves_the_rest_to_its_runbook(rule: Alert) -> None:
    labels = next(firing[0] for _, firing in rule.situations[0].expect if firing)
    hit = filled(rule.summary, labels).partition(": ")[0]
    figure = "This explains 42% of a request's mean time. "
    described, without = filled(rule.description, labels, "42%"), filled(rule.description, labels)
    assert described.startswith(f"{hit}: {figure}")
    assert described.replace(figure, "") == without
    assert len(without) <= 300


def test_the_watching_itself_is_watched() -> None:
    watched = {"TritonDiagTargetDown", "TritonDiagTargetsAbsent", "TritonDiagCheckUndecided"}
    assert watched <= alerts().keys()


def test_another_check_changes_no_test_and_no_runbook_of_the_others() -> None:
    fewer = dict(catalogue())
    del fewer["cold-start"]
    left = generated(fewer, RUNBOOKS)
    changed = {name for name, text in files().items() if left.get(name) != text}
    own = {"runbooks/cold-start.md", "tests/cold-start.yaml"}
    lists = {"README.md", "mixin/mixin.libsonnet", "prometheusrule.yaml"}
    lists |= {"alertmanager/alertmanager.yaml", "alertmanager/receivers.yaml"}
    assert changed == {*lists, "alerts/serving.yaml", *own}


def test_every_file_begins_with_the_notice_and_is_the_same_each_time() -> None:
    assert all(NOTICE in text.splitlines()[0] for text in files().values())
    assert generated(catalogue(), RUNBOOKS) == files()
    assert list(files()) == sorted(files())
