"""How many series a rule reads, per server: a rule is one query, however many servers there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from diagnostics import names

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
