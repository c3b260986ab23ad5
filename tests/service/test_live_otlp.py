"""A real Triton sends its traces to a real `diag serve`, which sends its own to a collector."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import urllib3

from diagnostics.demo.environment import find_environment
from diagnostics.demo.server import TritonLauncher
from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind
from diagnostics.wire.trace_export import decode_spans
from tests.collect.fake_triton import fake_triton, free_ports
from tests.demo.repositories import one_model
from tests.service.otel_collector import collecting, stated
from tests.soak.running import serving, until

pytestmark = pytest.mark.live
REQUESTS = 40
SAMPLE = {
    "inputs": [
        {"name": "QUERY", "datatype": "BYTES", "shape": [1, 1], "data": ["why"]},
        {"name": "REQUEST_OUTPUT_LEN", "datatype": "INT32", "shape": [1, 1], "data": [4]},
    ]
}


def test_the_traces_of_a_real_server_arrive_and_are_remembered(tmp_path: Path):
    environment = find_environment()
    if environment is None:
        pytest.skip("no environment of a Triton on this machine: `make demo` makes one")
    port = free_ports(1)
    url = f"opentelemetry,url=http://127.0.0.1:{port}/v1/traces"
    tracing = ("mode=opentelemetry", url, "rate=1", "level=TIMESTAMPS", "opentelemetry,bsp_schedule_delay=200")
    arguments = [f"--trace-config={one}" for one in tracing]
    with TritonLauncher(environment, one_model(tmp_path), args=arguments, stop_timeout=0.0) as server:
        settings = tmp_path / "diag.toml"
        settings.write_text(
            f'[web]\nlisten_address = "127.0.0.1:{port}"\n[history]\ndirectory = "{tmp_path / "data"}"\n'
            f'[collect]\ninterval = "1s"\nwindow = "60s"\n[[server]]\nurl = "{server.http_url}"\n'
        )
        with serving(settings, port) as service:
            until(lambda: service.json("/api/v1/deployments"), 20, "a verdict")  # counters are read before they move
            with urllib3.PoolManager(retries=False, timeout=10) as pool:
                for _ in range(REQUESTS):
                    answer = pool.request("POST", f"{server.http_url}/v2/models/preprocessing/infer", json=SAMPLE)
                    assert answer.status == 200, answer.data
            # A request's own span, the model's and its computation's.
            until(lambda: accepted(service.samples("diag_spans_total")) >= 3 * REQUESTS, 20, "spans")
            name = service.json("/api/v1/deployments")[0]["name"]
            path = f"/api/v1/deployments/{name}/explanation"
            until(lambda: '"traces"' in service.ask(path).decode(), 20, "an explanation from traces")
            assert service.end() == 0
    recorded = [one for file in (tmp_path / "data").rglob("*.tar*") for one in open_capture(file).scrapes()]
    spans = [span for one in recorded if one.kind is BodyKind.TRACES for span in decode_spans(one.body or b"").spans]
    assert any(span.model == "preprocessing" for span in spans)


def accepted(samples: Mapping[str, float]) -> float:
    return samples.get('outcome="accepted"', 0.0)


def test_what_the_service_does_reaches_a_collector_to_the_last_span(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    port = free_ports(1)
    settings = tmp_path / "diag.toml"
    with fake_triton() as triton, collecting() as collector:
        settings.write_text(
            f'[web]\nlisten_address = "127.0.0.1:{port}"\n[history]\ndirectory = "{tmp_path / "data"}"\n'
            f'[collect]\ninterval = "1s"\n[[server]]\nurl = "http://127.0.0.1:{triton.port}"\n'
        )
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        with serving(settings, port) as service:
            until(lambda: service.json("/api/v1/deployments"), 20, "a verdict")
            until(lambda: collector.named("evaluate"), 20, "its span")
            service.ask("/healthz")
            assert service.end() == 0
        scrapes = [
            stated(one.attributes) for one in collector.named("scrape") if stated(one.attributes).get("server.port")
        ]
        assert {(one["server.address"], one["server.port"]) for one in scrapes} == {("127.0.0.1", triton.port)}
        assert collector.named("GET /healthz")
        rounds = collector.newest["diag_rounds"].sum.data_points
        assert sum(one.as_double for one in rounds) >= 1
    assert "Traceback" not in service.log.read_text()
