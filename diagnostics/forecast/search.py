"""What a search for settings found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf, prod

from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.options import (
    Choice,
    Combination,
    Minimize,
    Option,
    at_places,
    combinations,
    gpu_shares,
    menu,
    options,
    stages,
    varied,
)
from diagnostics.forecast.packing import GpuMemory
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import performance
from diagnostics.forecast.runs import DRAWS
from diagnostics.forecast.target import LatencyTarget, refuses
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.changes import ConfigChange, SettingValue
from diagnostics.tuning.simulation.scenario import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A change and what is forecast of it.

    Attributes:
        changes: one per model that is touched.
        instances: instances of all stages together.
        gpu_share: share of the GPU that all executions take; None where no GPU was seen.
        performance: the forecast; with intervals where it is the answer, else of one short run.
        fits: whether its instances fit the GPUs' memory; None where that is not known.

    """

    changes: tuple[ConfigChange, ...]
    instances: int
    gpu_share: float | None
    performance: Performance
    fits: bool | None = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What a search found.

    Attributes:
        target: what was to be met.
        minimize: what the change was to be smallest in.
        baseline: the forecast without a change.
        best: the smallest change that meets the target; without changes where it is met as it is, None where no
            setting meets it.
        runners_up: others that meet it and touch other settings, the smallest first.
        nearest: where none does, what comes nearest, without changes where none brings it nearer; else None.
        screened: settings of stages, and combinations of them, that closed forms looked at.
        simulated: combinations that were simulated.
        too_large: combinations that were passed over since the GPUs' memory does not hold them.

    """

    target: LatencyTarget
    minimize: Minimize
    baseline: Performance
    best: Candidate | None
    runners_up: tuple[Candidate, ...]
    nearest: Candidate | None
    screened: int
    simulated: int
    too_large: int = 0


# Closed forms are within about a fifth of simulated means; their 95th percentiles are rougher.
_SLACK = 1.4
# After a miss, the closed forms' error is known at a neighbour: what they put this far above the target is passed over.
_SLACK_THEN = 1.15
# Combinations looked at by closed forms, and simulated, before a search gives up: about a second, and three.
_MOST_SCREENED, _MOST_SIMULATED = 300, 24
# A run this long is within some hundredths of a long one where queues are short, and is done in a tenth of a second.
VISITS = 8_000
# Below this part of a statistic no difference of two forecasts says anything.
_SAME = 0.03
# What else would do.
RUNNERS_UP = 3


Vary = Mapping[str, Mapping[str, Sequence[SettingValue]]]


def tune(
    fitted: Fitted,
    target: LatencyTarget,
    *,
    minimize: Minimize = Minimize.INSTANCES,
    fewer: bool = False,
    vary: Vary | None = None,
    memory: GpuMemory | None = None,
    seed: int = 0,
    draws: int = DRAWS,
    visits: int | None = None,
) -> Tuning:
    """Return the smallest change that meets the target.

    Args:
        fitted: the deployment as it is.
        target: what is to be met.
        minimize: what the change is to be smallest in; then fewer settings that rest on batches never seen, fewer
            models and fewer settings count.
        fewer: whether stages may have fewer instances than now.
        vary: by model and path, the values to choose from; None for instances, batching and windows of every stage.
        memory: the GPUs', which more instances must fit into; None where no model is on one.
        seed: of the simulation.
        draws: runs that the intervals of the baseline and the answer come from.
        visits: most visits to stages of any run; None for as many as a forecast makes.

    """
    search = _Search(fitted, target, minimize, fewer, vary, memory, seed, draws, visits)
    return search.run(search.forecast(WhatIf()))


@dataclass(slots=True)
class _Search:
    """One search; counts what it looked at."""

    fitted: Fitted
    target: LatencyTarget
    minimize: Minimize
    fewer: bool
    vary: Vary | None
    memory: GpuMemory | None
    seed: int
    draws: int
    visits: int | None
    screened: int = 0
    simulated: int = 0
    too_large: int = 0
    limit: float = inf
    short: dict[WhatIf, Performance] = field(default_factory=dict)
    meeting: list[tuple[Combination, Candidate]] = field(default_factory=list)
    misses: list[tuple[float, Combination]] = field(default_factory=list)

    def forecast(self, what_if: WhatIf) -> Performance:
        """Return what is reported of a change; of what does not keep up, a short run: more would say nothing more."""
        quick = self._quick(what_if)
        if not quick.stable or (not self.draws and self._visits == self.visits):
            return quick
        return performance(self.fitted, what_if, seed=self.seed, draws=self.draws, visits=self.visits)

    @property
    def _visits(self) -> int:
        return min(VISITS, self.visits or VISITS)

    def _quick(self, what_if: WhatIf) -> Performance:
        if what_if not in self.short:
            found = performance(self.fitted, what_if, seed=self.seed, draws=0, visits=self._visits)
            self.short[what_if] = found
        return self.short[what_if]

    def run(self, baseline: Performance) -> Tuning:
        if self.target.met(baseline) and not self.fewer and self.vary is None:
            return self._reported(baseline, _unchanged(self.fitted, baseline), ())
        self.limit = self.target.seconds * _SLACK
        menus, whole = self._menus()
        self._weigh(menus, whole)
        if not self.meeting:
            self._from_fastest(menus)
        best = next((full for one, _ in self.meeting if self.target.met((full := self._full(one)).performance)), None)
        if best is None and (nearest := self._nearest(baseline)).changes and self.target.met(nearest.performance):
            best = nearest  # its short run missed by chance what the long one meets
        others = [quick for one, quick in self.meeting if best is None or one.what_if.changes != best.changes]
        return self._reported(baseline, best, others[:RUNNERS_UP])

    def _reported(self, baseline: Performance, best: Candidate | None, others: Sequence[Candidate]) -> Tuning:
        return Tuning(
            target=self.target,
            minimize=self.minimize,
            baseline=baseline,
            best=best,
            runners_up=tuple(others) if best is not None else (),
            nearest=None if best is not None else self._nearest(baseline),
            screened=self.screened,
            simulated=self.simulated,
            too_large=self.too_large,
        )

    def _nearest(self, baseline: Performance) -> Candidate:
        """Return what comes nearest: the present settings where no change is nearer by what a forecast can show."""
        now = None if refuses(baseline) else self.target.forecast(baseline)
        least, one = min(self.misses, key=lambda miss: miss[0], default=(inf, None))
        if one is None or least >= (inf if now is None else now.value) * (1 - _SAME):
            return _unchanged(self.fitted, baseline)
        return self._full(one)

    def _menus(self) -> tuple[Mapping[str, Sequence[Choice]], bool]:
        """Return each stage's choices, and whether all combinations of them are few enough to simulate."""
        models = stages(self.fitted)
        ways = {model.name: self._ways(model) for model in models}
        whole = prod(map(len, ways.values())) <= _MOST_SIMULATED
        found = {}
        for model in models:
            found[model.name], looked_at = menu(
                self.fitted, model, ways[model.name], self.minimize, whole=whole or self.vary is not None
            )
            self.screened += looked_at
        return found, whole

    def _ways(self, model: Model) -> Sequence[Option]:
        config = self.fitted.configs.get(model.name)
        if self.vary is None:
            capacities = {one.name: one.capacity for one in self.fitted.scenario.resources}
            if model.name in self.fitted.scenario.calls:
                model = replace(model, max_batch=1)  # how often a batch of its requests calls others is not known
            found = options(model, config, fewer=self.fewer, capacities=capacities)
            return found[:1] if model.name in self.fitted.nested else found
        return varied(model, config, self.vary.get(model.name, {}))

    def _weigh(self, menus: Mapping[str, Sequence[Choice]], whole: bool) -> None:
        """Simulate combinations, the cheapest first, until enough meet the target."""
        if not all(menus.values()):
            return
        ordered = combinations(menus)
        for one in ordered if whole else islice(self._promising(ordered), _MOST_SIMULATED):
            if not self._is_needless(one) and self._has_room(one):
                self._try(one)
            if len(self.meeting) > RUNNERS_UP:
                return

    def _promising(self, ordered: Iterator[Combination]) -> Iterator[Combination]:
        """Yield what the closed forms do not rule out, as far as their error is known by then."""
        for one in ordered:
            if self._is_needless(one) or self._is_slow(one):
                continue
            if self.screened >= _MOST_SCREENED:
                return
            self.screened += 1
            if self._screen(one) <= self.limit:
                yield one

    def _is_slow(self, one: Combination) -> bool:
        """Say whether one stage alone is slower than the limit of all."""
        return max(choice.seconds for choice in one.choices.values()) > self.limit

    def _screen(self, one: Combination) -> float:
        found = self.target.forecast(estimate(self.fitted, one.what_if))
        return inf if found is None else found.value

    def _is_needless(self, one: Combination) -> bool:
        """Say whether it touches all that something cheaper touches, which is enough already."""
        return any(one.touched >= cheaper.touched for cheaper, _ in self.meeting)

    def _has_room(self, one: Combination) -> bool:
        self.too_large += (full := self._fits(one) is False)
        return not full

    def _fits(self, one: Combination) -> bool | None:
        if self.memory is None:
            return True
        models = {model.name: model for model in stages(self.fitted)}
        cards = {name: max(sum(self.fitted.devices.get(name, (1,))), 1) for name in models}
        return self.memory.fits({n: (count - models[n].instances) / cards[n] for n, count in one.instances.items()})

    def _try(self, one: Combination) -> bool:
        """Simulate a combination and note whether it meets the target, and what the closed forms were off by."""
        found = self._candidate(one, self._quick(one.what_if))
        self.simulated += 1
        value = None if refuses(found.performance) else self.target.forecast(found.performance)
        if self.target.met(found.performance):
            self.meeting.append((one, found))
            return True
        self.misses.append((inf if value is None else value.value, one))
        if value is not None:
            nearer = self._screen(one) * self.target.seconds / value.value * _SLACK_THEN
            self.limit = min(self.limit, nearer)
        return False

    def _from_fastest(self, menus: Mapping[str, Sequence[Choice]]) -> None:
        """Where nothing cheap was found: take every stage's fastest setting that there is room for, then do with less.

        Each stage in turn gets the cheapest setting with which the target is still met, found by halving.
        """
        if not all(menus.values()):
            return
        places = [len(choices) - 1 for choices in menus.values()]
        while not self._has_room(at_places(menus, places)) and any(places):
            places = [max(place - 1, 0) for place in places]
        if not self._try(at_places(menus, places)):
            return
        for at in range(len(places)):
            places[at] = self._least(menus, places, at)
        _, last = self.meeting[-1]
        self.meeting[:] = [(one, found) for one, found in self.meeting if found is last]

    def _least(self, menus: Mapping[str, Sequence[Choice]], places: Sequence[int], at: int) -> int:
        low, high = 0, places[at]
        while low < high:
            middle = (low + high) // 2
            if self._try(at_places(menus, [*places[:at], middle, *places[at + 1 :]])):
                high = middle
            else:
                low = middle + 1
        return high

    def _full(self, one: Combination) -> Candidate:
        return self._candidate(one, self.forecast(one.what_if))

    def _candidate(self, one: Combination, found: Performance) -> Candidate:
        return Candidate(
            changes=one.what_if.changes,
            instances=sum(one.instances.values()),
            gpu_share=gpu_shares(self.fitted, found),
            performance=found,
            fits=self._fits(one),
        )


def _unchanged(fitted: Fitted, baseline: Performance) -> Candidate:
    instances = sum(model.instances for model in stages(fitted))
    return Candidate(changes=(), instances=instances, gpu_share=gpu_shares(fitted, baseline), performance=baseline)
