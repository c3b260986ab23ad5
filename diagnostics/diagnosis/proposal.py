"""What a change of settings or load would do to one entry, with the patches that make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.checks.check import Suggestion
from diagnostics.diagnosis.advice import Advice, advice
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.performance import Forecast, Performance
from diagnostics.forecast.sweep import ForecastSweep
from diagnostics.signals.subject import Subject
from diagnostics.tuning.changes import ConfigChange, SettingValue
from diagnostics.tuning.current import current


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One setting of one model from the value in effect to another; `known` is False where none was read."""

    model: str
    path: str
    before: SettingValue
    after: SettingValue
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadChange:
    """How the traffic is changed.

    Attributes:
        rate_factor: by what all arrivals are multiplied.
        clients: how many clients there are instead; None for as many as now.

    """

    rate_factor: float = 1.0
    clients: int | None = None

    @property
    def same(self) -> bool:
        """Whether it is the load that was measured."""
        return self.rate_factor == 1.0 and self.clients is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change and what is forecast of it.

    Attributes:
        on: the entry: an ensemble, or a model that is called directly.
        window: when and from whom the evidence was read.
        moves: every setting that changes.
        load: how the traffic changes.
        forecast: before and after.
        patches: how to apply each model's change, by model.

    """

    on: Subject
    window: WindowFacts
    moves: tuple[Move, ...]
    load: LoadChange
    forecast: Forecast
    patches: tuple[tuple[str, Advice], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProposal:
    """A sweep, over what is changed beside it, with the patch of its knee.

    Attributes:
        moves: settings that change at every value.
        baseline: what is forecast of the deployment as it is.
        measured_mean: mean seconds that were measured; None where unknown.
        assumptions: what the numbers rest on.
        patches: how to apply the knee and the moves; empty where the knee is what is in effect.

    """

    on: Subject
    window: WindowFacts
    moves: tuple[Move, ...]
    load: LoadChange
    baseline: Performance
    measured_mean: float | None
    sweep: ForecastSweep
    assumptions: tuple[str, ...]
    patches: tuple[tuple[str, Advice], ...]


def moves(evidence: Evidence, server: str, changes: Sequence[ConfigChange]) -> tuple[Move, ...]:
    """Return each setting of the changes with the value in effect."""
    found = []
    for change in changes:
        config = evidence.config(Subject(server=server, model=change.model))
        for setting in change.settings:
            now = current(config, setting.path) if config is not None else None
            known = config is not None and not setting.path.startswith("engine.")
            found.append(Move(model=change.model, path=setting.path, before=now, after=setting.value, known=known))
    return tuple(found)


def patches(evidence: Evidence, server: str, changes: Sequence[ConfigChange]) -> tuple[tuple[str, Advice], ...]:
    """Return how to apply each change."""
    made = (
        (change.model, advice(evidence, Subject(server=server, model=change.model), _as_suggestion(change)))
        for change in changes
    )
    return tuple((model, one) for model, one in made if one is not None)


def _as_suggestion(change: ConfigChange) -> Suggestion:
    return Suggestion(text="", change=change)
