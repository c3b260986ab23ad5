"""Prompts of others beside running requests, where nothing times the engine's iterations."""

from __future__ import annotations

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.signals.engine import ENGINE_WORK_SECONDS
from diagnostics.signals.engine_iterations import ENGINE_ITERATION_SECONDS, ENGINE_PREFILL_STALL, ENGINE_PROMPT_TOKENS
from diagnostics.signals.signal import Missing
from diagnostics.window.window import Window
from tests.builders import Counts, Stage, SyntheticTriton, explained, model_config, view_of

JOINING, BASE, SECONDS = 0.04, 0.006, 0.5
OWN = 'model="llm",version="1"'
CHANGING = [50.0 + 10 * (i % 5) for i in range(12)]
REQUESTS = {"scheduled": 6, "active": 6, "waiting": 0, "max": 64}


def engine(requests: list[float], tokens: int, often: int = 2) -> Window:
    """Return an engine that takes so many requests in each 5 s, and reads prompts at one of `often` reads."""
    iterations = [0.0]
    for count in requests:
        iterations.append(iterations[-1] + (5.0 - count * JOINING) / BASE)

    def gauges(number: int) -> list[str]:
        reads = number % often == 0
        stated: dict[str, dict[str, float]] = {
            "general_metrics{%s,general_type": {"iteration_counter": iterations[number]},
            "request_metrics{%s,request_type": {**REQUESTS, "context": int(reads)},
            "inflight_batcher_metrics{%s,inflight_batcher_specific_metric": {
                "generation_requests": 5,
                "total_context_tokens": tokens * reads,
            },
        }
        return [
            f'nv_trt_llm_{family % OWN}="{key}"}} {value}'
            for family, values in stated.items()
            for key, value in values.items()
        ]

    def counted(number: int, rows: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
        done = sum(requests[:number])
        return {
            ("llm", "1"): Counts(
                requests=done,
                items=done,
                executions=done,
                seconds=done * SECONDS,
                infer=done * SECONDS,
                batches={1: (done, done * SECONDS)},
            )
        }

    stage = Stage("llm", rate=5, config=model_config("llm", backend="tensorrtllm"))
    return SyntheticTriton(models=(stage,), alter=counted, extra_metrics=gauges).window(len(iterations))


def actionable(found: Explanation) -> list[str]:
    return [one.check for one in found.actionable]


def test_long_prompts_stall_what_runs_by_what_joining_requests_add() -> None:
    """14 requests a second add 40 ms each: 56 % of the time, less their own and what their keys and values may cost."""
    window = engine(CHANGING, tokens=1500)
    view = view_of(window, "llm", None)
    stall, prompt = ENGINE_PREFILL_STALL.read(view), ENGINE_PROMPT_TOKENS.read(view)

    assert prompt.value == 1500
    assert stall.estimated
    assert 0.2 < (stall.low or 0.0) <= (stall.value or 0.0) < (stall.high or 0.0) < 0.56
    assert actionable(explained(window)) == ["prefill-interference"]


def test_what_may_be_keys_and_values_is_left_to_them() -> None:
    """A request is in some 65 iterations: its keys and values may take half of what its joining adds."""
    view = view_of(engine(CHANGING, tokens=420), "llm", None)
    stall = ENGINE_PREFILL_STALL.read(view)
    visits = (ENGINE_WORK_SECONDS.read(view) / ENGINE_ITERATION_SECONDS.read(view)).value or 0.0

    assert (stall.value or 0.0) / (stall.high or 1.0) == pytest.approx(66 / (66 + visits), rel=0.02)


def test_short_prompts_lengthen_no_iteration_whatever_else_joining_requests_add() -> None:
    window = engine(CHANGING, tokens=380)

    assert ENGINE_PREFILL_STALL.read(view_of(window, "llm", None)).missing is Missing.NOT_EXPORTED
    assert explained(window).verdict is Verdict.HEALTHY


def test_what_long_prompts_cost_under_an_even_load_is_not_called_healthy() -> None:
    found = explained(engine([60.0] * 12, tokens=1500))

    assert found.verdict is Verdict.NO_CLEAR_CAUSE
    assert "prompts of 1,500 tokens" in found.reason
    assert "time its iterations" in found.symptoms[0].next_measurement


@pytest.mark.parametrize(
    ("often", "verdict"), [(4, Verdict.NO_CLEAR_CAUSE), (6, Verdict.NO_CLEAR_CAUSE), (12, Verdict.HEALTHY)]
)
def test_how_often_long_prompts_are_read_is_as_uncertain_as_reads_are_few(often: int, verdict: Verdict) -> None:
    """Four or three of thirteen reads may be a third of all iterations; two cannot."""
    found = explained(engine(CHANGING, tokens=1500, often=often))

    assert actionable(found) == []
    assert found.verdict is verdict
