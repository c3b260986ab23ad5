"""What the events of an objective are in PromQL.

Objectives over Triton's requests are read from what `diag serve` counts: it halves an ensemble's failures, knows which
models answer in parts, and bounds what averages do not tell. Objectives with queries of their own keep them.
"""

from __future__ import annotations

import re

from diagnostics.slo.slo import WINDOW, Promql, Slo

# Names of the families of `exporters.sinks.slo_exposition`, which this layer may not import; a test holds them equal.
EVENTS, BAD = "diag_slo_events_total", "diag_slo_bad_events_total"
_PER_SECOND = re.compile(r"\b(?:rate|irate)\s*\(")


def total_events(slo: Slo, window: str, seconds: float) -> str:
    """Return the events of a window (as PromQL writes it, and in seconds) as one sample; none where none is known."""
    if isinstance(slo.sli, Promql):
        return _own(slo.sli.total, window, seconds)
    return _counted(EVENTS, slo, window)


def bad_events(slo: Slo, window: str, seconds: float) -> str:
    """Return the bad events of a window; 0 where the total is known and nothing bad is."""
    sli = slo.sli
    if isinstance(sli, Promql):
        total = total_events(slo, window, seconds)
        if sli.bad is not None:
            return f"({_own(sli.bad, window, seconds)} or 0 * {total})"
        return f"clamp_min({total} - ({_own(sli.good or '', window, seconds)} or 0 * {total}), 0)"
    return _counted(BAD, slo, window)


def query_of_bad(slo: Slo, window: str, seconds: float) -> str | None:
    """Return an objective's own query for bad events as written, which has no sample where no such series is."""
    sli = slo.sli
    return _own(sli.bad, window, seconds) if isinstance(sli, Promql) and sli.bad is not None else None


def _counted(family: str, slo: Slo, window: str) -> str:
    return f'sum(increase({family}{{slo="{slo.name}"}}[{window}]))'


def _own(query: str, window: str, seconds: float) -> str:
    """Return a query over a window as a number of events: rates are multiplied by its length."""
    text = f"sum({query.replace(f'[{WINDOW}]', f'[{window}]').replace(WINDOW, window)})"
    return f"({text} * {seconds:g})" if _PER_SECOND.search(query) else text
