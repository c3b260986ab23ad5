"""Load tests made up for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from diagnostics.bench.block import Diagnosis, LoadBlock
from diagnostics.bench.report import BenchReport, LoadPoint, TargetResult, Workload


def workload(**changed: Any) -> Workload:
    return Workload(**{"digest": "d", "variants": 64, "text": True, "length": 32} | changed)


def block(throughput: float, mean: float, **changed: Any) -> LoadBlock:
    given = {"seconds": 10.0, "requests": 100, "failed": 0, "p50": mean, "p95": mean * 1.5, "p99": mean * 2}
    return LoadBlock(throughput=throughput, mean=mean, **given | changed)


def target(points: Mapping[float, Sequence[LoadBlock]], name: str = "a:8000", **changed: Any) -> TargetResult:
    made = tuple(LoadPoint(load=load, blocks=tuple(blocks)) for load, blocks in points.items())
    given = {"model": "ensemble", "protocol": "http", "workload": workload()}
    return TargetResult(name=name, points=made, **given | changed)


def curve(means: Mapping[float, Sequence[float]], name: str = "a:8000", **changed: Any) -> TargetResult:
    """A closed loop: throughput is clients ÷ latency (Little's law)."""
    return target({n: [block(n / mean, mean) for mean in each] for n, each in means.items()}, name, **changed)


def report(*targets: TargetResult, **changed: Any) -> BenchReport:
    given = {"started": 1.7e9, "loop": "closed", "seconds": 10.0, "warm_up": 2.0, "blocks": 3, "seed": 1}
    return BenchReport(targets=targets, **given | changed)


def diagnosed(cause: str, verdict: str = "degraded") -> Diagnosis:
    step = "fix: a second instance" if cause else ""
    return Diagnosis(verdict=verdict, cause=cause, text=f"{cause or verdict} it is", step=step)
