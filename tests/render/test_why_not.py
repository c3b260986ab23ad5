from __future__ import annotations

from types import SimpleNamespace

from diagnostics.checks.check import Quiet
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.render.explanation.why_not import account
from diagnostics.signals.signal import Missing, Reading, Subject
from diagnostics.units import Unit


def quiet(*lines: LedgerLine) -> str:
    result = SimpleNamespace(
        check=SimpleNamespace(id="a-check"),
        subject=Subject(server="triton", model="m"),
        outcome=Quiet(because="it is so"),
        ledger=SimpleNamespace(lines=lines),
    )
    return account([result])


def exact(value: float | None, unit: Unit, missing: Missing | None = None) -> Reading:
    return Reading(value=value, low=value, high=value, unit=unit, source="test", missing=missing)


def test_the_margin_of_a_share_is_reported_in_points_and_of_a_time_in_its_unit() -> None:
    share = LedgerLine(signal="headroom", reading=exact(0.03, Unit.RATIO), limit=0.1, sign=">=", met=False)
    time = LedgerLine(signal="wait", reading=exact(0.001, Unit.SECONDS), limit=0.005, sign=">=", met=False)
    assert "decided by headroom: 7 percentage points more would have passed this gate" in quiet(share)
    assert "decided by wait: 4 ms more would have passed this gate" in quiet(time)


def test_a_limit_that_is_met_decides_nothing() -> None:
    early = LedgerLine(signal="batch", reading=exact(1.0, Unit.COUNT), limit=2, sign=">=", met=False)
    met = LedgerLine(signal="headroom", reading=exact(0.83, Unit.RATIO), limit=0.1, sign=">=", met=True)
    assert "decided by" not in quiet(met)
    assert "decided by" not in quiet(early, met)


def test_of_seconds_and_their_share_the_one_that_failed_decides() -> None:
    seconds = LedgerLine(signal="saved", reading=exact(0.001, Unit.SECONDS), limit=0.005, sign=">=", met=False)
    share = LedgerLine(signal="saved_share", reading=exact(0.2, Unit.RATIO), limit=0.15, sign=">=", met=True)
    assert "decided by saved: 4 ms more" in quiet(seconds, share)


def test_why_a_reading_is_missing_is_reported_in_words() -> None:
    line = LedgerLine(signal="waits", reading=exact(None, Unit.SECONDS, Missing.NOT_EXPORTED))
    assert "waits = unknown (not exported)" in quiet(line)
