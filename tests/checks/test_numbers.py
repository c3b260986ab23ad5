"""Either side of the numbers that checks decide by and that are no limits of theirs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from diagnostics.checks import engine_gates
from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Expected, Fires, Outcome, Unknown
from diagnostics.checks.engine_gates import nothing_held_back
from diagnostics.diagnosis.run import decide
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.engine import (
    ENGINE_BLOCK_TOKENS,
    ENGINE_KV_BLOCKS,
    ENGINE_KV_NEED,
    ENGINE_PEAK_HELD,
    ENGINE_PEAK_SCHEDULED,
    ENGINE_SLOTS,
    ENGINE_WAIT_SECONDS,
)
from diagnostics.signals.host import MEMORY_GROWTH, MEMORY_LEFT
from diagnostics.signals.signal import Reading, Signal, Subject
from tests.checks.stated import decided, subject_of
from tests.stated_evidence import SUBJECT, StatedEvidence


class Varied(StatedEvidence):
    """Stated evidence of which one reading is as told: with an interval, a number of events or a span of its own."""

    def __init__(self, readings: Mapping[Signal, float], signal: Signal, **more: float) -> None:
        super().__init__(readings)
        self.signal, self.more = signal, more

    def read(self, signal: Signal, on: Subject, span: object = None) -> Reading:
        found = super().read(signal, on)
        return replace(found, **self.more) if signal is self.signal else found


def firing(check: str, case: int = 0) -> Mapping[Signal, float]:
    return [one.readings for one in catalogue()[check].cases if one.expect is Expected.FIRES][case]


def stated(check: str, signal: Signal, readings: Mapping[Signal, float] | None = None, **more: float) -> Outcome:
    evidence = Varied({**firing(check), **(readings or {})}, signal, **more)
    return decide(catalogue()[check], Ledger(evidence, evidence.entry), subject_of(catalogue()[check]))


@pytest.mark.parametrize(("percent", "fires"), [(0.9, False), (1.1, True)])
def test_a_day_of_growth_counts_from_a_hundredth_of_the_size_on(percent: float, fires: bool) -> None:
    """In 24 h by about 1 %: slower than 1 % an hour, and yet not settled."""
    day = 86_400.0
    rate = percent / 100 * 8e9 / day
    outcome = stated("memory-growth", MEMORY_GROWTH, {MEMORY_GROWTH: rate, MEMORY_LEFT: rate * day}, span=day)

    assert isinstance(outcome, Fires) is fires


@pytest.mark.parametrize(("days", "severity"), [(0.93, "warning"), (1.07, "info")])
def test_memory_that_lasts_longer_than_a_day_wakes_nobody(days: float, severity: str) -> None:
    rate = firing("memory-growth")[MEMORY_GROWTH]
    outcome = stated("memory-growth", MEMORY_GROWTH, {MEMORY_LEFT: days * 86_400 * rate})

    assert isinstance(outcome, Fires)
    assert outcome.severity is not None
    assert outcome.severity.value == severity


@pytest.mark.parametrize(("reads", "expected"), [(4, Unknown), (5, Fires)])
def test_one_request_at_a_time_is_no_chance_from_five_reads_on(reads: float, expected: type) -> None:
    assert isinstance(stated("inflight-batching-off", ENGINE_PEAK_SCHEDULED, events=reads), expected)


@pytest.mark.parametrize(("held", "wanted"), [(7, 8), (9, 16)])
def test_slots_are_doubled_twice_at_most(held: float, wanted: int) -> None:
    outcome, _ = decided(catalogue()["engine-batch-limit"], {**firing("engine-batch-limit"), ENGINE_PEAK_HELD: held})

    assert isinstance(outcome, Fires)
    assert outcome.suggestion is not None
    assert f"{wanted} requests at a time" in outcome.suggestion.text


@pytest.mark.parametrize(("held", "tokens"), [(1, 2 * 100 * 64), (99, 4 * 100 * 64)])
def test_a_cache_is_given_two_to_four_times_its_blocks(held: float, tokens: int) -> None:
    readings = {ENGINE_KV_NEED: 10, ENGINE_BLOCK_TOKENS: 64, ENGINE_KV_BLOCKS: 100, ENGINE_PEAK_HELD: held}
    evidence = StatedEvidence({**readings, ENGINE_SLOTS: 256})

    assert engine_gates._wanted_tokens(Ledger(evidence, evidence.entry), SUBJECT) == tokens


def test_the_fraction_of_memory_that_is_advised_is_the_backends_own() -> None:
    """TensorRT-LLM backend, model configuration: kv_cache_free_gpu_mem_fraction, default 0.9."""
    assert engine_gates.USUAL_FRACTION == 0.9


@pytest.mark.parametrize(("error", "waits"), [(0.95, False), (0.85, True)])
def test_a_wait_counts_less_one_standard_error(error: float, waits: bool) -> None:
    """Of 2.4 s, 15 % of a request of 10 s are surely waited if the standard error is under 0.9 s."""
    readings = {**firing("inflight-batching-off"), ENGINE_WAIT_SECONDS: 2.4}
    evidence = Varied(readings, ENGINE_WAIT_SECONDS, low=2.4 - 1.96 * error, high=9.0)
    quiet = nothing_held_back(Ledger(evidence, evidence.entry), SUBJECT)

    assert (quiet is None) is waits
