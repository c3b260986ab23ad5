"""From evidence and an objective to the change that meets it, or to the settings that carry most within it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from diagnostics.diagnosis.change_options import models_on, vary_given
from diagnostics.diagnosis.diagnose import DiagnosisOptions, Validation, diagnose
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.predicting import Simulations
from diagnostics.diagnosis.proposal import CarriedProposal, LoadChange, Test, TunedProposal, moves, patches
from diagnostics.diagnosis.proposing import ChangeRequest, SourceEvidence, entry_of, load_of
from diagnostics.errors import UsageError
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.capacity import InfeasibilityReport, is_closed, most_carried, shortfall
from diagnostics.forecast.engine_fit import is_loop
from diagnostics.forecast.entry_model import SchedulerModel
from diagnostics.forecast.fitted import Fitted, Unpredictable
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.load import open_rate
from diagnostics.forecast.options import Minimize
from diagnostics.forecast.packing import GpuMemory, Packing, gpu_memory, packed, tenants_of
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import DRAWS, performance, unlike
from diagnostics.forecast.search import Candidate, Tuning, Vary, tune
from diagnostics.forecast.target import LatencyTarget
from diagnostics.forecast.what_if import WhatIf, changed, doubt
from diagnostics.signals.gpu import INSTANCE_GPU_MEMORY
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import ARRIVAL_RATE
from diagnostics.tuning.changes import ConfigChange
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop
from diagnostics.units import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a search is for, as on the command line.

    Attributes:
        objective: text of `--objective`.
        minimize: what is to be smallest; None for the fewest instances without taking any away.
        vary: texts of `--vary`.

    """

    objective: str
    minimize: Minimize | None = None
    vary: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _TuningContext:
    """What is searched: the entry, its model at the load wished for, and what its values are chosen from."""

    seen: SourceEvidence
    on: Subject
    measured: Fitted
    fitted: Fitted
    load: LoadChange
    target: LatencyTarget
    vary: Vary | None
    seed: int

    @property
    def evidence(self) -> WindowEvidence:
        return self.seen.evidence


def tuned(seen: SourceEvidence, request: ChangeRequest, aim: Aim) -> TunedProposal:
    """Return the smallest change that meets the objective, or what stands in its way.

    Raises:
        UsageError: the wish or the aim cannot be read, or names what is not there.
        Unpredictable: the evidence does not suffice, or the model contradicts what was measured.

    """
    began = time.monotonic()
    ground = _ground(seen, request, aim)
    memory = gpu_memory(ground.evidence, ground.fitted)
    if aim.minimize is Minimize.GPU_SHARE and not any("GPU" in one.demand for one in ground.fitted.scenario.models):
        hint = "record it with the extra gpu on the server's machine, or minimize instances"
        raise UsageError("how much of a GPU is used was not read", where="--minimize gpu-share", hint=hint)
    found = tune(
        ground.fitted,
        ground.target,
        minimize=aim.minimize or Minimize.INSTANCES,
        fewer=aim.minimize is not None,
        vary=ground.vary,
        memory=memory,
        seed=request.seed,
    )
    _refuse(ground, found.baseline)
    return _proposal(ground, found, memory, began)


def carrying(seen: SourceEvidence, request: ChangeRequest, aim: Aim) -> CarriedProposal:
    """Return the settings that carry most within the objective; raises as `tuned` does."""
    began = time.monotonic()
    ground = _ground(seen, request, aim)
    if ground.vary is None:
        hint = "say what may be varied, as in --vary safety.instance_group.count=1..4"
        raise UsageError("more instances carry more for as long as the device does", where="--maximize", hint=hint)
    baseline = performance(ground.fitted, seed=request.seed)
    _refuse(ground, baseline)
    found = most_carried(ground.fitted, ground.target, ground.vary, seed=request.seed)
    best = found[0].changes if found else ()
    measured, account = ground.measured.measured, _account(ground, baseline)
    stated = (*changed(ground.fitted, WhatIf(changes=best)).assumptions, *unlike(measured.mean, account))
    return CarriedProposal(
        on=ground.on,
        window=seen.window,
        load=ground.load,
        target=ground.target,
        closed=is_closed(ground.fitted),
        baseline=baseline,
        found=tuple(found),
        moves=tuple(moves(SchedulerModel(ground.measured).value_now, one.changes) for one in found),
        patches=patches(ground.evidence, ground.on.server, best),
        measured_mean=measured.mean,
        measured_p95=measured.p95,
        assumptions=tuple(dict.fromkeys(stated)),
        seconds=time.monotonic() - began,
        test=_test(ground.fitted),
    )


def _ground(seen: SourceEvidence, request: ChangeRequest, aim: Aim) -> _TuningContext:
    target = LatencyTarget.parse(aim.objective)
    on = entry_of(seen.evidence, request.entry)
    vary = vary_given(aim.vary, models_on(seen.evidence, on.server)) if aim.vary else None
    if is_loop(seen.evidence, on):
        hint = "try values, as with diag whatif --sweep engine.max_batch_size=8,16,32"
        raise Unpredictable("settings of an engine without Triton are not searched", where=on.model or "", hint=hint)
    measured = fit(seen.evidence, on)
    load = load_of(SchedulerModel(measured, seen.evidence.read(ARRIVAL_RATE, on).value), request)
    _check(measured, vary, target)
    fitted = changed(measured, WhatIf(rate_factor=load.rate_factor, clients=load.clients))
    return _TuningContext(
        seen=seen,
        on=on,
        measured=measured,
        fitted=fitted,
        load=load,
        target=target,
        vary=vary,
        seed=request.seed,
    )


def _check(fitted: Fitted, vary: Vary | None, target: LatencyTarget) -> None:
    known = {step.model for entry in fitted.scenario.entries if entry.name == fitted.entry for step in entry.steps}
    for model in vary or ():
        if model not in known:
            hint = f"its models are {', '.join(sorted(known))}"
            raise UsageError(f"{model} is not behind {fitted.entry}", where="--vary", hint=hint)
    if target.quantile not in (None, 0.5, 0.95, 0.99):
        raise UsageError(f"no forecast of {target.text!r}", where="--objective", hint="state the mean, p50, p95 or p99")


def _refuse(ground: _TuningContext, baseline: Performance) -> None:
    """Refuse to call an objective met that was measured to be missed: then the model lacks what makes requests slow.

    How wide the model's interval is does not matter: an answer goes by its central value.
    """
    measured, ours = _measured(ground), ground.target.forecast(baseline)
    if not ground.load.same or measured is None or ours is None or measured < ground.target.seconds:
        return
    if ground.target.met(baseline):
        show = Unit.SECONDS.show
        raise Unpredictable(
            f"{ground.target.text} was missed (measured {show(measured)}), and the model of the window does not show "
            f"why (modelled {show(ours.value)})",
            where=ground.fitted.entry,
            hint="look at it with diag explain, try its change with diag whatif, and read a window of steady load",
        )


def _measured(ground: _TuningContext) -> float | None:
    """Return the seconds that the objective's statistic was measured to be, or at least; None where that is unknown.

    A percentile is no shorter than a lower one.
    """
    seen, quantile = ground.measured.measured, ground.target.quantile
    if quantile is None:
        return seen.mean
    lower = [seconds for share, seconds in ((0.5, seen.p50), (0.95, seen.p95)) if share <= quantile]
    return max((seconds for seconds in lower if seconds is not None), default=None)


def _proposal(ground: _TuningContext, found: Tuning, memory: GpuMemory | None, began: float) -> TunedProposal:
    measured, account = ground.measured.measured, _account(ground, found.baseline)
    # A model that lacks most of what makes requests slow cannot predict what would bring them nearer to the objective.
    nearest = None if account.misses(measured.mean) else found.nearest
    shown = found.best or nearest
    changes = shown.changes if shown else ()
    server, value_now = ground.on.server, SchedulerModel(ground.measured).value_now
    return TunedProposal(
        on=ground.on,
        window=ground.seen.window,
        load=ground.load,
        tuning=replace(found, nearest=nearest),
        moves=moves(value_now, changes),
        others=tuple(moves(value_now, one.changes) for one in found.runners_up),
        patches=patches(ground.evidence, server, changes) if found.best else (),
        measured_mean=measured.mean,
        measured_p95=measured.p95,
        account=account,
        assumptions=_assumptions(ground, shown, account, memory),
        shortfall=_shortfall(ground, found),
        packing=_packing(ground, shown, memory),
        cause=_cause(ground, found) if ground.load.same else None,
        seconds=time.monotonic() - began,
        test=_test(ground.fitted),
        doubt=doubt(ground.fitted, changes),
    )


def _cause(ground: _TuningContext, tuning: Tuning) -> Finding | None:
    """Return what `diag explain` names first of the same window, by the forecasts that were made already."""
    made, simulations = [(tuple[ConfigChange, ...](), tuning.baseline)], Simulations()
    if tuning.best:
        made.append((tuning.best.changes, tuning.best.performance))
    for changes, forecast in made:
        if len(forecast.drawn) == DRAWS and not ground.seed:  # as a diagnosis makes it
            simulations.note(changed(ground.fitted, WhatIf(changes=changes)), forecast)
    found = diagnose(ground.evidence, DiagnosisOptions(validation=Validation(simulations=simulations))).actionable
    return found[0] if found else None


def _test(fitted: Fitted) -> Test:
    traffic = next(one for one in fitted.scenario.traffic if one.entry == fitted.entry)
    groups = {name: config.instance_groups for name, config in fitted.configs.items()}
    return Test(
        rate=open_rate(traffic) if isinstance(traffic, OpenLoop) else None,
        clients=traffic.clients if isinstance(traffic, ClosedLoop) else None,
        items=traffic.items,
        kinds={name: found[0].kind for name, found in groups.items() if found},
    )


def _account(ground: _TuningContext, baseline: Performance) -> Performance:
    """Return the model's account of the window at the measured load; `baseline` is at the load that is asked for."""
    return baseline if ground.load.same else performance(ground.measured, seed=ground.seed)


def _assumptions(
    ground: _TuningContext, shown: Candidate | None, account: Performance, memory: GpuMemory | None
) -> tuple[str, ...]:
    after = changed(ground.fitted, WhatIf(changes=shown.changes if shown else ()))
    stated = (
        *after.assumptions,
        *unlike(ground.measured.measured.mean, account),
        *_memory_unknown(shown, memory),
    )
    return tuple(dict.fromkeys(stated))


def _memory_unknown(shown: Candidate | None, memory: GpuMemory | None) -> Iterator[str]:
    if shown is None or memory is None or shown.fits is not None:
        return
    models = ", ".join(sorted({change.model for change in shown.changes} & (memory.unknown | set(memory.at_most))))
    yield (
        f"the GPU's memory holds the new instances of {models or 'the models'}: what one holds was not read; "
        f"{INSTANCE_GPU_MEMORY.fix}"
    )


def _shortfall(ground: _TuningContext, found: Tuning) -> InfeasibilityReport | None:
    if found.best is not None or found.nearest is None:
        return None
    nearest = found.nearest
    return shortfall(ground.fitted, nearest.changes, ground.target, nearest.performance, ground.seed)


def _packing(ground: _TuningContext, shown: Candidate | None, memory: GpuMemory | None) -> Packing | None:
    if shown is None:
        return None
    after = changed(ground.fitted, WhatIf(changes=shown.changes))
    tenants = tenants_of(after, shown.performance, memory)
    return packed(tenants, memory.total if memory is not None else None) if tenants else None
