"""Executions under a lock last longer beside others; those that share nothing do not, however busy they are.

A small simulation of a stage's instances is what says so: requests arrive at random, at changing rates, and execute on
the first free instance, with or without a lock that lets one of them work at a time.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cache

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.signals.overlap import OVERLAP_STRETCH
from diagnostics.signals.signal import Missing
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import (
    SERVER,
    START,
    Counts,
    explained,
    host_body,
    metrics_page,
    model_config,
    statistics_body,
    view_of,
)
from tests.builders_traces import Leg, call, export, exported, trace_id

SECONDS, WORK = 120.0, 0.02
EVERY = 5.0


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """One execution, seconds from the start; ordered by its end."""

    ended: float
    arrived: float
    began: float


@cache
def runs(*, lock: bool, instances: int, rates: tuple[float, ...], seed: int = 1) -> tuple[Run, ...]:
    """Return executions, oldest first; each of the rates holds for ten seconds, in turn."""
    dice, now, found = random.Random(seed), 0.0, list[Run]()
    free, unlocked = [0.0] * instances, 0.0
    while now < SECONDS:
        now += dice.expovariate(rates[int(now / 10) % len(rates)])
        lane = min(range(instances), key=free.__getitem__)
        began = max(now, free[lane])
        turn = max(began, unlocked) if lock else began
        free[lane] = ended = turn + WORK * dice.uniform(0.9, 1.1)
        unlocked = ended
        found.append(Run(ended=ended, arrived=now, began=began))
    return tuple(found)


def pooled_runs(*, rates: tuple[float, ...], instances: int = 8, connections: int = 2, work: float = 0.06) -> list[Run]:
    """Return executions that need one of a few connections; each of the rates holds for ten seconds, in turn."""
    dice, now, found = random.Random(3), 0.0, list[Run]()
    free, pool = [0.0] * instances, [0.0] * connections
    while now < SECONDS:
        now += dice.expovariate(rates[int(now / 10) % len(rates)])
        lane, held = min(range(instances), key=free.__getitem__), min(range(connections), key=pool.__getitem__)
        began = max(now, free[lane])
        free[lane] = pool[held] = max(began, pool[held]) + work * dice.uniform(0.9, 1.1)
        found.append(Run(ended=free[lane], arrived=now, began=began))
    return found


def counts(done: list[Run]) -> Counts:
    """Return the counters once these executions have ended."""
    infer, queue = sum(run.ended - run.began for run in done), sum(run.began - run.arrived for run in done)
    number = len(done)
    return Counts(
        requests=number,
        items=number,
        executions=number,
        seconds=infer + queue,
        queue=queue,
        infer=infer,
        batches={1: (number, infer)},
    )


def window(
    executions: tuple[Run, ...],
    instances: int,
    *,
    traced: bool = False,
    backend: str = "onnxruntime",
    host: bool = True,
) -> Window:
    """Return what a server of these executions would have said, and with which traces."""
    return window_of(scrapes(executions, instances, traced=traced, backend=backend, host=host))


def scrapes(
    executions: tuple[Run, ...],
    instances: int,
    *,
    traced: bool = False,
    backend: str = "onnxruntime",
    host: bool = True,
) -> list[Scrape]:
    groups = [{"kind": "KIND_CPU", "count": instances}]
    config = model_config("safety", backend=backend, max_batch=0, groups=groups)
    ordered = sorted(executions)
    times = [run.ended for run in ordered]
    bodies: list[tuple[BodyKind, float, object, str]] = [(BodyKind.CONFIG, 0.0, config, "safety")]
    for number in range(int(SECONDS / EVERY)):
        at = number * EVERY
        rows = {("safety", "1"): counts(ordered[: bisect_right(times, at)])}
        bodies += [(BodyKind.METRICS, at, metrics_page(rows), ""), (BodyKind.STATISTICS, at, statistics_body(rows), "")]
        bodies += [(BodyKind.HOST, at, host_body(START + at, 0.2, cores=16), "")] if host else []
    spans = [
        one
        for number, run in enumerate(executions)
        for one in call(
            trace_id(number),
            Leg(model="safety", queue=run.began - run.arrived, compute=run.ended - run.began),
            run.arrived,
        )
    ]
    return [*(scrape(*body) for body in bodies), *([exported(export(spans))] if traced else [])]


def scrape(kind: BodyKind, at: float, body: object, name: str) -> Scrape:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return Scrape(server=SERVER, kind=kind, at=START + at, mono=START + at, body=raw, name=name)


BUSY = (40.0, 46.0, 34.0)  # of the 50 per second that the lock lets through
CHANGING = (10.0, 42.0)


def stretch(*, lock: bool, rates: tuple[float, ...], traced: bool, instances: int = 2) -> float:
    executions = runs(lock=lock, instances=instances, rates=rates)
    found = OVERLAP_STRETCH.read(view_of(window(executions, instances, traced=traced), "safety")).value
    assert found is not None
    return found


@pytest.mark.parametrize("instances", [2, 4])
@pytest.mark.parametrize("rates", [BUSY, CHANGING])
def test_traces_tell_a_lock_from_instances_that_share_nothing(rates: tuple[float, ...], instances: int) -> None:
    assert stretch(lock=True, rates=rates, traced=True, instances=instances) > 1.4
    assert stretch(lock=False, rates=rates, traced=True, instances=instances) == pytest.approx(1.0, abs=0.05)


def test_counters_tell_it_where_the_rate_changes() -> None:
    assert stretch(lock=True, rates=CHANGING, traced=False) > 1.25
    assert stretch(lock=False, rates=CHANGING, traced=False) == pytest.approx(1.0, abs=0.05)


def test_counters_that_no_server_makes_tell_no_lock() -> None:
    """A replica behind the same address has counted more requests, and less time: other reads may be its, too."""
    executions = runs(lock=True, instances=2, rates=CHANGING)
    done = [run for run in executions if run.ended <= 52.0]
    elsewhere = {
        ("safety", "1"): replace(counts(done), seconds=1.0, infer=1.0, queue=0.0, batches={1: (len(done), 1.0)})
    }
    mixed = [
        replace(one, body=json.dumps(statistics_body(elsewhere)).encode())
        if (one.kind, one.at - START) == (BodyKind.STATISTICS, 50.0)
        else one
        for one in scrapes(executions, 2)
    ]
    found = OVERLAP_STRETCH.read(view_of(window_of(mixed), "safety"))

    assert OVERLAP_STRETCH.read(view_of(window(executions, 2), "safety")).value is not None
    assert found.missing is Missing.CONFLICTING


def test_counters_tell_nothing_where_the_rate_stays() -> None:
    view = view_of(window(runs(lock=True, instances=2, rates=(40.0,)), 2), "safety")

    assert OVERLAP_STRETCH.read(view).missing is Missing.TOO_FEW_EVENTS


def test_longer_requests_at_the_same_rate_are_no_lock() -> None:
    short, long = runs(lock=False, instances=2, rates=(40.0,)), []
    for run in short:
        factor = 1.0 if run.arrived < SECONDS / 2 else 1.8
        long.append(Run(ended=run.began + factor * (run.ended - run.began), arrived=run.arrived, began=run.began))
    found = OVERLAP_STRETCH.read(view_of(window(tuple(long), 2), "safety"))

    assert found.value is None or found.value < 1.25


def lengthened(short: tuple[Run, ...], spans: tuple[tuple[float, float], ...], factor: float) -> tuple[Run, ...]:
    """Return executions of which those that begin in some spans last longer, for a reason of its own."""
    return tuple(
        Run(ended=run.began + factor * (run.ended - run.began), arrived=run.arrived, began=run.began)
        if any(start <= run.began < end for start, end in spans)
        else run
        for run in short
    )


def test_what_lengthens_few_executions_at_the_same_rate_is_no_lock() -> None:
    """A process beside the server takes its processors every other ten seconds."""
    busy = tuple((start, start + 10.0) for start in range(0, int(SECONDS), 20))
    slowed = lengthened(runs(lock=False, instances=2, rates=(18.0,)), busy, 1.7)
    bodies = window(slowed, 2)

    assert OVERLAP_STRETCH.read(view_of(bodies, "safety")).missing is Missing.TOO_FEW_EVENTS
    assert not any("take turns" in finding.summary for finding in explained(bodies).actionable)


@pytest.mark.parametrize(("seed", "away"), [(2, (38.0, 72.0)), (1, (60.0, 90.0))])
def test_executions_that_are_shorter_for_a_while_are_no_lock(seed: int, away: tuple[float, float]) -> None:
    """A wrapper whose callee is away fails at once, in busy reads and in quiet ones."""
    executions = lengthened(runs(lock=False, instances=2, rates=(12.0, 20.0), seed=seed), (away,), 0.08)

    assert (OVERLAP_STRETCH.read(view_of(window(executions, 2), "safety")).value or 0.0) < 1.25


def test_executions_that_are_longer_beside_others_in_one_half_only_leave_it_open() -> None:
    """Two connections serve eight instances, which are all busy in the second half: then nothing differs any more."""
    pooled = pooled_runs(rates=(*[31.0] * 6, *[38.0] * 6))
    view = view_of(window(pooled, 8), "safety")
    stretch = OVERLAP_STRETCH.read(view)

    assert stretch.value is not None
    assert stretch.value > 1.25
    assert stretch.low == 1.0
    assert not [one for one in explained(window(pooled, 8)).actionable if one.subject.model == "safety"]


def test_a_stall_in_one_busy_read_is_no_lock() -> None:
    stalled = lengthened(runs(lock=False, instances=2, rates=CHANGING), ((15.0, 19.0),), 8.0)

    assert (OVERLAP_STRETCH.read(view_of(window(stalled, 2), "safety")).value or 0.0) < 1.25


def test_one_instance_never_shows_a_lock() -> None:
    view = view_of(window(runs(lock=True, instances=1, rates=CHANGING), 1), "safety")

    assert OVERLAP_STRETCH.read(view).missing is Missing.NOT_EXPORTED


def test_more_instances_are_not_advised_where_they_would_share_a_lock() -> None:
    free = explained(window(runs(lock=False, instances=2, rates=(90.0, 95.0, 84.0)), 2, traced=True))
    locked = explained(window(runs(lock=True, instances=2, rates=(46.0, 49.0, 43.0)), 2, traced=True))

    assert [finding.check for finding in free.actionable] == ["single-instance-serialization"]
    assert "a lock or thread pool of the backend" in str(free.actionable[0].suggestion)
    assert [finding.check for finding in locked.actionable] == ["single-instance-serialization"]
    assert "2 instances of safety take turns" in locked.actionable[0].summary
    assert "more instances would wait for it, too" in str(locked.actionable[0].suggestion)
    assert not any("instance_group" in str(finding.suggestion) for finding in locked.findings)


@pytest.mark.parametrize("backend", ["onnxruntime", "python"])
def test_what_instances_share_stays_open_where_nothing_was_read_of_processors(backend: str) -> None:
    """A lock and a few processors under pools of threads that spin look alike; free instances are no sign of health."""

    def explanation(*, lock: bool) -> Explanation:
        return explained(window(runs(lock=lock, instances=16, rates=CHANGING), 16, backend=backend, host=False))

    shared, free = explanation(lock=True), explanation(lock=False)

    assert (shared.verdict, free.verdict) == (Verdict.NO_CLEAR_CAUSE, Verdict.HEALTHY)
    assert "times as long next to others as alone" in shared.reason
    assert "OMP_NUM_THREADS" in shared.next_measurement


def test_a_python_models_instances_are_processes_without_a_common_lock() -> None:
    executions = runs(lock=False, instances=2, rates=(90.0, 95.0, 84.0))
    reported = explained(window(executions, 2, traced=True, backend="python"))

    assert [finding.check for finding in reported.actionable] == ["single-instance-serialization"]
    assert "lock" not in str(reported.actionable[0].suggestion)
