"""What bad events are put down to: the findings of the time in which they happened, each with its own part.

A finding claims cells of the anatomy that no other claims, so that the parts of a server's findings add up to at most
one; what is left is unexplained. A consequence counts for its cause. Parts of latency are taken for promises about
time, parts of failed requests for availability; of these, only findings that claim failures take any: that a cause
costs time does not show that requests would not have failed without it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import REQUEST_SECONDS
from diagnostics.slo.slo import Promise, Triton
from diagnostics.slo.tally import Tally


class BudgetCause(NamedTuple):
    """A root cause: the finding's fingerprint, its check, and the server and model it is of (empty for none)."""

    fingerprint: str
    check: str
    server: str
    model: str

    @classmethod
    def of(cls, finding: Finding) -> BudgetCause:
        """Return the cause that a finding is."""
        subject = finding.subject
        model = subject.model or subject.ensemble or subject.gpu or ""
        return cls(finding.id, finding.check, subject.server, model)


def attributed(sli: Triton, explanation: Explanation, server: str, counted: Tally) -> dict[BudgetCause, float]:
    """Return how many of a server's bad events each root cause took: at most all of them together.

    Args:
        sli: what is promised.
        explanation: the verdict on the time in which they happened.
        server: whose they are.
        counted: its events.

    """
    if counted.bad <= 0:
        return {}
    found = {one.id: one for one in explanation.findings}
    parts: dict[BudgetCause, float] = defaultdict(float)
    for finding in explanation.loud:
        if finding.subject.server == server:
            part = _part(sli, explanation, finding, counted)
            parts[BudgetCause.of(_root(finding, found, failures=sli.promise is Promise.AVAILABILITY))] += part
    whole = max(sum(parts.values()), 1.0)
    return {cause: part / whole * counted.bad for cause, part in parts.items() if part > 0}


def _root(finding: Finding, found: Mapping[str, Finding], *, failures: bool) -> Finding:
    """Return the finding that this one is, in the end, a consequence of; of failures, the last that claims some."""
    seen, root = {finding.id}, finding
    while finding.caused_by is not None and finding.caused_by in found and finding.caused_by not in seen:
        finding = found[finding.caused_by]
        seen.add(finding.id)
        if not failures or finding.impact.share_of_requests_failed > 0:
            root = finding
    return root


def _part(sli: Triton, explanation: Explanation, finding: Finding, counted: Tally) -> float:
    """Return a finding's part of the bad events, 0 to 1; 0 where it is about other requests."""
    subject, impact = finding.subject, finding.impact
    called = subject.ensemble or subject.model
    if sli.promise is Promise.AVAILABILITY:
        if sli.model not in (subject.ensemble, subject.model) or counted.total <= 0:
            return 0.0
        return min(impact.share_of_requests_failed * counted.total / counted.bad, 1.0)
    if called == sli.model:
        return impact.share_of_latency
    if subject.model != sli.model:
        return 0.0
    # The promise is about a stage: the finding's seconds are set against the stage's own, not its ensemble's.
    mean = explanation.evidence.read(REQUEST_SECONDS, Subject(server=subject.server, model=subject.model)).value
    return min(impact.seconds_per_request / mean, 1.0) if mean else 0.0
