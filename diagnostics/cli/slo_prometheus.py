"""How objectives stand by what a Prometheus-compatible store holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from diagnostics.cli.sources import warn
from diagnostics.errors import CollectError
from diagnostics.slo.report import SloReport, report_on
from diagnostics.slo.slo import Slo
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_api import PrometheusApi, TooMuch, parse_prometheus
from exporters.sources.prometheus_slo import StoredEvents


def reports_from_prometheus(
    source: str, slos: Sequence[Slo], period: float | None, deployment: str | None, options: SourceOptions
) -> tuple[list[SloReport], CollectError | None]:
    """Return how the objectives stand now, by the store's own clock, and why some are not among them.

    An objective that the store refuses to count is passed over; with one that it leaves without an answer, or once the
    time for all questions is over, no more is asked.

    Raises:
        UsageError: the address is none, or the store cannot read a query.
        CollectError: the store answers for none of them.

    """
    api = PrometheusApi(parse_prometheus(source), options, announce=warn, less="--period")
    now = api.clock()
    found, failed = list[SloReport](), list[tuple[str, CollectError]]()
    for slo in slos:
        try:
            seen = StoredEvents(api, slo, now, deployment)
            found.append(replace(report_on(slo, seen, now, period=period), gaps=seen.gaps))
        except CollectError as error:
            failed.append((slo.name, error))
            if not isinstance(error, TooMuch):
                break
    for name, passed_over in failed[:-1]:
        warn(f"{name}: {passed_over.what}")
    missed = _missed(failed, len(found), len(slos))
    if missed is not None and not found:
        raise missed
    return found, missed


def _missed(failed: Sequence[tuple[str, CollectError]], answered: int, requested: int) -> CollectError | None:
    """Return the last failure, with whose it is and how far the store was read; None where nothing failed."""
    if not failed:
        return None
    name, error = failed[-1]
    reached = f" ({answered} of {requested} objectives have values)" if requested > 1 else ""
    return CollectError(f"{name}: {error.what}{reached}", where=error.where, hint=error.hint)
