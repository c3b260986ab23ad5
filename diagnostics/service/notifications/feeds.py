"""What senders do: repeat alerts to an Alertmanager, send messages to one receiver, save what is left to send."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from diagnostics.errors import reason_of
from diagnostics.service.notifications.alerts import AlertBook
from diagnostics.service.notifications.delivery_log import log_alert, log_message
from diagnostics.service.notifications.messages import MessageBook, WebhookMessage
from diagnostics.service.notifications.sender import Posts
from exporters.sinks.alertmanager import IncidentAlert, Key, encoded
from exporters.sinks.posting import DeliveryFailure
from exporters.sinks.webhook import encoded as encoded_message
from exporters.sinks.webhook import headers

# As many as Prometheus puts into one request.
BATCH = 64
# In terms of `resend`: an alert that is repeated no more has ended. Three lost messages in a row end nothing.
LIFETIMES = 4
# Seconds between a cause and its consequences. Alertmanager notifies of an alert that began long ago at once, which may
# be before it has looked at what inhibits it.
AHEAD = 1.0
Json = dict[str, Any]
# What of an alert is new to a receiver: its labels, when it began and ended.
State = tuple[Key, float, float | None]


class Book(Protocol):
    """Something that wants to be saved."""

    def unsaved(self) -> bool: ...
    def save(self, write: Callable[[Json], None]) -> None: ...


class AlertFeed:
    """Sends one Alertmanager everything that fires, and repeats it; and that it has ended, until that was taken."""

    def __init__(
        self, name: str, book: AlertBook, poster: Posts, resend: float, changed: Callable[[], None] = lambda: None
    ) -> None:
        """Begin with nothing sent.

        Args:
            name: the receiver's, as in the book.
            book: what fires and has ended.
            poster: posts to its alerts.
            resend: seconds between two repetitions.
            changed: called when there is something to save.

        """
        self._name, self._book, self._poster, self._resend, self._changed = name, book, poster, resend, changed
        self._sent: dict[State, float] = {}

    def due(self, now: float) -> float | None:
        """Return when the next alert is to be sent; None while there is none."""
        return min(self._dues(now).values(), default=None)

    def deliver(self, now: float) -> None:
        """Send what is due, and what would soon be, in one request.

        Raises:
            DeliveryFailure: it was not taken.

        """
        dues = self._dues(now)
        current = {_state(alert): alert for alert, _ in self._book.current() if _state(alert) in dues}
        self._sent = {state: at for state, at in self._sent.items() if state in current}
        chosen = sorted((state for state in current if self._ripe(dues[state], state, now)), key=lambda one: dues[one])
        batch = sorted((current[state] for state in chosen[:BATCH]), key=_rank)
        try:
            self._poster.post(encoded(batch, time.time() + LIFETIMES * self._resend))
        except DeliveryFailure as failure:
            if failure.refused:  # it took those that are well-formed, and says so of the others only
                self._note(batch, now, str(failure))
            else:  # it may have lost what it had: all is sent anew, causes first
                self._sent.clear()
            raise
        self._note(batch, now)

    def _dues(self, now: float) -> dict[State, float]:
        current = [alert for alert, _ in self._book.current()]
        firing = {alert.key: _state(alert) for alert in current if alert.ended is None}
        return {_state(alert): self._due(alert, firing, now) for alert in current}

    def _due(self, alert: IncidentAlert, firing: Mapping[Key, State], now: float) -> float:
        sent = self._sent.get(_state(alert))
        if sent is not None:
            return sent + self._resend
        cause = firing.get(alert.behind) if alert.behind and alert.ended is None else None
        return now if cause is None else max(now, self._sent.get(cause, now) + AHEAD)

    def _ripe(self, due: float, state: State, now: float) -> bool:
        """Return whether an alert goes with what is sent now: repetitions come together, others when they are due."""
        return due <= now or (state in self._sent and due <= now + self._resend / 2)

    def _note(self, batch: list[IncidentAlert], now: float, refused: str = "") -> None:
        for alert in batch:
            if _state(alert) not in self._sent:
                log_alert(self._name, alert, refused=refused)
        self._sent |= {_state(alert): now for alert in batch}
        if self._book.taken(self._name, batch):
            self._changed()


# Delivers one message, or raises DeliveryFailure.
Send = Callable[[WebhookMessage], object]


def signed(poster: Posts, key: bytes | None) -> Send:
    """Return what posts a message as JSON, signed where there is a key."""

    def send(one: WebhookMessage) -> None:
        body = encoded_message(one.body)
        poster.post(body, headers(one.id, time.time(), body, key))

    return send


class MessageFeed:
    """Sends a book's messages one after another, each until it is taken."""

    def __init__(self, name: str, book: MessageBook, send: Send, changed: Callable[[], None] = lambda: None) -> None:
        self._name, self._book, self._send, self._changed = name, book, send, changed

    def due(self, now: float) -> float | None:
        """Return now while something waits."""
        return now if self._book.first() else None

    def deliver(self, _: float) -> None:
        """Send the message that is next.

        Raises:
            DeliveryFailure: it was not taken; one that was refused is given up.

        """
        one = self._book.first()
        if one is None:
            return
        try:
            self._send(one)
        except DeliveryFailure as failure:
            if failure.refused:
                self._let_go(one, refused=str(failure))
            raise
        self._let_go(one)

    def _let_go(self, one: WebhookMessage, refused: str = "") -> None:
        log_message(self._name, one.body, dropped=refused)
        self._book.done(one, taken=not refused)
        self._changed()


class SaveFeed:
    """Writes a book into the outbox whenever it differs from what is there."""

    def __init__(self, book: Book, write: Callable[[Json], None]) -> None:
        self._book, self._write = book, write

    def due(self, now: float) -> float | None:
        """Return now while something is unsaved."""
        return now if self._book.unsaved() else None

    def deliver(self, _: float) -> None:
        """Save.

        Raises:
            DeliveryFailure: it could not be written.

        """
        try:
            self._book.save(self._write)
        except OSError as error:
            raise DeliveryFailure(reason_of(error)) from None


def _state(alert: IncidentAlert) -> State:
    return alert.key, alert.starts_at, alert.ended


def _rank(alert: IncidentAlert) -> bool:
    """Causes begin before their consequences, and end after them."""
    return (alert.behind is None) != (alert.ended is None)
