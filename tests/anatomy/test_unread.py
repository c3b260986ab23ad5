"""Ensembles whose configuration was not read: whether a stage is worth a change to those who wait is not known then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.checks.check import Fires, Outcome, Unknown
from diagnostics.signals.signal import Missing
from tests.builders import Stage, SyntheticTriton, model_config

# Of 60 ms that it takes, 40 are waited.
PRE = Stage("pre", rate=40, execution=0.02, queue=0.04, config=model_config("pre"))
CHAT = Stage("chat", rate=40, execution=0.06, overhead=0.44)


def stated(*rows: Stage) -> Outcome:
    results = SyntheticTriton(models=(PRE, *rows)).explain().results
    (found,) = [r.outcome for r in results if (r.check.id, r.subject.model) == ("single-instance-serialization", "pre")]
    return found


def test_a_wait_that_is_little_of_what_an_unread_ensemble_may_take_is_unknown() -> None:
    found = stated(CHAT)

    assert isinstance(found, Unknown)
    assert (found.signal, found.reason) == ("request_seconds", Missing.NOT_EXPORTED)


@pytest.mark.parametrize(
    "row",
    [
        replace(CHAT, overhead=0.05),
        replace(CHAT, execution=0.01),
        replace(CHAT, execution=0.46, overhead=0.03),
        replace(CHAT, queue=0.001),
        replace(CHAT, rate=15),
        replace(CHAT, config=model_config("chat", backend="onnxruntime")),
    ],
    ids=["much of it", "too little compute", "no queue in it", "it queues", "of others", "a model"],
)
def test_a_row_that_does_not_take_it_in_or_is_a_models_changes_nothing(row: Stage) -> None:
    assert isinstance(stated(row), Fires)
