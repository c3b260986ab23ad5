"""The offered load of a stage, in the terms of the scheduler model."""

from __future__ import annotations

from diagnostics.evidence.ledger import Ledger, Undecided
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.flow import LOST_BEFORE_STAGE
from diagnostics.signals.reading import Missing
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE, QUEUE_LIMIT
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import ARRIVAL_RATE, CLIENT_BATCH_SIZE
from diagnostics.tuning.queueing import StageLoad

# Counters hold no spread of execution times. GPU kernels and sleeping stages spread by about a tenth of their mean
# (squared coefficient 0.01); a Python stage by up to its mean (1). A quarter of the mean squared lies between them.
SERVICE_SCV = 0.06


def _refused(see: Ledger, on: Subject) -> float:
    """Requests that a limited queue turned away: they arrive too once there is room."""
    if not see.read(QUEUE_LIMIT, on).value:
        return 0.0
    return max(see.read(LOST_BEFORE_STAGE, on).value or 0.0, 0.0)


def stage_load(see: Ledger, on: Subject) -> StageLoad:
    """Return what is offered to a stage and how it is scheduled now.

    Raises:
        Undecided: the arrival rate, the service time or a setting could not be read.

    """
    service = see.evidence.service_time(on)
    if service is None:
        raise Undecided(EXECUTION_SECONDS.name, Missing.NOT_EXPORTED)
    arrivals = see.read(ARRIVAL_RATE, on)
    if arrivals.value is None:
        raise Undecided(ARRIVAL_RATE.name, arrivals.missing or Missing.NOT_EXPORTED)
    offered = arrivals.value + _refused(see, on) / arrivals.span if arrivals.span else arrivals.value
    items = max(see.read(CLIENT_BATCH_SIZE, on).value or 1.0, 1.0)
    return StageLoad(
        arrival_rate=offered * items,
        service=service,
        service_scv=SERVICE_SCV,
        instances=max(round(see.need(INSTANCES, on)), 1),
        max_batch=round(see.need(MAX_BATCH_SIZE, on)),
        batching=see.need(DYNAMIC_BATCHING, on) > 0,
        delay_seconds=see.need(BATCH_DELAY, on),
        items=items,
        span_seconds=arrivals.span,
    )
