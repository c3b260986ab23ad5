"""The processors and the memory that the server may use, and what its own processes get of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

from diagnostics import names
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView
from diagnostics.wire.host import HostProcess, HostSample

HOST = "host"
# A stage that waits for a processor in under a tenth of its executions' time would be at most a tenth quicker on a
# machine of its own.
HARDLY_WAITS = 0.1
# Three spans between samples outvote one in which the clock was set.
_FEWEST_SPANS = 3
# Ticks and clocks agree within less from minute to minute; a clock that was set by less changes no share that matters.
_SET = 0.02
# Clocks of machines drift by far less than this factor.
_FAR = 2.0
_FIX = "run on the server's machine, so that its processes and cgroup can be read"


def _ends(view: ModelView) -> tuple[HostSample, HostSample, float] | None:
    """Return the first and the last sample and the seconds between them; None with fewer than two."""
    samples = view.hosts()
    seconds = _seconds(samples)
    return (samples[0], samples[-1], seconds) if seconds > 0 else None


def _seconds(samples: Sequence[HostSample]) -> float:
    """Return the seconds between the first and the last sample of one machine; 0 with fewer than two.

    Processors count their time whatever the clock shows. Where the clock was set in between, it and they differ from
    what they differ by from sample to sample, and they are right.
    """
    if len(samples) < 2 or samples[0].at is None or samples[-1].at is None:
        return 0.0
    shown = samples[-1].at - samples[0].at
    times = [(one.at, one.cpu_total_seconds) for one in samples]
    known = [(at, counted) for at, counted in times if at is not None and counted is not None]
    spans = [(later[0] - sooner[0], later[1] - sooner[1]) for sooner, later in pairwise(known)]
    rates = [seconds / counted for seconds, counted in spans if seconds > 0 and counted > 0]
    if len(rates) < _FEWEST_SPANS or len(known) < len(samples):
        return max(shown, 0.0)
    usual = median(rates)
    # All processors count a second each. A clock by which most spans are far from that was not set, it ticks coarsely.
    cores = samples[-1].cores
    if cores and not 1 / _FAR <= usual * cores <= _FAR:
        return max(shown, 0.0)
    counted = (known[-1][1] - known[0][1]) * usual
    return shown if abs(shown - counted) <= _SET * counted else counted


def cores_used(view: ModelView) -> float | None:
    """Return how many processors the server's tree used on average; None when that was not recorded.

    Only processes that were there at both ends count: one that came or went in between is left out.
    """
    found = _ends(view)
    if found is None:
        return None
    first, last, seconds = found
    before = {process.pid: process.cpu_seconds for process in first.processes}
    used = [
        process.cpu_seconds - earlier
        for process in last.processes
        if process.cpu_seconds is not None and (earlier := before.get(process.pid)) is not None
    ]
    return max(sum(used), 0.0) / seconds if used else None


def _allowed(view: ModelView) -> float | None:
    """Return the processors that the server may use at most: its quota or its cpuset, if that is the smaller one."""
    found = _ends(view)
    if found is None:
        return None
    last = found[1]
    limits = [limit for limit in (last.quota_cores, last.server_cores, last.cores) if limit]
    return float(min(limits)) if limits else None


def limit_used(view: ModelView) -> float | None:
    """Return the share of the server's own limit that is used; None where no limit is below the machine's cores."""
    found, allowed = _ends(view), _allowed(view)
    if found is None or allowed is None or allowed >= (found[1].cores or 0):
        return None
    first, last, seconds = found
    if last.quota_cores == allowed and first.cgroup_seconds is not None and last.cgroup_seconds is not None:
        return min((last.cgroup_seconds - first.cgroup_seconds) / seconds / allowed, 1.0)
    used = cores_used(view)
    return None if used is None else min(used / allowed, 1.0)


def _throttled(view: ModelView) -> Reading:
    found = _ends(view)
    if found is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    first, last, seconds = found
    periods = (last.periods or 0.0) - (first.periods or 0.0)
    if periods <= 0:
        return Reading.of(0.0, Unit.RATIO, HOST, span=seconds)
    held = (last.throttled_periods or 0.0) - (first.throttled_periods or 0.0)
    return Reading.of(min(max(held / periods, 0.0), 1.0), Unit.RATIO, HOST, events=periods, span=seconds)


def _pressure(view: ModelView) -> Reading:
    found = _ends(view)
    if found is None or found[0].pressure_seconds is None or found[1].pressure_seconds is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    share = (found[1].pressure_seconds - found[0].pressure_seconds) / found[2]
    return Reading.of(min(max(share, 0.0), 1.0), Unit.RATIO, HOST, span=found[2])


def busy_lanes(view: ModelView) -> float | None:
    """Return how many instances of all models execute at a time, ensembles left out; None without statistics."""
    return view.beside(None).once(_busy_lanes)


def _busy_lanes(view: ModelView) -> float | None:
    lanes, seen = 0.0, False
    for one in view.executing():
        delta = one.delta(STATISTICS)
        if delta is not None and delta.batches:
            lanes, seen = lanes + delta.occupied / delta.seconds, True
    return lanes if seen else None


def _stubs(view: ModelView, spent: Callable[[HostProcess], float | None]) -> list[float]:
    """Return what the stubs of the model's instances spent per second of the span, most first.

    Where the recorder did not note whose stub is whose, those are taken that spent most: no instance spent more.
    """
    found, instances = _ends(view), INSTANCES.read(view).value
    if found is None or instances is None:
        return []
    first, last, seconds = found
    before = {process.pid: spent(process) for process in first.processes}
    stubs = [process for process in last.processes if process.command.startswith(names.PYTHON_STUB)]
    if any(process.model for process in stubs):
        stubs = [process for process in stubs if process.model == view.model]
    spans = [(spent(process), before.get(process.pid)) for process in stubs]
    grown = [(now - then) / seconds for now, then in spans if now is not None and then is not None]
    return sorted(grown, reverse=True)[: round(instances)]


def stub_cpu_seconds(view: ModelView) -> Sequence[float] | None:
    """Return the processor time that each stub of the model's own spent in the second half of the span, in seconds.

    Those that are there at its end. None where it was not recorded, or not whose stub is whose.
    """
    samples = view.hosts()
    if len(samples) < 2:
        return None
    middle, last = samples[(len(samples) - 1) // 2], samples[-1]
    if not any(process.model for sample in (middle, last) for process in sample.processes):
        return None
    before = {process.pid: process.cpu_seconds or 0.0 for process in middle.processes}
    own = [process for process in last.processes if process.model == view.model]
    return [max((process.cpu_seconds or 0.0) - before.get(process.pid, 0.0), 0.0) for process in own]


def _per_stub(view: ModelView, spent: Callable[[HostProcess], float | None]) -> Reading:
    """Return what the model's stubs spent ÷ the time its instances execute."""
    stubs = _stubs(view, spent)
    if view.config is None or view.config.backend != names.PYTHON_BACKEND or not stubs:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    lanes = own_lanes(view)
    if lanes.value is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    if lanes.value <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, lanes.source)
    return Reading.of(sum(stubs) / lanes.value, Unit.RATIO, f"{HOST} and {lanes.source}", estimated=True)


def own_lanes(view: ModelView) -> Reading:
    """Return how many of the model's instances execute at a time; without statistics, by their busy share."""
    delta = view.delta(STATISTICS)
    if delta is None:
        return INSTANCE_BUSY_SHARE.read(view) * INSTANCES.read(view)
    return Reading.of(delta.occupied / delta.seconds, Unit.COUNT, STATISTICS)


def _cpu_per_stub(view: ModelView) -> Reading:
    return _per_stub(view, lambda process: process.cpu_seconds)


def _wait_per_stub(view: ModelView) -> Reading:
    return _per_stub(view, lambda process: process.run_delay_seconds).at_most(1.0)


def _copy_cpu(view: ModelView) -> Reading:
    """Return processors that the server's own process uses ÷ executions that are in their input or output phase.

    On a GPU the card may copy by itself.
    """
    found, copying = _ends(view), sum(_copying(one) for one in view.executing())
    if found is None or any(one.on_gpu is not False for one in view.executing() if _copying(one) > 0):
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    first, last, seconds = found
    before, after = _own_cpu_seconds(first), _own_cpu_seconds(last)
    if before is None or after is None or first.server_pid != last.server_pid:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    if copying <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, STATISTICS)
    return Reading.of(max(after - before, 0.0) / seconds / copying, Unit.RATIO, f"{HOST} and {STATISTICS}")


def _copying(view: ModelView) -> float:
    """Return how many of a model's executions are in their input or output phase on average; 0 where not known."""
    delta = view.delta(STATISTICS)
    if delta is None or not delta.batches:
        return 0.0
    copies = sum(delta.values.get(phase, 0.0) for phase in (Counter.INPUT_SECONDS, Counter.OUTPUT_SECONDS))
    whole = copies + delta.values.get(Counter.INFER_SECONDS, 0.0)
    return delta.occupied / delta.seconds * copies / whole if whole > 0 else 0.0


def _own_cpu_seconds(sample: HostSample) -> float | None:
    return next((one.cpu_seconds for one in sample.processes if one.pid == sample.server_pid), None)


def _cpu_per_lane(view: ModelView) -> Reading:
    """Return processors used ÷ instances executing: 1 is work on a processor, 0 is waiting for something else."""
    used, lanes = cores_used(view), busy_lanes(view)
    if used is None or lanes is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    if lanes <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, STATISTICS)
    return Reading.of(used / lanes, Unit.RATIO, f"{HOST} and {STATISTICS}", estimated=True)


def _server_share(view: ModelView) -> Reading:
    """Return processors used by the server's tree ÷ those it may use."""
    used, allowed = cores_used(view), _allowed(view)
    if used is None or not allowed:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    return Reading.of(min(used / allowed, 1.0), Unit.RATIO, HOST)


def _allowed_cores(view: ModelView) -> Reading:
    allowed = _allowed(view)
    if allowed is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, HOST)
    return Reading.of(allowed, Unit.COUNT, HOST)


def _signal(name: str, unit: Unit, doc: str, *readers: Callable[[ModelView], Reading], fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.SERVER, doc=doc, readers=readers, fix=fix)


CPU_THROTTLED = _signal(
    "cpu_throttled_share",
    Unit.RATIO,
    "Share of the scheduling periods in which the server's cgroup was held back by its quota.",
    _throttled,
)
CPU_PRESSURE = _signal(
    "cpu_pressure",
    Unit.RATIO,
    "Share of the time in which some task of the machine waited for a processor (PSI).",
    _pressure,
)
CPU_PER_LANE = _signal(
    "cpu_per_lane",
    Unit.RATIO,
    "Processors that an executing instance uses: of the busiest stubs for a Python model, else of all the server's "
    "processes ÷ executing instances; near 0, executions wait for something else than a processor.",
    _cpu_per_stub,
    _cpu_per_lane,
    fix=_FIX,
)
CPU_WAIT_PER_LANE = _signal(
    "cpu_wait_per_lane",
    Unit.RATIO,
    "Share of its executions' time that a Python model's stubs were runnable without getting a processor (schedstat).",
    _wait_per_stub,
)
COPY_CPU = _signal(
    "copy_cpu",
    Unit.RATIO,
    "Processors that the server's own process uses ÷ its executions that are in their input or output phase: copies "
    "keep one busy each, and what waits for a disk or a lock uses none.",
    _copy_cpu,
    fix="find what I/O the server waits for (/proc/pressure/io for a disk, /proc/PID/task/*/wchan for a pipe): look "
    "at where its log goes, a slow disk or a slow reader, at --log-verbose, and at what models write",
)
SERVER_CPU_SHARE = _signal(
    "server_cpu_share",
    Unit.RATIO,
    "Processors that the server's processes use ÷ those that they may use.",
    _server_share,
    fix=_FIX,
)
SERVER_CORES = _signal(
    "server_cores",
    Unit.COUNT,
    "Processors that the server may use: the machine's, its cpuset's or its quota's.",
    _allowed_cores,
)


_HOST = "host"
# Memory grows while models load, caches fill and allocators find their size: only what goes on after that counts.
GROWTH_SECONDS = 600.0


def _tree_memory(view: ModelView) -> tuple[Sequence[tuple[float, float]], str]:
    """Return (Unix seconds, bytes) of the server's processes, else of the whole host as Triton exports it."""
    points = [
        (sample.at, sum(process.rss_bytes or 0.0 for process in sample.processes))
        for sample in view.hosts()
        if sample.at is not None and sample.processes
    ]
    return (points, _HOST) if len(points) >= 2 else (view.gauge(names.CPU_MEMORY_USED, {}), METRICS)


def _growth(view: ModelView) -> Reading:
    """Return bytes per second by which memory grew after the first third, 0 where it did not grow in both halves."""
    points, source = _tree_memory(view)
    if len(points) < 2:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.BYTES, source)
    start, end = points[0][0], points[-1][0]
    if end - start < GROWTH_SECONDS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.BYTES, source)
    sixths = [_level(points, start + (end - start) * k / 6, start + (end - start) * (k + 1) / 6) for k in (2, 3, 4, 5)]
    known = [level for level in sixths if level is not None]
    steps = [after - before for before, after in pairwise(known)]
    if len(known) < 4 or min(steps) <= 0:
        return Reading.of(0.0, Unit.BYTES, source, events=len(points), span=end - start)
    slope = (known[-1] - known[0]) / ((end - start) * 3 / 6)
    return Reading.of(
        slope,
        Unit.BYTES,
        source,
        low=min(steps) / ((end - start) / 6),
        high=max(steps) / ((end - start) / 6),
        estimated=source == METRICS,
        events=len(points),
        span=end - start,
    )


def _level(points: Sequence[tuple[float, float]], start: float, end: float) -> float | None:
    inside = sorted(value for at, value in points if start <= at <= end)
    return inside[len(inside) // 2] if inside else None


def _memory_left(view: ModelView) -> Reading:
    left = [sample.memory_available_bytes for sample in view.hosts() if sample.memory_available_bytes is not None]
    if left:
        return Reading.of(left[-1], Unit.BYTES, _HOST)
    total, used = view.gauge(names.CPU_MEMORY_TOTAL, {}), view.gauge(names.CPU_MEMORY_USED, {})
    if not total or not used:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.BYTES, METRICS)
    return Reading.of(max(total[-1][1] - used[-1][1], 0.0), Unit.BYTES, METRICS)


def _memory(view: ModelView) -> Reading:
    points, source = _tree_memory(view)
    if not points:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.BYTES, source)
    return Reading.of(points[-1][1], Unit.BYTES, source)


def _memory_signal(name: str, unit: Unit, doc: str, read: Callable[[ModelView], Reading], fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.SERVER, doc=doc, readers=(read,), fix=fix)


MEMORY_GROWTH = _memory_signal(
    "memory_growth",
    Unit.BYTES,
    "Bytes per second by which the server's processes grew after the window's first third, if they went on growing.",
    _growth,
)
MEMORY_LEFT = _memory_signal(
    "memory_left",
    Unit.BYTES,
    "Memory of the machine that can be had without swapping.",
    _memory_left,
)
SERVER_MEMORY = _memory_signal(
    "server_memory",
    Unit.BYTES,
    "Memory of the server's processes; of the whole host where they were not seen.",
    _memory,
)


_NO_MEMORY = re.compile(r"out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|memory limit", re.IGNORECASE)


def _loads_out_of_memory(view: ModelView) -> Reading:
    if not view.server.index:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, "index")
    entries = view.server.index[-1][1]
    refused = sum(1 for entry in entries if entry.state != "READY" and _NO_MEMORY.search(entry.reason))
    return Reading.of(float(refused), Unit.COUNT, "index")


OUT_OF_MEMORY = Signal(
    name="loads_out_of_memory",
    unit=Unit.COUNT,
    scope=Scope.SERVER,
    doc="Models that are not ready because there was no memory for them, by the repository index.",
    readers=(_loads_out_of_memory,),
)
