"""How many series a rule reads, per server: a rule is one query, however many servers there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from diagnostics import names

# What a query reads by name; function names, labels and words of PromQL have none of these prefixes.
_READ = re.compile(r"\b(?:nv_\w+|vllm:\w+|DCGM_\w+|diag_\w+|up|[a-z_]+:triton_[a-z_]+:[a-z0-9_]+)\b", re.ASCII)
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
class Cost:
    """Series that one evaluation reads of one server."""

    series: tuple[tuple[Per, int], ...]

    @property
    def example(self) -> int:
        """Series for a server of 20 models, one of them an engine, and 4 GPUs."""
        return sum(_EXAMPLE[per] * count for per, count in self.series)

    def __str__(self) -> str:
        return " + ".join(f"{count} per {per}" for per, count in self.series) or "none"


def cost(expr: str) -> Cost:
    """Return what an expression reads; a metric that it names twice is read twice."""
    counts: Counter[Per] = Counter()
    plain = _without_text(expr)
    for found in _READ.finditer(plain):
        # A selector of one engine gauge reads one of the family's series.
        one_value = plain[found.end() :].startswith("{") and found[0].startswith("nv_trt_llm_")
        counts[_per(found[0])] += 1 if one_value else _SEVERAL.get(found[0], 1)
    return Cost(series=tuple((per, counts[per]) for per in Per if counts[per]))


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
    if metric.startswith(("nv_trt_llm_", "vllm:")) or ":triton_engine_" in metric:
        return Per.ENGINE
    if metric.startswith(("nv_gpu_", names.GPU_ENERGY, names.DCGM_PREFIX, "instance_gpu:")):
        return Per.GPU
    if metric.startswith(("nv_inference_", "nv_model_", "nv_cache_", "instance_model_", "job_model:", "diag_model_")):
        return Per.MODEL
    return Per.SERVER
