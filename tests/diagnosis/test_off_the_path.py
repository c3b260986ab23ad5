"""Branches beside each other: what requests do not wait for costs nothing, in a command and in a service."""

from __future__ import annotations

import pytest

from diagnostics.checks.check import Quiet
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.validation import validated
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.predict import forecast
from diagnostics.forecast.what_if import WhatIf
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import ConfigChange, Setting
from tests.builders import SERVER, Stage, SyntheticTriton, ensemble_config, model_config
from tests.render.shown import text

FORK = (("first", ("in",), ("a",)), ("left", ("a",), ("b",)), ("right", ("a",), ("c",)), ("last", ("b", "c"), ("out",)))
RATE = 38.0
# Its requests wait 26 ms for a window, of which nothing is seen where the other branch takes 100 ms.
WINDOW = Stage(
    "right",
    rate=RATE,
    execution={1: 0.003, 2: 0.0032},
    batches={1: 0.5, 2: 0.5},
    queue=0.0259,
    config=model_config("right", max_batch=8, batching={"max_queue_delay_microseconds": 30000}),
)
# One instance that is busy 93 % of the time, whose branch is about as long as the other one.
FULL = Stage("right", rate=RATE, execution=0.0245, queue=0.06, config=model_config("right"))


def forked(right: Stage, *, left: float, whole: float) -> SyntheticTriton:
    """Return an ensemble whose branches are `right` and `left`, a stage with room of so many seconds."""
    groups = [{"kind": "KIND_CPU", "count": 12}]
    members = (
        Stage("left", rate=RATE, execution=left, config=model_config("left", groups=groups)),
        right,
        *(Stage(name, rate=RATE, execution=0.004, config=model_config(name)) for name in ("first", "last")),
    )
    return SyntheticTriton(models=(*members, Stage("chat", rate=RATE, execution=whole, config=chat())))


def chat() -> dict[str, object]:
    return ensemble_config("chat", *FORK)


def judged(triton: SyntheticTriton, *, service: bool) -> Explanation:
    return validated(triton.explain(), simulate=not service)


@pytest.mark.parametrize("service", [False, True], ids=["command", "service"])
@pytest.mark.parametrize("right", [WINDOW, FULL], ids=["window", "full"])
@pytest.mark.parametrize("left", [0.1, 0.2])
def test_what_waits_beside_a_longer_branch_is_no_cause(right: Stage, left: float, service: bool) -> None:
    reported = judged(forked(right, left=left, whole=left + 0.0085), service=service)

    assert reported.verdict is Verdict.HEALTHY
    assert reported.findings == ()


@pytest.mark.parametrize("service", [False, True], ids=["command", "service"])
@pytest.mark.parametrize(
    ("right", "whole", "check"),
    [(WINDOW, 0.038, "batch-window-mistuned"), (FULL, 0.095, "single-instance-serialization")],
    ids=["window", "full"],
)
def test_on_the_longest_branch_it_is_the_cause(right: Stage, whole: float, check: str, service: bool) -> None:
    reported = judged(forked(right, left=0.002, whole=whole), service=service)

    assert [(one.check, one.subject.model) for one in reported.actionable] == [(check, "right")]
    assert reported.actionable[0].impact.seconds_per_request <= (right.queue or 0.0) + 0.001


def test_why_not_says_that_other_branches_take_as_long() -> None:
    reported = forked(FULL, left=0.1, whole=0.1085).explain()
    (one,) = [
        r for r in reported.results if (r.check.id, r.subject.model) == ("single-instance-serialization", "right")
    ]

    assert isinstance(one.outcome, Quiet)
    assert "other branches of the ensemble take as long" in one.outcome.because
    assert "saving_without_queues" in [line.signal for line in one.ledger.lines]


def test_a_forecast_of_the_window_off_the_path_saves_nothing() -> None:
    reported = forked(WINDOW, left=0.1, whole=0.1085).explain()
    off = Setting(path="dynamic_batching.max_queue_delay_microseconds", value=0)
    change = WhatIf(changes=(ConfigChange(model="right", settings=(off,)),))
    found = forecast(fit(reported.evidence, Subject(server=SERVER, ensemble="chat")), change, draws=4)

    assert found.baseline.mean is not None
    assert found.predicted.mean is not None
    assert found.predicted.mean.value == pytest.approx(found.baseline.mean.value, rel=0.02)


@pytest.mark.parametrize("service", [False, True], ids=["command", "service"])
def test_a_queue_that_the_simulation_does_not_hold_leaves_no_cause_sure(service: bool) -> None:
    """At a fifth of what an instance can do requests do not wait seconds for it."""
    idle = Stage("right", rate=RATE, execution=0.02, queue=5.0, config=model_config("right"))
    reported = judged(forked(idle, left=0.002, whole=5.03), service=service)

    assert reported.actionable
    assert all(one.confidence <= 0.6 for one in reported.actionable)
    assert "was measured. Treat this prediction as rough." in " ".join(
        " ".join(text(reported).splitlines()[:8]).split()
    )
