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


def _trtllm_gauges(run: EngineRun, limits: EngineLimits, cost: IterationCost, now: float) -> dict[str, float]:
    """Return what trtllm-serve tells of an iteration at a moment."""
    running = [one for one in run.requests if one.started <= now < one.ended]
    reading = [one for one in running if now < one.first]
    tokens, held = sum(one.prompt for one in reading), sum(one.prompt + one.answer / 2 for one in running)
    return {
        "num_requests_running": len(running),
        "num_requests_waiting": sum(one.came <= now < one.started for one in run.requests),
        "max_num_active_requests": limits.slots,
        "max_batch_size_runtime": limits.slots,
        "max_num_tokens_runtime": limits.token_budget,
        "num_scheduled_requests": len(running),
        "num_context_requests": len(reading),
        "num_generation_requests": len(running) - len(reading),
        "num_paused_requests": 0,
        "total_context_tokens": tokens,
        "iteration_latency_seconds": cost.base + cost.per_held * held + cost.per_token * tokens,
        "kv_cache_max_blocks": limits.cache_tokens / limits.block_tokens,
        "kv_cache_used_blocks": held / limits.block_tokens,
        "kv_cache_free_blocks": (limits.cache_tokens - held) / limits.block_tokens,
        "kv_cache_tokens_per_block": limits.block_tokens,
    }


def trtllm_pages(
    run: EngineRun, limits: EngineLimits, cost: IterationCost, without: frozenset[str] = frozenset()
) -> list[Scrape]:
    """Return reads of a trtllm-serve's page without some families. It observes each request when it ends."""
    done = [one for one in run.requests if one.ended < float("inf")]
    histograms = {
        "e2e_request_latency_seconds": [(one.ended, one.ended - one.came) for one in done],
        "time_to_first_token_seconds": [(one.ended, one.first - one.came) for one in done],
        "time_per_output_token_seconds": [
            (one.ended, (one.ended - one.first) / (one.answer - 1)) for one in done if one.answer > 1
        ],
        "request_queue_time_seconds": [(one.ended, one.started - one.came) for one in done],
    }
    counters = {
        "prompt_tokens_total": [(one.ended, one.prompt) for one in done],
        "generation_tokens_total": [(one.ended, one.answer) for one in done],
    }
    sums = {name: _Sum(observed) for name, observed in (histograms | counters).items() if name not in without}
    labels = '{engine_type="trtllm",model_name="m"}'
    found = []
    for read in range(READS):
        now = run.begin + read * EVERY
        gauges = _trtllm_gauges(run, limits, cost, now)
        lines = [f"trtllm_{name}{labels} {value}" for name, value in gauges.items() if name not in without]
        for name, values in sums.items():
            total, count = values.until(now)
            if name in histograms:
                lines += [f"trtllm_{name}_sum{labels} {total}", f"trtllm_{name}_count{labels} {count}"]
            else:
                lines.append(f"trtllm_{name}{labels} {total}")
        body, at = "\n".join([*lines, ""]).encode(), _BEGAN + read * EVERY
        found.append(Scrape(server="llm", kind=BodyKind.METRICS, at=at, mono=at, body=body))
    return found


def served(
    limits: EngineLimits, cost: IterationCost, load: EngineLoad, *, seed: int = 1, tokens: bool = True
) -> SourceEvidence:
    """Return what is read of a vLLM with this engine and this load."""
    run = simulate_engine(limits, cost, load, seconds=READS * EVERY + 1, warmup=20.0, seed=seed)
    return seen_in(vllm_pages(run, limits, tokens=tokens))


def seen_in(pages: Sequence[Scrape]) -> SourceEvidence:
    """Return what pages show."""
    window = window_of(pages)
    return SourceEvidence(
        evidence=WindowEvidence(window), window=WindowFacts(start=window.start, end=window.end, sources=("llm",))
    )
