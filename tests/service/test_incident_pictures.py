"""Pictures of incidents: their address, what they survive, and the messages that carry them."""

from __future__ import annotations

import importlib
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnostics.render.explanation.graph import WIDE, NodeFacts, picture
from diagnostics.render.explanation.png import MOST_NODES, PictureChart, PictureSpan, incident_png
from diagnostics.service.http.page import pages
from diagnostics.service.http.page.pictures import IncidentPictures
from diagnostics.service.notifications.notifier import Notifier
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.settings.tree import Settings
from diagnostics.store.outbox import MemoryOutbox
from diagnostics.units import Unit
from diagnostics.window.graph import Ensemble
from diagnostics.wire.model_config import EnsembleStep
from exporters.sinks.alertmanager import incident_alert
from exporters.sinks.links import Links
from exporters.sinks.webhook import IncidentEvent, message
from tests.service.notifications.hook import listening
from tests.service.notifications.services import CHATS, bodies, lead, mail_server, unhurried
from tests.service.parts import until
from tests.service.serving import Serving, recorded
from tests.service.test_service_pages import requested
from tests.sinks.incidents import judged
from tests.sinks.incidents import recorded as evaluation

PNG = b"\x89PNG\r\n\x1a\n"
SLOW = "cpu-handed-single-instance"
INCIDENT = judged()[0]
SPAN = PictureSpan(start=1000.0, end=2000.0, onset=1500.0, marks=[(1400.0, "deploy $x_{1}$")])


@pytest.fixture
def serving() -> Iterator[Serving]:
    with Serving(["chat"], objective="p95 < 200ms") as made:
        made.stated("chat", recorded(SLOW))
        yield made


def address(serving: Serving) -> str:
    return f"/api/v1/incidents/{serving.service.board.read().incidents[0].id}/picture.png"


def width(png: bytes) -> int:
    return int(struct.unpack(">I", png[16:20])[0])


def test_an_open_incident_has_its_picture_at_an_address_of_the_api(serving: Serving) -> None:
    status, headers, body = requested(serving, address(serving))

    assert (status, headers["content-type"]) == (200, "image/png")
    assert body.startswith(PNG)
    assert width(body) == 1040


def test_the_page_of_an_incident_leads_to_its_picture(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    page = address(serving).removeprefix("/api/v1").removesuffix("/picture.png")
    assert f'href="{address(serving)}"' in requested(serving, page)[2].decode()

    monkeypatch.setattr(pages, "can_draw", lambda: False)
    assert "picture.png" not in requested(serving, page)[2].decode()


def test_a_picture_is_drawn_once_for_each_verdict(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, first = requested(serving, address(serving))
    monkeypatch.setattr(IncidentPictures, "_made", lambda *_: pytest.fail("drawn again"))

    assert requested(serving, address(serving))[2] == first


def test_an_unknown_incident_has_no_picture(serving: Serving) -> None:
    assert requested(serving, "/api/v1/incidents/none/picture.png")[0] == 404


def test_without_the_package_the_answer_says_what_to_install(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "diagnostics.render.explanation.png")
    monkeypatch.setattr(importlib.import_module("diagnostics.render.explanation"), "png", None, raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    status, _, body = requested(serving, address(serving))

    assert status == 501
    assert "pip install 'triton-diagnostics[plot]'" in json.loads(body)["detail"]


def test_names_of_servers_are_drawn_as_text() -> None:
    hostile = "$\\frac{a}{\x1b[2Jb 模型 \u202e"
    steps = tuple(EnsembleStep(model=f"{hostile}{number}") for number in range(3))
    facts = {one.model: NodeFacts(name=one.model, facts=(), busy=None, mark="cause") for one in steps}
    drawn = picture(Ensemble(name="chat", steps=steps, edges=((1,), (2,), ())), facts, WIDE)
    chart = PictureChart(title=hostile, kind="time", unit=Unit.SECONDS, at=[1000.0, 1500.0], values=[0.1, None])

    assert incident_png(hostile * 20, drawn, [chart], SPAN).startswith(PNG)


def test_a_graph_that_cannot_be_read_at_this_width_is_left_out() -> None:
    steps = tuple(EnsembleStep(model=f"m{number}") for number in range(MOST_NODES + 1))
    edges = (*((number + 1,) for number in range(MOST_NODES)), ())
    large = picture(Ensemble(name="chat", steps=steps, edges=edges), {}, WIDE)

    assert incident_png("chat", large, [], SPAN) == incident_png("chat", None, [], SPAN)


def notifier(url: str) -> Notifier:
    settings = Settings.model_validate({"notification": [{"name": "oncall", "url_env": "CHAT"}]})
    environment = {"CHAT": url}
    return Notifier(
        settings,
        OwnMetrics(),
        MemoryOutbox(),
        first_pause=0.02,
        environment=environment,
        draw=lambda identity: PNG + identity.encode(),
    )


def test_a_mail_carries_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    unhurried(monkeypatch)
    with mail_server() as (url, mails):
        made = notifier(url)
        made.start()
        made.consume(evaluation())
        until(lambda: mails)
        made.stop()

    (attached,) = mails[0].iter_attachments()
    assert attached.get_content_type() == "image/png"
    assert attached.get_content() == PNG + INCIDENT.id.encode()


def test_discord_gets_the_picture_and_at_the_next_attempt_the_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as hook:
        lead(monkeypatch, hook)
        made = notifier(CHATS["discord"])
        hook.status = 500
        made.start()
        made.consume(evaluation())
        until(lambda: hook.seen >= 1)
        hook.status = 200
        until(lambda: hook.taken)
        made.stop()
        again = len(hook.taken)
        pictures = [body for _, body in hook.taken if PNG in body]

        fresh = notifier(CHATS["discord"])
        fresh.start()
        fresh.consume(evaluation())
        until(lambda: any(PNG in body for _, body in hook.taken[again:]))
        fresh.stop()

    assert pictures == []


def test_slack_through_a_webhook_gets_the_address_of_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as hook:
        lead(monkeypatch, hook)
        made = notifier(CHATS["slack"])
        made.start()
        made.consume(evaluation())
        until(lambda: hook.taken)
        made.stop()
        (body,) = bodies(hook)

    assert f"/api/v1/incidents/{INCIDENT.id}/picture.png|Picture>" in body["attachments"][0]["text"]


def test_webhooks_and_alerts_name_the_picture_where_there_is_one() -> None:
    drawn, plain = Links("https://diag.example.org", pictures=True), Links("https://diag.example.org")
    url = f"https://diag.example.org/api/v1/incidents/{INCIDENT.id}/picture.png"

    assert message(IncidentEvent.OPENED, INCIDENT, drawn)["links"]["picture"] == url
    assert "picture" not in message(IncidentEvent.OPENED, INCIDENT, plain)["links"]
    assert incident_alert(INCIDENT, None, None, drawn, {}).annotations["picture_url"] == url
    assert "picture_url" not in incident_alert(INCIDENT, None, None, plain, {}).annotations


def test_a_picture_that_fails_does_not_hold_up_its_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    unhurried(monkeypatch)
    settings = Settings.model_validate({"notification": [{"name": "oncall", "url_env": "CHAT"}]})

    def draw(_: str) -> bytes:
        raise OSError(f"{tmp_path}: read-only")

    with mail_server() as (url, mails):
        made = Notifier(settings, OwnMetrics(), MemoryOutbox(), environment={"CHAT": url}, draw=draw)
        made.start()
        made.consume(evaluation())
        until(lambda: mails)
        made.stop()

    assert not list(mails[0].iter_attachments())
