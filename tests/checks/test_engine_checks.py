"""What is said of an engine that holds requests back, from pages as the TensorRT-LLM backend writes them.

Figures of public reports where there are some; else an engine of 32 slots and 1,024 blocks, with one thing short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.tuning.changes import BlastRadius
from tests.builders import Stage, SyntheticTriton, chain, model_config

RATE = 20.0
Number = float | Callable[[int], float]


def at(number: Number, read: int) -> float:
    return number(read) if callable(number) else number


def alternating(*values: float) -> Callable[[int], float]:
    return lambda read: values[read % len(values)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSays:
    """The gauges of an engine, each a number or one per read; None leaves it out."""

    waiting: Number | None = 0.0
    scheduled: Number = 2.0
    context: Number = 0.0
    slots: float | None = 32.0
    blocks: float = 1024.0
    used: Number = 6.0
    free: Number | None = None
    tokens: Number | None = 0.0
    paused: Number | None = 0.0
    micro_batch: Number = 0.0
    iterations: Number = lambda read: 1000.0 * read
    static: bool = False
    extra: Mapping[str, float] = field(default_factory=dict)

    def lines(self, read: int) -> Iterable[str]:
        """Return the page's lines of one read."""
        scheduled, used = at(self.scheduled, read), at(self.used, read)
        free = self.blocks - used if self.free is None else at(self.free, read)
        rows: list[tuple[str, str, str, Number | None]] = [
            ("request_metrics", "request_type", "waiting", self.waiting),
            ("request_metrics", "request_type", "scheduled", scheduled),
            ("request_metrics", "request_type", "context", self.context),
            ("request_metrics", "request_type", "max", self.slots),
            ("kv_cache_block_metrics", "kv_cache_block_type", "max", self.blocks),
            ("kv_cache_block_metrics", "kv_cache_block_type", "used", used),
            ("kv_cache_block_metrics", "kv_cache_block_type", "free", free),
            ("kv_cache_block_metrics", "kv_cache_block_type", "tokens_per", 64),
            ("general_metrics", "general_type", "iteration_counter", self.iterations),
        ]
        if self.static:
            rows.append(("v1_metrics", "v1_specific_metric", "empty_generation_slots", 3))
        else:
            family = ("inflight_batcher_metrics", "inflight_batcher_specific_metric")
            rows += [
                (*family, "total_context_tokens", self.tokens),
                (*family, "generation_requests", scheduled - at(self.context, read)),
                (*family, "paused_requests", self.paused),
                (*family, "micro_batch_id", self.micro_batch),
            ]
        for name, label, value, number in rows:
            if number is not None:
                yield f'nv_trt_llm_{name}{{model="llm",{label}="{value}",version="1"}} {at(number, read):g}'


def parameters(**values: str) -> dict[str, object]:
    return {key: {"string_value": value} for key, value in values.items()}


def explained(
    engine: EngineSays, *, hidden: float = 2.0, backend: str = "python", reads: int = 13, **stated: str
) -> Explanation:
    """Return what is said of an ensemble whose requests spend `hidden` seconds in the engine, under these gauges."""
    own = backend == "tensorrtllm"
    config = model_config("llm", backend=backend, parameters=parameters(**stated))
    llm = Stage("llm", rate=RATE, execution=hidden if own else 0.0003, config=config)
    tokenizer = Stage("tokenizer", rate=RATE, execution=0.001, config=model_config("tokenizer"))
    inner = 0.001 + (hidden if own else 0.0003)
    chat = Stage(
        "chat",
        rate=RATE,
        execution=inner,
        overhead=0.0 if own else hidden,
        config=chain("chat", "tokenizer", "llm"),
    )
    return SyntheticTriton(models=(chat, tokenizer, llm), extra_metrics=engine.lines).explain(reads)


def top(explanation: Explanation) -> Finding:
    assert explanation.actionable, explanation.reason
    return explanation.actionable[0]


def checks(explanation: Explanation) -> list[str]:
    return [finding.check for finding in explanation.actionable]


SLOTS = EngineSays(waiting=30, scheduled=alternating(4, 4, 3), slots=4, used=12)
CACHE = EngineSays(waiting=25, scheduled=4, blocks=12, used=12)


def test_full_slots_over_an_empty_cache_are_the_batch_limit() -> None:
    explanation = explained(SLOTS)
    finding = top(explanation)

    assert checks(explanation) == ["engine-batch-limit"]
    assert (finding.subject.model, finding.layer) == ("llm", "engine")
    assert finding.impact.seconds_per_request == pytest.approx(30 / RATE, rel=0.01)
    assert finding.suggestion is not None
    assert "instances of it" in finding.suggestion.text
    assert finding.suggestion.change is None


def test_an_engine_of_the_backend_itself_is_built_again() -> None:
    finding = top(explained(SLOTS, backend="tensorrtllm"))

    assert finding.check == "engine-batch-limit"
    assert finding.advice is not None
    assert finding.advice.blast_radius is BlastRadius.ENGINE_REBUILD


def test_a_full_cache_under_free_slots_is_an_exhausted_cache() -> None:
    explanation = explained(CACHE)

    assert checks(explanation) == ["kv-cache-exhausted"]
    assert top(explanation).impact.seconds_per_request == pytest.approx(25 / RATE, rel=0.01)


@pytest.mark.parametrize(
    ("stated", "changed"),
    [
        ({"max_tokens_in_paged_kv_cache": "768"}, '+parameters { key: "max_tokens_in_paged_kv_cache"'),
        ({"kv_cache_free_gpu_mem_fraction": "0.3"}, "kv_cache_free_gpu_mem_fraction"),
    ],
)
def test_the_setting_that_limits_the_cache_is_the_one_to_raise(stated: dict[str, str], changed: str) -> None:
    finding = top(explained(CACHE, **stated))

    assert finding.advice is not None
    assert finding.advice.patch is not None
    assert changed.removeprefix("+") in finding.advice.patch.text or next(iter(stated)) in finding.advice.patch.text
    assert finding.advice.blast_radius is BlastRadius.RELOAD
    assert finding.suggestion is not None
    assert "unload" in finding.suggestion.text


def test_nine_of_forty_free_blocks_can_be_too_few() -> None:
    # server#7548: 99 held, 5 scheduled, 31 of 40 blocks used, nothing paused: the rest is promised.
    starved = EngineSays(waiting=94, scheduled=5, slots=2048, blocks=40, used=31)

    assert checks(explained(starved, hidden=12.0)) == ["kv-cache-exhausted"]


def test_a_full_cache_with_nothing_waiting_is_healthy() -> None:
    assert explained(EngineSays(scheduled=20, used=1020)).verdict is Verdict.HEALTHY


def test_full_slots_with_nothing_waiting_are_healthy() -> None:
    assert explained(EngineSays(scheduled=32, used=100)).verdict is Verdict.HEALTHY


def test_neither_limit_is_named_where_both_are_reached() -> None:
    assert not checks(explained(replace(SLOTS, blocks=12, scheduled=4, used=12)))


def test_waiting_behind_free_slots_and_an_empty_cache_has_no_clear_cause() -> None:
    explanation = explained(EngineSays(waiting=20, scheduled=alternating(5, 6, 4)))

    assert not checks(explanation)
    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE


def test_a_burst_in_one_read_of_thirteen_names_no_limit() -> None:
    burst = EngineSays(
        waiting=lambda read: 60.0 if read == 5 else 0.0, scheduled=lambda read: 32.0 if read == 5 else 2.0, used=80
    )

    assert not checks(explained(burst, hidden=0.3))


def test_micro_batches_of_a_pipeline_do_not_wait() -> None:
    parallel = replace(SLOTS, micro_batch=alternating(0, 1, 2, 3))

    assert not checks(explained(parallel))


def test_gauges_that_contradict_each_other_name_no_cache() -> None:
    # Values of a report with a missing key shift onto wrong labels: used and free no longer add up.
    explanation = explained(replace(CACHE, free=12.0))

    assert "kv-cache-exhausted" not in checks(explanation)


def test_gauges_of_an_idle_engine_say_nothing() -> None:
    explanation = explained(replace(SLOTS, iterations=5000.0))

    assert not checks(explanation)


def test_an_engine_that_iterated_between_half_of_the_reads_waited_half_of_the_time() -> None:
    halting = replace(SLOTS, iterations=lambda read: 1000.0 * (read // 2))

    assert top(explained(halting)).impact.seconds_per_request == pytest.approx(30 / RATE / 2, rel=0.1)


def test_releases_that_do_not_say_what_waits_are_diagnosed_from_what_is_held() -> None:
    class Old(EngineSays):
        def lines(self, read: int) -> Iterable[str]:
            yield from EngineSays.lines(self, read)
            yield 'nv_trt_llm_request_metrics{model="llm",request_type="active",version="1"} 34'

    old = Old(waiting=None, scheduled=4, slots=4, used=12)
    assert checks(explained(old)) == ["engine-batch-limit"]


def test_one_request_at_a_time_in_an_engine_of_many_slots_is_no_in_flight_batching() -> None:
    assert checks(explained(EngineSays(waiting=9, scheduled=1, used=4))) == ["inflight-batching-off"]


def test_static_batches_are_no_in_flight_batching_and_the_setting_is_changed() -> None:
    finding = top(explained(EngineSays(waiting=20, scheduled=8, slots=8, static=True), gpt_model_type="V1"))

    assert finding.check == "inflight-batching-off"
    assert finding.advice is not None
    assert finding.advice.patch is not None
    assert "inflight_fused_batching" in finding.advice.patch.text


def test_an_engine_with_one_slot_lacks_slots_not_batching() -> None:
    assert checks(explained(EngineSays(waiting=9, scheduled=1, slots=1, used=4))) == ["engine-batch-limit"]


def test_a_cache_for_one_sequence_is_the_cache_not_batching() -> None:
    assert checks(explained(EngineSays(waiting=9, scheduled=1, blocks=5, used=3))) == ["kv-cache-exhausted"]


THRASHING = EngineSays(scheduled=20, used=1000, paused=alternating(8, 12, 0, 9))


def test_paused_requests_over_a_full_cache_are_thrashing() -> None:
    finding = top(explained(THRASHING, batch_scheduler_policy="max_utilization"))

    assert finding.check == "kv-cache-thrashing"
    assert finding.advice is not None
    assert finding.advice.patch is not None
    assert "guaranteed_no_evict" in finding.advice.patch.text


def test_the_policy_that_never_pauses_does_not_thrash() -> None:
    assert not checks(explained(THRASHING, batch_scheduler_policy="guaranteed_no_evict"))


@pytest.mark.parametrize(("reads", "actionable"), [(5, []), (13, ["inflight-batching-off"])])
def test_two_reads_of_five_do_not_tell_that_requests_wait(reads: int, actionable: list[str]) -> None:
    assert checks(explained(EngineSays(waiting=alternating(0, 60), static=True), reads=reads)) == actionable


BUDGET = EngineSays(waiting=25, scheduled=12, context=4, tokens=8180, used=60)


def test_iterations_full_of_prompts_are_the_token_budget() -> None:
    assert checks(explained(BUDGET)) == ["engine-token-budget"]


def test_iterations_that_differ_are_cut_off_by_no_budget() -> None:
    assert not checks(explained(replace(BUDGET, tokens=alternating(8000, 900, 3000, 100))))


def test_an_engine_at_work_is_reported_and_alarms_nobody() -> None:
    explanation = explained(EngineSays(scheduled=2), hidden=2 / RATE)

    assert explanation.verdict is Verdict.HEALTHY
    assert [(finding.check, finding.severity) for finding in explanation.findings] == [("engine-bound", "info")]


def test_time_that_no_scheduled_request_explains_is_not_the_engines() -> None:
    assert not explained(EngineSays(scheduled=2), hidden=1.0).findings
