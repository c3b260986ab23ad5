"""Whether threads of the server wait for I/O while requests are under way: its log, what models read, a swapped page.

A thread that waits for a disk is in the state D (proc(5)) and uses no processor. Triton books its time in whatever
phase it is: as execution, as output, or nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from statistics import pstdev

from diagnostics import names
from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.host import HOST, busy_lanes, own_lanes
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.outages import is_stopped
from diagnostics.window.view import ModelView
from diagnostics.wire.host import HostProcess, HostSample

_FIX = (
    "find which files they wait for (cat /proc/pressure/io, iotop -oP, ls -l /proc/PID/fd): the disk that the server's "
    "log goes to, --log-verbose, trace files, and what models read and write; then put them on another disk or in "
    "memory, and compare"
)


def _samples(view: ModelView) -> list[HostSample]:
    """Return the samples that note what threads wait for, without those in which the server is stopped."""
    return [
        sample
        for sample in view.hosts()
        if sample.processes and all(one.io_threads is not None for one in sample.processes) and not is_stopped(sample)
    ]


def _mean(samples: Sequence[HostSample], count: Callable[[HostProcess], int]) -> tuple[float, float]:
    """Return the mean of what is counted in each sample, and twice its standard error."""
    counts = [sum(map(count, sample.processes)) for sample in samples]
    return sum(counts) / len(counts), 2.0 * pstdev(counts) / sqrt(len(counts))


def _waiting(process: HostProcess) -> int:
    return process.io_threads or 0


def _threads(view: ModelView) -> Reading:
    samples = _samples(view)
    if len(samples) < FEWEST_EVENTS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS if samples else Missing.NOT_EXPORTED, Unit.COUNT, HOST)
    mean, slack = _mean(samples, _waiting)
    return Reading.of(mean, Unit.COUNT, HOST, low=max(mean - slack, 0.0), high=mean + slack, events=len(samples))


def _pressure(view: ModelView) -> Reading:
    """Return the share of the time in which some task waited: as many do at least, of the cgroup or the machine."""
    samples = [sample for sample in view.hosts() if sample.at is not None and sample.io_pressure_seconds is not None]
    seconds = (samples[-1].at or 0.0) - (samples[0].at or 0.0) if samples else 0.0
    if seconds <= 0:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, HOST)
    waited = (samples[-1].io_pressure_seconds or 0.0) - (samples[0].io_pressure_seconds or 0.0)
    return Reading.of(min(max(waited / seconds, 0.0), 1.0), Unit.COUNT, HOST, estimated=True, span=seconds)


def _per_lane(view: ModelView) -> Reading:
    """Return the share of a model's executions that waits for I/O: in its own processes, and in the server's threads.

    A Python model executes in processes of its own, one thread of each. What the server's threads wait for is shared by
    all executions, as nothing shows whose it is.
    """
    samples, lanes, own = _samples(view), busy_lanes(view), own_lanes(view)
    if len(samples) < FEWEST_EVENTS or lanes is None or own.value is None:
        few = samples and lanes is not None and own.value is not None
        return Reading.unknown(Missing.TOO_FEW_EVENTS if few else Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    if lanes <= 0 or own.value <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, own.source)

    def of_model(process: HostProcess) -> int:
        mine = process.command.startswith(names.PYTHON_STUB) and process.model == view.model
        return min(_waiting(process), 1) if mine else 0

    servers = {sample.server_pid for sample in samples}
    inside, slack = _mean(samples, of_model)
    around, more = _mean(samples, lambda process: _waiting(process) if process.pid in servers else 0)
    share, width = inside / own.value + around / lanes, slack / own.value + more / lanes
    return Reading.of(
        min(share, 1.0),
        Unit.RATIO,
        f"{HOST} and {own.source}",
        low=min(max(share - width, 0.0), 1.0),
        high=min(share + width, 1.0),
        events=len(samples),
    )


IO_THREADS = Signal(
    name="io_threads",
    unit=Unit.COUNT,
    scope=Scope.SERVER,
    doc="Threads of the server's processes that wait for I/O on average (state D); else the share of the time in which "
    "some task of its cgroup, or of the machine, does (PSI).",
    readers=(_threads, _pressure),
    fix=_FIX,
)
IO_PER_LANE = Signal(
    name="io_per_lane",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of a model's executions that waits for I/O: threads in the state D ÷ executing instances.",
    readers=(_per_lane,),
    fix=_FIX,
)
