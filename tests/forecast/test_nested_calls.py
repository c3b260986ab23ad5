"""Deployments in which a model calls others from inside: its instance is held while its callee queues and executes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import EndToEnd
from diagnostics.diagnosis.validation import validated
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted, ModelDoubt, Unpredictable
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import forecast, performance, unlike
from diagnostics.forecast.search import tune
from diagnostics.forecast.target import LatencyTarget
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import SettingValue
from diagnostics.tuning.simulation.scenario import EntryGraph, ModelVisit, OpenLoop
from tests.builders import SERVER, Stage, SyntheticTriton, chain, model_config
from tests.forecast.deployments import by_hand, change
from tests.tuning.simulated import model

COUNT = "instance_group.count"


def several(name: str, count: int) -> dict[str, object]:
    return model_config(name, groups=[{"kind": "KIND_CPU", "count": count}])


# Twelve instances, each of which waits for the one of `safety`: 24.5 requests per second of 40 ms.
GUARD = Stage("guard", rate=24.5, execution=0.489, queue=0.3, config=several("guard", 12))
SAFETY = Stage("safety", rate=24.5, execution=0.04, queue=0.447, config=several("safety", 1))
PRE = Stage("pre", rate=24.5, execution=0.004, config=several("pre", 1))
CHAT = Stage("chat", rate=24.5, execution=0.5, overhead=0.3, config=chain("chat", "pre", "guard"))
# Either is an entry, with the seconds of a request that has nobody beside it.
ENTRIES = [("guard", (GUARD, SAFETY), 0.042), ("chat", (CHAT, PRE, GUARD, SAFETY), 0.053)]
# Two instances that call two models in turn, which have room.
WRAPPER = Stage("wrapper", rate=43, execution=0.041, queue=0.1, config=several("wrapper", 2))
FIRST = Stage("first", rate=43, execution=0.016, config=several("first", 3))
SECOND = Stage("second", rate=43, execution=0.023, config=several("second", 3))


def reported(*stages: Stage) -> Explanation:
    return SyntheticTriton(models=stages, before=0.0, interval=2.0).explain(reads=16)


def fitted(entry: str, *stages: Stage) -> Fitted:
    ensemble = entry == CHAT.name
    on = Subject(server=SERVER, ensemble=entry if ensemble else None, model=None if ensemble else entry)
    return fit(reported(*stages).evidence, on)


def set_to(model: str, path: str, value: SettingValue) -> WhatIf:
    return WhatIf(changes=(change(model, {path: value}),))


def raised(model: str, count: int) -> WhatIf:
    return set_to(model, COUNT, count)


def mean(found: Performance) -> float:
    assert found.mean is not None
    return found.mean.value


def after(ground: Fitted, what_if: WhatIf) -> float:
    return mean(performance(ground, what_if, draws=0))


def test_an_execution_is_its_own_part_and_its_calls() -> None:
    ground = fitted("guard", GUARD, SAFETY)
    own = next(one for one in ground.scenario.models if one.name == "guard")

    assert ground.scenario.calls == {"guard": ("safety",)}
    assert own.service.time(1) == pytest.approx(0.002, abs=1e-4)
    assert any("487 ms in calls of safety, while it holds its instance" in stated for stated in ground.assumptions)


@pytest.mark.parametrize(("entry", "stages", "_alone"), ENTRIES)
def test_the_window_as_it_was_is_reproduced(entry: str, stages: tuple[Stage, ...], _alone: float) -> None:
    ground = fitted(entry, *stages)

    assert unlike(ground.measured.mean, performance(ground)) == ()


@pytest.mark.parametrize(("entry", "stages", "alone"), ENTRIES)
def test_only_the_full_callees_instances_shorten_requests(entry: str, stages: tuple[Stage, ...], alone: float) -> None:
    ground = fitted(entry, *stages)
    now = after(ground, WhatIf())

    # M/D/2 at 49 %: a queue of 6 ms.
    assert after(ground, raised("safety", 2)) == pytest.approx(alone + 0.007, abs=0.004)
    assert after(ground, raised("guard", 24)) == pytest.approx(now, rel=0.02)
    both = WhatIf(changes=(*raised("safety", 2).changes, *raised("guard", 24).changes))
    assert after(ground, both) == pytest.approx(after(ground, raised("safety", 2)), rel=0.02)


def test_callees_with_room_leave_the_gain_to_the_callers_instances() -> None:
    ground = fitted("wrapper", WRAPPER, FIRST, SECOND)
    now = after(ground, WhatIf())

    assert now > 0.08
    assert after(ground, raised("wrapper", 4)) == pytest.approx(0.043, abs=0.004)
    assert after(ground, raised("first", 6)) == pytest.approx(now, rel=0.05)


def test_more_load_than_the_callee_can_do_has_no_steady_state() -> None:
    found = performance(fitted("guard", GUARD, SAFETY), WhatIf(rate_factor=1.5), draws=0)

    assert [(one.model, one.stable) for one in found.stages] == [("guard", True), ("safety", False)]
    assert found.mean is None


def test_batches_of_a_callers_requests_are_not_forecast() -> None:
    batching = replace(GUARD, config={**several("guard", 12), "max_batch_size": 8})

    with pytest.raises(Unpredictable, match="how often an execution of several requests does is not known"):
        changed(fitted("guard", batching, SAFETY), set_to("guard", "dynamic_batching", True))


def test_a_callee_has_no_requests_of_its_own() -> None:
    with pytest.raises(Unpredictable, match="guard calls it from inside its executions") as refused:
        fitted("safety", GUARD, SAFETY)
    assert refused.value.hint == "forecast guard"


def test_calls_beside_each_other_are_not_forecast() -> None:
    """What both take does not fit into an execution one after the other."""
    caller = Stage("caller", rate=20, execution=0.042, queue=0.1, config=several("caller", 1))
    longer, shorter = (
        Stage(name, rate=20, execution=seconds, config=several(name, 2))
        for name, seconds in (("longer", 0.04), ("shorter", 0.03))
    )
    with pytest.raises(Unpredictable, match="calls longer and shorter from inside its executions: parallel calls"):
        fitted("caller", caller, longer, shorter)


def test_what_is_not_forecast_leaves_the_stages_beside_it() -> None:
    batching = {**several("guard", 12), "max_batch_size": 8, "dynamic_batching": {}}
    ground = fitted("chat", CHAT, PRE, replace(GUARD, config=batching), SAFETY)
    why = "guard calls safety from inside its executions: how many calls an execution of several requests makes"

    for refused in (raised("guard", 13), raised("safety", 2), WhatIf(rate_factor=1.5)):
        with pytest.raises(Unpredictable, match=why):
            changed(ground, refused)
    assert forecast(ground, raised("pre", 2), draws=2).predicted.entry == "chat"
    assert changed(ground, WhatIf(rate_factor=0.8)).scenario.traffic != ground.scenario.traffic
    found = tune(ground, LatencyTarget.parse("p95<500ms"))
    shown = [one for one in (found.best, found.nearest, *found.runners_up) if one is not None]
    assert not {"guard", "safety"} & {change.model for one in shown for change in one.changes}


@pytest.mark.parametrize(("entry", "stages", "_alone"), ENTRIES)
def test_a_search_finds_the_full_callee(entry: str, stages: tuple[Stage, ...], _alone: float) -> None:
    found = tune(fitted(entry, *stages), LatencyTarget.parse("p95<200ms"))

    assert found.best is not None
    assert found.best.changes == raised("safety", 2).changes


def test_a_search_finds_the_caller_that_waits_for_callees_with_room() -> None:
    found = tune(fitted("wrapper", WRAPPER, FIRST, SECOND), LatencyTarget.parse("p95<100ms"))

    assert found.best is not None
    assert found.best.changes == raised("wrapper", 3).changes


@pytest.mark.parametrize(("_entry", "stages", "alone"), ENTRIES)
def test_a_full_callee_stays_the_cause_when_forecasts_judge(
    _entry: str, stages: tuple[Stage, ...], alone: float
) -> None:
    explanation = validated(reported(*stages))
    (first,) = explanation.actionable

    assert (first.check, first.subject.model) == ("single-instance-serialization", "safety")
    assert isinstance(first.effect, EndToEnd)
    assert first.effect.simulated
    assert first.effect.mean.value == pytest.approx(alone + 0.007, abs=0.004)
    assert first.confidence > 0.9


def test_a_caller_whose_callees_have_room_stays_the_cause_when_forecasts_judge() -> None:
    (first,) = validated(reported(WRAPPER, FIRST, SECOND)).actionable

    assert (first.check, first.subject.model) == ("bls-serialization", "wrapper")
    assert isinstance(first.effect, EndToEnd)
    assert first.effect.mean.value < 0.06


def test_a_window_that_calls_do_not_explain_judges_nothing_and_leaves_no_sure_cause() -> None:
    """At 61 % of what it can do the callee makes nobody wait for 2 seconds."""
    guard = replace(GUARD, execution=0.402, queue=2.0, rate=15.2)
    safety = replace(SAFETY, queue=0.36, rate=15.2)
    for finding in validated(reported(guard, safety)).actionable:
        assert finding.confidence <= 0.6
        assert "The simulation gives" in finding.doubt


@pytest.mark.parametrize(
    ("instances", "callees", "rate", "own", "seconds", "times"),
    [
        (12, 1, 20, 0.002, 0.04, 1),
        (4, 1, 22, 0.002, 0.04, 1),
        (1, 1, 12, 0.02, 0.04, 1),
        (12, 2, 30, 0.01, 0.05, 1),
        (6, 1, 10, 0.01, 0.03, 2),
        (2, 4, 25, 0.004, 0.05, 1),
    ],
)
def test_formulas_and_simulation_agree_within_a_third(
    instances: int, callees: int, rate: float, own: float, seconds: float, times: int
) -> None:
    steps = (
        ModelVisit(model="caller"),
        *(ModelVisit(model="callee", after=(place,), caller=0) for place in range(times)),
    )
    models = (model(own, name="caller", instances=instances), model(seconds, name="callee", instances=callees))
    ground = by_hand(*models, traffic=OpenLoop(entry="chat", rate=rate))
    doubt = replace(ground.doubt, models={one.name: ModelDoubt(service_scv=(0.0, 0.0)) for one in models})
    scenario = replace(ground.scenario, entries=(EntryGraph(name="chat", steps=steps),))
    ground = replace(ground, doubt=doubt, scenario=scenario)

    assert mean(estimate(ground)) == pytest.approx(after(ground, WhatIf()), rel=1 / 3)
