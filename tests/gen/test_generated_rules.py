from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from diagnostics.checks.catalogue import catalogue
from diagnostics.gen.files import NOTICE, generated

FILES = generated(catalogue(), "https://runbooks.example.org/triton/")
ALERTS = {
    rule["alert"]: rule
    for name, text in FILES.items()
    if name.startswith("alerts/")
    for group in yaml.safe_load(text)["groups"]
    for rule in group["rules"]
}


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def _parts(folder: Path, part: str) -> list[Path]:
    return sorted((folder / part).glob("*.yaml"))


def test_prometheus_accepts_every_rule(rules: Path, promtool: Callable) -> None:
    done = promtool("check", "rules", *_parts(rules, "alerts"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(map(int, re.findall(r"(\d+) rules found", done.stdout))) == len(ALERTS)


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


def test_every_symptom_is_an_expression_that_prometheus_can_evaluate(tmp_path: Path, promtool: Callable) -> None:
    symptoms = {found.id: found.check.symptom for found in catalogue().values() if found.check.symptom}
    assert symptoms
    rules = [{"record": f"symptom:{name.replace('-', '_')}", "expr": symptom} for name, symptom in symptoms.items()]
    path = tmp_path / "symptoms.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "symptoms", "rules": rules}]}))
    done = promtool("check", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("found", catalogue().values(), ids=lambda found: found.id)
def test_a_check_brings_its_alert_its_test_and_its_runbook(found: object) -> None:
    rule = ALERTS[f"TritonDiag{found.alert}"]
    assert f'check="{found.id}"' in rule["expr"]
    assert rule["annotations"]["runbook_url"] == f"https://runbooks.example.org/triton/{found.id}.md"
    assert f"tests/{found.id}.yaml" in FILES
    page = FILES[f"runbooks/{found.id}.md"]
    assert all(f"## {heading}\n{text}" in page for heading, text in found.sections().items())
    assert all(limit.because in page.replace("\\|", "|") for limit in found.check.limits.values())
    assert all(case.title in page for case in found.cases)
    assert found.id in FILES["README.md"]


@pytest.mark.parametrize("rule", ALERTS.values(), ids=ALERTS)
def test_no_cause_pages_and_every_alert_says_what_it_is(rule: dict) -> None:
    assert rule["labels"]["severity"] in {"warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert all(rule["annotations"].values())
    assert f"runbooks/{rule['annotations']['runbook_url'].rpartition('/')[2]}" in FILES


def test_the_watching_itself_is_watched() -> None:
    watched = {"TritonDiagTargetDown", "TritonDiagTargetsAbsent", "TritonDiagCheckUndecided"}
    assert watched <= ALERTS.keys()


def test_another_check_changes_no_test_and_no_runbook_of_the_others() -> None:
    fewer = dict(catalogue())
    del fewer["cold-start"]
    left = generated(fewer, "https://runbooks.example.org/triton/")
    changed = {name for name, text in FILES.items() if left.get(name) != text}
    own = {"runbooks/cold-start.md", "tests/cold-start.yaml"}
    assert changed == {"README.md", "alertmanager/alertmanager.yaml", "alerts/serving.yaml", *own}


def test_every_file_begins_with_the_notice_and_is_the_same_each_time() -> None:
    assert all(NOTICE in text.splitlines()[0] for text in FILES.values())
    assert generated(catalogue(), "https://runbooks.example.org/triton/") == FILES
    assert list(FILES) == sorted(FILES)
