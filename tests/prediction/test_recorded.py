from __future__ import annotations

from pathlib import Path

import pytest

from tests.prediction.cards import card_points
from tests.prediction.comparing import QUANTITIES, Held, median_error
from tests.prediction.folder import Folder
from tests.prediction.groups import points
from tests.prediction.plan import jobs
from tests.prediction.predicting import fitted, predict

RECORDED = Folder(Path(__file__).parents[2] / "fixtures/prediction/points")
# Another count of instances, another window, another number of clients' instances: a few of what `score` takes all of.
NAMES = ("instances.two.1", "windows.us2000.1", "closed.three.1")


@pytest.mark.skipif(not RECORDED.path.exists(), reason="nothing is recorded yet")
def test_recorded_points_are_predicted_from_another_ones_window_as_well_as_aimed_at() -> None:
    known, measured = {job.name: job for job in jobs(points())}, RECORDED.measured()
    sources = {f"{point.group}.{point.name}.1": f"{point.group}.{point.source}.1" for point in points()}
    held = []
    for name in NAMES:
        source = known[sources[name]]
        predicted = predict(RECORDED.capture(source.name), source, known[name], measured[name], draws=1)
        held.append(Held(group="", load="", measured=measured[name], predicted=predicted))

    for quantity in QUANTITIES:
        error = median_error(held, quantity)
        assert error is not None
        assert error <= quantity.goal, quantity.name


ON_CARDS = Folder(RECORDED.path.parent / "cards")
# Another count on one card that is shared, more load, and a window of another length: of the repeat that was held out.
CARD_NAMES = ("gpu-instances.one.2", "gpu-rates.per60.2", "gpu-windows.us10000.2")


def test_recorded_points_on_a_card_are_predicted_as_well_as_aimed_at() -> None:
    known, measured = {job.name: job for job in jobs(card_points())}, ON_CARDS.measured()
    sources = {f"{point.group}.{point.name}.2": f"{point.group}.{point.source}.1" for point in card_points()}
    for name in CARD_NAMES:
        source = known[sources[name]]
        predicted = predict(ON_CARDS.capture(source.name), source, known[name], measured[name], draws=1)
        one = Held(group="", load="", measured=measured[name], predicted=predicted)
        for quantity in QUANTITIES:
            error = one.error(quantity)
            assert error is not None
            assert error <= quantity.goal, (name, quantity.name)


def test_models_that_list_other_cards_do_not_share_one_and_those_on_both_are_spread() -> None:
    apart = fitted(ON_CARDS.capture("gpu-apart.one.1"), "chat").scenario.resources
    spread = fitted(ON_CARDS.capture("gpu-cards.one.1"), "chat").scenario.resources

    assert [(one.name, one.capacity, one.devices) for one in apart] == [("GPU 0", 1.0, 1), ("GPU 1", 1.0, 1)]
    assert [(one.name, one.capacity, one.devices) for one in spread] == [("GPU", 2.0, 2)]


ENGINE_ON_CARD = Folder(RECORDED.path.parent / "card_engine")


@pytest.mark.parametrize("name", ["eight", "three", "kv-four"])
def test_an_engine_on_a_card_is_predicted_from_other_limits_within_the_interval(name: str) -> None:
    known, measured = {job.name: job for job in jobs(card_points())}, ENGINE_ON_CARD.measured()
    point = next(point for point in card_points() if (point.group, point.name) == ("gpu-engine", name))
    source, job = known[f"gpu-engine.{point.source}.1"], known[f"gpu-engine.{name}.1"]
    predicted = predict(ENGINE_ON_CARD.capture(source.name), source, job, measured[job.name])

    one = Held(group="", load="", measured=measured[job.name], predicted=predicted)
    assert all(one.inside(quantity) for quantity in QUANTITIES)
