"""TensorRT's two executions in flight: simulation and closed forms say the same of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.forecast import load
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.predict import performance
from diagnostics.tuning.simulation import stability
from diagnostics.tuning.simulation.scenario import DynamicBatcher, Model, OpenLoop
from tests.builders import model_config
from tests.forecast.deployments import by_hand, plain, service, synthetic

PLAN = Model(name="plan", service=service(0.009, 0.001), max_batch=8, in_flight=2)
BATCHING = replace(PLAN, batcher=DynamicBatcher())


@pytest.mark.parametrize(
    ("model", "rate"),
    [(PLAN, 50.0), (PLAN, 80.0), (replace(PLAN, instances=2), 160.0), (BATCHING, 200.0), (BATCHING, 320.0)],
)
def test_what_computes_one_after_the_other_waits_as_long_by_both(model: Model, rate: float) -> None:
    fitted = by_hand(model, traffic=OpenLoop(entry="chat", rate=rate))
    reported, quick = performance(fitted, draws=0, visits=8_000), estimate(fitted)

    assert reported.mean
    assert quick.mean
    assert quick.mean.value == pytest.approx(reported.mean.value, rel=0.1)
    assert reported.stages[0].busy_share.value <= 1.0
    assert quick.stages[0].busy_share.value == pytest.approx(reported.stages[0].busy_share.value, rel=0.05)
    # Part of the wait is inside the execution by both.
    assert quick.stages[0].compute_mean.value == pytest.approx(reported.stages[0].compute_mean.value, rel=0.2)
    assert quick.stages[0].compute_mean.value > model.service.time(1) * 1.1


def test_a_tensorrt_plan_is_fitted_with_two_executions_in_flight_and_says_what_its_times_include() -> None:
    fitted = synthetic(plain("plan", config=model_config("plan", backend="tensorrt", max_batch=8)))

    assert fitted.scenario.models[0].in_flight == 2
    assert any("two executions of plan at once" in stated for stated in fitted.assumptions)


@pytest.mark.parametrize("model", [PLAN, BATCHING, replace(BATCHING, instances=3)])
def test_two_in_flight_hide_the_gap_and_double_nothing(model: Model) -> None:
    most = load.capacity(model)

    assert most == pytest.approx(stability.capacity(model))
    assert most == pytest.approx(model.instances * (8 / 0.017 if model.batcher else 1 / 0.010))
    full = by_hand(model, traffic=OpenLoop(entry="chat", rate=most * 1.05))
    assert not estimate(full).stable
    assert not performance(full, draws=0, visits=2_000).stable
