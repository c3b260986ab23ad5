"""Stand-ins for chat services and mail servers that keep what they are really sent."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from aiosmtpd.controller import Controller
from apprise.plugins.base import NotifyBase

from tests.service.notifications.hook import Hook

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
DISCORD = "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js"
TEAMS = "workflow://prod.example.org:443/643e69f83c8944/s3cretsignatureXYZ"
PAGERDUTY = "pagerduty://r0utingkeyr0utingkey@apikeyapikey"
CHATS = {"slack": SLACK, "discord": DISCORD, "teams": TEAMS, "pagerduty": PAGERDUTY}
SECRETS = (
    "T1JJ3T3L2",
    "TIiajkdnlazkcOXrIdevi7FQ",
    "JHMHI8qBe7bk2ZwO5U711o3dV_js",
    "4174216298",
    "s3cretsignatureXYZ",
    "643e69f83c8944",
    "r0utingkeyr0utingkey",
    "apikeyapikey",
)


def lead(patched: pytest.MonkeyPatch, hook: Hook) -> list[str]:
    """Lead all requests to a hook; return the list of the URLs that were meant."""
    hook.answer = b"ok"  # as Slack answers
    meant: list[str] = []
    request = requests.Session.request

    def led(self: requests.Session, method: str, url: str, *args: Any, **options: Any) -> requests.Response:
        meant.append(url)
        return request(self, method, f"{hook.url}{urlsplit(url).path}", *args, **options)

    patched.setattr(requests.Session, "request", led)
    unhurried(patched)
    return meant


def unhurried(patched: pytest.MonkeyPatch) -> None:
    """Leave out the pauses of some seconds between two messages, which spare the services."""
    patched.setattr(NotifyBase, "throttle", lambda *_, **__: None)


def bodies(hook: Hook) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in hook.taken]


class _Kept:
    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's
        self.mails.append(BytesParser(policy=default).parsebytes(envelope.content))  # type: ignore[arg-type]
        return "250 OK"


@contextlib.contextmanager
def mail_server() -> Iterator[tuple[str, list[EmailMessage]]]:
    """Give the Apprise URL of a mailbox, and what arrived there."""
    kept = _Kept()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    controller = Controller(kept, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield f"mailto://127.0.0.1:{port}?from=diag@example.org&to=oncall@example.org", kept.mails
    finally:
        controller.stop()
