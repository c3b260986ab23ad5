"""An objective as a service lives with it, and what must not be lost when its minutes become hours."""

from __future__ import annotations

import pytest

from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.slo_keeper import SloKeeper
from diagnostics.slo.bins import Bins
from diagnostics.slo.slo import Promise, Slo, Triton
from diagnostics.store import slo_events
from diagnostics.store.history import History
from tests.store.lived import NAME, deployment, rounds

AVAILABLE = Slo(name="slow-answers", objective=0.99, sli=Triton(promise=Promise.AVAILABILITY, model="slow"))


def lived_through(keeper: SloKeeper) -> Bins:
    """Return the bins after some rounds."""
    watched = deployment(OwnMetrics())
    for scrapes in rounds(8, begin=1_790_000_000.0):
        for scrape in scrapes:
            watched.give(scrape)
        watched.take_in()
        keeper.consume(watched.evaluate())
    return keeper._bins["slow-answers", NAME]


def hours_keep_everything(history: History) -> None:
    """Write minutes twice, turn them into hours, and compare."""
    seen = lived_through(SloKeeper([AVAILABLE], history))
    with history._database.engine.begin() as connection:
        for at, found in [*seen.minutes(0, float("inf"))] * 2:
            slo_events.put_minute(AVAILABLE, NAME, at, found)(connection)
        before = slo_events.read_bins(connection, AVAILABLE, 0)[NAME].over(0, 1e12)
        slo_events.forget(0, 2e9)(connection)
        bins = slo_events.read_bins(connection, AVAILABLE, 0)[NAME]
        after = bins.over(0, 1e12)
    assert list(bins.minutes(0, float("inf"))) == []
    assert bins.known(0, 1e12) == seen.known(0, 1e12)
    assert before.tally == after.tally
    assert before.tally.total > 0
    assert after.causes.keys() == before.causes.keys()
    assert sum(after.causes.values()) == pytest.approx(sum(before.causes.values()))
