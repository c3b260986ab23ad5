"""Good and bad requests of one server between two instants, from counters, histograms, traces or averages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isinf

from diagnostics import names
from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.flow import ENSEMBLE_FAILURES_PER_REQUEST, LOST_AFTER_STAGE
from diagnostics.signals.traces import ALL_TRACED
from diagnostics.slo.bins import Tally, total
from diagnostics.slo.burn import share_interval
from diagnostics.slo.slo import Promise, Triton
from diagnostics.window.normalize import positions_of
from diagnostics.window.points import LARGEST_RATE_PER_SECOND, Counter, CounterStep, increase
from diagnostics.window.traces import NANOSECOND
from diagnostics.window.view import METRICS, STATISTICS, ModelView
from diagnostics.window.window import ServerWindow, Window
from diagnostics.wire.json_body import number
from diagnostics.wire.servers.catalogue import server_kinds, token_names
from diagnostics.wire.servers.kind import FIRST_TOKEN

Key = tuple[tuple[str, str], ...]


def growth(
    server: ServerWindow, family: str, labels: Mapping[str, str], after: float, until: float
) -> dict[Key, float] | None:
    """Return the increase of each series that carries `labels`, by its labels; None when no page has such a series.

    Increases are those that pages read in (after, until], Unix seconds, show over the page before. A value below the
    one before is a counter that began again at zero; one that no server reaches is a corrupted page's, and left out.
    """
    last: dict[Key, float] = {}
    grown: dict[Key, float] = defaultdict(float)
    read_at: float | None = None
    for at, mono, snapshot in server.snapshots:
        if at > until:
            break
        for position in positions_of(snapshot.layout, family, labels):
            value = snapshot.values[position]
            if not isfinite(value):
                continue
            key = tuple(sorted(snapshot.layout.series[position].labels.items()))
            if at > after and read_at is not None:
                grown[key] += _increase(last.get(key, 0.0), value, mono - read_at)
            last[key] = value
        read_at = mono
    return dict(grown) if last else None


def _increase(before: float, now: float, seconds: float) -> float:
    increase = now - before if now >= before else now
    return increase if increase <= LARGEST_RATE_PER_SECOND * max(seconds, 0.0) else 0.0


_BOUND = "le"
HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class HistogramFamily:
    """A histogram: its name, the label that names the model, and seconds per unit of its bounds."""

    name: str
    model: str
    scale: float


# Triton's first response: of a model that answers once, its request time; else the time to its first token. It begins
# with the request, holds the queue, counts failed requests too, and is cut to whole milliseconds (core, 24.11).
FIRST_RESPONSE = (HistogramFamily(names.FIRST_RESPONSE, names.MODEL, 1e-3),)
# Engines' own, which begin when the engine gets the request.
_LABELS = (names.MODEL, names.SERVE_MODEL)
ENGINE_FIRST_TOKEN = tuple(HistogramFamily(name, label, 1.0) for name in token_names(FIRST_TOKEN) for label in _LABELS)
_LATENCIES = dict.fromkeys(name for kind in server_kinds() for name in kind.latencies)
ENGINE_LATENCY = tuple(HistogramFamily(name, label, 1.0) for name in _LATENCIES for label in _LABELS)


def above(
    server: ServerWindow,
    families: Iterable[HistogramFamily],
    model: str,
    tags: Mapping[str, str],
    seconds: float,
    after: float,
    until: float,
) -> Tally | None:
    """Return the requests of the first family that the server has; None when it has none of them.

    Where the limit is a bucket's bound each request is counted, to the millisecond. Between two bounds, the requests
    of that bucket may be on either side: all of them make up the interval, and as large a part is taken to be below as
    the limit is far into the bucket (as `histogram_quantile` does). In the last bucket none is taken to be above.
    """
    for family in families:
        labels = {family.model: model, **tags}
        grown = growth(server, f"{family.name}_bucket", labels, after, until)
        if grown is not None:
            return of_buckets(_by_bound(grown, family.scale), seconds)
    return None


def _by_bound(grown: Mapping[tuple[tuple[str, str], ...], float], scale: float) -> dict[float, float]:
    """Return the requests at or below each bound in seconds, over all versions."""
    found: dict[float, float] = defaultdict(float)
    for key, requests in grown.items():
        text = dict(key).get(_BOUND, "")
        try:
            found[float(text) * scale] += requests
        except ValueError:
            continue
    return found


def of_buckets(below: Mapping[float, float], seconds: float) -> Tally:
    """Return the requests above a limit, of the requests at or below each bound, in seconds; see `above`."""
    total = max(below.values(), default=0.0)
    exact = next((bound for bound in below if abs(bound - seconds) <= 1e-9 + 1e-6 * seconds), None)
    if exact is not None:
        return Tally.exact(total, max(total - below[exact], 0.0), HISTOGRAM)
    under = max((bound for bound in below if bound < seconds), default=0.0)
    over = min((bound for bound in below if bound > seconds), default=inf)
    surely, perhaps = below.get(under, 0.0), min(below.get(over, total), total)
    part = 1.0 if isinf(over) else (seconds - under) / (over - under)
    return Tally(
        total=total,
        bad=max(total - surely - part * (perhaps - surely), 0.0),
        low=max(total - perhaps, 0.0),
        high=max(total - surely, 0.0),
        source=HISTOGRAM,
    )


TRACES, SUMMARY, AVERAGES = "traces", "summary", "averages"
# By how much of all requests Triton's quantiles may be off: its defaults (core, metric model reporter); those that a
# user chose have an error of the user's, which is not exported: the largest of the defaults is assumed.
_ERRORS = {0.5: 0.05, 0.9: 0.01, 0.95: 0.001, 0.99: 0.001, 0.999: 0.001}
_MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True)
class Batch:
    """What was completed in one step between two reads."""

    at: float
    requests: float
    seconds: float


def batches(steps: Sequence[CounterStep]) -> list[Batch]:
    """Return what each step completed."""
    return [
        Batch(step.end, step.values.get(Counter.SUCCESS, 0.0), step.values.get(Counter.REQUEST_SECONDS, 0.0))
        for step in steps
        if step.values.get(Counter.SUCCESS, 0.0) > 0
    ]


def from_averages(done: Sequence[Batch], limit: float, *, whole: bool = True) -> Tally:
    """Return the bounds that the mean of each step allows: how many took longer than `limit` seconds.

    At most, by Markov's inequality, P(X > t) <= E(X) / t: of n requests that took S seconds together at most S / t
    took longer than t. At least, by its reverse, P(X > t) >= (E(X) - t) / (B - t) where no request takes longer than
    B; as none takes longer than all together, B = S, it is one where the mean is above the limit, else none
    (Mitzenmacher and Upfal, "Probability and Computing", 3.1). Both hold for any distribution; `bad` is the least.

    Args:
        done: requests and their seconds, step by step.
        limit: seconds.
        whole: whether the seconds are what the limit is about; else they only hold it, and there is no least.

    """
    return total(
        Tally(
            total=one.requests,
            bad=(least := 1.0 if whole and one.seconds > limit * one.requests else 0.0),
            low=least,
            high=max(least, min(one.requests, float(int(one.seconds / limit)))),
            source=AVERAGES,
        )
        for one in done
    )


def from_traces(times: Sequence[float], completed: float, limit: float) -> Tally | None:
    """Return what the seconds of traced requests say of all that were completed; None when they are too few to.

    Where all are traced each is counted. A sample gives Wilson's interval of the share, as if it was drawn without
    regard to how long requests took: a collector that keeps slow traces only makes it too high.
    """
    if len(times) < FEWEST_EVENTS or completed < len(times) * ALL_TRACED:
        return None
    bad = float(sum(1 for seconds in times if seconds > limit))
    if len(times) >= ALL_TRACED * completed:
        unseen = max(completed - len(times), 0.0)
        return Tally(total=completed, bad=min(bad, completed), low=bad, high=bad + unseen, source=TRACES)
    low, high = share_interval(bad, len(times))
    return Tally(
        total=completed, bad=bad / len(times) * completed, low=low * completed, high=high * completed, source=TRACES
    )


def from_summary(server: ServerWindow, done: Sequence[Batch], model: str, version: str, limit: float) -> Tally | None:
    """Return what Triton's quantiles of request time allow; None when the server keeps none.

    A quantile q at or below the limit says that at most 1 - q of the requests took longer, one above it that at least
    1 - q did, give or take the error that Triton computes it with. Quantiles are of the minute before each read, so
    that this holds for spans of several minutes; for shorter ones it is an estimate.
    """
    quantiles = {q: _quantile(server, model, version, q) for q in _exported(server, model)}
    found = [_summed(one, {q: points.get(one.at) for q, points in quantiles.items()}, limit) for one in done]
    if not found or all(one is None for one in found):
        return None
    return total(
        one or Tally(total=batch.requests, bad=0.0, low=0.0, high=batch.requests, source=SUMMARY)
        for one, batch in zip(found, done, strict=True)
    )


def _summed(done: Batch, values: dict[float, float | None], limit: float) -> Tally | None:
    known = {q: value * _MICROSECOND for q, value in values.items() if value is not None and isfinite(value)}
    if not known:
        return None
    below = max((q - _ERRORS.get(q, 0.05) for q, value in known.items() if value <= limit), default=0.0)
    above = min((q + _ERRORS.get(q, 0.05) for q, value in known.items() if value > limit), default=1.0)
    low, high = (max(1.0 - min(share, 1.0), 0.0) * done.requests for share in (above, below))
    middle = (min(low, high) + high) / 2 if above < 1.0 else low
    return Tally(total=done.requests, bad=middle, low=min(low, high), high=high, source=SUMMARY)


def _exported(server: ServerWindow, model: str) -> set[float]:
    if not server.snapshots:
        return set()
    layout = server.snapshots[-1][2].layout
    texts = {
        layout.series[slot].labels.get(names.QUANTILE, "")
        for slot in layout.by_name.get(names.REQUEST_SUMMARY, ())
        if layout.series[slot].labels.get(names.MODEL) == model
    }
    return {quantile for text in texts if (quantile := number(text)) is not None}


def _quantile(server: ServerWindow, model: str, version: str, quantile: float) -> dict[float, float]:
    labels = {names.MODEL: model, names.VERSION: version, names.QUANTILE: f"{quantile:g}"}
    return dict(server.gauge(names.REQUEST_SUMMARY, labels))


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
    good = increase(steps, Counter.SUCCESS)
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
    ours = above(server, FIRST_RESPONSE, sli.model, tags, limit, *span)
    if sli.promise is Promise.FIRST_TOKEN:
        return ours or above(server, ENGINE_FIRST_TOKEN, sli.model, tags, limit, *span)
    if ours is not None and once is None:
        return Tally(total=ours.total, bad=ours.low, low=ours.low, high=ours.total, source=ours.source)
    if ours is not None and once:
        return ours
    return above(server, ENGINE_LATENCY, sli.model, tags, limit, *span)


def _traced(sli: Triton, window: Window, done: Sequence[Batch], span: tuple[float, float]) -> Tally | None:
    """Return what traces say; of several servers nothing shows which one a trace is of."""
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
