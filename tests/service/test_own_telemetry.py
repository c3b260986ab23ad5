"""What the service tells of itself by OpenTelemetry: to a collector that keeps it, through the real SDK."""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from diagnostics.errors import UsageError
from diagnostics.service.notifications.sender import TracedPoster
from diagnostics.service.own import exporters as own_exporters
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.own.telemetry import OtelSignal, own_telemetry, signals_of, wanted
from diagnostics.service.own.tracer import OFF, SpanRole
from diagnostics.settings.load import load
from exporters.sinks.posting import DeliveryFailure, Poster
from exporters.sources.access import SourceOptions
from tests.service.http.door import door
from tests.service.otel_collector import collecting, stated
from tests.service.parts import count, until
from tests.service.receiving import Watched
from tests.service.test_otlp_grpc import opened

BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
SERVICE = Path(own_exporters.__file__).parents[1]
SECRET = "s3cr3t-value"


@contextmanager
def telling(
    patched: pytest.MonkeyPatch, variables: Mapping[str, str], metrics: OwnMetrics | None = None
) -> Iterator[OwnMetrics]:
    """Send what a service says of itself as the variables have it, until the context is left."""
    for name, value in variables.items():
        patched.setenv(name, value)
    reported = metrics or OwnMetrics()
    (part,) = own_telemetry(load(None, {}, {}).settings, variables, reported)
    part.start()
    try:
        yield reported
    finally:
        part.stop()


def test_spans_and_metrics_arrive_when_the_service_ends(monkeypatch: pytest.MonkeyPatch):
    with collecting() as collector:
        with telling(monkeypatch, {BASE: collector.url}) as metrics:
            with metrics.tracer.span("scrape", {"diag.scrapes": 3}, kind=SpanRole.CLIENT) as span:
                span.note("server.port", 8000)
            metrics.rounds.labels("a", "ok").inc(2)
            metrics.rounds.labels("b", "failed").inc()
            metrics.queue_length.labels("evaluation").set(7)
            for seconds in (0.001, 0.3, 100.0):
                metrics.evaluation_seconds.observe(seconds)
        (one,) = collector.spans
        assert (one.name, one.kind, stated(one.attributes)) == (
            "scrape",
            Span.SPAN_KIND_CLIENT,
            {"diag.scrapes": 3, "server.port": 8000},
        )
        assert collector.resource["service.name"] == "triton-diagnostics"
        assert {"service.version", "service.instance.id", "telemetry.sdk.name"} <= set(collector.resource)

        rounds = collector.newest["diag_rounds"].sum
        points = {tuple(sorted(stated(one.attributes).items())): one.as_double for one in rounds.data_points}
        assert points == {(("outcome", "ok"), ("server", "a")): 2, (("outcome", "failed"), ("server", "b")): 1}
        assert rounds.is_monotonic
        assert all(0 < one.start_time_unix_nano <= one.time_unix_nano for one in rounds.data_points)
        assert collector.newest["diag_queue_length"].gauge.data_points[0].as_double == 7
        assert "version" in stated(collector.newest["diag_build_info"].gauge.data_points[0].attributes)
        took = collector.newest["diag_evaluation_seconds"]
        (histogram,) = took.histogram.data_points
        assert (took.unit, histogram.count, round(histogram.sum, 3)) == ("s", 3, 100.301)
        assert len(histogram.bucket_counts) == len(histogram.explicit_bounds) + 1
        assert (histogram.bucket_counts[0], histogram.bucket_counts[-1], sum(histogram.bucket_counts)) == (1, 1, 3)
        assert not histogram.HasField("min")


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch):
    named = {"OTEL_SERVICE_NAME": "watcher", "OTEL_RESOURCE_ATTRIBUTES": "service.version=7,deployment.environment=x"}
    with collecting() as collector:
        variables = {BASE: collector.url, "OTEL_METRICS_EXPORTER": "none", **named}
        with telling(monkeypatch, variables) as metrics, metrics.tracer.span("evaluate"):
            pass
        found = collector.resource
    assert (found["service.name"], found["service.version"], found["deployment.environment"]) == ("watcher", "7", "x")
    assert collector.metrics == []


def test_metrics_are_sent_every_so_often_and_with_the_headers(monkeypatch: pytest.MonkeyPatch):
    variables = {
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS": f"authorization=Bearer%20{SECRET}",
        "OTEL_METRIC_EXPORT_INTERVAL": "20",
    }
    with collecting() as collector:
        variables["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"] = f"{collector.url}/v1/metrics"
        with telling(monkeypatch, variables) as metrics:
            until(lambda: len(collector.metrics) > 2)
            assert metrics.tracer is OFF
        assert {one["authorization"] for one in collector.headers} == {f"Bearer {SECRET}"}


def test_a_collector_that_takes_nothing_is_one_line_and_one_more_when_it_takes_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    variables = {
        "OTEL_METRIC_EXPORT_INTERVAL": "20",
        "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={SECRET}",
        "OTEL_TRACES_EXPORTER": "none",
    }
    with collecting(status=401) as collector:
        where = f"127.0.0.1:{collector.port}"
        with telling(monkeypatch, {**variables, BASE: f"http://u:{SECRET}@{where}?key={SECRET}"}) as metrics:
            until(lambda: count(metrics, "diag_errors_total", part="own telemetry") >= 3)
            (fault,) = metrics.faults.lasting()
            assert (fault.what, fault.reason) == (f"sending own metrics to {where}", "HTTP 401")
            collector.status = 200
            until(lambda: collector.metrics)
            until(lambda: len(caplog.messages) == 2)
            assert metrics.faults.lasting() == []
    assert caplog.messages == [
        f"own metrics are not taken by {where}, and are lost meanwhile: HTTP 401",
        f"own metrics are taken again by {where}",
    ]
    assert SECRET not in caplog.text


def test_nobody_waits_for_a_collector_that_hangs(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setattr(own_exporters, "PATIENCE", 0.1)
    with collecting(status=503) as collector:
        collector.gate = threading.Event()
        begun = time.monotonic()
        with telling(monkeypatch, {BASE: collector.url, "OTEL_BSP_SCHEDULE_DELAY": "1"}) as metrics:
            for _ in range(5_000):  # more than its queue holds
                with metrics.tracer.span("evaluate"):
                    pass
        assert time.monotonic() - begun < 3
        collector.gate.set()
        until(lambda: not any("BatchSpan" in thread.name for thread in threading.enumerate()))
    assert "not taken within 0.1 s" in caplog.text


def test_grpc_is_spoken_where_it_is_requested(monkeypatch: pytest.MonkeyPatch):
    watched = Watched()
    with opened(watched) as receiver:
        variables = {BASE: f"http://127.0.0.1:{receiver.port}", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        variables["OTEL_METRICS_EXPORTER"] = "none"
        with telling(monkeypatch, variables) as metrics, metrics.tracer.span("evaluate"):
            pass
    (span,) = watched.kept["chat"].spans
    assert (span.service, span.name) == ("triton-diagnostics", "evaluate")


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {BASE: ""},
        {"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"},
        {BASE: "http://collector:4318", "OTEL_SDK_DISABLED": "TRUE"},
        {BASE: "http://collector:4318", "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
    ],
)
def test_nothing_is_made_where_nothing_is_wanted(variables: Mapping[str, str]):
    metrics = OwnMetrics()
    assert own_telemetry(load(None, {}, {}).settings, variables, metrics) == []
    assert metrics.tracer is OFF


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({BASE: "http://c:4318/otel/"}, "http://c:4318/otel/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/x"}, "https://c/x"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "http://localhost:4318/v1/traces"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://localhost:4317"),
        ({BASE: "c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://c:4317"),
    ],
)
def test_endpoints_are_found_as_the_specification_has_it(variables: Mapping[str, str], found: str):
    assert signals_of(variables)[0].endpoint == found


@pytest.mark.parametrize(
    ("variables", "reported"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: there is no exporter 'zipkin'"),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, "/metrics is there in any case"),
        ({BASE: "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "OTEL_EXPORTER_OTLP_PROTOCOL: there is no"),
        ({BASE: "collector"}, f"{BASE}: the endpoint is no URL"),
        ({BASE: "http://c", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "'soon' is no number of seconds"),
        ({BASE: "http://c", "OTEL_EXPORTER_OTLP_HEADERS": SECRET}, "OTEL_EXPORTER_OTLP_HEADERS: a header cannot be"),
        ({BASE: "http://c", "OTEL_METRIC_EXPORT_INTERVAL": "0"}, "'0' is no number of milliseconds"),
    ],
)
def test_what_cannot_be_done_is_reported_in_one_line_without_secrets(variables: Mapping[str, str], reported: str):
    with pytest.raises(UsageError) as refused:
        own_telemetry(load(None, {}, {}).settings, variables, OwnMetrics())
    assert reported in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ({}, {BASE: "http://localhost:9177"}),
        ({}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9177/v1/traces"}),
        ({"web.listen_address": ":9177"}, {BASE: "http://127.0.0.1:9177"}),
        ({"web.external_url": "https://diag.example.org/t"}, {BASE: "https://diag.example.org/t"}),
        ({"otlp.grpc_listen_address": "[::1]:4317"}, {BASE: "[::1]:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}),
    ],
)
def test_it_does_not_send_to_itself(flags: Mapping[str, str], variables: Mapping[str, str]):
    with pytest.raises(UsageError, match="the endpoint is this service itself"):
        wanted(load(None, {}, flags).settings, variables)


def test_another_service_of_the_same_machine_may_be_sent_to():
    settings = load(None, {}, {"web.listen_address": ":9177"}).settings
    for endpoint in ("http://localhost:4318", "http://no-such-host.invalid:9177", "http://192.0.2.1:9177"):
        assert len(wanted(settings, {BASE: endpoint})) == 2


def test_an_exporter_that_is_not_installed_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch):
    variables = {BASE: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None)
    with pytest.raises(UsageError, match=r"pip install .* opentelemetry-exporter-otlp-proto-grpc"):
        own_telemetry(load(None, {}, {}).settings, variables, OwnMetrics())


def test_where_nothing_is_wanted_the_sdk_is_not_imported():
    importing = {
        file.name
        for file in SERVICE.rglob("*.py")
        if re.search(r"(from|import) opentelemetry\b(?!\.proto)", file.read_text())
    }
    assert importing == {"exporters.py", "receipts.py"}
    names = "|".join(name.removesuffix(".py") for name in importing)
    users = {
        file.name
        for file in SERVICE.rglob("*.py")
        if re.search(rf"^(from|import) .*service\.own\.({names})", file.read_text(), re.M)
    }
    assert users == {"exporters.py"}


def test_a_request_that_is_served_is_a_span_by_the_semantic_conventions(monkeypatch: pytest.MonkeyPatch):
    caller = "4bf92f3577b34da6a3ce929d0e0e4736"
    with collecting() as collector:
        variables = {BASE: collector.url, "OTEL_METRICS_EXPORTER": "none"}
        with telling(monkeypatch, variables) as metrics, door(metrics=metrics) as opened:
            opened.ask(
                f"/api/v1/deployments/none/explanation?token={SECRET}",
                Traceparent=f"00-{caller}-00f067aa0ba902b7-01",
            )
            opened.ask("/api/v1/state", Host="evil.example")
            opened.ask("/v1/traces", "POST", body=b"{}", Content_Type="application/json")
            port = opened.server.port
        (span,) = collector.spans
    found = stated(span.attributes)
    assert (span.name, span.kind) == ("GET /api/v1/deployments/{name}/explanation", Span.SPAN_KIND_SERVER)
    assert span.trace_id.hex() == caller
    assert found.pop("client.port") > 0
    assert found == {
        "http.request.method": "GET",
        "http.route": "/api/v1/deployments/{name}/explanation",
        "http.response.status_code": 400,
        "network.protocol.version": "1.1",
        "url.scheme": "http",
        "url.path": "/api/v1/deployments/none/explanation",
        "server.address": "127.0.0.1",
        "server.port": port,
        "client.address": "127.0.0.1",
    }
    assert span.status.code == Status.STATUS_CODE_UNSET


def test_a_delivery_is_a_span_without_what_may_be_secret(monkeypatch: pytest.MonkeyPatch):
    with collecting() as collector, collecting() as receiver:
        with telling(monkeypatch, {BASE: collector.url, "OTEL_METRICS_EXPORTER": "none"}) as metrics:
            poster = TracedPoster(Poster(f"{receiver.url}/v1/traces?{SECRET}", SourceOptions()), metrics)
            assert poster.post(b"") == 200
            receiver.status = 503
            with pytest.raises(DeliveryFailure):
                poster.post(b"")
        taken, refused = collector.named("POST")
    known = {"http.request.method": "POST", "server.address": "127.0.0.1", "server.port": receiver.port}
    assert stated(taken.attributes) == {**known, "http.response.status_code": 200}
    assert stated(refused.attributes) == {**known, "http.response.status_code": 503, "error.type": "503"}
    assert (refused.status.code, refused.status.message) == (Status.STATUS_CODE_ERROR, "HTTP 503")
    assert {one.kind for one in (taken, refused)} == {Span.SPAN_KIND_CLIENT}


def test_an_exception_fails_its_span_and_tells_nothing_but_its_kind(monkeypatch: pytest.MonkeyPatch):
    with collecting() as collector:
        variables = {BASE: collector.url, "OTEL_METRICS_EXPORTER": "none"}
        failing = pytest.raises(ValueError, match=SECRET)
        with failing, telling(monkeypatch, variables) as metrics, metrics.tracer.span("evaluate"):
            raise ValueError(SECRET)
        (span,) = collector.spans
    assert stated(span.attributes) == {"error.type": "ValueError"}
    assert SECRET.encode() not in collector.traces[0].SerializeToString()


def test_a_signal_is_shown_without_what_may_be_secret():
    shown = OtelSignal(name="traces", console=False, endpoint=f"https://u:{SECRET}@c.example/{SECRET}").shown
    assert shown == "c.example:443"
