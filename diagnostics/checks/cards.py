"""Which stages of the requests through a card run on it, and what its slowness costs them."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUESTS
from diagnostics.units import Unit


def name_of(card: Subject) -> str:
    """Return the card's UUID, which says that it is a GPU; words where nothing told it."""
    return card.gpu or "the GPU"


def entry_on(see: Ledger, card: Subject) -> Subject:
    """Return the subject whose requests stand for the card's: the ensemble with most time in it, else the server."""
    entry = see.entry_of(card)
    return Subject(server=card.server, ensemble=entry.ensemble if entry else None)


def stages_on(see: Ledger, card: Subject) -> Sequence[Subject]:
    """Return the models on GPUs that the entry's requests pass, in a stable order."""
    entry = see.entry_of(card)
    members: Sequence[str] = ()
    if entry is not None and entry.ensemble is not None:
        members = see.evidence.graph(card.server).ensembles[entry.ensemble].models()
    models = {
        on.model for on in see.evidence.subjects(Scope.MODEL) if on.server == card.server and on.model is not None
    }
    chosen = [model for model in sorted(models) if not members or model in members]
    subjects = [Subject(server=card.server, model=model) for model in chosen]
    return [on for on in subjects if see.evidence.read(ON_GPU, on).value and see.evidence.read(REQUESTS, on).value]


def compute_on(see: Ledger, card: Subject) -> Reading:
    """Return the seconds that a request of the entry executes on GPUs, all stages together."""
    total = Reading.unknown(Missing.IDLE, Unit.SECONDS)
    for stage in stages_on(see, card):
        seconds = see.evidence.read(COMPUTE_SECONDS, stage)
        if seconds.value is not None:
            total = seconds if total.value is None else total + seconds
    return total
