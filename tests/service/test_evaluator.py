from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.diagnose import DiagnosisOptions
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import EndToEnd
from diagnostics.diagnosis.incident import IncidentBook, IncidentTransition
from diagnostics.diagnosis.validation import CpuBudget
from diagnostics.evidence.evidence import Evidence
from diagnostics.service import deployment as deployments
from diagnostics.service import evaluator
from diagnostics.service.deployment import MOST_WAITING, Deployment, Gone
from diagnostics.service.evaluator import Evaluator, SimulationCredit
from diagnostics.service.log_lines import LoggedEvent
from diagnostics.service.own.lags import EvaluationLags, late_after
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.state import Evaluation, StateBoard
from diagnostics.window.rolling import RollingWindow
from diagnostics.wire.records import Scrape
from tests.builders import Stage, SyntheticTriton, model_config
from tests.service.parts import count, scrape, until

SLOW = Stage("slow", rate=38, execution=0.0245, queue=0.17, failing={"BACKEND": 5.0}, config=model_config("slow"))


def deployment(name: str, metrics: OwnMetrics, interval: float = 0.02, **rules: float) -> Deployment:
    book = IncidentBook(name, **rules)
    return Deployment(name, RollingWindow(name, 300.0, max_spans=1_000), book, metrics, interval=interval)


class Lived:
    def __init__(self) -> None:
        self.metrics, self.board = OwnMetrics(), StateBoard(0.0)
        self.taken: list[Evaluation] = []
        self.evaluator = Evaluator(self.board, [self], self.metrics)

    def consume(self, evaluation: Evaluation) -> None:
        self.taken.append(evaluation)

    def put(self, one: Deployment, *scrapes: Scrape) -> None:
        for each in scrapes:
            one.give(each)
        self.evaluator.notify(one)

    def of(self, name: str) -> list[Evaluation]:
        return [one for one in self.taken if one.deployment == name]


@contextlib.contextmanager
def judging() -> Iterator[Lived]:
    lived = Lived()
    lived.evaluator.start()
    try:
        yield lived
    finally:
        lived.evaluator.stop()


def slow_scrapes() -> Sequence[Scrape]:
    return SyntheticTriton(models=(SLOW,), interval=15.0).scrapes(12)


def test_a_verdict_reaches_the_board_and_every_consumer():
    with judging() as lived:
        one = deployment("chat", lived.metrics, open_after=1)
        lived.put(one, *slow_scrapes())
        until(lambda: lived.taken)
    (evaluation,) = lived.taken
    assert evaluation.explanation.verdict is Verdict.DEGRADED
    assert lived.board.read().evaluations["chat"] is evaluation
    assert {one.deployment for one in lived.board.read().incidents} == {"chat"}
    assert {change.kind for change in evaluation.changes} == {IncidentTransition.OPENED}
    assert count(lived.metrics, "diag_incidents_open", deployment="chat") == len(lived.board.read().incidents)
    assert count(lived.metrics, "diag_evaluation_seconds_count") == 1


def test_bodies_of_one_deployment_that_break_the_verdict_stop_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with judging() as lived:
        bad, good = deployment("bad", lived.metrics), deployment("good", lived.metrics)
        monkeypatch.setattr(bad, "evaluate", lambda **_: 1 / 0)
        lived.put(bad, scrape())
        until(lambda: count(lived.metrics, "diag_errors_total", part="evaluate"))
        lived.put(good, scrape())
        until(lambda: lived.of("good"))


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"<html>", b"nv_inference_request_success NaN\n", b"{" * 10_000])
def test_absurd_bodies_are_judged_as_nothing(body: bytes):
    with judging() as lived:
        one = deployment("chat", lived.metrics)
        lived.put(one, scrape(body=body), scrape(body=body))
        until(lambda: lived.taken)
    assert lived.taken[0].explanation.verdict is Verdict.INSUFFICIENT_DATA


def test_news_that_come_while_a_deployment_waits_are_judged_together():
    lived = Lived()
    one = deployment("chat", lived.metrics)
    for each in slow_scrapes():
        lived.put(one, each)
    lived.evaluator.start()
    lived.evaluator.stop()
    assert len(lived.taken) == 1


def test_rounds_of_many_servers_make_one_verdict_an_interval():
    with judging() as lived:
        one = deployment("fleet", lived.metrics, interval=0.4)
        begun = time.monotonic()
        while time.monotonic() < begun + 0.7:
            lived.put(one, scrape())
            time.sleep(0.005)
    assert len(lived.taken) <= 5


def test_the_end_judges_what_still_waits():
    with judging() as lived:
        one = deployment("chat", lived.metrics, interval=3_600.0)
        lived.put(one, scrape())
        until(lambda: lived.taken)
        lived.put(one, scrape())
    assert len(lived.taken) == 2


def test_the_end_waits_for_no_more_verdicts_than_a_few_seconds_bring(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evaluator, "SECONDS_TO_END", 0.0)
    lived, go_on = Lived(), threading.Event()
    first, waiting, left = (deployment(name, lived.metrics) for name in ("first", "waiting", "left"))
    left.give(scrape())
    left.take_in()
    left.evaluate()
    left.ended = True
    monkeypatch.setattr(first, "evaluate", lambda **_: go_on.wait(5) and 1 / 0)
    for one in (first, waiting, left):
        lived.put(one, scrape())
    lived.evaluator.start()
    ending = threading.Thread(target=lived.evaluator.stop)
    ending.start()
    until(lambda: lived.evaluator._stopped)
    go_on.set()
    ending.join(5)
    assert [one.deployment for one in lived.taken] == ["left"], "its incidents must end"


class Steps:
    """A steady clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_lag_grows_while_a_verdict_is_being_made_and_lateness_is_reported_until_it_is_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "diagnostics")
    lived, clock, go_on = Lived(), Steps(), threading.Event()
    metrics = lived.metrics
    metrics.lags = EvaluationLags(clock)
    chat = deployment("chat", metrics, interval=5.0)
    evaluate = chat.evaluate
    monkeypatch.setattr(chat, "evaluate", lambda **how: go_on.wait(10) and evaluate(**how))

    def shown(name: str) -> float:
        return count(metrics, f"diag_evaluation_{name}", deployment="chat")

    def named(event: LoggedEvent) -> int:
        return sum(getattr(line, "event", None) is event for line in caplog.records)

    lived.evaluator.start()
    lived.put(chat, scrape())
    until(lambda: not chat._inbox.qsize())
    assert (shown("lag_seconds"), shown("late")) == (0, 0)
    clock.now += 29.0
    lived.put(chat, scrape())
    assert (shown("lag_seconds"), shown("late"), metrics.faults.lasting()) == (29, 0, [])
    for _ in range(2):
        clock.now += 16.0
        lived.put(chat, scrape())
    assert (shown("lag_seconds"), shown("late"), count(metrics, "diag_faults")) == (61, 1, 1)
    (fault,) = metrics.faults.lasting()
    assert (fault.what, fault.reason) == (
        "evaluating chat",
        "evaluation is late: new data has waited 61 s for a verdict, limit 30 s",
    )
    assert (named(LoggedEvent.EVALUATION_LATE), named(LoggedEvent.EVALUATION_RECOVERED)) == (1, 0)
    go_on.set()
    until(lambda: named(LoggedEvent.EVALUATION_RECOVERED))
    lived.evaluator.stop()
    assert (shown("late"), metrics.faults.lasting()) == (0, [])
    assert named(LoggedEvent.EVALUATION_LATE) == 1


def test_data_of_a_deployment_whose_verdicts_fail_waits_on(monkeypatch: pytest.MonkeyPatch):
    lived, clock = Lived(), Steps()
    metrics = lived.metrics
    metrics.lags = EvaluationLags(clock)
    bad = deployment("bad", metrics)
    monkeypatch.setattr(bad, "evaluate", lambda **_: 1 / 0)
    lived.evaluator.start()
    for times in (1, 2):
        lived.put(bad, scrape())
        until(lambda times=times: count(metrics, "diag_errors_total", part="evaluate") == times)
        clock.now += 20.0
    lived.put(bad, scrape())
    lived.evaluator.stop()
    assert [one.what for one in metrics.faults.lasting()] == ["evaluating bad"]


@pytest.mark.parametrize(("interval", "limit"), [(1.0, 30.0), (10.0, 30.0), (15.0, 45.0), (3_600.0, 10_800.0)])
def test_a_verdict_is_late_after_three_intervals_and_thirty_seconds(interval: float, limit: float):
    assert late_after(interval) == limit


def test_forecasts_begin_for_half_the_time_after_which_a_verdict_is_late(monkeypatch: pytest.MonkeyPatch):
    budgets: list[CpuBudget] = []
    diagnose = deployments.diagnose

    def noted(evidence: Evidence, options: DiagnosisOptions) -> Explanation:
        assert options.validation.budget is not None
        budgets.append(options.validation.budget)
        return diagnose(evidence, options)

    monkeypatch.setattr(deployments, "diagnose", noted)
    with judging() as lived:
        lived.put(deployment("chat", lived.metrics, interval=20.0), *slow_scrapes())
        until(lambda: lived.taken)
    assert [one.wall_seconds for one in budgets] == [30.0]


def test_without_news_there_is_no_verdict():
    with judging() as lived:
        lived.put(deployment("chat", lived.metrics))
    assert lived.taken == []


def test_what_a_full_inbox_lets_fall_is_counted():
    metrics = OwnMetrics()
    one = deployment("chat", metrics)
    each = scrape()
    assert [one.give(each) for _ in range(MOST_WAITING)] == [True] * MOST_WAITING
    assert not one.give(each)
    assert count(metrics, "diag_dropped_total", queue="evaluation") == 1


def test_a_deployment_that_ended_closes_its_incidents_and_leaves_the_board():
    with judging() as lived:
        one = deployment("chat", lived.metrics, open_after=1)
        lived.put(one, *slow_scrapes())
        until(lambda: lived.board.read().incidents)
        one.ended = True
        lived.put(one)
        until(lambda: len(lived.taken) == 2)
    assert {change.kind for change in lived.taken[1].changes} == {IncidentTransition.CLOSED}
    assert (dict(lived.board.read().evaluations), lived.board.read().incidents) == ({}, ())
    assert lived.metrics.registry.get_sample_value("diag_incidents_open", {"deployment": "chat"}) is None


def test_a_server_that_left_is_no_part_of_the_next_verdict():
    metrics = OwnMetrics()
    one = deployment("fleet", metrics)
    for each in slow_scrapes():
        one.give(each)
        one.give(replace(each, server="triton-1"))
    one.take_in()
    assert set(one.evaluate().explanation.window.sources) == {"triton-0", "triton-1"}
    one.give(Gone("triton-1"))
    one.take_in()
    assert set(one.evaluate().explanation.window.sources) == {"triton-0"}


def test_a_run_goes_on_where_the_last_one_ended():
    metrics = OwnMetrics()
    lived, resumed = deployment("chat", metrics, open_after=1), deployment("chat", metrics, open_after=1)
    shift = time.time() - slow_scrapes()[-1].at - 15.0
    scrapes = [replace(each, at=each.at + shift) for each in slow_scrapes()]
    for each in scrapes:
        lived.give(each)
    lived.take_in()
    before = lived.evaluate()
    resumed.resume(scrapes, lived.book.open)
    now = replace(scrapes[-1], at=time.time(), mono=time.monotonic())
    resumed.give(now)
    resumed.take_in()
    after = resumed.evaluate()
    assert {one.id for one in resumed.book.open} == {one.id for one in lived.book.open}
    assert after.explanation.window.start == before.explanation.window.start
    assert {change.kind for change in after.changes} <= {IncidentTransition.UPDATED}


def test_a_server_that_answers_no_read_is_a_critical_incident_and_ends_none():
    """With rounds as the collector makes them, ever more seldom; the last ones are after all that was read."""
    metrics, interval = OwnMetrics(), 5.0
    book = IncidentBook("chat", open_after=2, close_after=30.0)
    one = Deployment("chat", RollingWindow("chat", 60.0, max_spans=1_000), book, metrics, interval=interval)
    scrapes = SyntheticTriton(models=(SLOW,), interval=interval).scrapes(12)
    found: list[Evaluation] = []

    def round_of(*some: Scrape) -> bool:
        for each in some:
            one.give(each)
        judged = one.take_in()
        found.extend([one.evaluate()] if judged else [])
        return judged

    for at in sorted({each.mono for each in scrapes}):
        round_of(*(each for each in scrapes if each.mono == at))
    before = {one.id for one in book.open}
    last = scrapes[-1]
    read = [replace(each, body=None, error="connection refused") for each in scrapes if each.mono == last.mono]
    judged = [
        round_of(*(replace(each, at=each.at + after, mono=each.mono + after) for each in read))
        for after in (interval * (2**times) for times in range(6))
    ]
    assert judged == [True, True, True, True, False, False], "within 80 s a window of 60 s holds nothing that was read"
    incidents = {incident.check: incident for incident in book.open}
    assert before < {incident.id for incident in book.open}, "nothing that was read says that they are over"
    assert incidents["model-unavailable"].severity is Severity.CRITICAL
    assert "model-unavailable" in {one.check for one in found[-1].explanation.findings}, "the last verdict stays"
    back = SyntheticTriton(models=(replace(SLOW, queue=0.0, failing={}),), interval=interval).scrapes(30)
    for at in sorted({each.mono for each in back}):
        round_of(*(replace(each, at=each.at + 600, mono=each.mono + 600) for each in back if each.mono == at))
    assert book.open == ()


@pytest.mark.parametrize("answered", [12, 1])
def test_a_server_that_dies_while_verdicts_are_late_is_an_incident(answered: int, monkeypatch: pytest.MonkeyPatch):
    """Rounds fail, ever more seldom, until a window holds nothing that was read; only then is the first verdict made.

    `answered` rounds before that wait, too.
    """
    monkeypatch.setattr(evaluator, "PAUSE", 0.0)
    lived, interval = Lived(), 5.0
    one = Deployment("chat", RollingWindow("chat", 60.0), IncidentBook("chat"), lived.metrics, interval=interval)
    scrapes = SyntheticTriton(models=(SLOW,), interval=interval).scrapes(12)
    moments = sorted({each.mono for each in scrapes})
    for each in (each for each in scrapes if each.mono < moments[-answered]):
        one.give(each)
    while one.take_in():
        one.evaluate()
    read = [replace(each, body=None, error="connection refused") for each in scrapes if each.mono == moments[-1]]
    later = [
        replace(each, at=each.at + after, mono=each.mono + after)
        for after in (5.0, 10.0, 20.0, 40.0, 80.0, 120.0)
        for each in read
    ]
    lived.put(one, *(each for each in scrapes if each.mono >= moments[-answered]), *later)
    lived.evaluator.start()
    until(lambda: not one.behind)
    lived.evaluator.stop()
    assert "model-unavailable" in {incident.check for incident in lived.board.read().incidents}
    assert len(lived.taken) == 4, "one for each round that failed while a window holds what was read"
    assert one._window._newest == later[-1].mono


def test_those_who_wait_for_the_board_are_reported_at_once():
    board, seen = StateBoard(0.0), []
    watcher = threading.Thread(target=lambda: seen.append(board.wait(0, 10.0).version))
    watcher.start()
    board.forget((), ())
    watcher.join(5)
    assert seen == [1]
    assert board.wait(1, 0.01).version == 1, "nothing new: what there is"


def test_simulations_take_a_part_of_the_thread_and_more_at_once():
    credit = SimulationCredit()
    assert credit.left(1000.0)
    credit.spend(100.0)
    assert not credit.left(1010.0)
    # 100 s less the 30 s that were saved up are back after 350 s, of which a fifth may be simulated.
    assert not credit.left(1349.0)
    assert credit.left(1351.0)


def test_what_forecasts_cost_is_part_of_what_a_verdict_does():
    with judging() as lived:
        for name in ("one", "other"):
            lived.put(deployment(name, lived.metrics, open_after=1), *slow_scrapes())
        until(lambda: len(lived.taken) > 1)
    for evaluation in lived.taken:
        assert 0 < evaluation.forecasting < evaluation.took
        predicted = [one.effect for one in evaluation.explanation.findings if isinstance(one.effect, EndToEnd)]
        assert predicted
        assert all(effect.simulated for effect in predicted)
