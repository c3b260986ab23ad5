"""What is sent to a webhook, and how it knows that we said it: Standard Webhooks (standardwebhooks.com), version 1."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.render.phrases import felt
from exporters.sinks.links import Links, harmless
from exporters.sinks.suggested import suggested

SCHEMA_VERSION = 1
_PREFIX = "whsec_"
Json = dict[str, Any]


class IncidentEvent(StrEnum):
    """What happened to an incident."""

    OPENED = "opened"
    SEVERITY_CHANGED = "severity_changed"
    CLOSED = "closed"


def message(reported: IncidentEvent, incident: Incident, links: Links, explanation: Explanation | None = None) -> Json:
    """Return the body of a message. Times are Unix seconds, shares 0 to 1.

    `explanation` is the newest; without one `felt`, `suggestion`, `patch` and `prediction` are empty, and `server_url`.
    """
    found = explanation.findings if explanation else ()
    finding = next((one for one in found if one.id == incident.fingerprint), None)
    words = felt(explanation, finding, incident.subject) if explanation else ""
    addresses = explanation.window.addresses if explanation else {}
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "incident",
        "change": reported.value,
        "deployment": harmless(incident.deployment),
        "incident": incident_json(incident),
        "felt": harmless(words),
        "suggestion": "",
        "patch": "",
        "prediction": "",
        **suggested(finding),
        "server_url": addresses.get(incident.subject.server, ""),
        "links": {
            "incident": links.incident(incident.id),
            "deployment": links.deployment(incident.deployment),
            "runbook": links.runbook(incident.check),
            **({"picture": drawn} if (drawn := links.picture(incident.id)) else {}),
        },
    }


def message_id(reported: IncidentEvent, incident: Incident) -> str:
    """Return what stays the same when a message is repeated, also after a restart."""
    at = f".{incident.seen:.3f}" if reported is IncidentEvent.SEVERITY_CHANGED else ""
    return f"{incident.id}.{reported.value}{at}"


def incident_json(incident: Incident) -> Json:
    """Return an incident under the names of its fields; texts are harmless where people read them."""
    return {
        name: {part: harmless(text) if text else text for part, text in value.items()}
        if isinstance(value, dict)
        else harmless(value, 2_000)
        if isinstance(value, str)
        else value
        for name, value in asdict(incident).items()
    }


def encoded(body: Json) -> bytes:
    """Return a message as bytes."""
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def key_of(secret: str) -> bytes:
    """Return the key that a secret stands for: `whsec_` and Base64, else the text's own bytes.

    Raises:
        ValueError: what follows `whsec_` is not Base64.

    """
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"what follows {_PREFIX} is not Base64") from None


def headers(identifier: str, at: float, body: bytes, key: bytes | None) -> dict[str, str]:
    """Return the headers of a message; the signature covers its id, the time it was sent, and the body."""
    stamp = str(int(at))
    found = {"webhook-id": identifier, "webhook-timestamp": stamp, "Idempotency-Key": f'"{identifier}"'}
    if key is not None:
        signed = hmac.new(key, b".".join((identifier.encode(), stamp.encode(), body)), hashlib.sha256).digest()
        found["webhook-signature"] = f"v1,{base64.b64encode(signed).decode()}"
    return found
