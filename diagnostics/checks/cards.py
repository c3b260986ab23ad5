"""Which stages of the requests through a card run on it, and what its slowness costs them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from diagnostics.anatomy.anatomy import Phase
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit


def name_of(card: Subject) -> str:
    """Return the card's UUID, which says that it is a GPU; words where nothing told it."""
    return card.gpu or "the GPU"


def entry_on(see: Ledger, card: Subject) -> Subject:
    """Return the subject whose requests stand for the card's: the ensemble with most time in it, else the model."""
    entry = see.entry_of(card)
    if entry is not None and entry.ensemble is not None:
        return Subject(server=card.server, ensemble=entry.ensemble)
    return next(iter(stages_on(see, card)), Subject(server=card.server))


def stages_on(see: Ledger, card: Subject) -> Sequence[Subject]:
    """Return the models on GPUs that the entry's requests pass, most time first.

    Without an ensemble it is one model, which is called directly.
    """
    entry = see.entry_of(card)
    ensemble = entry.ensemble if entry else None
    members = see.evidence.graph(card.server).ensembles[ensemble].models() if ensemble else ()
    models = {on.model for on in see.evidence.subjects(Scope.MODEL) if on.server == card.server and on.model}
    stages = [Subject(server=card.server, model=model) for model in models if not members or model in members]
    time = {on: _time(see, on) for on in stages if see.evidence.read(ON_GPU, on).value}
    found = sorted((on for on, seconds in time.items() if seconds > 0), key=lambda on: (-time[on], on))
    return found if ensemble else found[:1]


def _time(see: Ledger, on: Subject) -> float:
    requests, seconds = see.evidence.read(REQUESTS, on).value, see.evidence.read(REQUEST_SECONDS, on).value
    return (requests or 0.0) * (seconds or 0.0)


def time_on(see: Ledger, stage: Subject) -> tuple[Phase, Reading]:
    """Return the seconds that a request executes in a stage, and as what: an engine's row may not hold its time."""
    entry = see.entry_of(stage)
    if entry is None or entry.engine_seconds <= 0 or see.evidence.shows_engine_time(stage):
        return Phase.COMPUTE, see.evidence.read(COMPUTE_SECONDS, stage)
    return Phase.ENGINE, Reading.of(entry.engine_seconds, Unit.SECONDS, "anatomy", estimated=True)


def compute_on(see: Ledger, card: Subject) -> Reading:
    """Return the seconds that a request of the entry executes on GPUs, all stages together."""
    return together(time_on(see, stage)[1] for stage in stages_on(see, card))


def together(each: Iterable[Reading]) -> Reading:
    """Return the sum of the readings that have a value."""
    known = [one for one in each if one.value is not None]
    return sum(known[1:], known[0]) if known else Reading.unknown(Missing.IDLE, Unit.SECONDS)


def lost_to_clock(see: Ledger, card: Subject, share: Reading, excess: Signal) -> tuple[Mapping[Subject, Reading], bool]:
    """Return the seconds per request that each stage on the card loses to a lower clock, and whether that was measured.

    A clock that is lower by a share lengthens executions by that share of their time at most: work that waits for
    memory by less. What `excess` measured with and without it counts up to there.
    """
    stages = stages_on(see, card)
    most = {stage: share * time_on(see, stage)[1] for stage in stages}
    each = {stage: see.evidence.read(excess, stage) for stage in stages}
    if not each or any(one.value is None for one in each.values()):
        return most, False
    return {
        stage: one if (bound := most[stage].value) is None else one.at_most(bound) for stage, one in each.items()
    }, True
