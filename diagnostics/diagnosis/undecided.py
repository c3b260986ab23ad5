"""What could still hide a fault: checks that could not decide, and time of requests that nothing accounts for.

A window is healthy only if none of this reaches enough of a request's time to be worth a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diagnostics.anatomy.anatomy import Anatomy, Phase
from diagnostics.checks.batching_without_gain import BATCHES_FORM
from diagnostics.checks.check import Layer, Unknown
from diagnostics.diagnosis.claiming import Cell, entry_name
from diagnostics.diagnosis.run import Result
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import WORTHWHILE_SECONDS, WORTHWHILE_SHARE
from diagnostics.signals.callers import HANDLING_SECONDS, OUTSIDE_SECONDS
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.engine import ENGINE_WAITING
from diagnostics.signals.engine_rows import generates
from diagnostics.signals.neighbours import FOREIGN_EXCESS_REQUEST
from diagnostics.signals.reading import Missing
from diagnostics.signals.settings import CONFIG_FIX
from diagnostics.signals.subject import Subject
from diagnostics.signals.traces import TRACE_FIX
from diagnostics.signals.triton import BATCH_SIZE
from diagnostics.units import Unit

_QUEUE = frozenset({Phase.QUEUE})
_COMPUTE = frozenset({Phase.COMPUTE})
_INSIDE = frozenset({Phase.COMPUTE, Phase.ENGINE, Phase.QUEUE})
# The phases that each check can claim. What is left out claims no time, or is bounded otherwise: long prompts and time
# outside of the server are symptoms, time between stages is looked at below. Clocks that are held back and neighbours
# on a card are blind spots alone: without NVML no deployment on a GPU could be called healthy.
REACH: Mapping[str, frozenset[Phase]] = {
    "batch-size-collapse": _QUEUE,
    "batch-window-mistuned": _QUEUE,
    "batching-without-gain": _COMPUTE,
    "bls-serialization": _QUEUE,
    "bursty-arrivals": _QUEUE,
    "capacity-exceeded": _QUEUE,
    "cold-start": frozenset({Phase.COMPUTE, Phase.QUEUE}),
    "engine-batch-limit": _INSIDE,
    "engine-token-budget": _INSIDE,
    "execution-hung": frozenset({Phase.COMPUTE, Phase.QUEUE}),
    "gpu-saturated": _QUEUE,
    "host-cpu-starved": frozenset({Phase.COMPUTE, Phase.QUEUE}),
    "inflight-batching-off": _INSIDE,
    "input-output-cost": frozenset({Phase.INPUT, Phase.OUTPUT}),
    "kv-cache-exhausted": _INSIDE,
    "model-reload-stall": frozenset({Phase.QUEUE, Phase.GAP}),
    "over-instanced": frozenset({Phase.COMPUTE, Phase.QUEUE}),
    "priority-starvation": _QUEUE,
    "replica-imbalance": _QUEUE,
    "replica-outlier": frozenset({Phase.COMPUTE, Phase.QUEUE}),
    "scheduler-stall": _QUEUE,
    "sequence-batcher-starved": _QUEUE,
    "single-instance-serialization": _QUEUE,
    "version-regression": _COMPUTE,
    "workload-shift": _QUEUE,
}
# Checks that reach these phases only once so much is seen that no more than this signal is left to know: a process of
# others at work on a full card, of which nothing tells what it costs.
REACH_ONCE_SEEN: Mapping[str, tuple[str, frozenset[Phase]]] = {
    "gpu-contended-by-other-process": (FOREIGN_EXCESS_REQUEST.name, _INSIDE),
}
# Memory is copied with 8 GB/s or more by one thread; a network of 10 Gbit/s brings 1.25 GB/s.
WAY_PER_COPY = 6.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Something undecided, the part of a request that it may cost, and the measurement that decides it.

    `cells` are of the entry in which it may cost most, `share` is of that entry's mean time, 0 to 1.
    """

    text: str
    next_measurement: str
    cells: Mapping[Cell, float]
    mean_seconds: float

    @property
    def seconds(self) -> float:
        """The seconds of a request that it may cost at most."""
        return sum(self.cells.values())

    @property
    def share(self) -> float:
        """That as a share of the request's mean time."""
        return self.seconds / self.mean_seconds if self.mean_seconds > 0 else 0.0

    @property
    def matters(self) -> bool:
        """Whether a change for it may be worth making."""
        return self.seconds >= WORTHWHILE_SECONDS and self.share >= WORTHWHILE_SHARE


def undecided(evidence: Evidence, results: Sequence[Result], anatomy: Sequence[Anatomy]) -> tuple[Open, ...]:
    """Return what may still hide a fault that is worth a change, the one with most of a request's time first."""
    found = (
        *_unaccounted(evidence, anatomy),
        *_on_the_way(evidence, anatomy),
        *_inside_engines(evidence, anatomy),
        *_checks(evidence, results, anatomy),
    )
    return tuple(sorted((one for one in found if one.matters), key=lambda one: -one.share))


def _checks(evidence: Evidence, results: Sequence[Result], anatomy: Sequence[Anatomy]) -> Iterator[Open]:
    for result in results:
        outcome = result.outcome
        if isinstance(outcome, Unknown) and outcome.reason is not Missing.IDLE:
            reached = [(_reached(evidence, result, item), item.mean_seconds) for item in anatomy]
            cells, mean = max(reached, key=lambda one: sum(one[0].values()), default=({}, 0.0))
            yield Open(
                text=f"{result.check.id} of {result.subject} cannot be decided: {_lacks(outcome)}",
                next_measurement=_measurement(result, outcome),
                cells=cells,
                mean_seconds=mean,
            )


def _reached(evidence: Evidence, result: Result, item: Anatomy) -> dict[Cell, float]:
    """Return the seconds of an entry's request that a check may claim."""
    on, phases = result.subject, _phases(result)
    if item.server != on.server or item.requests < ENOUGH_EVENTS or _batched_outside(evidence, result):
        return {}
    part = min(result.entry.weight, 1.0) if result.entry and on.version else 1.0
    return {
        (item.server, entry_name(item.ensemble, stage.model), stage.model, phase): part * seconds
        for stage in item.stages
        if _speaks_of(evidence, on, stage.model, item)
        for phase, seconds in stage.cells.items()
        if phase in phases
    }


def could_matter(evidence: Evidence, result: Result, anatomy: Sequence[Anatomy], *, explained: bool) -> bool:
    """Return whether what a check did not read could change what is said of a window that has a verdict.

    A finding that lacks a reading is less certain. A check that could not decide matters as far as it reaches time
    that is worth a change. One that was quiet all the same matters where nothing else is found wrong.

    Args:
        evidence: what was read.
        result: what the check said.
        anatomy: where time goes.
        explained: whether a cause was found.

    """
    if result.fires is not None:
        return True
    if result.check.check.layer is Layer.GPU and not _time_on_cards(evidence, result, anatomy):
        return False
    if not isinstance(result.outcome, Unknown):
        return not explained
    if result.check.id == "ensemble-overhead":
        return any(_worth_a_change(item.unattributed_seconds, item) for item in anatomy)
    if result.check.id not in REACH:
        return True
    return any(_worth_a_change(sum(_reached(evidence, result, item).values()), item) for item in anatomy)


def _worth_a_change(seconds: float, item: Anatomy) -> bool:
    return seconds >= max(WORTHWHILE_SECONDS, WORTHWHILE_SHARE * item.mean_seconds)


def _time_on_cards(evidence: Evidence, result: Result, anatomy: Sequence[Anatomy]) -> bool:
    """Return whether requests spend time that is worth a change in stages that may run on a GPU."""
    for item in anatomy:
        on_card = (stage for stage in item.stages if _may_be_on_card(evidence, item.server, stage.model))
        seconds = sum(stage.seconds for stage in on_card)
        if item.server == result.subject.server and _worth_a_change(seconds, item):
            return True
    return False


def _may_be_on_card(evidence: Evidence, server: str, model: str) -> bool:
    return evidence.read(ON_GPU, Subject(server=server, model=model)).value != 0


def _phases(result: Result) -> frozenset[Phase]:
    signal, phases = REACH_ONCE_SEEN.get(result.check.id, ("", frozenset[Phase]()))
    if isinstance(result.outcome, Unknown) and result.outcome.signal == signal:
        return phases
    return REACH.get(result.check.id, frozenset())


def _batched_outside(evidence: Evidence, result: Result) -> bool:
    """Return whether an engine is handed whole batches: then requests wait in Triton's queue, and not inside."""
    of_engine = result.check.check.layer is Layer.ENGINE
    return of_engine and (evidence.read(BATCH_SIZE, result.subject).value or 0.0) >= BATCHES_FORM.value


def _speaks_of(evidence: Evidence, on: Subject, model: str, item: Anatomy) -> bool:
    """Return whether a subject's check may claim time in a model's stage: a card's in what may run on it."""
    if on.gpu is not None:
        return _may_be_on_card(evidence, on.server, model)
    return on.model in (None, model) and on.ensemble in (None, item.ensemble)


def _lacks(outcome: Unknown) -> str:
    return f"{outcome.signal.replace('_', ' ')} {outcome.reason.value.replace('_', ' ')}"


def _measurement(result: Result, outcome: Unknown) -> str:
    signal, _ = result.ledger.absent.get(outcome.signal, (None, None))
    if outcome.reason is Missing.TOO_FEW_EVENTS:
        return "read for longer: more events decide it"
    if signal is not None and signal.fix:
        return signal.fix
    return "read the server's HTTP or gRPC port too: its statistics and configuration tell more than its metrics"


def _unaccounted(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Open]:
    """Yield time that no stage accounts for: it may be an engine's, a queue's or the frontend's."""
    for item in anatomy:
        if not item.stages or item.requests < ENOUGH_EVENTS or item.mean_seconds <= 0:
            continue
        name, seconds = entry_name(item.ensemble, item.stages[0].model), item.unattributed_seconds
        share = Unit.RATIO.show(seconds / item.mean_seconds)
        yield Open(
            text=f"{Unit.SECONDS.show(seconds)} of a request of {name}, {share}, is outside of what its models "
            "account for",
            next_measurement=_shows_the_rest(evidence, item, name),
            cells={(item.server, name, "", Phase.GAP): seconds},
            mean_seconds=item.mean_seconds,
        )


def _on_the_way(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Open]:
    """Yield the time in which large tensors travel, where neither clients nor spans of the frontend show it.

    Rows begin when a request has been read. That its tensors are large shows in how long their copies take.
    """
    for item in anatomy:
        if not item.stages or item.requests < ENOUGH_EVENTS or item.mean_seconds <= 0:
            continue
        name, first, last = entry_name(item.ensemble, item.stages[0].model), item.stages[0], item.stages[-1]
        on = Subject(server=item.server, model=None if item.ensemble else name, ensemble=item.ensemble)
        if any(evidence.read(signal, on).value is not None for signal in (HANDLING_SECONDS, OUTSIDE_SECONDS)):
            continue
        copied = first.cells.get(Phase.INPUT, 0.0) + last.cells.get(Phase.OUTPUT, 0.0)
        seconds = WAY_PER_COPY * copied
        yield Open(
            text=f"copies of a request's tensors take {Unit.SECONDS.show(copied)} in {name}: their way through the "
            "network and the frontend takes longer, and was not read",
            next_measurement=f"{TRACE_FIX}, or record what a client sees",
            cells={(item.server, name, "", Phase.GAP): seconds},
            mean_seconds=item.mean_seconds + seconds,
        )


def _inside_engines(evidence: Evidence, anatomy: Sequence[Anatomy]) -> Iterator[Open]:
    """Yield the time of models that generate text in their own row, as if computed: requests may wait inside for it."""
    for item in anatomy:
        for stage in item.stages:
            on = Subject(server=item.server, model=stage.model)
            config, seconds = evidence.config(on), stage.cells.get(Phase.COMPUTE, 0.0)
            if item.requests < ENOUGH_EVENTS or config is None or not generates(config) or evidence.is_engine(on):
                continue
            yield Open(
                text=f"{stage.model} runs an engine of which no gauges were read: requests may wait inside it",
                next_measurement=ENGINE_WAITING.fix,
                cells={(item.server, entry_name(item.ensemble, stage.model), stage.model, Phase.COMPUTE): seconds},
                mean_seconds=item.mean_seconds,
            )


def _shows_the_rest(evidence: Evidence, item: Anatomy, name: str) -> str:
    if item.ensemble is None and evidence.config(Subject(server=item.server, model=name)) is None:
        return f"{CONFIG_FIX}: {name} may be an ensemble, or answer from a thread of its own"
    return TRACE_FIX if item.source != "traces" else "compare a client on the server's machine"
