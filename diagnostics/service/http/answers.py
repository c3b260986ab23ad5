"""What the API answers with. Names are those of the service's own types; times are Unix seconds."""

from __future__ import annotations

from pydantic import BaseModel, Field

from diagnostics.checks.check import Layer, Severity
from diagnostics.diagnosis.explanation import Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Incident
from diagnostics.service.state import Evaluation, LiveState, TargetState
from diagnostics.signals.subject import Subject


class FindingLine(BaseModel):
    """A finding of the newest verdict, without its evidence."""

    id: str = Field(description="The same whenever this cause returns to this subject.")
    check: str
    title: str
    severity: Severity
    confidence: float = Field(description="0 to 1.")
    layer: Layer
    subject: Subject
    summary: str
    onset: float | None = Field(description="When it began; null where that cannot be said.")
    seconds_per_request: float = Field(description="What it costs.")
    share_of_latency: float = Field(description="0 to 1.")
    share_of_requests_failed: float = Field(description="0 to 1.")
    caused_by: str | None = Field(description="The id of the finding that this is a consequence of.")


class DeploymentState(BaseModel):
    """The newest verdict on a deployment."""

    name: str
    servers: list[str] = Field(description="Names of its servers.")
    at: float = Field(description="Of the newest scrape that the verdict saw.")
    took: float = Field(description="Seconds of processor time.")
    lag: float = Field(description="Seconds from the newest scrape to the verdict.")
    verdict: Verdict
    reason: str
    layer: Layer | None
    findings: list[FindingLine]


class State(BaseModel):
    """Everything that is known of now."""

    version: int = Field(description="Grows with every change; begins anew when the service does.")
    now: float = Field(description="The service's clock.")
    started: float
    targets: list[TargetState]
    deployments: list[DeploymentState]
    incidents: list[Incident] = Field(description="Those that last.")


def state_answer(state: LiveState, now: float) -> State:
    """Return the state as the API shows it."""
    return State(
        version=state.version,
        now=now,
        started=state.started,
        targets=sorted(state.targets.values(), key=lambda one: one.server),
        deployments=[deployment_state(state.evaluations[name]) for name in sorted(state.evaluations)],
        incidents=list(state.incidents),
    )


def deployment_state(evaluation: Evaluation) -> DeploymentState:
    """Return a verdict as the API shows it."""
    said = evaluation.explanation
    return DeploymentState(
        name=evaluation.deployment,
        servers=list(said.window.sources),
        at=evaluation.at,
        took=evaluation.took,
        lag=evaluation.lag,
        verdict=said.verdict,
        reason=said.reason,
        layer=said.layer,
        findings=[finding_line(finding) for finding in said.findings],
    )


def finding_line(finding: Finding) -> FindingLine:
    """Return a finding without its evidence."""
    impact = finding.impact
    return FindingLine(
        id=finding.id,
        check=finding.check,
        title=finding.title,
        severity=finding.severity,
        confidence=finding.confidence,
        layer=finding.layer,
        subject=finding.subject,
        summary=finding.summary,
        onset=finding.onset.at if finding.onset else None,
        seconds_per_request=impact.seconds_per_request,
        share_of_latency=impact.share_of_latency,
        share_of_requests_failed=impact.share_of_requests_failed,
        caused_by=finding.caused_by,
    )
