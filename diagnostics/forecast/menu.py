"""Each stage's ways to be set with what they cost and bring, by closed forms: where a search begins."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.options import Minimize, Option
from diagnostics.forecast.performance import Performance, StagePerformance
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.simulation.scenario import Entry, Model

Screen = Callable[[Fitted, WhatIf], Performance]
# Standard normal quantiles: stages' waits add up to a sum of many, and a screen is no forecast.
_NORMAL = {None: 0.0, 0.5: 0.0, 0.95: 1.645, 0.99: 2.326}
# Below this part of a stage's time a dearer way of setting it brings nothing that a forecast could tell.
_SAME = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a combination costs: first what is to be least, then how much is touched."""

    least: float = 0.0
    models: int = 0
    settings: int = 0

    def __lt__(self, other: Cost) -> bool:
        return self._key() < other._key()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            least=self.least + other.least, models=self.models + other.models, settings=self.settings + other.settings
        )

    def _key(self) -> tuple[float, int, int]:
        return round(self.least, 9), self.models, self.settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One way to set a stage, with the closed forms' account of it.

    Attributes:
        option: what is set.
        cost: what it costs.
        seconds: mean seconds that a visit takes, queue and execution.
        spread: standard deviation of its wait, as far as the closed forms say.

    """

    option: Option
    cost: Cost
    seconds: float
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One choice per stage; `seconds` is the screened statistic, end to end."""

    choices: Mapping[str, Choice]
    cost: Cost
    seconds: float

    @property
    def what_if(self) -> WhatIf:
        """The changes of all stages."""
        return WhatIf(changes=tuple(c.option.change for c in self.choices.values() if c.option.change is not None))


def menu(fitted: Fitted, model: Model, ways: Sequence[Option], minimize: Minimize, screen: Screen) -> Sequence[Choice]:
    """Return the ways worth weighing, by cost, each faster than all that cost less; none where no way keeps up."""
    found = [choice for choice in (_choice(fitted, model, option, minimize, screen) for option in ways) if choice]
    return _worth_weighing(sorted(found, key=lambda choice: (choice.cost._key(), choice.seconds)))


def combinations(menus: Mapping[str, Sequence[Choice]], entry: Entry, quantile: float | None) -> Iterator[Combination]:
    """Yield a choice per stage in all combinations, by cost.

    Best first over index vectors: each step to a stage's next choice costs more, so the cheapest unseen neighbour of
    what was yielded is next (Lawler 1972).
    """
    names = [name for name, choices in menus.items() if choices]
    start = (0,) * len(names)
    heap, seen = [(_total(menus, names, start)._key(), start)], {start}
    while heap:
        _, at = heapq.heappop(heap)
        choices = {name: menus[name][index] for name, index in zip(names, at, strict=True)}
        yield Combination(choices=choices, cost=_total(menus, names, at), seconds=_statistic(entry, choices, quantile))
        for place, name in enumerate(names):
            following = (*at[:place], at[place] + 1, *at[place + 1 :])
            if following[place] < len(menus[name]) and following not in seen:
                seen.add(following)
                heapq.heappush(heap, (_total(menus, names, following)._key(), following))


def _choice(fitted: Fitted, model: Model, option: Option, minimize: Minimize, screen: Screen) -> Choice | None:
    changes = (option.change,) if option.change is not None else ()
    performance = screen(fitted, WhatIf(changes=changes))
    stage = next((stage for stage in performance.stages if stage.model == model.name), None)
    if stage is None or not stage.stable or stage.queue_mean is None:
        return None
    least = option.instances if minimize is Minimize.INSTANCES else gpu_share(model, option.instances, stage)
    touched = 0 if option.change is None else 1
    tail = stage.queue_p95.value - stage.queue_mean.value if stage.queue_p95 is not None else 0.0
    return Choice(
        option=option,
        cost=Cost(least=least, models=touched, settings=option.settings),
        seconds=stage.queue_mean.value + stage.compute_mean.value,
        spread=max(tail, 0.0) / _NORMAL[0.95],
    )


def gpu_share(model: Model, instances: int, stage: StagePerformance) -> float:
    """Return the share of the GPU that a stage's executions take on average; 0 where it was not seen on one."""
    return stage.busy_share.value * instances * model.demand.get("GPU", 0.0)


def _worth_weighing(choices: Sequence[Choice]) -> Sequence[Choice]:
    kept: list[Choice] = []
    for choice in choices:
        best = min((one.seconds + one.spread for one in kept), default=None)
        if best is None or choice.seconds + choice.spread < best * (1 - _SAME):
            kept.append(choice)
    return kept


def _total(menus: Mapping[str, Sequence[Choice]], names: Sequence[str], at: Sequence[int]) -> Cost:
    return sum((menus[name][index].cost for name, index in zip(names, at, strict=True)), Cost())


def _statistic(entry: Entry, choices: Mapping[str, Choice], quantile: float | None) -> float:
    """Return the longest path's mean, with the stages' spreads added as of independent waits."""
    ends: list[tuple[float, float]] = []
    for step in entry.steps:
        begun = max((ends[before] for before in step.after), default=(0.0, 0.0))
        choice = choices.get(step.model)
        seconds, spread = (choice.seconds, choice.spread) if choice else (0.0, 0.0)
        ends.append((begun[0] + step.gap_seconds + seconds, begun[1] + spread**2))
    mean, variance = max(ends, default=(0.0, 0.0))
    return mean + _NORMAL.get(quantile, 0.0) * sqrt(variance)
