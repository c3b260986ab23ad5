"""Collectors and chat services that never end an answer: what a library reads of it is bounded, and in time."""

from __future__ import annotations

import gzip
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData

from exporters.sinks import bounded_requests
from exporters.sinks.apprise_service import AppriseService
from exporters.sinks.bounded_requests import bound_answers
from exporters.sinks.posting import DeliveryFailure
from tests.collect.fake_triton import FakeServer, status

MESSAGE = {"title": "t", "text": "b", "change": "opened", "incident": {"severity": "info"}}


@contextmanager
def endless(part: bytes, pause: float) -> Iterator[FakeServer]:
    """Serve answers that repeat a part until the test is over."""
    over = threading.Event()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not over.wait(pause):
            handler.wfile.write(part)

    with FakeServer({"POST /": answer}).running() as server:
        yield server
        over.set()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_requests, "PATIENCE", 1.0)


def test_an_answer_that_ends_is_taken():
    bound_answers()
    packed = status(200, gzip.compress(b"{}"), **{"Content-Encoding": "gzip"})
    with FakeServer({"POST /": packed}).running() as server:
        assert OTLPMetricExporter(f"{server.url}/", timeout=1).export(MetricsData([])) is MetricExportResult.SUCCESS
        AppriseService(server.url.replace("http:", "json:"), "x").send(MESSAGE)


def test_an_answer_that_was_read_is_told_of_as_before():
    bound_answers()
    packed = status(200, gzip.compress(b"{}"), **{"Content-Encoding": "gzip", "X-Room": "ops"})
    with FakeServer({"GET /": packed}).running() as server, requests.Session() as session:
        streamed = session.get(f"{server.url}/", stream=True)
        raw = streamed.raw
        assert (raw.version, raw.status, raw.headers.getlist("X-Room")) == (11, 200, ["ops"])
        assert streamed.json() == {}


@pytest.mark.parametrize(("part", "pause"), [(b"a" * 2**20, 0.0), (b"a", 0.1)], ids=["at once", "byte by byte"])
def test_an_answer_without_end_is_left(part: bytes, pause: float):
    bound_answers()
    tracemalloc.start()
    begun = time.monotonic()
    with endless(part, pause) as server:
        collector = OTLPMetricExporter(f"{server.url}/", timeout=1)
        assert collector.export(MetricsData([])) is MetricExportResult.FAILURE
        with pytest.raises(DeliveryFailure):
            AppriseService(server.url.replace("http:", "json:"), "x").send(MESSAGE)
    assert time.monotonic() - begun < 6
    assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    tracemalloc.stop()
