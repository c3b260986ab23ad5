from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

from diagnostics.cli.main import main
from diagnostics.cli.slo_sources import reports_from
from diagnostics.errors import UsageError
from diagnostics.render.slo_json import slo_report, slo_schema
from diagnostics.render.slo_text import slo_markdown, slo_text
from diagnostics.render.slo_words import shares
from diagnostics.slo.burn import DAY
from diagnostics.slo.reading import read_slos
from diagnostics.slo.report import report_on
from diagnostics.slo.slo import Promise, Promql, Slo, Triton
from diagnostics.wire.prometheus_answer import Answer, SampledSeries
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_address import parse_prometheus
from exporters.sources.prometheus_slo import StoredEvents

CAPTURE = Path(__file__).parents[2] / "fixtures/captures/cpu-handed-single-instance.tar.xz"
SLOS = """\
slo:
  - {name: chat-latency, objective: 0.99, ensemble: chat, latency: 500ms}
  - {name: chat-availability, objective: 0.999, ensemble: chat, availability: true}
  - {name: absent, objective: 0.999, ensemble: talk, availability: true}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("slos") / "slos.yaml"
    path.write_text(SLOS)
    return str(path)


def test_a_recording_tells_what_took_the_budget(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slo", str(CAPTURE), "--slo", file, "--period", "7d"]) == 0
    told = capsys.readouterr().out
    assert "chat-latency: 99 % of requests to chat within 500 ms, over 7d (its own period is 30d)" in told
    assert "0.1 % (0.072 % to 0.15 %) of 7d's budget" in told
    assert "(from traces)" in told
    assert "52 % went to single-instance-serialization of safety on triton-0" in told
    assert "48 % is unexplained" in told
    assert "1,371 events, 0 bad (from metrics)" in told


def test_the_report_meets_its_schema_and_markdown_says_the_same(file: str) -> None:
    slos = read_slos([Path(file)])
    reports, missed = reports_from(
        [str(CAPTURE)], slos, period=7 * DAY, config_file=None, deployment=None, options=SourceOptions()
    )
    assert missed is None
    found = slo_report(reports)
    jsonschema.validate(found, json.loads(slo_schema()))
    latency, _, absent = found["slos"]
    assert latency["period"]["seconds"] == 7 * DAY
    assert latency["causes"][0]["check"] == "single-instance-serialization"
    assert sum(one["share"] for one in latency["causes"]) + latency["unexplained"] == pytest.approx(1.0)
    assert latency["silence"] is None
    assert absent["silence"].startswith("no server has a model 'talk'; there is chat, ")
    assert "- 52 % went to single-instance-serialization of safety on triton-0" in slo_markdown(reports)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([0.9987, 0.0013], [">99 %", "<1 %"]),
        ([1 / 3, 1 / 3, 1 / 3], ["34 %", "33 %", "33 %"]),
        ([0.505, 0.495], ["51 %", "49 %"]),
        ([0.992, 0.004, 0.004], ["99 %", "<1 %", "<1 %"]),
        ([1.0, 0.0], ["100 %", "0 %"]),
    ],
)
def test_shares_that_are_told_add_up(parts: list[float], told: list[str]) -> None:
    assert shares(parts) == told


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((str(CAPTURE),), 2, "name a file of them with --slo"),
        (("http://triton:8000", "--slo", "FILE"), 2, "a server only tells of now"),
        ((str(CAPTURE.parent), "--slo", "FILE"), 3, "is neither a recording nor a history of diag serve"),
        ((str(CAPTURE), "--slo", "FILE", "--period", "5m"), 2, "--period: a period is between an hour and a year"),
        (("nope", "--slo", "FILE"), 2, "nope: there is no such file or folder; name a recording"),
        (("nowhere.tar.xz", "--slo", "FILE"), 3, "nowhere.tar.xz"),
        (("--slo", "FILE", "--url", "http://127.0.0.1:1"), 3, "no service answers"),
        (("prometheus+http://127.0.0.1:1", "--slo", "FILE"), 3, "127.0.0.1:1"),
        (("rules",), 2, "FILE"),
    ],
)
def test_what_cannot_be_told_is_one_clear_line(
    arguments: tuple[str, ...], code: int, said: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slo", *(file if one == "FILE" else one for one in arguments)]) == code
    told = capsys.readouterr().err.strip()
    assert said in told
    assert "\n" not in told


def test_rules_come_out_on_standard_output(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slo", "rules", file]) == 0
    told = capsys.readouterr()
    assert "triton-slo-chat-latency" in told.out
    assert told.err == "diag: runbook_url is relative, so alerts lead nowhere: name its address with --runbooks\n"
    assert main(["slo", "rules", "--runbooks", "https://wiki/runbooks", file]) == 0
    told = capsys.readouterr()
    assert 'runbook_url: "https://wiki/runbooks/slo-burns-fast.md"' in told.out
    assert told.err == ""


class Store:
    """A store that answers each query by what its text holds."""

    address = parse_prometheus('prometheus+http://store?selector={job="triton"}')

    def __init__(self, answers: Mapping[str, list[tuple[dict[str, str], float]]], models: tuple[str, ...] = ()) -> None:
        self._answers, self._models, self.asked = answers, models, list[str]()

    def label_values(self, label: str, selector: str, start: float, end: float) -> tuple[str, ...]:
        return self._models

    def instant(self, query: str, at: float | None = None) -> Answer:
        self.asked.append(query)
        found = next((rows for text, rows in self._answers.items() if text in query), [])
        series = tuple(SampledSeries(labels=labels, times=[at or 0.0], values=[value]) for labels, value in found)
        return Answer(series=series)


def stored(
    slo: Slo, answers: Mapping[str, list[tuple[dict[str, str], float]]], *models: str
) -> tuple[StoredEvents, Store]:
    store = Store(answers, models)
    return StoredEvents(store, slo, 1e6, lambda _: None), store  # type: ignore[arg-type]


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
    report = report_on(LATENCY, seen, 1e6, period=7 * DAY)
    assert (report.tally.total, report.tally.low, report.tally.bad, report.tally.high) == (1000, 35, 40, 50)
    assert [(one.cause.check, one.share) for one in report.spent] == [("gpu-saturated", 0.75)]
    assert (report.seen, report.allowed) == (pytest.approx(3.5 * DAY), pytest.approx(20.0))
    assert len(store.asked) < 60


def test_a_store_of_the_last_minute_knows_when_its_series_began() -> None:
    seen, _ = stored(LATENCY, {"min(timestamp(nv_inference_request_success": [({}, 1e6 - 20.0)]})
    assert seen.since() == 1e6 - 20.0


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
    assert all('job="triton"' in query for query in store.asked if query.startswith("sum(increase(nv_"))


def test_own_queries_are_asked_as_they_are_written_and_rates_become_events() -> None:
    slo = Slo(name="gate", objective=0.99, sli=Promql(total="sum(rate(all[$window]))", bad="sum(rate(bad[$window]))"))
    seen, store = stored(slo, {"bad": [({}, 18.0)], "all": [({}, 360.0)]})
    assert seen.over(0, 3600).tally.total == 360.0
    assert "sum(sum(rate(all[3600s]))) * 3600" in store.asked[0]


def test_own_queries_are_as_old_as_their_total() -> None:
    slo = Slo(name="gate", objective=0.99, sli=Promql(total="sum(rate(all[$window]))", bad="sum(rate(bad[$window]))"))
    seen, _ = stored(slo, {"timestamp((sum(sum(rate(all[5m]))) * 300))": [({}, 1e6 - 900.0)]})
    assert seen.since() == 1e6 - 900.0
    assert stored(slo, {})[0].since() is None


def test_a_query_that_the_store_cannot_read_is_told_with_the_line_of_its_objective() -> None:
    slo = Slo(name="gate", objective=0.99, sli=Promql(total="all", bad="bad"), where="slos.yaml:7")
    seen, store = stored(slo, {})

    def refuse(query: str, at: float | None = None) -> Answer:
        raise UsageError("the query was refused (parse error)", where="prometheus+http://store", hint="the selector")

    store.instant = refuse  # type: ignore[method-assign]
    with pytest.raises(UsageError) as caught:
        seen.over(0, 3600)
    assert str(caught.value).startswith("slos.yaml:7: gate: the query was refused (parse error); ")


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
    assert why in slo_text([report]).replace("\n    ", " ")
