"""What clients do: bursts, closed loops, calling the members by hand."""

from __future__ import annotations

import random
from dataclasses import replace

from diagnostics.loadgen.load import LoadProfile, Pattern
from tests.benchmark.draws.base import DURATION, Drawn, Traffic, healthy_deployment, poisson


def bursts(chance: random.Random) -> Drawn:
    rate = chance.uniform(8, 14)
    deployment = healthy_deployment(chance, rate)
    load = LoadProfile(
        model=deployment.ensemble,
        pattern=Pattern.BURST,
        rate=rate,
        burst=round(rate * chance.uniform(2.5, 4.5)),
        duration=DURATION,
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
    deployment = healthy_deployment(chance, 25.0)
    load = LoadProfile(
        model=deployment.ensemble,
        pattern=Pattern.CLOSED,
        concurrency=chance.randint(1, 3),
        duration=DURATION,
        seed=chance.randrange(10**6),
    )
    return Drawn(kind="closed-loop", deployment=deployment, load=load)


def quiet(chance: random.Random) -> Drawn:
    rate = chance.uniform(1.5, 4)
    deployment = healthy_deployment(chance, 20.0)
    return Drawn(kind="quiet", deployment=deployment, load=poisson(chance, deployment.ensemble, rate))


def healthy(chance: random.Random) -> Drawn:
    rate = chance.uniform(12, 40)
    deployment = healthy_deployment(chance, rate)
    return Drawn(kind="healthy", deployment=deployment, load=poisson(chance, deployment.ensemble, rate))


def by_hand(chance: random.Random) -> Drawn:
    rate = chance.uniform(8, 14)
    deployment = replace(healthy_deployment(chance, rate), side=None)
    return Drawn(
        kind="external-orchestration",
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        causes=("external-orchestration",),
        by_hand=True,
    )


def _rising(chance: random.Random, before: float, rises: float, kind: str) -> Drawn:
    """Traffic that rises in the middle; `before` is how busy the busiest stage is until then."""
    rate = chance.uniform(10, 18)
    deployment = healthy_deployment(chance, rate * rises)
    target = chance.choice(deployment.stages).name
    base = 1e3 * before / rate - 0.4
    deployment = deployment.changed(target, base_ms=base, per_item_ms=0.0, instances=1, max_batch=1, delay_us=None)
    load = poisson(chance, deployment.ensemble, rate)
    return Drawn(kind=kind, deployment=deployment, load=load, traffic=Traffic(rises=rises))


def more_traffic(chance: random.Random) -> Drawn:
    """Traffic that rises until one stage is nearly full: fewer requests and one more instance help alike."""
    drawn = _rising(chance, chance.uniform(0.38, 0.45), chance.uniform(1.9, 2.2), "workload-shift")
    both = ("workload-shift", "single-instance-serialization")
    return replace(drawn, causes=both, also=(*both, "capacity-exceeded"))


def more_traffic_unfelt(chance: random.Random) -> Drawn:
    return _rising(chance, chance.uniform(0.08, 0.15), chance.uniform(1.5, 2.0), "shift-unfelt")


def _rows(chance: random.Random, traffic: Traffic, kind: str) -> Drawn:
    """Requests of several rows, each of which costs its share in one stage."""
    rate = chance.uniform(8, 14)
    deployment = healthy_deployment(chance, rate)
    for stage in deployment.stages:
        deployment = deployment.changed(stage.name, max_batch=32, per_item_ms=0.1)
    target = chance.choice(deployment.stages).name
    deployment = deployment.changed(target, base_ms=2.0, per_item_ms=chance.uniform(5, 9), instances=4)
    load = poisson(chance, deployment.ensemble, rate)
    return Drawn(kind=kind, deployment=deployment, load=load, traffic=traffic)


def larger_requests(chance: random.Random) -> Drawn:
    traffic = Traffic(rows=chance.randint(1, 2), rows_later=chance.randint(8, 14))
    drawn = _rows(chance, traffic, "workload-shift-size")
    return replace(drawn, causes=("workload-shift",))


def large_requests(chance: random.Random) -> Drawn:
    rows = chance.randint(2, 8)
    return _rows(chance, Traffic(rows=rows, rows_later=rows), "rows-constant")


def _far(chance: random.Random, hop_ms: float, kind: str) -> Drawn:
    return replace(healthy(chance), kind=kind, hop_ms=hop_ms)


def far_clients(chance: random.Random) -> Drawn:
    drawn = _far(chance, chance.uniform(40, 120), "client-or-transport")
    return replace(drawn, causes=("client-or-transport-bound",))


def near_clients(chance: random.Random) -> Drawn:
    return _far(chance, chance.uniform(0.2, 1.0), "clients-near")


def _few_threads(chance: random.Random, clients: int, values: int, kind: str) -> Drawn:
    """Tensors as lists of JSON, which one thread of the frontend reads and writes, before stages with room."""
    deployment = replace(healthy_deployment(chance, 30.0, engine=False), width=-1)
    for stage in deployment.stages:
        changes = {"base_ms": min(stage.base_ms, 4.0), "max_batch": 1, "delay_us": None, "instances": 8}
        deployment = deployment.changed(stage.name, **changes)
    load = LoadProfile(
        model=deployment.ensemble,
        pattern=Pattern.CLOSED,
        concurrency=clients,
        duration=DURATION,
        seed=chance.randrange(10**6),
    )
    traffic = Traffic(values=values)
    return Drawn(kind=kind, deployment=deployment, load=load, options=("--http-thread-count=1",), traffic=traffic)


def few_threads(chance: random.Random) -> Drawn:
    """Long lists of many clients: more threads, shorter lists and more instances are tried."""
    drawn = _few_threads(chance, chance.randint(8, 14), chance.randint(60, 120) * 1000, "frontend-limited")
    more = drawn.deployment
    for stage in more.stages:
        more = more.changed(stage.name, instances=16)
    shorter = replace(drawn, traffic=Traffic(values=drawn.traffic.values // 8))
    repairs = {
        "frontend-limited": replace(drawn, options=()),
        "single-instance-serialization": replace(drawn, deployment=more),
        # The last stage's thread writes the answer as JSON: its length costs there, in the frontend and on its way.
        "input-output-cost": shorter,
        "client-or-transport-bound": shorter,
    }
    return replace(drawn, causes=("frontend-limited",), also=tuple(repairs), repairs=repairs)


def few_threads_idle(chance: random.Random) -> Drawn:
    return _few_threads(chance, chance.randint(2, 8), 4, "few-threads-idle")
