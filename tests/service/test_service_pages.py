"""What the page says of each state there is, as it is sent: no browser is needed to read it."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import urllib3
from sqlalchemy.exc import OperationalError

from diagnostics.checks.catalogue import HEADINGS, catalogue
from diagnostics.diagnosis.diagnose import DiagnosisOptions, diagnose
from diagnostics.diagnosis.objective import Objective
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.gen.files import every_alert
from diagnostics.gen.slo_rules import slo_runbooks
from diagnostics.render import phrases
from diagnostics.render.plain import clean
from diagnostics.service import fleet_rows
from diagnostics.service.http.page import frame
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.standing import standings
from diagnostics.slo.slo import Promise, Slo, Triton
from diagnostics.store.history import History
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from tests.builders import SERVER
from tests.render.situations import HOSTILE, situations
from tests.service.http.door import lived as written
from tests.service.serving import ROOT, Serving, moved, recorded, recorded_now
from tests.store.lived import FAST, NAME, deployment, live, opened, rounds

VENDOR = Path(frame.__file__).parent / "static/vendor"


def requested(serving: Serving, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", serving.port, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def text_of(serving: Serving, path: str, status: int = 200) -> str:
    found, _, body = requested(serving, path)
    assert found == status
    return body.decode()


def headline(serving: Serving, path: str = "/") -> str:
    found = re.search(r"<h1[^>]*>(.*?)</h1>", text_of(serving, path), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def service() -> Iterator[Serving]:
    hostile = tuple(f"odd-{kind}" for kind in HOSTILE)
    with Serving((NAME, "fine", "idle", "unclear", "few", "gone", "new", *hostile)) as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        stated = {"fine": "healthy", "idle": "idle", "unclear": "no clear cause", "few": "one read"}
        stated |= {f"odd-{kind}": f"hostile {kind}" for kind in HOSTILE}
        for name, situation in stated.items():
            made.stated(name, situations()[situation])
        made.reached("gone", error="connection <b>refused</b>")
        yield made


def test_the_api_tells_of_names_that_are_no_text(service: Serving) -> None:
    state = json.loads(text_of(service, "/api/v1/state"))
    assert {one["name"] for one in state["deployments"]} >= {f"odd-{kind}" for kind in HOSTILE}
    for kind in HOSTILE:
        answer = text_of(service, f"/api/v1/deployments/odd-{kind}/explanation")
        assert json.loads(answer)["kind"] == "explanation"


def test_who_asks_only_whether_a_page_is_there_gets_no_body(service: Serving) -> None:
    with urllib3.PoolManager(retries=False, timeout=10) as pool:
        answer = pool.request("HEAD", f"{service.url}/")

    assert answer.status == 200
    assert int(answer.headers["content-length"]) > 1000
    assert answer.data == b""


def test_before_the_first_round_it_says_what_it_waits_for() -> None:
    with Serving((NAME,)) as made:
        assert headline(made) == f"{NAME}: waiting for the first round"
        assert "The first verdict comes after two rounds" in text_of(made, "/")
        assert headline(made, f"/deployments/{NAME}") == "waiting for the first round"


def test_when_all_is_well_it_says_so() -> None:
    with Serving(("a", "b", "c")) as made:
        made.stated("a", situations()["healthy"])
        made.stated("b", situations()["healthy"])
        made.stated("c", situations()["idle"])

        assert headline(made) == "Nothing is wrong: 2 deployments healthy, 1 idle"


def test_without_requests_nothing_is_called_healthy() -> None:
    with Serving(("a", "b")) as made:
        made.stated("a", situations()["idle"])
        made.stated("b", situations()["idle"])

        assert headline(made) == "No deployment has requests"


def test_what_hurts_requests_comes_first_and_a_server_that_cannot_be_read_stands_beside_it(service: Serving) -> None:
    page = text_of(service, "/")

    assert "busy 94 % of the time" in headline(service)
    beside = page[page.index("</h1>") : page.index('id="others"')]
    assert "gone.example:8002</bdi></strong> cannot be read: connection &lt;b&gt;refused&lt;/b&gt;" in beside
    assert headline(service, "/deployments/gone") == "gone.example:8002 cannot be read"
    assert "Last read" in text_of(service, "/deployments/gone")


def test_a_found_server_is_shown_with_its_source_and_labels() -> None:
    with Serving((NAME,)) as made:
        made.reached(NAME, found_by="file <b>.json", labels={"team": "chat", "zone": "a"})

        page = text_of(made, f"/deployments/{NAME}")
        assert (
            f"<bdi>{NAME}.example:8002</bdi> was found by <bdi>file &lt;b&gt;.json</bdi>: <bdi>team=chat</bdi>" in page
        )
        (target,) = json.loads(text_of(made, "/api/v1/targets"))
        assert (target["found_by"], target["labels"]) == ("file <b>.json", {"team": "chat", "zone": "a"})


def test_a_server_that_cannot_be_read_comes_before_what_hurts_nobody() -> None:
    with Serving((NAME, "fine", "unclear")) as made:
        made.stated("fine", situations()["healthy"])
        made.stated("unclear", situations()["no clear cause"])
        made.reached(NAME, error="connection refused")

        assert headline(made) == f"{NAME}.example:8002 cannot be read"
        assert 'class="answer critical"' in text_of(made, "/")


@pytest.mark.parametrize(("served", "tone"), [(True, "critical"), (False, "warning"), (None, "critical")])
def test_a_server_that_is_down_is_critical_unless_it_is_known_to_have_had_no_requests(
    served: bool | None, tone: str
) -> None:
    with Serving((NAME,)) as made:
        made.reached(NAME, error="connection refused", served=served)

        assert f'class="answer {tone}"' in text_of(made, "/")


def test_a_server_that_never_answered_stands_behind_what_hurts_requests() -> None:
    with Serving((NAME, "never")) as made:
        made.stated(NAME, situations()["degraded"])
        made.reached("never", error="connection refused", ago=None)

        page = text_of(made, "/deployments/never")
        assert 'class="answer warning"' in page
        assert "Not read since the service started" in page
        assert "busy" in headline(made)


def test_a_server_that_never_answered_stands_behind_a_deployment_that_is_slow_without_a_cause() -> None:
    with Serving(("a-never", "b-fine", "unclear")) as made:
        made.stated("b-fine", situations()["healthy"])
        made.reached("replica", error="connection refused", ago=None, deployment="b-fine")
        made.stated("unclear", situations()["no clear cause"])
        made.reached("a-never", error="connection refused", ago=None)

        assert "requests wait 170 ms for slow" in headline(made)


def test_servers_beside_the_one_that_is_named_first_are_counted_as_further_ones() -> None:
    with Serving(("a", "b", "c")) as made:
        for name in ("a", "b", "c"):
            made.reached(name, error="connection refused")

        assert headline(made) == "a.example:8002 cannot be read"
        assert "2 further servers cannot be read:" in text_of(made, "/")


def test_one_server_of_two_that_had_requests_and_is_down_is_critical() -> None:
    with Serving((NAME,)) as made:
        made.stated(NAME, situations()["healthy"])
        made.reached("second", error="connection refused", deployment=NAME, served=True)

        page = text_of(made, "/")
        assert '<span class="badge critical">partly unreachable</span>' in page
        assert "second.example:8002</bdi></strong> had requests and cannot be read: connection refused" in page


def test_one_server_of_two_that_is_down_does_not_hide_the_verdict(service: Serving) -> None:
    with Serving((NAME,)) as made:
        made.stated(NAME, situations()["healthy"])
        made.reached("second", error="connection refused", deployment=NAME)

        page = text_of(made, "/")
        assert "second.example:8002</bdi></strong> cannot be read: connection refused" in page
        assert "requests of fast take" in headline(made)


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        (NAME, "one instance of safety busy 94 %"),
        ("idle", "requests completed"),
        ("unclear", "requests wait 170 ms for slow"),
        ("few", "no counter was read twice"),
    ],
)
def test_each_verdict_has_its_sentence(service: Serving, name: str, stated: str) -> None:
    assert stated in headline(service, f"/deployments/{name}")


def test_a_verdict_older_than_the_rounds_says_so() -> None:
    with Serving((NAME,)) as made:
        made.stated(NAME, situations()["degraded"], at=time.time() - 120)

        assert "Evaluation is late" in text_of(made, "/")


def test_no_name_of_a_server_can_do_anything(service: Serving) -> None:
    incidents = [one.id for one in service.service.board.read().incidents if one.deployment.startswith("odd-")]
    own = [f"/deployments/odd-{kind}?check=gpu-saturated" for kind in HOSTILE]
    for path in (
        *own,
        f"/incidents/{incidents[0]}",
        "/",
        "/incidents",
        "/search?q=e",
        "/search?q=%3Cscript%3Ealert(1)",
    ):
        page = text_of(service, path)
        assert "<script>alert" not in page
        assert "{{" not in page.replace("{{ 7 * 7 }}", "")
        lines = page.replace("\n", "").replace("\t", "")
        assert clean(lines) == lines, path


def test_every_check_can_be_requested_why_not(service: Serving) -> None:
    page = text_of(service, f"/deployments/{NAME}?check=gpu-saturated")

    assert re.findall(r'<option value="([^"]+)"', page) == list(catalogue())
    assert 'value="gpu-saturated" selected' in page
    assert "gpu-saturated on model safety version 1: quiet" in page


def test_every_check_has_a_runbook_at_its_address(service: Serving) -> None:
    for check in catalogue():
        page = text_of(service, f"/runbooks/{check}")

        assert all(f"<h2>{heading}</h2>" in page for heading in HEADINGS), check


def test_every_alert_of_the_shipped_rules_has_a_runbook_where_it_links_to(service: Serving) -> None:
    alerts = every_alert(catalogue())

    assert len(alerts) > len(catalogue()) + 20
    for alert in alerts:
        address = alert.annotations("/runbooks")["runbook_url"]
        headings = HEADINGS if alert.id in catalogue() else ("Meaning", "Impact", "Diagnosis", "Mitigation")
        page = text_of(service, address)
        assert all(f"<h2>{heading}</h2>" in page for heading in headings), address
    for name in slo_runbooks():
        assert "<h2>Mitigation</h2>" in text_of(service, f"/runbooks/{name}.md"), name


@pytest.mark.parametrize(
    "path",
    [
        "/deployments/none",
        "/incidents/none",
        "/runbooks/none",
        f"/deployments/{NAME}?check=none",
        f"/deployments/{NAME}?at=1",
        "/static/none.js",
        "/static/..%2fpage.py",
    ],
)
def test_what_is_not_there_is_not_found(service: Serving, path: str) -> None:
    assert requested(service, path)[0] == 404


def test_a_time_that_is_none_is_a_wrong_request(service: Serving) -> None:
    text_of(service, f"/deployments/{NAME}?at=soon", 400)
    assert "still to come" in text_of(service, f"/deployments/{NAME}?at=1e10", 400)


def test_incidents_are_found_by_words_state_and_severity(service: Serving) -> None:
    def found(query: str) -> list[str]:
        return re.findall(r'id="to-([0-9a-f]+)"', text_of(service, f"/incidents?{query}"))

    assert len(found(f"deployment={NAME}")) == 1
    assert len(found(f"q=SAFETY+serialization&deployment={NAME}")) == 1
    assert found("q=nowhere") == found("state=closed") == found("severity=info") == []


def test_the_page_may_load_nothing_from_elsewhere_and_run_nothing_of_its_text(service: Serving) -> None:
    _, headers, body = requested(service, "/")
    policy = headers["content-security-policy"]

    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert re.findall(rb"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", body) == []


def test_files_are_kept_by_browsers_for_as_long_as_they_stay_the_same(service: Serving) -> None:
    address = re.search(r'src="(/static/uplot[^"]+)"', text_of(service, "/"))
    assert address is not None

    status, headers, body = requested(service, address[1], **{"Accept-Encoding": "gzip"})

    assert status == 200
    assert "immutable" in headers["cache-control"]
    assert gzip.decompress(body) == (VENDOR / "uplot-1.6.32.min.js").read_bytes()
    assert requested(service, "/static/uplot-1.6.32.min.js?v=other")[1]["cache-control"] == "no-cache"


def test_what_others_wrote_is_named_with_version_and_licence() -> None:
    notice = (VENDOR / "NOTICE").read_text("utf-8")

    assert "Permission is hereby granted, free of charge" in notice
    for file in VENDOR.glob("*.*"):
        assert file.name in frame.NAMES
        assert file.name in notice
    assert "(v1.6.32)" in (VENDOR / "uplot-1.6.32.min.js").read_text("utf-8")[:100]


def test_what_went_wrong_in_the_service_itself_is_shown() -> None:
    metrics = OwnMetrics()
    metrics.errors.labels("history").inc(3)
    metrics.dropped.labels("evaluation").inc()
    with Serving((NAME,), metrics=metrics) as made:
        page = text_of(made, "/")

    assert "3 times something went wrong in: history" in page
    assert "1 were dropped as the queue was full: evaluation" in page
    assert "The history is off" in page


def test_a_row_of_the_fleet_is_made_once_for_each_verdict_before_it_is_requested(
    service: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fleet_rows.FleetRows()
    state = service.service.board.read()
    made.update(state)
    monkeypatch.setattr(fleet_rows, "_made", lambda *_: pytest.fail("made again"))

    assert any(row.spark for _, row in made.rows(standings(state)))


def test_timelines_begin_with_the_first_verdict_of_a_fresh_service(tmp_path: Path) -> None:
    with Serving((NAME,), history=opened(tmp_path).reader) as made:
        assert "Collecting since" in text_of(made, f"/deployments/{NAME}")
        made.stated(NAME, recorded_now("cpu-handed-single-instance"))

        reported = json.loads(text_of(made, f"/fragments/timelines/{NAME}?model=safety"))

    queue = next(chart for chart in reported["charts"] if chart["title"] == "queue of safety")
    assert len(queue["at"]) > 10
    assert queue["at"] == sorted(queue["at"])
    assert all(0.01 < value < 0.6 for value in queue["values"])
    assert reported["since"] == made.service.board.read().started


@pytest.mark.parametrize(
    ("query", "span"),
    [("", "since=3600"), ("since=21600", "since=21600"), ("from=2026-01-31T03:12&to=1769830000", "from=1769829120&")],
)
def test_the_time_of_the_charts_is_in_the_address_and_in_that_of_the_refresh(
    tmp_path: Path, query: str, span: str
) -> None:
    with Serving((NAME,), history=opened(tmp_path).reader) as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        page = text_of(made, f"/deployments/{NAME}?{query}")
        again = text_of(made, f"/fragments/deployments/{NAME}?{query}")

    address = re.search(r'data-timeline="([^"]+)"', page)
    assert address is not None
    assert f"model=safety&amp;{span.replace('&', '&amp;')}" in address[1]
    assert address[0] in again
    assert f'data-fragment="/fragments/deployments/{NAME}{"?" + query.replace("&", "&amp;") if query else ""}"' in page


def test_charts_lead_to_the_same_data_of_the_api(lived: History) -> None:
    with Serving((NAME,), history=lived.reader) as made:
        made.stated(NAME, situations()["healthy"])
        asked = f"server={SERVER}&model=slow&from={time.time() - 900:.0f}&to={time.time():.0f}"
        charts = json.loads(text_of(made, f"/fragments/timelines/{NAME}?{asked}"))["charts"]
        queue = next(one for one in charts if one["title"] == "queue of slow")
        buckets = json.loads(text_of(made, queue["api"]))

    assert [one["mean"] for one in buckets] == [value for value in queue["values"] if value is not None] != []


@pytest.mark.parametrize("query", ["from=soon", "to=soon", "from=20&to=10"])
def test_a_span_that_is_none_is_a_wrong_request(service: Serving, query: str) -> None:
    text_of(service, f"/deployments/{NAME}?{query}", 400)


def test_objectives_show_their_budgets_and_lead_to_what_took_them() -> None:
    answered = Slo(name="chat-answers", objective=0.99, sli=Triton(promise=Promise.AVAILABILITY, model="chat"))
    quick = Slo(name="chat-quick", objective=0.9, sli=Triton(promise=Promise.LATENCY, seconds=0.2, model="chat"))
    with Serving((NAME,), slos=(answered, quick)) as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        page = text_of(made, "/slos")
        (incident,) = made.service.board.read().incidents
        assert 'href="/slos"' in text_of(made, "/")

    assert re.findall(r'<h2 id="slo-\d">(.*?)</h2>', page) == ["chat-quick", "chat-answers"]
    first, second = page.split("</article>")[:2]
    assert "budget spent" in first
    assert 'href="/runbooks/single-instance-serialization"' in first
    assert f'href="/incidents/{incident.id}"' in first
    assert re.search(r"<dt>burn rate over 5 min[^<]*</dt><dd>\d", first)
    assert "<meter" in second
    assert "What took the budget" not in second


def test_a_budget_of_a_period_that_was_not_measured_whole_is_called_extrapolated() -> None:
    quick = Slo(name="chat-quick", objective=0.9, sli=Triton(promise=Promise.LATENCY, seconds=0.2, model="chat"))
    with Serving((NAME,), slos=(quick,)) as made:
        made.keeper._reached[NAME]["triton-0"] = time.time() - 40.0
        made.stated(NAME, recorded_now("cpu-handed-single-instance"))
        page = text_of(made, "/slos")
    assert ", extrapolated</dt>" in page
    assert re.search(r"<dt>burn rate over 5 min, of which [\d.]+ s were measured</dt>", page)
    assert "the budget is extrapolated from " in page


def test_without_objectives_the_page_says_where_to_name_some(service: Serving) -> None:
    assert "[[slo]]" in text_of(service, "/slos")


def test_a_timeline_goes_on_where_the_history_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history, verdicts = written(tmp_path)
    whole = history.reader.signals(NAME, "queue_seconds", 0, time.time(), server=SERVER, model="slow")
    monkeypatch.setattr(type(history.reader), "signals", lambda *_, **__: whole[:-2])
    with Serving((NAME,), history=history.reader) as made:
        made.stated(NAME, verdicts[-1].explanation)
        reported = json.loads(text_of(made, f"/fragments/timelines/{NAME}?model=slow"))

    queue = next(chart["at"] for chart in reported["charts"] if chart["title"] == "queue of slow")
    remembered = [bucket.at + 30 for bucket in whole[:-2]]
    assert queue[: len(remembered)] == remembered
    assert len(queue) >= len(remembered) + 3
    assert queue == sorted(queue)
    assert queue[-1] > verdicts[-1].at - 15


def test_a_timeline_of_a_server_that_is_not_there_is_empty(lived: History) -> None:
    with Serving((NAME,), history=lived.reader) as made:
        made.stated(NAME, situations()["healthy"])
        reported = json.loads(text_of(made, f"/fragments/timelines/{NAME}?server=none&model=none"))

    assert [chart["at"] for chart in reported["charts"]] == [[]] * 4


def first_line_of(service: Serving, path: str) -> str:
    found = re.search(r'<p class="felt">(.*?)</p>', text_of(service, path))
    return found[1] if found else ""


def test_what_users_feel_stands_above_the_cause_in_the_words_of_the_terminal() -> None:
    objective = Objective.parse("p95 < 200ms")
    stated = replace(recorded("cpu-handed-single-instance"), objective=objective)
    slo = Slo(name="chat-fast", objective=0.9, sli=Triton(promise=Promise.AVAILABILITY, model="chat"))
    with Serving((NAME, "fine"), objective="p95 < 200ms", slos=(slo,)) as made:
        made.stated(NAME, stated)
        made.stated("fine", replace(situations()["healthy"], objective=objective))

        for path in ("/", f"/deployments/{NAME}"):
            line = first_line_of(made, path)
            assert line.startswith("chat p95 639 ms over the last 60 s, objective 200 ms, 37.9 requests/s, ")
            assert line.endswith("100 % of the budget of chat-fast left")
            assert headline(made, path).startswith("one instance of safety busy 94 %")
        assert first_line_of(made, "/deployments/fine").startswith("fast mean ")
        assert "objective p95 200 ms" in first_line_of(made, "/deployments/fine")
    assert phrases.first_line(stated) == (
        "degraded: chat p95 639 ms over the last 60 s, objective 200 ms, 37.9 requests/s: "
        "single-instance-serialization of safety"
    )


def test_the_time_of_a_request_is_charted_beside_the_objective(tmp_path: Path) -> None:
    with Serving((NAME,), history=opened(tmp_path).reader, objective="p95 < 200ms") as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        charts = json.loads(text_of(made, f"/fragments/timelines/{NAME}?model=safety"))["charts"]
    with Serving((NAME,), history=opened(tmp_path / "mean").reader, objective="mean < 1s") as made:
        made.stated(NAME, recorded("cpu-handed-single-instance"))
        mean = json.loads(text_of(made, f"/fragments/timelines/{NAME}?model=safety"))["charts"][0]

    assert [one["title"] for one in charts] == [
        "p95 request time of chat",
        "failed requests to chat",
        "requests to chat",
        "queue of safety",
        "busy share of safety",
    ]
    assert charts[0]["objective"] == {"value": 0.2, "told": "objective p95 200 ms"}
    assert [one["objective"] for one in charts[1:]] == [None] * 4
    assert all(0.1 < value < 2 for value in charts[0]["values"])
    assert set(charts[1]["values"]) == {0.0}
    assert mean["title"] == "mean request time of chat"
    assert max(mean["values"]) < max(charts[0]["values"])


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> History:
    """An incident that is over."""
    folder = tmp_path_factory.mktemp("history")
    made, watched, now = opened(folder), deployment(OwnMetrics()), time.time()
    made.start()
    list(live(made, watched, rounds(20, begin=now - 900)))
    list(live(made, watched, rounds(25, begin=now - 600, steady=800.0, models=(FAST,))))
    made.stop()
    return opened(folder)


def test_an_incident_that_is_over_keeps_its_address_and_its_evidence(lived: History) -> None:
    past = lived.reader.incidents(state="closed")[0]
    with Serving((NAME,), history=lived.reader) as made:
        made.stated(NAME, situations()["healthy"])
        page = text_of(made, f"/incidents/{past.id}")
        then = text_of(made, f"/deployments/{NAME}?at={past.peak_at:.0f}")

        assert f"/incidents/{past.id}" in text_of(made, "/")
        assert f"/incidents/{past.id}" in text_of(made, "/incidents?state=closed")
    assert "As it was at its worst" in page
    assert "<code>" in page
    assert "As it was at" in then
    assert past.check in then


def test_a_database_that_is_away_is_reported_and_hides_nothing_of_now(
    lived: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> list[object]:
        raise OperationalError("select", {}, Exception("away"))

    with Serving((NAME,), history=lived.reader) as made:
        made.stated(NAME, situations()["degraded"])
        monkeypatch.setattr(type(lived.reader), "_rows", away)

        assert "busy 94 %" in headline(made)
        assert "cannot be read now" in text_of(made, "/incidents")
        text_of(made, "/incidents/none", 503)
        assert requested(made, f"/fragments/timelines/{NAME}")[0] == 503


def test_before_the_first_round_no_server_is_counted() -> None:
    with Serving(("new",)) as serving:
        page = text_of(serving, "/")
        assert "1 deployment, waiting for the first round</h2>" in page
        assert "0 servers" not in page
        serving.reached("new")
        assert "1 deployment, 1 server</h2>" in text_of(serving, "/")


def test_a_missed_objective_that_the_headline_names_is_not_listed_as_unexplained() -> None:
    objective = Objective.parse("p95 < 200ms")
    with Serving((NAME,), objective=objective.text) as made:
        scrapes = open_capture(ROOT / "fixtures/captures/cpu-handed-single-instance.tar.xz").scrapes()
        evidence = WindowEvidence(window_of(moved(scrapes)))
        explanation = diagnose(evidence, DiagnosisOptions(objective=objective))
        made.stated(NAME, explanation)
        page = text_of(made, f"/deployments/{NAME}")

    assert any(one.misses_objective or one.entry for one in explanation.symptoms)
    assert "objective 200 ms" in page
    assert "Also seen" not in page
