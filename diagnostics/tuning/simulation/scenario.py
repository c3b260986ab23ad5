"""What is simulated: models with their schedulers, what they share, ensembles as graphs, and the traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from diagnostics.tuning.service import ServiceTime

# Recordings of Triton 24.10 with a queue limit: replaying their arrivals gives the measured queue, busy share and
# rejections at 0 (a limit of 4 under overload, 16 cores), at 0.09 (the same on 2 busy cores) and at 0.4 (limits of 3
# and of 20 at 0.65 of what the instance can do, a server on 2 of 16 cores).
OVERTAKES = (0.0, 0.45)
# Recorded windows' payloads grow as at shares from 0 to a tenth on most hosts.
OVERTAKES_MOSTLY = 0.045


class TimeoutAction(StrEnum):
    """What happens to a request that waited longer than its queue's timeout."""

    REJECT = "REJECT"
    DELAY = "DELAY"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDiscipline:
    """A queue policy. Any policy turns off prefetching and brings the lost wake-up of Triton's batcher.

    Attributes:
        max_size: requests that may wait; 0 for no limit.
        timeout_seconds: the longest wait before `action`; 0 for none.
        action: what becomes of a request that waited longer.

    """

    max_size: int = 0
    timeout_seconds: float = 0.0
    action: TimeoutAction = TimeoutAction.REJECT


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBatcher:
    """The settings of a dynamic batcher, as in `dynamic_batching`.

    Attributes:
        delay_seconds: the window; 0 lets the waiting payload grow until an instance takes it.
        preferred: batch sizes that go at once; empty means the largest batch.
        preserve_ordering: whether responses leave in the order of arrival.
        policy: the default queue policy; None where none is set.
        priority_levels: 0 for none; requests carry a level from 1 (first) on.
        default_priority: the level of requests that carry none (0).
        overtakes: share of execution ends at which the batcher's thread looks before the instance does. With a window,
            the payload that waits then takes in what waits beside it; with a queue policy or priorities, the thread
            does not see the instance wait and sleeps on. It depends on how fast the host wakes threads: see
            `OVERTAKES`.

    """

    delay_seconds: float = 0.0
    preferred: tuple[int, ...] = ()
    preserve_ordering: bool = False
    policy: QueueDiscipline | None = None
    priority_levels: int = 0
    default_priority: int = 1
    overtakes: float = OVERTAKES_MOSTLY


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineModel:
    """An engine that batches in flight: requests join and leave the running batch between iterations.

    Attributes:
        slots: requests that run at once.
        prefill_seconds: seconds that a joining request's prefill adds to the iteration in which it joins.
        iteration_seconds: seconds of an iteration, without those per request.
        iteration_seconds_per_request: seconds that each running request adds to an iteration.
        iterations: mean number of iterations of a request, at least 1.
        iterations_scv: squared coefficient of variation of that number.
        tokens_per_request: mean tokens that a request holds in the cache, or reserves of it.
        cache_tokens: tokens that the cache holds; None for no limit.
        prefill_tokens: mean tokens of a prompt; `token_budget` bounds the tokens of an iteration, None for no limit.
        token_budget: most tokens in an iteration; None for no limit.
        continuous: False where a batch begins only when the one before it has ended.

    """

    slots: int
    prefill_seconds: float
    iteration_seconds: float
    iteration_seconds_per_request: float = 0.0
    iterations: float = 1.0
    iterations_scv: float = 0.0
    tokens_per_request: float = 0.0
    cache_tokens: float | None = None
    prefill_tokens: float = 0.0
    token_budget: int | None = None
    continuous: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as its scheduler sees it.

    Attributes:
        name: the model.
        service: seconds of an execution by batch size, alone on what it shares with others.
        service_scv: squared coefficient of variation of an execution's time.
        instances: instances that execute, over all devices.
        max_batch: largest batch; 0 or 1 means one request per execution.
        batcher: the dynamic batcher; None for the default scheduler.
        in_flight: executions that one instance holds at once: 2 for TensorRT, else 1. They compute one after the
            other, as all of an instance's kernels go into one stream (instance_state.cc of Triton's TensorRT backend):
            the second has left the queue and waits in its execution. So `service` is the time without that wait, which
            Triton's statistics include as time of the output, and two in flight do not double what an instance can do;
            they hide its dispatch gap.
        start_seconds: seconds that an idle instance takes to begin, in which what waits still grows; idle stages
            were measured to queue 0.05 to 0.3 ms.
        demand: what one running execution takes of each resource, in the resource's own amount.
        engine: how it batches inside; then only `name`, `engine` and `demand` (of the running batch, however many
            requests are in it) count.
        rate_limit: what one execution must hold of each rate-limiter resource before it starts.

    """

    name: str
    service: ServiceTime
    service_scv: float = 0.0
    instances: int = 1
    max_batch: int = 1
    batcher: DynamicBatcher | None = None
    in_flight: int = 1
    start_seconds: float = 0.0
    demand: Mapping[str, float] = field(default_factory=dict)
    engine: EngineModel | None = None
    rate_limit: Mapping[str, int] = field(default_factory=dict)

    @property
    def alone(self) -> float:
        """Seconds that a request with nobody beside it is executed."""
        if self.engine is None:
            return self.service.time(1)
        iteration = self.engine.iteration_seconds + self.engine.iteration_seconds_per_request
        return self.engine.iterations * iteration + self.engine.prefill_seconds

    def held(self, size: float) -> float:
        """Return the seconds after which an instance computes the next execution, of one of `size` items."""
        return self.service.time(size) if self.in_flight > 1 else self.service.occupancy(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """What executions share, in processor sharing: GPUs (capacity 1 each) or the host's processors (cores).

    Executions run at full speed until the sum of their demands passes the capacity; beyond it, all that demand it
    are slowed by the ratio. Of several `devices`, each has its part of the capacity, and an execution is on one.
    """

    name: str
    capacity: float = 1.0
    devices: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVisit:
    """A visit of a request to a model.

    Attributes:
        model: the model's name.
        after: positions of the steps that must have ended; empty for a step that starts with the request.
        gap_seconds: seconds between the end of the last of them (or the request's arrival) and this step's queue.
        tail_seconds: seconds that pass after its execution before the step counts as ended, unseen by the scheduler
            (the hidden time of an engine whose iterations are not modelled), mean.
        tail_scv: squared coefficient of variation of that time, 0 for a constant one.
        caller: position of the step whose execution makes this visit as a call, and holds its instance meanwhile; None
            for a step of the graph itself. An execution makes its calls one after another when its own part is done:
            each comes after the one before it, and what comes after the caller comes after its last call.

    """

    model: str
    after: tuple[int, ...] = ()
    gap_seconds: float = 0.0
    tail_seconds: float = 0.0
    tail_scv: float = 0.0
    caller: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryGraph:
    """What clients call: an ensemble as a graph of steps in topological order, or a model as a single step."""

    name: str
    steps: tuple[ModelVisit, ...]

    @property
    def is_row(self) -> bool:
        """Whether its steps follow one another, and call none."""
        return all(
            step.after == ((position - 1,) if position else ()) and step.caller is None
            for position, step in enumerate(self.steps)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLoop:
    """Requests that arrive whatever the server does.

    Attributes:
        entry: what they call.
        rate: requests per second; used where `times` is None.
        scv: squared coefficient of variation of the time between arrivals, or between bursts: 1 for Poisson.
        burst: requests in the burst that a request arrives in; above 1, bursts of that many at one instant come.
        times: arrival instants in seconds from 0, ascending, to be replayed; None for a process.
        items: items of each request (a client-side batch).
        priority: the level of all of them; 0 for the default.

    """

    entry: str
    rate: float = 0.0
    scv: float = 1.0
    burst: float = 1.0
    times: Sequence[float] | None = None
    items: int = 1
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """Clients that each send their next request when the last was answered.

    Attributes:
        entry: what they call.
        clients: how many.
        think_seconds: mean seconds (exponential) between an answer and the next request; 0 for at once.
        items: items of each request.

    """

    entry: str
    clients: int
    think_seconds: float = 0.0
    items: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that is simulated.

    Attributes:
        models: every model that a step visits.
        entries: what clients call.
        traffic: who calls what.
        resources: what executions share.
        rate_limits: how much there is of each rate-limiter resource.

    """

    models: tuple[Model, ...]
    entries: tuple[EntryGraph, ...]
    traffic: tuple[OpenLoop | ClosedLoop, ...]
    resources: tuple[Resource, ...] = ()
    rate_limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def contended(self) -> bool:
        """Whether executions may ask for more of a resource than there is, and slow each other."""
        most = dict.fromkeys((resource.name for resource in self.resources), 0.0)
        for model in self.models:
            running = 1 if model.engine else model.instances * model.in_flight
            for name in most.keys() & model.demand.keys():
                most[name] += running * model.demand[name]
        return any(most[resource.name] > resource.capacity for resource in self.resources)

    @property
    def calls(self) -> Mapping[str, tuple[str, ...]]:
        """The models that each execution calls, in order, by the caller: of callers only, the innermost first."""
        found: dict[str, tuple[str, ...]] = {}
        for entry in self.entries:
            called: dict[int, tuple[str, ...]] = {}
            for step in entry.steps:
                if step.caller is not None:
                    called[step.caller] = (*called.get(step.caller, ()), step.model)
            for position in sorted(called, reverse=True):
                found.setdefault(entry.steps[position].model, called[position])
        return found
