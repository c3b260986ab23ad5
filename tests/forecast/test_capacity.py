from __future__ import annotations

import pytest

from diagnostics.errors import UsageError
from diagnostics.forecast import capacity
from diagnostics.forecast.capacity import carried, most_carried, shortfall
from diagnostics.forecast.predict import performance
from diagnostics.forecast.target import LatencyTarget
from diagnostics.tuning.service import constant
from diagnostics.tuning.simulation.scenario import ClosedLoop, EngineModel, Model, OpenLoop
from tests.forecast.deployments import by_hand, service
from tests.forecast.tunable import VISITS, tunable, tune

TARGET = LatencyTarget.parse("p95 < 150ms")
SAFETY = Model(name="safety", service=service(0.045))
COUNT = "instance_group.count"
VARY = {"safety": {COUNT: (1, 2, 4)}}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs be as long as these settings need to be told apart."""
    monkeypatch.setattr(capacity, "VISITS", VISITS)


def test_more_instances_carry_in_proportion_and_a_load_at_its_limit_meets_the_target_barely() -> None:
    found = most_carried(tunable(SAFETY), TARGET, VARY)

    assert [one.instances for one in found] == [4, 2, 1]
    # Four serve more than four times what one does: they pool their queue.
    assert found[0].factor == pytest.approx(4 * found[2].factor, rel=0.7)
    assert found[0].factor > 4 * found[2].factor
    p95 = found[0].performance.p95
    assert p95 is not None
    assert 0.1 < p95.value < 0.15


def test_clients_of_a_closed_loop_are_answered_most_where_they_wait_least() -> None:
    found = most_carried(tunable(SAFETY, traffic=ClosedLoop(entry="chat", clients=3)), TARGET, VARY)

    # Three clients never keep more than three instances busy: a fourth brings nothing.
    assert [one.instances for one in found] == [4, 2, 1]
    assert found[0].per_second == pytest.approx(3 / 0.045, rel=0.05)


def test_settings_that_carry_the_same_are_reported_the_smallest_first() -> None:
    loop = ClosedLoop(entry="chat", clients=1)

    found = most_carried(tunable(SAFETY, traffic=loop), TARGET, VARY)

    assert [one.instances for one in found] == [1, 2, 4]


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(UsageError, match="600 combinations are too many"):
        most_carried(tunable(SAFETY), TARGET, {"safety": {COUNT: tuple(range(1, 601))}})


def test_a_target_below_an_execution_is_carried_at_no_load() -> None:
    assert carried(tunable(SAFETY), (), LatencyTarget.parse("p95 < 40ms")) is None


def test_what_execution_exceeds_is_reported_with_the_stage_that_takes_longest() -> None:
    fitted, target = tunable(Model(name="embedder", service=service(0.01)), SAFETY), LatencyTarget.parse("p95 < 50ms")
    nearest = tune(fitted, target, draws=0).nearest
    assert nearest is not None

    short = shortfall(fitted, nearest.changes, target, nearest.performance)

    assert short.slowest == "safety"
    assert short.excess(target) == pytest.approx(0.005, abs=0.002)
    assert short.replicas is None


@pytest.mark.parametrize(
    "traffic", [ClosedLoop(entry="chat", clients=640), OpenLoop(entry="chat", rate=2_000.0)], ids=["clients", "rate"]
)
def test_what_a_request_takes_alone_is_that_of_one_whatever_load_is_requested(traffic: ClosedLoop | OpenLoop) -> None:
    fitted = by_hand(SAFETY, traffic=traffic)
    found = performance(fitted, draws=0, visits=400)

    short = shortfall(fitted, (), LatencyTarget.parse("mean < 20ms"), found)

    assert short.alone == pytest.approx(SAFETY.service.time(1), rel=0.1)
    assert short.beside < 0.002


def test_an_engine_that_is_full_is_named_with_the_servers_that_would_do() -> None:
    engine = EngineModel(slots=4, prefill_seconds=0.0, iteration_seconds=0.02, iterations=20.0)
    fitted, target = tunable(Model(name="llm", service=constant(0.4), engine=engine)), LatencyTarget.parse("p95 < 1s")
    nearest = tune(fitted, target, draws=0).nearest
    assert nearest is not None

    short = shortfall(fitted, nearest.changes, target, nearest.performance)

    # Ten requests per second fill it; twenty come.
    assert (short.engine, short.excess(target)) == ("llm", None)
    assert short.replicas in (3, 4)


def test_a_gpu_that_is_full_is_named() -> None:
    fitted = tunable(Model(name="safety", service=service(0.06), instances=2, demand={"GPU": 1.0}), gpu=True)
    target = LatencyTarget.parse("p95 < 600ms")
    nearest = tune(fitted, target, draws=0).nearest
    assert nearest is not None

    short = shortfall(fitted, nearest.changes, target, nearest.performance)

    # 20 requests per second × 60 ms of the whole card.
    assert short.demanded["GPU"] == pytest.approx(1.2, rel=0.05)
    assert short.replicas == 2
