"""The anatomy of an orchestration: an idle ensemble whose members its clients call one after another."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics.anatomy.cells import Anatomy, Phase, Stage
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.orchestration import (
    DIRECT_CALLS,
    ENSEMBLE_CALLS,
    HOP_SECONDS,
    LOCKSTEP,
    LOCKSTEP_GAP,
    MOST_USED,
    ORCHESTRATED_SECONDS,
    WRAPPED,
)
from diagnostics.signals.subject import Subject
from diagnostics.window.graph import Ensemble

Direct = Callable[[str], Anatomy | None]


def is_orchestrated(evidence: Evidence, on: Subject) -> bool:
    """Return whether an ensemble's members are called in step from outside while it idles; unknown counts as no."""
    direct, own = evidence.read(DIRECT_CALLS, on).value, evidence.read(ENSEMBLE_CALLS, on).value
    if direct is None or own is None or direct < ENOUGH_EVENTS or own > MOST_USED * direct:
        return False
    apart, wrapped = evidence.read(LOCKSTEP_GAP, on).value, evidence.read(WRAPPED, on).value
    return apart is not None and apart <= LOCKSTEP and wrapped == 0


def from_outside(evidence: Evidence, on: Subject, ensemble: Ensemble, direct: Direct) -> Anatomy | None:
    """Return the orchestrated requests' anatomy; None where some member's is unknown.

    Args:
        evidence: what was read.
        on: the ensemble.
        ensemble: its graph.
        direct: returns the anatomy of a model that is called directly.

    """
    members = [direct(model) for model in ensemble.models()]
    known = [member for member in members if member is not None]
    calls = evidence.read(DIRECT_CALLS, on).value
    if len(known) < len(members) or not known or calls is None:
        return None
    stages = tuple(_whole(member) for member in known)
    _, at_server = ensemble.longest_path({stage.model: stage.seconds for stage in stages})
    whole, hops = evidence.read(ORCHESTRATED_SECONDS, on), evidence.read(HOP_SECONDS, on)
    mean = whole.value if whole.value is not None else at_server + (hops.value or 0.0)
    sources = dict.fromkeys([member.source for member in known] + ([whole.source] if whole.value is not None else []))
    return Anatomy(
        server=on.server,
        ensemble=on.ensemble,
        requests=calls,
        mean_seconds=mean,
        stages=stages,
        unattributed_seconds=max(mean - at_server, 0.0),
        source=" and ".join(sorted(sources)),
        traced=min(member.traced for member in known),
    )


def _whole(member: Anatomy) -> Stage:
    """Return a member's stage with what its own call leaves unattributed counted to its output."""
    stage = member.stages[0]
    cells = dict(stage.cells)
    cells[Phase.OUTPUT] = cells.get(Phase.OUTPUT, 0.0) + member.unattributed_seconds
    return Stage(model=stage.model, cells=cells, spread=stage.spread)
