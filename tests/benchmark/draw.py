"""Incidents drawn from a seed: a cause, or a decoy that looks like it in its configuration."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from diagnostics.demo.load import LoadProfile, Pattern
from tests.benchmark.deployment import Deployment, EngineSpec, StageSpec

_WORDS = (
    *("alder", "aspen", "birch", "cedar", "elm", "fir", "hazel", "holly", "juniper", "larch", "linden", "maple"),
    *("oak", "olive", "pine", "poplar", "rowan", "spruce", "sycamore", "walnut", "willow", "yew"),
)
_DURATION = 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One incident before it is recorded.

    Attributes:
        kind: what was drawn; never shown to the tool.
        deployment: with the fault in it.
        load: what clients do.
        target: the model the fault is in; empty for a decoy or a fault of traffic.
        causes: the checks that may be named for the drawn fault; empty for a decoy.
        also: what may be said besides.
        repairs: candidate single changes by the check that suggests them, where causes compete.
        release: version 2 of a stage that goes live in the middle, if any.
        by_hand: clients call the members one after another instead of the ensemble.
        neighbour: share of the time that another process uses the GPU.
    """

    kind: str
    deployment: Deployment
    load: LoadProfile
    target: str = ""
    causes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    repairs: Mapping[str, Deployment] | None = None
    release: StageSpec | None = None
    by_hand: bool = False
    neighbour: float = 0.0


def draw_gpu(seed: int) -> Drawn:
    """Return the incident of a seed for a machine with a GPU, kinds in turn."""
    return _ON_GPU[sorted(_ON_GPU)[seed % len(_ON_GPU)]](random.Random(seed))


def draw(seed: int) -> Drawn:
    """Return the incident of a seed; every third one is a decoy, and kinds come in turn."""
    decoy, turn = seed % 3 == 0, seed // 3 if seed % 3 == 0 else seed - seed // 3
    table = _DECOYS if decoy else _FAULTS
    return table[sorted(table)[turn % len(table)]](random.Random(seed))


def _names(chance: random.Random, count: int) -> list[str]:
    return chance.sample(_WORDS, count)


def _healthy(chance: random.Random, rate: float, *, engine: bool | None = None) -> Deployment:
    """Return a deployment in which every stage is at most half busy at `rate`."""
    count = chance.randint(2, 5)
    names = _names(chance, count + 2)
    stages = tuple(_stage(chance, name, rate) for name in names[:count])
    with_engine = chance.random() < 0.6 if engine is None else engine
    spec = EngineSpec(name=names[count], slots=64, decode_ms=chance.uniform(1.5, 4.0)) if with_engine else None
    return Deployment(
        ensemble=names[count + 1],
        stages=stages,
        engine=spec,
        engine_after=chance.randrange(count),
        side=chance.randrange(count - 1) if count > 2 and chance.random() < 0.3 else None,
    )


def _stage(chance: random.Random, name: str, rate: float) -> StageSpec:
    base = chance.choice((chance.uniform(1, 6), chance.uniform(6, 30)))
    most = chance.choice((1, 8, 16, 32))
    needed = rate * base / 1e3 / chance.uniform(0.2, 0.5)
    batching = most > 1 and chance.random() < 0.6
    return StageSpec(
        name=name,
        base_ms=base,
        per_item_ms=base * chance.uniform(0.01, 0.1) if most > 1 else 0.0,
        instances=max(1, min(8, round(needed + 0.5))),
        max_batch=most,
        delay_us=chance.choice((0, 200, 500, 1000)) if batching else None,
    )


def _poisson(chance: random.Random, model: str, rate: float) -> LoadProfile:
    return LoadProfile(model=model, rate=rate, duration=_DURATION, seed=chance.randrange(10**6))


def _busy(stage: StageSpec, busy: float, instances: int) -> float:
    """Return the rate at which `instances` of a stage that runs one at a time are `busy`."""
    return busy * instances / (stage.seconds() + 0.0004)


def _single(chance: random.Random, busy: tuple[float, float], kind: str, causes: tuple[str, ...]) -> Drawn:
    rate = chance.uniform(15, 50)
    deployment = _healthy(chance, rate)
    target = chance.choice(deployment.stages)
    instances = chance.choice((1, 1, 1, 2))
    base = 1e3 * instances * chance.uniform(*busy) / rate - 0.4
    deployment = deployment.changed(
        target.name, base_ms=base, per_item_ms=0.0, instances=instances, max_batch=1, delay_us=None
    )
    return Drawn(
        kind=kind,
        deployment=deployment,
        load=_poisson(chance, deployment.ensemble, rate),
        target=target.name if causes else "",
        causes=causes,
        also=("capacity-exceeded",) if causes else (),
    )


def single_instance(chance: random.Random) -> Drawn:
    return _single(chance, (0.86, 0.97), "single-instance", ("single-instance-serialization",))


def single_instance_idle(chance: random.Random) -> Drawn:
    return _single(chance, (0.15, 0.35), "single-instance-idle", ())


def _unbatched(chance: random.Random, busy: tuple[float, float], share: tuple[float, float], kind: str) -> Drawn:
    """A stage that may batch and does not; `share` is what a further item costs."""
    base = chance.uniform(4, 20)
    cost = base * chance.uniform(*share)
    stage = StageSpec(
        name=_names(chance, 1)[0], base_ms=base - cost, per_item_ms=cost, max_batch=chance.choice((8, 16, 32))
    )
    rate = _busy(stage, chance.uniform(*busy), 1)
    deployment = _healthy(chance, min(rate, 40.0))
    stages = (stage, *(s for s in deployment.stages if s.name != stage.name))
    deployment = replace(deployment, stages=stages, side=None, engine_after=len(stages) - 1)
    direct = rate > 60
    return Drawn(
        kind=kind,
        deployment=deployment if not direct else replace(deployment, engine=None),
        load=_poisson(chance, stage.name if direct else deployment.ensemble, rate),
    )


def batch_collapse(chance: random.Random) -> Drawn:
    drawn = _unbatched(chance, (0.88, 0.96), (0.02, 0.1), "batch-collapse")
    name = drawn.deployment.stages[0].name
    return replace(
        drawn,
        target=name,
        causes=("batch-size-collapse",),
        also=("single-instance-serialization", "capacity-exceeded"),
        repairs={
            "batch-size-collapse": drawn.deployment.changed(name, delay_us=0),
            "single-instance-serialization": drawn.deployment.changed(name, instances=2),
        },
    )


def unbatched_idle(chance: random.Random) -> Drawn:
    return _unbatched(chance, (0.1, 0.35), (0.02, 0.1), "unbatched-idle")


def batch_window(chance: random.Random) -> Drawn:
    rate = chance.uniform(8, 20)
    deployment = _healthy(chance, rate)
    target = chance.choice(deployment.stages)
    window = chance.randint(30, 90) * 1000
    deployment = deployment.changed(
        target.name, base_ms=chance.uniform(2, 6), per_item_ms=0.2, max_batch=64, delay_us=window
    )
    return Drawn(
        kind="batch-window",
        deployment=deployment,
        load=_poisson(chance, deployment.ensemble, rate),
        target=target.name,
        causes=("batch-window-mistuned",),
    )


def window_harmless(chance: random.Random) -> Drawn:
    """A window of a few milliseconds in a pipeline of hundreds."""
    rate = chance.uniform(8, 20)
    deployment = _healthy(chance, rate, engine=True)
    target = chance.choice(deployment.stages)
    deployment = deployment.changed(target.name, base_ms=4.0, per_item_ms=0.2, max_batch=64, delay_us=4000)
    return Drawn(kind="window-harmless", deployment=deployment, load=_poisson(chance, deployment.ensemble, rate))


def no_gain(chance: random.Random) -> Drawn:
    base = chance.uniform(6, 14)
    name = _names(chance, 1)[0]
    stage = StageSpec(name=name, base_ms=0.4, per_item_ms=base, max_batch=16, delay_us=2000)
    deployment = replace(_healthy(chance, 20, engine=False), stages=(stage,), side=None, engine_after=0)
    deployment = replace(deployment, ensemble=deployment.ensemble + "-all")
    return Drawn(
        kind="batch-no-gain",
        deployment=deployment,
        load=_poisson(chance, name, chance.uniform(0.9, 0.95) / (base + 0.6) * 1e3),
        target=name,
        causes=("single-instance-serialization", "batching-without-gain"),
        also=("single-instance-serialization", "batching-without-gain", "capacity-exceeded"),
        repairs={
            "single-instance-serialization": deployment.changed(name, instances=2),
            "batching-without-gain": deployment.changed(name, delay_us=None),
        },
    )


def cold_start(chance: random.Random) -> Drawn:
    rate = chance.uniform(10, 25)
    deployment = _healthy(chance, rate)
    target = chance.choice(deployment.stages)
    return Drawn(
        kind="cold-start",
        deployment=deployment,
        load=_poisson(chance, deployment.ensemble, rate),
        target=target.name,
        causes=("cold-start",),
        also=("model-reload-stall",),
        release=replace(target, first_ms=chance.uniform(900, 2500)),
    )


def release_warm(chance: random.Random) -> Drawn:
    rate = chance.uniform(10, 25)
    deployment = _healthy(chance, rate)
    return Drawn(
        kind="release-warm",
        deployment=deployment,
        load=_poisson(chance, deployment.ensemble, rate),
        release=chance.choice(deployment.stages),
    )


def overflow(chance: random.Random) -> Drawn:
    drawn = single_instance(chance)
    limit = chance.randint(2, 6)
    rate = drawn.load.rate * chance.uniform(1.4, 1.9)
    return replace(
        drawn,
        kind="queue-overflow",
        deployment=drawn.deployment.changed(drawn.target, queue_limit=limit),
        load=replace(drawn.load, rate=rate),
        causes=("queue-rejections", "single-instance-serialization", "scheduler-stall"),
        also=("queue-rejections", "single-instance-serialization", "scheduler-stall", "capacity-exceeded"),
    )


def limit_unreached(chance: random.Random) -> Drawn:
    drawn = single_instance_idle(chance)
    stage = chance.choice(drawn.deployment.stages)
    deployment = drawn.deployment.changed(stage.name, queue_limit=1000)
    return replace(drawn, kind="limit-unreached", deployment=deployment)


def errors(chance: random.Random) -> Drawn:
    rate = chance.uniform(12, 25)
    deployment = replace(_healthy(chance, rate), side=None)
    target = chance.choice(deployment.stages[:-1])
    return Drawn(
        kind="backend-errors",
        deployment=deployment.changed(target.name, fail_every=chance.randint(4, 12)),
        load=_poisson(chance, deployment.ensemble, rate),
        target=target.name,
        causes=("request-failures",),
    )


def _engine_limited(chance: random.Random, kind: str, cause: str) -> Drawn:
    deployment = _healthy(chance, 20.0, engine=True)
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
        load=_poisson(chance, deployment.ensemble, rate),
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


def bursts(chance: random.Random) -> Drawn:
    rate = chance.uniform(8, 14)
    deployment = _healthy(chance, rate)
    load = LoadProfile(
        model=deployment.ensemble,
        pattern=Pattern.BURST,
        rate=rate,
        burst=round(rate * chance.uniform(2.5, 4.5)),
        duration=_DURATION,
        seed=chance.randrange(10**6),
    )
    return Drawn(
        kind="bursty",
        deployment=deployment,
        load=load,
        causes=("bursty-arrivals",),
        also=("engine-bound", "prefill-interference", "batch-window-mistuned"),
    )


def closed_loop(chance: random.Random) -> Drawn:
    deployment = _healthy(chance, 25.0)
    load = LoadProfile(
        model=deployment.ensemble,
        pattern=Pattern.CLOSED,
        concurrency=chance.randint(1, 3),
        duration=_DURATION,
        seed=chance.randrange(10**6),
    )
    return Drawn(kind="closed-loop", deployment=deployment, load=load)


def quiet(chance: random.Random) -> Drawn:
    rate = chance.uniform(1.5, 4)
    deployment = _healthy(chance, 20.0)
    return Drawn(kind="quiet", deployment=deployment, load=_poisson(chance, deployment.ensemble, rate))


def healthy(chance: random.Random) -> Drawn:
    rate = chance.uniform(12, 40)
    deployment = _healthy(chance, rate)
    return Drawn(kind="healthy", deployment=deployment, load=_poisson(chance, deployment.ensemble, rate))


def by_hand(chance: random.Random) -> Drawn:
    rate = chance.uniform(8, 14)
    deployment = replace(_healthy(chance, rate), side=None)
    return Drawn(
        kind="external-orchestration",
        deployment=deployment,
        load=_poisson(chance, deployment.ensemble, rate),
        causes=("external-orchestration",),
        by_hand=True,
    )


_FAULTS: Mapping[str, Callable[[random.Random], Drawn]] = {
    function.__name__: function
    for function in (
        single_instance,
        batch_collapse,
        batch_window,
        no_gain,
        cold_start,
        overflow,
        errors,
        engine_slots,
        kv_exhausted,
        bursts,
        by_hand,
    )
}
_DECOYS: Mapping[str, Callable[[random.Random], Drawn]] = {
    function.__name__: function
    for function in (
        healthy,
        quiet,
        closed_loop,
        single_instance_idle,
        unbatched_idle,
        window_harmless,
        release_warm,
        limit_unreached,
        engine_small_idle,
    )
}


def _gpu(chance: random.Random, rate: float, busy: float, size: int, instances: int) -> tuple[Deployment, str]:
    """Return a deployment with one stage on the GPU that would be `busy` if the card were its own."""
    deployment = replace(_healthy(chance, rate), side=None)
    target = chance.choice(deployment.stages).name
    base = max(1e3 * busy * instances / rate - 0.4, 0.5)
    changed = deployment.changed(
        target, base_ms=base, per_item_ms=0, instances=instances, max_batch=1, delay_us=None, mode="gpu", gpu_size=size
    )
    return changed, target


def gpu_single(chance: random.Random) -> Drawn:
    rate = chance.uniform(25, 60)
    deployment, target = _gpu(chance, rate, chance.uniform(0.75, 0.85), chance.choice((512, 768, 1024)), 1)
    return Drawn(
        kind="gpu-single-instance",
        deployment=deployment,
        load=_poisson(chance, deployment.ensemble, rate * 1.12),
        target=target,
        causes=("single-instance-serialization",),
        also=("capacity-exceeded",),
    )


def gpu_idle(chance: random.Random) -> Drawn:
    rate = chance.uniform(20, 40)
    deployment, _ = _gpu(chance, rate, chance.uniform(0.2, 0.4), chance.choice((512, 1024, 4096)), 1)
    return Drawn(kind="gpu-idle", deployment=deployment, load=_poisson(chance, deployment.ensemble, rate))


def gpu_full(chance: random.Random) -> Drawn:
    rate = chance.uniform(15, 30)
    deployment, target = _gpu(chance, rate, chance.uniform(0.62, 0.75), 8192, chance.choice((2, 3)))
    return Drawn(
        kind="gpu-saturated",
        deployment=deployment,
        load=_poisson(chance, deployment.ensemble, rate),
        target=target,
        causes=("gpu-saturated",),
        also=("gpu-throttled", "capacity-exceeded", "over-instanced"),
    )


def gpu_crowded(chance: random.Random) -> Drawn:
    deployment, target = _gpu(chance, 20.0, 0.1, 8192, 10)
    deployment = deployment.changed(target, base_ms=chance.uniform(8, 14), instances=chance.randint(9, 14))
    load = LoadProfile(
        model=target, pattern=Pattern.CLOSED, concurrency=chance.randint(22, 30), duration=_DURATION, seed=1
    )
    return Drawn(
        kind="gpu-over-instanced",
        deployment=deployment,
        load=load,
        target=target,
        causes=("gpu-saturated", "over-instanced"),
        also=("gpu-saturated", "over-instanced", "gpu-throttled", "capacity-exceeded"),
    )


def gpu_shared(chance: random.Random) -> Drawn:
    rate = chance.uniform(20, 35)
    deployment, _ = _gpu(chance, rate, chance.uniform(0.2, 0.3), chance.choice((1024, 2048)), 2)
    return Drawn(
        kind="gpu-noisy-neighbour",
        deployment=deployment,
        load=_poisson(chance, deployment.ensemble, rate),
        causes=("gpu-contended-by-other-process",),
        also=("gpu-saturated", "gpu-throttled"),
        neighbour=chance.uniform(0.4, 0.7),
    )


def gpu_in_use(chance: random.Random) -> Drawn:
    """Three instances half busy: the card is in use most of the time, and nothing waits."""
    rate = chance.uniform(25, 50)
    deployment, _ = _gpu(chance, rate, chance.uniform(0.22, 0.3), chance.choice((512, 1024)), 3)
    return Drawn(kind="gpu-in-use", deployment=deployment, load=_poisson(chance, deployment.ensemble, rate))


_ON_GPU: Mapping[str, Callable[[random.Random], Drawn]] = {
    function.__name__: function for function in (gpu_single, gpu_idle, gpu_full, gpu_crowded, gpu_shared, gpu_in_use)
}
