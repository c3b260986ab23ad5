"""Everything that is called something: deployments, servers, models, incidents, checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from prometheus_client import Counter
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError

from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.proposing import ChangeRequest
from diagnostics.errors import CollectError, DiagError
from diagnostics.gen.pages import runbook_of
from diagnostics.gen.slo_rules import RUNBOOKS as OF_OBJECTIVES
from diagnostics.render.explanation.html import drawn, parts, reported
from diagnostics.render.forecast.document import forecast_document
from diagnostics.render.text import as_text
from diagnostics.service.fleet import FleetBoard, FleetEntry
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page import deployments, frame, incidents
from diagnostics.service.http.page.deployments import Values, felt, standing_of, standings_now
from diagnostics.service.http.page.frame import Frame, html_answer
from diagnostics.service.http.page.incidents import IncidentFilter, IncidentList, find
from diagnostics.service.http.page.one_incident import incident_values, known_incident
from diagnostics.service.http.page.pictures import can_draw
from diagnostics.service.http.page.slos import shown_slos
from diagnostics.service.http.page.timelines import (
    LONGEST,
    SHORTEST,
    Json,
    RangeRequest,
    TimelineRange,
    entry_of,
    models,
    remembered,
)
from diagnostics.service.http.what_if import MOST_SETTINGS, forecast_of, plainly
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.standing import UNREACHABLE, Standing, is_down, roots, standings
from diagnostics.settings.addresses import prefix_of
from diagnostics.signals.signal import Subject

MOST = 50


def search_values(context: WebContext, text: str) -> Values:
    """Return what the template shows of what `text` names; nothing for an empty one."""
    sought = text.casefold().strip()
    if not sought:
        return {"text": text, "standings": (), "found": IncidentList(incidents=()), "checks": ()}
    named = [one for one in standings_now(context) if any(sought in name for name in _names(one))]
    return {
        "text": text,
        "standings": named[:MOST],
        "found": find(context.history, context.service.board.read().incidents, IncidentFilter(text=text), MOST),
        "checks": [one for one in catalogue().values() if sought in f"{one.id} {one.title}".casefold()],
    }


def _names(standing: Standing) -> Iterator[str]:
    yield standing.name.casefold()
    for target in standing.targets:
        yield from (target.server.casefold(), target.url.casefold())
    for item in standing.explanation.anatomy if standing.explanation else ():
        yield (item.ensemble or "").casefold()
        yield from (stage.model.casefold() for stage in item.stages)


# Beside the first one; all are in the list of the fleet.
OTHERS_SHOWN = 5
OPEN_SHOWN, PAST_SHOWN = 20, 5
# Pictures of the first deployment.
ENTRIES_DRAWN = 1


def home_values(context: WebContext, fleet: FleetBoard) -> Values:
    """Return what the template shows."""
    state = context.service.board.read()
    found = standings(state, context.service.deployments)
    first = found[0] if found else None
    others = [one for one in found[1:] if not one.well and one.word != UNREACHABLE]
    shown = next((one for one in found if one.explanation and one.word != UNREACHABLE), first)
    explanation = shown.explanation if shown else None
    workers = context.service.settings.fleet.workers
    return {
        "silent": [one for one in fleet.state().workers if one.silent] if workers > 1 else (),
        "standings": found,
        "felt": felt(context, first) if first else "",
        "watched": bool(context.service.deployments),
        "rows": tuple(fleet.rows(found)),
        "servers": len(state.targets),
        "workers": workers,
        "worker": context.service.settings.fleet.worker,
        "tally": tuple(_tally(found)),
        "down": _down(found, first),
        "others": others[:OTHERS_SHOWN],
        "more_others": max(len(others) - OTHERS_SHOWN, 0),
        "shown": shown,
        "reported": tuple(reported(explanation)) if explanation and explanation.actionable else (),
        "drawn": tuple(drawn(explanation, ENTRIES_DRAWN)) if explanation else (),
        "incidents": tuple(roots(state.incidents))[:OPEN_SHOWN],
        "past": _past(context),
        "notes": () if context.history is not None else ("The history is off: nothing is remembered.",),
        "troubles": tuple(troubles(context.metrics)),
    }


def _tally(found: Sequence[Standing | FleetEntry]) -> Iterator[tuple[str, int, str]]:
    """Yield each word with how many stand so, and the worst tone among them, the worst first."""
    tones: dict[str, str] = {}
    for one in found:
        tones.setdefault(one.word, one.tone)
    for word, tone in tones.items():
        yield word, sum(one.word == word for one in found), tone


def _down(found: Sequence[Standing], first: Standing | None) -> list[object]:
    """Return the servers that cannot be read, without the one that the answer names already."""
    named = first if first is not None and first.word == UNREACHABLE and len(first.targets) == 1 else None
    return [target for one in found if one is not named for target in one.targets if is_down(target)]


def _past(context: WebContext) -> Sequence[object]:
    if context.history is None:
        return ()
    return find(context.history, (), IncidentFilter(state="closed"), PAST_SHOWN).incidents


def troubles(metrics: OwnMetrics) -> Iterator[str]:
    """Yield what fails in the service itself, then what went wrong since its start, a line each."""
    for fault in metrics.faults.lasting():
        yield fault.reported(time.time())
    for part, count in _counted(metrics.errors):
        yield f"{count:.0f} times something went wrong in: {part}. The service's log says what."
    for queue, count in _counted(metrics.dropped):
        yield f"{count:.0f} were dropped as the queue was full: {queue}."


def _counted(counter: Counter) -> Iterator[tuple[str, float]]:
    for family in counter.collect():
        for sample in family.samples:
            if sample.name.endswith("_total") and sample.value > 0:
                yield ", ".join(sample.labels.values()), sample.value


HOUR = 3600.0
Moment = Annotated[float | None, Field(ge=0, le=1e11)]


class TimelineQuery(BaseModel):
    """Which timeline: a model, the newest `since` seconds or the span from `from` to `to` in Unix seconds."""

    server: str = Field(default="", max_length=500)
    model: str = Field(default="", max_length=500)
    since: float = Field(default=HOUR, ge=SHORTEST, le=LONGEST)
    start: Moment = Field(default=None, alias="from")
    to: Moment = None


def answer(context: WebContext, name: str, requested: TimelineQuery) -> Json | None:
    """Return the timeline; None where nothing is remembered, or nothing of that name is watched.

    Raises:
        SQLAlchemyError: the history's database is away.

    """
    standing = standing_of(context, name)
    on = _subject(standing, requested) if standing is not None else None
    if context.history is None or on is None:
        return None
    explanation = standing.explanation if standing is not None else None
    span = _span(requested, on, explanation, context.clock())
    watched = context.service.deployments.get(name)
    return remembered(
        context.history,
        name,
        span,
        explanation.evidence if explanation else None,
        context.service.board.read().started,
        watched.objective if watched else None,
        context.attention.marks(name, span.start, span.end),
    )


def _subject(standing: Standing, requested: TimelineQuery) -> Subject | None:
    """Return the model that is asked for, of any server if none is named; the first one if no model is."""
    if requested.server and requested.model:
        return Subject(server=requested.server, model=requested.model)
    known = models(standing.explanation) if standing.explanation else ()
    return next((one for one in known if requested.model in ("", one.model)), None)


def _span(requested: TimelineQuery, on: Subject, known: Explanation | None, now: float) -> TimelineRange:
    end = min(requested.to, now) if requested.to is not None else now
    start = requested.start if requested.start is not None else end - requested.since
    start = min(max(start, end - LONGEST), end - SHORTEST)
    return TimelineRange(server=on.server, model=on.model or "", entry=entry_of(known, on), start=start, end=end)


NO_TIME = "This is no time. Write Unix seconds, or 2026-01-31T03:12 in UTC."
AWAY = "The history's database cannot be read now"


@dataclass(frozen=True, slots=True)
class Shown:
    """A page's title and content; `lives` where it is asked for again when something changed."""

    title: str
    content: str
    lives: bool = False
    status: int = 200


class Pages:
    """Makes contents; each method is one kind of page."""

    def __init__(self, context: WebContext, fleet: FleetBoard) -> None:
        web = context.settings.web
        self._context, self._fleet = context, fleet
        self.frame = Frame(context.clock, prefix_of(web.external_url, web.route_prefix).links)

    def now(self) -> Shown:
        """What is wrong now."""
        values = home_values(self._context, self._fleet)
        found = deployments.standings_now(self._context)
        wrong = sum(not one.well for one in found)
        title = (
            f"({wrong}) {found[0].word}: {found[0].name}" if wrong else f"diag: {found[0].word if found else 'idle'}"
        )
        return Shown(title, self.frame.content("home.html", **values), lives=True)

    def deployment(self, name: str, at: str, check: str, model: str, span: RangeRequest) -> Shown:
        """One deployment, now or at another time; `model` and `span` are those of its timelines."""
        if check and check not in catalogue():
            return self.missing("There is no such check.")
        if at:
            return self._then(name, at, check)
        standing = deployments.standing_of(self._context, name)
        if standing is None:
            return self.missing("No deployment of this name is watched.")
        values = deployments.values(self._context, standing, check, model=model, span=span)
        return Shown(f"{standing.word}: {name}", self.frame.content("deployment.html", **values), lives=True)

    def what_if(self, name: str, settings: Sequence[str], rate: str, entry: str) -> Shown:
        """What a change of settings or load would do to a deployment, asked by a form."""
        if name not in self._context.service.deployments:
            return self.missing("No deployment of this name is watched.")
        forecast, refused = "", ""
        if settings or rate:
            request = ChangeRequest(settings=tuple(settings), rate=rate or None, entry=entry or None)
            try:
                forecast = as_text(forecast_document(forecast_of(self._context, name, request)))
            except DiagError as error:
                refused = plainly(error)
        values = {"settings": settings or ("",), "rate": rate, "entry": entry, "forecast": forecast, "refused": refused}
        return Shown(f"What if: {name}", self.frame.content("what_if.html", name=name, **values))

    def _then(self, name: str, at: str, check: str) -> Shown:
        moment = deployments.moment(at)
        if moment is None:
            return self.missing(NO_TIME, 400)
        if moment > self._context.clock() + 1:
            return self.missing("That time is still to come.", 400)
        try:
            standing = deployments.at_another_time(self._context, name, moment)
        except CollectError as error:
            return self.missing(f"Nothing can be said of that time: {error}.")
        if standing is None:
            return self.missing("The history is off: nothing is remembered.")
        values = deployments.values(self._context, standing, check, moment)
        return Shown(f"{standing.word}: {name}, then", self.frame.content("deployment.html", **values))

    def incident(self, identity: str) -> Shown:
        """One incident."""
        try:
            known = known_incident(self._context, identity)
        except SQLAlchemyError:
            return self.missing(f"{AWAY}.", 503)
        if known is None:
            return self.missing("No such incident is known. Old ones are forgotten: history.keep_signals.")
        values = {**incident_values(self._context, known), "pictures": can_draw()}
        return Shown(known.incident.check, self.frame.content("incident.html", **values), lives=known.incident.open)

    def incidents(self, wanted: IncidentFilter) -> Shown:
        """The incidents that fit."""
        now = self._context.service.board.read().incidents
        found = incidents.find(self._context.history, now, wanted)
        content = self.frame.content(
            "incidents.html",
            found=found,
            wanted=wanted,
            states=incidents.STATES,
            severities=incidents.SEVERITIES,
            names=sorted(self._context.service.deployments),
            remembers=self._context.history is not None,
        )
        return Shown("Incidents", content, lives=True)

    def fleet(self) -> Shown:
        """All deployments of all workers."""
        state = self._fleet.state()
        wrong = sum(one.tone in ("critical", "warning") for one in state.deployments)
        failing = () if len(state.workers) == 1 else troubles(self._context.metrics)
        content = self.frame.content(
            "fleet.html", fleet=state, tally=tuple(_tally(state.deployments)), troubles=tuple(failing)
        )
        return Shown(f"({wrong}) Fleet" if wrong else "Fleet", content, lives=True)

    def slos(self) -> Shown:
        """How the objectives stand."""
        try:
            shown = shown_slos(self._context)
        except SQLAlchemyError:
            return self.missing(f"{AWAY}.", 503)
        return Shown("Objectives", self.frame.content("slos.html", shown=shown), lives=True)

    def search(self, text: str) -> Shown:
        """Everything that is called so."""
        return Shown("Search", self.frame.content("search.html", **search_values(self._context, text)))

    def runbooks(self) -> Shown:
        """All checks by layer."""
        layers: dict[str, list[RegisteredCheck]] = {}
        for one in catalogue().values():
            layers.setdefault(one.check.layer.value, []).append(one)
        return Shown("Runbooks", self.frame.content("runbooks.html", layers=layers.items()))

    def runbook(self, name: str) -> Shown:
        """What a check looks for, or an alert of the shipped rules means, and what to do.

        Such alerts link to `NAME.md` below the address that `diag gen --runbooks` is given.
        """
        name = name.removesuffix(".md")
        one, alert = catalogue().get(name), runbook_of(name) or OF_OBJECTIVES.get(name)
        if one is not None:
            title, about, sections = one.title, f"layer {one.check.layer.value}", parts(one.sections())
        elif alert is not None:
            title, about, sections = name, "an alert of Prometheus", parts(alert.sections())
        else:
            return self.missing("There is no such check, and no such alert.")
        opened = [found for found in self._context.service.board.read().incidents if found.check == name]
        values = {"title": title, "name": name, "about": about, "sections": sections, "incidents": opened}
        return Shown(title, self.frame.content("runbook.html", **values), lives=True)

    def missing(self, what: str, status: int = 404) -> Shown:
        """Why there is no such page."""
        return Shown("Not found", self.frame.content("missing.html", what=what), status=status)


FRAGMENTS = "/fragments"
A_YEAR = 365 * 86400
Text = Annotated[str, Query(max_length=200)]
Settings = Annotated[Sequence[Text], Query(alias="set", max_length=MOST_SETTINGS)]


def router(context: WebContext, fleet: FleetBoard) -> APIRouter:
    """Return the pages, their contents alone under `/fragments`, and the files they use."""
    routes, pages = APIRouter(include_in_schema=False), Pages(context, fleet)
    _add(routes, pages, "/", lambda: pages.now(), fragment=f"{FRAGMENTS}/now")
    _add(routes, pages, "/runbooks", lambda: pages.runbooks())
    _add(routes, pages, "/fleet", lambda: pages.fleet())
    _add(routes, pages, "/slos", lambda: pages.slos())
    _add_parametrized(routes, pages)
    _add_files(routes)
    _add_timelines(routes, context)
    return routes


def _add(routes: APIRouter, pages: Pages, path: str, make: Callable[..., Shown], *, fragment: str = "") -> None:
    """Add a page at `path`, and its content at the same path under `/fragments`."""
    made = Depends(make)

    def whole(request: Request, shown: Shown = made) -> Response:
        below = request.scope["path"].removeprefix(request.scope["root_path"])
        where = fragment or FRAGMENTS + quote(below)
        again = f"{where}?{request.url.query}" if request.url.query else where
        query = request.query_params.get("q", "") if path == "/search" else ""
        return pages.frame.page(
            shown.title, shown.content, fragment=again if shown.lives else "", query=query, status=shown.status
        )

    def alone(shown: Shown = made) -> Response:
        answer = html_answer(shown.content, shown.status)
        answer.headers["X-Title"] = quote(shown.title.encode("utf-8", "replace"))
        return answer

    routes.add_api_route(path, whole, methods=["GET"])
    routes.add_api_route(fragment or FRAGMENTS + path, alone, methods=["GET"])


def _add_parametrized(routes: APIRouter, pages: Pages) -> None:
    def deployment(
        name: str,
        at: Text = "",
        check: Text = "",
        model: Text = "",
        since: Annotated[float, Query(ge=SHORTEST, le=LONGEST)] = HOUR,
        start: Annotated[str, Query(alias="from", max_length=200)] = "",
        to: Text = "",
    ) -> Shown:
        first, last = (deployments.moment(text) if text else None for text in (start, to))
        if (start and first is None) or (to and last is None):
            return pages.missing(NO_TIME, 400)
        if first is not None and last is not None and first >= last:
            return pages.missing("The time begins after its end.", 400)
        return pages.deployment(name, at, check, model, RangeRequest(since=since, start=first, end=last))

    def what_if(name: str, settings: Settings = (), rate: Text = "", entry: Text = "") -> Shown:
        return pages.what_if(name, [one.strip() for one in settings if one.strip()], rate.strip(), entry)

    def incident(identity: str) -> Shown:
        return pages.incident(identity)

    def incidents(
        q: Text = "", state: Text = "any", deployment: Text = "", check: Text = "", severity: Text = ""
    ) -> Shown:
        return pages.incidents(
            IncidentFilter(text=q, state=state, deployment=deployment, check=check, severity=severity)
        )

    def search(q: Text = "") -> Shown:
        return pages.search(q)

    def runbook(check: str) -> Shown:
        return pages.runbook(check)

    _add(routes, pages, "/deployments/{name}", deployment)
    _add(routes, pages, "/deployments/{name}/what-if", what_if)
    _add(routes, pages, "/incidents", incidents)
    _add(routes, pages, "/incidents/{identity}", incident)
    _add(routes, pages, "/search", search)
    _add(routes, pages, "/runbooks/{check}", runbook)


def _add_files(routes: APIRouter) -> None:
    @routes.get("/static/{name}")
    def static(name: str, v: str = "", accept_encoding: Annotated[str, Header()] = "") -> Response:
        if name not in frame.NAMES:
            raise HTTPException(404, "there is no such file")
        file = frame.read(name)
        kept = f"public, max-age={A_YEAR}, immutable" if v == file.version else "no-cache"
        headers = {"Cache-Control": kept, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
        if "gzip" in accept_encoding:
            return Response(file.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.type)
        return Response(file.body, headers=headers, media_type=file.type)


def _add_timelines(routes: APIRouter, context: WebContext) -> None:
    @routes.get(f"{FRAGMENTS}/timelines/{{name}}")
    def timelines(name: str, requested: Annotated[TimelineQuery, Query()]) -> dict[str, Any]:
        try:
            found = answer(context, name, requested)
        except SQLAlchemyError:
            raise HTTPException(503, AWAY) from None
        if found is None:
            raise HTTPException(404, "nothing of this name is remembered")
        return found
