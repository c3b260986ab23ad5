"""What a search for settings found."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.forecast.options import Minimize
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.target import LatencyTarget
from diagnostics.tuning.changes import ConfigChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A change and what is forecast of it.

    Attributes:
        changes: one per model that is touched.
        instances: instances of all stages together.
        gpu_share: share of the GPU that all executions take; None where no GPU was seen.
        performance: the forecast; with intervals where it is the answer, else of one short run.
        fits: whether its instances fit the GPUs' memory; None where that is not known.

    """

    changes: tuple[ConfigChange, ...]
    instances: int
    gpu_share: float | None
    performance: Performance
    fits: bool | None = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What a search found.

    Attributes:
        target: what was to be met.
        minimize: what the change was to be smallest in.
        baseline: the forecast without a change.
        best: the smallest change that meets the target; without changes where it is met as it is, None where no
            setting meets it.
        runners_up: others that meet it and touch other settings, the smallest first.
        nearest: where none does, what comes nearest, without changes where none brings it nearer; else None.
        screened: settings of stages, and combinations of them, that closed forms looked at.
        simulated: combinations that were simulated.
        too_large: combinations that were passed over since the GPUs' memory does not hold them.

    """

    target: LatencyTarget
    minimize: Minimize
    baseline: Performance
    best: Candidate | None
    runners_up: tuple[Candidate, ...]
    nearest: Candidate | None
    screened: int
    simulated: int
    too_large: int = 0
