"""One model as its scheduler sees it: service time, instances and batcher, as measured and configured."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import log
from statistics import fmean, median

from diagnostics import names
from diagnostics.evidence.capacity import (
    IN_USE,
    SERVICE_SCV,
    is_rate_limited,
    lost_instances,
    may_take_turns,
    take_turns,
)
from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.calling import ExecutionCalls, own_drift, own_part
from diagnostics.forecast.fitted import Interval, ModelDoubt, Unpredictable, drift, outcome_of
from diagnostics.forecast.traffic import execution_scv, visits
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import BATCH_SIZE, QUEUE_SECONDS, REQUEST_RATE
from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.simulation.scenario import (
    OVERTAKES,
    DynamicBatcher,
    Model,
    QueueDiscipline,
    Scenario,
    TimeoutAction,
)
from diagnostics.tuning.simulation.schedulers import prefetches
from diagnostics.units import Unit
from diagnostics.window.traces import TracedVisit
from diagnostics.wire.model_config import DynamicBatching, ModelConfig

# Where no trace shows how executions vary: from a tenth of the mean (kernels, sleeping stages) to as far above a
# quarter as that is below it.
_SCV_BOUNDS = (0.01, 0.36)
# The median share of the linear slope that batches of unseen sizes cost.
UNSEEN_SLOPE = 0.25
# A median of fewer is one visit's luck.
_FEWEST_IDLE = 5
_TENSORRT = ("tensorrt", "tensorrt_plan")


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedModel:
    """A fitted model: its scenario's part, what is not known of it, and what it rests on.

    `untold`: its instances are all busy, and nothing shows whether they work side by side.
    """

    model: Model
    doubt: ModelDoubt
    devices: tuple[int, ...]
    assumptions: tuple[str, ...]
    untold: bool = False


def member(evidence: Evidence, on: Subject, calls: ExecutionCalls) -> FittedModel:
    """Return a model's scheduler and service time: of one that makes `calls` from inside, its own part.

    Raises:
        Unpredictable: its configuration, its instances or its executions were not read, or its scheduler is another.

    """
    name, config = on.model or "", evidence.config(on)
    instances, service = evidence.read(INSTANCES, on).value, evidence.service_time(on)
    if config is None or instances is None:
        raise Unpredictable("its configuration was not read", where=f"model {name}", hint=_CONFIGURATION)
    _refuse(config)
    _refuse_what_is_held(evidence, on, calls)
    if service is None or service.executions <= 0:
        raise Unpredictable("no execution's time was read", where=f"model {name}", hint=_STATISTICS)
    service = _guessed(service)
    scv, bounds, stated = _variability(evidence, on, service.per_item)
    error = drift(evidence, on, EXECUTION_SECONDS, service)
    if calls.called:
        # How its executions vary is how its calls do.
        service, error = own_part(service, calls), own_drift(evidence, on, calls)
        scv, bounds, stated = SERVICE_SCV, _SCV_BOUNDS, (_holds(name, service, calls),)
    in_flight = 2 if {config.backend, config.platform} & set(_TENSORRT) else 1
    return FittedModel(
        model=Model(
            name=name,
            service=service,
            service_scv=scv,
            instances=max(round(instances), 1),
            max_batch=max(config.max_batch_size, 1),
            batcher=batcher_of(config.dynamic_batching),
            start_seconds=_start(evidence, on, service.dispatch_gap),
            in_flight=in_flight,
        ),
        doubt=ModelDoubt(
            service_scv=bounds,
            service_error=error,
            overtakes=OVERTAKES,
        ),
        devices=devices_of(config, round(instances)),
        assumptions=(*stated, *([_OVERLAPPING.format(name)] if in_flight > 1 else [])),
        untold=not calls.called and _is_busy(evidence, on) and may_take_turns(evidence, on),
    )


def _is_busy(evidence: Evidence, on: Subject) -> bool:
    return (evidence.read(INSTANCE_BUSY_SHARE, on).value or 0.0) >= IN_USE.value


def _holds(name: str, own: ServiceTime, calls: ExecutionCalls) -> str:
    models = [one.model if one.times == 1 else f"{one.model} {one.times} times" for one in calls.called]
    show = Unit.SECONDS.show
    return (
        f"an execution of {name} takes {show(own.time(1))} itself and {show(calls.seconds)} in calls of "
        f"{' and '.join(models)}, while it holds its instance"
    )


_UNTRACED = "executions of {} vary by a tenth to six tenths of their mean: no trace shows how much"
# Its backend reports the time of kernels without the wait, and the wait appears as the output's.
_OVERLAPPING = (
    "TensorRT holds two executions of {} at once, which compute one after the other: their measured time includes the "
    "wait for each other, so where it is busy it is forecast slower than it is"
)
_CONFIGURATION = "let the tool reach the HTTP or gRPC port: GET v2/models/<model>/config"
_STATISTICS = "let the tool reach the HTTP or gRPC port (GET v2/models/stats), in a window in which the model executes"


def _start(evidence: Evidence, on: Subject, gap: float) -> float:
    """Return the seconds that an idle instance takes to begin.

    Traced visits that waited less than an instance takes from one execution to the next found it idle: their median.
    Without enough of them, an idle stage's mean queue, a window aside.
    """
    idle = [one for visit in _visits(evidence, on) if (one := visit.queue_seconds) is not None and one < gap]
    if len(idle) >= _FEWEST_IDLE:
        return median(idle)
    return min(evidence.read(QUEUE_SECONDS, on).value or 0.0, gap)


def _visits(evidence: Evidence, on: Subject) -> Sequence[TracedVisit]:
    callers = [ensemble.name for ensemble in evidence.graph(on.server).callers(on.model or "")]
    return visits(evidence, on.server, on.model or "", callers)


def _refuse(config: ModelConfig) -> None:
    if config.sequence_batching:
        why = "its sequence batcher ties requests to instances, which is not simulated"
        raise Unpredictable(why, where=f"model {config.name}", hint="measure the change on a server of its own")


def _refuse_what_is_held(evidence: Evidence, on: Subject, calls: ExecutionCalls) -> None:
    """Refuse a model whose configured instances are not its capacity: what a change of it does is not simulated.

    A caller's executions last longer beside others where they wait for the same model, which is.
    """
    held = {
        "the rate limiter holds its executions in one line with all models, which is not simulated": is_rate_limited,
        "some of its instances are hung or gone": lost_instances,
        "its executions last longer beside others, as under a lock, which is not simulated": _takes_turns,
    }
    for why, holds in held.items():
        if holds(evidence, on) and not (holds is _takes_turns and calls.called):
            raise Unpredictable(why, where=f"model {on.model}", hint="correct that first: diag explain shows how")


def _takes_turns(evidence: Evidence, on: Subject) -> bool:
    """Return whether executions wait for each other on processors; what GPUs share is simulated."""
    return evidence.read(ON_GPU, on).value == 0 and take_turns(evidence, on)


def _guessed(service: ServiceTime) -> ServiceTime:
    """Return the service time with a likelier slope than the middle, where one batch size was seen.

    Fits to GPUs' batches lie nearer flat than linear: 7 and 29 % of a single item's time per item more for ResNet-50 on
    a V100 and a T4 (Inoue 2021, "Queueing analysis of GPU-based inference servers with dynamic batching").
    """
    if not service.estimated or len(service.sizes_seen) > 1:
        return service
    slope = service.per_item_high * UNSEEN_SLOPE
    return replace(service, base=service.time(service.pivot) - slope * service.pivot, per_item=slope)


def batcher_of(batching: DynamicBatching | None) -> DynamicBatcher | None:
    """Return the dynamic batcher that a configuration describes; None where it is off."""
    if batching is None:
        return None
    limits = batching.queue_policy
    policy = QueueDiscipline(
        max_size=limits.max_queue_size,
        timeout_seconds=limits.default_timeout_seconds,
        action=TimeoutAction.DELAY if limits.timeout_action == "DELAY" else TimeoutAction.REJECT,
    )
    return DynamicBatcher(
        delay_seconds=batching.max_queue_delay_seconds,
        preferred=batching.preferred_batch_sizes,
        preserve_ordering=batching.preserve_ordering,
        policy=policy if policy != QueueDiscipline() else None,
        priority_levels=batching.priority_levels,
    )


def devices_of(config: ModelConfig, instances: int) -> tuple[int, ...]:
    """Return over how many devices each active instance group spans: its count is of each of them.

    A group that names no GPU spans all that are visible: as many as the number of instances shows.
    """
    groups = [group for group in config.instance_groups if not group.passive]
    everywhere = [group for group in groups if group.kind == names.KIND_GPU and not group.gpus]
    known = sum(group.count * max(len(group.gpus), 1) for group in groups if group not in everywhere)
    spread = sum(group.count for group in everywhere)
    visible = max((instances - known) // spread, 1) if spread else 1
    return tuple(visible if group in everywhere else max(len(group.gpus), 1) for group in groups) or (1,)


def _variability(
    evidence: Evidence, on: Subject, per_item: float
) -> tuple[float, tuple[float, float], tuple[str, ...]]:
    """Return the executions' squared coefficient of variation, its bounds, and what to say of it."""
    found = execution_scv(_visits(evidence, on))
    if found is None:
        return SERVICE_SCV, _SCV_BOUNDS, (_UNTRACED.format(on.model),)
    size = evidence.read(BATCH_SIZE, on).value or 1.0
    service = evidence.service_time(on)
    # Batches of different sizes take different times by themselves; sizes above 1 vary about as Poisson counts do.
    by_size = max(size - 1.0, 0.0) * (per_item / service.time(size)) ** 2 if service else 0.0
    own = max(found - by_size, 0.0)
    return own, (own / 2, own * 2), ()


def stated_together(stated: Sequence[str], models: Sequence[str]) -> list[str]:
    """Return what is assumed, with that which holds of several models alike said of them once, where it comes first."""
    alike = {_UNTRACED.format(model): model for model in models}
    together = _UNTRACED.format(", ".join(alike[one] for one in stated if one in alike))
    return [together if one in alike else one for one in stated]


# Half a second is lost at a time: of a window of 30 s, two runs' mean queues differ by a half of themselves.
_SPREAD = 1.5
_SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
# Executed requests that show a queue's mean, and those that come meanwhile at most: clients who are refused, and ask
# again at once, are hundreds to one that is executed.
_REQUESTS, _MOST_COME, _WARMUP = 1_000, 20_000, 0.1
_LEAST_SECONDS = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The share of execution ends at which the batcher's thread looks too early, and its bounds."""

    model: str
    share: float
    bounds: Interval

    @property
    def assumption(self) -> str:
        """What a forecast rests on."""
        return missed(self.model, self.bounds)


def missed(model: str, bounds: Interval = OVERTAKES) -> str:
    """Say what a queue policy or priorities bring."""
    return (
        f"with its queue policy or priorities, {model}'s batcher misses {bounds[0]:.0%} to {bounds[1]:.0%} of the"
        " moments at which an instance becomes idle, and sleeps until a request arrives or 0.5 s have passed: a"
        " race of the host's threads, so this number is uncertain"
    )


def raced(evidence: Evidence, server: str, scenario: Scenario, rate: float) -> tuple[Scenario, Sequence[Race]]:
    """Return the scenario with the shares that the measured queues of models with a policy show, and these.

    Args:
        evidence: what was read.
        server: the server's name.
        scenario: its models and traffic.
        rate: requests per second that come, as measured, of all entries.

    """
    found = []
    for model in scenario.models:
        on = Subject(server=server, model=model.name)
        queue, executed = evidence.read(QUEUE_SECONDS, on).value, evidence.read(REQUEST_RATE, on).value or rate
        seconds = min(_REQUESTS / min(executed, rate), _MOST_COME / rate)
        one = race(scenario, model, queue, seconds) if queue and is_racing(model) else None
        if one is not None:
            found.append(one)
            scenario = with_missed_wakeups(scenario, model, one.share)
    return scenario, found


def is_racing(model: Model) -> bool:
    """Say whether an instance must be seen waiting: with any queue policy or priorities."""
    return model.batcher is not None and not prefetches(model.batcher)


def race(scenario: Scenario, model: Model, queue_seconds: float, seconds: float) -> Race:
    """Return how often a model's batcher looks too early, by the mean queue that was measured, in runs of `seconds`.

    A race is lost more often on a host whose threads wake late, and each time makes what waits wait for the next
    request, or for half a second where that is rejected. So the queue grows with the share; it is simulated at several,
    and looked up in between. With other instances, or under another load, threads meet otherwise, and none may be lost:
    where a limit of 20 lost 0.4 of them, with twice the instances hardly any were. So the bounds begin at 0.
    """
    queues = [_queue(with_missed_wakeups(scenario, model, share), model.name, seconds) for share in _SHARES]
    grown = list(accumulate((max(one, _LEAST_SECONDS) for one in queues), max))
    central, most = (_looked_up(grown, queue_seconds * factor) for factor in (1.0, _SPREAD))
    return Race(model=model.name, share=central, bounds=(0.0, most))


def _queue(scenario: Scenario, model: str, seconds: float) -> float:
    waits = outcome_of(scenario, seconds=seconds, warmup_seconds=seconds * _WARMUP).models[model].waits
    return fmean(waits) if waits else 0.0


def with_missed_wakeups(scenario: Scenario, model: Model, share: float) -> Scenario:
    """Return the scenario in which a model's batcher loses that share of its races."""
    assert model.batcher is not None
    raced = replace(model, batcher=replace(model.batcher, overtakes=share))
    return replace(scenario, models=tuple(raced if one.name == model.name else one for one in scenario.models))


def _looked_up(ascending: Sequence[float], seconds: float) -> float:
    """Return the share at which the queue is that long, at equal ratios in between; the nearest beyond the ends."""
    if seconds <= ascending[0]:
        return _SHARES[0]
    if seconds >= ascending[-1]:
        return _SHARES[-1]
    after = bisect_left(ascending, seconds)
    low, high = ascending[after - 1], ascending[after]
    part = log(seconds / low) / log(high / low)
    return _SHARES[after - 1] + (_SHARES[after] - _SHARES[after - 1]) * part
