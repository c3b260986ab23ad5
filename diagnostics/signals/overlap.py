"""Whether a model's executions hold each other up: those beside others take longer than those alone.

More instances share whatever they hold each other up on (a lock inside the framework or the interpreter, one thread
pool, one file), and then take longer in proportion.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Sequence

from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.signals.traces import ALL_TRACED, TRACED_SHARE, TRACES, executed_visits, mean_reading
from diagnostics.units import Unit
from diagnostics.window.view import STATISTICS, Step, View
from diagnostics.window.visits import NANOSECOND

Run = tuple[int, int]
# Overlap grows with the rate: below this factor between busy and quiet reads it hardly does.
_BUSIER = 1.3


def _from_traces(view: View) -> Reading:
    """Executions of the commonest batch that began beside another ÷ those that began alone; of the whole traffic."""
    if (TRACED_SHARE.read(view).value or 0.0) < ALL_TRACED:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, TRACES)
    sizes = Tally((visit.began or 0, visit.computed or 0) for visit in executed_visits(view))
    if not sizes:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, TRACES)
    (usual, _), *_ = Tally(sizes.values()).most_common(1)
    alone, beside = _parted(list(sizes), {run for run, size in sizes.items() if size == usual})
    if min(len(alone), len(beside)) < ENOUGH_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, TRACES)
    return mean_reading(beside, Unit.SECONDS, TRACES) / mean_reading(alone, Unit.SECONDS, TRACES)


def _parted(runs: Sequence[Run], counted: set[Run]) -> tuple[list[float], list[float]]:
    """Return the seconds of the counted executions that began alone, and of those that began beside another."""
    begins, ends = sorted(began for began, _ in runs), sorted(ended for _, ended in runs)
    alone, beside = list[float](), list[float]()
    for began, ended in counted:
        # An execution that begins as another ends is not beside it.
        running = bisect_left(begins, began) - bisect_left(ends, began + 1)
        (beside if running > 0 else alone).append((ended - began) * NANOSECOND)
    return alone, beside


def _from_statistics(view: View) -> Reading:
    """An execution's time over the busiest third of the reads ÷ over the quietest, of the commonest batch size.

    By the rate, which is not made by the execution's time as the number at once is.
    """
    instances = INSTANCES.read(view).value
    if instances is None or instances < 2:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, STATISTICS)
    steps = [step for step in view.steps(STATISTICS) if step.batches and step.end > step.start]
    sizes = Tally[int]()
    for step in steps:
        sizes.update({size: round(batch.executions) for size, batch in step.batches.items()})
    if not sizes:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, STATISTICS)
    (usual, _), *_ = sizes.most_common(1)
    ordered = sorted(steps, key=_executions_per_second)
    third = len(ordered) // 3
    return _compared(ordered[:third], ordered[-third:] if third else [], usual)


def _executions_per_second(step: Step) -> float:
    return sum(batch.executions for batch in step.batches.values()) / (step.end - step.start)


def _compared(quiet: Sequence[Step], busy: Sequence[Step], size: int) -> Reading:
    (few, short, slow_rate), (many, long, fast_rate) = _sums(quiet, size), _sums(busy, size)
    if min(few, many) < ENOUGH_EVENTS or fast_rate < _BUSIER * slow_rate or short <= 0:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, STATISTICS)
    return Reading.of((long / many) / (short / few), Unit.RATIO, STATISTICS, events=min(few, many))


def _sums(steps: Sequence[Step], size: int) -> tuple[float, float, float]:
    """Return executions of a batch size, their seconds, and all executions per second."""
    found = [step.batches[size] for step in steps if size in step.batches]
    seconds = sum(step.end - step.start for step in steps)
    everything = sum(batch.executions for step in steps for batch in step.batches.values())
    rate = everything / seconds if seconds else 0.0
    return sum(batch.executions for batch in found), sum(batch.seconds for batch in found), rate


OVERLAP_STRETCH = Signal(
    name="overlap_stretch",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="An execution's time beside others ÷ alone (traces of all requests), else at the busiest ÷ at the quietest "
    "reads: 1 where executions do not touch each other, 1.5 and more where they take turns.",
    readers=(_from_traces, _from_statistics),
)
