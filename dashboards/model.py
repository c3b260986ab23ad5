"""One model: what is asked of it, where its requests spend their time, what its instances and batches do."""

from __future__ import annotations

from dashboards.layout import MODEL as OF_MODEL
from dashboards.layout import (
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
    increase,
    largest,
    mean_seconds,
    model_rate,
    ratio,
    scraped,
    total,
)
from diagnostics import names
from diagnostics.signals.device import DEVICE_HEADROOM
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.triton import ARRIVAL_RATE, REQUEST_RATE

_VERSION = (names.MODEL, names.VERSION)
_LEGEND = "{{model}} {{version}}"
_SERVER = f"{{{{model}}}} {{{{version}}}} {SERVER_LEGEND}"
_PHASES = {
    "queue": names.QUEUE_DURATION,
    "input": names.INPUT_DURATION,
    "infer": names.INFER_DURATION,
    "output": names.OUTPUT_DURATION,
}


_REQUESTED = PanelSection(
    title="What is asked of it",
    panels=(
        Panel(
            title="Requests answered",
            description="Requests per second, by version.",
            unit=Format.PER_SECOND,
            queries=(PanelQuery(expr=model_rate(names.REQUEST_SUCCESS, *_VERSION), legend=_LEGEND),),
        ),
        Panel(
            title="Arrivals and completions",
            description="Arrivals are completions plus the growth of the backlog. Arrivals that stay above completions "
            "cannot be served at any latency.",
            unit=Format.PER_SECOND,
            queries=(
                PanelQuery(expr=diagnosed_model(exported(ARRIVAL_RATE)), legend=f"arrivals {_SERVER}"),
                PanelQuery(expr=diagnosed_model(exported(REQUEST_RATE)), legend=f"completions {_SERVER}"),
            ),
            runbook="capacity-exceeded",
        ),
        Panel(
            title="Requests that failed, by reason",
            description="REJECTED were refused at a full queue; BACKEND are errors of the model. Since Triton 24.07 "
            "with a reason.",
            unit=Format.COUNT,
            queries=(
                PanelQuery(
                    expr=total(increase(scraped(names.REQUEST_FAILURE, OF_MODEL)), *_VERSION, names.REASON),
                    legend=f"{_LEGEND} {{{{reason}}}}",
                ),
            ),
            kind=PanelKind.STACKED,
            runbook="request-failures",
        ),
        Panel(
            title="Requests waiting",
            description="Gauge of requests in the model's scheduler, the largest of its replicas.",
            unit=Format.COUNT,
            queries=(PanelQuery(expr=largest(scraped(names.PENDING_REQUESTS, OF_MODEL), *_VERSION), legend=_LEGEND),),
        ),
    ),
)
_SPENT = PanelSection(
    title="Where a request spends its time",
    panels=(
        Panel(
            title="Mean time, by phase",
            description="Means over all replicas of the chosen models; the phases add up to the time in the server.",
            unit=Format.SECONDS,
            queries=tuple(PanelQuery(expr=mean_seconds(metric), legend=phase) for phase, metric in _PHASES.items()),
            kind=PanelKind.STACKED,
        ),
        Panel(
            title="Share of the time spent waiting",
            description="Queue ÷ whole time in the server. A symptom, not a cause: diag explain says why they wait.",
            unit=Format.SHARE,
            queries=(
                PanelQuery(
                    expr=ratio(
                        model_rate(names.QUEUE_DURATION, *_VERSION), model_rate(names.REQUEST_DURATION, *_VERSION)
                    ),
                    legend=_LEGEND,
                ),
            ),
            most=1,
        ),
    ),
)
_WORK = PanelSection(
    title="Instances, batches, device",
    panels=(
        Panel(
            title="Items per execution",
            description="Inferences ÷ executions: the mean batch. Of one where batches are allowed and requests wait, "
            "batching does not happen.",
            unit=Format.COUNT,
            queries=(
                PanelQuery(
                    expr=ratio(
                        model_rate(names.INFERENCE_COUNT, *_VERSION), model_rate(names.EXECUTION_COUNT, *_VERSION)
                    ),
                    legend=_LEGEND,
                ),
            ),
            runbook="batch-size-collapse",
        ),
        Panel(
            title="Executions",
            description="Model executions per second, over all replicas.",
            unit=Format.EVENTS_PER_SECOND,
            queries=(PanelQuery(expr=model_rate(names.EXECUTION_COUNT, *_VERSION), legend=_LEGEND),),
        ),
        Panel(
            title="Busy share of instances",
            description="Share of the time in which the model's instances execute, from the batch statistics.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=diagnosed_model(exported(INSTANCE_BUSY_SHARE)), legend=_SERVER),),
            most=1,
            runbook="single-instance-serialization",
        ),
        Panel(
            title="Headroom of its device",
            description="What is left of the GPU, or of the processors, that the model runs on. Without headroom more "
            "instances do not help.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=diagnosed_model(exported(DEVICE_HEADROOM)), legend=_SERVER),),
            most=1,
            runbook="gpu-saturated",
        ),
    ),
)
BOARD = DashboardSpec(
    uid="diag-model",
    title="Triton / Model",
    description="Traffic, phases, batches, instances and device of the chosen models.",
    job_of=names.REQUEST_SUCCESS,
    sections=(_REQUESTED, _SPENT, _WORK),
    variables=(MODEL_VARIABLE,),
)
