"""The pages: a title and a content each."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.errors import CollectError
from diagnostics.render.explanation.runbook import parts
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page import deployments, home, incident, incidents, search
from diagnostics.service.http.page.fleet import Fleet
from diagnostics.service.http.page.frame import Frame
from diagnostics.service.http.page.incidents import IncidentFilter
from diagnostics.settings.prefix import prefix_of

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

    def __init__(self, context: WebContext, fleet: Fleet) -> None:
        web = context.settings.web
        self._context, self._fleet = context, fleet
        self.frame = Frame(context.clock, prefix_of(web.external_url, web.route_prefix).links)

    def now(self) -> Shown:
        """What is wrong now."""
        values = home.values(self._context, self._fleet)
        found = deployments.standings_now(self._context)
        wrong = sum(not one.well for one in found)
        title = (
            f"({wrong}) {found[0].word}: {found[0].name}" if wrong else f"diag: {found[0].word if found else 'idle'}"
        )
        return Shown(title, self.frame.content("home.html", **values), lives=True)

    def deployment(self, name: str, at: str, check: str) -> Shown:
        """One deployment, now or at another time."""
        if check and check not in catalogue():
            return self.missing("There is no such check.")
        if at:
            return self._then(name, at, check)
        standing = deployments.standing_of(self._context, name)
        if standing is None:
            return self.missing("No deployment of this name is watched.")
        values = deployments.values(self._context, standing, check)
        return Shown(f"{standing.word}: {name}", self.frame.content("deployment.html", **values), lives=True)

    def _then(self, name: str, at: str, check: str) -> Shown:
        moment = deployments.moment(at)
        if moment is None:
            return self.missing("This is no time. Write Unix seconds, or 2026-01-31T03:12 in UTC.", 400)
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
            known = incident.known(self._context, identity)
        except SQLAlchemyError:
            return self.missing(f"{AWAY}.", 503)
        if known is None:
            return self.missing("No such incident is known. Old ones are forgotten: history.keep_signals.")
        values = incident.values(self._context, known)
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

    def search(self, text: str) -> Shown:
        """Everything that is called so."""
        return Shown("Search", self.frame.content("search.html", **search.values(self._context, text)))

    def runbooks(self) -> Shown:
        """All checks by layer."""
        layers: dict[str, list[RegisteredCheck]] = {}
        for one in catalogue().values():
            layers.setdefault(one.check.layer.value, []).append(one)
        return Shown("Runbooks", self.frame.content("runbooks.html", layers=layers.items()))

    def runbook(self, check: str) -> Shown:
        """What a check looks for, and what to do."""
        one = catalogue().get(check)
        if one is None:
            return self.missing("There is no such check.")
        opened = [found for found in self._context.service.board.read().incidents if found.check == check]
        return Shown(
            one.title, self.frame.content("runbook.html", one=one, sections=parts(one), incidents=opened), lives=True
        )

    def missing(self, what: str, status: int = 404) -> Shown:
        """Why there is no such page."""
        return Shown("Not found", self.frame.content("missing.html", what=what), status=status)
