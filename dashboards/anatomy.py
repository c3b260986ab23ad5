"""Where an ensemble's requests spend their time, stage by stage."""

from __future__ import annotations

from dashboards.layout import (
    MODEL_VARIABLE,
    SERVER_LEGEND,
    DashboardSpec,
    Format,
    Panel,
    PanelKind,
    PanelQuery,
    PanelSection,
    diagnosed,
    diagnosed_model,
    exported,
    mean_seconds,
)
from diagnostics import names
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.gaps import OVERHEAD_SECONDS
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.triton import BATCH_SIZE

_STAGE = "{{model}}"
_BY = (names.MODEL,)
_MEMBERS = "Choose the ensemble's members as models: an ensemble's own row repeats its members' compute."


def _phase(title: str, duration: str, text: str) -> Panel:
    return Panel(
        title=title,
        description=f"{text} {_MEMBERS}",
        unit=Format.SECONDS,
        queries=(PanelQuery(expr=mean_seconds(duration, *_BY), legend=_STAGE),),
        kind=PanelKind.STACKED,
    )


_TIME = PanelSection(
    title="Time of a request, by stage",
    panels=(
        _phase(
            "Waiting in the queue",
            names.QUEUE_DURATION,
            "Mean time that a request waits for an instance. The stage that stands out has too few instances, or "
            "forms batches too slowly.",
        ),
        _phase(
            "Executing",
            names.INFER_DURATION,
            "Mean time in a model's executions. A request of a batch carries the whole batch's time.",
        ),
        _phase("Inputs", names.INPUT_DURATION, "Mean time for gathering a request's inputs, copies to the GPU too."),
        _phase("Outputs", names.OUTPUT_DURATION, "Mean time for a request's outputs, copies from the GPU too."),
        Panel(
            title="Between the stages",
            description="What of an ensemble's mean time none of its members accounts for: hand-over, and engines that "
            "answer from a thread of their own.",
            unit=Format.SECONDS,
            queries=(
                PanelQuery(expr=diagnosed(exported(OVERHEAD_SECONDS)), legend=f"{{{{ensemble}}}} {SERVER_LEGEND}"),
            ),
            width=24,
        ),
    ),
)
_STAGES = PanelSection(
    title="What the stages are doing",
    panels=(
        Panel(
            title="Busy share of instances",
            description="Share of the time in which a model's instances execute, from the batch statistics. Near 100 % "
            "requests queue. Triton's metrics alone overstate it by the batch size.",
            unit=Format.SHARE,
            queries=(
                PanelQuery(expr=diagnosed_model(exported(INSTANCE_BUSY_SHARE)), legend=f"{_STAGE} {SERVER_LEGEND}"),
            ),
            most=1,
            runbook="single-instance-serialization",
        ),
        Panel(
            title="Instances",
            description="Instances that execute, over all instance groups and GPUs.",
            unit=Format.COUNT,
            queries=(PanelQuery(expr=diagnosed_model(exported(INSTANCES)), legend=f"{_STAGE} {SERVER_LEGEND}"),),
            kind=PanelKind.BARS,
        ),
        Panel(
            title="Batch size",
            description="Mean items of an execution. One, where more are allowed and requests wait, is a collapsed "
            "batch.",
            unit=Format.COUNT,
            queries=(PanelQuery(expr=diagnosed_model(exported(BATCH_SIZE)), legend=f"{_STAGE} {SERVER_LEGEND}"),),
            runbook="batch-size-collapse",
        ),
        Panel(
            title="Time of an execution",
            description="Mean time that one execution occupies its instance: input, infer and output.",
            unit=Format.SECONDS,
            queries=(
                PanelQuery(expr=diagnosed_model(exported(EXECUTION_SECONDS)), legend=f"{_STAGE} {SERVER_LEGEND}"),
            ),
        ),
    ),
)
BOARD = DashboardSpec(
    uid="diag-anatomy",
    title="Triton / Ensemble anatomy",
    description="Queue, execution, inputs and outputs of each stage, and what its instances do.",
    job_of=names.REQUEST_SUCCESS,
    sections=(_TIME, _STAGES),
    variables=(MODEL_VARIABLE,),
)
