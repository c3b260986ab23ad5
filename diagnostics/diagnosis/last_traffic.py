"""When an incident's subject last had requests, over many windows: an end of traffic is no end of a cause."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import series
from diagnostics.signals.flow import FAILED_REQUESTS
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import PENDING, REQUESTS


@dataclass(slots=True)
class _Watched:
    """Of one incident: when its requests were last seen and last looked for (Unix seconds), and the pause since."""

    requests_at: float | None = None
    looked_at: float = float("-inf")
    without: float = 0.0


class LastTraffic:
    """Keeps when the subjects of open incidents last had requests. Fed once a verdict, in time order."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}

    def look(self, fingerprint: str, subject: Subject, evidence: Evidence, elapsed: float) -> None:
        """Look for requests in what was read since the last look.

        Args:
            fingerprint: of the incident.
            subject: what it is of; one without a model stands for all that is called on its server.
            evidence: the newest window; one without its server shows nothing.
            elapsed: seconds of a steady clock since the last verdict.

        """
        watched = self._watched.setdefault(fingerprint, _Watched())
        if Subject(server=subject.server) not in evidence.subjects(Scope.SERVER):
            return
        fresh = [pair for pair in pairwise(evidence.moments(subject.server)) if pair[1] > watched.looked_at]
        if not fresh:
            return
        newest = watched.looked_at = fresh[-1][1]
        watched.without += elapsed
        for instants in reversed(fresh):
            if _has_requests(evidence, subject, instants):
                watched.requests_at = instants[1]
                watched.without = 0.0 if instants[1] == newest else watched.without
                return

    def ended(self, fingerprint: str) -> float | None:
        """Return the Unix second of the last request, if none came since; None while they come or if none was seen."""
        watched = self._watched.get(fingerprint)
        return watched.requests_at if watched and watched.without else None

    def pause(self, fingerprint: str) -> float:
        """Return the seconds without any request until the newest verdict."""
        watched = self._watched.get(fingerprint)
        return watched.without if watched else 0.0

    def forget(self, fingerprint: str) -> None:
        """Keep nothing of an incident that has ended."""
        self._watched.pop(fingerprint, None)


def _has_requests(evidence: Evidence, subject: Subject, instants: tuple[float, float]) -> bool:
    """Return whether requests ended or waited between two reads."""
    called = [Subject(server=subject.server, model=subject.model, ensemble=None if subject.model else subject.ensemble)]
    if not (subject.model or subject.ensemble):
        called = [one for one in evidence.subjects(Scope.ENTRY) if one.server == subject.server]
    counts = (REQUESTS, FAILED_REQUESTS, PENDING)
    return any(bool(series(evidence, count, one, instants)[0].reading.high) for one in called for count in counts)
