"""What a window tells of an objective: good and bad requests of one server between two instants.

The ladder, best source first: buckets of histograms, traced requests, quantiles, averages. What averages allow bounds
all that is not counted request by request. The spans that are counted are half open, so that counting one after another
counts each request once.
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics import names
from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.flow import ENSEMBLE_FAILURES_PER_REQUEST, LOST_AFTER_STAGE
from diagnostics.slo import histograms
from diagnostics.slo.samples import Batch, batches, from_averages, from_summary, from_traces
from diagnostics.slo.slo import Promise, Triton
from diagnostics.slo.tally import Tally
from diagnostics.window.normalize import positions_of
from diagnostics.window.points import Counter
from diagnostics.window.steps import CounterStep
from diagnostics.window.view import METRICS, STATISTICS, ModelView
from diagnostics.window.visits import NANOSECOND
from diagnostics.window.window import ServerWindow, Window


def moments(server: ServerWindow) -> Sequence[float]:
    """Return when the counters that are counted from were read, Unix seconds in time order."""
    reads = server.reads[METRICS] or server.reads[STATISTICS]
    return sorted(at for at, _ in reads)


def tally(sli: Triton, window: Window, name: str, after: float, until: float) -> Tally | None:
    """Return the events of one server that its reads in (after, until], Unix seconds, show.

    None when the server does not hold the model, or does not carry the tags: it has no part in the objective. Also
    where its failures are promised to be few and nothing counts them.
    """
    server = window.servers[name]
    versions = [key for key in server.keys_of(sli.model) if _carries(server, key, sli)]
    if not versions:
        return None
    span = (after, until)
    if sli.promise is Promise.AVAILABILITY:
        found = ((source, _steps(server, versions, source, span)) for source in (METRICS, STATISTICS))
        counted = ((source, [step for step in steps if Counter.FAILURE in step.values]) for source, steps in found)
        source, steps = next(((source, steps) for source, steps in counted if steps), ("", []))
        return _availability(sli, window, server, steps, span, source) if steps else None
    source = METRICS if any(key in server.tables[METRICS] for key in versions) else STATISTICS
    steps = _steps(server, versions, source, span)
    return _timed(sli, window, server, steps, span, [version for _, version in versions])


def counts_failures(sli: Triton, window: Window) -> bool:
    """Return whether any server counts the failures of an objective's model."""
    tables = [
        server.tables[source][key]
        for server in window.servers.values()
        for key in server.keys_of(sli.model)
        for source in (METRICS, STATISTICS)
        if key in server.tables[source]
    ]
    return any(Counter.FAILURE in step.values for table in tables for step in table.steps)


def _steps(
    server: ServerWindow, versions: Sequence[tuple[str, str]], source: str, span: tuple[float, float]
) -> list[CounterStep]:
    tables = [server.tables[source][key] for key in versions if key in server.tables[source]]
    return [step for table in tables for step in table.steps if span[0] < step.end <= span[1]]


def _carries(server: ServerWindow, key: tuple[str, str], sli: Triton) -> bool:
    """Return whether a version's series carry the tags; statistics carry none."""
    if not sli.tags:
        return True
    labels = {names.MODEL: key[0], names.VERSION: key[1], **dict(sli.tags)}
    return bool(server.snapshots) and bool(positions_of(server.snapshots[-1][2].layout, names.REQUEST_SUCCESS, labels))


def _availability(
    sli: Triton,
    window: Window,
    server: ServerWindow,
    steps: Sequence[CounterStep],
    span: tuple[float, float],
    source: str,
) -> Tally:
    """Count failures of any reason but a client's own cancelling (reason CANCELED, 24.08), which is no event at all.

    An ensemble counts a failed request twice. Errors that a model answers with, and that Triton counts as success, show
    as requests that the next stage never got: at most those are bad besides.
    """
    twice = ENSEMBLE_FAILURES_PER_REQUEST if sli.model in server.graph.ensembles else 1.0
    counted = sum(step.values[Counter.FAILURE] - step.values.get(Counter.CANCELED, 0.0) for step in steps)
    failed = max(counted, 0.0) / twice
    good = sum(step.values.get(Counter.SUCCESS, 0.0) for step in steps)
    lost = min(_lost(sli, window, server, span), good)
    return Tally(total=good + failed, bad=failed, low=failed, high=failed + lost, source=source)


def _lost(sli: Triton, window: Window, server: ServerWindow, span: tuple[float, float]) -> float:
    view = ModelView(window=window, server=server, model=sli.model, version=None, start=span[0], end=span[1])
    lost = LOST_AFTER_STAGE.read(view).value or 0.0
    return lost if lost >= FEWEST_EVENTS else 0.0


def _timed(
    sli: Triton,
    window: Window,
    server: ServerWindow,
    steps: Sequence[CounterStep],
    span: tuple[float, float],
    versions: Sequence[str],
) -> Tally:
    done, limit = batches(steps), sli.seconds or 0.0
    once = _answers_once(server, sli.model)
    whole = sli.promise is Promise.LATENCY or once is True
    certain = from_averages(done, limit, whole=whole)
    found = _histogram(sli, server, once, span) or _traced(sli, window, done, span)
    if found is None and whole and len(versions) == 1:
        found = from_summary(server, done, sli.model, versions[0], limit)
    return found.within(certain) if found is not None else certain


def _histogram(sli: Triton, server: ServerWindow, once: bool | None, span: tuple[float, float]) -> Tally | None:
    """Return the first histogram that is of what is promised; of answers in parts, only the first is timed by Triton's.

    Without a configuration nobody knows whether answers come in parts: then a late first one is certainly too late, and
    any other may be.
    """
    tags, limit = dict(sli.tags), sli.seconds or 0.0
    ours = histograms.above(server, histograms.FIRST_RESPONSE, sli.model, tags, limit, *span)
    if sli.promise is Promise.FIRST_TOKEN:
        return ours or histograms.above(server, histograms.ENGINE_FIRST_TOKEN, sli.model, tags, limit, *span)
    if ours is not None and once is None:
        return Tally(total=ours.total, bad=ours.low, low=ours.low, high=ours.total, source=ours.source)
    if ours is not None and once:
        return ours
    return histograms.above(server, histograms.ENGINE_LATENCY, sli.model, tags, limit, *span)


def _traced(sli: Triton, window: Window, done: Sequence[Batch], span: tuple[float, float]) -> Tally | None:
    """Return what traces say; of several servers nothing tells which one a trace is of."""
    if len(window.servers) != 1 or sli.tags:
        return None
    low, high = (at / NANOSECOND for at in span)
    roots = [one for one in window.traces.roots(sli.model) if low < one.root.end <= high]
    if sli.promise is Promise.LATENCY:
        times = [one.root.seconds for one in roots]
    else:
        fronts = [one.front for one in roots if one.front is not None]
        times = [(one.response - one.start) * NANOSECOND for one in fronts if one.response is not None]
    return from_traces(times, sum(one.requests for one in done), sli.seconds or 0.0)


def _answers_once(server: ServerWindow, model: str) -> bool | None:
    """Return whether each request gets one response; None when that is not known."""
    ensemble = server.graph.ensembles.get(model)
    parts = [model, *(ensemble.models() if ensemble else ())]
    configs = [server.configs.get(part) for part in parts]
    if any(config is not None and config.decoupled for config in configs):
        return False
    return None if None in configs else True
