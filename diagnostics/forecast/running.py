"""Runs of a fitted scenario, none of which is endless."""

from __future__ import annotations

from diagnostics.forecast.fitted import Unpredictable
from diagnostics.tuning.simulation.clock import MOST_EVENTS, Endless
from diagnostics.tuning.simulation.outcome import SimulationResult
from diagnostics.tuning.simulation.scenario import Scenario
from diagnostics.tuning.simulation.simulate import simulate


def outcome_of(scenario: Scenario, *, seconds: float, warmup_seconds: float = 0.0, seed: int = 0) -> SimulationResult:
    """Return what happens in a scenario, as `simulate` does.

    Raises:
        Unpredictable: it takes more events than a run may have.

    """
    try:
        return simulate(scenario, seconds=seconds, warmup_seconds=warmup_seconds, seed=seed)
    except Endless as error:
        raise _endless(scenario) from error


def check_visits(scenario: Scenario, visits: float) -> None:
    """Refuse a scenario whose runs make so many visits to stages altogether, before they are drawn.

    Raises:
        Unpredictable: each is an event at least, and these are more than one run may have.

    """
    if visits > MOST_EVENTS:
        raise _endless(scenario)


def _endless(scenario: Scenario) -> Unpredictable:
    return Unpredictable(
        f"cannot be forecast: its simulation takes more than {MOST_EVENTS} events",
        where=", ".join(entry.name for entry in scenario.entries),
        hint="ask for less load or fewer instances; if it was asked of the window as it is, record one anew",
    )
