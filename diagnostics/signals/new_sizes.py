"""Executions that are slow because they are the first of their batch size: a compiler or tuner works once per shape.

Statistics count executions by batch size since the load. A size that was never executed before shows when its first
execution was, and later ones of the same size show what it takes otherwise. Widths of inputs are in no counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles

from diagnostics.signals.counting import absent
from diagnostics.signals.lifecycle import COLD_FACTOR
from diagnostics.signals.signal import Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.counters import CounterTable
from diagnostics.window.view import STATISTICS, Counter, CounterStep, ModelView, increase

# One slow execution at a new size may be anything's; a second one at another new size is no coincidence with the first.
_FEWEST_SIZES = 2
# Of all that executions are longer than usual, so much must be at first ones: the rest is not theirs.
_MOST_OF_IT = 0.5


@dataclass(frozen=True, slots=True)
class _First:
    """The first execution of a batch size since the load: when, how long it took, and what later ones take."""

    size: int
    step: CounterStep
    seconds: float
    usual: float

    @property
    def slow(self) -> bool:
        return self.seconds > COLD_FACTOR * self.usual


def _firsts(view: ModelView) -> Sequence[_First]:
    """Return the slow first executions; none where they are few, or executions are as slow at other times."""
    return view.once(_found)


def _found(view: ModelView) -> Sequence[_First]:
    slow, elsewhere = [], 0.0
    for table in view.tables(STATISTICS):
        steps = _epoch(table, view)
        for size in sorted({size for step in steps for size in step.batches}):
            own = [step for step in steps if size in step.batches]
            first = _first_of(size, own, table)
            slow += [first] if first is not None and first.slow else []
            usual = _usual(size, own if first is None else own[1:])
            elsewhere += sum(_beyond(step, size, usual) for step in (own if first is None else own[1:]))
    excess = sum(one.seconds - one.usual for one in slow)
    return slow if len(slow) >= _FEWEST_SIZES and excess >= _MOST_OF_IT * (excess + elsewhere) else []


def _epoch(table: CounterTable, view: ModelView) -> Sequence[CounterStep]:
    """Return the steps of the newest epoch that have executions by size."""
    steps = table.inside(view.start, view.end)
    begun = max((number for number, step in enumerate(steps) if step.opens), default=0)
    return [step for step in steps[begun:] if any(batch.executions for batch in step.batches.values())]


def _first_of(size: int, own: Sequence[CounterStep], table: CounterTable) -> _First | None:
    """Return the first execution of a size; None where it was before these steps, or none came later to compare."""
    counted = table.last.batches.get(size) if table.last is not None else None
    before = (counted.executions if counted else 0.0) - sum(step.batches[size].executions for step in own)
    if before > 0 or counted is None or len(own) < 2:
        return None
    batch, usual = own[0].batches[size], _usual(size, own[1:])
    return _First(size, own[0], batch.seconds - (batch.executions - 1) * usual, usual)


def _usual(size: int, own: Sequence[CounterStep]) -> float:
    """Return the lower quartile of the mean time of a size's executions by read; 0 without any."""
    times = [step.batches[size].seconds / step.batches[size].executions for step in own]
    return quantiles(times, n=4)[0] if len(times) >= 4 else min(times, default=0.0)


def _beyond(step: CounterStep, size: int, usual: float) -> float:
    """Return by how many seconds executions of a size are longer than usual in a read, where that is much."""
    batch = step.batches[size]
    longer = batch.seconds - batch.executions * usual
    return longer if longer > (COLD_FACTOR - 1.0) * usual else 0.0


def _requests(view: ModelView) -> float:
    return increase(view.steps(STATISTICS), Counter.SUCCESS)


def _slowdown(view: ModelView, found: Sequence[_First]) -> float:  # noqa: ARG001
    return sum(one.seconds for one in found) / max(sum(one.usual for one in found), 1e-9)


def _compute(view: ModelView, found: Sequence[_First]) -> float:
    """Return the excess of first executions per request of the span: all requests of a batch take part in it."""
    delta = view.delta(STATISTICS)
    items = delta.values.get(Counter.INFERENCES, 0.0) if delta else 0.0
    together = sum((one.seconds - one.usual) * one.size for one in found)
    return together / items if items > 0 else 0.0


def _queue(view: ModelView, found: Sequence[_First]) -> float:
    """Return the queue above the usual one in the reads of first executions and right after them, per request."""
    steps = [step for step in view.steps(STATISTICS) if step.values.get(Counter.SUCCESS, 0.0) > 0]
    each = [step.values.get(Counter.QUEUE_SECONDS, 0.0) / step.values[Counter.SUCCESS] for step in steps]
    usual = quantiles(each, n=4)[0] if len(each) >= 4 else min(each, default=0.0)
    requests = _requests(view)
    return sum(_waited(steps, found, usual)) / requests if requests > 0 else 0.0


def _waited(steps: Sequence[CounterStep], found: Sequence[_First], usual: float) -> Iterator[float]:
    first = {one.step.end for one in found}
    for number, step in enumerate(steps):
        if step.end in first or (number and steps[number - 1].end in first):
            yield max(step.values.get(Counter.QUEUE_SECONDS, 0.0) - usual * step.values[Counter.SUCCESS], 0.0)


def _signal(name: str, unit: Unit, doc: str, compute: Callable[[ModelView, Sequence[_First]], float]) -> Signal:
    def read(view: ModelView) -> Reading:
        if not any(step.batches for step in view.steps(STATISTICS)):
            return absent(view, STATISTICS, unit)
        found = _firsts(view)
        return Reading.of(compute(view, found) if found else 0.0, unit, STATISTICS, events=_requests(view))

    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=(read,))


NEW_SIZE_SLOWDOWN = _signal(
    "new_size_slowdown",
    Unit.COUNT,
    "Time of executions that are the first of their batch size since the load ÷ that of later ones of the same sizes; "
    "0 where fewer than two were slow, or as much is lost at other times.",
    _slowdown,
)
NEW_SIZES = _signal(
    "new_sizes",
    Unit.COUNT,
    "Batch sizes whose first execution was slow.",
    lambda _, found: float(len(found)),
)
LARGEST_NEW_SIZE = _signal(
    "largest_new_size",
    Unit.COUNT,
    "The largest batch size whose first execution was slow.",
    lambda _, found: float(max(one.size for one in found)),
)
NEW_SIZE_SECONDS = _signal(
    "new_size_seconds",
    Unit.SECONDS,
    "Mean time of the executions that were slow as the first of their batch size.",
    lambda _, found: sum(one.seconds for one in found) / len(found),
)
NEW_SIZE_COMPUTE_SECONDS = _signal(
    "new_size_compute_seconds",
    Unit.SECONDS,
    "Execution time of first executions of batch sizes above that of later ones, per request.",
    _compute,
)
NEW_SIZE_QUEUE_SECONDS = _signal(
    "new_size_queue_seconds",
    Unit.SECONDS,
    "Queue time above the usual one while first executions of batch sizes last, per request.",
    _queue,
)
