from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.diagnosis import run
from diagnostics.render.explanation.why_not import account
from diagnostics.service.http.answers import why_answer
from diagnostics.service.state import Evaluation
from tests.builders import Stage, SyntheticTriton, model_config


def test_a_result_at_rest_notes_anew_once_for_an_answer_and_once_for_an_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    triton = SyntheticTriton(models=tuple(Stage(name, rate=5, config=model_config(name)) for name in ("one", "two")))
    explanation = triton.explain()
    results = [one for one in run.without_ledgers(explanation.results) if one.check.id == "cold-start"]
    light = replace(explanation, results=tuple(results))
    evaluation = Evaluation(deployment="d", at=0.0, took=0.0, lag=0.0, explanation=light)
    requested: Counter[str | None] = Counter()
    decide = run.decide

    def counted(*arguments: object) -> object:
        requested[arguments[2].model] += 1  # type: ignore[attr-defined]
        return decide(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "decide", counted)
    answer = why_answer(evaluation, catalogue()["cold-start"])
    assert requested == {"one": 1, "two": 1}
    assert [one.outcome for one in answer.subjects] == ["quiet", "quiet"]
    assert all(one.lines for one in answer.subjects)
    assert account(results) == answer.account
    assert requested == {"one": 2, "two": 2}
    assert not any(one.noted.lines for one in results)
