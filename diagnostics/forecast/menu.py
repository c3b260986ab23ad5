"""Each stage's ways to be set with what they cost and bring, by closed forms: where a search begins."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf

from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.options import Minimize, Option
from diagnostics.forecast.performance import Performance, StagePerformance
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.simulation.scenario import Model

# Below this part of a stage's time a dearer way of setting it brings nothing that a forecast could tell.
_SAME = 0.01
# Shares of a GPU that differ by less are the same: none is measured better than to a hundredth.
_SHARE_DIGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionCost:
    """What a combination costs: what is to be least, then what rests on a guess, then how much is touched."""

    least: float = 0.0
    guesses: int = 0
    models: int = 0
    settings: int = 0

    def __add__(self, other: OptionCost) -> OptionCost:
        return OptionCost(
            least=self.least + other.least,
            guesses=self.guesses + other.guesses,
            models=self.models + other.models,
            settings=self.settings + other.settings,
        )

    @property
    def key(self) -> tuple[float, int, int, int]:
        """What costs are compared by."""
        return round(self.least, _SHARE_DIGITS), self.guesses, self.models, self.settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One way to set a stage, with the closed forms' mean seconds of a visit; infinite where it cannot keep up."""

    option: Option
    cost: OptionCost
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One choice per stage."""

    choices: Mapping[str, Choice]

    @property
    def what_if(self) -> WhatIf:
        """The changes of all stages."""
        return WhatIf(changes=tuple(c.option.change for c in self.choices.values() if c.option.change is not None))

    @property
    def instances(self) -> Mapping[str, int]:
        """Instances by stage."""
        return {name: choice.option.instances for name, choice in self.choices.items()}

    @property
    def touched(self) -> frozenset[tuple[str, str]]:
        """The settings that differ from now: model and path."""
        return frozenset((change.model, one.path) for change in self.what_if.changes for one in change.settings)


def stages(fitted: Fitted) -> Sequence[Model]:
    """Return the models that the entry's requests visit, in the order of its steps."""
    entry = next(entry for entry in fitted.scenario.entries if entry.name == fitted.entry)
    models = {model.name: model for model in fitted.scenario.models}
    return [models[name] for name in dict.fromkeys(step.model for step in entry.steps)]


def menu(
    fitted: Fitted, model: Model, ways: Sequence[Option], minimize: Minimize, *, whole: bool
) -> tuple[Sequence[Choice], int]:
    """Return the ways worth weighing, by cost, and how many were looked at.

    Each is faster than all that cost less; where none keeps up, the dearest is returned. Instances are added for as
    long as they bring anything; the first way, the present one, is looked at in any case. Where `whole`, all ways are
    returned.
    """
    found: list[Choice] = []
    fastest = inf
    for _, group in groupby(sorted(ways, key=lambda way: way.instances), key=lambda way: way.instances):
        found += (made := [_choice(fitted, model, option, minimize) for option in group])
        now = min(choice.seconds for choice in made)
        if not whole and now < inf and now >= fastest * (1 - _SAME):
            break
        fastest = min(fastest, now)
    if all(choice.option is not ways[0] for choice in found):
        found.append(_choice(fitted, model, ways[0], minimize))
    ordered = sorted(found, key=lambda choice: (choice.cost.key, choice.seconds))
    return ordered if whole else _worth_weighing(ordered), len(found)


def combinations(menus: Mapping[str, Sequence[Choice]]) -> Iterator[Combination]:
    """Yield a choice per stage in all combinations, by cost.

    Best first over index vectors: each step to a stage's next choice costs more, so the cheapest unseen neighbour of
    what was yielded is next (Lawler 1972).
    """
    start = (0,) * len(menus)
    heap, seen = [(_total(menus, start).key, start)], {start}
    while heap:
        _, at = heapq.heappop(heap)
        yield at_places(menus, at)
        for place, choices in enumerate(menus.values()):
            following = (*at[:place], at[place] + 1, *at[place + 1 :])
            if following[place] < len(choices) and following not in seen:
                seen.add(following)
                heapq.heappush(heap, (_total(menus, following).key, following))


def at_places(menus: Mapping[str, Sequence[Choice]], at: Sequence[int]) -> Combination:
    """Return the combination of the choices at these places of the menus."""
    return Combination(choices={name: menus[name][place] for name, place in zip(menus, at, strict=True)})


def _choice(fitted: Fitted, model: Model, option: Option, minimize: Minimize) -> Choice:
    changes = (option.change,) if option.change is not None else ()
    found = estimate(fitted, WhatIf(changes=changes))
    stage = next(one for one in found.stages if one.model == model.name)
    least = option.instances if minimize is Minimize.INSTANCES else work_share(fitted, model, found, stage)
    touched = 0 if option.change is None else 1
    cost = OptionCost(least=least, guesses=option.guess, models=touched, settings=option.settings)
    keeps_up = stage.stable and stage.queue_mean is not None
    seconds = stage.queue_mean.value + stage.compute_mean.value if keeps_up and stage.queue_mean else inf
    return Choice(option=option, cost=cost, seconds=seconds)


def work_share(
    fitted: Fitted, model: Model, found: Performance, stage: StagePerformance, resource: str = "GPU"
) -> float:
    """Return how much of a shared device a stage's executions take on average; 0 where it was not seen to use it.

    It is the work that they bring: executions per second × their time alone × what one takes of the device meanwhile;
    their time as it was would count what they wait for each other.
    """
    demand = model.demand.get(resource, 0.0)
    if model.engine is not None:
        return stage.busy_share.value * demand
    entry = next(one for one in fitted.scenario.entries if one.name == fitted.entry)
    items = next(one.items for one in fitted.scenario.traffic if one.entry == fitted.entry)
    visits = found.throughput.value * items * sum(step.model == model.name for step in entry.steps)
    size = max(stage.batch_size_mean or 1.0, 1.0)
    return visits / size * model.service.time(size) * demand


def gpu_shares(fitted: Fitted, found: Performance) -> float | None:
    """Return the share of the GPU that the stages' executions take; None where none was seen on one."""
    models = {model.name: model for model in stages(fitted)}
    if not any("GPU" in model.demand for model in models.values()):
        return None
    return sum(work_share(fitted, models[stage.model], found, stage) for stage in found.stages)


def _worth_weighing(choices: Sequence[Choice]) -> Sequence[Choice]:
    kept: list[Choice] = []
    for choice in choices:
        if choice.seconds < (kept[-1].seconds * (1 - _SAME) if kept else inf):
            kept.append(choice)
    return kept or choices[-1:]


def _total(menus: Mapping[str, Sequence[Choice]], at: Sequence[int]) -> OptionCost:
    return sum((menus[name][place].cost for name, place in zip(menus, at, strict=True)), OptionCost())
