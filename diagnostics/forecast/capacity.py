"""How much load a deployment carries while it meets a target, as it is and with other settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from diagnostics.errors import UsageError
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.options import Option, varied
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.predict import performance
from diagnostics.forecast.search import Vary, stages
from diagnostics.forecast.target import Target
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.changes import ConfigChange
from diagnostics.tuning.simulation.scenario import ClosedLoop

# Loads are looked for between these multiples of the measured one: further away nothing measured holds any more.
_LEAST, _MOST = 1 / 16, 16.0
# Halvings of that range: the last one is 3 % of the load, which is what a forecast of throughput is good to.
_HALVINGS = 8
_FEW_DRAWS = 4
# Settings whose loads closed forms put within this share of the best are simulated.
_NEAR = 0.75
_MOST_SIMULATED = 8
# More combinations than these are a search's business, not an enumeration's.
_MOST_COMBINATIONS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """A setting with the load that it carries.

    Attributes:
        changes: one per model that is touched.
        instances: instances of all stages together.
        factor: the load as a multiple of the measured one; None in a closed loop, whose load is its clients.
        performance: the forecast at that load.

    """

    changes: tuple[ConfigChange, ...]
    instances: int
    factor: float | None
    performance: Performance

    @property
    def per_second(self) -> float:
        """Requests answered per second, while the target is met."""
        return self.performance.throughput.value


def carried(fitted: Fitted, changes: tuple[ConfigChange, ...], target: Target, seed: int = 0) -> Carried | None:
    """Return the largest load at which the target is met with the changes; None where no load in reach does.

    The statistic grows with the load, so the largest load is found by halving; a closed loop has one load only.
    """
    instances = sum(model.instances for model in stages(fitted))
    if is_closed(fitted):
        found = performance(fitted, WhatIf(changes=changes), seed=seed, draws=_FEW_DRAWS)
        return (
            Carried(changes=changes, instances=instances, factor=None, performance=found) if target.met(found) else None
        )
    best = None
    low, high = _LEAST, _MOST
    for _ in range(_HALVINGS):
        factor = (low * high) ** 0.5
        found = performance(fitted, WhatIf(changes=changes, rate_factor=factor), seed=seed, draws=_FEW_DRAWS)
        if target.met(found):
            best = Carried(changes=changes, instances=instances, factor=factor, performance=found)
            low = factor
        else:
            high = factor
    return best


def most_carried(fitted: Fitted, target: Target, vary: Vary, *, seed: int = 0) -> Sequence[Carried]:
    """Return settings by the load that they carry while meeting the target, the largest first; none where none does.

    Among loads that a forecast cannot tell apart (3 %), the setting with the fewest instances is first.

    Raises:
        UsageError: the values make too many combinations to look at each.

    """
    ways = [varied(model, fitted.configs.get(model.name), vary.get(model.name, {})) for model in stages(fitted)]
    count = 1
    for options in ways:
        count *= len(options)
    if count > _MOST_COMBINATIONS:
        raise UsageError(f"{count} combinations are too many", where="--vary", hint=f"at most {_MOST_COMBINATIONS}")
    screened = sorted(((_screened(fitted, one, target), one) for one in product(*ways)), key=lambda pair: -pair[0])
    near = [one for load, one in screened if load >= screened[0][0] * _NEAR][:_MOST_SIMULATED]
    found = [carried(fitted, _changes(one), target, seed) for one in near]
    full = [replace(c, instances=_instances(one)) for c, one in zip(found, near, strict=True) if c is not None]
    return sorted(full, key=lambda one: (-round(one.per_second / _step(full)), one.instances))


def is_closed(fitted: Fitted) -> bool:
    """Say whether clients wait for each answer before they send their next request."""
    return any(isinstance(one, ClosedLoop) and one.entry == fitted.entry for one in fitted.scenario.traffic)


def _screened(fitted: Fitted, one: Sequence[Option], target: Target) -> float:
    """Return the load by closed forms: the largest multiple that keeps up and meets the target; 0 for none."""
    changes = _changes(one)
    if is_closed(fitted):
        return estimate(fitted, WhatIf(changes=changes)).throughput.value
    low, high = _LEAST, _MOST
    met = 0.0
    for _ in range(_HALVINGS):
        factor = (low * high) ** 0.5
        if target.met(estimate(fitted, WhatIf(changes=changes, rate_factor=factor))):
            low = met = factor
        else:
            high = factor
    return met


def _changes(one: Sequence[Option]) -> tuple[ConfigChange, ...]:
    return tuple(option.change for option in one if option.change is not None and option.change.settings)


def _instances(one: Sequence[Option]) -> int:
    return sum(option.instances for option in one)


def _step(found: Sequence[Carried]) -> float:
    """Return the difference of throughput that counts as none."""
    return max(max(one.per_second for one in found) * 0.03, 1e-9)
