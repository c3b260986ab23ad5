"""How long most requests and executions take, and how long the longest of them: what a mean does not show.

Where one request in twenty stalls, the mean of a read moves as it does under load. Clients' records, traces and
Triton's latency summaries know single requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import quantiles

from diagnostics import names
from diagnostics.signals.outages import CLIENT
from diagnostics.signals.signal import Missing, Read, Reading, Scope, Signal
from diagnostics.signals.traces import TRACES, executed_visits
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUEST_SECONDS
from diagnostics.units import Unit
from diagnostics.window.traces import NANOSECOND
from diagnostics.window.view import METRICS, ModelView
from diagnostics.window.window import Gauge

# Five requests lie beyond the 95th percentile of a hundred, and one beyond the 99th: a quantile further out needs more.
FEWEST_SINGLE = 100
# The 95th percentile of exponential times, as of random work and of a queue of it, is ln 20 ÷ ln 2 = 4.3 times their
# median; of a hundred such times it is six times by chance, no more (two standard errors of the ratio are a third).
TAIL = 6.0
_MICROSECOND = 1e-6
_SUMMARY_SECONDS = 60.0
_FIX = "start Triton with --metrics-config summary_latencies=true, or trace all requests (rate=1)"
Times = Callable[[ModelView], Sequence[float]]


def _clients(view: ModelView) -> list[float]:
    return [r.seconds for r in view.window.clients if r.ok and r.model == view.model and view.start <= r.at <= view.end]


def _traced(view: ModelView) -> list[float]:
    roots = view.traces().roots(view.model or "")
    return [one.server_seconds for one in roots if view.start <= one.end_seconds <= view.end]


def _executed(view: ModelView) -> list[float]:
    return [((visit.computed or 0) - (visit.began or 0)) * NANOSECOND for visit in executed_visits(view)]


def _of_times(times: Times, quantile: float, source: str, fewest: int = FEWEST_SINGLE) -> Read:
    """Return a reader of a quantile of single times, in seconds; fewer of them than `fewest` are unknown."""

    def read(view: ModelView) -> Reading:
        found = times(view)
        if len(found) < fewest:
            return Reading.unknown(Missing.TOO_FEW_EVENTS if found else Missing.NOT_EXPORTED, Unit.SECONDS, source)
        value = quantiles(found, n=1000)[round(1000 * quantile) - 1]
        return Reading.of(value, Unit.SECONDS, source, events=len(found))

    return read


def _of_summary(family: str, quantile: float, mean: Signal, fewest: int = FEWEST_SINGLE) -> Read:
    """Return a reader of Triton's summary: its newest value, which is of the last 60 s before that read.

    `span` is 60 s where the window is shorter or longer by more than a tenth. Of a shorter one, a summary that the
    window's requests rule out is absent: by Markov's inequality, at most a share 1 - q of them takes mean ÷ (1 - q) or
    more. It is NaN when idle, and absent unless `summary_latencies=true`, where the server was not configured with the
    quantile, and with fewer requests in those seconds than `fewest`. Summaries of several versions cannot be joined.
    """

    def read(view: ModelView) -> Reading:
        versions = view.server.keys_of(view.model or "")
        if view.version is None and len(versions) > 1:
            return Reading.unknown(Missing.CONFLICTING, Unit.SECONDS, METRICS)
        own = {names.MODEL: view.model or ""} | ({names.VERSION: view.version} if view.version else {})
        points = view.gauge(family, own | {names.QUANTILE: f"{quantile:g}"})
        counted = view.gauge(f"{family}_count", own)
        if not points or not counted:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)
        number = _behind(counted)
        if number < fewest:
            return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, METRICS)
        value, usual = points[-1][1] * _MICROSECOND, mean.read(view).value
        reaches_back = view.end - view.start < _SUMMARY_SECONDS
        if reaches_back and usual is not None and value * (1 - quantile) > usual:
            return Reading.unknown(Missing.CONFLICTING, Unit.SECONDS, METRICS)
        whole = abs(view.end - view.start - _SUMMARY_SECONDS) <= _SUMMARY_SECONDS / 10
        span = None if whole else _SUMMARY_SECONDS
        return Reading.of(value, Unit.SECONDS, METRICS, events=number, span=span)

    return read


def _behind(counted: Gauge) -> float:
    """Return about how many requests the newest summary is of: of the seconds that were not read, as of the others."""
    newest, total = counted[-1]
    first, before = next(point for point in counted if point[0] >= newest - _SUMMARY_SECONDS)
    if newest <= first:
        return total
    return min((total - before) * max(_SUMMARY_SECONDS / (newest - first), 1.0), total)


def _requests(quantile: float) -> Iterator[Read]:
    yield from (_of_times(times, quantile, source) for times, source in ((_clients, CLIENT), (_traced, TRACES)))
    yield _of_summary(names.REQUEST_SUMMARY, quantile, REQUEST_SECONDS)


def _executions(quantile: float) -> Iterator[Read]:
    yield _of_times(_executed, quantile, TRACES)
    yield _of_summary(names.INFER_SUMMARY, quantile, COMPUTE_SECONDS)


def _signal(name: str, doc: str, readers: Iterator[Read]) -> Signal:
    return Signal(name=name, unit=Unit.SECONDS, scope=Scope.MODEL, doc=doc, readers=tuple(readers), fix=_FIX)


def latency_quantile(quantile: float) -> Signal:
    """Return the signal of one quantile, between 0 and 1, of an entry's request time.

    Traced requests and clients' records are of the window; for Triton's summary see `_of_summary`. It needs no more
    requests than the quantile has a meaning for: the figure stands alone, and is held against no other percentile.
    """
    last = math.ceil(1 / (1 - quantile))
    fewest = max(FEWEST_SINGLE, last)
    return Signal(
        name=f"request_seconds_p{quantile * 100:g}",
        unit=Unit.SECONDS,
        scope=Scope.MODEL,
        doc=f"The {quantile * 100:g}th percentile of request time: traced, as clients recorded it, else over the last "
        "60 s by Triton's summary.",
        readers=(
            _of_times(_traced, quantile, TRACES, fewest),
            _of_times(_clients, quantile, CLIENT, fewest),
            _of_summary(names.REQUEST_SUMMARY, quantile, REQUEST_SECONDS, last),
        ),
        fix=_FIX,
    )


REQUEST_P95 = latency_quantile(0.95)
TYPICAL_REQUEST_SECONDS = _signal(
    "typical_request_seconds",
    "Median time of a request: as clients recorded it, as it was traced, else over the last 60 s by Triton's summary.",
    _requests(0.5),
)
SLOW_REQUEST_SECONDS = _signal(
    "slow_request_seconds",
    "95th percentile of a request's time, from the same source.",
    _requests(0.95),
)
TYPICAL_EXECUTION_SECONDS = _signal(
    "typical_execution_seconds",
    "Median time of an execution as its requests see it: traced, else over the last 60 s by Triton's summary.",
    _executions(0.5),
)
SLOW_EXECUTION_SECONDS = _signal(
    "slow_execution_seconds",
    "99th percentile of an execution's time, from the same source.",
    _executions(0.99),
)
