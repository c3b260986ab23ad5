"""A full KV cache has one cause: requests that wait before they start, or requests that are paused after it.

Whatever an engine's gauges show of cache, waiting and paused requests, at most one of the two checks fires; where
requests lose time over a full cache, one does, or an answer is stated as unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Fires, Unknown
from diagnostics.diagnosis.explanation import Verdict
from diagnostics.signals.engine import (
    ENGINE_KV_BLOCKED,
    ENGINE_KV_BLOCKS,
    ENGINE_KV_NEED,
    ENGINE_KV_USED,
    ENGINE_MAX_UTILIZATION,
    ENGINE_MICRO_BATCHES,
    ENGINE_PAUSE_SECONDS,
    ENGINE_PAUSED,
    ENGINE_PAUSED_SHARE,
    ENGINE_PEAK_FILL,
    ENGINE_PEAK_SCHEDULED,
    ENGINE_SLOT_FILL,
    ENGINE_WAIT_SECONDS,
    ENGINE_WAITING,
    ENGINE_WAITING_SHARE,
)
from diagnostics.signals.signal import Signal
from diagnostics.signals.triton import REQUEST_RATE, REQUEST_SECONDS, REQUESTS
from tests.checks.stated import decided
from tests.checks.test_engine_checks import EngineSays, alternating, checks, explained, top

POLICIES = (None, 1.0, 0.0)
FULL = EngineSays(waiting=25, scheduled=4, blocks=12, used=12)
TWO = ("kv-cache-exhausted", "kv-cache-thrashing")
RATE, MEAN = 20.0, 2.0
GAUGES = (ENGINE_KV_USED, ENGINE_KV_BLOCKED, ENGINE_PAUSED_SHARE, ENGINE_WAITING_SHARE)


def situation(used: float, waiting: float, paused: float, seen: float, policy: float | None) -> dict[Signal, float]:
    """Return what an engine says that holds so many requests back; `seen` is the share of reads that show a pause."""
    stated: dict[Signal, float] = {
        REQUESTS: 1200,
        REQUEST_RATE: RATE,
        REQUEST_SECONDS: MEAN,
        ENGINE_WAITING: waiting,
        ENGINE_WAITING_SHARE: min(waiting, 1.0),
        ENGINE_WAIT_SECONDS: waiting / RATE,
        ENGINE_MICRO_BATCHES: 1,
        ENGINE_SLOT_FILL: 0.3,
        ENGINE_PEAK_FILL: 0.4,
        ENGINE_PEAK_SCHEDULED: 10,
        ENGINE_KV_USED: used,
        ENGINE_KV_BLOCKED: 1.0 if used > 0.9 else 0.2,
        ENGINE_KV_NEED: 4,
        ENGINE_KV_BLOCKS: 40,
        ENGINE_PAUSED: paused,
        ENGINE_PAUSED_SHARE: seen if paused else 0.0,
        ENGINE_PAUSE_SECONDS: paused / RATE,
    }
    return stated if policy is None else {**stated, ENGINE_MAX_UTILIZATION: policy}


GRID = tuple(product((0.3, 0.6, 0.8, 0.97), (0.0, 3.0, 30.0), (0.0, 1.0, 5.0, 12.0), (0.2, 0.5, 1.0), POLICIES))


def answers(stated: dict[Signal, float]) -> tuple[list[str], list[str]]:
    """Return which of the two checks fire, and which are unknown."""
    outcomes = {name: decided(catalogue()[name], stated)[0] for name in TWO}
    fired = [name for name, outcome in outcomes.items() if isinstance(outcome, Fires)]
    return fired, [name for name, outcome in outcomes.items() if isinstance(outcome, Unknown)]


def costs(stated: dict[Signal, float]) -> bool:
    """Return whether requests lose over 15 % of their time over a cache that is full."""
    paused = stated[ENGINE_PAUSE_SECONDS] if stated[ENGINE_PAUSED_SHARE] >= 1 / 3 else 0.0
    return stated[ENGINE_KV_USED] >= 0.75 and max(stated[ENGINE_WAIT_SECONDS], paused) >= 0.15 * MEAN


def test_a_full_cache_has_exactly_one_cause() -> None:
    for cell in GRID:
        stated = situation(*cell)
        fired, unknown = answers(stated)

        assert len(fired) <= 1, cell
        assert bool(fired or unknown) or not costs(stated), cell
        assert not fired or stated[ENGINE_KV_USED] >= 0.5, cell


@pytest.mark.parametrize("gauge", GAUGES, ids=lambda signal: signal.name)
def test_without_a_gauge_it_is_one_cause_or_unknown(gauge: Signal) -> None:
    for cell in (cell for cell in GRID if cell[0] > 0.75):
        stated = situation(*cell)
        fired, unknown = answers({signal: value for signal, value in stated.items() if signal is not gauge})

        assert len(fired) <= 1, cell
        assert bool(fired or unknown) or not costs(stated), cell


@pytest.mark.parametrize("policy", [{}, {"batch_scheduler_policy": "max_utilization"}], ids=["unstated", "stated"])
@pytest.mark.parametrize("paused", [1.0, alternating(1, 2, 0, 2)], ids=["always one", "some"])
def test_a_few_paused_requests_leave_a_full_cache_exhausted(paused: float, policy: dict[str, str]) -> None:
    assert checks(explained(replace(FULL, paused=paused), **policy)) == ["kv-cache-exhausted"]


@pytest.mark.parametrize("paused", [0.0, alternating(1, 0, 0)], ids=["none paused", "few paused"])
@pytest.mark.parametrize("free", [0.0, 2.0])
def test_a_full_cache_is_the_cause_though_all_slots_are_taken_now_and_then(
    free: float, paused: Callable[[int], float] | float
) -> None:
    engine = EngineSays(waiting=25, scheduled=alternating(25, 32, 24), blocks=90, used=90 - free, paused=paused)

    assert checks(explained(engine)) == ["kv-cache-exhausted"]
    assert checks(explained(replace(engine, blocks=900))) == ["engine-batch-limit"]
    assert not checks(explained(replace(engine, scheduled=alternating(32, 30))))


def test_requests_paused_under_the_policy_that_pauses_none_wait_for_the_cache() -> None:
    stated = {"batch_scheduler_policy": "guaranteed_no_evict"}

    assert checks(explained(replace(FULL, paused=9.0), **stated)) == ["kv-cache-exhausted"]


def test_many_paused_requests_are_thrashing_whatever_waits_besides() -> None:
    assert top(explained(replace(FULL, paused=9.0))).check == "kv-cache-thrashing"


def test_pauses_that_the_policy_excludes_are_unknown_and_never_healthy() -> None:
    explanation = explained(
        EngineSays(scheduled=20, used=1000, paused=9.0), batch_scheduler_policy="guaranteed_no_evict"
    )

    assert not checks(explanation)
    assert explanation.verdict is not Verdict.HEALTHY


def test_a_cache_that_pauses_now_and_then_and_holds_nothing_back_is_healthy() -> None:
    stated = {"batch_scheduler_policy": "max_utilization"}

    assert explained(EngineSays(scheduled=20, used=1000, paused=1.0), **stated).verdict is Verdict.HEALTHY


def test_max_utilization_reserves_no_blocks() -> None:
    """Six tenths in use are a cache reserved to the full under the other policy, and a cache with room under this."""
    engine = EngineSays(waiting=25, scheduled=4, blocks=40, used=24, paused=0.0)

    assert checks(explained(engine)) == ["kv-cache-exhausted"]
    assert not checks(explained(engine, batch_scheduler_policy="max_utilization"))
