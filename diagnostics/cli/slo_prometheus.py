"""How objectives stand by what a Prometheus-compatible store holds."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.cli.sources import aloud
from diagnostics.slo.report import SloReport, report_on
from diagnostics.slo.slo import Slo
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_address import parse_prometheus
from exporters.sources.prometheus_api import PrometheusApi
from exporters.sources.prometheus_slo import StoredEvents


def reports_from_prometheus(
    source: str, slos: Sequence[Slo], period: float | None, options: SourceOptions
) -> list[SloReport]:
    """Return how the objectives stand now, by the store's own clock.

    Raises:
        UsageError: the address is none, or the store cannot read a query.
        CollectError: the store does not answer.

    """
    api = PrometheusApi(parse_prometheus(source), options, tell=aloud)
    now = api.clock()
    told: set[str] = set()

    def warn(text: str) -> None:
        if text not in told:
            told.add(text)
            aloud(text)

    return [report_on(slo, StoredEvents(api, slo, now, warn), now, period=period) for slo in slos]
