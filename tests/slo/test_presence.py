"""When a store had a series: beginning, end and gaps, whatever the length of the time that is asked about."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

import pytest

from diagnostics.slo.bins import Span
from diagnostics.wire.prometheus_answer import QueryResult, SampledSeries
from exporters.sources.prometheus_slo import spans_of

END, DAY, HOUR = 1.8e9 + 17.0, 86_400.0, 3_600.0
_SUBQUERY = re.compile(r"\[(\d+)s:(\d+)s\]")


class Held:
    """A store of one series that was scraped at some times, with Prometheus' five minutes of looking back."""

    def __init__(self, *spans: Span, every: float = 15.0) -> None:
        self._times = [began + i * every for began, until in spans for i in range(int((until - began) / every) + 1)]
        self.requested = 0

    def _sample(self, at: float) -> float | None:
        found = bisect_right(self._times, at)
        return self._times[found - 1] if found and at - self._times[found - 1] < 300 else None

    def ranged(self, query: str, start: float, end: float, step: float) -> QueryResult:
        assert query == "count(up)"
        self.requested += 1
        grid = [start + i * step for i in range(int((end - start) / step + 1e-9) + 1)]
        times = [at for at in grid if self._sample(at) is not None]
        return QueryResult(series=(SampledSeries(labels={}, times=times, values=[1.0] * len(times)),) if times else ())

    def instant(self, query: str, at: float) -> QueryResult:
        self.requested += 1
        span, step = map(float, _SUBQUERY.findall(query)[0])
        grid = [i * step for i in range(int((at - span) // step) + 1, int(at // step) + 1)]
        found = [began for one in grid if (began := self._sample(one)) is not None]
        now = self._sample(at)
        value = min(found, default=now)
        return QueryResult(series=() if value is None else (SampledSeries(labels={}, times=[at], values=[value]),))


def ago(*spans: Span) -> list[Span]:
    return [(END - began, END - until) for began, until in spans]


@pytest.mark.parametrize(
    ("there", "days"),
    [
        ([(0.5 * HOUR, 0.0)], 30),
        ([(3 * DAY, 0.0)], 30),
        ([(3 * DAY, 0.0)], 366),
        ([(90.0, 0.0)], 30),
        ([(10.0, 0.0)], 366),
        ([(60 * DAY, 0.0)], 30),
        ([(3 * DAY, 25 * 60.0)], 30),
        ([(30 * 60.0, 20 * 60.0), (9 * 60.0, 0.0)], 30),
    ],
)
def test_the_beginning_is_reported_to_seconds_and_the_end_and_recent_gaps_to_the_minute(
    there: Sequence[Span], days: int
) -> None:
    store = Held(*ago(*there))
    found = spans_of(store, "up", END - days * DAY, END)  # type: ignore[arg-type]
    assert len(found) == len(there)
    for (began, until), (first, last) in zip(found, ago(*there), strict=True):
        assert abs(began - max(first, END - days * DAY)) <= (2.0 if began == found[0][0] else 60.0)
        assert last - 60 <= until <= last + 301
    assert store.requested == 4


def test_an_old_gap_is_reported_to_the_step_of_the_time_that_is_requested_about() -> None:
    (_, until), (began, end) = spans_of(Held(*ago((5 * DAY, 4 * DAY), (DAY, 0.0))), "up", END - 30 * DAY, END)  # type: ignore[arg-type]
    step = 30 * DAY / 500
    assert abs(END - until - 4 * DAY) <= step
    assert abs(END - began - DAY) <= step
    assert end == END


def test_what_was_never_there_has_no_time() -> None:
    assert spans_of(Held(), "up", END - DAY, END) == []  # type: ignore[arg-type]
