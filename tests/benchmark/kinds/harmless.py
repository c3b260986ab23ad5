"""Look-alikes: the same shapes, settings and events as those of faults, where they harm nobody."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.faulty import _LIMITED, _engine
from tests.benchmark.kinds.world import Event, Incident, Load


def chain_count_raised_idle(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    count = shape.world.model(name).instances
    event = Event(at=0.4, do="set", model=name, values={"instances": count + 1})
    return shape.incident(events=(event,))


def chain_count_lowered_idle(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.changed(name, base_ms=chance.uniform(3, 6), instances=3, per_item_ms=0.0)
    event = Event(at=0.4, do="set", model=name, values={"instances": 2})
    return shape.incident(events=(event,))


def fork_unasked_unloaded(chance: random.Random) -> Incident:
    """A model that nobody asks is taken away and comes back."""
    shape = shapes.fork(chance)
    spare = shapes.stage(chance, "spare", 5.0)
    world = replace(shape.world, models=(*shape.world.models, spare))
    events = (Event(at=0.35, do="unload", model="spare"), Event(at=0.6, do="load", model="spare"))
    return replace(shape, world=world).incident(events=events)


def fork_window_off_the_longest(chance: random.Random) -> Incident:
    shape = shapes.fork(chance)
    window = chance.randint(14, 22) * 1000
    shape = shape.changed(shape.name("short"), max_batch=16, delay_us=window, per_item_ms=0.1, instances=2)
    return shape.incident()


def fork_roomy(chance: random.Random) -> Incident:
    return shapes.fork(chance).incident()


def wrapped_roomy(chance: random.Random) -> Incident:
    return shapes.wrapped(chance).incident()


def at_once_roomy(chance: random.Random) -> Incident:
    return shapes.wrapped(chance, at_once=True).incident()


def nested_roomy(chance: random.Random) -> Incident:
    return shapes.nested(chance).incident()


def shared_roomy(chance: random.Random) -> Incident:
    return shapes.shared(chance).incident()


def many_quiet(chance: random.Random) -> Incident:
    return shapes.many(chance).incident()


def loose_limiter_unreached(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, 0.02, 3, unit="R1")
    return shape.incident(options=_LIMITED)


def loose_lock_uncontended(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    shape = shape.busy(shape.name("one"), 0.02, 3, locked=1.0)
    return shape.incident()


def versions_both_asked(chance: random.Random) -> Incident:
    return shapes.versions(chance).incident()


def nested_warm_release(chance: random.Random) -> Incident:
    shape = shapes.nested(chance)
    event = Event(at=0.4, do="release", model=shape.name("leaf"))
    return shape.incident(events=(event,))


def chain_slow_load_beside(chance: random.Random) -> Incident:
    """A new version takes seconds to load, while the old one serves on."""
    shape = shapes.chain(chance)
    values = {"load_ms": chance.uniform(4000, 7000)}
    return shape.incident(events=(Event(at=0.3, do="release", model=shape.any_of(chance), values=values),))


def chain_instances_added_slowly_beside(chance: random.Random) -> Incident:
    """One more instance, which takes seconds to load, and nobody waits for it."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.changed(name, load_ms=chance.uniform(3000, 5000))
    instances = shape.world.model(name).instances + 1
    return shape.incident(events=(Event(at=0.35, do="set", model=name, values={"instances": instances}),))


def many_loads_in_turn(chance: random.Random) -> Incident:
    """Four models of an ensemble and beside it are loaded anew, one after another, each with one more instance."""
    shape = shapes.many(chance)
    names = [*shape.parts.values(), "unit-00"][-4:]
    count = {name: shape.world.model(name).instances + 1 for name in names}
    events = tuple(
        Event(at=0.25 + 0.15 * number, do="set", model=name, values={"instances": count[name]})
        for number, name in enumerate(count)
    )
    return shape.incident(events=events)


def dialogue_roomy(chance: random.Random) -> Incident:
    return shapes.dialogue(chance, slots_held=chance.uniform(0.12, 0.22)).incident()


def cached_hits(chance: random.Random) -> Incident:
    return shapes.cached(chance, hits=True).incident()


def cached_misses(chance: random.Random) -> Incident:
    return shapes.cached(chance, hits=False).incident()


def decoupled_roomy(chance: random.Random) -> Incident:
    return shapes.decoupled(chance).incident()


def loose_own_threads_roomy(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    shape = shape.busy(shape.name("one"), 0.2, 2, instances=1, lanes=12, max_batch=8)
    return shape.incident()


def loose_priorities_idle(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    shape = shape.busy(shape.name("one"), 0.06, 1, priorities=True)
    high = replace(shape.loads[0], high=chance.uniform(0.6, 0.8))
    return replace(shape, loads=(high, *shape.loads[1:])).incident()


def chain_closed_loop(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    clients = Load(model=shape.entry, clients=chance.randint(1, 3), think=chance.uniform(0.02, 0.2))
    return replace(shape, loads=(clients,)).incident()


def engine_roomy(chance: random.Random) -> Incident:
    return shapes.chain(chance, engine=_engine(chance)).incident()


def chain_work_with_cores(chance: random.Random) -> Incident:
    """Models that work on processors, of which there are enough."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.changed(name, mode="work", base_ms=chance.uniform(8, 12), instances=3, max_batch=1, delay_us=None)
    return shape.incident(cores=2)
