"""The explanation of a window in which settings were changed: each side of the change is judged by its own settings.

What holds now is said first: the answer is about the time since the newest change, where that is long enough. A fault
that was there before and is gone since is told with the change that ended it, unless only the present is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from diagnostics.diagnosis.answer import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding, ordered
from diagnostics.diagnosis.onset import Onset
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.units import Unit, time_text
from diagnostics.window.lifecycle import ServerChange
from diagnostics.window.stretches import Stretches, in_order

# They look for the load itself, or for what is otherwise after it than before: neither side alone shows that.
_ABOUT_LOADS = frozenset({"cold-start", "model-reload-stall", "model-unavailable", "version-regression"})
# What fails in the round of the change is on neither side.
_ABOUT_FAILURES = frozenset({"execution-hung", "request-failures"})
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
    if after.verdict in _JUDGED and any(found.severity.loud for found in steady):
        over = tuple(_ended(found, sides) for found in steady)
        return _shown(replace(before, findings=over), spanning, whole, sides)
    better = after if after.verdict in _JUDGED or before.verdict not in _JUDGED else before
    return _shown(better, spanning, whole, sides)


def with_carried(found: Sequence[Finding], carried: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings with those about another part of the window, in order, which stand for the same of a side."""
    ids = {one.id for one in carried}
    return ordered([*(one for one in found if one.id not in ids), *carried])


def as_dated(found: Sequence[Finding], before: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings that were made anew with the dates and the end of those they stood for."""
    known = {one.id: one for one in before}
    return tuple(
        replace(one, onset=was.onset, ended=was.ended, summary=was.summary) if (was := known.get(one.id)) else one
        for one in found
    )


def _shown(base: Explanation, carried: tuple[Finding, ...], whole: Explanation, sides: Stretches) -> Explanation:
    found = with_carried(base.findings, carried)
    loud = [finding for finding in found if finding.severity.loud]
    cuts = in_order(sides.changes)
    degraded = bool(loud) and base.verdict is not Verdict.DEGRADED
    return replace(
        base,
        window=whole.window,
        verdict=Verdict.DEGRADED if degraded else base.verdict,
        reason="" if degraded else _reason(base, cuts, whole.window.end),
        next_measurement="" if degraded else base.next_measurement,
        layer=loud[0].layer if loud else base.layer,
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
    for found in whole.loud:
        if found.check in _ABOUT_LOADS or (found.check in _ABOUT_FAILURES and found.id not in known):
            yield found


def _gone(before: Explanation, after: Explanation) -> Iterator[Finding]:
    """Yield the loud findings before the change of checks that could decide after it, and were quiet."""
    there = {one.id for one in after.findings}
    undecided = {(result.check.id, result.subject.model) for result, _ in after.unknown}
    for found in before.loud:
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
    told = f"{found.summary}; until {time_text(change.at)}, when {change}"
    return replace(found, ended=change, summary=told, suggestion=None, advice=None)


def _dated(found: Finding, before: Explanation, sides: Stretches) -> Finding:
    """Return a finding with its onset: it began with the change where it was not there before."""
    made = sides.changes.get(found.subject.server, ())
    if found.onset is not None or not made or before.verdict not in _JUDGED:
        return found
    if found.id in {one.id for one in before.findings}:
        return found
    return replace(found, onset=Onset(at=made[-1].at, change=made[-1]))
