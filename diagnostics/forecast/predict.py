"""Forecasts of a fitted deployment: simulated many times, so that each number has its interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from diagnostics.forecast.drawing import drawn
from diagnostics.forecast.estimate import opened
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.load import open_rate, relaxation_seconds
from diagnostics.forecast.performance import Forecast, Performance
from diagnostics.forecast.summary import DRAWS, Run, summary
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.simulation.scenario import OpenLoop, Scenario
from diagnostics.tuning.simulation.simulate import simulate

# What is forecast is a window like the measured one: at most a minute, at least ten seconds.
_LONGEST, _SHORTEST = 60.0, 10.0


@dataclass(frozen=True, slots=True)
class _Length:
    """How long a run is: so many requests for its 99th percentile and so many relaxation times for its mean, in no more
    visits to stages than can be afforded.
    """

    requests: int
    relaxations: float
    visits: int


# Visits take about 20 µs each: 20 draws and a central run stay within two seconds where queues are short, five else.
_DRAW = _Length(400, 100.0, 4_000)
_CENTRAL = _Length(3_000, 1_000.0, 40_000)
# Queues are empty when a run begins: it is not looked at for this part of its length, or two relaxation times of its
# slowest queue, but for at most three times its length.
_WARMUP, _RELAXATIONS, _LONGEST_WARMUP = 0.2, 2.0, 3.0


def forecast(fitted: Fitted, what_if: WhatIf, *, seed: int = 0, draws: int = DRAWS) -> Forecast:
    """Return what a change would do: the deployment as fitted, and changed, each by `performance`.

    Raises:
        UsageError: the change names what is not there.
        Unpredictable: the model does not hold what the change does.

    """
    after = changed(fitted, what_if)
    before = changed(fitted, WhatIf(traffic=what_if.traffic)) if what_if.traffic else fitted
    return Forecast(
        baseline=_performance(before, seed, draws),
        predicted=_performance(after, seed, draws),
        measured_mean=fitted.measured.mean,
        assumptions=after.assumptions,
    )


def performance(
    fitted: Fitted,
    what_if: WhatIf | None = None,
    *,
    seed: int = 0,
    draws: int = DRAWS,
    replay_warmup_seconds: float = 0.0,
) -> Performance:
    """Return what requests to the fitted entry would experience; the same for the same seed.

    Values are those of a run with central values of all that is not known, as long as can be afforded. Intervals are
    the least and most of `draws` runs of the measured window's length, each with other values of what is not known: of
    20, they hold another window's value with 19 / 21 = 90 % probability. Where arrivals are replayed, requests of the
    first `replay_warmup_seconds` are not looked at.

    Raises:
        UsageError: the change names what is not there.
        Unpredictable: the model does not hold what the change does.

    """
    after = fitted if what_if is None else changed(fitted, what_if)
    return _performance(after, seed, draws, replay_warmup_seconds)


def _performance(fitted: Fitted, seed: int, draws: int, replay_warmup: float = 0.0) -> Performance:
    rate = _visits_per_second(fitted)
    central = _run(fitted.scenario, _seconds(fitted, rate, _CENTRAL, inf), seed, replay_warmup)
    window = _seconds(fitted, rate, _DRAW, min(max(fitted.measured.span_seconds, _SHORTEST), _LONGEST))
    seeds = range(seed * draws, (seed + 1) * draws)
    runs = [_run(drawn(fitted, one), window, one + 1, replay_warmup) for one in seeds]
    return summary(fitted, central, runs)


def _visits_per_second(fitted: Fitted) -> float:
    """Return the visits to stages per second; a closed loop's by its closed form."""
    steps = {entry.name: len(entry.steps) for entry in fitted.scenario.entries}
    traffic = opened(fitted).traffic
    return sum(open_rate(one) * steps[one.entry] for one in traffic if isinstance(one, OpenLoop))


def _seconds(fitted: Fitted, visits_per_second: float, length: _Length, at_most: float) -> float:
    """Return how long to run; recorded arrivals are replayed to their end."""
    replayed = [one.times[-1] for one in fitted.scenario.traffic if isinstance(one, OpenLoop) and one.times]
    if replayed:
        return max(replayed)
    steps = len(next(entry.steps for entry in fitted.scenario.entries if entry.name == fitted.entry))
    per_visit = 1 / max(visits_per_second, 1e-9)
    wanted = max(length.requests * steps * per_visit, length.relaxations * relaxation_seconds(fitted.scenario))
    return min(wanted, at_most, max(length.visits, length.requests) * per_visit)


def _run(scenario: Scenario, seconds: float, seed: int, replay_warmup: float) -> Run:
    fixed = any(isinstance(one, OpenLoop) and one.times is not None for one in scenario.traffic)
    warmup = replay_warmup if fixed else _warmup(scenario, seconds)
    looked_at = seconds - warmup if fixed else seconds
    return Run(scenario, simulate(scenario, seconds=looked_at, warmup_seconds=warmup, seed=seed))


def _warmup(scenario: Scenario, seconds: float) -> float:
    return min(max(_WARMUP * seconds, _RELAXATIONS * relaxation_seconds(scenario)), _LONGEST_WARMUP * seconds)
