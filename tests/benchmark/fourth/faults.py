"""Kinds of faults of the fourth table. Each is a function of a random generator, and says which changes are tried.

A change carries the names of the checks whose statement and advice it is. One that no check states carries none:
if nothing else helps, naming no cause is the only right answer.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from tests.benchmark.again.clients import odd
from tests.benchmark.again.record import Change, OddIncident
from tests.benchmark.again.shaping import LANES as _LANES
from tests.benchmark.again.shaping import asked as _asked
from tests.benchmark.again.shaping import incident_of as _incident
from tests.benchmark.again.shaping import more_lanes as _lanes
from tests.benchmark.draws.base import names_of
from tests.benchmark.fourth.worlds import ALONE, heavy_for_some, long_chain, streaming_member, twice_in_a_row
from tests.benchmark.fourth.worlds import part_of as _part
from tests.benchmark.fourth.worlds import two_servers as _two
from tests.benchmark.fourth.worlds import windows as _windows
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.world import Event, Load, Model, World

_FULL = "capacity-exceeded"
_SHIFT = "workload-shift"
_WAY = "client-or-transport-bound"
_CALLS = "bls-serialization"
_TURNS = "sequence-batcher-starved"
_WINDOW = "batch-window-mistuned"
_FAILS = "request-failures"
_UNEVEN = "replica-imbalance"
_REFUSED = "queue-rejections"


def _change(what: str, incident: OddIncident, *names: str) -> Change:
    return Change(what=what, names=names, incident=incident)


def _set(incident: OddIncident, name: str, **values: object) -> OddIncident:
    """Return the incident with other settings of one model."""
    return replace(incident, world=incident.world.changed(name, **values))


# What clients do


def pool_of_connections_too_small(chance: random.Random) -> OddIncident:
    """All requests of a program share two connections or three, and wait for one of them."""
    shape = shapes.fork(chance)
    for model in shape.world.models:
        shape = shape.changed(model.name, instances=3 * model.instances)
    pool = chance.randint(2, 3)
    rate = 1e3 * pool * chance.uniform(0.96, 1.0) / (shape.world.path_ms(shape.entry) + 2.0)
    shape = _asked(shape, rate=rate, pool=pool)
    incident = _incident(shape)
    wide = replace(incident, loads=_asked(shape, pool=64).loads)
    return replace(incident, changes=(_change("a pool of 64", wide, _WAY),))


def answers_as_long_text(chance: random.Random) -> OddIncident:
    """Clients send a few numbers and get megabytes of text, which the frontend writes and they read."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, out_values=chance.randint(180_000, 260_000), base_ms=6.0, instances=4, **ALONE)
    shape = _asked(shape, rate=chance.uniform(3.0, 4.0))
    incident = _incident(shape, also=("input-output-cost",), felt_by=name)
    as_bytes = replace(incident, loads=_asked(shape, bytes_back=True).loads)
    return replace(incident, changes=(_change("bytes", as_bytes, _WAY, "frontend-limited", "input-output-cost"),))


def requests_grow_wider(chance: random.Random) -> OddIncident:
    """From then on requests are of ten times as many numbers; nobody waits, each just takes longer."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    wide, base = chance.randint(1200, 2000), chance.uniform(12, 20)
    oddities = {"per_value_ms": 5.0 * base / wide}
    shape = shape.changed(name, base_ms=base, instances=8, width=-1, oddities=oddities, **ALONE)
    shape = _asked(shape, widths=(wide // 12,), widths_later=(wide,), later=0.4)
    # The width of a request is in no counter.
    incident = _incident(shape, fault_at=0.4, targets=(name,), felt_by=name, abstain_ok=True)
    narrow = replace(incident, loads=_asked(shape, widths_later=()).loads)
    return replace(incident, changes=(_change("as narrow as before", narrow, _SHIFT), _lanes(incident, name, 2)))


def hedges_double_the_load(chance: random.Random) -> OddIncident:
    """Clients begin to send a request once more when the answer takes a little longer than usual."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(0.66, 0.7), 1)
    hedges = 1.15 * shape.world.model(name).base_ms
    shape = _asked(shape, hedges_ms=hedges, later=0.4)
    incident = _incident(shape, fault_at=0.4, targets=(name,), also=(_FULL,), felt_by=name, trial=30.0)
    once = replace(incident, loads=_asked(shape, hedges_ms=0.0).loads)
    return replace(incident, changes=(_lanes(incident, name), _change("no second requests", once, _SHIFT)))


def cache_too_small_for_all(chance: random.Random) -> OddIncident:
    """More different requests than the response cache holds: each answer is evicted before it is asked for again."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(1.0, 1.08), 1, cache=True, out_values=20_000)
    shape = _asked(shape, distinct=24, distinct_later=chance.randint(110, 140), later=0.4, bytes_back=True)
    incident = _incident(shape, fault_at=0.4, targets=(name,), also=(_FULL,), felt_by=name)
    fewer = replace(incident, loads=_asked(shape, distinct_later=0).loads)
    changes = (_lanes(incident, name), _change("as many different ones as before", fewer, _SHIFT))
    return replace(incident, changes=changes)


# Schedulers


def _oldest(candidates: int) -> str:
    """Return a sequence batcher that takes the oldest first, of so many sequences at once."""
    strategy = f"oldest {{ max_candidate_sequences: {candidates} }}"
    return f"sequence_batching {{ max_sequence_idle_microseconds: 5000000 {strategy} }}\n"


def oldest_candidates_few(chance: random.Random) -> OddIncident:
    """The batcher takes the oldest of a few sequences, and the others wait until one of those has ended."""
    shape = shapes.dialogue(chance, slots_held=chance.uniform(1.1, 1.3))
    name = shape.entry
    few = shape.world.model(name).max_batch
    shape = shape.changed(name, sequence_idle_ms=0, further=_oldest(few))
    incident = _incident(shape, targets=(name,), also=(_LANES,), felt_by=name, trial=30.0)
    more = _set(incident, name, further=_oldest(8 * few))
    return replace(incident, changes=(_change("eight times the candidates", more, _TURNS),))


def sequences_lose_their_slots(chance: random.Random) -> OddIncident:
    """Clients begin to take longer between two turns than the batcher keeps a sequence, and their next turn fails."""
    shape = shapes.dialogue(chance, slots_held=0.25)
    name, turns = shape.entry, shape.loads[0]
    shape = shape.changed(name, sequence_idle_ms=400, max_batch=8)
    early = replace(turns, end=16.0)
    late = replace(turns, pause=chance.uniform(0.9, 1.2), start=16.0)
    incident = _incident(replace(shape, loads=(early, late, *shape.loads[1:])), fault_at=0.42, targets=(name,))
    same = replace(incident, loads=(early, replace(turns, start=16.0), *shape.loads[1:]))
    kept = _set(incident, name, sequence_idle_ms=8000, max_batch=64)
    changes = (
        _change("sequences are kept", kept, _FAILS, _TURNS),
        _change("pauses as before", same, _SHIFT, _FAILS),
    )
    return replace(incident, changes=changes, felt_by=name, trial=36.0)


def preferred_size_never_reached(chance: random.Random) -> OddIncident:
    """A batcher waits for a batch of a preferred size, for which far too few ask."""
    shape = long_chain(chance)
    name = shape.any_of(chance)
    window = f"preferred_batch_size: [ 24, 32 ] max_queue_delay_microseconds: {chance.randint(70, 120) * 1000}"
    values = {"max_batch": 32, "per_item_ms": 0.1, "delay_us": None, "instances": 2, "base_ms": 6.0}
    shape = shape.changed(name, further=f"dynamic_batching {{ {window} }}\n", **values)
    incident = _incident(shape, targets=(name,))
    at_once = _set(incident, name, further="dynamic_batching { }\n")
    return replace(incident, changes=(_change("no window", at_once, _WINDOW), _lanes(incident, name, 2)))


def windows_that_add_up(chance: random.Random) -> OddIncident:
    """Each of four models or five waits some hundredths of a second for a batch, which nobody would notice of one."""
    shape = _windows(long_chain(chance), chance.randint(14, 22) * 1000)
    names = tuple(model.name for model in shape.world.models)
    incident = _incident(shape, targets=names)
    one = _set(incident, names[0], delay_us=0)
    changes = (
        _change("no windows", _incident(_windows(shape, 0)), _WINDOW),
        _change(f"no window of {names[0]}", one, _WINDOW),
    )
    return replace(incident, changes=changes)


def delayed_past_their_time(chance: random.Random) -> OddIncident:
    """Who waited too long is put behind all others, for good while more arrive."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    policy = f"timeout_action: DELAY default_timeout_microseconds: {chance.randint(200, 350) * 1000}"
    delay = f"dynamic_batching {{ default_queue_policy {{ {policy} }} }}\n"
    shape = shape.busy(name, chance.uniform(0.98, 1.03), 1, further=delay)
    incident = _incident(shape, targets=(name,), also=(_FULL, "scheduler-stall"), felt_by=name)
    plain = _change("no time", _set(incident, name, further=""), _REFUSED)
    return replace(incident, changes=(plain, _lanes(incident, name)))


# What models do


def batches_cost_their_square(chance: random.Random) -> OddIncident:
    """A batch of n takes n² times as long as one, so that the longer the queue, the less is done."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    each = 1e3 * chance.uniform(0.78, 0.84) / shape.rate
    oddities = {"squared_ms": round(each * 0.4, 2)}
    values = {"base_ms": each * 0.6, "per_item_ms": 0.0, "max_batch": 16, "delay_us": 0, "instances": 1}
    shape = shape.changed(name, oddities=oddities, **values)
    incident = _incident(shape, targets=(name,), also=(_FULL, _WINDOW), felt_by=name)
    single = _set(incident, name, max_batch=1)
    return replace(incident, changes=(_change("no batches", single, "batching-without-gain"), _lanes(incident, name)))


def pool_behind_many_lanes(chance: random.Random) -> OddIncident:
    """A model has eight instances, and what they ask has connections for two of them."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    base = 2e3 * chance.uniform(0.98, 1.04) / shape.rate - 2.0
    shape = shape.changed(name, base_ms=base, instances=8, oddities={"permits": 2}, **ALONE)
    names = (_FULL, "scheduler-stall")
    also = (*names, _LANES)
    incident = _incident(shape, targets=(name,), also=also, abstain_ok=True)
    free = _set(incident, name, oddities={"permits": 8})
    return replace(incident, changes=(_change("eight connections", free, *names), _lanes(incident, name, 2)))


def slow_failures_hold_lanes(chance: random.Random) -> OddIncident:
    """Some requests fail after seconds, because what a model asks does not answer, and hold its instances meanwhile."""
    shape = shapes.loose(chance)
    name, fails = shape.name("one"), chance.uniform(1.8, 2.6)
    share = 3 * chance.uniform(0.8, 0.9) / (fails * shape.rate)
    oddities = {"fails_share": round(share, 4), "fails_ms": round(fails * 1e3)}
    shape = shape.busy(name, 0.15, 3, oddities=oddities)
    incident = _incident(shape, targets=(name,), also=(_FULL, "bursty-arrivals"), felt_by=name)
    answers = _set(incident, name, oddities={"fails_share": 0})
    return replace(incident, changes=(_change("no failures", answers, _FAILS), _lanes(incident, name)))


def all_models_slow_at_once(chance: random.Random) -> OddIncident:
    """From then on every model takes three times as long, because what all of them read from is slow."""
    shape = shapes.fork(chance)
    names = tuple(model.name for model in shape.world.models)
    for name in names:
        shape = shape.changed(name, base_ms=chance.uniform(15, 25), instances=8, **ALONE)
    slow = {"slow": chance.uniform(2.8, 3.4)}
    events = tuple(Event(at=0.4, do="control", model=name, values=slow) for name in names)
    incident = _incident(shape, events=events, fault_at=0.4, targets=names)
    changes = (_change("as fast as before", replace(incident, events=())), _lanes(incident, shape.name("long"), 2))
    return replace(incident, changes=changes)


# Which way requests take


def member_in_two_steps_full(chance: random.Random) -> OddIncident:
    """A model is two steps of one ensemble, so that it is asked twice as often as everybody counts."""
    shape = twice_in_a_row(chance)
    name = shape.name("again")
    shape = shape.busy(name, chance.uniform(0.49, 0.52), 1)
    incident = _incident(shape, targets=(name,), also=(_FULL,))
    return replace(incident, changes=(_lanes(incident, name), _lanes(incident, shape.name("first"))))


def heavy_path_for_some_full(chance: random.Random) -> OddIncident:
    """A quarter of the requests need a further model, which is full, and hold the instances that all others need."""
    shape = heavy_for_some(chance, share=0.25, busy=chance.uniform(1.05, 1.12), instances=4)
    name, heavy = shape.entry, shape.name("heavy")
    incident = _incident(shape, targets=(heavy,), also=(_CALLS, _FULL), trial=30.0)
    callers = replace(_lanes(incident, name), names=(_CALLS,))
    return replace(incident, changes=(_lanes(incident, heavy), callers))


def fallback_overloads_the_spare(chance: random.Random) -> OddIncident:
    """The model that answers everybody begins to fail, and what was a spare gets all the requests."""
    rate = chance.uniform(12, 18)
    caller, usual, spare = names_of(chance, 3)
    calls = ((usual,), (spare,))
    models = (
        Model(name=caller, base_ms=1.0, calls=calls, instances=24, oddities={"fallback": 1}),
        Model(name=usual, base_ms=chance.uniform(8, 14), instances=4),
        Model(name=spare, base_ms=1e3 * chance.uniform(1.08, 1.15) / rate, instances=1),
    )
    event = Event(at=0.4, do="control", model=usual, values={"error": 1})
    incident = OddIncident(
        world=World(models=models),
        loads=(Load(model=caller, rate=rate),),
        events=(event,),
        fault_at=0.4,
        targets=(caller, usual, spare),
        also=(_FULL, _SHIFT, _CALLS),
        trial=30.0,
    )
    changes = (_change("the usual one answers", replace(incident, events=()), _FAILS), _lanes(incident, spare))
    return replace(incident, changes=changes)


def streaming_member_full(chance: random.Random) -> OddIncident:
    """A member of an ensemble that sends several responses for each request has one instance, which is full."""
    shape = streaming_member(chance, busy=chance.uniform(1.02, 1.1), instances=1)
    name = shape.name("streams")
    incident = _incident(shape, targets=(name,), also=(_FULL,))
    return replace(incident, changes=(_lanes(incident, name), _lanes(incident, shape.name("first"))))


def waves_past_the_callers(chance: random.Random) -> OddIncident:
    """The load goes up and down, and at its height a model that waits for others has too few instances."""
    shape = shapes.wrapped(chance)
    name = shape.name("wrapper")
    for model in shape.world.models:
        shape = shape.changed(model.name, base_ms=chance.uniform(20, 35), **ALONE) if model.name != name else shape
    shape = shape.changed(name, instances=2)
    rate = 2e3 * chance.uniform(0.84, 0.9) / (shape.world.path_ms(name) + 1.0)
    for model in shape.world.models:
        if model.name != name:
            needed = math.ceil(2.0 * rate * model.seconds() / 0.35)
            shape = shape.changed(model.name, instances=max(model.instances, min(needed, 12)))
    wave = tuple(1.0 - 0.75 * math.cos(2 * math.pi * part / 6) for part in range(12))
    shape = _asked(shape, rate=rate, factors=wave)
    incident = _incident(shape, targets=(name,), also=(_FULL, _LANES), trial=36.0)
    even = replace(incident, loads=_asked(shape, factors=()).loads)
    changes = (
        replace(_lanes(incident, name, 4), names=(_CALLS,)),
        _change("as many all the time", even, "bursty-arrivals", _SHIFT),
    )
    return replace(incident, changes=changes)


# Releases and autoscalers


def instances_flap_too_low(chance: random.Random) -> OddIncident:
    """An autoscaler takes instances away as soon as the queue is empty, and adds them once it is long."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(1.45, 1.6), 1, instances=4)
    times = ((0.2, 1), (0.36, 4), (0.5, 1), (0.66, 4), (0.8, 1))
    events = tuple(Event(at=at, do="set", model=name, values={"instances": count}) for at, count in times)
    also = (_FULL, "bursty-arrivals")
    incident = _incident(shape, events=events, fault_at=0.2, targets=(name,), also=also, felt_by=name, trial=36.0)
    return replace(incident, changes=(_change("all instances", replace(incident, events=()), _LANES),))


def release_with_small_batches(chance: random.Random) -> OddIncident:
    """A new version is as fast as the one before, but its configuration has batches of one."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    base = 1e3 * chance.uniform(1.15, 1.3) / shape.rate
    values = {"base_ms": base, "per_item_ms": 0.3, "max_batch": 16, "delay_us": 0, "instances": 1}
    shape = shape.changed(name, **values)
    event = Event(at=0.4, do="release", model=name, values={"max_batch": 1})
    also = (_FULL,)
    incident = _incident(shape, events=(event,), fault_at=0.4, targets=(name,), also=also, felt_by=name)
    kept = replace(incident, events=(replace(event, values={}),))
    more = replace(incident, events=(replace(event, values={"max_batch": 1, "instances": 3}),))
    names = ("batch-size-collapse", "version-regression")
    changes = (_change("batches as before", kept, *names), _change("three instances", more, _LANES))
    return replace(incident, changes=changes)


# Two servers


def sticky_to_one_server(chance: random.Random) -> OddIncident:
    """From then on a load balancer sends nine tenths of the requests to one of two equal servers."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.busy(name, chance.uniform(0.6, 0.64), 1)
    incident = _two(shape, _part(1.8), _part(0.2), fault_at=0.4, targets=(name, shape.entry), also=(_FULL,))
    more = shape.changed(name, instances=3)
    changes = (
        _change("half to each", _two(shape, fault_at=0.4), _UNEVEN, _SHIFT),
        _change("instances", _two(more, _part(1.8), _part(0.2), fault_at=0.4), _LANES),
    )
    return replace(incident, changes=changes)


def peer_without_its_model(chance: random.Random) -> OddIncident:
    """One of two servers loses a model, and the other one gets all the requests, which it cannot take."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(0.55, 0.58), 1)
    event = Event(at=0.4, do="unload", model=name)
    none, all_of_them = _part(0.0), _part(2.0)

    def moved(own: shapes.Shape) -> OddIncident:
        here = _two(own, events=(event,), fault_at=0.4, felt_by=name)
        assert here.second is not None
        first, others = here.loads[0], here.second.loads[0]
        second = replace(here.second, loads=(odd(others, factors=none), *here.second.loads[1:]))
        return replace(here, loads=(odd(first, factors=all_of_them), *here.loads[1:]), second=second)

    both = replace(_two(shape, fault_at=0.4), felt_by=name)
    also = (_FULL, "model-unavailable")
    changes = (
        _change("both serve it", both, "model-unavailable", _UNEVEN, _SHIFT),
        _change("instances", moved(shape.changed(name, instances=3)), _LANES),
    )
    return replace(moved(shape), targets=(name,), also=also, changes=changes)


def release_reached_one_server(chance: random.Random) -> OddIncident:
    """A slower release goes to one of two servers, and half of the requests are slow from then on."""
    shape = shapes.chain(chance)
    name, base = shape.any_of(chance), chance.uniform(25, 40)
    shape = shape.changed(name, base_ms=base, instances=6, **ALONE)
    event = Event(at=0.4, do="release", model=name, values={"base_ms": base * chance.uniform(2.8, 3.4)})
    incident = _two(shape, events=(event,), fault_at=0.4, targets=(name,), also=("replica-outlier",))
    more = _two(shape.changed(name, instances=12), events=(event,), fault_at=0.4)
    changes = (
        _change("no release", _two(shape, fault_at=0.4), "version-regression", "replica-outlier"),
        Change(what=f"instances of {name}", names=(_LANES,), incident=more, lanes_of=name),
    )
    return replace(incident, changes=changes)
