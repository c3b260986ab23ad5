"""What an in-flight-batching engine says of its requests, its slots, its KV cache and its token budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from diagnostics import names
from diagnostics.signals.engine_samples import EngineReads, mean_over, over_engine, share_of
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.triton import REQUEST_RATE, REQUESTS
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, ModelView
from diagnostics.wire.engine import EngineSample

_GAUGES_FIX = f"read the metrics port: the TensorRT-LLM backend exports {names.ENGINE_REQUESTS} there"


def engine_signal(
    name: str, unit: Unit, doc: str, compute: Callable[[EngineReads, ModelView], Reading], *, fix: str = ""
) -> Signal:
    """Return a signal of a model whose only reader computes from the engine's reads."""
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=(over_engine(compute, unit),), fix=fix)


def _waits(engine: EngineReads) -> list[float]:
    """Return what waited at each read; nothing waits inside an engine that does not iterate: it only looks so."""
    live = set(map(id, engine.live))
    return [s.waiting if id(s) in live else 0.0 for s in engine.samples if s.waiting is not None]


def _waiting(engine: EngineReads, _: ModelView) -> Reading:
    values = _waits(engine)
    if not values:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    mean = engine.working * sum(values) / len(values)
    low = min(values) if engine.working == 1.0 else 0.0
    return Reading.of(mean, Unit.COUNT, METRICS, low=low, high=max(values), events=len(values))


def _working(engine: EngineReads) -> Reading:
    return Reading.of(engine.working, Unit.RATIO, METRICS)


def _waiting_share(engine: EngineReads, _: ModelView) -> Reading:
    values = _waits(engine)
    if not values:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return mean_over([1.0 if value > 0 else 0.0 for value in values], Unit.RATIO) * _working(engine)


def _wait_seconds(engine: EngineReads, view: ModelView) -> Reading:
    waiting = mean_over(_waits(engine), Unit.COUNT) * _working(engine)
    return (waiting / REQUEST_RATE.read(view)).with_unit(Unit.SECONDS)


def _work_seconds(engine: EngineReads, view: ModelView) -> Reading:
    live = set(map(id, engine.live))
    values = [s.scheduled if id(s) in live else 0.0 for s in engine.samples if s.scheduled is not None]
    scheduled = mean_over(values, Unit.COUNT) * _working(engine)
    return (scheduled / REQUEST_RATE.read(view)).with_unit(Unit.SECONDS)


def _slots(engine: EngineReads, view: ModelView) -> Reading:
    stated = [sample.slots for sample in engine.live if sample.slots]
    configured = view.config.max_batch_size if view.config else 0
    built = view.config is not None and view.config.backend in names.ENGINE_BACKENDS_WITH_TIME and configured > 0
    if not stated:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    if built and configured < stated[-1]:
        return Reading.of(float(configured), Unit.COUNT, "configuration")
    return Reading.of(stated[-1], Unit.COUNT, METRICS)


def _slot_fill(engine: EngineReads, view: ModelView) -> Reading:
    slots = _slots(engine, view).value
    if not slots:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    scheduled = [sample.scheduled for sample in engine.waiting if sample.scheduled is not None]
    return mean_over([value / slots for value in scheduled], Unit.RATIO)


def _peak_fill(engine: EngineReads, view: ModelView) -> Reading:
    slots = _slots(engine, view).value
    scheduled = [sample.scheduled for sample in engine.live if sample.scheduled is not None]
    if not slots or not scheduled:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return Reading.of(max(scheduled) / slots, Unit.RATIO, METRICS, events=len(scheduled))


def _peak_scheduled(engine: EngineReads, _: ModelView) -> Reading:
    scheduled = [sample.scheduled for sample in engine.live if sample.scheduled is not None]
    if not scheduled:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(max(scheduled), Unit.COUNT, METRICS, events=len(scheduled))


def _peak_held(engine: EngineReads, _: ModelView) -> Reading:
    held = [s.scheduled + s.waiting for s in engine.live if s.scheduled is not None and s.waiting is not None]
    if not held:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(max(held), Unit.COUNT, METRICS, events=len(held))


def _micro_batches(engine: EngineReads, _: ModelView) -> Reading:
    seen = {sample.micro_batch for sample in engine.live if sample.micro_batch is not None}
    if not seen:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(len(seen), Unit.COUNT, METRICS, events=len(engine.live))


def _static(engine: EngineReads, view: ModelView) -> Reading:
    stated = view.config.parameters.get("gpt_model_type", "") if view.config else ""
    if stated and "$" not in stated:
        return Reading.of(1.0 if stated.upper() == "V1" else 0.0, Unit.COUNT, "configuration")
    return Reading.of(1.0 if engine.live[-1].static_batching else 0.0, Unit.COUNT, METRICS)


ENGINE_WAITING = engine_signal(
    "engine_waiting_requests",
    Unit.COUNT,
    "Requests that the engine holds and has not scheduled, mean over the reads; the last iteration at each.",
    _waiting,
    fix=_GAUGES_FIX,
)
ENGINE_WAITING_SHARE = engine_signal(
    "engine_waiting_share", Unit.RATIO, "Share of the reads at which a request waits inside the engine.", _waiting_share
)
ENGINE_WAIT_SECONDS = engine_signal(
    "engine_wait_seconds",
    Unit.SECONDS,
    "Mean time a request waits inside the engine: waiting requests ÷ request rate (Little's law).",
    _wait_seconds,
)
ENGINE_WORK_SECONDS = engine_signal(
    "engine_work_seconds",
    Unit.SECONDS,
    "Mean time a request is scheduled by the engine: scheduled requests ÷ request rate (Little's law).",
    _work_seconds,
)
ENGINE_SLOTS = engine_signal(
    "engine_slots",
    Unit.COUNT,
    "Requests that the engine can run at once: its own limit, or the smaller one of its configuration.",
    _slots,
)
ENGINE_SLOT_FILL = engine_signal(
    "engine_slot_fill", Unit.RATIO, "Scheduled requests ÷ slots, mean over reads at which requests wait.", _slot_fill
)
ENGINE_PEAK_FILL = engine_signal(
    "engine_peak_slot_fill", Unit.RATIO, "Most scheduled requests of any read ÷ slots.", _peak_fill
)
ENGINE_PEAK_SCHEDULED = engine_signal(
    "engine_peak_scheduled", Unit.COUNT, "Most requests that were scheduled at any read.", _peak_scheduled
)
ENGINE_PEAK_HELD = engine_signal(
    "engine_peak_held", Unit.COUNT, "Most requests that the engine held at any read, scheduled or waiting.", _peak_held
)
ENGINE_MICRO_BATCHES = engine_signal(
    "engine_micro_batches",
    Unit.COUNT,
    "Micro batches seen: with more than one, the requests of the others look as if they waited.",
    _micro_batches,
)
ENGINE_STATIC_BATCHING = engine_signal(
    "engine_static_batching", Unit.COUNT, "1 when batches run to their end before others start (V1), else 0.", _static
)


MAX_UTILIZATION = "max_utilization"
GUARANTEED_NO_EVICT = "guaranteed_no_evict"
# `used + free = max` holds exactly; a block may move between the three reads.
_BLOCK = 1.0


def _blocks(reads: Sequence[EngineSample]) -> list[tuple[float, float, float]] | Missing:
    """Return (max, used, free) of the reads that say them, or why they cannot be used.

    Where a value is missing in the engine's report, later ones shift onto wrong labels (the TensorRT-LLM backend's
    reporter pairs them by position): then used and free do not add up to max.
    """
    stated = [
        (read.kv_blocks, read.kv_used, read.kv_free)
        for read in reads
        if read.kv_blocks and read.kv_used is not None and read.kv_free is not None
    ]
    if not stated:
        return Missing.NOT_EXPORTED
    wrong = sum(1 for most, used, free in stated if abs(used + free - most) > _BLOCK)
    return Missing.CONFLICTING if 2 * wrong > len(stated) else stated


def _need(engine: EngineReads, _: ModelView) -> Reading:
    blocks = _blocks(engine.live)
    if isinstance(blocks, Missing):
        return Reading.unknown(blocks, Unit.COUNT, METRICS)
    pairs = [(read.kv_used, read.scheduled) for read in engine.live if read.scheduled and read.kv_used is not None]
    scheduled = sum(count for _, count in pairs)
    if not scheduled:
        return Reading.unknown(Missing.IDLE, Unit.COUNT, METRICS)
    return Reading.of(sum(used for used, _ in pairs) / scheduled, Unit.COUNT, METRICS, events=len(pairs))


def _blocked(engine: EngineReads, view: ModelView) -> Reading:
    need, blocks = _need(engine, view), _blocks(engine.waiting)
    if need.value is None or isinstance(blocks, Missing):
        reason = need.missing or (blocks if isinstance(blocks, Missing) else Missing.IDLE)
        return Reading.unknown(reason if engine.waiting else Missing.IDLE, Unit.RATIO, METRICS)
    limit = max(need.value, 1.0)
    return mean_over([1.0 if free < limit else 0.0 for _, _, free in blocks], Unit.RATIO)


def _used(engine: EngineReads, _: ModelView) -> Reading:
    blocks = _blocks(engine.waiting or engine.live)
    if isinstance(blocks, Missing):
        return Reading.unknown(blocks, Unit.RATIO, METRICS)
    return mean_over([used / most for most, used, _ in blocks], Unit.RATIO)


def _capacity(engine: EngineReads, _: ModelView) -> Reading:
    blocks = _blocks(engine.live)
    if isinstance(blocks, Missing):
        return Reading.unknown(blocks, Unit.COUNT, METRICS)
    return Reading.of(blocks[-1][0], Unit.COUNT, METRICS)


def _block_tokens(engine: EngineReads, _: ModelView) -> Reading:
    stated = [read.tokens_per_block for read in engine.live if read.tokens_per_block]
    if not stated:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(stated[-1], Unit.COUNT, METRICS)


def _paused(engine: EngineReads, _: ModelView) -> Reading:
    stated = [read.paused for read in engine.live if read.paused is not None]
    if not stated:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return mean_over(stated, Unit.COUNT)


def _pause_seconds(engine: EngineReads, view: ModelView) -> Reading:
    return (_paused(engine, view) / REQUEST_RATE.read(view)).with_unit(Unit.SECONDS)


def _paused_share(engine: EngineReads, _: ModelView) -> Reading:
    return share_of(engine.live, lambda read: None if read.paused is None else read.paused > 0)


def _preempted(engine: EngineReads, view: ModelView) -> Reading:
    stated = [read.preempted for read in engine.samples if read.preempted is not None]
    if len(stated) < 2:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    # An engine that was restarted counts from zero.
    times = sum(max(after - before, 0.0) for before, after in pairwise(stated))
    requests = REQUESTS.read(view)
    if requests.value == 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, METRICS)
    return (Reading.of(times, Unit.COUNT, METRICS, events=round(times)) / requests).with_unit(Unit.RATIO)


def _prefix_hits(engine: EngineReads, _: ModelView) -> Reading:
    stated = [
        (read.prefix_queries, read.prefix_hits)
        for read in engine.samples
        if read.prefix_queries is not None and read.prefix_hits is not None
    ]
    if len(stated) < 2:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    (first, hit_before), (last, hit_after) = stated[0], stated[-1]
    if last < first or hit_after < hit_before:
        return Reading.unknown(Missing.RESET, Unit.RATIO, METRICS)
    if last == first:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, METRICS)
    return Reading.of((hit_after - hit_before) / (last - first), Unit.RATIO, METRICS, events=last - first)


def _draft_gain(engine: EngineReads, _: ModelView) -> Reading:
    gains = [
        read.tokens_at_once * (1.0 - read.draft_share)
        for read in engine.live
        if read.tokens_at_once and read.draft_share  # of an iteration without drafts, or of one model for both
    ]
    return mean_over(gains, Unit.RATIO) if gains else Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)


def _policy(_: EngineReads, view: ModelView) -> Reading:
    stated = view.config.parameters.get("batch_scheduler_policy", "").lower() if view.config else ""
    if stated not in (MAX_UTILIZATION, GUARANTEED_NO_EVICT):
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, "configuration")
    return Reading.of(1.0 if stated == MAX_UTILIZATION else 0.0, Unit.COUNT, "configuration")


ENGINE_KV_NEED = engine_signal(
    "engine_kv_blocks_per_request", Unit.COUNT, "KV blocks in use ÷ scheduled requests, over the reads.", _need
)
ENGINE_KV_BLOCKED = engine_signal(
    "engine_kv_blocked_share",
    Unit.RATIO,
    "Share of the reads with waiting requests at which fewer KV blocks are free than a request holds on average.",
    _blocked,
)
ENGINE_KV_USED = engine_signal(
    "engine_kv_used_share", Unit.RATIO, "KV blocks in use ÷ all, mean over reads at which requests wait.", _used
)
ENGINE_KV_BLOCKS = engine_signal("engine_kv_blocks", Unit.COUNT, "Blocks of the KV cache.", _capacity)
ENGINE_BLOCK_TOKENS = engine_signal("engine_tokens_per_block", Unit.COUNT, "Tokens per KV block.", _block_tokens)
ENGINE_PAUSED = engine_signal(
    "engine_paused_requests", Unit.COUNT, "Requests put back for lack of KV blocks, mean over the reads.", _paused
)
ENGINE_PAUSE_SECONDS = engine_signal(
    "engine_pause_seconds",
    Unit.SECONDS,
    "Mean time a request is paused: paused requests ÷ request rate (Little's law).",
    _pause_seconds,
)
ENGINE_PAUSED_SHARE = engine_signal(
    "engine_paused_share", Unit.RATIO, "Share of the reads at which requests are paused.", _paused_share
)
ENGINE_PREEMPTED = engine_signal(
    "engine_preemptions_per_request",
    Unit.RATIO,
    "How often running requests were put back for lack of KV blocks ÷ requests that ended (vLLM's preemptions, "
    "SGLang's retractions).",
    _preempted,
)
ENGINE_PREFIX_HITS = engine_signal(
    "engine_prefix_hit_share",
    Unit.RATIO,
    "Share of what is looked up in the engine's prefix cache (tokens or blocks of prompts) that is there.",
    _prefix_hits,
)
ENGINE_DRAFT_GAIN = engine_signal(
    "engine_draft_gain",
    Unit.RATIO,
    "Tokens of a request in the time that an iteration takes without drafting: below 1, drafts take more than they "
    "save (speculative decoding). The longer verification is left out.",
    _draft_gain,
)
ENGINE_MAX_UTILIZATION = engine_signal(
    "engine_max_utilization",
    Unit.COUNT,
    "1 when the scheduler policy is max_utilization, 0 when it is guaranteed_no_evict.",
    _policy,
)
