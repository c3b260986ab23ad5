"""Chat, pager and mail services by their Apprise URLs (https://appriseit.com/services/), which are secrets."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from diagnostics.checks.check import Severity
from diagnostics.errors import UsageError
from exporters.sinks.posting import REFUSED, DeliveryFailure
from exporters.sinks.webhook import IncidentEvent

if TYPE_CHECKING:
    from apprise import AppriseAsset, AppriseAttachment, NotifyType
    from apprise.plugins.base import NotifyBase

Json = dict[str, Any]
_STATUS = re.compile(r"error=([345]\d\d)\b")


class AppriseService:
    """One service. Messages are those of `exporters.sinks.notification`; for one thread."""

    def __init__(self, url: str, setting: str) -> None:
        """Prepare; nothing is sent. `setting` is where the URL was written, for messages.

        Raises:
            UsageError: Apprise is not installed, or does not know the URL.

        """
        try:
            import apprise
        except ImportError:
            hint = "pip install 'triton-diagnostics[notify]'"
            raise UsageError("apprise is not installed", where=setting, hint=hint) from None
        from exporters.sinks.bounded_requests import bound_answers

        bound_answers()
        with _warnings():
            made = apprise.Apprise.instantiate(url, asset=_asset(), suppress_exceptions=True)
        if made is None:
            hint = "https://appriseit.com/services/ lists the forms, as slack://… and mailtos://…"
            raise UsageError("is no URL of a service that Apprise knows", where=setting, hint=hint)
        self._service: NotifyBase = made
        if "workflow" in (made.secure_protocol or ()):
            _show_code(made)

    @property
    def takes_pictures(self) -> bool:
        """Whether files can be sent along; Slack takes them from bots, not through incoming webhooks."""
        return bool(self._service.attachment_support) and getattr(self._service, "mode", None) != "hook"

    def send(self, message: Json, picture: bytes | None = None) -> None:
        """Send one message, with a PNG where there is one and the service takes files.

        Raises:
            DeliveryFailure: it was not taken.

        """
        from apprise import NotifyFormat

        title, text, form = message["title"], message["text"], NotifyFormat.MARKDOWN
        if self._service.secure_protocol == "pagerduty":
            title, text, form = "", self._alert(message), NotifyFormat.TEXT
        added = {"attach": _attached(picture)} if picture and self.takes_pictures else {}
        with _warnings() as warned:
            try:
                taken = self._service.notify(
                    title=title, body=text, notify_type=_kind(message), body_format=form, **added
                )
            except Exception as error:  # noqa: BLE001 - whatever a service's module raises may hold its URL
                raise DeliveryFailure(type(error).__name__) from None
        if not taken:
            # The warnings themselves may hold parts of the URL.
            status = next((int(found[1]) for text in warned if (found := _STATUS.search(text))), 0)
            reason = f"HTTP {status}" if status else "the service could not be reached, or did not accept the message"
            raise DeliveryFailure(reason, refused=status in REFUSED, status=status)

    def _alert(self, message: Json) -> str:
        """Prepare PagerDuty's event of an incident, which is one alert from its beginning to its end."""
        pager: Any = self._service
        incident = message["incident"]
        pager.action, pager.dedup, pager.click = "map", incident["id"], message["link"]
        pager.source, pager.component = message["deployment"], incident["check"]
        pager.details = {**pager.details, "text": message["text"]}
        return str(message["title"])


def _attached(picture: bytes) -> AppriseAttachment:
    from apprise import AppriseAttachment
    from apprise.attachment.memory import AttachMemory

    made: Any = AttachMemory
    return AppriseAttachment(made(content=picture, name="incident.png", mimetype="image/png"))


def _show_code(teams: Any) -> None:
    """Let cards of Microsoft Teams show code line by line: their Markdown knows no fences."""
    written = teams.gen_payload

    def payload(*args: Any, **options: Any) -> Any:
        made = written(*args, **options)
        for one in made["attachments"] if made else ():
            content = one["content"]
            content["body"] = [part for block in content["body"] for part in _card_blocks(block)]
        return made

    teams.gen_payload = payload


def _card_blocks(block: Json) -> Iterator[Json]:
    for number, part in enumerate(block.get("text", "").split("```")):
        if number % 2:
            for line in part.strip("\n").split("\n"):
                run = {"type": "TextRun", "text": line or " ", "fontType": "Monospace"}
                yield {"type": "RichTextBlock", "inlines": [run], "spacing": "None"}
        elif part.strip():
            yield {**block, "text": part.strip(), "id": f"{block.get('id', 'text')}{number or ''}"}


def _kind(message: Json) -> NotifyType:
    """Return what services choose colours and sounds by."""
    from apprise import NotifyType

    if message["change"] == IncidentEvent.CLOSED.value:
        return NotifyType.SUCCESS
    kinds = {Severity.CRITICAL.value: NotifyType.FAILURE, Severity.WARNING.value: NotifyType.WARNING}
    return kinds.get(message["incident"]["severity"], NotifyType.INFO)


def _asset() -> AppriseAsset:
    """Return how we are named; no pictures are linked, and nothing is written to the disk."""
    from apprise import AppriseAsset, PersistentStoreMode

    return AppriseAsset(
        app_id="diag",
        app_desc="triton-diagnostics",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        http_redirects=False,
        async_mode=False,
        storage_mode=PersistentStoreMode.MEMORY,
    )


class _Captured(logging.Filter):
    """Keeps the warnings of each thread that asks for them. No handler sees any: they may hold parts of URLs."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        kept: list[str] | None = getattr(self.texts, "kept", None)
        if kept is not None:
            kept.append(record.getMessage())
        return False


_CAPTURED = _Captured()
_LOG = logging.getLogger("apprise")
_LOG.setLevel(logging.WARNING)
_LOG.addFilter(_CAPTURED)


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Give the warnings that this thread's calls of Apprise log meanwhile."""
    kept: list[str] = []
    _CAPTURED.texts.kept = kept
    try:
        yield kept
    finally:
        _CAPTURED.texts.kept = None
