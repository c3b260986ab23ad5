"""The offered load of a stage, in the terms of the scheduler model."""

from __future__ import annotations

from diagnostics.evidence.ledger import Ledger, Undecided
from diagnostics.signals.reading import Missing
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import (
    ARRIVAL_RATE,
    BATCH_DELAY,
    CLIENT_BATCH_SIZE,
    DYNAMIC_BATCHING,
    EXECUTION_SECONDS,
    INSTANCES,
    MAX_BATCH_SIZE,
)
from diagnostics.tuning.queueing import StageLoad

# Counters hold no spread of execution times. GPU kernels and sleeping stages spread by about a tenth of their mean
# (squared coefficient 0.01); a Python stage by up to its mean (1). A quarter of the mean squared lies between them.
SERVICE_SCV = 0.06


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
    items = see.read(CLIENT_BATCH_SIZE, on).value or 1.0
    return StageLoad(
        arrival_rate=arrivals.value * items,
        service=service,
        service_scv=SERVICE_SCV,
        instances=max(round(see.need(INSTANCES, on)), 1),
        max_batch=round(see.need(MAX_BATCH_SIZE, on)),
        batching=see.need(DYNAMIC_BATCHING, on) > 0,
        delay_seconds=see.need(BATCH_DELAY, on),
        span_seconds=arrivals.span,
    )
