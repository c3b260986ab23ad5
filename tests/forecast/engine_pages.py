"""Pages of an LLM server, as its simulated engine would export them: the truth of what is fitted to them is known."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.diagnosis.proposing import SourceEvidence
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.engine_loop import EngineLimits, EngineLoad, EngineRun, IterationCost, simulate_engine
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape

READS, EVERY = 90, 1.0
_BEGAN = 1.7e9


class _Sum:
    """A counter and its sum over time: what was observed until a moment."""

    def __init__(self, observed: Sequence[tuple[float, float]]) -> None:
        ordered = sorted(observed)
        self._at = [at for at, _ in ordered]
        self._sums = [0.0, *accumulate(value for _, value in ordered)]

    def until(self, moment: float) -> tuple[float, int]:
        """Return sum and count."""
        count = bisect_right(self._at, moment)
        return self._sums[count], count


def _gaps(run: EngineRun) -> _Sum:
    """Return the times between tokens, spread evenly over each answer."""
    found = []
    for one in run.requests:
        if one.first < run.end and one.ended < float("inf") and one.answer > 1:
            each = (one.ended - one.first) / (one.answer - 1)
            found += [(one.first + each * number, each) for number in range(1, one.answer)]
    return _Sum(found)


def vllm_pages(run: EngineRun, limits: EngineLimits, *, server: str = "llm", tokens: bool = True) -> list[Scrape]:
    """Return reads of a vLLM's page; `tokens` False leaves out the times between tokens."""
    done = [one for one in run.requests if one.ended < float("inf")]
    begun = [one for one in run.requests if one.first < float("inf")]
    counters = {
        "vllm:e2e_request_latency_seconds": _Sum([(one.ended, one.ended - one.came) for one in done]),
        "vllm:time_to_first_token_seconds": _Sum([(one.first, one.first - one.came) for one in begun]),
        "vllm:request_queue_time_seconds": _Sum([(one.first, one.started - one.came) for one in begun]),
        "vllm:request_prompt_tokens": _Sum([(one.ended, one.prompt) for one in done]),
        "vllm:request_generation_tokens": _Sum([(one.ended, one.answer) for one in done]),
    }
    if tokens:
        counters["vllm:inter_token_latency_seconds"] = _gaps(run)
    prompts = _Sum([(one.first, one.prompt) for one in begun])
    labels = '{engine="0",model_name="m"}'
    found = []
    for read in range(READS):
        now = run.begin + read * EVERY
        running = sum(one.started <= now < one.ended for one in run.requests)
        waiting = sum(one.came <= now < one.started for one in run.requests)
        lines = [f"vllm:num_requests_running{labels} {running}", f"vllm:num_requests_waiting{labels} {waiting}"]
        lines.append(f"vllm:prompt_tokens_total{labels} {prompts.until(now)[0]}")
        for name, values in counters.items():
            total, count = values.until(now)
            lines += [f"{name}_sum{labels} {total}", f"{name}_count{labels} {count}"]
        blocks = limits.cache_tokens / limits.block_tokens
        if blocks < float("inf"):
            held = sum(one.prompt + one.answer / 2 for one in run.requests if one.started <= now < one.ended)
            lines.append(f"vllm:kv_cache_usage_perc{labels} {held / limits.cache_tokens}")
            info = f'block_size="{limits.block_tokens:.0f}",engine="0",num_gpu_blocks="{blocks:.0f}"'
            lines.append(f"vllm:cache_config_info{{{info}}} 1.0")
        if limits.slots < float("inf"):
            lines.append(f'num_request_max{{model_name="m"}} {limits.slots:.0f}')
        body = "\n".join([*lines, ""]).encode()
        at = _BEGAN + read * EVERY
        found.append(Scrape(server=server, kind=BodyKind.METRICS, at=at, mono=at, body=body))
    return found


def served(
    limits: EngineLimits, cost: IterationCost, load: EngineLoad, *, seed: int = 1, tokens: bool = True
) -> SourceEvidence:
    """Return what is read of a vLLM with this engine and this load."""
    run = simulate_engine(limits, cost, load, seconds=READS * EVERY + 1, warmup=20.0, seed=seed)
    window = window_of(vllm_pages(run, limits, tokens=tokens))
    return SourceEvidence(
        evidence=WindowEvidence(window), window=WindowFacts(start=window.start, end=window.end, sources=("llm",))
    )
