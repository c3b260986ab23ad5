"""The whole answer for one window: verdict, findings, anatomy, what could not be seen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from diagnostics.anatomy.anatomy import Anatomy, anatomies
from diagnostics.checks.check import Layer, Unknown
from diagnostics.diagnosis.clock_notes import clock_notes
from diagnostics.diagnosis.finding import Finding, findings, unclaimed
from diagnostics.diagnosis.gpu_notes import gpu_notes
from diagnostics.diagnosis.objective import Objective
from diagnostics.diagnosis.run import Result, run
from diagnostics.diagnosis.symptoms import Symptom, symptoms
from diagnostics.diagnosis.trace_notes import trace_notes
from diagnostics.diagnosis.undecided import Open, undecided
from diagnostics.diagnosis.unread import core_missing, unread
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.reading import Missing
from diagnostics.signals.subject import Scope
from diagnostics.window.window import Window


class Verdict(StrEnum):
    """What is said of a window as a whole."""

    HEALTHY = "healthy"
    IDLE = "idle"
    DEGRADED = "degraded"
    INSUFFICIENT_DATA = "insufficient-data"
    NO_CLEAR_CAUSE = "no-clear-cause"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindSpot:
    """What could not be seen, why, and how to make it visible."""

    what: str
    why: str
    fix: str


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
    `proven` says that forecasts were asked of its findings (`diagnosis.proof`).
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
    proven: bool = False

    @property
    def unknown(self) -> tuple[tuple[Result, Unknown], ...]:
        """Checks that could not decide, with their reason."""
        return tuple((r, r.outcome) for r in self.results if isinstance(r.outcome, Unknown))

    @property
    def loud(self) -> tuple[Finding, ...]:
        """Findings of warning or worse."""
        return tuple(finding for finding in self.findings if finding.severity.loud)


def explain(
    evidence: Evidence,
    window: WindowFacts,
    *,
    blind_spots: Sequence[BlindSpot] = (),
    objective: Objective | None = None,
) -> Explanation:
    """Return the explanation of a window.

    Args:
        evidence: what was read.
        window: its bounds and sources.
        blind_spots: blind spots that the collector already knows of (closed ports).
        objective: what the user wants of latency; missing it makes the window degraded.

    """
    anatomy = anatomies(evidence)
    results = run(evidence, anatomy)
    found = findings(results, anatomy)
    signs = (
        *symptoms(evidence, anatomy, unclaimed(results, anatomy), found),
        *(objective.missed(evidence, anatomy) if objective else ()),
    )
    judged = _verdict(evidence, anatomy, found, signs, undecided(evidence, results, anatomy))
    loud = [finding for finding in found if finding.severity.loud]
    return Explanation(
        window=window,
        verdict=judged.verdict,
        reason=judged.reason,
        next_measurement=judged.next_measurement,
        layer=loud[0].layer if loud else None,
        findings=found,
        symptoms=signs,
        anatomy=anatomy,
        blind_spots=(
            *blind_spots,
            *_of_signals(evidence, results),
            *_of_logs(evidence),
            *_of_gpus(evidence),
            *_of_traces(evidence, anatomy),
        ),
        results=results,
        evidence=evidence,
    )


def explain_window(
    window: Window,
    *,
    sources: Sequence[str] | None = None,
    blind_spots: Sequence[BlindSpot] = (),
    objective: Objective | None = None,
) -> Explanation:
    """Return the explanation of a window of raw records.

    Args:
        window: what was read.
        sources: whom it was read from; None names the servers that said something.
        blind_spots: as `explain`.
        objective: as `explain`.

    """
    return explain_evidence(WindowEvidence(window), sources=sources, blind_spots=blind_spots, objective=objective)


def explain_evidence(
    evidence: WindowEvidence,
    *,
    sources: Sequence[str] | None = None,
    blind_spots: Sequence[BlindSpot] = (),
    objective: Objective | None = None,
) -> Explanation:
    """Return the explanation of evidence from a window; the rest is as in `explain_window`."""
    window = evidence.window
    named = tuple(window.servers if sources is None else sources)
    facts = WindowFacts(start=window.start, end=window.end, sources=named)
    return explain(evidence, facts, blind_spots=blind_spots, objective=objective)


def rejudged(
    explanation: Explanation, results: Sequence[Result], ahead: Collection[tuple[str, str]] = ()
) -> Explanation:
    """Return the explanation with other outcomes of the checks, and rivals in another order (see `findings`)."""
    evidence, anatomy = explanation.evidence, explanation.anatomy
    found = findings(results, anatomy, ahead)
    missed = tuple(sign for sign in explanation.symptoms if sign.misses_objective)
    signs = (*symptoms(evidence, anatomy, unclaimed(results, anatomy), found), *missed)
    judged = _verdict(evidence, anatomy, found, signs, undecided(evidence, results, anatomy))
    loud = [finding for finding in found if finding.severity.loud]
    return replace(
        explanation,
        verdict=judged.verdict,
        reason=judged.reason,
        next_measurement=judged.next_measurement,
        layer=loud[0].layer if loud else None,
        findings=found,
        symptoms=signs,
        results=tuple(results),
    )


def with_findings(explanation: Explanation, found: Sequence[Finding]) -> Explanation:
    """Return the explanation with its findings as something else is known of them, in this order."""
    layer = next((finding.layer for finding in found if finding.severity.loud), None)
    return replace(explanation, findings=tuple(found), layer=layer)


class _Judged(NamedTuple):
    verdict: Verdict
    reason: str = ""
    next_measurement: str = ""


def _verdict(
    evidence: Evidence,
    anatomy: Sequence[Anatomy],
    found: Sequence[Finding],
    signs: Sequence[Symptom],
    left: Sequence[Open],
) -> _Judged:
    if any(finding.severity.loud for finding in found):
        return _Judged(Verdict.DEGRADED)
    missed = next((sign for sign in signs if sign.misses_objective), None)
    if missed is not None:
        return _Judged(Verdict.DEGRADED, missed.text, left[0].next_measurement if left else missed.next_measurement)
    if missing := core_missing(evidence):
        return _Judged(Verdict.INSUFFICIENT_DATA, missing)
    if signs:
        return _Judged(Verdict.NO_CLEAR_CAUSE, signs[0].text, _tells_apart(signs[0], left))
    if unseen := unread(evidence, anatomy):
        return _Judged(Verdict.INSUFFICIENT_DATA, *unseen)
    requests = sum(item.requests for item in anatomy)
    if requests < ENOUGH_EVENTS:
        return _Judged(Verdict.IDLE, f"{requests:.0f} requests completed; {ENOUGH_EVENTS} are needed to judge")
    if left:
        return _Judged(Verdict.INSUFFICIENT_DATA, left[0].text, left[0].next_measurement)
    return _Judged(Verdict.HEALTHY)


def _tells_apart(sign: Symptom, left: Sequence[Open]) -> str:
    """Return what decides the checks that may explain a symptom, else what to look at for it."""
    explaining = (one.next_measurement for one in left if sign.cell is not None and sign.cell in one.cells)
    return next(explaining, sign.next_measurement)


def _of_signals(evidence: Evidence, results: Sequence[Result]) -> Iterator[BlindSpot]:
    """Yield why nothing is counted where a clock is to blame, and what can be switched on at the other servers."""
    notes = clock_notes(evidence)
    yield from (BlindSpot(what=note.what, why=note.why, fix=note.fix) for note in notes.values())
    yield from _blind_spots([result for result in results if result.subject.server not in notes])


def _blind_spots(results: Sequence[Result]) -> tuple[BlindSpot, ...]:
    """Return one blind spot per signal that a check looked for in vain and that can be switched on."""
    spots: dict[str, BlindSpot] = {}
    for result in results:
        for signal, missing in result.ledger.absent.values():
            if signal.fix and missing not in (Missing.IDLE, Missing.TOO_FEW_EVENTS) and signal.name not in spots:
                what = f"{signal.name.replace('_', ' ')} of {result.subject}"
                why = missing.value.replace("_", " ")
                spots[signal.name] = BlindSpot(what=what, why=why, fix=signal.fix)
    return tuple(spots[name] for name in sorted(spots))


def _of_gpus(evidence: Evidence) -> Iterator[BlindSpot]:
    return (BlindSpot(what=note.what, why=note.why, fix=note.fix) for note in gpu_notes(evidence))


def _of_logs(evidence: Evidence) -> Iterator[BlindSpot]:
    for server in evidence.subjects(Scope.SERVER):
        if not all(change.zoned for change in evidence.changes(server.server)):
            yield BlindSpot(
                what=f"when it was that the log of {server.server} tells of",
                why="its times tell no offset; they are taken as UTC",
                fix="keep the log as Triton writes it, or write its times with their offset",
            )


def _of_traces(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[BlindSpot]:
    return (BlindSpot(what=note.what, why=note.why, fix=note.fix) for note in trace_notes(evidence, anatomy))
