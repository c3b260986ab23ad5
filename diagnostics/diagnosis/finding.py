"""What of an entry's time findings claim: each second once."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from diagnostics.anatomy.anatomy import Anatomy, Phase, Stage
from diagnostics.checks.check import Claim, Fires, Layer, Prediction, Severity, Suggestion
from diagnostics.checks.entries import FAILED_PART
from diagnostics.diagnosis.advice import Advice, advice
from diagnostics.diagnosis.link import AFTER_LOAD, LOAD, OUTAGE, cause_of, follows_load, follows_outage
from diagnostics.diagnosis.onset import Onset, onset_of
from diagnostics.diagnosis.run import Result, fired
from diagnostics.evidence.ledger import EntryPoint, LedgerLine
from diagnostics.forecast.performance import Estimate
from diagnostics.signals.signal import Subject
from diagnostics.window.lifecycle import ServerChange

Cell = tuple[str, str, str, Phase]
"""Server, entry, stage, phase: the servers of a fleet hold the same models and lose time of their own."""
_Stage = tuple[str, str, str]


class Cells:
    """The seconds per request that nothing has claimed so far, per cell."""

    def __init__(self, anatomy: Sequence[Anatomy]) -> None:
        self.left: dict[Cell, float] = dict(_cells(anatomy))
        self._callers = {
            _stage_of(item, stage): tuple(_callers(item, stage))
            for item in anatomy
            for stage in item.stages
            if stage.caller
        }
        self._whole: Mapping[Cell, float] = dict(self.left)

    def claim(self, result: Result, fires: Fires) -> float:
        """Take a result's claims out of what is left and return how much it got: a cell-second has one root.

        A model that calls the claimed one holds its instances meanwhile. So of what waits for these, as large a part
        is the result's as of the time for which they are held.
        """
        entry, got = result.entry, 0.0
        if entry is None:
            return got
        for claim in fires.claims:
            cell = cell_of(result, entry, claim)
            most = min(entry.most_seconds, entry.most_queued_seconds if claim.phase is Phase.QUEUE else inf)
            got += self._took(cell, min(claim.seconds * entry.weight, max(most - got, 0.0)))
        for stage in dict.fromkeys(cell_of(result, entry, claim)[:3] for claim in fires.claims):
            for queue, held in self._callers.get(stage, ()):
                part = min(got / held, 1.0) if held > 0 else 0.0
                got += self._took(queue, min(self._whole.get(queue, 0.0) * part, entry.most_seconds - got))
        return got

    def _took(self, cell: Cell, seconds: float) -> float:
        taken = min(seconds, self.left.get(cell, 0.0))
        self.left[cell] = self.left.get(cell, 0.0) - taken
        return taken


def cell_of(result: Result, entry: EntryPoint, claim: Claim) -> Cell:
    """Return the cell that a claim is on."""
    return result.subject.server, entry_name(entry.ensemble, claim.stage), claim.stage, claim.phase


def entry_name(ensemble: str | None, model: str) -> str:
    """Return what an entry's cells are filed under: the ensemble, or the model that is called directly."""
    return ensemble or model


def _stage_of(item: Anatomy, stage: Stage) -> _Stage:
    return item.server, entry_name(item.ensemble, stage.model), stage.model


def _callers(item: Anatomy, stage: Stage) -> Iterator[tuple[Cell, float]]:
    """Yield the queue of each model that waits for a stage, the nearest first, and how long its instances are held."""
    while stage.caller and (caller := item.stage(stage.caller)) is not None and caller is not stage:
        yield (*_stage_of(item, caller), Phase.QUEUE), _held(item, caller)
        stage = caller


def _held(item: Anatomy, stage: Stage) -> float:
    own = stage.seconds - stage.cells.get(Phase.QUEUE, 0.0)
    below = (one for one in item.stages if one.caller == stage.model)
    return own + sum(one.cells.get(Phase.QUEUE, 0.0) + _held(item, one) for one in below)


def _cells(anatomy: Sequence[Anatomy]) -> Iterator[tuple[Cell, float]]:
    for item in anatomy:
        if item.ensemble is not None:
            yield (item.server, item.ensemble, "", Phase.GAP), item.unattributed_seconds
        for stage in item.stages:
            for phase, seconds in stage.cells.items():
                yield (*_stage_of(item, stage), phase), seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEnd:
    """What requests to one entry experience now and with the suggestion; seconds, by the server's own clock.

    Attributes:
        entry: the ensemble or model that is called.
        now_mean: measured in the window.
        now_p95: measured in the window; None without traces.
        mean: forecast, with its 90 % interval.
        p95: forecast; None where `now_p95` is, since there would be nothing to set it against.
        stage: the forecast of the suggestion's own stage; None where it has none.
        simulated: False where closed forms were used alone, whose interval does not hold a window's luck.
        assumptions: what the numbers rest on, one sentence each.
        doubt: why they are to be trusted less; empty where nothing speaks against them.
        misses: whether the model's account of the window misses most of what was measured: no interval holds then.
        saving: what the suggestion takes off the measured mean, with the interval of the difference; None where it was
            not simulated, or the model does not account for what was measured.

    """

    entry: str
    now_mean: float
    now_p95: float | None
    mean: Estimate
    p95: Estimate | None
    stage: Prediction | None
    simulated: bool
    assumptions: tuple[str, ...]
    doubt: str = ""
    misses: bool = False
    saving: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpredicted:
    """The suggestion's effect end to end cannot be predicted.

    Attributes:
        because: why.
        overrules: whether it is a forecast that says so, against the check's own prediction for its stage.

    """

    because: str
    overrules: bool = False


Effect = EndToEnd | Unpredicted


# What `Severity` calls critical: users notice at once (ours).
CRITICAL_SHARE = 0.5
CRITICAL_FAILED = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What users lose to it: seconds per request of the entry, its share, and the share of requests failed.

    `mean_seconds` is the entry's mean time now; without the finding it would be `seconds_per_request` less, as long as
    the stages behind keep up with what then reaches them.
    """

    mean_seconds: float
    seconds_per_request: float
    share_of_latency: float
    share_of_requests_failed: float

    @property
    def harm(self) -> float:
        """The larger of the two shares."""
        return max(self.share_of_latency, self.share_of_requests_failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause, ready to be shown. `id` is stable over time for one check and subject.

    `effect` is what its suggestion would do end to end; None where it was not forecast or is not known. `doubt` is why
    a forecast speaks against it, in a sentence; empty where none does. `ended` is the change of settings inside the
    window since which it is gone; None where it lasts.
    """

    id: str
    check: str
    title: str
    layer: Layer
    severity: Severity
    confidence: float
    subject: Subject
    summary: str
    impact: Impact
    evidence: tuple[LedgerLine, ...]
    suggestion: Suggestion | None
    advice: Advice | None
    caused_by: str | None = None
    onset: Onset | None = None
    effect: Effect | None = None
    doubt: str = ""
    ended: ServerChange | None = None


def findings(
    results: Sequence[Result], anatomy: Sequence[Anatomy], ahead: Collection[tuple[str, str]] = ()
) -> tuple[Finding, ...]:
    """Return the findings in order: root causes by harm, then confidence; consequences after their causes.

    Args:
        results: what the checks said.
        anatomy: where time goes.
        ahead: pairs of ids, of rivals for the same seconds, the first of which saves more whatever the checks say.

    """
    firing = by_saving(results)
    for winner, loser in ahead:
        firing = _moved(firing, winner, loser)
    left = Cells(anatomy)
    found = [_finding(result, result.fires, left) for result in firing if result.fires]
    return ordered(_linked(found))


def ordered(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings in order: root causes by harm, then confidence; consequences after their causes."""
    return tuple(sorted(found, key=_order))


def corrected(finding: Finding, saved: float) -> Finding:
    """Return the finding with no more taken of each request than its change saves, in seconds."""
    impact = finding.impact
    if saved >= impact.seconds_per_request:
        return finding
    share = saved / impact.mean_seconds if impact.mean_seconds > 0 else 0.0
    return replace(finding, impact=replace(impact, seconds_per_request=saved, share_of_latency=share))


def by_saving(results: Sequence[Result]) -> list[Result]:
    """Return the results that fired, the one that says to save most first."""
    return sorted(fired(results), key=lambda result: -_saving(result))


def _moved(firing: list[Result], winner: str, loser: str) -> list[Result]:
    """Return the results with one moved before another, if it is behind it."""
    ids = [id_of(result) for result in firing]
    if winner not in ids or loser not in ids or ids.index(winner) < ids.index(loser):
        return firing
    first = firing[ids.index(winner)]
    left = [result for result in firing if result is not first]
    at = ids.index(loser)
    return [*left[:at], first, *left[at:]]


def claimed(result: Result) -> frozenset[Cell]:
    """Return the cells that a result claims seconds of; none of one that did not fire, or without traffic."""
    entry, fires = result.entry, result.fires
    if entry is None or fires is None:
        return frozenset()
    return frozenset(cell_of(result, entry, claim) for claim in fires.claims if claim.seconds > 0)


def unclaimed(results: Sequence[Result], anatomy: Sequence[Anatomy]) -> Mapping[Cell, float]:
    """Return the seconds per request that no finding claimed, per cell."""
    cells = Cells(anatomy)
    for result in fired(results):
        if result.fires:
            cells.claim(result, result.fires)
    return cells.left


def _saving(result: Result) -> float:
    """Return what users would be saved per request of theirs, however often that visits the subject."""
    weight, most = (result.entry.weight, result.entry.most_seconds) if result.entry else (1.0, inf)
    return min(result.fires.saved_seconds * weight, most) if result.fires else 0.0


def _finding(result: Result, fires: Fires, cells: Cells) -> Finding:
    held, entry = cells.claim(result, fires), result.entry
    seconds = max(held, fires.unseen_seconds * entry.weight if entry else 0.0)
    # What no counter holds is no part of their mean.
    mean = entry.mean_seconds + (seconds - held) if entry else 0.0
    impact = Impact(
        mean_seconds=mean,
        seconds_per_request=seconds,
        share_of_latency=min(seconds / mean, 1.0) if mean > 0 else 0.0,
        share_of_requests_failed=fires.failed_share,
    )
    subject = subject_of(result)
    return Finding(
        id=fingerprint(result.check.id, subject),
        check=result.check.id,
        title=result.check.title,
        layer=result.check.check.layer,
        severity=fires.severity or result.check.check.severity or _severity(impact),
        confidence=result.ledger.confidence(),
        subject=subject,
        summary=fires.summary,
        impact=impact,
        evidence=_evidence(result.ledger.lines),
        suggestion=fires.suggestion,
        onset=onset_of(result, fires),
        advice=advice(result.ledger.evidence, result.subject, fires.suggestion) if fires.suggestion else None,
    )


def subject_of(result: Result) -> Subject:
    """Return what a finding made of the result is about: a model as seen from its entry, or a stage of it."""
    entry, on = result.entry, result.subject
    found = on.within(entry.ensemble if entry and on.model else on.ensemble)
    return replace(found, model=result.fires.model) if result.fires and result.fires.model else found


def id_of(result: Result) -> str:
    """Return the id of a finding made of the result."""
    return fingerprint(result.check.id, subject_of(result))


def _evidence(lines: Sequence[LedgerLine]) -> tuple[LedgerLine, ...]:
    """Return what was compared, each comparison once; of alternatives only those that hold."""
    compared = (line for line in lines if line.limit is not None and not (line.alternative and line.met is False))
    return tuple({(line.signal, line.sign, line.limit): line for line in compared}.values())


def fingerprint(check: str, subject: Subject) -> str:
    """Return an id that stays the same while the cause does: no value, time or order goes into it."""
    parts = [check, *(value or "" for value in subject.to_dict().values())]
    return hashlib.sha256("\x1f".join(parts).encode(errors="backslashreplace")).hexdigest()[:16]


def _severity(impact: Impact) -> Severity:
    hurt = impact.share_of_latency >= CRITICAL_SHARE or impact.share_of_requests_failed >= CRITICAL_FAILED
    return Severity.CRITICAL if hurt else Severity.WARNING


def _linked(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings with their causes; a cause is as severe as the worst that it brings about."""
    linked = [replace(item, caused_by=cause_of(item.check, item.subject.model, _beside(item, found))) for item in found]
    worst = {item.caused_by for item in linked if item.severity is Severity.CRITICAL}
    return [replace(item, severity=Severity.CRITICAL) if item.id in worst else item for item in linked]


def _beside(item: Finding, found: Sequence[Finding]) -> dict[tuple[str, str | None], str]:
    """Return the fingerprints of the findings of the same server that may be its cause, by check and model."""
    near = [one for one in found if one.subject.server == item.subject.server]
    dated = (OUTAGE, LOAD) if item.check in AFTER_LOAD else (OUTAGE,)
    beside = {(one.check, one.subject.model): one.id for one in near if one.check not in dated}
    for check in dated:
        cause = next((one.id for one in near if one.check == check and _brings_about(one, item)), None)
        beside |= {} if cause is None else {(check, item.subject.model): cause}
    return beside


def _brings_about(cause: Finding, item: Finding) -> bool:
    """Return whether an outage or a load is on the other's path of requests, and may have brought that about."""
    on, other = cause.subject, item.subject
    entry = other.ensemble is not None and other.ensemble in (on.ensemble, on.model)
    if on.model not in (None, other.model) and not entry:
        return False
    if cause.check == LOAD:
        return follows_load(_began(item), _began(cause))
    return cause.impact.share_of_requests_failed > 0 and follows_outage(item.check, _began(item), _began(cause))


def _began(item: Finding) -> float | None:
    """Return when a finding had begun at the latest; None where nobody knows."""
    onset = item.onset
    return None if onset is None else onset.change.at if onset.change else onset.at


def _order(finding: Finding) -> tuple[bool, bool, bool, bool, bool, float, float, str]:
    """Loud before quiet, what lasts before what is over, causes before consequences, telemetry last; outages first.

    Then harm, confidence, a stable id. A request that is slow is answered; one that is refused is not.
    """
    return (
        not finding.severity.actionable,
        finding.ended is not None,
        finding.layer is Layer.TELEMETRY,
        finding.caused_by is not None,
        finding.check != OUTAGE or finding.impact.share_of_requests_failed < FAILED_PART.value,
        -finding.impact.harm,
        -finding.confidence,
        finding.id,
    )
