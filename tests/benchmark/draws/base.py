"""What one incident is, and the healthy deployments that all are drawn from."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from diagnostics.loadgen.load import LoadProfile
from tests.benchmark.deployment import Deployment, EngineSpec, StageSpec

_WORDS = (
    *("alder", "aspen", "birch", "cedar", "elm", "fir", "hazel", "holly", "juniper", "larch", "linden", "maple"),
    *("oak", "olive", "pine", "poplar", "rowan", "spruce", "sycamore", "walnut", "willow", "yew"),
)
DURATION = 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """How requests differ from each other and in time.

    Attributes:
        rises: from the middle on, so many times as many arrive.
        values: numbers in a row.
        rows: rows of a request.
        rows_later: rows of a request from the middle on.
        high: share of the requests that have priority 1, the others have 2; None where none has any.
        turns: requests of a sequence; 0 where requests belong to none.
        pause: seconds that a client thinks between two requests of a sequence.
    """

    rises: float = 1.0
    values: int = 4
    rows: int = 1
    rows_later: int = 1
    high: float | None = None
    turns: int = 0
    pause: float = 0.0


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
        repairs: by the check that suggests it, what a candidate single change makes of this, where causes compete.
        release: version 2 of a stage that goes live in the middle, if any.
        by_hand: clients call the members one after another instead of the ensemble.
        neighbour: share of the time that another process uses the GPU.
        traffic: how requests differ from each other and in time.
        shares: how requests are shared out, one share per server.
        slowed: what the last of several servers is instead; its configuration says the same.
        options: further options of the server.
        cores: processors that the server may use; 0 for all.
        hop_ms: what each way between client and server takes.
    """

    kind: str
    deployment: Deployment
    load: LoadProfile
    target: str = ""
    causes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    repairs: Mapping[str, Drawn] | None = None
    release: StageSpec | None = None
    by_hand: bool = False
    neighbour: float = 0.0
    traffic: Traffic = field(default_factory=lambda: Traffic())
    shares: tuple[float, ...] = (1.0,)
    slowed: Deployment | None = None
    options: tuple[str, ...] = ()
    cores: int = 0
    hop_ms: float = 0.0

    def changed(self, stage: str, **values: object) -> Drawn:
        """Return the incident with other settings of one stage."""
        return replace(self, deployment=self.deployment.changed(stage, **values))


def names_of(chance: random.Random, count: int) -> list[str]:
    return chance.sample(_WORDS, count)


def healthy_deployment(chance: random.Random, rate: float, *, engine: bool | None = None) -> Deployment:
    """Return a deployment in which every stage is at most half busy at `rate`."""
    count = chance.randint(2, 5)
    names = names_of(chance, count + 2)
    stages = tuple(stage_of(chance, name, rate) for name in names[:count])
    with_engine = chance.random() < 0.6 if engine is None else engine
    spec = EngineSpec(name=names[count], slots=64, decode_ms=chance.uniform(1.5, 4.0)) if with_engine else None
    return Deployment(
        ensemble=names[count + 1],
        stages=stages,
        engine=spec,
        engine_after=chance.randrange(count),
        side=chance.randrange(count - 1) if count > 2 and chance.random() < 0.3 else None,
    )


def stage_of(chance: random.Random, name: str, rate: float) -> StageSpec:
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


def poisson(chance: random.Random, model: str, rate: float) -> LoadProfile:
    return LoadProfile(model=model, rate=rate, duration=DURATION, seed=chance.randrange(10**6))


def rate_of(stage: StageSpec, busy: float, instances: int) -> float:
    """Return the rate at which `instances` of a stage that runs one at a time are `busy`."""
    return busy * instances / (stage.seconds() + 0.0004)
