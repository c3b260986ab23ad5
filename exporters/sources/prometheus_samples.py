"""Reads the samples of a span, all at once if the store allows, else in parts; what cannot be read is said."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from diagnostics.errors import CollectError
from diagnostics.units import utc
from diagnostics.wire.prometheus_answer import MOST_SAMPLES, QueryResult, joined
from exporters.sources.prometheus_api import SILENT_SECONDS, Late, PrometheusApi, TooMuch, matcher

# Below this a span is split by servers instead of by time.
SHORTEST_SPAN = 60.0
# Of one server it is split by time even so.
SHORTEST_SPAN_OF_ONE = 5.0
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuery:
    """Some servers (None is all) and some span, in Unix seconds."""

    start: float
    end: float
    servers: tuple[str, ...] | None = None


@dataclass(slots=True)
class SampleReader:
    """Reads samples of one store.

    Attributes:
        label: the label by which a span that cannot be halved further is split.
        warnings: what the store said is missing, and which parts it did not give.

    """

    api: PrometheusApi
    label: str = "instance"
    warnings: list[str] = field(default_factory=list)

    def beside(self, label: str) -> SampleReader:
        """Return a reader of what else is stored of the same place, which adds to the same warnings."""
        return SampleReader(api=self.api.beside(), label=label, warnings=self.warnings)

    def read(self, matchers: Sequence[str], start: float, end: float) -> QueryResult:
        """Return the samples of the series that match; parts that the store did not give are among the warnings.

        Raises:
            CollectError: nothing could be read.

        """
        parts, answers = [SampleQuery(start=start, end=end)], list[QueryResult]()
        refused: CollectError | None = None
        began, reported = time.monotonic(), False
        while parts:
            part = parts.pop(0)
            try:
                answers.append(self._ask(matchers, part))
                if parts and sum(len(one.times) for answer in answers for one in answer.series) > MOST_SAMPLES:
                    self.warnings += [f"{_named(left)}: {MOST_SAMPLES:,} samples were read before" for left in parts]
                    break
            except TooMuch as refusal:
                smaller = self._split(matchers, part) if self.api.left > 0 else []
                refused = refusal
                reported = reported or self._reported(refusal, began)
                parts[:0] = smaller
                if not smaller:
                    self.warnings.append(f"{_named(part)}: {refusal.what}")
            except Late as late:
                refused = refused or late
                self.warnings += [f"{_named(missed)}: {late.what}" for missed in (part, *parts)]
                break
        if not answers:
            raise refused or CollectError("nothing was asked", where=str(self.api.address))
        answer = joined(answers)
        self.warnings += [text for text in answer.warnings if text not in self.warnings]
        return answer

    def _reported(self, refusal: CollectError, began: float) -> bool:
        """Say why it takes long, where it does; return whether that was said."""
        slow = time.monotonic() - began >= SILENT_SECONDS
        if slow:
            self.api.announce(f"{refusal.what}: it is asked for in ever smaller parts")
        return slow

    def _ask(self, matchers: Sequence[str], part: SampleQuery) -> QueryResult:
        chosen = [] if part.servers is None else [among(self.label, part.servers)]
        answer = self.api.samples(self.api.address.selector(*matchers, *chosen), part.start, part.end)
        # Only something that is no store leaves out the name of what was scraped.
        return replace(answer, series=tuple(one for one in answer.series if "__name__" in one.labels))

    def _split(self, matchers: Sequence[str], part: SampleQuery) -> list[SampleQuery]:
        """Return smaller parts in time order; none when it cannot be split."""
        span = part.end - part.start
        if span >= 2 * SHORTEST_SPAN:
            return _halves(part)
        servers = self._servers(matchers, part) if part.servers is None else part.servers
        if len(servers) < 2:
            return _halves(part) if span >= 2 * SHORTEST_SPAN_OF_ONE else []
        half = len(servers) // 2
        return [SampleQuery(start=part.start, end=part.end, servers=some) for some in (servers[:half], servers[half:])]

    def _servers(self, matchers: Sequence[str], part: SampleQuery) -> tuple[str, ...]:
        """Return the servers that a part is of; none where the store does not say."""
        selector = self.api.address.selector(*matchers)
        try:
            return self.api.label_values(self.label, selector, part.start, part.end)
        except (TooMuch, Late):
            return ()


def _halves(part: SampleQuery) -> list[SampleQuery]:
    middle = (part.start + part.end) / 2
    return [
        SampleQuery(start=part.start, end=middle, servers=part.servers),
        SampleQuery(start=middle, end=part.end, servers=part.servers),
    ]


def among(label: str, values: Sequence[str]) -> str:
    """Return a matcher of a label that has one of these values."""
    pattern = "|".join(re.escape(value) for value in values)
    return matcher(label, pattern, sign="=~")


def _named(part: SampleQuery) -> str:
    span = f"{part.end - part.start:g} s up to {utc(part.end):%H:%M:%SZ}"
    if part.servers is None:
        return span
    more = f" and {len(part.servers) - _SHOWN} more" if len(part.servers) > _SHOWN else ""
    return f"{span} of {', '.join(part.servers[:_SHOWN])}{more}"
