"""Why no setting meets a target, and what would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from diagnostics.forecast.capacity import carried, idle
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.load import open_rate
from diagnostics.forecast.menu import work_share
from diagnostics.forecast.performance import Performance, StagePerformance
from diagnostics.forecast.target import LatencyTarget
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.changes import ConfigChange
from diagnostics.tuning.simulation.scenario import OpenLoop


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
