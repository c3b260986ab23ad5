"""The smallest change of a deployment that meets a target, searched over all its stages at once.

Closed forms order and prune the combinations of the stages' settings; the simulation decides. So the answer takes
seconds, and no forecast rests on a closed form alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.menu import Choice, Combination, combinations, gpu_share, menu
from diagnostics.forecast.options import Minimize, Option, options, varied
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.predict import performance
from diagnostics.forecast.target import Target
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.changes import ConfigChange, SettingValue
from diagnostics.tuning.simulation.scenario import Entry, Model

# Closed forms are within about a fifth of simulated queues, and a sum of stages' tails is rougher.
_SLACK = 1.4
# Combinations that are looked at by closed forms, and that are simulated, before a search gives up.
_MOST_SCREENED = 20_000
_MOST_SIMULATED = 24
# Forecasts with intervals: the answer, and what else would do.
RUNNERS_UP = 3
# Draws that decide whether a candidate is worth a full forecast.
_FEW_DRAWS = 4

Vary = Mapping[str, Mapping[str, Sequence[SettingValue]]]
Simulate = Callable[[Fitted, WhatIf, int], Performance]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A change and what is forecast of it.

    Attributes:
        changes: one per model that is touched.
        instances: instances of all stages together.
        gpu_share: share of the GPU that all executions take; None where no GPU was seen.
        performance: the forecast.

    """

    changes: tuple[ConfigChange, ...]
    instances: int
    gpu_share: float | None
    performance: Performance


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What a search found.

    Attributes:
        target: what was to be met.
        minimize: what the change was to be smallest in.
        baseline: the forecast without a change.
        best: the smallest change that meets the target; without changes where it is met as it is, None where no
            setting meets it.
        runners_up: others that meet it, the smallest first.
        nearest: where none does, what comes nearest; None where nothing keeps up.
        screened: combinations that closed forms looked at.
        simulated: combinations that were simulated.

    """

    target: Target
    minimize: Minimize
    baseline: Performance
    best: Candidate | None
    runners_up: tuple[Candidate, ...]
    nearest: Candidate | None
    screened: int
    simulated: int


def tune(
    fitted: Fitted,
    target: Target,
    *,
    minimize: Minimize = Minimize.INSTANCES,
    fewer: bool = False,
    vary: Vary | None = None,
    seed: int = 0,
) -> Tuning:
    """Return the smallest change that meets the target.

    Args:
        fitted: the deployment as it is.
        target: what is to be met.
        minimize: what the change is to be smallest in; then fewer models and settings count.
        fewer: whether stages may have fewer instances than now.
        vary: by model and path, the values to choose from; None for instances, batching and windows of every stage.
        seed: of the simulation.

    """
    baseline = performance(fitted, WhatIf(), seed=seed)
    if target.met(baseline) and not fewer and vary is None:
        now = Candidate(
            changes=(), instances=_instances(fitted), gpu_share=_shares(fitted, baseline), performance=baseline
        )
        return Tuning(
            target=target,
            minimize=minimize,
            baseline=baseline,
            best=now,
            runners_up=(),
            nearest=None,
            screened=0,
            simulated=1,
        )
    return _Search(fitted, target, minimize, fewer, vary, seed).run(baseline)


class _Search:
    """One search; counts what it looked at."""

    def __init__(
        self, fitted: Fitted, target: Target, minimize: Minimize, fewer: bool, vary: Vary | None, seed: int
    ) -> None:
        self._fitted, self._target, self._minimize = fitted, target, minimize
        self._fewer, self._vary, self._seed = fewer, vary, seed
        self._screened = self._simulated = 0

    def run(self, baseline: Performance) -> Tuning:
        entry = entry_of(self._fitted)
        menus = {model.name: self._menu(model) for model in stages(self._fitted)}
        meeting, nearest = self._weigh(menus, entry)
        full = [self._candidate(one, draws=None) for one in meeting[: RUNNERS_UP + 1]]
        full = [one for one in full if self._target.met(one.performance)]
        return Tuning(
            target=self._target,
            minimize=self._minimize,
            baseline=baseline,
            best=full[0] if full else None,
            runners_up=tuple(full[1:]),
            nearest=None if full or nearest is None else self._candidate(nearest, draws=None),
            screened=self._screened,
            simulated=self._simulated,
        )

    def _menu(self, model: Model) -> Sequence[Choice]:
        config = self._fitted.configs.get(model.name)
        ways: Sequence[Option]
        if self._vary is None:
            ways = options(model, config, fewer=self._fewer)
        else:
            ways = varied(model, config, self._vary.get(model.name, {}))
        self._screened += len(ways)
        return menu(self._fitted, model, ways, self._minimize, estimate)

    def _weigh(
        self, menus: Mapping[str, Sequence[Choice]], entry: Entry
    ) -> tuple[list[Combination], Combination | None]:
        """Return the combinations that meet the target in few draws, cheapest first, and the nearest of all."""
        meeting: list[Combination] = []
        nearest: tuple[float, Combination] | None = None
        for one in islice(self._promising(menus, entry), _MOST_SIMULATED):
            found = self._candidate(one, draws=_FEW_DRAWS).performance
            value = self._target.forecast(found)
            if self._target.met(found):
                meeting.append(one)
            elif value is not None and (nearest is None or value.value < nearest[0]):
                nearest = (value.value, one)
            if len(meeting) > RUNNERS_UP:
                break
        return meeting, nearest[1] if nearest else None

    def _promising(self, menus: Mapping[str, Sequence[Choice]], entry: Entry) -> Iterator[Combination]:
        """Yield what the closed forms do not rule out, by cost; where they rule out all, what they hold for fastest."""
        if not all(menus.values()):
            return
        best: Combination | None = None
        found = False
        for one in islice(combinations(menus, entry, self._target.quantile), _MOST_SCREENED):
            self._screened += 1
            if one.seconds <= self._target.seconds * _SLACK:
                found = True
                yield one
            if best is None or one.seconds < best.seconds:
                best = one
        if not found and best is not None:
            yield best

    def _candidate(self, one: Combination, *, draws: int | None) -> Candidate:
        self._simulated += 1
        more = {} if draws is None else {"draws": draws}
        found = performance(self._fitted, one.what_if, seed=self._seed, **more)
        return Candidate(
            changes=one.what_if.changes,
            instances=sum(choice.option.instances for choice in one.choices.values()),
            gpu_share=_shares(self._fitted, found, {n: c.option.instances for n, c in one.choices.items()}),
            performance=found,
        )


def entry_of(fitted: Fitted) -> Entry:
    """Return the entry whose requests are forecast."""
    return next(entry for entry in fitted.scenario.entries if entry.name == fitted.entry)


def stages(fitted: Fitted) -> Sequence[Model]:
    """Return the models that the entry's requests visit, in the order of its steps."""
    names = dict.fromkeys(step.model for step in entry_of(fitted).steps)
    models = {model.name: model for model in fitted.scenario.models}
    return [models[name] for name in names]


def _instances(fitted: Fitted) -> int:
    return sum(model.instances for model in stages(fitted))


def _shares(fitted: Fitted, found: Performance, instances: Mapping[str, int] | None = None) -> float | None:
    """Return the share of the GPU that the stages' executions take; None where none was seen on one."""
    models = {model.name: model for model in stages(fitted)}
    if not any("GPU" in model.demand for model in models.values()):
        return None
    counts = instances or {}
    return sum(
        gpu_share(models[stage.model], counts.get(stage.model, models[stage.model].instances), stage)
        for stage in found.stages
    )
