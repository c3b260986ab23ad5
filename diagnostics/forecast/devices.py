"""The GPU and the processors that a deployment's executions share, where they are used enough to matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

from diagnostics.evidence.evidence import Evidence
from diagnostics.forecast.sharing import SharedDevice, SharedInstance, scale_for
from diagnostics.signals.device import DEVICE_HEADROOM, HOST_CPU_BUSY, ON_GPU
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.host import CPU_PER_LANE, SERVER_CORES, SERVER_CPU_SHARE
from diagnostics.signals.reading import Reading
from diagnostics.signals.subject import Subject
from diagnostics.tuning.simulation.scenario import Model

GPU, PROCESSORS = "GPU", "processors"
# Under this share of the processors in use, a doubled load would still leave each execution one of its own.
_USED_ENOUGH = 0.3
# A card with less left than this is full: its counters are means of samples that never reach 1.
_NOTHING_LEFT = 0.03


def sharing_of(
    evidence: Evidence,
    server: str,
    models: Mapping[str, Model],
    at_work: Mapping[str, float],
    own: Mapping[str, float],
) -> tuple[SharedDevice, ...]:
    """Return what the models share; nothing where no device was measured, or it has far more than they take.

    Args:
        evidence: the window.
        server: which server.
        models: the fitted models by name.
        at_work: of engines, the share of time in which they iterate.
        own: of models that call others, the share of their executions in which they execute themselves.

    """
    busy = {name: _busy(evidence, server, name) * own.get(name, 1.0) for name in models if name not in at_work}
    found = (_gpu(evidence, server, models, at_work, busy), _processors(evidence, server, models, busy, own))
    return tuple(one for one in found if one is not None)


def _busy(evidence: Evidence, server: str, model: str) -> float:
    return min(evidence.read(INSTANCE_BUSY_SHARE, Subject(server=server, model=model)).value or 0.0, 1.0)


def _lanes(
    models: Sequence[Model], busy: Mapping[str, float], at_work: Mapping[str, float], weights: Mapping[str, float]
) -> list[SharedInstance]:
    lanes = []
    for model in models:
        name = model.name
        count, share = (1, at_work[name]) if name in at_work else (model.instances, busy.get(name, 0.0))
        lanes += [SharedInstance(model=name, busy=share, weight=weights.get(name, 1.0))] * count
    return lanes


def _gpu(
    evidence: Evidence,
    server: str,
    models: Mapping[str, Model],
    at_work: Mapping[str, float],
    busy: Mapping[str, float],
) -> SharedDevice | None:
    """Return the GPU as its measured use tells: each lane that runs takes the same part of it.

    Which counter is the ceiling depends on the backend: the share of time in which any kernel runs where processes
    take turns, the fullest of SM, tensor, DRAM and power where streams overlap.
    """
    on_gpu = [m for name, m in models.items() if evidence.read(ON_GPU, Subject(server=server, model=name)).value]
    rooms = [evidence.read(DEVICE_HEADROOM, Subject(server=server, model=model.name)) for model in on_gpu]
    known = [room for room in rooms if room.value is not None]
    if not known:
        return None
    room = known[0]
    lanes = _lanes(on_gpu, busy, at_work, {})
    low, central, high = _scales(lanes, room)
    return SharedDevice(
        resource=GPU,
        capacity=1.0,
        lanes=tuple(lanes),
        low=low,
        central=central,
        high=high,
        assumption="executions share the GPU as far as its measured use tells; a power cap, or other programs on it, "
        "would slow them further",
    )


def _scales(lanes: Sequence[SharedInstance], room: Reading) -> tuple[float, float, float]:
    """Return what a running lane takes of the card: at the least, likely, and at the most.

    A card that is full says only how little each lane takes at least: it may be full of fewer as well.
    """
    left = [1.0 if one is None else one for one in (room.high, room.value, room.low)]
    low, central, high = (scale_for(lanes, 1 - one, 1.0) for one in left)
    if left[2] <= _NOTHING_LEFT:
        high = 1.0
    return (low, sqrt(central * high), high) if left[1] <= _NOTHING_LEFT else (low, central, high)


def _processors(
    evidence: Evidence,
    server: str,
    models: Mapping[str, Model],
    lanes_busy: Mapping[str, float],
    parts: Mapping[str, float],
) -> SharedDevice | None:
    """Return the server's processors, less what others take of them; each lane takes what its processes used."""
    on = Subject(server=server)
    cores, busy, own = (evidence.read(signal, on).value for signal in (SERVER_CORES, HOST_CPU_BUSY, SERVER_CPU_SHARE))
    weights = {
        name: min(share / max(parts[name], share), 1.0) if name in parts else share
        for name in models
        if (share := evidence.read(CPU_PER_LANE, Subject(server=server, model=name)).value) is not None
    }
    if not cores or busy is None or own is None or busy < _USED_ENOUGH or not weights:
        return None
    capacity = max(cores * (1 - max(busy - own, 0.0)), 1.0)
    lanes = _lanes([models[name] for name in weights], lanes_busy, {}, weights)
    processors = "1 processor" if capacity == 1 else f"{capacity:.3g} processors"
    return SharedDevice(
        resource=PROCESSORS,
        capacity=capacity,
        lanes=tuple(lanes),
        low=1.0,
        central=1.0,
        high=1.0,
        assumption=f"executions share {processors}, each taking what the model's processes used",
    )
