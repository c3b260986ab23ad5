"""What a change of settings or load would do to one entry, with the patches that make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.checks.check import Suggestion
from diagnostics.diagnosis.advice import Advice, advice
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.diagnosis.finding import Finding
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.capacity import Carried, InfeasibilityReport
from diagnostics.forecast.packing import Packing
from diagnostics.forecast.performance import Forecast, Performance
from diagnostics.forecast.predict import ForecastSweep
from diagnostics.forecast.search import Candidate, Tuning
from diagnostics.forecast.target import LatencyTarget
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import ConfigChange, SettingValue


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
        prompt_factor, output_factor: by what the tokens of an engine's prompts and answers are multiplied.

    """

    rate_factor: float = 1.0
    clients: int | None = None
    prompt_factor: float = 1.0
    output_factor: float = 1.0

    @property
    def same(self) -> bool:
        """Whether it is the load that was measured."""
        return self == LoadChange()


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
        doubt: why it may bring nothing, in a sentence; empty where nothing says so.

    """

    on: Subject
    window: WindowFacts
    moves: tuple[Move, ...]
    load: LoadChange
    forecast: Forecast
    patches: tuple[tuple[str, Advice], ...]
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProposal:
    """A sweep, over what is changed beside it, with the patch of its knee.

    Attributes:
        moves: settings that change at every value.
        baseline: what is forecast of the deployment as it is.
        measured_mean: mean seconds that were measured; None where unknown.
        measured_p95: 95th percentile of traced requests, in seconds; None without traces.
        assumptions: what the numbers rest on.
        patches: how to apply the knee and the moves; empty where the knee is what is in effect.

    """

    on: Subject
    window: WindowFacts
    moves: tuple[Move, ...]
    load: LoadChange
    baseline: Performance
    measured_mean: float | None
    measured_p95: float | None = None
    sweep: ForecastSweep
    assumptions: tuple[str, ...]
    patches: tuple[tuple[str, Advice], ...]

    @property
    def misses(self) -> bool:
        """Whether the model's account of the window misses most of what was measured in it."""
        return self.baseline.misses(self.measured_mean)


def moves(
    value_now: Callable[[str, str], tuple[SettingValue, bool]], changes: Sequence[ConfigChange]
) -> tuple[Move, ...]:
    """Return each setting of the changes with the value in effect, which `value_now` gives by model and path."""
    found = []
    for change in changes:
        for setting in change.settings:
            now, known = value_now(change.model, setting.path)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """What a load test of the entry is made of.

    Attributes:
        rate: requests per second that arrive; None in a closed loop.
        clients: clients of a closed loop; None in an open one.
        items: items of a request.
        kinds: the kind of each model's instances, as `KIND_GPU`.

    """

    rate: float | None
    clients: int | None
    items: int
    kinds: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedProposal:
    """The smallest change that meets an objective, or what stands in its way.

    Attributes:
        on: the entry: an ensemble, or a model that is called directly.
        window: when and from whom the evidence was read.
        load: the load that the objective is to be met at, against the measured one.
        tuning: what the search found.
        moves: settings of the answer; where there is none, of what comes nearest.
        others: settings of each runner-up.
        patches: how to apply the answer, by model; empty where there is none.
        measured_mean: mean seconds end to end that were measured; None where unknown.
        measured_p95: 95th percentile of traced requests, in seconds; None without traces.
        account: the model's account of the window; None where that is the tuning's baseline, at the measured load.
        assumptions: what the numbers rest on.
        shortfall: why nothing meets the objective; None where something does, or nothing was simulated.
        packing: how few GPUs hold the models with the answer; None where no GPU was seen.
        cause: what the checks name first in the window; None where they name nothing, or another load is asked for.
        seconds: how long the search took.
        test: the load that confirms it.
        doubt: why the answer may bring nothing, in a sentence; empty where nothing says so.

    """

    on: Subject
    window: WindowFacts
    load: LoadChange
    tuning: Tuning
    moves: tuple[Move, ...]
    others: tuple[tuple[Move, ...], ...]
    patches: tuple[tuple[str, Advice], ...]
    measured_mean: float | None
    measured_p95: float | None = None
    account: Performance | None = None
    assumptions: tuple[str, ...]
    shortfall: InfeasibilityReport | None
    packing: Packing | None
    cause: Finding | None
    seconds: float
    test: Test
    doubt: str = ""

    @property
    def beside_cause(self) -> bool:
        """Whether the cause that the checks name first has another remedy than what is shown."""
        suggestion = self.cause.suggestion if self.cause else None
        if suggestion is None:
            return False
        shown = {(one.model, one.path) for one in self.moves}
        change = suggestion.change
        return change is None or not {(change.model, one.path) for one in change.settings} & shown

    @property
    def shown(self) -> Candidate | None:
        """The answer, or else what comes nearest."""
        return self.tuning.best or self.tuning.nearest

    @property
    def plausible(self) -> bool:
        """Whether the model accounts for the mean that was measured; also where none was."""
        return self.measured_mean is None or self._account.accounts_for(self.measured_mean)

    @property
    def misses(self) -> bool:
        """Whether the model's account of the window misses most of what was measured in it."""
        return self._account.misses(self.measured_mean)

    @property
    def _account(self) -> Performance:
        return self.account or self.tuning.baseline

    @property
    def certain(self) -> bool | None:
        """Whether the answer meets the objective with its whole interval, by a model whose interval of the mean holds
        what was measured, and nothing says that it may bring nothing; None where there is no answer.
        """
        if self.tuning.best is None:
            return None
        if not self.plausible or self.doubt:
            return False
        value = self.tuning.target.forecast(self.tuning.best.performance)
        return value is not None and value.high is not None and value.high < self.tuning.target.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedProposal:
    """Settings by the load that they carry within an objective.

    Attributes:
        on: the entry.
        window: when and from whom the evidence was read.
        load: the load that `found`'s multiples are of, against the measured one.
        target: the objective.
        closed: whether the load is a closed loop, which is not varied.
        baseline: what is forecast of the deployment as it is, at that load.
        found: the settings, the one that carries most first.
        moves: what each changes.
        patches: how to apply the first, by model.
        measured_mean: mean seconds end to end that were measured; None where unknown.
        measured_p95: 95th percentile of traced requests, in seconds; None without traces.
        assumptions: what the numbers rest on.
        seconds: how long the search took.
        test: the load that confirms it.

    """

    on: Subject
    window: WindowFacts
    load: LoadChange
    target: LatencyTarget
    closed: bool
    baseline: Performance
    found: tuple[Carried, ...]
    moves: tuple[tuple[Move, ...], ...]
    patches: tuple[tuple[str, Advice], ...]
    measured_mean: float | None
    measured_p95: float | None = None
    assumptions: tuple[str, ...]
    seconds: float
    test: Test
