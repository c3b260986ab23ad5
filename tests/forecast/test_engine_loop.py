"""The engine's iteration loop against laws of queues, and against SimPy."""

from __future__ import annotations

from math import inf
from random import Random
from statistics import fmean

import pytest
import simpy

from diagnostics.forecast.engine_loop import (
    GUARANTEED_NO_EVICT,
    SGLANG,
    VLLM,
    EngineLimits,
    EngineLoad,
    EngineRequest,
    EngineRun,
    IterationCost,
    SchedulerPolicy,
    TokenCount,
    simulate_engine,
)

COST = IterationCost(base=0.010, per_request=0.001, per_token=0.0001)
LENGTHS = {"prompt": TokenCount(mean=100), "answer": TokenCount(mean=50)}


def ended(run: EngineRun) -> list[EngineRequest]:
    return [one for one in run.requests if run.begin <= one.ended < run.end]


def test_one_slot_is_a_queue_with_one_server() -> None:
    # The first iteration reads the prompt alone; 49 more decode alone.
    service = 0.010 + 100 * 0.0001 + 49 * 0.011
    rate = 0.7 / service
    run = simulate_engine(EngineLimits(slots=1), COST, EngineLoad(rate=rate, **LENGTHS), seconds=60_000, warmup=500)

    waited = fmean(one.started - one.came for one in ended(run))
    # Pollaczek and Khinchine, for times that are all alike.
    assert waited == pytest.approx(0.7 * service / (2 * 0.3), rel=0.03)
    assert fmean(one.ended - one.started for one in ended(run)) == pytest.approx(service)
    assert run.busy / (run.end - run.begin) == pytest.approx(0.7, rel=0.01)


@pytest.mark.parametrize("slots", [1, 4, inf])
@pytest.mark.parametrize("policy", [GUARANTEED_NO_EVICT, VLLM, SGLANG])
def test_requests_inside_are_their_rate_times_their_time(slots: float, policy: SchedulerPolicy) -> None:
    lengths = {"prompt": TokenCount(mean=100, scv=0.5), "answer": TokenCount(mean=50, scv=0.5)}
    limits = EngineLimits(slots=slots, policy=policy, cache_tokens=2000, token_budget=256)
    run = simulate_engine(limits, COST, EngineLoad(rate=1.2, **lengths), seconds=5_000, warmup=100)

    inside = (run.running + run.waiting) / (run.end - run.begin)
    took = fmean(one.ended - one.came for one in ended(run))
    assert inside == pytest.approx(len(ended(run)) / (run.end - run.begin) * took, rel=0.03)


def test_clients_that_wait_keep_as_many_requests_inside() -> None:
    run = simulate_engine(EngineLimits(slots=4), COST, EngineLoad(clients=12, **LENGTHS), seconds=200, warmup=20)

    assert (run.running + run.waiting) / 200 == pytest.approx(12, rel=0.01)
    assert run.running / 200 == pytest.approx(4, rel=0.01)


def by_simpy(slots: int, cost: IterationCost, came: list[float], prompt: int, answer: int) -> list[float]:
    """Return when each request ends, with an iteration as one process's timeout."""
    env, waiting, running, ends = simpy.Environment(), list[int](), dict[int, int](), [inf] * len(came)
    arrived = env.event()

    def arrivals():  # type: ignore[no-untyped-def]
        nonlocal arrived
        for number, at in enumerate(came):
            yield env.timeout(at - env.now)
            waiting.append(number)
            if not arrived.triggered:
                arrived.succeed()

    def engine():  # type: ignore[no-untyped-def]
        nonlocal arrived
        while True:
            decoding = list(running)
            reading = [waiting.pop(0) for _ in range(min(slots - len(running), len(waiting)))]
            if not decoding and not reading:
                arrived = env.event()
                yield arrived
                continue
            yield env.timeout(cost.base + cost.per_request * len(decoding) + cost.per_token * prompt * len(reading))
            for one in decoding:
                running[one] -= 1
            running.update(dict.fromkeys(reading, answer - 1))
            for one in [one for one, left in running.items() if not left]:
                del running[one]
                ends[one] = env.now

    env.process(arrivals())
    env.process(engine())
    env.run(until=came[-1] + 60)
    return ends


@pytest.mark.parametrize("slots", [1, 3, 16])
def test_requests_end_when_they_end_in_simpy(slots: int) -> None:
    load = EngineLoad(rate=3, **LENGTHS)
    run = simulate_engine(EngineLimits(slots=slots), COST, load, seconds=60)
    came = [one.came for one in run.requests]

    ends = by_simpy(slots, COST, came, 100, 50)
    mine = [(one.ended, other) for one, other in zip(run.requests, ends, strict=True) if one.ended < inf]
    assert len(mine) > 30
    assert [one for one, _ in mine] == pytest.approx([other for _, other in mine])


def test_a_prompt_longer_than_the_budget_is_read_in_parts() -> None:
    load = EngineLoad(rate=0.1, prompt=TokenCount(mean=1000), answer=TokenCount(mean=10))
    whole = simulate_engine(EngineLimits(token_budget=256, chunked=False), COST, load, seconds=600)
    parts = simulate_engine(EngineLimits(token_budget=256), COST, load, seconds=600)

    alone = [min(one.first - one.started for one in run.requests if one.first < inf) for run in (whole, parts)]
    assert alone == pytest.approx([0.010 + 0.1, 4 * 0.010 + 0.1])


def test_requests_that_decode_leave_the_rest_of_the_budget_to_prompts() -> None:
    # Of 100 tokens 8 are theirs: the last 8 of a prompt are read in an iteration of their own.
    load = EngineLoad(clients=9, **LENGTHS)
    found = [
        fmean(
            one.first - one.started
            for one in ended(simulate_engine(limits, IterationCost(base=1), load, seconds=9_000, warmup=900))
        )
        for limits in (EngineLimits(token_budget=100), EngineLimits(token_budget=200))
    ]

    assert found == pytest.approx([2, 1], rel=0.05)


def test_other_requests_are_held_up_less_by_a_prompt_in_parts() -> None:
    load = EngineLoad(rate=2, prompt=TokenCount(mean=2000), answer=TokenCount(mean=40))

    def longest(limits: EngineLimits) -> float:
        run = simulate_engine(limits, COST, load, seconds=300)
        return max((one.ended - one.first) / (one.answer - 1) for one in ended(run))

    assert longest(EngineLimits(token_budget=256)) < longest(EngineLimits())


def test_a_cache_for_whole_answers_puts_none_back() -> None:
    lengths = {"prompt": TokenCount(mean=50), "answer": TokenCount(mean=200)}
    runs = [
        simulate_engine(
            EngineLimits(cache_tokens=1000, policy=policy), COST, EngineLoad(clients=10, **lengths), seconds=300
        )
        for policy in (GUARANTEED_NO_EVICT, VLLM)
    ]

    reserved, preempting = runs
    assert reserved.preempted == 0
    assert reserved.running / 300 == pytest.approx(4, rel=0.02)  # of 250 tokens each
    assert preempting.preempted > 0
    assert preempting.running > reserved.running
    assert preempting.cache / 300 <= 1000


def test_an_engine_that_reads_apart_decodes_nothing_meanwhile() -> None:
    load = EngineLoad(clients=4, prompt=TokenCount(mean=1000), answer=TokenCount(mean=20, scv=0.5))
    mixed, apart = (
        simulate_engine(EngineLimits(slots=4, policy=policy), COST, load, seconds=200) for policy in (VLLM, SGLANG)
    )

    assert len(ended(apart)) < len(ended(mixed))


def test_what_is_held_in_the_cache_lengthens_each_iteration() -> None:
    cost = IterationCost(base=0.010, per_held=1e-5)
    run = simulate_engine(EngineLimits(), cost, EngineLoad(rate=0.01, **LENGTHS), seconds=5_000)

    # Alone, it decodes with 101 to 149 tokens in the cache.
    (took,) = {round(one.ended - one.first, 9) for one in ended(run)}
    assert took == pytest.approx(49 * 0.010 + 1e-5 * sum(range(101, 150)))


def test_requests_come_alike_whatever_the_limits() -> None:
    lengths = {"prompt": TokenCount(mean=100, scv=1), "answer": TokenCount(mean=50, scv=1)}
    load = EngineLoad(rate=2, **lengths)
    one, other = (simulate_engine(EngineLimits(slots=slots), COST, load, seconds=100, seed=3) for slots in (2, 8))

    came = [[(r.came, r.prompt, r.answer) for r in run.requests if r.came < 99] for run in (one, other)]
    assert came[0] == came[1]


def test_lengths_have_their_mean() -> None:
    rng = Random(1)
    for scv in (0.0, 0.3, 1.0):
        assert fmean(TokenCount(mean=80.4, scv=scv).draw(rng) for _ in range(20_000)) == pytest.approx(80.4, rel=0.03)
