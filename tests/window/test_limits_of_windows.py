"""Each number of a window at which the answer turns: what is said a little below it, and a little above."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from diagnostics.window.counters import Counter, CounterPoint, CounterTable, doubtful_openings
from diagnostics.window.graph import path_of
from diagnostics.window.logs import parse_log
from diagnostics.window.onset import rise
from diagnostics.window.points import CounterStep, Numbers, Opened, plausible
from diagnostics.window.traces import TracedVisit

DAY = 86_400.0


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([10.0] * 8 + [14.5] * 8, False),
        ([10.0] * 8 + [15.5] * 8, True),
        ([10.0] * 8 + [195.0] + [10.0] * 8, False),
        ([10.0] * 8 + [205.0] + [10.0] * 8, True),
        ([10.0] * 8 + [40.0], False),
        ([10.0] * 8 + [40.0] * 2, True),
        ([10.0] * 2 + [40.0] * 8, False),
        ([10.0] * 3 + [40.0] * 8, True),
        ([10.0] * 32 + [40.0] * 32, True),
        ([10.0] * 33 + [40.0] * 32, False),
        ([8.0, 12.0] * 4 + [16.0, 20.0] * 4, False),  # t = 7.5
        ([8.0, 12.0] * 4 + [17.1, 21.1] * 4, True),  # t = 8.5
    ],
)
def test_a_rise_begins_at_its_limits(values: list[float], found: bool) -> None:
    assert (rise(values) is not None) is found


def step(number: int, requests: float, *, opened: Opened = Opened.BEFORE_WINDOW, unwatched: float = 2.0) -> CounterStep:
    return CounterStep(
        start=2.0 * number,
        end=2.0 * number + 2,
        seconds=2.0,
        unwatched=unwatched,
        values={Counter.SUCCESS: requests},
        batches={},
        opened=opened,
        first=opened is not Opened.BEFORE_WINDOW,
        from_zero=False,
    )


@pytest.mark.parametrize(
    ("usual", "requests", "unwatched", "others", "doubtful"),
    [
        (100.0, 290.0, 2.0, 6, False),  # at most three times the usual rate
        (100.0, 310.0, 2.0, 6, True),
        (1.0, 29.0, 2.0, 6, False),  # of few requests any number may come
        (1.0, 31.0, 2.0, 6, True),
        (100.0, 100.0, 5.9, 6, False),  # at most three rounds missed
        (100.0, 100.0, 6.1, 6, True),
        (100.0, 310.0, 2.0, 2, False),  # two others tell nothing
        (100.0, 310.0, 2.0, 3, True),
    ],
)
def test_a_first_step_is_doubted_from_its_limits_on(
    usual: float, requests: float, unwatched: float, others: int, doubtful: bool
) -> None:
    opening = step(others, requests, opened=Opened.APPEARED, unwatched=unwatched)

    assert bool(doubtful_openings([*(step(i, usual) for i in range(others)), opening])) is doubtful


@pytest.mark.parametrize(
    ("values", "possible"),
    [
        ({Counter.SUCCESS: 1.0, Counter.QUEUE_SECONDS: 6.9 * DAY}, True),
        ({Counter.SUCCESS: 1.0, Counter.QUEUE_SECONDS: 7.1 * DAY}, False),
        ({Counter.SUCCESS: 0.99e7 * 2}, True),
        ({Counter.SUCCESS: 1.01e7 * 2}, False),
    ],
)
def test_what_a_server_can_have_done_in_two_seconds(values: dict[Counter, float], possible: bool) -> None:
    assert plausible(values, {}, 2.0) is possible


@pytest.mark.parametrize(
    ("reads", "jumps", "unsteady"), [(14, 2, False), (14, 3, True), (24, 3, False), (23, 3, True), (25, 4, True)]
)
def test_counters_that_jump_back_too_often_mean_nothing(reads: int, jumps: int, unsteady: bool) -> None:
    """Each epoch counts at least two reads, so that none of them stands out alone."""
    assert read_with_falls(reads, jumps, begun=10_000.0, to=lambda last: last - 200.0).unsteady is unsteady


@pytest.mark.parametrize(("reads", "jumps"), [(14, 3), (14, 6)])
def test_counters_that_begin_at_zero_again_and_again_are_those_of_loads(reads: int, jumps: int) -> None:
    table = read_with_falls(reads, jumps, begun=0.0, to=lambda _: 0.0)
    assert len(table.loaded_at) == len(table.fell_at) == jumps
    assert not table.unsteady


def read_with_falls(reads: int, jumps: int, *, begun: float, to: Callable[[float], float]) -> CounterTable:
    table, last = CounterTable("statistics"), begun
    restarts = {reads - 2 * (jump + 1) for jump in range(jumps)}
    for number in range(reads):
        last = to(last) if number in restarts else last + 10.0
        values = dict.fromkeys((Counter.SUCCESS, Counter.EXECUTIONS, Counter.INFERENCES), last)
        table.add(CounterPoint(at=2.0 * number, mono=2.0 * number, values=Numbers(values), batches={}), None)
    return table


@pytest.mark.parametrize(("early", "steps"), [(900_000, 2), (1_100_000, 1)])
def test_a_stage_that_starts_a_millisecond_before_its_source_ends_comes_after_it(early: int, steps: int) -> None:
    def visit(model: str, start: int, end: int, *below: TracedVisit) -> TracedVisit:
        return TracedVisit(model, "1", start, end, None, None, None, None, None, below)

    root = visit("e", 0, 90_000_000, visit("a", 0, 50_000_000), visit("b", 50_000_000 - early, 90_000_000))
    path = path_of(root, None)

    assert path is not None
    assert len(path.steps) == steps


def test_a_reason_keeps_its_first_four_hundred_characters() -> None:
    line = b"E1127 21:12:57.0 8447 a.cc:1] \"failed to load 'm' version 1: " + b"x" * 1000 + b'"'

    assert len(parse_log(line, 0.0)[0].reason) == 400
