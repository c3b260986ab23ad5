"""Recorded incidents as a Prometheus that scraped their servers would hold them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from diagnostics.cli.sources import WindowOptions, explain_stored
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.window.window import WindowBuilder
from diagnostics.wire.records import BodyKind, Scrape
from exporters.sinks.exposition import rows_to_rebuild
from exporters.sources.access import SourceOptions
from tests.promql.fake_prometheus import FakePrometheus


def stored(scrapes: Sequence[Scrape], *, with_service: bool) -> FakePrometheus:
    """Return a Prometheus that scraped the servers, and a service that watched them where it is told to."""
    fake = FakePrometheus()
    fake.scrape_all(scrapes)
    if with_service:
        watched(fake, scrapes)
    return fake


def watched(fake: FakePrometheus, scrapes: Iterable[Scrape]) -> None:
    """Take what a service exports after each round of statistics, scraped a little later."""
    builder = WindowBuilder()
    for one in sorted(scrapes, key=lambda one: one.at):
        if one.kind in (BodyKind.STATISTICS, BodyKind.CONFIG, BodyKind.HOST):
            builder.add(one)
        if one.kind is BodyKind.STATISTICS:
            fake.scrape_rows(one.at + 0.4, rows_to_rebuild(WindowEvidence(builder.build())))


def explained(fake: FakePrometheus, question: WindowOptions | None = None, source: str = "") -> Explanation:
    """Return what the product says of what a Prometheus holds."""
    with fake.running():
        return explain_stored([f"{fake.url}{source}"], question or WindowOptions(), None, SourceOptions())
