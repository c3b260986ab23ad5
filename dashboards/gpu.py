"""GPUs: how full they really are, memory, power."""

from __future__ import annotations

from dashboards.layout import (
    SERVER_LEGEND,
    DashboardSpec,
    Format,
    Panel,
    PanelKind,
    PanelQuery,
    PanelSection,
    diagnosed,
    exported,
    ratio,
    scraped,
)
from diagnostics import names
from diagnostics.signals.gpu import GPU_MEMORY_USED, GPU_SM_ACTIVE, GPU_TIME_USED

_CARD = f"{{{{{names.GPU_UUID}}}}} {{{{instance}}}}"
_DIAGNOSED = f"{{{{gpu}}}} {SERVER_LEGEND}"


_FULL = PanelSection(
    title="How full it is",
    panels=(
        Panel(
            title="SMs active",
            description="Mean share of the SMs that work, from NVML or DCGM profiling. This, not utilization, tells "
            "whether more work fits.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=diagnosed(exported(GPU_SM_ACTIVE)), legend=_DIAGNOSED),),
            most=1,
            runbook="gpu-saturated",
        ),
        Panel(
            title="Utilization",
            description="Share of the time in which at least one kernel ran. 95 % can leave two thirds of the SMs "
            "idle: it is an upper bound of how full the GPU is, nothing more.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=scraped(names.GPU_UTILIZATION), legend=_CARD),),
            most=1,
        ),
        Panel(
            title="Time in use",
            description="Share of the time that processes take in turns where they share the card without MPS.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=diagnosed(exported(GPU_TIME_USED)), legend=_DIAGNOSED),),
            most=1,
            runbook="gpu-contended-by-other-process",
        ),
        Panel(
            title="Power, and its limit",
            description="At the limit the clock goes down.",
            unit=Format.WATTS,
            queries=(
                PanelQuery(expr=scraped(names.GPU_POWER), legend=f"used {_CARD}"),
                PanelQuery(expr=scraped(names.GPU_POWER_LIMIT), legend=f"limit {_CARD}"),
            ),
            runbook="gpu-throttled",
        ),
    ),
)
_MEMORY = PanelSection(
    title="Memory",
    panels=(
        Panel(
            title="Memory in use",
            description="Of the card, by all processes.",
            unit=Format.BYTES,
            queries=(PanelQuery(expr=scraped(names.GPU_MEMORY_USED), legend=_CARD),),
            kind=PanelKind.LINES,
        ),
        Panel(
            title="Share of memory in use",
            description="Used ÷ total. Engines take their share at start, so that a high one is normal there; a load "
            "needs room for a second copy.",
            unit=Format.SHARE,
            queries=(
                PanelQuery(expr=diagnosed(exported(GPU_MEMORY_USED)), legend=f"diag {_DIAGNOSED}"),
                PanelQuery(
                    expr=ratio(scraped(names.GPU_MEMORY_USED), scraped(names.GPU_MEMORY_TOTAL)),
                    legend=f"Triton {_CARD}",
                ),
            ),
            most=1,
            runbook="gpu-memory-pressure",
        ),
    ),
)
BOARD = DashboardSpec(
    uid="diag-gpu",
    title="Triton / GPU",
    description="SM activity, utilization and what it hides, memory, power.",
    job_of=names.GPU_UTILIZATION,
    sections=(_FULL, _MEMORY),
)
