"""Which rows are engines', and the reads of one engine inside a span, each with whether the engine worked then."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from diagnostics import names
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.signal import Missing, Reading
from diagnostics.signals.triton import OUTPUT_SECONDS
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, ModelView
from diagnostics.wire.engine import (
    EnginePlaces,
    EngineSample,
    engine_places,
    limits_behind,
    sample_of_page,
    shows_engine,
)
from diagnostics.wire.exposition import SeriesLayout
from diagnostics.wire.model_config import ModelConfig
from diagnostics.wire.servers.catalogue import serving_kind
from diagnostics.wire.servers.kind import ServerKind

# Handing a request to an engine takes up to some milliseconds. A generation takes longer: ten tokens at the 5 ms that
# a fast iteration takes.
LONGEST_HANDOVER = 0.05
# An engine takes each request as it comes, so that what hands it over idles; one that is busy half of its time works.
MOST_BUSY = 0.5
# To hand requests to threads of its own takes a Python model some tenths of a millisecond.
_LONGEST_START = 0.001
# At the end of an execution Triton copies answers out of a Python process: it was measured as 30 µs and more. Where
# threads answer later there are none, which takes 4 to 10 µs.
_NOTHING_COPIED = 15e-6


def is_engine(view: ModelView) -> bool:
    """Return whether the model batches inside: by its backend, its exported gauges, or what its requests bring.

    Its row shows batch size 1 and no queue even when hundreds of requests wait inside.
    """
    config = view.config
    if config is not None and config.backend in names.ENGINE_BACKENDS:
        return True
    if any(shows_engine(snapshot.layout, view.model or "") for _, _, snapshot in view.server.snapshots[-1:]):
        return True
    return config is not None and generates(config) and _only_hands_over(view)


def shows_its_time(view: ModelView) -> bool:
    """Return whether the engine's own time is in the row's compute, not hidden in a gap: C++ backend, trtllm-serve."""
    if view.config is not None:
        return view.config.backend in names.ENGINE_BACKENDS_WITH_TIME
    kind = kind_serving(view)
    return kind is not None and kind.shows_time


def kind_serving(view: ModelView) -> ServerKind | None:
    """Return the kind of server that counts the model's requests in its own words; None for Triton's models.

    Of a server as a whole, that which its page shows, whether it counts requests or not.
    """
    found = (serving_kind(snapshot.layout, view.model) for _, _, snapshot in view.server.snapshots[-1:])
    return next(found, None)


def hides_its_time(view: ModelView) -> bool:
    """Return whether the model answers from a thread of its own, so that its row shows only what starts that."""
    decoupled = view.config is not None and view.config.decoupled
    return (is_engine(view) or decoupled or answers_apart(view)) and not shows_its_time(view)


def answers_apart(view: ModelView) -> bool:
    """Return whether executions of a Python model end at once and without answers: threads of its own send them."""
    config = view.config
    if config is None or config.backend != names.PYTHON_BACKEND or config.response_cache:
        return False  # an answer from the cache copies nothing either
    copied, execution = OUTPUT_SECONDS.read(view).value, EXECUTION_SECONDS.read(view).value
    if not copied or not execution:
        return False
    return copied < _NOTHING_COPIED and execution < _LONGEST_START


def generates(config: ModelConfig) -> bool:
    """Return whether a Python model has the interface of an engine's: TensorRT-LLM's LLM API or runtime, or vLLM's.

    One that names other models in its parameters has the same interface, and calls the engine (TensorRT-LLM's BLS).
    """
    if config.backend != names.PYTHON_BACKEND or any(key.endswith(names.CALLED_MODEL) for key in config.parameters):
        return False
    brought = {one.name for one in config.inputs}
    text = names.TEXT_INPUT in brought
    return (
        (text and any(name.startswith(names.LLM_API_SAMPLING) for name in brought))
        or (text and config.decoupled and names.VLLM_SAMPLING in brought)
        or (brought >= names.RUNTIME_INPUTS and names.ENGINE_PATH in config.parameters)
    )


def _only_hands_over(view: ModelView) -> bool:
    """Return whether nothing shows the model at work in its own row; what was not read shows nothing."""
    execution, busy = EXECUTION_SECONDS.read(view).value, INSTANCE_BUSY_SHARE.read(view)
    works = busy.missing is Missing.CONFLICTING or (busy.value or 0.0) >= MOST_BUSY
    return (execution or 0.0) < LONGEST_HANDOVER and not works


# Fewer reads than this could all fall into one burst.
FEWEST_READS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReads:
    """What was read of one engine.

    Attributes:
        samples: all reads in time order.
        live: those at which it had iterated since the read before. An engine without work iterates no more, and its
            gauges keep their last values.
        working: share of the span in which it iterated, where the samples are iterations: these say nothing of the
            time between them. 1 where they are reads at even intervals.

    """

    samples: Sequence[EngineSample]
    live: Sequence[EngineSample]
    working: float = 1.0

    @property
    def waiting(self) -> Sequence[EngineSample]:
        """The live reads at which requests waited inside."""
        return [sample for sample in self.live if sample.waiting]


def engine_of(view: ModelView) -> EngineReads | Missing:
    """Return what was read of the model's engine, or why nothing can be said."""
    return view.once(_engine)


def _engine(view: ModelView) -> EngineReads | Missing:
    samples, listed = _samples(view)
    if not samples:
        return Missing.NOT_EXPORTED
    live = [sample for sample, worked in zip(samples, _worked(samples), strict=True) if worked]
    if not live:
        return Missing.STALE
    return EngineReads(samples=samples, live=live, working=_working(samples, view.seconds) if listed else 1.0)


def held_by_engine(view: ModelView) -> Mapping[float, float]:
    """Return how many requests the model's engine held at each read (Unix seconds); none where it does not say.

    An engine that iterates no more holds none, whatever its gauges still show.
    """
    engine = engine_of(view)
    if isinstance(engine, Missing):
        return {}
    live = {sample.at for sample in engine.live}
    return {
        sample.at: held if sample.at in live else 0.0
        for sample in engine.samples
        if (held := _held(sample)) is not None
    }


def _held(sample: EngineSample) -> float | None:
    if sample.active is not None or sample.waiting is None or sample.scheduled is None:
        return sample.active
    return sample.waiting + sample.scheduled


def _working(iterations: Sequence[EngineSample], seconds: float) -> float:
    """Return the share of the span in which the engine iterated: iterations × their mean time; 1 when not said.

    The engine numbers its iterations, so those that another reader took are counted too.
    """
    times = [one.iteration_seconds for one in iterations if one.iteration_seconds]
    first, last = iterations[0].iterations, iterations[-1].iterations
    if not times or first is None or last is None or last < first or seconds <= 0:
        return 1.0
    return min((last - first + 1) * sum(times) / len(times) / seconds, 1.0)


def _samples(view: ModelView) -> tuple[list[EngineSample], bool]:
    """Return the samples inside the span, and whether they are an engine's list of iterations."""
    places: dict[SeriesLayout, EnginePlaces] = {}
    found = []
    for at, _, snapshot in view.server.snapshots:
        if not view.start - 1e-6 <= at <= view.end + 1e-6:
            continue
        if snapshot.layout not in places:
            places[snapshot.layout] = _places(view, snapshot.layout)
        if not places[snapshot.layout].slots:
            continue  # most models are no engine
        sample = sample_of_page(snapshot, places[snapshot.layout], at)
        if sample is not None:
            found.append(sample)
    served = any(serving_kind(layout, view.model or "") for layout in places)
    listed = [s for s in view.server.iterations if view.start - 1e-6 <= s.at <= view.end + 1e-6] if served else []
    return (listed, True) if listed else (found, False)


def _places(view: ModelView, layout: SeriesLayout) -> EnginePlaces:
    """Return where a page describes the model's engine, with the limits that a server in front of it states."""
    found = engine_places(layout, view.model or "", view.version)
    front = view.server.front
    if front is None or not front.snapshots or not found.slots:
        return found
    limits = limits_behind(front.snapshots[-1][2], view.model or "")
    return replace(found, constants={**limits, **found.constants})


def _worked(samples: Sequence[EngineSample]) -> list[bool]:
    """Return per read whether the iteration counter had moved since the one before; where there is none, True."""
    counters = [sample.iterations for sample in samples]
    if len(samples) < 2 or None in counters:
        return [True] * len(samples)
    moved = [after != before for before, after in pairwise(counters)]
    return [moved[0], *moved]


def mean_over(values: Sequence[float], unit: Unit, *, estimated: bool = False) -> Reading:
    """Return the mean of values read, with the interval that their spread and number allow (95 %)."""
    if not values:
        return Reading.unknown(Missing.IDLE, unit, METRICS)
    if len(values) < FEWEST_READS:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, unit, METRICS)
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    spread = 1.96 * math.sqrt(variance / len(values))
    return Reading.of(
        mean,
        unit,
        METRICS,
        low=max(mean - spread, 0.0),
        high=mean + spread,
        estimated=estimated,
        events=len(values),
    )


def over_engine(compute: Callable[[EngineReads, ModelView], Reading], unit: Unit) -> Callable[[ModelView], Reading]:
    """Return a reader that computes from what was read of the engine."""

    def read(view: ModelView) -> Reading:
        engine = engine_of(view)
        return Reading.unknown(engine, unit, METRICS) if isinstance(engine, Missing) else compute(engine, view)

    return read


def share_of(reads: Sequence[EngineSample], holds: Callable[[EngineSample], bool | None]) -> Reading:
    """Return the share of reads at which something holds; reads that do not say (None) do not count."""
    stated = [1.0 if answer else 0.0 for answer in map(holds, reads) if answer is not None]
    if reads and not stated:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return mean_over(stated, Unit.RATIO)
