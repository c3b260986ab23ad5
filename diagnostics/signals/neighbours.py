"""Who else works on the GPUs under a model, and by how much requests take longer while they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diagnostics.signals.contrast import When
from diagnostics.signals.effects import excess, excess_or_engines
from diagnostics.signals.gpu import samples
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.view import STATISTICS, Counter, CounterStep, ModelView, processes_of
from diagnostics.wire.gpu import NVML, Gpu

_HOST_AND_NVML = "host and nvml"
_FIX = "run on the server's machine, as a user who sees its processes, with the extra `gpu`"
# Under MPS the driver shows one server process in place of its clients (NVIDIA, "Multi-Process Service").
_MPS = "nvidia-cuda-mps"
# A process that holds memory and runs nothing slows nobody; NVML counts SM time in whole percent of a sample.
_WORKS = 0.05
# A process seen less often may be one of the server's that came and went between two looks at its tree.
_SEEN_OFTEN = 3
# Neighbours are separated by stretches in which they work and stretches in which they hardly do.
_BUSY_LANES, _IDLE_LANES = 0.5, 0.1
# A process that works is missed by samples of a second or two: a pause of a few of them is none.
_LONGEST_PAUSE = 5.0


def strangers(view: ModelView) -> set[int] | Missing:
    """Return the processes on the card that are not the server's, or why that cannot be determined.

    They cannot when the server's processes are not known, when none of them is among the card's although there are
    some (another process namespace), or when MPS stands in front of them.
    """
    found, own = [gpu for gpu in samples(view) if gpu.source == NVML], processes_of(view.server.hosts)
    if not own or not found:
        return Missing.NOT_EXPORTED
    listed = [set(gpu.process_memory) | set(gpu.process_sm or ()) for gpu in found]
    everybody = set().union(*listed)
    if everybody and not everybody & own:
        return Missing.CONFLICTING
    if any(name.startswith(_MPS) for gpu in found for name in gpu.process_names.values()):
        return Missing.CONFLICTING
    # A sample without any list was taken while that dear question rested.
    often = min(_SEEN_OFTEN, sum(map(bool, listed)))
    return {pid for pid in everybody - own if sum(pid in pids for pids in listed) >= often}


def _sm_share(gpu: Gpu, pids: set[int]) -> float:
    return min(sum(share for pid, share in (gpu.process_sm or {}).items() if pid in pids), 1.0)


def _foreign_share(view: ModelView) -> Reading:
    found = strangers(view)
    if isinstance(found, Missing):
        return Reading.unknown(found, Unit.RATIO, _HOST_AND_NVML)
    shares = [_sm_share(gpu, found) for gpu in samples(view) if gpu.process_sm is not None]
    if not shares:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _HOST_AND_NVML)
    return Reading.of(sum(shares) / len(shares), Unit.RATIO, _HOST_AND_NVML, events=len(shares))


def _own_seconds(view: ModelView) -> Reading:
    if isinstance(found := strangers(view), Missing):
        return Reading.unknown(found, Unit.SECONDS, _HOST_AND_NVML)
    own = processes_of(view.server.hosts)
    shares = [_sm_share(gpu, own) for gpu in samples(view) if gpu.process_sm is not None]
    if not shares:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, _HOST_AND_NVML)
    seconds = sum(shares) / len(shares) * view.seconds
    return Reading.of(seconds, Unit.SECONDS, _HOST_AND_NVML, events=len(shares), span=view.seconds)


def _foreign_process(view: ModelView) -> Reading:
    found = strangers(view)
    if isinstance(found, Missing):
        return Reading.unknown(found, Unit.COUNT, _HOST_AND_NVML)
    work = {pid: sum(_sm_share(gpu, {pid}) for gpu in samples(view)) for pid in sorted(found)}
    if not any(work.values()):
        return Reading.of(0.0, Unit.COUNT, _HOST_AND_NVML)
    return Reading.of(float(max(work, key=lambda pid: work[pid])), Unit.COUNT, _HOST_AND_NVML)


def _foreign_memory(view: ModelView) -> Reading:
    found = strangers(view)
    if isinstance(found, Missing):
        return Reading.unknown(found, Unit.BYTES, _HOST_AND_NVML)
    listed = [gpu.process_memory for gpu in samples(view) if gpu.process_memory]
    if not listed:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.BYTES, _HOST_AND_NVML)
    # One that holds memory all the while need not work, and is listed whenever that is asked.
    stay = set[int].intersection(*map(set, listed)) - processes_of(view.server.hosts)
    held = [sum(each[pid] or 0 for pid in stay) for each in listed]
    return Reading.of(float(max(held)), Unit.BYTES, _HOST_AND_NVML, events=len(held))


def _stays(looks: Sequence[tuple[float, bool]]) -> list[tuple[float, float]]:
    """Return the stretches (Unix seconds) in which a stranger worked on one of the cards; a short pause ends none."""
    stays: list[tuple[float, float]] = []
    working = False
    for at, works in looks:
        if works:
            begun = stays.pop()[0] if stays and (working or at - stays[-1][1] <= _LONGEST_PAUSE) else at
            stays.append((begun, at))
        working = works
    return stays


def _looks(view: ModelView, found: set[int]) -> list[tuple[float, bool]]:
    """Return when it was asked who works on the cards, in time order, and whether a stranger did on one of them.

    Where that question takes long, most samples leave it out: they say nothing of it.
    """
    cards, looks = view.gpu_series(), dict[float, bool]()
    for sample in view.window.gpus:
        for gpu in sample.gpus:
            if sample.at is not None and gpu.uuid in cards and gpu.process_sm is not None:
                looks[sample.at] = looks.get(sample.at, False) or _sm_share(gpu, found) >= _WORKS
    return sorted(looks.items())


def _stay_share(view: ModelView) -> Reading:
    if isinstance(found := strangers(view), Missing):
        return Reading.unknown(found, Unit.RATIO, _HOST_AND_NVML)
    looks = _looks(view, found)
    span = looks[-1][0] - looks[0][0] if looks else 0.0
    if span <= 0:
        return Reading.unknown(Missing.TOO_FEW_EVENTS if looks else Missing.NOT_EXPORTED, Unit.RATIO, _HOST_AND_NVML)
    return Reading.of(sum(end - start for start, end in _stays(looks)) / span, Unit.RATIO, _HOST_AND_NVML)


def _during_stay(view: ModelView) -> When | None:
    found = strangers(view)
    stays = [] if isinstance(found, Missing) else _stays(_looks(view, found))
    if not stays:
        return None

    def when(start: float, end: float) -> bool | None:
        # Counters move on completion: a step at the edge holds requests of both kinds.
        if any(start >= first and end <= last + 1.0 for first, last in stays):
            return True
        return False if all(end <= first or start >= last + 1.0 for first, last in stays) else None

    return when


def _foreign_excess(counter: Counter) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        when = _during_stay(view)
        if when is None:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, _HOST_AND_NVML)
        return excess(view, counter, when)

    return read


def _foreign_request_excess(view: ModelView) -> Reading:
    """Return what requests show, or what the iterations of their engine do: whichever is surer."""
    when = _during_stay(view)
    if when is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, _HOST_AND_NVML)
    return excess_or_engines(view, Counter.REQUEST_SECONDS, when)


def _neighbour_compute_excess(view: ModelView) -> Reading:
    return excess_or_engines(view, Counter.INFER_SECONDS, _while_neighbours_work(view))


def _others(view: ModelView) -> list[ModelView]:
    """Return the models on the same cards that no ensemble shares with this one: they work for other requests."""
    graph = view.server.graph
    mates = {model for one in graph.callers(view.model or "") for model in one.models()} | {view.model}
    others = [one for one in view.executing() if one.model not in mates]
    return [other for other in others if other.on_gpu and _share_a_card(view, other)]


def _share_a_card(one: ModelView, other: ModelView) -> bool:
    """Return whether two models may execute on the same card: a group that lists none is on all of them."""
    listed = [{index for group in view.groups for index in group.gpus} for view in (one, other)]
    return not all(listed) or bool(listed[0] & listed[1])


def _lanes(steps: Sequence[CounterStep], start: float, end: float) -> float:
    """Return how many instances executed on average between two times, from steps that lie inside."""
    inside = [step for step in steps if step.start >= start - 0.5 and step.end <= end + 0.5]
    seconds = sum(batch.seconds for step in inside for batch in step.batches.values())
    return seconds / (end - start) if end > start else 0.0


def _neighbour_lanes(view: ModelView) -> Reading:
    if not view.on_gpu:
        return Reading.of(0.0, Unit.COUNT, "configuration")
    steps = [step for other in _others(view) for step in other.steps(STATISTICS)]
    return Reading.of(_lanes(steps, view.start, view.end), Unit.COUNT, STATISTICS, events=len(steps))


def _while_neighbours_work(view: ModelView) -> When:
    steps = [step for other in _others(view) for step in other.steps(STATISTICS)]

    def when(start: float, end: float) -> bool | None:
        lanes = _lanes(steps, start, end)
        return True if lanes >= _BUSY_LANES else False if lanes <= _IDLE_LANES else None

    return when


def _neighbour_excess(counter: Counter) -> Callable[[ModelView], Reading]:
    return lambda view: excess(view, counter, _while_neighbours_work(view))


def _signal(
    name: str, unit: Unit, doc: str, *readers: Callable[[ModelView], Reading], scope: Scope = Scope.MODEL, fix: str = ""
) -> Signal:
    return Signal(name=name, unit=unit, scope=scope, doc=doc, readers=readers, fix=fix)


FOREIGN_SHARE = _signal(
    "foreign_gpu_share",
    Unit.RATIO,
    "Share of the card's SM time that processes outside of the server's tree take, mean over the samples.",
    _foreign_share,
    scope=Scope.GPU,
    fix=_FIX,
)
FOREIGN_PROCESS = _signal(
    "foreign_gpu_process",
    Unit.COUNT,
    "Process id of the one outside of the server's tree that takes most of the card; 0 is none.",
    _foreign_process,
    scope=Scope.GPU,
)
FOREIGN_GPU_MEMORY = _signal(
    "foreign_gpu_memory",
    Unit.BYTES,
    "Memory of the card that processes outside of the server's tree hold, the most of the samples.",
    _foreign_memory,
    scope=Scope.GPU,
    fix=_FIX,
)
OWN_GPU_SECONDS = _signal(
    "own_gpu_seconds",
    Unit.SECONDS,
    "Seconds of the card's SM time that the server's own processes took in the window.",
    _own_seconds,
    scope=Scope.GPU,
)
FOREIGN_STAY = _signal(
    "foreign_gpu_stay",
    Unit.RATIO,
    "Share of the window in which a foreign process worked on the card, pauses of a few seconds included.",
    _stay_share,
    scope=Scope.GPU,
)
FOREIGN_EXCESS_REQUEST = _signal(
    "foreign_excess_request",
    Unit.SECONDS,
    "Seconds per request that requests take longer while a foreign process works, over the whole window, by the "
    "requests themselves or the iterations of their engine, which are more.",
    _foreign_request_excess,
)
FOREIGN_EXCESS_COMPUTE = _signal(
    "foreign_excess_compute",
    Unit.SECONDS,
    "Seconds per request that a stage executes longer while a foreign process works, over the whole window.",
    _foreign_excess(Counter.INFER_SECONDS),
)
FOREIGN_EXCESS_QUEUE = _signal(
    "foreign_excess_queue",
    Unit.SECONDS,
    "Seconds per request that a stage's queue is longer while a foreign process works, over the whole window.",
    _foreign_excess(Counter.QUEUE_SECONDS),
)
NEIGHBOUR_LANES = _signal(
    "neighbour_lanes",
    Unit.COUNT,
    "Instances of other ensembles' models that execute on the model's cards, on average.",
    _neighbour_lanes,
)
NEIGHBOUR_EXCESS_COMPUTE = _signal(
    "neighbour_excess_compute",
    Unit.SECONDS,
    "Seconds per request that the model executes longer while its neighbours work, over the whole window.",
    _neighbour_compute_excess,
)
NEIGHBOUR_EXCESS_QUEUE = _signal(
    "neighbour_excess_queue",
    Unit.SECONDS,
    "Seconds per request that the model's queue is longer while its neighbours work, over the whole window.",
    _neighbour_excess(Counter.QUEUE_SECONDS),
)
