"""Incidents of the real engine, and look-alikes. Each is a function of a random generator.

A change carries the names of the checks whose statement and advice it is; one that no check states carries none.
The first change mends the fault, and what is recorded after it is the healthy twin. Not every kind was recorded:
[the sets](../../../fixtures/engine/README.md) say which.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.benchmark.engine.world import (
    CLASSIFIER,
    ENCODER,
    ENGINE,
    ENSEMBLE,
    SECOND,
    TOKENIZER,
    Beside,
    Deployment,
    Engine,
    Incident,
    Load,
    Stage,
)

_SLOTS, _KV, _PAUSES = "engine-batch-limit", "kv-cache-exhausted", "kv-cache-thrashing"
_BUDGET, _PROMPTS, _ONE = "engine-token-budget", "prefill-interference", "inflight-batching-off"
_OTHER, _BESIDE, _CARD = "gpu-contended-by-other-process", "gpu-contended-by-colocated-model", "gpu-saturated"
_FULL, _LANES, _SHIFT, _BURSTS = (
    "capacity-exceeded",
    "single-instance-serialization",
    "workload-shift",
    "bursty-arrivals",
)
_COLD, _RELOAD, _AWAY, _FAILS = "cold-start", "model-reload-stall", "model-unavailable", "request-failures"
_MEMORY = "gpu-memory-pressure"
_NONE = Beside()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is changed to see whether it helps; `lanes_of` is the model that gets more instances."""

    what: str
    incident: Incident
    names: tuple[str, ...] = ()
    lanes_of: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An incident, the changes that are tried, the models it may be about, and what may be named besides.

    Attributes:
        abstain_ok: what can be seen does not suffice to know it.
    """

    incident: Incident
    changes: tuple[Change, ...] = ()
    targets: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    abstain_ok: bool = False


def _engine(**values: object) -> Deployment:
    return Deployment(engine=Engine(streams=True, **values))  # type: ignore[arg-type]


def _set(incident: Incident, part: str, **values: object) -> Incident:
    return replace(incident, deployment=incident.deployment.changed(part, **values))


def _but(incident: Incident, what: str, *names: str, lanes_of: str = "", **values: object) -> Change:
    """Return the change to an incident with other fields."""
    return Change(what=what, names=names, lanes_of=lanes_of, incident=replace(incident, **values))  # type: ignore[arg-type]


# The engine's own limits


def slots_few(chance: random.Random) -> Fault:
    """The engine has slots for a fraction of those who ask, and its cache is nearly empty."""
    load = Load(clients=chance.randint(16, 20), think=0.5, wanted=chance.randint(40, 56))
    incident = Incident(deployment=_engine(slots=chance.randint(4, 5)), loads=(load,))
    more = Change(what="32 slots", names=(_SLOTS,), incident=_set(incident, "engine", slots=32))
    return Fault(incident=incident, changes=(more,), targets=(ENGINE, ENSEMBLE), also=(_FULL,))


def slots_two_of_an_open_loop(chance: random.Random) -> Fault:
    """As many arrive as the slots cannot take, and more wait inside from second to second."""
    load = Load(rate=chance.uniform(9, 11), wanted=40)
    incident = Incident(deployment=_engine(slots=3), loads=(load,))
    more = Change(what="24 slots", names=(_SLOTS,), incident=_set(incident, "engine", slots=24))
    return Fault(incident=incident, changes=(more,), targets=(ENGINE, ENSEMBLE), also=(_FULL, _ONE))


def one_at_a_time(chance: random.Random) -> Fault:
    """The engine has one slot."""
    load = Load(clients=chance.randint(5, 7), think=0.3, wanted=32)
    incident = Incident(deployment=_engine(slots=1), loads=(load,))
    more = Change(what="32 slots", names=(_SLOTS, _ONE), incident=_set(incident, "engine", slots=32))
    return Fault(incident=incident, changes=(more,), targets=(ENGINE, ENSEMBLE), also=(_FULL,))


def cache_small(chance: random.Random) -> Fault:
    """The KV cache holds four requests or five, and there are slots for 32."""
    load = Load(clients=chance.randint(16, 20), think=0.4, words=chance.randint(220, 260), wanted=40)
    incident = Incident(deployment=_engine(tokens=1472, kept=0.2), loads=(load,))
    more = Change(what="KV cache for 48k tokens", names=(_KV,), incident=_set(incident, "engine", tokens=49152))
    return Fault(incident=incident, changes=(more,), targets=(ENGINE, ENSEMBLE), also=(_FULL, _PAUSES))


def cache_small_for_long_prompts(chance: random.Random) -> Fault:
    """Prompts of thousands of tokens fill the KV cache; three requests fit."""
    load = Load(rate=chance.uniform(10, 11), words=chance.randint(1900, 2100), wanted=32)
    incident = Incident(deployment=_engine(tokens=7680, budget=8192), loads=(load,))
    more = Change(what="KV cache for 80k tokens", names=(_KV,), incident=_set(incident, "engine", tokens=81920))
    return Fault(incident=incident, changes=(more,), targets=(ENGINE, ENSEMBLE), also=(_FULL, _PAUSES))


def cache_lost_while_writing(chance: random.Random) -> Fault:
    """Short prompts are all taken in, and long answers then outgrow the KV cache: requests lose it and begin anew."""
    load = Load(clients=chance.randint(20, 24), think=0.3, words=30, wanted=chance.randint(150, 170))
    incident = Incident(deployment=_engine(tokens=1408, kept=0.0), loads=(load,))
    more = Change(what="KV cache for 24k tokens", names=(_PAUSES, _KV), incident=_set(incident, "engine", tokens=24576))
    return Fault(incident=incident, changes=(more,), targets=(ENGINE, ENSEMBLE), also=(_FULL, _SLOTS))


def cache_lost_now_and_then(chance: random.Random) -> Fault:
    """As before in an open loop near the cache's limit."""
    load = Load(rate=chance.uniform(8.5, 9.5), words=30, wanted=180)
    incident = Incident(deployment=_engine(tokens=1920, kept=0.0, slots=48), loads=(load,))
    more = Change(what="KV cache for 24k tokens", names=(_PAUSES, _KV), incident=_set(incident, "engine", tokens=24576))
    return Fault(incident=incident, changes=(more,), targets=(ENGINE, ENSEMBLE), also=(_FULL, _SLOTS))


def budget_small(chance: random.Random) -> Fault:
    """Each iteration reads so few tokens that prompts of thousands take dozens of iterations, one after another."""
    load = Load(rate=chance.uniform(5.5, 6.5), words=chance.randint(1900, 2100), wanted=24)
    incident = Incident(deployment=_engine(budget=64), loads=(load,))
    more = Change(what="4096 tokens an iteration", names=(_BUDGET,), incident=_set(incident, "engine", budget=4096))
    return Fault(incident=incident, changes=(more,), targets=(ENGINE, ENSEMBLE), also=(_FULL, _PROMPTS))


def budget_small_for_many(chance: random.Random) -> Fault:
    """Running requests take nearly all of an iteration's tokens, and prompts wait."""
    load = Load(clients=chance.randint(26, 30), think=0.1, words=300, wanted=60)
    incident = Incident(deployment=_engine(budget=20, slots=64), loads=(load,))
    more = Change(what="2048 tokens an iteration", names=(_BUDGET,), incident=_set(incident, "engine", budget=2048))
    return Fault(incident=incident, changes=(more,), targets=(ENGINE, ENSEMBLE), also=(_FULL, _SLOTS, _PROMPTS))


def long_prompts_stall_others(chance: random.Random) -> Fault:
    """A job sends prompts of 30k tokens, each read in one iteration, for which all that run wait."""
    short = Load(rate=chance.uniform(5, 6), wanted=48)
    job = Load(model=ENGINE, rate=chance.uniform(0.9, 1.0), words=23000, wanted=4)
    incident = Incident(deployment=_engine(budget=32768, tokens=131072), loads=(short, job))
    calm = _but(incident, "without the job", _PROMPTS, loads=(short,))
    pieces = Change(what="1024 tokens an iteration", names=(_PROMPTS,), incident=_set(incident, "engine", budget=1024))
    return Fault(incident=incident, changes=(calm, pieces), targets=(ENGINE, ENSEMBLE), also=(_FULL, _CARD))


def long_prompts_in_pieces_for_others(chance: random.Random) -> Fault:
    """The job's prompts are read in pieces, which still leaves less of each iteration's time to others."""
    fault = long_prompts_stall_others(chance)
    return replace(fault, incident=fault.changes[1].incident, changes=fault.changes[:1])


def long_prompts_of_all(chance: random.Random) -> Fault:
    """Every prompt has 8k tokens, and each is read at once while others write."""
    load = Load(rate=chance.uniform(4.6, 5.0), words=8000, wanted=48)
    incident = Incident(deployment=_engine(budget=16384, tokens=131072), loads=(load,))
    shorter = _but(incident, "prompts of 500 tokens", _PROMPTS, loads=(replace(load, words=500),))
    return Fault(incident=incident, changes=(shorter,), targets=(ENGINE, ENSEMBLE), also=(_FULL, _CARD))


def bursts_over_few_slots(chance: random.Random) -> Fault:
    """Requests come 28 at once, and there are 6 slots."""
    load = Load(rate=chance.uniform(8.5, 9.5), burst=28, wanted=36)
    incident = Incident(deployment=_engine(slots=6), loads=(load,))
    evenly = _but(incident, "one after another", _BURSTS, loads=(replace(load, burst=1),))
    slots = Change(what="32 slots", names=(_SLOTS,), incident=_set(incident, "engine", slots=32))
    return Fault(incident=incident, changes=(evenly, slots), targets=(ENGINE, ENSEMBLE), also=(_FULL,))


def answers_grow(chance: random.Random) -> Fault:
    """From the middle on clients want ten times as many tokens."""
    load = Load(rate=chance.uniform(6, 7), wanted=24, later=chance.randint(230, 260))
    incident = Incident(deployment=_engine(), loads=(load,))
    as_before = _but(incident, "answers as before", _SHIFT, loads=(replace(load, later=0),))
    return Fault(incident=incident, changes=(as_before,), also=(_FULL, "engine-bound"))


# What else is on the card


def stranger_takes_turns(chance: random.Random) -> Fault:
    """Four other processes compute on the card for a second, and pause for a second."""
    load = Load(rate=chance.uniform(14, 16), wanted=40)
    beside = Beside(turns=(chance.uniform(0.9, 1.1), chance.uniform(0.9, 1.1)), tenants=4)
    incident = Incident(deployment=_engine(), loads=(load,), beside=beside)
    alone = _but(incident, "without the processes", _OTHER, beside=_NONE)
    return Fault(incident=incident, changes=(alone,), also=(_CARD, _FULL))


def one_stranger_takes_turns(chance: random.Random) -> Fault:
    """As before, with one process, which an engine that waits for its own launches hardly feels."""
    fault = stranger_takes_turns(chance)
    return replace(fault, incident=replace(fault.incident, beside=replace(fault.incident.beside, tenants=1)))


def stranger_stays(chance: random.Random) -> Fault:
    """Four other processes compute on the card without a pause."""
    load = Load(rate=chance.uniform(14, 16), wanted=40)
    incident = Incident(
        deployment=_engine(), loads=(load,), beside=Beside(turns=(chance.uniform(20, 30), 0.001), tenants=4)
    )
    alone = _but(incident, "without the processes", _OTHER, beside=_NONE)
    return Fault(incident=incident, changes=(alone,), also=(_CARD, _FULL))


def stranger_delays_the_encoder(chance: random.Random) -> Fault:
    """Four other processes compute on the card, and an encoder alone is asked beside few who chat."""
    loads = (Load(rate=2.0, wanted=16), Load(model=ENCODER, rate=chance.uniform(18, 22)))
    deployment = replace(_engine(), passes=4)
    beside = Beside(turns=(chance.uniform(20, 30), 0.001), tenants=4)
    incident = Incident(deployment=deployment, loads=loads, beside=beside, felt_by=ENCODER)
    alone = _but(incident, "without the processes", _OTHER, beside=_NONE)
    return Fault(incident=incident, changes=(alone,), also=(_CARD, _FULL, _LANES))


def _two(chance: random.Random, *, mps: bool) -> Incident:
    deployment = replace(_engine(), second=Engine())
    chat = Load(rate=chance.uniform(6, 7), wanted=40)
    job = Load(model=SECOND, clients=8, words=chance.randint(3800, 4200), wanted=16)
    return Incident(deployment=deployment, loads=(chat, job), beside=Beside(mps=mps))


def two_engines(chance: random.Random) -> Fault:
    """A second engine on the card reads long prompts without a pause."""
    incident = _two(chance, mps=False)
    calm = _but(incident, "without its clients", _BESIDE, loads=incident.loads[:1])
    targets = (ENGINE, SECOND, ENSEMBLE, ENCODER, CLASSIFIER)
    return Fault(incident=incident, changes=(calm,), targets=targets, also=(_CARD, _FULL, _PROMPTS))


def two_engines_with_mps(chance: random.Random) -> Fault:
    """As before, and the processes share the card through the multi-process service."""
    incident = _two(chance, mps=True)
    calm = _but(incident, "without its clients", _BESIDE, loads=incident.loads[:1])
    targets = (ENGINE, SECOND, ENSEMBLE, ENCODER, CLASSIFIER)
    return Fault(incident=incident, changes=(calm,), targets=targets, also=(_CARD, _FULL, _PROMPTS))


def engine_starves_the_encoder(chance: random.Random) -> Fault:
    """The engine reads long prompts without a pause, and the encoder's clients wait for the card."""
    encoder = Load(model=ENCODER, rate=chance.uniform(18, 22))
    job = Load(model=ENGINE, clients=6, words=12000, wanted=4)
    deployment = replace(_engine(budget=16384, tokens=131072), passes=4)
    incident = Incident(deployment=deployment, loads=(encoder, job), felt_by=ENCODER)
    calm = _but(incident, "without the engine's clients", _BESIDE, loads=(encoder,))
    return Fault(incident=incident, changes=(calm,), also=(_CARD, _FULL, _LANES), targets=(ENCODER, ENGINE))


def encoder_starves_the_engine(chance: random.Random) -> Fault:
    """A job sends the encoder batch after batch, and those who chat wait for the card."""
    chat = Load(rate=chance.uniform(6, 7), wanted=40)
    job = Load(model=ENCODER, clients=3, rows=16)
    deployment = replace(_engine(), passes=6, encoder_layers=24, encoder_width=2048)
    deployment = replace(deployment, encoder=Stage(instances=2))
    incident = Incident(deployment=deployment, loads=(chat, job))
    calm = _but(incident, "without the job", _BESIDE, loads=(chat,))
    targets = (ENGINE, ENCODER, ENSEMBLE, CLASSIFIER)
    also = (_CARD, _FULL, _LANES, "over-instanced", "batching-without-gain")
    return Fault(incident=incident, changes=(calm,), targets=targets, also=also)


def card_without_memory(chance: random.Random) -> Fault:
    """Another process takes the card's memory, and what an iteration needs besides the KV cache is not there."""
    load = Load(rate=chance.uniform(5, 6), words=3000, wanted=24)
    beside = Beside(memory_left=chance.randint(40, 80))
    incident = Incident(deployment=_engine(budget=8192), loads=(load,), beside=beside)
    free = _but(incident, "with free memory", _MEMORY, beside=Beside(memory_left=30000))
    also = (_FAILS, _OTHER, "execution-hung", _SHIFT)
    return Fault(incident=incident, changes=(free,), also=also)


# Stages around the engine


def tokenizer_alone(chance: random.Random) -> Fault:
    """Texts of 300 kB, of which the engine gets the end, are read by one instance of the tokenizer."""
    load = Load(rate=chance.uniform(13, 14), words=45000, wanted=16)
    one = Stage(instances=1, batch=1, delay_us=None, gpu=False)
    incident = Incident(deployment=replace(_engine(), kept_tokens=256, tokenizer=one), loads=(load,))
    more = Change(
        what="5 instances", names=(_LANES,), incident=_set(incident, "tokenizer", instances=5), lanes_of=TOKENIZER
    )
    return Fault(incident=incident, changes=(more,), targets=(TOKENIZER, ENSEMBLE), also=(_FULL, "input-output-cost"))


def encoder_without_batches(chance: random.Random) -> Fault:
    """The encoder takes one request at a time, though a batch would cost it no more."""
    load = Load(rate=chance.uniform(10, 11), wanted=16)
    deployment = replace(_engine(), passes=24, encoder=Stage(batch=1, delay_us=None))
    incident = Incident(deployment=deployment, loads=(load,))
    batches = Change(
        what="batches", names=("batch-size-collapse",), incident=_set(incident, "encoder", batch=16, delay_us=0)
    )
    return Fault(incident=incident, changes=(batches,), targets=(ENCODER, ENSEMBLE), also=(_FULL, _LANES))


def window_long(chance: random.Random) -> Fault:
    """The classifier waits for a batch that never fills."""
    load = Load(rate=chance.uniform(5, 6), wanted=16)
    stage = Stage(delay_us=1000 * chance.randint(600, 700))
    incident = Incident(deployment=replace(_engine(), classifier=stage), loads=(load,))
    none = Change(what="no window", names=("batch-window-mistuned",), incident=_set(incident, "classifier", delay_us=0))
    return Fault(incident=incident, changes=(none,), targets=(CLASSIFIER, ENSEMBLE))


def encoder_refuses(chance: random.Random) -> Fault:
    """The encoder's queue takes few, and requests come many at once."""
    load = Load(rate=chance.uniform(9, 10), burst=16, wanted=16)
    stage = Stage(batch=2, queue_limit=3)
    incident = Incident(deployment=replace(_engine(), encoder=stage, passes=4), loads=(load,))
    free = Change(
        what="no limit", names=("queue-rejections",), incident=_set(incident, "encoder", queue_limit=0, batch=16)
    )
    also = (_FULL, _BURSTS, _LANES, _FAILS)
    return Fault(incident=incident, changes=(free,), targets=(ENCODER, ENSEMBLE), also=also)


def card_full_of_the_encoder(chance: random.Random) -> Fault:
    """The encoder alone computes as much as the card can, by two instances."""
    load = Load(model=ENCODER, rate=chance.uniform(38, 42), rows=2)
    deployment = replace(_engine(), passes=6, encoder_layers=24, encoder_width=2048, head=512)
    deployment = replace(deployment, encoder=Stage(instances=2, batch=2, delay_us=None))
    incident = Incident(deployment=deployment, loads=(load, Load(rate=0.7, wanted=8)), felt_by=ENCODER)
    half = _but(
        incident, "a third of the requests", _CARD, _FULL, loads=(replace(load, rate=load.rate / 3), incident.loads[1])
    )
    lanes = Change(
        what="4 instances", names=(_LANES,), incident=_set(incident, "encoder", instances=4), lanes_of=ENCODER
    )
    return Fault(incident=incident, changes=(half, lanes), targets=(ENCODER, ENSEMBLE), also=("over-instanced",))


def processors_taken(chance: random.Random) -> Fault:
    """Other processes take the two processors that the server has."""
    load = Load(rate=chance.uniform(4.5, 5.5), wanted=32)
    incident = Incident(deployment=_engine(), loads=(load,), beside=Beside(cores=2, hogs=chance.randint(8, 10)))
    free = _but(incident, "without the processes", "host-cpu-starved", beside=Beside(cores=2))
    return Fault(incident=incident, changes=(free,), also=(_FULL,))


# What happens meanwhile


def graphs_captured_for_clients(chance: random.Random) -> Fault:
    """The engine's CUDA graphs are captured when the first requests need them."""
    load = Load(rate=chance.uniform(5, 6), wanted=24)
    incident = Incident(deployment=_engine(graphs=True), loads=(load,), early=True, seconds=13.0)
    warm = Change(what="captured while it loads", names=(_COLD,), incident=_set(incident, "engine", warm=True))
    # The seconds after a start of the others are no fault of the engine's.
    later = replace(warm, incident=replace(warm.incident, early=False, seconds=17.0))
    return Fault(incident=incident, changes=(later,), also=(_SHIFT, _SLOTS, _FULL, _RELOAD))


def engine_loaded_anew_cold(chance: random.Random) -> Fault:
    """The engine is loaded anew, and captures its graphs for the first who ask it."""
    load = Load(rate=chance.uniform(5, 6), wanted=24)
    events = ((5.0, "reload", ENGINE),)
    incident = Incident(deployment=_engine(graphs=True), loads=(load,), beside=Beside(events=events), seconds=24.0)
    never = _but(incident, "not loaded anew", _RELOAD, _COLD, beside=_NONE)
    also = (_SHIFT, _AWAY, _FAILS, _SLOTS, _FULL, _BESIDE)
    return Fault(incident=incident, changes=(never,), also=also)


def engine_away_while_it_loads(chance: random.Random) -> Fault:
    """The engine is unloaded and then loaded, and nobody is answered meanwhile."""
    load = Load(rate=chance.uniform(5, 6), wanted=32)
    events = ((7.0, "unload", ENGINE), (chance.uniform(7.5, 8.0), "load", ENGINE))
    incident = Incident(deployment=_engine(), loads=(load,), beside=Beside(events=events), seconds=24.0)
    never = _but(incident, "not unloaded", _AWAY, _RELOAD, beside=_NONE)
    return Fault(incident=incident, changes=(never,), also=(_SHIFT, _FAILS, _COLD, _FULL), targets=(ENGINE, ENSEMBLE))


# Look-alikes, which are healthy


def long_answers(chance: random.Random) -> Fault:
    """Answers of seconds, and nothing waits."""
    return Fault(incident=Incident(deployment=_engine(), loads=(Load(rate=2.5, wanted=chance.randint(240, 280)),)))


def many_at_once(chance: random.Random) -> Fault:
    """The engine runs dozens at once, with slots and cache for more."""
    return Fault(incident=Incident(deployment=_engine(slots=64), loads=(Load(rate=chance.uniform(28, 32), wanted=40),)))


def long_prompts_in_pieces(chance: random.Random) -> Fault:
    """Prompts of thousands of tokens, some a second, read in pieces."""
    load = Load(rate=chance.uniform(2.5, 3), words=3500, wanted=32)
    return Fault(incident=Incident(deployment=_engine(budget=1024, tokens=131072), loads=(load,)))


def cache_well_filled(chance: random.Random) -> Fault:
    """Most of the KV cache is in use, and everybody gets blocks."""
    load = Load(clients=6, think=0.1, words=1000, wanted=chance.randint(60, 70))
    return Fault(incident=Incident(deployment=_engine(tokens=8192, kept=0.0), loads=(load,)))


def slots_well_filled(chance: random.Random) -> Fault:
    """As many slots as clients, nearly all in use."""
    load = Load(clients=8, think=0.05, wanted=chance.randint(60, 70))
    return Fault(incident=Incident(deployment=_engine(slots=9), loads=(load,)))


def stranger_seldom(chance: random.Random) -> Fault:
    """Another process computes on the card for a twentieth of the time."""
    incident = Incident(
        deployment=_engine(), loads=(Load(rate=6.0),), beside=Beside(turns=(0.02, chance.uniform(0.4, 0.5)))
    )
    return Fault(incident=incident)


def graphs_warm(chance: random.Random) -> Fault:
    """CUDA graphs that were captured before anybody asked."""
    deployment = _engine(graphs=True, warm=True, slots=16)
    return Fault(incident=Incident(deployment=deployment, loads=(Load(rate=chance.uniform(5, 6)),)))


def two_engines_calm(chance: random.Random) -> Fault:
    """Two engines on the card, each asked now and then, through the multi-process service."""
    deployment = replace(_engine(), second=Engine())
    loads = (Load(rate=4.0), Load(model=SECOND, rate=chance.uniform(2, 3), words=100, wanted=32))
    return Fault(incident=Incident(deployment=deployment, loads=loads, beside=Beside(mps=True)))


def plain(chance: random.Random) -> Fault:
    """The deployment as it is meant to be, without streams."""
    return Fault(incident=Incident(loads=(Load(rate=8.0),), seconds=14.0))


def forty_a_second(chance: random.Random) -> Fault:
    """Five times as many."""
    return Fault(incident=Incident(deployment=_engine(), loads=(Load(rate=40.0),), seconds=12.0))


def long_prompts_now_and_then(chance: random.Random) -> Fault:
    """Among those who chat some send 8k tokens."""
    loads = (Load(rate=6.0), Load(rate=0.7, words=8000, wanted=8))
    return Fault(incident=Incident(deployment=_engine(budget=16384), loads=loads, seconds=14.0))


Kind = Callable[[random.Random], Fault]
FAULTS: tuple[Kind, ...] = (
    *(slots_few, cache_small, long_prompts_stall_others, budget_small, cache_lost_while_writing, stranger_takes_turns),
    *(two_engines, card_without_memory, graphs_captured_for_clients, tokenizer_alone, engine_starves_the_encoder),
    *(engine_away_while_it_loads, encoder_starves_the_engine, stranger_stays, encoder_without_batches),
    *(engine_loaded_anew_cold, bursts_over_few_slots, two_engines_with_mps, budget_small_for_many, window_long),
    *(processors_taken, cache_small_for_long_prompts, answers_grow, long_prompts_of_all, one_at_a_time),
    *(card_full_of_the_encoder, stranger_delays_the_encoder, encoder_refuses, cache_lost_now_and_then),
    *(slots_two_of_an_open_loop, one_stranger_takes_turns, long_prompts_in_pieces_for_others),
)
LOOKALIKES: tuple[Kind, ...] = (
    *(many_at_once, long_answers, cache_well_filled, slots_well_filled, long_prompts_in_pieces, stranger_seldom),
    *(graphs_warm, two_engines_calm, plain, forty_a_second, long_prompts_now_and_then),
)
