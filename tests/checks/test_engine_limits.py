"""Either side of each limit of the engine checks: a limit that moves by a fifth fails here."""

from __future__ import annotations

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Expected, Fires
from diagnostics.signals.engine import (
    ENGINE_KV_BLOCKED,
    ENGINE_KV_USED,
    ENGINE_MICRO_BATCHES,
    ENGINE_PAUSED_SHARE,
    ENGINE_PEAK_FILL,
    ENGINE_PEAK_SCHEDULED,
    ENGINE_SLOT_FILL,
    ENGINE_SLOTS,
    ENGINE_WAITING_SHARE,
    ENGINE_WORK_SECONDS,
)
from diagnostics.signals.engine_iterations import ENGINE_CONTEXT_SHARE, ENGINE_TOKENS_FILL
from diagnostics.signals.neighbours import FOREIGN_SHARE
from diagnostics.signals.signal import Signal
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUEST_SECONDS
from tests.checks.stated import decided

# check, which of its firing cases, signal, the values that fire and do not fire, what else is stated.
LIMITS: tuple[tuple[str, int, Signal, float, float], ...] = (
    ("engine-batch-limit", 0, ENGINE_WAITING_SHARE, 0.36, 0.30),
    ("engine-batch-limit", 0, ENGINE_SLOT_FILL, 0.70, 0.60),
    ("engine-batch-limit", 0, ENGINE_PEAK_FILL, 1.0, 0.9),
    ("engine-batch-limit", 0, ENGINE_KV_BLOCKED, 0.45, 0.55),
    ("engine-batch-limit", 0, ENGINE_MICRO_BATCHES, 1.86, 2.14),
    ("engine-batch-limit", 0, ENGINE_PAUSED_SHARE, 0.30, 0.36),
    # Of 92 % of the slots, what the other process leaves is 65 %.
    ("engine-batch-limit", 0, FOREIGN_SHARE, 0.27, 0.32),
    ("kv-cache-exhausted", 0, ENGINE_WAITING_SHARE, 0.36, 0.30),
    ("kv-cache-exhausted", 0, ENGINE_PAUSED_SHARE, 0.30, 0.36),
    ("kv-cache-exhausted", 0, ENGINE_SLOT_FILL, 0.85, 0.95),
    ("kv-cache-exhausted", 1, ENGINE_KV_USED, 0.55, 0.45),
    ("kv-cache-exhausted", 1, ENGINE_CONTEXT_SHARE, 0.45, 0.55),
    ("kv-cache-exhausted", 1, ENGINE_PEAK_SCHEDULED, 2, 1),
    ("inflight-batching-off", 0, ENGINE_PEAK_SCHEDULED, 1, 2),
    ("inflight-batching-off", 0, ENGINE_SLOTS, 2, 1),
    ("inflight-batching-off", 0, ENGINE_KV_BLOCKED, 0.45, 0.55),
    ("kv-cache-thrashing", 0, ENGINE_PAUSED_SHARE, 0.36, 0.30),
    ("kv-cache-thrashing", 0, ENGINE_KV_USED, 0.80, 0.70),
    ("engine-token-budget", 0, ENGINE_PAUSED_SHARE, 0.30, 0.36),
    ("engine-token-budget", 0, ENGINE_CONTEXT_SHARE, 0.80, 0.70),
    ("engine-token-budget", 0, ENGINE_TOKENS_FILL, 0.90, 0.80),
    ("engine-bound", 0, COMPUTE_SECONDS, 0.065, 0.056),
    ("engine-bound", 0, ENGINE_WORK_SECONDS, 0.080, 0.068),
    ("engine-bound", 0, ENGINE_WAITING_SHARE, 0.30, 0.36),
    ("prefill-interference", 0, REQUEST_SECONDS, 9.0, 12.0),
)


@pytest.mark.parametrize(
    ("check", "case", "signal", "fires", "quiet"), LIMITS, ids=[f"{limit[0]} {limit[2].name}" for limit in LIMITS]
)
def test_a_limit_is_where_it_is_stated_to_be(check: str, case: int, signal: Signal, fires: float, quiet: float) -> None:
    found = catalogue()[check]
    firing = [one.readings for one in found.cases if one.expect is Expected.FIRES][case]

    assert isinstance(decided(found, {**firing, signal: fires})[0], Fires)
    assert not isinstance(decided(found, {**firing, signal: quiet})[0], Fires)


def test_a_cache_that_is_short_at_half_of_the_reads_is_short() -> None:
    found = catalogue()["kv-cache-exhausted"]
    firing = {**found.cases[0].readings, ENGINE_CONTEXT_SHARE: 0.9}

    assert isinstance(decided(found, {**firing, ENGINE_KV_BLOCKED: 0.55})[0], Fires)
    assert not isinstance(decided(found, {**firing, ENGINE_KV_BLOCKED: 0.45})[0], Fires)


@pytest.mark.parametrize(
    ("case", "fill", "fires"), [(0, 0.85, True), (0, 0.95, False), (1, 0.60, True), (1, 0.70, False)]
)
def test_slots_that_are_taken_are_not_the_caches_fault(case: int, fill: float, fires: bool) -> None:
    """A cache without room is at fault while a tenth of the slots is free; a reserved one while a third is."""
    found = catalogue()["kv-cache-exhausted"]
    readings = {**found.cases[case].readings, ENGINE_PEAK_FILL: 1.0, ENGINE_SLOT_FILL: fill}

    assert isinstance(decided(found, readings)[0], Fires) is fires
