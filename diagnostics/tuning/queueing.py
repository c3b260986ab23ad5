"""How long requests would wait for a stage at another instance count, window or batch limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from diagnostics.tuning.erlang import waiting_seconds
from diagnostics.tuning.service import ServiceTime


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
        arrival_scv: squared coefficient of variation of the time between arrivals, 1 for Poisson.
        span_seconds: length of the window that a forecast is compared with; widens the range near saturation.
        device_seconds: least and most seconds of the shared device per item, set by `headroom_limited`.
        measured_instances: how many instances ran when `service` was measured; None means `instances`.
    """

    arrival_rate: float
    service: ServiceTime
    service_scv: float
    instances: int
    max_batch: int
    batching: bool
    delay_seconds: float
    preferred: tuple[int, ...] = ()
    arrival_scv: float = 1.0
    span_seconds: float | None = None
    device_seconds: tuple[float, float] = (0.0, 0.0)
    measured_instances: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageForecast:
    """What requests would experience at a stage, on average.

    Attributes:
        queue_seconds: mean wait; None when the stage cannot keep up.
        queue_low: lower end of the range; None when the stage cannot keep up.
        queue_high: upper end; None when the stage may not keep up at the pessimistic end of what is known.
        compute_seconds: mean time of the execution that a request is part of.
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
    busy_share: float
    batch_size_mean: float
    stable: bool
    capacity_per_second: float
    assumptions: tuple[str, ...]


def predict(load: StageLoad) -> StageForecast:
    """Return the forecast of a load in steady state."""
    occupancy = load.service.occupancy(1)
    wait = waiting_seconds(
        rate=load.arrival_rate,
        service=occupancy,
        servers=load.instances,
        arrival_scv=load.arrival_scv,
        service_scv=load.service_scv,
    )
    return StageForecast(
        queue_seconds=wait,
        queue_low=wait,
        queue_high=wait,
        compute_seconds=load.service.time(1),
        busy_share=min(load.arrival_rate * occupancy / load.instances, 1.0),
        batch_size_mean=1.0,
        stable=wait is not None,
        capacity_per_second=load.instances / occupancy,
        assumptions=("arrivals are independent of each other (Poisson)",),
    )


def headroom_limited(load: StageLoad, headroom: tuple[float, float] | None) -> StageLoad:
    """Return the load with the device's share of its time noted, so that more instances are not free."""
    return replace(load, measured_instances=load.instances) if headroom is None else load


def best_instances(load: StageLoad, target_queue_seconds: float, limit: int = 64) -> int:
    """Return the smallest count from `load.instances` up whose queue is below the target."""
    for count in range(load.instances, limit + 1):
        queue = predict(replace(load, instances=count)).queue_seconds
        if queue is not None and queue <= target_queue_seconds:
            return count
    return limit
