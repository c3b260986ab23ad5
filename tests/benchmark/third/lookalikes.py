"""What looks like a fault of the third table, and harms nobody."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.again.clients import odd
from tests.benchmark.again.record import OddIncident
from tests.benchmark.again.shaping import asked as _asked
from tests.benchmark.again.shaping import incident_of as _incident
from tests.benchmark.draws.base import names_of
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.shapes import Shape
from tests.benchmark.kinds.world import Event, Load, Model, World

_ALONE = {"max_batch": 1, "delay_us": None, "per_item_ms": 0.0}
_WARM = (
    'model_warmup [ { name: "first" batch_size: 1 '
    'inputs { key: "IN" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } } ]\n'
)
_OLDEST = "sequence_batching { max_sequence_idle_microseconds: 5000000 oldest { max_candidate_sequences: 64 } }\n"


def release_that_warms_up(chance: random.Random) -> OddIncident:
    """A new version's first execution is slow, and its warm-up does it while the old one serves on."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    values = {"base_ms": 8.0, "instances": 2, "first_ms": chance.uniform(1200, 2200), "further": _WARM}
    event = Event(at=0.4, do="release", model=name)
    return _incident(shape.changed(name, **values, **_ALONE), events=(event,))


def first_lane_a_little_slower(chance: random.Random) -> OddIncident:
    shape = shapes.loose(chance)
    name = shape.name("one")
    return _incident(shape.busy(name, 0.12, 3, oddities={"first_lane": chance.uniform(1.3, 1.5)}))


def collects_briefly(chance: random.Random) -> OddIncident:
    """Each instance collects its garbage for some hundredths of a second."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    oddities = {"every": chance.randint(30, 50), "collect_ms": chance.randint(20, 40)}
    return _incident(shape.busy(name, 0.12, 2, oddities=oddities))


def fills_a_store_and_stops(chance: random.Random) -> OddIncident:
    """A model keeps what it computed until its store is full, and grows no further."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    oddities = {"keeps_kb": chance.randint(600, 1200), "keeps_most": round(shape.rate * 16)}
    return _incident(shape.busy(name, 0.15, 1, base_ms=6.0, oddities=oddities))


def nobody_asks_at_first(chance: random.Random) -> OddIncident:
    """A server that is ready is asked only from the middle on."""
    shape = shapes.fork(chance)
    return _incident(replace(shape, loads=tuple(odd(load, begins=0.45) for load in shape.loads)))


def oldest_sequences_with_room(chance: random.Random) -> OddIncident:
    """Sequences of which the batcher takes the oldest first, with slots for all."""
    shape = shapes.dialogue(chance, slots_held=0.3)
    return _incident(shape.changed(shape.entry, sequence_idle_ms=0, max_batch=4, instances=2, further=_OLDEST))


def versions_unlike_and_steady(chance: random.Random) -> OddIncident:
    """Of two versions that are asked alike one is half as slow again, as it always was."""
    shape = shapes.versions(chance)
    name, base = shape.name("one"), chance.uniform(12, 20)
    slower = {2: base * chance.uniform(1.4, 1.6)}
    return _incident(shape.changed(name, base_ms=base, version_ms=slower, instances=3, **_ALONE))


def many_clients_that_think(chance: random.Random) -> OddIncident:
    shape = shapes.shared(chance)
    thinkers = tuple(
        odd(load, rate=0.0, clients=chance.randint(18, 26), think=chance.uniform(2.0, 3.0)) for load in shape.loads
    )
    return _incident(replace(shape, loads=thinkers))


def wide_fan_out_with_room(chance: random.Random) -> OddIncident:
    *leaves, caller = names_of(chance, 9)
    models = [Model(name=leaf, base_ms=chance.uniform(6, 14), instances=4) for leaf in leaves]
    models.append(Model(name=caller, base_ms=0.8, calls=(tuple(leaves),), instances=8))
    return OddIncident(world=World(models=tuple(models)), loads=(Load(model=caller, rate=chance.uniform(7, 10)),))


def release_as_fewer_ask(chance: random.Random) -> OddIncident:
    """A release comes as the day ends: it is as fast as the version before, and half as many ask."""
    shape: Shape = shapes.chain(chance)
    name = shape.any_of(chance)
    fades = (*(1.0,) * 8, *(0.45,) * 12)
    return _incident(_asked(shape, factors=fades), events=(Event(at=0.41, do="release", model=name),))


def instances_come_and_go(chance: random.Random) -> OddIncident:
    """An autoscaler sets another number of instances every few seconds, each of them enough."""
    shape = shapes.fork(chance)
    name = shape.name("long")
    shape = shape.changed(name, **_ALONE)
    events = tuple(
        Event(at=at, do="set", model=name, values={"instances": count})
        for at, count in ((0.2, 6), (0.35, 4), (0.5, 7), (0.65, 5), (0.8, 4))
    )
    return _incident(shape, events=events)
