"""Which models of a server's repository have never been loaded: requests to them are refused, and no counter tells."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.diagnosis.trace_notes import Note
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.availability import FAILED_VERSIONS, NEVER_LOADED
from diagnostics.signals.subject import Scope

# A server with explicit control may have hundreds.
MOST_SHOWN = 3


def repository_notes(evidence: Evidence) -> Iterator[Note]:
    """Return a note for each server with such models; those whose load failed are findings, not notes."""
    found: dict[str, list[str]] = {}
    for on in evidence.subjects(Scope.LISTED):
        if on.model and evidence.read(NEVER_LOADED, on).value and not evidence.read(FAILED_VERSIONS, on).value:
            found.setdefault(on.server, []).append(on.model)
    for server, models in found.items():
        more = f" and {len(models) - MOST_SHOWN} more" if len(models) > MOST_SHOWN else ""
        yield Note(
            f"requests to {', '.join(models[:MOST_SHOWN])}{more} on {server}",
            "in its repository, and never loaded: the server refuses such requests and counts none of them",
            "if clients send any, read why the server's log refused the model ('Poll failed', 'failed to load'), or "
            "load it; clients' own error counts tell",
        )
