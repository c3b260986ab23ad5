"""Processes of a Python model's instances that are gone, as the failures of requests alone show it.

Triton goes on giving requests to such an instance. Each is failed when its process has not answered for a second, and
the instance takes the next. So failures come evenly, at most one a second and instance, whatever the load is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from math import ceil, sqrt

from diagnostics import names
from diagnostics.signals.counting import absent
from diagnostics.signals.settings import CONFIGURATION, INSTANCES
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, CounterStep, ModelView, increase

# After this long without a sign of life a request is failed: "Stub process ... is not healthy" (python_backend,
# `python_be.cc`). Measured on 24.10: 0.97 to 1.00 failures a second while requests wait, 0.91 at 15 requests a second.
TIMEOUT_SECONDS = 1.0
# Reads are timed to some milliseconds, so that a pace may look a little faster than it is.
_TIMING = 1.02
# The share of its time for which such an instance holds a request at least: the rest it waits for the next one.
_LEAST_HELD = 0.8
# Ten failures state a pace to a tenth where they come evenly.
_ENOUGH_FAILURES = 10
# Below this, a chi-square variable of many degrees of freedom lies once in a hundred times, in standard deviations.
_ONE_IN_A_HUNDRED = -2.326
# From so many steps on, the spread between them separates an even pace from a random one.
_ENOUGH_STEPS = 4


def failing_since(view: ModelView) -> float | None:
    """Return the Unix second of the read that first saw a request fail by itself; None where none did."""
    steps = next((found for source in (METRICS, STATISTICS) if (found := _from_first_failure(view, source))), None)
    return steps[0].end if steps else None


def _from_first_failure(view: ModelView, source: str) -> list[CounterStep]:
    return list(dropwhile(lambda step: _failed(step) <= 0, view.steps(source)))


def _failed(step: CounterStep) -> float:
    """Return the failures that are neither refusals nor requests that callers gave up."""
    others = step.values.get(Counter.REJECTED, 0.0) + step.values.get(Counter.CANCELED, 0.0)
    return step.values.get(Counter.FAILURE, 0.0) - others


def _gone(view: ModelView) -> Reading:
    instances = INSTANCES.read(view).value
    if view.config is None or instances is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, CONFIGURATION)
    if view.config.backend != names.PYTHON_BACKEND:
        return Reading.of(0.0, Unit.COUNT, CONFIGURATION)
    for source in (METRICS, STATISTICS):
        steps = _from_first_failure(view, source)[1:]  # they began inside the first one
        if steps:
            return _by_pace(steps, instances, source)
    return absent(view, METRICS, Unit.COUNT)


def _by_pace(steps: Sequence[CounterStep], instances: float, source: str) -> Reading:
    """All requests of a batch fail together: a mean batch of what was served counts as one failure."""
    served, executed = (increase(steps, one) for one in (Counter.SUCCESS, Counter.EXECUTIONS))
    together = max(served / executed, 1.0) if executed else 1.0
    seconds = sum(step.seconds for step in steps)
    failed = [_failed(step) / together for step in steps]
    if len(steps) < _ENOUGH_STEPS or sum(failed) < _ENOUGH_FAILURES:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.COUNT, source)
    held = sum(failed) * TIMEOUT_SECONDS / seconds
    gone = float(ceil(held / _TIMING))
    # The last ones are only gone where nothing is served any more.
    possible = gone < instances or (gone == instances and not served)
    if not possible or held < _LEAST_HELD * gone or not _evenly(failed, [step.seconds for step in steps]):
        gone = 0.0
    return Reading.of(gone, Unit.COUNT, source, estimated=True, events=sum(failed), span=seconds)


def _evenly(counts: Sequence[float], seconds: Sequence[float]) -> bool:
    """Return whether counts spread less than those of a Poisson process do in 99 of 100 cases.

    Σ (count − expected)² ÷ expected is chi-square then; its quantile is that of Wilson and Hilferty (1931).
    """
    pace, freedom = sum(counts) / sum(seconds), len(counts) - 1
    spread = sum((count - pace * length) ** 2 / (pace * length) for count, length in zip(counts, seconds, strict=True))
    variance = 2 / (9 * freedom)
    return spread < freedom * (1 - variance + _ONE_IN_A_HUNDRED * sqrt(variance)) ** 3


GONE_PROCESSES = Signal(
    name="processes_gone",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Instances of a Python model that fail about one request a second each, evenly: as those do whose process is "
    "gone.",
    readers=(_gone,),
)
