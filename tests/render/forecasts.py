"""Forecasts, sweeps and verifications to render, by hand."""

from __future__ import annotations

from dataclasses import replace

from diagnostics.diagnosis.advice import Advice
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.diagnosis.proposal import LoadChange, Move, Proposal, SweepProposal, patches
from diagnostics.forecast.performance import Estimate, Forecast
from diagnostics.forecast.predict import ForecastSweep, SweepPoint, knee_of_setting
from diagnostics.forecast.verify import Measure, Verification, judge, overall
from diagnostics.signals.signal import Reading, Subject
from diagnostics.tuning.changes import ConfigChange, Setting, SettingChange
from diagnostics.units import Unit
from tests.builders import SERVER, Stage, SyntheticTriton, model_config
from tests.forecast.performances import estimate, performance, stage

WINDOW = WindowFacts(start=1_000_000.0, end=1_000_040.0, sources=("triton-0",))
_ENTRY = Subject(server=SERVER, ensemble="chat")
_UNLIMITED = replace(performance(0.28, width=0.2), mean=Estimate(value=0.28, low=0.1, high=None))


def proposal(model: str = "safety", mean: float | None = 0.121, load: LoadChange | None = None) -> Proposal:
    """Return the forecast of two more instances of a model."""
    move = Move(model=model, path="instance_group.count", before=1, after=3, known=True)
    now = replace(_UNLIMITED, stages=(stage(model, queue=0.169, busy=0.95),))
    then = performance(mean, width=0.01, rejected=0.5, stages=(stage(model, queue=mean and 0.001, busy=0.32),))
    return Proposal(
        on=_ENTRY,
        window=WINDOW,
        moves=(move,),
        load=load or LoadChange(),
        forecast=Forecast(baseline=now, predicted=then, measured_mean=0.283, assumptions=("arrivals are independent",)),
        patches=_patches(model if model.isprintable() else "safety"),
    )


def _patches(model: str) -> tuple[tuple[str, Advice], ...]:
    evidence = SyntheticTriton(models=(Stage(model, rate=1, config=model_config(model)),)).evidence(2)
    change = ConfigChange(model=model, settings=(Setting(path="instance_group.count", value=3),))
    return patches(evidence, SERVER, (change,))


def sweep(*means: float | None, model: str | None = "safety") -> SweepProposal:
    """Return a sweep of so many values from 1 on; the first is in effect."""
    found = [performance(mean, width=0.002) for mean in means]
    return SweepProposal(
        on=_ENTRY,
        window=WINDOW,
        moves=(),
        load=LoadChange(),
        baseline=_UNLIMITED,
        measured_mean=None,
        sweep=ForecastSweep(
            name=f"{model}.instance_group.count" if model else "rate",
            model=model,
            points=tuple(SweepPoint(value=str(at), performance=one) for at, one in enumerate(found, 1)),
            now=0,
            knee=knee_of_setting(found),
        ),
        assumptions=("arrivals are independent",),
        patches=(),
    )


def verification(after: Estimate, *, changed: bool = True, model: str = "safety") -> Verification:
    """Return what is said of a measurement of which 120 ms were predicted, or nothing new."""
    before = estimate(0.280, 0.120) if changed else estimate(0.120, 0.004)
    predicted = estimate(0.120, 0.01) if changed else before
    judgement = judge("mean", after=after, predicted=predicted, unchanged=before, seconds=40.0)
    change = SettingChange(model=model, path="instance_group.count", before="1", after="3")
    measure = Measure(
        statistic="mean", before=before, after=after, predicted=predicted, unchanged=before, judgement=judgement
    )
    rate = Reading.of(38.0, Unit.PER_SECOND, "metrics", events=1500)
    return Verification(
        entry="chat",
        changes=(change,) if changed else (),
        unpredicted=(),
        rates=(rate, rate),
        load_differs=False,
        block_seconds=2.0,
        measures=(measure,),
        judgement=overall([judgement]),
        assumptions=("arrivals are independent",),
    )
