from __future__ import annotations

import base64
import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from diagnostics.service.attention import Attention
from diagnostics.store.journal import JournalAction
from tests.service.http.door import HASHED, PASSWORD, USER, Door, door, lived, show
from tests.service.notifications.hook import listening
from tests.store.lived import NAME, opened

WHY = {"why": "rolling back"}


def post(at: Door, path: str, body: object, **headers: str) -> tuple[int, Any]:
    named = {"Content_Type": "application/json", **headers}
    answer = at.ask(f"/api/v1{path}", "POST", body=json.dumps(body).encode(), **named)
    return answer.status, json.loads(answer.data)


def basic(user: str = USER) -> str:
    return "Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()


@pytest.fixture
def users(tmp_path: Path) -> str:
    path = tmp_path / "web.yml"
    path.write_text(f"basic_auth_users: {{{USER}: '{HASHED}', bob: '{HASHED}'}}\n")
    return str(path)


def test_an_operator_writes_and_the_audit_log_says_who_from_where_and_what(
    users: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with door({"web.config_file": users, "web.operators": USER}) as made:
        event = {"text": "image 1.4 rolled out", "deployment": "", "time": 1_790_000_000}
        status, written = post(made, "/events", event, Authorization=basic())
        assert status == 200
        (audited,) = made.json("/api/v1/audit", Authorization=basic("bob"))
        assert audited == written
        assert made.json("/api/v1/events", Authorization=basic("bob")) == [written]
    assert (written["action"], written["who"], written["origin"]) == ("event", USER, "127.0.0.1")
    assert (written["kind"], written["start"], written["text"]) == ("deploy", 1_790_000_000, "image 1.4 rolled out")
    (line,) = [one for one in caplog.records if getattr(one, "event", "") == "diag.written"]
    assert line.fields["who"] == USER
    assert line.fields["origin"] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/events", "/maintenance", "/incidents/x/acknowledge"])
def test_a_user_who_is_no_operator_only_reads(path: str, users: str) -> None:
    with door({"web.config_file": users, "web.operators": USER}) as made:
        body = {"text": "x", "why": "x", "end": 9e9}
        status, problem = post(made, path, body, Authorization=basic("bob"))
        assert (status, "bob may only read" in problem["detail"]) == (403, True)
        assert made.json("/api/v1/audit", Authorization=basic()) == []


def test_the_token_writes_only_where_it_is_listed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t0ken")
    event, token = {"text": "x"}, {"Authorization": "Bearer t0ken"}
    with door({"web.bearer_token_file": str(tmp_path / "token")}) as made:
        assert post(made, "/events", event, **token)[0] == 403
    with door({"web.bearer_token_file": str(tmp_path / "token"), "web.operators": "bearer-token"}) as made:
        assert post(made, "/events", event, **token)[1]["who"] == "bearer-token"


def test_without_credentials_only_clients_on_loopback_write_and_name_themselves() -> None:
    event = {"text": "x", "who": "carol"}
    with door() as made:
        assert post(made, "/events", event)[1]["who"] == "carol"
        status, problem = post(made, "/events", {"text": "x"})
        assert (status, problem["detail"]) == (403, "who: is empty; name yourself")
        status, problem = post(made, "/events", event, X_Forwarded_For="192.0.2.1")
        assert (status, "writing takes a credential" in problem["detail"]) == (403, True)


@pytest.mark.parametrize("header", ["X_Forwarded_Host", "Via", "Forwarded", "X_Real_Ip", "Cf_Connecting_Ip"])
def test_whoever_stands_before_a_proxy_is_not_on_loopback(header: str) -> None:
    with door() as made:
        assert post(made, "/events", {"text": "x", "who": "carol"}, **{header: "192.0.2.1"})[0] == 403


@pytest.mark.parametrize("text", ["\x1b[31mred", "a\nb", "\u202egpj", "a\u2028b", "\x00", "\ud800", "\x9b", "  "])
@pytest.mark.parametrize("field", ["who", "kind", "text"])
def test_what_people_write_is_one_line_of_printable_text(field: str, text: str) -> None:
    with door() as made:
        status, problem = post(made, "/events", {"text": "x", "who": "carol", field: text})
        # A blank name is none, as where it is left out.
        expected = 403 if (field, text) == ("who", "  ") else 400
        assert (status, problem["detail"][: len(field)]) == (expected, field)
        assert made.json("/api/v1/audit") == []


def test_a_secret_that_a_pipeline_writes_is_kept_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    text = "rolled out from https://ci:k9CaNaRy0123456789@registry/x with --api-key k9CaNaRy0123456789"
    with door({"history.directory": str(tmp_path)}) as made:
        assert "REDACTED" in post(made, "/events", {"text": text, "who": "ci", "kind": "deploy"})[1]["text"]
        assert post(made, "/maintenance", {"why": text, "who": "ci", "end": 9e9})[0] == 200
        shown = "".join(
            made.ask(path).data.decode() for path in ("/api/v1/audit", "/api/v1/events", "/api/v1/maintenance", "/")
        )
    assert "k9CaNaRy" not in shown + caplog.text + "".join(str(vars(one)) for one in caplog.records)
    assert not [one for one in tmp_path.rglob("*") if one.is_file() and b"k9CaNaRy" in one.read_bytes()]


def test_a_page_of_a_stranger_cannot_write() -> None:
    with door() as made:
        event = {"text": "x", "who": "carol"}
        assert post(made, "/events", event, Origin="https://evil.example")[0] == 403
        assert post(made, "/events", event, Content_Type="text/plain")[0] == 415
        assert made.json("/api/v1/audit") == []


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/maintenance", {"end": 1, "why": "x", "who": "c"}, 409),
        ("/maintenance", {"end": 9e9, "why": "x", "who": "c", "deployment": "none"}, 404),
        ("/events", {"text": "", "who": "c"}, 400),
        ("/events", {"text": "x", "who": "c", "more": 1}, 400),
        ("/incidents/none/acknowledge", {"why": "x", "who": "c"}, 404),
    ],
)
def test_what_means_nothing_is_refused(path: str, body: dict[str, object], status: int) -> None:
    with door() as made:
        assert post(made, path, body)[0] == status


def test_what_was_told_outlives_a_restart(tmp_path: Path) -> None:
    history = opened(tmp_path)
    history.start()
    attention = Attention(earlier=history.journal(), put=history.put_entry)
    with door(history=history, attention=attention) as made:
        post(made, "/maintenance", {"end": 9e9, "why": "new driver", "who": "carol"})
    history.stop()
    (kept,) = opened(tmp_path).journal()
    assert (kept.action, kept.end, kept.text) == (JournalAction.MAINTENANCE, 9e9, "new driver")
    assert Attention(earlier=[kept]).maintained("chat", kept.at)


def test_an_incident_is_silenced_in_alertmanager_by_its_labels_without_the_severity(tmp_path: Path) -> None:
    history, verdicts = lived(tmp_path)
    with listening() as hook, door({"alertmanager.urls": hook.url}, history=history) as made:
        show(made.service, verdicts)
        found = made.json("/api/v1/incidents?state=open")[0]
        path, told = f"/incidents/{found['id']}/silence", {"why": "known", "seconds": 60, "who": "carol"}
        status, written = post(made, path, told)
        assert (status, written["action"], written["end"] - written["start"]) == (200, "silence", 60)
        (body,) = [json.loads(text) for _, text in hook.taken]
        hook.status = 500
        status, problem = post(made, path, told)
        assert (status, "did not take the silence: HTTP 500" in problem["detail"]) == (503, True)
        assert made.json("/api/v1/audit") == [written]
    names = {one["name"]: one["value"] for one in body["matchers"]}
    assert (names["check"], names["deployment"]) == (found["check"], found["deployment"])
    assert not {"severity", "sender"} & names.keys()
    assert (body["createdBy"], body["comment"]) == ("carol", "known")


def test_without_an_alertmanager_nothing_is_silenced(tmp_path: Path) -> None:
    history, verdicts = lived(tmp_path)
    with door(history=history) as made:
        show(made.service, verdicts)
        identity = made.json("/api/v1/incidents?state=open")[0]["id"]
        assert post(made, f"/incidents/{identity}/silence", {**WHY, "who": "carol"})[0] == 404


def test_who_knows_of_an_incident_is_shown_with_it(tmp_path: Path) -> None:
    history, verdicts = lived(tmp_path)
    with door(history=history) as made:
        show(made.service, verdicts)
        identity = made.json("/api/v1/incidents?state=open")[0]["id"]
        status, written = post(made, f"/incidents/{identity}/acknowledge", {**WHY, "who": "carol"})
        assert (status, written["incident"]) == (200, identity)
        assert made.json(f"/api/v1/incidents/{identity}")["acknowledged"] == written
        assert made.json("/api/v1/state")["acknowledged"] == [written]
        page = made.ask(f"/incidents/{identity}").data.decode()
        assert "Acknowledged by <bdi>carol</bdi>" in page
        assert "rolling back" in page


def test_a_deploy_that_was_posted_is_a_mark_on_the_timelines(tmp_path: Path) -> None:
    history, verdicts = lived(tmp_path, count=4)
    with door(history=history) as one:
        show(one.service, verdicts)
        event = {"who": "ci", "kind": "deploy", "text": "image 1.4"}
        assert post(one, "/events", event)[0] in (200, 201)
        marks = one.json(f"/fragments/timelines/{NAME}?since=900")["marks"]
    assert [(mark["kind"], mark["text"], mark["to"]) for mark in marks] == [("deploy", "image 1.4", None)]
    assert abs(marks[0]["from"] - time.time()) < 60
