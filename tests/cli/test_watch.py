from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics.cli.main import main
from diagnostics.cli.running_service import RunningService
from diagnostics.cli.watching import WatchedServers
from diagnostics.diagnosis.explanation import BlindSpot
from diagnostics.render.explanation.html import html
from diagnostics.render.explanation.json import report
from diagnostics.render.live import frame, gist
from diagnostics.wire.records import BodyKind
from exporters.sources.access import ON_THE_COMMAND_LINE
from exporters.sources.http import HttpAnswer
from tests.builders import SERVER, START
from tests.builders_traffic import Did, story_scrapes
from tests.collect.fake_triton import FakeServer, fake_triton, status
from tests.render.shown import markdown, text
from tests.service.http.door import Door, door, judged, show
from tests.store.lived import NAME

CLOSED = ["--url", "http://127.0.0.1:1"]


def target(up: bool = True, **more: object) -> dict[str, object]:
    return {"server": "triton-0:8002", "deployment": "chat", "up": up, "error": "" if up else "refused", **more}


def state(*, summary: str = "requests wait", up: bool = True, **more: object) -> dict[str, object]:
    finding = {
        "id": "f1",
        "check": "capacity-exceeded",
        "title": "More work than it can do",
        "severity": "warning",
        "subject": {"server": "triton-0:8002", "model": "slow", "gpu": None, "ensemble": None},
        "summary": summary,
        "onset": 940.0,
        "caused_by": None,
    }
    deployment = {"name": "chat", "verdict": "degraded", "reason": "", "findings": [finding]}
    return {"now": 1000.0, "targets": [target(up)], "deployments": [deployment], "incidents": [], **more}


def test_a_screen_says_what_is_wrong_where_and_since_when():
    lines = frame(state(), 100)
    assert lines[0].endswith("1 of 1 servers answer")
    assert lines[2] == "chat  degraded"
    assert lines[3] == "  warning  capacity-exceeded of slow on triton-0:8002, for 1 min"
    assert lines[4] == "      requests wait"


def test_a_screen_says_what_users_feel_what_to_do_and_how_old_the_verdict_is():
    shown = state()
    shown["deployments"][0] |= {"answer": "chat p95 4.32 s, objective 200 ms: capacity-exceeded of slow", "age": 3.0}
    shown["deployments"][0]["findings"][0]["step"] = "fix: raise instance_group count of slow from 1 to 2"
    lines = frame(shown, 100)
    assert lines[2] == "chat  degraded (3 s ago): chat p95 4.32 s, objective 200 ms: capacity-exceeded of slow"
    assert lines[5] == "      fix: raise instance_group count of slow from 1 to 2"


def test_a_finding_names_the_url_of_the_settings_beside_the_server_s_name():
    shown = state()
    shown["targets"] = [target(url="http://triton-0:8000")]
    assert frame(shown, 120)[3] == (
        "  warning  capacity-exceeded of slow on triton-0:8002 (http://triton-0:8000), for 1 min"
    )
    shown["targets"] = [target(url="http://triton-0:8002")]
    assert "http" not in frame(shown, 120)[3], "it is the same"


def test_a_verdict_that_is_late_is_shown_as_late_beside_the_service_s_fault():
    shown, current = state(), state()
    current["deployments"][0] |= {"age": 3.0, "late": False}
    shown["deployments"][0] |= {"age": 647.0, "late": True}
    shown["faults"] = [{"what": "evaluating chat", "reason": "evaluation is late"}]
    lines = frame(shown, 100, lambda text, colour: f"{colour}: {text}")
    assert lines[1] == "yellow: the service: evaluating chat fails: evaluation is late"
    assert lines[3] == "yellow: chat  degraded (10 min ago: evaluation is late)"
    assert gist(shown) != gist(current), "a pipe gets a block of it"
    assert gist(current) == gist({**current, "deployments": [{**current["deployments"][0], "age": 8.0}]})


def test_a_server_that_does_not_answer_is_named_with_its_reason():
    assert "  triton-0:8002 does not answer: refused" in frame(state(up=False), 100)


def test_before_the_first_round_no_server_is_counted():
    (line,) = frame({"now": 1000.0, "targets": [], "deployments": [], "incidents": []}, 100)
    assert line == "1970-01-01T00:16:40Z  waiting for the first round"


def test_a_verdict_on_servers_that_answer_no_more_is_shown_as_one_of_before():
    shown = state(up=False)
    shown["deployments"][0]["no_data_since"] = 880.0
    assert frame(shown, 100)[2] == "chat  no data since 1970-01-01T00:14:40Z, for 2 min; before: degraded"
    assert gist(shown) != gist(state(up=False))


@pytest.mark.parametrize("silent", [(BodyKind.METRICS, BodyKind.STATISTICS), (BodyKind.METRICS,)])
def test_since_when_nothing_was_read_is_known_without_a_service(silent: tuple[BodyKind, ...]):
    watched, read = WatchedServers({SERVER: ()}), []
    for one in story_scrapes({("m", "1"): [Did(requests=40)] * 3}):
        failed = one.kind in silent and one.at > START + 4
        watched.add(replace(one, body=None, error="connection refused") if failed else one)
        read += [] if failed or one.kind not in (BodyKind.METRICS, BodyKind.STATISTICS) else [one.at]
    assert watched.state()["deployments"][0]["no_data_since"] == (max(read) if len(silent) > 1 else None)


def test_who_knows_of_an_incident_is_shown_below_it():
    one = {"id": "i1", "fingerprint": "f1", "deployment": "chat", "check": "x", "onset": 940.0, "seen": 1000.0}
    told = {"id": "j1", "incident": "i1", "who": "carol", "text": "rolling back"}
    known = state(incidents=[one], acknowledged=[told])
    assert frame(known, 100)[5] == "      acknowledged by carol: rolling back"
    assert gist(known) != gist(state(incidents=[one], acknowledged=[]))


@pytest.mark.parametrize(
    ("silent", "line"),
    [
        (None, "  critical model-unavailable, open: last seen 40 s ago: triton-0 was unavailable"),
        (940.0, "  critical model-unavailable, open: not read for 40 s: triton-0 was unavailable"),
    ],
)
def test_what_is_critical_and_open_stays_on_top_where_the_newest_verdict_lacks_it(silent: float | None, line: str):
    away = {"id": "i2", "fingerprint": "f2", "deployment": "chat", "check": "model-unavailable", "seen": 960.0}
    away |= {"severity": "critical", "summary": "triton-0 was unavailable"}
    other = {**away, "id": "i3", "fingerprint": "f3", "check": "bursty-arrivals", "severity": "warning"}
    shown = state(incidents=[other, away])
    shown["deployments"][0]["no_data_since"] = silent
    lines = frame(shown, 100)
    assert lines[3] == line
    assert lines[4].startswith("  warning  capacity-exceeded")
    assert lines[-1].startswith("  warning bursty-arrivals, open: ")


def test_how_many_servers_a_source_of_discovery_names_is_shown():
    found = [target(found_by="file a.json"), target(found_by="file a.json"), target(found_by="")]
    lines = frame(state(targets=found), 100)
    assert [line for line in lines if "found" in line] == ["  2 servers found by file a.json"]


def test_a_server_of_which_one_port_cannot_be_read_is_named_with_the_reason():
    partly = state(targets=[target(error="metrics: connection refused")])
    assert "  triton-0:8002 answers in part: metrics: connection refused" in frame(partly, 100)
    assert gist(partly) != gist(state())


@pytest.mark.parametrize("silent", [BodyKind.METRICS, BodyKind.STATISTICS])
def test_a_port_that_closes_while_the_other_answers_leaves_the_server_up(silent: BodyKind):
    watched = WatchedServers({SERVER: ()})
    for one in story_scrapes({("m", "1"): [Did(requests=40)] * 3}):
        failed = one.kind is silent and one.at > START
        watched.add(replace(one, body=None, error="connection refused") if failed else one)
    (shown,) = watched.state()["targets"]
    assert (shown["up"], shown["error"]) == (True, f"{silent}: connection refused")


def test_a_port_that_was_never_found_is_named_as_long_as_the_server_is_watched():
    watched = WatchedServers({SERVER: (BlindSpot(what="gauges", why="no metrics page: refused", fix="open it"),)})
    for one in story_scrapes({("m", "1"): [Did(requests=40)] * 3}):
        if one.kind is BodyKind.STATISTICS:
            watched.add(one)
    (shown,) = watched.state()["targets"]
    assert (shown["up"], shown["error"]) == (True, "no metrics page: refused")


def test_no_line_is_wider_than_the_screen_or_holds_what_would_move_it():
    shown = frame(state(summary="\x1b[2J\r\n" + "x" * 500), 60)
    assert all(len(line) <= 60 and line.isprintable() for line in shown)


def test_only_what_matters_counts_as_news():
    assert gist(state()) == gist({**state(), "now": 2000.0})
    assert gist(state()) == gist(state(summary="requests wait a little longer"))
    assert gist(state()) != gist(state(up=False))
    assert gist(state()) != gist({**state(), "error": "connection refused"})


@pytest.mark.parametrize("verb", ["watch", "explain"])
def test_without_a_service_one_line_says_what_to_do(verb: str, capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.delenv("DIAG_HISTORY__DIRECTORY", raising=False)
    assert main([verb, *CLOSED]) == 3
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err == (
        "diag: http://127.0.0.1:1: no service answers: connection refused; "
        "start one with diag serve, name it with --url, or name a SOURCE\n"
    )


@pytest.mark.parametrize("verb", ["watch", "explain", "slo"])
def test_a_service_that_wants_credentials_is_reported_how_they_are_given(verb: str, capsys: pytest.CaptureFixture[str]):
    paths = ("/api/v1/state", "/api/v1/targets", "/api/v1/slos")
    with FakeServer({f"GET {path}": status(403) for path in paths}).running() as server:
        assert main([verb, "--url", server.url]) == 3
    reported = f"HTTP 403, credentials are missing; give credentials: {ON_THE_COMMAND_LINE}\n"
    assert capsys.readouterr().err == f"diag: {server.url}: {reported}"


def test_a_server_is_watched_without_a_service(capsys: pytest.CaptureFixture[str]):
    with fake_triton() as fake:
        arguments = ["watch", f"127.0.0.1:{fake.port}", "--once", "--interval", "1s", "--output", "json"]
        assert main(arguments) == 0
    reported = json.loads(capsys.readouterr().out)
    assert [one["up"] for one in reported["targets"]] == [True]
    assert [one["servers"] for one in reported["deployments"]] == [[one["server"] for one in reported["targets"]]]


@pytest.mark.parametrize(
    ("arguments", "stated"),
    [
        (["watch", "x", "--url", "http://y"], "--url: not together with a SOURCE"),
        (["explain", "x", "--url", "http://y"], "--url: not together with a SOURCE"),
        (["explain", "--url", "http://y:1", "--window", "5s"], "--window: not for a running service"),
        (["explain", "--url", "http://y:1", "--history", "."], "--history: not for a running service"),
        (["watch", "."], "a recording does not change"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(arguments: list[str], stated: str, capsys):
    assert main(arguments) == 2
    assert stated in capsys.readouterr().err


@pytest.mark.parametrize("output", ["text", "markdown", "html", "json"])
def test_the_service_explains_as_the_tool_itself_does(output: str, capsys, monkeypatch):
    monkeypatch.delenv("DIAG_HISTORY__DIRECTORY", raising=False)
    with door() as opened_door:
        stated = shown(opened_door)
        assert main(["explain", "--url", opened_door.url, "--deployment", NAME, "--output", output]) == 0
        assert capsys.readouterr().out.rstrip("\n") == stated[output].rstrip("\n")
        assert main(["watch", "--url", opened_door.url, "--once"]) == 0
        assert f"\n{NAME}  degraded (" in capsys.readouterr().out


def test_one_answer_holds_the_text_and_what_it_means_to_scripts(capsys, monkeypatch):
    monkeypatch.delenv("DIAG_HISTORY__DIRECTORY", raising=False)
    requested, answer = [], RunningService.answer

    def counted(service: RunningService, path: str, **query: str) -> HttpAnswer:
        requested.append(path)
        return answer(service, path, **query)

    monkeypatch.setattr(RunningService, "answer", counted)
    with door() as opened_door:
        shown(opened_door)
        about = ["explain", "--url", opened_door.url, "--deployment", NAME]
        assert main([*about, "--fail-on", "warning"]) == 1
        assert main([*about, "--fail-on", "critical", "--output", "markdown"]) == 1
    assert requested == [f"/deployments/{NAME}/explanation"] * 2


def test_an_answer_of_something_else_is_none(capsys, monkeypatch):
    monkeypatch.delenv("DIAG_HISTORY__DIRECTORY", raising=False)
    monkeypatch.setattr(RunningService, "answer", lambda *_, **__: HttpAnswer(b"{}", {}))
    assert main(["explain", "--url", "http://127.0.0.1:1", "--deployment", NAME]) == 3
    assert "http://127.0.0.1:1: answers, but not as diag serve does; give the address" in capsys.readouterr().err


SLO = {"name": "a", "objective": 0.99, "sli": None, "alerts": [], "period": {"seconds": 3600.0}}


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["slo"], {"slos": [1, 2]}),
        (["slo"], {"slos": "none"}),
        (["slo"], {"slos": [{"name": "a"}]}),
        (["slo"], {"slos": [{**SLO, "events": {"total": "many"}, "budget": {"left": None}}]}),
        (["slo", "--output", "json"], {"slos": [{**SLO, "events": {"total": float("nan")}, "budget": {"left": 1.0}}]}),
        (["watch", "--once"], {**state(), "version": 1, "deployments": [1]}),
        (["watch", "--once"], {**state(), "version": 1, "incidents": "none"}),
        (["watch", "--once"], {**state(), "version": 1, "now": 1e300}),
        (["watch", "--once"], {**state(), "version": 1, "targets": [{"deployment": "chat"}]}),
        (["watch", "--once"], {**state(), "version": 1, "targets": [target(found_by=["x"])]}),
        (["explain"], [{"deployment": ["chat"]}]),
        (["explain", "--deployment", "chat", "--why-not", "cold-start"], {"account": 1}),
    ],
)
def test_an_answer_of_another_shape_is_reported_as_anothers(
    arguments: list[str], answer: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    body = json.dumps(answer).encode()
    monkeypatch.setattr(RunningService, "answer", lambda *_, **__: HttpAnswer(body, {}))
    assert main([*arguments, "--url", CLOSED[1]]) == 3
    reported = capsys.readouterr()
    assert (reported.out, reported.err.count("\n")) == ("", 1)
    assert reported.err.startswith(f"diag: {CLOSED[1]}: answers, but not as diag serve does; give the address")


def test_an_objective_that_the_service_leaves_out_is_not_shown_as_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    body = json.dumps({"slos": [{**SLO, "events": {"total": 1}, "budget": {"left": None}}]}).encode()
    monkeypatch.setattr(RunningService, "answer", lambda *_, **__: HttpAnswer(body, {}))
    (tmp_path / "slos.yaml").write_text("slo:\n- {name: b, model: chat, objective: 0.99, latency: 500ms}\n")
    assert main(["slo", "--slo", str(tmp_path / "slos.yaml"), "--url", CLOSED[1]]) == 3
    assert "answers, but not as diag serve does" in capsys.readouterr().err


def shown(opened_door: Door) -> dict[str, str]:
    """Show a verdict on the board, and return it in every form."""
    verdicts = judged()
    show(opened_door.service, verdicts)
    explanation = verdicts[-1].explanation
    return {
        "text": text(explanation),
        "markdown": markdown(explanation),
        "html": html(explanation),
        "json": json.dumps(report(explanation), indent=1),
    }
