"""Healthy worlds of every topology that kinds are drawn from: each model is at most about a fifth busy."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.benchmark.deployment import EngineSpec
from tests.benchmark.draws.base import names_of
from tests.benchmark.kinds.world import Ensemble, Incident, Load, Model, Step, World

_BUSY = 0.2
# A model that executes longer than this, in milliseconds, has at least two instances: requests hardly ever meet in it.
_LONG_MS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A healthy world and what clients ask of it.

    Attributes:
        world: the world.
        entry: what the clients ask.
        rate: requests a second to `entry`.
        parts: the models that matter, by what they are in the topology.
        loads: all the clients.
    """

    world: World
    entry: str
    rate: float
    parts: dict[str, str]
    loads: tuple[Load, ...]

    def name(self, part: str) -> str:
        """Return the model that is a part."""
        return self.parts[part]

    def any_of(self, chance: random.Random) -> str:
        """Return any of the parts."""
        return self.parts[chance.choice(sorted(self.parts))]

    def changed(self, name: str, **values: object) -> Shape:
        """Return the shape with other settings of one model."""
        return replace(self, world=self.world.changed(name, **values))

    def busy(self, name: str, busy: float, count: int, **values: object) -> Shape:
        """Return the shape with a model that so many instances are so busy with; its callers get lanes enough."""
        base = 1e3 * busy * count / self.rate - 0.6
        plain = {"base_ms": base, "per_item_ms": 0.0, "instances": count, "max_batch": 1, "delay_us": None}
        return self.changed(name, **{**plain, **values}).roomy()

    def roomy(self) -> Shape:
        """Return the shape with lanes enough in every model that calls others, even while they queue."""
        world = self.world
        for model in world.models:
            if model.calls:
                lanes = math.ceil(self.rate * world.path_ms(model.name) / 1e3 / _BUSY) + 1
                world = world.changed(model.name, instances=max(model.instances, min(lanes, 24)))
        return replace(self, world=world)

    def incident(self, **values: object) -> Incident:
        """Return an incident of this shape."""
        return Incident(world=self.world, loads=self.loads, **values)  # type: ignore[arg-type]


def stage(chance: random.Random, name: str, rate: float) -> Model:
    """Return a model with room at `rate`."""
    base = chance.choice((chance.uniform(2, 6), chance.uniform(6, 24)))
    most = chance.choice((1, 1, 8, 16))
    return Model(
        name=name,
        base_ms=base,
        per_item_ms=base * chance.uniform(0.02, 0.1) if most > 1 else 0.0,
        instances=max(2 if base > _LONG_MS else 1, min(8, math.ceil(rate * base / 1e3 / _BUSY))),
        max_batch=most,
        delay_us=chance.choice((0, 200, 500)) if most > 1 and chance.random() < 0.6 else None,
    )


def _steps(models: Sequence[str]) -> tuple[Step, ...]:
    tensors = ["IN", *(f"t{number}" for number in range(1, len(models))), "OUT"]
    return tuple(
        Step(model=model, takes=(tensors[number],), gives=tensors[number + 1]) for number, model in enumerate(models)
    )


def _rate(chance: random.Random) -> float:
    return chance.uniform(11, 22)


def chain(chance: random.Random, *, engine: EngineSpec | None = None) -> Shape:
    """An ensemble of two to five models in order, and perhaps an engine."""
    rate, count = _rate(chance), chance.randint(2, 5)
    *names, entry = names_of(chance, count + 1)
    order = list(names)
    if engine is not None:
        order.insert(chance.randint(1, count), engine.name)
    world = World(
        models=tuple(stage(chance, name, rate) for name in names),
        ensembles=(Ensemble(name=entry, steps=_steps(order)),),
        engine=engine,
    )
    parts = {"first": names[0], "last": names[-1], "middle": names[count // 2]}
    return Shape(world=world, entry=entry, rate=rate, parts=parts, loads=(Load(model=entry, rate=rate),))


def fork(chance: random.Random) -> Shape:
    """An ensemble of two branches of unequal length that are joined."""
    rate = _rate(chance)
    first, short, long, longer, join, entry = names_of(chance, 6)
    models = [stage(chance, name, rate) for name in (first, short, long, longer, join)]
    models[1] = replace(models[1], base_ms=chance.uniform(2, 5))
    models[2] = replace(models[2], base_ms=chance.uniform(25, 45), instances=4)
    models[4] = replace(models[4], joins=True)
    steps = (
        Step(model=first, takes=("IN",), gives="a"),
        Step(model=short, takes=("a",), gives="s"),
        Step(model=long, takes=("a",), gives="l"),
        Step(model=longer, takes=("l",), gives="m"),
        Step(model=join, takes=("m", "s"), gives="OUT"),
    )
    world = World(models=tuple(models), ensembles=(Ensemble(name=entry, steps=steps),))
    parts = {"first": first, "short": short, "long": long, "longer": longer, "join": join}
    return Shape(world=world, entry=entry, rate=rate, parts=parts, loads=(Load(model=entry, rate=rate),))


def loose(chance: random.Random) -> Shape:
    """Two to four models that clients ask themselves; the first is the one that matters."""
    rate = _rate(chance)
    names = names_of(chance, chance.randint(2, 4))
    others = tuple(Load(model=name, rate=chance.uniform(4, 10)) for name in names[1:])
    world = World(models=tuple(stage(chance, name, rate) for name in names))
    parts = {"one": names[0], "other": names[1]}
    loads = (Load(model=names[0], rate=rate), *others)
    return Shape(world=world, entry=names[0], rate=rate, parts=parts, loads=loads)


def wrapped(chance: random.Random, *, at_once: bool = False) -> Shape:
    """A model that calls two to three others, alone or as a step of an ensemble."""
    rate = _rate(chance)
    count = chance.randint(2, 3)
    *callees, wrapper, before, entry = names_of(chance, count + 3)
    models = [replace(stage(chance, name, rate), delay_us=None) for name in callees]
    groups = (tuple(callees),) if at_once else tuple((name,) for name in callees)
    own = chance.uniform(0.3, 3)
    models.append(Model(name=wrapper, base_ms=own, calls=groups, traced=chance.random() < 0.3))
    parts = {"wrapper": wrapper, "callee": chance.choice(callees)}
    if chance.random() < 0.4:
        models.append(replace(stage(chance, before, rate), max_batch=1, per_item_ms=0.0, delay_us=None))
        world = World(models=tuple(models), ensembles=(Ensemble(name=entry, steps=_steps([before, wrapper])),))
    else:
        world, entry = World(models=tuple(models)), wrapper
    shape = Shape(world=world, entry=entry, rate=rate, parts=parts, loads=(Load(model=entry, rate=rate),))
    return shape.roomy()


def nested(chance: random.Random) -> Shape:
    """A model that calls a model that calls others."""
    rate = _rate(chance)
    outer, inner, one, two, three = names_of(chance, 5)
    models = [replace(stage(chance, name, rate), delay_us=None) for name in (one, two, three)]
    models.append(Model(name=inner, base_ms=chance.uniform(0.3, 2), calls=((one,), (two,))))
    models.append(Model(name=outer, base_ms=chance.uniform(0.3, 2), calls=((three,), (inner,))))
    parts = {"outer": outer, "inner": inner, "leaf": chance.choice((one, two))}
    world = World(models=tuple(models))
    shape = Shape(world=world, entry=outer, rate=rate, parts=parts, loads=(Load(model=outer, rate=rate),))
    return shape.roomy()


def shared(chance: random.Random) -> Shape:
    """Two ensembles that share a member; `rate` is that of the member."""
    first, second = chance.uniform(8, 14), chance.uniform(4, 8)
    rate = first + second
    common, a, b, c, entry, other = names_of(chance, 6)
    models = tuple(stage(chance, name, rate) for name in (common, a, b, c))
    ensembles = (
        Ensemble(name=entry, steps=_steps([a, common, b])),
        Ensemble(name=other, steps=_steps([common, c])),
    )
    parts = {"shared": common, "own": b, "other": other}
    loads = (Load(model=entry, rate=first), Load(model=other, rate=second))
    return Shape(world=World(models=models, ensembles=ensembles), entry=entry, rate=rate, parts=parts, loads=loads)


def many(chance: random.Random) -> Shape:
    """Fifteen to forty models, most of which hardly anybody asks."""
    own = chain(chance)
    idle = [f"unit-{number:02}" for number in range(chance.randint(14, 36))]
    models = tuple(Model(name=name, base_ms=chance.uniform(2, 9)) for name in idle)
    loads = tuple(Load(model=name, rate=chance.uniform(0.3, 1.5)) for name in chance.sample(idle, 5))
    world = replace(own.world, models=(*own.world.models, *models))
    return replace(own, world=world, loads=(*own.loads, *loads), parts={**own.parts, "idle": idle[-1]})


def versions(chance: random.Random) -> Shape:
    """A model of which two versions are served side by side, and another one."""
    own = loose(chance)
    name = own.name("one")
    world = own.world.changed(name, versions=(1, 2))
    loads = (
        Load(model=name, rate=own.rate / 2, version=1),
        Load(model=name, rate=own.rate / 2, version=2),
        *own.loads[1:],
    )
    return replace(own, world=world, loads=loads)


def dialogue(chance: random.Random, *, slots_held: float) -> Shape:
    """A model of sequences beside an ensemble; so many of its slots are held."""
    own = chain(chance)
    name = names_of(random.Random(chance.random()), 22)[0] + "-turns"
    turns, pause = chance.randint(4, 8), chance.uniform(0.06, 0.15)
    model = Model(name=name, base_ms=chance.uniform(3, 8), max_batch=chance.choice((2, 3, 4)), sequence_idle_ms=5000)
    held = turns * (model.seconds() + 0.003) + (turns - 1) * pause
    sequences = slots_held * model.max_batch / held
    load = Load(model=name, rate=sequences * turns, turns=turns, pause=pause)
    world = replace(own.world, models=(*own.world.models, model))
    return replace(own, world=world, loads=(load, *own.loads), entry=name, parts={"turns": name})


def cached(chance: random.Random, *, hits: bool) -> Shape:
    """A chain whose slow model mostly answers from the cache, or never."""
    own = chain(chance)
    name = own.name("first")
    own = own.changed(name, cache=True, base_ms=chance.uniform(8, 20), delay_us=None, instances=3)
    loads = tuple(replace(load, distinct=12 if hits else 100000) for load in own.loads)
    return replace(own, loads=loads)


def decoupled(chance: random.Random) -> Shape:
    """A decoupled model that streams its answer, beside another model."""
    own = loose(chance)
    name = own.name("one")
    world = own.world.changed(name, parts=chance.randint(2, 6), max_batch=0, delay_us=None, per_item_ms=0.0)
    return replace(own, world=world, loads=(replace(own.loads[0], stream=True), *own.loads[1:]))


SHAPES = {
    "chain": chain,
    "fork": fork,
    "loose": loose,
    "wrapped": wrapped,
    "nested": nested,
    "shared": shared,
    "many": many,
}
