"""Forecasts of a fitted deployment: simulated many times, so that each number has its interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diagnostics.forecast.drawing import drawn
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.load import overloaded
from diagnostics.forecast.performance import Estimate, Forecast, Performance, StagePerformance
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.simulation.outcome import EntryOutcome, ModelOutcome, Outcome
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop, Scenario
from diagnostics.tuning.simulation.simulate import simulate

DRAWS = 20
# What is forecast is a window like the measured one: at most a minute, at least ten seconds.
_LONGEST, _SHORTEST = 60.0, 10.0
# Visits to stages that a draw, and the run with central values, may hold: what keeps a forecast within seconds.
_VISITS_PER_DRAW, _CENTRAL_VISITS = 4_000, 40_000
# Queues are empty when a run begins: it is not looked at for this part of its length.
_WARMUP = 0.2


@dataclass(frozen=True, slots=True)
class _Run:
    scenario: Scenario
    outcome: Outcome

    @property
    def overloaded(self) -> frozenset[str]:
        return overloaded(self.scenario, self.outcome)


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
    rate = _visits_per_second(fitted.scenario)
    central = _run(fitted.scenario, _seconds(fitted, rate, _CENTRAL_VISITS, replays=True), seed, replay_warmup)
    window = _seconds(fitted, rate, _VISITS_PER_DRAW, replays=False)
    seeds = range(seed * draws, (seed + 1) * draws)
    runs = [_run(drawn(fitted, one), window, one + 1, replay_warmup) for one in seeds]
    return _summary(fitted, central, runs)


def _visits_per_second(scenario: Scenario) -> float:
    steps = {entry.name: len(entry.steps) for entry in scenario.entries}
    return sum(rate_of(one) * steps[one.entry] for one in scenario.traffic)


def rate_of(traffic: OpenLoop | ClosedLoop) -> float:
    """Return the requests per second that are offered; of a closed loop, the most that its thinking allows."""
    if isinstance(traffic, ClosedLoop):
        return traffic.clients / max(traffic.think_seconds, 0.01)
    if traffic.times is not None:
        return len(traffic.times) / max(traffic.times[-1], 1e-9) if len(traffic.times) > 1 else 0.0
    return traffic.rate


def _seconds(fitted: Fitted, visits_per_second: float, most: int, *, replays: bool) -> float:
    """Return how long to run; recorded arrivals are replayed to their end."""
    replayed = [one.times[-1] for one in fitted.scenario.traffic if isinstance(one, OpenLoop) and one.times]
    if replayed:
        return max(replayed)
    afforded = most / max(visits_per_second, 1e-9)
    if replays:
        return max(afforded, _SHORTEST)
    wanted = min(max(fitted.measured.span_seconds, _SHORTEST), _LONGEST)
    return max(min(wanted, afforded), 1.0)


def _run(scenario: Scenario, seconds: float, seed: int, replay_warmup: float) -> _Run:
    fixed = any(isinstance(one, OpenLoop) and one.times is not None for one in scenario.traffic)
    warmup = replay_warmup if fixed else _WARMUP * seconds
    looked_at = seconds - warmup if fixed else seconds
    return _Run(scenario, simulate(scenario, seconds=looked_at, warmup_seconds=warmup, seed=seed))


def _summary(fitted: Fitted, central: _Run, runs: Sequence[_Run]) -> Performance:
    name, full = fitted.entry, central.overloaded
    entry = next(one for one in fitted.scenario.entries if one.name == name)
    models = tuple(dict.fromkeys(step.model for step in entry.steps))
    stuck = bool(full & set(models))

    def of_entry(pick: Callable[[EntryOutcome], float | None]) -> Estimate | None:
        return None if stuck else _estimate(central, runs, models, lambda run: pick(run.outcome.entries[name]))

    throughput = _estimate(
        central, runs, (), lambda run: len(run.outcome.entries[name].latencies) / run.outcome.seconds
    )
    outcome = central.outcome.entries[name]
    return Performance(
        entry=name,
        mean=of_entry(lambda one: _mean(one.latencies)),
        p50=of_entry(lambda one: quantile(one.latencies, 0.50)),
        p95=of_entry(lambda one: quantile(one.latencies, 0.95)),
        p99=of_entry(lambda one: quantile(one.latencies, 0.99)),
        throughput=throughput or Estimate(value=0.0, low=0.0, high=0.0),
        rejected=outcome.failed / central.outcome.seconds,
        stages=tuple(_stage(fitted, model, central, runs) for model in models),
    )


def _stage(fitted: Fitted, model: str, central: _Run, runs: Sequence[_Run]) -> StagePerformance:
    start, full = fitted.start_seconds.get(model, 0.0), model in central.overloaded
    tail = sum(
        s.tail_seconds for e in fitted.scenario.entries if e.name == fitted.entry for s in e.steps if s.model == model
    )
    outcome = central.outcome.models[model]

    def of(pick: Callable[[ModelOutcome], float | None], which: tuple[str, ...] = ()) -> Estimate | None:
        return _estimate(central, runs, which, lambda run: pick(run.outcome.models[model]))

    def waited(pick: Callable[[Sequence[float]], float | None]) -> Estimate | None:
        if full:
            return None
        found = of(lambda one: pick(one.waits), (model,))
        return _shifted(found, start) if found else None

    compute = of(lambda one: _mean(one.service))
    nothing = Estimate(value=0.0, low=0.0, high=0.0)
    return StagePerformance(
        model=model,
        queue_mean=waited(_mean),
        queue_p95=waited(lambda waits: quantile(waits, 0.95)),
        compute_mean=_shifted(compute, tail) if compute else nothing,
        busy_share=of(lambda one: one.busy_share) or nothing,
        batch_size_mean=outcome.batch_size_mean,
        refused_per_second=outcome.refused / central.outcome.seconds,
        stable=not full,
    )


def _shifted(estimate: Estimate, seconds: float) -> Estimate:
    high = None if estimate.high is None else estimate.high + seconds
    return Estimate(value=estimate.value + seconds, low=estimate.low + seconds, high=high)


def _estimate(
    central: _Run, runs: Sequence[_Run], models: Sequence[str], pick: Callable[[_Run], float | None]
) -> Estimate | None:
    """Return the central run's value with the least and most of the draws'; None where nothing happened.

    Without an upper end where one of these models may not keep up in more than one draw of twenty.
    """
    value = pick(central)
    if value is None:
        return None
    found = [one for one in map(pick, runs) if one is not None]
    stuck = sum(1 for run in runs if run.overloaded & set(models))
    high = None if stuck > len(runs) / DRAWS else max([*found, value])
    return Estimate(value=value, low=min([*found, value]), high=high)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return a quantile by linear interpolation; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
