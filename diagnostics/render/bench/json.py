"""A load test as JSON, schema version 1: the report as `diag bench` reads it back, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import msgspec

from diagnostics.bench.block import MEASURES, Diagnosis
from diagnostics.bench.crossover import Comparison, Knee, knee
from diagnostics.bench.report import BenchReport, BlockMean, LoadPoint, TargetResult
from diagnostics.render.bench import phrases
from diagnostics.render.json_head import schema_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSummary:
    """A load over its blocks: each measure with its 95 % interval, null where it was not seen; times in seconds."""

    load: float
    measures: Mapping[str, BlockMean | None]
    diagnosis: Diagnosis | None
    diagnosed_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSummary:
    """A target's points and its knee, null of fewer than three loads."""

    name: str
    points: tuple[PointSummary, ...]
    knee: Knee | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What follows from the blocks; `comparison` and `routing` are of two targets."""

    targets: tuple[TargetSummary, ...]
    comparison: Comparison | None
    routing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument(BenchReport):
    """A report with its summary, which is rebuilt whenever the report is read."""

    summary: Summary


def bench_json(report: BenchReport, measure: str = "mean") -> bytes:
    """Return the document; `measure` is what two targets are compared by."""
    found = phrases.compared(report, measure)
    summary = Summary(
        targets=tuple(_target(report, target) for target in report.targets),
        comparison=found,
        routing=phrases.routing(report, found) if found else "",
    )
    reported = {field.name: getattr(report, field.name) for field in fields(report)}
    return msgspec.json.format(msgspec.json.encode(ReportDocument(**reported, summary=summary)), indent=1) + b"\n"


def _target(report: BenchReport, target: TargetResult) -> TargetSummary:
    return TargetSummary(
        name=target.name, points=tuple(map(_point, target.points)), knee=knee(target.points, report.seed)
    )


def _point(point: LoadPoint) -> PointSummary:
    found, count = point.diagnosed()
    measures = {name: point.estimate(name) for name in MEASURES}
    return PointSummary(load=point.load, measures=measures, diagnosis=found, diagnosed_blocks=count)


def bench_schema() -> str:
    """Return the text of the JSON Schema that every document meets."""
    return schema_text("bench")
