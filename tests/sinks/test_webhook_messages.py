from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.incident import Incident
from exporters.sinks.webhook import IncidentEvent, encoded, headers, key_of, message, message_id
from tests.sinks.incidents import BEGIN, LINKS, SAFETY, incident


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
