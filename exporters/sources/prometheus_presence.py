"""When a store had samples of something: few questions, however long the time is."""

from __future__ import annotations

from math import isfinite

from diagnostics.slo.bins import Span, joined, stretches
from exporters.sources.prometheus_api import PrometheusApi

# The last hour is looked at by the minute, all of the time in so many steps.
_RECENT, _STEPS, _MINUTE = 3600.0, 500, 60.0
# Stores read times to the millisecond: neighbours on a grid may be as much further apart.
_SLACK = 1.01


def spans_of(api: PrometheusApi, expr: str, start: float, end: float) -> list[Span]:
    """Return when an expression had samples in [start, end], Unix seconds, in order and apart; empty where it had none.

    The beginning is told to seconds or 1/250,000 of the time, an end and gaps to the minute within the last hour
    (what was no target any more lasts for five minutes after its last sample where the store was not told so), else to
    1/500 of the time.

    Raises:
        CollectError: the store does not answer.
        UsageError: it cannot read the expression.

    """
    step, since = max((end - start) / _STEPS, _MINUTE), max(end - _RECENT, start)
    recent = list(stretches(_there(api, expr, since, end, _MINUTE), _MINUTE * _SLACK))
    old = [at for at in _there(api, expr, start, end, step) if at < since]
    older = list(stretches(old, step * _SLACK))
    if older and recent and recent[0][0] - older[-1][1] <= step * _SLACK:
        recent[0] = (older[-1][1], recent[0][1])
    found = [*older, *recent]
    if not found:
        return []
    began, until = found[0]
    return joined([(max(_sooner(api, expr, began, step), start), max(until, began + 1.0)), *found[1:]])


def _there(api: PrometheusApi, expr: str, start: float, end: float, step: float) -> list[float]:
    """Return the steps at which there is a sample."""
    return [at for one in api.ranged(f"count({expr})", start, end, step).series for at in one.times]


def _sooner(api: PrometheusApi, expr: str, found: float, step: float) -> float:
    """Return the first sample within the step before the one at which there was one."""
    began = f"timestamp({expr})"
    fine = max(step / _STEPS, _MINUTE)
    for span, finer in ((step, fine), (2 * fine, 1.0)):
        query = f"min(min_over_time({began}[{span:.0f}s:{finer:.0f}s])) or min({began})"
        known = [one.values[-1] for one in api.instant(query, found).series]
        found = min([found, *(value for value in known if isfinite(value))])
    return found
