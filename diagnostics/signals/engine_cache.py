"""The engine's KV cache and its token budget: what holds requests back where slots are free."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.signals.engine import engine_signal
from diagnostics.signals.engine_samples import EngineReads, mean_over, share_of
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.triton import REQUEST_RATE
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, ModelView
from diagnostics.wire.engine import EngineSample

MAX_UTILIZATION = "max_utilization"
GUARANTEED_NO_EVICT = "guaranteed_no_evict"
# `used + free = max` holds exactly; a block may move between the three reads.
_BLOCK = 1.0


def _blocks(reads: Sequence[EngineSample]) -> list[tuple[float, float, float]] | Missing:
    """Return (max, used, free) of the reads that say them, or why they cannot be used.

    Where a value is missing in the engine's report, later ones shift onto wrong labels (the TensorRT-LLM backend's
    reporter pairs them by position): then used and free do not add up to max.
    """
    said = [
        (read.kv_blocks, read.kv_used, read.kv_free)
        for read in reads
        if read.kv_blocks and read.kv_used is not None and read.kv_free is not None
    ]
    if not said:
        return Missing.NOT_EXPORTED
    wrong = sum(1 for most, used, free in said if abs(used + free - most) > _BLOCK)
    return Missing.CONFLICTING if 2 * wrong > len(said) else said


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
    said = [read.tokens_per_block for read in engine.live if read.tokens_per_block]
    if not said:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(said[-1], Unit.COUNT, METRICS)


def _paused(engine: EngineReads, _: ModelView) -> Reading:
    said = [read.paused for read in engine.live if read.paused is not None]
    if not said:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return mean_over(said, Unit.COUNT)


def _pause_seconds(engine: EngineReads, view: ModelView) -> Reading:
    return (_paused(engine, view) / REQUEST_RATE.read(view)).with_unit(Unit.SECONDS)


def _paused_share(engine: EngineReads, _: ModelView) -> Reading:
    return share_of(engine.live, lambda read: None if read.paused is None else read.paused > 0)


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
ENGINE_MAX_UTILIZATION = engine_signal(
    "engine_max_utilization",
    Unit.COUNT,
    "1 when the scheduler policy is max_utilization, 0 when it is guaranteed_no_evict.",
    _policy,
)
