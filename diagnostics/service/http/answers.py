"""What the API answers with. Names are those of the service's own types; times are Unix seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from diagnostics.checks.catalogue import RegisteredCheck
from diagnostics.checks.check import Fires, Layer, Quiet, Severity, Unknown
from diagnostics.diagnosis.explanation import Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Incident
from diagnostics.diagnosis.run import Result
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.render import phrases
from diagnostics.render.explanation.why_not import account_of, noted
from diagnostics.service.own.metrics import ServiceFault
from diagnostics.service.state import Evaluation, LiveState, TargetState
from diagnostics.signals.signal import Scope, Subject
from diagnostics.store.journal import JournalEntry


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
    step: str | None = Field(description="What to do, as `fix: …` or `mitigate: …`; null where nothing is suggested.")
    doubt: str | None = Field(description="Why a forecast speaks against it; null where none does.")
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
    no_data_since: float | None = Field(
        description="Since when no server of it answers: the verdict is of before. Null while one answers."
    )
    age: float = Field(description="Seconds since then.")
    late: bool = Field(description="Whether newer data waits for longer than 3 intervals, and than 30 s.")
    took: float = Field(description="Seconds of processor time.")
    lag: float = Field(description="Seconds from the newest scrape to the verdict.")
    verdict: Verdict
    answer: str = Field(description="What users feel and the root cause, else why there is none.")
    reason: str
    layer: Layer | None
    changes: list[str] = Field(description="Changes of settings inside the verdict's window.")
    findings: list[FindingLine]


class ServiceState(BaseModel):
    """Everything that is known of now."""

    version: int = Field(description="Grows with every change; begins anew when the service does.")
    now: float = Field(description="The service's clock.")
    started: float
    targets: list[TargetState]
    deployments: list[DeploymentState]
    incidents: list[Incident] = Field(description="Those that last.")
    acknowledged: list[JournalEntry] = Field(description="Who knows of which of these incidents.")
    faults: list[ServiceFault] = Field(description="What fails in the service itself.")


def state_answer(
    state: LiveState, now: float, faults: list[ServiceFault], acknowledged: list[JournalEntry]
) -> ServiceState:
    """Return the state as the API shows it."""
    return ServiceState(
        version=state.version,
        now=now,
        started=state.started,
        targets=sorted(state.targets.values(), key=lambda one: one.server),
        deployments=[deployment_state(state, name, now) for name in sorted(state.evaluations)],
        incidents=list(state.incidents),
        acknowledged=acknowledged,
        faults=faults,
    )


def deployment_state(state: LiveState, name: str, now: float) -> DeploymentState:
    """Return the newest verdict on a deployment as the API shows it at Unix second `now`.

    Raises:
        KeyError: there is none yet.

    """
    evaluation = state.evaluations[name]
    stated = evaluation.explanation
    return DeploymentState(
        name=evaluation.deployment,
        servers=list(stated.window.sources),
        at=evaluation.at,
        no_data_since=state.silent_since(name),
        age=max(now - evaluation.at, 0.0),
        late=state.is_late(name),
        took=evaluation.took,
        lag=evaluation.lag,
        verdict=stated.verdict,
        answer=phrases.answer(stated),
        reason=stated.reason,
        layer=stated.layer,
        changes=phrases.changes(stated),
        findings=[finding_line(finding) for finding in stated.findings],
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
        step=phrases.remedy(finding.suggestion) if finding.suggestion else None,
        doubt=finding.doubt or None,
        onset=finding.onset.at if finding.onset else None,
        seconds_per_request=impact.seconds_per_request,
        share_of_latency=impact.share_of_latency,
        share_of_requests_failed=impact.share_of_requests_failed,
        caused_by=finding.caused_by,
    )


class CheckAnswer(BaseModel):
    """A check: a cause that is looked for."""

    id: str
    title: str
    layer: Layer
    scope: Scope
    severity: Severity | None = Field(description="Fixed; null where the harm decides.")
    limits: dict[str, float] = Field(description="Numbers that it compares with.")
    sections: dict[str, str] = Field(description="Its runbook, by heading.")


class LineAnswer(BaseModel):
    """One reading of a check, and what it was compared with."""

    signal: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    source: str
    estimated: bool
    missing: str | None = Field(description="Why there is no value.")
    limit: float | None
    comparison: str
    met: bool | None


class SubjectAnswer(BaseModel):
    """What a check says of one subject."""

    subject: Subject
    outcome: Literal["fires", "quiet", "unknown"]
    because: str
    lines: list[LineAnswer]


class WhyAnswer(BaseModel):
    """Why a check fires, or does not."""

    check: str
    title: str
    deployment: str
    at: float = Field(description="Of the newest scrape that the verdict saw.")
    subjects: list[SubjectAnswer]
    account: str = Field(description="The same as text.")


def check_answer(check: RegisteredCheck) -> CheckAnswer:
    """Return a check as the API shows it."""
    return CheckAnswer(
        id=check.id,
        title=check.title,
        layer=check.check.layer,
        scope=check.check.scope,
        severity=check.check.severity,
        limits={name: limit.value for name, limit in check.check.limits.items()},
        sections=check.sections(),
    )


def why_answer(evaluation: Evaluation, check: RegisteredCheck) -> WhyAnswer:
    """Return what a check said in a verdict."""
    reported = noted([result for result in evaluation.explanation.results if result.check.id == check.id])
    return WhyAnswer(
        check=check.id,
        title=check.title,
        deployment=evaluation.deployment,
        at=evaluation.at,
        subjects=[_subject(result, lines) for result, lines in reported],
        account=account_of(reported),
    )


def _subject(result: Result, lines: Sequence[LedgerLine]) -> SubjectAnswer:
    match result.outcome:
        case Fires(summary=summary):
            outcome, because = ("fires", summary)
        case Quiet(because=because):
            outcome = "quiet"
        case Unknown(reason=reason, signal=signal):
            outcome, because = ("unknown", f"{signal}: {reason.value}")
    return SubjectAnswer.model_validate(
        {
            "subject": result.subject,
            "outcome": outcome,
            "because": because,
            "lines": [_line(line) for line in lines],
        }
    )


def _line(line: LedgerLine) -> LineAnswer:
    reading = line.reading
    return LineAnswer(
        signal=line.signal,
        value=reading.value,
        low=reading.low,
        high=reading.high,
        unit=reading.unit.value,
        source=reading.source,
        estimated=reading.estimated,
        missing=reading.missing.value if reading.missing else None,
        limit=line.limit,
        comparison=line.sign,
        met=line.met,
    )
