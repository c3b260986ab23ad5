"""Which stages of the requests through a card run on it, and what its slowness costs them."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.reading import Missing, Reading
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


def compute_on(see: Ledger, card: Subject) -> Reading:
    """Return the seconds that a request of the entry executes on GPUs, all stages together."""
    total = Reading.unknown(Missing.IDLE, Unit.SECONDS)
    for stage in stages_on(see, card):
        seconds = see.evidence.read(COMPUTE_SECONDS, stage)
        if seconds.value is not None:
            total = seconds if total.value is None else total + seconds
    return total
