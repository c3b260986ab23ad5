"""The ledger remembers what was read and compared, and what that is worth."""

from __future__ import annotations

import pytest

from diagnostics.evidence.ledger import (
    BASE_CONFIDENCE,
    ESTIMATED_FACTOR,
    MISSING_FACTOR,
    STRADDLING_FACTOR,
    EntryPoint,
    Ledger,
    LedgerLine,
    Limit,
    Undecided,
)
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.signal import Missing, Reading
from diagnostics.signals.triton import QUEUE_SECONDS
from diagnostics.units import Unit
from tests.stated_evidence import SUBJECT, StatedEvidence

TENTH = Limit(value=0.1, unit=Unit.SECONDS, because="for these tests a tenth of a second is long")
MOST = Limit(value=0.9, unit=Unit.RATIO, because="for these tests nine tenths are full")


def ledger(queue: float | None = 0.2, *, mean: float = 0.4, weight: float = 1.0) -> Ledger:
    stated = StatedEvidence({} if queue is None else {QUEUE_SECONDS: queue})
    return Ledger(stated, lambda _: EntryPoint(ensemble=None, mean_seconds=mean, weight=weight, requests=100))


def seconds(value: float, **more: float | bool) -> Reading:
    return Reading.of(value, Unit.SECONDS, "statistics", **more)  # type: ignore[arg-type]


def only_line(see: Ledger) -> LedgerLine:
    (line,) = see.lines
    return line


@pytest.mark.parametrize(("queue", "met"), [(0.2, True), (0.1, True), (0.05, False)])
def test_a_comparison_is_noted_with_its_limit_and_outcome(queue: float, met: bool) -> None:
    see = ledger(queue)

    assert see.at_least(QUEUE_SECONDS, SUBJECT, TENTH) is met
    line = only_line(see)
    assert (line.signal, line.reading.value, line.limit, line.sign, line.met) == (
        "queue_seconds",
        queue,
        0.1,
        ">=",
        met,
    )


def test_the_other_direction_has_the_other_sign() -> None:
    see = ledger(0.2)

    assert not see.at_most(QUEUE_SECONDS, SUBJECT, TENTH)
    assert only_line(see).sign == "<="


def test_a_needed_reading_that_is_absent_ends_the_check_with_its_reason() -> None:
    see = ledger(None)
    with pytest.raises(Undecided) as caught:
        see.at_least(QUEUE_SECONDS, SUBJECT, TENTH)

    assert (caught.value.signal, caught.value.reason) == ("queue_seconds", Missing.NOT_EXPORTED)
    assert see.absent == {"queue_seconds": (QUEUE_SECONDS, Missing.NOT_EXPORTED)}


def test_a_derived_value_that_is_absent_ends_the_check_too() -> None:
    with pytest.raises(Undecided) as caught:
        ledger().compare("windows", Reading.unknown(Missing.IDLE, Unit.SECONDS), TENTH)

    assert caught.value.reason is Missing.IDLE


def test_a_rival_that_cannot_be_measured_is_not_ruled_out_and_does_not_hold() -> None:
    see = ledger()

    assert not see.ruled_out(HOST_CPU_BUSY, SUBJECT, MOST, above=True)
    assert only_line(see).met is None
    assert see.confidence() == pytest.approx(BASE_CONFIDENCE * MISSING_FACTOR, abs=1e-3)


@pytest.mark.parametrize(("busy", "holds"), [(0.95, True), (0.9, True), (0.5, False)])
def test_a_rival_holds_from_its_limit_on(busy: float, holds: bool) -> None:
    see = Ledger(StatedEvidence({HOST_CPU_BUSY: busy}), lambda _: None)

    assert see.ruled_out(HOST_CPU_BUSY, SUBJECT, MOST, above=True) is holds
    assert only_line(see).met is not holds


def test_exact_readings_clear_of_their_limits_have_the_base_confidence() -> None:
    see = ledger()
    see.compare("saving", seconds(1.0, low=0.9, high=1.1), TENTH)

    assert see.confidence() == BASE_CONFIDENCE


def test_an_estimate_and_an_interval_around_the_limit_each_cost_confidence() -> None:
    estimate, straddling = ledger(), ledger()
    estimate.compare("saving", seconds(1.0, low=0.9, high=1.1, estimated=True), TENTH)
    straddling.compare("saving", seconds(0.11, low=0.05, high=0.2), TENTH)

    assert estimate.confidence() == pytest.approx(BASE_CONFIDENCE * ESTIMATED_FACTOR, abs=1e-3)
    assert straddling.confidence() == pytest.approx(BASE_CONFIDENCE * STRADDLING_FACTOR, abs=1e-3)


def test_what_is_read_without_a_limit_decides_nothing_and_costs_nothing() -> None:
    see = ledger()
    see.read(QUEUE_SECONDS, SUBJECT)

    assert only_line(see).limit is None
    assert see.confidence() == BASE_CONFIDENCE


class TestWorthwhile:
    """A change must save 15 % and 5 ms of what those who wait wait."""

    @pytest.mark.parametrize(
        ("saved", "mean", "worth"),
        [
            (0.1, 0.4, True),
            (0.05, 0.4, False),
            (0.004, 0.01, False),
            (0.006, 0.03, True),
        ],
        ids=["both", "too small a share", "too short", "just both"],
    )
    def test_share_and_time_must_both_be_reached(self, saved: float, mean: float, worth: bool) -> None:
        see = ledger(mean=mean)

        assert see.worthwhile("saving", SUBJECT, seconds(saved)) is worth
        assert [line.signal for line in see.lines] == ["saving", "saving_share"]

    def test_one_of_several_versions_counts_by_its_share_of_the_requests(self) -> None:
        assert ledger(mean=0.4).worthwhile("saving", SUBJECT, seconds(0.1))
        assert not ledger(mean=0.4, weight=0.5).worthwhile("saving", SUBJECT, seconds(0.1))

    def test_without_traffic_there_is_nobody_to_save_it_for(self) -> None:
        see = Ledger(StatedEvidence({}), lambda _: None)
        with pytest.raises(Undecided):
            see.worthwhile("saving", SUBJECT, seconds(0.1))


@pytest.mark.parametrize(("queue", "met"), [(0.2, False), (0.05, True)])
def test_a_rival_that_holds_speaks_against_the_finding_and_for_it_where_not(queue: float, met: bool) -> None:
    see = ledger(queue)

    holds = see.as_rival().at_least(QUEUE_SECONDS, SUBJECT, TENTH)

    assert holds is not met
    assert (only_line(see).met, only_line(see).sign) == (met, "<")


def test_what_rules_a_rival_of_a_rival_out_speaks_for_that_rival() -> None:
    see = ledger(0.2)

    assert see.as_rival().ruled_out(QUEUE_SECONDS, SUBJECT, TENTH, above=True)
    assert (only_line(see).met, only_line(see).sign) == (True, ">=")


def test_what_is_absent_for_a_rival_is_absent_for_the_check() -> None:
    see = ledger(None)

    with pytest.raises(Undecided):
        see.as_alternative().as_rival().at_least(QUEUE_SECONDS, SUBJECT, TENTH)
    assert QUEUE_SECONDS.name in see.absent
