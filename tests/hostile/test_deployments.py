"""Ensembles and models that no server would load, or that are more than anybody has."""

from __future__ import annotations

import json
import time

import pytest

from diagnostics.render.explanation.json import report
from diagnostics.window.graph import graph_of
from diagnostics.wire.model_config import parse_model_config
from tests.builders import Stage, SyntheticTriton, chain, ensemble_config, model_config

LONG = 3000
SLOW = Stage("a", rate=40, execution=0.024, queue=0.17, config=model_config("a"))
CYCLE = ensemble_config("e", ("a", ("y",), ("x",)), ("b", ("x",), ("y",)))


def ensemble(config: dict[str, object]) -> Stage:
    return Stage("e", rate=40, overhead=0.3, config=config)


@pytest.mark.parametrize(
    "config",
    [
        CYCLE,
        chain("e", "a", "nowhere", "gone"),
        ensemble_config("e"),
        chain("e", "e"),
        {"name": "e", "platform": "ensemble", "ensemble_scheduling": {"step": [{}]}},
    ],
    ids=["cycle", "missing members", "no steps", "itself", "nameless step"],
)
def test_an_ensemble_that_cannot_be_still_has_an_explanation(config: dict[str, object]):
    explanation = SyntheticTriton(models=(SLOW, ensemble(config))).explain()
    assert json.dumps(report(explanation), allow_nan=False)
    assert {finding.subject.model for finding in explanation.actionable} <= {"a"}


@pytest.mark.parametrize(
    "lost", [ensemble_config("e"), {"name": "e", "platform": "ensemble", "ensemble_scheduling": {"step": [{}]}}]
)
def test_an_ensemble_whose_steps_are_lost_has_no_time_between_them(lost: dict[str, object]):
    """Its row is that of members that are not known: what they do not account for is not its own."""
    member = Stage("m", rate=40, execution=0.09, config=model_config("m"))
    explanation = SyntheticTriton(models=(member, Stage("e", rate=40, overhead=0.1, config=lost))).explain()

    assert explanation.actionable == ()
    assert any("of the ensemble" in spot.why or "has no steps" in spot.why for spot in explanation.blind_spots)


def test_a_cycle_is_taken_as_written():
    config = parse_model_config(json.dumps(CYCLE).encode())
    assert graph_of({"e": config}).ensembles["e"].models() == ("a", "b")


def test_an_ensemble_of_thousands_of_steps_is_ordered_in_seconds():
    steps = [(f"m{i}", (f"t{i}",), (f"t{i + 1}",)) for i in reversed(range(LONG))]
    config = parse_model_config(json.dumps(ensemble_config("e", *steps)).encode())
    begun = time.process_time()
    models = graph_of({"e": config}).ensembles["e"].models()
    assert time.process_time() - begun < 5
    assert models == tuple(f"m{i}" for i in range(LONG))
