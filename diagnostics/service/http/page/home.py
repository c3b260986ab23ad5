"""What the first page shows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from prometheus_client import Counter

from diagnostics.render.explanation.html import drawn, told
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page.deployments import Values
from diagnostics.service.http.page.fleet import Fleet
from diagnostics.service.http.page.incidents import IncidentFilter, find
from diagnostics.service.http.page.standing import UNREACHABLE, Standing, is_down, roots, standings
from diagnostics.service.own.metrics import OwnMetrics

# Beside the first one; all are in the list of the fleet.
OTHERS_SHOWN = 5
OPEN_SHOWN, PAST_SHOWN = 20, 5
# Pictures of the first deployment.
ENTRIES_DRAWN = 1


def values(context: WebContext, fleet: Fleet) -> Values:
    """Return what the template shows."""
    state = context.service.board.read()
    found = standings(state, context.service.deployments)
    first = found[0] if found else None
    others = [one for one in found[1:] if not one.well and one.word != UNREACHABLE]
    shown = next((one for one in found if one.explanation and one.word != UNREACHABLE), first)
    explanation = shown.explanation if shown else None
    return {
        "standings": found,
        "watched": bool(context.service.deployments),
        "rows": tuple(fleet.rows(found)),
        "servers": len(state.targets),
        "tally": tuple(_tally(found)),
        "down": _down(found, first),
        "others": others[:OTHERS_SHOWN],
        "more_others": max(len(others) - OTHERS_SHOWN, 0),
        "shown": shown,
        "told": tuple(told(explanation)) if explanation and explanation.loud else (),
        "drawn": tuple(drawn(explanation, ENTRIES_DRAWN)) if explanation else (),
        "incidents": tuple(roots(state.incidents))[:OPEN_SHOWN],
        "past": _past(context),
        "notes": () if context.history is not None else ("The history is off: nothing is remembered.",),
        "troubles": tuple(troubles(context.metrics)),
    }


def _tally(found: Sequence[Standing]) -> Iterator[tuple[str, int, str]]:
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
        yield fault.told(time.time())
    for part, count in _counted(metrics.errors):
        yield f"{count:.0f} times something went wrong in: {part}. The service's log says what."
    for queue, count in _counted(metrics.dropped):
        yield f"{count:.0f} were dropped as the queue was full: {queue}."


def _counted(counter: Counter) -> Iterator[tuple[str, float]]:
    for family in counter.collect():
        for sample in family.samples:
            if sample.name.endswith("_total") and sample.value > 0:
                yield ", ".join(sample.labels.values()), sample.value
