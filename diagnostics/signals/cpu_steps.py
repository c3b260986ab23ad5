"""By how much executions take longer while the server does not get the processors that it wants.

That is a fact of the machine, and no consequence of longer executions: its cgroup's quota holds it back, the hypervisor
gives its processors to others, or the model's own processes are runnable and wait (schedstat).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from diagnostics.signals.contrast import When
from diagnostics.signals.effects import excess, excess_or_engines
from diagnostics.signals.host import HOST
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.view import Counter, ModelView
from diagnostics.wire.host import HostSample

# Who loses a quarter of a processor's time takes a third longer; who loses a twentieth, as much as noise does.
_SHORT, _ENOUGH = 0.25, 0.05


def _share(before: float | None, after: float | None, of: float | None) -> float:
    """Return by how much a counter grew ÷ by how much it could; 0 where either was not recorded."""
    if before is None or after is None or not of or of <= 0:
        return 0.0
    return min(max((after - before) / of, 0.0), 1.0)


def _lost(view: ModelView, first: HostSample, last: HostSample) -> float:
    """Return the share of the processor time that was wanted and not given between two samples, by the worst reason."""
    return max(
        _share(first.throttled_periods, last.throttled_periods, (last.periods or 0.0) - (first.periods or 0.0)),
        _share(
            first.cpu_steal_seconds,
            last.cpu_steal_seconds,
            (last.cpu_total_seconds or 0.0) - (first.cpu_total_seconds or 0.0),
        ),
        _waited(view, first, last),
    )


def _waited(view: ModelView, first: HostSample, last: HostSample) -> float:
    """Return the share of the time in which an instance's process was runnable without a processor."""
    before = {one.pid: one.run_delay_seconds for one in first.processes if one.model == view.model}
    after = {one.pid: one.run_delay_seconds for one in last.processes if one.model == view.model}
    grown = sum((after[pid] or 0.0) - (then or 0.0) for pid, then in before.items() if pid in after)
    return _share(0.0, grown, ((last.at or 0.0) - (first.at or 0.0)) * (INSTANCES.read(view).value or 0.0))


def _samples(view: ModelView) -> list[HostSample]:
    return [sample for sample in view.hosts() if sample.at is not None]


def _while_short(view: ModelView) -> When:
    samples = _samples(view)
    times = [sample.at or 0.0 for sample in samples]

    def when(start: float, end: float) -> bool | None:
        first, last = bisect_right(times, start) - 1, bisect_left(times, end)
        if first < 0 or last >= len(times) or times[last] <= times[first]:
            return None
        lost = _lost(view, samples[first], samples[last])
        return True if lost >= _SHORT else False if lost <= _ENOUGH else None

    return when


def _short_share(view: ModelView) -> Reading:
    samples = _samples(view)
    lost = [_lost(view, before, after) for before, after in pairwise(samples)]
    if not lost:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, HOST)
    return Reading.of(sum(one >= _SHORT for one in lost) / len(lost), Unit.RATIO, HOST, events=len(lost))


def _excess(counter: Counter, compare: Callable[[ModelView, Counter, When], Reading]) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        if len(_samples(view)) < 2:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, HOST)
        found = compare(view, counter, _while_short(view))
        return found.from_source(f"{HOST} and {found.source}")

    return read


def _signal(name: str, unit: Unit, doc: str, readers: Sequence[Callable[[ModelView], Reading]]) -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=tuple(readers))


CPU_SHORT_SHARE = _signal(
    "cpu_short_share",
    Unit.RATIO,
    "Share of the samples between which a quota, the hypervisor or a queue for processors kept a quarter of the wanted "
    "processor time from the server.",
    [_short_share],
)
CPU_SHORT_EXCESS_COMPUTE = _signal(
    "cpu_short_excess_compute",
    Unit.SECONDS,
    "Seconds per request that executions, or iterations of the model's engine, are longer by while the server does not "
    "get the processors that it wants, spread over all requests.",
    [_excess(Counter.INFER_SECONDS, excess_or_engines)],
)
CPU_SHORT_EXCESS_QUEUE = _signal(
    "cpu_short_excess_queue",
    Unit.SECONDS,
    "Seconds per request that the model's queue is longer by while the server does not get the processors that it "
    "wants, spread over all requests.",
    [_excess(Counter.QUEUE_SECONDS, excess)],
)
