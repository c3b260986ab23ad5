"""A sweep over the boundary between cache and slots, as pages of the engine's releases show it.

A KV cache from 85 to 100 % in use, up to twenty requests paused or waiting, slots free or all taken: where requests
lose time, exactly one of the three limits is named; where they lose none, none is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Stage, SyntheticTriton, chain, model_config
from tests.builders import explained as explained_window
from tests.checks.test_engine_checks import checks

RATE, SLOTS, BLOCKS, READS, BETWEEN = 20.0, 32.0, 400.0, 13, 5.0
THREE = {"kv-cache-exhausted", "kv-cache-thrashing", "engine-batch-limit"}
SERVED = '{engine_type="pytorch",model_name="llm"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What an engine holds on average; `used` is the share of its blocks that are in use."""

    used: float
    scheduled: float
    waiting: float
    paused: float

    @property
    def lost(self) -> float:
        """Share of a request's time that it waits or is paused (Little's law)."""
        idle = self.waiting + self.paused
        return idle / (idle + self.scheduled)

    def at(self, read: int) -> tuple[float, float, float, float]:
        """Return scheduled, waiting and paused requests and the blocks in use at a read; they move by one."""
        step = (0, 1, -1)[read % 3]
        counts = (max(count + step, 0) if count > 1 else count for count in (self.waiting, self.paused))
        used = min(self.used * BLOCKS + step, BLOCKS)
        return min(self.scheduled + step, SLOTS), *counts, used


def _gauges(name: str, label: str, values: Mapping[str, float]) -> list[str]:
    return [f'nv_trt_llm_{name}{{{label}="{key}",model="llm",version="1"}} {value}' for key, value in values.items()]


def triton_lines(held: Held, read: int, *, now: bool) -> Iterable[str]:
    """Return the gauges of the TensorRT-LLM backend, of today or (`now` False) as they were before 0.12.

    A paused request stays active, so the backend counts it among those that wait.
    """
    scheduled, waiting, paused, used = held.at(read)
    requests = {"active": scheduled + waiting + paused, "scheduled": scheduled, "max": SLOTS, "context": 0.0}
    blocks = {"max": BLOCKS, "used": used, "free": BLOCKS - used, "tokens_per": 64}
    if now:
        requests["waiting"] = waiting + paused
        blocks["fraction"] = used / BLOCKS
    batcher = {"generation_requests": scheduled, "total_context_tokens": 0.0, "micro_batch_id": 0.0}
    batcher["paused_requests" if now else "terminated_requests"] = paused
    yield from _gauges("request_metrics", "request_type", requests)
    yield from _gauges("kv_cache_block_metrics", "kv_cache_block_type", blocks)
    yield from _gauges("inflight_batcher_metrics", "inflight_batcher_specific_metric", batcher)
    yield from _gauges("general_metrics", "general_type", {"iteration_counter": 1000.0 * (read + 1)})


def on_triton(held: Held, *, now: bool) -> Explanation:
    """Return what is found in an ensemble around this engine."""
    seconds = (held.scheduled + held.waiting + held.paused) / RATE
    llm = Stage("llm", rate=RATE, execution=0.0003, config=model_config("llm"))
    tokenizer = Stage("tokenizer", rate=RATE, execution=0.001, config=model_config("tokenizer"))
    steps = chain("chat", "tokenizer", "llm")
    chat = Stage("chat", rate=RATE, execution=0.0013, overhead=seconds, config=steps)
    triton = SyntheticTriton(
        models=(chat, tokenizer, llm), extra_metrics=lambda read: triton_lines(held, read, now=now), interval=BETWEEN
    )
    return triton.explain(READS)


def served_lines(held: Held, read: int, prefix: str) -> Iterable[str]:
    """Return the page of trtllm-serve; a paused request is among those that run there, and queued ones are not."""
    scheduled, waiting, paused, used = held.at(read)
    done = RATE * (100 + BETWEEN * read)
    means = {
        "e2e_request_latency": (held.scheduled + held.waiting + held.paused) / RATE,
        "request_queue_time": held.waiting / RATE,
        "request_inference_time": (held.scheduled + held.paused) / RATE,
    }
    for name, mean in means.items():
        family = f"{prefix}{name}_seconds"
        yield f"# TYPE {family} histogram"
        yield f'{family}_bucket{{le="+Inf",{SERVED[1:-1]}}} {done}'
        yield f"{family}_count{SERVED} {done}"
        yield f"{family}_sum{SERVED} {done * mean}"
    gauges = {
        "num_requests_running": scheduled + paused,
        "num_requests_waiting": waiting,
        "max_num_active_requests": SLOTS,
        "num_scheduled_requests": scheduled,
        "num_generation_requests": scheduled,
        "num_context_requests": 0.0,
        "num_paused_requests": paused,
        "kv_cache_max_blocks": BLOCKS,
        "kv_cache_used_blocks": used,
        "kv_cache_free_blocks": BLOCKS - used,
    }
    yield from (f"{prefix}{name}{SERVED} {value}" for name, value in gauges.items())


def on_trtllm_serve(held: Held, prefix: str) -> Explanation:
    """Return what is found in pages of trtllm-serve alone."""
    bodies = ("\n".join([*served_lines(held, read, prefix), ""]) for read in range(READS))
    return explained_window(
        window_of(
            Scrape(
                server=SERVER,
                kind=BodyKind.METRICS,
                at=START + BETWEEN * read,
                mono=START + BETWEEN * read,
                body=body.encode(),
            )
            for read, body in enumerate(bodies)
        )
    )


PAGES: Mapping[str, Callable[[Held], Explanation]] = {
    "paused_requests": lambda held: on_triton(held, now=True),
    "terminated_requests": lambda held: on_triton(held, now=False),
    "trtllm_num_paused_requests": lambda held: on_trtllm_serve(held, "trtllm_"),
    "num_paused_requests": lambda held: on_trtllm_serve(held, ""),
}
AWAY = ((0, 0), (0, 1), (1, 1), (0, 5), (3, 2), (8, 0), (5, 5), (0, 20), (20, 1), (20, 20))
SWEEP = [
    Held(used=used, scheduled=scheduled, waiting=waiting, paused=paused)
    for used, scheduled, (waiting, paused) in product((0.85, 0.93, 1.0), (8, 32), AWAY)
]
# A queue of half a limit's share is no reason to change anything, and a fifth of the time surely is one.
NOTHING, MUCH = 0.08, 0.22


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("held", SWEEP, ids=lambda held: f"{held.used} {held.scheduled}+{held.waiting}+{held.paused}")
def test_time_lost_inside_has_exactly_one_cause(held: Held, page: str) -> None:
    explanation = PAGES[page](held)
    found = checks(explanation)

    assert len(found) <= 1
    assert set(found) <= THREE
    assert not found or held.lost > NOTHING
    if held.lost > MUCH and not _both_reached(held):
        assert found
    if held.lost > MUCH:
        assert explanation.verdict is not Verdict.HEALTHY


def _both_reached(held: Held) -> bool:
    """Return whether slots and blocks are all taken, and nothing shows which of them requests would wait for next."""
    return held.scheduled == SLOTS and held.used == 1.0


@pytest.mark.parametrize("page", PAGES)
def test_more_slots_are_no_remedy_for_requests_that_are_paused(page: str) -> None:
    held = Held(used=0.93, scheduled=32, waiting=0, paused=12)

    assert checks(PAGES[page](held)) == ["kv-cache-thrashing"]


@pytest.mark.parametrize("page", PAGES)
def test_full_slots_and_one_paused_request_are_the_batch_limit(page: str) -> None:
    held = Held(used=0.85, scheduled=32, waiting=20, paused=1)

    assert checks(PAGES[page](held)) == ["engine-batch-limit"]
