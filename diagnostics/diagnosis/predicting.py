"""A suggestion as a change of the fitted deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, inf, sqrt

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.checks.check import Fires, Prediction, Suggestion
from diagnostics.diagnosis.finding import Effect, EndToEnd, Finding, Unpredicted
from diagnostics.diagnosis.run import Result
from diagnostics.errors import DiagError
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.evidence.ledger import EntryPoint
from diagnostics.forecast.engine_fit import FittedLoop, fit_loop, is_loop
from diagnostics.forecast.engine_forecast import engine_forecast, settled_loop
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted, MeasuredStage, ModelDoubt, nested_calls
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.load import drain_seconds, is_full, lanes, open_rate, reaching
from diagnostics.forecast.performance import Estimate, Performance, StagePerformance, saving
from diagnostics.forecast.predict import performance
from diagnostics.forecast.what_if import WhatIf, changed, relieved
from diagnostics.signals.engine import ENGINE_WAIT_SECONDS
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import PENDING, QUEUE_SECONDS
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop
from diagnostics.units import Unit

# A claim on these is execution time; a queue follows from it.
_WORK = (Phase.COMPUTE, Phase.ENGINE)


def modelled(suggestion: Suggestion) -> bool:
    """Whether a suggestion is of a kind that the model of the schedulers may hold."""
    return suggestion.change is not None or suggestion.load < 1 or suggestion.relieves


def outside(fires: Fires, seconds: float) -> Unpredicted | None:
    """Return why the effect of a suggestion that the model does not hold is unknown; None where it costs nothing.

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
    """Return the deployment with the suggestion followed, or why the model cannot predict it.

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
    if stated := next((fitted.nested[model] for model in seconds if model in fitted.nested), ""):
        return Unpredicted(because=nested_calls(stated, "").what)
    if not seconds:
        return Unpredicted(because="it makes no execution shorter that is simulated")
    after = relieved(fitted, seconds)
    shorter = ", ".join(f"{model}'s by {Unit.SECONDS.show(one)}" for model, one in sorted(seconds.items()))
    return replace(after, assumptions=(*after.assumptions, f"executions get shorter as claimed: {shorter}"))


# Three waits exceed three others by chance alone once in twenty windows (rank sums; Mann & Whitney 1947).
_PART = 3
# Standard errors between what is offered and what can be done, beyond which chance does not explain the difference.
_CERTAIN = 2.0
_TRACE = "trace every request (rate=100), which shows clients that wait for their answers"


def grew(evidence: Evidence, on: Subject) -> bool | None:
    """Return whether a model's queue grew through the window: the waits in it, or the requests that wait.

    That is more in each of the last three of nine parts of the window than in each of the first three, the wait being
    the mean of what was completed in the part. None where it was read less often, or nothing was completed in a part.
    """
    moments, parts = evidence.moments(on.server), 3 * _PART
    if len(moments) <= parts:
        return None
    ends = [moments[round(at * (len(moments) - 1) / parts)] for at in range(parts + 1)]
    spans = list(pairwise(ends))
    signals = (ENGINE_WAIT_SECONDS if evidence.is_engine(on) else QUEUE_SECONDS, PENDING)
    seen = {_is_longer([evidence.read(signal, on, span).value for span in spans]) for signal in signals}
    return True in seen if seen != {None} else None


def _is_longer(parts: Sequence[float | None]) -> bool | None:
    known = [value for value in parts if value is not None]
    return min(known[-_PART:]) > max(known[:_PART]) if len(known) == len(parts) else None


def overloaded(fitted: Fitted, after: Fitted, grown: Callable[[str], bool | None]) -> Unpredicted | None:
    """Return what is known where models are offered more with a change than they do with full batches and alone.

    None where none is. What a model did in the window without its queue growing it can do, whatever formulas say of it.

    Args:
        fitted: the deployment as it was in the window.
        after: with the change.
        grown: whether a model's queue grew through the window; None where that is not known.

    """
    before, full = _full(fitted), _full(after)
    seen = {name: grown(name) for name in full if name in before}
    kept_up = [name for name, longer in seen.items() if longer is False]
    shares = {name: share / before[name] if name in kept_up else share for name, share in full.items()}
    most = 1 + _CERTAIN * max((_error(after, name) for name in full), default=0.0)
    sure = [name for name, share in shares.items() if seen.get(name) or share > most]
    if sure:
        return unsteady(f"with it {', '.join(sure)} is offered more than it can do", overrules=True)
    return _undecided(list(full), kept_up) if full else None


def _undecided(full: Sequence[str], kept_up: Sequence[str]) -> Unpredicted:
    names = kept_up or full
    why = "it is offered what it can do, to within what one window tells; read a longer one"
    if kept_up:
        why = f"formulas put what it is offered at all that it can do, but its queue did not go on growing; {_TRACE}"
    return Unpredicted(because=f"it is not known whether {', '.join(names)} keeps up with it: {why}")


def _error(fitted: Fitted, name: str) -> float:
    """Return the standard error of what is offered ÷ what can be done, as a share.

    Arrivals in a window vary by their index of dispersion ÷ their number (Cox & Lewis 1966); executions drift.
    """
    loops = [one for one in fitted.scenario.traffic if isinstance(one, OpenLoop)]
    arrivals = sum(map(open_rate, loops)) * fitted.measured.span_seconds
    index = max((max(one.scv, one.burst) for one in loops), default=1.0)
    drift = fitted.doubt.models.get(name, ModelDoubt(service_scv=(0.0, 0.0))).service_error
    return sqrt(drift**2 + index / arrivals) if arrivals > 0 else inf


def unsteady(why: str, *, overrules: bool) -> Unpredicted:
    """Return that a queue grows; it speaks against a check only where the window as it is has a steady state."""
    return Unpredicted(because=f"{why}: a queue would grow without end", overrules=overrules)


def unaccounted(by: str, names: Sequence[str], *, steady: bool) -> Unpredicted:
    """Return that a forecast has no steady state for models as they are, either, whose queues were not seen to grow.

    `steady` says whether they were seen not to.
    """
    why = f"but no such queue went on growing; {_TRACE}" if steady else "and how queues went is not known; read longer"
    return Unpredicted(because=f"{by} no steady state of {', '.join(names)} without it, either, {why}")


def _full(fitted: Fitted) -> Mapping[str, float]:
    """Return what is offered of what can be done, by model that gets as much or more."""
    wanted = reaching(fitted.scenario)
    return {
        model.name: wanted[model.name] * drain_seconds(model)
        for model in lanes(fitted.scenario)
        if is_full(model, wanted.get(model.name, 0.0))
    }


# Recorded arrivals are replayed whole, 21 times and more: beyond this many visits, only closed forms are used.
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
    _requested: dict[tuple[str, str], Intervention | Unpredicted | None] = field(default_factory=dict)
    _loops: dict[Subject, FittedLoop] = field(default_factory=dict)

    def requested(self, finding: Finding, result: Result) -> Intervention | Unpredicted | None:
        """Return what to forecast for a finding, why nothing can be forecast, or None where there is nothing to say."""
        key = finding.id, repr(finding.suggestion)
        if key not in self._requested:
            self._requested[key] = self._made(finding, result)
        return self._requested[key]

    def _made(self, finding: Finding, result: Result) -> Intervention | Unpredicted | None:
        suggestion, fires = finding.suggestion, result.fires
        if suggestion is None or fires is None:
            return None
        if not modelled(suggestion) or self.evidence.server_kind(result.subject) is not None:
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

    def by_iterations(self, finding: Finding, doubt: str) -> Effect | None:
        """Return what a change of an engine without Triton does, by its simulated iterations; None of all else.

        Raises:
            Unpredictable: its iterations were not read, or what the change does cannot be determined.

        """
        change, on = finding.suggestion and finding.suggestion.change, finding.subject
        if not change or not isinstance(self.evidence, WindowEvidence) or self.evidence.server_kind(on) is None:
            return None
        key = Subject(server=on.server, model=on.model)
        if not is_loop(self.evidence, key):
            return None
        if key not in self._loops:
            self._loops[key] = settled_loop(fit_loop(self.evidence, key))
        found = engine_forecast(self._loops[key], WhatIf(changes=(change,)))
        now, then = found.measured_mean, found.predicted
        if now is None or not found.baseline.accounts_for(now):
            return Unpredicted(because="its simulated iterations do not take as long as was measured")
        if then.mean is None:
            return unsteady("the simulation finds no steady state of its engine with it", overrules=False)
        return EndToEnd(
            entry=on.model or "",
            now_mean=now,
            now_p95=None,
            mean=then.mean,
            p95=None,
            stage=None,
            simulated=True,
            assumptions=found.assumptions,
            doubt=doubt,
            saving=_saved(now, found.baseline, then),
        )

    def together(self, several: Sequence[tuple[Finding, Result]]) -> Intervention | None:
        """Return what to forecast of several findings' suggestions, followed at once; None where nothing can be."""
        requested = [(finding, result, self.requested(finding, result)) for finding, result in several]
        first = requested[0][2] if requested else None
        if not isinstance(first, Intervention):
            return None
        after, names = first.fitted, list[str]()
        for finding, result, alone in requested:
            if not isinstance(alone, Intervention) or alone.fitted is not first.fitted:
                return None
            assert result.fires
            assert finding.suggestion
            made = intervened(after, result.fires, finding.suggestion, result.entry)
            if isinstance(made, Unpredicted):
                return None
            after = made
            names.append(f"{finding.check} of {finding.subject.model}")
        stated = f"the changes for {' and '.join(names)} are made together: neither helps alone"
        return replace(first, after=replace(after, assumptions=(*after.assumptions, stated)))

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
    """Forecasts by simulation, as `diag whatif` and `diag tune` make them; each deployment's is made once."""

    _kept: list[tuple[Fitted, Performance]] = field(default_factory=list)

    def note(self, fitted: Fitted, found: Performance) -> None:
        """Keep a forecast that was made elsewhere, of the same length and seed."""
        self._kept.append((fitted, found))

    def of(self, fitted: Fitted) -> Performance:
        """Return a forecast by simulation.

        Raises:
            Unpredictable: the simulation takes more events than a run may have.

        """
        known = next((found for one, found in self._kept if _is_simulated_as(one, fitted)), None)
        if known is None:
            known = performance(fitted)
            self.note(fitted, known)
        return known


def _is_simulated_as(one: Fitted, other: Fitted) -> bool:
    """Return whether forecasts of two deployments are the same; what is shown beside them may differ."""
    if one is other:
        return True
    return (one.entry, one.scenario, one.doubt, one.measured) == (
        other.entry,
        other.scenario,
        other.doubt,
        other.measured,
    )


def effect(requested: Intervention, finding: Finding, simulations: Simulations | None, doubt: str = "") -> Effect:
    """Return what the suggestion does, by simulation where that is given and affordable, else by formulas.

    `doubt` is why it is to be trusted less.

    Raises:
        Unpredictable: the simulation takes more events than a run may have.

    """
    if full := overloaded(requested.fitted, requested.after, requested.grew):
        return full
    forecast = simulations.of if simulations is not None and requested.affordable else estimate
    simulate, now, found = forecast is not estimate, requested.fitted.measured, forecast(requested.after)
    known = finding.impact.mean_seconds if now.mean is None else now.mean
    if found.mean is None or not found.stable:
        by = "the simulation finds" if simulate else "the formulas, coarser than diag whatif, find"
        return _endless(requested, forecast(requested.fitted), found, by)
    if found.mean.low < known <= found.mean.value:
        return _either(known, found.mean)
    return EndToEnd(
        entry=found.entry,
        now_mean=known,
        now_p95=now.p95,
        mean=found.mean,
        p95=found.p95 if now.p95 is not None else None,
        stage=_stage(requested, finding, found, simulate=simulate),
        simulated=simulate,
        assumptions=requested.after.assumptions,
        doubt=doubt,
        saving=_saved(known, forecast(requested.fitted), found) if simulate else None,
    )


def _saved(measured: float, before: Performance, after: Performance) -> Estimate | None:
    """Return what is left of a measured mean, with the interval of the modelled difference; None if that is no account.

    The value is the difference of the figures that are shown, and the interval holds it. At most, the change saves what
    lies between the measured mean and the shortest forecast: queues of another window may be longer than these were.
    """
    modelled = saving(before, after) if before.accounts_for(measured) else None
    if modelled is None or after.mean is None:
        return None
    value, most = measured - after.mean.value, measured - after.mean.low
    high = most if modelled.high is None else min(modelled.high, most)
    return Estimate(value=value, low=min(modelled.low, value), high=max(high, value))


def _endless(requested: Intervention, before: Performance, found: Performance, by: str) -> Unpredicted:
    """Return that a forecast has no steady state; it speaks against a check only where the window as it is has one.

    Args:
        requested: what was forecast.
        before: the forecast of the window as it is.
        found: the forecast of the suggestion, in the same way.
        by: who finds it.

    """
    names, same = ([one.model for one in each.stages if not one.stable] for each in (found, before))
    seen = [requested.grew(name) for name in names if name in same]
    if seen and len(seen) == len(names) and True not in seen:
        return unaccounted(by, names, steady=None not in seen)
    whose = f" of {', '.join(names)}" if names else ""
    return unsteady(f"{by} no steady state{whose} with it", overrules=before.stable)


def _either(now: float, mean: Estimate) -> Unpredicted:
    show = Unit.SECONDS.show
    then = f"{show(mean.low)} or more" if mean.high is None else f"from {show(mean.low)} to {show(mean.high)}"
    return Unpredicted(
        because=f"requests may take less long or longer, {then} instead of {show(now)}",
        overrules=True,
    )


def _stage(requested: Intervention, finding: Finding, found: Performance, *, simulate: bool) -> Prediction | None:
    """Return the forecast of the suggestion's stage: a check's own where nothing was simulated."""
    suggestion = finding.suggestion
    if suggestion is None or (suggestion.prediction is not None and not simulate):
        return suggestion.prediction if suggestion else None
    model = suggestion.change.model if suggestion.change else finding.subject.model
    stages = [
        one for one in requested.fitted.measured.stages if model in (None, one.model) and one.queue_mean is not None
    ]
    if not stages:
        return None
    # What befalls a card or a server is shown where it changes most.
    after = {one.model: one for one in found.stages}
    before = max(stages, key=lambda one: _gain(suggestion, one, after[one.model]))
    made = _prediction(suggestion, before, after[before.model])
    if made is None:
        return None
    stated = tuple(one for one in requested.after.assumptions if one not in requested.fitted.assumptions)
    return replace(made, model="" if before.model == finding.subject.model else before.model, assumptions=stated)


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
