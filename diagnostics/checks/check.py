"""What a check is made of, and what it can answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from diagnostics.anatomy.anatomy import Phase
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.signal import Missing, Scope, Signal, Subject
from diagnostics.tuning.changes import ConfigChange


class Layer(StrEnum):
    """The part of the stack a cause belongs to."""

    SERVING = "serving"
    ENGINE = "engine"
    GPU = "gpu"
    HOST = "host"
    CLIENT = "client"
    FLEET = "fleet"
    TELEMETRY = "telemetry"


class Severity(StrEnum):
    """How bad a finding is, and the incident that it opens. Every surface shows the same.

    `critical`: users notice now; the finding takes half of a request's time or more, or fails 5 % of requests or more.
    `warning`: it costs less than that, and a change would help. `info`: worth knowing; it opens no incident.
    """

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def actionable(self) -> bool:
        """Whether the finding makes a window degraded."""
        return self is not Severity.INFO

    @property
    def rank(self) -> int:
        """0 for `info`, 1 for `warning`, 2 for `critical`."""
        return (Severity.INFO, Severity.WARNING, Severity.CRITICAL).index(self)


class Remedy(StrEnum):
    """Whether a suggestion removes the cause or only its effect."""

    FIX = "fix"
    MITIGATE = "mitigate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a change will do to the stage's time per request; seconds, with the interval that is known.

    `high_seconds` is None when the stage may not keep up at the pessimistic end of what is known. `model` is the stage
    where that is not the finding's own subject; empty where it is. `unless` is what would leave requests as slow as
    they are and could not be seen; empty where nothing of the kind is known.
    """

    phase: Phase
    now_seconds: float
    predicted_seconds: float
    low_seconds: float
    high_seconds: float | None
    assumptions: tuple[str, ...] = ()
    model: str = ""
    unless: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What to do, as words and, where a setting does it, as a change with its predicted effect.

    Attributes:
        text: what to do.
        remedy: whether it removes the cause.
        change: the settings that do it; None where no setting does.
        prediction: what it will do to the stage.
        load: the part of the load that is left to each server or card then; 1 where it is not about that.
        relieves: whether it takes away what makes the claimed executions longer, and nothing else.

    """

    text: str
    remedy: Remedy = Remedy.FIX
    change: ConfigChange | None = None
    prediction: Prediction | None = None
    load: float = 1.0
    relieves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Seconds per request of a stage that a finding explains; they belong to the subject's entry."""

    stage: str
    phase: Phase
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fires:
    """The check found its cause.

    Attributes:
        summary: one sentence that names the cause with its numbers.
        claims: cells of the anatomy it explains, per request of the subject.
        failed_share: share of the entry's requests that fail because of it.
        saved_seconds: per request of the subject, what its intervention would save; rivals rank by it.
        unseen_seconds: per request of the subject, what it takes in all where cells may hold a part of it or nothing;
            0 where the claims are all of it.
        suggestion: what to do.
        severity: None takes it from the harm.
        began: Unix seconds at which it began, where the check knows; None where the course of its claims shows it.
        model: the stage of the subject's entry that it is about; empty where it is about the subject itself.

    """

    summary: str
    claims: tuple[Claim, ...] = ()
    failed_share: float = 0.0
    saved_seconds: float = 0.0
    unseen_seconds: float = 0.0
    suggestion: Suggestion | None = None
    severity: Severity | None = None
    began: float | None = None
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """The cause is not there; `because` says which gate closed."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """It cannot be determined."""

    reason: Missing
    signal: str


Outcome = Fires | Quiet | Unknown
Diagnose = Callable[[Ledger, Subject], Fires | Quiet]


class Expected(StrEnum):
    """What a case expects of a check."""

    FIRES = "fires"
    QUIET = "quiet"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCase:
    """A stated situation and what the check must say of it. A signal that is not stated is absent."""

    title: str
    expect: Expected
    readings: Mapping[Signal, float]

    @classmethod
    def fires(cls, when: str, readings: Mapping[Signal, float]) -> CheckCase:
        """Return a case in which the check fires; `when` ends its title."""
        return cls(title=f"fires {when}", expect=Expected.FIRES, readings=readings)

    @classmethod
    def quiet(cls, when: str, readings: Mapping[Signal, float]) -> CheckCase:
        """Return a case in which the cause is ruled out; `when` ends its title."""
        return cls(title=f"is quiet {when}", expect=Expected.QUIET, readings=readings)

    @classmethod
    def unknown(cls, when: str, readings: Mapping[Signal, float]) -> CheckCase:
        """Return a case in which the check cannot decide; `when` ends its title."""
        return cls(title=f"is unknown {when}", expect=Expected.UNKNOWN, readings=readings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The declared part of a check.

    Attributes:
        layer: where the cause lives.
        scope: over which subjects it runs.
        limits: every number it compares with, by name.
        severity: fixed severity; None takes it from the harm.
        symptom: id of the alert on what Prometheus alone can see that points here without deciding
            (`diagnostics.gen.rule_groups.SYMPTOMS`).
        reach: phases of a stage whose time it can claim. While it cannot decide, no window in which they take much can
            be called healthy. Empty for one that claims no time, and for one that is bounded otherwise.

    """

    layer: Layer
    scope: Scope
    limits: Mapping[str, Limit]
    severity: Severity | None = None
    symptom: str | None = None
    reach: frozenset[Phase] = frozenset()


class CheckModule(Protocol):
    """What a file in this folder provides."""

    CHECK: Check
    CASES: tuple[CheckCase, ...]
    __doc__: str | None

    def diagnose(self, ledger: Ledger, subject: Subject) -> Fires | Quiet:
        """Decide for one subject; `Undecided` raised by the ledger means unknown."""
        ...
