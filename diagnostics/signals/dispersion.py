"""How much a model's executions vary from read to read: whether they are long at times.

Counters carry sums, not the spread inside of a read. Where a standstill holds executions (garbage collection, a paused
container, a neighbour that starts each minute), reads that hold one have a longer mean than those beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from statistics import fmean, quantiles
from typing import NamedTuple

from diagnostics.signals.arrivals import FEWEST_BINS
from diagnostics.signals.counting import absent
from diagnostics.signals.executions import service_time
from diagnostics.signals.settings import executed
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.tails import TYPICAL_EXECUTION_SECONDS
from diagnostics.signals.triton import COMPUTE_SECONDS
from diagnostics.tuning.service import ServiceTime
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, CounterStep, ModelView

# One change of level, or a single long execution as of a cold start, makes two successive differences large at most.
_LEFT_OUT = 2
_NORMAL = 1.96


class _Executed(NamedTuple):
    """A read's executions: how many, and their time ÷ what batches of their sizes take on average."""

    executions: float
    stretch: float


def _by_read(view: ModelView) -> tuple[Sequence[_Executed], str]:
    return view.once(_executed_by_read)


def _executed_by_read(view: ModelView) -> tuple[Sequence[_Executed], str]:
    service = service_time(view)
    if service is None:
        return [], STATISTICS
    for source in (STATISTICS, METRICS):
        if found := [one for step in view.steps(source) if (one := _of(step, service))]:
            return found, source
    return [], STATISTICS


def _of(step: CounterStep, service: ServiceTime) -> _Executed | None:
    work = executed(step)
    if work is None or work[1] <= 0:
        return None
    seconds, executions = work
    sizes = [(float(size), batch.executions) for size, batch in step.batches.items()] or [(service.pivot, executions)]
    usual = sum(count * service.time(size) for size, count in sizes)
    return _Executed(executions, seconds / usual) if usual > 0 else None


def _dispersion(view: ModelView) -> Reading:
    """Return the squared coefficient of variation of one execution, by the differences of successive reads.

    The mean of n executions varies by a part in n of what one does (von Neumann 1941 for differences). The interval is
    that of chi-squared, by Wilson and Hilferty 1931.
    """
    reads, source = _by_read(view)
    if len(reads) < FEWEST_BINS:
        return _too_few(view, reads, source, Unit.COUNT)
    squares = sorted(
        (after.stretch - before.stretch) ** 2 / (1 / before.executions + 1 / after.executions)
        for before, after in pairwise(reads)
    )[:-_LEFT_OUT]
    value, count = fmean(squares), len(squares)
    spread = 2 * (3 * count - 1) / (18 * count**2)  # 2 ÷ 9 degrees of freedom, of differences that overlap
    low, high = (value / (1 - spread + sign * _NORMAL * sqrt(spread)) ** 3 for sign in (1, -1))
    return Reading.of(value, Unit.COUNT, source, low=low, high=high, events=sum(one.executions for one in reads))


def _undisturbed(view: ModelView) -> Reading:
    reads, source = _by_read(view)
    if len(reads) < FEWEST_BINS:
        return _too_few(view, reads, source, Unit.RATIO)
    shortest, *_ = quantiles((one.stretch for one in reads), n=4)
    return Reading.of(min(shortest, 1.0), Unit.RATIO, source, estimated=True, events=len(reads))


def _typical_share(view: ModelView) -> Reading:
    """Return the same by single times, which show it however few the reads are."""
    typical, mean = TYPICAL_EXECUTION_SECONDS.read(view), COMPUTE_SECONDS.read(view)
    if typical.value is None or not mean.value:
        return Reading.unknown(typical.missing or mean.missing or Missing.IDLE, Unit.RATIO, typical.source)
    return Reading.of(min(typical.value / mean.value, 1.0), Unit.RATIO, typical.source, estimated=True)


def _too_few(view: ModelView, reads: Sequence[_Executed], source: str, unit: Unit) -> Reading:
    return Reading.unknown(Missing.TOO_FEW_EVENTS, unit, source) if reads else absent(view, source, unit)


EXECUTION_DISPERSION = Signal(
    name="execution_dispersion",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Squared coefficient of variation of an execution's time, by how its mean differs from read to read: 0 for a "
    "constant one, 1 for an exponential one. The two largest differences are left out.",
    readers=(_dispersion,),
    fix="find out whether all instances stand still at times: trace all requests (rate=1), and look at garbage "
    "collection, CPU limits, pauses of the container or the machine, I/O, and jobs that run now and then. Compare the "
    "inputs of long executions, too: some may be far larger, or of a shape that is compiled at its first use. More "
    "instances help only where one executes on while another is long",
)
UNDISTURBED_EXECUTION_SHARE = Signal(
    name="undisturbed_execution_share",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Time of an execution in the quarter of the reads in which executions are shortest ÷ its mean time; of too few "
    "reads the median of single executions ÷ the mean.",
    readers=(_undisturbed, _typical_share),
)
