"""Questions about what users call, and about the stages behind it."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.reading import Missing
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUESTS
from diagnostics.units import Unit

ENOUGH_REQUESTS = Limit(
    value=ENOUGH_EVENTS,
    unit=Unit.COUNT,
    because="thirty requests give a mean whose 95 % interval is within about a third of it",
)


def enough_requests(see: Ledger, on: Subject) -> bool:
    """Return whether enough requests ended to speak of; an idle subject has none.

    Raises:
        Undecided: requests could not be counted.

    """
    return _known(see, REQUESTS, on) >= ENOUGH_REQUESTS.value


def waits(see: Ledger, on: Subject, limit: Limit) -> bool:
    """Return whether requests of a model wait as long as the limit on average; those of an idle one do not.

    Raises:
        Undecided: the queue could not be read.

    """
    return _known(see, QUEUE_SECONDS, on) >= limit.value


def _known(see: Ledger, signal: Signal, on: Subject) -> float:
    reading = see.evidence.read(signal, on)
    if reading.value is None and reading.missing is not Missing.IDLE:
        raise Undecided(signal.name, reading.missing or Missing.NOT_EXPORTED)
    return reading.value or 0.0


def stages_of(see: Ledger, on: Subject) -> Sequence[Subject]:
    """Return the models behind an entry, all versions of each: an ensemble's members, or the model itself."""
    ensemble = see.evidence.graph(on.server).ensembles.get(on.ensemble or "")
    models = ensemble.models() if ensemble else (on.model or on.ensemble or "",)
    return [Subject(server=on.server, model=model) for model in models]


def busiest_stage(see: Ledger, on: Subject, limit: Limit) -> bool:
    """Return whether some stage's instances are busy to the limit; noted for the busiest.

    Engines batch inside and have no lanes; they are left out.

    Raises:
        Undecided: the busy share of no stage, or not of every working one, could be read.

    """
    lanes = [stage for stage in stages_of(see, on) if not see.evidence.is_engine(stage)]
    readings = {stage: see.evidence.read(INSTANCE_BUSY_SHARE, stage) for stage in lanes}
    missing = [reading.missing for reading in readings.values() if reading.missing not in (None, Missing.IDLE)]
    if missing:
        raise Undecided(INSTANCE_BUSY_SHARE.name, missing[0] or Missing.NOT_EXPORTED)
    known = [stage for stage in lanes if readings[stage].value is not None]
    if not known:
        return False
    busiest = max(known, key=lambda stage: readings[stage].value or 0.0)
    return see.at_least(INSTANCE_BUSY_SHARE, busiest, limit)
