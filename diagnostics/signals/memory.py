"""Memory of the server and its machine: how much there is, and whether it goes on growing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from diagnostics import names
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, ModelView

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


def _signal(name: str, unit: Unit, doc: str, read: Callable[[ModelView], Reading], fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.SERVER, doc=doc, readers=(read,), fix=fix)


MEMORY_GROWTH = _signal(
    "memory_growth",
    Unit.BYTES,
    "Bytes per second by which the server's processes grew after the window's first third, if they went on growing.",
    _growth,
)
MEMORY_LEFT = _signal(
    "memory_left",
    Unit.BYTES,
    "Memory of the machine that can be had without swapping.",
    _memory_left,
)
SERVER_MEMORY = _signal(
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
