"""The threads of the server's own process that execute no model: those that read requests and send answers."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import STATISTICS, ModelView
from diagnostics.wire.host import HostThread

_HOST = "host"
# A thread is noted from its first second of processor time on: what it did over less than half of the span is no mean.
_LEAST_OF_SPAN = 0.5
Share = tuple[float, float]


def _busiest(view: ModelView) -> Share | None:
    """Return (has work, has work and no processor) as shares of the time of the thread that had work for longest.

    (0, 0) where no thread has used a second of a processor; None where the recorder did not note threads.
    """
    samples = [(at, threads) for host in view.hosts() if (at := host.at) is not None and (threads := host.threads)]
    noted = [host.at for host in view.hosts() if host.at is not None and host.threads is not None]
    if len(noted) < 2 or noted[-1] <= noted[0]:
        return None
    seen: dict[int, list[tuple[float, HostThread]]] = {}
    for at, threads in samples:
        for thread in threads:
            seen.setdefault(thread.tid, []).append((at, thread))
    return max(_shares(list(seen.values()), (noted[-1] - noted[0]) * _LEAST_OF_SPAN), default=(0.0, 0.0))


def _shares(threads: list[list[tuple[float, HostThread]]], least: float) -> Iterator[Share]:
    for samples in threads:
        (start, first), (end, last) = samples[0], samples[-1]
        seconds, used = end - start, last.cpu_seconds - first.cpu_seconds
        if seconds > 0 and seconds >= least and used >= 0:  # less is another thread of the same number
            waited = max(last.run_delay_seconds - first.run_delay_seconds, 0.0)
            busy = min((used + waited) / seconds, 1.0)
            yield busy, min(waited / seconds, busy)


def _executing(view: ModelView) -> float | None:
    """Return how many instances execute at a time on threads of the server's own process; None without statistics.

    A Python model executes in a process of its own. A model whose configuration was not read counts as one that does
    not.
    """
    lanes, seen = 0.0, False
    for one in view.executing():
        delta = one.delta(STATISTICS)
        seen = seen or delta is not None
        if delta is not None and not (one.config and one.config.backend == names.PYTHON_BACKEND):
            lanes += delta.occupied / delta.seconds
    return lanes if seen else None


def _frontend_busy(view: ModelView) -> Reading:
    found, lanes = view.once(_busiest), _executing(view)
    if found is None or lanes is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _HOST)
    busy, _ = found
    return Reading.of(max(busy - lanes, 0.0), Unit.RATIO, _HOST, high=busy, estimated=lanes > 0, span=view.seconds)


def _frontend_waits(view: ModelView) -> Reading:
    found = view.once(_busiest)
    if found is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _HOST)
    busy, waited = found
    if busy <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, _HOST)
    return Reading.of(waited / busy, Unit.RATIO, _HOST, span=view.seconds)


FRONTEND_BUSY = Signal(
    name="frontend_busy",
    unit=Unit.RATIO,
    scope=Scope.SERVER,
    doc="Share of the time for which the busiest thread of the server's own process runs or waits for a processor, "
    "less what instances execute in that process: at least so busy is a thread that reads requests and sends answers.",
    readers=(_frontend_busy,),
    fix="record on the server's machine, so that its threads can be seen",
)
FRONTEND_CPU_WAIT = Signal(
    name="frontend_cpu_wait",
    unit=Unit.RATIO,
    scope=Scope.SERVER,
    doc="Of the time for which that thread is busy, the share in which it waits for a processor (schedstat).",
    readers=(_frontend_waits,),
)
