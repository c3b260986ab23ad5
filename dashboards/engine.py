"""LLM engines inside Triton: slots, KV cache, tokens, and what waits where Triton's counters cannot see it."""

from __future__ import annotations

from dashboards.layout import (
    MODEL,
    MODEL_VARIABLE,
    SERVER_LEGEND,
    DashboardSpec,
    Format,
    Panel,
    PanelKind,
    PanelQuery,
    PanelSection,
    diagnosed_model,
    exported,
    scraped,
    total,
)
from diagnostics import names
from diagnostics.signals.engine import ENGINE_KV_USED, ENGINE_SLOT_FILL, ENGINE_WAIT_SECONDS

_LEGEND = "{{model}} {{instance}}"
_SERVER = f"{{{{model}}}} {SERVER_LEGEND}"


def _typed(metric: str, kind: str, value: str) -> str:
    return scraped(metric, MODEL, f'{kind}="{value}"')


_REQUESTS = PanelSection(
    title="Requests inside the engine",
    panels=(
        Panel(
            title="Active and scheduled requests",
            description="Active are those in the engine, scheduled those that this iteration works on. The difference "
            "waits inside, where Triton counts it as compute.",
            unit=Format.COUNT,
            queries=tuple(
                PanelQuery(
                    expr=_typed(names.ENGINE_REQUESTS, names.ENGINE_REQUEST_TYPE, kind), legend=f"{kind} {_LEGEND}"
                )
                for kind in ("active", "scheduled")
            ),
            runbook="engine-batch-limit",
        ),
        Panel(
            title="Slots in use",
            description="Requests that run ÷ the most that the engine can run at once.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=diagnosed_model(exported(ENGINE_SLOT_FILL)), legend=_SERVER),),
            most=1,
            runbook="engine-batch-limit",
        ),
        Panel(
            title="Wait inside the engine",
            description="Mean time from a request's arrival in the engine until it is scheduled, by Little's law from "
            "the gauges: an estimate.",
            unit=Format.SECONDS,
            queries=(PanelQuery(expr=diagnosed_model(exported(ENGINE_WAIT_SECONDS)), legend=_SERVER),),
        ),
        Panel(
            title="Tokens of context in an iteration",
            description="Prompt tokens that an iteration reads. Near the engine's token budget prompts wait.",
            unit=Format.COUNT,
            queries=(
                PanelQuery(
                    expr=_typed(names.ENGINE_INFLIGHT, names.ENGINE_INFLIGHT_TYPE, "total_context_tokens"),
                    legend=_LEGEND,
                ),
            ),
            runbook="engine-token-budget",
        ),
    ),
)
_CACHE = PanelSection(
    title="KV cache",
    panels=(
        Panel(
            title="KV cache in use",
            description="Blocks in use ÷ blocks. Full while slots are free means that the cache is the limit.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=diagnosed_model(exported(ENGINE_KV_USED)), legend=_SERVER),),
            most=1,
            runbook="kv-cache-exhausted",
        ),
        Panel(
            title="KV cache blocks",
            description="Used, free and most, as the engine counts them.",
            unit=Format.COUNT,
            queries=tuple(
                PanelQuery(
                    expr=total(_typed(names.ENGINE_KV, names.ENGINE_KV_TYPE, kind), names.MODEL),
                    legend=f"{kind} {{{{model}}}}",
                )
                for kind in ("used", "free", "max")
            ),
            kind=PanelKind.LINES,
            runbook="kv-cache-thrashing",
        ),
    ),
)
BOARD = DashboardSpec(
    uid="diag-engine",
    title="Triton / LLM engine",
    description="Slots, KV cache and waiting inside TensorRT-LLM and other in-flight batching engines.",
    job_of=names.ENGINE_REQUESTS,
    sections=(_REQUESTS, _CACHE),
    variables=(MODEL_VARIABLE,),
)
