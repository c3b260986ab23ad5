"""Causes that a forecast corrects, refutes or doubts."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import jsonschema
import pytest

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import EndToEnd, corrected
from diagnostics.diagnosis.validation import DOUBTED_CONFIDENCE, ForecastCache, ForecastCheck, validated
from diagnostics.render.explanation.html import html
from diagnostics.render.explanation.json import report, schema
from tests.builders import Stage, SyntheticTriton, ensemble_config, model_config
from tests.render.shown import markdown, text
from tests.render.situations import pipeline


def slowed(queue: float) -> Explanation:
    """Return a stage that is busy three quarters of the time, before which requests wait for so long."""
    server = pipeline("safety")
    seconds = {"safety": {"execution": 0.02, "queue": queue}, "chat": {"execution": queue + 0.028}}
    return replace(server, models=tuple(replace(one, **seconds.get(one.name, {})) for one in server.models)).explain()  # type: ignore[arg-type]


@cache
def doubted() -> Explanation:
    return validated(slowed(5.4))


def test_no_cause_is_sure_that_the_model_of_the_window_does_not_hold() -> None:
    """At 76 % an instance makes requests wait some tens of milliseconds, not for 5.4 seconds."""
    before, after = slowed(5.4).actionable[0], doubted().actionable[0]

    assert before.confidence > 0.9
    assert after.check == before.check
    assert after.confidence == DOUBTED_CONFIDENCE
    assert after.doubt.startswith("The simulation gives ")
    assert "5.43 s was measured. Treat this prediction as rough." in after.doubt


def test_a_service_doubts_what_the_command_doubts() -> None:
    memory = ForecastCache()
    service = validated(slowed(5.4), simulate=False, memory=memory)
    again = validated(slowed(5.4), simulate=False, memory=memory)

    assert [one.confidence for one in service.actionable] == [one.confidence for one in doubted().actionable]
    assert [one.doubt for one in again.actionable] == [one.doubt for one in service.actionable]


def test_the_first_lines_say_so() -> None:
    first_lines = " ".join(" ".join(text(doubted()).splitlines()[:6]).split())
    made = json.loads(json.dumps(report(doubted())))

    assert "5.43 s was measured. Treat this prediction as rough. Check the cause before you act on it." in first_lines
    assert "5.43 s was measured" in markdown(doubted()).split("###")[0]
    assert "5.43 s was measured" in html(doubted()).split("<main>")[0]
    assert made["findings"][0]["doubt"] == doubted().actionable[0].doubt
    jsonschema.validate(made, json.loads(schema()))


def test_a_queue_as_long_as_the_model_has_it_leaves_no_doubt() -> None:
    explanation = validated(slowed(0.04))

    assert explanation.actionable[0].doubt == ""
    assert explanation.actionable[0].confidence > 0.9
    assert "The simulation gives" not in text(explanation)


def test_a_stage_that_is_offered_more_than_it_can_do_is_waited_for_without_end() -> None:
    """What the model calls unstable has no mean to hold the measured one against."""
    server = pipeline("safety")
    full = {"safety": {"execution": 0.0262, "queue": 8.0, "pending_growth": 2.0}, "chat": {"execution": 8.04}}
    models = tuple(replace(one, **full.get(one.name, {})) for one in server.models)  # type: ignore[arg-type]
    first = validated(replace(server, models=models).explain()).actionable[0]

    assert first.doubt == ""
    assert first.confidence > 0.9


@pytest.mark.parametrize(("beyond", "seconds", "doubts"), [(0.2, 0.3, True), (0.1, 0.3, False), (0.2, 0.0, False)])
def test_a_cause_is_doubted_where_most_of_what_it_is_stated_to_cost_is_not_held(
    beyond: float, seconds: float, doubts: bool
) -> None:
    assert ForecastCheck(beyond=beyond, stated="The simulation gives otherwise").contradicts(seconds) is doubts


def test_what_a_finding_takes_is_no_more_than_its_change_saves() -> None:
    first = slowed(0.04).actionable[0]

    assert corrected(first, 0.01).impact.seconds_per_request == 0.01
    assert corrected(first, 0.01).impact.share_of_latency == pytest.approx(0.01 / first.impact.mean_seconds)
    assert corrected(first, 1.0) == first


FORK = (("first", ("in",), ("a",)), ("left", ("a",), ("b",)), ("right", ("a",), ("c",)), ("last", ("b", "c"), ("out",)))


def two_full_branches(right: float = 0.0245, rate: float = 38) -> SyntheticTriton:
    """Return an ensemble with two branches, each of one instance that is busy nearly all the time."""
    members = [
        Stage("left", rate=rate, execution=0.0245, queue=0.17, config=model_config("left")),
        Stage("right", rate=rate, execution=right, queue=0.17, config=model_config("right")),
        *(Stage(name, rate=rate, execution=0.004, config=model_config(name)) for name in ("first", "last")),
    ]
    whole = Stage("chat", rate=rate, execution=0.22, overhead=0.001, config=ensemble_config("chat", *FORK))
    return SyntheticTriton(models=(*members, whole))


def test_of_branches_that_hide_each_other_both_are_the_cause() -> None:
    """Neither's instance alone saves what is worth a change: requests wait for the other branch as long."""
    explanation = validated(two_full_branches().explain())
    single = {one.subject.model: one for one in explanation.actionable if one.check == "single-instance-serialization"}

    assert set(single) == {"left", "right"}
    effect = explanation.actionable[0].effect
    assert isinstance(effect, EndToEnd)
    assert effect.mean.value < 0.07
    assert any("made together: neither helps alone" in stated for stated in effect.assumptions)
