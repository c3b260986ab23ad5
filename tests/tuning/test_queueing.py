"""The scheduler model agrees with simulation, and says how far it can be trusted."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from simulation import Simulation

from diagnostics.tuning.queueing import StageLoad, headroom_limited, predict
from diagnostics.tuning.service import BatchPoint, ServiceTime, constant, fit
from diagnostics.tuning.waiting import Bulk, bulk_wait, erlang_c, waiting_seconds


def affine(base: float, per_item: float) -> ServiceTime:
    return fit([BatchPoint(size=size, executions=10_000, seconds=base + per_item * size) for size in (1, 2, 4, 8)])


def stage(
    rate: float,
    service: ServiceTime,
    *,
    instances: int = 1,
    max_batch: int = 1,
    batching: bool = False,
    delay: float = 0.0,
) -> StageLoad:
    return StageLoad(
        arrival_rate=rate,
        service=service,
        service_scv=0.0,
        instances=instances,
        max_batch=max_batch,
        batching=batching,
        delay_seconds=delay,
    )


def test_erlang_c_agrees_with_the_published_table() -> None:
    assert erlang_c(1, 0.8) == pytest.approx(0.8)
    assert erlang_c(2, 1.0) == pytest.approx(1 / 3)
    assert erlang_c(5, 4.0) == pytest.approx(0.5541, abs=1e-4)
    assert erlang_c(3, 3.0) == 1.0


def test_one_server_with_random_times_is_exact() -> None:
    for scv, expected in ((1.0, 0.04), (0.0, 0.02)):
        seconds = waiting_seconds(rate=80, service=0.01, servers=1, arrival_scv=1, service_scv=scv)
        assert seconds == pytest.approx(expected)


Times = Callable[[int, random.Random], float]


@pytest.mark.parametrize(("instances", "load"), [(1, 0.5), (1, 0.9), (3, 0.7), (6, 0.9)])
@pytest.mark.parametrize("scv", [0.0, 1.0])
def test_waiting_without_batches_agrees_with_simulation(instances: int, load: float, scv: float) -> None:
    mean = 0.01
    times: Times = (lambda size, rng: rng.expovariate(1 / mean)) if scv else (lambda size, rng: mean)
    rate = load * instances / mean
    simulated = Simulation(rate=rate, occupancy=times, instances=instances, arrivals=40_000).run()

    seconds = waiting_seconds(rate=rate, service=mean, servers=instances, arrival_scv=1, service_scv=scv)

    assert seconds == pytest.approx(simulated.queue_seconds, rel=0.15, abs=mean / 50)


def bulk(rate: float, base: float, per_item: float, instances: int, max_batch: int, window: float) -> Bulk:
    return Bulk(
        rate=rate,
        occupancy=lambda size: base + per_item * size,
        instances=instances,
        max_batch=max_batch,
        window=window,
        fire=max_batch,
        arrival_scv=1.0,
        service_scv=0.0,
    )


@pytest.mark.parametrize("window", [0.0, 0.001, 0.010])
@pytest.mark.parametrize("per_item", [0.0001, 0.003])
@pytest.mark.parametrize(("instances", "max_batch"), [(1, 4), (1, 32), (2, 4)])
@pytest.mark.parametrize("load", [0.1, 0.4, 0.7])
def test_waiting_for_late_batches_agrees_with_simulation(
    window: float, per_item: float, instances: int, max_batch: int, load: float
) -> None:
    base = 0.005
    rate = load * instances * max_batch / (base + per_item * max_batch)
    simulated = Simulation(
        rate=rate,
        occupancy=lambda size, rng: base + per_item * size,
        instances=instances,
        max_batch=max_batch,
        delay=window,
        arrivals=15_000,
    ).run()

    predicted = bulk_wait(bulk(rate, base, per_item, instances, max_batch, window))

    assert predicted is not None
    assert predicted.late == pytest.approx(simulated.queue_seconds, rel=0.25, abs=base / 20)
    assert predicted.size == pytest.approx(simulated.batch_size, rel=0.12)


@pytest.mark.parametrize(("rate", "base"), [(204.7, 0.00455), (258.0, 0.00365), (120.0, 0.00455)])
def test_waiting_for_frozen_batches_agrees_with_simulation(rate: float, base: float) -> None:
    simulated = Simulation(
        rate=rate,
        occupancy=lambda size, rng: base + 0.0001 * size,
        max_batch=32,
        delay=0.001,
        frozen=True,
        arrivals=40_000,
    ).run()

    predicted = bulk_wait(bulk(rate, base, 0.0001, 1, 32, 0.001))

    assert predicted is not None
    assert predicted.frozen == pytest.approx(simulated.queue_seconds, rel=0.12)
    assert predicted.late < predicted.frozen


def test_a_window_at_a_trickle_is_waited_out() -> None:
    forecast = predict(stage(0.5, affine(0.004, 0.0001), max_batch=16, batching=True, delay=0.05, instances=2))

    assert forecast.queue_seconds == pytest.approx(0.05, rel=0.03)
    assert forecast.batch_size_mean == pytest.approx(1.025, rel=0.01)


def test_a_preferred_size_ends_the_window_early() -> None:
    load = stage(200, affine(0.001, 0.0), max_batch=16, batching=True, delay=0.05, instances=2)
    waited, fired = predict(load), predict(replace(load, preferred=(2,)))

    assert fired.queue_seconds is not None
    assert waited.queue_seconds is not None
    assert fired.queue_seconds == pytest.approx(0.0025, rel=0.2)
    assert waited.queue_seconds > 8 * fired.queue_seconds


def test_a_window_does_nothing_when_batches_hold_one() -> None:
    load = stage(10, constant(0.004), max_batch=1, batching=True, delay=0.05)

    assert predict(load).queue_seconds == predict(replace(load, delay_seconds=0.0)).queue_seconds


def test_an_overloaded_stage_has_a_capacity_but_no_queue() -> None:
    forecast = predict(stage(60, constant(0.025), instances=1))

    assert not forecast.stable
    assert forecast.queue_seconds is None
    assert forecast.queue_high is None
    assert forecast.busy_share == 1.0
    assert forecast.capacity_per_second == pytest.approx(1 / 0.02515)
    assert any("cannot keep up" in text for text in forecast.assumptions)


def test_near_saturation_the_range_may_have_no_upper_end() -> None:
    forecast = predict(stage(39.5, constant(0.025)))

    assert forecast.stable
    assert forecast.queue_low is not None
    assert forecast.queue_high is None


def test_a_short_window_widens_the_range_near_saturation_only() -> None:
    busy, calm = stage(37.9, constant(0.0247)), stage(5, constant(0.0247))

    def width(load: StageLoad) -> float:
        forecast = predict(load)
        assert forecast.queue_high is not None
        assert forecast.queue_low is not None
        return forecast.queue_high - forecast.queue_low

    assert width(replace(busy, span_seconds=36)) > 2 * width(busy)
    assert width(replace(calm, span_seconds=36)) < 1.5 * width(calm)


def test_batches_never_seen_give_a_wide_range_that_says_why() -> None:
    unseen = predict(stage(200, constant(0.0044), max_batch=32, batching=True))
    seen = predict(stage(200, affine(0.0043, 0.0001), max_batch=32, batching=True))

    assert any("larger batches were not seen" in text for text in unseen.assumptions)
    assert unseen.queue_high is not None
    assert seen.queue_high is not None
    assert unseen.queue_high > 2 * seen.queue_high


class TestSharedDevice:
    now = stage(40, constant(0.022))

    def test_a_full_device_makes_further_instances_useless(self) -> None:
        full = headroom_limited(self.now, (0.0, 0.02))
        forecast = predict(replace(full, instances=4))

        assert forecast.capacity_per_second < 40 * 1.03
        assert forecast.compute_seconds > 2 * 0.022

    def test_throughput_grows_at_most_by_what_is_unused(self) -> None:
        half = headroom_limited(self.now, (0.5, 0.5))

        assert predict(replace(half, instances=50)).capacity_per_second == pytest.approx(80)

    def test_an_idle_device_leaves_service_times_alone(self) -> None:
        idle = headroom_limited(self.now, (0.97, 0.99))

        assert predict(replace(idle, instances=3)).compute_seconds == pytest.approx(0.022, rel=0.02)

    def test_an_unknown_headroom_is_stated(self) -> None:
        forecast = predict(replace(headroom_limited(self.now, None), instances=3))

        assert any("headroom is unknown" in text for text in forecast.assumptions)

    def test_the_stage_as_measured_is_unchanged(self) -> None:
        assert predict(headroom_limited(self.now, (0.1, 0.4))).compute_seconds == pytest.approx(0.022)


def test_the_busy_share_is_executions_times_their_time_over_all_instances() -> None:
    """Utilisation law: 40 requests/s of 25 ms and the dispatch gap each on two instances; then batches on one."""
    batched = stage(400.0, affine(0.002, 0.0), max_batch=8, batching=True, delay=0.01)
    forecast = predict(batched)
    size = forecast.batch_size_mean

    assert predict(stage(40.0, constant(0.025), instances=2)).busy_share == pytest.approx(40 * 0.02515 / 2, rel=1e-3)
    assert size > 1
    assert forecast.busy_share == pytest.approx(400 / size * 0.00215, rel=0.05)
