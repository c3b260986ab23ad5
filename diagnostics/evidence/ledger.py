"""The ledger: evidence that remembers what was read, against which limit, and what that decided.

Evidence lines, unknown reasons, confidence and `--why-not` all come from it; no check builds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import Self

import msgspec

from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.signal import Missing, Reading, Signal, Subject
from diagnostics.units import Limit as Limit
from diagnostics.units import Unit

# A change is worth making if it takes this share and this time off a request's mean (design, "Degraded").
WORTHWHILE_SHARE = 0.15
WORTHWHILE_SECONDS = 0.005


def least_worthwhile(mean_seconds: float) -> float:
    """Return the seconds that a change has to take at least off requests of this mean time to be worth making."""
    return max(WORTHWHILE_SECONDS, WORTHWHILE_SHARE * mean_seconds)


BASE_CONFIDENCE = 0.95
# What one weak link costs. Ordered by how often each turned a right cause into a wrong one while recorded incidents
# were replayed without a source: an estimate least, a missing ruling-out signal most.
ESTIMATED_FACTOR = 0.9
STRADDLING_FACTOR = 0.9
MISSING_FACTOR = 0.75


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One look at one reading.

    `met` says whether it speaks for the check's finding; None when there was nothing to compare. `optional` lines only
    rule out. An `alternative` is one of several conditions of which one is enough: it says nothing where it is not met.
    """

    signal: str
    reading: Reading
    limit: float | None = None
    sign: str = ""
    met: bool | None = None
    optional: bool = False
    alternative: bool = False

    @property
    def straddles(self) -> bool:
        """Whether the interval of the reading holds the limit: the comparison could have gone the other way."""
        low, high = self.reading.low, self.reading.high
        return self.limit is not None and low is not None and high is not None and low < self.limit < high


_OPPOSITE = {">=": "<", "<": ">=", "<=": ">", ">": "<="}


class Undecided(Exception):
    """A check needs a reading that is absent."""

    def __init__(self, signal: str, reason: Missing) -> None:
        self.signal, self.reason = signal, reason
        super().__init__(f"{signal}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """The requests whose latency a subject's time is part of.

    Attributes:
        ensemble: the ensemble they call; None when they call the subject's model itself.
        mean_seconds: their mean end-to-end time.
        weight: requests of the subject per request of the entry: below 1 for one of several versions, above where a
            request visits it several times.
        requests: how many there were.
        engine_seconds: what they spend in the subject's engine; 0 when it is none, or its time cannot be seen.
        behind_seconds: what they spend in the stages that the subject's outputs lead to; 0 without an ensemble.
        perhaps_seconds: the mean time of an ensemble that may call the subject's model, and whose configuration was not
            read; 0 without one.
        most_seconds: the most that shortening the subject's stage can save of a request: less than the stage takes
            where a branch beside it takes as long.
        most_queued_seconds: the most that could be saved of a request if nobody waited for any stage: less than all
            queues where branches run beside each other.
        caller: the model that calls the subject's from inside its executions; empty where none does.

    """

    ensemble: str | None
    mean_seconds: float
    weight: float
    requests: float
    engine_seconds: float = 0.0
    behind_seconds: float = 0.0
    perhaps_seconds: float = 0.0
    most_seconds: float = inf
    most_queued_seconds: float = inf
    caller: str = ""


_NONE_ABSENT: Mapping[str, tuple[Signal, Missing]] = MappingProxyType({})  # most ledgers share it


@dataclass(slots=True)
class Ledger:
    """What one check saw of one subject.

    A comparison that holds speaks for the check's finding. `as_rival` and `as_alternative` give the same ledger for
    comparisons that do not: `whole` is then the one that they were asked of.
    """

    evidence: Evidence
    entry_of: Callable[[Subject], EntryPoint | None]
    lines: list[LedgerLine] = field(default_factory=list)
    absent: Mapping[str, tuple[Signal, Missing]] = field(default_factory=lambda: _NONE_ABSENT)
    rival: bool = False
    alternative: bool = False
    whole: Ledger | None = None

    def as_rival(self) -> Self:
        """Return this ledger for comparisons that speak against the finding where they hold, and for it where not."""
        return replace(self, rival=not self.rival, whole=self.whole or self)

    def as_alternative(self) -> Self:
        """Return this ledger for comparisons of which one is enough: one that speaks against says nothing."""
        return replace(self, alternative=True, whole=self.whole or self)

    def read(self, signal: Signal, subject: Subject) -> Reading:
        """Return a reading and note that it was looked at."""
        reading = self._look(signal, subject)
        self.lines.append(LedgerLine(signal=signal.name, reading=reading))
        return reading

    def need(self, signal: Signal, subject: Subject) -> float:
        """Return the value of a reading; end the check as unknown when it is absent."""
        reading, value = self._needed(signal, subject)
        self.lines.append(LedgerLine(signal=signal.name, reading=reading))
        return value

    def at_least(self, signal: Signal, subject: Subject, limit: Limit) -> bool:
        """Return whether a needed reading reaches the limit."""
        reading, _ = self._needed(signal, subject)
        return self.compare(signal.name, reading, limit)

    def at_most(self, signal: Signal, subject: Subject, limit: Limit) -> bool:
        """Return whether a needed reading stays at or under the limit."""
        reading, value = self._needed(signal, subject)
        return self._note(signal.name, reading, limit, "<=", value <= limit.value)

    def is_set(self, signal: Signal, subject: Subject) -> bool:
        """Return whether a needed setting is on: above zero."""
        reading, value = self._needed(signal, subject)
        zero = Limit(value=0.0, unit=signal.unit, because="zero is off")
        return self._note(signal.name, reading, zero, ">", value > 0)

    def conflicting(self, signal: Signal) -> Undecided:
        """Return the end of a check of which a reading says as much against as for; the signal's fix decides it."""
        whole = self.whole or self
        whole.absent = {**whole.absent, signal.name: (signal, Missing.CONFLICTING)}
        return Undecided(signal.name, Missing.CONFLICTING)

    def ruled_out(self, signal: Signal, subject: Subject, limit: Limit, *, above: bool) -> bool:
        """Return whether a rival explanation holds; an absent reading does not rule out and costs confidence.

        Args:
            signal: what would show the rival.
            subject: for which subject.
            limit: from which value on the rival holds.
            above: whether the rival holds at or above the limit, else at or below it.

        """
        reading = self._look(signal, subject)
        holds = None
        if reading.value is not None:
            holds = reading.value >= limit.value if above else reading.value <= limit.value
        sign = ">=" if above else "<="
        return self.as_rival()._note(signal.name, reading, limit, sign, holds, optional=True)

    def compare(self, name: str, reading: Reading, limit: Limit, *, at_least: bool = True) -> bool:
        """Note a derived value (a prediction, a ratio of readings) against a limit; an absent one ends as unknown."""
        if reading.value is None:
            raise Undecided(name, reading.missing or Missing.NOT_EXPORTED)
        holds = reading.value >= limit.value if at_least else reading.value <= limit.value
        return self._note(name, reading, limit, ">=" if at_least else "<=", holds)

    def worthwhile(self, name: str, subject: Subject, saved: Reading, since: Reading | None = None) -> bool:
        """Return whether `saved` seconds per request of the subject are worth a change to those who wait.

        Both the share of the entry's mean and the absolute time must be reached; both are noted. What a stage takes off
        the critical path saves nothing (`Entry.most_seconds`). Where another entry
        may be the one that waits, and the share of its mean is not reached, that ends as unknown.

        Args:
            name: what the seconds are called in the evidence.
            subject: the subject.
            saved: seconds per request of the subject, over the whole window.
            since: how many times as much of it a request has met since it began; None for what was there all along.
                How long ago a window begins does not decide what a change for the worse costs now.

        """
        entry = self.entry_of(subject)
        if entry is None or entry.mean_seconds <= 0:
            raise Undecided("request_seconds", Missing.IDLE)
        weighted = (saved * Reading.of(entry.weight, Unit.RATIO, saved.source)).at_most(entry.most_seconds)
        mean = Reading.of(entry.mean_seconds, Unit.SECONDS, saved.source)
        now = weighted if since is None else weighted * since
        # Not `now - weighted`: its interval would be that of two independent quantities.
        more = None if since is None else weighted * (since - Reading.of(1.0, since.unit, since.source))
        whole = mean if more is None else mean + more
        if (now.value or 0.0) > (whole.value or 0.0):
            whole = whole + now  # a part is not more than the whole: this mean does not hold it
        share = now / whole
        enough = self.compare(name, now, WORTHWHILE_TIME)
        worth = self.compare(f"{name}_share", share, WORTHWHILE_PART) and enough
        if worth and (share.value or 0.0) * entry.mean_seconds < WORTHWHILE_SHARE * entry.perhaps_seconds:
            raise Undecided("request_seconds", Missing.NOT_EXPORTED)
        return worth

    def confidence(self) -> float:
        """Return how far the lines can be trusted, 0 to 1: it falls with each weak or missing one."""
        value = BASE_CONFIDENCE
        for line in self.lines:
            if line.reading.missing is not None:
                value *= MISSING_FACTOR if line.optional else 1.0
            elif line.limit is not None:
                value *= ESTIMATED_FACTOR if line.reading.estimated else 1.0
                value *= STRADDLING_FACTOR if line.straddles else 1.0
        return round(value, 3)

    def _look(self, signal: Signal, subject: Subject) -> Reading:
        reading = self.evidence.read(signal, subject)
        if reading.missing is not None:
            whole = self.whole or self
            whole.absent = {**whole.absent, signal.name: (signal, reading.missing)}
        return reading

    def _needed(self, signal: Signal, subject: Subject) -> tuple[Reading, float]:
        """Return a reading and its value; noted as it is, and the end of the check as unknown, when it is absent."""
        reading = self._look(signal, subject)
        if reading.value is None:
            self.lines.append(LedgerLine(signal=signal.name, reading=reading))
            raise Undecided(signal.name, reading.missing or Missing.NOT_EXPORTED)
        return reading, reading.value

    def _note(
        self, name: str, reading: Reading, limit: Limit, sign: str, holds: bool | None, *, optional: bool = False
    ) -> bool:
        """Note a comparison as it speaks for the finding, and return whether it holds; what is not known does not."""
        self.lines.append(
            LedgerLine(
                signal=name,
                reading=reading,
                limit=limit.value,
                sign=_OPPOSITE[sign] if self.rival else sign,
                met=None if holds is None else holds is not self.rival,
                optional=optional,
                alternative=self.alternative,
            )
        )
        return bool(holds)


WORTHWHILE_TIME = Limit(
    value=WORTHWHILE_SECONDS,
    unit=Unit.SECONDS,
    because="less than 5 ms is within what one host's jitter moves",
)
WORTHWHILE_PART = Limit(
    value=WORTHWHILE_SHARE,
    unit=Unit.RATIO,
    because="under 15 % of a request's time users notice no difference, and predictions are no more accurate",
)
