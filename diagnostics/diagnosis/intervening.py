"""A suggestion as a change of the fitted deployment."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Fires, Suggestion
from diagnostics.diagnosis.effect import Unpredicted
from diagnostics.errors import DiagError
from diagnostics.evidence.ledger import EntryPoint
from diagnostics.forecast.fitted import Fitted, nested_calls
from diagnostics.forecast.relief import relieved
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.simulation.scenario import ClosedLoop
from diagnostics.units import Unit

# A claim on these is execution time; a queue follows from it.
_WORK = (Phase.COMPUTE, Phase.ENGINE)


def modelled(suggestion: Suggestion) -> bool:
    """Whether a suggestion is of a kind that the model of the schedulers may hold."""
    return suggestion.change is not None or suggestion.load < 1 or suggestion.relieves


def outside(fires: Fires, seconds: float) -> Unpredicted | None:
    """Return why nothing can be told of a suggestion that the model does not hold; None where it costs nothing.

    Args:
        fires: what the check said.
        seconds: what the finding takes of each request of the entry.

    """
    if seconds > 0:
        most = Unit.SECONDS.show(seconds)
        return Unpredicted(
            because="no setting that was read does it, and what does is not simulated; at most "
            f"{most} of each request can be saved"
        )
    if fires.failed_share > 0:
        return Unpredicted(because="how long the requests that fail now would take is not known")
    return None


def intervened(fitted: Fitted, fires: Fires, suggestion: Suggestion, entry: EntryPoint | None) -> Fitted | Unpredicted:
    """Return the deployment with the suggestion followed, or why the model cannot tell of it.

    A part of the load is a part of what arrives, or of a closed loop's clients, one at least.
    """
    if suggestion.load < 1:
        return changed(fitted, _less(fitted, suggestion.load))
    if suggestion.relieves:
        return _relieved(fitted, fires, entry)
    change = suggestion.change
    try:
        after = changed(fitted, WhatIf(changes=(change,) if change else ()))
    except DiagError as error:
        return Unpredicted(because=f"{error.what}{f'; {error.hint}' if error.hint else ''}")
    if after.scenario == fitted.scenario:
        paths = ", ".join(setting.path for setting in change.settings) if change else ""
        return Unpredicted(because=f"{paths} changes nothing that is simulated: queues, batches, instances, engines")
    return after


def _less(fitted: Fitted, load: float) -> WhatIf:
    loops = (one for one in fitted.scenario.traffic if isinstance(one, ClosedLoop))
    own = next((one.clients for one in loops if one.entry == fitted.entry), None)
    return WhatIf(rate_factor=load) if own is None else WhatIf(clients=ceil(own * load))


def _relieved(fitted: Fitted, fires: Fires, entry: EntryPoint | None) -> Fitted | Unpredicted:
    weight, seconds = entry.weight if entry else 1.0, dict[str, float]()
    steps = next(one.steps for one in fitted.scenario.entries if one.name == fitted.entry)
    for claim in fires.claims:
        if claim.phase in _WORK:
            visits = max(sum(step.model == claim.stage for step in steps), 1)
            seconds[claim.stage] = seconds.get(claim.stage, 0.0) + claim.seconds * weight / visits
    if said := next((fitted.nested[model] for model in seconds if model in fitted.nested), ""):
        return Unpredicted(because=nested_calls(said, "").what)
    if not seconds:
        return Unpredicted(because="it makes no execution shorter that is simulated")
    after = relieved(fitted, seconds)
    shorter = ", ".join(f"{model}'s by {Unit.SECONDS.show(one)}" for model, one in sorted(seconds.items()))
    return replace(after, assumptions=(*after.assumptions, f"executions get shorter as claimed: {shorter}"))
