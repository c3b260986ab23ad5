"""Which models of a server were not there at any read: requests to them are refused, and no counter tells."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.diagnosis.trace_notes import Note
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.absences import ABSENT_THROUGHOUT
from diagnostics.signals.availability import FAILED_VERSIONS, NEVER_LOADED
from diagnostics.signals.subject import Scope, Subject

# A server with explicit control may have hundreds.
MOST_SHOWN = 3


def repository_notes(evidence: Evidence, *, explained: bool) -> Iterator[Note]:
    """Return a note for each server with such models; those whose load failed are findings, not notes.

    Args:
        evidence: what was read.
        explained: whether a cause was found: folders that were never loaded are told only where none was.

    """
    found: dict[tuple[str, str], list[str]] = {}
    for on in evidence.subjects(Scope.LISTED):
        if on.model and not evidence.read(FAILED_VERSIONS, on).value and (why := _absence(evidence, on, explained)):
            found.setdefault((on.server, why), []).append(on.model)
    for (server, why), models in found.items():
        more = f" and {len(models) - MOST_SHOWN} more" if len(models) > MOST_SHOWN else ""
        yield Note(
            f"requests to {', '.join(models[:MOST_SHOWN])}{more} on {server}",
            f"{why}: the server refuses such requests and counts none of them",
            "if clients send any, read why the server's log refused the model ('Poll failed', 'failed to load'), or "
            "load it; clients' own error counts tell",
        )


def _absence(evidence: Evidence, on: Subject, explained: bool) -> str:
    if evidence.read(NEVER_LOADED, on).value:
        return "" if explained else "in its repository, and never loaded"
    return "not ready at any read" if evidence.read(ABSENT_THROUGHOUT, on).value else ""
