"""How long requests would wait for a stage at another instance count, window or batch limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from diagnostics.tuning.batching import Bulk, bulk_wait
from diagnostics.tuning.device import capacity, headroom_limited, on_device
from diagnostics.tuning.erlang import waiting_seconds
from diagnostics.tuning.stage import StageForecast, StageLoad, batches

__all__ = ["StageForecast", "StageLoad", "bulk_of", "headroom_limited", "predict"]

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
    central = on_device(load, sum(load.device_seconds) / 2)
    wait = _wait(central)
    most = capacity(central)
    # An idle instance takes about the dispatch gap to start as well: idle stages measure 0.05 to 0.3 ms.
    queue = None if wait.middle is None else wait.middle + load.service.dispatch_gap
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
