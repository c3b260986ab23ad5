"""What no forecast may say, whatever was measured and whatever is changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite

from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.load import open_rate, whole
from diagnostics.forecast.performance import Estimate, Performance, StagePerformance
from diagnostics.tuning.simulation.scenario import ClosedLoop, EntryGraph, Model
from diagnostics.tuning.simulation.stability import capacity

# Rounding of sums of a million numbers.
_ROUNDING = 1e-9
# Counted in a run of a few hundred requests, five standard errors.
_LUCK = 0.25
# Beyond so many refused for each that is answered, a run answers a handful: what began before it is many of them.
_MOST_REFUSED = 10
# Seconds, and shares of time, that nobody would act upon.
_IDLE = 0.005


def impossible(fitted: Fitted, found: Performance) -> Iterator[str]:
    """Yield what is wrong with a forecast of a deployment, a line each.

    Args:
        fitted: the deployment that was forecast, with what was changed.
        found: the forecast.

    """
    yield from _latency(found)
    yield from _load(fitted, found)
    yield from _capacity(fitted, found)
    yield from _path(fitted, found)
    limits = {model.name: model for model in fitted.scenario.models}
    for stage in found.stages:
        yield from _stage(stage)
        model = limits[stage.model]
        items = max((one.items for one in fitted.scenario.traffic), default=1)
        most = model.engine.slots if model.engine else max(model.max_batch, items)
        if stage.batch_size_mean is not None and not 0 < stage.batch_size_mean <= most + _ROUNDING:
            yield f"{stage.model} executes {stage.batch_size_mean:g} of at most {most} items"


def _latency(found: Performance) -> Iterator[str]:
    statistics = {"mean": found.mean, "p50": found.p50, "p95": found.p95, "p99": found.p99}
    for name, one in statistics.items():
        yield from _estimate(name, one)
    quantiles = [one for one in (found.p50, found.p95, found.p99) if one is not None]
    for less, more in pairwise(quantiles):
        if less.value > more.value + _ROUNDING or less.low > more.low + _ROUNDING:
            yield f"quantiles are out of order: {less}, {more}"
        if more.high is not None and (less.high is None or less.high > more.high + _ROUNDING):
            yield f"quantiles' upper ends are out of order: {less}, {more}"
    if not found.stable and any(one is not None for one in statistics.values()):
        yield "a latency, though a stage does not keep up"


def _load(fitted: Fitted, found: Performance) -> Iterator[str]:
    yield from _estimate("throughput", found.throughput)
    if found.mean_most is not None and not isfinite(found.mean_most):
        yield f"the mean comes to {found.mean_most}"
    if not isfinite(found.rejected) or found.rejected < 0:
        yield f"rejected {found.rejected}"
    own = [one for one in fitted.scenario.traffic if one.entry == fitted.entry]
    if any(isinstance(one, ClosedLoop) for one in own):
        yield from _response_time_law(found, own)
        return
    offered = sum(open_rate(one) for one in own if not isinstance(one, ClosedLoop))
    if found.throughput.value > offered * (1 + _ROUNDING) + 1:
        yield f"answers {found.throughput.value:g}/s of {offered:g}/s"
    if found.throughput.value + found.rejected > offered * (1 + _LUCK) + 1:
        yield f"answers {found.throughput.value:g}/s and rejects {found.rejected:g}/s of {offered:g}/s"


def _capacity(fitted: Fitted, found: Performance) -> Iterator[str]:
    """Yield stages that do more than they can, or more than they are busy for (utilisation law; Denning & Buzen 1978).

    What stages share with others only lengthens their executions; other entries' requests only add to their work.
    """
    entry, items = _entry(fitted), _items(fitted)
    models = {model.name: model for model in whole(fitted.scenario).models}
    for stage in found.stages:
        model = models[stage.model]
        visits = found.throughput.value * sum(step.model == stage.model for step in entry.steps)
        own = next(one for one in fitted.scenario.models if one.name == stage.model)
        if visits > (most := capacity(own, items)) * (1 + _LUCK) + 1:
            yield f"{stage.model} answers {visits:g}/s, and can do {most:g}/s"
        work = visits * _work(model, stage, items)
        if (
            found.rejected < _MOST_REFUSED * found.throughput.value
            and work > stage.busy_share.value * (1 + _LUCK) + _IDLE
        ):
            yield f"{stage.model} does the work of {work:.3g} while busy for {stage.busy_share.value:.3g}"


def _work(model: Model, stage: StagePerformance, items: int) -> float:
    """Return the share of an instance's time that each request per second takes; 0 of an engine's or of none."""
    if model.engine is not None or not stage.batch_size_mean:
        return 0.0
    if model.batcher is None:
        return model.service.time(1) / model.instances
    return items / stage.batch_size_mean * model.service.time(stage.batch_size_mean) / model.instances


def _path(fitted: Fitted, found: Performance) -> Iterator[str]:
    """Yield a mean that is shorter than the longest path of the stages' means, or longer than all of them in a row.

    A request waits for the later of two branches, the mean of which is no less than the later mean (Jensen). Stages
    that other entries call, or that requests leave to be refused later, see other requests than are answered.
    """
    if (
        found.mean is None
        or found.rejected
        or len(fitted.scenario.traffic) > 1
        or not all(s.stable for s in found.stages)
    ):
        return
    stages = {stage.model: stage for stage in found.stages}
    ends: list[float] = []
    spent = []
    for step in _entry(fitted).steps:
        queue, compute = stages[step.model].queue_mean, stages[step.model].compute_mean
        spent.append(step.gap_seconds + (queue.value if queue else 0.0) + compute.value)
        ends.append(max((ends[i] for i in step.after), default=0.0) + spent[-1])
    if not max(ends) * (1 - _LUCK) - _IDLE <= found.mean.value <= sum(spent) * (1 + _LUCK) + _IDLE:
        yield f"takes {found.mean.value:g} s, its stages {max(ends):g} to {sum(spent):g} s"


def _entry(fitted: Fitted) -> EntryGraph:
    return next(one for one in fitted.scenario.entries if one.name == fitted.entry)


def _items(fitted: Fitted) -> int:
    return max((one.items for one in fitted.scenario.traffic if one.entry == fitted.entry), default=1)


def _response_time_law(found: Performance, own: Sequence[object]) -> Iterator[str]:
    """Yield where more are inside than there are clients (interactive response time law; Lazowska et al. 1984)."""
    loops = [one for one in own if isinstance(one, ClosedLoop)]
    clients, think = sum(one.clients for one in loops), loops[0].think_seconds
    if found.mean is None:
        yield "a closed loop without a latency"
    elif found.throughput.value * (found.mean.value + think) > clients * (1 + _LUCK) + 1:
        yield f"{clients} clients are answered {found.throughput.value:g}/s after {found.mean.value:g} s"


def _stage(stage: StagePerformance) -> Iterator[str]:
    numbers = {
        "queue": stage.queue_mean,
        "queue p95": stage.queue_p95,
        "compute": stage.compute_mean,
        "busy": stage.busy_share,
    }
    for name, one in numbers.items():
        yield from _estimate(f"{stage.model} {name}", one)
    if max(stage.busy_share.value, stage.busy_share.high or 0.0) > 1 + _ROUNDING:
        yield f"{stage.model} is busy for {stage.busy_share}"
    if not isfinite(stage.refused_per_second) or stage.refused_per_second < 0:
        yield f"{stage.model} refuses {stage.refused_per_second}"
    if (stage.queue_mean is None) == stage.stable and stage.batch_size_mean:
        yield f"{stage.model} keeps up: {stage.stable}, and its queue is {stage.queue_mean}"


def _estimate(name: str, one: Estimate | None) -> Iterator[str]:
    if one is None:
        return
    if not all(isfinite(value) for value in (one.value, one.low, one.high or 0.0)):
        yield f"{name} is not finite: {one}"
    elif one.low < 0 or one.low > one.value or (one.high is not None and one.high < one.value):
        yield f"{name} is not within its interval: {one}"
