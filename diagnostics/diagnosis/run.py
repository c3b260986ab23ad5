"""Runs every check over every subject of its scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf

import msgspec

from diagnostics.anatomy.anatomy import Anatomy, Phase, calls_others, entry_of, likely_ensembles
from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.checks.check import Fires, Layer, Outcome, Quiet, Unknown
from diagnostics.diagnosis.held_up import held_up
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import WORTHWHILE_PART, WORTHWHILE_TIME, EntryPoint, Ledger, Limit, Undecided
from diagnostics.signals.signal import Missing, Reading, Subject
from diagnostics.units import Unit

# What befalls a card or a host befalls every branch of an ensemble that is on it.
_SHARED = frozenset({Layer.GPU, Layer.HOST})


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one check said of one subject.

    Attributes:
        check: which one.
        subject: of what.
        outcome: what it said.
        noted: what it noted; at rest an empty ledger over the same evidence.
        entry: the requests that the subject's time is part of; None where there are none.
        at_rest: whether its notes were let go of.

    """

    check: RegisteredCheck
    subject: Subject
    outcome: Outcome
    noted: Ledger
    entry: EntryPoint | None
    at_rest: bool = False

    @property
    def ledger(self) -> Ledger:
        """What shows why; at rest noted again, as the same evidence says the same again."""
        if not self.at_rest:
            return self.noted
        again = Ledger(self.noted.evidence, self.noted.entry_of)
        decide(self.check, again, self.subject)
        return again

    @property
    def fires(self) -> Fires | None:
        """The outcome when the check fired."""
        return self.outcome if isinstance(self.outcome, Fires) else None


def run(evidence: Evidence, anatomy: Sequence[Anatomy]) -> tuple[Result, ...]:
    """Return a result per check and subject, in the order of the catalogue."""
    of_model: dict[tuple[str, str], list[Anatomy]] = {}
    for item in anatomy:
        for model in dict.fromkeys(stage.model for stage in item.stages):
            of_model.setdefault((item.server, model), []).append(item)

    perhaps = likely_ensembles(anatomy, evidence)
    callers = {(item.server, item.stages[0].model) for item in perhaps if calls_others(item, anatomy)}

    def among(subject: Subject) -> Sequence[Anatomy]:
        return anatomy if subject.model is None else of_model.get((subject.server, subject.model), ())

    @cache  # of a subject, whichever check asks
    def entry(subject: Subject) -> EntryPoint | None:
        return entry_of(among(subject), evidence, subject, perhaps)

    return tuple(
        _one(registered, evidence, entry, subject, is_caller=(subject.server, subject.model) in callers)
        for registered in catalogue().values()
        for subject in evidence.subjects(registered.check.scope)
    )


def _one(
    registered: RegisteredCheck,
    evidence: Evidence,
    entry: Callable[[Subject], EntryPoint | None],
    subject: Subject,
    *,
    is_caller: bool,
) -> Result:
    if registered.check.layer in _SHARED:
        entry = partial(_whole, entry)
    ledger = Ledger(evidence, entry)
    outcome = decide(registered, ledger, subject)
    if is_caller and isinstance(outcome, Fires) and outcome.claims:
        # The row of an ensemble holds its members' time: without its configuration it cannot be separated from theirs.
        outcome = Unknown(reason=Missing.NOT_EXPORTED, signal="configuration")
    return Result(check=registered, subject=subject, outcome=outcome, noted=ledger, entry=entry(subject))


def _whole(entry: Callable[[Subject], EntryPoint | None], subject: Subject) -> EntryPoint | None:
    """Return the entry of a subject whose trouble is that of the branches beside it: it costs all that it takes."""
    found = entry(subject)
    return replace(found, most_seconds=inf) if found else None


def fired(results: Sequence[Result]) -> list[Result]:
    """Return the results of checks that fired, in their order: few of hundreds."""
    return [result for result in results if isinstance(result.outcome, Fires)]


def without_ledgers(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return the results without the notes of checks that did not fire: most of their weight, and rarely looked at."""
    if not results:
        return ()
    empty = Ledger(results[0].noted.evidence, results[0].noted.entry_of)
    return tuple(
        result if result.fires else msgspec.structs.replace(result, noted=empty, at_rest=True) for result in results
    )


def decide(registered: RegisteredCheck, ledger: Ledger, subject: Subject) -> Outcome:
    """Return what the check says; a reading it needed and could not get means unknown."""
    try:
        outcome: Fires | Quiet = registered.diagnose(ledger, subject)
    except Undecided as undecided:
        return Unknown(reason=undecided.reason, signal=undecided.signal)
    if isinstance(outcome, Fires) and (doubt := held_up(registered.id, ledger, subject, outcome)) is not None:
        return Unknown(reason=doubt.reason, signal=doubt.signal)
    if isinstance(outcome, Fires) and _waits_off_the_path(ledger, subject, outcome):
        return Quiet(because="other branches of the ensemble take as long: requests would be no quicker without queues")
    return outcome


def _waits_off_the_path(ledger: Ledger, subject: Subject, fires: Fires) -> bool:
    """Return whether only queues are claimed, and no request would be quicker, to speak of, if nobody waited at all."""
    entry = ledger.entry_of(subject)
    queues = all(claim.phase is Phase.QUEUE for claim in fires.claims) and bool(fires.claims)
    if entry is None or not queues or fires.failed_share > 0 or fires.unseen_seconds > 0:
        return False
    needed = max(WORTHWHILE_TIME.value, WORTHWHILE_PART.value * entry.mean_seconds)
    if entry.most_queued_seconds >= needed:
        return False
    most = Reading.of(entry.most_queued_seconds, Unit.SECONDS, "ensemble's graph", estimated=True)
    limit = Limit(value=needed, unit=Unit.SECONDS, because=WORTHWHILE_PART.because)
    return not ledger.compare("saving_without_queues", most, limit)
