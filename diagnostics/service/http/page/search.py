"""Everything that is called something: deployments, servers, models, incidents, checks."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.checks.catalogue import catalogue
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page.deployments import Values, standings_now
from diagnostics.service.http.page.incidents import IncidentFilter, IncidentList, find
from diagnostics.service.http.page.standing import Standing

MOST = 50


def values(context: WebContext, text: str) -> Values:
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
