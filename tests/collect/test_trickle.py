"""A live read ends by its deadline, also of a server that trickles."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from diagnostics.cli import sources
from diagnostics.cli.sources import WindowOptions, explain_servers
from exporters.sources import schedule
from exporters.sources.access import SourceOptions
from tests.collect.fake_triton import Answer, fake_triton


def trickling(first: Answer, began: threading.Event, release: threading.Event) -> Answer:
    """Answer as it should be, and once it began a byte a second, which ends no read that waits for a pause."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if not began.is_set():
            first(handler)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        while not release.wait(1.0):
            handler.wfile.write(b"#")
            handler.wfile.flush()

    return answer


def test_a_server_that_sends_a_byte_a_second_is_left_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "PATIENCE", 2.0)
    began, release, found = threading.Event(), threading.Event(), sources.found

    def found_in_time(*given: Any) -> Any:
        servers = found(*given)
        began.set()
        return servers

    monkeypatch.setattr(sources, "found", found_in_time)
    with fake_triton() as triton:
        assert triton.metrics is not None
        page = "GET /metrics"
        triton.metrics.routes[page] = trickling(triton.metrics.routes[page], began, release)
        start = time.monotonic()
        try:
            stated, _ = explain_servers(
                [f"http://127.0.0.1:{triton.port}"], WindowOptions(), 1.0, SourceOptions(timeout=60.0)
            )
        finally:
            release.set()
        assert time.monotonic() - start < 20
        assert any(f"{sources.PATIENCE:g} s" in spot.why for spot in stated.blind_spots)
