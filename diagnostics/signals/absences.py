"""Absences without a number of refused requests: nothing was counted before them that shows a rate."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.signals.outages import CLIENT, Refusal, all_outages, arrivals, refusals, whole_of, with_another
from diagnostics.signals.signal import Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.lifecycle import UNAVAILABLE, UNLOADED_REASON
from diagnostics.window.logs import LogKind
from diagnostics.window.outages import INDEX, PORT, REFUSING, Outage
from diagnostics.window.view import METRICS, ModelView

# An outage that users meet is found and ended within the hour; what has been unloaded for longer was taken out of use.
RETIRED_SECONDS = 3600.0


def _port_refuses(view: ModelView) -> Reading:
    """Return 1 when the inference port refused all reads up to the last, and nobody was served since it did.

    What it would have been sent is not known where nothing was counted before it closed. Counters above zero show that
    it is asked; a server beside it that serves may have been given its requests.
    """
    closed = [one for one in _silences(view) if one.state == REFUSING and not one.over]
    return Reading.of(float(bool(closed) and _all_idle(view, closed[-1])), Unit.COUNT, PORT)


def _silences(view: ModelView) -> list[Outage]:
    """Return when the inference port of a server as a whole was silent; none for one of its models."""
    return [one for one in all_outages(view) if one.source == PORT and view.model is None]


def _all_idle(view: ModelView, one: Outage) -> bool:
    """Return whether nothing was completed since an outage began, here or beside, of what had been asked before."""
    requested = any(table.counts for table in view.server.tables[METRICS].values())
    return requested and not any(
        arrived.count > 0 and arrived.start >= one.since
        for server in view.window.servers.values()
        for arrived in arrivals(whole_of(view, server))[0]
    )


def _absent(view: ModelView) -> Reading:
    """Return 1 when the model was away at every read, and nothing shows whether anybody asks for it.

    A folder that was never loaded has no state in the index: nobody was served by it either. Of a server as a whole it
    is the inference port that was silent at every read.
    """
    if view.model is None:
        silent = [one for one in _silences(view) if one.after is None and one.before is None]
        return Reading.of(float(any(_all_idle(view, one) for one in silent)), Unit.COUNT, PORT)
    throughout = [one for one in _throughout(view) if not _out_of_use(view, one.outage)]
    unknown = any(one.source != CLIENT for one in throughout)
    source = throughout[0].outage.source if throughout else INDEX
    return Reading.of(float(unknown and not with_another(view)), Unit.COUNT, source)


def _throughout(view: ModelView) -> Iterator[Refusal]:
    """Yield the outages from the first read to the last, of what once had a state."""
    for one in refusals(view):
        away = one.outage
        if away.after is None and away.before is None and (away.state or away.source != INDEX):
            yield one


def _retired(view: ModelView) -> Reading:
    found = [one for one in _throughout(view) if one.source != CLIENT] if view.model else []
    return Reading.of(float(bool(found) and all(_out_of_use(view, one.outage) for one in found)), Unit.COUNT, INDEX)


def _out_of_use(view: ModelView, one: Outage) -> bool:
    """Return whether a model was unloaded by somebody, and nothing shows that it was there, or wanted, lately.

    A configuration is read of what is ready, counters list what is loaded, and an ensemble that is ready calls only
    models that are: any of them is a sign of it. The log has the moment itself.
    """
    if one.state != UNAVAILABLE or one.reason not in ("", UNLOADED_REASON) or view.keys():
        return False
    lately = view.start - RETIRED_SECONDS
    wanted = {model for model, read in view.server.configured.items() if read[-1][0] >= lately}
    wanted |= {step.model for model in wanted for step in view.server.configs[model].ensemble_steps}
    unloaded = (e for e in view.server.log_of(view.model or "") if e.kind is LogKind.UNLOADED)
    return view.model not in wanted and all(event.at < lately for event in unloaded)


PORT_REFUSES = Signal(
    name="inference_port_refuses",
    unit=Unit.COUNT,
    scope=Scope.LISTED,
    doc="1 when the inference port refuses connections, the metrics page answers and nobody is served; else 0.",
    readers=(_port_refuses,),
)
ABSENT_THROUGHOUT = Signal(
    name="absent_throughout",
    unit=Unit.COUNT,
    scope=Scope.LISTED,
    doc="1 when the model was away at every read and nothing tells whether it is asked for; else 0.",
    readers=(_absent,),
)
RETIRED = Signal(
    name="retired",
    unit=Unit.COUNT,
    scope=Scope.LISTED,
    doc="1 when the model was unloaded before the first read and nothing tells that anybody asks for it; else 0.",
    readers=(_retired,),
)
