"""How much load a deployment carries while it meets a target, as it is and with other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod, sqrt

from diagnostics.errors import UsageError
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.load import open_rate
from diagnostics.forecast.options import Option, stages, varied, work_share
from diagnostics.forecast.performance import Performance, StagePerformance
from diagnostics.forecast.predict import performance
from diagnostics.forecast.search import VISITS, Vary
from diagnostics.forecast.target import LatencyTarget
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.changes import ConfigChange
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop

# Loads are looked for between these multiples of the measured one: further away nothing measured holds any more.
_LEAST, _MOST = 1 / 16, 16.0
# What a forecast of throughput is good to; loads are found to within it, and settings nearer than that are the same.
_SAME = 0.03
# Settings whose loads closed forms put within this share of the best are simulated, and so many of them at most.
_NEAR, _MOST_SIMULATED = 0.75, 12
# More combinations than these are a search's business, not an enumeration's.
_MOST_COMBINATIONS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A setting with the load that it carries.

    Attributes:
        changes: one per model that is touched.
        instances: instances of all stages together.
        factor: the load as a multiple of the measured one: arrivals, or clients of a closed loop.
        performance: the forecast at that load.

    """

    changes: tuple[ConfigChange, ...]
    instances: int
    factor: float
    performance: Performance

    @property
    def per_second(self) -> float:
        """Requests answered per second, while the target is met."""
        return self.performance.throughput.value


def carried(fitted: Fitted, changes: tuple[ConfigChange, ...], target: LatencyTarget, seed: int = 0) -> Carried | None:
    """Return the largest load at which the target is met with the changes; None where no load in reach does.

    The statistic grows with the load, so the largest load is found by halving, around where the closed forms put it.
    Of a closed loop it is the largest number of clients, as a multiple of those there are.
    """
    instances = sum(model.instances for model in stages(fitted))
    found: dict[float, Performance] = {}

    def met(factor: float) -> bool:
        found[factor] = _at(fitted, changes, factor, seed)
        return target.met(found[factor])

    guess = _bracketed(lambda factor: target.met(estimate(fitted, _loaded(fitted, changes, factor))), _LEAST, _MOST)
    factor = _around(met, guess if guess is not None else sqrt(_LEAST * _MOST))
    if factor is None:
        return None
    return Carried(changes=changes, instances=instances, factor=factor, performance=found[factor])


def idle(fitted: Fitted, changes: tuple[ConfigChange, ...], seed: int = 0) -> Performance:
    """Return what requests experience with the changes and hardly any load: execution and windows alone.

    That is one client of a closed loop, or a sixteenth of what was measured, whatever else is asked for.
    """
    if is_closed(fitted):
        return performance(fitted, WhatIf(changes=changes, clients=1), seed=seed, draws=0, visits=VISITS)
    requested = sum(open_rate(one) for one in fitted.scenario.traffic if isinstance(one, OpenLoop))
    part = min(fitted.measured.throughput / requested, 1.0) if requested > 0 and fitted.measured.throughput > 0 else 1.0
    return _at(fitted, changes, _LEAST * part, seed)


def most_carried(fitted: Fitted, target: LatencyTarget, vary: Vary, *, seed: int = 0) -> Sequence[Carried]:
    """Return settings by the load that they carry while meeting the target, the largest first; none where none does.

    A closed loop has its clients for a load: settings are ordered by what these are answered per second. Among loads
    that a forecast cannot separate (3 %), the setting with the fewest instances is first.

    Raises:
        UsageError: the values make too many combinations to look at each.

    """
    ways = [varied(model, fitted.configs.get(model.name), vary.get(model.name, {})) for model in stages(fitted)]
    if (count := prod(map(len, ways))) > _MOST_COMBINATIONS:
        raise UsageError(f"{count} combinations are too many", where="--vary", hint=f"at most {_MOST_COMBINATIONS}")
    every = list(product(*ways))
    loads = (
        {} if len(every) <= _MOST_SIMULATED else {at: _screened(fitted, one, target) for at, one in enumerate(every)}
    )
    ordered = sorted(range(len(every)), key=lambda at: -loads.get(at, 0.0))[:_MOST_SIMULATED]
    near = [every[at] for at in ordered if loads.get(at, 0.0) >= loads.get(ordered[0], 0.0) * _NEAR]
    found = [_carried_now(fitted, one, target, seed) for one in near]
    full = [replace(c, instances=_instances(one)) for c, one in zip(found, near, strict=True) if c is not None]
    step = max((one.per_second for one in full), default=0.0) * _SAME or 1.0
    return sorted(full, key=lambda one: (-round(one.per_second / step), one.instances))


def is_closed(fitted: Fitted) -> bool:
    """Say whether clients wait for each answer before they send their next request."""
    return any(isinstance(one, ClosedLoop) and one.entry == fitted.entry for one in fitted.scenario.traffic)


def _carried_now(fitted: Fitted, one: Sequence[Option], target: LatencyTarget, seed: int) -> Carried | None:
    changes = _changes(one)
    if not is_closed(fitted):
        return carried(fitted, changes, target, seed)
    found = performance(fitted, WhatIf(changes=changes), seed=seed, draws=0, visits=VISITS)
    return Carried(changes=changes, instances=0, factor=1.0, performance=found) if target.met(found) else None


def _loaded(fitted: Fitted, changes: tuple[ConfigChange, ...], factor: float) -> WhatIf:
    """Return the changes at a multiple of the load."""
    loops = (one for one in fitted.scenario.traffic if isinstance(one, ClosedLoop))
    if is_closed(fitted):
        now = next(loop.clients for loop in loops if loop.entry == fitted.entry)
        return WhatIf(changes=changes, clients=max(round(now * factor), 1))
    return WhatIf(changes=changes, rate_factor=factor)


def _at(fitted: Fitted, changes: tuple[ConfigChange, ...], factor: float, seed: int) -> Performance:
    return performance(fitted, _loaded(fitted, changes, factor), seed=seed, draws=0, visits=VISITS)


def _around(met: Callable[[float], bool], guess: float) -> float | None:
    """Return the largest factor that is met, looked for outwards from a guess; None where none in reach is."""
    step = 1.25
    if met(guess):
        low = guess
        while (high := min(low * step, _MOST)) > low and met(high):
            low, step = high, step * step
    else:
        high = guess
        while (low := max(high / step, _LEAST)) < high and not met(low):
            high, step = low, step * step
        if low >= high:
            return None
    return low if low >= high else _bracketed(met, low, high) or low


def _bracketed(met: Callable[[float], bool], low: float, high: float) -> float | None:
    """Return the largest factor between the two that is met, by halving; None where none was."""
    best = None
    while high / low > 1 + _SAME:
        factor = sqrt(low * high)
        if met(factor):
            low = best = factor
        else:
            high = factor
    return best


def _screened(fitted: Fitted, one: Sequence[Option], target: LatencyTarget) -> float:
    """Return the load by closed forms: the largest multiple that keeps up and meets the target; 0 for none."""
    changes = _changes(one)
    if is_closed(fitted):
        return estimate(fitted, WhatIf(changes=changes)).throughput.value
    found = _bracketed(lambda factor: target.met(estimate(fitted, _loaded(fitted, changes, factor))), _LEAST, _MOST)
    return found or 0.0


def _changes(one: Sequence[Option]) -> tuple[ConfigChange, ...]:
    return tuple(option.change for option in one if option.change is not None)


def _instances(one: Sequence[Option]) -> int:
    return sum(option.instances for option in one)


@dataclass(frozen=True, slots=True, kw_only=True)
class InfeasibilityReport:
    """What stands between a deployment, set as well as it can be, and its target.

    Attributes:
        alone: seconds of the target's statistic where a request has the server nearly to itself; None where even then
            nothing was answered.
        beside: mean seconds of that which are not execution: waits and gaps that the window showed, taken as constant.
        slowest: the stage that executes longest, and its mean seconds.
        slowest_seconds: those seconds.
        demanded: the share of each shared device that is asked for.
        engine: an engine that cannot keep up, or makes requests wait longest; None where it is no engine.
        carried: the share of the load that is carried within the target; None where none in reach is.

    """

    alone: float | None
    beside: float
    slowest: str
    slowest_seconds: float
    demanded: Mapping[str, float]
    engine: str | None
    carried: float | None

    def excess(self, target: LatencyTarget) -> float | None:
        """Return the seconds that execution alone takes too long; None where it does not, or nothing was answered."""
        return self.alone - target.seconds if self.alone is not None and self.alone >= target.seconds else None

    @property
    def replicas(self) -> int | None:
        """Servers like this one, set that way, that carry the load together; None where that is not known."""
        return ceil(1 / self.carried) if self.carried else None


def shortfall(
    fitted: Fitted, changes: tuple[ConfigChange, ...], target: LatencyTarget, found: Performance, seed: int = 0
) -> InfeasibilityReport:
    """Return why a target is missed with the changes that come nearest to it.

    Args:
        fitted: the deployment.
        changes: what comes nearest.
        target: what is missed.
        found: the forecast with them.
        seed: of the simulation.

    """
    at_rest = idle(fitted, changes, seed)
    alone = target.forecast(at_rest)
    slowest = max(at_rest.stages, key=lambda stage: stage.compute_mean.value)
    after = changed(fitted, WhatIf(changes=changes))
    within = alone is not None and alone.value < target.seconds
    best = carried(fitted, changes, target, seed) if within else None
    return InfeasibilityReport(
        alone=None if alone is None else alone.value,
        beside=_beside(at_rest),
        slowest=slowest.model,
        slowest_seconds=slowest.compute_mean.value,
        demanded=demanded(after, found),
        engine=_engine(after, found),
        carried=None if best is None else best.factor,
    )


def _beside(at_rest: Performance) -> float:
    executing = sum(stage.compute_mean.value for stage in at_rest.stages)
    return max(at_rest.mean.value - executing, 0.0) if at_rest.mean is not None else 0.0


def demanded(fitted: Fitted, found: Performance) -> Mapping[str, float]:
    """Return the share of each shared device that what is offered to the entry asks for, by its name."""
    models = {model.name: model for model in fitted.scenario.models}
    offered = sum(
        open_rate(one) for one in fitted.scenario.traffic if isinstance(one, OpenLoop) and one.entry == fitted.entry
    )
    more = max(offered / found.throughput.value, 1.0) if found.throughput.value > 0 else 1.0
    return {
        resource.name: more
        * sum(work_share(fitted, models[stage.model], found, stage, resource.name) for stage in found.stages)
        / resource.capacity
        for resource in fitted.scenario.resources
    }


def _engine(fitted: Fitted, found: Performance) -> str | None:
    engines = {model.name for model in fitted.scenario.models if model.engine is not None}

    def wait(stage: StagePerformance) -> float:
        return float("inf") if stage.queue_mean is None else stage.queue_mean.value

    worst = max(found.stages, key=wait)
    return worst.model if worst.model in engines and wait(worst) > worst.compute_mean.value / 10 else None
