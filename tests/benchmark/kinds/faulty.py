"""Kinds of faults: what happens to which topology. Each is a function of a random generator.

Checks are named after what their runbooks say. Where the evidence cannot tell between causes, the label
holds each of them, and says that abstaining is right.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.deployment import EngineSpec
from tests.benchmark.draws.base import names_of
from tests.benchmark.kinds import shapes
from tests.benchmark.kinds.shapes import Shape
from tests.benchmark.kinds.world import Event, Incident, Load

_LANES = "single-instance-serialization"
_FULL = "capacity-exceeded"


def _at(chance: random.Random) -> float:
    return chance.uniform(0.32, 0.42)


def _over(chance: random.Random) -> float:
    return chance.uniform(0.99, 1.1)


def _set(shape: Shape, chance: random.Random, name: str, values: dict[str, object], **label: object) -> Incident:
    at = _at(chance)
    event = Event(at=at, do="set", model=name, values=values)
    return shape.incident(events=(event,), fault_at=at, targets=(name,), **label)


# Settings that change in place


def chain_count_lowered(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.busy(name, _over(chance), 1, instances=3)
    return _set(shape, chance, name, {"instances": 1}, causes=(_LANES,), also=(_FULL,))


def wrapped_callee_count_lowered(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance)
    name = shape.name("callee")
    shape = shape.busy(name, _over(chance), 1, instances=3)
    shape = shape.changed(shape.name("wrapper"), instances=24)
    also = (_FULL, "bls-serialization")
    return _set(shape, chance, name, {"instances": 1}, causes=(_LANES,), also=also)


def chain_count_raised(chance: random.Random) -> Incident:
    """The repair itself: the window begins in the fault and ends without."""
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    shape = shape.busy(name, _over(chance), 1)
    both = (_LANES, "healthy")
    return _set(shape, chance, name, {"instances": 3}, causes=both, also=(_FULL,), abstain_ok=True)


def loose_batching_off(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    name = shape.name("one")
    base = 1e3 * _over(chance) / shape.rate - 2.0
    shape = shape.changed(name, base_ms=base, per_item_ms=0.5, instances=1, max_batch=16, delay_us=0)
    causes = ("batch-size-collapse", _LANES)
    return _set(shape, chance, name, {"delay_us": None}, causes=causes, also=(_FULL,))


def shared_window_raised(chance: random.Random) -> Incident:
    shape = shapes.shared(chance)
    name = shape.name("shared")
    shape = shape.changed(name, max_batch=16, per_item_ms=0.2, delay_us=0, instances=2)
    values: dict[str, object] = {"delay_us": chance.randint(40, 90) * 1000}
    return _set(shape, chance, name, values, causes=("batch-window-mistuned",))


def loose_queue_limit_lowered(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(0.55, 0.7), 1, delay_us=0, queue_limit=500)
    burst = chance.randint(5, 8)
    shape = replace(shape, loads=(replace(shape.loads[0], burst=burst), *shape.loads[1:]))
    causes = ("queue-rejections", "scheduler-stall")
    also = ("bursty-arrivals", _LANES, _FULL)
    return _set(shape, chance, name, {"queue_limit": 1}, causes=causes, also=also)


def cached_cache_off(chance: random.Random) -> Incident:
    """The cache is taken away, and the model has to answer what the cache answered."""
    shape = shapes.cached(chance, hits=True)
    name = shape.name("first")
    shape = shape.busy(name, _over(chance), 1, cache=True)
    causes = (_LANES, "workload-shift")
    return _set(shape, chance, name, {"cache": False}, causes=causes, also=(_FULL,))


# What is not there


def _outage(shape: Shape, chance: random.Random, name: str, **label: object) -> Incident:
    at, lasts = _at(chance), chance.uniform(7, 11) / 40
    events = (Event(at=at, do="unload", model=name), Event(at=at + lasts, do="load", model=name))
    further = ("request-failures", "execution-hung", "cold-start", "model-reload-stall", "workload-shift")
    return shape.incident(events=events, fault_at=at, causes=("model-unavailable",), also=further, **label)


def chain_member_away(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    name = shape.any_of(chance)
    return _outage(shape, chance, name, targets=(name, shape.entry))


def fork_member_away(chance: random.Random) -> Incident:
    shape = shapes.fork(chance)
    name = shape.any_of(chance)
    return _outage(shape, chance, name, targets=(name, shape.entry))


def shared_ensemble_away(chance: random.Random) -> Incident:
    shape = shapes.shared(chance)
    name = shape.entry
    return _outage(shape, chance, name, targets=(name,))


def loose_model_away(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    name = shape.name("one")
    return _outage(shape, chance, name, targets=(name,))


def wrapped_callee_away(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance)
    name = shape.name("callee")
    return _outage(shape, chance, name, targets=(name, shape.name("wrapper"), shape.entry))


def many_member_away(chance: random.Random) -> Incident:
    shape = shapes.many(chance)
    name = shape.name("middle")
    return _outage(shape, chance, name, targets=(name, shape.entry))


def chain_load_fails(chance: random.Random) -> Incident:
    """A member is unloaded, and its new version cannot be loaded."""
    shape = shapes.chain(chance)
    name, at = shape.any_of(chance), _at(chance)
    reason = chance.choice(("weights are missing", "out of memory", "cannot open the tokenizer"))
    events = (
        Event(at=at, do="unload", model=name),
        Event(at=at + 0.02, do="set", model=name, values={"broken": reason}),
    )
    causes, also = ("model-unavailable",), ("request-failures",)
    return shape.incident(events=events, fault_at=at, causes=causes, targets=(name, shape.entry), also=also)


def loose_refused_at_start(chance: random.Random) -> Incident:
    """A model that clients ask for could not be loaded when the server started."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.changed(name, broken=chance.choice(("weights are missing", "out of memory")))
    return shape.incident(causes=("model-unavailable",), targets=(name,), also=("request-failures",), refused=True)


def loose_reload_blocks(chance: random.Random) -> Incident:
    """A model is taken away and comes back only after a long load: its callers are refused meanwhile."""
    shape = shapes.loose(chance)
    name, at = shape.name("one"), _at(chance)
    shape = shape.changed(name, load_ms=chance.uniform(6000, 9000))
    events = (Event(at=at, do="unload", model=name), Event(at=at + 0.01, do="load", model=name))
    causes = ("model-reload-stall", "model-unavailable")
    also = ("request-failures", "cold-start")
    return shape.incident(events=events, fault_at=at, causes=causes, targets=(name,), also=also)


def chain_instances_added_slowly(chance: random.Random) -> Incident:
    """A slow load over HTTP: each eighth connection is served by the thread that waits for it."""
    shape = shapes.chain(chance)
    name, at = shape.any_of(chance), _at(chance)
    shape = shape.changed(name, load_ms=chance.uniform(6000, 9000))
    instances = shape.world.model(name).instances + chance.randint(1, 2)
    event = Event(at=at, do="set_over_http", model=name, values={"instances": instances})
    causes, also = ("model-reload-stall", "frontend-limited", "client-or-transport-bound"), ("cold-start",)
    return shape.incident(events=(event,), fault_at=at, causes=causes, also=also)


def chain_cold_reload(chance: random.Random) -> Incident:
    """The same version is loaded anew, and each instance's first execution is slow."""
    shape = shapes.chain(chance)
    name, first = shape.any_of(chance), chance.uniform(1200, 2500)
    values: dict[str, object] = {"first_ms": first, "base_ms": shape.world.model(name).base_ms * 1.02}
    causes, also = ("cold-start",), ("model-reload-stall", "bursty-arrivals", "execution-hung")
    return _set(shape, chance, name, values, causes=causes, also=also)


def many_cold_release(chance: random.Random) -> Incident:
    shape = shapes.many(chance)
    name, at = shape.name("middle"), _at(chance)
    event = Event(at=at, do="release", model=name, values={"first_ms": chance.uniform(1200, 2500)})
    also = ("model-reload-stall", "bursty-arrivals", "execution-hung")
    return shape.incident(events=(event,), fault_at=at, causes=("cold-start",), targets=(name,), also=also, version="2")


def wrapped_callee_cold_release(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance)
    name, at = shape.name("callee"), _at(chance)
    event = Event(at=at, do="release", model=name, values={"first_ms": chance.uniform(1200, 2500)})
    also = ("model-reload-stall", "bursty-arrivals", "bls-serialization")
    return shape.incident(events=(event,), fault_at=at, causes=("cold-start",), targets=(name,), also=also, version="2")


def _slower(shape: Shape, chance: random.Random, name: str, **label: object) -> Incident:
    at, base = _at(chance), chance.uniform(15, 35)
    shape = shape.changed(name, base_ms=base, per_item_ms=0.0, max_batch=1, delay_us=None, instances=5).roomy()
    event = Event(at=at, do="release", model=name, values={"base_ms": base * chance.uniform(2.0, 3.2)})
    causes = ("version-regression",)
    return shape.incident(events=(event,), fault_at=at, causes=causes, targets=(name,), version="2", **label)


def fork_slower_release(chance: random.Random) -> Incident:
    shape = shapes.fork(chance)
    return _slower(shape, chance, shape.name(chance.choice(("first", "long", "join"))))


def nested_leaf_slower_release(chance: random.Random) -> Incident:
    shape = shapes.nested(chance)
    return _slower(shape, chance, shape.name("leaf"), also=("bls-serialization",))


def versions_slower_one_asked(chance: random.Random) -> Incident:
    """Of two versions served side by side the slower one is asked from the middle on."""
    shape = shapes.versions(chance)
    name, base = shape.name("one"), chance.uniform(12, 25)
    slow = {2: base * chance.uniform(2.5, 4)}
    shape = shape.changed(name, base_ms=base, per_item_ms=0.0, instances=5, version_ms=slow, max_batch=1, delay_us=None)
    load = Load(model=name, rate=shape.rate, version=1, version_later=2)
    shape = replace(shape, loads=(load, *shape.loads[2:]))
    causes = ("version-regression", "workload-shift")
    return shape.incident(causes=causes, targets=(name,), fault_at=0.5, abstain_ok=True)


# Capacity on paper


def loose_instance_hangs(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    name, at, instances = shape.name("one"), _at(chance), chance.randint(2, 3)
    shape = shape.busy(name, chance.uniform(1.0, 1.1) * (instances - 1) / instances, instances)
    event = Event(at=at, do="control", model=name, values={"hang": [0]})
    causes, also = ("execution-hung",), (_LANES, _FULL, "scheduler-stall")
    return shape.incident(events=(event,), fault_at=at, causes=causes, targets=(name,), also=also, no_gain=(name,))


def wrapped_callee_instance_hangs(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance)
    name, at, instances = shape.name("callee"), _at(chance), chance.randint(2, 3)
    shape = shape.busy(name, chance.uniform(1.0, 1.1) * (instances - 1) / instances, instances)
    shape = shape.changed(shape.name("wrapper"), instances=24)
    event = Event(at=at, do="control", model=name, values={"hang": [0]})
    also = (_LANES, _FULL, "bls-serialization")
    targets = (name,)
    return shape.incident(
        events=(event,), fault_at=at, causes=("execution-hung",), targets=targets, also=also, no_gain=(name,)
    )


def chain_all_instances_hang(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    name, at = shape.any_of(chance), _at(chance)
    event = Event(at=at, do="control", model=name, values={"hang": list(range(8))})
    also = ("request-failures",)
    return shape.incident(events=(event,), fault_at=at, causes=("execution-hung",), targets=(name,), also=also)


def loose_process_killed(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    name, at, instances = shape.name("one"), _at(chance), chance.randint(2, 3)
    shape = shape.busy(name, chance.uniform(1.0, 1.1) * (instances - 1) / instances, instances)
    event = Event(at=at, do="kill", model=name)
    causes = ("request-failures", "execution-hung", "model-unavailable")
    also = (_LANES, _FULL, "scheduler-stall")
    return shape.incident(events=(event,), fault_at=at, causes=causes, targets=(name,), also=also, no_gain=(name,))


_LIMITED = ("--rate-limit=execution_count", "--rate-limit-resource=R1:1")


def loose_limiter(chance: random.Random) -> Incident:
    """Instances enough, of which the rate limiter lets one execute at a time."""
    shape = shapes.loose(chance)
    name, instances = shape.name("one"), chance.randint(3, 5)
    shape = shape.busy(name, chance.uniform(0.97, 1.05) / instances, instances, unit="R1")
    causes = ("scheduler-stall", _LANES, _FULL)
    # A limiter makes models wait that take nothing of what it limits, too.
    targets = tuple(load.model for load in shape.loads)
    return shape.incident(
        causes=causes, targets=targets, also=causes, no_gain=targets, options=_LIMITED, abstain_ok=True
    )


def chain_limiter_across_models(chance: random.Random) -> Incident:
    """Two members share the one execution that the rate limiter allows."""
    shape = shapes.chain(chance)
    names = (shape.name("first"), shape.name("last"))
    for name in names:
        shape = shape.busy(name, chance.uniform(0.46, 0.52) / 3, 3, unit="R1")
    causes = ("scheduler-stall", _LANES, _FULL)
    return shape.incident(causes=causes, targets=names, also=causes, no_gain=names, options=_LIMITED, abstain_ok=True)


def _locked(shape: Shape, chance: random.Random, name: str, **label: object) -> Incident:
    instances = chance.randint(3, 4)
    shape = shape.busy(name, chance.uniform(0.96, 1.04) / instances, instances, locked=1.0)
    causes = (_FULL, "scheduler-stall", _LANES)
    return shape.incident(causes=causes, targets=(name,), no_gain=(name,), abstain_ok=True, **label)


def loose_lock(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    return _locked(shape, chance, shape.name("one"))


def fork_lock(chance: random.Random) -> Incident:
    shape = shapes.fork(chance)
    return _locked(shape, chance, shape.name("long"))


# Calls inside models


def _callee_full(shape: Shape, chance: random.Random, name: str) -> Incident:
    shape = shape.busy(name, _over(chance), chance.choice((1, 1, 2)))
    for model in shape.world.models:
        if model.calls:
            shape = shape.changed(model.name, instances=chance.choice((12, 16, 24)))
    also = (_FULL, "bls-serialization")
    callers = tuple(model.name for model in shape.world.models if model.calls)
    return shape.incident(causes=(_LANES,), targets=(name,), also=also, no_gain=callers)


def wrapped_callee_full(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance)
    return _callee_full(shape, chance, shape.name("callee"))


def at_once_callee_full(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance, at_once=True)
    return _callee_full(shape, chance, shape.name("callee"))


def nested_leaf_full(chance: random.Random) -> Incident:
    shape = shapes.nested(chance)
    return _callee_full(shape, chance, shape.name("leaf"))


def _too_few(shape: Shape, chance: random.Random, name: str, lanes: int) -> Incident:
    """A caller whose lanes are all held by calls of models that are idle."""
    ms = shape.world.path_ms(name)
    rate = 1e3 * chance.uniform(0.84, 0.92) * lanes / (ms + 1.0)
    world = shape.world
    for model in world.models:
        if model.name != name and not model.calls:
            instances = max(model.instances, round(rate * model.seconds() / 0.3 + 0.5))
            world = world.changed(model.name, instances=min(8, instances))
        elif model.name != name:
            world = world.changed(model.name, instances=24)
    world = world.changed(name, instances=lanes)
    loads = (replace(shape.loads[0], rate=rate),)
    shape = replace(shape, world=world, loads=loads, rate=rate)
    return shape.incident(causes=("bls-serialization",), targets=(name,), also=(_FULL,))


def wrapped_too_few(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance)
    return _too_few(shape, chance, shape.name("wrapper"), chance.choice((1, 1, 2)))


def at_once_too_few(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance, at_once=True)
    return _too_few(shape, chance, shape.name("wrapper"), chance.choice((1, 1, 2)))


def nested_inner_too_few(chance: random.Random) -> Incident:
    shape = shapes.nested(chance)
    return _too_few(shape, chance, shape.name("inner"), 1)


def wrapped_callee_errors(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance)
    name, at = shape.name("callee"), _at(chance)
    event = Event(at=at, do="control", model=name, values={"error": chance.randint(3, 6)})
    targets = (name, shape.name("wrapper"), shape.entry)
    return shape.incident(events=(event,), fault_at=at, causes=("request-failures",), targets=targets)


def nested_load_rises(chance: random.Random) -> Incident:
    shape = shapes.nested(chance)
    name = shape.name("leaf")
    rises = chance.uniform(1.9, 2.2)
    shape = shape.busy(name, chance.uniform(0.5, 0.54), 1)
    for part in ("outer", "inner"):
        shape = shape.changed(shape.name(part), instances=24)
    shape = replace(shape, loads=(replace(shape.loads[0], rises=rises),))
    causes, also = (_LANES, "workload-shift"), (_FULL, "bls-serialization")
    return shape.incident(causes=causes, fault_at=0.5, also=also, targets=(name, shape.entry))


# Forks, shared members, many models


def fork_window_on_the_longest(chance: random.Random) -> Incident:
    shape = shapes.fork(chance)
    name = shape.name("longer")
    window = chance.randint(35, 80) * 1000
    shape = shape.changed(name, max_batch=16, delay_us=window, per_item_ms=0.2, instances=3)
    return shape.incident(causes=("batch-window-mistuned",), targets=(name,))


def fork_short_branch_full(chance: random.Random) -> Incident:
    shape = shapes.fork(chance)
    name = shape.name("short")
    shape = shape.busy(name, _over(chance), 1)
    return shape.incident(causes=(_LANES,), targets=(name,), also=(_FULL,))


def shared_member_full(chance: random.Random) -> Incident:
    shape = shapes.shared(chance)
    name = shape.name("shared")
    shape = shape.busy(name, _over(chance), chance.choice((1, 2)))
    return shape.incident(causes=(_LANES,), targets=(name,), also=(_FULL,))


def shared_burst_of_the_other(chance: random.Random) -> Incident:
    """The other ensemble's requests come in bursts, and this one's wait behind them in the shared member."""
    shape = shapes.shared(chance)
    name = shape.name("shared")
    shape = shape.busy(name, chance.uniform(0.5, 0.65), 1)
    one, other = shape.loads
    burst = round(other.rate * chance.uniform(3, 4.5))
    bursty = replace(shape, loads=(one, replace(other, burst=burst)))
    repairs = {
        "bursty-arrivals": shape.incident(),
        _LANES: bursty.changed(name, instances=2).incident(),
    }
    return bursty.incident(
        causes=("bursty-arrivals", _LANES), also=(*repairs, _FULL, "workload-shift"), repairs=repairs
    )


def many_one_full(chance: random.Random) -> Incident:
    shape = shapes.many(chance)
    name = shape.name("middle")
    shape = shape.busy(name, _over(chance), 1)
    return shape.incident(causes=(_LANES,), targets=(name,), also=(_FULL,))


# Schedulers, caches, decoupled models, engines


def dialogue_slots_held(chance: random.Random) -> Incident:
    shape = shapes.dialogue(chance, slots_held=chance.uniform(1.05, 1.3))
    return shape.incident(causes=("sequence-batcher-starved",), targets=(shape.name("turns"),))


def dialogue_left_open(chance: random.Random) -> Incident:
    """Sequences that their clients never end hold their slots until they are idle for long enough."""
    shape = shapes.dialogue(chance, slots_held=chance.uniform(0.3, 0.4))
    load = replace(shape.loads[0], left_open=chance.uniform(0.3, 0.5))
    shape = replace(shape, loads=(load, *shape.loads[1:]))
    targets, also = (shape.name("turns"),), ("request-failures",)
    return shape.incident(causes=("sequence-batcher-starved",), targets=targets, also=also)


def loose_priorities(chance: random.Random) -> Incident:
    shape = shapes.loose(chance)
    name = shape.name("one")
    shape = shape.busy(name, chance.uniform(0.95, 1.0), 1, priorities=True)
    high = replace(shape.loads[0], high=chance.uniform(0.6, 0.8))
    shape = replace(shape, loads=(high, *shape.loads[1:]))
    causes = ("priority-starvation", _LANES)
    return shape.incident(causes=causes, targets=(name,), also=(*causes, _FULL, "scheduler-stall"))


def decoupled_full(chance: random.Random) -> Incident:
    shape = shapes.decoupled(chance)
    name = shape.name("one")
    shape = shape.busy(name, _over(chance), 1, max_batch=0)
    return shape.incident(causes=(_LANES,), targets=(name,), also=(_FULL,))


def loose_own_threads_full(chance: random.Random) -> Incident:
    """A model that answers from two threads of its own, in front of which requests wait where nobody counts them."""
    shape = shapes.loose(chance)
    name, lanes = shape.name("one"), chance.choice((1, 2))
    shape = shape.busy(name, _over(chance), lanes, instances=1, lanes=lanes, max_batch=8)
    causes = ("engine-batch-limit", "inflight-batching-off", "engine-bound", _FULL, _LANES)
    return shape.incident(causes=causes, targets=(name,), also=causes, abstain_ok=True)


def _engine(chance: random.Random, **values: object) -> EngineSpec:
    name = names_of(random.Random(chance.random()), 22)[0] + "-llm"
    return EngineSpec(name=name, **{"slots": 64, "decode_ms": chance.uniform(2, 4), **values})  # type: ignore[arg-type]


def engine_slots_few(chance: random.Random) -> Incident:
    shape = shapes.chain(chance, engine=_engine(chance, slots=2, decode_ms=chance.uniform(5, 6)))
    engine = shape.world.engine
    assert engine is not None
    rate = 2 * chance.uniform(0.97, 1.05) / (0.012 + 26 * (engine.decode_ms + 0.2) / 1e3)
    shape = replace(shape, loads=(replace(shape.loads[0], rate=rate),), rate=rate)
    targets, also = (engine.name,), ("engine-bound", _FULL)
    return shape.incident(causes=("engine-batch-limit",), targets=targets, also=also)


def engine_cache_small(chance: random.Random) -> Incident:
    engine = _engine(chance, kv_tokens=32 * 8, decode_ms=chance.uniform(5, 6))
    shape = shapes.chain(chance, engine=engine)
    # Three blocks each: two or three run at once.
    rate = 2.4 * chance.uniform(0.97, 1.05) / (0.012 + 26 * (engine.decode_ms + 0.3) / 1e3)
    shape = replace(shape, loads=(replace(shape.loads[0], rate=rate),), rate=rate)
    also = ("engine-bound", _FULL, "kv-cache-thrashing")
    return shape.incident(causes=("kv-cache-exhausted",), targets=(engine.name,), also=also)


# Processors and clients


def chain_hog(chance: random.Random) -> Incident:
    """Another program takes the server's processors for a while."""
    shape = shapes.chain(chance)
    name, at = shape.any_of(chance), _at(chance)
    shape = shape.changed(name, mode="work", base_ms=chance.uniform(20, 30), instances=3, max_batch=1, delay_us=None)
    event = Event(at=at, do="hog", values={"processes": chance.randint(4, 6), "seconds": 30})
    return shape.incident(events=(event,), fault_at=at, causes=("host-cpu-starved",), cores=2, also=(_LANES,))


def wrapped_few_cores(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance)
    name = shape.name("callee")
    base = 1e3 * chance.uniform(0.85, 0.95) * 1.0 / shape.rate
    shape = shape.changed(name, mode="work", base_ms=base, instances=4, max_batch=1, per_item_ms=0.0, delay_us=None)
    shape = shape.roomy()
    also = (_FULL, "bls-serialization", _LANES)
    return shape.incident(causes=("host-cpu-starved",), cores=1, also=also)


def wrapped_far_clients(chance: random.Random) -> Incident:
    shape = shapes.wrapped(chance)
    load = replace(shape.loads[0], hop_ms=chance.uniform(60, 140))
    shape = replace(shape, loads=(load,))
    return shape.incident(causes=("client-or-transport-bound",), abstain_ok=True)


def loose_large_tensors(chance: random.Random) -> Incident:
    """Megabytes to and fro: moving them takes longer than what is done with them."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    values = chance.randint(1_000_000, 1_600_000)
    shape = shape.changed(name, width=-1, base_ms=2.0, max_batch=1, per_item_ms=0.0, delay_us=None, instances=4)
    load = replace(shape.loads[0], rate=chance.uniform(8, 11), values=values)
    shape = replace(shape, loads=(load, *shape.loads[1:]))
    causes = ("input-output-cost", "client-or-transport-bound", "frontend-limited", "host-cpu-starved")
    return shape.incident(causes=causes, also=causes, abstain_ok=True)


def loose_clients_hang_up(chance: random.Random) -> Incident:
    """Some clients hang up before the answer comes; the server does what it always does."""
    shape = shapes.loose(chance)
    name = shape.name("one")
    base = chance.uniform(90, 140)
    shape = shape.changed(name, base_ms=base, jitter=0.5, instances=8, max_batch=1, per_item_ms=0.0, delay_us=None)
    load = replace(shape.loads[0], patience=base * 1.2 / 1e3)
    shape = replace(shape, loads=(load, *shape.loads[1:]))
    return shape.incident(causes=("client-or-transport-bound", "healthy"), abstain_ok=True)


def chain_errors_begin(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    name, at = shape.name("first"), _at(chance)
    event = Event(at=at, do="control", model=name, values={"error": chance.randint(3, 6)})
    return shape.incident(events=(event,), fault_at=at, causes=("request-failures",), targets=(name, shape.entry))


def by_hand_past_wrapper(chance: random.Random) -> Incident:
    """Clients call the members of an ensemble one after another, although it is there."""
    shape = shapes.chain(chance)
    order = tuple(step.model for step in shape.world.ensembles[0].steps)
    load = replace(shape.loads[0], by_hand=order)
    shape = replace(shape, loads=(load,))
    return shape.incident(causes=("external-orchestration",), abstain_ok=True)


# Two at once


def two_full_and_window(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    first, last = shape.name("first"), shape.name("last")
    windowed = {"max_batch": 16, "per_item_ms": 0.2, "delay_us": chance.randint(15, 40) * 1000, "instances": 3}
    shape = shape.busy(first, chance.uniform(0.8, 1.02), 1).changed(last, **windowed)
    repairs = {
        _LANES: shape.changed(first, instances=3).incident(),
        "batch-window-mistuned": shape.changed(last, delay_us=0).incident(),
    }
    return shape.incident(causes=tuple(repairs), also=(*repairs, _FULL), repairs=repairs)


def two_outage_and_full(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    first, last = shape.name("first"), shape.name("last")
    incident = _outage(shape.busy(first, chance.uniform(0.9, 1.0), 1), chance, last, targets=(last, shape.entry))
    return replace(incident, also=(*incident.also, _LANES, _FULL))


def two_slower_release_and_bursts(chance: random.Random) -> Incident:
    shape = shapes.chain(chance)
    name, base = shape.name("middle"), chance.uniform(15, 25)
    shape = shape.changed(name, base_ms=base, per_item_ms=0.0, max_batch=1, delay_us=None, instances=4)
    event = Event(at=0.4, do="release", model=name, values={"base_ms": base * chance.uniform(2.5, 3.5)})
    load = replace(shape.loads[0], burst=round(shape.rate * chance.uniform(0.3, 0.7)))
    bursty = replace(shape, loads=(load,))
    # A release that comes at the start of a trial is measured as what it is: version 2 from then on.
    early = replace(event, at=0.0)
    repairs = {
        "version-regression": bursty.incident(),
        "bursty-arrivals": shape.incident(events=(early,)),
    }
    also = (*repairs, _LANES, _FULL, "workload-shift")
    return bursty.incident(events=(event,), fault_at=0.4, causes=tuple(repairs), also=also, repairs=repairs)


def two_too_few_and_callee_window(chance: random.Random) -> Incident:
    """A caller with few lanes, which it holds mostly for a callee's batching window."""
    shape = shapes.wrapped(chance)
    wrapper, callee = shape.name("wrapper"), shape.name("callee")
    window = {"max_batch": 8, "per_item_ms": 0.2, "delay_us": chance.randint(15, 45) * 1000}
    shape = shape.changed(callee, **window)
    incident = _too_few(shape, chance, wrapper, 1)
    repairs = {
        "bls-serialization": incident.changed(wrapper, instances=4),
        "batch-window-mistuned": incident.changed(callee, delay_us=0),
    }
    repairs = {check: replace(one, causes=(), targets=()) for check, one in repairs.items()}
    return replace(incident, causes=tuple(repairs), targets=(wrapper, callee), also=(*repairs, _FULL), repairs=repairs)


def two_hang_and_errors(chance: random.Random) -> Incident:
    """An instance hangs while another model answers every fourth request with an error: both are true."""
    shape = shapes.loose(chance)
    name, other, at = shape.name("one"), shape.name("other"), _at(chance)
    shape = shape.busy(name, chance.uniform(1.0, 1.1) / 2, 2)
    events = (
        Event(at=at, do="control", model=name, values={"hang": [0]}),
        Event(at=at, do="control", model=other, values={"error": 4}),
    )
    causes, also = ("execution-hung", "request-failures"), (_LANES, _FULL, "scheduler-stall")
    return shape.incident(events=events, fault_at=at, causes=causes, targets=(name, other), also=(*causes, *also))
