"""Kinds of faults of the fifth table. Each is a function of a random generator, and says which changes are tried.

A change carries the names of the checks whose statement and advice it is. One that no check states carries none:
if nothing else helps, naming no cause is the only right answer.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.again.clients import odd
from tests.benchmark.again.record import Change, OddIncident
from tests.benchmark.again.shaping import LANES as _LANES
from tests.benchmark.again.shaping import asked as _asked
from tests.benchmark.again.shaping import incident_of as _incident
from tests.benchmark.again.shaping import more_lanes as _lanes
from tests.benchmark.fifth.worlds import beside_a_neighbour as _beside
from tests.benchmark.fifth.worlds import by_key, ensemble_inside, many_at_once, rolled_back, with_a_further_step
from tests.benchmark.fifth.worlds import slots_wait as _slots_wait
from tests.benchmark.fourth.worlds import ALONE, heavy_for_some
from tests.benchmark.fourth.worlds import two_servers as _two
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.faulty import _engine
from tests.benchmark.kinds.world import Event, Load

_FULL = "capacity-exceeded"
_SHIFT = "workload-shift"
_WAY = "client-or-transport-bound"
_CALLS = "bls-serialization"
_WINDOW = "batch-window-mistuned"
_FAILS = "request-failures"
_BURSTS = "bursty-arrivals"
_HANGS = "execution-hung"
_SLOWER = "version-regression"


def _change(what: str, incident: OddIncident, *names: str) -> Change:
    return Change(what=what, names=names, incident=incident)


def _set(incident: OddIncident, name: str, **values: object) -> OddIncident:
    """Return the incident with other settings of one model."""
    return replace(incident, world=incident.world.changed(name, **values))


# What clients do


def backlog_after_a_pause(chance: random.Random) -> OddIncident:
    """What clients send is held up for ten seconds, and then all of it comes at once."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(0.6, 0.66), 1)
    factors = (*(1.0,) * 8, *(0.0,) * 5, 6.0, *(1.0,) * 6)
    # While nobody asks, nothing is wrong: the fault is what comes after.
    incident = _incident(_asked(shape, factors=factors), fault_at=0.65, targets=(name,), felt_by=name, trial=40.0)
    even = replace(incident, loads=_asked(shape, factors=()).loads)
    changes = (_lanes(incident, name), _change("no pause", even, _BURSTS, _SHIFT))
    return replace(incident, changes=changes, also=(_FULL,))


def more_workers_than_lanes(chance: random.Random) -> OddIncident:
    """A dozen workers more begin to ask without a pause, and each answer takes as many times as long."""
    shape = shapes.loose(chance)
    name, lanes = shape.name("one"), chance.randint(2, 3)
    shape = shape.changed(name, base_ms=chance.uniform(30, 50), instances=lanes, **ALONE)
    shape = _asked(shape, rate=0.0, clients=lanes, think=0.0)
    more = odd(Load(model=name, clients=chance.randint(10, 14)), begins=0.4)
    without = _incident(shape, fault_at=0.4, targets=(name,), also=(_FULL,), felt_by=name)
    incident = replace(without, loads=(*shape.loads, more))
    return replace(incident, changes=(_lanes(incident, name, 5), _change("as many workers as before", without, _SHIFT)))


def clients_freeze(chance: random.Random) -> OddIncident:
    """The clients' own process stands still for a second or more now and then, and all its requests with it."""
    shape = shapes.chain(chance)
    freezes = chance.randint(1300, 1800)
    shape = _asked(shape, freezes_every=chance.uniform(4.5, 6.0), freezes_ms=freezes)
    incident = _incident(shape, also=(_BURSTS,))
    never = replace(incident, loads=_asked(shape, freezes_every=0.0).loads)
    return replace(
        incident, changes=(_change("never stands still", never, _WAY), _lanes(incident, shape.name("first")))
    )


def pipe_gets_thin(chance: random.Random) -> OddIncident:
    """From then on answers share a way to the clients that takes hardly as much as they are."""
    shape = shapes.loose(chance)
    name, values, rate = shape.name("one"), chance.randint(40_000, 60_000), chance.uniform(5, 7)
    shape = shape.changed(name, out_values=values, base_ms=8.0, instances=4, **ALONE)
    kbs = 4e-3 * values * rate / chance.uniform(0.86, 0.92)
    shape = _asked(shape, rate=rate, bytes_back=True, later=0.4, pipe_kbs=kbs)
    incident = _incident(shape, fault_at=0.4, felt_by=name)
    wide = replace(incident, loads=_asked(shape, pipe_kbs=0.0).loads)
    return replace(incident, changes=(_change("as wide as before", wide, _WAY), _lanes(incident, name, 2)))


def hot_key(chance: random.Random) -> OddIncident:
    """A model asks one of four others by a request's key, and from then on most requests have the same one."""
    shape = by_key(chance, busy=chance.uniform(0.44, 0.46), hot=chance.uniform(0.46, 0.52))
    name = shape.name("hot")
    incident = _incident(shape, fault_at=0.4, targets=(name, shape.entry), also=(_CALLS, _FULL), trial=30.0)
    even = replace(incident, loads=_asked(shape, hot=0.0).loads)
    changes = (_lanes(incident, name), _change("keys as before", even, _SHIFT), _lanes(incident, shape.name("other")))
    return replace(incident, changes=changes)


def heavy_share_grows(chance: random.Random) -> OddIncident:
    """As many ask as before, but half of them, not one in ten, need a further model."""
    shape = heavy_for_some(chance, share=0.1, busy=chance.uniform(0.205, 0.22), instances=24)
    name = shape.name("heavy")
    shape = _asked(shape, distinct_later=4, later=0.4)
    also = (_CALLS, _FULL)
    incident = _incident(shape, fault_at=0.4, targets=(name, shape.entry), also=also, trial=30.0)
    few = replace(incident, loads=_asked(shape, distinct_later=0).loads)
    callers = replace(_lanes(incident, shape.entry, 2), names=(_CALLS,))
    return replace(incident, changes=(_lanes(incident, name), _change("as few as before", few, _SHIFT), callers))


def widths_split_the_batches(chance: random.Random) -> OddIncident:
    """Requests begin to be of a dozen widths, and those of one batch have to be of the same one."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    base = 1e3 * chance.uniform(1.25, 1.4) / shape.rate
    values = {"base_ms": base, "per_item_ms": 0.3, "max_batch": 16, "delay_us": 0, "instances": 1, "width": -1}
    shape = shape.changed(name, **values)
    shape = _asked(shape, widths=(12,), widths_later=tuple(range(8, 32, 2)), later=0.4)
    also = (_FULL,)
    incident = _incident(shape, fault_at=0.4, targets=(name,), also=also, felt_by=name, trial=30.0)
    alike = replace(incident, loads=_asked(shape, widths_later=()).loads)
    changes = (_change("all of one width", alike, "batch-size-collapse", _SHIFT), _lanes(incident, name))
    return replace(incident, changes=changes)


# Which way requests take


def ensemble_inside_full(chance: random.Random) -> OddIncident:
    """A member of an ensemble that is a step of another ensemble has one instance, which is full."""
    shape = ensemble_inside(chance)
    name = shape.name("deep")
    shape = shape.busy(name, chance.uniform(1.03, 1.1), 1)
    incident = _incident(shape, targets=(name,), also=(_FULL,))
    return replace(incident, changes=(_lanes(incident, name), _lanes(incident, shape.name("first"))))


def many_calls_at_once(chance: random.Random) -> OddIncident:
    """Requests come evenly, but each is eight calls at once of a model that answers two at a time."""
    shape = many_at_once(chance, calls=8, busy=chance.uniform(0.55, 0.62), instances=2)
    name = shape.name("callee")
    incident = _incident(shape, targets=(name,), also=(_CALLS, _FULL))
    # The calls of a request are a burst, which the model serves one after another.
    more = replace(_lanes(incident, name, 5), names=(_LANES, _BURSTS))
    callers = replace(_lanes(incident, shape.entry, 2), names=(_CALLS,))
    return replace(incident, changes=(more, callers))


def leaf_slows_and_callers_run_out(chance: random.Random) -> OddIncident:
    """What is called in the end slows down, and has room for that; the outermost caller has too few instances then."""
    shape = shapes.nested(chance)
    for model in shape.world.models:
        shape = shape.changed(model.name, instances=16, **ALONE) if not model.calls else shape
    leaf, inner, outer = shape.name("leaf"), shape.name("inner"), shape.name("outer")
    shape = shape.changed(inner, instances=16).changed(outer, instances=3).changed(leaf, base_ms=chance.uniform(18, 24))
    others = shape.world.path_ms(outer) - shape.world.model(leaf).base_ms
    slow = (3e3 * chance.uniform(1.18, 1.28) / shape.rate - others) / shape.world.model(leaf).base_ms
    event = Event(at=0.4, do="control", model=leaf, values={"slow": round(slow, 2)})
    incident = _incident(shape, events=(event,), fault_at=0.4, targets=(outer,), also=(_FULL,), trial=40.0)
    callers = replace(_lanes(incident, outer, 4), names=(_CALLS,))
    changes = (callers, _change("as fast as before", replace(incident, events=())), _lanes(incident, leaf, 2))
    return replace(incident, changes=changes)


def step_added_and_full(chance: random.Random) -> OddIncident:
    """An ensemble gets a further step, whose model was there and idle, and has one instance."""
    shape, event, name = with_a_further_step(chance, busy=chance.uniform(1.03, 1.1), instances=1)
    also = (_FULL, _SHIFT)
    incident = _incident(shape, events=(event,), fault_at=0.4, targets=(name,), also=also, trial=30.0)
    return replace(incident, changes=(_lanes(incident, name), _lanes(incident, shape.name("first"))))


def tokenizer_full_before_an_engine(chance: random.Random) -> OddIncident:
    """What comes before an engine is full, so that the engine is asked evenly, and never has many requests at once."""
    shape = shapes.chain(chance, engine=_engine(chance))
    name = shape.name("first")
    shape = shape.busy(name, chance.uniform(1.03, 1.1), 1)
    incident = _incident(shape, targets=(name,), also=(_FULL, "engine-bound"))
    return replace(incident, changes=(_lanes(incident, name), _lanes(incident, shape.name("last"))))


# Schedulers and instances


def slots_wait_to_be_filled(chance: random.Random) -> OddIncident:
    """A sequence batcher waits until each of its slots has a request, which hardly ever happens."""
    shape = _slots_wait(shapes.dialogue(chance, slots_held=0.3), chance.randint(90, 140) * 1000)
    incident = _incident(shape, targets=(shape.entry,), also=("sequence-batcher-starved",), felt_by=shape.entry)
    at_once = _incident(_slots_wait(shape, 0), felt_by=shape.entry)
    changes = (_change("no delay", at_once, _WINDOW), _lanes(incident, shape.entry))
    return replace(incident, changes=changes)


def lane_stalls_and_recovers(chance: random.Random) -> OddIncident:
    """One of two instances stands still for some seconds, once, and the other alone is not enough meanwhile."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(0.66, 0.7), 2, oddities={"times": 1})
    event = Event(at=0.35, do="control", model=name, values={"stall": [0, chance.randint(9000, 11000)]})
    also = (_FULL, _BURSTS, "scheduler-stall")
    incident = _incident(shape, events=(event,), fault_at=0.35, targets=(name,), also=also, felt_by=name, trial=40.0)
    none = replace(incident, events=())
    return replace(incident, changes=(_change("no stall", none, _HANGS), _lanes(incident, name)))


def poison_ends_a_process(chance: random.Random) -> OddIncident:
    """From then on one request in fifty ends the process of the instance that gets it, which takes seconds to start."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(
        name, base_ms=chance.uniform(20, 30), instances=3, load_ms=2500, oddities={"poison": -1}, **ALONE
    )
    shape = _asked(shape, hot=chance.uniform(0.018, 0.024), hot_number=-1.0, later=0.4)
    also = (_FULL, _LANES, "model-unavailable", _BURSTS)
    incident = _incident(shape, fault_at=0.4, targets=(name,), also=also, felt_by=name)
    none = replace(incident, loads=_asked(shape, hot=0.0).loads)
    return replace(incident, changes=(_change("no such requests", none, _FAILS, _HANGS), _lanes(incident, name)))


def quota_outside(chance: random.Random) -> OddIncident:
    """What a model asks elsewhere answers so many times a second, however many instances ask."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    oddities = {"quota": round(shape.rate / chance.uniform(1.04, 1.1), 2)}
    shape = shape.changed(name, base_ms=chance.uniform(8, 14), instances=6, oddities=oddities, **ALONE)
    # The quota stands nowhere. That executions take longer the more of them there are is all that is seen.
    incident = _incident(shape, targets=(name,), also=(_LANES,), abstain_ok=True, felt_by=name)
    twice = _set(incident, name, oddities={"quota": 3 * shape.rate})
    return replace(incident, changes=(_change("a quota of three times as many", twice, _FULL), _lanes(incident, name)))


# Releases, caches and autoscalers


def release_rolled_back(chance: random.Random) -> OddIncident:
    """A release is much slower; after some seconds somebody returns to the version before."""
    shape = shapes.loose(chance)
    name, base = shape.name("one"), chance.uniform(25, 35)
    shape = shape.changed(name, base_ms=base, instances=6, **ALONE)
    events = rolled_back(name, base, chance.uniform(4.0, 4.8), (0.3, 0.65))
    incident = _incident(shape, events=events, fault_at=0.3, targets=(name,), felt_by=name, trial=40.0)
    changes = (_change("no release", replace(incident, events=()), _SLOWER), _lanes(incident, name, 2))
    return replace(incident, changes=changes)


def scaled_out_too_late(chance: random.Random) -> OddIncident:
    """Twice as many ask; an autoscaler takes a quarter of a minute to add instances, which are enough then."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(0.56, 0.6), 1)
    shape = _asked(shape, factors=(*(1.0,) * 6, *(2.0,) * 14))
    event = Event(at=0.7, do="set", model=name, values={"instances": 4})
    incident = _incident(shape, events=(event,), fault_at=0.3, targets=(name,), also=(_FULL,), felt_by=name, trial=40.0)
    same = replace(incident, loads=_asked(shape, factors=()).loads)
    changes = (_lanes(incident, name, 4), _change("as many as before", same, _SHIFT))
    return replace(incident, changes=changes)


def store_flushed_and_refilled(chance: random.Random) -> OddIncident:
    """What a model keeps to be fast is lost, and it is slow until it has it again."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, base_ms=chance.uniform(14, 20), instances=12, oddities={"times": 1}, **ALONE)
    values = {"slow_falls": [round(chance.uniform(9, 11), 1), chance.randint(16, 19)]}
    event = Event(at=0.4, do="control", model=name, values=values)
    incident = _incident(shape, events=(event,), fault_at=0.4, targets=(name,), felt_by=name, trial=40.0)
    changes = (_change("nothing is lost", replace(incident, events=())), _lanes(incident, name, 2))
    return replace(incident, changes=changes)


def server_restarts(chance: random.Random) -> OddIncident:
    """The server is killed, as it is when memory is short, and starts anew, which takes it some seconds."""
    shape = shapes.chain(chance)
    shape = shape.changed(shape.name("first"), load_ms=chance.uniform(3000, 5000))
    also = (_FAILS, "cold-start", "model-reload-stall", _SHIFT)
    incident = _incident(shape, events=(Event(at=0.4, do="restart"),), fault_at=0.4, also=also, trial=40.0)
    never = _change("never killed", replace(incident, events=()), "model-unavailable")
    return replace(incident, changes=(never, _lanes(incident, shape.name("first"), 2)))


# Two servers


def one_server_with_fewer_lanes(chance: random.Random) -> OddIncident:
    """Two servers get the same requests, but in the configuration of one of them a member has one instance."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.busy(name, chance.uniform(1.03, 1.1), 1, instances=4)
    alike = _two(shape)
    assert alike.second is not None
    fewer = replace(alike.second, world=alike.second.world.changed(name, instances=1))
    also = (_FULL, "replica-outlier")
    incident = replace(alike, second=fewer, targets=(name,), also=also)
    return replace(incident, changes=(_change("as many on both", alike, _LANES),))


def one_node_slow(chance: random.Random) -> OddIncident:
    """From then on everything takes several times as long on one of two servers, whose machine is ill."""
    shape = shapes.chain(chance)
    names = tuple(model.name for model in shape.world.models)
    for name in names:
        shape = shape.changed(name, base_ms=chance.uniform(12, 24), instances=8, **ALONE)
    slow = {"slow": chance.uniform(3.6, 4.4)}
    events = tuple(Event(at=0.4, do="control", model=name, values=slow) for name in names)
    healthy = _two(shape, fault_at=0.4)
    incident = _two(shape, events=events, fault_at=0.4, targets=(*names, shape.entry))
    more = shape
    for name in names:
        more = more.changed(name, instances=16)
    changes = (
        _change("as fast as the other", healthy, "replica-outlier"),
        _change("instances of all", _two(more, events=events, fault_at=0.4), _LANES),
    )
    return replace(incident, changes=changes)


def neighbour_server_takes_the_cores(chance: random.Random) -> OddIncident:
    """Another server on the same processors begins a job, and this one, which is asked as before, slows down."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    work = {"mode": "work", "instances": 4, **ALONE}
    shape = _asked(shape.changed(name, base_ms=chance.uniform(18, 26), **work), rate=chance.uniform(8, 11))
    job = odd(Load(model=name, clients=6), begins=0.42)
    base = chance.uniform(60, 90)
    own = {"fault_at": 0.42, "felt_by": name, "also": (_LANES, _FULL)}
    incident, without = _beside(shape, (job,), base, 6, **own), _beside(shape, (), base, 6, **own)
    changes = (_change("without that job", without, "host-cpu-starved", _SHIFT), _lanes(incident, name, 2))
    return replace(incident, changes=changes)
