"""Kinds of odd faults. Each is a function of a random generator, and says which changes are tried.

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
from tests.benchmark.kinds.world import Ensemble, Event, Load, Model, Step, World

_FULL = "capacity-exceeded"
_SHIFT = "workload-shift"
_WAY = "client-or-transport-bound"


# What requests are made of


def giants_ahead(chance: random.Random) -> OddIncident:
    """Few requests are a hundred times as much work as the others, which wait behind them in the one instance."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    each = 1e3 * chance.uniform(0.6, 0.7) / (0.04 * shape.rate) / 4000
    oddities = {"per_value_ms": each}
    shape = shape.busy(name, 0.15, 1, width=-1, oddities=oddities)
    shape = _asked(shape, giants=0.04, giant_values=4000)
    incident = _incident(shape, targets=(name,), also=("bursty-arrivals", _FULL))
    none = replace(incident, loads=_asked(shape, giants=0.0).loads)
    changes = (_lanes(incident, name), Change(what="no giants", incident=none))
    return replace(incident, changes=changes)


def wide_batches_of_one_client(chance: random.Random) -> OddIncident:
    """From the middle on one client sends two dozen rows at a time, and everybody shares its batches."""
    shape = shapes.loose(chance)
    name, rate, rows = shape.name("one"), shape.rate, 24
    item = chance.uniform(4.5, 6.0)
    shape = shape.changed(name, base_ms=4.0, per_item_ms=item, max_batch=32, delay_us=0, instances=1)
    hogs = chance.uniform(0.97, 1.05) - rate * item / 1e3
    hog = odd(Load(model=name, rate=max(3.0, 1e3 * hogs / (rows * item))), rows=rows, begins=0.45)
    without = _incident(shape)
    incident = replace(without, loads=(*shape.loads, hog), fault_at=0.45, targets=(name,), also=(_FULL,))
    changes = (
        _lanes(incident, name),
        Change(what="without that client", names=(_SHIFT,), incident=without),
        Change(what="rows cost less", names=("batching-without-gain",), incident=incident.changed(name, per_item_ms=1)),
    )
    return replace(incident, changes=changes)  # type: ignore[arg-type]


def cache_defeated_by_stamps(chance: random.Random) -> OddIncident:
    """Requests begin to carry a time stamp, so that the cache never answers again."""
    shape = shapes.cached(chance, hits=True)
    name = shape.name("first")
    shape = shape.busy(name, chance.uniform(1.0, 1.1), 1, cache=True)
    stamped = _asked(shape, stamped_from=0.42)
    incident = _incident(stamped, fault_at=0.42, targets=(name, shape.entry), also=(_FULL,))
    changes = (
        _lanes(incident, name),
        Change(what="no stamps", names=(_SHIFT,), incident=replace(incident, loads=_asked(shape).loads)),
    )
    return replace(incident, changes=changes)


def widths_compiled_one_by_one(chance: random.Random) -> OddIncident:
    """Each width that an instance meets first costs it a compilation, and from the middle on widths are new."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    oddities = {"compile_ms": chance.uniform(450, 700)}
    shape = shape.busy(name, 0.15, 2, width=-1, oddities=oddities)
    new = tuple(range(20, 34))
    incident = _incident(
        _asked(shape, widths=(8, 9), widths_later=new, later=0.42),
        fault_at=0.42,
        targets=(name,),
        also=("bursty-arrivals", _LANES, _FULL),
    )
    compiled = incident.changed(name, oddities={"compile_ms": 1})
    old = replace(incident, loads=_asked(shape, widths=(8, 9)).loads)
    changes = (
        Change(what="compiled before", names=("cold-start",), incident=compiled),
        Change(what="widths as before", names=(_SHIFT,), incident=old),
    )
    return replace(incident, changes=changes)


def text_through_one_thread(chance: random.Random) -> OddIncident:
    """Large bodies are sent as text, which the one thread of the frontend takes apart."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, width=-1, out_values=4, base_ms=3.0, max_batch=1, delay_us=None, instances=4)
    shape = shape.changed(name, per_item_ms=0.0)
    shape = _asked(shape, clients=chance.randint(6, 8), think=0.02, values=160_000, as_text=True)
    threads = ("--http-thread-count=1",)
    causes = ("frontend-limited",)
    incident = _incident(shape, options=threads, also=("input-output-cost", _WAY), abstain_ok=True)
    changes = (
        Change(what="eight threads", names=causes, incident=replace(incident, options=())),
        Change(
            what="bytes", names=(_WAY, *causes), incident=replace(incident, loads=_asked(shape, as_text=False).loads)
        ),
    )
    return replace(incident, changes=changes)


# What models do


def pauses_of_all(chance: random.Random) -> OddIncident:
    """Every few seconds all instances of a model stand still together."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    oddities = {"pause_every_ms": chance.randint(5, 7) * 1000, "pause_ms": chance.randint(1600, 2400)}
    shape = shape.busy(name, 0.2, 3, oddities=oddities)
    incident = _incident(shape, targets=(name,))
    calm = incident.changed(name, oddities={"pause_every_ms": 0})
    changes = (Change(what="no pauses", incident=calm), _lanes(incident, name))  # type: ignore[arg-type]
    return replace(incident, changes=changes)


def slower_with_age(chance: random.Random) -> OddIncident:
    """A model keeps what it has seen and looks through it again each time."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    oddities = {"ages_ms": 32 / shape.rate**2, "keeps_kb": chance.randint(300, 600)}
    shape = shape.busy(name, 0.3, 1, oddities=oddities)
    incident = _incident(shape, fault_at=0.5, targets=(name,), trial=36.0, also=(_FULL,), abstain_ok=True)
    forgets = incident.changed(name, oddities={"ages_ms": 0})
    changes = (
        Change(what="keeps nothing", names=("memory-growth",), incident=forgets),  # type: ignore[arg-type]
        _lanes(incident, name),
    )
    return replace(incident, changes=changes)


def threads_of_one_interpreter(chance: random.Random) -> OddIncident:
    """The rows of a batch are worked on by threads of one interpreter, which runs one of them at a time."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    base = 1e3 * chance.uniform(0.93, 0.99) / shape.rate
    oddities = {"threads": 8}
    shape = shape.changed(name, base_ms=base, per_item_ms=0, max_batch=8, delay_us=0, instances=1, oddities=oddities)
    incident = _incident(shape, cores=2, targets=(name,), also=(_FULL, "host-cpu-starved"))
    free = incident.changed(name, oddities={"threads": 0})
    gain = Change(what="threads that run at once", names=("batching-without-gain",), incident=free)  # type: ignore[arg-type]
    return replace(incident, changes=(_lanes(incident, name, 2), gain))


def responses_in_order(chance: random.Random) -> OddIncident:
    """Responses leave in the order of their requests, and some take long."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    oddities = {"per_value_ms": chance.uniform(700, 900) / 4000}
    values = {"base_ms": 8.0, "per_item_ms": 0.0, "max_batch": 1, "delay_us": 0, "instances": 6, "width": -1}
    shape = shape.changed(name, ordered=True, oddities=oddities, **values)
    shape = _asked(shape, giants=0.05, giant_values=4000)
    incident = _incident(shape, targets=(name,), abstain_ok=True)
    free = incident.changed(name, ordered=False)
    changes = (
        Change(what="any order", names=("scheduler-stall",), incident=free),  # type: ignore[arg-type]
        _lanes(incident, name),
    )
    return replace(incident, changes=changes)


def dependency_slows(chance: random.Random) -> OddIncident:
    """What a model asks elsewhere begins to take five times as long; it has instances enough to wait for it."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    base = chance.uniform(35, 60)
    shape = shape.changed(name, base_ms=base, per_item_ms=0.0, max_batch=1, delay_us=None, instances=12)
    event = Event(at=0.4, do="control", model=name, values={"slow": 5.0})
    incident = _incident(shape, events=(event,), fault_at=0.4, targets=(name,))
    changes = (
        Change(what="as fast as before", incident=replace(incident, events=())),
        _lanes(incident, name, 2),
    )
    return replace(incident, changes=changes)


def bulk_between_members(chance: random.Random) -> OddIncident:
    """Clients send and get a few numbers; between two members go megabytes."""
    first, second, entry = names_of(chance, 3)
    many = chance.randint(3_000_000, 4_000_000)
    models = (
        Model(name=first, base_ms=4.0, out_values=many, instances=3),
        Model(name=second, base_ms=4.0, width=many, out_values=4, instances=3),
    )
    steps = (Step(model=first, takes=("IN",), gives="mid"), Step(model=second, takes=("mid",), gives="OUT"))
    world = World(models=models, ensembles=(Ensemble(name=entry, steps=steps),))
    loads = (Load(model=entry, rate=chance.uniform(9, 12)),)
    # Bytes are moved within executions, and nothing that is seen says how long those took without.
    causes = ("healthy",)
    incident = OddIncident(world=world, loads=loads, causes=causes, targets=(first, second, entry), abstain_ok=True)
    small = replace(world, models=(replace(models[0], out_values=4), replace(models[1], width=4)))
    names = ("input-output-cost", "ensemble-overhead")
    lanes = replace(_lanes(incident, first), incident=incident.changed(second, instances=8).changed(first, instances=8))
    changes = (Change(what="few numbers", names=names, incident=replace(incident, world=small)), lanes)
    return replace(incident, changes=changes, also=names)


# Models that call models


def calls_for_each_row(chance: random.Random) -> OddIncident:
    """A model calls another once for each row, and from the middle on requests are of many rows."""
    shape = shapes.loose(chance)
    name, callee = shape.name("one"), shape.name("other")
    rate, rows = chance.uniform(7, 9), chance.randint(10, 14)
    base = 1e3 * chance.uniform(0.9, 1.0) * 2 / (rate * rows)
    shape = shape.changed(callee, base_ms=base, per_item_ms=0.2, max_batch=16, delay_us=None, instances=6)
    own = {"calls": ((callee,),), "max_batch": 16, "delay_us": None, "instances": 2, "base_ms": 1.0, "per_item_ms": 0.0}
    shape = shape.changed(name, oddities={"each_row": 1}, **own)
    shape = _asked(shape, rate=rate, rows_later=rows)
    incident = _incident(shape, fault_at=0.5, targets=(name,), also=(_FULL,), trial=28.0)
    changes = (
        Change(what="one call", names=("bls-serialization",), incident=incident.changed(name, oddities={"times": 1})),  # type: ignore[arg-type]
        Change(what="one row", names=(_SHIFT,), incident=replace(incident, loads=_asked(shape, rows_later=0).loads)),
        replace(_lanes(incident, name), names=("bls-serialization",)),
    )
    return replace(incident, changes=changes)


def callers_of_each_other(chance: random.Random) -> OddIncident:
    """Two models call each other, and once all their instances wait for the other none goes on."""
    one, other = names_of(chance, 2)
    models = tuple(
        Model(name=own, base_ms=chance.uniform(12, 18), instances=3, oddities={"calls": its, "calls_below": 2})
        for own, its in ((one, other), (other, one))
    )
    # Calls meet by chance, and hardly ever while few are on their way.
    loads = (odd(Load(model=one, rate=2.0, patience=6.0), factors=(1, 1, 7, 7, 7)),)
    names, also = ("execution-hung", "bls-serialization"), ("request-failures", "model-unavailable", _FULL, _SHIFT)
    incident = OddIncident(world=World(models=models), loads=loads, fault_at=0.4, targets=(one, other), also=also)
    straight = incident.changed(other, oddities={"calls": one, "calls_below": 0.5})
    changes = (
        Change(what="no call back", names=names, incident=straight),  # type: ignore[arg-type]
        replace(_lanes(incident, one, 12), names=names),
    )
    return replace(incident, changes=changes)


# What clients do


def lookup_and_connection_each_time(chance: random.Random) -> OddIncident:
    """Each request looks its server up by name and connects anew, which takes longer than the answer."""
    shape = _asked(shapes.chain(chance), connects_ms=chance.uniform(140, 260))
    kept = replace(shape, loads=_asked(shape, connects_ms=-1.0).loads)
    incident = _incident(shape)
    return replace(incident, changes=(Change(what="kept connection", names=(_WAY,), incident=_incident(kept)),))


def bodies_that_trickle(chance: random.Random) -> OddIncident:
    shape = _asked(shapes.fork(chance), uploads_ms=chance.uniform(250, 450))
    incident = _incident(shape)
    at_once = _incident(_asked(shape, uploads_ms=0.0))
    return replace(incident, changes=(Change(what="bodies at once", names=(_WAY,), incident=at_once),))


def streams_read_slowly(chance: random.Random) -> OddIncident:
    """Clients take long over each part of a streamed answer."""
    shape = shapes.decoupled(chance)
    shape = _asked(shape, reads_ms=chance.uniform(60, 100))
    incident = _incident(shape)
    at_once = _incident(_asked(shape, reads_ms=0.0))
    return replace(incident, changes=(Change(what="read at once", names=(_WAY,), incident=at_once),))


def retries_keep_it_full(chance: random.Random) -> OddIncident:
    """A model is slow for some seconds; requests that are asked again and again keep it full for good."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(0.6, 0.7), 1)
    shape = _asked(shape, patience=0.5, attempts=4)
    events = (
        Event(at=0.3, do="control", model=name, values={"slow": 7.0}),
        Event(at=0.42, do="control", model=name, values={}),
    )
    also = (_FULL, _WAY, "request-failures")
    incident = _incident(shape, events=events, fault_at=0.5, targets=(name,), also=also, trial=36.0)
    once = replace(incident, loads=_asked(shape, attempts=1, patience=15.0).loads)
    changes = (
        _lanes(incident, name, 4),
        Change(what="asked once, patiently", names=(_SHIFT,), incident=once),
    )
    return replace(incident, changes=changes)


def backfill_on_a_member(chance: random.Random) -> OddIncident:
    """A nightly job begins to ask a member of two ensembles directly, as fast as it answers."""
    shape = shapes.shared(chance)
    name = shape.name("shared")
    shape = shape.busy(name, 0.25, 1)
    job = odd(Load(model=name, clients=chance.randint(6, 9), think=0.0), begins=0.42)
    # Those that the job's requests delay are compared, not the job's own.
    without = _incident(shape, felt_by=shape.entry, fault_at=0.42)
    incident = replace(without, loads=(*shape.loads, job), fault_at=0.42, targets=(name,), also=(_FULL,))
    ensembles = {**{load.model: load for load in shape.loads}}
    changes = (_lanes(incident, name, 8), Change(what="without the job", names=(_SHIFT,), incident=without))
    return replace(incident, changes=changes, targets=(name, *ensembles))


# What is around the server, and how it is set up


def cron_on_its_cores(chance: random.Random) -> OddIncident:
    """Every few seconds another program takes the server's processors for some seconds."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    work = {"mode": "work", "instances": 3, "max_batch": 1, "delay_us": None, "per_item_ms": 0.0}
    shape = shape.changed(name, base_ms=chance.uniform(22, 32), **work)
    values = {"processes": chance.randint(8, 12), "seconds": 4}
    events = tuple(Event(at=at, do="hog", values=values) for at in (0.14, 0.36, 0.58, 0.8))
    incident = _incident(shape, events=events, cores=2, also=(_LANES, "bursty-arrivals"))
    changes = (
        Change(what="no other program", names=("host-cpu-starved",), incident=replace(incident, events=())),
        _lanes(incident, name, 2),
    )
    return replace(incident, changes=changes)


def log_to_a_slow_disk(chance: random.Random) -> OddIncident:
    """The server logs every step of every request, to a disk that takes a few kilobytes a second."""
    shape = _asked(shapes.chain(chance), clients=chance.randint(5, 7), think=0.15)
    verbose = ("--log-verbose=1",)
    incident = _incident(shape, options=verbose, slow_log=chance.uniform(40_000, 60_000), also=("observer-overhead",))
    names = ("observer-overhead", "frontend-limited")
    quiet = replace(incident, options=())
    return replace(incident, changes=(Change(what="no verbose log", names=names, incident=quiet),), abstain_ok=True)


def expires_before_its_window(chance: random.Random) -> OddIncident:
    """The time that a request may wait in the queue is shorter than the batching window."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    window = chance.randint(60, 110)
    values = {"max_batch": 2, "per_item_ms": 0.2, "delay_us": window * 1000, "instances": 2}
    shape = shape.changed(name, queue_timeout_ms=round(window * chance.uniform(0.6, 0.8)), **values)
    incident = _incident(shape, targets=(name, shape.entry), also=("request-failures", "batch-window-mistuned"))
    changes = (
        Change(what="no timeout", names=("queue-rejections",), incident=incident.changed(name, queue_timeout_ms=0)),
        Change(
            what="no window",
            names=("queue-rejections", "batch-window-mistuned"),
            incident=incident.changed(name, delay_us=0),
        ),
    )
    return replace(incident, changes=changes)


def canary_too_slow(chance: random.Random) -> OddIncident:
    """One request in eight asks a second version, which is too slow even for these."""
    shape = shapes.versions(chance)
    name, rate = shape.name("one"), shape.rate * 2
    slow = 1e3 * chance.uniform(0.97, 1.05) / (0.125 * rate)
    values = {"base_ms": 9.0, "per_item_ms": 0.0, "instances": 1, "max_batch": 1, "delay_us": None}
    shape = shape.changed(name, version_ms={2: slow}, **values)
    asked = odd(replace(shape.loads[0], rate=rate, version=0), canary=0.125)
    shape = replace(shape, loads=(asked, *shape.loads[2:]))
    incident = _incident(shape, targets=(name,), also=(_FULL,))
    changes = (
        Change(
            what="as fast as version 1", names=("version-regression",), incident=incident.changed(name, version_ms={})
        ),
        _lanes(incident, name),
    )
    return replace(incident, changes=changes)


def turned_out_by_each_other(chance: random.Random) -> OddIncident:
    """Two models share memory for one: whichever is loaded, the other is unloaded."""
    shape = shapes.loose(chance)
    one, other = shape.name("one"), shape.name("other")
    shape = shape.changed(one, load_ms=700).changed(other, load_ms=700)
    events = []
    for number, at in enumerate((0.25, 0.4, 0.55, 0.7, 0.85)):
        stays, goes = (one, other) if number % 2 else (other, one)
        events += [Event(at=at, do="unload", model=goes), Event(at=at + 0.001, do="load", model=stays)]
    incident = _incident(shape, events=tuple(events[1:]), fault_at=0.25, targets=(one, other))
    names = ("model-unavailable", "model-reload-stall")
    both = Change(what="memory for both", names=names, incident=replace(incident, events=()))
    return replace(incident, changes=(both,), also=(*names, "request-failures", "cold-start", _SHIFT))
