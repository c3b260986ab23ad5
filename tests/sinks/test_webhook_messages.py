from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.incident import Incident
from diagnostics.render.phrases import felt
from exporters.sinks.webhook import IncidentEvent, encoded, headers, key_of, message, message_id
from tests.sinks.incidents import BEGIN, LINKS, SAFETY, incident, judged, recorded

ROOT = Path(__file__).parents[2]


def test_a_signature_is_that_of_the_standard_s_own_example() -> None:
    # https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/python/tests/test_webhooks.py
    key = key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    made = headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330.7, b'{"test": 2432232314}', key)
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert made["webhook-timestamp"] == "1614265330"


def test_without_a_secret_nothing_is_signed_and_the_id_is_there() -> None:
    made = headers("1.opened", 1.0, b"{}", None)
    assert "webhook-signature" not in made
    assert made["webhook-id"] == "1.opened"
    assert made["Idempotency-Key"] == '"1.opened"'


def test_a_secret_that_is_no_base64_is_refused_and_a_plain_one_is_its_bytes() -> None:
    with pytest.raises(ValueError, match="not Base64"):
        key_of("whsec_!")
    assert key_of("hunter2") == b"hunter2"


def test_a_message_holds_the_whole_incident_under_the_names_of_its_fields() -> None:
    body = json.loads(encoded(message(IncidentEvent.OPENED, incident(), LINKS)))
    assert (body["schema_version"], body["kind"], body["change"]) == (1, "incident", "opened")
    assert set(body["incident"]) == {field.name for field in fields(Incident)}
    assert body["incident"]["subject"] == SAFETY.to_dict()
    assert body["incident"]["severity"] == "warning"
    assert body["links"] == {
        "incident": "https://diag.example.org/incidents/gpu-saturated-1",
        "deployment": "https://diag.example.org/deployments/chat",
        "runbook": "https://diag.example.org/runbooks/gpu-saturated",
    }


def test_a_message_says_what_users_feel_and_what_to_do() -> None:
    known = recorded().explanation
    one, finding = judged()
    body = message(IncidentEvent.OPENED, one, LINKS, known)
    assert body["felt"] == felt(known, finding)
    assert "p95" in body["felt"]
    assert body["suggestion"].startswith("fix: ")
    assert "+++ " in body["patch"] or "instance_group" in body["patch"]
    without = message(IncidentEvent.OPENED, one, LINKS)
    names = ("felt", "suggestion", "patch", "prediction", "server_url")
    assert [without[name] for name in names] == [""] * 5


def test_the_documentation_shows_the_body_as_it_is() -> None:
    page = (ROOT / "docs/how-to/run-the-service.md").read_text("utf-8")
    shown = json.loads(page.partition("receiver when incidents open and close:\n\n```json\n")[2].partition("```")[0])
    sent = message(IncidentEvent.OPENED, incident(), LINKS)
    assert set(shown) == set(sent)
    assert set(shown["incident"]) < set(sent["incident"])
    assert set(shown["incident"]["subject"]) == set(sent["incident"]["subject"])
    assert set(shown["links"]) == set(sent["links"])


def test_names_that_a_server_chose_are_harmless_in_a_message() -> None:
    one = incident(subject=replace(SAFETY, model="<!channel>\ud800"), summary="<!here>\x1b")
    text = encoded(message(IncidentEvent.OPENED, one, LINKS)).decode()
    assert "<!" not in text
    assert "\\u001b" not in text


def test_an_id_stays_when_a_message_is_repeated_and_differs_for_each_change_of_severity() -> None:
    one = incident()
    assert message_id(IncidentEvent.OPENED, one) == message_id(IncidentEvent.OPENED, replace(one, seen=BEGIN + 60))
    worse = replace(one, severity=Severity.CRITICAL)
    later = replace(worse, seen=BEGIN + 60)
    assert message_id(IncidentEvent.SEVERITY_CHANGED, worse) != message_id(IncidentEvent.SEVERITY_CHANGED, later)
