"""The service's own metrics as OpenTelemetry has them: read out of the registry that `/metrics` renders.

Source: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/#prometheus-metric-points-to-otlp.
All points are cumulative, as the registry's are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

_CUMULATIVE = AggregationTemporality.CUMULATIVE
_UNITS = {"seconds": "s", "bytes": "By"}
_Labels = tuple[tuple[str, str], ...]
# The least and largest of a histogram are not kept, and the encoder leaves out what is None.
_UNKNOWN = cast("float", None)


def points_of(registry: CollectorRegistry, resource: Resource, scope: InstrumentationScope, at: float) -> MetricsData:
    """Return all metrics of a registry as of Unix second `at`."""
    now = _nanoseconds(at)
    metrics = [metric for family in registry.collect() for metric in _metrics(family, now)]
    scoped = ScopeMetrics(scope=scope, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scoped], schema_url="")])


def _metrics(family: Family, now: int) -> Iterator[Metric]:
    data: Sum | Gauge | Histogram
    name = family.name
    if family.type == "counter":
        data = Sum(_numbers(family, "_total", now), _CUMULATIVE, is_monotonic=True)
    elif family.type == "histogram":
        data = Histogram(_histograms(family, now), _CUMULATIVE)
    elif family.type == "info":
        name, data = f"{name}_info", Gauge(_numbers(family, "_info", now))
    else:
        data = Gauge(_numbers(family, "", now))
    if data.data_points:
        unit = _UNITS.get(name.rpartition("_")[2], "")
        yield Metric(name=name, description=family.documentation, unit=unit, data=data)


def _numbers(family: Family, suffix: str, now: int) -> list[NumberDataPoint]:
    begun = _begun(family)
    return [
        NumberDataPoint(one.labels, begun.get(_labels(one), 0), now, one.value)
        for one in family.samples
        if one.name == f"{family.name}{suffix}"
    ]


def _histograms(family: Family, now: int) -> list[HistogramDataPoint]:
    begun = _begun(family)
    found: dict[_Labels, _Buckets] = {}
    for one in family.samples:
        kept = found.setdefault(_labels(one), _Buckets())
        kept.take(one, one.name.removeprefix(family.name))
    return [kept.point(labels, begun.get(labels, 0), now) for labels, kept in found.items()]


class _Buckets:
    """What the samples of one histogram say."""

    def __init__(self) -> None:
        self._counts: dict[float, float] = {}
        self._sum = 0.0

    def take(self, sample: Sample, suffix: str) -> None:
        """Take one sample."""
        if suffix == "_bucket":
            self._counts[float(sample.labels["le"])] = sample.value
        elif suffix == "_sum":
            self._sum = sample.value

    def point(self, labels: _Labels, begun: int, now: int) -> HistogramDataPoint:
        """Return them as one point; buckets hold what is theirs alone."""
        bounds = sorted(self._counts)
        totals = [int(self._counts[bound]) for bound in bounds]
        alone = [total - before for before, total in zip([0, *totals], totals, strict=False)]
        return HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=begun,
            time_unix_nano=now,
            count=totals[-1] if totals else 0,
            sum=self._sum,
            bucket_counts=alone,
            explicit_bounds=bounds[:-1],
            min=_UNKNOWN,
            max=_UNKNOWN,
        )


def _begun(family: Family) -> dict[_Labels, int]:
    """Return since when the points count."""
    made: Iterable[Any] = (one for one in family.samples if one.name == f"{family.name}_created")
    return {_labels(one): _nanoseconds(one.value) for one in made}


def _labels(sample: Sample) -> _Labels:
    return tuple((name, value) for name, value in sorted(sample.labels.items()) if name != "le")


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
