"""How many events there were, and how many of them were bad, as surely as the source allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf
from typing import NamedTuple, Protocol

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import REQUEST_SECONDS
from diagnostics.slo.slo import Promise, Triton

_SAME_EVENTS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Events of some span.

    Attributes:
        total: all events.
        bad: how many were bad: the best estimate where there is one, else as many as certainly were.
        low, high: as many as certainly, and as possibly, were bad; equal to `bad` where each was counted.
        source: where it was read; several are joined by ` and `.

    """

    total: float
    bad: float
    low: float
    high: float
    source: str

    @classmethod
    def exact(cls, total: float, bad: float, source: str) -> Tally:
        """Return a count of each event."""
        return cls(total=total, bad=bad, low=bad, high=bad, source=source)

    def __add__(self, other: Tally) -> Tally:
        sources = [self.source]
        if other.source != self.source:  # thousands of minutes with one source are added for each report
            sources = sorted({*self.source.split(" and "), *other.source.split(" and ")} - {""})
        return Tally(
            total=self.total + other.total,
            bad=self.bad + other.bad,
            low=self.low + other.low,
            high=self.high + other.high,
            source=" and ".join(sources),
        )

    @property
    def counted(self) -> bool:
        """Whether each bad event was counted, rather than estimated or bounded."""
        return self.high - self.low < 0.5

    def within(self, certain: Tally | None) -> Tally:
        """Return it cut to bounds of the same events that always hold; itself where those are of other events."""
        if certain is None or abs(certain.total - self.total) > _SAME_EVENTS * self.total + 1:
            return self
        low, high = (min(max(value, certain.low), certain.high) for value in (self.low, self.high))
        return replace(self, low=low, high=high, bad=min(max(self.bad, low), high))


NOTHING = Tally.exact(0.0, 0.0, "")


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the sum; of nothing, a tally of nothing."""
    return reduce(Tally.__add__, tallies, NOTHING)


class BudgetCause(NamedTuple):
    """A root cause: the finding's fingerprint, its check, and the server and model it is of (empty for none)."""

    fingerprint: str
    check: str
    server: str
    model: str

    @classmethod
    def of(cls, finding: Finding) -> BudgetCause:
        """Return the cause that a finding is."""
        subject = finding.subject
        model = subject.model or subject.ensemble or subject.gpu or ""
        return cls(finding.id, finding.check, subject.server, model)


def attributed(sli: Triton, explanation: Explanation, server: str, counted: Tally) -> dict[BudgetCause, float]:
    """Return how many of a server's bad events each root cause took: at most all of them together.

    Args:
        sli: what is promised.
        explanation: the verdict on the time in which they happened.
        server: whose they are.
        counted: its events.

    """
    if counted.bad <= 0:
        return {}
    found = {one.id: one for one in explanation.findings}
    parts: dict[BudgetCause, float] = defaultdict(float)
    for finding in explanation.actionable:
        if finding.subject.server == server:
            part = _part(sli, explanation, finding, counted)
            parts[BudgetCause.of(_root(finding, found, failures=sli.promise is Promise.AVAILABILITY))] += part
    whole = max(sum(parts.values()), 1.0)
    return {cause: part / whole * counted.bad for cause, part in parts.items() if part > 0}


def _root(finding: Finding, found: Mapping[str, Finding], *, failures: bool) -> Finding:
    """Return the finding that this one is, in the end, a consequence of; of failures, the last that claims some."""
    seen, root = {finding.id}, finding
    while finding.caused_by is not None and finding.caused_by in found and finding.caused_by not in seen:
        finding = found[finding.caused_by]
        seen.add(finding.id)
        if not failures or finding.impact.share_of_requests_failed > 0:
            root = finding
    return root


def _part(sli: Triton, explanation: Explanation, finding: Finding, counted: Tally) -> float:
    """Return a finding's part of the bad events, 0 to 1; 0 where it is about other requests."""
    subject, impact = finding.subject, finding.impact
    called = subject.ensemble or subject.model
    if sli.promise is Promise.AVAILABILITY:
        if sli.model not in (subject.ensemble, subject.model) or counted.total <= 0:
            return 0.0
        return min(impact.share_of_requests_failed * counted.total / counted.bad, 1.0)
    if called == sli.model:
        return impact.share_of_latency
    if subject.model != sli.model:
        return 0.0
    # The promise is about a stage: the finding's seconds are set against the stage's own, not its ensemble's.
    mean = explanation.evidence.read(REQUEST_SECONDS, Subject(server=subject.server, model=subject.model)).value
    return min(impact.seconds_per_request / mean, 1.0) if mean else 0.0


MINUTE, HOUR = 60, 3600
# As the history does: single minutes are asked for by windows of a day at most.
MINUTES_KEPT = 86400.0


@dataclass(slots=True)
class EventBin:
    """What happened within one bin: events, and how many bad ones each cause took.

    `began` and `ended` are the Unix seconds between which they were counted; infinite where nothing was.
    """

    tally: Tally = NOTHING
    causes: dict[BudgetCause, float] = field(default_factory=lambda: defaultdict(float))
    began: float = inf
    ended: float = -inf

    def add(self, tally: Tally, causes: Mapping[BudgetCause, float]) -> None:
        """Take more events."""
        self.tally = self.tally + tally
        for cause, bad in causes.items():
            self.causes[cause] = self.causes.get(cause, 0.0) + bad

    def reach(self, began: float, ended: float) -> None:
        """Take note of the Unix seconds between which more events were counted."""
        self.began, self.ended = min(self.began, began), max(self.ended, ended)


Span = tuple[float, float]
"""Unix seconds from which, and up to which."""


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return what any of the spans covers, in order and apart; those that end before they begin are left out."""
    found = list[Span]()
    for began, ended in sorted(span for span in spans if span[1] > span[0]):
        if found and began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], ended))
        else:
            found.append((began, ended))
    return found


def stretches(times: Sequence[float], most_apart: float) -> Iterator[Span]:
    """Yield first and last of ascending times whose neighbours are so many seconds apart at most."""
    if not times:
        return
    first = last = times[0]
    for at in times[1:]:
        if at - last > most_apart:
            yield first, last
            first = at
        last = at
    yield first, last


class EventSource(Protocol):
    """Whoever can say what happened to one objective."""

    def over(self, start: float, end: float) -> EventBin:
        """Return the events of [start, end], Unix seconds; of no known time, a bin of nothing."""
        ...

    def known(self, start: float, end: float) -> Sequence[Span]:
        """Return the parts of [start, end], Unix seconds, in which events are known, in order and apart."""
        ...

    def no_data_reason(self) -> str:
        """Return why no events are known, and what to do; empty where that is not known."""
        ...


class Bins:
    """Events by the time at which they were counted. For use by one thread at a time.

    Attributes:
        why_none: why there are none, and what to do; empty where that was not looked into.

    """

    def __init__(self, why_none: str = "") -> None:
        self.why_none = why_none
        self._bins: dict[tuple[int, int], EventBin] = {}

    def add(
        self,
        at: float,
        tally: Tally,
        causes: Mapping[BudgetCause, float],
        seconds: int = MINUTE,
        began: float | None = None,
        ended: float | None = None,
    ) -> None:
        """Put events that were counted at Unix second `at` into the bin of `seconds` that it lies in.

        `began` and `ended` are when counting them did; by default the edges of their bin.
        """
        key = (seconds, int(at) // seconds * seconds)
        start = float(key[1]) if began is None else began
        one = self._bins.setdefault(key, EventBin())
        one.add(tally, causes)
        one.reach(start, float(seconds + key[1]) if ended is None else ended)

    def over(self, start: float, end: float) -> EventBin:
        """Return the events of the bins that begin in [start, end]; a bin's length is the precision."""
        found = EventBin()
        for (seconds, at), one in self._bins.items():
            if start - seconds < at <= end:
                part = min((at + seconds - start) / seconds, 1.0) if seconds > MINUTE else 1.0
                found.add(_scaled(one.tally, part), {cause: bad * part for cause, bad in one.causes.items()})
        return found

    def known(self, start: float, end: float) -> Sequence[Span]:
        """Return when was counted; within an hour that is old, a pause is not known any more."""
        within = (one for one in self._bins.values() if one.ended > start and one.began < end)
        return joined((max(one.began, start), min(one.ended, end)) for one in within)

    def until(self) -> float | None:
        """Return when counting ended, up to now; None where nothing was counted."""
        return max((one.ended for one in self._bins.values()), default=None)

    def no_data_reason(self) -> str:
        """Return why there are none."""
        return self.why_none

    def minutes(self, start: float, end: float) -> Iterator[tuple[int, EventBin]]:
        """Yield the minutes that begin in [start, end)."""
        for (seconds, at), one in sorted(self._bins.items(), key=lambda pair: pair[0]):
            if seconds == MINUTE and start <= at < end:
                yield at, one

    def forget(self, before: float, minutes_before: float) -> None:
        """Let go of bins that begin before Unix second `before`, and turn old minutes into hours."""
        for key in [key for key in self._bins if key[0] == MINUTE and key[1] < minutes_before // HOUR * HOUR]:
            old = self._bins.pop(key)
            self.add(key[1], old.tally, old.causes, HOUR, old.began, old.ended)
        self._bins = {key: one for key, one in self._bins.items() if key[1] >= before}


def _scaled(tally: Tally, part: float) -> Tally:
    if part >= 1.0:
        return tally
    return Tally(
        total=tally.total * part,
        bad=tally.bad * part,
        low=tally.low * part,
        high=tally.high * part,
        source=tally.source,
    )


class Together:
    """The events of several deployments as one."""

    def __init__(self, parts: Iterable[EventSource]) -> None:
        self._parts = tuple(parts)

    def over(self, start: float, end: float) -> EventBin:
        """Return the sum."""
        found = EventBin()
        for part in self._parts:
            one = part.over(start, end)
            found.add(one.tally, one.causes)
        return found

    def known(self, start: float, end: float) -> Sequence[Span]:
        """Return when events of any of them are known."""
        return joined(span for part in self._parts for span in part.known(start, end))

    def no_data_reason(self) -> str:
        """Return why the first has none that knows it."""
        return next((why for part in self._parts if (why := part.no_data_reason())), "")
