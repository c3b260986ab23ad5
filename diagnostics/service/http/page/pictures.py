"""An incident as one picture, for messages and wherever no page can be opened: stage graph, and what led to it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING

from diagnostics.anatomy.cells import Anatomy
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.render import phrases
from diagnostics.render.explanation.graph import WIDE, Picture, facts_of, marks, picture
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page.one_incident import explanation_of, known_incident
from diagnostics.service.http.page.timelines import Json, TimelineRange, entry_of, leading, remembered
from diagnostics.signals.signal import Subject
from diagnostics.units import Unit

if TYPE_CHECKING:
    from diagnostics.render.explanation.png import PictureChart

# Seconds that are shown before an incident and after it: enough to see what was usual.
_BEFORE, _AFTER = 900.0, 900.0
# Seconds before the first that is known.
_EDGE = 15.0
# The request time, and what explains it.
_KINDS = ("time", "failed", "queue")
_MOST_KEPT = 16


def can_draw() -> bool:
    """Return whether the package that draws pictures is installed: the extra `plot`."""
    return find_spec("matplotlib") is not None


class IncidentPictures:
    """Draws each picture once for each verdict. For any thread; one is drawn at a time."""

    def __init__(self, context: WebContext) -> None:
        self._context, self._lock = context, threading.Lock()
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()

    def png(self, identity: str) -> bytes | None:
        """Return the picture of an incident; None where it is not known, or nothing is left of it to draw.

        Raises:
            UsageError: the package that draws is not installed.
            SQLAlchemyError: it is not open, and the history's database is away.

        """
        known = known_incident(self._context, identity)
        if known is None:
            return None
        evaluation = self._context.service.board.read().evaluations.get(known.incident.deployment)
        key = identity, known.incident.closed, evaluation.at if evaluation and known.incident.open else None
        with self._lock:
            if key not in self._kept:
                made = self._made(known.incident)
                if made is None:
                    return None
                self._kept[key] = made
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            return self._kept[key]

    def _made(self, incident: Incident) -> bytes | None:
        # It takes a second and 50 MB to load, which only those pay who look at pictures.
        from diagnostics.render.explanation.png import PictureSpan, incident_png

        explanation, _ = explanation_of(self._context, incident)
        if explanation is None and incident.open:  # its finding is away for a moment, and nothing is remembered
            newest = self._context.service.board.read().evaluations.get(incident.deployment)
            explanation = newest.explanation if newest is not None else None
        if explanation is None:
            return None
        item = next(iter(phrases.entries(explanation)), None)
        shown = self._timeline(incident, explanation)
        charts = list(_charts(shown))
        known = min((at for chart in charts for at in chart.at), default=shown["from"])
        span = PictureSpan(
            start=max(shown["from"], min(known, incident.onset) - _EDGE),
            end=shown["to"],
            onset=incident.onset,
            closed=incident.closed,
            marks=[(one["from"], one["kind"]) for one in shown["marks"]],
        )
        graph = _graph(explanation, item) if item is not None else None
        return incident_png(self._title(incident, explanation), graph, charts, span)

    def _title(self, incident: Incident, explanation: Explanation) -> str:
        finding = next((one for one in explanation.findings if one.id == incident.fingerprint), None)
        felt = phrases.felt(explanation, finding, incident.subject)
        return ": ".join(part for part in (incident.deployment, felt, phrases.cause_named(incident)) if part)

    def _timeline(self, incident: Incident, explanation: Explanation) -> Json:
        on = incident.subject if incident.subject.model else leading(explanation) or incident.subject
        on = Subject(server=on.server, model=on.model)
        end = min(self._context.clock(), incident.closed + _AFTER if incident.closed is not None else inf)
        start = min(incident.onset, end) - _BEFORE
        span = TimelineRange(
            server=on.server, model=on.model or "", entry=entry_of(explanation, on), start=start, end=end
        )
        return remembered(
            self._context.history,
            incident.deployment,
            span,
            explanation.evidence,
            self._context.service.board.read().started,
            explanation.objective,
            self._context.attention.marks(incident.deployment, start, end),
        )


def _graph(explanation: Explanation, item: Anatomy) -> Picture | None:
    ensemble = explanation.evidence.graph(item.server).ensembles.get(item.ensemble or "")
    if ensemble is None:
        return None
    return picture(ensemble, facts_of(explanation.evidence, item, ensemble, marks(explanation)), WIDE)


def _charts(shown: Json) -> Iterator[PictureChart]:
    """Yield the charts that say something: of failures only where there are any."""
    from diagnostics.render.explanation.png import PictureChart

    for one in shown["charts"]:
        values = one["values"]
        if one["kind"] in _KINDS and any(values if one["kind"] == "failed" else map(_known, values)):
            objective = one["objective"]["value"] if one["objective"] else None
            yield PictureChart(
                title=one["title"],
                kind=one["kind"],
                unit=Unit(one["unit"]),
                at=one["at"],
                values=values,
                objective=objective,
            )


def _known(value: float | None) -> bool:
    return value is not None
