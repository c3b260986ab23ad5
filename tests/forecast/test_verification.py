from __future__ import annotations

import pytest

from diagnostics.forecast.performance import Estimate
from diagnostics.forecast.verify import Judgement, Verified, difference, judge, longer, overall
from tests.forecast.performances import estimate

BEFORE = estimate(0.280, 0.120)


def judged(after: Estimate, predicted: float, width: float = 0.010, unchanged: Estimate | None = BEFORE) -> Judgement:
    return judge("mean", after=after, predicted=estimate(predicted, width), unchanged=unchanged, seconds=40.0)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (estimate(0.121, 0.006), Verified.CONFIRMED),
        # Within the usual error of a forecast.
        (estimate(0.130, 0.001), Verified.CONFIRMED),
        (estimate(0.160, 0.006), Verified.REFUTED),
        (estimate(0.090, 0.006), Verified.REFUTED),
        (estimate(0.270, 0.006), Verified.REFUTED),
        # So wide that it fits everything.
        (estimate(0.200, 0.400), Verified.INCONCLUSIVE),
    ],
)
def test_a_prediction_is_held_against_the_measurement_and_its_luck(after: Estimate, verdict: Verified) -> None:
    assert judged(after, 0.120).verdict is verdict


def test_what_fits_the_prediction_and_no_effect_needs_a_longer_window() -> None:
    found = judged(estimate(0.200, 0.400), 0.120)

    # An interval of 0.2 on either side has to shrink to half the gap of 0.16, so the window grows by (0.2 ÷ 0.08)².
    assert found.seconds_needed == pytest.approx(40 * (0.2088 / 0.08) ** 2, rel=0.01)


def test_old_settings_that_could_not_keep_up_are_no_rival_of_a_measured_mean() -> None:
    assert judged(estimate(0.121, 0.006), 0.120, unchanged=None).verdict is Verified.CONFIRMED


def test_an_unbounded_interval_neither_confirms_nor_refutes() -> None:
    unbounded = Estimate(value=0.28, low=0.05, high=None)
    found = judged(estimate(0.121, 0.006), 0.120, unchanged=unbounded)

    assert (found.verdict, found.seconds_needed) == (Verified.INCONCLUSIVE, None)


@pytest.mark.parametrize(
    ("after", "verdict", "needs_more"),
    [
        (estimate(0.121, 0.006), Verified.CONFIRMED, False),
        (estimate(0.121, 0.080), Verified.INCONCLUSIVE, True),
        (estimate(0.180, 0.006), Verified.REFUTED, False),
    ],
)
def test_no_difference_is_confirmed_only_where_the_interval_leaves_no_room_for_one(
    after: Estimate, verdict: Verified, needs_more: bool
) -> None:
    found = judged(after, 0.120, unchanged=estimate(0.120, 0.004))

    assert found.verdict is verdict
    assert (found.seconds_needed is not None) == needs_more


def test_a_difference_that_would_take_more_than_a_week_is_not_promised() -> None:
    assert longer(40.0, 1.0, 0.5) == pytest.approx(160.0)
    assert longer(40.0, 0.1, 0.5) == 40.0
    assert longer(40.0, 1.0, 0.001) is None
    assert longer(40.0, float("inf"), 0.5) is None


def test_intervals_of_a_difference_add_in_quadrature() -> None:
    found = difference(estimate(0.5, 0.06), estimate(0.2, 0.08))

    assert (found.value, found.low, found.high) == pytest.approx((0.3, 0.25, 0.35))


def test_one_refuted_statistic_refutes_and_else_the_mean_decides() -> None:
    confirmed, refuted, open_ = (Judgement(verdict=verdict, reason="") for verdict in Verified)

    assert overall([confirmed, refuted]) is refuted
    assert overall([confirmed, open_]) is confirmed
    assert overall([open_, confirmed]) is open_
