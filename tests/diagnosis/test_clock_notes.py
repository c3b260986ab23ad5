"""A recording whose times are reversed, or all the same, says so, and not that counters are missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Verdict
from diagnostics.diagnosis.notes import clock_notes
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals.arrivals import PEAK_TO_MEAN
from diagnostics.signals.signal import Missing, Subject
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Stage, SyntheticTriton, chain, explained, model_config, restarted_at

MODELS = (
    Stage("chat", rate=38, overhead=0.2, config=chain("chat", "slow")),
    Stage("slow", rate=38, execution=0.0245, queue=0.17, pending=6, config=model_config("slow")),
)
TRITON = SyntheticTriton(models=MODELS)
BACKWARDS = "the recording's clock ran backwards: counters fall from each read to the next"
STILL = "the recording's clock stood still: all reads have one time"
Move = Callable[[Scrape], Scrape]


def reversed_times(scrape: Scrape) -> Scrape:
    """File the last read as the first."""
    return replace(scrape, at=2 * START + 60.0 - scrape.at, mono=2 * START + 60.0 - scrape.mono)


def one_time(scrape: Scrape) -> Scrape:
    return replace(scrape, at=START, mono=START)


@pytest.mark.parametrize(
    ("move", "reported", "reason"),
    [(reversed_times, BACKWARDS, Missing.CONFLICTING), (one_time, STILL, Missing.STALE)],
)
@pytest.mark.parametrize("left_out", [(), (BodyKind.STATISTICS,), (BodyKind.METRICS,)])
def test_a_clock_that_tells_no_order_is_named_in_verdict_reasons_and_blind_spots(
    move: Move, reported: str, reason: Missing, left_out: tuple[BodyKind, ...]
) -> None:
    found = explained(window_of(map(move, TRITON.without(*left_out).scrapes())))
    assert (found.verdict, found.reason, found.findings) == (Verdict.INSUFFICIENT_DATA, reported, ())
    assert {outcome.reason for _, outcome in found.unknown} <= {reason, Missing.NOT_EXPORTED}
    assert ("cold-start", reason) in {(result.check.id, outcome.reason) for result, outcome in found.unknown}
    (spot,) = (spot for spot in found.blind_spots if SERVER in spot.what)
    assert spot.why == reported
    assert spot.fix.startswith("record anew")


def test_times_that_go_forward_and_a_server_that_restarts_need_no_note() -> None:
    for triton in (TRITON, replace(TRITON, alter=restarted_at(5))):
        assert not clock_notes(WindowEvidence(window_of(triton.scrapes())))


def test_several_servers_behind_one_address_are_no_clock() -> None:
    other = replace(TRITON, models=tuple(replace(stage, rate=9 * stage.rate) for stage in MODELS)).scrapes()
    mixed = [scrape if round(scrape.at / 5) % 2 else other[i] for i, scrape in enumerate(TRITON.scrapes())]
    found = explained(window_of(mixed))
    assert found.reason.startswith("request counters jump back again and again")
    assert not clock_notes(found.evidence)


def test_a_wall_clock_that_stands_still_beside_a_steady_one_breaks_nothing() -> None:
    found = explained(window_of(replace(scrape, at=START) for scrape in TRITON.scrapes()))
    assert found.verdict not in (Verdict.HEALTHY, Verdict.INSUFFICIENT_DATA)
    assert found.evidence.read(PEAK_TO_MEAN, Subject(server=SERVER, ensemble="chat")).missing is Missing.CONFLICTING
