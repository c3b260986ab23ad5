"""The service's own metrics as OpenTelemetry has them: read out of the registry that `/metrics` renders.

Source: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/#prometheus-metric-points-to-otlp.
All points are cumulative, as the registry's are.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, cast

from opentelemetry import propagate
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ConsoleMetricExporter,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from diagnostics import __version__
from diagnostics.errors import UsageError
from diagnostics.render.plain import clean
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.own.receipts import MonitoredMetricExporter, MonitoredSpanExporter, Receipt, SdkLogCapture
from diagnostics.service.own.telemetry import GRPC, OtelSignal
from diagnostics.service.own.tracer import OwnSpan, SpanRole, Value
from exporters.sinks.bounded_requests import bound_answers

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
        kept.add(one, one.name.removeprefix(family.name))
    return [kept.point(labels, begun.get(labels, 0), now) for labels, kept in found.items()]


class _Buckets:
    """What the samples of one histogram say."""

    def __init__(self) -> None:
        self._counts: dict[float, float] = {}
        self._sum = 0.0

    def add(self, sample: Sample, suffix: str) -> None:
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


log = logging.getLogger(__name__)
NAME = "triton-diagnostics"
# Seconds in which the last spans and metrics must have been taken when the service ends.
PATIENCE = 5.0
_MOMENT = 0.5
_INTERVAL = 60.0
_LONGEST_REASON = 200
_KINDS = {SpanRole.INTERNAL: SpanKind.INTERNAL, SpanRole.SERVER: SpanKind.SERVER, SpanRole.CLIENT: SpanKind.CLIENT}


def own_exporters(signals: Sequence[OtelSignal], environment: Mapping[str, str], metrics: OwnMetrics) -> OwnExporters:
    """Return what sends the signals; spans are made by `metrics.tracer` from now on.

    Raises:
        UsageError: an exporter does not take what its variables say.
        ModuleNotFoundError: an exporter is not installed.

    """
    interval = _interval(environment)
    captured = SdkLogCapture()
    resource = _resource()
    made = OwnExporters(captured)
    for signal in signals:
        receipt = Receipt(signal, metrics, captured)
        made.receipts.append(receipt)
        exporters = list(_exporters(signal, receipt))
        if signal.name == "traces":
            provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            for exporter in exporters:
                provider.add_span_processor(BatchSpanProcessor(exporter))
            metrics.tracer = _SdkTracer(provider)
            made.parts.append(_SentSpans(provider, exporters))
        else:
            made.parts += [_SentMetrics(exporter, metrics, resource, interval) for exporter in exporters]
    captured.begin()
    return made


class _Ends:
    """Something of the SDK that is ended within a deadline."""

    def start(self) -> None:
        """Begin."""

    def end(self) -> None:
        """Send what is left, and end; may take long."""

    def cut(self) -> None:
        """Send no more, and try nothing again."""


class OwnExporters:
    """A part of the daemon."""

    def __init__(self, captured: SdkLogCapture) -> None:
        self._captured = captured
        self.parts: list[_Ends] = []
        self.receipts: list[Receipt] = []

    def start(self) -> None:
        """Begin to send."""
        for part in self.parts:
            part.start()

    def stop(self) -> None:
        """Send what is left, all signals at once, within `PATIENCE`; to who takes nothing, no longer than a moment."""
        patience = PATIENCE if all(one.takes for one in self.receipts) else _MOMENT
        deadline = time.monotonic() + patience
        threads = [threading.Thread(target=part.end, name="own telemetry", daemon=True) for part in self.parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            log.warning("the last of the own traces and metrics were not taken within %g s", patience)
            for part in self.parts:
                part.cut()
        else:
            self._captured.end()


class _SentSpans(_Ends):
    def __init__(self, provider: TracerProvider, exporters: Sequence[SpanExporter]) -> None:
        self._provider, self._exporters = provider, exporters

    def end(self) -> None:
        self._provider.shutdown()

    def cut(self) -> None:
        for exporter in self._exporters:
            exporter.shutdown()


class _SentMetrics(_Ends):
    """Reads the registry every so often. The SDK's own reader knows its own instruments only."""

    def __init__(self, exporter: MetricExporter, metrics: OwnMetrics, resource: Resource, interval: float) -> None:
        self._exporter, self._metrics, self._resource, self._interval = exporter, metrics, resource, interval
        self._scope = InstrumentationScope(NAME, __version__)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="own metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._exporter.shutdown()

    def cut(self) -> None:
        self._exporter.shutdown()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            self._send()
        self._send()

    def _send(self) -> None:
        self._exporter.export(points_of(self._metrics.registry, self._resource, self._scope, time.time()))


def _exporters(signal: OtelSignal, receipt: Receipt) -> Iterator[Any]:
    spans = signal.name == "traces"
    if signal.protocol:
        way = "grpc" if signal.protocol == GRPC else "http"
        if way == "http":
            bound_answers()
        kind, name = ("trace", "OTLPSpanExporter") if spans else ("metric", "OTLPMetricExporter")
        module = import_module(f"opentelemetry.exporter.otlp.proto.{way}.{kind}_exporter")
        try:
            made = getattr(module, name)()
        except (OSError, ValueError) as error:
            what = f"the exporter of {signal.name} cannot be made: {type(error).__name__}"
            raise UsageError(what, where=signal.variable, hint="look at the OTEL_EXPORTER_OTLP_* variables") from None
        yield MonitoredSpanExporter(made, receipt) if spans else MonitoredMetricExporter(made, receipt)
    if signal.console:
        yield ConsoleSpanExporter() if spans else ConsoleMetricExporter()


class _SdkSpan:
    def __init__(self, span: Span) -> None:
        self._span, self.reported = span, False

    def note(self, name: str, value: Value) -> None:
        self._span.set_attribute(name, value)

    def call(self, name: str) -> None:
        self._span.update_name(name)

    def failed(self, kind: str, reason: str = "") -> None:
        self.reported = True
        self._span.set_attribute("error.type", kind)
        line = " ".join(clean(reason).split())[:_LONGEST_REASON]
        self._span.set_status(Status(StatusCode.ERROR, line or None))


class _SdkTracer:
    on = True

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer(NAME, __version__)

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Mapping[str, Value] = {},
        *,
        kind: SpanRole = SpanRole.INTERNAL,
        caller: Mapping[str, str] = {},
    ) -> Iterator[OwnSpan]:
        context = propagate.extract(dict(caller)) if caller else None
        # Texts of exceptions may hold what is secret: their kind says enough.
        with self._tracer.start_as_current_span(
            name,
            context,
            _KINDS[kind],
            attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            own = _SdkSpan(span)
            try:
                yield own
            except Exception as error:
                if not own.reported:
                    own.failed(type(error).__name__)
                raise


def _resource() -> Resource:
    """Return who sends: what the environment says wins."""
    own = {"service.name": NAME, "service.version": __version__, "service.instance.id": str(uuid.uuid4())}
    stated = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in own.items() if name not in stated})


def _interval(environment: Mapping[str, str]) -> float:
    """Return the seconds between two readings of the metrics."""
    variable = "OTEL_METRIC_EXPORT_INTERVAL"
    text = environment.get(variable, "").strip()
    with suppress(ValueError):
        seconds = float(text) / 1000 if text else _INTERVAL
        if 0 < seconds < math.inf:
            return seconds
    raise UsageError(f"{text!r} is no number of milliseconds", where=variable)
