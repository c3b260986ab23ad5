"""Logs what became of each notification: it was sent, it was refused, or it was dropped before it could be sent."""

from __future__ import annotations

import logging
from typing import Any

from diagnostics.service.log_lines import Field, LoggedEvent, log_event
from exporters.sinks.alertmanager import IncidentAlert

log = logging.getLogger(__name__)
_LABELS = ("alertname", "deployment", "server", "model", "version", "gpu", "ensemble", "check")


def log_alert(receiver: str, alert: IncidentAlert, *, refused: str = "", dropped: str = "") -> None:
    """Log an alert's first delivery, or why there is none; repetitions are not logged.

    Of a request that Alertmanager refused it keeps the valid alerts, and does not say which.
    """
    labels = {name: alert.labels.get(name) for name in _LABELS}
    status = "firing" if alert.ended is None else "resolved"
    _log_delivery(receiver, "refused" if refused else "dropped", refused or dropped, status=status, **labels)


def log_message(receiver: str, body: dict[str, Any], *, dropped: str = "") -> None:
    """Log that a webhook took a message, or why it never will."""
    incident = body.get("incident", {})
    subject = incident.get("subject") or {}
    fields = {name: incident.get(name) for name in ("deployment", "check", "severity")}
    about = {name: subject.get(name) for name in _LABELS if subject.get(name)}
    _log_delivery(
        receiver, "dropped", dropped, change=body.get("change"), incident=incident.get("id"), **about, **fields
    )


def _log_delivery(receiver: str, outcome: str, reason: str, **fields: Field) -> None:
    if reason:
        event = LoggedEvent.NOTIFICATION_DROPPED
        log_event(log, event, f"notification {outcome}", receiver=receiver, **fields, err=reason)
    else:
        log_event(log, LoggedEvent.NOTIFICATION_SENT, "notification sent", receiver=receiver, **fields)
