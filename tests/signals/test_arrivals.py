from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from diagnostics.signals.arrivals import (
    BURST_CERTAINTY,
    BURST_SIZE,
    CROWDED_SECONDS,
    CROWDED_TAIL_SECONDS,
    CROWDING_CERTAINTY,
    FEWEST_BINS,
    PEAK_TO_MEAN,
    ArrivalBin,
    dispersion,
)
from diagnostics.signals.signal import Missing
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind
from tests.builders import view_of
from tests.builders_traffic import Did, reported, sent, story_scrapes

SECONDS = 40
KEY = ("m", "1")


def poisson(draw: random.Random, mean: float) -> float:
    """Return a Poisson number: arrivals of unit-rate gaps within `mean`."""
    count, at = 0, draw.expovariate(1.0)
    while at < mean:
        count, at = count + 1, at + draw.expovariate(1.0)
    return float(count)


def bins_of(counts: Sequence[float], seconds: float = 1.0) -> list[ArrivalBin]:
    return [ArrivalBin(seconds, count, None) for count in counts]


def clients(moments: Sequence[float], took: Sequence[float] | float = 0.1) -> Window:
    story = {KEY: [Did(requests=1)] * (SECONDS // 2)}
    return window_of([*story_scrapes(story), sent(moments, took)])


@pytest.mark.parametrize("rate", [2, 10, 50, 400])
@pytest.mark.parametrize("bins", [10, 20, 60])
def test_independent_requests_are_bursts_in_no_window_at_any_rate(rate: float, bins: int) -> None:
    draw = random.Random(rate * 1000 + bins)
    found = [dispersion(bins_of([poisson(draw, rate) for _ in range(bins)])) for _ in range(150)]

    assert not [one for one in found if one is not None and one.index >= 4.0 and one.z >= 4.75]


@pytest.mark.parametrize("size", [8, 30])
def test_the_index_is_the_size_of_the_groups_that_requests_arrive_in(size: int) -> None:
    draw = random.Random(size)
    groups = [bins_of([size * poisson(draw, 2.0) for _ in range(400)]) for _ in range(10)]
    mean = sum(found.index for one in groups if (found := dispersion(one))) / len(groups)

    assert mean == pytest.approx(size, rel=0.3)


def test_a_rate_that_changes_once_is_no_burst() -> None:
    draw = random.Random(3)
    found = dispersion(bins_of([poisson(draw, 20) for _ in range(20)] + [poisson(draw, 80) for _ in range(20)]))

    assert found is not None
    assert found.index < 4.0


def test_a_rate_that_grows_slowly_is_no_burst() -> None:
    draw = random.Random(4)
    found = dispersion(bins_of([poisson(draw, 20 + i) for i in range(40)]))

    assert found is not None
    assert found.index < 4.0


def test_too_few_intervals_are_not_judged() -> None:
    assert dispersion(bins_of([30.0] * (FEWEST_BINS - 1))) is None
    assert dispersion(bins_of([0.0] * 40)) is None


def test_a_clients_record_tells_bursts_and_what_they_cost() -> None:
    groups = [(i * 4.0 + 0.2, 20 if i % 3 else 40) for i in range(10)]
    moments = [at + k * 1e-3 for at, size in groups for k in range(size)]
    took = [0.1 if size == 20 else 0.3 for _, size in groups for _ in range(size)]
    view = view_of(clients(moments, took), "m", None)

    assert BURST_SIZE.read(view).value == pytest.approx(25, abs=10)
    assert BURST_SIZE.read(view).source == "client"
    assert (BURST_CERTAINTY.read(view).value or 0) > 4.75
    assert PEAK_TO_MEAN.read(view).value == pytest.approx(40 / (280 / 40), rel=0.1)
    assert (CROWDING_CERTAINTY.read(view).value or 0) > 1.64
    # 0.01 s for each request beside it: the mean of 0.214 s would be 0.07 s lower at even arrivals and more.
    assert 0.1 < (CROWDED_SECONDS.read(view).value or 0) < 0.3


def test_without_a_client_the_first_stages_intake_counts_and_not_what_it_completes() -> None:
    stalled = [Did(requests=20)] * 8 + [Did(requests=0, pending=20), Did(requests=0, pending=40), Did(requests=60)]
    view = view_of(reported({KEY: [*stalled, *[Did(requests=20)] * 8]}), "m", None)

    assert (BURST_SIZE.read(view).value or 0) < 1.5
    assert PEAK_TO_MEAN.read(view).value == pytest.approx(1.0)


@pytest.mark.parametrize(("at_once", "bursts"), [(100, False), (300, True), (0, False)])
def test_what_makes_up_for_one_stop_was_held_and_did_not_arrive_at_once(at_once: int, bursts: bool) -> None:
    """Nothing reaches the stage for ten seconds, and then as much as was missed, much more, or nothing more."""
    usual, stop = [Did(requests=20)] * 12, [Did(requests=0)] * 5
    view = view_of(reported({KEY: [*usual, *stop, Did(requests=20 + at_once), *usual]}), "m", None)

    assert ((BURST_SIZE.read(view).value or 0) > 4.0) is bursts


def test_bursts_with_a_silence_before_each_are_bursts() -> None:
    group = [*[Did(requests=10)] * 3, Did(requests=0), Did(requests=0), Did(requests=30)]
    view = view_of(reported({KEY: group * 6}), "m", None)

    assert (BURST_CERTAINTY.read(view).value or 0) > 4.75


def test_without_the_pending_gauge_nothing_is_known() -> None:
    scrapes = [s for s in story_scrapes({KEY: [Did(requests=20)] * 20}) if s.kind is not BodyKind.METRICS]
    reading = BURST_SIZE.read(view_of(window_of(scrapes), "m", None))

    assert reading.missing is Missing.NOT_EXPORTED


def test_a_clients_record_of_two_servers_is_not_used() -> None:
    story = {KEY: [Did(requests=20)] * 20}
    moments = [i * 4.0 + k * 1e-3 for i in range(10) for k in range(20)]
    window = window_of([*story_scrapes(story), *story_scrapes(story, server="triton-1"), sent(moments)])

    assert BURST_SIZE.read(view_of(window, "m", None)).source == "metrics"


def dialogues(seed: int, every: float, think: float) -> tuple[list[float], list[float]]:
    """Return when requests of dialogues are sent, and what they take: each follows the answer to the one before."""
    draw, opened, pairs = random.Random(seed), 0.0, list[tuple[float, float]]()
    while opened < SECONDS:
        opened += draw.expovariate(1 / every)
        at = opened
        for _ in range(draw.randint(8, 16)):
            took = 0.05 * draw.lognormvariate(-0.11, 0.47)
            pairs.append((at, took))
            at += took + think * draw.uniform(0.5, 1.5)
    inside = sorted(pair for pair in pairs if pair[0] < SECONDS)
    return [at for at, _ in inside], [took for _, took in inside]


def test_dialogues_on_a_roomy_server_are_bunched_and_even_arrivals_would_gain_nothing() -> None:
    views = [view_of(clients(*dialogues(seed, every=1.5, think=0.1)), "m", None) for seed in range(40)]
    bunched = [view for view in views if (BURST_CERTAINTY.read(view).value or 0) > 4.75]

    assert len(bunched) > 10
    for view in bunched:
        assert (CROWDING_CERTAINTY.read(view).value or 0) < 1.64 or (
            CROWDED_TAIL_SECONDS.read(view).value or 0
        ) < 0.15 * 0.05


def test_requests_that_a_load_held_are_no_burst() -> None:
    def story(*, anew: bool) -> Window:
        held = [*[Did(requests=20)] * 10, Did(requests=2), Did(requests=2), Did(requests=80), *[Did(requests=20)] * 10]
        loaded = [Did(requests=1, anew=anew and number == 11) for number in range(len(held))]
        return reported({KEY: held, ("other", "1"): loaded})

    assert (BURST_CERTAINTY.read(view_of(story(anew=False), "m", None)).value or 0) > 4.75
    assert (BURST_CERTAINTY.read(view_of(story(anew=True), "m", None)).value or 0) < 1.0
