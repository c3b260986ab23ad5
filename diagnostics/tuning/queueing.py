"""A stage as the scheduler model sees it: its load, and what is forecast of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt

from diagnostics.errors import UsageError
from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.waiting import Bulk, bulk_wait, waiting_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoad:
    """A stage's offered load and the settings of its scheduler.

    Attributes:
        arrival_rate: items offered per second.
        service: seconds of an execution by batch size.
        service_scv: squared coefficient of variation of an execution's time, 0 for a constant one.
        instances: instances that execute, over all devices.
        max_batch: largest batch; 0 or 1 means no batching.
        batching: whether the dynamic batcher is on.
        delay_seconds: the batcher's window; 0 takes what waits when an instance is free.
        preferred: batch sizes that fire before the window ends; empty means the largest batch.
        items: items of a request; an execution takes requests whole (Triton's statistics extension, `inference_count`).
        arrival_scv: squared coefficient of variation of the time between arrivals, 1 for Poisson.
        span_seconds: length of the window that a forecast is compared with; widens the range near saturation.
        device_seconds: least and most seconds of the shared device per item, set by `headroom_limited`.
        measured_instances: how many instances ran when `service` was measured; None means `instances`.
        measured_rate: items per second served then; None means `arrival_rate`.

    Raises:
        UsageError: there is no instance, or a quantity is negative or not finite.

    """

    arrival_rate: float
    service: ServiceTime
    service_scv: float
    instances: int
    max_batch: int
    batching: bool
    delay_seconds: float
    preferred: tuple[int, ...] = ()
    items: float = 1.0
    arrival_scv: float = 1.0
    span_seconds: float | None = None
    device_seconds: tuple[float, float] = (0.0, 0.0)
    measured_instances: int | None = None
    measured_rate: float | None = None

    def __post_init__(self) -> None:
        quantities = (self.arrival_rate, self.service_scv, self.delay_seconds, self.arrival_scv, self.items)
        if not all(isfinite(value) and value >= 0 for value in quantities):
            raise UsageError("a rate, delay or variability is negative or not finite", where="scheduler model")
        if self.instances < 1:
            raise UsageError("a stage needs an instance to execute", where="scheduler model")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageForecast:
    """What requests would experience at a stage, on average.

    Attributes:
        queue_seconds: mean wait; None when the stage cannot keep up.
        queue_low: lower end of the range; None when the stage cannot keep up.
        queue_high: upper end; None when the stage may not keep up at the pessimistic end of what is known.
        compute_seconds: mean time of the execution that a request is part of; `compute_low` and `compute_high`
            are its range by what is known of the service time and the device.
        busy_share: share of time an instance is occupied, at most 1.
        batch_size_mean: items per execution.
        stable: whether the stage keeps up with what is offered.
        capacity_per_second: items per second with full batches and all instances busy.
        assumptions: what the numbers rest on, one sentence each.

    """

    queue_seconds: float | None
    queue_low: float | None
    queue_high: float | None
    compute_seconds: float
    compute_low: float
    compute_high: float
    busy_share: float
    batch_size_mean: float
    stable: bool
    capacity_per_second: float
    assumptions: tuple[str, ...]


def batches(load: StageLoad) -> bool:
    """Say whether executions may take several requests."""
    return load.batching and load.max_batch > 1 and load.max_batch >= 2 * load.items


def stage_capacity(load: StageLoad) -> float:
    """Return items per second with full batches on all instances."""
    most = load.max_batch if batches(load) else load.items
    return load.instances * most / load.service.occupancy(most)


# Items per second below which nothing can be said about the device's time per item.
_TRICKLE = 1e-6


def headroom_limited(load: StageLoad, headroom: tuple[float, float] | None) -> StageLoad:
    """Return the load with the device's time per item noted, so that further instances are not free.

    `load` is the stage as measured; change `instances` of what is returned. `headroom` is the least and
    most share of the device that is unused now, None when unknown (then only the measured count is noted).
    Throughput can grow at most by `1 / (1 - headroom)`; executions that share the device slow each other
    down as in a closed network of a processor-sharing station and think time (Schweitzer's approximation of
    mean value analysis).
    """
    served = min(load.arrival_rate, stage_capacity(load))
    noted = replace(load, measured_instances=load.instances, measured_rate=served)
    if headroom is None or served < _TRICKLE:
        return noted
    least, most = (min(max(share, 0.0), 1.0) for share in headroom)
    return replace(noted, device_seconds=((1 - most) / served, (1 - least) / served))


def capacity(load: StageLoad) -> float:
    """Return items per second that instances and device allow; the device's part is in `device_seconds`."""
    device = load.device_seconds[0]
    return min(stage_capacity(load), 1 / device) if device > 0 else stage_capacity(load)


def on_device(load: StageLoad, demand: float) -> StageLoad:
    """Return the load at one device demand per item, its service stretched by the other instances' use."""
    only = (demand, demand)
    noted = load if load.device_seconds == only else replace(load, device_seconds=only)
    if demand <= 0:
        return noted
    execution = demand * load.service.pivot
    served = load.arrival_rate if load.measured_rate is None else load.measured_rate
    before = _shared(execution, served * demand, load.measured_instances or load.instances)
    after = _shared(execution, load.arrival_rate * demand, load.instances)
    alone = max(load.service.time(load.service.pivot) - before, 0.0)
    return replace(noted, service=load.service.scaled((alone + after) / (alone + before)))


def _shared(execution: float, busy: float, instances: int) -> float:
    """Return the seconds that an execution's device seconds take while the other instances use the device.

    `busy` is the device's share of time in use; at worst all the instances are on it at once.
    """
    others = busy * (instances - 1) / instances
    all_executing = instances * execution
    return all_executing if others >= 1 else min(execution / (1 - others), all_executing)


# Where between late binding and full freeze queues were measured: on two recorded pairs, windows of 1 ms.
_FREEZE_SHARE = 2 / 3
# The dispatch gap is known to about 0.2 ms of 25, which near saturation is all that matters.
_OCCUPANCY_ERROR = 0.01
# Errors of the formulas against simulation: nine in ten are within this, several batching instances excepted.
_FORMULA_ERROR = 0.2
_BUNCHING = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    """One scenario's mean wait, None when unstable, with the batch that comes of it."""

    low: float | None
    high: float | None
    size: float
    item_size: float

    @property
    def middle(self) -> float | None:
        if self.low is None or self.high is None:
            return None
        return self.low + (self.high - self.low) * _FREEZE_SHARE


def predict(load: StageLoad) -> StageForecast:
    """Return the forecast of a load in steady state.

    The range covers the slope of the service time, the device's headroom, the two ways batches may bind, the
    dispatch gap's uncertainty, the formulas' error against simulation and, with `span_seconds`, that a short
    window near saturation is one draw of many (relaxation time of a G/G/1 queue in heavy traffic, Whitt
    1989).
    """
    central, wait, queue = _central(load)
    most = capacity(central)
    size = wait.size
    scenarios = [(scenario, _wait(scenario)) for scenario in _scenarios(load)]
    low, high = (None, None) if queue is None else _range(load, queue, [w for _, w in scenarios])
    computes = [scenario.service.time(w.item_size) for scenario, w in scenarios]
    throughput = min(load.arrival_rate, most)
    busy = throughput / size * central.service.occupancy(size) / load.instances
    return StageForecast(
        queue_seconds=queue,
        queue_low=low,
        queue_high=high,
        compute_seconds=central.service.time(wait.item_size),
        compute_low=min(computes),
        compute_high=max(computes),
        busy_share=min(busy, 1.0),
        batch_size_mean=size,
        stable=queue is not None,
        capacity_per_second=most,
        assumptions=_assumptions(load, queue),
    )


def likely_seconds(load: StageLoad) -> float | None:
    """Return the mean seconds of queue and execution that `predict` forecasts; None when the stage cannot keep up.

    Without their range, which takes several times as long.
    """
    central, wait, queue = _central(load)
    return None if queue is None else queue + central.service.time(wait.item_size)


def _central(load: StageLoad) -> tuple[StageLoad, _Wait, float | None]:
    """Return a load in the middle of what is known of its device, its wait, and its mean queue in seconds."""
    central = on_device(load, sum(load.device_seconds) / 2)
    wait = _wait(central)
    # An idle instance takes about the dispatch gap to start as well: idle stages measure 0.05 to 0.3 ms.
    queue = None if wait.middle is None else wait.middle + load.service.dispatch_gap
    return central, wait, queue


def _wait(load: StageLoad) -> _Wait:
    if load.arrival_rate >= capacity(load):
        size = float(load.max_batch) if batches(load) else load.items
        return _Wait(low=None, high=None, size=size, item_size=size)
    if load.arrival_rate <= 0:
        # Who comes alone waits for company in vain.
        window = load.delay_seconds if batches(load) and bulk_of(load).fire > load.items else 0.0
        return _Wait(low=window, high=window, size=load.items, item_size=load.items)
    return _batched(load) if batches(load) else _single(load)


def _single(load: StageLoad) -> _Wait:
    seconds = waiting_seconds(
        rate=load.arrival_rate / load.items,
        service=load.service.occupancy(load.items),
        servers=load.instances,
        arrival_scv=load.arrival_scv,
        service_scv=load.service_scv,
    )
    return _Wait(low=seconds, high=seconds, size=load.items, item_size=load.items)


def bulk_of(load: StageLoad) -> Bulk:
    """Return a load of a batching stage in the terms of `batching`."""
    fire = min((size for size in load.preferred if 0 < size <= load.max_batch), default=load.max_batch)
    return Bulk(
        rate=load.arrival_rate,
        occupancy=load.service.occupancy,
        instances=load.instances,
        max_batch=load.max_batch,
        window=load.delay_seconds,
        fire=fire,
        arrival_scv=load.arrival_scv,
        service_scv=load.service_scv,
    )


def _batched(load: StageLoad) -> _Wait:
    waits = bulk_wait(bulk_of(load))
    if waits is None:
        return _Wait(low=None, high=None, size=float(load.max_batch), item_size=float(load.max_batch))
    item_size = min(waits.size * (1 + waits.size_scv), float(load.max_batch))
    return _Wait(low=waits.late, high=waits.frozen, size=waits.size, item_size=item_size)


def _range(load: StageLoad, queue: float, waits: Sequence[_Wait]) -> tuple[float, float | None]:
    error = 1 + _FORMULA_ERROR
    lows = [wait.low / error for wait in waits if wait.low is not None]
    low = min((*lows, queue)) / _sampling(load)
    if any(wait.high is None for wait in waits):
        return low, None
    if batches(load) and load.instances > 1:
        error = _BUNCHING
    high = max(wait.high * error for wait in waits if wait.high is not None) + 2 * load.service.dispatch_gap
    return low, max(high, queue) * _sampling(load)


def _scenarios(load: StageLoad) -> Sequence[StageLoad]:
    """Return the load at the ends of what is known of service time, gap and device."""
    service = load.service
    slopes = {service.per_item, service.per_item_low, service.per_item_high}
    return [
        on_device(replace(load, service=service.with_slope(slope).scaled(factor)), demand)
        for slope in slopes
        for factor in (1 - _OCCUPANCY_ERROR, 1 + _OCCUPANCY_ERROR)
        for demand in set(load.device_seconds)
    ]


def _sampling(load: StageLoad) -> float:
    """Return the factor by which the mean over a window of `span_seconds` may miss the steady state's."""
    most = capacity(load)
    if load.span_seconds is None or load.span_seconds <= 0 or load.arrival_rate >= most:
        return 1.0
    slack = 1 - load.arrival_rate / most
    relaxation = (load.arrival_scv + load.service_scv) / (most * slack**2)
    return 1 + 2 * sqrt(2 * relaxation / load.span_seconds)


def _assumptions(load: StageLoad, queue: float | None) -> tuple[str, ...]:
    device_unknown = load.measured_instances not in (None, load.instances) and load.device_seconds[1] <= 0
    return tuple(
        text
        for holds, text in (
            (load.arrival_scv == 1, "arrivals are independent of each other (Poisson)"),
            (load.arrival_scv != 1, "arrivals vary as measured, without longer bursts"),
            (batches(load) and load.service.estimated, "larger batches were not seen: flat to linear cost"),
            (
                batches(load) and load.delay_seconds > 0,
                "batches are cut between window end and free instance",
            ),
            (load.device_seconds[1] > 0, "executions share the device as far as its headroom allows"),
            (device_unknown, "the device has room for the instances (its headroom is unknown)"),
            (queue is None, "the stage cannot keep up: the queue grows as long as this load lasts"),
        )
        if holds
    )
