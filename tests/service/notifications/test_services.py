from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from diagnostics.checks.check import Severity
from diagnostics.errors import UsageError
from diagnostics.service.notifications.notifier import Notifier
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.running import check
from diagnostics.service.state import Evaluation
from diagnostics.settings.tree import Settings
from diagnostics.store.outbox import FileOutbox, MemoryOutbox
from tests.service.notifications.hook import Hook, listening
from tests.service.notifications.services import CHATS, SECRETS, bodies, lead, mail_server, unhurried
from tests.service.parts import count, until
from tests.sinks.incidents import closed, judged, recorded, updated

Notify = Callable[..., Notifier]
OPENED = recorded()
INCIDENT = judged()[0]
ENDED = replace(OPENED, changes=closed(INCIDENT, at=INCIDENT.onset + 720).changes)


@pytest.fixture
def hook() -> Iterator[Hook]:
    with listening() as made:
        yield made


@pytest.fixture
def notify(tmp_path: Path) -> Iterator[Notify]:
    running: list[Notifier] = []

    def start(url: str, metrics: OwnMetrics | None = None, **options: Any) -> Notifier:
        settings = Settings.model_validate({"notification": [{"name": "oncall", "url_env": "CHAT", **options}]})
        outbox = FileOutbox(tmp_path)
        made = Notifier(settings, metrics or OwnMetrics(), outbox, first_pause=0.02, environment={"CHAT": url})
        made.start()
        running.append(made)
        return made

    yield start
    for made in running:
        made.stop()


def posted(url: str, hook: Hook, notify: Notify, monkeypatch: pytest.MonkeyPatch, *news: Evaluation) -> list[Any]:
    lead(monkeypatch, hook)
    made = notify(url)
    for one in news:
        made.consume(one)
    until(lambda: len(hook.taken) == len(news))
    return bodies(hook)


def test_slack_shows_what_users_feel_then_the_patch_then_a_link(
    hook: Hook, notify: Notify, monkeypatch: pytest.MonkeyPatch
) -> None:
    (body,) = posted(CHATS["slack"], hook, notify, monkeypatch, OPENED)
    (shown,) = body["attachments"]
    cause = "single-instance-serialization of safety"
    assert shown["title"] == f"[critical] chat: chat p95 650 ms, 37.9 requests/s, 51 % of the mean avoidable: {cause}"
    text = shown["text"]
    assert text.index("*Fix:*") < text.index("```\n--- ") < text.index("/incidents/")
    assert f"/incidents/{INCIDENT.id}|Incident>" in text
    assert "](" not in text
    assert body["mrkdwn"]


def test_discord_takes_the_whole_message_as_markdown(
    hook: Hook, notify: Notify, monkeypatch: pytest.MonkeyPatch
) -> None:
    (body,) = posted(CHATS["discord"], hook, notify, monkeypatch, OPENED)
    text = str(body)
    assert "```" in text
    assert f"/incidents/{INCIDENT.id})" in text
    assert len(body.get("content") or "") + sum(len(one["description"]) for one in body.get("embeds", [])) < 2_000


def test_teams_gets_an_adaptive_card(hook: Hook, notify: Notify, monkeypatch: pytest.MonkeyPatch) -> None:
    (body,) = posted(CHATS["teams"], hook, notify, monkeypatch, OPENED)
    content = body["attachments"][0]["content"]
    assert content["type"] == "AdaptiveCard"
    title, *_, links = (one["text"] for one in content["body"] if one["type"] == "TextBlock")
    assert INCIDENT.check in title
    assert "[Incident](http" in links
    lines = [one["inlines"][0]["text"] for one in content["body"] if one["type"] == "RichTextBlock"]
    assert lines[0] == "--- a/safety/config.pbtxt"
    assert "+instance_group [{ count: 2 kind: KIND_CPU }]" in lines
    assert "```" not in str(body)


def test_pagerduty_resolves_the_alert_that_it_opened(
    hook: Hook, notify: Notify, monkeypatch: pytest.MonkeyPatch
) -> None:
    better = replace(INCIDENT, severity=Severity.WARNING)
    news = (OPENED, replace(OPENED, changes=updated(better).changes), ENDED)
    first, second, last = posted(CHATS["pagerduty"], hook, notify, monkeypatch, *news)
    assert [one["event_action"] for one in (first, second, last)] == ["trigger", "trigger", "resolve"]
    assert {one["dedup_key"] for one in (first, second, last)} == {INCIDENT.id}
    assert (first["payload"]["severity"], second["payload"]["severity"]) == ("critical", "warning")
    assert first["payload"]["source"] == "chat"
    assert first["links"][0]["href"].endswith(f"/incidents/{INCIDENT.id}")
    assert "\n" not in first["payload"]["summary"]
    assert "--- " in first["payload"]["custom_details"]["text"]


def test_a_mail_has_the_answer_as_its_subject_and_the_patch_in_its_body(
    notify: Notify, monkeypatch: pytest.MonkeyPatch
) -> None:
    unhurried(monkeypatch)
    with mail_server() as (url, mails):
        made = notify(url)
        made.consume(OPENED)
        made.consume(ENDED)
        until(lambda: len(mails) == 2)
    assert INCIDENT.check in mails[0]["Subject"]
    assert mails[1]["Subject"].startswith("[ended] chat: ")
    assert " ended after 12 min" in mails[1]["Subject"]
    page = mails[0].get_body(("html",))
    assert page is not None
    assert f'/incidents/{INCIDENT.id}"' in page.get_content()
    assert "<code>" in page.get_content()


def test_a_service_that_is_away_gets_the_message_later_and_is_counted(
    hook: Hook, notify: Notify, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(monkeypatch, hook)
    hook.status, metrics = 503, OwnMetrics()
    notify(CHATS["discord"], metrics).consume(OPENED)
    until(lambda: count(metrics, "diag_deliveries_total", receiver="oncall", outcome="failed") >= 1)
    hook.status = 200
    until(lambda: hook.taken)
    until(lambda: count(metrics, "diag_deliveries_total", receiver="oncall", outcome="ok") == 1)


def test_a_message_that_a_service_refuses_is_dropped_with_the_reason(
    hook: Hook, notify: Notify, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lead(monkeypatch, hook)
    hook.status, metrics = 400, OwnMetrics()
    notify(CHATS["slack"], metrics).consume(OPENED)
    until(lambda: count(metrics, "diag_deliveries_total", receiver="oncall", outcome="dropped") == 1)
    assert any("HTTP 400" in str(vars(one)) for one in caplog.records)


@pytest.mark.parametrize("kind", CHATS)
def test_no_part_of_a_url_is_in_logs_metrics_or_files(
    kind: str,
    hook: Hook,
    notify: Notify,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    caplog.set_level(logging.DEBUG)
    meant = lead(monkeypatch, hook)
    metrics = OwnMetrics()
    hook.status = 500
    made = notify(CHATS[kind], metrics)
    made.consume(OPENED)
    until(lambda: count(metrics, "diag_deliveries_total", receiver="oncall", outcome="failed") >= 1)
    hook.server.shutdown()
    hook.server.server_close()  # from now on the connection is refused
    until(lambda: count(metrics, "diag_deliveries_total", receiver="oncall", outcome="failed") >= 2, 20.0)
    made.stop()
    kept = [path.read_text() for path in tmp_path.rglob("*.json")]
    assert kept
    assert meant
    shown = "\n".join([caplog.text, generate_latest(metrics.registry).decode(), *kept])
    assert "oncall" in shown
    for secret in SECRETS:
        assert secret not in shown


def test_settings_show_where_a_url_is_but_not_the_url(tmp_path: Path) -> None:
    (tmp_path / "chat").write_text(CHATS["slack"])
    file = tmp_path / "diag.toml"
    file.write_text(
        f"[[server]]\nurl='http://h:8000'\n[[notification]]\nname='oncall'\nurl_file='{tmp_path / 'chat'}'\n"
        "[[notification]]\nname='pager'\nurl_env='PAGER'\n"
    )
    shown = "\n".join(check(file, {"PAGER": CHATS["pagerduty"]}, {}, []))
    assert "notification.1.url_env = PAGER" in shown
    assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize(
    ("tree", "reported"),
    [
        ([{"name": "a"}], "notification a: give url_file or url_env, and not both"),
        ([{"name": "a", "url_env": "NONE"}], "NONE: the URL is empty"),
        ([{"name": "a", "url_env": "BAD"}], "notification a: is no URL of a service that Apprise knows"),
        ([{"name": "a", "url_env": "CHAT"}, {"name": "a", "url_env": "CHAT"}], "a: two notifications have the same"),
    ],
)
def test_settings_that_cannot_work_are_reported_without_the_url(tree: Any, reported: str) -> None:
    environment = {"BAD": "slack://T1JJ3T3L2/s3cret", "CHAT": CHATS["slack"]}
    with pytest.raises(UsageError) as raised:
        Notifier(Settings.model_validate({"notification": tree}), OwnMetrics(), MemoryOutbox(), environment=environment)
    assert reported in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_receivers_choose_severity_deployments_and_events(
    hook: Hook, notify: Notify, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(monkeypatch, hook)
    metrics = OwnMetrics()
    mild = replace(INCIDENT, severity=Severity.WARNING, worst=Severity.WARNING)
    notify(CHATS["slack"], metrics, min_severity="critical").consume(replace(OPENED, changes=updated(mild).changes))
    notify(CHATS["slack"], metrics, deployments=["other"]).consume(OPENED)
    ends = notify(CHATS["slack"], metrics, events=["closed"])
    ends.consume(OPENED)
    ends.consume(ENDED)
    until(lambda: hook.taken)
    assert [one["attachments"][0]["title"].split()[0] for one in bodies(hook)] == ["[ended]"]
    until(lambda: count(metrics, "diag_queue_length", queue="notification-oncall") == 0)


def test_consequences_are_left_out_unless_they_are_asked_for(
    hook: Hook, notify: Notify, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(monkeypatch, hook)
    (change,) = (one for one in OPENED.changes if one.incident.id == INCIDENT.id)
    caused = replace(OPENED, changes=(replace(change, incident=replace(INCIDENT, id="b", caused_by="a")),))
    notify(CHATS["slack"]).consume(caused)
    notify(CHATS["discord"], consequences=True).consume(caused)
    until(lambda: hook.taken)
    assert "attachments" not in bodies(hook)[0]
