"""Questions about what users call: the stages behind it, the cards under it, the failures that reach callers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from diagnostics.anatomy.anatomy import Phase
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.forecast.target import MOST_REFUSED
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.flow import FAILED_REQUESTS
from diagnostics.signals.signal import Missing, Reading, Scope, Signal, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, QUEUE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

ENOUGH_FAILURES = Limit(
    value=5,
    unit=Unit.COUNT,
    because="a few failed requests may be one client's mistake, and reads that fall apart look like a few",
)
FAILED_PART = Limit(
    value=MOST_REFUSED,
    unit=Unit.RATIO,
    because="1 % failed spends a 99.9 % objective's budget ten times too fast (SRE workbook, burn rates)",
)


def caller_of(ledger: Ledger, subject: Subject) -> Subject:
    """Return whose requests fail: the ensemble that calls the model, or the model itself when called directly."""
    entry = ledger.entry_of(subject)
    return (
        subject if entry is None or entry.ensemble is None else Subject(server=subject.server, ensemble=entry.ensemble)
    )


def failed_share(ledger: Ledger, subject: Subject, failed: Reading) -> Reading:
    """Return failed ÷ all requests of the caller; absent when the caller completed and failed nothing."""
    caller = caller_of(ledger, subject)
    completed = ledger.evidence.read(REQUESTS, caller)
    if failed.value is None or completed.value is None:
        return Reading.unknown(failed.missing or completed.missing or Missing.NOT_EXPORTED, Unit.RATIO)
    reported = ledger.evidence.read(FAILED_REQUESTS, caller).value or 0.0
    everything = completed.value + max(failed.value, reported)
    return Reading.of(failed.value / everything, Unit.RATIO, failed.source, estimated=failed.estimated)


def is_newest(ledger: Ledger, subject: Subject) -> bool:
    """Return whether it is the newest of a model's versions: clients do not record which of them answered."""
    versions = [one for one in ledger.evidence.subjects(Scope.MODEL) if one.model == subject.model]
    return subject in [one for one in versions if one.server == subject.server][-1:]


def name_of(card: Subject) -> str:
    """Return the beginning of the card's UUID, which says that it is a GPU; "the GPU" where the UUID is unknown."""
    return card.gpu_name or "the GPU"


def entry_on(ledger: Ledger, card: Subject) -> Subject:
    """Return the subject whose requests stand for the card's: the ensemble with most time in it, else the model."""
    entry = ledger.entry_of(card)
    if entry is not None and entry.ensemble is not None:
        return Subject(server=card.server, ensemble=entry.ensemble)
    return next(iter(stages_on(ledger, card)), Subject(server=card.server))


def stages_on(ledger: Ledger, card: Subject) -> Sequence[Subject]:
    """Return the models on GPUs that the entry's requests pass, most time first.

    Without an ensemble it is one model, which is called directly.
    """
    entry = ledger.entry_of(card)
    ensemble = entry.ensemble if entry else None
    members = ledger.evidence.graph(card.server).ensembles[ensemble].models() if ensemble else ()
    models = {
        subject.model
        for subject in ledger.evidence.subjects(Scope.MODEL)
        if subject.server == card.server and subject.model
    }
    stages = [Subject(server=card.server, model=model) for model in models if not members or model in members]
    time = {subject: _time(ledger, subject) for subject in stages if ledger.evidence.read(ON_GPU, subject).value}
    found = sorted(
        (subject for subject, seconds in time.items() if seconds > 0), key=lambda subject: (-time[subject], subject)
    )
    return found if ensemble else found[:1]


def _time(ledger: Ledger, subject: Subject) -> float:
    requests, seconds = (
        ledger.evidence.read(REQUESTS, subject).value,
        ledger.evidence.read(REQUEST_SECONDS, subject).value,
    )
    return (requests or 0.0) * (seconds or 0.0)


def time_on(ledger: Ledger, stage: Subject) -> tuple[Phase, Reading]:
    """Return the seconds that a request executes in a stage, and as what: an engine's row may not hold its time."""
    entry = ledger.entry_of(stage)
    if entry is None or entry.engine_seconds <= 0 or ledger.evidence.shows_engine_time(stage):
        return Phase.COMPUTE, ledger.evidence.read(COMPUTE_SECONDS, stage)
    return Phase.ENGINE, Reading.of(entry.engine_seconds, Unit.SECONDS, "anatomy", estimated=True)


def compute_on(ledger: Ledger, card: Subject) -> Reading:
    """Return the seconds that a request of the entry executes on GPUs, all stages together."""
    return together(time_on(ledger, stage)[1] for stage in stages_on(ledger, card))


def together(each: Iterable[Reading]) -> Reading:
    """Return the sum of the readings that have a value."""
    known = [one for one in each if one.value is not None]
    return sum(known[1:], known[0]) if known else Reading.unknown(Missing.IDLE, Unit.SECONDS)


def lost_to_clock(
    ledger: Ledger, card: Subject, share: Reading, excess: Signal
) -> tuple[Mapping[Subject, Reading], bool]:
    """Return the seconds per request that each stage on the card loses to a lower clock, and whether that was measured.

    A clock that is lower by a share lengthens executions by that share of their time at most: work that waits for
    memory by less. What `excess` measured with and without it counts up to there.
    """
    stages = stages_on(ledger, card)
    most = {stage: share * time_on(ledger, stage)[1] for stage in stages}
    each = {stage: ledger.evidence.read(excess, stage) for stage in stages}
    if not each or any(one.value is None for one in each.values()):
        return most, False
    return {
        stage: one if (bound := most[stage].value) is None else one.at_most(bound) for stage, one in each.items()
    }, True


ENOUGH_REQUESTS = Limit(
    value=ENOUGH_EVENTS,
    unit=Unit.COUNT,
    because="thirty requests give a mean whose 95 % interval is within about a third of it",
)


def enough_requests(ledger: Ledger, subject: Subject) -> bool:
    """Return whether enough requests ended to speak of; an idle subject has none.

    Raises:
        Undecided: requests could not be counted.

    """
    return _known(ledger, REQUESTS, subject) >= ENOUGH_REQUESTS.value


def waits(ledger: Ledger, subject: Subject, limit: Limit) -> bool:
    """Return whether requests of a model wait as long as the limit on average; those of an idle one do not.

    Raises:
        Undecided: the queue could not be read.

    """
    return _known(ledger, QUEUE_SECONDS, subject) >= limit.value


def _known(ledger: Ledger, signal: Signal, subject: Subject) -> float:
    reading = ledger.evidence.read(signal, subject)
    if reading.value is None and reading.missing is not Missing.IDLE:
        raise Undecided(signal.name, reading.missing or Missing.NOT_EXPORTED)
    return reading.value or 0.0


def stages_of(ledger: Ledger, subject: Subject) -> Sequence[Subject]:
    """Return the models behind an entry, all versions of each: an ensemble's members, or the model itself."""
    ensemble = ledger.evidence.graph(subject.server).ensembles.get(subject.ensemble or "")
    models = ensemble.models() if ensemble else (subject.model or subject.ensemble or "",)
    return [Subject(server=subject.server, model=model) for model in models]


def busiest_stage(ledger: Ledger, subject: Subject, limit: Limit) -> bool:
    """Return whether some stage's instances are busy to the limit (`busiest_of`)."""
    return busiest_of(ledger, stages_of(ledger, subject), limit)


def busiest_of(ledger: Ledger, models: Sequence[Subject], limit: Limit) -> bool:
    """Return whether some model's instances are busy to the limit; noted for the busiest.

    Engines batch inside and have no lanes; they are left out.

    Raises:
        Undecided: the busy share of no model, or not of every working one, could be read.

    """
    lanes = [model for model in models if not ledger.evidence.is_engine(model)]
    readings = {stage: ledger.evidence.read(INSTANCE_BUSY_SHARE, stage) for stage in lanes}
    missing = [reading.missing for reading in readings.values() if reading.missing not in (None, Missing.IDLE)]
    if missing:
        raise Undecided(INSTANCE_BUSY_SHARE.name, missing[0] or Missing.NOT_EXPORTED)
    known = [stage for stage in lanes if readings[stage].value is not None]
    if not known:
        return False
    busiest = max(known, key=lambda stage: readings[stage].value or 0.0)
    return ledger.at_least(INSTANCE_BUSY_SHARE, busiest, limit)
