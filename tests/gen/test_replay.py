"""How often alerts would have fired: `for` after the fact, and a real Prometheus that holds three hours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diagnostics.cli.main import main
from diagnostics.cli.replaying import _requested, _there, known, opened
from diagnostics.errors import UsageError
from diagnostics.gen.alert import firings
from diagnostics.gen.example_series import Load, model_load
from diagnostics.wire.prometheus_answer import QueryResult, SampledSeries
from exporters.sources.access import SourceOptions
from exporters.sources.prometheus_api import TooMuch
from tests.stack.prometheus import prometheus

Printed = pytest.CaptureFixture[str]


def _spans(*times: float, hold: float = 120.0, keep: float = 0.0) -> list[tuple[float, float]]:
    return [(one.begin, one.end) for one in firings({}, times, hold=hold, step=60.0, keep=keep)]


def test_what_holds_for_less_than_its_rule_says_fires_never() -> None:
    assert _spans(60, 120) == []


def test_what_holds_fires_after_its_time_and_ends_with_the_first_evaluation_that_fails() -> None:
    assert _spans(60, 120, 180, 240) == [(180, 300)]


def test_a_gap_begins_the_wait_anew_and_each_stretch_fires_by_itself() -> None:
    assert _spans(60, 120, 180, 300, 360, 420) == [(180, 240), (420, 480)]


def test_without_a_wait_one_evaluation_is_enough() -> None:
    assert _spans(60, hold=0) == [(60, 120)]


def test_an_alert_that_is_kept_outlasts_short_gaps_and_fires_anew_after_long_ones() -> None:
    flapping = (60, 120, 180, 300, 420)
    assert _spans(*flapping, keep=120) == [(180, 600)]
    assert _spans(*flapping, 1020, 1080, 1140, keep=120) == [(180, 600), (1140, 1320)]


def test_nothing_that_holds_is_no_firing() -> None:
    assert _spans() == []


class Refusing:
    """A store that answers four hours at most."""

    def __init__(self) -> None:
        self.requested: list[tuple[float, float]] = []

    def ranged(self, query: str, start: float, end: float, step: float) -> QueryResult:
        if end - start > 4 * 3600:
            raise TooMuch("too much")
        self.requested.append((start, end))
        return QueryResult(series=())


class OfTheLastMinute:
    """A store whose first scrape came after the last full minute."""

    def clock(self) -> float:
        return 1_000_030.0

    def ranged(self, query: str, start: float, end: float, step: float) -> QueryResult:
        return QueryResult(series=())

    def instant(self, query: str) -> QueryResult:
        labels = {"__name__": "nv_inference_count"} if "__name__" in query else {}
        return QueryResult(series=(SampledSeries(labels=labels, times=[self.clock()], values=[1.0]),))


def test_what_was_first_scraped_in_this_minute_is_no_series_that_does_not_exist() -> None:
    store = OfTheLastMinute()
    assert known(store, 3600.0) == 60.0  # type: ignore[arg-type]
    assert _there(store, ["nv_inference_count"], 999_960.0, 1_000_020.0) == {"nv_inference_count"}  # type: ignore[arg-type]


class WithoutScrapes(OfTheLastMinute):
    def instant(self, query: str) -> QueryResult:
        return QueryResult(series=())


def test_a_store_that_scraped_nothing_is_replayed_as_requested_and_that_is_stated(capsys: Printed) -> None:
    assert known(WithoutScrapes(), 3600.0) == 3600.0  # type: ignore[arg-type]
    reported = capsys.readouterr().err
    assert reported == "diag: the store has no series up: whether it has a history of that time is not known\n"


def test_a_replay_from_before_1970_and_a_span_without_a_replay_are_one_line(capsys: Printed) -> None:
    with pytest.raises(UsageError, match="--since: reaches back beyond 1970; write"):
        known(OfTheLastMinute(), 1e12)  # type: ignore[arg-type]
    assert main(["gen", "rules", "--since", "7d"]) == 2
    assert capsys.readouterr().err == "diag: --since: is for a replay; name a Prometheus with --replay\n"


def test_the_store_of_a_replay_may_be_named_by_host_and_port_alone() -> None:
    urls = ("prom:9090", "http://prom:9090", "prometheus+http://prom:9090", "prometheus+prom:9090")
    assert {opened(url, SourceOptions()).address.base for url in urls} == {"http://prom:9090"}


def test_a_store_that_refuses_a_day_is_requested_parts_that_meet_and_do_not_overlap() -> None:
    store = Refusing()
    list(_requested(store, "up", 0.0, 2 * 86_400.0, 86_400.0))  # type: ignore[arg-type]
    assert store.requested[0][0] == 0
    assert store.requested[-1][1] == 2 * 86_400
    assert all(
        start == before + 60 for (_, before), (start, _) in zip(store.requested, store.requested[1:], strict=False)
    )


def _history(now: float) -> Iterator[str]:
    """Yield three hours of a model in OpenMetrics: well, slow for 40 minutes, well, slow for 30, well, slow for 5."""
    well, slow = model_load(queue_ms=1), model_load(queue_ms=60)
    minutes: list[Load] = [
        *[well] * 20,
        *[slow] * 40,
        *[well] * 30,
        *[slow] * 30,
        *[well] * 30,
        *[slow] * 5,
        *[well] * 10,
    ]
    begin = now - 60 * len(minutes)
    for name in well:
        yield f"# TYPE {name.partition('{')[0]} unknown"
        value = 0.0
        for minute, load in enumerate(minutes):
            value = value + load[name].value if load[name].counter else load[name].value
            yield f"{name.replace(', ', ',')} {value} {begin + 60 * minute}"
    yield "# EOF"


@pytest.mark.live
def test_a_real_prometheus_tells_which_alerts_would_have_fired_and_which_cannot_be_judged(
    tmp_path: Path, promtool: Callable, capsys: Printed
) -> None:
    written = tmp_path / "history.txt"
    written.write_text("\n".join(_history(time.time() // 60 * 60)) + "\n")
    done = promtool("tsdb", "create-blocks-from", "openmetrics", written, tmp_path / "data")
    assert done.returncode == 0, done.stderr
    with prometheus(tmp_path, [], "http://127.0.0.1:9", []) as store:
        assert main(["gen", "rules", "--replay", store.url, "--since", "3h"]) == 0
    reported = capsys.readouterr().out
    assert "TritonModelQueueDominates (warning) would have fired 2 times, on 1 subject" in reported

    assert "more cannot be judged: no series diag_finding\n" in reported
    assert "TritonHostCpuFull cannot be judged: no series nv_cpu_utilization\n" in reported
    assert reported.startswith("over the last 3h, evaluated every 1m:\n")
    assert "TritonRequestsFail (" not in reported
    assert "TritonServersAbsent (" not in reported


def test_a_store_that_is_not_there_is_one_line(capsys: Printed) -> None:
    assert main(["gen", "rules", "--replay", "http://127.0.0.1:1"]) == 3
    reported = capsys.readouterr()
    assert (reported.out, reported.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--replay", "http://127.0.0.1:1?selector={job='a'}"],
        ["--replay", "ftp://a"],
        ["--check", "--replay", "http://a"],
    ],
)
def test_a_replay_that_makes_no_sense_is_refused_in_one_line(capsys: Printed, arguments: list[str]) -> None:
    assert main(["gen", "rules", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
