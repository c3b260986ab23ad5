"""Samples of a machine whose processor time falls: it was booted, or its clock was set and they are out of order.

What was used between the first and the last of such samples is the difference of two numbers that have nothing to do
with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, pairwise
from math import gcd
from operator import attrgetter
from statistics import median
from typing import Any, TypeVar, cast

from diagnostics import names
from diagnostics.window.counters import (
    MOST_MISSED_ROUNDS,
    SAME_ROUND_SECONDS,
    Counter,
    CounterStep,
    CounterTable,
    Delta,
    sum_steps,
)
from diagnostics.window.lifecycle import ServerChange, changes, changes_of
from diagnostics.window.points import increase
from diagnostics.window.traces import Traces
from diagnostics.window.window import METRICS, STATISTICS, Gauge, ServerWindow, Window
from diagnostics.wire.gpu import Gpu
from diagnostics.wire.host import HostSample
from diagnostics.wire.model_config import InstanceGroup, ModelConfig


def longest_boot(samples: Sequence[HostSample]) -> list[HostSample]:
    """Return the longest run of samples, of one machine in time order, in which its processor time does not fall.

    Of runs of one length the newest. A sample without a processor time belongs to the run around it.
    """
    runs: list[list[HostSample]] = []
    most = 0.0
    for sample in samples:
        total = sample.cpu_total_seconds
        if not runs or (total is not None and total < most):
            runs.append([])
        runs[-1].append(sample)
        most = most if total is None else total
    return max(reversed(runs), key=len, default=[])


def occupied(samples: Sequence[Gpu], pids: Collection[int]) -> int | None:
    """Return the GPU instance id of the part that the processes are on; None when nothing shows.

    Without a process on any part it is reported only where the card shows a single one, as it does in a container that
    was given one. Processes on two parts are two servers, or one that cannot be described as on one device.
    """
    parts = [part for gpu in samples for part in gpu.parts]
    own = {part.instance for part in parts if not set(part.process_memory).isdisjoint(pids)}
    shown = own or {part.instance for part in parts}
    return shown.pop() if len(shown) == 1 else None


def processes_of(hosts: Sequence[HostSample]) -> set[int]:
    """Return every process that was in the server's tree at any time."""
    trees = ({process.pid for process in host.processes} | {host.server_pid or 0} for host in hosts)
    return {pid for tree in trees for pid in tree if pid}


def as_seen_from(samples: Sequence[Gpu], hosts: Sequence[HostSample]) -> list[Gpu]:
    """Return the samples of a card with memory, processes and activity of the server's own part.

    Power, clocks and faults stay the card's, which all parts share. A sample in which the part was not read, and all
    where nothing shows which it is, has neither memory nor activity.
    """
    if not any(gpu.parts for gpu in samples):
        return list(samples)
    instance = occupied(samples, processes_of(hosts))
    return [_with(gpu, next((part for part in gpu.parts if part.instance == instance), None)) for gpu in samples]


def _with(card: Gpu, part: Gpu | None) -> Gpu:
    part = part or Gpu(index=card.index)
    return replace(
        card,
        utilization=None,
        instance=part.instance,
        memory_used_bytes=part.memory_used_bytes,
        memory_total_bytes=part.memory_total_bytes,
        process_memory=part.process_memory,
        process_names=part.process_names,
        process_sm=None,
        graphics_active=part.graphics_active,
        sm_active=part.sm_active,
        sm_occupancy=part.sm_occupancy,
        tensor_active=part.tensor_active,
        dram_active=part.dram_active,
    )


T = TypeVar("T")
NO_TRACES = Traces()

# Times that are the same are not always so to the last digit.
_SLACK = 1e-6
# Clocks of recorders have milliseconds: times that are all whole seconds were cut to them. A tenth of the time between
# two reads is what a rate from one read to the next may be off.
MILLISECOND = 1e-3
COARSE_SECONDS = 1.0
_TICKS_PER_READ = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """`model` None looks at the server as a whole; `version` None sums a model's versions."""

    window: Window
    server: ServerWindow
    model: str | None
    version: str | None
    start: float
    end: float
    gpu: str | None = None
    # Dozens of signals look through the same view.
    _tables: dict[str, list[CounterTable]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _deltas: dict[str, Delta | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _found: dict[Callable[..., Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _beside: dict[tuple[str | None, str | None], ModelView] = field(default_factory=dict, repr=False, compare=False)

    @property
    def seconds(self) -> float:
        """Length of the span looked at."""
        return self.end - self.start

    @property
    def config(self) -> ModelConfig | None:
        """The effective configuration, None when it was not read."""
        return self.server.configs.get(self.model or "")

    @property
    def groups(self) -> tuple[InstanceGroup, ...]:
        """Instance groups that execute (not the passive ones)."""
        config = self.config
        return tuple(group for group in config.instance_groups if not group.passive) if config else ()

    @property
    def on_gpu(self) -> bool | None:
        """Whether the model's instances are on GPUs; None when the configuration was not read."""
        if self.config is None:
            return None
        return any(group.kind == names.KIND_GPU or group.gpus for group in self.groups)

    def beside(self, model: str | None, version: str | None = None) -> ModelView:
        """Return the view of another model of the server within the same span, the same one whoever asks."""
        found = self._beside.get((model, version))
        if found is None:
            found = ModelView(
                window=self.window,
                server=self.server,
                model=model,
                version=version,
                start=self.start,
                end=self.end,
                _beside=self._beside,
            )
            self._beside[model, version] = found
        return found

    def executing(self) -> list[ModelView]:
        """Return the views of the server's models that execute, ensembles left out, by name; found once for all."""
        return self.beside(None).once(_executing)

    def part(self) -> None:
        """Forget the views of the others."""
        self._beside.clear()

    def once(self, find: Callable[[ModelView], T]) -> T:
        """Return what a function finds in this view, found the first time that anyone asks."""
        if find not in self._found:
            self._found[find] = find(self)
        return cast(T, self._found[find])

    def keys(self) -> list[tuple[str, str]]:
        """Return the (model, version) pairs looked at."""
        return [key for key in self.server.keys_of(self.model or "") if self.version in (None, key[1])]

    def tables(self, source: str) -> list[CounterTable]:
        """Return the counters of the versions looked at."""
        found = self._tables.get(source)
        if found is None:
            tables = self.server.tables[source]
            found = self._tables[source] = [tables[key] for key in self.keys() if key in tables]
        return found

    def steps(self, source: str) -> list[CounterStep]:
        """Return the steps of all versions looked at inside the span, in time order."""
        tables = [table.inside(self.start, self.end) for table in self.tables(source)]
        return sorted(chain.from_iterable(tables), key=attrgetter("end")) if len(tables) != 1 else list(tables[0])

    def delta(self, source: str) -> Delta | None:
        """Return the increase over the span, None when there are fewer than two reads.

        With several versions the events add up and `seconds` is the longest version's, since they overlap in time.
        """
        if source not in self._deltas:
            self._deltas[source] = self._delta(source)
        return self._deltas[source]

    def _delta(self, source: str) -> Delta | None:
        deltas = [table.delta(self.start, self.end) for table in self.tables(source)]
        present = [delta for delta in deltas if delta is not None]
        if len(present) <= 1:
            return present[0] if present else None
        return _side_by_side(present, sum_steps(self.steps(source)))

    def was_read(self, source: str) -> bool:
        """Return whether the source was read at least twice in the span."""
        return sum(1 for at, _ in self.server.reads[source] if self._holds(at)) >= 2

    def has_holes(self) -> bool:
        """Return whether the server was unread for a while inside the span: a clock jumped, or reading was held up."""
        times = sorted(at for reads in self.server.reads.values() for at, _ in reads if self._holds(at))
        gaps = [later - sooner for sooner, later in pairwise(times) if later - sooner > SAME_ROUND_SECONDS]
        return bool(gaps) and max(gaps) > MOST_MISSED_ROUNDS * median(gaps)

    def ticks_coarsely(self, source: str) -> bool:
        """Return whether reads were filed under times too coarse to know how long it was from one to the next.

        Then all times are multiples of a tick of a second or more, which the time between reads does not exceed ten
        times, and the times between reads differ: cut times of a steady rhythm do, a rhythm in whole seconds does not.
        """
        times = [at for at, _ in self.server.reads[source] if self._holds(at)]
        tick = gcd(*(round(at / MILLISECOND) for at in times)) * MILLISECOND if times else 0.0
        gaps = {round(later - sooner, 3) for sooner, later in pairwise(times)}
        return tick >= COARSE_SECONDS and len(gaps) > 1 and median(gaps) < _TICKS_PER_READ * tick

    def pending(self) -> Gauge:
        """Return (time, requests waiting) of the pending gauge, empty before Triton 23.09."""
        return self.once(_pending)

    def changes(self) -> tuple[ServerChange, ...]:
        """Return what happened to the model, all its versions, in time order; inside the span or not."""
        return self.beside(self.model).once(_changes)

    def server_changes(self) -> tuple[ServerChange, ...]:
        """Return what happened to the server and all its models, in time order, found once whoever asks."""
        return self.beside(None).once(_server_changes)

    def gauge(self, name: str, labels: dict[str, str]) -> Gauge:
        """Return the gauge's points inside the span."""
        first, last = self.start - _SLACK, self.end + _SLACK
        return [point for point in self.server.gauge(name, labels) if first <= point[0] <= last]

    def hosts(self) -> list[HostSample]:
        """Return host samples inside the span, a scrape interval of slack at both ends: most of those of one boot."""
        return longest_boot([sample for sample in self.server.hosts if self._holds(sample.at, slack=2.0)])

    def gpu_series(self) -> dict[str, list[Gpu]]:
        """Return the samples per GPU uuid inside the span, of NVML, else of DCGM, else of Triton's own gauges.

        The GPU looked at; without one, those that the model's instance groups list; else all that the server sees. A
        machine's cards that Triton does not list are another server's.
        """
        own, measured = self.server.gpus, self.window.cards
        seen = {uuid: samples for uuid, samples in measured.items() if uuid in own} if own else measured
        listed = {index for group in self.groups for index in group.gpus}
        picked = {uuid: samples for uuid, samples in seen.items() if not listed or samples[0][1].index in listed}
        found = {}
        for uuid, samples in (picked or seen or own).items():
            if self.gpu in (None, uuid):
                inside = [gpu for at, gpu in samples if self._holds(at, slack=2.0)]
                found[uuid] = as_seen_from(inside, self.server.hosts)
        return {uuid: gpus for uuid, gpus in found.items() if gpus}

    def traces(self) -> Traces:
        """Return the window's traces; none where several servers sent them and none says which one it was."""
        return self.window.traces if len(self.window.servers) == 1 else NO_TRACES

    def visible_gpus(self) -> int | None:
        """Return how many GPUs the server sees, None when nothing shows."""
        if self.window.gpus:
            return len(self.window.gpus[-1].gpus)
        return len(self.server.gpus) or None

    def _holds(self, at: float | None, slack: float = _SLACK) -> bool:
        return at is not None and self.start - slack <= at <= self.end + slack


def _pending(view: ModelView) -> Gauge:
    labels = {names.MODEL: view.model or ""}
    if view.version is not None:
        labels[names.VERSION] = view.version
    return view.gauge(names.PENDING_REQUESTS, labels)


def _executing(view: ModelView) -> list[ModelView]:
    models = {model for model, _ in view.server.keys_seen()} - set(view.server.graph.ensembles)
    return [view.beside(model) for model in sorted(models)]


def _changes(view: ModelView) -> tuple[ServerChange, ...]:
    return changes_of(view.server, view.model or "")


def _server_changes(view: ModelView) -> tuple[ServerChange, ...]:
    return changes(view.server)


def _side_by_side(deltas: Sequence[Delta], total: Delta) -> Delta:
    return Delta(
        values=total.values,
        batches=total.batches,
        seconds=max(delta.seconds for delta in deltas),
        steps=total.steps,
        resets=total.resets,
        dropped=sum(delta.dropped for delta in deltas),
    )


# A server that restarts between any two reads stands at random wherever it is read: six such reads fall five times in
# a row in one of 6! = 720 cases.
FEWEST_FALLS = 5


class ClockFault(StrEnum):
    """What a clock did."""

    BACKWARDS = "ran backwards"
    STILL = "stood still"


def clock_faults(view: ModelView) -> Mapping[str, ClockFault]:
    """Return what is the matter with the times of a server's reads, by source; nothing where nothing shows any.

    Only a clock shows at one source that it ran backwards, and at both what that does.
    """
    server = view.server
    if any(_only_fall(tables.values()) for tables in server.tables.values()):
        return dict.fromkeys((STATISTICS, METRICS), ClockFault.BACKWARDS)
    return {source: ClockFault.STILL for source, reads in server.reads.items() if _at_one_time(reads)}


def _at_one_time(reads: Sequence[tuple[float, float]]) -> bool:
    return len(reads) > 1 and len({mono for _, mono in reads}) == 1


def _only_fall(tables: Iterable[CounterTable]) -> bool:
    rows = list(tables)
    return any(len(row.fell_at) >= FEWEST_FALLS for row in rows) and not any(row.rose for row in rows)


__all__ = ["METRICS", "STATISTICS", "Counter", "CounterStep", "Delta", "ModelView", "increase"]
