"""Servers of whose counters nothing can be said, as the clock of their recording ran backwards or stood still."""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics.diagnosis.trace_notes import Note
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.reading import Missing
from diagnostics.signals.subject import Scope
from diagnostics.signals.triton import REQUESTS

# Why requests were not counted, though their counters were read.
DISORDERS: Mapping[Missing, str] = {
    Missing.CONFLICTING: "the recording's clock ran backwards: counters fall from each read to the next",
    Missing.STALE: "the recording's clock stood still: all reads have one time",
    Missing.RESET: "request counters jump back again and again, as those of several servers behind one address do",
}
_BY_CLOCKS = (Missing.CONFLICTING, Missing.STALE)
_ANEW = (
    "record anew with diag record, on a machine whose clock is kept in step (NTP); file bodies that were saved "
    "otherwise under the times at which they were read"
)


def clock_notes(evidence: Evidence) -> Mapping[str, Note]:
    """Return a note for each server whose reads have no order in time, by its name; none where they have."""
    found: dict[str, Note] = {}
    for model in evidence.subjects(Scope.MODEL):
        reason = evidence.read(REQUESTS, model).missing
        if reason in _BY_CLOCKS and model.server not in found:
            found[model.server] = Note(f"all that {model.server} counts over time", DISORDERS[reason], _ANEW)
    return found
