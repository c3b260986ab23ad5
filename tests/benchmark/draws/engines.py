"""Limits inside the engine."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.draws.base import Drawn, healthy_deployment, poisson


def _engine_limited(chance: random.Random, kind: str, cause: str) -> Drawn:
    deployment = healthy_deployment(chance, 20.0, engine=True)
    assert deployment.engine is not None
    slots = chance.randint(3, 6)
    decode = chance.uniform(3.0, 5.0)
    held = 26 * (decode + 0.1 * slots) / 1e3 + 0.012
    rate = chance.uniform(0.97, 1.06) * slots / held
    # A request reserves 48 prompt and up to 40 generated tokens: three blocks of 32.
    engine = replace(
        deployment.engine,
        decode_ms=decode,
        slots=slots if kind == "engine-slots" else 64,
        kv_tokens=65536 if kind == "engine-slots" else slots * 96 + 32,
    )
    deployment = replace(deployment, engine=engine)
    return Drawn(
        kind=kind,
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        target=engine.name,
        causes=(cause,),
    )


def engine_slots(chance: random.Random) -> Drawn:
    return _engine_limited(chance, "engine-slots", "engine-batch-limit")


def kv_exhausted(chance: random.Random) -> Drawn:
    return _engine_limited(chance, "kv-exhausted", "kv-cache-exhausted")


def engine_small_idle(chance: random.Random) -> Drawn:
    drawn = _engine_limited(chance, "engine-slots", "")
    load = replace(drawn.load, rate=drawn.load.rate * 0.2)
    return replace(drawn, kind="engine-small-idle", causes=(), target="", load=load)


def _prompts(chance: random.Random, rate: float, kind: str) -> Drawn:
    deployment = healthy_deployment(chance, 20.0, engine=True)
    assert deployment.engine is not None
    engine = replace(deployment.engine, prompt=chance.randint(700, 1300))
    return Drawn(
        kind=kind,
        deployment=replace(deployment, engine=engine),
        load=poisson(chance, deployment.ensemble, rate),
        target=engine.name,
    )


def long_prompts(chance: random.Random) -> Drawn:
    """Prompts whose reading stalls all that runs beside, for a third to two thirds of the engine's time."""
    drawn = _prompts(chance, 1.0, "prefill-interference")
    assert drawn.deployment.engine is not None
    rate = chance.uniform(0.35, 0.65) / ((5 + 0.05 * drawn.deployment.engine.prompt) / 1e3)
    return replace(drawn, load=replace(drawn.load, rate=rate), causes=("prefill-interference",), also=("engine-bound",))


def long_prompts_rare(chance: random.Random) -> Drawn:
    return replace(_prompts(chance, chance.uniform(0.8, 1.5), "long-prompts-rare"), target="")


def _static(chance: random.Random, share: tuple[float, float], kind: str) -> Drawn:
    """An engine that begins a batch when the one before it has ended; `share` is its load."""
    deployment = healthy_deployment(chance, 15.0, engine=True)
    assert deployment.engine is not None
    slots, decode = chance.randint(3, 8), chance.uniform(3.0, 6.0)
    batch = (5 + 2.4 * slots + 38 * (decode + 0.1 * slots)) / 1e3
    engine = replace(deployment.engine, slots=slots, decode_ms=decode, static=True)
    return Drawn(
        kind=kind,
        deployment=replace(deployment, engine=engine),
        load=poisson(chance, deployment.ensemble, chance.uniform(*share) * slots / batch),
        target=engine.name,
    )


def static_batches(chance: random.Random) -> Drawn:
    drawn = _static(chance, (0.85, 1.0), "inflight-batching-off")
    engine = drawn.deployment.engine
    assert engine is not None
    off = replace(drawn.deployment, engine=replace(engine, static=False))
    more = replace(drawn.deployment, engine=replace(engine, slots=2 * engine.slots))
    repairs = {
        "inflight-batching-off": replace(drawn, deployment=off),
        "engine-batch-limit": replace(drawn, deployment=more),
    }
    return replace(drawn, causes=("inflight-batching-off",), also=tuple(repairs), repairs=repairs)


def static_idle(chance: random.Random) -> Drawn:
    return replace(_static(chance, (0.06, 0.15), "static-batches-idle"), target="")
