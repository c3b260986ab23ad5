"""How many series a rule reads, per server: a rule is one query, however many servers there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnostics import names
from diagnostics.checks.catalogue import RegisteredCheck
from diagnostics.gen.alert import Alert
from diagnostics.gen.pages import table
from diagnostics.gen.recordings import Recording
from diagnostics.gen.rule_groups import RECORDED, SYMPTOMS

# Metrics of Triton's page whose series are an engine's or a GPU's; the others are a model's, or the server's.
_OF_ENGINES = (
    names.ENGINE_REQUESTS,
    names.ENGINE_KV,
    names.ENGINE_INFLIGHT,
    names.ENGINE_MEMORY,
    names.ENGINE_GENERAL,
    names.VLLM_RUNNING,
)
_OF_GPUS = (
    names.GPU_POWER,
    names.GPU_POWER_LIMIT,
    names.GPU_MEMORY_USED,
    names.GPU_MEMORY_TOTAL,
    names.GPU_UTILIZATION,
    names.GPU_ENERGY,
    *names.DCGM_XID,
)
_OF_SERVERS = (
    names.CPU_UTILIZATION,
    names.CPU_MEMORY_USED,
    names.CPU_MEMORY_TOTAL,
    names.PINNED_MEMORY_USED,
    names.PINNED_MEMORY_TOTAL,
)
_OF_MODELS = (
    names.REQUEST_SUCCESS,
    names.REQUEST_FAILURE,
    names.INFERENCE_COUNT,
    names.EXECUTION_COUNT,
    names.REQUEST_DURATION,
    names.QUEUE_DURATION,
    names.INPUT_DURATION,
    names.INFER_DURATION,
    names.OUTPUT_DURATION,
    names.PENDING_REQUESTS,
    names.CACHE_HITS,
    names.CACHE_MISSES,
    names.LOAD_DURATION,
    f"{names.FIRST_RESPONSE}_bucket",
)
# What a query reads: these, what is recorded, what the service exports, and `up`.
_KNOWN = "|".join(sorted(map(re.escape, (*_OF_ENGINES, *_OF_GPUS, *_OF_SERVERS, *_OF_MODELS)), key=len, reverse=True))
_READ = re.compile(rf"\b(?:{_KNOWN}|diag_\w+|up|[a-z_]+:triton_[a-z_]+:[a-z0-9_]+)\b", re.ASCII)
_TEXT = re.compile(r"\"[^\"]*\"")


class Per(StrEnum):
    """What a server has several of."""

    MODEL = "model"
    ENGINE = "engine"
    GPU = "GPU"
    SERVER = "server"


# Series of a family per thing, where it is not one: failures by reason, Triton's five buckets, kinds of blocks.
_SEVERAL = {
    names.REQUEST_FAILURE: 4,
    f"{names.FIRST_RESPONSE}_bucket": 5,
    "job_model:triton_first_response_milliseconds_bucket:rate5m": 5,
    names.ENGINE_KV: 6,
}
# An ordinary server, for a number to compare by.
_EXAMPLE = {Per.MODEL: 20, Per.ENGINE: 1, Per.GPU: 4, Per.SERVER: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCost:
    """Series that one evaluation reads of one server."""

    series: tuple[tuple[Per, int], ...]

    @property
    def example(self) -> int:
        """Series for a server of 20 models, one of them an engine, and 4 GPUs."""
        return sum(_EXAMPLE[per] * count for per, count in self.series)

    def __str__(self) -> str:
        return " + ".join(f"{count} per {per}" for per, count in self.series) or "none"


def cost(expr: str) -> QueryCost:
    """Return what an expression reads; a metric that it names twice is read twice."""
    counts: Counter[Per] = Counter()
    plain = _without_text(expr)
    for found in _READ.finditer(plain):
        # A selector of one engine gauge reads one of the family's series.
        one_value = plain[found.end() :].startswith("{") and found[0] in _OF_ENGINES
        counts[_per(found[0])] += 1 if one_value else _SEVERAL.get(found[0], 1)
    return QueryCost(series=tuple((per, counts[per]) for per in Per if counts[per]))


def total(expressions: Iterable[str]) -> int:
    """Return the series that all expressions read of the example's server."""
    return sum(cost(expr).example for expr in expressions)


def metrics_read(expr: str) -> tuple[str, ...]:
    """Return the names of the metrics that an expression reads, each once, in their order."""
    return tuple(dict.fromkeys(found[0] for found in _READ.finditer(_without_text(expr))))


def _without_text(expr: str) -> str:
    # Label values are no metrics.
    return _TEXT.sub('""', expr)


def _per(metric: str) -> Per:
    if metric in _OF_ENGINES or ":triton_engine_" in metric:
        return Per.ENGINE
    if metric in _OF_GPUS or metric.startswith("instance_gpu:"):
        return Per.GPU
    if metric in _OF_MODELS or metric.startswith(("instance_model_", "job_model:", "diag_model_")):
        return Per.MODEL
    return Per.SERVER


_FOLDERS = """\
- `recording/` and `alerts/` hold rules for Prometheus 2.42 and later; load both folders (`rule_files`).
- `runbooks/` has a page for each alert; `tests/` their unit tests for `promtool test rules`.
- `lint/` has [a page for each rule of `diag lint`](lint/README.md).
- `alertmanager/` has templates for Slack, PagerDuty, Teams and mail (`receivers.yaml` uses them).
  It also has an example of Alertmanager's configuration. It sends a notification per server, and a cause inhibits its
  consequences and symptoms.
- `prometheusrule.yaml` holds the same rules as a resource of the Prometheus operator, `mixin/` as a monitoring mixin;
  `kustomization.yaml` lets `kubectl apply -k` take the resource.

How often each would have fired on your own history: `diag gen rules --replay http://prometheus:9090 --since 7d`."""
_SYMPTOMS = """\
These alerts need only Triton's own metrics. They name a symptom, not its cause, and point to `diag explain`. While an
alert on a cause fires for the same server and model, the example for Alertmanager inhibits them."""
_RECORDED = """\
Each is a sum of rates ÷ a sum of rates. It stays correct below one request per second, through restarts and over
replicas. Without traffic it is absent. `instance_…` keeps all labels except those it sums over. `job_…` covers the
replicas of a job. Never sum over models: the row of an ensemble repeats the compute of its members."""


def overview(checks: Iterable[RegisteredCheck], causes: Mapping[str, Alert], meta: Sequence[Alert]) -> str:
    """Return the page."""
    return "\n\n".join(
        [
            "# Checks, alerts and runbooks",
            _FOLDERS,
            "## Causes",
            "An alert fires once `diag_finding` of its check has been 1 for the time in its rule.",
            _causes(checks, causes),
            "## Symptoms",
            _SYMPTOMS,
            _alerts([one.alert for one in SYMPTOMS.values()]),
            "## Monitoring of the monitoring",
            _alerts(meta),
            "## Recorded metrics",
            _RECORDED,
            _recorded(RECORDED.values()),
            "## What the queries cost",
            f"{_cost([*(one.alert for one in SYMPTOMS.values()), *meta])}\n",
        ]
    )


def _causes(checks: Iterable[RegisteredCheck], causes: Mapping[str, Alert]) -> str:
    return table(
        ("check", "layer", "what it means", "alert", "severity"),
        (
            (_link(found.id), found.check.layer.value, found.title, causes[found.id].name, causes[found.id].severity)
            for found in checks
        ),
    )


def _alerts(alerts: Iterable[Alert]) -> str:
    return table(
        ("alert", "severity", "for", "expression", "runbook", "series read"),
        (
            (
                alert.name,
                alert.severity,
                f"{alert.hold_minutes}m",
                f"`{alert.expr}`",
                _link(alert.id),
                str(cost(alert.expr)),
            )
            for alert in alerts
        ),
    )


def _recorded(recordings: Iterable[Recording]) -> str:
    return table(
        ("metric", "unit", "meaning", "series read"),
        ((f"`{one.name}`", one.unit.value, one.meaning, str(cost(one.expr))) for one in recordings),
    )


def _cost(alerts: Sequence[Alert]) -> str:
    recorded = [one.expr for one in RECORDED.values()]
    expressions = [alert.expr for alert in alerts]
    return (
        "A rule is one query per evaluation, for any number of servers. The tables above show how many series it reads "
        "per server. An example is a server with 20 models, one of them an engine, and 4 GPUs. "
        f"The {len(recorded)} recording rules read {total(recorded):,} series. "
        f"The {len(expressions)} alerts on symptoms and on monitoring read {total(expressions):,}. "
        "They read at most five minutes, except TritonModelQueueGrows (15) and TritonGpuReportsErrors (15). "
        "An alert on a cause reads its findings."
    )


def _link(identifier: str) -> str:
    return f"[{identifier}](runbooks/{identifier}.md)"
