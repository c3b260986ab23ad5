"""A few signals of each model, minute by minute: what a timeline shows long after the bodies are gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.flow import FAILED_REQUESTS
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.triton import BATCH_SIZE, QUEUE_SECONDS, REQUEST_RATE, REQUEST_SECONDS

KEPT: Mapping[str, Signal] = {
    signal.name: signal
    for signal in (REQUEST_RATE, QUEUE_SECONDS, REQUEST_SECONDS, INSTANCE_BUSY_SHARE, BATCH_SIZE, FAILED_REQUESTS)
}
MINUTE = 60
# Readings are taken over spans of at least this many seconds: each costs processor time, and short ones tell little.
_SPAN = 28.0
# Pages and statistics of one round are read within less of each other.
_ROUND = 1.0
SeriesKey = tuple[str, str, str, str]
"""Server, model, version, signal."""


@dataclass(slots=True)
class Minute:
    """The readings of one signal within one minute."""

    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    count: int = 0

    def add(self, value: float) -> None:
        """Take one reading."""
        self.total += value
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.count += 1


@dataclass(slots=True)
class Downsampler:
    """The minute that a deployment is in. Models without requests leave none behind."""

    minute: int | None = None
    readings: dict[SeriesKey, Minute] = field(default_factory=dict)
    _read_to: dict[str, float] = field(default_factory=dict)

    def take(self, evidence: Evidence, at: float) -> tuple[int, Mapping[SeriesKey, Minute]] | None:
        """Read what came since the last time; return the minute that is over with its readings, None while none is.

        Args:
            evidence: of the window that ends now.
            at: Unix seconds of now.

        """
        over = self.over(int(at) // MINUTE * MINUTE)
        for server in evidence.subjects(Scope.SERVER):
            span = self._span(server.server, evidence.moments(server.server))
            if span is not None:
                for key, value in _readings(evidence, server.server, span):
                    self.readings.setdefault(key, Minute()).add(value)
        return over

    def over(self, minute: int | None = None) -> tuple[int, Mapping[SeriesKey, Minute]] | None:
        """Go on to another minute; return the one before with its readings, None where there were none."""
        if minute is not None and minute == self.minute:
            return None
        before, readings = self.minute, self.readings
        self.minute, self.readings = minute, {}
        return (before, readings) if before is not None and readings else None

    def _span(self, server: str, moments: Sequence[float]) -> tuple[float, float] | None:
        """Return from when to when a server is to be read now: since the last time, but no longer than a minute."""
        if len(moments) < 2:
            return None
        newest, before = moments[-1], self._read_to.get(server)
        if before is None or not moments[0] <= before <= newest:
            before = moments[-2]
            self._read_to[server] = before
        if newest - before < _SPAN:
            return None
        self._read_to[server] = newest
        return max(before, newest - MINUTE) - _ROUND, newest + _ROUND


def _readings(evidence: Evidence, server: str, span: tuple[float, float]) -> Iterator[tuple[SeriesKey, float]]:
    for scope in (Scope.MODEL, Scope.ENSEMBLE):
        for subject in evidence.subjects(scope):
            if subject.server == server:
                yield from _of(evidence, subject, span)


def _of(evidence: Evidence, subject: Subject, span: tuple[float, float]) -> Iterator[tuple[SeriesKey, float]]:
    if not evidence.read(REQUEST_RATE, subject, span).value and not evidence.read(FAILED_REQUESTS, subject, span).value:
        return
    model = subject.model or subject.ensemble or ""
    for name, signal in KEPT.items():
        value = evidence.read(signal, subject, span).value
        if value is not None:
            yield (subject.server, model, subject.version or "", name), value
