"""The whole answer for one window: verdict, findings, anatomy, what could not be seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from diagnostics.anatomy.anatomy import Anatomy, anatomies
from diagnostics.diagnosis.answer import BlindSpot, Explanation, Verdict, WindowFacts
from diagnostics.diagnosis.changed import as_dated, put_together, with_carried
from diagnostics.diagnosis.clock_notes import clock_notes
from diagnostics.diagnosis.finding import Finding, findings, unclaimed
from diagnostics.diagnosis.gpu_notes import gpu_notes
from diagnostics.diagnosis.link import OUTAGE
from diagnostics.diagnosis.objective import Objective
from diagnostics.diagnosis.port_notes import port_notes
from diagnostics.diagnosis.repository_notes import repository_notes
from diagnostics.diagnosis.run import Result, run
from diagnostics.diagnosis.symptoms import Symptom, symptoms
from diagnostics.diagnosis.trace_notes import Note, trace_notes
from diagnostics.diagnosis.undecided import Open, could_matter, undecided
from diagnostics.diagnosis.unread import absent_model, core_missing, refusals_unseen, silent_port, unread
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.reading import Missing
from diagnostics.signals.subject import Scope
from diagnostics.window.stretches import in_order, settings_changed, stretches
from diagnostics.window.window import Window

__all__ = ["BlindSpot", "Explanation", "Verdict", "WindowFacts", "explain", "explain_evidence", "explain_window"]


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
        **judged._asdict(),
        layer=loud[0].layer if loud else None,
        findings=found,
        symptoms=signs,
        anatomy=anatomy,
        blind_spots=(
            *blind_spots,
            *_of_signals(evidence, results, anatomy, judged.verdict),
            *_of_reads(evidence),
            *_as_blind_spots(_notes(evidence, anatomy, loud, {spot.what for spot in blind_spots})),
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
    present: bool = False,
) -> Explanation:
    """Return the explanation of a window of raw records.

    Args:
        window: what was read.
        sources: whom it was read from; None names the servers that said something.
        blind_spots: as `explain`.
        objective: as `explain`.
        present: leave out what a change of settings inside the window ended.

    """
    return explain_evidence(
        WindowEvidence(window), sources=sources, blind_spots=blind_spots, objective=objective, present=present
    )


def explain_evidence(
    evidence: WindowEvidence,
    *,
    sources: Sequence[str] | None = None,
    blind_spots: Sequence[BlindSpot] = (),
    objective: Objective | None = None,
    present: bool = False,
) -> Explanation:
    """Return the explanation of evidence from a window; the rest is as in `explain_window`.

    Where settings were changed inside the window, each side is judged by its own.
    """
    window = evidence.window
    named = tuple(window.servers if sources is None else sources)

    def one(about: WindowEvidence) -> Explanation:
        facts = WindowFacts(start=about.window.start, end=about.window.end, sources=named)
        return explain(about, facts, blind_spots=blind_spots, objective=objective)

    changed = settings_changed(window)
    whole = replace(one(evidence), changes=in_order(changed))
    sides = stretches(window, changed)
    return whole if sides is None else put_together(whole, sides, one, present=present)


def with_results(
    explanation: Explanation, results: Sequence[Result], ahead: Collection[tuple[str, str]] = ()
) -> Explanation:
    """Return the explanation with other outcomes of the checks, and rivals in another order (see `findings`)."""
    evidence, anatomy = explanation.evidence, explanation.anatomy
    found = with_carried(as_dated(findings(results, anatomy, ahead), explanation.findings), explanation.carried)
    missed = tuple(sign for sign in explanation.symptoms if sign.misses_objective)
    signs = (*symptoms(evidence, anatomy, unclaimed(results, anatomy), found), *missed)
    judged = _verdict(evidence, anatomy, found, signs, undecided(evidence, results, anatomy))
    loud = [finding for finding in found if finding.severity.loud]
    before = set(_of_signals(evidence, explanation.results, anatomy, explanation.verdict))
    return replace(
        explanation,
        **judged._asdict(),
        layer=loud[0].layer if loud else None,
        findings=found,
        symptoms=signs,
        blind_spots=(
            *(spot for spot in explanation.blind_spots if spot not in before),
            *_of_signals(evidence, results, anatomy, judged.verdict),
        ),
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
    healthy_as_read: bool = False


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
    if unseen := unread(evidence, anatomy) or silent_port(evidence):
        return _Judged(Verdict.INSUFFICIENT_DATA, *unseen)
    requests = sum(item.requests for item in anatomy)
    if requests < ENOUGH_EVENTS:
        return _Judged(Verdict.IDLE, f"{requests:.0f} requests completed; {ENOUGH_EVENTS} are needed to judge")
    if left:
        return _Judged(Verdict.INSUFFICIENT_DATA, left[0].text, left[0].next_measurement)
    if unseen := absent_model(evidence) or refusals_unseen(evidence):
        return _Judged(Verdict.INSUFFICIENT_DATA, *unseen, healthy_as_read=True)
    return _Judged(Verdict.HEALTHY)


def _tells_apart(sign: Symptom, left: Sequence[Open]) -> str:
    """Return what decides the checks that may explain a symptom, else what to look at for it."""
    explaining = (one.next_measurement for one in left if sign.cell is not None and sign.cell in one.cells)
    return next(explaining, sign.next_measurement)


def _notes(
    evidence: Evidence, anatomy: Sequence[Anatomy], loud: Sequence[Finding], known: Collection[str]
) -> Iterator[Note]:
    """Yield what was not seen of ports, cards, traces and the repository."""
    yield from port_notes(evidence, _servers_out(loud), known)
    yield from gpu_notes(evidence)
    yield from trace_notes(evidence, anatomy)
    yield from repository_notes(evidence, explained=bool(loud))


def _servers_out(loud: Sequence[Finding]) -> frozenset[str]:
    """Return the servers of which an outage is a finding."""
    return frozenset(one.subject.server for one in loud if one.check == OUTAGE and one.subject.model is None)


def _of_signals(
    evidence: Evidence, results: Sequence[Result], anatomy: Sequence[Anatomy], verdict: Verdict
) -> Iterator[BlindSpot]:
    """Yield why nothing is counted where a clock is to blame, and what can be switched on at the other servers."""
    notes = clock_notes(evidence)
    yield from _as_blind_spots(notes.values())
    others = [result for result in results if result.subject.server not in notes]
    yield from _blind_spots(relevant(evidence, others, anatomy, verdict))


def relevant(
    evidence: Evidence, results: Sequence[Result], anatomy: Sequence[Anatomy], verdict: Verdict
) -> Sequence[Result]:
    """Return the results whose missing readings could change the verdict: all of them where it is open."""
    if verdict not in (Verdict.DEGRADED, Verdict.HEALTHY):
        return results
    explained = verdict is Verdict.DEGRADED
    return [result for result in results if could_matter(evidence, result, anatomy, explained=explained)]


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


def _as_blind_spots(notes: Iterable[Note]) -> Iterator[BlindSpot]:
    return (BlindSpot(what=note.what, why=note.why, fix=note.fix) for note in notes)


def _of_reads(evidence: Evidence) -> Iterator[BlindSpot]:
    yield from _of_entries(evidence)
    yield from _of_logs(evidence)


def _of_entries(evidence: Evidence) -> Iterator[BlindSpot]:
    for server in evidence.subjects(Scope.SERVER):
        refused = evidence.refused(server.server)
        if refused:
            name, why = next(iter(refused.items()))
            many = "1 entry" if len(refused) == 1 else f"{len(refused)} entries"
            yield BlindSpot(
                what=f"{many} of {server.server}: {name}{' and others' if len(refused) > 1 else ''}",
                why=f"cannot be read: {why}",
                fix="check the proxy before the server, or the model of that name",
            )


def _of_logs(evidence: Evidence) -> Iterator[BlindSpot]:
    for server in evidence.subjects(Scope.SERVER):
        if not all(change.zoned for change in evidence.changes(server.server)):
            yield BlindSpot(
                what=f"when it was that the log of {server.server} tells of",
                why="its times tell no offset; they are taken as UTC",
                fix="keep the log as Triton writes it, or write its times with their offset",
            )
