"""What of an entry's time findings claim: each second once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from diagnostics.anatomy.anatomy import Anatomy, Phase, Stage
from diagnostics.checks.check import Claim, Fires
from diagnostics.diagnosis.run import Result
from diagnostics.evidence.ledger import EntryPoint

Cell = tuple[str, str, str, Phase]
"""Server, entry, stage, phase: the servers of a fleet hold the same models and lose time of their own."""
_Stage = tuple[str, str, str]


class Cells:
    """The seconds per request that nothing has claimed so far, per cell."""

    def __init__(self, anatomy: Sequence[Anatomy]) -> None:
        self.left: dict[Cell, float] = dict(_cells(anatomy))
        self._callers = {
            _stage_of(item, stage): tuple(_callers(item, stage))
            for item in anatomy
            for stage in item.stages
            if stage.caller
        }
        self._whole: Mapping[Cell, float] = dict(self.left)

    def take(self, result: Result, fires: Fires) -> float:
        """Take a result's claims out of what is left and return how much it got: a cell-second has one root.

        A model that calls the claimed one holds its instances meanwhile. So of what waits for these, as large a part
        is the result's as of the time for which they are held.
        """
        entry, got = result.entry, 0.0
        if entry is None:
            return got
        for claim in fires.claims:
            cell = cell_of(result, entry, claim)
            most = min(entry.most_seconds, entry.most_queued_seconds if claim.phase is Phase.QUEUE else inf)
            got += self._took(cell, min(claim.seconds * entry.weight, max(most - got, 0.0)))
        for stage in dict.fromkeys(cell_of(result, entry, claim)[:3] for claim in fires.claims):
            for queue, held in self._callers.get(stage, ()):
                part = min(got / held, 1.0) if held > 0 else 0.0
                got += self._took(queue, min(self._whole.get(queue, 0.0) * part, entry.most_seconds - got))
        return got

    def _took(self, cell: Cell, seconds: float) -> float:
        taken = min(seconds, self.left.get(cell, 0.0))
        self.left[cell] = self.left.get(cell, 0.0) - taken
        return taken


def cell_of(result: Result, entry: EntryPoint, claim: Claim) -> Cell:
    """Return the cell that a claim is on."""
    return result.subject.server, entry_name(entry.ensemble, claim.stage), claim.stage, claim.phase


def entry_name(ensemble: str | None, model: str) -> str:
    """Return what an entry's cells are filed under: the ensemble, or the model that is called directly."""
    return ensemble or model


def _stage_of(item: Anatomy, stage: Stage) -> _Stage:
    return item.server, entry_name(item.ensemble, stage.model), stage.model


def _callers(item: Anatomy, stage: Stage) -> Iterator[tuple[Cell, float]]:
    """Yield the queue of each model that waits for a stage, the nearest first, and how long its instances are held."""
    while stage.caller and (caller := item.stage(stage.caller)) is not None and caller is not stage:
        yield (*_stage_of(item, caller), Phase.QUEUE), _held(item, caller)
        stage = caller


def _held(item: Anatomy, stage: Stage) -> float:
    own = stage.seconds - stage.cells.get(Phase.QUEUE, 0.0)
    below = (one for one in item.stages if one.caller == stage.model)
    return own + sum(one.cells.get(Phase.QUEUE, 0.0) + _held(item, one) for one in below)


def _cells(anatomy: Sequence[Anatomy]) -> Iterator[tuple[Cell, float]]:
    for item in anatomy:
        if item.ensemble is not None:
            yield (item.server, item.ensemble, "", Phase.GAP), item.unattributed_seconds
        for stage in item.stages:
            for phase, seconds in stage.cells.items():
                yield (*_stage_of(item, stage), phase), seconds
