"""The shipped configuration of Alertmanager, as its own amtool reads it."""

from __future__ import annotations

import subprocess
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import yaml

from diagnostics.checks.catalogue import catalogue
from diagnostics.diagnosis.link import CAUSED_BY, cause_of
from diagnostics.signals.signal import Scope
from tests.gen.conftest import ROOT, Promtool
from tests.gen.shipped import files
from tests.repository.pages import blocks, written
from tests.service.notifications.alertmanagers import program

OF_A_MODEL, OF_NONE = {Scope.MODEL}, {Scope.SERVER, Scope.GPU, Scope.ENSEMBLE}


def text() -> str:
    return files()["alertmanager/alertmanager.yaml"]


@cache
def inhibit_rules() -> list[dict]:
    return yaml.safe_load(text())["inhibit_rules"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "alertmanager.yaml"
    path.write_text(text())
    return path


def amtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("amtool"), *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_alertmanager_accepts_the_configuration(config: Path) -> None:
    done = amtool("check-config", config)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(inhibit_rules())} inhibit rules" in done.stdout


def test_alertmanager_accepts_the_receivers_with_their_templates(tmp_path: Path) -> None:
    for name in ("receivers.yaml", "diag.tmpl"):
        (tmp_path / name).write_text(files()[f"alertmanager/{name}"])
    done = amtool("check-config", tmp_path / "receivers.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 templates" in done.stdout


def test_a_configuration_that_is_wrong_is_not_accepted(config: Path) -> None:
    config.write_text(text().replace("receiver: pager", "receiver: nobody", 1))
    assert amtool("check-config", config).returncode != 0


@pytest.mark.parametrize(
    ("severity", "receiver"), [("critical", "pager"), ("warning", "tickets"), ("info", "log"), ("other", "tickets")]
)
def test_alerts_are_routed_by_severity(config: Path, severity: str, receiver: str) -> None:
    done = amtool("config", "routes", "test", f"--config.file={config}", f"severity={severity}", "check=cold-start")
    assert done.stdout.strip() == receiver


def test_a_critical_cause_is_a_ticket_and_pages_nobody(config: Path) -> None:
    labels = ("severity=critical", "sender=diag", "check=cold-start")
    done = amtool("config", "routes", "test", f"--config.file={config}", *labels)
    assert done.stdout.strip() == "tickets"


@pytest.mark.parametrize(("severity", "receiver"), [("critical", "pager"), ("warning", "tickets")])
def test_an_outage_pages_while_it_lasts(config: Path, severity: str, receiver: str) -> None:
    labels = ("alertname=TritonDiagModelUnavailable", f"severity={severity}", "sender=diag")
    done = amtool("config", "routes", "test", f"--config.file={config}", *labels)
    assert done.stdout.strip() == receiver


def test_the_page_shows_a_configuration_of_prometheus_that_it_takes(promtool: Promtool, tmp_path: Path) -> None:
    (shown,) = (one for one in blocks(written()["docs/how-to/prometheus.md"], "yaml") if "scrape_configs" in one)
    (tmp_path / "prometheus.yml").write_text(shown)
    (tmp_path / "rules").symlink_to(ROOT / "rules")
    done = promtool("check", "config", tmp_path / "prometheus.yml")
    assert done.returncode == 0, done.stderr
    assert "SUCCESS" in done.stdout


def models(check: str) -> list[str]:
    """Return the models that an alert of a check may be of; an empty text is none."""
    scope = catalogue()[check].check.scope
    return [*(["safety", "other"] if scope not in OF_NONE else []), *([""] if scope not in OF_A_MODEL else [])]


def inhibited(source: dict[str, str], target: dict[str, str]) -> bool:
    """Return what Alertmanager decides; that it does so is tested with the real one."""

    def matches(matchers: list[str], labels: dict[str, str]) -> bool:
        for matcher in matchers:
            name, _, wanted = matcher.replace("=~", "=").partition("=")
            values = wanted.strip('"').split("|")
            if labels.get(name, "") not in values and "+" not in wanted:
                return False
            if "+" in wanted and not labels.get(name, "").startswith("TritonDiag"):
                return False
        return True

    return any(
        matches(rule["source_matchers"], source)
        and matches(rule["target_matchers"], target)
        and all(source.get(name, "") == target.get(name, "") for name in rule["equal"])
        for rule in inhibit_rules()
    )


@pytest.mark.parametrize("consequence", CAUSED_BY)
def test_a_cause_inhibits_exactly_what_the_diagnosis_calls_its_consequences(consequence: str) -> None:
    for cause in (*CAUSED_BY[consequence], "idle-clocks"):
        for caused, causing in product(models(consequence), models(cause)):
            source = {"check": cause, "model": causing, "server": "a", "deployment": "chat", "sender": "diag"}
            target = {"check": consequence, "model": caused, "server": "a", "deployment": "chat", "sender": "diag"}
            linked = cause_of(consequence, caused or None, {(cause, causing or None): "id"}) is not None
            assert inhibited(source, target) is linked, (source, target)
            assert not inhibited({**source, "server": "b"}, target)


def test_the_service_s_alert_inhibits_that_of_the_rule_on_the_same_check_and_subject_only() -> None:
    ours = {"alertname": "TritonDiagColdStart", "check": "cold-start", "server": "a", "model": "m", "sender": "diag"}
    rule = {name: text for name, text in ours.items() if name != "sender"}
    assert inhibited(ours, rule)
    assert not inhibited(rule, ours)
    assert not inhibited(ours, {**rule, "model": "n"})
    assert not inhibited(ours, {**rule, "alertname": "TritonDiagGpuFault", "check": "gpu-fault"})


def test_a_cause_inhibits_the_symptoms_of_its_model_and_server_and_is_inhibited_by_none() -> None:
    cause = {"alertname": "TritonDiagColdStart", "check": "cold-start", "server": "a", "model": "m"}
    cause["severity"] = "warning"
    symptom = {"alertname": "TritonModelQueueDominates", "kind": "symptom", "server": "a", "model": "m"}
    assert inhibited(cause, symptom)
    assert not inhibited(symptom, cause)
    assert not inhibited({**cause, "severity": "info"}, symptom)
    assert not inhibited(cause, {**symptom, "model": "n"})
    assert not inhibited(cause, {**symptom, "server": "b"})
