"""A store that answers each question in time and all of them too late, or refuses some: what was reached is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from diagnostics.cli.main import main
from exporters.sources import prometheus_api
from tests.promql.fake_prometheus import FakePrometheus

Printed = pytest.CaptureFixture[str]
SLOTH = """\
version: prometheus/v1
service: web
slos:
"""
ONE = """\
  - name: {name}
    objective: 99
    sli:
      events:
        error_query: "sum(rate({name}_bad[{{{{.window}}}}]))"
        total_query: "sum(rate({name}_all[{{{{.window}}}}]))"
"""


@dataclass
class Slow(FakePrometheus):
    """Answers with one sample to everything; its clock goes on with each answer, if nobody waits for it."""

    seconds: float = 0.0
    later: float = 0.0
    refused: str = "nothing"
    captured: list[str] = field(default_factory=list)

    def answer(self, query: str, at: float) -> tuple[int, bytes]:
        self.later += self.seconds
        self.captured.append(query)
        if self.refused in query:
            return 422, b'{"status":"error","errorType":"execution","error":"too many samples"}'
        labels = {"__name__": "nv_inference_request_success"} if "__name__" in query else {"part": "total"}
        one = {"metric": labels, "value": [at, "1"], "values": [[at, "1"]]}
        return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": [one]}}).encode()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    fake = Slow(now=1.8e9)
    monkeypatch.setattr(prometheus_api, "time", SimpleNamespace(monotonic=lambda: fake.later))
    monkeypatch.setattr(prometheus_api.PrometheusApi, "clock", lambda _: fake.now)
    with fake.running():
        yield fake


def objectives(folder: Path, *names: str) -> str:
    file = folder / "slos.yaml"
    file.write_text(SLOTH + "".join(ONE.format(name=name) for name in names))
    return str(file)


def test_objectives_are_requested_two_minutes_in_all_and_those_that_were_reached_are_reported(
    slow: Slow, tmp_path: Path, capsys: Printed
) -> None:
    slow.seconds = 8.0
    assert main(["slo", slow.url, "--slo", objectives(tmp_path, "one", "two", "three")]) == 3
    reported = capsys.readouterr()
    assert len(slow.captured) == 15
    assert [line.split(":")[0] for line in reported.out.splitlines() if line.startswith("web-")] == ["web-one"]
    assert "web-two: the 120 s for all questions are over before an answer to " in reported.err
    assert "(1 of 3 objectives have values); look at the store's load, ask for less with --period" in reported.err
    assert reported.err.count("\n") == 1


def test_an_objective_that_the_store_refuses_does_not_hide_the_others(
    slow: Slow, tmp_path: Path, capsys: Printed
) -> None:
    slow.refused = "two_all"
    assert main(["slo", slow.url, "--slo", objectives(tmp_path, "one", "two", "three"), "--output", "json"]) == 3
    reported = capsys.readouterr()
    assert [one["name"] for one in json.loads(reported.out)["slos"]] == ["web-one", "web-three"]
    assert "web-two: the query was not answered (HTTP 422" in reported.err
    assert reported.err.count("\n") == 1


def test_a_store_of_which_nothing_was_reached_is_one_line(slow: Slow, tmp_path: Path, capsys: Printed) -> None:
    slow.refused = "_all"
    assert main(["slo", slow.url, "--slo", objectives(tmp_path, "one")]) == 3
    reported = capsys.readouterr()
    assert (reported.out, reported.err.count("\n")) == ("", 1)
    assert "web-one: the query was not answered" in reported.err
    assert "objectives are told" not in reported.err


def test_alerts_are_replayed_for_two_minutes_in_all_and_those_that_were_reached_are_reported(
    slow: Slow, capsys: Printed
) -> None:
    slow.seconds = 20.0
    assert main(["gen", "rules", "--replay", slow.url, "--since", "1h"]) == 3
    reported = capsys.readouterr()
    assert len(slow.captured) == 6
    assert reported.out.startswith("over the last 1m, evaluated every 1m:\n")
    assert "the 120 s for all questions are over before an answer to " in reported.err
    assert " alerts are replayed); look at the store's load, ask for less with --since" in reported.err
