"""Whether the model of a window, as it was, holds what was measured in it: else it judges nothing, and raises a doubt.

A stage that is offered all that it can do has no steady state: what was waited for it is no contradiction.
"""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.diagnosis.predicting import Intervention, Simulations
from diagnostics.evidence.ledger import WORTHWHILE_SECONDS, WORTHWHILE_SHARE
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import unlike

# A cause is doubted where the model does not hold more than half of what it is said to cost: most of it then comes from
# something that the model, and with it the remedy, does not know.
DOUBTED_PART = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastCheck:
    """What the model of the window says of it.

    Attributes:
        beyond: seconds of the measured mean that it does not hold; 0 where it holds all, or where none can be said.
        said: that it does not hold them, in words; empty where it does.

    """

    beyond: float = 0.0
    said: str = ""

    def contradicts(self, seconds_per_request: float) -> bool:
        """Return whether it does not hold most of what a cause is said to take of each request."""
        return bool(self.said) and self.beyond > DOUBTED_PART * seconds_per_request > 0


def account(asked: Intervention, simulations: Simulations) -> ForecastCheck:
    """Return what the closed forms say of the window, or the simulation where that is nearer.

    Raises:
        Unpredictable: the simulation takes more events than a run may have.

    """
    measured = asked.fitted.measured.mean
    quick = estimate(asked.fitted)
    if measured is None or _may_grow(quick) or quick.accounts_for(measured):
        return ForecastCheck()
    nearest = quick
    if asked.affordable:
        simulated = simulations.of(asked.fitted)
        if _may_grow(simulated) or simulated.accounts_for(measured):
            return ForecastCheck()
        nearest = min(quick, simulated, key=lambda one: one.beyond(measured))
    beyond = nearest.beyond(measured)
    if beyond < max(WORTHWHILE_SHARE * measured, WORTHWHILE_SECONDS):
        return ForecastCheck()
    return ForecastCheck(beyond=beyond, said=" ".join(unlike(asked.fitted, nearest)))


def _may_grow(found: Performance) -> bool:
    return found.mean is None or found.mean.high is None or not found.stable
