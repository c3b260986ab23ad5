from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Severity
from diagnostics.gen.finding_alerts import finding_alerts
from diagnostics.settings.tree import WebSettings
from diagnostics.signals.signal import Subject
from diagnostics.tuning.patch import Patch
from exporters.sinks.alertmanager import encoded, incident_alert
from exporters.sinks.links import Links, harmless, harmless_lines
from exporters.sinks.suggested import MOST_OF_A_PATCH
from tests.sinks.incidents import BEGIN, LINKS, SAFETY, incident, judged

HOSTILE = 'a<!channel>\x1b[31m\n@here [x](http://evil)\ud800"'


def alert(one=None, finding=None, cause=None, **added: str):
    return incident_alert(one or incident(), finding, cause, LINKS, added)


@pytest.mark.parametrize("rule", finding_alerts(catalogue().values()), ids=lambda rule: rule.id)
def test_an_alert_bears_the_name_and_labels_of_the_rule_on_its_check(rule: object) -> None:
    labels = next(firing[0] for _, firing in rule.situations[0].expect if firing)
    named = {name: text for name, text in labels.items() if name != "check"}
    made = alert(incident(rule.id, Subject(**named), severity=Severity(rule.severity)))
    expected = rule.expected(labels, "")
    assert made.labels == {
        **expected["exp_labels"],
        "alertname": rule.name,
        "deployment": "chat",
        "sender": "diag",
    }


def test_the_summary_says_what_users_feel_the_cause_and_what_shows_it() -> None:
    felt = "ensemble p95 4.32 s, objective 200 ms, 37 requests/s"
    made = incident_alert(incident(), None, None, LINKS, {}, felt=felt, address="http://triton-0:8000")
    assert made.annotations["summary"] == (
        f"{felt}: gpu-saturated of {SAFETY.model}: instances are busy 97 % of the time"
    )
    assert made.annotations["server_url"] == "http://triton-0:8000"
    assert alert().annotations["summary"] == f"gpu-saturated of {SAFETY.model}: instances are busy 97 % of the time"
    assert "server_url" not in alert().annotations


def test_what_only_weakens_a_diagnosis_is_for_information_however_severe_it_is() -> None:
    made = alert(incident("telemetry-implausible", Subject(server="t"), severity=Severity.WARNING))
    assert made.labels["severity"] == "info"


def test_runbooks_are_where_they_are_published() -> None:
    web = WebSettings(external_url="https://diag.example.org/", runbooks_url="https://wiki.example.org/runbooks/")
    assert Links.of(web).runbook("cold-start") == "https://wiki.example.org/runbooks/cold-start.md"
    assert Links.of(web).incident("1") == "https://diag.example.org/incidents/1"


def test_the_severity_is_a_label() -> None:
    critical = alert(incident(severity=Severity.CRITICAL))
    assert (alert().labels["severity"], critical.labels["severity"]) == ("warning", "critical")


def test_whatever_else_changes_while_an_incident_lasts_changes_no_label_and_no_start() -> None:
    later = replace(
        incident(),
        confidence=0.5,
        summary="other",
        seen=BEGIN + 900,
        caused_by="x",
        seconds_per_request=1.0,
    )
    first, second = alert(), alert(later, cause=incident("cold-start"))
    assert (first.key, first.starts_at) == (second.key, second.starts_at)
    assert second.annotations["caused_by"] == "cold-start: https://diag.example.org/incidents/cold-start-1"
    assert "caused_by" not in first.annotations


def test_annotations_say_what_it_costs_since_when_and_where_to_read_on() -> None:
    reported = alert().annotations
    assert reported["description"] == (
        "instances are busy 97 % of the time. It takes 210 ms of each request (74 %). "
        "Since 2026-09-21T14:13:20.000Z, last seen 2026-09-21T14:13:50.000Z. Confidence 93 %."
    )
    assert reported["runbook_url"] == "https://diag.example.org/runbooks/gpu-saturated"
    assert reported["dashboard_url"] == "https://diag.example.org/incidents/gpu-saturated-1"


def test_a_finding_brings_suggestion_patch_and_prediction() -> None:
    reported = alert(*judged()).annotations
    assert reported["suggestion"].startswith("fix: ")
    assert "instance_group" in reported["patch"]
    assert re.match(
        r"predicted end to end: measured mean .* → .*; predicted queue: .* → .*estimated", reported["prediction"]
    )


def test_when_nothing_is_gained_is_said_once() -> None:
    one, finding = judged()
    assert finding.suggestion is not None
    assert finding.suggestion.prediction is not None
    doubted = replace(finding.suggestion.prediction, unless="all instances wait for one lock")
    unless = replace(finding, suggestion=replace(finding.suggestion, prediction=doubted))
    assert alert(one, unless).annotations["prediction"].count("no gain if all instances wait for one lock") == 1


def test_a_long_patch_is_cut_at_the_end_of_a_line() -> None:
    one, finding = judged()
    lines = "\n".join(f"+ line {number:05d}" for number in range(1_000))
    long = replace(finding, advice=replace(finding.advice, patch=Patch(text=lines, base="file", notes=())))
    patch = alert(one, long).annotations["patch"]
    assert len(patch) <= MOST_OF_A_PATCH + 2
    assert patch.endswith("\n…")
    assert all(re.fullmatch(r"\+ line \d{5}", line) for line in patch.splitlines()[:-1])


def test_a_patch_stays_a_patch() -> None:
    hunk = "--- a/m/config.pbtxt\n+++ b/m/config.pbtxt\n@@ -3,4 +3,4 @@\n max_batch_size: 1\n"
    assert harmless_lines(hunk, MOST_OF_A_PATCH) == hunk
    assert harmless_lines("@@here", MOST_OF_A_PATCH) == "@＠here"


def test_names_that_a_server_chose_call_nobody_and_break_no_line() -> None:
    one = incident(subject=replace(SAFETY, model=HOSTILE), summary=f"{HOSTILE} waits")
    (sent,) = json.loads(encoded([alert(one)], BEGIN))
    texts = [*sent["labels"].values(), *sent["annotations"].values()]
    assert any("channel" in text for text in texts)
    for bad in ("<", ">", "@here", "](", "\n", "\x1b"):
        assert not [text for text in texts if bad in text], bad


def test_what_has_no_special_meaning_stays_as_it_is() -> None:
    assert harmless("p95 of chat/safety-2 is 210 ms (74 %), e@ 3") == "p95 of chat/safety-2 is 210 ms (74 %), e@ 3"


def test_an_alert_that_is_not_repeated_ends_by_itself_and_never_before_its_start() -> None:
    assert alert().body(BEGIN + 240)["endsAt"] == "2026-09-21T14:17:20.000Z"
    stepped_back = alert().body(BEGIN - 3_600)
    assert stepped_back["endsAt"] == stepped_back["startsAt"]
    assert alert().close(BEGIN - 5).body(BEGIN + 240)["endsAt"] == stepped_back["startsAt"]


def test_labels_of_the_settings_are_added_and_replace_none_of_ours() -> None:
    made = alert(cluster="eu", check="forged")
    assert made.labels["cluster"] == "eu"
    assert made.labels["check"] == "gpu-saturated"


def test_an_incident_of_a_check_that_is_gone_still_makes_an_alert() -> None:
    made = alert(replace(incident(), check="of-old"))
    assert made.labels["alertname"] == "TritonDiagOfOld"
    assert made.annotations["summary"].startswith("of-old of safety: ")


@pytest.mark.parametrize(
    ("web", "base"),
    [
        ({"external_url": "https://d.example.org/x/"}, "https://d.example.org/x"),
        ({"listen_address": "127.0.0.1:9177"}, "http://127.0.0.1:9177"),
        ({"listen_address": "[::1]:9177"}, "http://[::1]:9177"),
    ],
)
def test_links_begin_with_the_external_url_else_with_where_it_listens(web: dict[str, str], base: str) -> None:
    assert Links.of(WebSettings(**web)).base == base


def test_links_of_a_service_that_listens_everywhere_name_the_machine() -> None:
    base = Links.of(WebSettings(listen_address="0.0.0.0:9177")).base
    assert base.endswith(":9177")
    assert "0.0.0.0" not in base
