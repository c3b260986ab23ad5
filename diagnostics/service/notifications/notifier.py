"""From settings to receivers: who is notified, and how; one part of the daemon, one consumer of verdicts."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.incident import Incident
from diagnostics.errors import UsageError
from diagnostics.service.notifications.alerts import AlertBook
from diagnostics.service.notifications.feeds import AlertFeed, Book, MessageFeed, SaveFeed, Send, signed
from diagnostics.service.notifications.messages import MessageBook, NotificationFilter, WebhookMessage
from diagnostics.service.notifications.sender import (
    FIRST_PAUSE,
    PATIENCE_TO_SETTLE,
    DeliveryThread,
    Posts,
    Settle,
    SettledPoster,
    TracedPoster,
    Work,
)
from diagnostics.service.notifications.silences import access_of
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.own.tracer import SpanRole
from diagnostics.service.state import Evaluation
from diagnostics.settings.addresses import names_a_user
from diagnostics.settings.tree import AlertmanagerSettings, NotificationSettings, Settings, WebhookSettings
from exporters.sinks.alertmanager import PATH
from exporters.sinks.apprise_service import AppriseService
from exporters.sinks.links import Links
from exporters.sinks.notification import notification
from exporters.sinks.posting import DeliveryFailure, Poster
from exporters.sinks.webhook import IncidentEvent, key_of, message
from exporters.sources.access import SourceOptions, clean_secret, read_secret, secret_of

LONGEST_PAUSE = 300.0
# Seconds that all receivers together are waited for at the end.
PATIENCE = 10.0
_SAVE = "outbox"
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OURS = frozenset({"alertname", "check", "deployment", "server", "model", "version", "gpu", "ensemble", "severity"})
Json = dict[str, Any]
# Returns a PNG of the incident with an id; None where nothing is left of it to draw.
Draw = Callable[[str], bytes | None]
log = logging.getLogger(__name__)


class Outbox(Protocol):
    """Keeps documents over a restart."""

    def read(self, name: str) -> Json: ...
    def write(self, name: str, document: Json) -> None: ...
    def set_aside(self, name: str, error: Exception) -> None: ...


class ReceiverState(Book, Protocol):
    """What a kind of receiver knows."""

    dropped: int

    @property
    def waiting(self) -> int: ...
    def consume(self, evaluation: Evaluation) -> bool: ...
    def resume(self, incidents: Iterable[Incident], ending: Container[str] = ...) -> None: ...
    def load(self, saved: Json) -> None: ...


class Channel:
    """A book with the senders that empty it and the one that saves it."""

    def __init__(
        self, name: str, book: ReceiverState, outbox: Outbox, metrics: OwnMetrics, first_pause: float, settle: Settle
    ) -> None:
        self.book, self._metrics, self._name, self._first_pause = book, metrics, name, first_pause
        self._settle = settle
        self.senders: list[DeliveryThread] = []
        self._saving = DeliveryThread(
            f"{_SAVE} {name}",
            SaveFeed(book, lambda document: outbox.write(name, document)),
            lambda outcome: metrics.errors.labels(_SAVE).inc() if outcome == "failed" else None,
            longest_pause=LONGEST_PAUSE,
            first_pause=first_pause,
            faults=metrics.faults,
        )
        _load(book, outbox, name)

    def add(self, receiver: str, work: Work, longest_pause: float) -> None:
        """Let a receiver be notified from the book."""
        sender = DeliveryThread(
            receiver,
            work,
            self._counter(receiver),
            longest_pause=longest_pause,
            first_pause=self._first_pause,
            faults=self._metrics.faults,
        )
        self.senders.append(sender)

    def posts(self, poster: Poster) -> Posts:
        """Return a poster that is seen, and that waits until what it sends is remembered."""
        return SettledPoster(TracedPoster(poster, self._metrics), self._settle)

    def sends(self, receiver: str, service: AppriseService, draw: Draw | None = None) -> Send:
        """Return what sends a message through a service, as `posts`; its span names the receiver, not the address.

        The picture goes along at the first attempt only: a service that took the text without it says no more than
        that it failed.
        """
        attempted = ""

        def send(one: WebhookMessage) -> None:
            nonlocal attempted
            self._settle(PATIENCE_TO_SETTLE)
            first, attempted = attempted != one.id, one.id
            picture = _drawn(draw, one) if draw is not None and first and service.takes_pictures else None
            with self._metrics.tracer.span("notify", {"diag.receiver": receiver}, kind=SpanRole.CLIENT) as span:
                try:
                    service.send(one.body, picture)
                except DeliveryFailure as failure:
                    span.failed(str(failure.status or "_OTHER"), str(failure))
                    raise

        return send

    def save(self) -> None:
        """Save soon; returns at once."""
        self._saving.nudge()

    def notify(self) -> None:
        """Look for news, in all threads; returns at once."""
        self._show()
        self._saving.nudge()
        for sender in self.senders:
            sender.nudge()

    def start(self) -> None:
        """Begin to save and to send."""
        for sender in (self._saving, *self.senders):
            sender.start()

    def stop(self, deadline: float) -> None:
        """Send what can be sent until `deadline`, steady seconds, and save the rest."""
        for sender in self.senders:
            sender.stop(max(0.0, deadline - time.monotonic()))
        self._saving.stop(PATIENCE)

    def _counter(self, receiver: str) -> Callable[[str], None]:
        """Return what counts a receiver's outcomes, and what its book let fall."""
        for outcome in ("ok", "failed", "dropped"):
            self._metrics.deliveries.labels(receiver, outcome)
        counted = 0

        def count(outcome: str) -> None:
            nonlocal counted
            self._metrics.deliveries.labels(receiver, outcome).inc()
            self._show()
            fallen, counted = self.book.dropped - counted, self.book.dropped
            if fallen > 0:
                self._metrics.deliveries.labels(receiver, "dropped").inc(fallen)

        return count

    def _show(self) -> None:
        self._metrics.queue_length.labels(self._name).set(self.book.waiting)


OpenChannel = Callable[[str, ReceiverState], Channel]


class Notifier:
    """Takes every verdict and lets all receivers know what it changes. Without receivers it does nothing."""

    def __init__(
        self,
        settings: Settings,
        metrics: OwnMetrics,
        outbox: Outbox,
        *,
        first_pause: float = FIRST_PAUSE,
        settle: Settle = lambda _: None,
        environment: Mapping[str, str] | None = None,
        audible: Callable[[Evaluation], Evaluation] = lambda evaluation: evaluation,
        draw: Draw | None = None,
    ) -> None:
        """Read what an earlier run left to send; nothing is sent before `start`.

        Args:
            settings: who is notified.
            metrics: counts deliveries.
            outbox: keeps over a restart what was not taken.
            first_pause: seconds after a first failure.
            settle: waits until all verdicts so far are remembered, at most so many seconds.
            environment: variables that may hold the URLs of services.
            audible: leaves out the changes of a verdict that receivers are not to know of.
            draw: returns the picture of an incident by its id; None where the service draws none.

        Raises:
            UsageError: an address, a label or a file of the settings cannot be used.

        """
        links, self._audible = Links.of(settings.web, pictures=draw is not None), audible

        def open_channel(name: str, book: ReceiverState) -> Channel:
            return Channel(name, book, outbox, metrics, first_pause, settle)

        self._channels: list[Channel] = []
        if settings.alertmanager.urls:
            self._channels.append(_alertmanagers(settings.alertmanager, links, open_channel))
        names: dict[str, int] = {}
        for webhook in settings.webhook:
            self._channels.append(_webhook(webhook, links, open_channel, names))
        _check_names(settings)
        for one in settings.notification:
            self._channels.append(_notification(one, links, open_channel, environment or {}, draw))

    @property
    def receivers(self) -> Sequence[str]:
        """The names of the receivers, as metrics have them."""
        return [sender.name for channel in self._channels for sender in channel.senders]

    def resume(self, incidents: Iterable[Incident], watched: Container[str] | None = None) -> None:
        """Take up the open incidents of an earlier run; call it once, before `start`.

        Args:
            incidents: those that were open.
            watched: the deployments whose incidents may go on, as those of others are about to end; None for all.

        """
        found = list(incidents)
        ending = {one.id for one in found if watched is not None and one.deployment not in watched}
        for channel in self._channels:
            channel.book.resume(found, ending)

    def consume(self, evaluation: Evaluation) -> None:
        """Take up what a verdict changes; returns at once."""
        heard = self._audible(evaluation)
        for channel in self._channels:
            if channel.book.consume(heard):
                channel.notify()

    def start(self) -> None:
        """Begin to send."""
        for channel in self._channels:
            channel.start()

    def stop(self) -> None:
        """Send what can be sent soon, and save the rest."""
        deadline = time.monotonic() + PATIENCE
        for channel in self._channels:
            channel.stop(deadline)


def _check_names(settings: Settings) -> None:
    """Refuse a name of two receivers: their deliveries would be counted as those of one."""
    names = [*(one.name for one in settings.webhook if one.name), *(one.name for one in settings.notification)]
    for name, count in Counter(names).items():
        if count > 1:
            raise UsageError("two notifications have the same name", where=name)


def _alertmanagers(settings: AlertmanagerSettings, links: Links, open_channel: OpenChannel) -> Channel:
    _check_labels(settings.labels)
    options = access_of(settings)
    urls = list(dict.fromkeys(url.rstrip("/") for url in settings.urls))
    book = AlertBook(links, urls, least=Severity(settings.min_severity), labels=settings.labels)
    channel = open_channel("alertmanager", book)
    for url in urls:
        feed = AlertFeed(
            url,
            book,
            channel.posts(Poster(f"{url}{PATH}", options, "alertmanager.urls")),
            settings.resend,
            channel.save,
        )
        channel.add(url, feed, settings.resend)
    return channel


def _webhook(settings: WebhookSettings, links: Links, open_channel: OpenChannel, names: dict[str, int]) -> Channel:
    url = secret_of(settings.url_file, "URL") or settings.url
    if not url or (settings.url and settings.url_file):
        raise UsageError("give url or url_file, and not both", where="webhook")
    if names_a_user(url):
        hint = "use bearer_token_file"
        raise UsageError("the URL holds a user, who would not be told", where=str(settings.url_file), hint=hint)
    options = SourceOptions(
        timeout=settings.timeout,
        bearer_token=secret_of(settings.bearer_token_file, "bearer token"),
        ca_file=settings.ca_file,
    )
    poster = Poster(url, options, "webhook")
    if url in names:
        raise UsageError("two webhooks have the same address", where=poster.shown)
    names[url] = 1
    seen = names[poster.shown] = names.get(poster.shown, 0) + 1
    name = settings.name or (f"{poster.shown} #{seen}" if seen > 1 else poster.shown)
    book = MessageBook(lambda event, incident, known: message(event, incident, links, known), receiver=name)
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    channel = open_channel(f"webhook-{digest}", book)
    feed = MessageFeed(name, book, signed(channel.posts(poster), _key(settings.secret_file)), channel.save)
    channel.add(name, feed, LONGEST_PAUSE)
    return channel


def _notification(
    settings: NotificationSettings,
    links: Links,
    open_channel: OpenChannel,
    environment: Mapping[str, str],
    draw: Draw | None,
) -> Channel:
    where = f"notification {settings.name}"
    if bool(settings.url_file) == bool(settings.url_env):
        raise UsageError("give url_file or url_env, and not both", where=where)
    url = secret_of(settings.url_file, "URL")
    service = AppriseService(url or clean_secret(environment.get(settings.url_env, ""), "URL", settings.url_env), where)
    chosen = NotificationFilter(
        least=Severity(settings.min_severity),
        deployments=frozenset(settings.deployments),
        events=frozenset(map(IncidentEvent, settings.events)),
        consequences=settings.consequences,
    )
    book = MessageBook(partial(notification, links=links), receiver=settings.name, chosen=chosen)
    channel = open_channel(f"notification-{settings.name}", book)
    channel.add(
        settings.name,
        MessageFeed(settings.name, book, channel.sends(settings.name, service, draw), channel.save),
        LONGEST_PAUSE,
    )
    return channel


def _drawn(draw: Draw, one: WebhookMessage) -> bytes | None:
    """Return the picture of a message's incident; None where there is none: the message goes without."""
    try:
        return draw(one.body["incident"]["id"])
    except Exception:
        log.exception("drawing an incident")
        return None


def _load(book: ReceiverState, outbox: Outbox, name: str) -> None:
    try:
        book.load(outbox.read(name))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        outbox.set_aside(name, error)


def _check_labels(labels: dict[str, str]) -> None:
    for name in labels:
        if not _LABEL.fullmatch(name) or name.startswith("__"):
            raise UsageError(f"{name!r} is no name of a label", where="alertmanager.labels")
        if name in _OURS or name == "sender":
            raise UsageError(f"{name} is set by the service itself", where="alertmanager.labels")


def _key(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return key_of(read_secret(file, "secret"))
    except ValueError as error:
        raise UsageError(str(error), where=str(file)) from None
