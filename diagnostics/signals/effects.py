"""By how much requests, executions and iterations of engines take longer while a driver is up.

A driver is what may slow a stage from outside: another process on its card, a clock that is held down, processors that
it does not get. Every driver is compared with the same effects (`contrast`), in both directions: an effect that is
certainly there speaks for the driver, one that is certainly small speaks against it.
"""

from __future__ import annotations

import math

from diagnostics.signals.contrast import When, contrasted, pieces_per_request
from diagnostics.signals.engine_samples import is_engine
from diagnostics.signals.pace import engine_time, iteration_pieces, more_requests
from diagnostics.signals.signal import Missing, Reading
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView


def excess(view: ModelView, counter: Counter, when: When) -> Reading:
    """Return seconds per request of the window that `counter` is higher by while the driver is up."""
    for source in (STATISTICS, METRICS):
        if pieces := pieces_per_request(view.steps(source), counter):
            found = contrasted(pieces, when)
            return Reading.unknown(found, Unit.SECONDS, source) if isinstance(found, Missing) else found.reading(source)
    return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, STATISTICS)


def engine_excess(view: ModelView, when: When) -> Reading:
    """Return what an entry's engines lose per request to longer iterations, which are many where requests are few.

    Of an engine's time per request that part is lost by which its iterations are longer, times their part in all.
    """
    total = Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)
    graph = view.server.graph.ensembles.get(view.model or "")
    for model in graph.models() if graph else [view.model or ""]:
        one = view.beside(model)
        if not is_engine(one):
            continue
        found = contrasted(iteration_pieces(one), when, same_load=False)
        if isinstance(found, Missing):
            return Reading.unknown(found, Unit.SECONDS, METRICS)
        if more_requests(view, when):
            return Reading.unknown(Missing.CONFLICTING, Unit.SECONDS, METRICS)
        mean = found.outside.mean + found.part * found.difference[0]
        lost = found.reading(METRICS) / Reading.of(mean, Unit.SECONDS, METRICS)
        seconds = engine_time(one, view) * lost
        total = seconds if total.value is None else total + seconds
    return total


def excess_or_engines(view: ModelView, counter: Counter, when: When) -> Reading:
    """Return what a counter of requests shows, or what iterations of their engines do: whichever is surer.

    That is the reading with the narrower interval; the one that is there; else that of the counter.
    """
    one, other = excess(view, counter, when), engine_excess(view, when)
    widths = [math.inf if r.low is None or r.high is None else r.high - r.low for r in (one, other)]
    return other if widths[1] < widths[0] else one
