"""Topologies and settings that the faults and the look-alikes of the fourth table share."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from tests.benchmark.again.clients import odd
from tests.benchmark.again.record import OddIncident
from tests.benchmark.again.shaping import incident_of
from tests.benchmark.draws.base import names_of
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.shapes import Shape
from tests.benchmark.kinds.world import Ensemble, Event, Load, Model, Step, World

ALONE: Mapping[str, object] = {"max_batch": 1, "delay_us": None, "per_item_ms": 0.0}
_PARTS = 20


def part_of(factor: float, at: float = 0.4) -> tuple[float, ...]:
    """Return factors of a rate that is as it was until the share `at` of the time, and then so many times as high."""
    return tuple(1.0 if part < at * _PARTS else factor for part in range(_PARTS))


def twice_in_a_row(chance: random.Random) -> Shape:
    """An ensemble in which one model is two of the four steps."""
    rate = chance.uniform(11, 18)
    first, again, between, entry = names_of(chance, 4)
    models = tuple(replace(shapes.stage(chance, name, rate), **ALONE) for name in (first, again, between))  # type: ignore[arg-type]
    order, tensors = (first, again, between, again), ("IN", "a", "b", "c", "OUT")
    steps = tuple(Step(model=m, takes=(tensors[n],), gives=tensors[n + 1]) for n, m in enumerate(order))
    world = World(models=models, ensembles=(Ensemble(name=entry, steps=steps),))
    parts = {"again": again, "first": first, "between": between}
    return Shape(world=world, entry=entry, rate=rate, parts=parts, loads=(Load(model=entry, rate=rate),))


def heavy_for_some(chance: random.Random, *, share: float, busy: float, instances: int) -> Shape:
    """A model that calls another for some of its requests only; how busy that one is."""
    rate, kinds = chance.uniform(13, 20), 20
    caller, heavy = names_of(chance, 2)
    calls = {"calls": heavy, "calls_below": round(share * kinds)}
    models = (
        Model(name=caller, base_ms=chance.uniform(12, 18), instances=instances, oddities=calls),
        Model(name=heavy, base_ms=1e3 * busy / (rate * share) - 0.6),
    )
    load = odd(Load(model=caller, rate=rate), distinct=kinds)
    parts = {"caller": caller, "heavy": heavy}
    return Shape(world=World(models=models), entry=caller, rate=rate, parts=parts, loads=(load,))


def streaming_member(chance: random.Random, *, busy: float, instances: int) -> Shape:
    """An ensemble whose second member sends several responses for each request, and how busy that one is."""
    rate = chance.uniform(8, 13)
    first, streams, entry = names_of(chance, 3)
    models = (
        Model(name=first, base_ms=chance.uniform(2, 4), max_batch=0, instances=2),
        Model(
            name=streams,
            base_ms=1e3 * busy * instances / rate - 1.5,
            max_batch=0,
            instances=instances,
            parts=chance.randint(2, 4),
        ),
    )
    steps = (Step(model=first, takes=("IN",), gives="a"), Step(model=streams, takes=("a",), gives="OUT"))
    world = World(models=models, ensembles=(Ensemble(name=entry, steps=steps),))
    loads = (Load(model=entry, rate=rate, stream=True),)
    return Shape(world=world, entry=entry, rate=rate, parts={"first": first, "streams": streams}, loads=loads)


def windows(shape: Shape, delay_us: int) -> Shape:
    """Return the shape in which each model waits so long for a batch."""
    for model in shape.world.models:
        shape = shape.changed(model.name, max_batch=8, per_item_ms=0.1, delay_us=delay_us, instances=2)
    return shape


def long_chain(chance: random.Random) -> Shape:
    """An ensemble of four or five models in order."""
    shape = shapes.chain(chance)
    while len(shape.world.models) < 4:
        shape = shapes.chain(chance)
    return shape


def two_servers(
    shape: Shape,
    factors: tuple[float, ...] = (),
    others: tuple[float, ...] = (),
    events: tuple[Event, ...] = (),
    **values: object,
) -> OddIncident:
    """Return an incident of two equal servers.

    Args:
        shape: what each of them is, and half of what clients ask.
        factors: how the first one's share of the requests changes.
        others: how the second one's does.
        events: what happens to the second one.
        values: further fields of the incident.
    """

    def one(own: tuple[float, ...], **further: object) -> OddIncident:
        loads = tuple(odd(load, factors=own) for load in shape.loads)
        return incident_of(replace(shape, loads=loads), **further)

    return one(factors, second=one(others, events=events), **values)
