from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from diagnostics.errors import UsageError
from diagnostics.service.notifications.notifier import Notifier
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.settings.tree import Settings
from diagnostics.store.outbox import FileOutbox, MemoryOutbox
from tests.service.notifications.hook import Hook, listening
from tests.service.parts import count, until
from tests.sinks.incidents import closed, incident, opened

ONE = incident()
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef").decode()


@pytest.fixture
def hook() -> Iterator[Hook]:
    with listening() as made:
        yield made


Telled = Callable[..., Notifier]


@pytest.fixture
def begin(hook: Hook, tmp_path: Path) -> Iterator[Telled]:
    (tmp_path / "url").write_text(f"{hook.url}/T0/s3cret")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "token").write_text("t0ken")
    files = {"url_file": tmp_path / "url", "secret_file": tmp_path / "secret", "bearer_token_file": tmp_path / "token"}
    running: list[Notifier] = []

    def start(metrics: OwnMetrics | None = None, outbox: Path = tmp_path) -> Notifier:
        settings = Settings.model_validate({"webhook": [files]})
        telling = Notifier(settings, metrics or OwnMetrics(), FileOutbox(outbox), first_pause=0.02)
        telling.start()
        running.append(telling)
        return telling

    yield start
    for telling in running:
        telling.stop()


def test_a_message_is_signed_named_and_authorized(hook: Hook, begin: Telled) -> None:
    begin().consume(opened(ONE))
    until(lambda: hook.taken)
    headers, body = hook.taken[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    made = base64.b64encode(hmac.new(b"0123456789abcdef", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{made}"
    assert headers["Authorization"] == "Bearer t0ken"
    assert json.loads(body)["incident"]["id"] == ONE.id


def test_nothing_is_reported_before_it_is_remembered(hook: Hook, tmp_path: Path) -> None:
    requested, remembered = threading.Event(), threading.Event()

    def settle(_: float) -> None:
        requested.set()
        remembered.wait(10)

    settings = Settings.model_validate({"webhook": [{"url": hook.url}], "alertmanager": {"urls": [hook.url]}})
    telling = Notifier(settings, OwnMetrics(), FileOutbox(tmp_path), settle=settle)
    telling.start()
    telling.consume(opened(ONE))
    assert requested.wait(10)
    assert hook.seen == 0
    remembered.set()
    until(lambda: hook.seen == 2)
    telling.stop()


def test_what_receivers_are_not_to_know_of_is_not_sent(hook: Hook) -> None:
    settings = Settings.model_validate({"webhook": [{"url": hook.url}]})
    telling = Notifier(
        settings, OwnMetrics(), MemoryOutbox(), audible=lambda one: replace(one, changes=one.changes[1:])
    )
    telling.start()
    telling.consume(opened(incident("cold-start"), ONE))
    telling.consume(opened(ONE, replace(ONE, id="last")))
    until(lambda: len(hook.taken) == 2)
    telling.stop()
    assert [json.loads(body)["incident"]["id"] for _, body in hook.taken] == [ONE.id, "last"]


def test_messages_are_sent_in_order_once_the_receiver_is_back_also_after_a_restart(hook: Hook, begin: Telled) -> None:
    hook.status, metrics = 503, OwnMetrics()
    first = begin(metrics)
    first.consume(opened(ONE))
    until(lambda: hook.seen >= 2)
    first.consume(closed(ONE))
    until(lambda: count(metrics, "diag_queue_length", queue=_queue(metrics)) == 2)
    first.stop()
    hook.status = 200
    begin().resume([])
    until(lambda: len(hook.taken) == 2)
    assert hook.changes == ["opened", "closed"]
    assert count(metrics, "diag_deliveries_total", receiver=hook.url, outcome="failed") >= 2


def test_a_message_that_the_receiver_cannot_take_holds_up_no_other(hook: Hook, begin: Telled) -> None:
    hook.status, metrics = 422, OwnMetrics()
    telling = begin(metrics)
    telling.consume(opened(ONE))
    until(lambda: count(metrics, "diag_deliveries_total", receiver=hook.url, outcome="dropped") == 1)
    hook.status = 200
    telling.consume(closed(ONE))
    until(lambda: hook.changes == ["closed"])


def test_no_secret_is_in_logs_metrics_or_files(
    hook: Hook, begin: Telled, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hook.status, metrics = 500, OwnMetrics()
    telling = begin(metrics, tmp_path / "history")
    telling.consume(opened(ONE))
    until(lambda: hook.seen >= 2)
    telling.stop()
    kept = [path.read_text() for path in (tmp_path / "history").rglob("*.json")]
    assert kept
    names = " ".join(path.name for path in (tmp_path / "history").rglob("*"))
    shown = "\n".join([caplog.text, generate_latest(metrics.registry).decode(), names, *kept])
    for secret in ("s3cret", "t0ken", SECRET, SECRET[6:]):
        assert secret not in shown


def test_an_outbox_that_cannot_be_written_is_counted_and_telling_goes_on(
    hook: Hook, begin: Telled, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    metrics = OwnMetrics()
    begin(metrics, tmp_path / "file").consume(opened(ONE))
    until(lambda: hook.taken)
    until(lambda: count(metrics, "diag_errors_total", part="outbox") >= 1)


def test_an_outbox_of_another_form_is_set_aside(hook: Hook, begin: Telled, tmp_path: Path) -> None:
    first = begin()
    first.consume(opened(ONE))
    until(lambda: hook.taken)
    first.stop()
    (path,) = tmp_path.glob("outbox/*.json")
    path.write_text('{"known": [], "waiting": [{}]}')
    begin()
    assert list(tmp_path.glob("outbox/*.damaged"))


@pytest.mark.parametrize(
    ("tree", "reported"),
    [
        ({"alertmanager": {"urls": ["http://h:1"], "labels": {"check": "x"}}}, "check is set by the service itself"),
        ({"alertmanager": {"urls": ["http://h:1"], "labels": {"a-b": "x"}}}, "'a-b' is no name of a label"),
        ({"alertmanager": {"urls": ["h:9093"]}}, "is no address of HTTP"),
        ({"alertmanager": {"urls": ["http://h:1"], "bearer_token_file": "/none"}}, "cannot read the bearer token"),
        ({"webhook": [{}]}, "give url or url_file, and not both"),
        ({"webhook": [{"url": "http://h/a"}, {"url": "http://h/a"}]}, "two webhooks have the same address"),
        (
            {"webhook": [{"name": "ops", "url": "http://h/a"}, {"name": "ops", "url": "http://h/b"}]},
            "ops: two notifications have the same name",
        ),
    ],
)
def test_settings_that_cannot_work_are_reported_at_the_start(tree: dict[str, Any], reported: str) -> None:
    with pytest.raises(UsageError, match=reported):
        Notifier(Settings.model_validate(tree), OwnMetrics(), MemoryOutbox())


def test_two_webhooks_of_one_host_are_distinguished() -> None:
    tree = {"webhook": [{"url": "http://h/a"}, {"url": "http://h/b"}]}
    assert Notifier(Settings.model_validate(tree), OwnMetrics(), MemoryOutbox()).receivers == [
        "http://h",
        "http://h #2",
    ]


def test_a_webhook_is_called_by_its_name_instead_of_its_host() -> None:
    tree = {"webhook": [{"name": "ops", "url": "http://h/a"}, {"url": "http://g/b"}]}
    metrics = OwnMetrics()
    notifier = Notifier(Settings.model_validate(tree), metrics, MemoryOutbox())
    assert notifier.receivers == ["ops", "http://g"]
    receivers = {
        sample.labels["receiver"]
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if "receiver" in sample.labels
    }
    assert receivers == {"ops", "http://g"}


def _queue(metrics: OwnMetrics) -> str:
    """Return the name of the only queue of messages."""
    found = [
        sample.labels["queue"]
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "diag_queue_length" and sample.labels["queue"].startswith("webhook")
    ]
    return found[0] if found else ""
