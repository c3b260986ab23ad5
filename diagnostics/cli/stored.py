"""Explaining what a Prometheus-compatible store holds of servers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from diagnostics.cli.sources import LATEST_PAST_END, WindowOptions, moment, repository_of, warn
from diagnostics.diagnosis.explanation import Explanation, explain_window
from diagnostics.errors import UsageError
from diagnostics.window.window import WindowBuilder
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_address import parse_prometheus


def explain_stored(
    sources: Sequence[str], question: WindowOptions, window: float | None, options: SourceOptions
) -> Explanation:
    """Return the explanation of a span of what one store scraped.

    Raises:
        UsageError: other sources are beside it, an option does not fit, or the store cannot read the selector.
        CollectError: the store does not answer, or holds nothing of a Triton.

    """
    if len(sources) > 1:
        raise UsageError(
            "a Prometheus is explained alone", hint="name one source; a selector chooses among its servers"
        )
    if window is not None and question.since is not None:
        raise UsageError("mean the same here", where="--window, --since", hint="give one of them")
    from exporters.sources.prometheus import read_window
    from exporters.sources.prometheus_api import PrometheusApi

    api = PrometheusApi(parse_prometheus(sources[0]), options, tell=warn)
    end, seconds = _span(question, window, api.clock())
    configured = question.repository is not None
    stored = read_window(api, end, seconds, warn, configured=configured)
    builder = WindowBuilder()
    for scrape in repository_of(question, stored.servers):
        builder.add(scrape)
    for record in stored.records:
        builder.take(record)
    return explain_window(
        builder.build(), sources=stored.servers, blind_spots=stored.blind_spots, objective=question.objective
    )


def _span(question: WindowOptions, window: float | None, now: float) -> tuple[float, float | None]:
    """Return the last moment to look at, by the store's clock, and for how long before it; None is not said."""
    end = moment(question.at, now) if question.at is not None else now
    if end > now + LATEST_PAST_END:
        clock = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        raise UsageError("lies in the future", where="--at", hint=f"the store's clock is at {clock}")
    if end <= 0:
        raise UsageError("lies before 1970", where="--at", hint="write 03:12, 2026-11-27T03:12:00Z or Unix seconds")
    seconds = window or question.since
    if seconds is not None and seconds > end:
        option = "--since" if window is None else "--window"
        raise UsageError("reaches back beyond 1970", where=option, hint="write 5m, 12h or 7d")
    return min(end, now), seconds
