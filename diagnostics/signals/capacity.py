"""How many of a model's configured instances execute: at once, while requests wait, and as processes that work.

A count on paper is not capacity. An instance whose execution never ends, or whose process is gone, executes nothing
and shows in no counter. What executes at once while requests wait is what there is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from diagnostics import names
from diagnostics.signals.counting import ENOUGH_EVENTS, absent
from diagnostics.signals.engine_rows import is_engine
from diagnostics.signals.flow import FAILED_REQUESTS
from diagnostics.signals.host import HOST, stub_cpu_seconds
from diagnostics.signals.occupied import executed
from diagnostics.signals.rate_limiter import RATE_LIMIT, ROUNDING
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.settings import BATCH_DELAY, CONFIGURATION, INSTANCES
from diagnostics.signals.signal import Read, Signal
from diagnostics.signals.subject import Scope
from diagnostics.signals.traces import TRACES, executed_visits
from diagnostics.signals.triton import QUEUE_SECONDS
from diagnostics.tuning.service import DISPATCH_GAP
from diagnostics.units import Unit
from diagnostics.window.gauges import Gauge
from diagnostics.window.openings import SAME_ROUND_SECONDS
from diagnostics.window.view import METRICS, STATISTICS, CounterStep, ModelView
from diagnostics.window.visits import NANOSECOND

# Instances that all have work share it by chance, over a hundred executions to a third. One that spends under a tenth
# of its busiest neighbour's processor time is of another kind than that one: one of the two does not execute.
_ANOTHER_KIND = 0.1
# Kernels count a process's time in hundredths of a second. One that only waits uses one or two for its own upkeep.
_LEAST_CPU_SECONDS = 0.05
# A free instance begins within 0.3 ms. Requests that wait for longer than this had none.
_NONE_FREE = 0.002
# Executions at once are told to be those of k instances up to here: gaps between them take up to a tenth.
_NEAR = 0.1
# Fewer lost ones of many are not told from gaps between executions that are longer than usual.
_LOST_PART = 0.2
# So many executions of independent instances would have overlapped: that none did happens once in 150 windows (e^-5).
_EXPECTED_OVERLAPS = 5.0
# Two pages of one round are read one after the other: a tenth of a round between them is not another round.
_SAME_ROUND_PART = 0.1


def _steps(view: ModelView) -> tuple[list[tuple[CounterStep, float, float]], str]:
    """Return the steps with executions, their seconds and number, and the source: statistics before metrics."""
    for source in (STATISTICS, METRICS):
        found = [(step, *work) for step in view.steps(source) if (work := executed(step)) is not None]
        if found:
            return found, source
    return [], STATISTICS


def _most_at_once(view: ModelView) -> Reading:
    """The largest number over the reads; an execution that ends in a step may have begun before it."""
    steps, source = _steps(view)
    if not steps:
        return absent(view, source, Unit.COUNT)
    if sum(number for _, _, number in steps) < ENOUGH_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.COUNT, source)
    least = max(seconds / (step.seconds + seconds / number) for step, seconds, number in steps)
    most = max((seconds + number * DISPATCH_GAP) / step.seconds for step, seconds, number in steps)
    traced = _most_traced(view)
    if traced > least:
        return Reading.of(float(traced), Unit.COUNT, TRACES, high=max(most, traced), events=len(steps))
    return Reading.of(most, Unit.COUNT, source, low=least, high=most, events=len(steps))


def _most_traced(view: ModelView) -> int:
    """Return the most executions that are traced at once: a bound from below, as not every request is traced."""
    runs = {(visit.began or 0, visit.computed or 0) for visit in executed_visits(view)}
    # One that begins as another ends is not beside it.
    changes = sorted([(began, 1) for began, _ in runs] + [(ended, -1) for _, ended in runs])
    return max(accumulate(change for _, change in changes), default=0)


def _while_waiting(view: ModelView) -> Reading:
    """Executions at once over the steps whose first read saw more requests wait than the step executed.

    Then some waited all the time: what was free had work. The dispatch gap counts as execution.
    """
    steps, source = _steps(view)
    pending = view.pending()
    if not pending:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    held = list(_backlogged(view, steps, pending))
    number, seconds = sum(one[2] for one in held), sum(one[0].seconds for one in held)
    if number < ENOUGH_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.COUNT, source)
    work = sum(one[1] for one in held)
    value, edge = (work + number * DISPATCH_GAP) / seconds, work / number * len(held) / seconds
    return Reading.of(
        value,
        Unit.COUNT,
        f"{METRICS} and {source}" if source != METRICS else METRICS,
        low=value / (1 + edge),
        high=value * (1 + edge),
        events=number,
        span=seconds,
    )


def _backlogged(
    view: ModelView, steps: Sequence[tuple[CounterStep, float, float]], pending: Gauge
) -> Iterator[tuple[CounterStep, float, float]]:
    times = [at for at, _ in pending]
    largest = max(view.config.max_batch_size, 1) if view.config else 1
    for step, seconds, number in steps:
        position = bisect_left(times, step.start - max(SAME_ROUND_SECONDS, _SAME_ROUND_PART * step.seconds))
        at, waiting = pending[min(position, len(times) - 1)]
        same_round = abs(at - step.start) <= max(SAME_ROUND_SECONDS, _SAME_ROUND_PART * step.seconds)
        if same_round and waiting >= number * largest:
            yield step, seconds, number


def _idle_stubs(view: ModelView) -> Reading:
    """Configured instances − stubs of the model that execute, by what each spends of processors."""
    instances = INSTANCES.read(view).value
    spent = stub_cpu_seconds(view)
    if view.config is None or view.config.backend != names.PYTHON_BACKEND or instances is None or spent is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, HOST)
    most = max(spent, default=0.0)
    if most < _LEAST_CPU_SECONDS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.COUNT, HOST)
    least = [seconds for seconds in spent if seconds < _ANOTHER_KIND * most]
    # Where those that spend least still work, those that spend most spin without ever coming back.
    working = len(least) if max(least, default=0.0) >= _LEAST_CPU_SECONDS else len(spent) - len(least)
    return Reading.of(max(instances - working, 0.0), Unit.COUNT, HOST, events=len(spent))


def _processes(view: ModelView) -> Reading:
    spent = stub_cpu_seconds(view)
    if view.config is None or view.config.backend != names.PYTHON_BACKEND or spent is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, HOST)
    return Reading.of(len(spent), Unit.COUNT, HOST)


def _lost(view: ModelView, count: Callable[[ModelView, float], Reading]) -> Reading:
    """Return how many instances execute nothing while requests wait for one; none where more go on at once."""
    instances, limit = INSTANCES.read(view), RATE_LIMIT.read(view)
    if instances.value is None or view.config is None or limit.value is None:
        return Reading.unknown(instances.missing or Missing.NOT_EXPORTED, Unit.COUNT, CONFIGURATION)
    queue, delay = QUEUE_SECONDS.read(view), BATCH_DELAY.read(view).value or 0.0
    if queue.value is None:
        return Reading.unknown(queue.missing or Missing.NOT_EXPORTED, Unit.COUNT, queue.source)
    tied = view.config.sequence_batching or is_engine(view) or limit.value < instances.value
    if instances.value < 2 or tied or queue.value - delay < _NONE_FREE:
        return Reading.of(0.0, Unit.COUNT, CONFIGURATION)
    if _perhaps_lowered(view, instances.value):
        return Reading.unknown(Missing.CONFLICTING, Unit.COUNT, f"{CONFIGURATION} and {HOST}")
    found, most = count(view, instances.value), MOST_AT_ONCE.read(view)
    if found.value is None or most.low is None:
        return Reading.unknown(found.missing or Missing.TOO_FEW_EVENTS, Unit.COUNT, found.source)
    left = instances.value - found.value
    return found if left >= 1 and most.low <= left * ROUNDING else Reading.of(0.0, Unit.COUNT, most.source)


def _perhaps_lowered(view: ModelView, instances: float) -> bool:
    """Return whether fewer processes are there than are configured, and no request fails.

    One that was killed fails about a request a second (measured on 24.10): the count was lowered since it was read.
    """
    there = INSTANCE_PROCESSES.read(view).value
    return there is not None and 0 < there < instances and FAILED_REQUESTS.read(view).value == 0


def _lost_by_processes(view: ModelView) -> Reading:
    """By the second half of the span, as the processes are: one that hangs may have worked before."""
    if (INSTANCES.read(view).value or 0.0) < 2:
        return Reading.of(0.0, Unit.COUNT, CONFIGURATION)
    middle = (view.start + view.end) / 2
    return _lost(replace(view, start=middle, _beside={}), lambda _, __: IDLE_STUBS.read(view))


def _lost_by_backlog(view: ModelView) -> Reading:
    """Configured instances − executions at once while requests waited, where that is a whole number, clearly less."""

    def count(view: ModelView, instances: float) -> Reading:
        at_once = EXECUTING_WHILE_WAITING.read(view)
        if at_once.value is None:
            return at_once
        left = float(round(at_once.value))
        if instances - at_once.value < max(1.0 - _NEAR, _LOST_PART * instances):
            return Reading.of(0.0, Unit.COUNT, at_once.source)
        if left < 1 or abs(at_once.value - left) > _NEAR:
            return Reading.unknown(Missing.CONFLICTING, Unit.COUNT, at_once.source)
        return Reading.of(instances - left, Unit.COUNT, at_once.source, estimated=True, events=at_once.events)

    return _lost(view, count)


def _lost_by_traces(view: ModelView) -> Reading:
    """All instances but one, where no two traced executions overlap though several would have by chance."""

    def count(view: ModelView, instances: float) -> Reading:
        visits = executed_visits(view)
        runs = {(visit.began or 0, visit.computed or 0) for visit in visits}
        busy = sum(ended - began for began, ended in runs) * NANOSECOND
        expected = len(runs) * busy / view.seconds if view.seconds else 0.0
        if expected < _EXPECTED_OVERLAPS:
            return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.COUNT, TRACES)
        alone = _most_traced(view) == 1
        return Reading.of(instances - 1.0 if alone else 0.0, Unit.COUNT, TRACES, estimated=True, events=len(runs))

    return _lost(view, count)


def _signal(name: str, doc: str, *readers: Read, fix: str = "") -> Signal:
    return Signal(name=name, unit=Unit.COUNT, scope=Scope.MODEL, doc=doc, readers=readers, fix=fix)


MOST_AT_ONCE = _signal(
    "most_executions_at_once",
    "The largest number of executions at once, as means between two reads, or as traced where that is more.",
    _most_at_once,
)
EXECUTING_WHILE_WAITING = _signal(
    "executing_while_waiting",
    "Executions at once over the time in which requests waited all along: the instances that there really are.",
    _while_waiting,
)
LOST_INSTANCES = _signal(
    "lost_instances",
    "Instances that execute nothing while requests wait for one: processes that do not work, else those that are "
    "missing among the executions at once.",
    _lost_by_processes,
    _lost_by_backlog,
    _lost_by_traces,
)
INSTANCE_PROCESSES = _signal(
    "instance_processes", "Processes of a Python model's instances at the last sample of the host.", _processes
)
IDLE_STUBS = _signal(
    "instances_without_work",
    "Configured instances of a Python model − its processes that work: hung or gone ones use no processor time.",
    _idle_stubs,
    fix="run on the server's machine, so that its processes can be read",
)
