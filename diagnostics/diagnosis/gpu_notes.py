"""What could not be seen of the GPUs that requests run on, what that hides and how to see it."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.diagnosis.trace_notes import Note
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.gpu import GPU_SIGHT, Sight
from diagnostics.signals.subject import Scope
from diagnostics.signals.triton import REQUESTS

_DCGM = (
    "give dcgm-exporter's page with --dcgm-url, its collectors with DCGM_FI_PROF_SM_ACTIVE and "
    "DCGM_FI_PROF_DRAM_ACTIVE; they are blank while another profiler uses the card"
)
_NOTES = {
    Sight.TIME_ONLY: (
        "how full {} is",
        "only the share of time in which some kernel runs was read, which a card with room left fills too",
        f"on Hopper and later record on its machine (extra `gpu`), else {_DCGM}",
    ),
    Sight.PART_WITHOUT_ACTIVITY: (
        "how full this server's part of {} is",
        "the card is divided (MIG): there is no utilization of a part, and no activity of it was read",
        f"on Hopper and later record on its machine (extra `gpu`), else {_DCGM}",
    ),
    Sight.UNKNOWN_PART: (
        "which part of {} this server works on",
        "the card is divided (MIG), and none of the server's processes was seen on one of its parts",
        "record on the GPU's machine, outside of other process namespaces, or in a container that has one part alone",
    ),
}


def gpu_notes(evidence: Evidence) -> Iterator[Note]:
    """Return a note for each card whose fullness could not be read; none for servers without a busy model on a GPU."""
    models = evidence.subjects(Scope.MODEL)
    busy = {on.server for on in models if evidence.read(ON_GPU, on).value and evidence.read(REQUESTS, on).value}
    for card in evidence.subjects(Scope.GPU):
        sight = evidence.read(GPU_SIGHT, card).value
        if card.server in busy and sight is not None and Sight(int(sight)) in _NOTES:
            what, why, fix = _NOTES[Sight(int(sight))]
            yield Note(what.format(card.gpu or "the GPU"), why, fix)
