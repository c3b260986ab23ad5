from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import jsonschema
import pytest

from diagnostics.cli.explain import ServiceQuery, ask
from diagnostics.cli.running_service import RunningService
from diagnostics.errors import EXIT_COLLECT
from diagnostics.render.explanation.json import schema
from diagnostics.service.http import api
from diagnostics.service.state import Evaluation, TargetState
from exporters.sources.access import SourceOptions
from tests.builders import SERVER
from tests.service.http.door import Door, door, judged, lived, show
from tests.service.parts import count, until
from tests.store.lived import NAME

HERE = f"deployment={NAME}"
NOW = ServiceQuery(deployment=NAME, at=None, since=None, output="text", fail_on="never", check=None)


@pytest.fixture(scope="module")
def verdicts_and_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Evaluation], Door]]:
    history, verdicts = lived(tmp_path_factory.mktemp("history"))
    with door(history=history) as opened:
        show(opened.service, verdicts)
        until(lambda: opened.json("/api/v1/state")["deployments"])
        yield verdicts, opened


@pytest.fixture
def opened(verdicts_and_door: tuple[list[Evaluation], Door]) -> Door:
    return verdicts_and_door[1]


@pytest.fixture
def incident(verdicts_and_door: tuple[list[Evaluation], Door]) -> str:
    return verdicts_and_door[0][-1].changes[0].incident.id


def test_the_state_tells_targets_verdicts_and_incidents(opened: Door, incident: str) -> None:
    state = opened.json("/api/v1/state")
    assert [target["server"] for target in state["targets"]] == [SERVER]
    (deployment,) = state["deployments"]
    assert (deployment["name"], deployment["verdict"], deployment["servers"]) == (NAME, "degraded", [SERVER])
    assert deployment["findings"][0]["share_of_requests_failed"] > 0.05
    assert [one["id"] for one in state["incidents"]] == [incident]
    assert abs(state["now"] - time.time()) < 5


@pytest.mark.parametrize("path", ["/api/v1/state", "/api/v1/openapi.json", "/metrics", "/readyz", "/v1/traces"])
def test_a_head_of_what_can_be_read_is_its_answer_without_a_body(opened: Door, path: str) -> None:
    whole, head = opened.ask(path), opened.ask(path, "HEAD")
    assert (head.status, head.data) == (whole.status, b"")
    assert head.headers["Content-Type"] == whole.headers["Content-Type"]
    assert len(whole.data) > 0


def test_a_watcher_is_reported_of_a_change_while_it_waits() -> None:
    with door() as opened:
        version = opened.json("/api/v1/state")["version"]
        reported: list[float] = []

        def watch() -> None:
            state = opened.json(f"/api/v1/state?after={version}&wait=20")
            reported.extend(target["interval"] for target in state["targets"])

        watcher = threading.Thread(target=watch)
        watcher.start()
        until(opened.waiting)
        opened.service.board.publish_target(TargetState(server="t", url="t", deployment="d", up=True, interval=7.0))
        watcher.join(5)
        assert reported == [7.0]


def test_a_version_of_an_earlier_run_is_answered_at_once(opened: Door) -> None:
    begun = time.monotonic()
    assert opened.json("/api/v1/state?after=999999&wait=20")["version"] < 999999
    assert time.monotonic() - begun < 5


def test_whoever_waits_when_the_service_ends_gets_an_answer() -> None:
    with door() as opened:
        version = opened.json("/api/v1/state")["version"]
        statuses: list[int] = []
        path = f"/api/v1/state?after={version}&wait=30"
        watcher = threading.Thread(target=lambda: statuses.append(opened.ask(path).status))
        watcher.start()
        until(opened.waiting)
        begun = time.monotonic()
    watcher.join(5)
    assert statuses == [200]
    assert time.monotonic() - begun < 5


def test_a_server_that_is_gone_is_not_reported_as_current() -> None:
    gone = TargetState(
        server=SERVER,
        url=f"http://{SERVER}:8000",
        deployment=NAME,
        up=False,
        interval=15.0,
        last_success=1_700_000_000.0,
        failures=3,
        error="connection refused",
    )
    with door() as opened:
        show(opened.service, judged())
        path = f"/api/v1/deployments/{NAME}/explanation"
        current = opened.ask(f"{path}?output=text")
        opened.service.board.publish_target(gone)
        stale = opened.ask(f"{path}?output=text")

        assert current.headers["Diag-Current"] == "true"
        assert b"Not current" not in current.data
        assert stale.headers["Diag-Current"] == "false"
        assert stale.data.decode().startswith(f"Not current: {SERVER} has not answered since 2023-11-14T22:13:20Z")
        assert opened.json(path)["blind_spots"][0]["what"] == f"{SERVER} as it is now"
        assert [one["no_data_since"] for one in opened.json("/api/v1/state")["deployments"]] == [gone.last_success]
        assert ask(RunningService(opened.url, SourceOptions()), NOW) == EXIT_COLLECT


def test_a_brief_answer_is_plain_unless_colours_are_wanted() -> None:
    with door() as opened:
        show(opened.service, judged())
        path = f"/api/v1/deployments/{NAME}/explanation?output=brief"
        assert b"\x1b[" not in opened.ask(path).data
        assert b"\x1b[" in opened.ask(f"{path}&colour=true").data


def test_the_root_of_the_api_lists_what_there_is(opened: Door) -> None:
    index = opened.json("/api/v1/")
    assert index["openapi"] == "/api/v1/openapi.json"
    assert index["paths"]["/api/v1/state"] == "State"
    assert set(index["paths"]) == set(opened.json(index["openapi"])["paths"])


def test_an_explanation_meets_its_schema(opened: Door) -> None:
    stated = opened.json(f"/api/v1/deployments/{NAME}/explanation")
    jsonschema.validate(stated, json.loads(schema()))
    assert stated["verdict"] == "degraded"


def test_a_check_says_why_it_fires_and_why_not(opened: Door) -> None:
    fires = opened.json(f"/api/v1/deployments/{NAME}/checks/request-failures")
    (mine,) = [one for one in fires["subjects"] if one["outcome"] == "fires"]
    assert mine["subject"]["model"] == "slow"
    assert any(line["limit"] is not None and line["met"] for line in mine["lines"])
    quiet = opened.json(f"/api/v1/deployments/{NAME}/checks/cold-start")
    assert {one["outcome"] for one in quiet["subjects"]} <= {"quiet", "unknown"}
    assert "cold-start on" in quiet["account"]


@pytest.mark.parametrize(
    ("path", "status", "reported"),
    [
        ("/api/v1/deployments/nope/explanation", 404, "there is no deployment 'nope'"),
        (f"/api/v1/deployments/{NAME}/checks/nope", 404, "there is no check 'nope'"),
        ("/api/v1/incidents/nope", 404, "there is no incident 'nope'"),
        ("/api/v1/incidents?limit=100000", 400, "limit: input should be less than"),
        ("/api/v1/incidents?start=nan", 400, "start: input should be a finite number"),
        ("/api/v1/state?wait=999", 400, "wait: input should be less than"),
        (f"/api/v1/explain?{HERE}&at=1", 404, "nothing was recorded of 'chat' in that time"),
        (f"/api/v1/signals?{HERE}&server=s&model=m&signal=nope", 404, "'nope' is not kept"),
        ("/api/v1/explain", 400, "deployment: field required; ask as in /api/v1/explain?deployment=…"),
        ("/api/v1/nonsense", 404, "there is nothing at /api/v1/nonsense; /api/v1/openapi.json lists what there is"),
        (
            "/api/v1/incidents?since=5",
            400,
            "since: there is no such parameter; there are deployment, end,",
        ),
        ("/api/v1/incidents?start=5&end=1", 400, "start: lies after end"),
        (f"/api/v1/verdicts?{HERE}&start=5&end=1", 400, "start: lies after end"),
        (f"/api/v1/incidents?{HERE}&deployment=other", 400, "deployment: is there twice; give it once"),
        ("/api/v1/slos?name=a&name=b", 404, "the service counts no objective 'a'"),
        ("/api/v1/targets?x", 400, "x: there is no such parameter; there are none"),
    ],
)
def test_what_cannot_be_answered_is_a_problem_of_one_line(opened: Door, path: str, status: int, reported: str) -> None:
    answer = opened.ask(path)
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/problem+json")
    detail = answer.json()["detail"]
    assert detail.startswith(reported)
    assert "\n" not in detail


def test_a_name_in_a_problem_holds_no_control_characters(opened: Door) -> None:
    detail = opened.ask("/api/v1/deployments/%1b%5b31m%0a/explanation").json()["detail"]
    assert detail.isprintable()


def test_an_incident_is_found_with_its_story(opened: Door, incident: str) -> None:
    (listed,) = opened.json(f"/api/v1/incidents?state=open&{HERE}")
    story = opened.json(f"/api/v1/incidents/{incident}")
    assert listed["id"] == story["incident"]["id"] == incident
    assert story["changes"][0]["severity"] in ("warning", "critical")
    assert opened.json("/api/v1/incidents?state=closed") == []
    assert opened.json("/api/v1/incidents?end=5") == []


def test_a_moment_of_the_past_is_judged_again(opened: Door, verdicts_and_door: tuple[list[Evaluation], Door]) -> None:
    at = verdicts_and_door[0][-1].at
    stated = opened.json(f"/api/v1/explain?{HERE}&at={at}&since=300")
    assert stated["verdict"] == "degraded"
    assert {finding["check"] for finding in stated["findings"]} >= {"request-failures"}


def test_timelines_are_reported_in_time_order(opened: Door) -> None:
    reported = opened.json(f"/api/v1/verdicts?{HERE}")
    assert [one["verdict"] for one in reported][-1] == "degraded"
    points = opened.json(f"/api/v1/signals?{HERE}&server={SERVER}&model=slow&signal=queue_seconds")
    assert points
    assert sorted(points, key=lambda one: one["at"]) == points
    assert points[0]["mean"] == pytest.approx(0.17, rel=0.05)


def test_an_answer_that_is_cut_says_so(opened: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    signals = f"/api/v1/signals?{HERE}&server={SERVER}&model=slow&signal=queue_seconds"
    everything = opened.ask(f"/api/v1/verdicts?{HERE}")
    assert "X-Truncated" not in everything.headers
    assert "X-Truncated" not in opened.ask(signals).headers
    newest = opened.ask(f"/api/v1/verdicts?{HERE}&limit=1")
    assert newest.json() == everything.json()[-1:]
    assert "more than these 1" in newest.headers["X-Truncated"]
    monkeypatch.setattr(api, "MOST_POINTS", 1)
    oldest = opened.ask(signals)
    assert len(oldest.json()) == 1
    assert "X-Truncated" in oldest.headers


def test_checks_are_listed_with_their_limits_and_runbooks(opened: Door) -> None:
    found = {check["id"]: check for check in opened.json("/api/v1/checks")}
    assert found["request-failures"]["limits"]
    assert {"Means", "Do"} <= set(found["request-failures"]["sections"])


def test_without_a_history_the_past_is_not_there_and_open_incidents_are(
    verdicts_and_door: tuple[list[Evaluation], Door], incident: str
) -> None:
    with door() as forgetful:
        show(forgetful.service, verdicts_and_door[0])
        assert [one["id"] for one in forgetful.json("/api/v1/incidents")] == [incident]
        assert forgetful.json("/api/v1/incidents?state=closed") == []
        assert forgetful.json(f"/api/v1/incidents/{incident}")["incident"]["id"] == incident
        assert forgetful.ask(f"/api/v1/explain?{HERE}").status == 503


def test_a_deployment_that_was_not_judged_yet_is_reported_from_one_that_is_not_there(tmp_path) -> None:
    file = tmp_path / "diag.toml"
    file.write_text('[[server]]\nurl = "http://127.0.0.1:1"\n')
    with door(file=file) as opened:
        answer = opened.ask("/api/v1/deployments/127.0.0.1:1/explanation")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert opened.ask("/readyz").status == 503
        assert opened.ask("/healthz").status == 200


def test_a_database_that_is_away_is_a_problem_and_not_the_end(tmp_path) -> None:
    history, _ = lived(tmp_path, count=2)
    with door(history=history) as opened:
        (tmp_path / "history.db").write_bytes(b"no database " * 1000)
        history._database.engine.dispose()
        answer = opened.ask("/api/v1/incidents")
        assert (answer.status, answer.json()["detail"]) == (503, "the history does not answer just now")
        assert opened.ask("/api/v1/state").status == 200


def test_a_failure_within_is_reported_without_its_details(opened: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(api, "state_answer", fail)
    answer = opened.ask("/api/v1/state")
    assert (answer.status, answer.headers["Content-Type"]) == (500, "application/problem+json")
    assert b"secret" not in answer.data
    assert count(opened.service.metrics, "diag_errors_total", part="http") == 1


def test_watchers_beyond_a_number_are_reported_to_come_back(opened: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MOST_WAITING", 0)
    assert opened.ask("/api/v1/state").status == 200
    answer = opened.ask("/api/v1/state?wait=1")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
