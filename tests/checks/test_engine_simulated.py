"""Random engines with one thing short: what is named is what helps, as running them again with more of it shows.

The engines are the reference deployment's in-flight batcher, without a server: slots, cache, lengths, load and the
moment at which gauges are taken are drawn at random.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from tests.builders import Stage, SyntheticTriton, chain, model_config
from tests.checks.test_engine_checks import EngineSays

SECONDS, BETWEEN_READS = 40.0, 2.0
# What a change has to take off before it is the cause, and by how much more than the other.
HELPS, CLEARLY = 0.15, 0.1
PATH = Path(__file__).parents[2] / "fixtures/reference/model_repository/tensorrt_llm/1/batcher.py"


def _batcher() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_batcher", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


batcher = _batcher()
Arrival = tuple[float, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run showed: the mean latency, the requests done, and the gauges at each read."""

    mean: float
    done: int
    reads: Sequence[tuple[float, float, float, float]]


def simulated(limits: Any, arrivals: Sequence[Arrival], *, after: bool) -> Run:
    """Run an engine; `after` says that its gauges are taken once an iteration's finished requests have left."""
    engine, clock, taken = batcher.InflightBatcher(limits), 0.0, 0
    reads: list[tuple[float, float, float, float]] = []
    latencies: list[float] = []
    state = (0.0, 0.0, 0.0, 0.0)
    while clock < SECONDS:
        while taken < len(arrivals) and arrivals[taken][0] <= clock:
            at, prompt, output = arrivals[taken]
            engine.add(batcher.Sequence(owner=at, prompt_tokens=prompt, output_tokens=output))
            taken += 1
        if engine.idle:
            clock = arrivals[taken][0] if taken < len(arrivals) else SECONDS
        else:
            step = engine.step()
            clock += step.seconds
            latencies += [clock - sequence.owner for sequence in step.finished]
        while (len(reads) + 1) * BETWEEN_READS <= min(clock, SECONDS):
            reads.append(state)
        if not engine.idle or latencies:
            gone = step.finished if after else ()
            used = step.used_blocks - sum(engine.needs(sequence) for sequence in gone)
            state = (len(engine.waiting), step.scheduled - len(gone), used, step.number)
    return Run(mean=sum(latencies) / max(len(latencies), 1), done=len(latencies), reads=reads)


def drawn(random: Random) -> tuple[Any, list[Arrival]]:
    """Return an engine and the requests that come to it."""
    prompt, output = random.choice((32, 128, 512)), random.choice((8, 40, 120))
    spread, block = random.choice((0.0, 0.5, 0.9)), random.choice((16, 64))
    need = -(-(prompt + output) // block)
    slots, sequences = random.choice((2, 4, 8, 16, 32)), random.choice((1, 2, 4, 8, 30, 100))
    limits = batcher.Limits(
        max_batch=slots,
        kv_blocks=int(need * sequences * (1 + spread)) + random.randint(1, need),
        tokens_per_block=block,
        prefill_base=0.003,
        prefill_per_token=random.choice((1e-5, 5e-5)),
        decode_base=random.choice((0.002, 0.006)),
        decode_per_request=random.choice((5e-5, 2e-4)),
    )
    at_once = min(slots, sequences)
    decode = output * (limits.decode_base + limits.decode_per_request * at_once)
    seconds = decode + at_once * (limits.prefill_base + limits.prefill_per_token * prompt)
    rate, clock, arrivals = at_once / seconds * random.choice((0.3, 0.7, 0.95, 1.1)), 0.0, []
    while clock < SECONDS:
        clock += random.expovariate(rate)
        lengths = (max(1, round(length * random.uniform(1 - spread, 1 + spread))) for length in (prompt, output))
        arrivals.append((clock, *lengths))
    return limits, arrivals


def as_short_as_slots(random: Random) -> tuple[Any, Run]:
    """Return an engine whose cache holds about as many sequences as it has slots, and its run.

    Requests wait in it, all slots are taken at some read, and a larger cache helps clearly.
    """
    while True:
        limits, arrivals = drawn(random)
        if limits.max_batch < 8:
            continue
        tokens = sum(prompt + output for _, prompt, output in arrivals) / len(arrivals)
        blocks = tokens / limits.tokens_per_block * limits.max_batch * random.uniform(0.85, 1.3)
        limits = replace(limits, kv_blocks=max(int(blocks), 4))
        run = simulated(limits, arrivals, after=False)
        waited = [scheduled for waiting, scheduled, _, _ in run.reads if waiting > 0]
        if run.done < 40 or 2 * len(waited) < len(run.reads) or max(waited) < limits.max_batch:
            continue
        if sum(waited) > 0.85 * len(waited) * limits.max_batch:
            continue
        if simulated(replace(limits, kv_blocks=4 * limits.kv_blocks), arrivals, after=False).mean < 0.7 * run.mean:
            return limits, run


def named(limits: Any, run: Run) -> list[str]:
    """Return the loud checks about an ensemble around this engine."""
    rate = run.done / SECONDS
    gauges = EngineSays(
        waiting=lambda read: run.reads[read][0],
        scheduled=lambda read: run.reads[read][1],
        used=lambda read: run.reads[read][2],
        iterations=lambda read: run.reads[read][3],
        slots=limits.max_batch,
        blocks=limits.kv_blocks,
    )
    llm = Stage("llm", rate=rate, execution=0.0003, config=model_config("llm"))
    tokenizer = Stage("tokenizer", rate=rate, execution=0.001, config=model_config("tokenizer"))
    config = chain("chat", "tokenizer", "llm")
    chat = Stage("chat", rate=rate, execution=0.0013, overhead=run.mean, config=config)
    triton = SyntheticTriton(models=(chat, tokenizer, llm), extra_metrics=gauges.lines, interval=BETWEEN_READS)
    return [finding.check for finding in triton.explain(len(run.reads)).actionable]


@pytest.mark.parametrize("seed", [0, 3])
def test_a_cache_as_short_as_the_slots_is_named_where_a_larger_one_helps(seed: int) -> None:
    assert named(*as_short_as_slots(Random(seed))) == ["kv-cache-exhausted"]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_named_is_what_helps_most(seed: int) -> None:
    random = Random(seed)
    limits, arrivals = drawn(random)
    after = random.random() < 0.5
    run = simulated(limits, arrivals, after=after)
    if run.done < 40:
        pytest.skip("too few requests to be judged")
    wider = simulated(replace(limits, max_batch=4 * limits.max_batch), arrivals, after=after)
    larger = simulated(replace(limits, kv_blocks=4 * limits.kv_blocks), arrivals, after=after)
    gain = {"engine-batch-limit": 1 - wider.mean / run.mean, "kv-cache-exhausted": 1 - larger.mean / run.mean}

    found = named(limits, run)

    assert set(found) <= set(gain)
    for check in found:
        other = max(value for name, value in gain.items() if name != check)
        assert gain[check] > 0.05, gain
        assert gain[check] > other - CLEARLY, gain
    best = max(gain, key=lambda name: gain[name])
    if gain[best] > 0.5:
        assert found in ([best], []), gain
