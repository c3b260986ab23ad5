"""A recording rule, and the PromQL that all of them are made of.

A mean is a sum of rates ÷ a sum of rates, so that replicas count by their traffic, a restart is no traffic, and one
request per hour has the mean of that request. Without traffic there is no value: the divisor is guarded by `> 0`,
because a divisor that is lifted to 1 shrinks what it divides (below one request per second, every latency).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from diagnostics import names
from diagnostics.gen.yaml_text import Tree
from diagnostics.units import Unit

# Covers four scrapes of up to 75 s, the least that a rate needs when one of them fails.
RANGE = "5m"
RANGE_SECONDS = 300
# Microseconds per second of a million requests at once. More is a subtraction below zero, which Triton adds unsigned
# when a backend passes times out of order (core, `infer_stats.cc`).
_IMPLAUSIBLE = "1e12"
_MICRO = "1e6"
# Whose series are replicas of each other; labels that do not exist do no harm.
REPLICAS = ("cluster", "namespace", "job")
SERVER = (*REPLICAS, "instance")
_RECORDED = re.compile(r"\b[a-z_]+:triton_[a-z_]+:[a-z0-9_]+\b", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One recording rule.

    Attributes:
        name: level:metric:operations.
        expr: PromQL.
        unit: of the recorded value.
        meaning: one sentence.
        without_history: what stands for the rule where nothing recorded it; None: `expr` does.

    """

    name: str
    expr: str
    unit: Unit
    meaning: str
    without_history: str | None = None

    def rule(self) -> Tree:
        """Return the recording rule."""
        return {"record": self.name, "expr": self.expr}


def expanded(expr: str, recorded: Mapping[str, Recording]) -> str:
    """Return `expr` with every recorded name replaced by what it stands for, so that it needs no rule to be loaded."""

    def source(at: re.Match[str]) -> str:
        found = recorded[at[0]]
        return f"({found.without_history or expanded(found.expr, recorded)})"

    return _RECORDED.sub(source, expr)


def rate(selector: str, *dropped: str) -> str:
    """Return a counter's increase per second.

    A model's series may be split by GPU, in families of which each has its own split, so `gpu_uuid` is summed away.
    """
    return _without_gpu("sum", f"rate({selector}[{RANGE}])", dropped)


def seconds(*counters: str) -> str:
    """Return the increase per second of counters of microseconds, as seconds per second."""
    parts = (_without_gpu("sum", f"rate({counter}[{RANGE}]) < {_IMPLAUSIBLE}", ()) for counter in counters)
    text = " + ".join(parts)
    return f"({text}) / {_MICRO}" if len(counters) > 1 else f"{text} / {_MICRO}"


def average(selector: str, *dropped: str) -> str:
    """Return a gauge's mean over the range."""
    return _without_gpu("sum", f"avg_over_time({selector}[{RANGE}])", dropped)


def largest(selector: str) -> str:
    """Return the largest value among the series that GPUs split a model's gauge into."""
    return _without_gpu("max", selector, ())


def ratio(part: str, whole: str) -> str:
    """Return part ÷ whole, and nothing where the whole is 0."""
    return f"{part} / ({whole} > 0)"


def by(labels: Iterable[str]) -> str:
    """Return the clause of an aggregation that keeps these labels."""
    return f"by ({', '.join(labels)})"


def _without_gpu(operator: str, expr: str, dropped: Iterable[str]) -> str:
    return f"{operator} without ({', '.join((names.GPU_UUID, *dropped))}) ({expr})"
