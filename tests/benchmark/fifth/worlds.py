"""Topologies and settings that the faults and the look-alikes of the fifth table share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.benchmark.again.clients import odd
from tests.benchmark.again.record import OddIncident
from tests.benchmark.again.shaping import incident_of
from tests.benchmark.draws.base import names_of
from tests.benchmark.fourth.worlds import ALONE
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.shapes import Shape
from tests.benchmark.kinds.world import Ensemble, Event, Load, Model, Step, World

_KEYS = 4


def steps_of(models: Sequence[str]) -> tuple[Step, ...]:
    """Return the steps of an ensemble that asks models in order."""
    tensors = ["IN", *(f"t{number}" for number in range(1, len(models))), "OUT"]
    return tuple(Step(model=m, takes=(tensors[n],), gives=tensors[n + 1]) for n, m in enumerate(models))


def ensemble_inside(chance: random.Random) -> Shape:
    """An ensemble of which a step is another ensemble, which some clients ask; `deep` is in the inner one."""
    rate, own = chance.uniform(9, 14), chance.uniform(2, 4)
    first, deep, after, last, inner, outer = names_of(chance, 6)
    models = tuple(replace(shapes.stage(chance, name, rate + own), **ALONE) for name in (first, deep, after, last))  # type: ignore[arg-type]
    ensembles = (
        Ensemble(name=inner, steps=steps_of([deep, after])),
        Ensemble(name=outer, steps=steps_of([first, inner, last])),
    )
    loads = (Load(model=outer, rate=rate), Load(model=inner, rate=own))
    parts = {"first": first, "deep": deep, "after": after, "last": last, "inner": inner}
    return Shape(
        world=World(models=models, ensembles=ensembles), entry=outer, rate=rate + own, parts=parts, loads=loads
    )


def many_at_once(chance: random.Random, *, calls: int, busy: float, instances: int) -> Shape:
    """A model that calls another so many times at once for each request, and how busy that one is."""
    rate = chance.uniform(6, 9)
    caller, callee = names_of(chance, 2)
    base = 1e3 * busy * instances / (rate * calls) - 0.6
    models = (
        Model(name=caller, base_ms=chance.uniform(1, 3), calls=((callee,) * calls,), instances=12),
        Model(name=callee, base_ms=base, instances=instances),
    )
    parts = {"caller": caller, "callee": callee}
    return Shape(
        world=World(models=models), entry=caller, rate=rate, parts=parts, loads=(Load(model=caller, rate=rate),)
    )


def by_key(chance: random.Random, *, busy: float, hot: float) -> Shape:
    """A model that asks one of four others, as a request's key says; so many requests have the same key later on."""
    rate = chance.uniform(16, 24)
    *shards, router = names_of(chance, _KEYS + 1)
    base = 1e3 * busy * _KEYS / rate - 0.6
    models = [Model(name=shard, base_ms=base * chance.uniform(0.98, 1.02)) for shard in shards]
    calls = tuple((shard,) for shard in shards)
    models.append(Model(name=router, base_ms=1.0, calls=calls, instances=24, oddities={"by_key": 1}))
    load = odd(Load(model=router, rate=rate, distinct=_KEYS), hot=hot, hot_number=0.0, later=0.4)
    parts = {"router": router, "hot": shards[0], "other": shards[1]}
    return Shape(world=World(models=tuple(models)), entry=router, rate=rate, parts=parts, loads=(load,))


def with_a_further_step(chance: random.Random, *, busy: float, instances: int) -> tuple[Shape, Event, str]:
    """A chain, the event by which its ensemble gets one more step in the middle of the time, and that step's model."""
    shape = shapes.chain(chance)
    name = f"{names_of(random.Random(chance.random()), 22)[0]}-guard"
    ensemble = shape.world.ensembles[0]
    order = [step.model for step in ensemble.steps]
    further = Model(name=name, base_ms=1e3 * busy * instances / shape.rate - 0.6, instances=instances)
    event = Event(at=0.4, do="rewire", model=ensemble.name, values={"steps": steps_of([*order, name])})
    return replace(shape, world=replace(shape.world, models=(*shape.world.models, further))), event, name


def rolled_back(name: str, base: float, slower: float, at: tuple[float, float]) -> tuple[Event, Event]:
    """Return the release of a version 2, so many times as slow, and the return to version 1."""
    only = "version_policy: { specific: { versions: [ 1 ] } }\n"
    return (
        Event(at=at[0], do="release", model=name, values={"base_ms": base * slower}),
        Event(at=at[1], do="set", model=name, values={"versions": (1,), "base_ms": base, "further": only}),
    )


def slots_wait(shape: Shape, delay_us: int) -> Shape:
    """Return a shape of sequences whose batcher waits so long for all of its slots."""
    waits = f"direct {{ max_queue_delay_microseconds: {delay_us} minimum_slot_utilization: 1.0 }}"
    text = f"sequence_batching {{ max_sequence_idle_microseconds: 5000000 {waits} }}\n"
    return shape.changed(shape.entry, sequence_idle_ms=0, further=text, max_batch=4)


def beside_a_neighbour(
    shape: Shape, job: tuple[Load, ...], base_ms: float, instances: int, **values: object
) -> OddIncident:
    """Return an incident of two servers on the same two processors, the second of which does a job of its own."""
    name = "nightly-scoring"
    model = Model(name=name, base_ms=base_ms, instances=instances, mode="work")
    loads = (odd(Load(model=name, rate=1.0)), *(replace(load, model=name) for load in job))
    second = OddIncident(world=World(models=(model,)), loads=loads)
    return replace(incident_of(shape, **values), second=second, cores=2)
