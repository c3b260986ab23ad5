"""When a store had samples of something: few questions, however long the time is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite

from diagnostics import names
from diagnostics.errors import UsageError
from diagnostics.gen.slo_rules import BAD, EVENTS, bad_events, query_of_bad, total_events
from diagnostics.slo.bins import NOTHING, BudgetCause, EventBin, Span, Tally, joined, stretches
from diagnostics.slo.counting import Batch, from_averages, of_buckets
from diagnostics.slo.report import missing, uncounted, untagged
from diagnostics.slo.slo import WINDOW, Promise, Promql, Slo, Triton
from diagnostics.wire.json_body import measured
from diagnostics.wire.prometheus_answer import QueryResult
from exporters.sources.prometheus_api import PrometheusApi, matcher

# The last hour is looked at by the minute, all of the time in so many steps.
_RECENT, _STEPS, _MINUTE = 3600.0, 500, 60.0
# Stores read times to the millisecond: neighbours on a grid may be as much further apart.
_SLACK = 1.01


def spans_of(api: PrometheusApi, expr: str, start: float, end: float) -> list[Span]:
    """Return when an expression had samples in [start, end], Unix seconds, in order and apart; empty where it had none.

    The beginning is known to seconds or 1/250,000 of the time, an end and gaps to the minute within the last hour (what
    was no target any more lasts for five minutes after its last sample where the store was not notified), else to 1/500
    of the time.

    Raises:
        CollectError: the store does not answer.
        UsageError: it cannot read the expression.

    """
    step, since = max((end - start) / _STEPS, _MINUTE), max(end - _RECENT, start)
    recent = list(stretches(_there(api, expr, since, end, _MINUTE), _MINUTE * _SLACK))
    old = [at for at in _there(api, expr, start, end, step) if at < since]
    older = list(stretches(old, step * _SLACK))
    if older and recent and recent[0][0] - older[-1][1] <= step * _SLACK:
        recent[0] = (older[-1][1], recent[0][1])
    found = [*older, *recent]
    if not found:
        return []
    began, until = found[0]
    return joined([(max(_sooner(api, expr, began, step), start), max(until, began + 1.0)), *found[1:]])


def _there(api: PrometheusApi, expr: str, start: float, end: float, step: float) -> list[float]:
    """Return the steps at which there is a sample."""
    return [at for one in api.ranged(f"count({expr})", start, end, step).series for at in one.times]


def _sooner(api: PrometheusApi, expr: str, found: float, step: float) -> float:
    """Return the first sample within the step before the one at which there was one."""
    began = f"timestamp({expr})"
    fine = max(step / _STEPS, _MINUTE)
    for span, finer in ((step, fine), (2 * fine, 1.0)):
        query = f"min(min_over_time({began}[{span:.0f}s:{finer:.0f}s])) or min({began})"
        known = [one.values[-1] for one in api.instant(query, found).series]
        found = min([found, *(value for value in known if isfinite(value))])
    return found


SOURCE = "Prometheus"
_ATTRIBUTED = "diag_slo_bad_events_attributed_total"
# The label that separates the parts of an answer: a window is one question, however much is asked of it.
_PART, _TOTAL, _BAD, _LOW, _HIGH, _TOOK, _SERIES = "part", "total", "bad", "low", "high", "took", "series"
_NO_SERIES = "whether its query for bad events is right: the store has no series for it, which is taken as none bad"
_NO_CAUSES = "what took the budget; let diag serve count the objective, and the store scrape it"
# `increase` reckons each series up to the edges of its window: sums of the same events differ by as much.
_ROUNDING = 0.01
# A restart of Triton begins its counters again: `increase` knows, and adds up replicas only afterwards.
_MILLISECOND, _MICROSECOND = 1e-3, 1e-6


@dataclass(slots=True)
class StoredEvents:
    """One objective's events; each question is a few queries, whatever the number of servers.

    Attributes:
        api: the store.
        slo: the objective.
        at: the Unix second up to which is asked.
        deployment: of which deployment alone; of Triton's own series, which do not name theirs, whose they are.

    """

    api: PrometheusApi
    slo: Slo
    at: float
    deployment: str | None = None
    _known: dict[tuple[float, float], EventBin] = field(default_factory=dict)
    _spans: list[Span] | None = None
    _why_none: str = ""
    _gaps: dict[str, None] = field(default_factory=dict)
    _bad_seen: bool = False

    @property
    def gaps(self) -> tuple[str, ...]:
        """What the store could not answer, as far as it was asked."""
        requested = isinstance(self.slo.sli, Promql) and self.slo.sli.bad is not None
        counted = any(one.tally.total > 0 for one in self._known.values())
        return (*self._gaps, *([_NO_SERIES] if requested and counted and not self._bad_seen else []))

    def over(self, start: float, end: float) -> EventBin:
        """Return the events of [start, end], Unix seconds; a bin of nothing where the store has none.

        Raises:
            CollectError: the store does not answer.
            UsageError: it cannot read one of the objective's own queries.

        """
        if (start, end) not in self._known:
            self._known[start, end] = self._requested(start, end)
        return self._known[start, end]

    def known(self, start: float, end: float) -> Sequence[Span]:
        """Return when in [start, end] the store had what is counted, of the period before `at`.

        Of queries of one's own, when it had a total of the last five minutes.
        """
        if self._spans is None:
            with self._own_query():
                every = (spans_of(self.api, one, self.at - self.slo.period, self.at) for one in self._begun())
                self._spans = next((spans for spans in every if spans), [])
        return joined((max(began, start), min(until, end)) for began, until in self._spans)

    def _begun(self) -> Sequence[str]:
        """Return what is there as long as events are known, the first that the store has."""
        sli = self.slo.sli
        if not isinstance(sli, Triton):
            return (total_events(self.slo, "5m", 300.0),)
        triton = [] if self._elsewhere(sli) else [names.REQUEST_SUCCESS + self.api.address.selector(*_matchers(sli))]
        return [self._counted(EVENTS), *triton]

    def no_data_reason(self) -> str:
        """Return whether the series are missing, the model is, or only the traffic; and what to do."""
        sli = self.slo.sli
        if not isinstance(sli, Triton):
            none = f"the store has no sample for {sli.total.replace(WINDOW, '5m')}; look at the query and the period"
            return self._why_none or none
        if self._elsewhere(sli):
            hint = f"give --deployment {sli.deployment} if the store, or the selector, is of its servers alone"
            return f"it is about the deployment {sli.deployment}, which Triton's own series do not name; {hint}"
        family = names.REQUEST_SUCCESS + self.api.address.selector()
        models = self._values(names.MODEL, family)
        if not models and self._values("__name__", family):
            return f"no {names.REQUEST_SUCCESS} of the store has a label {names.MODEL}; look at its relabelling"
        if not models:
            hint = "let it scrape Triton's metrics page (port 8002), or look at the selector and the period"
            return f"the store has no {family.removesuffix('{}')}; {hint}"
        if sli.model not in models:
            return missing(sli.model, models)
        if sli.promise is Promise.AVAILABILITY and self._fails_uncounted(sli):
            return uncounted(sli.model)
        return self._untagged(sli) or (
            f"no increase of {names.REQUEST_SUCCESS}{self.api.address.selector(*_matchers(sli))} is known; look again "
            "once it was scraped twice while the model is called"
        )

    def _fails_uncounted(self, sli: Triton) -> bool:
        """Return whether the store has a model's requests and not its failures."""
        mine = self.api.address.selector(*_matchers(sli))
        counted, failed = (self._values(names.MODEL, f + mine) for f in (names.REQUEST_SUCCESS, names.REQUEST_FAILURE))
        return bool(counted) and not failed

    def _untagged(self, sli: Triton) -> str:
        """Return which of the objective's labels no series of the model has; empty where each is there."""
        family = names.REQUEST_SUCCESS + self.api.address.selector(*_matched({names.MODEL: sli.model}))
        for name, value in sli.tags:
            if value not in (there := self._values(name, family)):
                return untagged(sli.model, name, value, there)
        return ""

    def _values(self, label: str, series: str) -> tuple[str, ...]:
        return self.api.label_values(label, series, self.at - self.slo.period, self.at)

    def _elsewhere(self, sli: Triton) -> bool:
        """Return whether Triton's own series may be of other servers than the objective's."""
        return sli.deployment is not None and sli.deployment != self.deployment

    def _requested(self, start: float, end: float) -> EventBin:
        seconds, sli = max(round(end - start), 1), self.slo.sli
        window = f"{seconds}s"
        answer = self._ask(_together(self._queries(window, seconds)), end)
        parts = {one.labels.get(_PART, ""): one.values[-1] for one in answer.series}
        found = EventBin()
        if _TOTAL in parts:
            self._bad_seen = self._bad_seen or _SERIES in parts
            if (tally := self._tally(parts)) is not None:
                found.add(tally, _causes(answer))
        elif isinstance(sli, Triton) and not self._elsewhere(sli):
            tally = self._from_triton(sli, window, end)
            found.add(tally, {})
            if tally.bad > 0:
                self._gaps[_NO_CAUSES] = None
        return found

    def _queries(self, window: str, seconds: float) -> dict[str, str]:
        """Return what is asked of a window."""
        sli = self.slo.sli
        if not isinstance(sli, Triton):
            both = {_TOTAL: total_events(self.slo, window, seconds), _BAD: bad_events(self.slo, window, seconds)}
            alone = query_of_bad(self.slo, window, seconds)
            return both if alone is None else both | {_SERIES: alone}
        low, high = (BAD.replace("_total", f"_{part}_total") for part in (_LOW, _HIGH))
        families = {_TOTAL: EVENTS, _BAD: BAD, _LOW: low, _HIGH: high}
        found = {part: f"sum(increase({self._counted(family)}[{window}]))" for part, family in families.items()}
        if self.deployment in (None, sli.deployment):
            # What took the budget is not counted by deployment.
            took = self.api.address.beside().selector(*_matched({"slo": self.slo.name}))
            found[_TOOK] = f"sum by (check, server, model) (increase({_ATTRIBUTED}{took}[{window}])) > 0"
        return found

    def _counted(self, family: str) -> str:
        """Return a family of what `diag serve` counts, of this objective."""
        of = {} if self.deployment is None else {"deployment": self.deployment}
        return family + self.api.address.beside().selector(*_matched({"slo": self.slo.name} | of))

    def _tally(self, parts: Mapping[str, float]) -> Tally | None:
        """Return the events; None where the numbers are none, or cannot be numbers of the same events."""
        total, bad = parts[_TOTAL], parts.get(_BAD, 0.0)
        if not isfinite(total + bad):
            self._why_none = f"its queries give no numbers ({total:g} events, {bad:g} bad); mend them"
            return None
        if not -_ROUNDING * total - 1 <= bad <= total + _ROUNDING * total + 1:
            self._why_none = f"its queries do not count the same events ({bad:g} bad of {total:g}); mend them"
            return None
        cut = {part: min(max(parts.get(part, bad), 0.0), total) for part in (_BAD, _LOW, _HIGH)}
        return Tally(total=total, bad=cut[_BAD], low=cut[_LOW], high=cut[_HIGH], source=SOURCE)

    def _from_triton(self, sli: Triton, window: str, end: float) -> Tally:
        done = self._triton(names.REQUEST_SUCCESS, sli, window, end) or 0.0
        if sli.promise is Promise.AVAILABILITY:
            failed = self._triton(names.REQUEST_FAILURE, sli, window, end, f'{names.REASON}!="{names.CANCELED}"')
            if failed is None:
                return NOTHING
            # An ensemble counts a failed request twice, and only its configuration shows that it is one.
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
        found: dict[float, float] = {}
        for one in self._ask(query, end).series:
            with suppress(ValueError):
                found[measured(one.labels.get("le", "")) * _MILLISECOND] = one.values[-1]
        return found

    def _triton(self, family: str, sli: Triton, window: str, end: float, *more: str) -> float | None:
        selector = self.api.address.selector(*_matchers(sli), *more)
        return self._number(f"sum(increase({family}{selector}[{window}]))", end)

    def _number(self, query: str, end: float) -> float | None:
        """Return the only sample of an answer; None for none, and for what is no number."""
        series = self._ask(query, end).series
        value = series[0].values[-1] if series else None
        return value if value is not None and isfinite(value) else None

    def _ask(self, query: str, end: float) -> QueryResult:
        with self._own_query():
            answer = self.api.instant(query, end)
        self._gaps.update(dict.fromkeys(f"a part of what is stored: {text}" for text in answer.warnings))
        return answer

    @contextmanager
    def _own_query(self) -> Iterator[None]:
        """Say where the objective is written whose own query the store cannot read."""
        try:
            yield
        except UsageError as error:
            if isinstance(self.slo.sli, Triton):
                raise
            hint = f"mend its queries; asked was {error.where}"
            raise UsageError(f"{self.slo.name}: {error.what}", where=self.slo.where, hint=hint) from None


def _whole(sli: Triton) -> bool:
    return sli.promise is Promise.LATENCY


def _together(queries: Mapping[str, str]) -> str:
    """Return one query for several, each of whose samples says by a label which it is of."""
    return " or ".join(f'label_replace({query}, "{_PART}", "{part}", "", "")' for part, query in queries.items())


def _causes(answer: QueryResult) -> dict[BudgetCause, float]:
    found: dict[BudgetCause, float] = {}
    for one in answer.series:
        if one.labels.get(_PART) == _TOOK and isfinite(one.values[-1]):
            check, server, model = (one.labels.get(name, "") for name in ("check", "server", "model"))
            found[BudgetCause("", check, server, model)] = one.values[-1]
    return found


def _matchers(sli: Triton) -> list[str]:
    return _matched({names.MODEL: sli.model, **dict(sli.tags)})


def _matched(labels: Mapping[str, str]) -> list[str]:
    """Return matchers of labels that have these values."""
    return [matcher(name, value) for name, value in labels.items()]
