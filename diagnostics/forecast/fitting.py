"""An entry as steps: which model comes after which, and what passes between and behind them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean

from diagnostics.anatomy.anatomy import Anatomy, Phase, Stage, anatomies
from diagnostics.anatomy.from_calls import is_orchestrated
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.alone import both_arrivals, unslowed
from diagnostics.forecast.calling import ExecutionCalls, inner_calls_of
from diagnostics.forecast.engines import FittedEngine, fit_engine, settled
from diagnostics.forecast.fitted import (
    Doubt,
    Fitted,
    Measured,
    MeasuredStage,
    ModelDoubt,
    Unpredictable,
    nested_calls,
    outcome_of,
)
from diagnostics.forecast.load import open_rate
from diagnostics.forecast.members import FittedModel, member, raced, stated_together
from diagnostics.forecast.sharing import CENTRAL, GPU, SharedDevice, alone, sharing_of
from diagnostics.forecast.traffic import EntryTraffic, calls_of, entry_subject, hidden_seconds, offered, scv
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.device import DEVICE_HEADROOM
from diagnostics.signals.engine import ENGINE_WAIT_SECONDS
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import BATCH_SIZE, QUEUE_SECONDS, REQUEST_RATE, REQUEST_SECONDS
from diagnostics.tuning.simulation.observing import SimulationResult
from diagnostics.tuning.simulation.scenario import (
    ClosedLoop,
    EntryGraph,
    Model,
    ModelVisit,
    OpenLoop,
    Resource,
    Scenario,
)
from diagnostics.units import Unit
from diagnostics.window.graph import Ensemble

_HANDED_OVER = (Phase.QUEUE, Phase.INPUT, Phase.COMPUTE, Phase.OUTPUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """What a model that answers from a thread of its own hides.

    Attributes:
        seconds: mean time in its engine.
        scv: squared coefficient of variation of that time; 0 where unknown.
        simulated: whether its engine's iterations are simulated; else the time passes unseen.
        shown: whether the time is that of the row's compute.

    """

    seconds: float
    scv: float
    simulated: bool
    shown: bool


def entry_of(item: Anatomy, ensemble: Ensemble | None, hidden: Mapping[str, Behind]) -> EntryGraph:
    """Return an anatomy's entry.

    Gaps are the mean ones of the requests' critical path where traces show them; what no stage accounts for passes
    before the first steps.

    Args:
        item: where the time of the entry's requests goes.
        ensemble: its graph; None for a model that is called directly.
        hidden: what models that answer from their own threads hide.

    """
    models = [step.model for step in ensemble.steps] if ensemble else [item.stages[0].model]
    edges = ensemble.edges if ensemble else ((),)
    steps = []
    for position, model in enumerate(models):
        before = tuple(i for i, followers in enumerate(edges) if position in followers)
        step = step_of(model, item.stage(model), hidden.get(model))
        steps.append(replace(step, after=before))
    left = max(item.unattributed_seconds - sum(stage.gap_seconds for stage in item.stages), 0.0)
    begun = (step if step.after else replace(step, gap_seconds=step.gap_seconds + left) for step in steps)
    return EntryGraph(name=item.ensemble or models[0], steps=tuple(begun))


def with_calls(
    entry: EntryGraph, calls: Mapping[str, Sequence[str]], step_of: Callable[[str], ModelVisit]
) -> EntryGraph:
    """Return an entry with a step for each call that its models make from inside their executions.

    Args:
        entry: its graph.
        calls: the models that an execution calls, in order, by the caller.
        step_of: gives a called model's step.

    """
    made: list[ModelVisit] = []

    def add(step: ModelVisit, above: frozenset[str]) -> int:
        position = end = len(made)
        made.append(step)
        for model in calls.get(step.model, ()):
            if model not in above:
                end = add(replace(step_of(model), caller=position, after=(end,)), above | {model})
        return end

    ends: list[int] = []
    for step in entry.steps:
        ends.append(add(replace(step, after=tuple(ends[before] for before in step.after)), frozenset({step.model})))
    return replace(entry, steps=tuple(made))


def step_of(model: str, stage: Stage | None, behind: Behind | None) -> ModelVisit:
    """Return a visit to a model, with what passes before it and what the model hides."""
    gap = stage.gap_seconds / max(stage.visits, 1.0) if stage else 0.0
    if behind is None:
        return ModelVisit(model=model, gap_seconds=gap)
    if behind.simulated:
        rows = (phase for phase in _HANDED_OVER if not (behind.shown and phase is Phase.COMPUTE))
        handed = sum(stage.cells.get(phase, 0.0) for phase in rows) / max(stage.visits, 1.0) if stage else 0.0
        return ModelVisit(model=model, gap_seconds=gap + handed)
    return ModelVisit(model=model, gap_seconds=gap, tail_seconds=behind.seconds, tail_scv=behind.scv)


# A model is called by others, too, if that makes more than this part of its requests: a window's ends cut less.
_OTHERS = 0.05
# Requests of a run that engines settle in: their share of time at work is then known to a few hundredths.
_SETTLING = 500
# Requests of a run in which executions find what they take alone.
_UNSLOWING = 1500


@dataclass(slots=True)
class _Parts:
    """What was fitted so far."""

    members: dict[str, FittedModel] = field(default_factory=dict)
    engines: dict[str, FittedEngine] = field(default_factory=dict)
    entries: dict[str, EntryGraph] = field(default_factory=dict)
    calls: dict[str, EntryTraffic] = field(default_factory=dict)
    inner: dict[str, ExecutionCalls] = field(default_factory=dict)

    @property
    def called(self) -> Collection[str]:
        """The models that others are simulated to call from inside their executions."""
        return {one.model for calls in self.inner.values() for one in calls.called}

    @property
    def own(self) -> Mapping[str, float]:
        """The share of a caller's execution in which it executes itself."""
        each = {name: self.members[name].model.service.time(1) for name in self.members if self.inner[name].called}
        return {name: seconds / (seconds + self.inner[name].seconds) for name, seconds in each.items()}

    @property
    def rate(self) -> float:
        """Requests per second that were measured, of closed loops, too: calls have a positive rate or are none."""
        return sum(calls.rate for calls in self.calls.values())


def fit(evidence: Evidence, on: Subject) -> Fitted:
    """Return the model of the deployment behind an entry, as it was in the window.

    Every other entry of the server that had traffic is part of it, since they share models and devices.

    Args:
        evidence: the window.
        on: the entry: an ensemble, or a model that clients call, on a server.

    Raises:
        Unpredictable: nothing was completed there, or what the model needs was not read; the message says what.

    """
    name = on.ensemble or on.model or ""
    items = [item for item in anatomies(evidence) if item.server == on.server]
    chosen = next((item for item in items if _name(item) == name), None)
    if chosen is None:
        raise _not_called(name, items)
    parts = _Parts()
    for item in items:
        _look_inside(evidence, item, parts)
    _refuse(evidence, chosen, parts)
    _add(evidence, chosen, parts, needed=True)
    for item in items:
        if item is not chosen:
            _add(evidence, item, parts, needed=False)
    _add_others(evidence, on.server, parts)
    sharing = _sharing(evidence, on.server, parts)
    if parts.engines:
        _settle(evidence, on.server, parts, sharing)
        sharing = _sharing(evidence, on.server, parts)
    return _fitted(evidence, chosen, parts, sharing)


def _unslowed(parts: _Parts, sharing: Sequence[SharedDevice], scenario: Scenario, item: Anatomy) -> Scenario:
    """Return the scenario with the times that executions on shared cards take alone.

    Of several ways in which requests may arrive, it is the one under which requests take most nearly what was measured.
    """
    names = {lane.model for one in sharing if one.resource.startswith(GPU) for lane in one.lanes} - parts.engines.keys()
    shared = {name: parts.members[name].model for name in names if name not in parts.called}
    if not shared or not scenario.contended:
        return scenario
    seconds = _UNSLOWING / parts.rate

    def run(one: Scenario) -> SimulationResult:
        return outcome_of(one, seconds=seconds, warmup_seconds=seconds / 10, seed=_UNSLOWING)

    def miss(one: Scenario) -> float:
        latencies = run(one).entries[_name(item)].latencies
        return abs(fmean(latencies) - item.mean_seconds) if latencies else inf

    found = [unslowed(one, shared, run) for one in both_arrivals(scenario)]
    best = found[0] if len(found) == 1 else min(found, key=miss)
    return replace(best, traffic=scenario.traffic)


def _sharing(evidence: Evidence, server: str, parts: _Parts) -> tuple[SharedDevice, ...]:
    at_work = {model: engine.at_work for model, engine in parts.engines.items()}
    return sharing_of(evidence, server, {name: one.model for name, one in parts.members.items()}, at_work, parts.own)


def _settle(evidence: Evidence, server: str, parts: _Parts, sharing: Sequence[SharedDevice]) -> None:
    """Fit engines again with the share of time in which they iterate in the simulated window, and to its requests'
    time.

    A few reads of a gauge leave the one open; what an engine takes of a card depends on it. The other depends on who
    runs beside whom.
    """
    outcome = _settled(parts, sharing)
    for name, engine in parts.engines.items():
        share = outcome.models[name].busy_share
        on = Subject(server=server, model=name)
        parts.engines[name] = fit_engine(evidence, on, engine.seconds, engine.scv, share or None) or engine
    outcome = _settled(parts, _sharing(evidence, server, parts))
    for name, engine in parts.engines.items():
        parts.engines[name] = settled(engine, outcome.models[name])


def _settled(parts: _Parts, sharing: Sequence[SharedDevice]) -> SimulationResult:
    seconds = _SETTLING / parts.rate
    return outcome_of(_scenario(parts, sharing), seconds=seconds, warmup_seconds=seconds / 4)


def _not_called(name: str, items: Sequence[Anatomy]) -> Unpredictable:
    inside = next((item for item in items if any(one.model == name and one.caller for one in item.stages)), None)
    if inside is None:
        return Unpredictable(
            "no request was completed in the window", where=name, hint="read a window in which requests come"
        )
    caller = next(one.caller for one in inside.stages if one.model == name and one.caller)
    return Unpredictable(
        f"{caller} calls it from inside its executions: it has no requests of its own",
        where=f"model {name}",
        hint=f"forecast {_name(inside)}",
    )


def _look_inside(evidence: Evidence, item: Anatomy, parts: _Parts) -> None:
    """Note what models of an entry call from inside their executions, and what these call."""
    left = [stage.model for stage in item.stages]
    while left:
        model = left.pop()
        if model not in parts.inner:
            parts.inner[model] = inner_calls_of(evidence, item.server, model)
            left += parts.inner[model].in_order


def _nested(item: Anatomy, parts: _Parts) -> Mapping[str, str]:
    """Return who calls whom on an entry's path in a way that is not simulated, by both."""
    called: dict[str, list[str]] = {}
    for stage in item.stages:
        if stage.caller and not parts.inner[stage.caller].called:
            called.setdefault(stage.caller, []).append(stage.model)
    stated = {
        caller: f"{caller} calls {' and '.join(dict.fromkeys(models))} from inside its executions: "
        f"{parts.inner[caller].unknown or 'how is not known'}"
        for caller, models in called.items()
    }
    return {model: stated[caller] for caller, models in called.items() for model in models} | stated


def _name(item: Anatomy) -> str:
    return item.ensemble or item.stages[0].model


def _refuse(evidence: Evidence, item: Anatomy, parts: _Parts) -> None:
    if item.ensemble is None and (nested := _nested(item, parts)):
        raise nested_calls(next(iter(nested.values())), _name(item))
    if item.ensemble is None and _name(item) in parts.called:
        caller = next(name for name, calls in parts.inner.items() if _name(item) in calls.in_order)
        raise nested_calls(f"{caller} calls it from inside its executions, and so do its clients", _name(item))
    if item.ensemble is not None and is_orchestrated(evidence, entry_subject(item)):
        raise Unpredictable("its clients call the members themselves", where=_name(item), hint="forecast a member")


def _add(evidence: Evidence, item: Anatomy, parts: _Parts, *, needed: bool) -> None:
    """Fit an entry with its models; one that is only there beside the chosen one is left out where it cannot be."""
    if not needed and item.ensemble is None and (_nested(item, parts) or _name(item) in parts.called):
        return
    traffic = calls_of(evidence, item)
    if traffic is None:
        if needed:
            raise Unpredictable("its request rate was not read", where=_name(item), hint="read a longer window")
        return
    try:
        for model in _models(item, parts):
            if model not in parts.members:
                on = Subject(server=item.server, model=model)
                parts.members[model] = member(evidence, on, parts.inner[model])
    except Unpredictable:
        if needed:
            raise
        return
    hidden = _hidden(evidence, item, parts)
    calls = {name: inner.in_order for name, inner in parts.inner.items()}
    parts.entries[_name(item)] = with_calls(
        entry_of(item, _graph(evidence, item), hidden),
        calls,
        lambda model: step_of(model, item.stage(model), hidden.get(model)),
    )
    parts.calls[_name(item)] = traffic


def _graph(evidence: Evidence, item: Anatomy) -> Ensemble | None:
    return evidence.graph(item.server).ensembles[item.ensemble] if item.ensemble is not None else None


def _hidden(evidence: Evidence, item: Anatomy, parts: _Parts) -> Mapping[str, Behind]:
    """Return what models of an entry do behind their rows, and note those engines whose iterations can be fitted."""
    found = {}
    for stage in item.stages:
        on = Subject(server=item.server, model=stage.model)
        shown = evidence.is_engine(on) and evidence.shows_engine_time(on)
        seconds = stage.cells.get(Phase.COMPUTE if shown else Phase.ENGINE, 0.0)
        if seconds <= 0 or not (shown or Phase.ENGINE in stage.cells):
            continue
        each = [] if shown else hidden_seconds(evidence, entry_subject(item), stage.model)
        spread = scv(each) if len(each) >= ENOUGH_EVENTS else None
        engine = parts.engines.get(stage.model) or fit_engine(evidence, on, seconds, spread)
        if engine is not None:
            parts.engines[stage.model] = engine
        if engine is not None or not shown:
            found[stage.model] = Behind(seconds=seconds, scv=spread or 0.0, simulated=engine is not None, shown=shown)
    return found


def _add_others(evidence: Evidence, server: str, parts: _Parts) -> None:
    """Add requests that reach a model from elsewhere than the entries, as an entry of its own."""
    for name in list(parts.members):
        if name in parts.entries:
            continue
        total = offered(evidence, Subject(server=server, model=name))
        known = sum(
            parts.calls[entry.name].rate * sum(step.model == name for step in entry.steps)
            for entry in parts.entries.values()
        )
        if (
            total is not None
            and known > 0
            and total > known * (1 + _OTHERS)
            and evidence.calls(Subject(server=server, model=name))
        ):
            traffic = OpenLoop(entry=name, rate=total - known)
            stated = f"{name} is called directly as well, {total - known:.3g} times per second"
            parts.entries[name] = EntryGraph(name=name, steps=(ModelVisit(model=name),))
            parts.calls[name] = EntryTraffic(
                traffic=traffic, rate=traffic.rate, dispersion=None, replayed=False, assumptions=(stated,)
            )


def _scenario(parts: _Parts, sharing: Sequence[SharedDevice]) -> Scenario:
    return Scenario(
        models=tuple(_model(one.model, parts.engines.get(name), sharing) for name, one in parts.members.items()),
        entries=tuple(parts.entries.values()),
        traffic=tuple(calls.traffic for calls in parts.calls.values()),
        resources=tuple(Resource(name=one.resource, capacity=one.capacity, devices=one.devices) for one in sharing),
    )


def _fitted(evidence: Evidence, item: Anatomy, parts: _Parts, sharing: Sequence[SharedDevice]) -> Fitted:
    shown = measured(evidence, item)
    doubt = Doubt(
        models={name: _doubt(one.doubt, parts.engines.get(name)) for name, one in parts.members.items()},
        arrivals={name: calls.dispersion for name, calls in parts.calls.items() if calls.dispersion is not None},
        replayed=frozenset(name for name, calls in parts.calls.items() if calls.replayed),
        sharing=tuple(sharing),
    )
    scenario, races = raced(
        evidence, item.server, _unslowed(parts, sharing, _scenario(parts, sharing), item), parts.rate
    )
    models = {one.model: replace(doubt.models[one.model], overtakes=one.bounds) for one in races}
    doubt = replace(doubt, models=_spreads(parts, scenario, {**doubt.models, **models}))
    configs = {name: evidence.config(Subject(server=item.server, model=name)) for name in parts.members}
    left = {name: evidence.read(DEVICE_HEADROOM, Subject(server=item.server, model=name)).high for name in configs}
    return Fitted(
        server=item.server,
        entry=_name(item),
        scenario=scenario,
        doubt=doubt,
        measured=shown,
        configs={name: config for name, config in configs.items() if config is not None},
        devices={name: one.devices for name, one in parts.members.items()},
        assumptions=(
            *_assumptions(parts, sharing),
            *_worked_off(parts.calls[_name(item)].traffic, shown),
            *(one.assumption for one in races),
        ),
        nested=_nested(item, parts),
        untold=frozenset(name for name, one in parts.members.items() if one.untold and name not in parts.engines),
        headroom={name: share for name, share in left.items() if share is not None},
    )


def _spreads(parts: _Parts, scenario: Scenario, doubts: Mapping[str, ModelDoubt]) -> dict[str, ModelDoubt]:
    """Return the doubts with bounds of the work's own spread, in proportion to what was measured."""
    found = {}
    for model in scenario.models:
        doubt, whole = doubts[model.name], parts.members[model.name].model.service_scv
        part = model.service_scv / whole if whole > 0 else 1.0
        found[model.name] = replace(doubt, service_scv=(part * doubt.service_scv[0], part * doubt.service_scv[1]))
    return found


def _model(model: Model, engine: FittedEngine | None, sharing: Sequence[SharedDevice]) -> Model:
    """Return the model with its engine, alone on what it shares: slowing it down is the simulation's part."""
    made = replace(model, engine=engine.engine if engine else None)
    for one in sharing:
        share = one.parts(CENTRAL).get(model.name)
        if share is not None:
            made = alone(made, one.resource, share)
    return made


def _doubt(doubt: ModelDoubt, engine: FittedEngine | None) -> ModelDoubt:
    if engine is None:
        return doubt
    return replace(
        doubt, joining=engine.joining, joins=engine.joins, running=engine.running, service_error=engine.error
    )


def _assumptions(parts: _Parts, sharing: Sequence[SharedDevice]) -> tuple[str, ...]:
    stated: list[str] = []
    for calls in parts.calls.values():
        stated += calls.assumptions
    for name, one in parts.members.items():
        stated += parts.engines[name].assumptions if name in parts.engines else one.assumptions
    stated += [one.assumption for one in sharing]
    return tuple(dict.fromkeys(stated_together(stated, list(parts.members))))


# Share of what arrives. Counters move when requests end: so many more may be answered in a window by chance alone.
_MORE_ANSWERED = 0.05


def _worked_off(traffic: OpenLoop | ClosedLoop, shown: Measured) -> Iterable[str]:
    """Yield that more was answered than arrived: what waited before the window is not simulated."""
    if isinstance(traffic, OpenLoop) and shown.throughput > open_rate(traffic) * (1 + _MORE_ANSWERED):
        answered, arrived = (Unit.PER_SECOND.show(rate) for rate in (shown.throughput, open_rate(traffic)))
        yield f"{arrived} arrive; {answered} were answered, because a backlog from before the window was worked off"


def measured(evidence: Evidence, item: Anatomy) -> Measured:
    """Return what a window shows of an entry, by the server's own clock."""
    entry = entry_subject(item)
    rate, mean = evidence.read(REQUEST_RATE, entry), evidence.read(REQUEST_SECONDS, entry)
    return Measured(
        mean=item.mean_seconds if item.ensemble is None else mean.value,
        p50=item.spread.p50 if item.spread else None,
        p95=item.spread.p95 if item.spread else None,
        throughput=rate.value or 0.0,
        span_seconds=rate.span or 0.0,
        stages=tuple(_stage(evidence, item, stage.model) for stage in item.stages),
    )


def _models(item: Anatomy, parts: _Parts) -> Iterable[str]:
    """Return the models that an entry's requests reach, those that are called from inside executions included."""
    found = dict.fromkeys(stage.model for stage in item.stages)
    left = list(found)
    while left:
        called = [model for model in parts.inner[left.pop()].in_order if model not in found]
        found |= dict.fromkeys(called)
        left += called
    return found


def _stage(evidence: Evidence, item: Anatomy, model: str) -> MeasuredStage:
    on = Subject(server=item.server, model=model)
    stage = item.stage(model)
    engine = evidence.is_engine(on)
    work = sum(stage.cells.get(p, 0.0) for p in Phase if p not in (Phase.QUEUE, Phase.GAP)) if stage else None
    queue = evidence.read(ENGINE_WAIT_SECONDS if engine else QUEUE_SECONDS, on).value
    compute = work / max(stage.visits, 1.0) if work is not None and stage else None
    if engine and compute is not None:
        compute = max(compute - (queue or 0.0), 0.0)  # what an engine hides holds the wait inside, too
    return MeasuredStage(
        model=model,
        queue_mean=queue,
        compute_mean=compute,
        busy_share=None if engine else evidence.read(INSTANCE_BUSY_SHARE, on).value,
        batch_size_mean=None if engine else evidence.read(BATCH_SIZE, on).value,
    )
