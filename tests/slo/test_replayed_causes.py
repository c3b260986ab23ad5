"""A recording that is counted charges what `diag explain` names of each of its windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics.diagnosis.diagnose import DiagnosisOptions, Validation, diagnose
from diagnostics.slo import replaying
from diagnostics.slo.replaying import count_recorded
from diagnostics.slo.slo import Promise, Slo, Triton
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import Scrape
from tests.diagnosis.test_off_the_path import WINDOW, forked

# Fewer instances save less of a request than the batches are said to cost.
CORRECTED = Path(__file__).parents[2] / "fixtures/benchmark/drawn-0115.tar.xz"
# The wait for the window lies beside a branch that takes no time, then beside one of 20 ms; requests take as long.
ALONE, BESIDE = (forked(WINDOW, left=left, whole=0.038).scrapes() for left in (0.002, 0.02))


def later(scrapes: Sequence[Scrape], seconds: float) -> list[Scrape]:
    return [replace(one, at=one.at + seconds, mono=one.mono + seconds) for one in scrapes]


def charged(scrapes: Sequence[Scrape], model: str, reported: list[str] | None = None) -> dict[str, float]:
    """Return the share of the bad events that each check was charged with; all requests are bad."""
    slo = Slo(name="all", objective=0.99, sli=Triton(promise=Promise.LATENCY, model=model, seconds=1e-6))
    announce = (reported if reported is not None else []).append
    whole = count_recorded("here", [slo], scrapes, announce)["all"].over(0.0, float("inf"))
    return {cause.check: bad / whole.tally.bad for cause, bad in whole.causes.items()}


def named(scrapes: Sequence[Scrape], options: DiagnosisOptions | None = None) -> dict[str, float]:
    found = diagnose(window_of(scrapes), options or DiagnosisOptions())
    return {one.check: one.impact.share_of_latency for one in found.actionable}


def test_a_cause_is_charged_with_what_the_simulation_leaves_of_it() -> None:
    """Before, closed forms alone were asked: the cause was charged with half as much again."""
    recorded = list(open_capture(CORRECTED).scrapes())
    by_closed_forms = named(recorded, DiagnosisOptions(validation=Validation(simulate=False)))

    assert charged(recorded, "aspen") == pytest.approx(named(recorded))
    assert by_closed_forms["batch-size-collapse"] > 1.4 * named(recorded)["batch-size-collapse"]


def test_no_window_is_held_against_the_forecast_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the budget is spent it is, and that is reported: a month of windows must be counted in minutes."""
    check = "batch-window-mistuned"
    recorded = [*ALONE, *later(BESIDE, 600.0)]
    alike = (named(ALONE)[check] + named(BESIDE)[check]) / 2
    reported: list[str] = []

    assert charged(recorded, "chat", reported) == {check: pytest.approx(alike, abs=0.005)}
    assert not reported

    monkeypatch.setattr(replaying, "REPLAY_CPU_SECONDS", 0.0)
    assert charged(recorded, "chat", reported)[check] > alike + 0.01
    assert [line.partition(":")[0] for line in reported] == ["forecasts took 0 s of processor time"]
