"""What may be said of stages that are offered about what they can do, or more."""

from __future__ import annotations

import pytest

from diagnostics.diagnosis.predicting import Intervention, _endless, grew, overloaded
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.signals.signal import Subject
from diagnostics.tuning.simulation.scenario import Model, OpenLoop, Resource
from tests.builders import SERVER, Stage, SyntheticTriton, model_config
from tests.forecast.deployments import by_hand, service

SAFETY = Subject(server=SERVER, model="safety")


def lane(seconds: float) -> Fitted:
    """Return a model that twenty requests a second reach, over half a minute, with executions of so many seconds."""
    return by_hand(Model(name="safety", service=service(seconds)))


def more(fitted: Fitted, factor: float) -> Fitted:
    return changed(fitted, WhatIf(rate_factor=factor))


@pytest.mark.parametrize(
    ("share", "factor", "queue_grew", "stated"),
    [
        (0.9, 1.0, None, None),
        (0.9, 1.5, None, "a queue would grow without end"),
        (0.99, 1.02, None, "to within what one window tells"),
        (1.02, 1.0, None, "to within what one window tells"),
        (1.02, 1.0, True, "a queue would grow without end"),
        (1.5, 1.0, None, "a queue would grow without end"),
        (1.5, 1.0, False, "its queue did not go on growing"),
        (1.5, 1.5, False, "a queue would grow without end"),
    ],
)
def test_a_stage_is_called_overloaded_only_where_neither_chance_nor_its_queue_speaks_against_it(
    share: float, factor: float, queue_grew: bool | None, stated: str | None
) -> None:
    """Of 600 arrivals, twice the standard error is 8 %, with what executions drift."""
    fitted = lane(share / 20)
    reported = overloaded(fitted, more(fitted, factor), lambda _: queue_grew)

    if stated is None:
        assert reported is None
    else:
        assert reported is not None
        assert stated in reported.because
        assert reported.overrules == ("without end" in reported.because)


@pytest.mark.parametrize(("burst", "reported"), [(1.0, "a queue would grow"), (9.0, "within what one window tells")])
def test_a_window_of_a_few_bursts_more_is_no_overload(burst: float, reported: str) -> None:
    """Of 600 arrivals in bursts of nine, twice the standard error is a quarter."""
    traffic = OpenLoop(entry="chat", rate=20.0, burst=burst)
    fitted = by_hand(Model(name="safety", service=service(0.058)), traffic=traffic)
    found = overloaded(fitted, fitted, lambda _: None)

    assert found is not None
    assert reported in found.because


def served(reads: int = 13, **stage: float) -> WindowEvidence:
    """Return a window of two models with the same traffic."""
    rest = {"rate": 20, "execution": 0.02, **stage}
    models = tuple(Stage(name, config=model_config(name), **rest) for name in ("safety", "side"))  # type: ignore[arg-type]
    return WindowEvidence(SyntheticTriton(models=models).window(reads))


def test_a_queue_grows_where_ever_more_wait() -> None:
    assert grew(served(pending=3.0, pending_growth=0.5), SAFETY) is True
    assert grew(served(pending=3.0), SAFETY) is False
    assert grew(served(reads=9, pending=3.0, pending_growth=0.5), SAFETY) is None


def test_formulas_that_do_not_account_for_the_window_foretell_no_endless_queue() -> None:
    """Two models that want more of a card than there is, by what was measured of it, and whose queues are steady."""
    fast, slow = (Model(name=name, service=service(0.03), demand={"gpu": 1.0}) for name in ("safety", "side"))
    fitted = by_hand(fast, slow, resources=(Resource(name="gpu", capacity=1.0),))
    found = estimate(fitted)
    assert not found.stable

    def stated(evidence: WindowEvidence) -> str:
        return _endless(
            Intervention(fitted=fitted, after=fitted, evidence=evidence), found, found, "formulas find"
        ).because

    assert "without it, either, but no such queue went on growing" in stated(served(pending=3.0))
    assert "without it, either, and how queues went is not known" in stated(served(reads=9))
    assert "a queue would grow without end" in stated(served(pending=3.0, pending_growth=0.5))
