"""Requests that waited for a load, where the load took away the counters that would show it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import START, Counts, Stage, SyntheticTriton, chain, model_config
from tests.builders import explained as explained_window
from tests.builders_changes import config_read

READS, INTERVAL = 40, 2.0
PREP = Stage("prep", rate=10.0, execution=0.002, config=model_config("prep"))
SAFETY = Stage("safety", rate=10.0, execution=0.02, queue=0.001, config=model_config("safety"))
CHAT = Stage("chat", rate=10.0, overhead=0.0235, config=chain("chat", "prep", "safety"))
Rows = dict[tuple[str, str], Counts]


def served(
    *loads: int,
    waits: float = 0.0,
    waiting: float = 0.0,
    at: int = 20,
    stages: tuple[Stage, ...] = (CHAT, PREP, SAFETY),
) -> list[Scrape]:
    """Return the bodies of a server whose `safety` is loaded before some reads, as Triton 24.10 shows it.

    Args:
        loads: reads before which it was loaded: its statistics and its ensemble's begin anew; the page goes on.
        waits: seconds that each of `waiting` requests waited up to read `at`, in the ensemble's row of the page alone.
        waiting: how many.
        at: the read that shows them first.
        stages: what is served.

    """
    triton = SyntheticTriton(models=stages, interval=INTERVAL, cpu_busy=0.2)

    def held(number: int, rows: Rows) -> Mapping[tuple[str, str], Counts]:
        if number < at:
            return rows
        row = rows["chat", "1"]
        return {**rows, ("chat", "1"): replace(row, seconds=row.spent + waits * waiting)}

    def anew(number: int, rows: Rows) -> Mapping[tuple[str, str], Counts]:
        last = max((load for load in loads if load <= number), default=None)
        if last is None:
            return rows
        began = triton.before + (last - 0.5) * INTERVAL
        of = {stage.name: stage.after(began) for stage in stages}
        return {key: row - of[key[0]] if key[0] in ("safety", "chat") else row for key, row in rows.items()}

    page = replace(triton, alter=held).scrapes(READS)
    reported = replace(triton, alter=anew).scrapes(READS)
    return [one for one in page if one.kind is not BodyKind.STATISTICS] + [
        s for s in reported if s.kind is BodyKind.STATISTICS
    ]


def explained(scrapes: list[Scrape]) -> Explanation:
    return explained_window(window_of(scrapes))


def causes(explanation: Explanation) -> list[str]:
    return [one.check for one in explanation.actionable]


def frozen(*kinds: BodyKind) -> list[Scrape]:
    """Return a load after which some bodies repeat themselves for ten seconds, and go on then."""
    scrapes = served(20)
    last = {one.kind: one.body for one in scrapes if one.kind in kinds and one.at == START + 28.0}
    return [
        replace(one, body=last[one.kind]) if one.kind in kinds and START + 28.0 < one.at < START + 40.0 else one
        for one in scrapes
    ]


def clients(*slow: tuple[float, float], every: float = 0.1) -> Scrape:
    """Return a client's record of requests of 24 ms, and of slow ones: when they were sent, and their seconds."""
    sent = [(number * every, 0.024) for number in range(round(READS * INTERVAL / every))]
    rows = [
        {"t": START + at, "model": "chat", "ms": took * 1e3, "ok": True, "code": 200} for at, took in [*sent, *slow]
    ]
    body = "\n".join(json.dumps(row) for row in rows).encode()
    return Scrape(server="", kind=BodyKind.CLIENT, at=START, mono=START, body=body)


def test_ten_second_waits_that_the_ensembles_row_knows_are_the_loads() -> None:
    reported = explained(served(20, waits=9.5, waiting=80))
    assert causes(reported)[0] == "model-reload-stall"
    assert reported.actionable[0].subject.model == "safety"
    assert reported.actionable[0].impact.share_of_latency > 0.5


def test_waits_that_clients_alone_know_are_the_loads() -> None:
    slow = [(31.0 + number / 10, 9.0 - number / 10) for number in range(60)]
    reported = explained([*served(20), clients(*slow)])
    assert causes(reported)[0] == "model-reload-stall"
    assert reported.actionable[0].impact.share_of_latency > 0.5


def test_answers_that_stop_for_a_load_and_come_at_once_are_the_loads() -> None:
    """Nothing is answered for ten seconds before the load ends, and a hundred requests are then."""
    assert causes(explained(frozen(BodyKind.METRICS, BodyKind.STATISTICS)))[0] == "model-reload-stall"


def test_a_page_that_was_repeated_around_a_load_is_no_stop_where_the_statistics_go_on() -> None:
    assert causes(explained(frozen(BodyKind.METRICS))) == []


def test_a_record_of_all_clients_that_did_not_wait_denies_a_stop() -> None:
    assert causes(explained([*frozen(BodyKind.METRICS, BodyKind.STATISTICS), clients(every=0.045)])) == []


@pytest.mark.parametrize("loads", [(20,), (10, 18, 26, 34)], ids=["one load", "four loads"])
def test_loads_that_nobody_waits_for_are_no_fault_and_no_several_servers(loads: tuple[int, ...]) -> None:
    reported = explained(served(*loads))
    assert reported.verdict is Verdict.HEALTHY, (reported.reason, causes(reported))


def test_four_loads_with_waits_are_found_too() -> None:
    reported = explained(served(10, 18, 26, 34, waits=9.5, waiting=80, at=18))
    assert causes(reported)[0] == "model-reload-stall"


def test_waits_at_another_time_are_not_the_loads() -> None:
    assert "model-reload-stall" not in causes(explained(served(10, waits=9.5, waiting=80, at=30)))
    slow = [(61.0 + number / 10, 5.0) for number in range(60)]
    assert "model-reload-stall" not in causes(explained([*served(10), clients(*slow)]))


@pytest.mark.parametrize("took", [2.0, 4.0])
def test_a_backlog_from_before_that_meets_a_load_did_not_wait_for_it(took: float) -> None:
    """Requests take seconds longer up to the load, which falls between 38 and 40 s, and some are still under way."""
    slow = [(33.0 + number / 20, took) for number in range(100)]
    reported = explained([*served(20), clients(*slow)])

    assert "model-reload-stall" not in causes(reported)


def test_counters_of_all_models_that_jump_between_two_servers_are_no_loads() -> None:
    other = [
        replace(one, body=two.body)
        for one, two in zip(
            SyntheticTriton(models=(CHAT, PREP, SAFETY), before=100.0, interval=INTERVAL).scrapes(READS),
            SyntheticTriton(models=(CHAT, PREP, SAFETY), before=9_000.0, interval=INTERVAL).scrapes(READS),
            strict=True,
        )
        if int((one.at - START) / INTERVAL) % 3 == 1 and one.kind in (BodyKind.METRICS, BodyKind.STATISTICS)
    ]
    replaced = {(one.kind, one.at) for one in other}
    own = SyntheticTriton(models=(CHAT, PREP, SAFETY), before=100.0, interval=INTERVAL).scrapes(READS)
    reported = explained([*(one for one in own if (one.kind, one.at) not in replaced), *other])
    assert reported.verdict is Verdict.INSUFFICIENT_DATA
    assert "several servers" in reported.reason


def test_a_few_requests_in_a_hundred_that_waited_once_are_no_fault() -> None:
    slow = [(33.0 + number / 10, 6.0) for number in range(10)]
    assert causes(explained([*served(20), clients(*slow)])) == []


BEGUN, DONE = 50.5, 60.0


def load_duration(seconds: float) -> str:
    return f'nv_model_load_duration_secs{{model="safety",version="1"}} {seconds}'


def held_by_a_load(interval: float, *, holds: bool = True, timed: bool = True) -> list[Scrape]:
    """Return reads of a load that changes a setting from BEGUN to DONE, and holds what is asked meanwhile."""
    waited = CHAT.rate * (DONE - BEGUN) ** 2 / 2
    triton = SyntheticTriton(
        models=(CHAT, PREP, SAFETY),
        interval=interval,
        before=1000.0,
        extra_metrics=lambda number: [load_duration(DONE - BEGUN if number * interval >= DONE else 0.4)] * timed,
    )

    def seen(name: str, number: int) -> Counts:
        stage, time = next(one for one in triton.models if one.name == name), number * interval
        still = BEGUN if holds and BEGUN < time < DONE and name != "prep" else time
        row = stage.after(triton.before + still)
        late = waited if holds and name == "chat" and time >= DONE else 0.0
        return replace(row, seconds=row.spent + late)

    def page(number: int, rows: Rows) -> Mapping[tuple[str, str], Counts]:
        return {key: seen(key[0], number) for key in rows}

    def anew(number: int, rows: Rows) -> Mapping[tuple[str, str], Counts]:
        shown = page(number, rows)
        if number * interval < DONE:
            return shown
        of = {stage.name: stage.after(triton.before + (BEGUN if holds else DONE)) for stage in triton.models}
        return {key: row if key[0] == "prep" else row - of[key[0]] for key, row in shown.items()}

    reads = round(2 * DONE / interval) + 1
    counted = replace(triton, alter=page).scrapes(reads)
    reported = replace(triton, alter=anew).scrapes(reads)
    bodies = [one for one in counted if one.kind is not BodyKind.STATISTICS]
    changed = replace(SAFETY, config=model_config("safety", batching={"max_queue_delay_microseconds": 600}))
    return [
        *bodies,
        *(one for one in reported if one.kind is BodyKind.STATISTICS),
        config_read(changed, -(-DONE // interval) * interval + 0.05),
    ]


@pytest.mark.parametrize("timed", [True, False], ids=["with the load's time", "without"])
@pytest.mark.parametrize("interval", [1.0, 5.0, 15.0])
def test_a_slow_load_that_changes_a_setting_is_found_however_often_it_is_read(interval: float, timed: bool) -> None:
    reported = explained(held_by_a_load(interval, timed=timed))
    assert causes(reported)[:1] == ["model-reload-stall"], (reported.verdict, reported.reason, causes(reported))
    assert reported.actionable[0].subject.model == "safety"
    assert [str(change) for _, change in reported.changes] == ["settings of safety changed: dynamic_batching off → on"]


@pytest.mark.parametrize("interval", [1.0, 5.0, 15.0])
def test_a_slow_load_that_nobody_waits_for_is_no_fault_however_often_it_is_read(interval: float) -> None:
    reported = explained(held_by_a_load(interval, holds=False))
    assert causes(reported) == []
    assert reported.verdict is Verdict.HEALTHY, reported.reason
