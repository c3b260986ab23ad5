"""Draws of a fitted scenario, each within the bounds of what is not known, and their runs summed up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log
from random import Random
from statistics import NormalDist

from diagnostics.forecast.engines import MOST_CROWDING
from diagnostics.forecast.fitted import Doubt, Fitted, Interval, ModelDoubt
from diagnostics.forecast.load import open_rate, overloaded
from diagnostics.forecast.performance import Estimate, Performance, StagePerformance
from diagnostics.forecast.sharing import CENTRAL, DeviceDemand
from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.simulation.observing import EntryOutcome, ModelOutcome, SimulationResult
from diagnostics.tuning.simulation.scenario import OVERTAKES, ClosedLoop, EntryGraph, Model, OpenLoop, Scenario
from diagnostics.tuning.simulation.stability import sheds

# Execution times beyond two standard deviations are left to the draws that an interval may miss.
_TAIL = 0.025
# Recorded queues of instances that are hardly idle are explained by dispatch gaps of 0.03 to 0.2 ms, and a sleeping
# stage's timer adds another 0.05 to 0.2 ms (Triton 2.51): from a fifth of the usual gap to five thirds.
_GAP_RANGE = (1 / 5, 5 / 3)
# Recorded arrivals are resampled in blocks of this many: bunches shorter than a block keep their shape.
_BLOCK = 20


@dataclass(frozen=True, slots=True)
class Draw:
    """One of several draws, whose positions between the bounds of what is not known cover them evenly.

    For each unknown, one draw lies in each of as many equal parts of its bounds as there are draws, in an order of its
    own (Latin hypercube sampling, McKay, Beckman and Conover 1979). An unknown's order depends on its name and the seed
    alone, so that a change of one model leaves the others' values.
    """

    number: int
    of: int
    seed: int

    def position(self, name: str) -> float:
        """Return a number between 0 and 1 for an unknown."""
        rng = self.rng(name)
        order = rng.sample(range(self.of), self.of)
        parts = [rng.random() for _ in range(self.of)]
        return (order[self.number] + parts[self.number]) / self.of

    def rng(self, name: str) -> Random:
        """Return the generator of a name, the same for all draws of a seed."""
        return Random(f"{self.seed}/{name}".encode(errors="backslashreplace"))  # noqa: S311 (nothing here is secret)


def drawn(fitted: Fitted, draw: Draw) -> Scenario:
    """Return the scenario with a draw's values for what is not known."""
    scenario, doubt = fitted.scenario, fitted.doubt
    parts = {one.resource: one.parts(draw.position(one.resource)) for one in doubt.sharing}
    central = {one.resource: one.parts(CENTRAL) for one in doubt.sharing}
    models = tuple(
        _model(_shared(model, parts, central), doubt.models.get(model.name), draw) for model in scenario.models
    )
    return replace(scenario, models=models, traffic=tuple(_traffic(one, doubt, draw) for one in scenario.traffic))


def _model(model: Model, doubt: ModelDoubt | None, draw: Draw) -> Model:
    def at(what: str) -> float:
        return draw.position(f"{what} {model.name}")

    if doubt is None:
        return model
    deviation = doubt.service_error * NormalDist().inv_cdf(min(max(at("error"), _TAIL), 1 - _TAIL))
    # As far below as above by ratio: where few executions were seen, their mean less its error would be no time at all.
    error = 1 + deviation if deviation >= 0 else 1 / (1 - deviation)
    low, high = _GAP_RANGE
    service = _service(model.service, at("slope")).scaled(error)
    service = replace(service, dispatch_gap=service.dispatch_gap * (low + (high - low) * at("gap")))
    made = replace(
        _raced(model, doubt.overtakes, draw), service=service, service_scv=_between(doubt.service_scv, at("scv"))
    )
    if doubt.joining is None:
        return made
    made = _joining(made, doubt.joining, doubt.joins, at("joining"))
    return _slower(_crowded(made, doubt.running, at("crowding")), error)


def _raced(model: Model, bounds: Interval | None, draw: Draw) -> Model:
    """Return the model with another luck in its batcher's races: the host's threads are the same for all models."""
    if model.batcher is None or bounds is None:
        return model
    position = draw.position("overtakes")
    # Most hosts lose few: the square of an even draw has a quarter of the bounds as its median.
    share = bounds[0] + (bounds[1] - bounds[0]) * (position**2 if bounds == OVERTAKES else position)
    return replace(model, batcher=replace(model.batcher, overtakes=share))


def _crowded(model: Model, running: float, position: float) -> Model:
    """Return the model with another part of its decoding that grows with its requests; a small one is likelier."""
    engine = model.engine
    if engine is None:
        return model
    whole = engine.iteration_seconds + engine.iteration_seconds_per_request * running
    part = MOST_CROWDING * position**2
    each = replace(
        engine,
        iteration_seconds=whole * (1 - part),
        iteration_seconds_per_request=whole * part / running,
    )
    return replace(model, engine=each)


def _slower(model: Model, factor: float) -> Model:
    """Return the model with its engine's times `factor` times as long."""
    engine = model.engine
    if engine is None:
        return model
    each = replace(
        engine,
        prefill_seconds=engine.prefill_seconds * factor,
        iteration_seconds=engine.iteration_seconds * factor,
        iteration_seconds_per_request=engine.iteration_seconds_per_request * factor,
    )
    return replace(model, engine=each)


def _service(service: ServiceTime, position: float) -> ServiceTime:
    """Return the service time at a slope within its bounds; where only one size was seen, nearer to flat.

    The square of an even draw has a quarter of the bounds as its median.
    """
    low, high = service.per_item_low, service.per_item_high
    unseen = service.estimated and len(service.sizes_seen) == 1
    return service.with_slope(low + (high - low) * (position**2 if unseen else position))


def _joining(model: Model, bounds: Interval, joins: float, position: float) -> Model:
    """Return the model with another split of its iterations' time, the mean of which was measured."""
    engine = model.engine
    if engine is None:
        return model
    joining = bounds[0] + (bounds[1] - bounds[0]) * position
    whole = engine.iteration_seconds + joins * engine.prefill_seconds
    left = max(whole - joins * joining, whole / 100)
    return replace(model, engine=replace(engine, prefill_seconds=joining, iteration_seconds=left))


def _shared(
    model: Model, parts: Mapping[str, Mapping[str, DeviceDemand]], central: Mapping[str, Mapping[str, DeviceDemand]]
) -> Model:
    """Return the model with another part of what it shares, and with the time alone that makes the measured one."""
    for resource, drawn_parts in parts.items():
        if model.name in drawn_parts:
            share = drawn_parts[model.name]
            factor = share.alone / central[resource][model.name].alone
            model = replace(
                _slower(model, factor),
                demand={**model.demand, resource: share.demand},
                service=model.service.scaled(factor),
            )
    return model


def _between(bounds: Interval, position: float) -> float:
    """Return a value between bounds of a scale, at equal ratios."""
    low, high = bounds
    if low <= 0 or high <= low:
        return low
    return exp(log(low) + (log(high) - log(low)) * position)


def _traffic(traffic: OpenLoop | ClosedLoop, doubt: Doubt, draw: Draw) -> OpenLoop | ClosedLoop:
    if isinstance(traffic, ClosedLoop):
        return traffic
    if traffic.times is not None:
        if traffic.entry not in doubt.replayed:
            return traffic
        return replace(traffic, times=_redrawn(traffic.times, draw.rng(f"arrivals {traffic.entry} {draw.number}")))
    bounds = doubt.arrivals.get(traffic.entry)
    if bounds is None:
        return traffic
    index = _between(bounds, draw.position(f"arrivals {traffic.entry}"))
    return replace(traffic, scv=min(index, 1.0), burst=max(index, 1.0))


def _redrawn(times: Sequence[float], rng: Random) -> Sequence[float]:
    """Return as many arrivals, with the intervals of the recorded ones resampled in blocks (circular block bootstrap,
    Politis and Romano 1992).
    """
    count = len(times)
    if count < 2:
        return times
    whole = times[-1] - times[0]
    gaps = [*(after - before for before, after in pairwise(times)), whole / (count - 1)]
    made: list[float] = []
    now = times[0]
    while len(made) < count:
        start = rng.randrange(count)
        for position in range(start, start + min(_BLOCK, count - len(made))):
            made.append(now)
            now += gaps[position % count]
    return tuple(made)


# The least and most of 20 draws hold another one with a probability of 19 / 21.
DRAWS = 20


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """A scenario and what came of it."""

    scenario: Scenario
    outcome: SimulationResult

    @property
    def overloaded(self) -> frozenset[str]:
        """The models that cannot keep up."""
        return overloaded(self.scenario, self.outcome)


def summary(fitted: Fitted, centrals: Sequence[ScenarioRun], runs: Sequence[ScenarioRun]) -> Performance:
    """Return what the fitted entry's requests experienced.

    Args:
        fitted: the deployment.
        centrals: its runs with central values, one at least; they differ in luck, and their mean is the value.
        runs: runs with other values of what is not known.

    """
    central = centrals[0]
    name, full = fitted.entry, central.overloaded
    entry = next(one for one in fitted.scenario.entries if one.name == name)
    models = tuple(dict.fromkeys(step.model for step in entry.steps))
    stuck = bool(full & set(models))

    def of_entry(pick: Callable[[EntryOutcome], float | None]) -> Estimate | None:
        return None if stuck else _estimate(centrals, runs, models, lambda run: pick(run.outcome.entries[name]))

    outcome = central.outcome.entries[name]
    return Performance(
        entry=name,
        mean=of_entry(lambda one: _mean(one.latencies)),
        p50=of_entry(lambda one: quantile(one.latencies, 0.50)),
        p95=of_entry(lambda one: quantile(one.latencies, 0.95)),
        p99=of_entry(lambda one: quantile(one.latencies, 0.99)),
        throughput=_throughput(fitted, entry, centrals, runs),
        rejected=outcome.failed / central.outcome.seconds,
        stages=tuple(_stage(fitted, model, centrals, runs) for model in models),
        mean_most=_most(fitted, runs, models),
        drawn=tuple(
            None if run.overloaded & set(models) else _mean(run.outcome.entries[name].latencies) for run in runs
        ),
    )


def _most(fitted: Fitted, runs: Sequence[ScenarioRun], models: Sequence[str]) -> float | None:
    """Return the most mean seconds of a measured window's length: where a queue grows, they grow as the time does."""
    found = [
        mean * (max(fitted.measured.span_seconds / run.outcome.seconds, 1.0) if run.overloaded & set(models) else 1.0)
        for run in runs
        if (mean := _mean(run.outcome.entries[fitted.entry].latencies)) is not None
    ]
    return max(found, default=None)


def _throughput(
    fitted: Fitted, entry: EntryGraph, centrals: Sequence[ScenarioRun], runs: Sequence[ScenarioRun]
) -> Estimate:
    """Return requests answered per second."""
    stages = {step.model for step in entry.steps}
    loads = [one for one in fitted.scenario.traffic if one.entry == entry.name and isinstance(one, OpenLoop)]
    stuck = bool(centrals[0].overloaded & stages)
    if loads and not stuck and all(one.times is not None and one.entry not in fitted.doubt.replayed for one in loads):
        return _counted(entry, centrals, runs)
    found = _estimate(centrals, runs, (), lambda run: _answered(run, entry, run.overloaded & stages))
    outcome = centrals[0].outcome.entries[entry.name]
    if not loads or stuck or found is None or not outcome.arrived:
        return found or Estimate(value=0.0, low=0.0, high=0.0)
    # What comes is known: how much of it came in this run is luck.
    value = sum(map(open_rate, loads)) * _through(outcome)
    return replace(found, value=value, low=min(found.low, value), high=max(found.high or value, value))


def _counted(entry: EntryGraph, centrals: Sequence[ScenarioRun], runs: Sequence[ScenarioRun]) -> Estimate:
    """Return what a counter says of known arrivals: one that ends as it is read is counted, or is not, at both ends."""
    found = _estimate(centrals, runs, (), lambda run: run.outcome.entries[entry.name].answered / run.outcome.seconds)
    assert found is not None
    edge = 1 / centrals[0].outcome.seconds
    return replace(found, low=max(found.low - edge, 0.0), high=(found.high or found.value) + edge)


def _answered(run: ScenarioRun, entry: EntryGraph, stuck: Collection[str]) -> float:
    """Return answered requests per second: all that are not rejected, or as many as a stage does that is full."""
    outcome = run.outcome.entries[entry.name]
    if not stuck:
        return outcome.arrived / run.outcome.seconds * _through(outcome)
    if outcome.failed:
        # Behind a stage that is full, others reject: only what came out was answered.
        return outcome.answered / run.outcome.seconds
    # A run too short for later stages to reject anything: what it executes is all that is answered.
    ends = {*stuck, *(model.name for model in run.scenario.models if sheds(model))}
    own = {step.model for step in entry.steps}
    return outcome.arrived / run.outcome.seconds * min(_passed(run, model) for model in ends & own)


def _through(outcome: EntryOutcome) -> float:
    """Return the part of the requests that is answered.

    Those inside when a run ends are neither answered nor refused yet: where most are refused in a short run, they are
    more than those answered, so answers are counted.
    """
    if not outcome.failed:
        return 1.0
    return min(outcome.answered, outcome.arrived - outcome.failed) / outcome.arrived


def _passed(run: ScenarioRun, model: str) -> float:
    """Return the part that a full stage executes of what is asked of it, by all entries: first come, first served."""
    requested = sum(_requested(run, entry, model) for entry in run.scenario.entries)
    return min(_served(run, model) / requested, 1.0) if requested > 0 else 0.0


def _requested(run: ScenarioRun, entry: EntryGraph, model: str) -> float:
    """Return what an entry's requests ask of a model: items; of an engine, requests."""
    items = (
        1
        if _is_engine(run, model)
        else max((one.items for one in run.scenario.traffic if one.entry == entry.name), default=1)
    )
    return run.outcome.entries[entry.name].arrived * items * sum(step.model == model for step in entry.steps)


def _is_engine(run: ScenarioRun, model: str) -> bool:
    return any(one.engine for one in run.scenario.models if one.name == model)


def _served(run: ScenarioRun, model: str) -> int:
    """Return the items that a model's executions took; of an engine, which counts iterations, the requests it ended."""
    outcome = run.outcome.models[model]
    if _is_engine(run, model):
        return sum(1 for seconds in outcome.service if seconds > 0)
    return outcome.items


def _stage(
    fitted: Fitted, model: str, centrals: Sequence[ScenarioRun], runs: Sequence[ScenarioRun]
) -> StagePerformance:
    central = centrals[0]
    full = model in central.overloaded
    tail = sum(
        s.tail_seconds for e in fitted.scenario.entries if e.name == fitted.entry for s in e.steps if s.model == model
    )
    outcome = central.outcome.models[model]

    def of(pick: Callable[[ModelOutcome], float | None], which: tuple[str, ...] = ()) -> Estimate | None:
        return _estimate(centrals, runs, which, lambda run: pick(run.outcome.models[model]))

    def waited(pick: Callable[[Sequence[float]], float | None]) -> Estimate | None:
        if full:
            return None
        return of(lambda one: pick(one.waits), (model,))

    compute = of(lambda one: _mean(one.service))
    nothing = Estimate(value=0.0, low=0.0, high=0.0)
    return StagePerformance(
        model=model,
        queue_mean=waited(_mean),
        queue_p95=waited(lambda waits: quantile(waits, 0.95)),
        compute_mean=_shifted(compute, tail) if compute else nothing,
        busy_share=of(lambda one: one.busy_share) or nothing,
        batch_size_mean=outcome.batch_size_mean,
        refused_per_second=outcome.refused / central.outcome.seconds,
        stable=not full,
        engine=_is_engine(central, model),
    )


def _shifted(estimate: Estimate, seconds: float) -> Estimate:
    high = None if estimate.high is None else estimate.high + seconds
    return Estimate(value=estimate.value + seconds, low=estimate.low + seconds, high=high)


def _estimate(
    centrals: Sequence[ScenarioRun],
    runs: Sequence[ScenarioRun],
    models: Sequence[str],
    pick: Callable[[ScenarioRun], float | None],
) -> Estimate | None:
    """Return the central runs' mean with the least and most of the draws'; None where nothing happened.

    Without an upper end where one of these models may not keep up in more than one draw of twenty.
    """
    value = _mean([one for one in map(pick, centrals) if one is not None])
    if value is None:
        return None
    found = [one for one in map(pick, runs) if one is not None]
    stuck = sum(1 for run in runs if run.overloaded & set(models))
    high = None if stuck > len(runs) / DRAWS else max([*found, value])
    return Estimate(value=value, low=min([*found, value]), high=high)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return a quantile by linear interpolation; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
