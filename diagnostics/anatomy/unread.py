"""Rows that may be ensembles' whose configuration was not read: who calls which model is not known then.

An ensemble's row hardly queues, holds its members' compute, and takes their queue and more beyond it (Triton core,
`ensemble_scheduler.cc`). A model whose configuration is there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.anatomy.cells import Anatomy, Phase
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.subject import Subject

# Seconds: what an ensemble books as its queue is the call into its scheduler, microseconds.
_LONGEST_QUEUE = 1e-4
# Counters of a member and of its ensemble are read at once and move one after the other.
_AS_MUCH = 0.9
# Less than half of a model's requests are not what decides how long its callers wait.
_MOST_REQUESTS = 0.5


def likely_ensembles(anatomy: Sequence[Anatomy], evidence: Evidence) -> list[Anatomy]:
    """Return the entries that look like ensembles whose configuration was not read; nearly always none."""
    return [
        item
        for item in anatomy
        if item.ensemble is None
        and len(item.stages) == 1
        and evidence.config(Subject(server=item.server, model=item.stages[0].model)) is None
        and item.stages[0].cells.get(Phase.QUEUE, 0.0) <= _LONGEST_QUEUE
        and item.stages[0].cells.get(Phase.COMPUTE)
    ]


def calls_others(item: Anatomy, anatomy: Sequence[Anatomy]) -> bool:
    """Return whether an entry that looks like an ensemble can have sent most of another entry's requests."""
    return any(_may_call(item, one) for one in anatomy if one is not item and len(one.stages) == 1)


def longest_call(item: Anatomy, perhaps: Sequence[Anatomy]) -> float:
    """Return the mean seconds of the longest of these that can have sent most of an entry's requests; 0 without any."""
    return max((one.mean_seconds for one in perhaps if one is not item and _may_call(one, item)), default=0.0)


def _may_call(caller: Anatomy, item: Anatomy) -> bool:
    around, stage = caller.stages[0].cells, item.stages[0].cells
    return (
        caller.server == item.server
        and caller.requests >= _MOST_REQUESTS * item.requests
        and around[Phase.COMPUTE] >= _AS_MUCH * stage.get(Phase.COMPUTE, 0.0)
        and caller.unattributed_seconds >= _AS_MUCH * stage.get(Phase.QUEUE, 0.0)
    )
