"""Forecasts of what findings' suggestions would do to their entries, from one fit of each entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.checks.check import Prediction, Suggestion
from diagnostics.diagnosis.effect import Effect, EndToEnd, Unpredicted
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.intervening import intervened, modelled, outside
from diagnostics.diagnosis.run import Result
from diagnostics.diagnosis.steadiness import grew, overloaded, unaccounted, unsteady
from diagnostics.errors import DiagError
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted, MeasuredStage
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.performance import Estimate, Performance, StagePerformance
from diagnostics.forecast.predict import performance
from diagnostics.signals.subject import Subject
from diagnostics.tuning.simulation.scenario import OpenLoop
from diagnostics.units import Unit

# All draws, as `diag whatif` makes them, and a short central run take about a second for five stages.
_VISITS = 5_000
# Recorded arrivals are replayed whole, 21 times and more: of more visits than these, closed forms tell alone.
_MOST_REPLAYED = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """An entry as it is, and with a suggestion followed; and the window that it was fitted to."""

    fitted: Fitted
    after: Fitted
    evidence: Evidence

    def grew(self, model: str) -> bool | None:
        """Return whether a model's queue grew through the window; None where that is not known."""
        return grew(self.evidence, Subject(server=self.fitted.server, model=model))

    @property
    def affordable(self) -> bool:
        """Whether simulating it takes no longer than a report may."""
        return all(_replayed(one) <= _MOST_REPLAYED for one in (self.fitted, self.after))


@dataclass(slots=True)
class Predictor:
    """Fits each entry once, when it is first asked for."""

    evidence: Evidence
    anatomy: Sequence[Anatomy]
    _fits: dict[Subject, Fitted | Unpredicted] = field(default_factory=dict)
    _asked: dict[tuple[str, str], Intervention | Unpredicted | None] = field(default_factory=dict)

    def asked(self, finding: Finding, result: Result) -> Intervention | Unpredicted | None:
        """Return what to forecast for a finding, why nothing can be, or None where there is nothing to tell."""
        key = finding.id, repr(finding.suggestion)
        if key not in self._asked:
            self._asked[key] = self._made(finding, result)
        return self._asked[key]

    def _made(self, finding: Finding, result: Result) -> Intervention | Unpredicted | None:
        suggestion, fires = finding.suggestion, result.fires
        if suggestion is None or fires is None:
            return None
        if not modelled(suggestion):
            return outside(fires, finding.impact.seconds_per_request)
        on = self._entry(result)
        fitted = self._fitted(on) if on is not None else Unpredicted(because="no request passed it in the window")
        if isinstance(fitted, Unpredicted):
            return fitted
        after = intervened(fitted, fires, suggestion, result.entry)
        return (
            after
            if isinstance(after, Unpredicted)
            else Intervention(fitted=fitted, after=after, evidence=self.evidence)
        )

    def together(self, several: Sequence[tuple[Finding, Result]]) -> Intervention | None:
        """Return what to forecast of several findings' suggestions, followed at once; None where nothing can be."""
        asked = [(finding, result, self.asked(finding, result)) for finding, result in several]
        first = asked[0][2] if asked else None
        if not isinstance(first, Intervention):
            return None
        after, names = first.fitted, list[str]()
        for finding, result, alone in asked:
            if not isinstance(alone, Intervention) or alone.fitted is not first.fitted:
                return None
            assert result.fires
            assert finding.suggestion
            made = intervened(after, result.fires, finding.suggestion, result.entry)
            if isinstance(made, Unpredicted):
                return None
            after = made
            names.append(f"{finding.check} of {finding.subject.model}")
        said = f"the changes for {' and '.join(names)} are made together: neither helps alone"
        return replace(first, after=replace(after, assumptions=(*after.assumptions, said)))

    def _entry(self, result: Result) -> Subject | None:
        on, entry = result.subject, result.entry
        if entry is None:
            return None
        if entry.ensemble is not None:
            return Subject(server=on.server, ensemble=entry.ensemble)
        items = [one for one in self.anatomy if one.server == on.server]
        if on.model is not None:
            items = [one for one in items if one.ensemble is None and one.stage(on.model) is not None]
        return Subject(server=on.server, model=items[0].stages[0].model if items else on.model)

    def _fitted(self, on: Subject) -> Fitted | Unpredicted:
        if on not in self._fits:
            try:
                self._fits[on] = fit(self.evidence, on)
            except DiagError as error:
                self._fits[on] = Unpredicted(because=why_not(error))
        return self._fits[on]


def why_not(error: DiagError) -> str:
    """Return why nothing can be forecast, and what to do."""
    return f"{error.what}; {error.hint}" if error.hint else error.what


@dataclass(slots=True)
class Simulations:
    """Forecasts by simulation, each deployment's made once."""

    _kept: dict[int, tuple[Fitted, Performance]] = field(default_factory=dict)

    def of(self, fitted: Fitted) -> Performance:
        """Return a forecast by simulation, as long as a report may wait.

        Raises:
            Unpredictable: the simulation takes more events than a run may have.

        """
        # A deployment that is kept keeps its identity: no other one gets it meanwhile.
        if id(fitted) not in self._kept:
            self._kept[id(fitted)] = fitted, performance(fitted, visits=_VISITS)
        return self._kept[id(fitted)][1]


def effect(asked: Intervention, finding: Finding, simulations: Simulations | None, doubt: str = "") -> Effect:
    """Return what the suggestion does, by simulation where that is given and affordable, else by closed forms.

    `doubt` is why it is to be trusted less.

    Raises:
        Unpredictable: the simulation takes more events than a run may have.

    """
    if full := overloaded(asked.fitted, asked.after, asked.grew):
        return full
    forecast = simulations.of if simulations is not None and asked.affordable else estimate
    simulate, now, found = forecast is not estimate, asked.fitted.measured, forecast(asked.after)
    known = finding.impact.mean_seconds if now.mean is None else now.mean
    if found.mean is None or not found.stable:
        by = "the simulation finds" if simulate else "the closed forms, coarser than diag whatif, find"
        return _endless(asked, forecast(asked.fitted), found, by)
    if found.mean.low < known <= found.mean.value:
        return _either(known, found.mean)
    return EndToEnd(
        entry=found.entry,
        now_mean=known,
        now_p95=now.p95,
        mean=found.mean,
        p95=found.p95 if now.p95 is not None else None,
        stage=_stage(asked, finding, found, simulate=simulate),
        simulated=simulate,
        assumptions=asked.after.assumptions,
        doubt=doubt,
    )


def _endless(asked: Intervention, before: Performance, found: Performance, by: str) -> Unpredicted:
    """Return that a forecast has no steady state; it speaks against a check only where the window as it is has one.

    Args:
        asked: what was forecast.
        before: the forecast of the window as it is.
        found: the forecast of the suggestion, in the same way.
        by: who finds it.

    """
    names, same = ([one.model for one in each.stages if not one.stable] for each in (found, before))
    seen = [asked.grew(name) for name in names if name in same]
    if seen and len(seen) == len(names) and True not in seen:
        return unaccounted(by, names, steady=None not in seen)
    whose = f" of {', '.join(names)}" if names else ""
    return unsteady(f"{by} no steady state{whose} with it", overrules=before.stable)


def _either(now: float, mean: Estimate) -> Unpredicted:
    show = Unit.SECONDS.show
    high = "not keeping up" if mean.high is None else show(mean.high)
    return Unpredicted(
        because=f"requests may take less long or longer, from {show(mean.low)} to {high} instead of {show(now)}",
        overrules=True,
    )


def _stage(asked: Intervention, finding: Finding, found: Performance, *, simulate: bool) -> Prediction | None:
    """Return the forecast of the suggestion's stage: a check's own where nothing was simulated."""
    suggestion = finding.suggestion
    if suggestion is None or (suggestion.prediction is not None and not simulate):
        return suggestion.prediction if suggestion else None
    model = suggestion.change.model if suggestion.change else finding.subject.model
    stages = [one for one in asked.fitted.measured.stages if model in (None, one.model) and one.queue_mean is not None]
    if not stages:
        return None
    # What befalls a card or a server is shown where it changes most.
    after = {one.model: one for one in found.stages}
    before = max(stages, key=lambda one: _gain(suggestion, one, after[one.model]))
    made = _prediction(suggestion, before, after[before.model])
    if made is None:
        return None
    said = tuple(one for one in asked.after.assumptions if one not in asked.fitted.assumptions)
    return replace(made, model="" if before.model == finding.subject.model else before.model, assumptions=said)


def _gain(suggestion: Suggestion, now: MeasuredStage, after: StagePerformance) -> float:
    if suggestion.relieves:
        return (now.compute_mean or 0.0) - after.compute_mean.value
    return (now.queue_mean or 0.0) - (after.queue_mean.value if after.queue_mean else 0.0)


def _prediction(suggestion: Suggestion, now: MeasuredStage, after: StagePerformance) -> Prediction | None:
    """Return the stage's queue; its execution where that changes; both where the check's own prediction is of both."""
    own, seconds, value, phase = suggestion.prediction, now.queue_mean, after.queue_mean, Phase.QUEUE
    if suggestion.relieves:
        seconds, value, phase = now.compute_mean, after.compute_mean, Phase.COMPUTE
    elif own is not None and own.phase is Phase.COMPUTE and value is not None:
        value, phase = _sum(value, after.compute_mean), Phase.COMPUTE
    if value is None or seconds is None:
        return None
    return Prediction(
        phase=phase,
        now_seconds=own.now_seconds if own else seconds,
        predicted_seconds=value.value,
        low_seconds=value.low,
        high_seconds=value.high,
        unless=own.unless if own else "",
    )


def _sum(one: Estimate, other: Estimate) -> Estimate:
    high = None if one.high is None or other.high is None else one.high + other.high
    return Estimate(value=one.value + other.value, low=one.low + other.low, high=high)


def _replayed(fitted: Fitted) -> int:
    steps = {entry.name: len(entry.steps) for entry in fitted.scenario.entries}
    traffic = (one for one in fitted.scenario.traffic if isinstance(one, OpenLoop) and one.times is not None)
    return sum(len(one.times or ()) * steps[one.entry] for one in traffic)
