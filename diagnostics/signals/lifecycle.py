"""What happened since a version was loaded: slow first executions, and what they cost the requests that met them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from diagnostics.signals.counting import disorder
from diagnostics.signals.settings import CONFIG_FIX, INSTANCES
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.counters import Opened
from diagnostics.window.lifecycle import Happened
from diagnostics.window.view import METRICS, STATISTICS, Counter, CounterStep, ModelView, increase

# A stretch is cold while executions take more than twice the steady time: mixed with warm ones in the same read, a
# cold execution still raises the mean, and twice is beyond what batch size and load move it by.
COLD_FACTOR = 2.0
# Among so many steps one that is less than twice as slow as the others moves their mean by less than a fifth.
_MANY_STEPS = 6
_LOADS = (Happened.LOADED, Happened.RELOADED)


@dataclass(frozen=True, slots=True)
class _Start:
    """The steps since the first execution of a version, and how many of them were cold.

    `again` is what executions lost that were slow once it was warm, in units of what its first ones lost.
    """

    steps: Sequence[CounterStep]
    cold: int
    steady_execution: float
    slowdown: float
    again: float
    source: str


def execution_seconds(step: CounterStep) -> float:
    """Return the mean seconds of an execution in a step that worked; from requests where there is no batch table."""
    if step.batches:
        executions = sum(batch.executions for batch in step.batches.values())
        return sum(batch.seconds for batch in step.batches.values()) / executions
    return step.values[Counter.INFER_SECONDS] / step.values[Counter.SUCCESS]


def worked(step: CounterStep) -> bool:
    """Return whether a step has executions whose time is known."""
    return (
        step.values.get(Counter.EXECUTIONS, 0.0) > 0
        and step.values.get(Counter.SUCCESS, 0.0) > 0
        and Counter.INFER_SECONDS in step.values
    )


def is_first(step: CounterStep) -> bool:
    """Return whether a step that worked holds the first executions since loading, also long after it."""
    return step.opens or step.from_zero


def _start(view: ModelView) -> _Start | Missing:
    for source in (STATISTICS, METRICS):
        steps = view.steps(source)
        if not any(worked(step) for step in steps):
            continue
        if not [step for step in steps if step.from_zero]:  # nearly always
            return Missing.IDLE
        steps = [step for step in steps if worked(step)]
        first = next((i for i, step in enumerate(steps) if step.from_zero and step.opened is not Opened.RESET), None)
        if first is None:
            first = next((i for i, step in enumerate(steps) if step.from_zero), None)
        if first is None:
            return Missing.IDLE
        return _measured(steps[first:], source)
    disordered = disorder(view, STATISTICS) or disorder(view, METRICS)
    counted = [step for source in (STATISTICS, METRICS) for step in view.steps(source)]
    if counted and not disordered and not any(step.from_zero for step in counted):
        return Missing.IDLE  # whatever its first executions took, they were before
    return disordered or Missing.NOT_EXPORTED


def _measured(steps: Sequence[CounterStep], source: str) -> _Start | Missing:
    if len(steps) < 3:
        return Missing.TOO_FEW_EVENTS
    steady = _low_quartile([execution_seconds(step) for step in steps])
    slowness = _slowness(steps, steady)
    cold = next((i for i, times in enumerate(slowness) if times <= COLD_FACTOR), len(steps))
    lost = [
        max(execution_seconds(step) - steady, 0.0) * step.values[Counter.EXECUTIONS] if times > COLD_FACTOR else 0.0
        for step, times in zip(steps, slowness, strict=True)
    ]
    again = sum(lost[cold:]) / lost[0] if lost[0] > 0 else 0.0
    return _Start(steps, cold, steady, slowness[0], again, source)


def _slowness(steps: Sequence[CounterStep], steady: float) -> list[float]:
    """Return how many times as long as it should have each step's executions took, at the sizes of their batches.

    Batches behind a backlog are larger: each size is compared with itself, and one that was not seen later may take
    longer in proportion to its items, which is the most that any size does, and no longer than as many items or more
    took meanwhile. The sizes that were seen also count alone.
    """
    seen: dict[int, list[float]] = {}
    for step in steps[1:]:
        for size, batch in step.batches.items():
            seen.setdefault(size, []).append(batch.seconds / batch.executions)
    by_size = {size: _low_quartile(times) for size, times in seen.items()}
    usual = median(map(_items, steps[1:]))

    def most(items: float) -> float:
        return steady * max(items / usual, 1.0)

    def slowness(step: CounterStep) -> float:
        if not step.batches:
            return execution_seconds(step) / max(most(_items(step)), 1e-9)
        should = {size: by_size.get(size, min(most(size), _took(step, size))) for size in step.batches}
        return max(_ratio(step, should), _ratio(step, by_size))

    return [slowness(step) for step in steps]


def _took(step: CounterStep, items: int) -> float:
    """Return the shortest mean time that executions of so many items or more took in a step: cold or not, no less."""
    return min(batch.seconds / batch.executions for size, batch in step.batches.items() if size >= items)


def _ratio(step: CounterStep, should: Mapping[int, float]) -> float:
    """Return the time of the executions at some sizes ÷ what they should take; 0 without any at these sizes."""
    batches = [(batch, should[size]) for size, batch in step.batches.items() if size in should]
    expected = sum(batch.executions * seconds for batch, seconds in batches)
    return sum(batch.seconds for batch, _ in batches) / expected if expected > 0 else 0.0


def _items(step: CounterStep) -> float:
    """Return the mean items per execution; 1 where they are not counted."""
    return max(step.values.get(Counter.INFERENCES, 0.0) / step.values[Counter.EXECUTIONS], 1.0)


def warm_steps(steps: Sequence[CounterStep]) -> Sequence[CounterStep]:
    """Return the steps of one epoch from where executions are no longer cold; few steps are returned as they are.

    Of few steps the first since loading is left out where others follow: it counts the samples of a warm-up as well.
    """
    if 1 < len(steps) < _MANY_STEPS and is_first(steps[0]):
        steps = steps[1:]
    if len(steps) < 3:
        return steps
    steady = _low_quartile([execution_seconds(step) for step in steps])
    cold = next((i for i, s in enumerate(steps) if execution_seconds(s) <= COLD_FACTOR * steady), 0)
    return steps[cold:]


def _low_quartile(values: Sequence[float]) -> float:
    return quantiles(values, n=4)[0] if len(values) >= 4 else min(values)


def _from_start(unit: Unit, compute: Callable[[_Start], float]) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        start = _start(view)
        if start is Missing.IDLE:
            return Reading.of(0.0, unit, STATISTICS)
        if isinstance(start, Missing):
            return Reading.unknown(start, unit)
        events = sum(step.values[Counter.EXECUTIONS] for step in start.steps[: max(start.cold, 1)])
        span = sum(step.seconds for step in start.steps)
        return Reading.of(compute(start), unit, start.source, events=events, span=span)

    return read


def _first_execution(start: _Start) -> float:
    return execution_seconds(start.steps[0])


def _excess(start: _Start, counter: Counter, floor: float) -> float:
    """Seconds per request above the steady level while cold, over all requests since the first execution."""
    per_request = [step.values.get(counter, 0.0) / step.values[Counter.SUCCESS] for step in start.steps]
    steady = _low_quartile(per_request)
    excess = 0.0
    for i, step in enumerate(start.steps):
        if i >= start.cold and per_request[i] <= COLD_FACTOR * steady + floor:
            break
        excess += max(step.values.get(counter, 0.0) - step.values[Counter.SUCCESS] * steady, 0.0)
    return excess / increase(start.steps, Counter.SUCCESS)


# --- whether requests met them, or the samples of a warm-up

# What requests met shows again in how long they took: half of it at least, as another branch may hide the rest.
MET_SHARE = 0.5
# Ensembles count a request when its last step is done, which may be two reads later.
_LATER_READS = 2


def _met(view: ModelView) -> Reading:
    """Return 1 where requests met the slow first executions, 0 where only a warm-up can have, which Triton counts too.

    The callers' own requests show it. Without callers, a model without `model_warmup` has executed requests alone; with
    one, or without its configuration, requests that met slow executions kept others waiting in the queue.
    Source: Triton core, `backend_model_instance.cc`: statistics are collected for warm-up requests.
    """
    start = _start(view)
    if not isinstance(start, _Start) or not start.cold:
        return Reading.of(0.0, Unit.COUNT, STATISTICS)
    cold = _excess(start, Counter.INFER_SECONDS, 0.0) * increase(start.steps, Counter.SUCCESS)
    slower = _slower_callers(view, start)
    if slower is None and view.config is not None and not view.config.warmups:
        return Reading.of(1.0, Unit.COUNT, "configuration")
    if slower is None:
        slower = _excess(start, Counter.QUEUE_SECONDS, 0.001) * increase(start.steps, Counter.SUCCESS)
    return Reading.of(float(slower >= MET_SHARE * cold), Unit.COUNT, start.source)


def _slower_callers(view: ModelView, start: _Start) -> float | None:
    """Return by how many seconds requests of the ensembles that call a model were longer than usual meanwhile."""
    until = start.steps[min(start.cold - 1 + _LATER_READS, len(start.steps) - 1)].end
    since, found = start.steps[0].start, None
    for name, ensemble in view.server.graph.ensembles.items():
        steps = [s for s in view.beside(name).steps(start.source) if s.values.get(Counter.SUCCESS, 0.0) > 0]
        if view.model not in ensemble.models() or len(steps) < 3:
            continue
        usual = _low_quartile([s.values.get(Counter.REQUEST_SECONDS, 0.0) / s.values[Counter.SUCCESS] for s in steps])
        inside = [s for s in steps if s.end > since and s.start < until]
        longer = (s.values.get(Counter.REQUEST_SECONDS, 0.0) - usual * s.values[Counter.SUCCESS] for s in inside)
        found = (found or 0.0) + sum(longer)
    return found


# --- whether executions are as slow again, which no first one is


def _again(view: ModelView) -> Reading:
    """Return how often executions were as slow again as the first, for each that may be the first of something.

    Each instance has one first execution of each batch size after each load. The first read may hold several of them,
    so that this is rather too small.
    """
    start = _start(view)
    if not isinstance(start, _Start) or start.again < 1:
        return Reading.of(0.0, Unit.COUNT, STATISTICS)
    instances = INSTANCES.read(view)
    if instances.value is None:
        return instances
    sizes = len({size for step in start.steps for size in step.batches}) or 1
    since = start.steps[0].start
    loads = sum(change.kind in _LOADS and change.at > since for change in view.changes())
    firsts = max(instances.value, 1.0) * sizes * (1 + loads)
    return Reading.of(start.again / firsts, Unit.COUNT, start.source, estimated=True)


def _signal(name: str, unit: Unit, doc: str, compute: Callable[[_Start], float]) -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=(_from_start(unit, compute),))


COLD_SLOWDOWN = _signal(
    "cold_slowdown",
    Unit.COUNT,
    "Mean time of the first executions since loading ÷ the steady time at the same batch sizes; 0 when none was seen.",
    lambda start: start.slowdown,
)
COLD_EXECUTION_SECONDS = _signal(
    "cold_execution_seconds",
    Unit.SECONDS,
    "Mean time of the first executions since loading.",
    _first_execution,
)
STEADY_EXECUTION_SECONDS = _signal(
    "steady_execution_seconds",
    Unit.SECONDS,
    "Time of an execution once warm: the lower quartile over the reads since loading.",
    lambda start: start.steady_execution,
)
COLD_COMPUTE_SECONDS = _signal(
    "cold_compute_seconds",
    Unit.SECONDS,
    "Execution time above the steady level while cold, per request since loading.",
    lambda start: _excess(start, Counter.INFER_SECONDS, 0.0) if start.cold else 0.0,
)
COLD_QUEUE_SECONDS = _signal(
    "cold_queue_seconds",
    Unit.SECONDS,
    "Queue time above the steady level while cold and until the backlog is gone, per request since loading.",
    lambda start: _excess(start, Counter.QUEUE_SECONDS, 0.001) if start.cold else 0.0,
)
COLD_MET = Signal(
    name="cold_met_by_requests",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="1 when requests met the slow first executions; 0 when only a warm-up's samples, which count too, can have.",
    readers=(_met,),
)
COLD_AGAIN = Signal(
    name="cold_again",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="How often executions were as slow as the first ones once the version was warm, per instance, batch size and "
    "load: at most 1 for first executions; 0 when it stayed warm.",
    readers=(_again,),
    fix=CONFIG_FIX,
)
