"""What suggestions would do, and causes that are none because their change would not help."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial

import jsonschema
import msgspec
import pytest

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Claim, Fires, Quiet, Suggestion
from diagnostics.diagnosis.explanation import Explanation, Verdict, with_results
from diagnostics.diagnosis.finding import EndToEnd, Unpredicted
from diagnostics.diagnosis.predicting import intervened, outside
from diagnostics.diagnosis.validation import CpuBudget, ForecastCache, validated
from diagnostics.forecast.fitted import Fitted, MeasuredStage
from diagnostics.render.explanation.json import report, schema
from diagnostics.render.explanation.why_not import account
from diagnostics.tuning.changes import ConfigChange
from diagnostics.tuning.simulation.scenario import ClosedLoop, Model, OpenLoop
from tests.builders import Stage, SyntheticTriton, model_config
from tests.forecast.deployments import by_hand, change, service
from tests.render.shown import text
from tests.render.situations import pipeline

SINGLE = "single-instance-serialization"


@cache
def degraded() -> Explanation:
    return pipeline("safety").explain()


@cache
def reported() -> Explanation:
    return validated(degraded())


def advising(made: ConfigChange | None) -> Explanation:
    """Return the explanation as if the check had advised something else."""

    def results() -> Iterator[object]:
        for one in degraded().results:
            fires = one.fires
            if fires is None or fires.suggestion is None:
                yield one
                continue
            suggestion = replace(fires.suggestion, change=made, prediction=None)
            yield msgspec.structs.replace(one, outcome=replace(fires, suggestion=suggestion))

    return with_results(degraded(), list(results()))  # type: ignore[arg-type]


def test_a_suggestion_tells_what_it_does_to_the_whole_request() -> None:
    """The queue of 170 ms before an execution of 24.5 ms at 93 % goes; 24.5 + 3 x 4 ms of work and the rest stay."""
    effect = reported().findings[0].effect

    assert isinstance(effect, EndToEnd)
    assert effect.simulated
    assert effect.now_mean == pytest.approx(0.211, abs=0.002)
    assert effect.mean.low <= effect.mean.value <= (effect.mean.high or 0.0)
    assert 0.032 < effect.mean.value < 0.06


def test_what_is_shown_of_the_stage_is_of_the_same_forecast() -> None:
    finding = reported().findings[0]

    assert isinstance(finding.effect, EndToEnd)
    assert finding.suggestion is not None
    assert finding.suggestion.prediction == finding.effect.stage
    assert degraded().findings[0].suggestion != finding.suggestion


def test_the_line_and_the_contract_hold_both_ends() -> None:
    stated, made = " ".join(text(reported()).split()), json.loads(json.dumps(report(reported())))
    prediction = made["findings"][0]["suggestion"]["prediction"]

    assert "predicted end to end: measured mean 211 ms → " in stated
    assert "predicted mean of" not in stated
    assert prediction["end_to_end"]["mean_seconds"]["interval90"][0] <= prediction["end_to_end"]["mean_seconds"]["now"]
    jsonschema.validate(made, json.loads(schema()))


def test_every_suggestion_is_simulated() -> None:
    slow = [
        Stage(name, rate=38, execution=0.0245, queue=0.17, config=model_config(name)) for name in ("first", "second")
    ]
    found = validated(SyntheticTriton(models=tuple(slow)).explain()).findings

    assert {one.subject.model for one in found} == {"first", "second"}
    assert all(isinstance(one.effect, EndToEnd) and one.effect.simulated for one in found)


def test_closed_forms_tell_where_nothing_may_be_simulated() -> None:
    effect = validated(degraded(), simulate=False).findings[0].effect

    assert isinstance(effect, EndToEnd)
    assert not effect.simulated


def test_a_cause_whose_change_would_not_help_is_none() -> None:
    """More instances of a stage that idles shorten nothing."""
    explanation = validated(advising(change("side", {"instance_group.count": 4})))
    (result,) = [one for one in explanation.results if one.check.id == SINGLE and one.subject.model == "safety"]

    assert explanation.findings == ()
    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert isinstance(result.outcome, Quiet)
    assert "decided by simulated_saving_at_most" in account([result])


def test_a_window_that_the_model_does_not_account_for_refutes_nothing() -> None:
    """A queue of seconds at half load has a reason that is not simulated: the check is believed."""
    slow = pipeline("safety")
    stages = tuple(replace(one, execution=0.012, queue=3.0) if one.name == "safety" else one for one in slow.models)
    stages = tuple(replace(one, execution=3.03) if one.name == "chat" else one for one in stages)
    explanation = replace(slow, models=stages).explain()
    odd = [finding for finding in explanation.findings if finding.suggestion and finding.suggestion.change]

    assert [one.id for one in validated(explanation).findings] == [one.id for one in explanation.findings]
    assert all(one.suggestion for one in odd)


def test_a_change_that_is_not_simulated_says_so_and_keeps_its_finding() -> None:
    explanation = validated(advising(change("safety", {"version_policy": "specific:1"})))
    effect = explanation.findings[0].effect

    assert isinstance(effect, Unpredicted)
    assert "version_policy" in effect.because
    assert "end to end not predicted: version_policy" in text(explanation, verbose=True)


def test_what_the_budget_does_not_reach_is_reported_as_not_proven_and_requested_again() -> None:
    memory = ForecastCache()
    hasty = validated(degraded(), memory=memory, budget=CpuBudget(seconds=0.0)).findings[0].effect

    assert isinstance(hasty, Unpredicted)
    assert hasty.because == "forecasts for one verdict stop after 0 ms of CPU time; diag whatif predicts it"
    assert isinstance(validated(degraded(), simulate=False, memory=memory).findings[0].effect, EndToEnd)


def test_on_an_overloaded_machine_forecasts_stop_by_the_wall_clock() -> None:
    steady = iter(range(0, 1_000_000, 9))
    budget = CpuBudget(wall_seconds=15.0, clock=lambda: 0.0, steady=lambda: next(steady))

    assert [budget.spent, budget.spent, budget.spent] == [False, False, True]
    assert budget.limit == "15 s"
    assert not CpuBudget(wall_seconds=15.0).spent, "the first question is answered"


def test_a_forecast_that_would_not_end_is_reported_and_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.tuning.simulation.clock.MOST_EVENTS", 500)
    found = validated(degraded()).findings[0]

    assert isinstance(found.effect, Unpredicted)
    assert "cannot be forecast" in found.effect.because
    assert found.id == degraded().findings[0].id


def test_a_running_service_asks_once_for_what_stays() -> None:
    requested, memory = list[int](), ForecastCache(seconds=60.0)

    for now in (0.0, 30.0, 61.0):
        memory.of("key", now, lambda: requested.append(1))

    assert len(requested) == 2


def test_a_running_service_asks_anew_once_requests_take_another_time() -> None:
    requested, memory = list[float](), ForecastCache()

    for now, mean in ((0.0, 0.2), (15.0, 0.22), (30.0, 0.24), (45.0, 0.26), (60.0, 0.1)):
        memory.of("key", now, partial(requested.append, mean), mean)

    assert requested == [0.2, 0.24, 0.1]


def before_full(**last: float) -> Unpredicted:
    """Return what more instances of one stage do before another that is offered what it can do, by formulas."""
    changed: Mapping[str, Mapping[str, float]] = {
        "last": {"execution": 0.0263, "queue": 0.3, "pending": 11.0, **last},
        "chat": {"execution": 0.53},
    }
    models = tuple(replace(one, **changed.get(one.name, {})) for one in pipeline("safety").models)  # type: ignore[arg-type]
    reported = validated(SyntheticTriton(models=models).explain(), simulate=False)
    (effect,) = (one.effect for one in reported.findings if (one.check, one.subject.model) == (SINGLE, "safety"))
    assert isinstance(effect, Unpredicted)
    return effect


def test_a_queue_that_did_not_grow_is_not_called_endless() -> None:
    """Clients who wait for their answers keep a stage as busy as it gets, too."""
    steady, growing = before_full(), before_full(pending_growth=1.0)

    assert "it is not known whether last keeps up" in steady.because
    assert "trace every request" in steady.because
    assert not steady.overrules
    assert "last is offered more than it can do: a queue would grow without end" in growing.because
    assert growing.overrules


def fires(*claims: Claim, **more: float) -> Fires:
    return Fires(summary="", claims=claims, **more)  # type: ignore[arg-type]


LANE = Model(name="safety", service=service(0.02))


def follow(fitted: Fitted, suggestion: Suggestion, *claims: Claim) -> Fitted:
    made = intervened(fitted, fires(*claims), suggestion, None)
    assert isinstance(made, Fitted)
    return made


def test_a_part_of_the_load_is_a_part_of_what_comes_or_of_the_clients() -> None:
    half = Suggestion(text="serve it from two", load=0.5)
    loop = by_hand(LANE, traffic=ClosedLoop(entry="chat", clients=5))
    (opened,), (closed,) = (follow(one, half).scenario.traffic for one in (by_hand(LANE), loop))

    assert isinstance(opened, OpenLoop)
    assert opened.rate == 10.0
    assert isinstance(closed, ClosedLoop)
    assert closed.clients == 3


def test_a_relief_shortens_executions_by_what_was_claimed() -> None:
    fitted = by_hand(LANE)
    stage = MeasuredStage(model="safety", queue_mean=0.1, compute_mean=0.02, busy_share=0.4, batch_size_mean=1.0)
    fitted = replace(fitted, measured=replace(fitted.measured, stages=(stage,)))
    claims = [
        Claim(stage="safety", phase=phase, seconds=seconds)
        for phase, seconds in ((Phase.COMPUTE, 0.005), (Phase.QUEUE, 9))
    ]
    made = follow(fitted, Suggestion(text="stop the neighbour", relieves=True), *claims)

    assert made.scenario.models[0].service.time(1) == pytest.approx(0.015)


def test_what_nothing_can_be_reported_of_says_why_or_has_no_cost() -> None:
    costly, failing, free = outside(fires(), 0.1), outside(fires(failed_share=0.2), 0.0), outside(fires(), 0.0)

    assert costly is not None
    assert "at most 100 ms" in costly.because
    assert failing is not None
    assert free is None
