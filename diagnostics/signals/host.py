"""The processors that the server may use, and what its own processes get of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diagnostics import names
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import STATISTICS, ModelView
from diagnostics.wire.host import HostProcess, HostSample

HOST = "host"
# A stage that waits for a processor in under a tenth of its executions' time would be at most a tenth quicker on a
# machine of its own.
HARDLY_WAITS = 0.1
_FIX = "run on the server's machine, so that its processes and cgroup can be read"


def _ends(view: ModelView) -> tuple[HostSample, HostSample, float] | None:
    """Return the first and the last sample and the seconds between them; None with fewer than two."""
    samples = view.hosts()
    if len(samples) < 2 or samples[0].at is None or samples[-1].at is None or samples[-1].at <= samples[0].at:
        return None
    return samples[0], samples[-1], samples[-1].at - samples[0].at


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


def _busy_lanes(view: ModelView) -> float | None:
    """Return how many instances of all models execute at a time, ensembles left out; None without statistics."""
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
    lanes = _own_lanes(view)
    if lanes.value is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    if lanes.value <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, lanes.source)
    return Reading.of(sum(stubs) / lanes.value, Unit.RATIO, f"{HOST} and {lanes.source}", estimated=True)


def _own_lanes(view: ModelView) -> Reading:
    """Return how many of the model's instances execute at a time; without statistics, by their busy share."""
    delta = view.delta(STATISTICS)
    if delta is None:
        return INSTANCE_BUSY_SHARE.read(view) * INSTANCES.read(view)
    return Reading.of(delta.occupied / delta.seconds, Unit.COUNT, STATISTICS)


def _cpu_per_stub(view: ModelView) -> Reading:
    return _per_stub(view, lambda process: process.cpu_seconds)


def _wait_per_stub(view: ModelView) -> Reading:
    return _per_stub(view, lambda process: process.run_delay_seconds).at_most(1.0)


def _cpu_per_lane(view: ModelView) -> Reading:
    """Return processors used ÷ instances executing: 1 is work on a processor, 0 is waiting for something else."""
    used, lanes = cores_used(view), _busy_lanes(view)
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
