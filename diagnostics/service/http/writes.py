"""What people enter: who knows of an incident, when work is planned, what happened elsewhere.

Users read; those of `web.operators` write. Where no credential is configured, only clients on loopback may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from diagnostics.diagnosis.incident import Incident
from diagnostics.service.http.api import ONLY_KNOWN, PREFIX
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.openapi import PEOPLE, PROBLEMS
from diagnostics.service.listening import ip_of
from diagnostics.service.notifications.silences import Silencer
from diagnostics.store.journal import JournalAction, JournalEntry
from diagnostics.wire.redact import scrub

_LATEST = 253_402_300_799.0  # the last second of the year 9999
_Moment = Annotated[float, Field(ge=0, le=_LATEST, allow_inf_nan=False)]
# Whoever stands before a proxy is not on loopback, whatever the connection says.
_FORWARDED = ("forwarded", "via", "x-forwarded-", "x-real-ip", "x-client-ip", "cf-connecting-ip", "true-client-ip")


# Of one user, or of one address without credentials: a rollout marks a hundred deployments at once. Each write is kept
# for as long as signals are.
MOST_WRITES, SECONDS_PER_WRITE = 100, 1.0
# What people write goes into a log, an audit, alerts and pages: nothing that ends a line, moves a cursor or turns the
# direction of what follows.
_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_LINE = rf"[^{_CONTROLS}]*"


def _kept(text: str) -> str:
    """Return a text as it is kept: without blanks around it, and without secrets in it."""
    return scrub(text.strip())


_Who = Annotated[str, Field(pattern=f"^{_LINE}$"), AfterValidator(_kept)]
_Line = Annotated[str, Field(pattern=rf"^{_LINE}[^\s{_CONTROLS}]{_LINE}$"), AfterValidator(_kept)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    who: _Who = Field(
        default="", max_length=100, description="Name of whoever writes, where no credential is configured."
    )


class AcknowledgeRequest(_Request):
    """Who knows of an incident."""

    why: _Line = Field(min_length=1, max_length=500, description="What is done about it.")


class SilenceRequest(_Request):
    """How long Alertmanager keeps quiet about an incident."""

    seconds: float = Field(default=4 * 3600.0, gt=0, le=30 * 86400.0, allow_inf_nan=False, description="How long.")
    why: _Line = Field(min_length=1, max_length=500, description="What is done about it.")


class MaintenanceRequest(_Request):
    """When work is planned: incidents are recorded meanwhile, and nobody is notified."""

    deployment: str = Field(default="", max_length=200, description="Name of the deployment. All by default.")
    start: _Moment | None = Field(default=None, description="First second, in Unix seconds. Now by default.")
    end: _Moment = Field(description="Last second, in Unix seconds.")
    why: _Line = Field(min_length=1, max_length=500, description="What is done.")


class EventRequest(_Request):
    """Something that happened elsewhere, as a deploy."""

    time: _Moment | None = Field(default=None, description="When it happened, in Unix seconds. Now by default.")
    deployment: str = Field(default="", max_length=200, description="Name of the deployment. All by default.")
    kind: _Line = Field(default="deploy", min_length=1, max_length=50, description="What it was, in a word.")
    text: _Line = Field(min_length=1, max_length=500, description="What it was, in a sentence.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Who writes: `user` is empty for a client on loopback, where no credential is configured."""

    user: str
    origin: str

    def entry(self, action: JournalAction, body: _Request, at: float, **what: Any) -> JournalEntry:
        """Return what is written, at `at` Unix seconds; without a user it is of whom the body names."""
        return JournalEntry(action=action, at=at, who=self.user or body.who, origin=self.origin, **what)


async def _may_write(request: Request) -> _Writer:
    """Return who writes.

    Raises:
        HTTPException: it may not write, writes too often, or sends something else than JSON.

    """
    writer = _writer(request)
    if not request.app.state.writes.allow(writer.user or writer.origin):
        detail = f"too many writes: {MOST_WRITES} at once are taken, then one in {SECONDS_PER_WRITE:g} s"
        raise HTTPException(429, detail, {"Retry-After": f"{SECONDS_PER_WRITE:g}"})
    return writer


def _writer(request: Request) -> _Writer:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body is not application/json")
    user: str = getattr(request.state, "user", "")
    if getattr(request.state, "authenticated", False):
        if user not in request.app.state.operators:
            raise HTTPException(403, f"{user or 'this client'} may only read: web.operators lists who may write")
        return _Writer(user=user, origin=_origin(request))
    if any(name.startswith(_FORWARDED) for name in request.headers) or not _is_local(_origin(request)):
        raise HTTPException(403, "writing takes a credential: configure users, and list them in web.operators")
    return _Writer(user="", origin=_origin(request))


_ByWriter = Annotated[_Writer, Depends(_may_write)]
_OfIncident = Annotated[str, Path(min_length=1, max_length=64, description="Id of the incident.")]
_OfDeployment = Annotated[
    str | None, Query(min_length=1, max_length=200, description="Name of the deployment. All by default.")
]
_Limit = Annotated[int, Query(ge=1, le=1_000, description="Most entries to return.")]


def writes_router(context: WebContext) -> APIRouter:
    """Return what is under `/api/v1` that writes, and what was written.

    `app.state.operators` are the users who may write.
    """
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN, tags=[PEOPLE])
    _add_acknowledge(routes, context)
    _add_maintenance(routes, context)
    _add_events(routes, context)

    @routes.get("/audit", summary="Audit log")
    def audit(deployment: _OfDeployment = None, limit: _Limit = 100) -> list[JournalEntry]:
        """Return every write, the newest first: who, from where, what."""
        return context.attention.entries(None, deployment)[:limit]

    return routes


def _add_acknowledge(routes: APIRouter, context: WebContext) -> None:
    @routes.post("/incidents/{identity}/acknowledge", summary="Acknowledge an incident")
    def acknowledge(identity: _OfIncident, body: AcknowledgeRequest, by: _ByWriter) -> JournalEntry:
        """Say that somebody knows of an incident. Receivers hear of it again when it gets worse, and when it ends."""
        found, now = _open(context, identity), context.clock()
        what = {"deployment": found.deployment, "incident": identity, "start": now, "text": body.why}
        return _recorded(context, by.entry(JournalAction.ACKNOWLEDGE, body, now, **what))

    @routes.post("/incidents/{identity}/silence", summary="Silence an incident")
    def silence(identity: _OfIncident, body: SilenceRequest, by: _ByWriter) -> JournalEntry:
        """Silence the alerts of an incident in every Alertmanager of the settings."""
        found, now, silencer = _open(context, identity), context.clock(), Silencer(context.settings.alertmanager)
        if not silencer.on:
            raise HTTPException(404, "alertmanager.urls names no Alertmanager")
        what = {"deployment": found.deployment, "incident": identity, "text": body.why}
        entry = by.entry(JournalAction.SILENCE, body, now, start=now, end=now + body.seconds, **what)
        if entry.who:
            silencer.silence(found, who=entry.who, why=body.why, start=now, end=now + body.seconds)
        return _recorded(context, entry)


def _open(context: WebContext, identity: str) -> Incident:
    found = next((one for one in context.service.board.read().incidents if one.id == identity), None)
    if found is None:
        raise HTTPException(404, f"there is no open incident {identity!r}")
    return found


def _add_maintenance(routes: APIRouter, context: WebContext) -> None:
    @routes.post("/maintenance", summary="Plan maintenance")
    def plan(body: MaintenanceRequest, by: _ByWriter) -> JournalEntry:
        """Say when work is planned: incidents are recorded meanwhile, and nobody is notified."""
        now = context.clock()
        start = now if body.start is None else body.start
        if body.end <= start:
            raise HTTPException(409, "end: lies before start")
        what = {"deployment": body.deployment, "start": start, "end": body.end, "text": body.why}
        return _recorded(context, by.entry(JournalAction.MAINTENANCE, body, now, **what))

    @routes.get("/maintenance", summary="Maintenance")
    def maintenance(deployment: _OfDeployment = None, limit: _Limit = 100) -> list[JournalEntry]:
        """Return the maintenance that people planned, the newest first. The settings may plan more."""
        return context.attention.entries(JournalAction.MAINTENANCE, deployment)[:limit]


def _add_events(routes: APIRouter, context: WebContext) -> None:
    @routes.post("/events", summary="Mark an event")
    def mark(body: EventRequest, by: _ByWriter) -> JournalEntry:
        """Say what happened elsewhere, as a deploy, so that people see it beside incidents."""
        now = context.clock()
        start = now if body.time is None else body.time
        what = {"deployment": body.deployment, "start": start, "kind": body.kind, "text": body.text}
        return _recorded(context, by.entry(JournalAction.EVENT, body, now, **what))

    @routes.get("/events", summary="Events")
    def events(deployment: _OfDeployment = None, limit: _Limit = 100) -> list[JournalEntry]:
        """Return what happened elsewhere, as deploys, the newest first: what was posted, and what the service saw."""
        return context.attention.events(deployment)[:limit]


def _recorded(context: WebContext, entry: JournalEntry) -> JournalEntry:
    if not entry.who:
        raise HTTPException(403, "who: is empty; name yourself")
    if entry.deployment and not entry.incident and entry.deployment not in context.service.deployments:
        raise HTTPException(404, f"there is no deployment {entry.deployment[:100]!r}")
    context.attention.record(entry)
    return entry


def _origin(request: Request) -> str:
    return request.client.host if request.client else ""


def _is_local(address: str) -> bool:
    ip = ip_of(address)
    return ip is not None and (ip.ipv4_mapped or ip if ip.version == 6 else ip).is_loopback
