"""How a check is run on stated evidence, with a ledger that minds units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from diagnostics.checks.catalogue import RegisteredCheck
from diagnostics.checks.check import Expected, Fires, Outcome, Quiet, Unknown
from diagnostics.diagnosis.run import decide
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.signal import Reading, Scope, Signal, Subject
from tests.stated_evidence import SUBJECT, StatedEvidence

WORDS_OF = {Fires: Expected.FIRES, Quiet: Expected.QUIET, Unknown: Expected.UNKNOWN}


@dataclass(slots=True)
class MindfulLedger(Ledger):
    """A ledger that refuses to compare a reading with a limit of another unit."""

    def at_least(self, signal: Signal, on: Subject, limit: Limit) -> bool:
        """Compare as a ledger does, after a look at the units."""
        assert signal.unit is limit.unit, signal.name
        return Ledger.at_least(self, signal, on, limit)

    def at_most(self, signal: Signal, on: Subject, limit: Limit) -> bool:
        """Compare as a ledger does, after a look at the units."""
        assert signal.unit is limit.unit, signal.name
        return Ledger.at_most(self, signal, on, limit)

    def ruled_out(self, signal: Signal, on: Subject, limit: Limit, *, above: bool) -> bool:
        """Compare as a ledger does, after a look at the units."""
        assert signal.unit is limit.unit, signal.name
        return Ledger.ruled_out(self, signal, on, limit, above=above)

    def compare(self, name: str, reading: Reading, limit: Limit, *, at_least: bool = True) -> bool:
        """Compare as a ledger does, after a look at the units."""
        assert reading.unit is limit.unit, name
        return Ledger.compare(self, name, reading, limit, at_least=at_least)


def subject_of(check: RegisteredCheck) -> Subject:
    """Return the stated model, an ensemble of its name, or its server for a check over servers."""
    match check.check.scope:
        case Scope.MODEL:
            return SUBJECT
        case Scope.ENTRY | Scope.LISTED:
            return Subject(server=SUBJECT.server, model=SUBJECT.model)
        case Scope.ENSEMBLE:
            return Subject(server=SUBJECT.server, ensemble=SUBJECT.model)
        case _:
            return Subject(server=SUBJECT.server)


def decided(check: RegisteredCheck, readings: Mapping[Signal, float]) -> tuple[Outcome, Ledger]:
    """Return what a check says of stated readings, and its ledger."""
    evidence = StatedEvidence(readings)
    ledger = MindfulLedger(evidence, evidence.entry)
    return decide(check, ledger, subject_of(check)), ledger
