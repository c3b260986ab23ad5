"""The one diagnosis of a window, for every verb and the service: its checks, then what forecasts say of causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from diagnostics.diagnosis.explanation import BlindSpot, Explanation, explain_evidence, focused
from diagnostics.diagnosis.objective import Objective
from diagnostics.diagnosis.predicting import Simulations
from diagnostics.diagnosis.run import without_ledgers
from diagnostics.diagnosis.validation import CpuBudget, ForecastCache, validated
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.window.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """How causes are held against forecasts.

    Attributes:
        simulate: simulate each suggestion that can be; False leaves it to closed forms.
        budget: the processor time that forecasts of one diagnosis may take; None for `validation.VALIDATION_SECONDS`.
        forecasts: answers of earlier windows of the same deployment; None to answer again.
        simulations: forecasts of this window that were made before; None for none.

    """

    simulate: bool = True
    budget: CpuBudget | None = None
    forecasts: ForecastCache | None = None
    simulations: Simulations | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisOptions:
    """What is asked of a diagnosis.

    Attributes:
        sources: whom the window was read from; None names the servers in it.
        blind_spots: what the collector already knows that it could not read.
        objective: what latency must be; missing it makes the window degraded.
        present: leave out what a change of settings inside the window ended.
        entry: the model or ensemble whose causes come first; None for all alike.
        light: drop the notes of checks that did not fire, for who keeps many diagnoses.
        validation: how causes are held against forecasts; None leaves them as the checks found them.

    """

    sources: Sequence[str] | None = None
    blind_spots: Sequence[BlindSpot] = ()
    objective: Objective | None = None
    present: bool = False
    entry: str | None = None
    light: bool = False
    validation: Validation | None = Validation()


_DEFAULT = DiagnosisOptions()


def diagnose(evidence: Window | WindowEvidence, options: DiagnosisOptions = _DEFAULT) -> Explanation:
    """Return the explanation of a window, without the causes that forecasts refute."""
    found = explain_evidence(
        WindowEvidence(evidence) if isinstance(evidence, Window) else evidence,
        sources=options.sources,
        blind_spots=options.blind_spots,
        objective=options.objective,
        present=options.present,
    )
    if options.light:
        found = replace(found, results=without_ledgers(found.results))
    if (how := options.validation) is not None:
        found = validated(
            found, simulate=how.simulate, memory=how.forecasts, budget=how.budget, simulations=how.simulations
        )
    return found if options.entry is None else focused(found, options.entry)
