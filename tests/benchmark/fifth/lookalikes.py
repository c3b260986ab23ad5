"""What looks like a fault of the fifth table, and harms nobody."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.again.clients import odd
from tests.benchmark.again.record import OddIncident
from tests.benchmark.again.shaping import asked as _asked
from tests.benchmark.again.shaping import incident_of as _incident
from tests.benchmark.fifth.worlds import beside_a_neighbour as _beside
from tests.benchmark.fifth.worlds import (
    by_key,
    ensemble_inside,
    many_at_once,
    rolled_back,
    slots_wait,
    with_a_further_step,
)
from tests.benchmark.fourth.worlds import ALONE
from tests.benchmark.fourth.worlds import two_servers as _two
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.faulty import _engine
from tests.benchmark.kinds.world import Event, Load


def ensemble_inside_with_room(chance: random.Random) -> OddIncident:
    return _incident(ensemble_inside(chance))


def many_calls_at_once_with_room(chance: random.Random) -> OddIncident:
    """Each request is six calls at once of a model that has instances for several of them."""
    shape = many_at_once(chance, calls=6, busy=0.035, instances=20)
    return _incident(shape)


def backlog_with_room(chance: random.Random) -> OddIncident:
    """What clients send is held up for some seconds, and comes then, at a rate for which there are instances."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, base_ms=chance.uniform(10, 15), instances=10, **ALONE)
    return _incident(_asked(shape, factors=(*(1.0,) * 8, *(0.0,) * 3, 2.5, 2.5, *(1.0,) * 7)))


def more_workers_with_lanes(chance: random.Random) -> OddIncident:
    """Workers that ask without a pause become three times as many, and each has an instance."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, base_ms=chance.uniform(60, 90), instances=6, **ALONE)
    shape = _asked(shape, rate=0.0, clients=2, think=0.0)
    return _incident(replace(shape, loads=(*shape.loads, odd(Load(model=name, clients=4), begins=0.4))))


def clients_freeze_briefly(chance: random.Random) -> OddIncident:
    """The clients' own process stands still for some hundredths of a second every few seconds."""
    return _incident(_asked(shapes.fork(chance), freezes_every=4.0, freezes_ms=chance.randint(30, 60)))


def pipe_wide_enough(chance: random.Random) -> OddIncident:
    """Large answers share a way to the clients that is a little slower from then on."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, out_values=30_000, base_ms=chance.uniform(25, 35), instances=6, **ALONE)
    return _incident(_asked(shape, rate=5.0, bytes_back=True, later=0.4, pipe_kbs=30_000.0))


def keys_shift_with_room(chance: random.Random) -> OddIncident:
    """Requests of one key become more, and the model that answers them has room for that."""
    shape = by_key(chance, busy=0.03, hot=0.5)
    for model in shape.world.models:
        shape = shape.changed(model.name, instances=6) if not model.calls else shape
    return _incident(shape)


def step_added_with_room(chance: random.Random) -> OddIncident:
    """An ensemble gets a further step, whose model has instances enough."""
    shape, event, _ = with_a_further_step(chance, busy=0.02, instances=4)
    return _incident(shape, events=(event,))


def engine_asked_by_a_job(chance: random.Random) -> OddIncident:
    """A job asks a chain with an engine without a pause, beside the others, and the engine has slots for all."""
    shape = shapes.chain(chance, engine=_engine(chance))
    for model in shape.world.models:
        shape = shape.changed(model.name, base_ms=chance.uniform(2, 4), instances=6, **ALONE)
    job = odd(Load(model=shape.entry, clients=4), begins=0.35)
    return _incident(replace(shape, loads=(*shape.loads, job)))


def slots_filled_at_once(chance: random.Random) -> OddIncident:
    """A sequence batcher waits for all of its slots, but not for as long as anybody would notice."""
    return _incident(slots_wait(shapes.dialogue(chance, slots_held=0.2), chance.randint(300, 800)))


def rolled_back_though_as_fast(chance: random.Random) -> OddIncident:
    """A release is as fast as the version before, and somebody returns to that nevertheless."""
    shape = shapes.loose(chance)
    name, base = shape.name("one"), chance.uniform(15, 25)
    shape = shape.changed(name, base_ms=base, instances=6, **ALONE)
    return _incident(shape, events=rolled_back(name, base, 1.0, (0.3, 0.65)))


def restarts_while_nobody_asks(chance: random.Random) -> OddIncident:
    """The server is killed and starts anew while nobody asks, and answers as before when they do again."""
    shape = shapes.chain(chance)
    return _incident(
        _asked(shape, factors=(*(1.0,) * 6, *(0.0,) * 8, *(1.0,) * 6)), events=(Event(at=0.34, do="restart"),)
    )


def one_server_with_fewer_lanes_and_room(chance: random.Random) -> OddIncident:
    """In the configuration of one of two servers a member has fewer instances, which are enough."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.changed(name, base_ms=chance.uniform(4, 6), instances=6, **ALONE)
    alike = _two(shape)
    assert alike.second is not None
    return replace(alike, second=replace(alike.second, world=alike.second.world.changed(name, instances=3)))


def neighbour_server_with_cores_to_spare(chance: random.Random) -> OddIncident:
    """Another server on the same processors begins a light job."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, base_ms=chance.uniform(10, 14), mode="work", instances=4, **ALONE)
    job = odd(Load(model=name, clients=1, think=0.8), begins=0.42)
    return _beside(_asked(shape, rate=5.0), (job,), 8.0, 2)
