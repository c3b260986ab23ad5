"""A stage as the scheduler model sees it: its load, and what is forecast of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from diagnostics.errors import UsageError
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
