"""Whether a model's executions hold each other up: those beside others take longer than those alone.

More instances share whatever they hold each other up on (a lock inside the framework or the interpreter, one thread
pool, one file), and then take longer in proportion.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from diagnostics.signals.arrivals import ArrivalBin, crowding
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.flow import IMPLAUSIBLE_STEPS
from diagnostics.signals.settings import INSTANCES, executed
from diagnostics.signals.signal import Missing, Read, Reading, Scope, Signal
from diagnostics.signals.traces import ALL_TRACED, TRACED_SHARE, TRACES, executed_visits, mean_reading
from diagnostics.units import Unit
from diagnostics.window.traces import NANOSECOND, TracedVisit
from diagnostics.window.view import METRICS, STATISTICS, CounterStep, ModelView

Run = tuple[int, int]
# A free instance begins within 0.3 ms: who waits so long found none.
_WAITED = 0.002
# Of two reads with thirty executions each, chance moves the mean of times that vary by half of it by a fifteenth.
_FEWEST_READS = 2
# The mean of ten differs from the mean of many by a third of the spread.
_FEWEST_OF_EACH = 10
# Overlap grows with the rate: below this factor between busy and quiet reads it hardly does.
_BUSIER = 1.3
# A lock that is held half of the time has as many executions in its line and under it as this (L = ρ ÷ (1 − ρ)). Below
# that its line is short, and hardly longer in one read than in the next while the rate stays.
_LINED_UP = 1.0

# Times that vary by half their mean make such a ratio by chance, of reads with thirty each.
_BY_CHANCE = 1.2
# Executions of a third of the reads differ by a tenth for many reasons.
_LONGER = 1.1
# A rank correlation that chance gives one time in twenty.
_LINKED = 1.64


def _from_traces(view: ModelView) -> Reading:
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


def _from_waits(view: ModelView) -> Reading:
    """Executions of requests that waited ÷ of those that did not; any part of the traffic shows it, without batches.

    A request that waited found all instances busy, and began as one of them was freed: beside all the others. One that
    did not wait found an instance free. Executions that get longer for another reason lengthen the queue, too: only
    those of the same half of the span are compared.
    """
    if not _one_at_a_time(view):
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, TRACES)
    middle = (view.start + view.end) / 2 / NANOSECOND
    visits = executed_visits(view)
    halves = ([one for one in visits if (one.start < middle) is first] for first in (True, False))
    return _least_of([_waited_and_not(half) for half in halves], TRACES)


def _least_of(halves: Sequence[Reading], source: str) -> Reading:
    """Return the smaller of the readings of both halves of a span; what one of them alone shows is estimated."""
    found = [one for one in halves if one.value is not None]
    if not found:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, source)
    least = min(found, key=lambda one: one.value or 0.0)
    return least if len(found) == len(halves) else msgspec.structs.replace(least, estimated=True)


def _one_at_a_time(view: ModelView) -> bool:
    """Return whether each of several instances executes one request after the other, whoever's."""
    config = view.config
    several = (INSTANCES.read(view).value or 0.0) >= 2
    return several and config is not None and config.dynamic_batching is None and not config.sequence_batching


def _waited_and_not(visits: Sequence[TracedVisit]) -> Reading:
    at_once, waited = list[float](), list[float]()
    for visit in visits:
        seconds = ((visit.computed or 0) - (visit.began or 0)) * NANOSECOND
        (waited if (visit.queue_seconds or 0.0) >= _WAITED else at_once).append(seconds)
    if min(len(at_once), len(waited)) < _FEWEST_OF_EACH:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, TRACES)
    return mean_reading(waited, Unit.SECONDS, TRACES) / mean_reading(at_once, Unit.SECONDS, TRACES)


def _from_occupancy(source: str) -> Read:
    """Return a reader of an execution's time over the reads with most executions at once ÷ over those with fewest.

    A read in which executions happened to be long has more at once by that alone. Where each read holds thirty, that
    makes a ratio of 1.2 at most of times that vary by half their mean; without traces it is not known how they vary.
    """

    def read(view: ModelView) -> Reading:
        if not _one_at_a_time(view):
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, source)
        runs = [(step, *work) for step in view.steps(source) if (work := executed(step)) is not None]
        many = [one for one in runs if _is_informative(one[0]) and one[1] > 0 and one[2] >= ENOUGH_EVENTS]
        middle = (view.start + view.end) / 2
        halves = ([one for one in many if (one[0].end <= middle) is first] for first in (True, False))
        least = _least_of([_full_and_not(half, source) for half in halves], source)
        if least.value is None or not least.estimated:
            return msgspec.structs.replace(least, estimated=True)
        # What takes turns with so many others takes so many times as long at most.
        if not _BY_CHANCE < least.value <= (INSTANCES.read(view).value or 0.0):
            return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, source)
        # One half alone may hold the change that made them longer.
        return msgspec.structs.replace(least, low=1.0)

    return read


def _is_informative(step: CounterStep) -> bool:
    """Return whether executions of a step are comparable: the first since loading may be cold, or a warm-up's."""
    return step.end > step.start and not step.from_zero


def _full_and_not(runs: Sequence[tuple[CounterStep, float, float]], source: str) -> Reading:
    ordered = sorted((seconds / (step.end - step.start), seconds, number) for step, seconds, number in runs)
    third = len(ordered) // 3
    if third < _FEWEST_READS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, source)
    quiet, busy = _totals(ordered[:third]), _totals(ordered[-third:])
    if busy.at_once < _BUSIER * quiet.at_once or not _may_be_the_line(quiet, busy):
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, source)
    return Reading.of(busy.mean / quiet.mean, Unit.RATIO, source, events=min(quiet.number, busy.number))


def _may_be_the_line(quiet: _Totals, busy: _Totals) -> bool:
    """Return whether executions may be longer by those beside them; at the same rate, and with few, they are not.

    Then something else lengthens them for some seconds, as a process beside the server that takes its processors.
    """
    return busy.rate >= _BUSIER * quiet.rate or quiet.at_once >= _LINED_UP


class _Totals(NamedTuple):
    """Executions of some reads: how many at once on average, their mean seconds, their number, and their rate."""

    at_once: float
    mean: float
    number: float
    rate: float


def _totals(runs: Sequence[tuple[float, float, float]]) -> _Totals:
    span = sum(seconds / at_once for at_once, seconds, _ in runs)
    seconds, number = sum(seconds for _, seconds, _ in runs), sum(number for _, _, number in runs)
    return _Totals(at_once=seconds / span, mean=seconds / number, number=number, rate=number / span)


def _parted(runs: Sequence[Run], counted: set[Run]) -> tuple[list[float], list[float]]:
    """Return the seconds of the counted executions that began alone, and of those that began beside another."""
    begins, ends = sorted(began for began, _ in runs), sorted(ended for _, ended in runs)
    alone, beside = list[float](), list[float]()
    for began, ended in counted:
        # An execution that begins as another ends is not beside it.
        running = bisect_left(begins, began) - bisect_left(ends, began + 1)
        (beside if running > 0 else alone).append((ended - began) * NANOSECOND)
    return alone, beside


def _from_statistics(view: ModelView) -> Reading:
    """An execution's time over the busiest third of the reads ÷ over the quietest, of the commonest batch size.

    By the rate, which is not made by the execution's time as the number at once is.
    """
    instances = INSTANCES.read(view).value
    if instances is None or instances < 2:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, STATISTICS)
    steps = [step for step in view.steps(STATISTICS) if step.batches and _is_informative(step)]
    sizes = Tally[int]()
    for step in steps:
        sizes.update({size: round(batch.executions) for size, batch in step.batches.items()})
    if not sizes:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, STATISTICS)
    (usual, _), *_ = sizes.most_common(1)
    ordered = sorted(steps, key=_executions_per_second)
    third = len(ordered) // 3
    found = _compared(ordered[:third], ordered[-third:] if third else [], usual)
    if (found.value or 0.0) > _LONGER and not _goes_with_the_rate(ordered, usual):
        return Reading.unknown(Missing.CONFLICTING, Unit.RATIO, STATISTICS)
    return found


def _goes_with_the_rate(steps: Sequence[CounterStep], size: int) -> bool:
    """Return whether executions are longer in busier reads all along, not only in one third by chance.

    What another thing lengthens or shortens for a while, as a model away that they call, goes with the clock instead.
    """
    found = [(step, step.batches[size]) for step in steps if size in step.batches]
    bins = [ArrivalBin(step.seconds, _executions_per_second(step), one.seconds / one.executions) for step, one in found]
    linked = crowding(bins)
    return linked is None or linked.z >= _LINKED


def _executions_per_second(step: CounterStep) -> float:
    return sum(batch.executions for batch in step.batches.values()) / (step.end - step.start)


def _compared(quiet: Sequence[CounterStep], busy: Sequence[CounterStep], size: int) -> Reading:
    (few, short, slow_rate), (many, long, fast_rate) = _sums(quiet, size), _sums(busy, size)
    if min(few, many) < ENOUGH_EVENTS or fast_rate < _BUSIER * slow_rate or min(short, long) <= 0:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, STATISTICS)
    # A stall makes the executions of one read long: what company does it does in most of them.
    usual = _usual(busy, size) / _usual(quiet, size)
    return Reading.of(min((long / many) / (short / few), usual), Unit.RATIO, STATISTICS, events=min(few, many))


def _usual(steps: Sequence[CounterStep], size: int) -> float:
    """Return the middle one of the reads' mean executions of a batch size, in seconds."""
    found = [step.batches[size] for step in steps if size in step.batches]
    return median(batch.seconds / batch.executions for batch in found if min(batch.executions, batch.seconds) > 0)


def _sums(steps: Sequence[CounterStep], size: int) -> tuple[float, float, float]:
    """Return executions of a batch size, their seconds, and all executions per second."""
    found = [step.batches[size] for step in steps if size in step.batches]
    seconds = sum(step.end - step.start for step in steps)
    everything = sum(batch.executions for step in steps for batch in step.batches.values())
    rate = everything / seconds if seconds else 0.0
    return sum(batch.executions for batch in found), sum(batch.seconds for batch in found), rate


def _of_one_server(read: Read, source: str) -> Read:
    """Return a reader that compares reads only where none shows what no server counts: two replicas take turns then."""

    def of_one(view: ModelView) -> Reading:
        if IMPLAUSIBLE_STEPS.read(view).value:
            return Reading.unknown(Missing.CONFLICTING, Unit.RATIO, source)
        return read(view)

    return of_one


OVERLAP_STRETCH = Signal(
    name="overlap_stretch",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="An execution's time beside others ÷ alone (traces of all requests), else at the busiest ÷ at the quietest "
    "reads: 1 where executions do not touch each other, 1.5 and more where they take turns.",
    readers=(
        _from_traces,
        _from_waits,
        _of_one_server(_from_statistics, STATISTICS),
        *(_of_one_server(_from_occupancy(source), source) for source in (STATISTICS, METRICS)),
    ),
    fix="trace all requests (rate=1), or run one instance alone under load: an execution that is shorter then waits "
    "for what the instances share",
)
