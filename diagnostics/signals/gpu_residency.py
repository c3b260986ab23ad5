"""How much of a card's memory one instance of a model holds."""

from __future__ import annotations

from diagnostics import names
from diagnostics.signals.gpu import samples
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.partitions import processes_of
from diagnostics.window.view import ModelView
from diagnostics.wire.gpu import NVML, Gpu

_HOST_AND_NVML = "host and nvml"


def _stubs(view: ModelView) -> set[int]:
    """Return the Python stubs that run the model, where the recorder noted whose each is."""
    return {
        process.pid
        for host in view.hosts()
        for process in host.processes
        if process.command.startswith(names.PYTHON_STUB) and process.model == view.model
    }


def _held(gpu: Gpu, pids: set[int] | None) -> list[int]:
    """Return the bytes of each of the processes, of all where None, that the card says of."""
    return [held for pid, held in gpu.process_memory.items() if held is not None and (pids is None or pid in pids)]


def _of_stubs(view: ModelView) -> Reading:
    pids = _stubs(view)
    held = [size for gpu in samples(view) if gpu.source == NVML for size in _held(gpu, pids)]
    if not held:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.BYTES, _HOST_AND_NVML)
    return Reading.of(float(max(held)), Unit.BYTES, _HOST_AND_NVML, events=len(held))


def _of_largest_process(view: ModelView) -> Reading:
    """Return the card's largest process, of the server's where they are known: an instance lives in one process."""
    own = processes_of(view.server.hosts) or None
    held = [size for gpu in samples(view) if gpu.source == NVML for size in _held(gpu, own)]
    if not held or not view.on_gpu:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.BYTES, NVML)
    most = float(max(held))
    return Reading.of(most, Unit.BYTES, NVML, low=0.0, high=most, estimated=True, events=len(held))


INSTANCE_GPU_MEMORY = Signal(
    name="instance_gpu_memory",
    unit=Unit.BYTES,
    scope=Scope.MODEL,
    doc="Memory that one instance of the model holds on a card: of its largest Python stub; else, as a bound, of the "
    "largest process on the card.",
    readers=(_of_stubs, _of_largest_process),
    fix="run on the GPU's machine as a user who sees the server's processes, with the extra `gpu`",
)
