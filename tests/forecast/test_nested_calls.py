"""Deployments in which a model calls others from inside: nothing is promised of what is not simulated."""

from __future__ import annotations

import pytest

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.proof import proved
from diagnostics.forecast.fitted import Fitted, Unpredictable
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.predict import forecast
from diagnostics.forecast.search import tune
from diagnostics.forecast.target import Target
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.render.explanation.text import text
from diagnostics.signals.subject import Subject
from diagnostics.tuning.changes import ConfigChange, Setting
from tests.builders import SERVER, Stage, SyntheticTriton, chain, model_config


def several(name: str, count: int) -> dict[str, object]:
    return model_config(name, groups=[{"kind": "KIND_CPU", "count": count}])


# Twelve instances, each of which waits for the one of `safety`: 24.5 requests per second of 40 ms.
GUARD = Stage("guard", rate=24.5, execution=0.489, queue=0.3, config=several("guard", 12))
SAFETY = Stage("safety", rate=24.5, execution=0.04, queue=0.447, config=several("safety", 1))
PRE = Stage("pre", rate=24.5, execution=0.004, config=several("pre", 1))
CHAT = Stage("chat", rate=24.5, execution=0.5, overhead=0.3, config=chain("chat", "pre", "guard"))


def told(*stages: Stage) -> Explanation:
    return SyntheticTriton(models=stages, before=0.0, interval=2.0).explain(reads=16)


def fitted(entry: str, *stages: Stage) -> Fitted:
    ensemble = entry == CHAT.name
    on = Subject(server=SERVER, ensemble=entry if ensemble else None, model=None if ensemble else entry)
    return fit(told(*stages).evidence, on)


def raised(model: str, count: int) -> WhatIf:
    return WhatIf(changes=(ConfigChange(model=model, settings=(Setting(path="instance_group.count", value=count),)),))


CALLS = "guard calls safety from inside its executions, which is not simulated"


@pytest.mark.parametrize("entry", ["guard", "safety"])
def test_neither_a_caller_nor_what_it_calls_is_said_to_get_no_requests(entry: str) -> None:
    with pytest.raises(Unpredictable, match=CALLS):
        fitted(entry, GUARD, SAFETY)


@pytest.mark.parametrize("change", [raised("guard", 13), raised("safety", 2), WhatIf(rate_factor=1.5)])
def test_no_gain_is_promised_of_what_changes_the_wait_inside_a_caller(change: WhatIf) -> None:
    with pytest.raises(Unpredictable, match=CALLS):
        changed(fitted("chat", CHAT, PRE, GUARD, SAFETY), change)


def test_another_stage_and_less_load_are_forecast_as_ever() -> None:
    ground = fitted("chat", CHAT, PRE, GUARD, SAFETY)

    assert forecast(ground, raised("pre", 2), draws=2).predicted.entry == "chat"
    assert changed(ground, WhatIf(rate_factor=0.8)).scenario.traffic != ground.scenario.traffic


def test_a_search_leaves_callers_and_what_they_call_as_they_are() -> None:
    found = tune(fitted("chat", CHAT, PRE, GUARD, SAFETY), Target.parse("p95<500ms"))
    shown = [one for one in (found.best, found.nearest, *found.runners_up) if one is not None]

    assert shown
    assert not {"guard", "safety"} & {change.model for one in shown for change in one.changes}


@pytest.mark.parametrize("stages", [(GUARD, SAFETY), (CHAT, PRE, GUARD, SAFETY)])
def test_a_full_callee_stays_the_cause_when_forecasts_judge(stages: tuple[Stage, ...]) -> None:
    """A simulation in which nobody calls it says that its instances save nothing: it does not count."""
    explanation = proved(told(*stages))

    assert [(one.check, one.subject.model) for one in explanation.loud] == [("single-instance-serialization", "safety")]
    assert CALLS in " ".join(text(explanation).split())
    assert "no request was completed" not in text(explanation)
