"""An example of each answer of the API, for its OpenAPI document; explanations and objectives have their schemas'."""

from __future__ import annotations

from typing import Any

from diagnostics import __version__

Json = dict[str, Any]
_AT = 1795813240.0
_CHECK = "single-instance-serialization"
_TITLE = "A stage's instances are all busy while the device under them has room"
_SUMMARY = "one instance of safety busy 94 % of the time: requests wait 169 ms for 24.7 ms of work"
_STEP = "fix: raise instance_group count of safety from 1 to 2"
_SUBJECT: Json = {"server": "triton-0", "model": "safety", "version": "1", "gpu": None, "ensemble": "chat"}
_COST: Json = {"seconds_per_request": 0.1608, "share_of_latency": 0.5063, "share_of_requests_failed": 0.0}
_KNOWN: Json = {
    "check": _CHECK,
    "title": _TITLE,
    "layer": "serving",
    "subject": _SUBJECT,
    "severity": "critical",
    "confidence": 0.95,
    "summary": _SUMMARY,
    **_COST,
    "caused_by": None,
}
_DEPLOYMENT: Json = {
    "name": "chat",
    "servers": ["triton-0"],
    "at": _AT,
    "age": 1.0,
    "late": False,
    "no_data_since": None,
    "took": 0.03,
    "lag": 0.2,
    "verdict": "degraded",
    "answer": f"chat p95 651 ms, objective 200 ms, 37.9 requests/s: {_CHECK} of safety",
    "reason": "",
    "layer": "serving",
    "changes": [],
    "findings": [{"id": "80a5e046a9c6ae89", **_KNOWN, "step": _STEP, "doubt": None, "onset": 1795813200.0}],
}
_TARGET: Json = {
    "server": "triton-0",
    "url": "http://triton-0:8000",
    "deployment": "chat",
    "up": True,
    "interval": 5.0,
    "last_round": _AT,
    "last_success": _AT,
    "took": 0.02,
    "failures": 0,
    "error": "",
    "served": True,
}
_INCIDENT: Json = {
    "id": "0199a1b2c3d4",
    "fingerprint": "80a5e046a9c6ae89",
    "deployment": "chat",
    **_KNOWN,
    "worst": "critical",
    "onset": 1795813200.0,
    "opened": 1795813210.0,
    "seen": _AT,
    "closed": None,
    "ending": None,
    "peak": 0.5063,
    "peak_at": _AT,
}
_ENTRY: Json = {
    "id": "5f0c7d1e9a3b4c2d8e6f",
    "at": _AT,
    "who": "alice",
    "origin": "192.0.2.7",
    "deployment": "chat",
    "incident": "",
    "start": _AT,
    "end": None,
    "kind": "",
}
_ACKNOWLEDGED: Json = {**_ENTRY, "action": "acknowledge", "incident": "0199a1b2c3d4", "text": "rolling back"}
_MAINTENANCE: Json = {**_ENTRY, "action": "maintenance", "end": _AT + 3600, "text": "new driver"}
_EVENT: Json = {**_ENTRY, "action": "event", "kind": "deploy", "text": "image 1.4 rolled out"}
PROBLEM: Json = {
    "type": "about:blank",
    "title": "Not Found",
    "status": 404,
    "detail": "there is no deployment 'chatt'",
}
EXAMPLES: Json = {
    "index": {
        "version": __version__,
        "openapi": "/api/v1/openapi.json",
        "paths": {"/api/v1/deployments": "Deployments"},
    },
    "state": {
        "version": 7,
        "now": _AT + 1,
        "started": _AT - 3600,
        "targets": [_TARGET],
        "deployments": [_DEPLOYMENT],
        "incidents": [_INCIDENT],
        "acknowledged": [],
        "faults": [],
    },
    "deployments": [_DEPLOYMENT],
    "fleet": {
        "now": _AT + 1,
        "worker": 0,
        "workers": [
            {
                "worker": 0,
                "url": "https://diag.example.org/",
                "reported": _AT + 1,
                "silent": False,
                "deployments": 1,
            }
        ],
        "deployments": [
            {
                "name": "chat",
                "word": "degraded",
                "tone": "critical",
                "headline": _SUMMARY,
                "check": _CHECK,
                "about": "safety",
                "entry": "chat",
                "statistic": "p95",
                "seconds": 0.651,
                "objective": "p95 < 200ms",
                "missed": True,
                "per_second": 37.9,
                "since": 1795813200.0,
                "at": _AT,
                "servers": 1,
                "down": 0,
                "harm": 0.5063,
                "place": 1,
                "worker": 0,
                "url": "https://diag.example.org/deployments/chat",
            }
        ],
    },
    "why": {
        "check": _CHECK,
        "title": _TITLE,
        "deployment": "chat",
        "at": _AT,
        "subjects": [
            {
                "subject": _SUBJECT,
                "outcome": "fires",
                "because": _SUMMARY,
                "lines": [
                    {
                        "signal": "queue_seconds",
                        "value": 0.1686,
                        "low": 0.1596,
                        "high": 0.1775,
                        "unit": "seconds",
                        "source": "statistics",
                        "estimated": False,
                        "missing": None,
                        "limit": 0.005,
                        "comparison": ">=",
                        "met": True,
                    }
                ],
            }
        ],
        "account": f"{_CHECK} on safety: fires: {_SUMMARY}\n",
    },
    "checks": [
        {
            "id": _CHECK,
            "title": _TITLE,
            "layer": "serving",
            "scope": "model",
            "severity": None,
            "limits": {"queue": 0.005},
            "sections": {"Means": "Requests wait for a free instance."},
        }
    ],
    "targets": [_TARGET],
    "incidents": [_INCIDENT],
    "incident": {
        "incident": _INCIDENT,
        "changes": [],
        "consequences": [],
        "report": None,
        "report_at": None,
        "acknowledged": _ACKNOWLEDGED,
    },
    "acknowledge": _ACKNOWLEDGED,
    "silence": {**_ACKNOWLEDGED, "action": "silence", "end": _AT + 14400},
    "plan": _MAINTENANCE,
    "maintenance": [_MAINTENANCE],
    "mark": _EVENT,
    "events": [_EVENT],
    "audit": [_EVENT, _ACKNOWLEDGED],
    "verdicts": [{"at": _AT, "verdict": "degraded", "reason": "", "layer": "serving", "leading": "80a5e046a9c6ae89"}],
    "signals": [{"at": 1795813200.0, "mean": 0.1686, "low": 0.1596, "high": 0.1775, "count": 12}],
}
