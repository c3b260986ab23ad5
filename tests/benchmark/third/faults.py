"""Kinds of faults of the third table. Each is a function of a random generator, and says which changes are tried.

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
from tests.benchmark.draws.base import names_of
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.shapes import Shape
from tests.benchmark.kinds.world import Event, Load, Model, World

_FULL = "capacity-exceeded"
_SHIFT = "workload-shift"
_REFUSED = "queue-rejections"
_CALLS = "bls-serialization"
_STARVED = "host-cpu-starved"
_TURNS = "sequence-batcher-starved"
_ALONE = {"max_batch": 1, "delay_us": None, "per_item_ms": 0.0}


def _change(what: str, incident: OddIncident, *names: str) -> Change:
    return Change(what=what, names=names, incident=incident)


def _set(incident: OddIncident, name: str, **values: object) -> OddIncident:
    """Return the incident with other settings of one model."""
    return replace(incident, world=incident.world.changed(name, **values))


def _but(incident: OddIncident, name: str, **oddities: object) -> OddIncident:
    """Return the incident with other oddities of one model."""
    return _set(incident, name, oddities={**incident.world.model(name).oddities, **oddities})


# What models wait for


def lookups_that_stall(chance: random.Random) -> OddIncident:
    """A model looks a name up for each request; now and then the resolver answers after five seconds."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    share = chance.uniform(2.9, 3.2) / (5.0 * shape.rate)
    shape = shape.busy(name, 0.1, 3, oddities={"stall_share": share, "stall_ms": 5000})
    incident = _incident(shape, targets=(name,), also=(_FULL, "bursty-arrivals"), felt_by=name)
    changes = (_change("no stalls", _but(incident, name, stall_share=0)), _lanes(incident, name, 4))
    return replace(incident, changes=changes)


def _fan(chance: random.Random, **oddities: object) -> Shape:
    """A model that calls six others at once."""
    *leaves, caller = names_of(chance, 7)
    rate = chance.uniform(9, 14)
    models = [
        Model(name=leaf, base_ms=chance.uniform(6, 14), instances=4, oddities={"stall_share": 0, **oddities})
        for leaf in leaves
    ]
    models.append(Model(name=caller, base_ms=0.8, calls=(tuple(leaves),), instances=14))
    parts = {"caller": caller, **{f"leaf {number}": leaf for number, leaf in enumerate(leaves)}}
    loads = (Load(model=caller, rate=rate),)
    return Shape(world=World(models=tuple(models)), entry=caller, rate=rate, parts=parts, loads=loads)


def tail_of_a_wide_fan_out(chance: random.Random) -> OddIncident:
    """Each of six models called at once is slow now and then, and a request waits for the slowest."""
    stalls = {"stall_share": chance.uniform(0.03, 0.045), "stall_ms": chance.randint(600, 900)}
    shape = _fan(chance, **stalls)
    incident = _incident(shape, targets=tuple(shape.parts.values()))
    calm = incident
    for leaf in shape.parts.values():
        calm = _but(calm, leaf, stall_share=0) if leaf != shape.entry else calm
    lanes = replace(_lanes(incident, shape.entry, 2), names=(_CALLS,))
    return replace(incident, changes=(_change("no stalls", calm), lanes))


def reconnects_after_a_pause(chance: random.Random) -> OddIncident:
    """Hardly anybody asks, and a model's connection to what it needs ends after each short pause."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    oddities = {"idle_ms": chance.randint(900, 1300), "wakes_ms": chance.randint(900, 1400)}
    shape = shape.changed(name, base_ms=chance.uniform(15, 30), instances=1, oddities=oddities, **_ALONE)
    incident = _incident(_asked(shape, rate=chance.uniform(0.6, 0.8)), targets=(name,), felt_by=name)
    changes = (_change("kept open", _but(incident, name, wakes_ms=0)), _lanes(incident, name))
    return replace(incident, changes=changes)


def lock_between_two_models(chance: random.Random) -> OddIncident:
    """Two models with lanes enough execute one at a time, because both take the same lock."""
    shape = shapes.loose(chance)
    one, other = shape.name("one"), shape.name("other")
    rate = next(load.rate for load in shape.loads if load.model == other)
    half = chance.uniform(0.47, 0.5)
    oddities = {"lock_of": one}
    values = {"instances": 4, "locked": 1.0, "oddities": oddities, **_ALONE}
    shape = shape.changed(one, base_ms=1e3 * half / shape.rate, **values)
    shape = shape.changed(other, base_ms=1e3 * half / rate, **values)
    names = (_FULL, "scheduler-stall", _LANES)
    incident = _incident(shape, targets=(one, other), also=names, abstain_ok=True, felt_by=one)
    free = _set(_set(incident, one, locked=0.0, oddities={}), other, locked=0.0, oddities={})
    return replace(incident, changes=(_change("no lock", free, *names), _lanes(incident, one)))


# What instances do


def first_lane_is_slow(chance: random.Random) -> OddIncident:
    """One of three instances takes ten times as long as the others, and gets requests as they do."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, 0.2, 3, oddities={"first_lane": chance.uniform(10, 13)})
    incident = _incident(shape, targets=(name,), also=("version-regression",), felt_by=name)
    changes = (_change("as fast as the others", _but(incident, name, first_lane=1)), _lanes(incident, name))
    return replace(incident, changes=changes)


def garbage_collected_apart(chance: random.Random) -> OddIncident:
    """Each instance stops for seconds after some dozens of executions, at times of its own."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    oddities = {"every": chance.randint(45, 60), "collect_ms": chance.randint(2000, 2800)}
    shape = shape.busy(name, chance.uniform(0.55, 0.6), 2, oddities=oddities)
    incident = _incident(shape, targets=(name,), also=(_FULL, "bursty-arrivals"))
    changes = (_change("no collections", _but(incident, name, every=0)), _lanes(incident, name))
    return replace(incident, changes=changes)


def threads_that_spin(chance: random.Random) -> OddIncident:
    """Each execution has a pool of threads that spin while they have nothing to do, on two processors."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    oddities = {"spinners": chance.randint(2, 3)}
    base = chance.uniform(16, 22)
    shape = shape.changed(name, base_ms=base, mode="work", instances=3, oddities=oddities, **_ALONE)
    incident = _incident(shape, cores=2, also=(_LANES, _FULL), felt_by=name)
    changes = (_change("one thread each", _but(incident, name, spinners=0), _STARVED), _lanes(incident, name))
    return replace(incident, changes=changes)


def job_beside_takes_the_cores(chance: random.Random) -> OddIncident:
    """A job begins to ask another model of the same server, whose executions take the processors of both."""
    shape = shapes.loose(chance)
    one, other = shape.name("one"), shape.name("other")
    work = {"mode": "work", **_ALONE}
    shape = shape.changed(one, base_ms=chance.uniform(18, 26), instances=4, **work)
    shape = shape.changed(other, base_ms=chance.uniform(50, 80), instances=6, **work)
    calm = tuple(replace(load, rate=2.0) if load.model == other else load for load in shape.loads)
    shape = replace(shape, loads=calm)
    job = odd(Load(model=other, clients=6), begins=0.42)
    without = _incident(shape, felt_by=one, fault_at=0.42, cores=2, also=(_LANES, _FULL))
    incident = replace(without, loads=(*shape.loads, job))
    changes = (_change("without the job", without, _STARVED, _SHIFT), _lanes(incident, one, 2))
    return replace(incident, changes=changes)


def runs_in_slices(chance: random.Random) -> OddIncident:
    """From then on the server's processes run only for some hundredths of a second now and then, as under a quota."""
    shape = shapes.chain(chance)
    period = round(chance.uniform(0.34, 0.44), 2)
    events = tuple(
        Event(at=at, do="throttle", values={"seconds": 3.9, "period": period}) for at in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    )
    incident = _incident(shape, events=events, fault_at=0.4, abstain_ok=True)
    free = _change("never stopped", replace(incident, events=()), _STARVED)
    return replace(incident, changes=(free,))


# What is loaded at run time


def loaded_again_and_again(chance: random.Random) -> OddIncident:
    """A controller loads a model anew every few seconds, and each time its instances begin cold."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    base, first = chance.uniform(10, 18), chance.uniform(1100, 1500)
    shape = shape.changed(name, base_ms=base, instances=2, first_ms=first, **_ALONE)
    times = (0.18, 0.3, 0.42, 0.54, 0.66, 0.78, 0.9)
    events = tuple(
        Event(at=at, do="set", model=name, values={"base_ms": base * (1.005 + 0.005 * number)})
        for number, at in enumerate(times)
    )
    also = ("model-reload-stall", "cold-start", "bursty-arrivals")
    incident = _incident(shape, events=events, fault_at=0.16, targets=(name,), also=also)
    changes = (
        _change("never loaded again", replace(incident, events=()), "model-reload-stall", "cold-start"),
        _change("warm at once", _set(incident, name, first_ms=0), "cold-start"),
    )
    return replace(incident, changes=changes)


def _released(shape: Shape, name: str, at: float, **values: object) -> Event:
    return Event(at=at, do="release", model=name, values=values)


def release_that_lost_its_lanes(chance: random.Random) -> OddIncident:
    """A new version is as fast as the one before, but its configuration has one instance."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.busy(name, chance.uniform(1.0, 1.08), 1, instances=4)
    event = _released(shape, name, 0.4, instances=1)
    incident = _incident(shape, events=(event,), fault_at=0.4, targets=(name,), also=(_FULL,))
    kept = replace(incident, events=(_released(shape, name, 0.4),))
    return replace(incident, changes=(_change("all instances", kept, _LANES),))


def more_ask_as_a_release_comes(chance: random.Random) -> OddIncident:
    """At the time of a release, which is as fast as the version before, twice as many begin to ask."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.busy(name, chance.uniform(0.5, 0.54), 1)
    rises = (*(1.0,) * 8, *(chance.uniform(1.95, 2.1),) * 12)
    event = _released(shape, name, 0.41)
    incident = _incident(
        _asked(shape, factors=rises), events=(event,), fault_at=0.42, targets=(name, shape.entry), also=(_FULL,)
    )
    # The version that comes has the settings of the repository.
    lanes = _lanes(incident, name)
    changes = (
        lanes,
        _change("as many as before", replace(incident, loads=_asked(shape).loads), _SHIFT),
        _change("no release", replace(incident, events=()), "version-regression"),
    )
    return replace(incident, changes=changes)


def asks_for_a_version_that_is_gone(chance: random.Random) -> OddIncident:
    """A release takes the place of version 1, which some clients name."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    pinned = Load(model=name, rate=shape.rate * chance.uniform(0.3, 0.5), version=1)
    shape = replace(shape, loads=(*shape.loads, pinned))
    event = _released(shape, name, 0.4)
    also = ("request-failures", _SHIFT)
    incident = _incident(shape, events=(event,), fault_at=0.4, targets=(name,), also=also, felt_by=name)
    both = replace(incident, events=(_released(shape, name, 0.4, versions=(1, 2)),))
    names = ("model-unavailable", "request-failures")
    return replace(incident, changes=(_change("both versions", both, *names),))


# What clients ask


def rows_past_the_limit(chance: random.Random) -> OddIncident:
    """A client begins to send more rows at once than a model takes, and is refused."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, max_batch=8, base_ms=8.0, per_item_ms=0.3, delay_us=0, instances=2)
    refused = Load(model=name, rate=shape.rate * chance.uniform(0.5, 0.9), rows=chance.randint(9, 14))
    many = odd(refused, begins=0.4)
    without = _incident(shape, fault_at=0.4, targets=(name,), also=(_SHIFT,), felt_by=name)
    incident = replace(without, loads=(*shape.loads, many))
    change = _change("rows that are taken", replace(incident, loads=(*shape.loads, replace(many, rows=4))))
    return replace(incident, changes=(replace(change, names=("request-failures",)),))


def ramps_past_a_shared_member(chance: random.Random) -> OddIncident:
    """More and more ask one of two ensembles, until the member that both share is full."""
    shape = shapes.shared(chance)
    name = shape.name("shared")
    shape = shape.busy(name, chance.uniform(0.58, 0.64), 1)
    ramp = tuple(1.0 + 1.5 * part / 11 for part in range(12))
    also = (_FULL,)
    targets = (name, *(load.model for load in shape.loads))
    incident = _incident(_asked(shape, factors=ramp), fault_at=0.5, targets=targets, also=also, trial=28.0)
    steady = replace(incident, loads=_asked(shape).loads)
    changes = (_lanes(incident, name), _change("as many as before", steady, _SHIFT))
    return replace(incident, changes=changes)


def sequences_pause_longer(chance: random.Random) -> OddIncident:
    """From the middle on clients take longer between two turns, and their sequences hold the slots."""
    shape = shapes.dialogue(chance, slots_held=0.35)
    name, turns = shape.entry, shape.loads[0]
    early = replace(turns, end=16.0)
    late = replace(turns, pause=turns.pause * chance.uniform(4.5, 6.0), start=16.0)
    incident = _incident(replace(shape, loads=(early, late, *shape.loads[1:])), fault_at=0.42, targets=(name,))
    slots = incident.world.model(name).max_batch * 5
    same = replace(incident, loads=(early, replace(turns, start=16.0), *shape.loads[1:]))
    changes = (
        _change("five times the slots", _set(incident, name, max_batch=slots), _TURNS),
        _change("pauses as before", same, _SHIFT, _TURNS),
    )
    return replace(incident, changes=changes, also=(_TURNS, _LANES), felt_by=name, trial=36.0)


# Queues that refuse, and branches


def low_priority_expires(chance: random.Random) -> OddIncident:
    """Requests of the lower priority are overtaken until their time in the queue ends."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(1.0, 1.06), 1, priorities=True, queue_timeout_ms=chance.randint(300, 500))
    high = replace(shape.loads[0], high=chance.uniform(0.6, 0.75))
    shape = replace(shape, loads=(high, *shape.loads[1:]))
    names = (_REFUSED, "priority-starvation", _LANES)
    also = (*names, _FULL, "scheduler-stall", "request-failures")
    incident = _incident(shape, targets=(name,), also=also, felt_by=name)
    forever = _change("no timeout", _set(incident, name, queue_timeout_ms=0), _REFUSED)
    return replace(incident, changes=(forever, replace(_lanes(incident, name), names=names)))


def limit_that_stops_a_fork(chance: random.Random) -> OddIncident:
    """One branch of a fork gets a limit to its queue. The first requests it refuses stop the ensemble for good."""
    shape = shapes.fork(chance)
    name = shape.name("short")
    shape = shape.busy(name, chance.uniform(0.85, 0.92), 1, delay_us=0)
    event = Event(at=0.4, do="set", model=name, values={"queue_limit": chance.randint(1, 2)})
    # The members before the branch wait for the ensemble, and nothing that is seen says why.
    names = (_REFUSED, "execution-hung", "scheduler-stall")
    also = (*names, _FULL, "request-failures", "model-unavailable")
    targets = (name, shape.name("first"), shape.entry)
    incident = _incident(shape, events=(event,), fault_at=0.4, targets=targets, also=also, abstain_ok=True)
    changes = (_change("no limit", replace(incident, events=()), *names), _lanes(incident, name))
    return replace(incident, changes=changes)


def both_branches_full(chance: random.Random) -> OddIncident:
    """Both branches of a fork are full, so that more instances of one alone hardly help."""
    shape = shapes.fork(chance)
    short, long = shape.name("short"), shape.name("long")
    shape = shape.busy(short, chance.uniform(1.08, 1.12), 1).busy(long, chance.uniform(1.08, 1.12), 2)
    incident = _incident(shape, targets=(short, long), also=(_FULL,))
    both = _set(_set(incident, short, instances=3), long, instances=6)
    one = _set(incident, short, instances=3)
    changes = (_change("instances of both", both, _LANES), _change("instances of the short one", one, _LANES))
    return replace(incident, changes=changes)


# Two at once


def two_full_member_and_slow_dependency(chance: random.Random) -> OddIncident:
    """A member is full, and what another one waits for slows down, which is what everybody looks at."""
    shape = shapes.chain(chance)
    first, last = shape.name("first"), shape.name("last")
    shape = shape.busy(first, chance.uniform(1.01, 1.05), 1)
    shape = shape.changed(last, base_ms=chance.uniform(15, 25), instances=12, **_ALONE)
    event = Event(at=0.4, do="control", model=last, values={"slow": 6.0})
    incident = _incident(shape, events=(event,), fault_at=0.4, targets=(first,), also=(_FULL,), trial=30.0)
    changes = (
        _lanes(incident, first),
        _change("as fast as before", replace(incident, events=())),
        _lanes(incident, last, 2),
    )
    return replace(incident, changes=changes)
