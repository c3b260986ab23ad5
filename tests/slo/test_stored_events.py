"""What a store says of an objective's events: the service's counts, Triton's own families, queries of one's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from diagnostics.errors import UsageError
from diagnostics.render.slo.document import slo_document
from diagnostics.render.slo.json import slo_report
from diagnostics.render.text import as_text
from diagnostics.slo.burn import DAY
from diagnostics.slo.report import report_on
from diagnostics.slo.slo import Promise, Promql, Slo, Triton
from diagnostics.wire.prometheus_answer import QueryResult, SampledSeries
from exporters.sources.prometheus_api import parse_prometheus
from exporters.sources.prometheus_slo import StoredEvents

_PART = re.compile(r'label_replace\((.*?), "part", "(\w+)", "", ""\)')


class Store:
    """A store that answers each query by what its text holds."""

    address = parse_prometheus('prometheus+http://store?selector={job="triton"}')

    def __init__(self, answers: Mapping[str, list[tuple[dict[str, str], float]]], models: tuple[str, ...] = ()) -> None:
        self._answers, self._models, self.requested = answers, models, list[str]()
        self.warnings: tuple[str, ...] = ()
        self.there: dict[str, list[float]] = {}

    def label_values(self, label: str, selector: str, start: float, end: float) -> tuple[str, ...]:
        return self._models if label == "model" else ()

    def ranged(self, query: str, start: float, end: float, step: float) -> QueryResult:
        times = [one for one in self.there.get(query, []) if start <= one <= end]
        return QueryResult(series=(SampledSeries(labels={}, times=times, values=times),) if times else ())

    def instant(self, query: str, at: float | None = None) -> QueryResult:
        self.requested.append(query)
        parts = _PART.findall(query) or [(query, "")]
        found = [(rows, {"part": part} if part else {}) for one, part in parts for rows in self._rows(one)]
        times = [at or 0.0]
        series = (SampledSeries(labels=own | part, times=times, values=[value]) for (own, value), part in found)
        return QueryResult(series=tuple(series), warnings=self.warnings)

    def _rows(self, query: str) -> list[tuple[dict[str, str], float]]:
        return next((rows for text, rows in self._answers.items() if text in query), [])


def stored(
    slo: Slo, answers: Mapping[str, list[tuple[dict[str, str], float]]], *models: str
) -> tuple[StoredEvents, Store]:
    store = Store(answers, models)
    return StoredEvents(store, slo, 1e6), store  # type: ignore[arg-type]


def deployed(slo: Slo, deployment: str | None, *families: str) -> tuple[StoredEvents, Store]:
    """Return the events of one deployment, of a store that has ten of each family."""
    store = Store(
        {family: [({}, 10.0)] for family in families}, (slo.sli.model,) if isinstance(slo.sli, Triton) else ()
    )
    return StoredEvents(store, slo, 1e6, deployment), store  # type: ignore[arg-type]


LATENCY = Slo(name="late", objective=0.99, sli=Triton(promise=Promise.LATENCY, model="chat", seconds=0.5))


def test_a_store_that_scrapes_the_service_gives_its_counts_and_its_causes() -> None:
    cause = {"check": "gpu-saturated", "server": "triton-0", "model": "llm"}
    answers = {
        "timestamp(diag_slo_events_total": [({}, 1e6 - 3.5 * DAY)],
        "diag_slo_bad_events_attributed_total": [(cause, 30.0)],
        "diag_slo_bad_events_low_total": [({}, 35.0)],
        "diag_slo_bad_events_high_total": [({}, 50.0)],
        "diag_slo_bad_events_total": [({}, 40.0)],
        "diag_slo_events_total": [({}, 1000.0)],
    }
    seen, store = stored(LATENCY, answers)
    store.there['count(diag_slo_events_total{slo="late"})'] = [1e6 - 3.5 * DAY + 4320 * i for i in range(71)]
    report = report_on(LATENCY, seen, 1e6, period=7 * DAY)
    assert (report.tally.total, report.tally.low, report.tally.bad, report.tally.high) == (1000, 35, 40, 50)
    assert [(one.cause.check, one.share) for one in report.spent] == [("gpu-saturated", 0.75)]
    assert (report.seen, report.allowed) == (pytest.approx(3.5 * DAY), pytest.approx(20.0))
    assert len(store.requested) < 15


def test_a_store_without_the_service_bounds_what_tritons_families_allow() -> None:
    name = "nv_inference_first_response_histogram_ms_bucket"
    answers = {
        name: [({}, 7.0), ({"le": "100"}, 50.0), ({"le": "500"}, 90.0), ({"le": "+Inf"}, 100.0)],
        "nv_inference_request_success": [({}, 100.0)],
        "nv_inference_request_duration_us": [({}, 20e6)],
    }
    seen, store = stored(LATENCY, answers)
    tally = seen.over(0, 3600).tally
    assert (tally.total, tally.low, tally.bad, tally.high) == (100, 10, 10, 40)
    assert all('job="triton"' in query for query in store.requested if query.startswith("sum(increase(nv_"))


def test_own_queries_are_requested_as_they_are_written_and_rates_become_events() -> None:
    slo = Slo(name="gate", objective=0.99, sli=Promql(total="sum(rate(all[$window]))", bad="sum(rate(bad[$window]))"))
    seen, store = stored(slo, {"bad": [({}, 18.0)], "all": [({}, 360.0)]})
    assert seen.over(0, 3600).tally.total == 360.0
    assert "sum(sum(rate(all[3600s]))) * 3600" in store.requested[0]


def test_own_queries_are_as_old_as_their_total() -> None:
    slo = Slo(name="gate", objective=0.99, sli=Promql(total="sum(rate(all[$window]))", bad="sum(rate(bad[$window]))"))
    seen, store = stored(slo, {"timestamp((sum(sum(rate(all[5m]))) * 300))": [({}, 1e6 - 900.0)]})
    store.there["count((sum(sum(rate(all[5m]))) * 300))"] = [1e6 - 880.0 + 60 * i for i in range(10)]
    assert seen.known(0.0, 1e6) == [(1e6 - 900.0, 1e6 - 340.0)]
    assert seen.known(1e6 - 300.0, 1e6) == []
    assert stored(slo, {})[0].known(0.0, 1e6) == []


def test_a_query_that_the_store_cannot_read_is_reported_with_the_line_of_its_objective() -> None:
    slo = Slo(name="gate", objective=0.99, sli=Promql(total="all", bad="bad"), where="slos.yaml:7")
    seen, store = stored(slo, {})

    def refuse(query: str, at: float | None = None) -> QueryResult:
        raise UsageError("the query was refused (parse error)", where="prometheus+http://store", hint="the selector")

    store.instant = refuse  # type: ignore[method-assign]
    with pytest.raises(UsageError) as caught:
        seen.over(0, 3600)
    assert str(caught.value).startswith("slos.yaml:7: gate: the query was refused (parse error); ")


EU = replace(LATENCY, sli=Triton(promise=Promise.LATENCY, model="chat", seconds=0.5, deployment="eu"))


def test_what_the_service_counted_is_chosen_by_deployment_and_selector_and_its_causes_are_not() -> None:
    seen, store = deployed(LATENCY, "eu", "diag_slo_events_total", "diag_slo_bad_events_attributed_total")
    store.address = parse_prometheus('prometheus+http://store?selector={job="triton",cluster="a"}')
    assert seen.over(0, 3600).tally.total == 10
    assert 'diag_slo_events_total{slo="late",deployment="eu",cluster="a"}[3600s]' in store.requested[0]
    assert "attributed" not in store.requested[0]
    assert 'attributed_total{slo="late",cluster="a"}' in _requested_of(EU, "eu")[0]


def _requested_of(slo: Slo, deployment: str | None) -> list[str]:
    seen, store = deployed(slo, deployment)
    store.address = parse_prometheus('prometheus+http://store?selector={cluster="a"}')
    seen.over(0, 3600)
    return store.requested


def test_tritons_own_series_are_no_deployments_unless_that_is_stated() -> None:
    seen, _ = deployed(EU, None, "nv_inference_request_success")
    report = report_on(EU, seen, 1e6)
    assert report.tally.total == 0
    assert report.silence.startswith("it is about the deployment eu, which Triton's own series do not name; give --dep")
    assert deployed(EU, "eu", "nv_inference_request_success")[0].over(0, 3600).tally.total == 10


@pytest.mark.parametrize(
    ("total", "bad", "why"),
    [
        (100.0, 300.0, "its queries do not count the same events (300 bad of 100); mend them"),
        (100.0, -300.0, "its queries do not count the same events (-300 bad of 100)"),
        (100.0, float("nan"), "its queries give no numbers (100 events, nan bad)"),
        (float("inf"), 0.0, "its queries give no numbers (inf events, 0 bad)"),
    ],
)
def test_queries_that_contradict_each_other_count_nothing(total: float, bad: float, why: str) -> None:
    slo = Slo(name="gate", objective=0.99, sli=Promql(total="all[$window]", bad="bad[$window]"))
    report = report_on(slo, stored(slo, {"bad": [({}, bad)], "all": [({}, total)]})[0], 1e6)
    assert report.tally.total == 0
    assert report.silence.startswith(why)


def test_sums_that_differ_by_what_prometheus_reckons_at_the_edges_are_of_the_same_events() -> None:
    slo = Slo(name="gate", objective=0.99, sli=Promql(total="all[$window]", bad="bad[$window]"))
    report = report_on(slo, stored(slo, {"bad": [({}, 1005.0)], "all": [({}, 1000.0)]})[0], 1e6)
    assert (report.tally.total, report.tally.bad, report.good) == (1000, 1000, 0)


@pytest.mark.parametrize(
    ("models", "why"),
    [
        ((), 'the store has no nv_inference_request_success{job="triton"}; let it scrape'),
        (("talk",), "no server has a model 'chat'; there is talk"),
        (("chat",), 'no increase of nv_inference_request_success{model="chat",job="triton"} is known'),
    ],
)
def test_a_store_without_events_tells_why(models: tuple[str, ...], why: str) -> None:
    report = report_on(LATENCY, stored(LATENCY, {}, *models)[0], 1e6)
    assert report.tally.total == 0
    assert why in as_text(slo_document([report])).replace("\n    ", " ")


def test_a_tenant_that_is_not_there_is_reported_with_those_that_are() -> None:
    ours = replace(LATENCY, sli=Triton(promise=Promise.LATENCY, model="chat", seconds=0.5, tags=(("customer", "us"),)))
    seen, store = stored(ours, {}, "chat")
    store.label_values = lambda label, *_: ("chat",) if label == "model" else ("acme", "beta")  # type: ignore[method-assign]
    assert seen.no_data_reason() == "no series of chat has customer='us'; there is acme, beta"
    store.label_values = lambda label, *_: ("chat",) if label == "model" else ()  # type: ignore[method-assign]
    assert seen.no_data_reason().startswith("no series of chat has a label customer; look at its name")


def test_series_without_a_label_of_the_model_are_reported_as_such() -> None:
    seen, store = stored(LATENCY, {})
    store.label_values = lambda label, *_: ("nv_inference_request_success",) if label == "__name__" else ()  # type: ignore[method-assign]
    assert (
        seen.no_data_reason()
        == "no nv_inference_request_success of the store has a label model; look at its relabelling"
    )


def test_what_a_store_leaves_out_and_what_took_the_budget_are_reported_as_not_known() -> None:
    failing = replace(LATENCY, sli=Triton(promise=Promise.AVAILABILITY, model="chat"))
    seen, store = stored(failing, {"nv_inference_request": [({}, 100.0)]})
    store.warnings = ("store gateway 2 is away",)
    report = replace(report_on(failing, seen, 1e6), gaps=seen.gaps)
    reported = as_text(slo_document([report]))
    assert "  not known: a part of what is stored: store gateway 2 is away\n" in reported
    assert "  not known: what took the budget; let diag serve count the objective" in reported
    assert slo_report([report])["slos"][0]["gaps"] == list(seen.gaps)
    assert len(seen.gaps) == 2


def test_a_query_for_bad_events_that_finds_no_series_is_reported_as_it_may_be_mistyped() -> None:
    slo = Slo(name="gate", objective=0.99, sli=Promql(total="all[$window]", bad="bda[$window]"))
    seen = stored(slo, {"bda[3600s]) or 0": [({}, 0.0)], "all": [({}, 360.0)]})[0]
    assert seen.over(0, 3600).tally.bad == 0
    assert [one for one in seen.gaps if "whether its query for bad events is right" in one]
    seen = stored(slo, {"bda": [({}, 0.0)], "all": [({}, 360.0)]})[0]
    assert seen.over(0, 3600).tally.bad == 0
    assert seen.gaps == ()


def test_what_averages_only_bound_is_reported_with_the_setting_that_counts_it() -> None:
    seen, _ = stored(LATENCY, {"request_success": [({}, 100.0)], "duration_us": [({}, 20e6)]})
    assert "histogram_latencies=true" in as_text(slo_document([report_on(LATENCY, seen, 1e6)]))


class _WithoutFailures(Store):
    def label_values(self, label: str, selector: str, start: float, end: float) -> tuple[str, ...]:
        return () if "request_failure" in selector else super().label_values(label, selector, start, end)


def test_a_store_without_the_failures_of_a_model_knows_no_good_request() -> None:
    slo = Slo(name="up", objective=0.999, sli=Triton(promise=Promise.AVAILABILITY, model="chat"))
    store = _WithoutFailures({"nv_inference_request_success": [({}, 900.0)]}, ("chat",))
    seen = StoredEvents(store, slo, 1e6)  # type: ignore[arg-type]
    report = report_on(slo, seen, 1e6)

    assert (report.tally.total, report.good, report.left) == (0.0, None, None)
    assert report.silence.startswith("failures of chat are not counted")
