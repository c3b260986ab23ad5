"""What looks like a fault of the fourth table, and harms nobody."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from tests.benchmark.again.record import OddIncident
from tests.benchmark.again.shaping import asked as _asked
from tests.benchmark.again.shaping import incident_of as _incident
from tests.benchmark.fourth.worlds import ALONE, heavy_for_some, long_chain, streaming_member, twice_in_a_row
from tests.benchmark.fourth.worlds import part_of as _part
from tests.benchmark.fourth.worlds import two_servers as _two
from tests.benchmark.fourth.worlds import windows as _windows
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.world import Event

_LIMITS = (
    "dynamic_batching { default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 4000000 "
    "max_queue_size: 64 } }\n"
)


def two_servers_unequal_with_room(chance: random.Random) -> OddIncident:
    """Of two equal servers one gets four fifths of the requests from then on, and has room for them."""
    shape = shapes.chain(chance)
    shape = replace(shape, loads=_asked(shape, rate=shape.rate * 0.6).loads)
    return _two(shape, _part(1.6), _part(0.4))


def release_on_two_servers_in_turn(chance: random.Random) -> OddIncident:
    """A release that is as fast as the version before goes to one server, and then to the other."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    first = Event(at=0.3, do="release", model=name)
    return replace(_two(shape, events=(replace(first, at=0.6),)), events=(first,))


def busy_without_a_queue(chance: random.Random) -> OddIncident:
    """As many clients as instances ask without a pause: all instances are busy, and nobody waits."""
    shape = shapes.loose(chance)
    name, clients = shape.name("one"), chance.randint(4, 6)
    shape = shape.changed(name, base_ms=chance.uniform(40, 70), instances=clients, **ALONE)
    return _incident(_asked(shape, rate=0.0, clients=clients, think=0.0))


def cache_fills_and_answers(chance: random.Random) -> OddIncident:
    """The response cache begins empty, and answers more and more."""
    shape = shapes.chain(chance)
    last = shape.name("last")
    shape = shape.changed(last, base_ms=chance.uniform(35, 50), instances=6, **ALONE)
    name = shape.name("first")
    shape = shape.changed(name, cache=True, base_ms=chance.uniform(3, 5), instances=2, **ALONE)
    return _incident(_asked(shape, distinct=round(shape.rate * 14)))


def member_in_two_steps_with_room(chance: random.Random) -> OddIncident:
    return _incident(twice_in_a_row(chance))


def heavy_path_with_room(chance: random.Random) -> OddIncident:
    """A model asks another for a tenth of its requests, which takes a little longer then."""
    return _incident(heavy_for_some(chance, share=0.1, busy=0.012, instances=6))


def decoupled_member_with_room(chance: random.Random) -> OddIncident:
    return _incident(streaming_member(chance, busy=0.05, instances=6))


def windows_short_everywhere(chance: random.Random) -> OddIncident:
    """Each of four models or five waits a fraction of a millisecond for a batch."""
    return _incident(_windows(long_chain(chance), chance.randint(200, 500)))


def hedges_never_needed(chance: random.Random) -> OddIncident:
    """Clients send a request once more if no answer comes within a second, and answers come sooner."""
    return _incident(_asked(shapes.fork(chance), hedges_ms=1000.0))


def lanes_follow_the_load(chance: random.Random) -> OddIncident:
    """An autoscaler adds instances before the load rises, and takes them away after it has fallen."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    wave = tuple(1.0 - 0.6 * math.cos(2 * math.pi * part / 10) for part in range(10))
    shape = shape.changed(name, base_ms=chance.uniform(14, 20), instances=3, **ALONE)
    events = tuple(
        Event(at=at, do="set", model=name, values={"instances": count})
        for at, count in ((0.2, 5), (0.35, 8), (0.7, 5), (0.85, 3))
    )
    return _incident(_asked(shape, factors=wave), events=events)


def limits_never_reached(chance: random.Random) -> OddIncident:
    """Every model refuses what waits for seconds or behind dozens, and nothing does."""
    shape = shapes.shared(chance)
    for model in shape.world.models:
        shape = shape.changed(model.name, max_batch=4, delay_us=None, further=_LIMITS)
    return _incident(shape)


def sequences_pause_with_slots(chance: random.Random) -> OddIncident:
    """From the middle on clients take longer between two turns, and there are slots for all their sequences."""
    shape = shapes.dialogue(chance, slots_held=0.12)
    turns = shape.loads[0]
    early = replace(turns, end=16.0)
    late = replace(turns, pause=turns.pause * chance.uniform(2.0, 2.6), start=16.0)
    shape = shape.changed(shape.entry, max_batch=8)
    return _incident(replace(shape, loads=(early, late, *shape.loads[1:])))


def all_at_once_each_few_seconds(chance: random.Random) -> OddIncident:
    """Eight requests come at the same moment each half second, and there is an instance for each of them."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, base_ms=chance.uniform(15, 25), instances=16, **ALONE)
    return _incident(replace(shape, loads=(replace(shape.loads[0], burst=8), *shape.loads[1:])))
