"""Why a check did not fire: each reading, its limit and margin, and which of them closed the gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.checks.check import Fires, Quiet, Unknown
from diagnostics.diagnosis.run import Result
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.render.plain import clean
from diagnostics.signals.signal import Missing
from diagnostics.units import Unit

Noted = tuple[Result, Sequence[LedgerLine]]


def noted(results: Sequence[Result]) -> list[Noted]:
    """Return each result with its lines; one at rest notes them again whenever it is asked, so it is asked once."""
    return [(result, result.ledger.lines) for result in results]


def account(results: Sequence[Result]) -> str:
    """Return the account of one check over all its subjects; those with traffic first as they come."""
    return account_of(noted(results))


def account_of(reported: Sequence[Noted]) -> str:
    """Return the account of results whose lines are at hand; the rest is as in `account`."""
    return "\n".join(line for result, lines in reported for line in _one(result, lines)) + "\n"


def _one(result: Result, lines: Sequence[LedgerLine]) -> Iterator[str]:
    yield clean(f"{result.check.id} on {result.subject}{_version(result)}: {_verdict(result)}")
    yield from dict.fromkeys(clean(_shown(line)) for line in _informative(lines))
    decided = _deciding(lines) if isinstance(result.outcome, Quiet) else None
    if decided is not None:
        yield clean(f"  decided by {decided.signal}: {_margin(decided)}")
    yield ""


def _informative(lines: Sequence[LedgerLine]) -> list[LedgerLine]:
    """Return the lines without those that only read what another line compares."""
    compared = {line.signal for line in lines if line.limit is not None}
    return [line for line in lines if line.limit is not None or line.signal not in compared]


def _version(result: Result) -> str:
    return f" version {result.subject.version}" if result.subject.version else ""


def _verdict(result: Result) -> str:
    match result.outcome:
        case Fires(summary=summary):
            return f"fires: {summary}"
        case Quiet(because=because):
            return f"quiet, because {because}"
        case Unknown(reason=reason, signal=signal):
            return f"unknown, because {signal} is missing ({_reason(reason)})"


def _reason(missing: Missing) -> str:
    return missing.value.replace("_", " ")


def _shown(line: LedgerLine) -> str:
    unit = line.reading.unit
    value = (
        unit.show(line.reading.value) if line.reading.missing is None else f"unknown ({_reason(line.reading.missing)})"
    )
    text = f"  {line.signal} = {value}"
    if line.reading.low is not None and line.reading.low != line.reading.high:
        text += f" ({unit.show(line.reading.low)} to {unit.show(line.reading.high)})"
    if line.limit is None:
        return text
    word = {True: "met", False: "not met", None: "not known"}[line.met]
    return f"{text}, limit {line.sign} {unit.show(line.limit)}: {word}"


def _deciding(lines: Sequence[LedgerLine]) -> LedgerLine | None:
    """Return the comparison that failed last; None where a forecast or a setting decided, and none failed last.

    A saving is judged by two comparisons, of its seconds and of their share: it is the one of them that failed.
    """
    compared = [line for line in lines if line.limit is not None and line.reading.value is not None][-2:]
    if len(compared) == 2 and compared[1].signal != f"{compared[0].signal}_share":
        compared = compared[1:]
    return next((line for line in reversed(compared) if line.met is False), None)


def _margin(line: LedgerLine) -> str:
    value, limit, unit = line.reading.value or 0.0, line.limit or 0.0, line.reading.unit
    if value == limit:
        return f"it is {line.sign} {unit.show(limit)} that it needed"
    margin = (
        f"{abs(limit - value) * 100:.2g} percentage points" if unit is Unit.RATIO else unit.show(abs(limit - value))
    )
    change = f"{margin} {'more' if limit > value else 'less'}"
    straddles = "; its interval holds the limit, so it could have gone the other way" if line.straddles else ""
    return f"{change} would have passed this gate{straddles}"
