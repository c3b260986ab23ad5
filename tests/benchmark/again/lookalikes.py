"""Odd, and harmless: what looks like a fault of `faults`, and harms nobody."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from tests.benchmark.again.clients import odd
from tests.benchmark.again.record import OddIncident
from tests.benchmark.again.shaping import asked as _asked
from tests.benchmark.again.shaping import incident_of as _incident
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.world import Event, Load


def slow_by_design_and_idle(chance: random.Random) -> OddIncident:
    """A model that takes seconds, as it always did, and is hardly asked."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    values = {"base_ms": chance.uniform(1400, 2200), "instances": 4, "max_batch": 1, "delay_us": None}
    shape = shape.changed(name, per_item_ms=0.0, **values)
    return _incident(_asked(shape, rate=0.35))


def day_and_night(chance: random.Random) -> OddIncident:
    """The load rises to a multiple and falls again, and there is room for it."""
    shape = shapes.chain(chance)
    wave = tuple(1.1 - 0.9 * math.cos(2 * math.pi * part / 8) for part in range(8))
    return _incident(_asked(shape, rate=shape.rate * 0.8, factors=wave))


def doubles_with_room(chance: random.Random) -> OddIncident:
    shape = shapes.fork(chance)
    return _incident(_asked(shape, rate=shape.rate * 0.6, factors=(1.0, 2.2)))


def traffic_fades(chance: random.Random) -> OddIncident:
    """Fewer and fewer ask, and in the end nobody."""
    shape = shapes.shared(chance)
    first, second = (odd(load, factors=(1.0, 0.9, 0.5, 0.15, 0.0)) for load in shape.loads)
    return _incident(replace(shape, loads=(first, second)))


def connection_each_time_nearby(chance: random.Random) -> OddIncident:
    return _incident(_asked(shapes.chain(chance), connects_ms=0.0))


def logs_all_to_a_fast_disk(chance: random.Random) -> OddIncident:
    return _incident(shapes.chain(chance), options=("--log-verbose=1",))


def short_pauses_apart(chance: random.Random) -> OddIncident:
    """A model stands still for some hundredths of a second now and then."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    oddities = {"pause_every_ms": chance.randint(4, 6) * 1000, "pause_ms": chance.randint(30, 60)}
    return _incident(shape.busy(name, 0.15, 2, oddities=oddities))


def clients_that_batch(chance: random.Random) -> OddIncident:
    """Requests are of a dozen rows, and a model takes hardly longer for them."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, base_ms=9.0, per_item_ms=0.15, max_batch=32, delay_us=0, instances=2)
    return _incident(_asked(shape, rows=chance.randint(10, 16)))


def canary_as_fast(chance: random.Random) -> OddIncident:
    shape = shapes.versions(chance)
    asked = odd(replace(shape.loads[0], rate=shape.rate, version=0), canary=0.1)
    return _incident(replace(shape, loads=(asked, *shape.loads[2:])))


def widths_that_differ(chance: random.Random) -> OddIncident:
    """Each request is of another width, which splits batches that nobody needs."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    values = {"base_ms": 6.0, "per_item_ms": 0.5, "max_batch": 8, "delay_us": 0, "instances": 2}
    shape = shape.changed(name, width=-1, **values)
    return _incident(_asked(shape, widths=tuple(range(5, 40))))


def polls_while_it_waits(chance: random.Random) -> OddIncident:
    """A model asks another a dozen times for each request, and has lanes enough for that."""
    shape = shapes.loose(chance)
    name, callee = shape.name("one"), shape.name("other")
    shape = shape.changed(callee, base_ms=3.0, per_item_ms=0.0, max_batch=1, delay_us=None, instances=6)
    own = {"calls": ((callee,),), "max_batch": 1, "delay_us": None, "instances": 10, "base_ms": 1.0, "per_item_ms": 0.0}
    shape = shape.changed(name, oddities={"times": chance.randint(8, 12)}, **own)
    return _incident(_asked(shape, rate=chance.uniform(7, 9)))


def cron_that_is_light(chance: random.Random) -> OddIncident:
    """Every few seconds another program takes one of the processors for a second, which leaves enough."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    values = {"processes": 1, "seconds": 1}
    events = tuple(Event(at=at, do="hog", values=values) for at in (0.15, 0.4, 0.65, 0.9))
    work = {"mode": "work", "instances": 2, "max_batch": 1, "delay_us": None, "per_item_ms": 0.0}
    return _incident(shape.changed(name, base_ms=5.0, **work), events=events, cores=2)


def responses_in_order_alike(chance: random.Random) -> OddIncident:
    shape = shapes.loose(chance)
    name = shape.name("one")
    values = {"base_ms": 12.0, "per_item_ms": 0.0, "max_batch": 1, "delay_us": 0, "instances": 3}
    return _incident(shape.changed(name, ordered=True, **values))


def long_streams_read_well(chance: random.Random) -> OddIncident:
    """Streams last for seconds because their parts do, and there are instances for all of them."""
    shape = shapes.decoupled(chance)
    name = shape.name("one")
    oddities = {"part_ms": chance.uniform(180, 260)}
    shape = shape.changed(name, parts=8, oddities=oddities, instances=8, base_ms=20.0)
    return _incident(_asked(shape, rate=0.7))


def report_once_a_minute(chance: random.Random) -> OddIncident:
    """One client asks a model of its own for a long report now and then, beside others who are served at once."""
    shape = shapes.chain(chance)
    report = replace(shape.world.models[0], name="report", base_ms=chance.uniform(5000, 7000), instances=1)
    report = replace(report, max_batch=1, per_item_ms=0.0, delay_us=None)
    world = replace(shape.world, models=(*shape.world.models, report))
    asks = Load(model="report", clients=1, think=9.0)
    return _incident(replace(shape, world=world, loads=(*shape.loads, asks)))
