"""What differs between two windows of one deployment: settings, versions, and whether the load does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import hypot, inf, sqrt

from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.blocks import FEWEST_BLOCKS, mean_of, quantile_of, relaxation_seconds, stretches
from diagnostics.forecast.fitted import Fitted, Unpredictable
from diagnostics.forecast.fitting import fit
from diagnostics.forecast.performance import Estimate, Performance, StagePerformance
from diagnostics.forecast.predict import performance
from diagnostics.forecast.runs import DRAWS
from diagnostics.forecast.what_if import WhatIf
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, REQUESTS
from diagnostics.tuning.changes import ConfigChange, SettingChange, change_between, changed_settings, shown_paths
from diagnostics.tuning.simulation.scenario import ClosedLoop, Model, Scenario
from diagnostics.units import Unit
from diagnostics.wire.model_config import ModelConfig

# Two standard errors of the two counts: the load is then taken to be another one, and the old one's latency no measure.
_CERTAIN = 2.0
# What comes into play at loading only, when no request is measured.
_WITHOUT_EFFECT = frozenset({"model_warmup", "version_policy"})


def rates_differ(before: Reading, after: Reading) -> bool:
    """Return whether two rates differ by more than counts of independent arrivals do by chance; True where unknown."""
    if before.value is None or after.value is None or not before.events or not after.events:
        return True
    spread = sqrt(before.value**2 / before.events + after.value**2 / after.events)
    return abs(after.value - before.value) > _CERTAIN * spread


def split(
    changes: Iterable[SettingChange], before: Mapping[str, ModelConfig], after: Mapping[str, ModelConfig]
) -> tuple[tuple[ConfigChange, ...], tuple[SettingChange, ...]]:
    """Return the changes of settings whose effect is predicted, and those differences whose effect is not."""
    models = [model for model in before if model in after]
    moved = {
        model: change for model in models if (change := change_between(model, before[model], after[model])) is not None
    }
    known: Mapping[str, frozenset[str]] = {model: shown_paths(change) for model, change in moved.items()}
    rest = [
        one for one in changes if one.path not in known.get(one.model, frozenset()) and one.path not in _WITHOUT_EFFECT
    ]
    return tuple(moved.values()), tuple(rest)


def settings_between(before: Evidence, was: str, after: Evidence, now: str) -> Iterator[SettingChange]:
    """Yield the settings that differ between two servers' models; none of a model whose configuration was not read."""
    for on in before.subjects(Scope.MODEL):
        if on.server == was and on.model and on.version == _first(before, was, on.model):
            other = Subject(server=now, model=on.model)
            yield from changed_settings(on.model, before.config(on), after.config(other))


def _first(evidence: Evidence, server: str, model: str) -> str | None:
    return next(on.version for on in evidence.subjects(Scope.MODEL) if (on.server, on.model) == (server, model))


def versions_between(before: Evidence, was: str, after: Evidence, now: str) -> Iterator[SettingChange]:
    """Yield the models whose working versions differ."""
    then, later = _working(before, was), _working(after, now)
    for model in sorted({*then} & {*later}):
        if then[model] != later[model]:
            yield SettingChange(model=model, path="version", before=then[model], after=later[model])


def _working(evidence: Evidence, server: str) -> dict[str, str]:
    served: dict[str, set[str]] = {}
    for on in evidence.subjects(Scope.MODEL):
        if on.server == server and on.model and evidence.read(REQUESTS, on).value:
            served.setdefault(on.model, set()).add(on.version or "")
    return {model: ", ".join(sorted(versions)) for model, versions in served.items()}


# How far a forecast may be off before it is refuted: its usual error on a real Triton up to a busy share of 0.85.
TOLERANCE = {"mean": 0.10, "p95": 0.15}
# A predicted difference below this is called none: half of the usual error, and too little to make a change for.
NO_DIFFERENCE = 0.05
# Latency that moved by less than this did not change for the worse or better (as for a finding of a diagnosis).
UNCHANGED_WITHIN = 0.15
# A week: what takes longer to measure will not stay as it is for that long.
LONGEST_SECONDS = 7 * 86400.0


class Verified(StrEnum):
    """What is said of a prediction."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is said of one statistic.

    Attributes:
        verdict: what became of the prediction.
        reason: why, one sentence without a full stop.
        seconds_needed: how long each window has to be for a decision; None where length does not help, or need not.

    """

    verdict: Verified
    reason: str
    seconds_needed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceEstimate:
    """The difference of two numbers with its 90 % interval; an end is infinite where there is none."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    @property
    def largest(self) -> float:
        """The largest difference, of either sign, that the interval allows."""
        return max(abs(self.low), abs(self.high))


def difference(a: Estimate, b: Estimate) -> DifferenceEstimate:
    """Return `a − b` of independent numbers; the ends' distances add in quadrature."""
    value = a.value - b.value
    above = inf if a.high is None else hypot(a.high - a.value, b.value - b.low)
    below = inf if b.high is None else hypot(a.value - a.low, b.high - b.value)
    return DifferenceEstimate(value=value, low=value - below, high=value + above)


def judge(
    statistic: str, *, after: Estimate, predicted: Estimate, unchanged: Estimate | None, seconds: float
) -> Judgement:
    """Return whether a measurement is what was predicted.

    Args:
        statistic: `mean` or `p95`, for its tolerance.
        after: what was measured after the change.
        predicted: what was predicted of it, at the load that it met.
        unchanged: what the old configuration would do at that load; None where it could not keep up.
        seconds: length of the shorter window.

    It is refuted where measurement and prediction differ by more than chance and the forecasts' usual error; confirmed
    where they do not, and the measurement is not what an unchanged deployment would show, either. Where it could be
    both, more has to be measured.

    """
    if unchanged is not None and abs(predicted.value - unchanged.value) <= NO_DIFFERENCE * unchanged.value:
        return _no_difference(after, unchanged, seconds)
    off = difference(after, predicted)
    tolerance = TOLERANCE[statistic] * predicted.value
    if off.low > tolerance or off.high < -tolerance:
        return Judgement(verdict=Verified.REFUTED, reason=_off(off, predicted))
    if unchanged is None:
        return Judgement(verdict=Verified.CONFIRMED, reason="as predicted, where the old settings could not keep up")
    return _distinguished(after, predicted, unchanged, seconds)


def _distinguished(after: Estimate, predicted: Estimate, unchanged: Estimate, seconds: float) -> Judgement:
    same, gap = difference(after, unchanged), abs(predicted.value - unchanged.value)
    nearer = abs(after.value - predicted.value) < abs(same.value)
    if nearer and (same.low > 0 or same.high < 0):
        return Judgement(verdict=Verified.CONFIRMED, reason="as predicted, and unlike the old settings")
    width = max(same.half_width, difference(after, predicted).half_width)
    if width < gap / 2:
        reason = "the measurement lies between the prediction and no effect, too close to decide"
        return Judgement(verdict=Verified.INCONCLUSIVE, reason=reason)
    reason = "the measurement fits both the prediction and no effect"
    return Judgement(verdict=Verified.INCONCLUSIVE, reason=reason, seconds_needed=longer(seconds, width, gap / 2))


def _no_difference(after: Estimate, unchanged: Estimate, seconds: float) -> Judgement:
    found, most = difference(after, unchanged), UNCHANGED_WITHIN * unchanged.value
    if found.largest <= most:
        return Judgement(verdict=Verified.CONFIRMED, reason="no difference was predicted, and none was measured")
    if found.low > most or found.high < -most:
        return Judgement(verdict=Verified.REFUTED, reason="no difference was predicted, and there is one")
    reason = f"no difference was predicted; the measurement allows one of more than {UNCHANGED_WITHIN:.0%}".replace(
        "%", " %"
    )
    room = most - abs(found.value)
    needed = longer(seconds, found.half_width, room) if room > 0 else None
    return Judgement(verdict=Verified.INCONCLUSIVE, reason=reason, seconds_needed=needed)


def longer(seconds: float, half_width: float, wanted: float) -> float | None:
    """Return the length of a window whose interval has the half width that is wanted.

    An interval's width falls with the square root of the window's length. None beyond a week, and where the present
    width is not bounded.
    """
    if not half_width < inf or wanted <= 0:
        return None
    needed = seconds * max(half_width / wanted, 1.0) ** 2
    return needed if needed <= LONGEST_SECONDS else None


def _off(off: DifferenceEstimate, predicted: Estimate) -> str:
    share = abs(off.value) / predicted.value if predicted.value > 0 else inf
    word = "above" if off.value > 0 else "below"
    return f"{share * 100:.0f} % {word} the prediction, more than chance and the usual forecast error"


def overall(judgements: list[Judgement]) -> Judgement:
    """Return what is said of all statistics together: a refuted one refutes; else the first one, the mean, decides."""
    refuted = next((one for one in judgements if one.verdict is Verified.REFUTED), None)
    return refuted or judgements[0]


# Service times, and what executions take of what they share, were measured at one load: up to twice as much, or half as
# much, they were seen to carry over; beyond that clocks, caches and batches are others.
MOST_LOAD_RATIO = 2.0
_QUANTILES = {"p95": 0.95}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One statistic of an entry's latency, seconds.

    Attributes:
        statistic: `mean` or `p95`.
        before: measured before; None where it could not be.
        after: measured after.
        predicted: what was predicted of it from the first window, at the second one's load.
        unchanged: what the old settings would do at that load; None where they could not keep up with it.
        judgement: what is said of it.

    """

    statistic: str
    before: Estimate | None
    after: Estimate
    predicted: Estimate
    unchanged: Estimate | None
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Two windows of one entry, and what became of the prediction.

    Attributes:
        entry: the ensemble or model.
        changes: settings and versions that differ.
        unpredicted: those of them whose effect is not predicted.
        rates: requests per second that arrive, before and after.
        load_differs: whether they differ by more than chance.
        block_seconds: how long the after window's blocks are at least; None where that is not known.
        measures: by statistic; empty where nothing could be compared.
        judgement: what is said of all of them together.
        assumptions: what the prediction rests on.

    """

    entry: str
    changes: tuple[SettingChange, ...]
    unpredicted: tuple[SettingChange, ...]
    rates: tuple[Reading, Reading]
    load_differs: bool
    block_seconds: float | None
    measures: tuple[Measure, ...]
    judgement: Judgement
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    evidence: Evidence
    on: Subject
    fitted: Fitted

    @property
    def seconds(self) -> float:
        moments = self.evidence.moments(self.on.server)
        return moments[-1] - moments[0] if moments else 0.0


def verify(
    before: Evidence, was: Subject, after: Evidence, now: Subject, *, seed: int = 0, draws: int = DRAWS
) -> Verification:
    """Return whether the second window shows what the first one's model predicts of its settings and load.

    Args:
        before: the window before the change.
        was: the entry in it.
        after: the window after the change.
        now: the same entry in it.
        seed: of the simulation and of the draws of blocks.
        draws: how many windows are simulated for an interval.

    """
    servers = (before, was.server, after, now.server)
    changes = (*settings_between(*servers), *versions_between(*servers))
    rates = before.read(ARRIVAL_RATE, was), after.read(ARRIVAL_RATE, now)
    bare = Verification(
        entry=was.ensemble or was.model or "",
        changes=changes,
        unpredicted=(),
        rates=rates,
        load_differs=rates_differ(*rates),
        block_seconds=None,
        measures=(),
        judgement=Judgement(verdict=Verified.INCONCLUSIVE, reason=""),
        assumptions=(),
    )
    try:
        old, new = (
            _Side(evidence=before, on=was, fitted=fit(before, was)),
            _Side(evidence=after, on=now, fitted=fit(after, now)),
        )
        return _compared(bare, old, new, partial(performance, seed=seed, draws=draws), seed)
    except Unpredictable as error:
        return replace(
            bare, judgement=Judgement(verdict=Verified.INCONCLUSIVE, reason=str(error).removeprefix(f"{bare.entry}: "))
        )


def _compared(
    bare: Verification, old: _Side, new: _Side, predict: Callable[..., Performance], seed: int
) -> Verification:
    moved, unpredicted = split(bare.changes, old.fitted.configs, new.fitted.configs)
    traffic = tuple(one for one in new.fitted.scenario.traffic if one.entry in _entries(old.fitted.scenario))
    base = predict(old.fitted)
    same = predict(old.fitted, WhatIf(traffic=traffic)) if bare.load_differs else base
    then = predict(old.fitted, WhatIf(changes=moved, traffic=traffic)) if moved else same
    found = replace(
        bare,
        unpredicted=unpredicted,
        block_seconds=max(_memory(then, new.fitted), _memory_seen(new.fitted)),
        assumptions=old.fitted.assumptions,
    )
    measures = tuple(_measures(found, old, new, _Models(base, same, then), seed))
    found = replace(found, measures=measures)
    reason = _obstacle(found, then)
    if reason:
        return replace(found, judgement=Judgement(verdict=Verified.INCONCLUSIVE, reason=reason))
    if not measures:
        return replace(found, judgement=_too_short(found, new))
    return replace(found, judgement=overall([one.judgement for one in measures]))


@dataclass(frozen=True, slots=True)
class _Models:
    """The old deployment's own account: of its window, of the new load, and of the new settings at it."""

    base: Performance
    same: Performance
    then: Performance


def _obstacle(found: Verification, then: Performance) -> str:
    """Return why nothing can be said whatever was measured; empty where something can."""
    if found.unpredicted:
        return f"{_listed(found.unpredicted)} changed as well, whose effect is not predicted"
    was, now = (rate.value for rate in found.rates)
    if was and now and not 1 / MOST_LOAD_RATIO <= now / was <= MOST_LOAD_RATIO:
        times = f"{now / was:.2g} times the load"
        return f"{times}: what was measured at one carries over to at most {MOST_LOAD_RATIO:g} times it, or half of it"
    return "" if then.mean is not None else "it was predicted not to keep up, and a queue that grows has no mean"


def _listed(changes: Iterable[SettingChange]) -> str:
    return ", ".join(f"{one.model} {one}" for one in changes)


def _too_short(found: Verification, new: _Side) -> Judgement:
    block = found.block_seconds
    if block is None or block == float("inf"):
        return Judgement(verdict=Verified.INCONCLUSIVE, reason="the second window's requests could not be counted")
    needed = max(FEWEST_BLOCKS * 2 * block, 2 * new.seconds)
    memory = f": its queues remember for {Unit.SECONDS.show(block)}" if block * FEWEST_BLOCKS > new.seconds else ""
    reason = f"the second window holds fewer than four stretches that do not depend on each other{memory}"
    return Judgement(verdict=Verified.INCONCLUSIVE, reason=reason, seconds_needed=needed)


def _measures(found: Verification, old: _Side, new: _Side, models: _Models, seed: int) -> Iterator[Measure]:
    block = found.block_seconds
    if block is None:
        return
    for statistic in ("mean", *_QUANTILES):
        after, predicted = _measured(new, statistic, block, seed), getattr(models.then, statistic)
        if after is None or predicted is None:
            continue
        before = _before(old, models.base, statistic, seed)
        kept = before if before is not None and not found.load_differs else getattr(models.same, statistic)
        if not found.changes and kept is not None and not found.load_differs:
            predicted = kept
        judgement = judge(
            statistic, after=after, predicted=predicted, unchanged=kept, seconds=min(old.seconds, new.seconds)
        )
        yield Measure(
            statistic=statistic,
            before=before,
            after=after,
            predicted=predicted,
            unchanged=kept,
            judgement=judgement,
        )


def _measured(side: _Side, statistic: str, block: float, seed: int) -> Estimate | None:
    if statistic in _QUANTILES:
        return quantile_of(side.evidence, side.on, _QUANTILES[statistic], block, seed)
    return mean_of(stretches(side.evidence, side.on), block, seed)


def _before(old: _Side, base: Performance, statistic: str, seed: int) -> Estimate | None:
    """Return what was measured before, with the spread of simulated windows where blocks would be too few.

    A queue near saturation remembers for longer than a window: then only the model shows how far another window's
    number may be from this one's.
    """
    found = _measured(old, statistic, _memory(base, old.fitted), seed)
    if found is not None:
        return found
    bare, model = _measured(old, statistic, 0.0, seed), getattr(base, statistic)
    if bare is None:
        return None
    if model is None or model.value <= 0:
        return replace(bare, high=None)
    low, high = bare.value * model.low / model.value, model.high
    return Estimate(
        value=bare.value,
        low=min(low, bare.low),
        high=None if high is None or bare.high is None else max(bare.value * high / model.value, bare.high),
    )


def _memory(one: Performance, fitted: Fitted) -> float:
    """Return the longest relaxation time of the stages, seconds; infinite where one does not keep up.

    A closed loop forgets within the time of a request: its queues never hold more than its clients.
    """
    closed = any(isinstance(traffic, ClosedLoop) for traffic in fitted.scenario.traffic)
    if closed and one.mean is not None:
        return one.mean.value
    models = {model.name: model for model in fitted.scenario.models}
    times = [_remembers(stage, models[stage.model]) for stage in one.stages if stage.model in models]
    # A request that began in one block ends in the next: blocks are longer than requests.
    return max([*times, one.mean.value if one.mean is not None else float("inf")])


def _memory_seen(fitted: Fitted) -> float:
    """Return the longest relaxation time that the busy shares of a window itself show; 0 where none was measured.

    What was predicted to idle may be full: then its window says less than was thought, not more.
    """
    if any(isinstance(traffic, ClosedLoop) for traffic in fitted.scenario.traffic):
        return 0.0
    models = {model.name: model for model in fitted.scenario.models}
    times = [
        relaxation_seconds(
            service=stage.compute_mean,
            servers=models[stage.model].instances,
            busy_share=stage.busy_share,
        )
        for stage in fitted.measured.stages
        if stage.compute_mean is not None and stage.busy_share is not None and stage.model in models
    ]
    return max(times, default=0.0)


def _remembers(stage: StagePerformance, model: Model) -> float:
    """Return a stage's relaxation time; of an engine, its slots serve, and those that run are busy."""
    service, engine = stage.compute_mean.value, model.engine
    if engine is None:
        servers, busy = model.instances, stage.busy_share.value
    else:
        servers, busy = engine.slots, (stage.batch_size_mean or 0.0) / engine.slots
    return relaxation_seconds(service=service, servers=servers, busy_share=busy)


def _entries(scenario: Scenario) -> frozenset[str]:
    return frozenset(entry.name for entry in scenario.entries)
