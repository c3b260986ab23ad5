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
from diagnostics.signals.triton import REQUEST_SECONDS
from diagnostics.units import Unit
from diagnostics.window.traces import NANOSECOND
from diagnostics.window.view import METRICS, ModelView

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


def _of_summary(family: str, quantile: float) -> Read:
    """Return a reader of a summary's newest value: of the last 60 s before it was read, also those before the span."""

    def read(view: ModelView) -> Reading:
        versions = view.server.keys_of(view.model or "")
        if view.version is None and len(versions) > 1:
            return Reading.unknown(Missing.CONFLICTING, Unit.SECONDS, METRICS)
        own = {names.MODEL: view.model or ""} | ({names.VERSION: view.version} if view.version else {})
        points = view.gauge(family, own | {names.QUANTILE: f"{quantile:g}"})
        counted = view.gauge(f"{family}_count", own)
        if not points or not counted:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)
        number = counted[-1][1] - (counted[0][1] if len(counted) > 1 else 0.0)
        if number < FEWEST_SINGLE:
            return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, METRICS)
        return Reading.of(points[-1][1] * _MICROSECOND, Unit.SECONDS, METRICS, events=number, span=_SUMMARY_SECONDS)

    return read


def _readers(quantile: float, family: str, *singles: tuple[Times, str]) -> Iterator[Read]:
    yield from (_of_times(times, quantile, source) for times, source in singles)
    yield _of_summary(family, quantile)


def _signal(name: str, doc: str, readers: Iterator[Read]) -> Signal:
    return Signal(name=name, unit=Unit.SECONDS, scope=Scope.MODEL, doc=doc, readers=tuple(readers), fix=_FIX)


_REQUESTS = ((_clients, CLIENT), (_traced, TRACES))
_EXECUTIONS = ((_executed, TRACES),)


def latency_quantile(quantile: float) -> Signal:
    """Return the signal of one quantile, between 0 and 1, of an entry's request time.

    Traced requests and clients' records are of the window. Triton's summary is of the last 60 s before its newest read;
    `span` is 60 s where the window is shorter. There, a summary that the window's requests rule out is absent: by
    Markov's inequality, at most a share 1 - q of them takes mean ÷ (1 - q) or more. It is NaN when idle, and absent
    unless `summary_latencies=true`, or where the server was not configured with the quantile.
    """
    fewest = max(FEWEST_SINGLE, math.ceil(1 / (1 - quantile)))

    def summary(view: ModelView) -> Reading:
        points = view.gauge(names.REQUEST_SUMMARY, {names.MODEL: view.model or "", names.QUANTILE: f"{quantile:g}"})
        if not points:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)
        value, mean = points[-1][1] * _MICROSECOND, REQUEST_SECONDS.read(view).value
        reaches_back = view.end - view.start < _SUMMARY_SECONDS
        if reaches_back and mean is not None and value * (1 - quantile) > mean:
            return Reading.unknown(Missing.CONFLICTING, Unit.SECONDS, METRICS)
        return Reading.of(value, Unit.SECONDS, METRICS, span=_SUMMARY_SECONDS if reaches_back else None)

    return Signal(
        name=f"request_seconds_p{quantile * 100:g}",
        unit=Unit.SECONDS,
        scope=Scope.MODEL,
        doc=f"The {quantile * 100:g}th percentile of request time: traced, as clients recorded it, else over the last "
        "60 s by Triton's summary.",
        readers=(_of_times(_traced, quantile, TRACES, fewest), _of_times(_clients, quantile, CLIENT, fewest), summary),
        fix=_FIX,
    )


REQUEST_P95 = latency_quantile(0.95)
TYPICAL_REQUEST_SECONDS = _signal(
    "typical_request_seconds",
    "Median time of a request: as clients recorded it, as it was traced, else over the last 60 s by Triton's summary.",
    _readers(0.5, names.REQUEST_SUMMARY, *_REQUESTS),
)
SLOW_REQUEST_SECONDS = _signal(
    "slow_request_seconds",
    "95th percentile of a request's time, from the same source.",
    _readers(0.95, names.REQUEST_SUMMARY, *_REQUESTS),
)
TYPICAL_EXECUTION_SECONDS = _signal(
    "typical_execution_seconds",
    "Median time of an execution as its requests see it: traced, else over the last 60 s by Triton's summary.",
    _readers(0.5, names.INFER_SUMMARY, *_EXECUTIONS),
)
SLOW_EXECUTION_SECONDS = _signal(
    "slow_execution_seconds",
    "99th percentile of an execution's time, from the same source.",
    _readers(0.99, names.INFER_SUMMARY, *_EXECUTIONS),
)
