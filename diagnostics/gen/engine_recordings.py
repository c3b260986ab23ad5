"""Recording rules on the TensorRT-LLM backend's gauges: one metric per label value, because each has its own unit.

The gauges keep their last value while the engine is idle, so each is recorded only while its iterations count on.
"""

from __future__ import annotations

from diagnostics import names
from diagnostics.gen.model_recordings import LEVEL
from diagnostics.gen.recording import RANGE, Recording, ratio
from diagnostics.units import Unit

_PREFIX = f"{LEVEL}:triton_engine"
ITERATIONS = f"{_PREFIX}_iterations:rate5m"
ACTIVE = f"{_PREFIX}_active_requests:avg5m"
SCHEDULED = f"{_PREFIX}_scheduled_requests:avg5m"
CONTEXT = f"{_PREFIX}_context_requests:avg5m"
MOST = f"{_PREFIX}_max_requests:avg5m"
WAITING = f"{_PREFIX}_waiting_requests:avg5m"
PAUSED = f"{_PREFIX}_paused_requests:avg5m"
SLOT_FILL = f"{_PREFIX}_slot_fill:ratio5m"
KV_USED = f"{_PREFIX}_kv_used:ratio5m"
_KV = f"{_PREFIX}_kv"


def _gauge(family: str, label: str, value: str) -> str:
    """Return the mean of one label value's series, without that label."""
    return f'sum without ({label}) (avg_over_time({family}{{{label}="{value}"}}[{RANGE}]))'


def _moving(expr: str) -> str:
    return f"({expr}) and {ITERATIONS} > 0" if " or " in expr else f"{expr} and {ITERATIONS} > 0"


def _of(name: str, expr: str, meaning: str, unit: Unit = Unit.COUNT) -> Recording:
    return Recording(name=name, expr=expr, unit=unit, meaning=meaning)


def _requests() -> tuple[Recording, ...]:
    def moving(value: str) -> str:
        return _moving(_gauge(names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, value))

    # Releases before 0.17 export no waiting requests; sampled apart, the difference may be below 0.
    waiting = f"{_gauge(names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, 'waiting')} or {ACTIVE} - {SCHEDULED}"
    return (
        _of(ACTIVE, moving("active"), "Requests that the engine holds."),
        _of(SCHEDULED, moving("scheduled"), "Of these, requests in an iteration's batch."),
        _of(CONTEXT, moving("context"), "Of these, requests whose prompt is being read."),
        _of(MOST, moving("max"), "Most requests that the engine runs at once."),
        _of(WAITING, f"clamp_min({waiting}, 0) and {ITERATIONS} > 0", "Requests that wait inside the engine."),
        _of(SLOT_FILL, ratio(SCHEDULED, MOST), "Share of the engine's slots in use.", Unit.RATIO),
    )


def _cache() -> tuple[Recording, ...]:
    def gauge(value: str) -> str:
        return _gauge(names.ENGINE_KV, names.ENGINE_KV_TYPE, value)

    blocks = (("used", "Blocks in use."), ("free", "Blocks that are free."), ("max", "Blocks that there are."))
    reused = f'{names.ENGINE_KV}{{{names.ENGINE_KV_TYPE}="reused"}}'
    fraction = f"{gauge('fraction')} or {ratio(gauge('used'), gauge('max'))}"
    return (
        *(_of(f"{_KV}_{value}_blocks:avg5m", _moving(gauge(value)), f"KV cache: {text}") for value, text in blocks),
        _of(f"{_KV}_block_tokens:avg5m", _moving(gauge("tokens_per")), "KV cache: tokens that a block holds."),
        _of(
            f"{_KV}_reused_blocks:rate5m",
            f"sum without ({names.ENGINE_KV_TYPE}) (rate({reused}[{RANGE}]))",
            "KV cache: blocks reused; a gauge that only grows.",
            Unit.PER_SECOND,
        ),
        _of(KV_USED, _moving(fraction), "KV cache: share of blocks in use.", Unit.RATIO),
    )


def _batcher() -> tuple[Recording, ...]:
    def moving(value: str) -> str:
        return _moving(_gauge(names.ENGINE_INFLIGHT, names.ENGINE_INFLIGHT_TYPE, value))

    return (
        _of(PAUSED, moving("paused_requests"), "Requests paused for want of KV cache."),
        _of(f"{_PREFIX}_generation_requests:avg5m", moving("generation_requests"), "Requests that generate tokens."),
        _of(
            f"{_PREFIX}_context_tokens:avg5m",
            moving("total_context_tokens"),
            "Tokens of prompts that an iteration reads.",
        ),
    )


def _memory() -> tuple[Recording, ...]:
    return tuple(
        _of(
            f"{_PREFIX}_{where}_memory_bytes:avg5m",
            _gauge(names.ENGINE_MEMORY, names.ENGINE_MEMORY_TYPE, where),
            f"Memory of the engine's runtime ({where}); neither weights nor KV cache.",
            Unit.BYTES,
        )
        for where in ("gpu", "cpu", "pinned")
    )


def _iterations() -> Recording:
    counter = f'{names.ENGINE_GENERAL}{{{names.ENGINE_GENERAL_TYPE}="iteration_counter"}}'
    expr = f"sum without ({names.ENGINE_GENERAL_TYPE}) (rate({counter}[{RANGE}]))"
    return _of(ITERATIONS, expr, "Iterations of the engine; 0 while it is idle.", Unit.PER_SECOND)


ENGINE_RECORDINGS = (_iterations(), *_requests(), *_cache(), *_batcher(), *_memory())
