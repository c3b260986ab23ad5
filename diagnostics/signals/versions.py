"""Two versions of a model (or the same one before and after a reload) at the same work: which is slower, warm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import NamedTuple

from diagnostics.signals.executions import STATISTICS_FIX
from diagnostics.signals.lifecycle import execution_seconds, is_first, warm_steps, worked
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.stalls import changes_capacity, loads_seen
from diagnostics.units import Unit
from diagnostics.window.counters import sum_steps
from diagnostics.window.view import METRICS, STATISTICS, Counter, CounterStep, ModelView, increase
from diagnostics.wire.json_body import decimal

# Executions of one batch size on each side; a mean of fewer says nothing of a difference of a fifth.
FEWEST_EXECUTIONS = 10
# Clocks and placement move the same kernels by a tenth from load to load.
AS_FAST = 1.1
_RELOAD = "reload"


@dataclass(frozen=True, slots=True)
class VersionComparison:
    """Mean seconds of an execution, old and new, over the batch sizes both executed, weighted alike.

    `before` names the old side: a version, or `reload` for the same version before it was loaded anew.
    """

    old: float
    new: float
    executions: float
    before: str
    source: str


class _Met(NamedTuple):
    """How many requests there were, and the mean seconds of the execution that each was part of."""

    requests: float
    seconds: float


def compared(view: ModelView) -> VersionComparison | Missing:
    """Return a version against the one before it, or against itself before its reload in the window."""
    for source in (STATISTICS, METRICS):
        sides = _sides(view, source)
        if sides is not None:
            found = _compare(*sides, source)
            return Missing.CONFLICTING if _shares_more(view, found) else found
    return Missing.IDLE


def _shares_more(view: ModelView, found: VersionComparison | Missing) -> bool:
    """Return whether a version that is slower since its reload got other instances then: these share what they use."""
    if isinstance(found, Missing) or found.before != _RELOAD or found.new <= AS_FAST * found.old:
        return False
    return any(changes_capacity(view, load) for load in loads_seen(view))


def _sides(view: ModelView, source: str) -> tuple[Sequence[CounterStep], Sequence[CounterStep], str] | None:
    earlier = _version_before(view)
    if earlier is None and not any(table.resets for table in view.tables(source)):
        return None
    epochs = _epochs(view, source)
    if len(epochs) >= 2:
        return epochs[-2], epochs[-1], _RELOAD
    if not epochs or earlier is None:
        return None
    old = _epochs(_of_version(view, earlier), source)
    return (old[-1], epochs[-1], earlier) if old else None


def _version_before(view: ModelView) -> str | None:
    """Return the highest version below this one that was seen; None when there is none or versions are no numbers."""
    served = [version for _, version in view.server.keys_of(view.model or "")]
    seen = {number: version for version in served if (number := decimal(version)) is not None}
    own = decimal(view.version)
    return seen.get(max((number for number in seen if own is not None and number < own), default=-1))


def _of_version(view: ModelView, version: str) -> ModelView:
    return view.beside(view.model, version)


def _epochs(view: ModelView, source: str) -> list[Sequence[CounterStep]]:
    """Return the warm steps with executions of each epoch, oldest first."""
    epochs: list[list[CounterStep]] = []
    for step in view.steps(source):
        if not epochs or step.opens:
            epochs.append([])
        epochs[-1].append(step)
    warm = [warm_steps([step for step in epoch if worked(step)]) for epoch in epochs]
    return [steps for steps in warm if steps]


def _compare(
    old: Sequence[CounterStep], new: Sequence[CounterStep], before: str, source: str
) -> VersionComparison | Missing:
    then, now = _by_size(old), _by_size(new)
    if not then or not now or _begins(old) or _begins(new):
        return _as_requests_met(old, new, before, source)
    sizes = [size for size in then if size in now and min(then[size][0], now[size][0]) >= FEWEST_EXECUTIONS]
    weight = {size: min(then[size][0], now[size][0]) for size in sizes}
    total = sum(weight.values())
    if total <= 0:
        return Missing.IDLE
    past, mean = (sum(weight[size] * side[size][1] for size in sizes) / total for side in (then, now))
    return VersionComparison(
        old=past,
        new=min(mean, past * _usual_ratio(new, {size: then[size][1] for size in sizes})),
        executions=total,
        before=before,
        source=source,
    )


def _usual_ratio(steps: Sequence[CounterStep], old: Mapping[int, float]) -> float:
    """Return the middle one of the reads' ratios of executions to old ones of the same sizes, which last `old` seconds.

    What is built otherwise is slower in most reads; what the host does beside a load makes a few of them long.
    """
    ratios = list[float]()
    for step in steps:
        runs = {size: run for size, run in _by_size([step]).items() if size in old}
        expected = sum(executions * old[size] for size, (executions, _) in runs.items())
        if expected > 0:
            ratios.append(sum(executions * seconds for executions, seconds in runs.values()) / expected)
    return median(ratios) if ratios else inf


def _begins(steps: Sequence[CounterStep]) -> bool:
    """Return whether steps are the first since loading alone, whose executions may be cold or a warm-up's."""
    return len(steps) == 1 and is_first(steps[0])


def _as_requests_met(
    old: Sequence[CounterStep], new: Sequence[CounterStep], before: str, source: str
) -> VersionComparison | Missing:
    """Compare the executions that requests met, of batches not counted by size or with first ones among them.

    Larger batches and first executions can make these longer, so they show that a version is as fast, and not that it
    is slower.
    """
    then, now = _met(old), _met(new)
    if min(then.requests, now.requests) < FEWEST_EXECUTIONS:
        return Missing.TOO_FEW_EVENTS
    if now.seconds > AS_FAST * then.seconds:
        return Missing.NOT_EXPORTED
    return VersionComparison(old=then.seconds, new=now.seconds, executions=now.requests, before=before, source=source)


def _met(steps: Sequence[CounterStep]) -> _Met:
    requests = increase(steps, Counter.SUCCESS)
    return _Met(requests, increase(steps, Counter.INFER_SECONDS) / requests)


def _by_size(steps: Sequence[CounterStep]) -> dict[int, tuple[float, float]]:
    """Return executions and their mean seconds by batch size; without the table, all as one size if none batched."""
    total = sum_steps(steps)
    if total.batches:
        return {
            size: (batch.executions, batch.seconds / batch.executions)
            for size, batch in total.batches.items()
            if batch.executions > 0
        }
    executions, requests = total.values.get(Counter.EXECUTIONS, 0.0), total.values.get(Counter.SUCCESS, 0.0)
    # Two per cent of slack: reads fall between a batch's executions and its requests' completions.
    if executions <= 0 or requests > 1.02 * executions:
        return {}
    mean = sum(execution_seconds(step) * step.values[Counter.EXECUTIONS] for step in steps) / executions
    return {round(total.values.get(Counter.INFERENCES, executions) / executions): (executions, mean)}


def _since(view: ModelView) -> Reading:
    """The version's share of its model's requests since its first one ÷ that over the window."""
    every = view.beside(view.model)
    for source in (STATISTICS, METRICS):
        own = [step for step in view.steps(source) if step.values.get(Counter.SUCCESS)]
        if own:
            steps = every.steps(source)
            later = increase([step for step in steps if step.end >= own[0].end], Counter.SUCCESS)
            requests = increase(own, Counter.SUCCESS)
            return Reading.of(increase(steps, Counter.SUCCESS) / later, Unit.RATIO, source, events=requests)
    return Reading.of(1.0, Unit.RATIO, STATISTICS)


def _from_comparison(
    unit: Unit, compute: Callable[[VersionComparison], float], idle: float
) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        found = compared(view)
        if found is Missing.IDLE:
            return Reading.of(idle, unit, STATISTICS)
        if isinstance(found, Missing):
            return Reading.unknown(found, unit)
        return Reading.of(compute(found), unit, found.source, events=found.executions)

    return read


VERSION_SLOWDOWN = Signal(
    name="version_slowdown",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Warm execution time of a version ÷ that of the one before it, at the batch sizes both executed; 1 alone.",
    fix=STATISTICS_FIX,
    readers=(_from_comparison(Unit.COUNT, lambda found: found.new / max(found.old, 1e-9), 1.0),),
)
VERSION_EXTRA_SECONDS = Signal(
    name="version_extra_seconds",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="Warm execution time of a version minus that of the one before it, at the batch sizes both executed.",
    readers=(_from_comparison(Unit.SECONDS, lambda found: found.new - found.old, 0.0),),
)


def _before(view: ModelView) -> Reading:
    found = compared(view)
    if isinstance(found, Missing) or decimal(found.before) is None:
        return Reading.of(0.0, Unit.COUNT, STATISTICS)
    return Reading.of(float(found.before), Unit.COUNT, found.source)


VERSION_BEFORE = Signal(
    name="version_before",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Number of the version that this one is compared with; 0 when it is the same one before a reload, or none.",
    readers=(_before,),
)
VERSION_SINCE = Signal(
    name="version_since_factor",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of its model's requests that a version answers since its first one ÷ that over the window; 1 all along.",
    readers=(_since,),
)
