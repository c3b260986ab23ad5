"""The rate limiter: how many instances the resources of their groups let execute at once, and how used these are.

It counts only where the server runs it (`--rate-limit=execution_count`), which its log says and nothing else. While
the instance that is first in line waits for a resource, no other instance of any model begins (core, `rate_limiter.cc`,
AttemptAllocation): requests then wait anywhere, for models that need no resource, too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import ceil

from diagnostics import names
from diagnostics.signals.counting import ENOUGH_EVENTS, absent
from diagnostics.signals.engine_samples import is_engine
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.gone_processes import GONE_PROCESSES, failing_since
from diagnostics.signals.host import HOST, stub_cpu_seconds
from diagnostics.signals.settings import BATCH_DELAY, CONFIGURATION, INSTANCES, executed
from diagnostics.signals.signal import Missing, Read, Reading, Scope, Signal
from diagnostics.signals.traces import TRACES, executed_visits
from diagnostics.signals.triton import QUEUE_SECONDS
from diagnostics.tuning.service import DISPATCH_GAP
from diagnostics.units import Unit
from diagnostics.window.counters import SAME_ROUND_SECONDS
from diagnostics.window.traces import NANOSECOND
from diagnostics.window.view import METRICS, STATISTICS, CounterStep, ModelView
from diagnostics.window.window import Gauge
from diagnostics.wire.model_config import InstanceGroup, LimiterResource, ModelConfig

# Of instances that never pause the time of executions was measured as up to 1.004 of the span.
ROUNDING = 1.02
_FIX = "keep the server's log: its table of options says whether the rate limiter is on"


def available(configs: Mapping[str, ModelConfig]) -> Mapping[str, int]:
    """Return how much of each resource there is, per device, as long as nobody says: the largest need of any instance.

    Source: core, `rate_limiter.cc`, ResourceManager::UpdateResourceLimits. `--rate-limit-resource` may give more.
    """
    most: dict[str, int] = {}
    for config in configs.values():
        for resource in _needs(config):
            most[resource.name] = max(most.get(resource.name, 0), resource.count)
    return most


def _needs(config: ModelConfig) -> Iterator[LimiterResource]:
    return (one for group in config.instance_groups if not group.passive for one in group.resources)


def _limit(view: ModelView) -> Reading:
    instances = INSTANCES.read(view)
    if view.config is None or instances.value is None:
        return instances
    if view.server.rate_limited is False or not any(group.resources for group in view.groups):
        return Reading.of(instances.value, Unit.COUNT, CONFIGURATION)
    most, times = available(view.server.configs), _times_as_much(view, _default_use(view))
    allowed = min(float(sum(_allowed(group, most) for group in view.groups)) * times, instances.value)
    unsure = view.server.rate_limited is None
    return Reading.of(
        allowed, Unit.COUNT, CONFIGURATION, high=instances.value if unsure else None, estimated=unsure or times > 1
    )


def _allowed(group: InstanceGroup, most: Mapping[str, int]) -> int:
    devices = max(len(group.gpus), 1)
    each = [most[one.name] // one.count * (1 if one.everywhere else devices) for one in group.resources]
    return min([group.count * devices, *each])


def _times_as_much(view: ModelView, use: Reading) -> int:
    """Return how many times the default there is of a resource, at the least: where the limiter is on, what is used.

    `--rate-limit-resource` sets it, and no endpoint reports it. Without a word that the limiter is on, more executions
    at once than it would allow by default show that it is off.
    """
    return max(ceil((use.value or 0.0) / ROUNDING), 1) if view.server.rate_limited else 1


def _use(view: ModelView) -> Reading:
    use = _default_use(view)
    return use if use.value is None else use / Reading.of(float(_times_as_much(view, use)), Unit.COUNT, use.source)


def _default_use(view: ModelView) -> Reading:
    """Σ over the models that need a resource of their executions at once × need ÷ what there is of it; the fullest."""
    if view.config is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, CONFIGURATION)
    own = {one.name for one in _needs(view.config)}
    if view.server.rate_limited is False or not own:
        return Reading.of(0.0, Unit.RATIO, CONFIGURATION)
    used = [_used(view, name, count) for name, count in available(view.server.configs).items() if name in own]
    known = [one for one in used if one.value is not None]
    return max(known, key=lambda one: one.value or 0.0) if known else used[0]


def _used(view: ModelView, name: str, count: int) -> Reading:
    total = Reading.of(0.0, Unit.RATIO, "")
    for model, config in view.server.configs.items():
        needs = [one for one in _needs(config) if one.name == name]
        if not needs:
            continue
        other = view.beside(model, view.version if model == view.model else None)
        at_once = INSTANCE_BUSY_SHARE.read(other) * INSTANCES.read(other)
        if at_once.value is None and model != view.model:
            continue
        devices = 1 if needs[0].everywhere else max(len(config.instance_groups[0].gpus), 1)
        share = Reading.of(min(one.count for one in needs) / (count * devices), Unit.RATIO, CONFIGURATION)
        total = total + at_once.with_unit(Unit.RATIO) * share
    return total


RATE_LIMIT = Signal(
    name="rate_limited_instances",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Instances that the rate limiter lets execute at once, by the resources that they need; all where none limits.",
    readers=(_limit,),
    fix=_FIX,
)
RATE_LIMIT_USE = Signal(
    name="rate_limiter_use",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of the time for which executions hold all that there is of a rate limiter's resource that the model "
    "needs; 0 where it needs none, or the limiter is off.",
    readers=(_use,),
)


# Instances that all have work share it by chance, over a hundred executions to a third. One that spends under a tenth
# of its busiest neighbour's processor time is of another kind than that one: one of the two does not execute.
_ANOTHER_KIND = 0.1
# Kernels count a process's time in hundredths of a second. One that only waits uses one or two for its own upkeep.
_LEAST_CPU_SECONDS = 0.05
# A free instance begins within 0.3 ms. Requests that wait for longer than this had none.
_NONE_FREE = 0.002
# Up to here, executions at once count as those of k instances: gaps between them take up to a tenth.
_NEAR = 0.1
# Fewer lost ones of many cannot be separated from gaps between executions that are longer than usual.
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
    """Return whether fewer processes are there than are configured, and no requests fail as those of a gone one do.

    One that was killed fails about a request a second (measured on 24.10): the count was lowered since it was read.
    Refusals and failures at another pace are no sign of it.
    """
    there = INSTANCE_PROCESSES.read(view).value
    if there is None or not 0 < there < instances:
        return False
    return failing_since(view) is None or GONE_PROCESSES.read(view).value == 0


def _lost_by_processes(view: ModelView) -> Reading:
    """By the second half of the span, as the processes are: one that hangs may have worked before."""
    if (INSTANCES.read(view).value or 0.0) < 2:
        return Reading.of(0.0, Unit.COUNT, CONFIGURATION)
    middle = (view.start + view.end) / 2
    return _lost(replace(view, start=middle, _beside={}), lambda _, __: IDLE_STUBS.read(view))


def _lost_by_failures(view: ModelView) -> Reading:
    """Those that fail a request a second, since they began to: the others work off what waits meanwhile."""
    since, gone = failing_since(view), GONE_PROCESSES.read(view)
    if since is None or not gone.value:
        return Reading.unknown(gone.missing or Missing.TOO_FEW_EVENTS, Unit.COUNT, gone.source)
    return _lost(replace(view, start=since, _beside={}), lambda _, __: gone)


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
    "Instances that execute nothing while requests wait for one: processes that do not work, else those that fail a "
    "request a second, else those that are missing among the executions at once.",
    _lost_by_processes,
    _lost_by_failures,
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
