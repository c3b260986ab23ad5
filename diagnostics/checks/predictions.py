"""Forecasts of the scheduler model as readings and predictions, so that they carry their interval along."""

from __future__ import annotations

from math import inf, isfinite

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Prediction
from diagnostics.signals.reading import Missing, Reading
from diagnostics.tuning.queueing import StageForecast
from diagnostics.units import Unit

MODEL = "scheduler model"


def queue_of(forecast: StageForecast) -> Reading:
    """Return the forecast queue; absent when the stage could not keep up."""
    value = forecast.queue_seconds
    if value is None:
        return Reading.unknown(Missing.CONFLICTING, Unit.SECONDS, MODEL)
    low = value if forecast.queue_low is None else min(forecast.queue_low, value)
    # Without an upper end the stage may not keep up at the pessimistic end of what is known.
    high = inf if forecast.queue_high is None else max(forecast.queue_high, value)
    return Reading.of(value, Unit.SECONDS, MODEL, low=low, high=high)


def prediction(
    phase: Phase, now: float, forecast: Reading, assumptions: tuple[str, ...], unless: str = ""
) -> Prediction:
    """Return a present forecast as what the phase's time will be."""
    value = forecast.value or 0.0
    return Prediction(
        phase=phase,
        now_seconds=now,
        predicted_seconds=value,
        low_seconds=value if forecast.low is None else forecast.low,
        high_seconds=forecast.high if forecast.high is not None and isfinite(forecast.high) else None,
        assumptions=assumptions,
        unless=unless,
    )
