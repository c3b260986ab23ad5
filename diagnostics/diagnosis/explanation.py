"""What is said of one window: its verdict, its findings and all that stands behind them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from diagnostics.anatomy.anatomy import Anatomy, anatomies
from diagnostics.checks.check import Layer, Unknown
from diagnostics.diagnosis.finding import Finding, findings, id_of, ordered, unclaimed
from diagnostics.diagnosis.link import OUTAGE
from diagnostics.diagnosis.notes import Note, clock_notes, gpu_notes, repository_notes, trace_notes
from diagnostics.diagnosis.objective import Objective
from diagnostics.diagnosis.onset import Onset
from diagnostics.diagnosis.port_notes import port_notes
from diagnostics.diagnosis.run import Result, run
from diagnostics.diagnosis.symptoms import Symptom, symptoms
from diagnostics.diagnosis.undecided import (
    FEWER,
    Open,
    absent_model,
    core_missing,
    could_matter,
    left_out,
    most_telling,
    on_cards,
    refusals_unseen,
    silent_port,
    undecided,
    unread,
)
from diagnostics.evidence.coverage import MOST_JUDGED
from diagnostics.evidence.evidence import Evidence, WindowEvidence
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.recounts import FEWER_INSTANCES_QUEUE
from diagnostics.signals.signal import Missing, Scope
from diagnostics.units import Unit, time_text
from diagnostics.window.lifecycle import ServerChange
from diagnostics.window.stretches import Stretches, in_order, settings_changed, stretches


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

    `basis` says what its times are, where they are not those of the reads; empty where they are. `addresses` are those
    of running servers' HTTP API by their names in `sources`, and `given` their addresses on the command line.
    """

    start: float
    end: float
    sources: tuple[str, ...]
    basis: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def untimed(self) -> bool:
        """Whether it is not known how long the window is."""
        return bool(self.basis) and self.start == self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything a renderer shows. `results` keep each check's ledger for `--why-not`.

    `next_measurement` separates the causes that remain; empty where a cause is named or nothing is wrong.
    `healthy_as_read` says that nothing is wrong as far as was read, and only what was not read forbids to say so.
    `proven` says that its findings were checked against forecasts (`diagnosis.validation`). `carried` are findings
    about another part of the window than the evidence, which are among `findings` too; `changes` are the changes of
    settings inside the window, with their servers; `cuts` are those of them before and after which requests are served
    differently, and `latest` the evidence since the newest; None without one. `objective` is what the user wants of
    latency; None where nothing is stated. `stale` says, in a sentence, why it is no answer about now; empty where it is
    one, or is meant to be of the past.
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
    objective: Objective | None = None
    stale: str = ""

    @property
    def unknown(self) -> tuple[tuple[Result, Unknown], ...]:
        """Checks that could not decide, with their reason."""
        return tuple((r, r.outcome) for r in self.results if isinstance(r.outcome, Unknown))

    @property
    def actionable(self) -> tuple[Finding, ...]:
        """Findings of warning or worse."""
        return tuple(finding for finding in self.findings if finding.severity.actionable)


# They look for the load itself, or for what is otherwise after it than before: neither side alone shows that.
_ABOUT_LOADS = frozenset({"cold-start", "model-reload-stall", "model-unavailable", "version-regression"})
# What fails in the round of the change is on neither side.
_ABOUT_FAILURES = frozenset({"execution-hung", "request-failures"})
# What shows only over several changes.
_ABOUT_CHANGES = FEWER_INSTANCES_QUEUE.name
# Verdicts that say whether something is wrong.
_JUDGED = frozenset({Verdict.HEALTHY, Verdict.DEGRADED, Verdict.NO_CLEAR_CAUSE})


def put_together(
    whole: Explanation, sides: Stretches, one: Callable[[WindowEvidence], Explanation], *, present: bool
) -> Explanation:
    """Return one explanation of a window and its two sides.

    Args:
        whole: the explanation of all of it, by the newest settings, with the changes of settings.
        sides: what is before and after the newest change of settings.
        one: explains a side.
        present: leave out what the change ended.

    """
    before, after = one(WindowEvidence(sides.before)), one(WindowEvidence(sides.after))
    after = replace(after, findings=tuple(_dated(found, before, sides) for found in after.findings))
    spanning = tuple(_spanning(whole, before, after))
    if present or after.verdict is Verdict.DEGRADED:
        over = () if present else tuple(_ended(found, sides) for found in _gone(before, after))
        return _shown(after, (*spanning, *over), whole, sides)
    steady = tuple(found for found in before.findings if found.check not in _ABOUT_LOADS)
    if after.verdict in _JUDGED and any(found.severity.actionable for found in steady):
        over = tuple(_ended(found, sides) for found in steady)
        return _shown(replace(before, findings=over), spanning, whole, sides)
    better = after if after.verdict in _JUDGED or before.verdict not in _JUDGED else before
    return _shown(better, spanning, whole, sides)


def with_carried(found: Sequence[Finding], carried: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings with those about another part of the window, in order, which stand for the same of a side."""
    ids = {one.id for one in carried}
    return ordered([*(one for one in found if one.id not in ids), *carried])


def as_dated(found: Sequence[Finding], before: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings that were rebuilt with the dates and the end of those they stood for."""
    known = {one.id: one for one in before}
    return tuple(
        replace(one, onset=was.onset, ended=was.ended, summary=was.summary) if (was := known.get(one.id)) else one
        for one in found
    )


def _shown(base: Explanation, carried: tuple[Finding, ...], whole: Explanation, sides: Stretches) -> Explanation:
    found = with_carried(base.findings, carried)
    actionable = [finding for finding in found if finding.severity.actionable]
    cuts = in_order(sides.changes)
    degraded = bool(actionable) and base.verdict is not Verdict.DEGRADED
    return replace(
        base,
        window=whole.window,
        verdict=Verdict.DEGRADED if degraded else base.verdict,
        reason="" if degraded else _reason(base, cuts, whole.window.end),
        next_measurement="" if degraded else base.next_measurement,
        layer=actionable[0].layer if actionable else base.layer,
        findings=found,
        carried=carried,
        changes=whole.changes,
        cuts=cuts,
        latest=WindowEvidence(sides.after),
    )


def _reason(base: Explanation, cuts: Sequence[tuple[str, ServerChange]], end: float) -> str:
    """Return the reason of a verdict; where too little was read since settings were changed, how much is missing."""
    if base.verdict not in (Verdict.INSUFFICIENT_DATA, Verdict.IDLE):
        return base.reason
    _, newest = cuts[-1]
    requests = sum(item.requests for item in base.anatomy)
    counted = f"{requests:.0f} of {ENOUGH_EVENTS:.0f} requests needed to judge completed since"
    lacking = counted if requests < ENOUGH_EVENTS else base.reason or "too little was read since"
    return f"{newest} {Unit.SECONDS.show(max(end - newest.at, 0.0))} ago, at {time_text(newest.at)}: {lacking}"


def _spanning(whole: Explanation, before: Explanation, after: Explanation) -> Iterator[Finding]:
    """Yield the findings of the whole window that neither side can hold."""
    known = {one.id for side in (before, after) for one in side.findings}
    for found in whole.actionable:
        over_all = found.check in _ABOUT_FAILURES or any(line.signal == _ABOUT_CHANGES for line in found.evidence)
        if found.check in _ABOUT_LOADS or (over_all and found.id not in known):
            yield found


def _gone(before: Explanation, after: Explanation) -> Iterator[Finding]:
    """Yield the loud findings before the change of checks that could decide after it, and were quiet."""
    there = {one.id for one in after.findings}
    undecided = {(result.check.id, result.subject.model) for result, _ in after.unknown}
    for found in before.actionable:
        if (
            found.check not in _ABOUT_LOADS
            and found.id not in there
            and (found.check, found.subject.model) not in undecided
        ):
            yield found


def _ended(found: Finding, sides: Stretches) -> Finding:
    """Return a finding with the change since which it is gone."""
    change = sides.changes[found.subject.server][-1] if found.subject.server in sides.changes else None
    if change is None:
        return found
    reported = f"{found.summary}; until {time_text(change.at)}, when {change}"
    return replace(found, ended=change, summary=reported, suggestion=None, advice=None)


def _dated(found: Finding, before: Explanation, sides: Stretches) -> Finding:
    """Return a finding with its onset: it began with the change where it was not there before."""
    made = sides.changes.get(found.subject.server, ())
    if found.onset is not None or not made or before.verdict not in _JUDGED:
        return found
    if found.id in {one.id for one in before.findings}:
        return found
    return replace(found, onset=Onset(at=made[-1].at, change=made[-1]))


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
    actionable = [finding for finding in found if finding.severity.actionable]
    return Explanation(
        window=window,
        **judged._asdict(),
        layer=actionable[0].layer if actionable else None,
        findings=found,
        symptoms=signs,
        anatomy=anatomy,
        blind_spots=(
            *blind_spots,
            *_of_signals(evidence, results, anatomy, judged.verdict),
            *_of_reads(evidence),
            *_as_blind_spots(_notes(evidence, anatomy, actionable, {spot.what for spot in blind_spots})),
        ),
        results=results,
        evidence=evidence,
        objective=objective,
    )


def explain_evidence(
    evidence: WindowEvidence,
    *,
    sources: Sequence[str] | None = None,
    blind_spots: Sequence[BlindSpot] = (),
    objective: Objective | None = None,
    present: bool = False,
) -> Explanation:
    """Return the explanation of evidence from a window of raw records.

    Where settings were changed inside the window, each side is judged by its own.

    Args:
        evidence: of the window.
        sources: whom it was read from; None names the servers that said something.
        blind_spots: as `explain`.
        objective: as `explain`.
        present: leave out what a change of settings inside the window ended.

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
    actionable = [finding for finding in found if finding.severity.actionable]
    before = set(_of_signals(evidence, explanation.results, anatomy, explanation.verdict))
    return replace(
        explanation,
        **judged._asdict(),
        layer=actionable[0].layer if actionable else None,
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
    layer = next((finding.layer for finding in found if finding.severity.actionable), None)
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
    if any(finding.severity.actionable for finding in found):
        return _Judged(Verdict.DEGRADED)
    missed = next((sign for sign in signs if sign.misses_objective), None)
    if missed is not None:
        first = most_telling(left) or missed
        return _Judged(Verdict.DEGRADED, missed.text, first.next_measurement)
    if missing := core_missing(evidence):
        return _Judged(Verdict.INSUFFICIENT_DATA, *missing)
    if signs:
        return _Judged(Verdict.NO_CLEAR_CAUSE, signs[0].text, _separates(signs[0], left))
    if unseen := left_out(evidence) or unread(evidence, anatomy) or silent_port(evidence):
        return _Judged(Verdict.INSUFFICIENT_DATA, *unseen)
    requests = sum(item.requests for item in anatomy)
    if requests < ENOUGH_EVENTS:
        return _Judged(Verdict.IDLE, f"{requests:.0f} requests completed; {ENOUGH_EVENTS} are needed to judge")
    if left:
        one = most_telling(left) or left[0]
        return _Judged(Verdict.INSUFFICIENT_DATA, one.text, one.next_measurement)
    if unseen := absent_model(evidence) or refusals_unseen(evidence):
        return _Judged(Verdict.INSUFFICIENT_DATA, *unseen, healthy_as_read=True)
    return _Judged(Verdict.HEALTHY)


def _separates(sign: Symptom, left: Sequence[Open]) -> str:
    """Return what decides the checks that may explain a symptom, else what to look at for it."""
    explaining = most_telling(left, sign.cell) if sign.cell is not None else None
    return explaining.next_measurement if explaining else sign.next_measurement


def _notes(
    evidence: Evidence, anatomy: Sequence[Anatomy], actionable: Sequence[Finding], known: Collection[str]
) -> Iterator[Note]:
    """Yield what was not seen of ports, cards, traces and the repository."""
    yield from port_notes(evidence, _servers_out(actionable), known)
    yield from gpu_notes(evidence)
    yield from trace_notes(evidence, anatomy)
    yield from repository_notes(evidence, explained=bool(actionable))


def _servers_out(actionable: Sequence[Finding]) -> frozenset[str]:
    """Return the servers of which an outage is a finding."""
    return frozenset(one.subject.server for one in actionable if one.check == OUTAGE and one.subject.model is None)


def _of_signals(
    evidence: Evidence, results: Sequence[Result], anatomy: Sequence[Anatomy], verdict: Verdict
) -> Iterator[BlindSpot]:
    """Yield why nothing is counted where a clock is to blame, and what can be switched on at the other servers."""
    notes = clock_notes(evidence)
    yield from _as_blind_spots(notes.values())
    others = [result for result in results if result.subject.server not in notes]
    yield from _blind_spots(evidence, relevant(evidence, others, anatomy, verdict))
    yield from _of_kinds(evidence)


def relevant(
    evidence: Evidence, results: Sequence[Result], anatomy: Sequence[Anatomy], verdict: Verdict
) -> Sequence[Result]:
    """Return the results whose missing readings could change the verdict: all of them where it is open."""
    if verdict not in (Verdict.DEGRADED, Verdict.HEALTHY):
        return results
    explained = verdict is Verdict.DEGRADED
    cards = on_cards(evidence, anatomy)
    return [one for one in results if could_matter(evidence, one, anatomy, explained=explained, on_cards=cards)]


def _of_kinds(evidence: Evidence) -> Iterator[BlindSpot]:
    """Yield what is not read of servers other than Triton."""
    for model in evidence.subjects(Scope.MODEL):
        kind = evidence.server_kind(model)
        if kind is None:
            continue
        for what in kind.unread:
            yield BlindSpot(what=f"{what} ({model.model})", why=f"not on the page of {kind.name}, or not read", fix="")


def _blind_spots(evidence: Evidence, results: Sequence[Result]) -> tuple[BlindSpot, ...]:
    """Return one blind spot per signal that a check looked for in vain and that can be switched on."""
    spots: dict[str, BlindSpot] = {}
    for result in results:
        kind = evidence.server_kind(result.subject)
        for signal, missing in result.ledger.absent.values():
            if kind is not None and kind.name not in signal.fix:
                continue  # Triton's switches are not there
            if signal.fix and missing not in (Missing.IDLE, Missing.TOO_FEW_EVENTS) and signal.name not in spots:
                what = f"{signal.phrase} of {result.subject}"
                why = missing.value.replace("_", " ")
                spots[signal.name] = BlindSpot(what=what, why=why, fix=signal.fix)
    return tuple(spots[name] for name in sorted(spots))


def _as_blind_spots(notes: Iterable[Note]) -> Iterator[BlindSpot]:
    return (BlindSpot(what=note.what, why=note.why, fix=note.fix) for note in notes)


def _of_reads(evidence: Evidence) -> Iterator[BlindSpot]:
    if covered := str(evidence.coverage()):
        why = f"a verdict covers the busiest {MOST_JUDGED:,} models of all servers"
        yield BlindSpot(what=covered, why=why, fix=FEWER)
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
                why="its times have no offset; they are read as UTC",
                fix="keep the log as Triton writes it, or write its times with their offset",
            )


def focused(explanation: Explanation, entry: str) -> Explanation:
    """Return the explanation with the causes that concern an entry first, and the verdict without what harms nobody.

    Those of the entry, the models behind it, GPUs and the server concern it. Of another model only what takes time
    or answers from requests is kept, since such requests may be the entry's own calls.

    Args:
        explanation: of a window.
        entry: the name of the model or ensemble that clients call.

    """
    behind = _behind(explanation, entry)

    def concerned(finding: Finding) -> bool:
        on = finding.subject
        return on.model in behind if on.model is not None else on.ensemble in (None, entry)

    kept = [finding for finding in explanation.findings if concerned(finding) or finding.impact.harm > 0]
    if len(kept) < len(explanation.findings):
        ids = {finding.id for finding in kept}
        results = [result for result in explanation.results if not result.fires or id_of(result) in ids]
        explanation = replace(with_results(explanation, results), findings=tuple(kept))
    of_others = absent_model(explanation.evidence, behind) is None and refusals_unseen(explanation.evidence) is None
    if explanation.healthy_as_read and of_others:
        explanation = replace(
            explanation, verdict=Verdict.HEALTHY, reason="", next_measurement="", healthy_as_read=False
        )
    first = [
        finding
        for finding in kept
        if concerned(finding) and finding.caused_by is None and finding.layer is not Layer.TELEMETRY
    ]
    ordered = [*first, *(finding for finding in kept if finding not in first)]
    layer = next((finding.layer for finding in ordered if finding.severity.actionable), None)
    return replace(explanation, findings=tuple(ordered), layer=layer)


def _behind(explanation: Explanation, entry: str) -> frozenset[str]:
    """Return the entry, the members that its configuration names, and whom its requests were seen to call."""
    found = {entry}
    for item in explanation.anatomy:
        if entry == (item.ensemble or item.stages[0].model):
            found |= {stage.model for stage in item.stages}
    for server in explanation.evidence.subjects(Scope.SERVER):
        ensemble = explanation.evidence.graph(server.server).ensembles.get(entry)
        found |= set(ensemble.models()) if ensemble else set()
    return frozenset(found)
