"""What is said of one window: its verdict, its findings and all that stands behind them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from diagnostics.anatomy.anatomy import Anatomy
from diagnostics.checks.check import Layer, Unknown
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.run import Result
from diagnostics.diagnosis.symptoms import Symptom
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.window.lifecycle import ServerChange


class Verdict(StrEnum):
    """What is said of a window as a whole."""

    HEALTHY = "healthy"
    IDLE = "idle"
    DEGRADED = "degraded"
    INSUFFICIENT_DATA = "insufficient-data"
    NO_CLEAR_CAUSE = "no-clear-cause"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindSpot:
    """What could not be seen, why, and how to make it visible; `command` does that, and holds no name that was read."""

    what: str
    why: str
    fix: str
    command: str = ""

    @property
    def whole_fix(self) -> str:
        """How to make it visible, with the command."""
        return f"{self.fix}: {self.command}" if self.command else self.fix


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFacts:
    """When and from whom the window was read; Unix seconds.

    `basis` says what its times are, where they are not those of the reads; empty where they are.
    """

    start: float
    end: float
    sources: tuple[str, ...]
    basis: str = ""

    @property
    def untimed(self) -> bool:
        """Whether it is not known how long the window is."""
        return bool(self.basis) and self.start == self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything a renderer shows. `results` keep each check's ledger for `--why-not`.

    `next_measurement` tells the causes that remain apart; empty where a cause is named or nothing is wrong.
    `healthy_as_read` says that nothing is wrong as far as was read, and only what was not read forbids to say so.
    `proven` says that forecasts were asked of its findings (`diagnosis.proof`).
    `carried` are findings about another part of the window than the evidence, which are among `findings` too;
    `changes` are the changes of settings inside the window, with their servers; `cuts` are those of them before and
    after which requests are served differently, and `latest` the evidence since the newest; None without one.
    `stale` says, in a sentence, why it is no answer about now; empty where it is one, or is meant to be of the past.
    """

    window: WindowFacts
    verdict: Verdict
    reason: str
    layer: Layer | None
    findings: tuple[Finding, ...]
    symptoms: tuple[Symptom, ...]
    anatomy: tuple[Anatomy, ...]
    blind_spots: tuple[BlindSpot, ...]
    results: tuple[Result, ...]
    evidence: Evidence
    next_measurement: str = ""
    healthy_as_read: bool = False
    proven: bool = False
    carried: tuple[Finding, ...] = ()
    changes: tuple[tuple[str, ServerChange], ...] = ()
    cuts: tuple[tuple[str, ServerChange], ...] = ()
    latest: WindowEvidence | None = None
    stale: str = ""

    @property
    def unknown(self) -> tuple[tuple[Result, Unknown], ...]:
        """Checks that could not decide, with their reason."""
        return tuple((r, r.outcome) for r in self.results if isinstance(r.outcome, Unknown))

    @property
    def loud(self) -> tuple[Finding, ...]:
        """Findings of warning or worse."""
        return tuple(finding for finding in self.findings if finding.severity.loud)
