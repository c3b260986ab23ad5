"""How many failures are worth a word, and which share of the callers' requests they are."""

from __future__ import annotations

from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.forecast.target import MOST_REFUSED
from diagnostics.signals.flow import FAILED_REQUESTS
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.subject import Subject
from diagnostics.signals.triton import REQUESTS
from diagnostics.units import Unit

ENOUGH_FAILURES = Limit(
    value=5,
    unit=Unit.COUNT,
    because="a few failed requests may be one client's mistake, and reads that fall apart look like a few",
)
FAILED_PART = Limit(
    value=MOST_REFUSED,
    unit=Unit.RATIO,
    because="1 % failed spends a 99.9 % objective's budget ten times too fast (SRE workbook, burn rates)",
)


def caller_of(see: Ledger, on: Subject) -> Subject:
    """Return whose requests fail: the ensemble that calls the model, or the model itself when called directly."""
    entry = see.entry_of(on)
    return on if entry is None or entry.ensemble is None else Subject(server=on.server, ensemble=entry.ensemble)


def failed_share(see: Ledger, on: Subject, failed: Reading) -> Reading:
    """Return failed ÷ all requests of the caller; absent when the caller completed and failed nothing."""
    caller = caller_of(see, on)
    completed = see.evidence.read(REQUESTS, caller)
    if failed.value is None or completed.value is None:
        return Reading.unknown(failed.missing or completed.missing or Missing.NOT_EXPORTED, Unit.RATIO)
    reported = see.evidence.read(FAILED_REQUESTS, caller).value or 0.0
    everything = completed.value + max(failed.value, reported)
    return Reading.of(failed.value / everything, Unit.RATIO, failed.source, estimated=failed.estimated)
