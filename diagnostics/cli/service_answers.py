"""What is read of a running service's answers; whatever answers otherwise is another program, or another version.

Keys that nobody reads are left to the service. Times are Unix seconds.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

_LAST_SECOND = 253_402_300_799.0  # of the year 9999
Time = Annotated[float, msgspec.Meta(ge=0, le=_LAST_SECOND)]


class CheckAnswer(TypedDict):
    """Of `/deployments/…/checks/…`."""

    account: str


class TargetAnswer(TypedDict):
    """One of `/targets`."""

    deployment: str


class _Target(TargetAnswer):
    server: str
    up: bool
    error: str


class _Subject(TypedDict):
    server: str
    model: NotRequired[str | None]
    gpu: NotRequired[str | int | None]
    ensemble: NotRequired[str | None]


class _Finding(TypedDict):
    id: str
    title: str
    severity: str
    summary: str
    subject: _Subject
    onset: Time | None
    caused_by: str | None


class _Deployment(TypedDict):
    name: str
    verdict: str
    reason: str
    findings: list[_Finding]


class _Incident(TypedDict):
    id: str
    fingerprint: str
    deployment: str
    check: str
    onset: Time
    seen: Time


class ServiceStateAnswer(TypedDict):
    """Of `/state`."""

    version: int
    now: Time
    targets: list[_Target]
    deployments: list[_Deployment]
    incidents: list[_Incident]


class _Period(TypedDict):
    seconds: float


class _Events(TypedDict):
    total: float


class _Budget(TypedDict):
    left: float | None


class _Slo(TypedDict):
    name: str
    objective: float
    sli: dict[str, Any] | None
    period: _Period
    events: _Events
    budget: _Budget
    alerts: list[Any]


class Slos(TypedDict):
    """Of `/slos`."""

    slos: list[_Slo]
