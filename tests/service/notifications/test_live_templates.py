"""The shipped templates, as a real Alertmanager fills them in for Slack, PagerDuty and a mailbox."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.gen.alertmanager_templates import FILE, with_receivers
from diagnostics.gen.files import generated
from diagnostics.gen.finding_alerts import alertmanager_config
from diagnostics.render import phrases
from exporters.sinks.alertmanager import incident_alert
from tests.collect.fake_triton import free_ports
from tests.service.notifications.alertmanagers import Alertmanager, Pager
from tests.service.notifications.hook import Hook, listening
from tests.service.notifications.services import mail_server
from tests.service.parts import until
from tests.sinks.incidents import LINKS, judged, recorded

pytestmark = pytest.mark.live
INCIDENT, FINDING = judged()
FELT = phrases.felt(recorded().explanation, FINDING)
ALERT = incident_alert(replace(INCIDENT, onset=time.time() - 60), FINDING, None, LINKS, {}, felt=FELT)


@dataclass
class Templated(Alertmanager):
    """An Alertmanager that tells all its receivers of every alert, in the words of the templates."""

    hook: Hook | None = None
    mail: str = ""

    def _config(self) -> dict[str, Any]:
        (self.folder / FILE).write_text(generated(catalogue(), "runbooks")[f"alertmanager/{FILE}"])
        config: dict[str, Any] = json.loads(json.dumps(with_receivers(alertmanager_config(catalogue()))))
        slack, pager, mail = config["receivers"]
        assert self.hook is not None
        slack["slack_configs"][0] |= {"api_url": f"{self.hook.url}/slack"}
        del slack["slack_configs"][0]["api_url_file"]
        pager["pagerduty_configs"][0] |= {"url": f"{self.hook.url}/pagerduty", "routing_key": "key"}
        del pager["pagerduty_configs"][0]["routing_key_file"]
        config["global"] |= {"smtp_smarthost": self.mail, "smtp_require_tls": False}
        routes = [{"receiver": one["name"], "continue": True} for one in (slack, pager, mail)]
        config["route"] |= {"group_wait": "200ms", "group_interval": "300ms", "routes": routes}
        return config


@dataclass
class Shown:
    """What arrived, the newest last."""

    alertmanager: Alertmanager
    hook: Hook
    mails: list[EmailMessage]

    def bodies(self, key: str) -> list[dict[str, Any]]:
        return [body for _, text in list(self.hook.taken) if key in (body := json.loads(text))]


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    with listening() as hook, mail_server() as (url, mails):
        hook.answer = b"ok"
        where = url.removeprefix("mailto://").partition("?")[0]
        port = free_ports()
        made = Templated(tmp_path / "alertmanager", port, Pager(), hook=hook, mail=where)
        try:
            made.start()
            yield Shown(made, hook, mails)
        finally:
            made.stop(signal.SIGKILL)


def test_slack_pagerduty_and_mail_begin_with_what_users_feel_and_hold_the_patch(shown: Shown) -> None:
    title = f"[critical] chat: {ALERT.annotations['summary']}"
    shown.alertmanager.post(ALERT.body(time.time() + 600))
    until(lambda: shown.bodies("attachments") and shown.bodies("payload") and shown.mails, 20.0)
    slack = shown.bodies("attachments")[0]["attachments"][0]
    assert slack["title"] == title
    assert slack["title_link"] == LINKS.incident(INCIDENT.id)
    assert slack["color"] == "danger"
    for text in ("-instance_group [{ count: 1", f"<{LINKS.incident(INCIDENT.id)}|Incident>", "|Runbook>"):
        assert text in slack["text"]
    event = shown.bodies("payload")[0]
    assert (event["event_action"], event["payload"]["summary"]) == ("trigger", title)
    assert event["payload"]["severity"] == "critical"
    assert "+instance_group [{ count: 2" in event["payload"]["custom_details"]["patch"]
    assert shown.mails[0]["Subject"].replace("\n", "") == title
    html, plain = (shown.mails[0].get_body((kind,)) for kind in ("html", "plain"))
    assert html is not None
    assert plain is not None
    assert "<pre>--- a/safety/config.pbtxt" in html.get_content()
    assert f"[Incident]({LINKS.incident(INCIDENT.id)})" in plain.get_content()
    shown.alertmanager.post(ALERT.close(time.time(), "the cause is gone").body(0.0))
    until(lambda: len(shown.bodies("event_action")) == 2, 20.0)
    assert shown.bodies("event_action")[1]["event_action"] == "resolve"
    until(lambda: len(shown.bodies("attachments")) == 2, 20.0)
    ended = shown.bodies("attachments")[1]["attachments"][0]
    assert ended["title"].startswith("[ended] chat: ")
    assert ended["text"].strip() == f"Ended: {ALERT.annotations['summary']} (the cause is gone)"


def test_an_alert_of_a_rule_is_shown_without_a_link_that_leads_nowhere(shown: Shown) -> None:
    rule = {"summary": "safety is slow", "description": "Why.", "runbook_url": "runbooks/x.md"}
    labels = {"alertname": "TritonModelQueueGrows", "severity": "warning"}
    shown.alertmanager.post({"labels": labels, "annotations": rule})
    until(lambda: shown.bodies("attachments"), 20.0)
    slack = shown.bodies("attachments")[0]["attachments"][0]
    assert (slack["title"], slack["text"].strip()) == ("[warning] safety is slow", "*safety is slow*\nWhy.")
