"""The events of objectives as a Prometheus-compatible store has them.

Where the store scrapes `diag serve`, its counts are taken, with what took the bad events. Else Triton's own families
are asked: failures, the buckets of first responses, and of averages what bounds they allow. Objectives with queries of
their own are asked as they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite

from diagnostics import names
from diagnostics.errors import UsageError
from diagnostics.gen.slo_expressions import BAD, EVENTS, bad_events, total_events
from diagnostics.slo.attribution import Cause
from diagnostics.slo.bins import Bin, Span
from diagnostics.slo.histograms import of_buckets
from diagnostics.slo.samples import Batch, from_averages
from diagnostics.slo.silence import missing
from diagnostics.slo.slo import WINDOW, Promise, Slo, Triton
from diagnostics.slo.tally import Tally
from diagnostics.wire.prometheus_answer import Answer
from exporters.sources.prometheus_api import PrometheusApi

SOURCE = "Prometheus"
# Where the first sample is sought: within the last hour by the minute, and within the period.
_RECENT, _STEPS, _SHORTEST_STEP = 3600.0, 500, 60.0
_ATTRIBUTED = "diag_slo_bad_events_attributed_total"
# A restart of Triton begins its counters anew: `increase` knows, and adds up replicas only afterwards.
_MILLISECOND, _MICROSECOND = 1e-3, 1e-6


@dataclass(slots=True)
class StoredEvents:
    """One objective's events; each question is a handful of queries, whatever the number of servers.

    `at` is the Unix second up to which is asked; `warn` is told what the store says is missing.
    """

    api: PrometheusApi
    slo: Slo
    at: float
    warn: Callable[[str], None]
    _known: dict[tuple[float, float], Bin] = field(default_factory=dict)
    _since: list[float | None] = field(default_factory=list)

    def over(self, start: float, end: float) -> Bin:
        """Return the events of [start, end], Unix seconds; a bin of nothing where the store has none.

        Raises:
            CollectError: the store does not answer.
            UsageError: it cannot read one of the objective's own queries.

        """
        if (start, end) not in self._known:
            self._known[start, end] = self._asked(start, end)
        return self._known[start, end]

    def known(self, start: float, end: float) -> Sequence[Span]:
        """Return the part of [start, end] since the first sample of the period."""
        if not self._since:
            self._since.append(self.since())
        since = self._since[0]
        return [(max(since, start), end)] if since is not None and since < end else []

    def since(self) -> float | None:
        """Return the first sample of the period, to a five-hundredth of it; None where there is none.

        Of queries of one's own, the first five minutes of which the store has a total.
        """
        for series in self._begun():
            found = [self._first(series, span) for span in (_RECENT, self.slo.period)]
            known = [at for at in found if at is not None]
            # A series that began since the last full minute is on no grid of minutes.
            known = known or [at for at in [self._number(f"min(timestamp({series}))", self.at)] if at is not None]
            if known:
                return min(known)
        return None

    def _begun(self) -> tuple[str, ...]:
        """Return what is there as long as events are known, the first that the store has."""
        if not isinstance(self.slo.sli, Triton):
            return (total_events(self.slo, "5m", 300.0),)
        triton = names.REQUEST_SUCCESS + self.api.address.selector(*_matchers(self.slo.sli))
        return f'{EVENTS}{{slo="{self.slo.name}"}}', triton

    def silence(self) -> str:
        """Return whether the series are missing, the model is, or only the traffic; and what to do."""
        sli = self.slo.sli
        if not isinstance(sli, Triton):
            return f"the store has no sample for {sli.total.replace(WINDOW, '5m')}; look at the query and the period"
        family = names.REQUEST_SUCCESS + self.api.address.selector()
        models = self.api.label_values(names.MODEL, family, self.at - self.slo.period, self.at)
        if not models:
            return (
                f"the store has no {family}; let it scrape Triton's metrics page (port 8002), or look at the selector"
            )
        if sli.model not in models:
            return missing(sli.model, models)
        asked = names.REQUEST_SUCCESS + self.api.address.selector(*_matchers(sli))
        return f"no increase of {asked} is known; look again once it was scraped twice while the model is called"

    def _first(self, series: str, span: float) -> float | None:
        step = max(span / _STEPS, _SHORTEST_STEP)
        return self._number(f"min(min_over_time(timestamp({series})[{span:.0f}s:{step:.0f}s]))", self.at)

    def _asked(self, start: float, end: float) -> Bin:
        seconds = max(round(end - start), 1)
        window = f"{seconds}s"
        total = self._number(total_events(self.slo, window, seconds), end)
        found = Bin()
        if total is not None:
            bad = self._number(bad_events(self.slo, window, seconds), end) or 0.0
            low, high = self._bounds(window, end, bad)
            found.add(Tally(total=total, bad=bad, low=low, high=high, source=SOURCE), self._causes(window, end))
        elif isinstance(self.slo.sli, Triton):
            found.add(self._from_triton(self.slo.sli, window, end), {})
        return found

    def _bounds(self, window: str, end: float, bad: float) -> tuple[float, float]:
        if not isinstance(self.slo.sli, Triton):
            return bad, bad
        families = (BAD.replace("_total", "_low_total"), BAD.replace("_total", "_high_total"))
        low, high = (self._number(self._own(family, window), end) for family in families)
        return bad if low is None else low, bad if high is None else high

    def _own(self, family: str, window: str) -> str:
        return f'sum(increase({family}{{slo="{self.slo.name}"}}[{window}]))'

    def _causes(self, window: str, end: float) -> dict[Cause, float]:
        query = f'sum by (check, server, model) (increase({_ATTRIBUTED}{{slo="{self.slo.name}"}}[{window}])) > 0'
        found: dict[Cause, float] = {}
        for one in self._ask(query, end).series:
            labels = one.labels
            check, server, model = (labels.get(name, "") for name in ("check", "server", "model"))
            found[Cause("", check, server, model)] = one.values[-1]
        return found

    def _from_triton(self, sli: Triton, window: str, end: float) -> Tally:
        done = self._triton(names.REQUEST_SUCCESS, sli, window, end) or 0.0
        if sli.promise is Promise.AVAILABILITY:
            failed = self._triton(names.REQUEST_FAILURE, sli, window, end, names.REASON + '!="CANCELED"') or 0.0
            # An ensemble counts a failed request twice, and only its configuration tells that it is one.
            return Tally(total=done + failed, bad=failed / 2, low=failed / 2, high=failed, source=SOURCE)
        seconds = (self._triton(names.REQUEST_DURATION, sli, window, end) or 0.0) * _MICROSECOND
        certain = from_averages([Batch(end, done, seconds)] if done > 0 else [], sli.seconds or 1.0, whole=_whole(sli))
        buckets = self._buckets(sli, window, end)
        if not buckets:
            return certain
        found = of_buckets(buckets, sli.seconds or 1.0)
        if sli.promise is Promise.LATENCY:
            # Of answers in parts only the first is timed: what was late then was late, the rest may have been.
            found = Tally(total=found.total, bad=found.low, low=found.low, high=found.total, source=found.source)
        return found.within(certain)

    def _buckets(self, sli: Triton, window: str, end: float) -> dict[float, float]:
        selector = self.api.address.selector(*_matchers(sli))
        query = f"sum by (le) (increase({names.FIRST_RESPONSE}_bucket{selector}[{window}]))"
        found = [one for one in self._ask(query, end).series if "le" in one.labels]
        return {float(one.labels["le"]) * _MILLISECOND: one.values[-1] for one in found}

    def _triton(self, family: str, sli: Triton, window: str, end: float, *more: str) -> float | None:
        selector = self.api.address.selector(*_matchers(sli), *more)
        return self._number(f"sum(increase({family}{selector}[{window}]))", end)

    def _number(self, query: str, end: float) -> float | None:
        """Return the only sample of an answer; None for none, and for what is no number."""
        series = self._ask(query, end).series
        value = series[0].values[-1] if series else None
        return value if value is not None and isfinite(value) else None

    def _ask(self, query: str, end: float) -> Answer:
        try:
            answer = self.api.instant(query, end)
        except UsageError as error:
            raise error if isinstance(self.slo.sli, Triton) else self._refused(error) from None
        for warning in answer.warnings:
            self.warn(f"{self.slo.name}: {warning}")
        return answer

    def _refused(self, error: UsageError) -> UsageError:
        """Return that the store cannot read the objective's own query, with the line that it is written at."""
        hint = f"mend its queries; asked was {error.where}"
        return UsageError(f"{self.slo.name}: {error.what}", where=self.slo.where, hint=hint)


def _whole(sli: Triton) -> bool:
    return sli.promise is Promise.LATENCY


def _matchers(sli: Triton) -> list[str]:
    labels = {names.MODEL: sli.model, **dict(sli.tags)}
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, value in labels.items()
    }
    return [f'{name}="{value}"' for name, value in escaped.items()]
