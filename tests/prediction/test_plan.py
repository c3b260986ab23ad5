from __future__ import annotations

from collections import Counter

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tests.benchmark.deployment import configs
from tests.prediction.cards import card_points
from tests.prediction.groups import points
from tests.prediction.plan import Load, Pattern, Point, jobs
from tests.prediction.predicting import changes
from tests.prediction.sweeps import SCENARIOS, Sweep, sweeps

POINTS = [*points(), *card_points()]
BY_NAME = {(point.group, point.name): point for point in POINTS}


def test_there_are_forty_points_of_ten_groups_each_named_once() -> None:
    assert len(points()) >= 40
    assert len({point.group for point in points()}) >= 10
    assert len(BY_NAME) == len(POINTS)


def test_there_are_thirty_points_on_cards_whose_work_is_stated() -> None:
    def is_stated(point: Point) -> bool:
        return all(stage.gpu_product_us for stage in point.deployment.stages if stage.mode == "gpu")

    stated = [point for point in card_points() if is_stated(point)]

    assert len(stated) >= 30
    assert {point.cards for point in stated} == {1, 2}


def test_what_computes_on_a_card_is_stated_in_its_configuration() -> None:
    both = configs(BY_NAME["gpu-cards", "two"].deployment)
    engine = configs(BY_NAME["gpu-engine", "kv-three"].deployment)["tensorrt_llm"]

    assert "instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]" in both["safety"]
    assert 'key: "gpu_product_us" value { string_value: "30.0" }' in both["safety"]
    assert "kind: KIND_GPU gpus: [ 0 ]" in engine
    assert 'key: "max_tokens_in_paged_kv_cache" value { string_value: "288" }' in engine


def test_a_point_on_a_card_is_measured_for_seconds_and_twice_as_long_where_others_are_predicted_from_it() -> None:
    made = {job.name: job for job in jobs(card_points())}
    source, other = made["gpu-rates.per40.1"], made["gpu-rates.per72.1"]

    assert (source.seconds, other.seconds, made["gpu-rates.per40.2"].seconds) == (12.0, 6.0, 6.0)
    assert {job.interval for job in made.values()} == {1.0}


def test_every_request_of_a_point_can_be_traced() -> None:
    assert max(point.load.rate for point in POINTS) <= 100


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point.group}-{point.name}")
def test_a_point_is_predicted_from_another_configuration_or_load_of_its_group(point: Point) -> None:
    source = BY_NAME[point.group, point.source]

    assert changes(source.deployment, point.deployment) or source.load != point.load
    assert configs(source.deployment).keys() == configs(point.deployment).keys()


def test_most_points_are_predicted_from_other_settings_than_their_own() -> None:
    other = [p for p in POINTS if changes(BY_NAME[p.group, p.source].deployment, p.deployment)]

    assert len(other) >= 0.8 * len(POINTS)


def test_a_changed_deployment_is_what_triton_reads_of_it() -> None:
    point = BY_NAME["preferred", "two-eight"]
    text = configs(point.deployment)["safety"]
    batching = text_format.Parse(text, model_config_pb2.ModelConfig()).dynamic_batching

    assert list(batching.preferred_batch_size) == [2, 8]
    assert batching.max_queue_delay_microseconds == 4000


def test_settings_that_differ_are_named_as_in_the_configuration() -> None:
    before = BY_NAME["several", "before"].deployment
    made = {change.model: change.settings for change in changes(before, BY_NAME["several", "all"].deployment)}
    batching_off = changes(BY_NAME["batching", "on"].deployment, BY_NAME["batching", "off"].deployment)

    assert [(one.path, one.value) for one in made["safety"]] == [
        ("instance_group.count", 2),
        ("dynamic_batching.max_queue_delay_microseconds", 0),
    ]
    assert [(one.path, one.value) for one in batching_off[0].settings] == [("dynamic_batching", None)]
    assert changes(before, before) == ()


def test_arrivals_are_those_of_their_seed_and_as_many_as_the_rate_says() -> None:
    load = Load(rate=30.0)
    bursts = Load(pattern=Pattern.BURSTS, rate=30.0, burst=5).arrivals(40.0, 1)

    assert load.arrivals(40.0, 1) == load.arrivals(40.0, 1) != load.arrivals(40.0, 2)
    assert len(load.arrivals(40.0, 1)) == len(bursts) == 1200
    assert set(Counter(bursts).values()) == {5}
    assert list(bursts) == sorted(bursts)


def test_all_points_are_wanted_once_before_any_is_wanted_again() -> None:
    made = jobs(points())

    assert {job.rank for job in made} == {1, 2}
    assert [job.rank for job in made] == sorted(job.rank for job in made)
    assert {job.name for job in made if job.kept} == {f"{p.group}.{p.source}.1" for p in points()}


@pytest.mark.parametrize("sweep", sweeps(), ids=lambda sweep: sweep.name)
def test_a_sweep_has_twelve_settings_and_one_of_them_is_recorded(sweep: Sweep) -> None:
    settings = dict(sweep.settings())

    assert len(settings) == 12
    assert sweep.base in settings.values()


def test_there_are_ten_sweeps() -> None:
    assert len({sweep.name for sweep in sweeps()}) == SCENARIOS == 10
