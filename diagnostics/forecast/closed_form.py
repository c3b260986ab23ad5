"""One stage by formulas: its queue, the queue's spread, and what its executions take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt

from diagnostics.forecast.load import drain_seconds
from diagnostics.forecast.performance import Estimate
from diagnostics.tuning.queueing import StageForecast, StageLoad, batches, bulk_of, predict, stage_capacity
from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.simulation.scenario import EngineModel, Model, QueueDiscipline, Scenario, TimeoutAction
from diagnostics.tuning.simulation.stability import sheds
from diagnostics.tuning.waiting import (
    Kept,
    OfferedLoad,
    erlang_b,
    erlang_c,
    few_places,
    lost_for_patience,
    lost_for_places,
    short_patience,
    waiting_seconds,
)

# A queue with a limit rejects what is too much, and keeps its instances at work all but always.
_KEPT_UP = 0.999


@dataclass(frozen=True, slots=True)
class StageNumbers:
    """A stage's seconds in the queue with their range, their variance, seconds in execution, busy share and batch, and
    the share of what is offered that its queue policy rejects.

    The queue is None where the stage cannot keep up.
    """

    queue: Estimate | None
    variance: float
    compute: Estimate
    busy: float
    batch: float | None
    lost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What comes to a stage.

    Attributes:
        rate: items per second.
        scv: squared coefficient of variation between arrivals, or between bursts.
        burst: requests in the burst that a request arrives in.
        items: items of a request.
        span: seconds of the window that ranges are for; 0 for a long one.

    """

    rate: float
    scv: float = 1.0
    burst: float = 1.0
    items: int = 1
    span: float = 0.0


def stage_numbers(model: Model, offer: Offer, slowed: float) -> StageNumbers:
    """Return a model's numbers by `tuning.queueing.predict`, and by `tuning.limited` where its queue has a limit.

    What wake-ups that a limited queue misses cost (`DynamicBatcher.overtakes`) is left out: where it is full, more is
    rejected than is said here. `slowed` is how many times as long its executions take beside others on what they share.
    """
    load = _load(model, offer, slowed)
    policy = model.batcher.policy if model.batcher and sheds(model) else None
    if policy is None:
        seen = predict(load)
        queue = None
        if seen.queue_seconds is not None:
            queue = Estimate(value=seen.queue_seconds, low=seen.queue_low or 0.0, high=seen.queue_high)
        return _numbers(model, load, seen, queue)
    return _limited_numbers(model, load, policy, offer)


def _load(model: Model, offer: Offer, slowed: float) -> StageLoad:
    batcher = model.batcher
    return StageLoad(
        arrival_rate=offer.rate,
        service=_serial(model.service.scaled(slowed), model),
        service_scv=model.service_scv,
        instances=model.instances,
        max_batch=_largest(model, offer.items),
        batching=batcher is not None,
        delay_seconds=batcher.delay_seconds if batcher else 0.0,
        preferred=batcher.preferred if batcher else (),
        arrival_scv=offer.scv,
        span_seconds=offer.span or None,
    )


def _largest(model: Model, items: int) -> int:
    """Return the most items of a batch: those that may wait, as no batch is formed ahead under a limit."""
    places = model.batcher.policy.max_size if model.batcher and model.batcher.policy else 0
    return min(model.max_batch, places * items) if places else model.max_batch


def _numbers(
    model: Model,
    load: StageLoad,
    seen: StageForecast,
    queue: Estimate | None,
    *,
    most: float | None = None,
    lost: float = 0.0,
) -> StageNumbers:
    """Return a stage's numbers, whose wait is at most `most` seconds: then it varies by no more than half of them
    either way (Popoviciu 1935).
    """
    waited = _inside(model, seen, queue)
    compute = Estimate(
        value=seen.compute_seconds + waited.inside, low=seen.compute_low, high=seen.compute_high + waited.most
    )
    variance = _variance(load, seen)
    if most is not None:
        variance = min(variance, most**2 / 4 + load.service_scv * seen.compute_seconds**2)
    return StageNumbers(waited.queue, variance, compute, seen.busy_share, seen.batch_size_mean, lost)


def _limited_numbers(model: Model, load: StageLoad, policy: QueueDiscipline, offer: Offer) -> StageNumbers:
    """Return the numbers of a stage that keeps up with any load, since it rejects what is too much."""
    kept = max(_kept(load, policy, offer), key=lambda one: one.lost)
    most = _longest(load, policy, offer)
    load = replace(load, arrival_rate=min(load.arrival_rate * (1 - kept.lost), _KEPT_UP * stage_capacity(load)))
    seen = predict(load)
    value = min(seen.queue_seconds or 0.0, kept.wait, most)
    high = most if seen.queue_high is None else min(seen.queue_high, most)
    queue = Estimate(value=value, low=min(seen.queue_low or 0.0, value), high=max(high, value))
    return _numbers(model, load, seen, queue, most=most, lost=kept.lost)


def _kept(load: StageLoad, policy: QueueDiscipline, offer: Offer) -> Iterator[Kept]:
    """Yield what each limit of a policy does alone; of a batching stage over many executions, and within one.

    Waits over many are of customers one by one. Those that wait for full batches wait as without a limit, up to it.
    """
    requested, places, patience = _requested(load, offer), policy.max_size * offer.items, policy.timeout_seconds
    together = batches(load)
    if places:
        kept = few_places(requested, places)
        yield replace(kept, wait=places * requested.drain) if together else kept
        if together:
            yield lost_for_places(bulk_of(load), places)
    if _expires(policy):
        kept = short_patience(requested, patience)
        yield replace(kept, wait=patience) if together else kept
        if together:
            yield lost_for_patience(bulk_of(load), patience)


def _requested(load: StageLoad, offer: Offer) -> OfferedLoad:
    full = stage_capacity(load)
    size = predict(replace(load, arrival_rate=min(load.arrival_rate, _KEPT_UP * full))).batch_size_mean
    work = load.arrival_rate / size * load.service.occupancy(size)
    return OfferedLoad(
        share=load.arrival_rate / full,
        all_busy=erlang_b(load.instances, work),
        drain=1 / full,
        arrival_scv=load.arrival_scv * offer.burst,
        service_scv=load.service_scv * load.max_batch if batches(load) else load.service_scv,
    )


def _longest(load: StageLoad, policy: QueueDiscipline, offer: Offer) -> float:
    """Return the most seconds that are waited: until the timeout, or until all places and what runs are worked off."""
    worked_off = policy.max_size * offer.items / stage_capacity(load)
    residual = load.service.occupancy(load.max_batch if batches(load) else 1) * (
        1 if batches(load) else load.service_scv
    )
    places = worked_off + residual if policy.max_size else inf
    return min(places, policy.timeout_seconds) if _expires(policy) else places


def _expires(policy: QueueDiscipline) -> bool:
    return policy.timeout_seconds > 0 and policy.action is TimeoutAction.REJECT


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


def engine_numbers(engine: EngineModel, rate: float, slowed: float) -> StageNumbers:
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


# A callee that cannot keep up is the limit, however many instances its caller has: these are looked at as if it just
# could, at a load at which a single server's mean wait is nine times its service time.
_JUST = 0.9
# More instances than these inside at once change no rate any more.
_MOST_INSIDE = 512
_CERTAIN = 2.0


@dataclass(frozen=True, slots=True)
class _Station:
    """A called model as its caller's instances find it.

    `times` calls per execution take `spaced` seconds of the station, at which others wait, and `passing` seconds more;
    each waits for `window` seconds whoever else calls.
    """

    model: str
    times: int
    spaced: float
    passing: float
    window: float
    scv: float


@dataclass(frozen=True, slots=True)
class _Inside:
    """A caller's instances, by how many are inside: executions per second, and seconds of each at the stations."""

    rates: Sequence[float]
    seconds: Sequence[Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class _Waits:
    """Mean seconds that an execution waits for an instance, and inside for each called model; who waits, as a share."""

    queue: float
    calls: Mapping[str, float]
    waiting: float


def with_callers(
    scenario: Scenario, found: Mapping[str, StageNumbers], rates: Mapping[str, float], offer: Offer
) -> Mapping[str, StageNumbers]:
    """Return the stages with the waits of callers and in their calls, the innermost callers first.

    Args:
        scenario: what is forecast.
        found: each stage by itself, callers with their own part.
        rates: items per second that reach each model.
        offer: how requests come.

    """
    stages, holds = dict(found), dict[str, float]()
    models = {model.name: model for model in scenario.models}
    for name, called in scenario.calls.items():
        rate = rates.get(name, 0.0)
        stations = [
            _station(models[one], times, stages[one], holds.get(one), rates.get(one, 0.0) - times * rate)
            for one, times in Counter(called).items()
        ]
        stages.update(_call_numbers(models[name], stages, stations, replace(offer, rate=rate)))
        inside = sum(s.spaced + s.passing for s in stations)
        waits = (stages[s.model].queue for s in stations)
        waited = sum(s.times * q.value for s, q in zip(stations, waits, strict=True) if q is not None)
        holds[name] = stages[name].compute.value + inside + waited
    return stages


def _station(model: Model, times: int, stage: StageNumbers, holds: float | None, others: float) -> _Station:
    """Return a called model; requests that others send it leave less of its time."""
    seconds = stage.compute.value if holds is None else holds
    each = drain_seconds(model) if holds is None else holds / model.instances
    left = max(1 - max(others, 0.0) * each, 1 - _JUST)
    window = min(stage.queue.value, model.batcher.delay_seconds) if model.batcher and stage.queue else 0.0
    return _Station(
        model=model.name,
        times=times,
        spaced=times * each / left,
        passing=times * max(seconds - each, 0.0),
        window=window,
        scv=model.service_scv,
    )


def _call_numbers(
    model: Model, stages: Mapping[str, StageNumbers], stations: Sequence[_Station], offer: Offer
) -> Mapping[str, StageNumbers]:
    """Return the numbers of a caller and of what it calls; a callee that cannot keep up stays so."""
    own = stages[model.name]
    alone = own.compute.value + sum(one.passing + one.times * one.window for one in stations)
    full = any(stages[station.model].queue is None for station in stations)
    slowest = max(station.spaced for station in stations)
    rate = min(offer.rate, _JUST / slowest) if full and slowest > 0 else offer.rate
    if rate <= 0:
        return {}
    inside = _inside_calls(alone, stations, min(model.instances, _MOST_INSIDE))
    spread = _CERTAIN / sqrt(rate * offer.span) if offer.span > 0 else 0.0
    scv = max(stations, key=lambda one: one.spaced).scv
    even = (offer.scv * offer.burst + scv) / 2
    likely, least, most = (_waits(inside, rate * factor, even) for factor in (1.0, max(1 - spread, 0.0), 1 + spread))
    if likely is None:
        return {model.name: replace(own, queue=None, busy=1.0)}
    held = alone + sum(station.spaced for station in stations) + sum(likely.calls.values())
    made = {
        model.name: replace(
            own,
            queue=_between(likely.queue, least.queue if least else 0.0, most.queue if most else None),
            busy=min(rate * (held + model.service.dispatch_gap) / model.instances, 1.0),
            variance=own.variance + likely.queue**2 * (2 / max(likely.waiting, 1e-3) - 1),
        )
    }
    for one in stations:
        stage, name = stages[one.model], one.model
        if stage.queue is not None:
            each = [None if w is None else one.window + w.calls[name] / one.times for w in (likely, least, most)]
            made[name] = replace(stage, queue=_between(each[0] or 0.0, each[1] or 0.0, each[2]))
    return made


def _between(value: float, low: float, high: float | None) -> Estimate:
    return Estimate(value=value, low=min(low, value), high=None if high is None else max(high, value))


def _inside_calls(alone: float, stations: Sequence[_Station], instances: int) -> _Inside:
    """Return what so many instances do at once, by mean value analysis; no more than the slowest station can."""
    most = 1 / max(station.spaced for station in stations)
    lengths = [0.0] * len(stations)
    rates, seconds = [0.0], [dict.fromkeys((station.model for station in stations), 0.0)]
    for count in range(1, instances + 1):
        each = [one.spaced * (1 + length) for one, length in zip(stations, lengths, strict=True)]
        rate = min(count / (alone + sum(each)), most)
        lengths = [rate * one for one in each]
        rates.append(rate)
        seconds.append({one.model: time for one, time in zip(stations, each, strict=True)})
    return _Inside(rates, seconds)


def _waits(inside: _Inside, rate: float, even: float) -> _Waits | None:
    """Return the waits of independent requests, as a birth and death process has them; None where they grow.

    `even` is what steadier arrivals and executions leave of them (Allen & Cunneen 1978).
    """
    instances = len(inside.rates) - 1
    if rate <= 0 or rate >= inside.rates[-1]:
        return _Waits(0.0, dict.fromkeys(inside.seconds[0], 0.0), 0.0) if rate <= 0 else None
    chances, part = [1.0], 1.0
    for count in range(1, instances + 1):
        part *= rate / inside.rates[count]
        chances.append(part)
    left = rate / inside.rates[-1]
    beyond = part * left / (1 - left)
    whole = sum(chances) + beyond
    within = (sum(chances) - part) / whole
    waiting = 1 - within
    queue = part / whole * left / (1 - left) ** 2 / rate
    # What is at work ends executions at its rate: by that, not by time, requests see how many are inside.
    weights = [chance * inside.rates[count] for count, chance in enumerate(chances)]
    weights[-1] += beyond * inside.rates[-1]
    ended = sum(weights)
    calls = {
        name: max(
            sum(w * each[name] for w, each in zip(weights, inside.seconds, strict=True)) / ended
            - inside.seconds[1][name],
            0.0,
        )
        for name in inside.seconds[1]
    }
    return _Waits(queue * even, {name: seconds * even for name, seconds in calls.items()}, waiting)
