"""One stage by formulas: its queue, the queue's spread, and what its executions take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from diagnostics.forecast.performance import Estimate
from diagnostics.tuning.erlang import erlang_c, waiting_seconds
from diagnostics.tuning.queueing import StageForecast, StageLoad, predict
from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.simulation.scenario import Engine, Model
from diagnostics.tuning.stage import stage_capacity

# A queue with a limit turns away what is too much, and keeps its instances at work all but always.
_KEPT_UP = 0.999


@dataclass(frozen=True, slots=True)
class StageNumbers:
    """A stage's seconds in the queue with their range, their variance, seconds in execution, busy share and batch.

    The queue is None where the stage cannot keep up.
    """

    queue: Estimate | None
    variance: float
    compute: Estimate
    busy: float
    batch: float | None


def stage_numbers(model: Model, rate: float, slowed: float, scv: float, span: float) -> StageNumbers:
    """Return a model's numbers by `tuning.queueing.predict`.

    Args:
        model: its scheduler.
        rate: items per second that are offered to it.
        slowed: how many times as long its executions take beside others on what they share.
        scv: squared coefficient of variation between arrivals.
        span: seconds of the window that the range is for; 0 for a long one.

    """
    load = StageLoad(
        arrival_rate=rate,
        service=_serial(model.service.scaled(slowed), model),
        service_scv=model.service_scv,
        instances=model.instances,
        max_batch=model.max_batch,
        batching=model.batcher is not None,
        delay_seconds=model.batcher.delay_seconds if model.batcher else 0.0,
        preferred=model.batcher.preferred if model.batcher else (),
        arrival_scv=scv,
        span_seconds=span or None,
    )
    limit = model.batcher.policy.max_size if model.batcher and model.batcher.policy else 0
    if limit:
        load = replace(load, arrival_rate=min(load.arrival_rate, _KEPT_UP * stage_capacity(load)))
    seen = predict(load)
    queue = None
    if seen.queue_seconds is not None:
        most = limit / stage_capacity(load) if limit else inf
        high = most if limit and seen.queue_high is None else seen.queue_high
        value, high = min(seen.queue_seconds, most), None if high is None else min(high, most)
        queue = Estimate(value=value, low=min(seen.queue_low or 0.0, value), high=high)
    waited = _inside(model, seen, queue)
    compute = Estimate(
        value=seen.compute_seconds + waited.inside, low=seen.compute_low, high=seen.compute_high + waited.most
    )
    return StageNumbers(waited.queue, _variance(load, seen), compute, seen.busy_share, seen.batch_size_mean)


def _serial(service: ServiceTime, model: Model) -> ServiceTime:
    """Return the service time of a model whose executions follow each other without a gap where they overlap."""
    return replace(service, dispatch_gap=0.0) if model.in_flight > 1 else service


@dataclass(frozen=True, slots=True)
class _Waited:
    """What is waited in the queue, and likely and at most inside an execution."""

    queue: Estimate | None
    inside: float
    most: float


def _inside(model: Model, seen: StageForecast, queue: Estimate | None) -> _Waited:
    """Return the wait as the server counts it, where executions leave the queue before an instance computes them.

    One by one, a queue of `c` instances is shorter by those `c` that are inside: what exceeds twice as many of a
    geometric number is `busy ^ c` of it (M/M/c; Kleinrock, Queueing Systems I, 3.5). A batch that is cut one execution
    early grows no less, as the one before it did: it waits for that one, where another was already inside.
    """
    if model.in_flight == 1 or queue is None:
        return _Waited(queue, 0.0, 0.0)
    if model.batcher is not None and model.max_batch > 1:
        behind = seen.busy_share**2 * seen.compute_seconds
        return _Waited(queue, behind, seen.compute_high)
    left = seen.busy_share**model.instances
    moved = Estimate(value=queue.value * left, low=queue.low * left, high=queue.high)
    return _Waited(moved, queue.value * (1 - left), seen.compute_high)


def _variance(load: StageLoad, seen: StageForecast) -> float:
    """Return the wait's variance: exponential for those who wait, whom Erlang's formula counts; a window is the same
    for all.
    """
    if seen.queue_seconds is None:
        return 0.0
    size = seen.batch_size_mean
    erlangs = load.arrival_rate / size * load.service.occupancy(size)
    waiting = max(erlang_c(load.instances, erlangs), 1e-3)
    wait = max(seen.queue_seconds - load.service.dispatch_gap - load.delay_seconds / 2, 0.0)
    service = load.service_scv * seen.compute_seconds**2
    return wait**2 * (2 / waiting - 1) + service


def engine_numbers(engine: Engine, rate: float, slowed: float) -> StageNumbers:
    """Return an engine's time: iterations lengthen by what joins, and slots are servers."""
    joining = rate * engine.prefill_seconds * slowed
    base = engine.iteration_seconds * slowed
    at_least = base / (1 - joining) if joining < 1 else base
    work = engine.iterations * at_least + engine.prefill_seconds * slowed
    running = min(rate * work, float(engine.slots))
    iteration = at_least + engine.iteration_seconds_per_request * slowed * running
    work = engine.iterations * iteration + engine.prefill_seconds * slowed
    servers = engine.slots
    if engine.cache_tokens and engine.tokens_per_request:
        servers = max(min(servers, int(engine.cache_tokens / engine.tokens_per_request)), 1)
    wait = waiting_seconds(rate=rate, service=work, servers=servers, arrival_scv=1.0, service_scv=engine.iterations_scv)
    wait = wait if joining < 1 else None
    at_work = min(rate * work, 1.0)
    boundary = at_work * iteration / 2
    compute = work + boundary
    queue = None if wait is None else Estimate(value=wait, low=0.0, high=None if wait > work else 2 * wait)
    variance = engine.iterations_scv * work**2 + iteration**2 / 12
    if wait:
        waiting = max(erlang_c(servers, rate * work), 1e-3)
        variance += wait**2 * (2 / waiting - 1)
    return StageNumbers(queue, variance, Estimate(value=compute, low=compute, high=compute), at_work, None)
